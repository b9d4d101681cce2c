/* What Python calls the threads of processes (threading.Thread), of those that it has started: others have names of the system alone. Read
 * in a thread of its own, since it is much. Belongs to one thread, but for what the thread itself does. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "sampler/python/find.h"

enum { INFP_THREAD_PYTHON_NAME = 64 }; /* what is longer is cut */

struct infp_thread_names;

/* root_fd is duplicated. 0, or a negative errno. */
int infp_thread_names_new(int root_fd, struct infp_thread_names **ret);
/* Does not wait for the thread. NULL is fine; returns NULL. */
struct infp_thread_names *infp_thread_names_free(struct infp_thread_names *names);

/* The process runs that Python from now on; NULL: no longer. */
void infp_thread_names_know(struct infp_thread_names *names, pid_t pid, const struct infp_python *python);

struct infp_thread_name {
        pid_t pid;
        int32_t tid;
        char name[INFP_THREAD_PYTHON_NAME]; /* "": it has none any more */
};
/* What is new, or NULL. free() it. */
struct infp_thread_name *infp_thread_names_take(struct infp_thread_names *names);
uint64_t infp_thread_names_cpu_ns(struct infp_thread_names *names); /* that the thread has used */
