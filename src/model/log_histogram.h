/* A histogram of times whose buckets have the same relative width everywhere: 8 a doubling, each as wide as its neighbours, from
 * 1 us to 4.7 h. A time lies in the bucket with lower edge < time <= upper edge, so that a value is known within an eighth. Its
 * text form is what table `requests` keeps: [[upper edge in seconds, count], ...] of the buckets that are not empty, the edge of
 * the last, open one being null. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/quantile.h"

enum { INFP_LOG_STEPS = 8, INFP_LOG_DOUBLINGS = 34, INFP_LOG_BUCKETS = INFP_LOG_STEPS * INFP_LOG_DOUBLINGS + 2 };

struct infp_log_histogram {
        uint64_t n;
        uint64_t counts[INFP_LOG_BUCKETS]; /* 0: up to 1 us; the last: beyond all edges */
};

unsigned infp_log_bucket(uint64_t ns);
uint64_t infp_log_edge_ns(unsigned bucket); /* upper; UINT64_MAX of the last */

void infp_log_add(struct infp_log_histogram *histogram, uint64_t ns, uint64_t count);
void infp_log_put(const struct infp_log_histogram *histogram, struct infp_str *out);
/* Adds what such a text holds. 0, or -EBADMSG: nothing was added. */
int infp_log_take(struct infp_log_histogram *histogram, const char *text, size_t size);
/* In seconds. False: nothing is in it. */
bool infp_log_quantile(const struct infp_log_histogram *histogram, double q, struct infp_quantile *ret);
