/* Who works on the files of a run that has ended. */
#pragma once

#include "store/run.h"

/* Waits until nobody else mends or finishes the run. Descriptor to close: the lock lasts until then, or until run.json is saved.
 * -ENOENT when the run has lost its run.json: there is nothing to lock. */
int infp_finish_lock(const struct infp_run *run, struct infp_err *err);
