#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/quantile.h"

#define INF INFINITY

enum { MAX = 8 };

struct histogram {
        size_t n;
        struct infp_bucket buckets[MAX];
};

static bool alike(double a, double b)
{
        return a == b || (isnan(a) && isnan(b)) || fabs(a - b) < 1e-9;
}

static void check(const struct infp_bucket *got, size_t n, const struct histogram *expected, size_t number)
{
        assert_int_equal(n, expected->n);
        for (size_t i = 0; i < n; i++)
                if (got[i].le != expected->buckets[i].le || !alike(got[i].count, expected->buckets[i].count))
                        fail_msg("case %zu, bucket %zu: le %g, count %g", number, i, got[i].le, got[i].count);
}

static void settling(void **state)
{
        static const struct {
                struct histogram given, settled;
        } cases[] = {
                { { 0, { { 0 } } }, { 0, { { 0 } } } },
                { { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } }, { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } } },
                { { 3, { { INF, 6 }, { 1, 2 }, { 2, 5 } } }, { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } } },
                /* Two engines, or "1" and "1.0" of a federated page. */
                { { 4, { { 1, 2 }, { INF, 6 }, { 1, 3 }, { INF, 4 } } }, { 2, { { 1, 5 }, { INF, 10 } } } },
                { { 4, { { 1, 3 }, { 2, 2 }, { 3, 5 }, { INF, 4 } } },
                  { 4, { { 1, 3 }, { 2, 3 }, { 3, 5 }, { INF, 5 } } } },
                { { 4, { { NAN, 3 }, { 1, NAN }, { 2, INF }, { INF, 4 } } }, { 1, { { INF, 4 } } } },
                { { 2, { { 1, -3 }, { INF, -1 } } }, { 2, { { 1, 0 }, { INF, 0 } } } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct histogram h = cases[i].given;

                check(h.buckets, infp_buckets_settle(h.buckets, h.n), &cases[i].settled, i);
        }
}

static void quantiles(void **state)
{
        static const struct histogram plain = { 4, { { 0.1, 20 }, { 0.5, 60 }, { 1, 60 }, { INF, 100 } } },
                                      empty_first = { 3, { { 1, 0 }, { 2, 10 }, { INF, 10 } } },
                                      negative = { 3, { { -1, 5 }, { 0, 10 }, { INF, 20 } } },
                                      all_beyond = { 2, { { 1, 0 }, { INF, 7 } } },
                                      one = { 3, { { 1, 1 }, { 2, 1 }, { INF, 1 } } };
        static const struct {
                const struct histogram *histogram;
                double q;
                struct infp_quantile expected;
        } cases[] = {
                /* rank 10 of 20 in 0..0.1 */
                { &plain, 0.1, { 0, 0.05, 0.1 } },
                { &plain, 0.2, { 0, 0.1, 0.1 } },
                /* rank 50: 30 of 40 in 0.1..0.5 */
                { &plain, 0.5, { 0.1, 0.4, 0.5 } },
                { &plain, 0.6, { 0.1, 0.5, 0.5 } },
                /* Beyond 1: only the lower bound is known. */
                { &plain, 0.61, { 1, 1, INF } },
                { &plain, 1, { 1, 1, INF } },
                { &plain, 0, { 0, 0, 0.1 } },
                { &empty_first, 0, { 1, 1, 2 } },
                { &empty_first, 0.5, { 1, 1.5, 2 } },
                { &empty_first, 1, { 1, 2, 2 } },
                { &negative, 0.25, { -INF, -1, -1 } },
                { &negative, 0.1, { -INF, -1, -1 } },
                { &negative, 0.5, { -1, 0, 0 } },
                { &all_beyond, 0.5, { 1, 1, INF } },
                { &one, 0.99, { 0, 0.99, 1 } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_quantile got;

                if (!infp_quantile_of(cases[i].histogram->buckets, cases[i].histogram->n, cases[i].q, &got) ||
                    got.low != cases[i].expected.low || !alike(got.estimate, cases[i].expected.estimate) ||
                    got.high != cases[i].expected.high)
                        fail_msg("case %zu: %g %g %g", i, got.low, got.estimate, got.high);
        }
}

static void no_quantile(void **state)
{
        static const struct {
                struct histogram histogram;
                double q;
        } cases[] = {
                { { 0, { { 0 } } }, 0.5 },
                { { 1, { { INF, 9 } } }, 0.5 },
                { { 2, { { 1, 0 }, { INF, 0 } } }, 0.5 },
                { { 2, { { 1, 5 }, { 2, 9 } } }, 0.5 },
                { { 2, { { 1, 5 }, { INF, 9 } } }, -0.1 },
                { { 2, { { 1, 5 }, { INF, 9 } } }, 1.1 },
                { { 2, { { 1, 5 }, { INF, 9 } } }, NAN },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_quantile got;

                if (infp_quantile_of(cases[i].histogram.buckets, cases[i].histogram.n, cases[i].q, &got))
                        fail_msg("case %zu: %g", i, got.estimate);
        }
}

static void differences(void **state)
{
        static const struct {
                struct histogram before, after, between;
        } cases[] = {
                { { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } },
                  { 3, { { 1, 2 }, { 2, 9 }, { INF, 11 } } },
                  { 3, { { 1, 0 }, { 2, 4 }, { INF, 5 } } } },
                { { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } },
                  { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } },
                  { 3, { { 1, 0 }, { 2, 0 }, { INF, 0 } } } },
                /* One count fell: a new start, also for those that did not. */
                { { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } },
                  { 3, { { 1, 3 }, { 2, 4 }, { INF, 9 } } },
                  { 3, { { 1, 3 }, { 2, 4 }, { INF, 9 } } } },
                { { 0, { { 0 } } }, { 2, { { 1, 3 }, { INF, 9 } } }, { 2, { { 1, 3 }, { INF, 9 } } } },
                /* Edges that were empty before and therefore not there: 5 at 2 stood for all up to 5, too. */
                { { 3, { { 2, 5 }, { 10, 6 }, { INF, 6 } } },
                  { 4, { { 2, 5 }, { 5, 7 }, { 10, 9 }, { INF, 9 } } },
                  { 4, { { 2, 0 }, { 5, 2 }, { 10, 3 }, { INF, 3 } } } },
                { { 2, { { 2, 5 }, { INF, 6 } } },
                  { 3, { { 1, 0 }, { 2, 5 }, { INF, 7 } } },
                  { 3, { { 1, 0 }, { 2, 0 }, { INF, 1 } } } },
                /* An edge that went away. */
                { { 3, { { 1, 2 }, { 2, 5 }, { INF, 6 } } },
                  { 2, { { 2, 7 }, { INF, 9 } } },
                  { 2, { { 2, 2 }, { INF, 3 } } } },
                /* The upper edge was read a moment before the lower one: never negative, never falling. */
                { { 3, { { 1, 2 }, { 2, 3 }, { INF, 3 } } },
                  { 3, { { 1, 4 }, { 2, 4 }, { INF, 4 } } },
                  { 3, { { 1, 2 }, { 2, 2 }, { INF, 2 } } } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_bucket got[MAX];
                size_t n = infp_buckets_between(cases[i].before.buckets, cases[i].before.n, cases[i].after.buckets,
                                                cases[i].after.n, got);

                check(got, n, &cases[i].between, i);
        }
}

static uint64_t random_bits(uint64_t *seed)
{
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

static double random_share(uint64_t *seed)
{
        return (double) (random_bits(seed) >> 11) / 9007199254740992.0;
}

static int by_value(const void *a, const void *b)
{
        const double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

/* Random observations: the true quantile lies within low..high, estimates rise with q, and the sum of differences is
 * the difference. */
static void properties(void **state)
{
        static const double edges[MAX] = { 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, INFINITY };
        enum { N = 200 };
        uint64_t seed = UINT64_C(88172645463325252);

        (void) state;
        for (unsigned round = 0; round < 2000; round++) {
                struct infp_bucket first[MAX], second[MAX], sum[MAX], got[MAX];
                double values[N], before = -INFINITY;
                unsigned n = 1 + (unsigned) (random_bits(&seed) % N);

                for (unsigned i = 0; i < MAX; i++)
                        first[i] = second[i] = (struct infp_bucket){ edges[i], 0 };
                for (unsigned i = 0; i < n; i++) {
                        values[i] = exp(6 * random_share(&seed) - 5);
                        for (unsigned k = 0; k < MAX; k++)
                                if (values[i] <= edges[k]) {
                                        second[k].count++;
                                        first[k].count += i < n / 2;
                                }
                }
                qsort(values, n, sizeof(*values), by_value);
                for (double q = 0.01; q < 1; q += 0.07) {
                        struct infp_quantile at;
                        unsigned rank = (unsigned) fmax(ceil(q * n), 1);

                        assert_true(infp_quantile_of(second, MAX, q, &at));
                        assert_true(at.low <= at.estimate && at.estimate <= at.high);
                        assert_true(at.low <= values[rank - 1] && values[rank - 1] <= at.high);
                        assert_true(at.estimate >= before);
                        before = at.estimate;
                }
                assert_int_equal(infp_buckets_between(first, MAX, second, MAX, got), MAX);
                for (unsigned i = 0; i < MAX; i++)
                        sum[i] = (struct infp_bucket){ edges[i], first[i].count + got[i].count };
                assert_memory_equal(sum, second, sizeof(sum));
        }
}

/* What lies in one bucket has no more spread than its mean allows. */
static void test_within_mean(void **state)
{
        static const struct {
                double first, second; /* observations in 0..1, in 1..10 */
                double q, mean, low, estimate, high;
        } cases[] = {
                { 8, 0, 0.99, 0, 0, 0, 0 },       /* preemptions: never above 0 */
                { 8, 0, 0.5, 1, 1, 1, 1 },        /* parameter n: always 1 */
                { 8, 0, 0.5, 0.25, 0, 0.5, 0.5 }, /* half are at least the median: it is 2 x 0.25 at most */
                { 8, 0, 0.5, 0.75, 0.5, 0.5, 1 }, { 8, 0, 0.75, 0.1, 0, 0.4, 0.4 },
                { 0, 8, 0.5, 2, 1, 3, 3 },        { 4, 4, 0.5, 2, 0, 1, 1 }, /* in two buckets: as it was */
                { 8, 0, 0.5, 7, 0, 0.5, 1 },                                 /* a mean that is of something else */
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const double all = cases[i].first + cases[i].second;
                const struct infp_bucket buckets[] = { { 1, cases[i].first }, { 10, all }, { INFINITY, all } };
                struct infp_quantile at;

                assert_true(infp_quantile_of(buckets, 3, cases[i].q, &at));
                infp_quantile_within_mean(buckets, 3, cases[i].q, cases[i].mean, &at);
                if (fabs(at.low - cases[i].low) > 1e-9 || fabs(at.estimate - cases[i].estimate) > 1e-9 ||
                    fabs(at.high - cases[i].high) > 1e-9)
                        fail_msg("case %zu: %g %g %g", i, at.low, at.estimate, at.high);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_within_mean), cmocka_unit_test(settling),    cmocka_unit_test(quantiles),
                cmocka_unit_test(no_quantile),      cmocka_unit_test(differences), cmocka_unit_test(properties),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
