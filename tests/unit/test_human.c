/* Numbers as people read them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/human.h"
#include "base/mem.h"

static void test_human(void **state)
{
        static const struct {
                double value;
                const char *base, *unit, *text;
                bool rate;
        } cases[] = {
                { 0, "bytes", "bytes", "0 B", false },
                { 1023, "bytes", "bytes", "1,023 B", false },
                { 1536, "bytes", "bytes", "1.50 KiB", false },
                { 1073741824.0 * 1.25, "bytes", "bytes", "1.25 GiB", false },
                { 1023.9 * 1024, "bytes", "bytes", "1.00 MiB", false },
                { 1048576, "bytes", "bytes", "1.00 MiB/s", true },
                { 0, "seconds", "cs", "0 s", false },
                { 58.321, "seconds", "cs", "58.32 s", false },
                { 0.0123, "seconds", "ns", "12.3 ms", false },
                { 0.0000123, "seconds", "ns", "12.3 us", false },
                { 725, "seconds", "s", "12 min 05 s", false },
                { 86403, "seconds", "s", "24 h 00 min 03 s", false },
                { 0.971, "seconds", "cs", "97.1 %", true },
                { 0.6875, "ratio", "%", "68.8 %", false },
                { 0.45, "ratio", "ratio", "0.450", false },
                { 2.3e9, "hertz", "MHz", "2,300 MHz", false },
                { 1234567, "", "count", "1,234,567", false },
                { 150.5, "", "count", "150.5/s", true },
                { 47.5, "joules", "J", "47.50 J", false },
                { 18.54, "tokens", "tokens", "18.54 tok/s", true },
                { 9999, "tokens", "tokens", "9,999 tok/s", true },
                { 99999, "tokens", "tokens", "100 ktok/s", true },
                { 123456, "tokens", "tokens", "123 ktok/s", true },
                { 1234567, "tokens", "tokens", "1.23 Mtok/s", true },
                { 1234567, "tokens", "tokens", "1,234,567", false },
                { 47.5, "joules", "J", "47.50 W", true }, /* joules a second */
                { NAN, "bytes", "bytes", "-", false },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_human_value(&text, cases[i].value, cases[i].base, cases[i].unit, cases[i].rate);
                assert_string_equal(text.data, cases[i].text);
        }
}

/* 1, 10 ... 10^12 times a number that has a fraction. */
static void test_sizes(void **state)
{
        static const struct {
                const char *number, *rate, *tokens, *bytes, *seconds;
        } cases[] = {
                { "1.23", "1.23/s", "1.23 tok/s", "1 B", "1.23 s" },
                { "12.35", "12.35/s", "12.35 tok/s", "12 B", "12.35 s" },
                { "123.5", "123.5/s", "123.5 tok/s", "123 B", "123.46 s" },
                { "1,235", "1,235/s", "1,235 tok/s", "1.21 KiB", "20 min 35 s" },
                { "12,346", "12,346/s", "12.3 ktok/s", "12.1 KiB", "3 h 25 min 46 s" },
                { "123,457", "123,457/s", "123 ktok/s", "121 KiB", "34 h 17 min 37 s" },
                { "1,234,568", "1.23 M/s", "1.23 Mtok/s", "1.18 MiB", "342 h 56 min 08 s" },
                { "12,345,679", "12.3 M/s", "12.3 Mtok/s", "11.8 MiB", "3429 h 21 min 19 s" },
                { "123,456,789", "123 M/s", "123 Mtok/s", "118 MiB", "34293 h 33 min 09 s" },
                { "1,234,567,890", "1.23 G/s", "1.23 Gtok/s", "1.15 GiB", "1,234,567,890 s" },
                { "12,345,678,901", "12.3 G/s", "12.3 Gtok/s", "11.5 GiB", "12,345,678,901 s" },
                { "123,456,789,012", "123 G/s", "123 Gtok/s", "115 GiB", "123,456,789,012 s" },
                { "1,234,567,890,123", "1.23 T/s", "1.23 Ttok/s", "1.12 TiB", "1,234,567,890,123 s" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                const double v = 1.2345678901234 * pow(10, (double) i);

                assert_string_equal(infp_number(v).text, cases[i].number);
                assert_string_equal(infp_human(v, "", "count", true).text, cases[i].rate);
                assert_string_equal(infp_human(v, "tokens", "tokens", true).text, cases[i].tokens);
                assert_string_equal(infp_human(v, "bytes", "bytes", false).text, cases[i].bytes);
                assert_string_equal(infp_human(v, "seconds", "s", false).text, cases[i].seconds);
        }
}

static void test_numbers(void **state)
{
        static const struct {
                double value;
                const char *text;
        } cases[] = {
                { 0, "0" },
                { -0.0, "0" },
                { 1, "1" },
                { 999, "999" },
                { 1000, "1,000" },
                { 90000, "90,000" },
                { 143314.2, "143,314" },
                { 1e12, "1,000,000,000,000" },
                { -1234.5, "-1,235" },
                { 999.97, "1,000" },
                { 99.996, "100.0" },
                { 0.45, "0.450" },
                { 0.0123, "0.0123" },
                { 0.000123, "0.000123" },
                { 0.99996, "1.00" },
                { 2e-9, "2e-09" },
                { 1e18, "1e+18" },
                { NAN, "-" },
                { INFINITY, "-" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++)
                assert_string_equal(infp_number(cases[i].value).text, cases[i].text);
        assert_string_equal(infp_fixed(1234567.25, 1).text, "1,234,567.3");
        assert_string_equal(infp_fixed(-0.01, 1).text, "0.0");
        assert_string_equal(infp_fixed(-0.06, 1).text, "-0.1");
        assert_string_equal(infp_fixed(100, 0).text, "100");
        assert_string_equal(infp_fixed(NAN, 1).text, "-");
        assert_string_equal(infp_fixed(1e300, 1).text, "1e+300");
        assert_string_equal(infp_count(18000000000000).text, "18,000,000,000,000");
        assert_string_equal(infp_human(0.9996, "seconds", "s", false).text, "1.00 s");
        assert_string_equal(infp_human(-725, "seconds", "s", false).text, "-12 min 05 s");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_human),
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_numbers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
