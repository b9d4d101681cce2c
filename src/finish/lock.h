/* Who works on the files of a run that has ended. */
#pragma once

#include "finish/finish.h"

enum { INFP_FINISH_PATIENCE_MS = 60000 };

/* Waits until nobody else mends, finishes or symbolizes the run; says so when it takes longer than a second, and whom it waits
 * for. Descriptor to close, with which the lock ends; -EBUSY when patience ends first. */
int infp_finish_lock(const struct infp_run *run, unsigned patience_ms, const struct infp_notices *notices,
                     struct infp_err *err);
