/* The records of one program as a run of its own: what `query --pid` asks, without a recorder. Nothing is taken out of the ring
 * file; what a recorder has taken before is not in it any more where the program has written over it. */
#pragma once

#include <sys/types.h>

#include "base/notice.h"
#include "store/run.h"

struct infp_ring_run {
        struct infp_run *run;
        char *directory; /* private, of this run alone */
};

/* Reads the ring files of process `pid`. -ENOENT: it does not record, with the sentence that names INFPROF_RING=1; -ESRCH,
 * -EPERM, -EACCES; -EBADMSG: none of its files can be read. A notice says what is missing in them. */
int infp_ring_run_open(pid_t pid, const struct infp_notices *notices, struct infp_ring_run *ret, struct infp_err *err);
/* Removes it. Zeros are fine. */
void infp_ring_run_close(struct infp_ring_run *run);
