/* A run of `load` alone: table requests and the clock, written through the recorder and the store as every run is. */
#pragma once

#include "base/err.h"
#include "base/notice.h"
#include "model/row.h"
#include "record/signals.h"

struct infp_load_run;

int infp_load_run_open(const char *output, struct infp_load_run **ret, struct infp_err *err);
const char *infp_load_run_uuid(const struct infp_load_run *run);
const char *infp_load_run_output(const struct infp_load_run *run);
/* From one thread alone; also without rows, now and then: it looks at its clocks. 0, or why they are not on disk. */
int infp_load_run_put(struct infp_load_run *run, struct infp_row *const *rows, size_t n, struct infp_err *err);
/* Ends it, and finishes it where signals are given. NULL is fine. */
int infp_load_run_close(struct infp_load_run *run, struct infp_signals *signals, const struct infp_notices *notices,
                        struct infp_err *err);
