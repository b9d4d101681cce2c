/* Finds the ring files of processes: in the directories of where.h and in that which INFPROF_RING of their environment names,
 * below /proc/PID/root, so that containers are found from outside. Directories must be the process's owner's and 0700, files
 * the owner's and regular; of a path's last part no link is followed, and no link leads out of the process's root. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "ring/reader.h"

/* Who process `pid` is (as we see it; below proc_fd, /proc of a fixture tree or the machine). -ESRCH: none, or it has ended; -EPERM:
 * another user's, and we are not root. */
int infp_ring_owner_read(int proc_fd, pid_t pid, struct infp_ring_owner *ret, struct infp_err *err);

/* What a process says of where it writes. */
struct infp_ring_wish {
        bool is_wanted;    /* INFPROF_RING is set, and neither empty nor 0 */
        bool is_root_ours; /* it sees the same root directory as we do */
        bool is_named_refused; /* INFPROF_RING names a directory in which it may make no file: none, or one open to others */
        bool is_first_missing; /* a directory that it would use before those that were found does not exist (yet) */
};

/* Opens each directory in which its files may lie, in the order in which it tries them: each(context, fd (its to close), path as
 * the process sees it). Returns their number, or -EACCES: its environment or root may not be read; -ESRCH. */
int infp_ring_directories(int proc_fd, pid_t pid, const struct infp_ring_owner *owner, struct infp_ring_wish *ret,
                          int (*each)(void *context, int fd, const char *path), void *context, struct infp_err *err);

/* <pid as the target sees it>-<start ticks>-<created ns>.ring */
struct infp_ring_name {
        int32_t pid;
        uint64_t start_ticks, created_ns;
};

/* Calls back for each file of that name in the directory, the oldest of a process first, until that returns a negative errno. */
int infp_ring_names(int dir_fd, int (*each)(void *context, const char *name, const struct infp_ring_name *parsed),
                    void *context);

/* Opens one for a reader, or for a consumer. A descriptor, or a negative errno: -EPERM when it is not a regular file of uid. */
int infp_ring_file_open(int dir_fd, const char *name, uint32_t uid, bool writable);

/* Opens every ring file of process `pid`: found(context, file (its to close), owner, name). exec leaves older ones, which come
 * first. Returns their number, or -ENOENT: it has none, with the sentence that names INFPROF_RING=1; -EACCES, -EPERM: who may;
 * -ESRCH. */
int infp_ring_find(int proc_fd, pid_t pid, bool writable,
                   int (*found)(void *context, int file, const struct infp_ring_owner *owner, const char *name),
                   void *context, struct infp_err *err);
