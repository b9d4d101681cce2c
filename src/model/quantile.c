#include "model/quantile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

const double infp_quantiles_shown[INFP_QUANTILES_N] = { 0.5, 0.9, 0.95, 0.99 };
const char *const infp_quantile_names[INFP_QUANTILES_N] = { "p50", "p90", "p95", "p99" };

static int by_edge(const void *a, const void *b)
{
        const struct infp_bucket *x = a, *y = b;

        return (x->le > y->le) - (x->le < y->le);
}

static void sort(struct infp_bucket *buckets, size_t n)
{
        for (size_t i = 1; i < n; i++) {
                if (buckets[i].le < buckets[i - 1].le) {
                        infp_sort(buckets, n, sizeof(*buckets), by_edge);
                        return;
                }
        }
}

/* Counts that fall from one edge to the next are raised to the one before. */
static void level(struct infp_bucket *buckets, size_t n)
{
        for (size_t i = 0; i < n; i++)
                buckets[i].count = fmax(buckets[i].count, i ? buckets[i - 1].count : 0);
}

size_t infp_buckets_settle(struct infp_bucket *buckets, size_t n)
{
        size_t given = 0, left = 0;

        for (size_t i = 0; i < n; i++)
                if (!isnan(buckets[i].le) && isfinite(buckets[i].count))
                        buckets[given++] = buckets[i];
        sort(buckets, given);
        for (size_t i = 0; i < given; i++) {
                if (left && buckets[left - 1].le == buckets[i].le)
                        buckets[left - 1].count += buckets[i].count;
                else
                        buckets[left++] = buckets[i];
        }
        level(buckets, left);
        return left;
}

/* The first bucket that holds the rank; one with nothing in it holds none (rank 0). */
static size_t find_rank(const struct infp_bucket *buckets, size_t n, double rank)
{
        size_t low = 0, high = n - 1;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (buckets[middle].count >= rank && buckets[middle].count > 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

static bool is_histogram(const struct infp_bucket *buckets, size_t n)
{
        return n >= 2 && isinf(buckets[n - 1].le) && buckets[n - 1].le > 0 && buckets[n - 1].count > 0;
}

bool infp_quantile_of(const struct infp_bucket *buckets, size_t n, double q, struct infp_quantile *ret)
{
        double rank, below, inside;
        size_t i;

        if (!(q >= 0 && q <= 1) || !is_histogram(buckets, n))
                return false;
        rank = q * buckets[n - 1].count;
        i = find_rank(buckets, n, rank);
        below = i ? buckets[i - 1].count : 0;
        inside = buckets[i].count - below;
        ret->high = buckets[i].le;
        if (i)
                ret->low = buckets[i - 1].le;
        else
                ret->low = buckets[0].le > 0 ? 0 : -INFINITY;
        if (i == n - 1)
                ret->estimate = ret->low;
        else if (isinf(ret->low))
                ret->estimate = ret->high;
        else
                ret->estimate = ret->low + (ret->high - ret->low) * ((rank - below) / inside);
        return true;
}

void infp_quantile_within_mean(const struct infp_bucket *buckets, size_t n, double q, double mean,
                               struct infp_quantile *at)
{
        const double a = at->low, b = at->high;
        size_t i = 0;

        while (i < n && buckets[i].le < b)
                i++;
        if (!isfinite(a) || !isfinite(b) || i == n || buckets[i].count < buckets[n - 1].count ||
            (i && buckets[i - 1].count > 0) || !(mean >= a && mean <= b))
                return;
        if (q > 0)
                at->low = fmax(a, (mean - (1 - q) * b) / q);
        if (q < 1)
                at->high = fmin(b, (mean - q * a) / (1 - q));
        at->estimate = fmin(fmax(at->estimate, at->low), at->high);
}

double infp_buckets_at(const struct infp_bucket *buckets, size_t n, double le, size_t *from)
{
        while (*from < n && buckets[*from].le <= le)
                ++*from;
        return *from ? buckets[*from - 1].count : 0;
}

bool infp_buckets_fell(const struct infp_bucket *before, size_t n_before, const struct infp_bucket *after,
                       size_t n_after)
{
        size_t from = 0;

        for (size_t i = 0; i < n_after; i++)
                if (after[i].count < infp_buckets_at(before, n_before, after[i].le, &from))
                        return true;
        return false;
}

size_t infp_buckets_between(const struct infp_bucket *before, size_t n_before, const struct infp_bucket *after,
                            size_t n_after, struct infp_bucket *ret)
{
        bool anew = infp_buckets_fell(before, n_before, after, n_after);
        size_t from = 0;

        for (size_t i = 0; i < n_after; i++) {
                ret[i].le = after[i].le;
                ret[i].count = after[i].count - (anew ? 0 : infp_buckets_at(before, n_before, after[i].le, &from));
        }
        level(ret, n_after);
        return n_after;
}
