/* The values of named metrics over a range, for one figure. Names are those of the time series: tree_rss_bytes, vCpuTime,
 * container0_cMemoryUsed; and what the columns NAME_sum and NAME_count of a histogram have in common, as latency_ttft_s: the mean
 * of what was observed between two samples. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/labels.h"
#include "analyze/range.h"
#include "base/err.h"
#include "model/schema.h"
#include "query/scan.h"
#include "store/run.h"

enum infp_figure_mode {
        INFP_FIGURE_RATE,  /* counters by second, gauges as they are */
        INFP_FIGURE_DELTA, /* the difference between two samples */
        INFP_FIGURE_RAW,   /* as stored */
};

enum { INFP_FIGURE_SERIES = 16, INFP_FIGURE_POINTS = 1 << 21 };

struct infp_figure_series {
        char *name, *unit, *base, *help;
        enum infp_kind kind;
        enum infp_quality quality;
        bool is_mean; /* of a histogram */
        struct infp_figure_point {
                uint64_t t_ns;
                double value;  /* in the base unit */
                double weight; /* in a mean: seconds of a rate, observations of a mean; else 1 */
                bool is_first; /* after a gap of more than two periods: no line to this point */
        } * points;
        size_t n;
        uint64_t left_out; /* samples after the bound */
};

struct infp_figure {
        enum infp_figure_mode mode;
        uint64_t t0, t1;
        struct infp_figure_series list[INFP_FIGURE_SERIES];
        unsigned n;
        struct infp_labels marks; /* in the range; the caller reads them */
};

struct infp_figure_options {
        const struct infp_range *range;
        const struct infp_catalog *catalog;
        enum infp_figure_mode mode;
        uint64_t gap_ns;
};

/* Appends one metric. -ENOENT: the run has none of that name; -ENODATA: it has no value in the range (err has no text then: the
 * caller knows why it is absent); -E2BIG: more than INFP_FIGURE_SERIES; -EINVAL: a histogram's mean in
 * another mode than INFP_FIGURE_RATE. */
int infp_figure_add(struct infp_figure *figure, struct infp_run *run, const char *name,
                    const struct infp_figure_options *options, struct infp_err *err);
void infp_figure_done(struct infp_figure *figure);

/* Of its points by their weights; NAN without points. */
double infp_figure_mean(const struct infp_figure_series *series);

/* Calls back with each name that can be drawn. */
int infp_figure_names(struct infp_run *run, const struct infp_catalog *catalog,
                      void (*each)(void *context, const char *table, const char *name), void *context,
                      struct infp_err *err);
