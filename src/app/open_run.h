/* A run for a verb that reads it, also while it is recorded: then the recorder is asked to write out what it holds. */
#pragma once

#include "base/notice.h"
#include "store/run.h"

/* *ret_lock: a descriptor to close when reading is over, -1 when the run is not live. Waits at most 1.2 s for rows that the
 * recorder still held when it was asked. */
int infp_reader_open(const char *spec, struct infp_run **ret, int *ret_lock, struct infp_err *err);
/* A notice of each part that the readers left out, then closes the run. NULL is fine. */
void infp_reader_close(struct infp_run *run, const struct infp_notices *notices);
