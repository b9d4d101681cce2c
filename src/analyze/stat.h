/* Statistics of a column while its rows stream by; constant memory.
 *
 * A gauge: every sample counts alike (SQL's avg and stddev_pop). A counter: the rate of each interval between two samples,
 * weighted by the interval's length, so that the mean is the increase divided by the time: the time that was counted, where the
 * counter has gaps. Standard deviations are those of the population. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/batch.h"
#include "model/log_histogram.h"
#include "model/rate.h"

struct infp_stat {
        uint64_t n;      /* samples of a gauge, intervals of a counter */
        double weight;   /* samples, or seconds */
        double mean, m2; /* m2: weighted sum of squared distances from the mean */
        double min, max;
        double first, last; /* oldest and newest value as stored */
        bool has_last;

        uint64_t last_t_ns, last_u64;
        double last_counted_s;
        uint64_t total_u64; /* increase of an integer counter, exact */
        double total_f64;   /* of a float counter */
};

/* Takes row `row` of `column`; an absent value is skipped. */
void infp_stat_add(struct infp_stat *stat, const struct infp_batch *batch, unsigned column, uint32_t row);
void infp_stat_add_value(struct infp_stat *stat, double value, double weight);

double infp_stat_mean(const struct infp_stat *stat); /* NAN without samples; likewise the next two */
double infp_stat_std(const struct infp_stat *stat);
double infp_stat_sample_std(const struct infp_stat *stat); /* with n - 1, as pandas has it; NAN below two samples */
double infp_stat_total(const struct infp_stat *stat,
                       const struct infp_column *column); /* of a counter; NAN before two samples */

/* A tree without a process has no memory and no threads; older versions recorded 0 for them. Counters and peaks still hold.
 * processes: the column tree_processes, -1 without it. */
bool infp_stat_is_of_nobody(const struct infp_batch *batch, const struct infp_column *column, int processes,
                            uint32_t row);

/* The times of many events while they stream by: mean and deviation of all; quantiles exact as long as there are not too many,
 * else from a histogram whose buckets are an eighth wide. Bounded memory. */
enum { INFP_SAMPLES_MAX = 1 << 18 };

struct infp_samples {
        struct infp_stat stat; /* ns */
        uint64_t *values;      /* NULL when coarse */
        size_t n, cap;
        bool is_sorted, is_coarse; /* coarse: too many, or no memory */
        struct infp_log_histogram histogram;
};

void infp_samples_add(struct infp_samples *samples, uint64_t ns);
void infp_samples_done(struct infp_samples *samples);
/* In seconds, linear between the two closest ranks as numpy's percentile (low = high = estimate); coarse: by the bucket.
 * False without values. Sorts, hence not const. */
bool infp_samples_quantile(struct infp_samples *samples, double q, struct infp_quantile *ret);
