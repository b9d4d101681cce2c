/* The collector amdgpu on trees in the shape of real cards. All right answers follow by hand from tests/fixtures/amdgpu-*. */
#include "gpu_tree.h"

#include "base/mem.h"
#include "collectors/gpu/drm/amdgpu_metrics.h"
#include "count_mallocs.h"
#include "model/id.h"

#define CARD0 "sys/class/drm/card0/device/"
#define CARD1 "sys/class/drm/card1/device/"
#define BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"

static void test_mi300x(void **state)
{
        struct gpu_world w;
        const struct kept *k;

        (void) state;
        gpu_world_new(&w, "amdgpu-mi300x", "amdgpu", INFP_MODE_RUN, false, 4242);
        gpu_tick(&w, 1);
        assert_int_equal(machine_count(w.m, "amdgpu"), 2);
        EXPECT(w.m, TEXT("amdgpu", "0", "gUuid", "GPU-d1c5ffa2b3e4f001"), TEXT("amdgpu", "0", "gVendor", "amd"),
               TEXT("amdgpu", "0", "gName", "AMD Instinct MI300X OAM"),
               TEXT("amdgpu", "0", "gPciBusId", "0000:05:00.0"), TEXT("amdgpu", "0", "gDriver", "amdgpu"),
               TEXT("amdgpu", "0", "gArchitecture", "gfx942"), I64("amdgpu", "0", "gNumaNode", 0),
               I64("amdgpu", "1", "gNumaNode", 1), TEXT("amdgpu", "0", "gVbios", "113-M3000100-102"),
               TEXT("amdgpu", "0", "gPerfState", "auto"), I64("amdgpu", "0", "gUtilizationGpu", 87),
               I64("amdgpu", "0", "gUtilizationMem", 41), I64("amdgpu", "1", "gUtilizationGpu", 0),
               ABSENT("amdgpu", "0", "gUtilizationMedia"), I64("amdgpu", "0", "gMemoryTotalBytes", 206141652992),
               I64("amdgpu", "0", "gMemoryTotalMb", 196592), I64("amdgpu", "0", "gMemoryUsedMb", 172032),
               I64("amdgpu", "0", "gMemoryFreeBytes", 25753026560), I64("amdgpu", "0", "gBar1TotalMb", 196592),
               I64("amdgpu", "0", "gBar1FreeMb", 24560), I64("amdgpu", "0", "gSystemMemoryTotalBytes", 270000000000),
               I64("amdgpu", "0", "gSystemMemoryUsedBytes", 20000000));
        /* It has no sensor at the edge. */
        EXPECT(w.m, I64("amdgpu", "0", "gTemperatureC", 71), I64("amdgpu", "0", "gTemperatureHotspotC", 71),
               I64("amdgpu", "0", "gTemperatureMemoryC", 48), I64("amdgpu", "0", "gTemperatureSlowdownC", 100),
               I64("amdgpu", "0", "gTemperatureShutdownC", 105), I64("amdgpu", "0", "gTemperatureMemoryMaxC", 105),
               ABSENT("amdgpu", "0", "gFanSpeed"), ABSENT("amdgpu", "0", "gFanRpm"),
               F64("amdgpu", "0", "gPowerDrawW", 612), F64("amdgpu", "0", "gPowerInstantW", 612),
               ABSENT("amdgpu", "0", "gPowerAverageW"), F64("amdgpu", "0", "gPowerLimitW", 750),
               F64("amdgpu", "0", "gPowerLimitEnforcedW", 750), F64("amdgpu", "0", "gPowerLimitMinW", 0),
               F64("amdgpu", "0", "gPowerLimitMaxW", 750), I64("amdgpu", "0", "gClockGraphicsMhz", 2100),
               I64("amdgpu", "0", "gClockMemMhz", 1300), I64("amdgpu", "0", "gClockSocMhz", 1000),
               I64("amdgpu", "0", "gClockVideoMhz", 29), I64("amdgpu", "0", "gClockGraphicsMaxMhz", 2100),
               I64("amdgpu", "0", "gClockMemMaxMhz", 1300), I64("amdgpu", "0", "gPcieGen", 5),
               I64("amdgpu", "0", "gPcieWidth", 16), I64("amdgpu", "0", "gPcieGenMax", 5),
               I64("amdgpu", "0", "gPcieReplays", 0), I64("amdgpu", "0", "gNvlinkRxBytes", 8192000),
               I64("amdgpu", "0", "gNvlinkTxBytes", 512000), ABSENT("amdgpu", "1", "gNvlinkTxBytes"),
               YES("amdgpu", "0", "gEccEnabled"), I64("amdgpu", "0", "gEccSingleBitErrors", 3),
               I64("amdgpu", "0", "gEccDoubleBitErrors", 0), I64("amdgpu", "0", "gRetiredPagesDoubleBit", 1),
               I64("amdgpu", "0", "gEnergyMj", 1000000000), F64("amdgpu", "0", "gEnergyJoules", 0),
               ABSENT("amdgpu", "0", "gClocksEventReasonsText"), ABSENT("amdgpu", "0", "gMemoryBandwidthKbps"),
               ABSENT("amdgpu", "0", "gProcessCount"),
               TEXT("amdgpu", "0", "gProcesses", "[\"4242: VLLM::EngineCor (171748 MB)\"]"));
        k = gpu_process(&w, "amdgpu_processes", 0, 4242);
        assert_int_equal(gpu_i64(k, "gProcessMemoryBytes"), 175870000LL * 1024); /* KFD says less */
        assert_int_equal(gpu_i64(k, "gProcessSystemMemoryBytes"), 2048 * 1024);
        assert_true(gpu_f64(k, "gProcessOccupancy") == 50); /* 152 of 1216 / 4 */
        assert_int_equal(gpu_i64(k, "gProcessCopyNs"), 1500000000);
        gpu_is_text(k, "gProcessType", "C");
        gpu_is_text(k, "gProcessName", "VLLM::EngineCor");
        gpu_is_text(k, "gContainer", "4f6c2a9e7d1b");
        assert_true(k->cell[kept_cell(k, "gInTree")].b && !k->cell[kept_cell(k, "gPidIsHost")].b);
        assert_int_equal(k->cell[kept_cell(k, "process")].u64, infp_process_id(BOOT_ID, 4242, 4242));
        k = gpu_process(&w, "amdgpu_processes", 1, 4242);
        assert_int_equal(gpu_i64(k, "gProcessMemoryBytes"), 96 * 1024);
        assert_true(gpu_is_absent(k, "gProcessType") && gpu_is_absent(k, "gProcessOccupancy"));
        gpu_world_done(&w);
}

/* Counters of the firmware: energy in 2^-16 J, rounds in which a reason held. */
static void test_mi300x_counts(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-mi300x", "amdgpu", INFP_MODE_HOST, false, 0);
        gpu_tick(&w, 1);
        gpu_set_metrics(w.top, 1, "energy_accumulator = 65576108032"); /* + 612 * 65536 */
        gpu_set_metrics(w.top, 1, "accumulation_counter = 6000");
        gpu_set_metrics(w.top, 1, "ppt_residency_acc = 1700");
        gpu_tick(&w, 1);
        EXPECT(w.m, F64("amdgpu", "0", "gEnergyJoules", 612), TEXT("amdgpu", "0", "gEnergySource", "counter"),
               TEXT("amdgpu", "0", "gEnergyQuality", "measured"), I64("amdgpu", "0", "gClocksEventReasons", 1),
               TEXT("amdgpu", "0", "gClocksEventReasonsText", "power_ppt0"),
               I64("amdgpu", "0", "gViolationPowerNs", 500000000), I64("amdgpu", "0", "gViolationThermalNs", 0),
               F64("amdgpu", "1", "gEnergyJoules", 0), TEXT("amdgpu", "1", "gClocksEventReasonsText", "none"));
        gpu_set_metrics(w.top, 1, "accumulation_counter = 8000");
        gpu_set_metrics(w.top, 1, "hbm_thm_residency_acc = 500");
        gpu_set_metrics(w.top, 1, "socket_thm_residency_acc = 1000");
        gpu_tick(&w, 2);
        EXPECT(w.m, I64("amdgpu", "0", "gViolationPowerNs", 500000000),
               I64("amdgpu", "0", "gViolationThermalNs", 1000000000),
               TEXT("amdgpu", "0", "gClocksEventReasonsText", "thermal_gpu, thermal_mem"));
        /* A counter that begins anew is not 600 kJ. */
        gpu_set_metrics(w.top, 1, "energy_accumulator = 65536");
        gpu_tick(&w, 1);
        EXPECT(w.m, F64("amdgpu", "0", "gEnergyJoules", 612));
        gpu_set_metrics(w.top, 1, "energy_accumulator = 131072");
        gpu_tick(&w, 1);
        EXPECT(w.m, F64("amdgpu", "0", "gEnergyJoules", 613));
        gpu_world_done(&w);
}

/* A counter that has never counted is none: power stands in, and says so. */
static void test_mi300x_without_counter(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-mi300x", "amdgpu", INFP_MODE_HOST, false, 0);
        gpu_set_metrics(w.top, 1, "energy_accumulator = 0");
        gpu_tick(&w, 1);
        gpu_put(&w, CARD1 "hwmon/hwmon4/power1_input", "612500000\n");
        gpu_tick(&w, 2);
        EXPECT(w.m, ABSENT("amdgpu", "0", "gEnergyMj"), F64("amdgpu", "0", "gEnergyJoules", 1224.5),
               TEXT("amdgpu", "0", "gEnergySource", "instant power"),
               TEXT("amdgpu", "0", "gEnergyQuality", "estimated"));
        /* Nobody knows what was drawn in a minute without a reading. */
        gpu_tick(&w, 60);
        EXPECT(w.m, F64("amdgpu", "0", "gEnergyJoules", 1224.5));
        gpu_world_done(&w);
}

static void test_rx7900(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        gpu_tick(&w, 1);
        gpu_tick(&w, 2);
        EXPECT(w.m, TEXT("amdgpu", "0", "gName", "AMD Radeon RX 7900 XTX of a test"),
               ABSENT("amdgpu", "0", "gArchitecture"), ABSENT("amdgpu", "0", "gNumaNode"),
               I64("amdgpu", "0", "gUtilizationGpu", 98), I64("amdgpu", "0", "gTemperatureC", 61),
               I64("amdgpu", "0", "gTemperatureHotspotC", 79), I64("amdgpu", "0", "gFanRpm", 1843),
               I64("amdgpu", "0", "gFanSpeed", 40), F64("amdgpu", "0", "gVoltageV", 0.931),
               F64("amdgpu", "0", "gPowerDrawW", 339), F64("amdgpu", "0", "gPowerAverageW", 339),
               F64("amdgpu", "0", "gPowerLimitMaxW", 389),
               /* Between card and slot, not between chip and the card's own switch. */
               I64("amdgpu", "0", "gPcieGen", 3), I64("amdgpu", "0", "gPcieWidth", 8),
               I64("amdgpu", "0", "gPcieGenMax", 4), I64("amdgpu", "0", "gPcieWidthMax", 16),
               I64("amdgpu", "0", "gClockGraphicsMhz", 2371), I64("amdgpu", "0", "gClockGraphicsMaxMhz", 2482),
               I64("amdgpu", "0", "gClockVideoMaxMhz", 2800),
               /* A consumer chip's accumulator has no known unit. */
               ABSENT("amdgpu", "0", "gEnergyMj"), F64("amdgpu", "0", "gEnergyJoules", 678),
               TEXT("amdgpu", "0", "gEnergySource", "power"), TEXT("amdgpu", "0", "gEnergyQuality", "estimated"),
               /* 79 of 110 degrees hold nothing down, whatever the bit says. */
               I64("amdgpu", "0", "gClocksEventReasons", 68719476737),
               TEXT("amdgpu", "0", "gClocksEventReasonsText", "power_ppt0"), ABSENT("amdgpu", "0", "gViolationPowerNs"),
               ABSENT("amdgpu", "0", "gEccEnabled"));
        gpu_world_done(&w);
}

static void test_apu(void **state)
{
        struct gpu_world w;
        char reason[256];

        (void) state;
        gpu_world_new(&w, "amdgpu-apu", "amdgpu", INFP_MODE_RUN, false, 55);
        gpu_tick(&w, 1);
        assert_string_equal(machine_state(w.m, "amdgpu", "gEnergyJoules", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "package"));
        gpu_set_metrics(w.top, 1, "throttle_residency_spl = 180");
        gpu_tick(&w, 1);
        EXPECT(w.m, TEXT("amdgpu", "0", "gName", "Strix [of a test]"), TEXT("amdgpu", "0", "gUuid", "0000:c4:00.0"),
               I64("amdgpu", "0", "gUtilizationGpu", 37), I64("amdgpu", "0", "gUtilizationMedia", 4),
               I64("amdgpu", "0", "gTemperatureC", 52), ABSENT("amdgpu", "0", "gTemperatureHotspotC"),
               /* The part of the GPU; its sensor gives CPU and GPU together. */
               F64("amdgpu", "0", "gPowerDrawW", 11.5), F64("amdgpu", "0", "gPowerAverageW", 28.1),
               ABSENT("amdgpu", "0", "gPowerLimitW"), ABSENT("amdgpu", "0", "gEnergyJoules"),
               F64("amdgpu", "0", "gMemoryBandwidthKbps", 23437500), I64("amdgpu", "0", "gClockGraphicsMhz", 1094),
               I64("amdgpu", "0", "gClockGraphicsMaxMhz", 2900),
               TEXT("amdgpu", "0", "gClocksEventReasonsText", "power_spl"), ABSENT("amdgpu", "0", "gViolationPowerNs"));
        gpu_world_done(&w);
}

/* Each file for itself: what cannot be read is missing, and said; the rest is there. */
static void test_broken_files(void **state)
{
        static const struct {
                const char *file, *text, *column, *state;
        } broken[] = {
                { "gpu_busy_percent", "101\n", "gUtilizationGpu", "broken" },
                { "gpu_busy_percent", "", "gUtilizationGpu", "broken" },
                { "gpu_busy_percent", "eleven\n", "gUtilizationGpu", "broken" },
                { "gpu_busy_percent", "-5\n", "gUtilizationGpu", "broken" },
                { "gpu_busy_percent", NULL, "gUtilizationGpu", "broken" }, /* a directory: EISDIR */
                { "mem_info_vram_used", "-1\n", "gMemoryUsedBytes", "broken" },
                { "mem_info_vram_total", "99999999999999999999999\n", "gMemoryUsedBytes", "broken" },
                { "hwmon/hwmon2/power1_cap", "x\n", "gPowerLimitW", "broken" },
                { "gpu_metrics", "", "gClocksEventReasons", "broken" },
                { "gpu_metrics", "x\n", "gClocksEventReasons", "broken" },
                { "gpu_metrics", "\x50\x01\x63\x63 a version that is not known here", "gClocksEventReasons", "broken" },
        };

        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_HOST, false, 0);
        for (size_t i = 0; i < INFP_COUNT(broken); i++) {
                char path[128], reason[300];

                snprintf(path, sizeof(path), CARD0 "%s", broken[i].file);
                tree_command("mv '%s/%s' '%s/kept'", w.top, path, w.top);
                if (broken[i].text)
                        tree_put(w.top, path, broken[i].text);
                else
                        tree_command("mkdir '%s/%s'", w.top, path);
                gpu_set_metrics(w.top, 0, "average_gfx_activity"); /* which would stand in */
                if (!strcmp(broken[i].file, "gpu_metrics"))
                        tree_put(w.top, path, broken[i].text);
                gpu_tick(&w, 1);
                if (strcmp(machine_state(w.m, "amdgpu", broken[i].column, reason, sizeof(reason)), broken[i].state))
                        fail_msg("%s: %s is not %s", broken[i].file, broken[i].column, broken[i].state);
                assert_non_null(strstr(reason, strrchr(path, '/')));
                EXPECT(w.m, I64("amdgpu", "0", "gTemperatureC", 61));
                tree_command("rm -r '%s/%s'; mv '%s/kept' '%s/%s'", w.top, path, w.top, w.top, path);
                gpu_tick(&w, 1);
                assert_string_equal(machine_state(w.m, "amdgpu", broken[i].column, NULL, 0), "ok");
        }
        gpu_world_done(&w);
}

static void test_unknown_version(void **state)
{
        struct gpu_world w;
        uint8_t table[300] = { 0x2c, 0x01, 9, 3 };
        char reason[300];

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_HOST, false, 0);
        tree_put_bytes(w.top, CARD0 "gpu_metrics", table, sizeof(table));
        gpu_tick(&w, 1);
        assert_string_equal(machine_state(w.m, "amdgpu", "gClocksEventReasons", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "9.3"));
        /* sysfs and hwmon go on; where gpu_metrics has no clocks they have. */
        EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 98), I64("amdgpu", "0", "gClockGraphicsMhz", 2371),
               I64("amdgpu", "0", "gClockSocMhz", 1200), I64("amdgpu", "0", "gPcieGen", 4));
        /* Without them gpu_metrics stands in. */
        tree_command("rm -r '%s/" CARD0 "hwmon' '%s/" CARD0 "gpu_busy_percent'", w.top, w.top);
        gpu_set_metrics(w.top, 0, NULL);
        infp_collector_close(&w.state);
        assert_int_equal(infp_collector_open(&w.state, infp_collector_find("amdgpu"), &w.m->env, &w.m->emit,
                                             machine_notice, w.m),
                         0);
        gpu_tick(&w, 1);
        EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 98), I64("amdgpu", "0", "gTemperatureC", 61),
               F64("amdgpu", "0", "gPowerDrawW", 339), I64("amdgpu", "0", "gFanRpm", 1843));
        gpu_world_done(&w);
}

static void test_hostile_names(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        infp_collector_close(&w.state);
        gpu_put(&w, CARD0 "product_name", "<script>\xff\x1b[31m \"x\"\\\n");
        gpu_put(&w, CARD0 "unique_id", "../../etc/passwd\n");
        put_process(w.top, (struct fake_process){ .pid = 700, .ppid = 1, .name = "a) S (\"\xfe\\\n" });
        assert_int_equal(infp_collector_open(&w.state, infp_collector_find("amdgpu"), &w.m->env, &w.m->emit,
                                             machine_notice, w.m),
                         0);
        gpu_tick(&w, 1);
        EXPECT(w.m, TEXT("amdgpu", "0", "gName", "<script>\\xFF\x1b[31m \"x\"\\\\"),
               TEXT("amdgpu", "0", "gUuid", "GPU-../../etc/passwd"),
               TEXT("amdgpu", "0", "gProcesses", "[\"700: a) S (\\\"\\\\xFE\\\\\\\\\\n (20481 MB)\"]"));
        gpu_world_done(&w);
}

static void test_no_card(void **state)
{
        struct machine *m = machine_open(fixture("vm"));
        char reason[256];

        (void) state;
        assert_int_equal(machine_sample(m, infp_collector_find("amdgpu")), -ENODEV);
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "/sys/class/drm"));
        assert_int_equal(m->n_notices, 0);
        assert_true(infp_collector_find("amdgpu")->flags & INFP_MAY_BLOCK);
        machine_close(m);
}

static void test_no_allocation(void **state)
{
        struct gpu_world w;
        unsigned long before;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        for (int i = 0; i < 3; i++)
                gpu_tick(&w, 1);
        for (int i = 0; i < 12; i++) {
                w.m->n = w.m->text_size = 0;
                w.m->clock_ns += UINT64_C(1000000000);
                before = n_mallocs;
                assert_int_equal(infp_collector_sample(&w.state, &w.m->env, &w.m->emit, machine_notice, w.m), 0);
                assert_int_equal(n_mallocs, before);
        }
        gpu_world_done(&w);
}

static void test_levels(void **state)
{
        static const struct {
                const char *text;
                int64_t current, highest;
        } right[] = {
                { "0: 500Mhz\n1: 2371Mhz *\n2: 2482Mhz\n", 2371, 2482 },
                { "S: 19Mhz *\n0: 500Mhz\n1: 2482Mhz\n", 19, 2482 },
                { "0: 500Mhz\n", 0, 500 },
                { "", 0, 0 },
                { "0: Mhz *\n:\n1: 12GHz *\n2: 99999999999Mhz\n", 0, 0 },
                { "1: 800Mhz*", 800, 800 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(right); i++) {
                int64_t current, highest;

                infp_amdgpu_levels(right[i].text, strlen(right[i].text), &current, &highest);
                assert_int_equal(current, right[i].current);
                assert_int_equal(highest, right[i].highest);
        }
}

static void test_throttle_words(void **state)
{
        char words[1024];

        (void) state;
        infp_amdgpu_throttle_words(0, words, sizeof(words));
        assert_string_equal(words, "none");
        infp_amdgpu_throttle_words(UINT64_C(1) << 63 | UINT64_C(1) << 47 | 1 << 16, words, sizeof(words));
        assert_string_equal(words, "current_tdc_gfx, prochot_gfx, bit_63");
        infp_amdgpu_throttle_words(UINT64_MAX, words, 16);
        assert_int_equal(strlen(words), 15);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_mi300x),
                cmocka_unit_test(test_mi300x_counts),
                cmocka_unit_test(test_mi300x_without_counter),
                cmocka_unit_test(test_rx7900),
                cmocka_unit_test(test_apu),
                cmocka_unit_test(test_broken_files),
                cmocka_unit_test(test_unknown_version),
                cmocka_unit_test(test_hostile_names),
                cmocka_unit_test(test_no_card),
                cmocka_unit_test(test_no_allocation),
                cmocka_unit_test(test_levels),
                cmocka_unit_test(test_throttle_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
