/* The statistics of comparisons. Answers were computed by numpy 1.24 and newer; the line stands beside each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/compare/gate.h"
#include "analyze/compare/group.h"
#include "analyze/compare/student.h"
#include "base/mem.h"

static void assert_close(double value, double wanted, double share)
{
        if (!(fabs(value - wanted) <= share * fabs(wanted)))
                fail_msg("%.15g is not %.15g", value, wanted);
}

static void test_student(void **state)
{
        /* Simpson's rule over the density with 2,000,001 points:
         * p2 = 1 - 2 * h / 3 * (y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum()) */
        static const struct {
                double t, df, p;
        } cases[] = { { 2, 10, 0.07338803477074063 },    { -2, 10, 0.07338803477074063 },
                      { 2.5, 4.7, 0.05759215934686779 }, { 0.3, 18, 0.7676141212934782 },
                      { 4, 38, 0.00028239058141943385 }, { 0, 3, 1 } };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++)
                assert_close(infp_student_p(cases[i].t, cases[i].df), cases[i].p, 1e-9);
        for (double t = 0.01; t < 1e6; t *= 7) { /* closed forms of 1 and 2 degrees */
                assert_close(infp_student_p(t, 1), M_2_PI * atan(1 / t), 1e-11);
                assert_close(infp_student_p(t, 2), 2 / (sqrt(t * t + 2) * (sqrt(t * t + 2) + t)), 1e-11);
        }
        assert_close(infp_student_quantile(0.975, 6), 2.446911851144968, 1e-9);
        assert_close(infp_student_quantile(0.975, 17.3), 2.107032003753466, 1e-9);
        assert_close(infp_student_quantile(0.9995, 38), 3.5656780715802396, 1e-8);
        assert_close(infp_student_quantile(0.025, 6), -2.446911851144968, 1e-9);
        assert_close(infp_student_quantile(0.975, 1e9), 1.959963985, 1e-6);
        assert_true(infp_student_p(INFINITY, 5) == 0 && isnan(infp_student_p(NAN, 5)) && isnan(infp_student_p(1, NAN)));
        assert_true(isnan(infp_student_quantile(0, 5)) && isnan(infp_student_quantile(0.5, 0)));
}

static struct infp_compare_series quantile(const struct infp_compare_values *values, double q, unsigned n)
{
        return (struct infp_compare_series){ .kind = INFP_COMPARE_QUANTILE, .n = n, .q = q, .values = values };
}

static void test_quantiles(void **state)
{
        /* numpy.percentile([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [0, 25, 50, 90, 95, 100]) */
        static const double at[] = { 0, 0.25, 0.5, 0.9, 0.95, 1 }, wanted[] = { 1, 2.5, 4, 6, 7.5, 9 };
        struct infp_compare_value list[] = { { 3, 0 }, { 1, 0 }, { 4, 0 }, { 1, 1 }, { 5, 1 }, { 9, 1 },
                                             { 2, 1 }, { 6, 2 }, { 5, 2 }, { 3, 2 }, { 5, 2 } };
        struct infp_compare_values values = { list, INFP_COUNT(list), INFP_COUNT(list) };
        const unsigned times[] = { 2, 0, 1 }, never[] = { 0, 0, 0 };
        struct infp_compare_series s;

        (void) state;
        infp_compare_values_settle(&values);
        for (unsigned i = 0; i < INFP_COUNT(at); i++) {
                s = quantile(&values, at[i], 3);
                assert_close(infp_compare_value(&s, NULL), wanted[i], 1e-12);
        }
        /* Blocks 0, 0, 2: numpy.percentile([1, 1, 3, 3, 3, 4, 4, 5, 5, 6], [50, 90]) */
        s = quantile(&values, 0.5, 3);
        assert_close(infp_compare_value(&s, times), 3.5, 1e-12);
        s.q = 0.9;
        assert_close(infp_compare_value(&s, times), 5.1, 1e-12);
        assert_true(isnan(infp_compare_value(&s, never)));
}

static void test_holm(void **state)
{
        /* By hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, then the largest so far. */
        double p[] = { 0.01, 0.04, NAN, 0.03, 0.005 };
        static const double wanted[] = { 0.03, 0.06, NAN, 0.06, 0.02 };

        (void) state;
        assert_int_equal(infp_compare_holm(p, 5), 0);
        for (unsigned i = 0; i < 5; i++)
                if (i != 2)
                        assert_close(p[i], wanted[i], 1e-12);
        assert_true(isnan(p[2]));
        assert_int_equal(infp_compare_holm(p, 0), 0);
}

static struct infp_compare_series ratio(const double *sum, const double *weight, unsigned n)
{
        struct infp_compare_series ret = { .kind = INFP_COMPARE_RATIO, .n = n };

        for (unsigned i = 0; i < n; i++) {
                ret.sum[i] = sum[i];
                ret.weight[i] = weight ? weight[i] : 1;
        }
        return ret;
}

static struct infp_compare_series total(double v)
{
        return (struct infp_compare_series){ .kind = INFP_COMPARE_TOTAL, .sum = { v } };
}

static const struct infp_compare_how less = { .better = INFP_BETTER_LESS, .seed = 7 };

static void find(const struct infp_compare_series *a, unsigned n_a, const struct infp_compare_series *b, unsigned n_b,
                 const struct infp_compare_how *how, struct infp_difference *ret)
{
        const struct infp_compare_series *first[8], *other[8];

        for (unsigned i = 0; i < n_a; i++)
                first[i] = &a[i];
        for (unsigned i = 0; i < n_b; i++)
                other[i] = &b[i];
        infp_difference_find(first, n_a, other, n_b, how, ret);
}

static void judge(struct infp_difference *d, enum infp_better better)
{
        assert_int_equal(infp_compare_judge(&d, &better, 1, 1), 0);
}

static const double sums[] = { 0.41, 0.39, 0.44, 0.40, 0.38, 0.43, 0.42, 0.37, 0.45, 0.40, 0.39, 0.41 };
static const double weights[] = { 1, 1.1, 0.9, 1, 1, 1, 1, 1, 1.2, 1, 1, 0.8 };

static void test_blocks(void **state)
{
        double more[12];
        struct infp_compare_series a = ratio(sums, weights, 12), b;
        struct infp_difference d, again;

        (void) state;
        for (unsigned i = 0; i < 12; i++)
                more[i] = 1.2 * sums[i];
        b = ratio(more, weights, 12);
        find(&a, 1, &b, 1, &less, &d);
        assert_close(d.before, exp(-0.8977143463012196), 1e-12);
        assert_close(d.difference, 0.2, 1e-12);
        /* Blocks of two of the circle: i = rng.integers(0, 12, (400000, 6)); i = concatenate([i, (i + 1) % 12], 1);
         * numpy.log(s[i].sum(1) / w[i].sum(1)).std(ddof=1) * sqrt(6 / 5) is 0.0280; both sides together sqrt(2) of it. 500
         * resamples know it within 3.2 %: five times that. */
        assert_close(d.error, M_SQRT2 * 0.028018003508393452, 0.16);
        assert_true(d.df > 9 && d.df <= 10 && d.n_before == 12);
        assert_true(d.low < 0.2 && d.low > 0.05 && d.high > 0.2 && d.high < 0.4);
        find(&a, 1, &b, 1, &less, &again);
        assert_true(again.error == d.error && again.p == d.p && again.low == d.low); /* seeded */
        judge(&d, INFP_BETTER_LESS);
        assert_true(d.p < 0.01 && d.p_all == d.p);
        /* The quarters of such short runs differ by more. */
        assert_true(d.verdict == INFP_VERDICT_WORSE || d.why);
        assert_true(d.detectable >= d.noise && d.noise > 0);
}

static void test_verdicts(void **state)
{
        double flat[20], rising[20], high[20];
        struct infp_compare_series a, b, c;
        struct infp_difference d;

        (void) state;
        for (unsigned i = 0; i < 20; i++) {
                flat[i] = 1 + 0.01 * (i % 2);
                high[i] = 1.2 * flat[i];
                rising[i] = 1 + 0.03 * i;
        }
        a = ratio(flat, NULL, 20);
        b = ratio(high, NULL, 20);
        c = ratio(rising, NULL, 20);
        find(&a, 1, &b, 1, &less, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_int_equal(d.verdict, INFP_VERDICT_WORSE);
        judge(&d, INFP_BETTER_MORE);
        assert_int_equal(d.verdict, INFP_VERDICT_BETTER);
        judge(&d, INFP_BETTER_NEITHER);
        assert_int_equal(d.verdict, INFP_VERDICT_MORE);
        find(&b, 1, &a, 1, &less, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_int_equal(d.verdict, INFP_VERDICT_BETTER);
        judge(&d, INFP_BETTER_NEITHER);
        assert_int_equal(d.verdict, INFP_VERDICT_LESS);
        /* It drifts: its quarters differ by 1.06 to 1.51, more than the whole does from 1.005. */
        find(&a, 1, &c, 1, &less, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_true(d.p_all < 0.05 && d.verdict == INFP_VERDICT_NONE && strstr(d.why, "within the noise"));
        assert_close(d.noise, 1.51 / 1.06 - 1, 1e-12);
        /* A number that never moves, and differs by less than two runs do. */
        for (unsigned i = 0; i < 20; i++) {
                flat[i] = 100;
                high[i] = 102;
        }
        a = ratio(flat, NULL, 20);
        b = ratio(high, NULL, 20);
        find(&a, 1, &b, 1, &(struct infp_compare_how){ .better = INFP_BETTER_LESS, .least = 0.03 }, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_true(d.p == 0 && d.verdict == INFP_VERDICT_NONE && d.why);
        find(&a, 1, &b, 1, &(struct infp_compare_how){ .better = INFP_BETTER_LESS, .least = 0.01 }, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_int_equal(d.verdict, INFP_VERDICT_WORSE);
        find(&a, 1, &a, 1, &less, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_true(d.p == 1 && d.verdict == INFP_VERDICT_NONE && !d.why);
}

static void expect_unknown(const struct infp_compare_series *a, const struct infp_compare_series *b, const char *why)
{
        struct infp_difference d;

        infp_difference_find(&a, 1, &b, 1, &less, &d);
        judge(&d, INFP_BETTER_LESS);
        assert_int_equal(d.verdict, INFP_VERDICT_UNKNOWN);
        assert_true(isnan(d.p) && isnan(d.p_all) && isnan(d.low) && isnan(d.detectable));
        if (!strstr(d.why, why))
                fail_msg("'%s' has no '%s'", d.why, why);
}

static void test_unknown(void **state)
{
        static const double zeros[20], nans[20] = { NAN };
        struct infp_compare_value list[20];
        struct infp_compare_values values = { list, INFP_COUNT(list), INFP_COUNT(list) }, none = { NULL, 0, 0 };
        const struct infp_compare_series a = ratio(sums, weights, 12), seven = ratio(sums, weights, 7),
                                         one = ratio(sums, weights, 1), zero = ratio(zeros, NULL, 20),
                                         empty = ratio(NULL, NULL, 0), nan_ = ratio(nans, NULL, 20), whole = total(3),
                                         p95 = quantile(&values, 0.95, 20), nothing = quantile(&none, 0.95, 20);

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(list); i++)
                list[i] = (struct infp_compare_value){ i + 1, i };
        expect_unknown(&a, &seven, "too short");
        expect_unknown(&a, &one, "too short");
        expect_unknown(&a, &zero, "0 in one of them");
        expect_unknown(&a, &empty, "0 in one of them");
        expect_unknown(&a, &nan_, "0 in one of them");
        expect_unknown(&whole, &whole, "one run a side");
        expect_unknown(&p95, &p95, "too few requests");
        expect_unknown(&p95, &nothing, "0 in one of them");
        expect_unknown(&a, NULL, "no such number");
        expect_unknown(NULL, &a, "no such number");
}

static void test_quantile_error(void **state)
{
        struct infp_compare_value list[240];
        struct infp_compare_values values = { list, INFP_COUNT(list), INFP_COUNT(list) };
        struct infp_compare_series s;
        struct infp_difference d;

        (void) state;
        /* v = arange(240) % 37 * 0.01 + 0.1; medians of 20,000 draws of 6 blocks of two of the 12 pieces: std of their
         * logarithms x sqrt(6 / 5) is 0.0636. 500 resamples of a quantity that is not normal: 20 %. */
        for (unsigned i = 0; i < 240; i++)
                list[i] = (struct infp_compare_value){ i % 37 * 0.01 + 0.1, i / 20 };
        infp_compare_values_settle(&values);
        s = quantile(&values, 0.5, 12);
        find(&s, 1, &s, 1, &less, &d);
        assert_close(d.before, 0.27, 1e-12);
        assert_close(d.error, M_SQRT2 * 0.06360733295081132, 0.2);
}

static void test_histogram(void **state)
{
        struct infp_log_histogram blocks[10] = { { .n = 0 } };
        struct infp_compare_series s = { .kind = INFP_COMPARE_HISTOGRAM, .n = 10, .q = 0.5, .histograms = blocks };
        struct infp_quantile whole;
        struct infp_log_histogram all = { .n = 0 };
        struct infp_difference d;

        (void) state;
        for (unsigned i = 0; i < 10; i++)
                for (unsigned k = 0; k < 50; k++) {
                        infp_log_add(&blocks[i], 10000000 + k * (400000 + 20000 * i), 1);
                        infp_log_add(&all, 10000000 + k * (400000 + 20000 * i), 1);
                }
        assert_true(infp_log_quantile(&all, 0.5, &whole));
        assert_close(infp_compare_value(&s, NULL), whole.estimate, 1e-12);
        find(&s, 1, &s, 1, &less, &d);
        assert_true(d.error > 0 && d.error < 0.1 && d.n_before == 10 && d.difference == 0);
}

static void test_replicates(void **state)
{
        /* la, lc = numpy.log(a), numpy.log(c); t = (lc.mean() - la.mean()) / sqrt(la.var(ddof=1) / 5 + lc.var(ddof=1) / 4),
         * degrees by Welch and Satterthwaite, p by the integral above. */
        const struct infp_compare_series a[] = { total(10.1), total(9.8), total(10.4), total(10.0), total(9.9) },
                                         c[] = { total(10.6), total(10.3), total(10.9), total(10.2) };
        const struct infp_compare_series *with[] = { &a[0], NULL, &a[1] }, *without[] = { &a[0], NULL };
        const struct infp_compare_series *const other[] = { &c[0], &c[1] };
        struct infp_difference d;

        (void) state;
        find(a, 5, c, 4, &less, &d);
        assert_close(d.before, 10.037907670181804, 1e-12);
        assert_close(d.after, 10.49644996548171, 1e-12);
        assert_close(d.difference, 0.04568106326202148, 1e-10);
        assert_close(d.estimate / d.error, 2.464443850815507, 1e-10);
        assert_close(d.df, 5.525488875496642, 1e-10);
        assert_close(d.p, 0.05227444242035839, 1e-8);
        assert_close(d.low, -0.0006218412209236816, 1e-6);
        assert_close(d.high, 0.09412926074013882, 1e-8);
        judge(&d, INFP_BETTER_LESS);
        assert_true(d.verdict == INFP_VERDICT_NONE && !d.why && d.detectable > d.difference);
        infp_difference_find(with, 3, other, 2, &less, &d); /* a run without the number does not count */
        assert_true(d.n_before == 2 && !isnan(d.p));
        infp_difference_find(without, 2, other, 2, &less, &d);
        assert_true(isnan(d.p) && strstr(d.why, "fewer than two"));
}

static void test_shares(void **state)
{
        double none[20] = { 0 }, some[20];
        struct infp_compare_series a = ratio(none, NULL, 20), b;
        const struct infp_compare_how how = { .is_points = true, .least = 0.02, .seed = 1 };
        struct infp_difference d;

        (void) state;
        for (unsigned i = 0; i < 20; i++)
                some[i] = 0.1 + 0.01 * (i % 3);
        b = ratio(some, NULL, 20);
        find(&a, 1, &b, 1, &how, &d);
        judge(&d, INFP_BETTER_NEITHER);
        assert_close(d.difference, (7 * 0.1 + 7 * 0.11 + 6 * 0.12) / 20, 1e-12);
        assert_int_equal(d.verdict, INFP_VERDICT_MORE); /* of a function that was not there: a share of 0 is a value */
        assert_true(d.low > 0.1 && d.high < 0.12);
}

static void test_gates(void **state)
{
        static const struct {
                const char *text, *name;
                bool is_above;
                double threshold;
        } good[] = { { "ttft_p95>+5%", "ttft_p95", true, 0.05 },
                     { " ttft_p95 > 5 % ", "ttft_p95", true, 0.05 },
                     { "output_tokens_per_s<-2.5%", "output_tokens_per_s", false, -0.025 },
                     { "step_p95:decode>0%", "step_p95:decode", true, 0 } };
        static const struct {
                const char *text, *why;
        } bad[] = { { "", "no > or <" },
                    { "ttft_p95", "no > or <" },
                    { ">5%", "no name" },
                    { "ttft_p95>5", "in percent" },
                    { "ttft_p95>five%", "not a number" },
                    { "ttft_p95>%", "not a number" },
                    { "ttft_p95>5%x", "in percent" },
                    { "ttft_p95>nan%", "not a number" },
                    { "ttft_p95>1e99%", "not a number" },
                    { "ttft_p96>5%", "no number 'ttft_p96'" },
                    { "ttft_p95:x>5%", "no number" } };
        struct infp_gate gate;
        struct infp_err err;

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(good); i++) {
                assert_int_equal(infp_gate_parse(good[i].text, &gate, &err), 0);
                assert_string_equal(gate.name, good[i].name);
                assert_true(gate.is_above == good[i].is_above && fabs(gate.threshold - good[i].threshold) < 1e-12);
        }
        for (unsigned i = 0; i < INFP_COUNT(bad); i++) {
                assert_true(infp_gate_parse(bad[i].text, &gate, &err) < 0);
                if (!strstr(err.text, bad[i].why))
                        fail_msg("'%s': %s", bad[i].text, err.text);
        }
}

static void test_gate_states(void **state)
{
        static const struct {
                const char *text;
                double difference, error, floor;
                bool is_of_blocks;
                enum infp_gate_state state;
        } cases[] = {
                { "ttft_p95>5%", 0.10, 0.01, 0, false, INFP_GATE_FAILED },
                { "ttft_p95>5%", 0.06, 0.01, 0, false, INFP_GATE_UNDECIDED },
                { "ttft_p95>5%", 0.01, 0.01, 0, false, INFP_GATE_PASSED },
                { "ttft_p95>5%", -0.10, 0.01, 0, false, INFP_GATE_PASSED },
                { "ttft_p95<-5%", -0.10, 0.01, 0, false, INFP_GATE_FAILED },
                { "ttft_p95<-5%", 0.10, 0.01, 0, false, INFP_GATE_PASSED },
                { "ttft_p95>5%", 0.10, 0.01, 0.2, true, INFP_GATE_UNDECIDED },
                { "ttft_p95>5%", 0.10, 0.01, 0.05, true, INFP_GATE_FAILED },
                { "ttft_p95>5%", 0.10, NAN, 0, true, INFP_GATE_UNDECIDED },
                { "e2e_p95>5%", 0.10, 0.01, 0, false, INFP_GATE_ABSENT },
        };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_compare_row row = { .section = INFP_COMPARE_NUMBERS,
                                                .side = 1,
                                                .name = "ttft_p95",
                                                .difference = { .before = 1,
                                                                .after = 1 + cases[i].difference,
                                                                .difference = cases[i].difference,
                                                                .estimate = log1p(cases[i].difference),
                                                                .error = cases[i].error,
                                                                .df = 18,
                                                                .floor = cases[i].floor,
                                                                .is_of_blocks = cases[i].is_of_blocks } };
                const struct infp_compare compare = { .rows = &row, .n = 1, .n_sides = 2 };
                struct infp_gate gate;

                assert_int_equal(infp_gate_parse(cases[i].text, &gate, NULL), 0);
                assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, cases[i].state);
                assert_int_equal(infp_gate_judge(&gate, 1, &compare, 2).state, INFP_GATE_ABSENT);
        }
}

static void test_group(void **state)
{
        /* Ratios 1.10, 1.21, 1.05: x = numpy.log(ratios); exp(x.mean() +- t(0.975, 2) * x.std(ddof=1) / sqrt(3)) */
        static const double means[] = { 10, 11, 12.1, 10.5 };
        struct infp_compare_run runs[4][2] = { 0 };
        struct infp_compare_item items[4][2];
        const struct infp_compare_run *lists[4][2];
        struct infp_compare_side sides[4];
        struct infp_group group;

        (void) state;
        for (unsigned i = 0; i < 4; i++) {
                for (unsigned k = 0; k < 2; k++) {
                        const struct infp_compare_number *number = &infp_compare_numbers[0];

                        items[i][k] = (struct infp_compare_item){ .section = INFP_COMPARE_NUMBERS,
                                                                  .name = number->name,
                                                                  .number = number,
                                                                  .series = total(means[i] * (k ? 1.01 : 1 / 1.01)) };
                        runs[i][k].items = &items[i][k];
                        runs[i][k].n = 1;
                        lists[i][k] = &runs[i][k];
                }
                sides[i] = (struct infp_compare_side){ lists[i], 2 };
        }
        assert_int_equal(infp_group_make(sides, 4, &group), 0);
        assert_int_equal(group.n, 5);
        assert_string_equal(group.rows[0].name, "cpu_s");
        assert_close(group.rows[0].mean, 10 * (1.01 + 1 / 1.01) / 2, 1e-12);
        assert_close(group.rows[0].std, 10 * (1.01 - 1 / 1.01) / M_SQRT2, 1e-9);
        assert_true(isnan(group.rows[0].ratio) && group.rows[0].normalised == 1 && group.rows[0].n == 2);
        assert_close(group.rows[1].ratio, 1.1, 1e-12);
        assert_close(group.rows[2].normalised, 1.21, 1e-12);
        /* Two runs a side that differ by a factor of 1.01 squared: std of logarithms sqrt(2) x ln 1.01, error ln 1.01 x sqrt(2), 2
         * degrees, t 4.3027. */
        assert_close(log(group.rows[1].high / 1.1), 4.302652729749 * M_SQRT2 * log(1.01), 1e-8);
        assert_true(group.rows[4].side == 4 && group.rows[4].n == 3 && isnan(group.rows[4].mean));
        assert_close(group.rows[4].ratio, 1.1180359924963388, 1e-10);
        assert_close(group.rows[4].low, 0.9342322778838908, 1e-8);
        assert_close(group.rows[4].high, 1.3380018118712738, 1e-8);
        infp_group_done(&group);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_student),        cmocka_unit_test(test_quantiles),
                cmocka_unit_test(test_holm),           cmocka_unit_test(test_blocks),
                cmocka_unit_test(test_verdicts),       cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_quantile_error), cmocka_unit_test(test_histogram),
                cmocka_unit_test(test_replicates),     cmocka_unit_test(test_shares),
                cmocka_unit_test(test_gates),          cmocka_unit_test(test_gate_states),
                cmocka_unit_test(test_group),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
