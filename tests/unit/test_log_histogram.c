#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/log_histogram.h"

static void buckets(void **state)
{
        static const struct {
                uint64_t ns;
                unsigned bucket;
                uint64_t edge;
        } cases[] = {
                { 0, 0, 1000 },
                { 1000, 0, 1000 },
                { 1001, 1, 1125 },
                { 1125, 1, 1125 },
                { 1126, 2, 1250 },
                { 1999, 8, 2000 },
                { 2000, 8, 2000 },
                { 2001, 9, 2250 },
                /* 8.192 to 16.384 ms: steps of 1.024 ms */
                { 12000000, 1 + 13 * 8 + 3, 12288000 },
                { 12288000, 1 + 13 * 8 + 3, 12288000 },
                { 12288001, 1 + 13 * 8 + 4, 13312000 },
                { UINT64_C(17179869184000), INFP_LOG_BUCKETS - 2, UINT64_C(17179869184000) },
                { UINT64_C(17179869184001), INFP_LOG_BUCKETS - 1, UINT64_MAX },
                { UINT64_MAX, INFP_LOG_BUCKETS - 1, UINT64_MAX },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                assert_int_equal(infp_log_bucket(cases[i].ns), cases[i].bucket);
                assert_true(infp_log_edge_ns(cases[i].bucket) == cases[i].edge);
        }
}

/* No hole and no overlap: an edge is in its bucket, what is 1 ns above in the next. Each is at most an eighth wide. */
static void edges_join(void **state)
{
        (void) state;
        for (unsigned i = 0; i + 1 < INFP_LOG_BUCKETS; i++) {
                const uint64_t edge = infp_log_edge_ns(i);

                assert_int_equal(infp_log_bucket(edge), i);
                assert_int_equal(infp_log_bucket(edge + 1), i + 1);
                if (i)
                        assert_true((edge - infp_log_edge_ns(i - 1)) * 8 <= infp_log_edge_ns(i - 1));
        }
}

static void text_and_back(void **state)
{
        struct infp_log_histogram h = { 0 }, again = { 0 };
        infp_autostr struct infp_str text = { 0 };

        (void) state;
        infp_log_put(&h, &text);
        assert_string_equal(text.data, "[]");
        infp_str_clear(&text);
        infp_log_add(&h, 900, 2);
        infp_log_add(&h, 12000000, 3);
        infp_log_add(&h, UINT64_MAX, 1);
        infp_log_put(&h, &text);
        assert_string_equal(text.data, "[[1e-06,2],[0.012288,3],[null,1]]");
        assert_int_equal(infp_log_take(&again, text.data, text.size), 0);
        assert_memory_equal(&h, &again, sizeof(h));
        assert_int_equal(infp_log_take(&again, text.data, text.size), 0);
        assert_true(again.n == 12);
        for (unsigned i = 0; i < INFP_LOG_BUCKETS; i++) {
                struct infp_log_histogram one = { 0 }, other = { 0 };

                one.counts[i] = one.n = 7;
                infp_str_clear(&text);
                infp_log_put(&one, &text);
                assert_int_equal(infp_log_take(&other, text.data, text.size), 0);
                assert_memory_equal(&one, &other, sizeof(one));
        }
}

static void bad_texts(void **state)
{
        static const char *const texts[] = {
                "",
                "[",
                "]",
                "{}",
                "[[1,2]",
                "[[1]]",
                "[[1,2,3]]",
                "[[1,2],]",
                "[[-1,2]]",
                "[[1,-2]]",
                "[[1,2.5]]",
                "[[1,2]] x",
                "[[x,2]]",
                "[[1e30,2]]",
                "[[nul,1]]",
                "[[0.1,1]",
                "[[null]]",
                "[[0.1,18446744073709551616]]",
                "[,]",
                "[[0.1,1][0.2,1]]",
                "[[0.1,18446744073709551615],[0.1,1]]",
        };
        struct infp_log_histogram h = { 0 };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(texts); i++) {
                assert_int_equal(infp_log_take(&h, texts[i], strlen(texts[i])), -EBADMSG);
                assert_true(h.n == 0);
        }
        assert_int_equal(infp_log_take(&h, " [ [ 0.1 , 2 ] , [0.2,1] ] \n", 28), 0);
        assert_true(h.n == 3);
}

static void quantiles(void **state)
{
        struct infp_log_histogram h = { 0 };
        struct infp_quantile at;

        (void) state;
        assert_false(infp_log_quantile(&h, 0.5, &at));
        infp_log_add(&h, 12000000, 8); /* 11.264 < .. <= 12.288 ms */
        infp_log_add(&h, 20000000, 2); /* 18.432 < .. <= 20.48 ms */
        assert_true(infp_log_quantile(&h, 0.5, &at));
        assert_true(fabs(at.low - 0.011264) < 1e-12 && fabs(at.high - 0.012288) < 1e-12);
        assert_true(fabs(at.estimate - (0.011264 + 0.001024 * 5 / 8)) < 1e-12);
        assert_true(infp_log_quantile(&h, 0.9, &at));
        assert_true(fabs(at.low - 0.018432) < 1e-12 && fabs(at.high - 0.02048) < 1e-12);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(buckets), cmocka_unit_test(edges_join),
                                            cmocka_unit_test(text_and_back), cmocka_unit_test(bad_texts),
                                            cmocka_unit_test(quantiles) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
