#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "skip_because.h"

static void grows(void **state)
{
        infp_autostr struct infp_str s = { 0 };
        char wanted[1001];

        (void) state;
        for (int i = 0; i < 1000; i++) {
                infp_str_putc(&s, (char) ('a' + i % 26));
                wanted[i] = (char) ('a' + i % 26);
                assert_int_equal(s.data[s.size], 0);
        }
        assert_int_equal(s.size, 1000);
        assert_memory_equal(s.data, wanted, 1000);
        infp_str_clear(&s);
        assert_int_equal(s.size, 0);
        assert_string_equal(s.data, "");
        infp_str_put(&s, "a\0b", 3);
        assert_int_equal(s.size, 3);
        assert_memory_equal(s.data, "a\0b", 4);
}

static void takes(void **state)
{
        infp_autostr struct infp_str s = { 0 };
        char *text = infp_str_take(&s);

        (void) state;
        assert_non_null(text);
        assert_string_equal(text, "");
        free(text);
        infp_str_puts(&s, "abc");
        text = infp_str_take(&s);
        assert_string_equal(text, "abc");
        free(text);
        assert_null(s.data);
        assert_int_equal(s.size, 0);
}

static void fails_once(void **state)
{
        infp_autostr struct infp_str s = { 0 };

        (void) state;
        infp_str_puts(&s, "abc");
        assert_false(infp_str_reserve(&s, SIZE_MAX - 2));
        assert_true(s.failed);
        infp_str_puts(&s, "def");
        infp_str_printf(&s, "%d", 1);
        infp_str_u64(&s, 5);
        assert_string_equal(s.data, "abc");
        assert_null(infp_str_take(&s));
        assert_null(s.data);
        assert_false(s.failed);
}

static void prints(void **state)
{
        infp_autostr struct infp_str s = { 0 };

        (void) state;
        infp_str_printf(&s, "%s-%03d %.2f", "x", 7, 0.5);
        assert_string_equal(s.data, "x-007 0.50");
        infp_str_clear(&s);
        infp_str_printf(&s, "%*s", 500, "");
        assert_int_equal(s.size, 500);
        infp_str_clear(&s);
        infp_str_printf(&s, "%s", "");
        assert_int_equal(s.size, 0);
}

static void integers(void **state)
{
        infp_autostr struct infp_str s = { 0 };

        (void) state;
        infp_str_i64(&s, INT64_MIN);
        infp_str_putc(&s, ' ');
        infp_str_i64(&s, INT64_MAX);
        infp_str_putc(&s, ' ');
        infp_str_u64(&s, UINT64_MAX);
        infp_str_putc(&s, ' ');
        infp_str_u64(&s, 0);
        infp_str_i64(&s, -10);
        assert_string_equal(s.data, "-9223372036854775808 9223372036854775807 18446744073709551615 0-10");
}

static void doubles(void **state)
{
        static const struct {
                double v;
                const char *text;
        } cases[] = {
                { 0.0, "0.0" },
                { -0.0, "-0.0" },
                { 1.0, "1.0" },
                { -1.0, "-1.0" },
                { 0.1, "0.1" },
                { 0.25, "0.25" },
                { 0.125, "0.125" },
                { -12.05, "-12.05" },
                { 0.001, "0.001" },
                { 0.0001, "0.0001" },
                { 1e-7, "1e-07" },
                { 0.1 + 0.2, "0.30000000000000004" },
                { 1.0 / 3, "0.3333333333333333" },
                { 2.0 / 3, "0.6666666666666666" },
                { 3.14159, "3.14159" },
                { 123456.789, "123456.789" },
                { 999999999999.999, "999999999999.999" },
                { 1e12, "1000000000000.0" },
                { 1e15, "1e+15" },
                { 1234567890123456.0, "1234567890123456.0" },
                { 9007199254740991.0, "9007199254740991.0" },
                { 9007199254740993.0, "9007199254740992.0" },
                { 1e22, "1e+22" },
                { 1e300, "1e+300" },
                { DBL_MAX, "1.7976931348623157e+308" },
                { DBL_MIN, "2.2250738585072014e-308" },
                { 5e-324, "5e-324" },
                { 1e-310, "1e-310" },
                { 100.0, "100.0" },
                { 4096.5, "4096.5" },
                { INFINITY, "inf" },
                { -INFINITY, "-inf" },
        };
        infp_autostr struct infp_str s = { 0 };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_str_clear(&s);
                infp_str_f64(&s, cases[i].v);
                assert_string_equal(s.data, cases[i].text);
        }
        infp_str_clear(&s);
        infp_str_f64(&s, NAN);
        assert_string_equal(s.data, "nan");
        infp_str_clear(&s);
        infp_str_f64(&s, -NAN);
        assert_string_equal(s.data, "nan");
}

/* Digits that count: without zeroes in front and behind. */
static int significant(const char *text)
{
        int n = 0, zeroes = 0;

        for (; *text && *text != 'e'; text++) {
                if (*text == '0') {
                        zeroes++;
                } else if (*text >= '1' && *text <= '9') {
                        n += n ? zeroes + 1 : 1;
                        zeroes = 0;
                }
        }
        return n;
}

/* Any bit pattern comes back, and one digit less would not tell it. xorshift64, so that each run tests the same. */
static void random_doubles(void **state)
{
        infp_autostr struct infp_str s = { 0 };
        uint64_t x = 88172645463325252u;

        (void) state;
        for (int i = 0; i < 20000; i++) {
                double v, back;
                char text[40];
                int digits;

                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                memcpy(&v, &x, sizeof(v));
                if (i % 3 == 1)
                        v = (double) (int64_t) (x >> 30) / 1000.0; /* what sources measure */
                if (i % 3 == 2)
                        v = ldexp((double) (x >> 11), -1074); /* subnormal ones */
                if (!isfinite(v))
                        continue;
                infp_str_clear(&s);
                infp_str_f64(&s, v);
                assert_int_equal(infp_parse_f64(s.data, s.size, &back), 0);
                assert_memory_equal(&back, &v, sizeof(v));
                digits = significant(s.data);
                if (digits > 1) {
                        snprintf(text, sizeof(text), "%.*e", digits - 2, v);
                        if (strtod(text, NULL) == v)
                                fail_msg("%s is longer than %s", s.data, text);
                }
        }
}

static void other_locale(void **state)
{
        const char *fixtures = getenv("INFP_FIXTURES");
        infp_autostr struct infp_str s = { 0 };
        char path[4096];

        if (fixtures) {
                snprintf(path, sizeof(path), "%s/../../.deps/locale", fixtures);
                setenv("LOCPATH", path, 1);
        }
        if (!setlocale(LC_ALL, "de_DE.UTF-8"))
                SKIP_BECAUSE("there is no locale de_DE.UTF-8 (tools/setup check makes it)");
        doubles(state);
        infp_str_printf(&s, "%.1f", 0.5);
        assert_string_equal(s.data, "0.5");
        /* The process's own locale is still there. */
        snprintf(path, sizeof(path), "%.1f", 0.5);
        assert_string_equal(path, "0,5");
        setlocale(LC_ALL, "C");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(grows),          cmocka_unit_test(takes),        cmocka_unit_test(fails_once),
                cmocka_unit_test(prints),         cmocka_unit_test(integers),     cmocka_unit_test(doubles),
                cmocka_unit_test(random_doubles), cmocka_unit_test(other_locale),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
