/* What Python calls the threads that it has started (threading.Thread): others have names of the system alone. A thread of its own reads
 * them, since that may take long; the functions here are for one other thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "sampler/fifo.h"
#include "sampler/python/find.h"
#include "sampler/spaces/process.h"

struct infp_thread_names;

/* root_fd is duplicated. 0, or a negative errno: *ret is as it was. */
int infp_thread_names_new(int root_fd, struct infp_thread_names **ret);
/* Does not wait for the thread, which may hang in the memory of a process: it frees everything as it ends. NULL is fine; returns NULL. */
struct infp_thread_names *infp_thread_names_free(struct infp_thread_names *names);

/* The process runs that Python from now on; NULL: no longer. */
void infp_thread_names_know(struct infp_thread_names *names, pid_t pid, const struct infp_python *python);

struct infp_thread_name {
        struct infp_fifo_item item;
        pid_t pid;
        int32_t tid;
        char name[INFP_THREAD_NAME]; /* "": it has none any more */
};
/* What is new, or NULL. free() it. */
struct infp_thread_name *infp_thread_names_take(struct infp_thread_names *names);
uint64_t infp_thread_names_cpu_ns(struct infp_thread_names *names); /* that the thread has used */
