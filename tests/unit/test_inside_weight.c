/* CPU time that a process says of its threads: what can be true is taken, and no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sampler/inside/weight.h"

#define MS UINT64_C(1000000)
static const uint64_t begin = 1000000 * MS, period = 4 * MS, slack = 24 * MS;

static struct infp_inside_weights new_weights(void)
{
        return (struct infp_inside_weights){ .begin_ns = begin, .slack_ns = slack };
}

/* A thread that always runs, whose clock is a little fast; its first sample comes early, and one of 100 is read 1.5 s late. */
static void true_ones_fit(void **state)
{
        struct infp_inside_weights weights = new_weights();

        (void) state;
        for (uint64_t i = 1; i < 1000000; i++) {
                const uint64_t now = begin + i * (period - period / 2000), late = i % 100 ? 0 : 1500 * MS;

                assert_true(infp_inside_weight_fits(&weights, 7, now - late, now, period));
        }
        infp_inside_weights_done(&weights);
}

/* A thread that blocked the signal says all its time at once. */
static void a_long_silence_fits(void **state)
{
        struct infp_inside_weights weights = new_weights();
        uint64_t now = begin + 10000 * MS;

        (void) state;
        assert_true(infp_inside_weight_fits(&weights, 7, now, now, 10000 * MS));
        now += 60000 * MS;
        assert_true(infp_inside_weight_fits(&weights, 7, now, now, 60000 * MS));
        assert_false(infp_inside_weight_fits(&weights, 7, now, now, 4000 * MS));
        infp_inside_weights_done(&weights);
}

static void too_much_does_not(void **state)
{
        struct infp_inside_weights weights = new_weights();
        const uint64_t now = begin + 1000 * MS;

        (void) state;
        assert_false(infp_inside_weight_fits(&weights, 7, now, now, 1100 * MS));
        assert_false(infp_inside_weight_fits(&weights, 7, now, now, UINT64_MAX));
        assert_false(infp_inside_weight_fits(&weights, 7, UINT64_MAX, now, period));
        assert_true(infp_inside_weight_fits(&weights, 7, now, now, 1000 * MS));
        infp_inside_weights_done(&weights);
}

/* Many samples that each are small, with whatever times: their sum is bounded. */
static void the_sum_is_bounded(void **state)
{
        struct infp_inside_weights weights = new_weights();
        const uint64_t now = begin + 1000 * MS;
        uint64_t sum = 0;

        (void) state;
        for (uint64_t i = 0; i < 100000; i++)
                sum += infp_inside_weight_fits(&weights, 7, i % 2 ? 0 : now - i, now, period) ? period : 0;
        assert_in_range(sum, 1000 * MS, 1030 * MS);
        infp_inside_weights_done(&weights);
}

/* Nor do more threads than are remembered get their time twice. */
static void many_threads(void **state)
{
        struct infp_inside_weights weights = new_weights();
        const uint64_t now = begin + 1000 * MS;

        (void) state;
        for (int32_t tid = 1; tid < 20000; tid++)
                infp_inside_weight_fits(&weights, tid, now, now, 1000 * MS);
        assert_false(infp_inside_weight_fits(&weights, 1, now, now, 1000 * MS));
        infp_inside_weights_done(&weights);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(true_ones_fit),     cmocka_unit_test(a_long_silence_fits),
                cmocka_unit_test(too_much_does_not), cmocka_unit_test(the_sum_is_bounded),
                cmocka_unit_test(many_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
