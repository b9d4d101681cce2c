/* Opens a run for reading. If it is still recorded, the recorder is asked to write out its rows. */
#pragma once

#include "base/notice.h"
#include "store/run.h"

/* *ret_lock: a descriptor to close after reading, -1 if the run is not live. Waits at most 1.2 s for the recorder's rows. */
int infp_reader_open(const char *spec, struct infp_run **ret, int *ret_lock, struct infp_err *err);
/* Gives a notice of each part that readers left out, then closes the run. NULL is fine. */
void infp_reader_close(struct infp_run *run, const struct infp_notices *notices);
