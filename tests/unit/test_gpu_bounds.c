/* Values of a GPU that cannot be: each is absent with a reason, alone, and is there again when it can be. */
#include "machine.h"

#include "collectors/gpu/bounds.h"
#include "collectors/gpu/table.h"

static const char uuid[] = "GPU-1";

static struct infp_row *begin(struct machine *m)
{
        struct infp_row *row = infp_emit_begin(&m->emit, &infp_table_nvidia, m->clock_ns += 1000000000);

        infp_row_i64(row, GPU_INDEX, 0);
        infp_row_str(row, GPU_UUID, uuid);
        infp_row_f64(row, GPU_POWER_LIMIT_ENFORCED, 100); /* it was lowered */
        infp_row_f64(row, GPU_POWER_LIMIT_MAX, 450);
        infp_row_i64(row, GPU_MEMORY_TOTAL_BYTES, INT64_C(22) << 30);
        return row;
}

static void test_bounds(void **state)
{
        static const struct {
                unsigned cell;
                double most, beyond;
        } cases[] = {
                { GPU_UTILIZATION_GPU, 100, 4294967295 },
                { GPU_GPM_TENSOR, 100.5, 250 },
                { GPU_FAN_SPEED, 110, 1000 },
                { GPU_POWER_DRAW, 900, 2000000 },
                { GPU_POWER_INSTANT, 1800, 1801 },
                { GPU_POWER_LIMIT_DEFAULT, 450, 4294967 },
                { GPU_TEMPERATURE, -5, -1000 },
                { GPU_TEMPERATURE_HOTSPOT, 110, 65535 },
                { GPU_CLOCK_MEM, 14001, 4294967295 },
                { GPU_MEMORY_USED_BYTES, 23622320128., 23622320129. },
                { GPU_ENERGY_MJ, 9e14, 9223372036854775808. },
        };
        struct machine *m = machine_open("/");
        char reason[256];

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct infp_column *c = infp_table_column(&infp_table_nvidia, INFP_FIXED_COLUMNS + cases[i].cell);

                for (int round = 0; round < 3; round++) { /* sound, not sound, sound again */
                        const double v = round == 1 ? cases[i].beyond : cases[i].most;
                        struct infp_row *row = begin(m);

                        if (c->type == INFP_F64)
                                infp_row_f64(row, cases[i].cell, v);
                        else if (c->type == INFP_U64)
                                infp_row_u64(row, cases[i].cell, (uint64_t) v);
                        else
                                infp_row_i64(row, cases[i].cell, (int64_t) v);
                        infp_gpu_bound(&m->emit, uuid);
                        infp_gpu_bound(&m->emit, uuid); /* a second look says nothing new */
                        infp_emit_commit(&m->emit);
                        if (infp_row_has(row, cases[i].cell) != (round != 1))
                                fail_msg("%s of %.17g", c->name, v);
                        assert_true(infp_row_has(row, GPU_POWER_LIMIT_MAX) &&
                                    infp_row_has(row, GPU_MEMORY_TOTAL_BYTES));
                        assert_string_equal(machine_state(m, "nvidia", c->name, reason, sizeof(reason)),
                                            round == 0   ? ""
                                            : round == 1 ? "broken"
                                                         : "ok");
                        assert_true(round != 1 || strstr(reason, "which is impossible: this GPU has "));
                }
        }
        machine_close(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_bounds) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
