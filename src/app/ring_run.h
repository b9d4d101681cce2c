/* The records of one program as a temporary run, for `query --pid` without a recorder. The ring file keeps its records; those
 * that a recorder has consumed may be overwritten. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/notice.h"
#include "store/run.h"

struct infp_ring_run {
        struct infp_run *run;
        char *directory; /* private, of this run alone */
};

/* Reads the ring files of process `pid`. -ENOENT: it does not record (the sentence names INFPROF_RING=1); -ESRCH, -EPERM,
 * -EACCES; -EBADMSG: none of its files can be read. A notice reports what is missing. has_backtrace: table `backtrace` has what its threads
 * do now, for which each is stopped for a moment. */
int infp_ring_run_open(pid_t pid, bool has_backtrace, const struct infp_notices *notices, struct infp_ring_run *ret,
                       struct infp_err *err);
/* Removes it. A zeroed struct is fine. */
void infp_ring_run_close(struct infp_ring_run *run);
