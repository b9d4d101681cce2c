#include <errno.h>
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
#include "skip_because.h"

static void unsigned_numbers(void **state)
{
        static const struct {
                const char *text;
                int r;
                uint64_t v;
        } cases[] = {
                { "0", 0, 0 },
                { "7", 0, 7 },
                { "007", 0, 7 },
                { "18446744073709551615", 0, UINT64_MAX },
                { "00000000000000000000000000000018446744073709551615", 0, UINT64_MAX },
                { "18446744073709551616", -ERANGE, 0 },
                { "99999999999999999999999999", -ERANGE, 0 },
                { "", -EBADMSG, 0 },
                { "-1", -EBADMSG, 0 },
                { "+1", -EBADMSG, 0 },
                { " 1", -EBADMSG, 0 },
                { "1 ", -EBADMSG, 0 },
                { "1\n", -EBADMSG, 0 },
                { "0x10", -EBADMSG, 0 },
                { "1.0", -EBADMSG, 0 },
                { "99999999999999999999999999x", -EBADMSG, 0 }, /* rubbish, however large */
                { "max", -EBADMSG, 0 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                uint64_t v = 42;

                if (infp_parse_u64(cases[i].text, strlen(cases[i].text), &v) != cases[i].r)
                        fail_msg("%s", cases[i].text);
                assert_int_equal(v, cases[i].r ? 42 : cases[i].v);
        }
}

static void signed_numbers(void **state)
{
        static const struct {
                const char *text;
                int r;
                int64_t v;
        } cases[] = {
                { "0", 0, 0 },
                { "-0", 0, 0 },
                { "-1", 0, -1 },
                { "9223372036854775807", 0, INT64_MAX },
                { "9223372036854775808", -ERANGE, 0 },
                { "-9223372036854775808", 0, INT64_MIN },
                { "-9223372036854775809", -ERANGE, 0 },
                { "-", -EBADMSG, 0 },
                { "--1", -EBADMSG, 0 },
                { "", -EBADMSG, 0 },
                { "+1", -EBADMSG, 0 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                int64_t v = 42;

                if (infp_parse_i64(cases[i].text, strlen(cases[i].text), &v) != cases[i].r)
                        fail_msg("%s", cases[i].text);
                assert_int_equal(v, cases[i].r ? 42 : cases[i].v);
        }
}

/* The bytes behind the span are digits: nothing may be read there. */
static void bounded(void **state)
{
        uint64_t u;
        int64_t i;
        double f;

        (void) state;
        assert_int_equal(infp_parse_u64("12345", 2, &u), 0);
        assert_int_equal(u, 12);
        assert_int_equal(infp_parse_i64("-12345", 3, &i), 0);
        assert_int_equal(i, -12);
        assert_int_equal(infp_parse_f64("1.5e300", 3, &f), 0);
        assert_true(f == 1.5);
}

static void doubles(void **state)
{
        static const struct {
                const char *text;
                int r;
                double v;
        } cases[] = {
                { "0", 0, 0.0 },          { "0.25", 0, 0.25 },
                { "-0.25", 0, -0.25 },    { ".5", 0, 0.5 },
                { "5.", 0, 5.0 },         { "1e3", 0, 1000.0 },
                { "1E+3", 0, 1000.0 },    { "1e-3", 0, 0.001 },
                { "0.1", 0, 0.1 },        { "1.7976931348623157e308", 0, DBL_MAX },
                { "5e-324", 0, 5e-324 },  { "1e-400", 0, 0.0 },
                { "1e309", -ERANGE, 0 },  { "-1e309", -ERANGE, 0 },
                { "", -EBADMSG, 0 },      { ".", -EBADMSG, 0 },
                { "-", -EBADMSG, 0 },     { "-.", -EBADMSG, 0 },
                { "1e", -EBADMSG, 0 },    { "1e+", -EBADMSG, 0 },
                { "e5", -EBADMSG, 0 },    { "+1", -EBADMSG, 0 },
                { "0,5", -EBADMSG, 0 },   { "1.2.3", -EBADMSG, 0 },
                { " 1", -EBADMSG, 0 },    { "1 ", -EBADMSG, 0 },
                { "0x1p3", -EBADMSG, 0 }, { "nan", -EBADMSG, 0 },
                { "inf", -EBADMSG, 0 },   { "infinity", -EBADMSG, 0 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                double v = 42;

                if (infp_parse_f64(cases[i].text, strlen(cases[i].text), &v) != cases[i].r)
                        fail_msg("%s", cases[i].text);
                assert_true(v == (cases[i].r ? 42 : cases[i].v));
        }
}

static void long_double_texts(void **state)
{
        char text[2000];
        double v;

        (void) state;
        memset(text, '0', sizeof(text));
        text[0] = '1';
        text[1] = '.';
        assert_int_equal(infp_parse_f64(text, 1100, &v), 0);
        assert_true(v == 1.0);
        assert_int_equal(infp_parse_f64(text, sizeof(text), &v), -EBADMSG);
}

struct scaled {
        const char *text;
        int r;
        uint64_t v;
};

static void check_scaled(int (*parse)(const char *, uint64_t *), const struct scaled *cases, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                uint64_t v = 42;

                if (parse(cases[i].text, &v) != cases[i].r)
                        fail_msg("%s", cases[i].text);
                assert_int_equal(v, cases[i].r ? 42 : cases[i].v);
        }
}

static void durations(void **state)
{
        static const struct scaled cases[] = {
                { "0", 0, 0 },
                { "1", 0, UINT64_C(1000000000) },
                { "1.5", 0, UINT64_C(1500000000) },
                { "500ms", 0, UINT64_C(500000000) },
                { "0.5ms", 0, UINT64_C(500000) },
                { "30s", 0, UINT64_C(30000000000) },
                { "5m", 0, UINT64_C(300000000000) },
                { "2h", 0, UINT64_C(7200000000000) },
                { "1d", 0, UINT64_C(86400000000000) },
                { "10us", 0, 10000 },
                { "10ns", 0, 10 },
                { "0.1", 0, UINT64_C(100000000) }, /* exact: not 100000000.0000001 */
                { "0.123456789", 0, UINT64_C(123456789) },
                { "0.1234567891234567891234", 0, UINT64_C(123456789) },
                { ".5s", 0, UINT64_C(500000000) },
                { "18446744073.709551615", 0, UINT64_MAX },
                { "18446744073.709551616", -ERANGE, 0 },
                { "99999999999999999999", -ERANGE, 0 },
                { "300000000d", -ERANGE, 0 },
                { "", -EBADMSG, 0 },
                { "s", -EBADMSG, 0 },
                { ".", -EBADMSG, 0 },
                { "-1s", -EBADMSG, 0 },
                { "1 s", -EBADMSG, 0 },
                { "1x", -EBADMSG, 0 },
                { "1sec", -EBADMSG, 0 },
                { "1.2.3s", -EBADMSG, 0 },
                { "1e3", -EBADMSG, 0 },
                { "0,5s", -EBADMSG, 0 },
        };

        (void) state;
        check_scaled(infp_parse_duration, cases, INFP_COUNT(cases));
}

static void sizes(void **state)
{
        static const struct scaled cases[] = {
                { "0", 0, 0 },
                { "512", 0, 512 },
                { "64K", 0, 65536 },
                { "64k", 0, 65536 },
                { "64KiB", 0, 65536 },
                { "16M", 0, 16777216 },
                { "1G", 0, 1073741824 },
                { "1T", 0, UINT64_C(1099511627776) },
                { "1.5K", 0, 1536 },
                { "16777215T", 0, UINT64_C(18446742974197923840) },
                { "16777216T", -ERANGE, 0 },
                { "", -EBADMSG, 0 },
                { "K", -EBADMSG, 0 },
                { "-1K", -EBADMSG, 0 },
                { "1KB", -EBADMSG, 0 }, /* 1000 or 1024? */
                { "1Q", -EBADMSG, 0 },
        };

        (void) state;
        check_scaled(infp_parse_size, cases, INFP_COUNT(cases));
}

/* Under a locale that writes 0,5 all is the same. Set-up makes it, in .deps. */
static void other_locale(void **state)
{
        const char *fixtures = getenv("INFP_FIXTURES");
        char path[4096];

        if (fixtures) {
                snprintf(path, sizeof(path), "%s/../../.deps/locale", fixtures);
                setenv("LOCPATH", path, 1);
        }
        if (!setlocale(LC_ALL, "de_DE.UTF-8"))
                SKIP_BECAUSE("there is no locale de_DE.UTF-8 (tools/setup check makes it)");
        assert_string_equal(localeconv()->decimal_point, ",");
        doubles(state);
        durations(state);
        setlocale(LC_ALL, "C");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(unsigned_numbers),
                cmocka_unit_test(signed_numbers),
                cmocka_unit_test(bounded),
                cmocka_unit_test(doubles),
                cmocka_unit_test(long_double_texts),
                cmocka_unit_test(durations),
                cmocka_unit_test(sizes),
                cmocka_unit_test(other_locale),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
