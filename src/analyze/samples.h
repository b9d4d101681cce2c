/* The times of many events while they stream by: mean and deviation of all; quantiles exact as long as there are not too many,
 * else from a histogram whose buckets are an eighth wide. Bounded memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/stat.h"
#include "model/log_histogram.h"

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
/* In seconds: linear between the two closest ranks, as numpy's percentile does (low = high = estimate); coarse: the bucket. False:
 * there are none. Sorts, hence not const. */
bool infp_samples_quantile(struct infp_samples *samples, double q, struct infp_quantile *ret);
