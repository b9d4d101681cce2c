/* Numbers of the driver in words, and what each error means for what is asked next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collectors/gpu/nvidia/nvidia.h"

static void event_reasons(void **state)
{
        static const struct {
                uint64_t bits;
                const char *words;
        } cases[] = {
                { 0, "none" },
                { 1, "gpu_idle" },
                { 0x4, "sw_power_cap" },
                { 0x24, "sw_power_cap, sw_thermal_slowdown" },
                { 0x1ff, "gpu_idle, applications_clocks_setting, sw_power_cap, hw_slowdown, sync_boost, "
                         "sw_thermal_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown, display_clock_setting" },
                { 0x204, "sw_power_cap, 0x200" },
                { UINT64_C(1) << 63, "0x8000000000000000" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char text[256], small[8];

                assert_int_equal(infp_nvidia_event_words(cases[i].bits, text, sizeof(text)), strlen(cases[i].words));
                assert_string_equal(text, cases[i].words);
                infp_nvidia_event_words(cases[i].bits, small, sizeof(small)); /* cut, never beyond */
                assert_int_equal(strncmp(small, text, strlen(small)), 0);
        }
}

static void versions_and_actions(void **state)
{
        static const struct {
                int number;
                const char *text;
        } cases[] = { { 12080, "12.8" }, { 12040, "12.4" }, { 13000, "13.0" }, { 11020, "11.2" }, { 9020, "9.2" } };
        char text[16];

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                infp_nvidia_cuda_version(cases[i].number, text);
                assert_string_equal(text, cases[i].text);
        }
        assert_string_equal(infp_nvidia_recovery_word(0), "none");
        assert_string_equal(infp_nvidia_recovery_word(4), "drain and reset");
        assert_string_equal(infp_nvidia_recovery_word(5), "recover IMEX domain");
        assert_null(infp_nvidia_recovery_word(6));
        assert_null(infp_nvidia_recovery_word(UINT64_MAX));
}

/* An error belongs to the GPU, to the question for good, or to this moment: never to two of them. */
static void errors_have_one_meaning(void **state)
{
        static const int faults[] = { 1, 9, 11, 15, 16, 18, 28 }, refusals[] = { 2, 3, 4, 13, 14, 17, 25, 26 },
                         moments[] = { 6, 7, 10, 19, 20, 21, 23, 27, 999, 12345, -1 };

        (void) state;
        for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
                assert_true(infp_nvidia_is_fault(faults[i]));
                assert_false(infp_nvidia_is_refusal(faults[i]));
                assert_true(strlen(infp_nvidia_reason(faults[i])) > 10);
        }
        for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
                assert_true(infp_nvidia_is_refusal(refusals[i]));
                assert_false(infp_nvidia_is_fault(refusals[i]));
        }
        for (size_t i = 0; i < sizeof(moments) / sizeof(*moments); i++)
                assert_false(infp_nvidia_is_fault(moments[i]) || infp_nvidia_is_refusal(moments[i]));
        assert_int_equal(infp_nvidia_state(NVML_NO_PERMISSION), INFP_DENIED);
        assert_int_equal(infp_nvidia_state(NVML_NOT_SUPPORTED), INFP_ABSENT);
        assert_int_equal(infp_nvidia_state(NVML_GPU_IS_LOST), INFP_BROKEN);
        assert_non_null(strstr(infp_nvidia_fix(NVML_LIB_RM_VERSION_MISMATCH), "restart"));
        assert_null(infp_nvidia_fix(NVML_NOT_SUPPORTED));
        assert_non_null(infp_nvidia_reason(31337));
}

/* A refused call is not made again; a lost GPU is asked nothing more. */
static void what_is_asked_next(void **state)
{
        static struct nvidia_device device;

        (void) state;
        assert_true(infp_nvidia_wants(&device, GPU_FAN_SPEED));
        assert_true(infp_nvidia_took(&device, GPU_FAN_SPEED, NVML_SUCCESS));
        assert_false(infp_nvidia_took(&device, GPU_FAN_SPEED, NVML_TIMEOUT));
        assert_true(infp_nvidia_wants(&device, GPU_FAN_SPEED));
        assert_false(infp_nvidia_took(&device, GPU_FAN_SPEED, NVML_NOT_SUPPORTED));
        assert_false(infp_nvidia_wants(&device, GPU_FAN_SPEED));
        assert_int_equal(device.why[GPU_FAN_SPEED], NVML_NOT_SUPPORTED);
        infp_nvidia_lacks(&device, GPU_PROCESSES); /* a cell of the second word of bits */
        assert_false(infp_nvidia_wants(&device, GPU_PROCESSES));
        assert_true(infp_nvidia_wants(&device, GPU_POWER_DRAW));
        assert_false(infp_nvidia_took(&device, GPU_POWER_DRAW, NVML_GPU_IS_LOST));
        assert_false(infp_nvidia_wants(&device, GPU_POWER_DRAW));
        assert_false(infp_nvidia_wants(&device, GPU_TEMPERATURE));
        assert_int_equal(device.fault, NVML_GPU_IS_LOST);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(event_reasons),
                cmocka_unit_test(versions_and_actions),
                cmocka_unit_test(errors_have_one_meaning),
                cmocka_unit_test(what_is_asked_next),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
