/* Looks for the Python of processes in a thread of its own, since files are read for that: a file system that hangs keeps this thread, and
 * nobody else. Belongs to one thread, but for what the thread itself does. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "sampler/fifo.h"
#include "sampler/python/find.h"

struct infp_python_finder;

/* wake_fd: an eventfd that is written when something was found or not found; both descriptors are duplicated. */
int infp_python_finder_new(int root_fd, int wake_fd, struct infp_python_finder **ret);
/* Does not wait for the thread. NULL is fine; returns NULL. */
struct infp_python_finder *infp_python_finder_free(struct infp_python_finder *finder);

/* An answer follows. 0, -ENOSPC: too many are waiting; -ENOMEM, or a negative errno of starting the thread. */
int infp_python_finder_ask(struct infp_python_finder *finder, pid_t pid, uint64_t cookie);

struct infp_python_found {
        struct infp_fifo_item item;
        pid_t pid;
        uint64_t cookie;
        int r; /* of infp_python_find */
        struct infp_err err;
        struct infp_python python; /* when r is 0 */
};
/* An answer, or NULL. free() it. */
struct infp_python_found *infp_python_finder_take(struct infp_python_finder *finder);
uint64_t infp_python_finder_cpu_ns(struct infp_python_finder *finder); /* that the thread has used */
