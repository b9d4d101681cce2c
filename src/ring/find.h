/* Finds the ring files of processes: in the directories of where.h and in that which INFPROF_RING of their environment names,
 * below /proc/PID/root, so that containers are found from outside. Directories must be the process's owner's and 0700, files
 * the owner's and regular, nothing is followed. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "ring/reader.h"

/* Opens every ring file of process `pid` (as we see it; below proc_fd, /proc of a fixture tree or the machine) that was not given
 * before: found(context, file (its to close), owner, name). exec leaves older ones, which come first. Returns their number, or
 * -ENOENT: it has none, with the sentence that names INFPROF_RING=1; -EACCES, -EPERM: who may; -ESRCH. */
int infp_ring_find(int proc_fd, pid_t pid, bool writable,
                   int (*found)(void *context, int file, const struct infp_ring_owner *owner, const char *name),
                   void *context, struct infp_err *err);
