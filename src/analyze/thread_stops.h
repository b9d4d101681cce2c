/* How long `record --blocking` stopped threads: a histogram, and quantiles. */
#pragma once

#include "analyze/stat.h"
#include "query/scan.h"

enum { INFP_STOP_BUCKETS = 12 };

struct infp_thread_stops {
        struct infp_samples times; /* ns */
        uint64_t n[INFP_STOP_BUCKETS];
};

/* Upper bounds of the buckets, in us; the last one has none. */
extern const uint32_t infp_stop_bounds_us[INFP_STOP_BUCKETS - 1];

/* Of the range of `options`; none without such a table. */
int infp_thread_stops_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_thread_stops *ret,
                           struct infp_err *err);
void infp_thread_stops_done(struct infp_thread_stops *stops);
