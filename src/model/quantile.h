/* Quantiles of cumulative histograms (Prometheus shape): the one place that knows buckets. C and SQL call this code. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct infp_bucket {
        double le;    /* upper edge; INFINITY for the last */
        double count; /* cumulative */
};

/* Where the quantile lies: it is somewhere in low..high (the edges of its bucket; high is INFINITY when it falls into the last
 * one: then estimate = low is only a lower bound), estimate by linear interpolation as Prometheus does. */
struct infp_quantile {
        double low, estimate, high;
};

/* What reports and SQL show of a distribution. */
enum { INFP_QUANTILES_N = 4 };
extern const double infp_quantiles_shown[INFP_QUANTILES_N];     /* 0.5, 0.9, 0.95, 0.99 */
extern const char *const infp_quantile_names[INFP_QUANTILES_N]; /* "p50" ... */

/* Sorts by edge; leaves out edges that are not numbers and counts that are not finite; adds up counts of equal edges; makes counts
 * that fall from one edge to the next level (scrapes of several workers are not of one moment). Returns the number of buckets
 * left. */
size_t infp_buckets_settle(struct infp_bucket *buckets, size_t n);

/* buckets: settled. q: 0..1. False: no observation (absent, never 0), q out of range, no +Inf bucket or nothing but it. The first
 * bucket begins at 0 when its edge is positive, else at -INFINITY (estimate = its edge). q = 0 is the low end of the first bucket
 * that holds anything. */
bool infp_quantile_of(const struct infp_bucket *buckets, size_t n, double q, struct infp_quantile *ret);

/* Narrows what infp_quantile_of gave by the mean of all observations, where all lie in one bucket a..b: a share of 1 - q is at
 * least the quantile Q, so mean >= q a + (1 - q) Q, and a share of q is at most Q, so mean <= q Q + (1 - q) b. Else nothing. */
void infp_quantile_within_mean(const struct infp_bucket *buckets, size_t n, double q, double mean,
                               struct infp_quantile *at);

/* What came between two scrapes: after - before edge by edge; when any count fell it was a new start and `after` is taken whole.
 * Both settled. An edge that only `after` has counted before as much as the next lower edge did (exporters that leave out empty
 * buckets); one that only `before` has is left out. n_before may be 0: all of `after` is new. The result is settled, too.
 * ret has room for n_after. Returns its number. */
size_t infp_buckets_between(const struct infp_bucket *before, size_t n_before, const struct infp_bucket *after,
                            size_t n_after, struct infp_bucket *ret);

/* True when a count fell, edges matched as above: the histogram began anew between the two. */
bool infp_buckets_fell(const struct infp_bucket *before, size_t n_before, const struct infp_bucket *after,
                       size_t n_after);
/* The cumulative count at an edge of settled buckets; at one that they do not have, that of the next lower one (0 below the
 * first). *from, 0 at first, walks along while edges are asked for in ascending order. */
double infp_buckets_at(const struct infp_bucket *buckets, size_t n, double le, size_t *from);
