/* cpu, cpu_clock, mem, disk, net and host on whole machines: figures computed by hand from the texts in tests/fixtures. */
#include "machine.h"

#include "collect/collector.h"

static void sample_all(struct machine *m)
{
        static const char *const names[] = { "cpu", "cpu_clock", "mem", "disk", "net", "host" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const struct infp_collector *collector = infp_collector_find(names[i]);

                assert_non_null(collector);
                assert_int_equal(machine_sample(m, collector), 0);
        }
        assert_int_equal(m->n_notices, 0);
}

static void bare_metal(void **state)
{
        struct machine *m = machine_open(fixture("bare-metal"));

        (void) state;
        sample_all(m);
        EXPECT(m, I64("cpu", NULL, "vCpuTime", 5655542 + 910938), I64("cpu", NULL, "vCpuTimeUserMode", 5655542),
               I64("cpu", NULL, "vCpuTimeKernelMode", 910938), I64("cpu", NULL, "vCpuIdleTime", 35335318),
               I64("cpu", NULL, "vCpuTimeIOWait", 157108), I64("cpu", NULL, "vCpuTimeIntSrvc", 0),
               I64("cpu", NULL, "vCpuTimeSoftIntSrvc", 41010), I64("cpu", NULL, "vCpuNice", 4627),
               I64("cpu", NULL, "vCpuSteal", 0), I64("cpu", NULL, "vCpuContextSwitches", 1623456789),
               F64("cpu", NULL, "vLoadAvg", 1.31), F64("cpu", NULL, "vLoadAvg5", 0.92),
               F64("cpu", NULL, "vLoadAvg15", 0.77), I64("cpu", NULL, "vThreads", 1834),
               I64("cpu", NULL, "vInterrupts", 812345678), I64("cpu", NULL, "vSoftInterrupts", 301234567),
               I64("cpu", NULL, "vProcessesForked", 345678), I64("cpu", NULL, "vProcessesRunning", 2),
               I64("cpu", NULL, "vProcessesBlocked", 1), I64("cpu_core", "0", "vCpuTime", 1432101 + 231004),
               I64("cpu_core", "3", "vCpuIdleTime", 8842190), I64("cpu_core", "2", "vCpuNice", 1099),
               F64("cpu_clock", NULL, "vCpuMhz", 3275.1875), F64("cpu_clock", NULL, "vCpuMhzMin", 2200.5),
               F64("cpu_clock", NULL, "vCpuMhzMax", 4100.25));
        EXPECT(m, I64("mem", NULL, "vMemoryTotal", 65758240LL * 1024),
               I64("mem", NULL, "vMemoryFree", 41234567LL * 1024), I64("mem", NULL, "vMemoryUsed", 22723682LL * 1024),
               I64("mem", NULL, "vMemoryBuffers", 1234560LL * 1024),
               I64("mem", NULL, "vMemoryCached", 27654320LL * 1024),
               F64("mem", NULL, "vMemoryPercent", 2452367300.0 / 65758240),
               I64("mem", NULL, "vSwapTotal", 8388604LL * 1024), I64("mem", NULL, "vSwapFree", 8000000LL * 1024),
               I64("mem", NULL, "vSwapUsed", 388604LL * 1024), I64("mem", NULL, "vPgFault", 700000000),
               I64("mem", NULL, "vMajorPageFault", 100200), I64("mem", NULL, "vMemoryUnused", 12345678LL * 1024),
               I64("mem", NULL, "vHugePagesTotal", 512), I64("mem", NULL, "vHugePagesFree", 500),
               I64("mem", NULL, "vHugePagesReserved", 4), I64("mem", NULL, "vHugePageSize", 2097152),
               I64("mem", NULL, "vHugetlb", 1073741824), I64("mem", NULL, "vAnonHugePages", 8589934592),
               I64("mem", NULL, "vPagedInBytes", 126419751936), I64("mem", NULL, "vSwapInPages", 1201),
               I64("mem", NULL, "vPgScanDirect", 602), I64("mem", NULL, "vRefaultFile", 40302),
               I64("mem", NULL, "vOomKill", 1), I64("mem", NULL, "vNumaPagesMigrated", 73),
               I64("mem", NULL, "vMemoryCommitted", 38000000LL * 1024));
        EXPECT(m, I64("disk", NULL, "vDiskSuccessfulReads", 816666), I64("disk", NULL, "vDiskMergedReads", 1321),
               I64("disk", NULL, "vDiskSectorReads", 65777778), I64("disk", NULL, "vDiskReadBytes", 33678222336),
               I64("disk", NULL, "vDiskReadTime", 211110), I64("disk", NULL, "vDiskSuccessfulWrites", 913579),
               I64("disk", NULL, "vDiskMergedWrites", 45734), I64("disk", NULL, "vDiskSectorWrites", 87733220),
               I64("disk", NULL, "vDiskWriteBytes", 44919408640), I64("disk", NULL, "vDiskWriteTime", 806666),
               I64("disk", NULL, "vDiskIOInProgress", 2), I64("disk", NULL, "vDiskIOTime", 468789),
               I64("disk", NULL, "vDiskWeightedIOTime", 1017776), I64("disk", NULL, "vDiskDiscards", 1200),
               I64("disk", NULL, "vDiskDiscardBytes", 4915200000), I64("disk", NULL, "vDiskFlushes", 33330),
               I64("disk", NULL, "vDiskFlushTime", 12340), I64("disk_device", "sda", "vDiskReadBytes", 345678LL * 512),
               I64("disk_device", "dm-0", "vDiskSuccessfulReads", 813000),
               I64("disk_device", "loop1", "vDiskSuccessfulReads", 77));
        assert_int_equal(machine_count(m, "disk_device"), 4); /* no partition, no loop device that nobody used */
        EXPECT(m, I64("net", NULL, "vNetworkBytesRecvd", 12346678902),
               I64("net", NULL, "vNetworkBytesSent", 2348678904), I64("net", NULL, "vNetworkPacketsRecvd", 9878544),
               I64("net", NULL, "vNetworkPacketsSent", 4571891), I64("net", NULL, "vNetworkErrorsRecvd", 3),
               I64("net", NULL, "vNetworkErrorsSent", 0), I64("net", NULL, "vNetworkDropsRecvd", 17),
               I64("net", NULL, "vNetworkDropsSent", 6), I64("net", NULL, "vNetworkFifoRecvd", 1),
               I64("net", NULL, "vNetworkFrameErrors", 2), I64("net", NULL, "vNetworkMulticastRecvd", 40404),
               I64("net", NULL, "vNetworkCarrierErrors", 6), I64("net_interface", "lo", "vNetworkBytesRecvd", 98765432),
               I64("net_interface", "docker0", "vNetworkDropsSent", 1));
        assert_int_equal(machine_count(m, "net_interface"), 3);
        EXPECT(m, TEXT("host", NULL, "vId", "00000000-0000-4000-8000-0000000000a1"),
               TEXT("host", NULL, "vHostname", "workstation"), I64("host", NULL, "vBootTime", 1703461876),
               I64("host", NULL, "vNumProcessors", 4),
               TEXT("host", NULL, "vCpuType", "AMD Ryzen 9 5950X 16-Core Processor"),
               I64("host", NULL, "vCpuCacheL1d", 65536), I64("host", NULL, "vCpuCacheL1i", 65536),
               I64("host", NULL, "vCpuCacheL2", 1048576), I64("host", NULL, "vCpuCacheL3", 33554432),
               TEXT("host", NULL, "vKernelInfo",
                    "Linux 6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024 x86_64"),
               I64("host", NULL, "vMemoryTotalBytes", 65758240LL * 1024),
               I64("host", NULL, "vSwapTotalBytes", 8388604LL * 1024), TEXT("host", NULL, "vOs", "Ubuntu 24.04.1 LTS"),
               TEXT("host", NULL, "vMachine", "ASUS System Product Name"), TEXT("host", NULL, "vHypervisor", "none"),
               TEXT("host", NULL, "vClockSource", "tsc"), ABSENT("host", NULL, "vTimeSynced"),
               TEXT("host", NULL, "vCgroupMode", "v2"), ABSENT("host", NULL, "vCgroupCpuQuota"),
               ABSENT("host", NULL, "vCgroupMemoryLimit"), I64("host", NULL, "vCgroupCpusetCpus", 4),
               I64("host", NULL, "vAffinityCpus", 4), F64("host", NULL, "vEffectiveCpus", 4),
               TEXT("host", NULL, "vCpuGovernor", "schedutil"), F64("host", NULL, "vCpuMaxMhz", 5100),
               YES("host", NULL, "vCpuSmt"), I64("host", NULL, "vNumaNodes", 1),
               TEXT("host", NULL, "vTransparentHugePages", "madvise"), I64("host", NULL, "vSwappiness", 60),
               TEXT("host", NULL, "vBootId", "00000000-0000-4000-8000-00000000b001"),
               ABSENT("host", NULL, "vPageSize"));
        machine_close(m);
}

static void virtual_machine(void **state)
{
        struct machine *m = machine_open(fixture("vm"));
        char reason[256];

        (void) state;
        sample_all(m);
        EXPECT(m, I64("cpu", NULL, "vCpuTime", 124000), I64("cpu", NULL, "vCpuIdleTime", 801000),
               I64("cpu", NULL, "vCpuTimeIOWait", 600), I64("cpu", NULL, "vCpuTimeIntSrvc", 10),
               I64("cpu", NULL, "vCpuTimeSoftIntSrvc", 1000), I64("cpu", NULL, "vCpuNice", 30),
               I64("cpu", NULL, "vCpuSteal", 16000), I64("cpu_core", "1", "vCpuSteal", 7992),
               F64("cpu_clock", NULL, "vCpuMhz", 2499.998));
        EXPECT(m, I64("mem", NULL, "vMemoryUsed", 1417948LL * 1024), I64("mem", NULL, "vSwapUsed", 0),
               I64("mem", NULL, "vPgFault", 5000000), ABSENT("mem", NULL, "vMemoryKernelStack"),
               ABSENT("mem", NULL, "vHugetlb"), ABSENT("mem", NULL, "vNumaHit"));
        assert_string_equal(machine_state(m, "mem", "vNumaHit", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "/proc/vmstat has no number for it");
        EXPECT(m, I64("disk", NULL, "vDiskSuccessfulReads", 30101), I64("disk", NULL, "vDiskReadBytes", 1229250560),
               I64("disk", NULL, "vDiskWriteBytes", 819281920), I64("disk", NULL, "vDiskDiscards", 10),
               ABSENT("disk", NULL, "vDiskFlushes"), I64("net", NULL, "vNetworkBytesRecvd", 70000007),
               I64("net", NULL, "vNetworkPacketsSent", 50005), I64("net_interface", "lo", "vNetworkBytesSent", 1234));
        assert_int_equal(machine_count(m, "disk_device"), 2);
        EXPECT(m, TEXT("host", NULL, "vId", "c0ffee00000000000000000000000002"),
               TEXT("host", NULL, "vHypervisor", "qemu"), TEXT("host", NULL, "vCgroupMode", "v1"),
               F64("host", NULL, "vCgroupCpuQuota", 1.5), I64("host", NULL, "vCgroupMemoryLimit", 3221225472),
               I64("host", NULL, "vCgroupCpusetCpus", 2), F64("host", NULL, "vEffectiveCpus", 1.5),
               TEXT("host", NULL, "vKernelInfo", "Linux 5.4.0-200-generic #220-Ubuntu SMP"),
               ABSENT("host", NULL, "vArchitecture"), TEXT("host", NULL, "vOs", "Ubuntu 20.04.6 LTS"),
               I64("host", NULL, "vCpuCacheL1d", 65536), I64("host", NULL, "vCpuCacheL2", 8388608),
               I64("host", NULL, "vCpuCacheL3", 33554432), TEXT("host", NULL, "vTransparentHugePages", "always"),
               TEXT("host", NULL, "vClockSource", "kvm-clock"));
        machine_close(m);
}

static void hybrid_cgroup(void **state)
{
        struct machine *m = machine_open(fixture("hybrid-cgroup"));
        char reason[256];

        (void) state;
        sample_all(m);
        EXPECT(m, I64("cpu", NULL, "vCpuTime", 56302 + 14311), I64("cpu_core", "1", "vCpuTimeUserMode", 34059),
               I64("cpu", NULL, "vCpuContextSwitches", 2276462), F64("cpu_clock", NULL, "vCpuMhz", 2300),
               I64("mem", NULL, "vMemoryUsed", 329844LL * 1024), I64("mem", NULL, "vPgFault", 13283792),
               I64("disk", NULL, "vDiskReadBytes", 9189074LL * 512), I64("disk", NULL, "vDiskFlushes", 26154),
               I64("net", NULL, "vNetworkBytesRecvd", 2534723611), I64("host", NULL, "vNumProcessors", 2),
               I64("host", NULL, "vCpuCacheL1d", 98304), I64("host", NULL, "vCpuCacheL1i", 65536),
               I64("host", NULL, "vCpuCacheL2", 4194304), I64("host", NULL, "vCpuCacheL3", 272629760),
               TEXT("host", NULL, "vCgroupMode", "hybrid"), ABSENT("host", NULL, "vCgroupCpuQuota"),
               ABSENT("host", NULL, "vCgroupMemoryLimit"), I64("host", NULL, "vCgroupCpusetCpus", 2),
               F64("host", NULL, "vEffectiveCpus", 2), TEXT("host", NULL, "vHypervisor", "unknown"),
               TEXT("host", NULL, "vHostname", "host"));
        assert_int_equal(machine_count(m, "disk_device"), 1);
        assert_string_equal(machine_state(m, "host", "vCgroupMemoryLimit", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "no limit is set");
        machine_close(m);
}

/* The formulas are those in the head of tools/generate_testdata.sh. */
static void mock_of_256_cores(void **state)
{
        struct machine *m;
        char top[64], text[16];

        (void) state;
        tree_command("sh '%s/../../tools/generate_testdata.sh' '%s/mock' 256", fixture(""), tree_new(top));
        snprintf(top + strlen(top), sizeof(top) - strlen(top), "/mock");
        m = machine_open(top);
        sample_all(m);
        EXPECT(m, I64("cpu", NULL, "vCpuTimeUserMode", 256000 + 32640),
               I64("cpu", NULL, "vCpuTimeKernelMode", 128000 + 32640), I64("cpu", NULL, "vCpuTime", 288640 + 160640),
               I64("cpu", NULL, "vCpuIdleTime", 2048000 + 32640), I64("cpu", NULL, "vCpuGuest", 768),
               I64("cpu", NULL, "vCpuContextSwitches", 9876543), F64("cpu", NULL, "vLoadAvg", 0.52),
               F64("cpu_clock", NULL, "vCpuMhz", 2127.5), F64("cpu_clock", NULL, "vCpuMhzMax", 2255),
               I64("mem", NULL, "vMemoryUsed", 6200000LL * 1024), F64("mem", NULL, "vMemoryPercent", 37.5),
               I64("mem", NULL, "vPgFault", 1000000), I64("disk", NULL, "vDiskSuccessfulReads", 1500),
               I64("disk", NULL, "vDiskReadBytes", 30000 * 512), I64("disk", NULL, "vDiskIOInProgress", 3),
               I64("net", NULL, "vNetworkBytesRecvd", 3000000), I64("net", NULL, "vNetworkBytesSent", 1500000),
               I64("host", NULL, "vNumProcessors", 256), I64("host", NULL, "vCpuCacheL1d", 256 * 32768),
               I64("host", NULL, "vCpuCacheL3", 8388608), ABSENT("host", NULL, "vCpuCacheL2"));
        assert_int_equal(machine_count(m, "cpu_core"), 256);
        for (int i = 0; i < 256; i++) {
                const struct kept *k;

                snprintf(text, sizeof(text), "%d", i);
                k = machine_need(m, "cpu_core", text);
                assert_int_equal(k->cell[kept_cell(k, "vCpuTime")].i64, 1500 + 2 * i);
                assert_int_equal(k->cell[kept_cell(k, "vCpuIdleTime")].i64, 8000 + i);
        }
        machine_close(m);
        *strrchr(top, '/') = 0;
        tree_remove(top);
}

/* The running machine: nothing is broken, and what any Linux has is there. */
static void this_machine(void **state)
{
        static const char *const always[][2] = { { "cpu", "vCpuTime" },        { "cpu", "vCpuContextSwitches" },
                                                 { "cpu", "vLoadAvg" },        { "mem", "vMemoryTotal" },
                                                 { "mem", "vMemoryUsed" },     { "mem", "vPgFault" },
                                                 { "host", "vHostname" },      { "host", "vNumProcessors" },
                                                 { "host", "vEffectiveCpus" }, { "host", "vBootTime" },
                                                 { "host", "vAffinityCpus" },  { "host", "vArchitecture" } };
        struct machine *m = machine_open("/");
        char text[64];

        (void) state;
        assert_true(m->env.is_live);
        for (const struct infp_collector *const *c = infp_collectors; *c; c++)
                if (!((*c)->flags & INFP_OPT_IN) && strcmp((*c)->name, "processes") && strcmp((*c)->name, "self"))
                        machine_sample(m, *c);
        for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
                const struct kept *k = machine_need(m, always[i][0], NULL);

                if (!kept_has(k, kept_cell(k, always[i][1])))
                        fail_msg("%s %s is absent", always[i][0], always[i][1]);
        }
        for (size_t i = 0; i < m->n; i++)
                if (m->rows[i].table == &infp_table_sources)
                        assert_string_not_equal(kept_text(&m->rows[i], INFP_SOURCES_STATE, text, sizeof(text)),
                                                "broken");
        machine_close(m);
}

/* host writes a row at the start and when something changed, not at each look. */
static void host_rows_at_changes_only(void **state)
{
        const struct infp_collector *host = infp_collector_find("host");
        struct infp_collector_state s = { 0 };
        struct machine *m;
        char top[64];

        (void) state;
        tree_command("cp -r --no-dereference --no-preserve=mode '%s/.' '%s'", fixture("bare-metal"), tree_new(top));
        m = machine_open(top);
        assert_int_equal(infp_collector_open(&s, host, &m->env, &m->emit, machine_notice, m), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(machine_count(m, "host"), 1);
        /* The clock of the boot time wavers by a second: no change. */
        tree_command("sed -i 's/^btime .*/btime 1703461877/' '%s/proc/stat'", top);
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(machine_count(m, "host"), 1);
        tree_command("sed -i 's/^btime .*/btime 1703465476/' '%s/proc/stat'", top);
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(machine_count(m, "host"), 2);
        /* A core goes offline: fewer CPUs, and what it alone had of the caches is gone with it. */
        tree_put(top, "sys/devices/system/cpu/online", "0,2-3\n");
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        EXPECT(m, I64("host", NULL, "vNumProcessors", 3), F64("host", NULL, "vEffectiveCpus", 3),
               I64("host", NULL, "vBootTime", 1703465476));
        assert_int_equal(machine_count(m, "host"), 3);
        /* A limit is set on a parent. */
        tree_put(top, "sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
        tree_put(top, "sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "250000 100000\n");
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        EXPECT(m, I64("host", NULL, "vCgroupMemoryLimit", 1073741824), F64("host", NULL, "vCgroupCpuQuota", 2.5),
               F64("host", NULL, "vEffectiveCpus", 2.5));
        assert_int_equal(machine_count(m, "host"), 4);
        infp_collector_close(&s);
        machine_close(m);
        tree_remove(top);
}

/* 64-bit ARM names no model; USER_HZ of 1000 is turned into centiseconds; a cgroup beyond our namespace shows nothing. */
static void other_machines(void **state)
{
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/cpuinfo",
                 "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
        tree_put(top, "proc/stat", "cpu  12345 0 678 99 0 0 0 0 0 0\ncpu0 12345 0 678 99 0 0 0 0 0 0\n");
        tree_put(top, "proc/self/cgroup", "0::/../other\n");
        tree_put(top, "sys/fs/cgroup/unified/memory.max", "4096\n");
        tree_put(top, "sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-000000000000\n");
        m = machine_open(top);
        m->env.ticks_per_s = 1000;
        assert_int_equal(machine_sample(m, infp_collector_find("cpu")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("host")), 0);
        EXPECT(m, I64("cpu", NULL, "vCpuTimeUserMode", 1234), I64("cpu", NULL, "vCpuTimeKernelMode", 67),
               I64("cpu_core", "0", "vCpuIdleTime", 9),
               TEXT("host", NULL, "vCpuType", "ARM implementer 0x41 part 0xd0c"), ABSENT("host", NULL, "vHypervisor"),
               TEXT("host", NULL, "vId", "unavailable"), I64("host", NULL, "vNumProcessors", 1),
               I64("host", NULL, "vCgroupMemoryLimit", 4096));
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bare_metal),     cmocka_unit_test(virtual_machine),
                cmocka_unit_test(hybrid_cgroup),  cmocka_unit_test(mock_of_256_cores),
                cmocka_unit_test(this_machine),   cmocka_unit_test(host_rows_at_changes_only),
                cmocka_unit_test(other_machines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
