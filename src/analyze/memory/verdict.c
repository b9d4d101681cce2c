#include "analyze/memory/verdict.h"

#include <math.h>

static const double warm_up = 0.2, least_kept = 0.8, least_going_on = 1.0 / 3, most_held = 0.1,
                    least_chance = 1.0 / 4000, least_chance_grows = 1.0 / 100;
/* Quantiles of the normal distribution: one-sided chances of 1/4,000 and 1/100, and the two-sided 95 % interval. */
static const double z_leak = 3.4808, z_grows = 2.3263, z_interval = 1.95996;

const char *infp_heap_verdict_name(enum infp_heap_verdict verdict)
{
        static const char *const names[INFP_HEAP_VERDICTS] = {
                [INFP_HEAP_LEAK] = "leak",           [INFP_HEAP_GROWS] = "grows", [INFP_HEAP_CACHE] = "cache",
                [INFP_HEAP_STEADY] = "steady",       [INFP_HEAP_FEW] = "few",     [INFP_HEAP_SHORT] = "short",
                [INFP_HEAP_TEMPORARY] = "temporary",
        };

        return names[verdict];
}

const char *infp_heap_verdict_words(enum infp_heap_verdict verdict)
{
        static const char *const words[INFP_HEAP_VERDICTS] = {
                [INFP_HEAP_LEAK] = "leak",
                [INFP_HEAP_GROWS] = "grows",
                [INFP_HEAP_CACHE] = "grew, then stopped",
                [INFP_HEAP_STEADY] = "steady",
                [INFP_HEAP_TEMPORARY] = "temporary",
                [INFP_HEAP_FEW] = "too few samples",
                [INFP_HEAP_SHORT] = "too little time",
        };

        return words[verdict];
}

/* A quantile of Student's distribution from that of the normal one (Fisher and Cornish's expansion): within 1 % from 7 degrees of freedom on. */
static double student(double z, double degrees)
{
        const double z2 = z * z;

        return z + z * (z2 + 1) / (4 * degrees) + z * (5 * z2 * z2 + 16 * z2 + 3) / (96 * degrees * degrees) +
               z * (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / (384 * degrees * degrees * degrees);
}

/* Of what only grows the least is at the begin of each window: the time of its floor. */
static double begin_of(const struct infp_heap_series *s, uint32_t i)
{
        return i ? s->end_s[i - 1] : 0;
}

/* The last window that ends at or before t; 0: the first. */
static uint32_t window_at(const struct infp_heap_series *s, double t_s)
{
        uint32_t i = 0;

        while (i + 1 < s->n && s->end_s[i + 1] <= t_s)
                i++;
        return i;
}

static double change(const struct infp_heap_series *s, uint32_t from, uint32_t to)
{
        const double seconds = begin_of(s, to) - begin_of(s, from);

        return seconds > 0 ? (s->low[to] - s->low[from]) / seconds : 0;
}

/* The standard error of the mean change: each window's differs from the mean by as much as its length allows. */
static double error_of(const struct infp_heap_series *s, uint32_t from, uint32_t to, double rate)
{
        double squares = 0;

        for (uint32_t i = from + 1; i <= to; i++) {
                const double seconds = begin_of(s, i) - begin_of(s, i - 1);
                const double rest = s->low[i] - s->low[i - 1] - rate * seconds;

                squares += seconds > 0 ? rest * rest / seconds : 0;
        }
        return sqrt(squares / (to - from - 1) / (begin_of(s, to) - begin_of(s, from)));
}

/* The chance that of the windows that changed as many grow when each does with a chance of a half. */
static double chance_of_signs(const struct infp_heap_series *s, uint32_t from, uint32_t to)
{
        uint32_t n = 0, up = 0;
        double ret = 0;

        for (uint32_t i = from + 1; i <= to; i++) {
                n += s->low[i] != s->low[i - 1];
                up += s->low[i] > s->low[i - 1];
        }
        for (uint32_t k = up; k <= n; k++)
                ret += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) - n * M_LN2);
        return ret;
}

/* What is known of the growth between the warm-up and the end. */
static enum infp_heap_verdict verdict_of(const struct infp_heap_series *s, uint32_t from, uint32_t to, double rate,
                                         double error)
{
        const double end_s = s->end_s[to];
        const uint32_t late = window_at(s, s->end_s[from] + (end_s - s->end_s[from]) * 2 / 3);
        const double before = change(s, from, late), after = change(s, late, to),
                     half = s->low[window_at(s, end_s / 2)], degrees = to - from - 1;
        const bool goes_on = after > 0 && after >= least_going_on * before;

        if (rate > 0 && goes_on) {
                const bool is_sure =
                        rate > student(z_leak, degrees) * error ||
                        (rate > student(z_interval, degrees) * error && chance_of_signs(s, from, to) < least_chance);

                if (is_sure && before > 0 && half > 0 && s->old >= least_kept * half)
                        return INFP_HEAP_LEAK;
                if (is_sure || rate > student(z_grows, degrees) * error)
                        return INFP_HEAP_GROWS;
        }
        if (before > 0 && !goes_on && late > from + 2 &&
            (before > student(z_grows, late - from - 1) * error_of(s, from, late, before) ||
             chance_of_signs(s, from, late) < least_chance_grows))
                return INFP_HEAP_CACHE;
        return INFP_HEAP_STEADY;
}

struct infp_heap_growth infp_heap_judge(const struct infp_heap_series *s)
{
        struct infp_heap_growth ret = { INFP_HEAP_SHORT, NAN, NAN, NAN };
        const bool is_temporary =
                s->n && s->temporary >= s->allocated / 2 && s->live[s->n - 1] <= most_held * s->allocated;
        const uint32_t to = s->n ? s->n - 1 : 0, from = s->n ? window_at(s, warm_up * s->end_s[to]) : 0;
        double error, margin;

        if (to - from < INFP_HEAP_LEAST_WINDOWS) {
                ret.verdict = is_temporary ? INFP_HEAP_TEMPORARY : INFP_HEAP_SHORT;
                return ret;
        }
        ret.rate = change(s, from, to);
        error = error_of(s, from, to, ret.rate);
        margin = student(z_interval, to - from - 1) * error;
        ret.low = ret.rate - margin;
        ret.high = ret.rate + margin;
        ret.verdict = s->blocks < INFP_HEAP_LEAST_SAMPLES ? INFP_HEAP_FEW : verdict_of(s, from, to, ret.rate, error);
        if (is_temporary && ret.verdict != INFP_HEAP_LEAK && ret.verdict != INFP_HEAP_GROWS)
                ret.verdict = INFP_HEAP_TEMPORARY;
        return ret;
}
