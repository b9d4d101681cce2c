/* Faults that users of other tools reported (../shared/fixtures/reports), at the level of the collectors. */
#include "machine.h"

#include "collect/collector.h"
#include "model/rate.h"

static uint64_t increase(const struct machine *m, const char *table, const char *key, const char *column,
                         bool *ret_fell)
{
        const struct kept *last = machine_need(m, table, key), *first = NULL;
        unsigned cell = kept_cell(last, column);

        for (size_t i = 0; i < m->n && !first; i++)
                if (m->rows[i].table == last->table && (!key || m->rows[i].cell[0].i64 == last->cell[0].i64))
                        first = &m->rows[i];
        assert_ptr_not_equal(first, last);
        assert_true(kept_has(first, cell) && kept_has(last, cell));
        *ret_fell = last->cell[cell].i64 < first->cell[cell].i64;
        return infp_increase_u64(infp_table_column(last->table, INFP_FIXED_COLUMNS + cell)->reset,
                                 (uint64_t) first->cell[cell].i64, (uint64_t) last->cell[cell].i64, 0);
}

/* Two moments of one machine: t0 is sampled, t1 copied over it, one second later sampled again. */
static struct machine *two_moments(const char *report, const char *collector, char top[64])
{
        struct infp_collector_state s = { 0 };
        struct machine *m;

        tree_command("cp -r --no-dereference --no-preserve=mode '%s/t0/.' '%s'", report_root(report), tree_new(top));
        m = machine_open(top);
        assert_int_equal(infp_collector_open(&s, infp_collector_find(collector), &m->env, &m->emit, machine_notice, m),
                         0);
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        tree_command("cp -r --no-dereference --no-preserve=mode '%s/t1/.' '%s'", report_root(report), top);
        m->clock_ns += 1000000000;
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        infp_collector_close(&s);
        assert_int_equal(m->n_notices, 0);
        return m;
}

static void iowait_runs_backwards(void **state)
{
        struct machine *m;
        char top[64];
        bool fell;

        (void) state;
        m = two_moments("01-iowait-runs-backwards", "cpu", top);
        /* Stored raw. */
        EXPECT(m, I64("cpu", NULL, "vCpuTimeIOWait", 96409), I64("cpu_core", "0", "vCpuTimeIOWait", 48177),
               I64("cpu_core", "1", "vCpuTimeIOWait", 48232), I64("cpu", NULL, "vCpuTime", 116996));
        assert_int_equal(increase(m, "cpu", NULL, "vCpuTimeIOWait", &fell), 0);
        assert_true(fell);
        assert_int_equal(increase(m, "cpu_core", "0", "vCpuTimeIOWait", &fell), 0);
        assert_int_equal(increase(m, "cpu_core", "1", "vCpuTimeIOWait", &fell), 12);
        assert_int_equal(increase(m, "cpu", NULL, "vCpuTimeUserMode", &fell), 51);
        assert_int_equal(increase(m, "cpu", NULL, "vCpuTimeKernelMode", &fell), 15);
        assert_int_equal(increase(m, "cpu", NULL, "vCpuIdleTime", &fell), 153);
        assert_int_equal(increase(m, "cpu", NULL, "vCpuTimeSoftIntSrvc", &fell), 2);
        machine_close(m);
        tree_remove(top);
}

static void core_goes_offline_and_returns(void **state)
{
        struct machine *m = machine_open(report_root("02-cpu-offline-then-back/t0"));
        char top[64];
        bool fell;

        (void) state;
        assert_int_equal(machine_sample(m, infp_collector_find("cpu")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("cpu_clock")), 0);
        assert_int_equal(machine_count(m, "cpu_core"), 3);
        assert_null(machine_row(m, "cpu_core", "2"));
        EXPECT(m, I64("cpu_core", "3", "vCpuTimeUserMode", 29870), I64("cpu_core", "3", "vCpuTimeKernelMode", 640),
               I64("cpu_core", "3", "vCpuIdleTime", 97300), F64("cpu_clock", NULL, "vCpuMhz", 2300.0),
               I64("cpu", NULL, "vCpuTimeUserMode", 107501));
        machine_close(m);
        m = two_moments("02-cpu-offline-then-back", "cpu", top);
        assert_int_equal(machine_count(m, "cpu_core"), 7);
        EXPECT(m, I64("cpu_core", "2", "vCpuTimeUserMode", 31206));
        assert_int_equal(increase(m, "cpu_core", "0", "vCpuTimeUserMode", &fell), 40);
        assert_int_equal(increase(m, "cpu_core", "1", "vCpuTimeUserMode", &fell), 7);
        assert_int_equal(increase(m, "cpu_core", "1", "vCpuIdleTime", &fell), 92);
        assert_int_equal(increase(m, "cpu_core", "3", "vCpuTimeUserMode", &fell), 90);
        assert_int_equal(increase(m, "cpu_core", "3", "vCpuIdleTime", &fell), 7);
        machine_close(m);
        m = machine_open(top);
        assert_int_equal(machine_sample(m, infp_collector_find("cpu_clock")), 0);
        EXPECT(m, F64("cpu_clock", NULL, "vCpuMhz", 2175.0));
        machine_close(m);
        tree_remove(top);
}

static void frequency_is_a_text(void **state)
{
        static const struct {
                const char *root;
                double mhz;
        } cases[] = { { "03-cpufreq-unknown-text/one", 2400.0 }, { "03-cpufreq-unknown-text/all", 2023.502 } };

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                struct machine *m = machine_open(report_root(cases[i].root));
                const struct expect mhz = F64("cpu_clock", NULL, "vCpuMhz", cases[i].mhz);

                assert_int_equal(machine_sample(m, infp_collector_find("cpu")), 0);
                assert_int_equal(machine_sample(m, infp_collector_find("cpu_clock")), 0);
                machine_expect(m, &mhz, 1);
                EXPECT(m, I64("cpu", NULL, "vCpuTime", 600), I64("cpu", NULL, "vCpuIdleTime", 9000),
                       I64("cpu", NULL, "vCpuTimeIOWait", 10), I64("cpu", NULL, "vCpuContextSwitches", 31337),
                       ABSENT("cpu", NULL, "vLoadAvg"));
                assert_int_equal(machine_sample(m, infp_collector_find("mem")), -ENODEV);
                assert_int_equal(machine_sample(m, infp_collector_find("disk")), -ENODEV);
                assert_int_equal(machine_sample(m, infp_collector_find("net")), -ENODEV);
                assert_int_equal(m->n_notices, 0);
                machine_close(m);
        }
}

static void disks_are_summed_once(void **state)
{
        static const char *const roots[] = { "k3.10", "k4.18", "k5.5" };
        char name[128];

        (void) state;
        for (size_t i = 0; i < 3; i++) {
                struct machine *m;

                snprintf(name, sizeof(name), "04-diskstats-wide-and-layered/%s", roots[i]);
                m = machine_open(report_root(name));
                assert_int_equal(machine_sample(m, infp_collector_find("disk")), 0);
                EXPECT(m, I64("disk", NULL, "vDiskReadBytes", 9272918863360),
                       I64("disk", NULL, "vDiskWriteBytes", 8105657435136),
                       I64("disk", NULL, "vDiskSuccessfulReads", 70469760),
                       I64("disk", NULL, "vDiskSuccessfulWrites", 64543929),
                       I64("disk", NULL, "vDiskReadTime", 9208988), I64("disk", NULL, "vDiskWriteTime", 733366089),
                       I64("disk", NULL, "vDiskIOTime", 19955950), I64("disk", NULL, "vDiskIOInProgress", 6),
                       I64("disk", NULL, "vDiskSectorReads", 18111169655),
                       I64("disk", NULL, "vDiskSectorWrites", 15831362178), I64("disk", NULL, "vDiskMergedReads", 6415),
                       I64("disk", NULL, "vDiskMergedWrites", 82596),
                       I64("disk", NULL, "vDiskWeightedIOTime", 742575077),
                       I64("disk_device", "sdaa", "vDiskSuccessfulReads", 410),
                       I64("disk_device", "mmcblk0", "vDiskSuccessfulReads", 9000),
                       I64("disk_device", "sda", "vDiskSuccessfulReads", 48117),
                       I64("disk_device", "nvme0n1", "vDiskSuccessfulReads", 70412233));
                assert_null(machine_row(m, "disk_device", "sda1"));
                assert_null(machine_row(m, "disk_device", "nvme0n1p2"));
                assert_int_equal(kept_has(machine_need(m, "disk", NULL),
                                          kept_cell(machine_need(m, "disk", NULL), "vDiskDiscards")),
                                 i >= 1);
                assert_int_equal(kept_has(machine_need(m, "disk", NULL),
                                          kept_cell(machine_need(m, "disk", NULL), "vDiskFlushes")),
                                 i >= 2);
                machine_close(m);
        }
}

static void decimal_points(void **state)
{
        struct machine *m = machine_open(report_root("21-decimal-comma-locale/root"));

        (void) state;
        assert_int_equal(machine_sample(m, infp_collector_find("cpu")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("cpu_clock")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("mem")), 0);
        EXPECT(m, F64("cpu", NULL, "vLoadAvg", 0.45), F64("cpu_clock", NULL, "vCpuMhz", 2023.502),
               F64("mem", NULL, "vMemoryPercent", 68.75), I64("mem", NULL, "vMemoryFree", 2560000000),
               I64("mem", NULL, "vMemoryTotal", 8192000000), I64("mem", NULL, "vMemoryUsed", 5478400000),
               ABSENT("mem", NULL, "vPgFault"));
        machine_close(m);
}

static void digits_past_2_to_the_53(void **state)
{
        struct machine *m = machine_open(report_root("22-integers-past-2-to-the-53/root"));

        (void) state;
        assert_int_equal(machine_sample(m, infp_collector_find("cpu")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("mem")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("net")), 0);
        EXPECT(m, I64("net", NULL, "vNetworkBytesRecvd", 9007199254740993),
               I64("net", NULL, "vNetworkPacketsRecvd", 9007199254740995),
               I64("net", NULL, "vNetworkBytesSent", 18014398509481985),
               I64("net", NULL, "vNetworkPacketsSent", 36028797018963969),
               I64("mem", NULL, "vPgFault", 9007199254740997), I64("mem", NULL, "vMajorPageFault", 2),
               I64("cpu", NULL, "vCpuContextSwitches", INT64_MAX), ABSENT("mem", NULL, "vMemoryTotal"));
        machine_close(m);
}

static void no_frequency_is_no_row(void **state)
{
        struct machine *m = machine_open(report_root("23-column-that-is-all-null/with"));

        (void) state;
        assert_int_equal(machine_sample(m, infp_collector_find("cpu_clock")), 0);
        EXPECT(m, F64("cpu_clock", NULL, "vCpuMhz", 2000.0));
        machine_close(m);
        m = machine_open(report_root("23-column-that-is-all-null/without"));
        assert_int_equal(machine_sample(m, infp_collector_find("cpu_clock")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("cpu")), 0);
        assert_null(machine_row(m, "cpu_clock", NULL));
        assert_string_equal(machine_state(m, "cpu_clock", "vCpuMhz", NULL, 0), "absent");
        EXPECT(m, F64("cpu", NULL, "vLoadAvg", 1.0));
        machine_close(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(iowait_runs_backwards),  cmocka_unit_test(core_goes_offline_and_returns),
                cmocka_unit_test(frequency_is_a_text),    cmocka_unit_test(disks_are_summed_once),
                cmocka_unit_test(decimal_points),         cmocka_unit_test(digits_past_2_to_the_53),
                cmocka_unit_test(no_frequency_is_no_row),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
