#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/rate.h"

static void integers(void **state)
{
        static const struct {
                enum infp_reset reset;
                uint64_t before, after, range, increase;
        } cases[] = {
                { INFP_RESET_NONE, 5, 9, 0, 4 },
                { INFP_RESET_NONE, 9, 5, 0, 0 },
                { INFP_RESET_ZERO, 5, 5, 0, 0 },
                { INFP_RESET_ZERO, 9, 5, 0, 5 },
                { INFP_RESET_ZERO, 9, 0, 0, 0 },
                { INFP_RESET_ZERO, 0, UINT64_MAX, 0, UINT64_MAX },
                { INFP_RESET_WRAP, 5, 9, 100, 4 },
                { INFP_RESET_WRAP, 90, 5, 100, 15 },
                { INFP_RESET_WRAP, 99, 0, 100, 1 },
                { INFP_RESET_WRAP, 90, 5, 0, 0 },    /* range unknown */
                { INFP_RESET_WRAP, 900, 5, 100, 0 }, /* beyond its range: wrong, not a huge number */
                { INFP_RESET_WRAP, 4294967295, 4, UINT64_C(4294967296), 5 },
                { INFP_RESET_WRAP, UINT64_C(262143328849), 17, UINT64_C(262143328850),
                  18 }, /* RAPL's max_energy_range_uj + 1 */
                { INFP_RESET_NONE, (UINT64_C(1) << 53) + 1, (UINT64_C(1) << 53) + 2, 0, 1 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                if (infp_increase_u64(cases[i].reset, cases[i].before, cases[i].after, cases[i].range) !=
                    cases[i].increase)
                        fail_msg("case %zu", i);
        }
}

static void doubles(void **state)
{
        static const struct {
                enum infp_reset reset;
                double before, after, range, increase;
        } cases[] = {
                { INFP_RESET_NONE, 0.5, 0.75, 0, 0.25 }, { INFP_RESET_NONE, 0.75, 0.5, 0, 0 },
                { INFP_RESET_ZERO, 7.5, 0.5, 0, 0.5 },   { INFP_RESET_ZERO, 7.5, -1, 0, 0 },
                { INFP_RESET_WRAP, 7.5, 0.5, 8, 1 },     { INFP_RESET_WRAP, 7.5, 0.5, 0, 0 },
                { INFP_RESET_ZERO, NAN, 5, 0, 0 },       { INFP_RESET_ZERO, 5, NAN, 0, 0 },
                { INFP_RESET_ZERO, 5, INFINITY, 0, 0 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                if (infp_increase_f64(cases[i].reset, cases[i].before, cases[i].after, cases[i].range) !=
                    cases[i].increase)
                        fail_msg("case %zu", i);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(integers), cmocka_unit_test(doubles) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
