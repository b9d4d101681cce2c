#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/unit.h"

static void factors(void **state)
{
        /* value in the unit, the same in its base */
        static const struct {
                const struct infp_unit *unit;
                const char *base;
                double value, in_base;
        } cases[] = {
                { &infp_unit_cs, "seconds", 150, 1.5 },
                { &infp_unit_ms, "seconds", 1500, 1.5 },
                { &infp_unit_us, "seconds", 1500000, 1.5 },
                { &infp_unit_ns, "seconds", 1.5e9, 1.5 },
                { &infp_unit_s, "seconds", 1.5, 1.5 },
                { &infp_unit_mib, "bytes", 2, 2097152 },
                { &infp_unit_sectors, "bytes", 3, 1536 },
                { &infp_unit_percent, "ratio", 50, 0.5 },
                { &infp_unit_mhz, "hertz", 3, 3e6 },
                { &infp_unit_uj, "joules", 2e6, 2 },
                { &infp_unit_mj, "joules", 2e3, 2 },
                { &infp_unit_kib_per_s, "bytes_per_second", 2, 2048 },
                { &infp_unit_count, "", 7, 7 },
                { &infp_unit_none, "", 7, 7 },
                { &infp_unit_unix_s, "seconds", 7, 7 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                assert_string_equal(cases[i].unit->base, cases[i].base);
                assert_true(fabs(cases[i].value * cases[i].unit->factor - cases[i].in_base) <=
                            1e-12 * cases[i].in_base);
        }
}

static void names(void **state)
{
        static const struct infp_unit *const units[] = {
                &infp_unit_none,      &infp_unit_count,  &infp_unit_bytes,   &infp_unit_mib,   &infp_unit_cs,
                &infp_unit_s,         &infp_unit_ms,     &infp_unit_us,      &infp_unit_ns,    &infp_unit_percent,
                &infp_unit_ratio,     &infp_unit_mhz,    &infp_unit_celsius, &infp_unit_watts, &infp_unit_joules,
                &infp_unit_uj,        &infp_unit_mj,     &infp_unit_sectors, &infp_unit_pages, &infp_unit_tokens,
                &infp_unit_kib_per_s, &infp_unit_unix_s,
        };

        (void) state;
        /* Each name finds its own unit, so no two share one. */
        for (size_t i = 0; i < INFP_COUNT(units); i++)
                assert_ptr_equal(infp_unit_by_name(units[i]->name), units[i]);
        assert_null(infp_unit_by_name("parsec"));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(factors), cmocka_unit_test(names) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
