/* The collector intel on trees in the shape of real cards. All right answers follow by hand from tests/fixtures/intel-*. */
#include "gpu_tree.h"

#include <sys/inotify.h>

#include "base/mem.h"
#include "count_mallocs.h"

static void put_xe(const struct gpu_world *w, long long rcs, long long ccs, long long bcs, long long vcs,
                   long long total)
{
        char text[1024];

        snprintf(text, sizeof(text),
                 "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-resident-system:\t32 MiB\n"
                 "drm-resident-gtt:\t192 KiB\ndrm-resident-vram0:\t9437184 KiB\ndrm-cycles-rcs:\t%lld\n"
                 "drm-total-cycles-rcs:\t%lld\ndrm-cycles-bcs:\t%lld\ndrm-total-cycles-bcs:\t%lld\ndrm-cycles-vcs:\t%"
                 "lld\n"
                 "drm-total-cycles-vcs:\t%lld\ndrm-engine-capacity-vcs:\t2\ndrm-cycles-ccs:\t%lld\ndrm-total-cycles-"
                 "ccs:\t%lld\n",
                 rcs, total, bcs, total, vcs, total, ccs, total);
        gpu_put(w, "proc/810/fdinfo/5", text);
}

static void test_xe(void **state)
{
        struct gpu_world w;
        const struct kept *k;

        (void) state;
        gpu_world_new(&w, "intel-arc-xe", "intel", INFP_MODE_RUN, false, 810);
        put_xe(&w, 1000000, 50000000, 2000000, 0, 7655183225);
        gpu_tick(&w, 1);
        EXPECT(w.m, TEXT("intel", "0", "gVendor", "intel"), TEXT("intel", "0", "gDriver", "xe"),
               TEXT("intel", "0", "gName", "Battlemage G21 [Arc B580 of a test]"),
               TEXT("intel", "0", "gUuid", "0000:03:00.0"), I64("intel", "0", "gClockGraphicsMhz", 2850),
               I64("intel", "0", "gClockGraphicsMaxMhz", 2850), I64("intel", "0", "gClockVideoMhz", 0),
               I64("intel", "0", "gClockVideoMaxMhz", 1350), I64("intel", "0", "gTemperatureC", 58),
               I64("intel", "0", "gTemperatureMemoryC", 64), I64("intel", "0", "gTemperatureSlowdownC", 95),
               I64("intel", "0", "gFanRpm", 1210), F64("intel", "0", "gVoltageV", 0.905),
               F64("intel", "0", "gPowerLimitW", 190), F64("intel", "0", "gPowerLimitDefaultW", 190),
               I64("intel", "0", "gEnergyMj", 900000), ABSENT("intel", "0", "gPowerDrawW"),
               F64("intel", "0", "gEnergyJoules", 0), I64("intel", "0", "gClocksEventReasons", 33),
               TEXT("intel", "0", "gClocksEventReasonsText", "power_pl1, thermal_ratl"),
               I64("intel", "0", "gPcieGen", 1), I64("intel", "0", "gMemoryTotalMb", 12288),
               I64("intel", "0", "gMemoryUsedBytes", 9663676416), I64("intel", "0", "gMemoryFreeMb", 3072),
               I64("intel", "0", "gSystemMemoryUsedBytes", (32 << 20) + (192 << 10)),
               ABSENT("intel", "0", "gUtilizationGpu"));
        /* The clock that counts runs at 19.2 MHz. */
        put_xe(&w, 2920000, 59600000, 3920000, 9600000, 7655183225 + 19200000);
        gpu_put(&w, "sys/class/drm/card0/device/hwmon/hwmon3/energy1_input", "1050000000\n");
        gpu_tick(&w, 1);
        EXPECT(w.m, I64("intel", "0", "gUtilizationGpu", 50), I64("intel", "0", "gUtilizationCompute", 50),
               I64("intel", "0", "gUtilizationCopy", 10), I64("intel", "0", "gUtilizationMedia", 25),
               F64("intel", "0", "gEnergyJoules", 150), F64("intel", "0", "gPowerDrawW", 150),
               TEXT("intel", "0", "gEnergySource", "counter"), TEXT("intel", "0", "gEnergyQuality", "measured"));
        k = gpu_process(&w, "intel_processes", 0, 810);
        assert_int_equal(gpu_i64(k, "gProcessSm"), 60);
        assert_int_equal(gpu_i64(k, "gProcessDecoder"), 25);
        assert_int_equal(gpu_i64(k, "gProcessComputeNs"), 500000000);
        assert_int_equal(gpu_i64(k, "gProcessRenderNs"), 100000000);
        assert_int_equal(gpu_i64(k, "gProcessMemoryBytes"), 9663676416);
        gpu_is_text(k, "gProcessType", "CG");
        /* Without a total that moves there is no share. */
        gpu_tick(&w, 1);
        EXPECT(w.m, ABSENT("intel", "0", "gUtilizationGpu"), F64("intel", "0", "gPowerDrawW", 0));
        gpu_world_done(&w);
}

static void put_i915(const struct gpu_world *w, int pid, int fd, const char *pci, int client, long long render_ms,
                     long long compute_ms)
{
        char path[64], text[512];

        snprintf(path, sizeof(path), "proc/%d/fdinfo/%d", pid, fd);
        snprintf(text, sizeof(text),
                 "drm-driver:\ti915\ndrm-client-id:\t%d\ndrm-pdev:\t%s\ndrm-resident-local0:\t1024 KiB\n"
                 "drm-engine-render:\t%lld ns\ndrm-engine-compute:\t%lld ns\ndrm-engine-capacity-compute:\t4\n",
                 client, pci, render_ms * 1000000, compute_ms * 1000000);
        tree_put(w->top, path, text);
}

/* An integrated GPU and an Arc beside it. */
static void test_i915(void **state)
{
        struct gpu_world w;
        char reason[256];

        (void) state;
        gpu_world_new(&w, "intel-i915", "intel", INFP_MODE_HOST, true, 0);
        gpu_tick(&w, 1);
        put_i915(&w, 810, 5, "0000:03:00.0", 7, 100, 5000);
        put_i915(&w, 950, 6, "0000:03:00.0", 8, 350, 0);
        gpu_put(&w, "sys/class/drm/card1/device/hwmon/hwmon4/energy1_input", "700000000\n");
        gpu_tick(&w, 1);
        EXPECT(w.m, TEXT("intel", "0", "gName", "8086:a780"), TEXT("intel", "0", "gPciBusId", "0000:00:02.0"),
               I64("intel", "0", "gClockGraphicsMhz", 350), I64("intel", "0", "gClockGraphicsMaxMhz", 1650),
               ABSENT("intel", "0", "gEnergyJoules"), ABSENT("intel", "0", "gPowerDrawW"),
               TEXT("intel", "0", "gClocksEventReasonsText", "none"), I64("intel", "0", "gUtilizationGpu", 0),
               I64("intel", "0", "gProcessCount", 1), ABSENT("intel", "0", "gMemoryUsedBytes"),
               TEXT("intel", "1", "gPciBusId", "0000:03:00.0"), I64("intel", "1", "gClockGraphicsMhz", 2400),
               I64("intel", "1", "gTemperatureC", 57), F64("intel", "1", "gPowerLimitW", 190),
               F64("intel", "1", "gPowerLimitDefaultW", 225), F64("intel", "1", "gVoltageV", 0.88),
               /* That of the device, not of its part i915_gt0. */
               I64("intel", "1", "gEnergyMj", 700000), F64("intel", "1", "gEnergyJoules", 200),
               F64("intel", "1", "gPowerDrawW", 200), I64("intel", "1", "gClocksEventReasons", 10),
               TEXT("intel", "1", "gClocksEventReasonsText", "power_pl2, thermal"),
               /* 2 s of 4 engines in 1 s; 300 ms of another process on the render engine. */
               I64("intel", "1", "gUtilizationCompute", 50), I64("intel", "1", "gUtilizationGpu", 50),
               I64("intel", "1", "gMemoryUsedMb", 2), ABSENT("intel", "1", "gMemoryTotalMb"),
               I64("intel", "1", "gProcessCount", 2));
        assert_string_equal(machine_state(w.m, "intel", "gEnergyMj", reason, sizeof(reason)),
                            ""); /* said once, before */
        assert_int_equal(gpu_i64(gpu_process(&w, "intel_processes", 1, 950), "gProcessSm"), 30);
        gpu_is_text(gpu_process(&w, "intel_processes", 0, 950), "gProcessType", "G");
        gpu_world_done(&w);
}

static void test_target_only(void **state)
{
        struct gpu_world w;
        char reason[256];

        (void) state;
        gpu_world_new(&w, "intel-i915", "intel", INFP_MODE_RUN, false, 810);
        gpu_tick(&w, 1);
        assert_null(gpu_process(&w, "intel_processes", 0, 950));
        assert_non_null(gpu_process(&w, "intel_processes", 1, 810));
        assert_string_equal(machine_state(w.m, "intel", "gEnergyMj", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "package"));
        gpu_world_done(&w);

        gpu_world_new(&w, "intel-i915", "intel", INFP_MODE_HOST, false, 0);
        gpu_tick(&w, 1);
        assert_string_equal(machine_state(w.m, "intel", "gUtilizationGpu", reason, sizeof(reason)), "absent");
        assert_int_equal(strncmp(reason, INFP_NOT_ASKED, strlen(INFP_NOT_ASKED)), 0);
        gpu_world_done(&w);
}

/* The meter of the card goes away for a while: that of the package is another one and does not stand in. */
static void test_energy_gap(void **state)
{
        struct gpu_world w;
        char reason[300];

        (void) state;
        gpu_world_new(&w, "intel-arc-xe", "intel", INFP_MODE_HOST, false, 0);
        gpu_tick(&w, 1);
        gpu_put(&w, "sys/class/drm/card0/device/hwmon/hwmon3/energy1_input", "1000000000\n");
        gpu_tick(&w, 1);
        gpu_put(&w, "sys/class/drm/card0/device/hwmon/hwmon3/energy1_input", "broken\n");
        gpu_tick(&w, 1);
        EXPECT(w.m, ABSENT("intel", "0", "gEnergyJoules"), ABSENT("intel", "0", "gPowerDrawW"));
        assert_string_equal(machine_state(w.m, "intel", "gEnergyMj", reason, sizeof(reason)), "broken");
        assert_non_null(strstr(reason, "energy1_input"));
        gpu_put(&w, "sys/class/drm/card0/device/hwmon/hwmon3/energy1_input", "1400000000\n");
        gpu_tick(&w, 1);
        EXPECT(w.m, F64("intel", "0", "gEnergyJoules", 500), F64("intel", "0", "gPowerDrawW", 200)); /* 400 J in 2 s */
        gpu_world_done(&w);
}

static unsigned count_opens(int fd)
{
        _Alignas(struct inotify_event) char buffer[16384];
        unsigned count = 0;
        ssize_t n;

        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct inotify_event *event = (const void *) (buffer + at);

                        count += event->len && !(event->mask & IN_ISDIR);
                        at += (ssize_t) (sizeof(*event) + event->len);
                }
        return count;
}

/* xe wakes its card for a reading of fdinfo. */
static void test_asleep(void **state)
{
        static const char *const places[] = { "proc/810/fdinfo", "sys/class/drm/card0/device/hwmon/hwmon3",
                                              "sys/class/drm/card0/device/tile0/gt0/freq0" };
        struct gpu_world w;
        int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

        (void) state;
        assert_true(fd >= 0);
        gpu_world_new(&w, "intel-arc-xe", "intel", INFP_MODE_RUN, false, 810);
        gpu_put(&w, "sys/class/drm/card0/device/power/runtime_status", "suspended\n");
        for (size_t i = 0; i < INFP_COUNT(places); i++) {
                char path[160];

                snprintf(path, sizeof(path), "%.64s/%s", w.top, places[i]);
                assert_true(inotify_add_watch(fd, path, IN_OPEN) > 0);
        }
        for (int i = 0; i < 12; i++)
                gpu_tick(&w, 1);
        assert_int_equal(count_opens(fd), 0);
        EXPECT(w.m, TEXT("intel", "0", "gDriver", "xe"), ABSENT("intel", "0", "gClockGraphicsMhz"));
        gpu_put(&w, "sys/class/drm/card0/device/power/runtime_status", "active\n");
        gpu_tick(&w, 1);
        assert_true(count_opens(fd) > 5);
        EXPECT(w.m, I64("intel", "0", "gClockGraphicsMhz", 2850));
        assert_non_null(gpu_process(&w, "intel_processes", 0, 810));
        close(fd);
        gpu_world_done(&w);
}

static void test_no_allocation(void **state)
{
        struct gpu_world w;
        unsigned long before;

        (void) state;
        gpu_world_new(&w, "intel-i915", "intel", INFP_MODE_HOST, true, 0);
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

static void test_no_card(void **state)
{
        struct machine *m = machine_open(fixture("vm"));

        (void) state;
        assert_int_equal(machine_sample(m, infp_collector_find("intel")), -ENODEV);
        assert_string_equal(machine_state(m, "*", NULL, NULL, 0), "absent");
        assert_true(infp_collector_find("intel")->flags & INFP_MAY_BLOCK);
        machine_close(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_xe),         cmocka_unit_test(test_i915),   cmocka_unit_test(test_target_only),
                cmocka_unit_test(test_energy_gap), cmocka_unit_test(test_asleep), cmocka_unit_test(test_no_allocation),
                cmocka_unit_test(test_no_card),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
