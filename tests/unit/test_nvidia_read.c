/* What is made of a driver's answers: energy, counters that wrap, memory whose parts do not add up, calls that fall back. The
 * driver is a table of functions of this file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collectors/gpu/nvidia/nvidia.h"

static struct nvidia nvidia;
static struct nvidia_device device;
static struct infp_row row;
static char text[4096];
static struct infp_env env;

static struct nvidia_reading begin(uint64_t t_ns)
{
        row = (struct infp_row){ .text = text, .text_cap = sizeof(text) };
        infp_row_begin(&row, &infp_table_nvidia, t_ns);
        return (struct nvidia_reading){
                .nvidia = &nvidia, .device = &device, .env = &env, .row = &row, .t_ns = t_ns, .is_slow = true
        };
}

static int new_driver(void **state)
{
        (void) state;
        memset(&nvidia, 0, sizeof(nvidia));
        memset(&device, 0, sizeof(device));
        strcpy(nvidia.driver, "590.44.01"); /* with all fields */
        infp_nvidia_ask_anew(&device);
        return 0;
}

static bool says(unsigned cell, const char *word)
{
        size_t size;
        const char *at = infp_row_text(&row, cell, &size);

        return size == strlen(word) && !memcmp(at, word, size);
}

static uint64_t energy_mj;
static int energy_result;

static int give_energy(nvml_device d, uint64_t *ret)
{
        (void) d;
        *ret = energy_mj;
        return energy_result;
}

static void energy_by_the_counter(void **state)
{
        static const struct {
                uint64_t t_ms, mj;
                int result;
                double joules, seconds; /* NAN: none */
        } steps[] = {
                { 1000, 500000000, NVML_SUCCESS, 0, 0 },      { 2000, 500200000, NVML_SUCCESS, 200, 1 },
                { 3000, 0, NVML_TIMEOUT, NAN, NAN },          /* silent for once */
                { 4000, 500600000, NVML_SUCCESS, 600, 3 },    /* and nothing of it is lost */
                { 5000, 50000, NVML_SUCCESS, 600, 3 },        /* the driver was loaded anew, at some moment */
                { 6000, 900000000000, NVML_SUCCESS, 600, 3 }, /* set, not counted */
                { 7000, 900000100000, NVML_SUCCESS, 700, 4 },
        };

        (void) state;
        nvidia.nvml.DeviceGetTotalEnergyConsumption = give_energy;
        for (size_t i = 0; i < INFP_COUNT(steps); i++) {
                const struct nvidia_reading reading = begin(steps[i].t_ms * 1000000);

                energy_mj = steps[i].mj;
                energy_result = steps[i].result;
                infp_nvidia_read_energy(&reading);
                if (isnan(steps[i].joules)) {
                        assert_false(infp_row_has(&row, GPU_ENERGY_JOULES));
                        continue;
                }
                assert_true(fabs(row.cell[GPU_ENERGY_JOULES].f64 - steps[i].joules) < 1e-9);
                assert_true(fabs(row.cell[GPU_ENERGY_MEASURED].f64 - steps[i].seconds) < 1e-9);
                assert_int_equal(row.cell[GPU_ENERGY_MJ].u64, steps[i].mj);
                assert_true(says(GPU_ENERGY_SOURCE, "counter") && says(GPU_ENERGY_QUALITY, "measured"));
        }
}

/* Power is integrated by the trapezoid rule; across a gap it is not known. */
static void energy_by_power(void **state)
{
        static const struct {
                uint64_t t_ms;
                double watts, joules, seconds; /* NAN: no reading */
        } steps[] = {
                { 1000, 100, 0, 0 },     { 2000, 300, 200, 1 },    { 2500, 300, 350, 1.5 },
                { 3000, NAN, NAN, NAN }, { 4000, 100, 350, 1.5 }, /* what was drawn meanwhile is not known */
                { 5000, 100, 450, 2.5 }, { 20000, 100, 450, 2.5 },
        };

        (void) state;
        energy_result = NVML_NOT_SUPPORTED;
        nvidia.nvml.DeviceGetTotalEnergyConsumption = give_energy;
        for (size_t i = 0; i < INFP_COUNT(steps); i++) {
                const struct nvidia_reading reading = begin(steps[i].t_ms * 1000000);

                if (!isnan(steps[i].watts))
                        infp_row_f64(&row, GPU_POWER_INSTANT, steps[i].watts);
                infp_nvidia_read_energy(&reading);
                assert_false(infp_row_has(&row, GPU_ENERGY_MJ));
                assert_int_equal(infp_row_has(&row, GPU_ENERGY_JOULES), !isnan(steps[i].joules));
                if (isnan(steps[i].joules))
                        continue;
                assert_true(fabs(row.cell[GPU_ENERGY_JOULES].f64 - steps[i].joules) < 1e-9);
                assert_true(fabs(row.cell[GPU_ENERGY_MEASURED].f64 - steps[i].seconds) < 1e-9);
                assert_true(says(GPU_ENERGY_SOURCE, "instant power") && says(GPU_ENERGY_QUALITY, "estimated"));
        }
}

/* Virtual GPUs have a counter that is always 0. */
static void energy_of_a_counter_that_counts_nothing(void **state)
{
        const struct nvidia_reading reading = begin(1000);

        (void) state;
        energy_mj = 0;
        energy_result = NVML_SUCCESS;
        nvidia.nvml.DeviceGetTotalEnergyConsumption = give_energy;
        infp_row_f64(&row, GPU_POWER_DRAW, 50);
        infp_nvidia_read_energy(&reading);
        assert_false(infp_row_has(&row, GPU_ENERGY_MJ));
        assert_true(says(GPU_ENERGY_SOURCE, "power"));
}

static uint64_t pcie_bytes;
static int n_asked;

static int give_fields(nvml_device d, int n, struct nvml_field *fields)
{
        (void) d;
        n_asked = n;
        for (int i = 0; i < n; i++) {
                fields[i].result = NVML_NOT_SUPPORTED;
                if (fields[i].id == NVML_FIELD_PCIE_TX) {
                        fields[i].result = NVML_SUCCESS;
                        fields[i].type = NVML_UNSIGNED_LONG_LONG;
                        fields[i].value.u64 = pcie_bytes;
                } else if (fields[i].id == NVML_FIELD_NVLINK_TX) {
                        fields[i].result = fields[i].scope == UINT32_MAX ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
                        fields[i].type = NVML_UNSIGNED_LONG;
                        fields[i].value.u64 = 3;
                } else if (fields[i].id == NVML_FIELD_MEMORY_TEMPERATURE) {
                        fields[i].result = NVML_SUCCESS; /* "not available", without a code */
                        fields[i].type = NVML_UNSIGNED_INT;
                        fields[i].value.u32 = NVML_NONE_U32;
                } else if (fields[i].id == NVML_FIELD_POWER_INSTANT && fields[i].scope == NVML_SCOPE_GPU) {
                        fields[i].result = NVML_SUCCESS;
                        fields[i].type = NVML_UNSIGNED_INT;
                        fields[i].value.u32 = 402125;
                }
        }
        return NVML_SUCCESS;
}

static void counters_of_32_bits_wrap(void **state)
{
        static const struct {
                uint64_t now, sum;
        } steps[] = {
                { 4294967000, 0 },
                { 4294967295, 295 },
                { 4, 300 },                           /* around: 1 to 0, and 4 */
                { UINT64_C(6000000004), 6000000300 }, /* it has 64 bits after all */
                { 100, 6000000400 },                  /* so a smaller one began anew */
        };

        (void) state;
        nvidia.nvml.DeviceGetFieldValues = give_fields;
        for (size_t i = 0; i < INFP_COUNT(steps); i++) {
                const struct nvidia_reading reading = begin(1000 + i);

                pcie_bytes = steps[i].now;
                infp_nvidia_read_fields(&reading);
                assert_int_equal(row.cell[GPU_PCIE_TX_BYTES].i64, steps[i].sum);
                assert_int_equal(row.cell[GPU_NVLINK_TX_BYTES].i64, 3 * 1024);
                assert_false(infp_row_has(&row, GPU_TEMPERATURE_MEMORY));
                assert_true(fabs(row.cell[GPU_POWER_INSTANT].f64 - 402.125) < 1e-9);
                /* What was refused is not asked for again. */
                assert_int_equal(n_asked, i ? 4 : 23);
        }
        assert_true(infp_nvidia_wants(&device, GPU_TEMPERATURE_MEMORY));
        assert_false(infp_nvidia_wants(&device, GPU_PCIE_RX_BYTES));
}

static uint64_t violation_ns, violation_field;

static int give_violation(nvml_device d, int policy, struct nvml_violation *ret)
{
        (void) d;
        *ret = (struct nvml_violation){ .violation_ns = policy == NVML_POLICY_POWER ? violation_ns : 0 };
        return NVML_SUCCESS;
}

static int give_violation_field(nvml_device d, int n, struct nvml_field *fields)
{
        (void) d;
        for (int i = 0; i < n; i++) {
                fields[i].result = NVML_NOT_SUPPORTED;
                if (fields[i].id != NVML_FIELD_VIOLATION_POWER)
                        continue;
                fields[i].result = NVML_SUCCESS;
                fields[i].type = NVML_UNSIGNED_LONG_LONG;
                fields[i].value.u64 = violation_field;
        }
        return NVML_SUCCESS;
}

static int64_t violation_of(uint64_t by_call, uint64_t by_field)
{
        const struct nvidia_reading reading = begin(1000);

        violation_ns = by_call;
        violation_field = by_field;
        infp_nvidia_read_fields(&reading);
        return row.cell[GPU_VIOLATION_POWER].i64;
}

/* A field in microseconds is found out when both have counted something, and the call is used from then on. */
static void violations_in_another_unit(void **state)
{
        (void) state;
        nvidia.nvml.DeviceGetFieldValues = give_violation_field;
        nvidia.nvml.DeviceGetViolationStatus = give_violation;
        assert_int_equal(violation_of(0, 0), 0);
        assert_int_equal(violation_of(5000000, 5000), 5000000);
        assert_int_equal(violation_of(6000000, 6000), 6000000);
        new_driver(NULL);
        nvidia.nvml.DeviceGetFieldValues = give_violation_field;
        nvidia.nvml.DeviceGetViolationStatus = give_violation;
        assert_int_equal(violation_of(5000000, 5000100), 5000100);
        assert_int_equal(violation_of(1, 7000000), 7000000); /* compared once */
}

static struct nvml_memory_v2 memory_v2;
static int memory_result, n_v2;

static int give_memory_v2(nvml_device d, struct nvml_memory_v2 *ret)
{
        (void) d;
        n_v2++;
        if (ret->version != 0x02000028)
                return NVML_ARGUMENT_VERSION_MISMATCH;
        ret->total = memory_v2.total;
        ret->reserved = memory_v2.reserved;
        ret->free = memory_v2.free;
        ret->used = memory_v2.used;
        return memory_result;
}

static int give_memory(nvml_device d, struct nvml_memory *ret)
{
        (void) d;
        *ret = (struct nvml_memory){ .total = 1000, .free = 700, .used = 300 };
        return NVML_SUCCESS;
}

static void memory_that_adds_up_is_trusted(void **state)
{
        struct nvml_memory_v2 memory;
        bool has_old = false;

        (void) state;
        nvidia.nvml.DeviceGetMemoryInfo_v2 = give_memory_v2;
        nvidia.nvml.DeviceGetMemoryInfo = give_memory;
        memory_v2 = (struct nvml_memory_v2){ .total = 1000, .reserved = 100, .free = 700, .used = 200 };
        memory_result = NVML_SUCCESS;
        n_v2 = 0;
        assert_int_equal(infp_nvidia_memory(&nvidia, NULL, &has_old, &memory), NVML_SUCCESS);
        assert_int_equal(memory.used, 200);
        assert_false(has_old);
        memory_v2.used = 300; /* the reserved part is in it: then it is not what its name says */
        assert_int_equal(infp_nvidia_memory(&nvidia, NULL, &has_old, &memory), NVML_SUCCESS);
        assert_true(has_old);
        assert_int_equal(memory.used, 300);
        assert_int_equal(memory.reserved, 0);
        assert_int_equal(infp_nvidia_memory(&nvidia, NULL, &has_old, &memory), NVML_SUCCESS);
        assert_int_equal(n_v2, 2); /* not asked again */
        /* A lost GPU is no reason to fall back. */
        has_old = false;
        memory_result = NVML_GPU_IS_LOST;
        assert_int_equal(infp_nvidia_memory(&nvidia, NULL, &has_old, &memory), NVML_GPU_IS_LOST);
        assert_false(has_old);
        nvidia.nvml.DeviceGetMemoryInfo = NULL;
        nvidia.nvml.DeviceGetMemoryInfo_v2 = NULL;
        assert_int_equal(infp_nvidia_memory(&nvidia, NULL, &has_old, &memory), NVML_FUNCTION_NOT_FOUND);
}

/* A library with nothing but what is required: no cell, no crash, and each has its reason. */
static void a_library_without_calls(void **state)
{
        const struct nvidia_reading reading = begin(1000);

        (void) state;
        infp_nvidia_read(&reading);
        infp_nvidia_read_lesser(&reading);
        infp_nvidia_read_slow(&reading);
        infp_nvidia_read_fixed(&reading);
        infp_nvidia_read_fields(&reading);
        infp_nvidia_read_energy(&reading);
        infp_nvidia_read_gpm(&reading);
        infp_nvidia_mig_find(&reading);
        assert_int_equal(row.valid[0], 0);
        assert_int_equal(row.valid[1], 0);
        assert_int_equal(device.fault, 0);
        assert_int_equal(device.why[GPU_UTILIZATION_GPU], NVML_FUNCTION_NOT_FOUND);
        assert_int_equal(device.why[GPU_GPM_GRAPHICS], NVML_FUNCTION_NOT_FOUND);
        assert_int_equal(device.why[GPU_VIOLATION_POWER], NVML_FUNCTION_NOT_FOUND);
        assert_int_equal(device.why[GPU_MIG_MODE], NVML_FUNCTION_NOT_FOUND);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(energy_by_the_counter, new_driver),
                cmocka_unit_test_setup(energy_by_power, new_driver),
                cmocka_unit_test_setup(energy_of_a_counter_that_counts_nothing, new_driver),
                cmocka_unit_test_setup(counters_of_32_bits_wrap, new_driver),
                cmocka_unit_test_setup(violations_in_another_unit, new_driver),
                cmocka_unit_test_setup(memory_that_adds_up_is_trusted, new_driver),
                cmocka_unit_test_setup(a_library_without_calls, new_driver),
        };

        env.root_fd = -1; /* nothing is read from files */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
