/* What engines' histograms gathered in a part of a run: reports and SQL (engine_quantiles) both look through this.
 *
 * engine_samples holds values where they have changed, cumulative, one series a bucket. Here the buckets of one histogram (engine,
 * family, labels) are put together again at each page; what came between two pages is infp_buckets_between() of them, so that a
 * new start of the engine loses nothing but what came between its last page and its end. Only then are histograms added up: over
 * labels and models, never over engines. Percentiles are not averaged anywhere.
 *
 * Where a window begins. Each page's increase belongs to the page. The first page of the window is compared with the last values
 * before it, so that windows side by side add up to the whole. A histogram that was on the engine's first page had a past that is
 * not ours: its first values are where it begins. One that appears on a later page began since then, from 0 (label sets are born
 * empty), and all of it counts. What a page leaves out for a while goes on from its last value.
 *
 * Histograms of one metric that differ in their edges are added up at the edges that all of them have: fewer, and still exact. When
 * several families of a page stand for one metric (names of two ages of an engine), the one with the most observations counts. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/quantile.h"
#include "query/scan.h"

struct infp_window_metric {
        uint64_t engine;
        char *metric, *family; /* series.metric: "latency_ttft_s"; the family on the page */
        /* Settled; none: the family is a summary or gives only sums. */
        struct infp_bucket *buckets;
        size_t n_buckets;
        double count, sum; /* observations in the window, and what they add up to; NAN: the page does not say */
};

/* Number of observations: of the buckets where there are any. NAN: the page does not say. */
double infp_window_observations(const struct infp_window_metric *metric);

/* infp_quantile_of its buckets, with the bounds that its mean gives where all that was observed lies in one bucket: of gaps that
 * were all 0 the bucket 0..1 alone would make 0.5. */
bool infp_window_quantile(const struct infp_window_metric *metric, double q, struct infp_quantile *ret);

struct infp_engine_window {
        struct infp_window_metric *metrics; /* engines in the order of their first series, then by metric */
        unsigned n;
};

/* Pages with t0 <= t_ns < t1 (t1 0: no end). catalog may be NULL. A run without engines: 0 and no metrics. */
int infp_engine_window_read(struct infp_run *run, uint64_t t0, uint64_t t1, const struct infp_catalog *catalog,
                            struct infp_engine_window *ret, struct infp_err *err);
void infp_engine_window_done(struct infp_engine_window *window);

/* Windows side by side, step_ns long, that begin at multiples of it since 1970 (UTC): each in which a page lies, in order. Together
 * they add up to the whole. One is in memory at a time. run and catalog are borrowed until close. */
struct infp_engine_windows;
int infp_engine_windows_open(struct infp_run *run, uint64_t step_ns, const struct infp_catalog *catalog,
                             struct infp_engine_windows **ret, struct infp_err *err);
/* 1: a window and its begin, 0: the end, or a negative errno. */
int infp_engine_windows_next(struct infp_engine_windows *windows, uint64_t *ret_t_ns, int64_t *ret_unix_ns,
                             struct infp_engine_window *ret, struct infp_err *err);
struct infp_engine_windows *infp_engine_windows_close(struct infp_engine_windows *windows); /* returns NULL */
