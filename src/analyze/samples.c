#include "analyze/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

void infp_samples_done(struct infp_samples *samples)
{
        free(samples->values);
        *samples = (struct infp_samples){ 0 };
}

static void make_coarse(struct infp_samples *samples)
{
        for (size_t i = 0; i < samples->n; i++)
                infp_log_add(&samples->histogram, samples->values[i], 1);
        free(samples->values);
        samples->values = NULL;
        samples->n = samples->cap = 0;
        samples->is_coarse = true;
}

static void grow(struct infp_samples *samples)
{
        const size_t cap = samples->cap ? 2 * samples->cap : 256;
        uint64_t *more = cap <= INFP_SAMPLES_MAX ? reallocarray(samples->values, cap, sizeof(*more)) : NULL;

        if (!more) {
                make_coarse(samples);
                return;
        }
        samples->values = more;
        samples->cap = cap;
}

void infp_samples_add(struct infp_samples *samples, uint64_t ns)
{
        infp_stat_add_value(&samples->stat, (double) ns, 1);
        if (!samples->is_coarse && samples->n == samples->cap)
                grow(samples);
        if (samples->is_coarse) {
                infp_log_add(&samples->histogram, ns, 1);
                return;
        }
        samples->values[samples->n++] = ns;
        samples->is_sorted = false;
}

static int compare(const void *a, const void *b)
{
        const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

bool infp_samples_quantile(struct infp_samples *samples, double q, struct infp_quantile *ret)
{
        double rank, below, v;
        size_t i;

        if (samples->is_coarse)
                return infp_log_quantile(&samples->histogram, q, ret);
        if (!samples->n || !(q >= 0 && q <= 1))
                return false;
        if (!samples->is_sorted)
                infp_sort(samples->values, samples->n, sizeof(*samples->values), compare);
        samples->is_sorted = true;
        rank = q * (double) (samples->n - 1);
        below = floor(rank);
        i = (size_t) below;
        v = (double) samples->values[i];
        if (i + 1 < samples->n)
                v += (rank - below) * ((double) samples->values[i + 1] - v);
        *ret = (struct infp_quantile){ v / 1e9, v / 1e9, v / 1e9 };
        return true;
}
