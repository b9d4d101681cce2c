#include "analyze/stat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

/* West's incremental form: a series of equal values has exactly that value as its mean. */
void infp_stat_add_value(struct infp_stat *stat, double value, double weight)
{
        const double distance = value - stat->mean;

        stat->weight += weight;
        stat->mean += distance * (weight / stat->weight);
        stat->m2 += weight * distance * (value - stat->mean);
        if (!stat->n || value < stat->min)
                stat->min = value;
        if (!stat->n || value > stat->max)
                stat->max = value;
        stat->n++;
}

static bool is_integer(const struct infp_column *column)
{
        return column->type == INFP_I64 || column->type == INFP_U64;
}

/* Integers differ exactly also beyond 2^53; only the difference becomes a double. */
static double increase(struct infp_stat *stat, const struct infp_column *c, double value, uint64_t raw)
{
        if (is_integer(c)) {
                const uint64_t more = infp_increase_u64(c->reset, stat->last_u64, raw, 0);

                stat->total_u64 += more;
                return (double) more;
        }
        const double more = infp_increase_f64(c->reset, stat->last, value, 0);

        stat->total_f64 += more;
        return more;
}

static void add_counter(struct infp_stat *stat, const struct infp_column *c, uint64_t t_ns, double counted_s,
                        double value, uint64_t raw)
{
        const double seconds =
                stat->has_last ? infp_counted_seconds(stat->last_t_ns, t_ns, stat->last_counted_s, counted_s) : 0;

        if (seconds > 0)
                infp_stat_add_value(stat, increase(stat, c, value, raw) / seconds, seconds);
        stat->last_u64 = raw;
        stat->last_t_ns = t_ns;
        stat->last_counted_s = counted_s;
}

void infp_stat_add(struct infp_stat *stat, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        const struct infp_column *c = infp_table_column(batch->table, column);
        uint64_t raw = 0;
        double value;

        if (!infp_batch_has(batch, column, row))
                return;
        value = infp_batch_number(batch, column, row);
        if (!isfinite(value))
                return;
        if (c->type == INFP_U64)
                raw = infp_batch_u64(batch, column, row);
        else if (c->type == INFP_I64)
                raw = (uint64_t) infp_batch_i64(batch, column, row);
        if (c->kind == INFP_COUNTER)
                add_counter(stat, c, (uint64_t) infp_batch_i64(batch, 0, row), infp_batch_counted_s(batch, c, row),
                            value, raw);
        else
                infp_stat_add_value(stat, value, 1);
        if (!stat->has_last)
                stat->first = value;
        stat->last = value;
        stat->has_last = true;
}

double infp_stat_mean(const struct infp_stat *stat)
{
        return stat->n ? stat->mean : NAN;
}

double infp_stat_std(const struct infp_stat *stat)
{
        return stat->n ? sqrt(fmax(stat->m2 / stat->weight, 0)) : NAN;
}

double infp_stat_sample_std(const struct infp_stat *stat)
{
        const double n = (double) stat->n;

        return stat->n > 1 ? infp_stat_std(stat) * sqrt(n / (n - 1)) : NAN;
}

double infp_stat_total(const struct infp_stat *stat, const struct infp_column *column)
{
        if (!stat->n)
                return NAN;
        return is_integer(column) ? (double) stat->total_u64 : stat->total_f64;
}

bool infp_stat_is_of_nobody(const struct infp_batch *batch, const struct infp_column *c, int processes, uint32_t row)
{
        return processes >= 0 && c->kind == INFP_GAUGE && !strncmp(c->name, "tree_", 5) && !strstr(c->name, "_peak_") &&
               infp_batch_has(batch, (unsigned) processes, row) &&
               infp_batch_number(batch, (unsigned) processes, row) == 0;
}

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

void infp_samples_add(struct infp_samples *samples, uint64_t ns)
{
        infp_stat_add_value(&samples->stat, (double) ns, 1);
        if (!samples->is_coarse &&
            (samples->n >= INFP_SAMPLES_MAX || !INFP_MAKE_ROOM(samples->values, samples->n, samples->cap, 256)))
                make_coarse(samples);
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
