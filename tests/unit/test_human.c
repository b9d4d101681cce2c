/* Numbers as people read them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "view/human.h"

static void test_human(void **state)
{
        static const struct {
                double value;
                const char *base, *unit, *text;
                bool rate;
        } cases[] = {
                { 0, "bytes", "bytes", "0 B", false },
                { 1023, "bytes", "bytes", "1023 B", false },
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
                { 2.3e9, "hertz", "MHz", "2300 MHz", false },
                { 1234567, "", "count", "1234567", false },
                { 150.5, "", "count", "150.5/s", true },
                { 47.5, "joules", "J", "47.50 J", false },
                { 18.54, "tokens", "tokens", "18.54 tok/s", true },
                { 99999, "tokens", "tokens", "99999 tok/s", true },
                { 123456, "tokens", "tokens", "123 ktok/s", true },
                { 1234567, "tokens", "tokens", "1.23 Mtok/s", true },
                { 1234567, "tokens", "tokens", "1234567", false },
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_human),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
