/* Who works on the files of a run that has ended. */
#pragma once

#include "finish/finish.h"

enum { INFP_FINISH_PATIENCE_MS = 60000 };

/* Waits until no other process mends, finishes or symbolizes the run; after a second a notice names the process. Returns a
 * descriptor; closing it releases the lock. -EBUSY on timeout. */
int infp_finish_lock(const struct infp_run *run, unsigned patience_ms, const struct infp_notices *notices,
                     struct infp_err *err);
