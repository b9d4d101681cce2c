/* The time series: one row a tick, the last row of each collector beside it. Rows of a `plain` table: `timestamp` (the tick, Unix
 * ms), then `<metric>` and `<metric>_time` (Unix ms) of every table that is in it, sorted by name. The columns follow from the
 * catalog and from the instances that keyed tables have, never from values: two runs of one version have equal columns. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "store/run.h"

#define INFP_SERIES_NAME "timeseries"

struct infp_series;
/* Ticks with t0 <= t_ns < t1; t1 0: to the end. */
int infp_series_open(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_series **ret, struct infp_err *err);
struct infp_series *infp_series_close(struct infp_series *series); /* NULL is fine; returns NULL */
const struct infp_table *infp_series_table(const struct infp_series *series);
/* 1: batch, borrowed until the next call; 0: end; negative errno. */
int infp_series_next(struct infp_series *series, struct infp_batch *ret, struct infp_err *err);
