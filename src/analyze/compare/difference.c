#include "analyze/compare/difference.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compare/student.h"
#include "analyze/stat.h"
#include "base/mem.h"
#include "base/sort.h"

/* Resamples cost time in proportion to the values: from so many on there are fewer, down to the least. */
enum { MOST_WORK = 20000000, LEAST_RESAMPLES = 100 };

const char *infp_verdict_name(enum infp_verdict verdict)
{
        static const char *const names[] = {
                [INFP_VERDICT_UNKNOWN] = "not known", [INFP_VERDICT_NONE] = "no evidence",
                [INFP_VERDICT_BETTER] = "better",     [INFP_VERDICT_WORSE] = "worse",
                [INFP_VERDICT_MORE] = "more",         [INFP_VERDICT_LESS] = "less",
        };

        return names[verdict];
}

static int by_value(const void *a, const void *b)
{
        const struct infp_compare_value *x = a, *y = b;

        return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                    : (x->block > y->block) - (x->block < y->block);
}

const char *infp_better_name(enum infp_better better)
{
        return better == INFP_BETTER_LESS ? "less" : better == INFP_BETTER_MORE ? "more" : NULL;
}

void infp_compare_values_settle(struct infp_compare_values *values)
{
        infp_sort(values->list, values->n, sizeof(*values->list), by_value);
}

static unsigned times_of(const unsigned *times, uint32_t block)
{
        return times ? times[block] : 1;
}

/* As numpy's percentile of all values, each taken as often as its block. */
static double quantile_of(const struct infp_compare_series *s, const unsigned *times)
{
        const struct infp_compare_value *list = s->values->list;
        uint64_t n = 0, below = 0;
        double rank, at = NAN;

        for (size_t i = 0; i < s->values->n; i++)
                n += times_of(times, list[i].block);
        rank = s->q * (double) (n - !!n);
        for (size_t i = 0; i < s->values->n; i++) {
                const unsigned more = times_of(times, list[i].block);

                if (!more)
                        continue;
                if (!isnan(at)) /* the next rank */
                        return at + (rank - floor(rank)) * (list[i].value - at);
                if (floor(rank) + 1 < (double) (below + more))
                        return list[i].value;
                if (floor(rank) < (double) (below + more))
                        at = list[i].value;
                below += more;
        }
        return at;
}

static double bucket_quantile_of(const struct infp_compare_series *s, const unsigned *times)
{
        struct infp_log_histogram all = { 0 };
        struct infp_quantile at;

        for (unsigned i = 0; i < s->n; i++)
                for (unsigned k = 0; times_of(times, i) && k < INFP_LOG_BUCKETS; k++) {
                        const uint64_t more = times_of(times, i) * s->histograms[i].counts[k];

                        all.counts[k] += more;
                        all.n += more;
                }
        return infp_log_quantile(&all, s->q, &at) ? at.estimate : NAN;
}

double infp_compare_value(const struct infp_compare_series *s, const unsigned *times)
{
        double sum = 0, weight = 0;

        switch (s->kind) {
        case INFP_COMPARE_TOTAL:
                return s->sum[0];
        case INFP_COMPARE_QUANTILE:
                return quantile_of(s, times);
        case INFP_COMPARE_HISTOGRAM:
                return bucket_quantile_of(s, times);
        case INFP_COMPARE_RATIO:
                break;
        }
        for (unsigned i = 0; i < s->n; i++) {
                sum += times_of(times, i) * s->sum[i];
                weight += times_of(times, i) * s->weight[i];
        }
        return weight > 0 ? sum / weight : NAN;
}

/* On the scale of the test; NAN for what has no logarithm. */
static double scaled(double value, bool is_points)
{
        if (is_points)
                return value;
        return value > 0 ? log(value) : NAN;
}

static double unscaled(double difference, bool is_points)
{
        return is_points ? difference : expm1(difference);
}

/* SplitMix64 (public domain, Sebastiano Vigna). */
static uint64_t random_next(uint64_t *state)
{
        uint64_t z = *state += 0x9e3779b97f4a7c15;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
}

/* How much each block has to say. */
static void weigh(const struct infp_compare_series *s, double *ret)
{
        for (unsigned i = 0; i < s->n; i++)
                ret[i] = s->kind == INFP_COMPARE_RATIO       ? s->weight[i]
                         : s->kind == INFP_COMPARE_HISTOGRAM ? (double) s->histograms[i].n
                                                             : 0;
        for (size_t i = 0; s->kind == INFP_COMPARE_QUANTILE && i < s->values->n; i++)
                ret[s->values->list[i].block]++;
}

static unsigned blocks_of(const struct infp_compare_series *s)
{
        double weights[INFP_COMPARE_BLOCKS];
        unsigned n = 0;

        if (s->kind == INFP_COMPARE_RATIO || s->kind == INFP_COMPARE_TOTAL)
                return s->n;
        weigh(s, weights);
        for (unsigned i = 0; i < s->n; i++)
                n += weights[i] > 0;
        return n;
}

/* Of a value: its standard error, and how many blocks it rests on. */
struct error {
        double error, n;
};

/* Blocks of neighbours, from anywhere on the circle, until there are as many pieces as the run has. */
static void draw(uint64_t *state, unsigned n, unsigned length, unsigned *times)
{
        for (unsigned drawn = 0; drawn < n;) {
                const unsigned begin = (unsigned) (random_next(state) % n);

                for (unsigned i = 0; i < length && drawn < n; i++, drawn++)
                        times[(begin + i) % n]++;
        }
}

static struct error bootstrap_error(const struct infp_compare_series *s, bool is_points, uint64_t seed)
{
        const size_t work = s->kind == INFP_COMPARE_QUANTILE ? s->values->n : 1;
        const unsigned fewest = (unsigned) (MOST_WORK / (work + 1)),
                       resamples = fewest >= INFP_COMPARE_RESAMPLES ? INFP_COMPARE_RESAMPLES
                                   : fewest > LEAST_RESAMPLES       ? fewest
                                                                    : LEAST_RESAMPLES;
        const unsigned length = s->n >= 2 * INFP_COMPARE_NEIGHBOURS ? s->n / INFP_COMPARE_NEIGHBOURS : 1;
        const double n = (double) blocks_of(s) / length;
        struct infp_stat stat = { 0 };
        uint64_t state = seed;

        for (unsigned k = 0; k < resamples; k++) {
                unsigned times[INFP_COMPARE_BLOCKS] = { 0 };
                double v;

                draw(&state, s->n, length, times);
                v = scaled(infp_compare_value(s, times), is_points);
                if (isfinite(v))
                        infp_stat_add_value(&stat, v, 1);
        }
        /* Of a number that many resamples do not have, the error is not known. */
        if (10 * stat.n < 9 * (uint64_t) resamples || n <= 1)
                return (struct error){ NAN, n };
        return (struct error){ infp_stat_sample_std(&stat) * sqrt(n / (n - 1)), n };
}

/* The largest difference between two quarters of what the run has, in the order of time: on a busy machine a quarter of the time may
 * hold a few samples alone. 0 where fewer than two have a value. */
static double quarters_differ(const struct infp_compare_series *s, bool is_points)
{
        double weights[INFP_COMPARE_BLOCKS], all = 0;
        struct infp_stat stat = { 0 };

        weigh(s, weights);
        for (unsigned i = 0; i < s->n; i++)
                all += weights[i];
        for (unsigned quarter = 0; quarter < INFP_COMPARE_QUARTERS; quarter++) {
                unsigned times[INFP_COMPARE_BLOCKS] = { 0 };
                double before = 0, v;

                for (unsigned i = 0; i < s->n; i++) {
                        times[i] = floor((before + weights[i] / 2) / all * INFP_COMPARE_QUARTERS) == quarter;
                        before += weights[i];
                }
                v = scaled(infp_compare_value(s, times), is_points);
                if (isfinite(v))
                        infp_stat_add_value(&stat, v, 1);
        }
        return stat.n > 1 ? stat.max - stat.min : 0;
}

/* By Welch and Satterthwaite; without any error all degrees count. */
static double degrees(double a, double n_a, double b, double n_b)
{
        const double va = a * a, vb = b * b, all = va + vb;

        if (!(all > 0))
                return n_a + n_b - 2;
        return all * all / (va * va / (n_a - 1) + vb * vb / (n_b - 1));
}

static void test(struct infp_difference *d)
{
        const double t = d->error > 0 ? d->estimate / d->error : d->estimate == 0 ? 0 : INFINITY;
        const double wide = infp_student_quantile(1 - INFP_COMPARE_ALPHA / 2, d->df) * d->error;

        if (isnan(d->error) || isnan(d->estimate))
                return;
        d->p = infp_student_p(t, d->df);
        d->low = unscaled(d->estimate - wide, d->is_points);
        d->high = unscaled(d->estimate + wide, d->is_points);
}

static const char *why_no_test(const struct infp_compare_series *a, const struct infp_compare_series *b,
                               const struct infp_difference *d)
{
        const unsigned fewest = d->n_before < d->n_after ? d->n_before : d->n_after;
        const size_t n = a->kind != INFP_COMPARE_QUANTILE ? 0
                         : a->values->n < b->values->n    ? a->values->n
                                                          : b->values->n;

        if (a->kind == INFP_COMPARE_TOTAL)
                return "one run a side says nothing of its noise; several runs a side do";
        if (isnan(d->estimate))
                return "it is 0 in one of them, so that there is no ratio";
        if (fewest < INFP_COMPARE_LEAST_BLOCKS)
                return "too short: fewer than 8 blocks of time have values";
        if (a->kind == INFP_COMPARE_QUANTILE && (double) n * (1 - a->q) < 5)
                return "too few requests: fewer than 5 lie beyond the percentile";
        return NULL;
}

static void compare_blocks(const struct infp_compare_series *a, const struct infp_compare_series *b,
                           const struct infp_compare_how *how, struct infp_difference *d)
{
        struct error error_a, error_b;

        d->is_of_blocks = true;
        d->before = infp_compare_value(a, NULL);
        d->after = infp_compare_value(b, NULL);
        d->n_before = blocks_of(a);
        d->n_after = blocks_of(b);
        d->estimate = scaled(d->after, how->is_points) - scaled(d->before, how->is_points);
        if (!isnan(d->estimate))
                d->difference = unscaled(d->estimate, how->is_points);
        d->why = why_no_test(a, b, d);
        if (d->why)
                return;
        error_a = bootstrap_error(a, how->is_points, how->seed);
        error_b = bootstrap_error(b, how->is_points, ~how->seed);
        d->error = hypot(error_a.error, error_b.error);
        if (isnan(d->error)) {
                d->why = "too few blocks of time have values";
                return;
        }
        d->df = degrees(error_a.error, error_a.n, error_b.error, error_b.n);
        d->floor = fmax(fmax(quarters_differ(a, how->is_points), quarters_differ(b, how->is_points)),
                        how->is_points ? how->least : log1p(how->least));
        d->noise = unscaled(d->floor, how->is_points);
        test(d);
}

static struct infp_stat values_of(const struct infp_compare_series *const *list, unsigned n, bool is_points)
{
        struct infp_stat stat = { 0 };

        for (unsigned i = 0; i < n; i++) {
                const double v = list[i] ? scaled(infp_compare_value(list[i], NULL), is_points) : NAN;

                if (isfinite(v))
                        infp_stat_add_value(&stat, v, 1);
        }
        return stat;
}

static void compare_runs(const struct infp_compare_series *const *before, unsigned n_before,
                         const struct infp_compare_series *const *after, unsigned n_after,
                         const struct infp_compare_how *how, struct infp_difference *d)
{
        const struct infp_stat a = values_of(before, n_before, how->is_points),
                               b = values_of(after, n_after, how->is_points);
        const double std_a = infp_stat_sample_std(&a), std_b = infp_stat_sample_std(&b);
        const double error_a = std_a / sqrt((double) a.n), error_b = std_b / sqrt((double) b.n);

        d->n_before = (unsigned) a.n;
        d->n_after = (unsigned) b.n;
        d->before = how->is_points ? infp_stat_mean(&a) : exp(infp_stat_mean(&a));
        d->after = how->is_points ? infp_stat_mean(&b) : exp(infp_stat_mean(&b));
        d->estimate = infp_stat_mean(&b) - infp_stat_mean(&a);
        if (!isnan(d->estimate))
                d->difference = unscaled(d->estimate, how->is_points);
        if (a.n < 2 || b.n < 2) {
                d->why = "fewer than two runs of a side have a value that is not 0";
                return;
        }
        d->error = hypot(error_a, error_b);
        d->df = degrees(error_a, d->n_before, error_b, d->n_after);
        d->noise = unscaled(infp_student_quantile(1 - INFP_COMPARE_ALPHA / 2, d->df) * hypot(std_a, std_b),
                            how->is_points);
        test(d);
}

void infp_difference_find(const struct infp_compare_series *const *before, unsigned n_before,
                          const struct infp_compare_series *const *after, unsigned n_after,
                          const struct infp_compare_how *how, struct infp_difference *ret)
{
        *ret = (struct infp_difference){ .before = NAN,
                                         .after = NAN,
                                         .is_points = how->is_points,
                                         .difference = NAN,
                                         .low = NAN,
                                         .high = NAN,
                                         .p = NAN,
                                         .p_all = NAN,
                                         .noise = NAN,
                                         .detectable = NAN,
                                         .estimate = NAN,
                                         .error = NAN,
                                         .df = NAN };
        if (n_before > 1 || n_after > 1) {
                compare_runs(before, n_before, after, n_after, how, ret);
        } else if (*before && *after) {
                compare_blocks(*before, *after, how, ret);
        } else {
                ret->before = *before ? infp_compare_value(*before, NULL) : NAN;
                ret->after = *after ? infp_compare_value(*after, NULL) : NAN;
                ret->why = "one of the runs has no such number";
        }
}

void infp_difference_disturb(struct infp_difference *d)
{
        if (!d->is_of_blocks || d->is_points || isnan(d->p))
                return;
        d->is_disturbed = true;
        d->floor = fmax(d->floor, log(INFP_COMPARE_DISTURBED));
        d->noise = unscaled(d->floor, false);
}

bool infp_difference_interval(const struct infp_difference *d, double level, double *ret_low, double *ret_high)
{
        const double wide = infp_student_quantile(1 - (1 - level) / 2, d->df) * d->error;

        if (isnan(wide) || isnan(d->estimate))
                return false;
        *ret_low = unscaled(d->estimate - wide, d->is_points);
        *ret_high = unscaled(d->estimate + wide, d->is_points);
        return true;
}

struct ordered {
        double p;
        unsigned at;
};

static int by_p(const void *a, const void *b)
{
        const struct ordered *x = a, *y = b;

        return (x->p > y->p) - (x->p < y->p);
}

int infp_compare_holm(double *p, unsigned n)
{
        infp_autofree struct ordered *order = calloc(n ? n : 1, sizeof(*order));
        unsigned m = 0;
        double most = 0;

        if (!order)
                return -ENOMEM;
        for (unsigned i = 0; i < n; i++)
                if (!isnan(p[i]))
                        order[m++] = (struct ordered){ p[i], i };
        infp_sort(order, m, sizeof(*order), by_p);
        for (unsigned i = 0; i < m; i++) {
                most = fmax(most, fmin(1, (m - i) * order[i].p));
                p[order[i].at] = most;
        }
        return 0;
}

static enum infp_verdict direction(const struct infp_difference *d, enum infp_better better)
{
        const bool is_more = d->estimate > 0;

        if (better == INFP_BETTER_NEITHER)
                return is_more ? INFP_VERDICT_MORE : INFP_VERDICT_LESS;
        return is_more == (better == INFP_BETTER_MORE) ? INFP_VERDICT_BETTER : INFP_VERDICT_WORSE;
}

/* m: how many were tested together; the strictest step of Holm's. */
static void judge(struct infp_difference *d, enum infp_better better, unsigned m)
{
        const double t = infp_student_quantile(1 - INFP_COMPARE_ALPHA / (2 * m), d->df) +
                         infp_student_quantile(INFP_COMPARE_POWER, d->df);

        if (isnan(d->p_all))
                return;
        d->detectable = unscaled(fmax(t * d->error, d->floor), d->is_points);
        d->verdict = INFP_VERDICT_NONE;
        if (d->p_all > INFP_COMPARE_ALPHA)
                return;
        if (d->is_of_blocks && fabs(d->estimate) <= d->floor)
                d->why = d->is_disturbed ? "significant, but below a factor of two on a machine that others kept busy"
                                         : "significant, but within the noise of one run";
        else
                d->verdict = direction(d, better);
}

int infp_compare_judge(struct infp_difference *const *list, const enum infp_better *better, unsigned n,
                       unsigned families)
{
        infp_autofree double *p = calloc(n ? n : 1, sizeof(*p));
        unsigned m = 0;

        for (unsigned i = 0; p && i < n; i++) {
                p[i] = list[i]->p;
                m += isnan(p[i]) ? 0 : 1;
        }
        if (!p || infp_compare_holm(p, n) < 0)
                return -ENOMEM;
        for (unsigned i = 0; i < n; i++) {
                list[i]->p_all = isnan(p[i]) ? NAN : fmin(1, p[i] * families);
                judge(list[i], better[i], m * families);
        }
        return 0;
}
