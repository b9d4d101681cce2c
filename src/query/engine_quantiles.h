/* Rows of SQL's engine_quantiles: for each engine and metric of a window its percentiles (query/engine_window.h says what a window
 * is, model/quantile.h what low, estimate and high are). */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "query/scan.h"

/* The view over the whole run, and the table function (from_t_ns, to_t_ns; null: no limit) after it. */
#define INFP_QUANTILES_VIEW "engine_quantiles"
#define INFP_QUANTILES_FUNCTION "engine_quantiles_between"
/* The table function (seconds): the same for consecutive windows of that length; t_ns and time are their starts. */
#define INFP_QUANTILES_STEPS "engine_quantiles_by"

struct infp_engine_quantiles;
/* Pages with t0 <= t_ns < t1; t1 0: no end. */
int infp_engine_quantiles_open(struct infp_run *run, uint64_t t0, uint64_t t1, const struct infp_catalog *catalog,
                               struct infp_engine_quantiles **ret, struct infp_err *err);
/* By windows of step_ns: rows of infp_engine_quantiles_by_table. */
int infp_engine_quantiles_open_by(struct infp_run *run, uint64_t step_ns, const struct infp_catalog *catalog,
                                  struct infp_engine_quantiles **ret, struct infp_err *err);
struct infp_engine_quantiles *infp_engine_quantiles_close(struct infp_engine_quantiles *quantiles); /* returns NULL */
/* Plain: their columns are bound without knowing the run. */
extern const struct infp_table infp_engine_quantiles_table, infp_engine_quantiles_by_table;
/* 1: batch, borrowed until the next call; 0: end; a negative errno. */
int infp_engine_quantiles_next(struct infp_engine_quantiles *quantiles, struct infp_batch *ret, struct infp_err *err);
