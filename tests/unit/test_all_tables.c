/* Every table that this build can write keeps the rules of schema.h, and the metrics of the mission are among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "model/prom_name.h"

static void test_each_table_is_sound(void **state)
{
        const struct infp_table *const *tables = infp_all_tables();
        struct infp_err err = { "" };
        unsigned n = 0, faults = 0;

        (void) state;
        for (; tables[n]; n++) {
                if (infp_table_check(tables[n], &err) < 0) {
                        print_error("%s: %s\n", tables[n]->name, err.text);
                        faults++;
                }
                for (unsigned k = 0; k < n; k++)
                        assert_string_not_equal(tables[n]->name, tables[k]->name);
        }
        assert_int_equal(faults, 0);
        assert_true(n >= 15);
}

/* A bare name of the time series belongs to one table: two would overwrite each other. */
static void test_names_of_the_series_are_unique(void **state)
{
        const struct infp_table *const *tables = infp_all_tables();
        static const char *seen[4096];
        unsigned n = 0;

        (void) state;
        for (unsigned t = 0; tables[t]; t++) {
                if (!tables[t]->series || tables[t]->series[0])
                        continue;
                for (unsigned i = 0; i < tables[t]->n_columns; i++) {
                        for (unsigned k = 0; k < n; k++)
                                assert_string_not_equal(seen[k], tables[t]->columns[i].name);
                        assert_true(n < INFP_COUNT(seen));
                        seen[n++] = tables[t]->columns[i].name;
                }
        }
        assert_true(n >= 40);
}

/* Tables of one kind of thing that differ in its maker: their rows are one family, and a label says whose they are. */
static bool are_of_makers(const struct infp_table *a, const struct infp_table *b)
{
        return a->columns == b->columns && infp_table_find(a, "gVendor") >= 0;
}

/* A Prometheus name belongs to one column of one table, also where a detail shares the columns of its sum: sum() over it would
 * count twice. */
static void test_prometheus_names_are_unique(void **state)
{
        static struct infp_str seen[4096];
        static const struct infp_table *of[4096];
        const struct infp_table *const *tables = infp_all_tables();
        unsigned n = 0;

        (void) state;
        for (unsigned t = 0; tables[t]; t++)
                for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(tables[t]); i++) {
                        const struct infp_column *c = infp_table_column(tables[t], i);

                        assert_true(n < INFP_COUNT(seen));
                        if (c->kind == INFP_LABEL || !infp_prom_name(&seen[n], tables[t], c))
                                continue;
                        for (unsigned k = 0; k < n; k++)
                                if (!are_of_makers(of[k], tables[t]))
                                        assert_string_not_equal(seen[k].data, seen[n].data);
                        of[n++] = tables[t];
                }
        assert_true(n >= 200);
        while (n)
                infp_str_done(&seen[--n]);
}

static void test_the_missions_names(void **state)
{
        static const struct {
                const char *table, *unit;
                const char *columns[20];
        } wanted[] = {
                { "cpu",
                  "cs",
                  { "vCpuTime", "vCpuTimeUserMode", "vCpuTimeKernelMode", "vCpuIdleTime", "vCpuTimeIOWait",
                    "vCpuTimeIntSrvc", "vCpuTimeSoftIntSrvc", "vCpuNice", "vCpuSteal" } },
                { "cpu", "count", { "vCpuContextSwitches" } },
                { "cpu", "ratio", { "vLoadAvg" } },
                { "cpu_clock", "MHz", { "vCpuMhz" } },
                { "mem",
                  "bytes",
                  { "vMemoryTotal", "vMemoryFree", "vMemoryUsed", "vMemoryBuffers", "vMemoryCached", "vSwapTotal",
                    "vSwapFree", "vSwapUsed" } },
                { "mem", "%", { "vMemoryPercent" } },
                { "mem", "count", { "vPgFault", "vMajorPageFault" } },
                { "disk", "bytes", { "vDiskReadBytes", "vDiskWriteBytes" } },
                { "disk",
                  "count",
                  { "vDiskSuccessfulReads", "vDiskSuccessfulWrites", "vDiskIOInProgress", "vDiskMergedReads",
                    "vDiskMergedWrites" } },
                { "disk", "ms", { "vDiskReadTime", "vDiskWriteTime", "vDiskIOTime", "vDiskWeightedIOTime" } },
                { "disk", "sectors", { "vDiskSectorReads", "vDiskSectorWrites" } },
                { "net", "bytes", { "vNetworkBytesRecvd", "vNetworkBytesSent" } },
                { "net",
                  "count",
                  { "vNetworkPacketsRecvd", "vNetworkPacketsSent", "vNetworkErrorsRecvd", "vNetworkErrorsSent",
                    "vNetworkDropsRecvd", "vNetworkDropsSent" } },
                { "processes",
                  "cs",
                  { "pCpuTimeUserMode", "pCpuTimeKernelMode", "pChildrenUserMode", "pChildrenKernelMode" } },
                { "processes",
                  "count",
                  { "pNumThreads", "pVoluntaryContextSwitches", "pNonvoluntaryContextSwitches" } },
                { "processes", "bytes", { "pVirtualMemoryBytes", "pResidentSetSize" } },
                { "container", "", { "cId", "cCgroupVersion" } },
                { "containers", "ns", { "cCpuTime" } },
                { "containers", "cs", { "cCpuTimeUserMode", "cCpuTimeKernelMode" } },
                { "containers", "count", { "cNumProcessors" } },
                { "containers",
                  "bytes",
                  { "cMemoryUsed", "cMemoryMaxUsed", "cDiskReadBytes", "cDiskWriteBytes", "cNetworkBytesRecvd",
                    "cNetworkBytesSent" } },
                { "container_cpu", "ns", { "cCpuNTime" } },
                { "nvidia", "", { "gGpuIndex", "gPerfState", "gUuid", "gName", "gPciBusId" } },
                { "nvidia", "%", { "gUtilizationGpu", "gUtilizationMem", "gFanSpeed" } },
                { "nvidia",
                  "MiB",
                  { "gMemoryTotalMb", "gMemoryUsedMb", "gMemoryFreeMb", "gBar1UsedMb", "gBar1FreeMb" } },
                { "nvidia", "celsius", { "gTemperatureC" } },
                { "nvidia", "W", { "gPowerDrawW", "gPowerLimitW" } },
                { "nvidia", "MHz", { "gClockGraphicsMhz", "gClockSmMhz", "gClockMemMhz" } },
                { "nvidia", "KiB/s", { "gPcieTxKbps", "gPcieRxKbps" } },
                { "nvidia", "count", { "gEccSingleBitErrors", "gEccDoubleBitErrors", "gProcessCount" } },
                { "nvidia", "json", { "gProcesses" } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(wanted); i++) {
                const struct infp_table *table = infp_table_by_name(wanted[i].table);

                assert_non_null(table);
                for (size_t k = 0; wanted[i].columns[k]; k++) {
                        int at = infp_table_find(table, wanted[i].columns[k]);

                        if (at < 0)
                                print_error("%s has no %s\n", wanted[i].table, wanted[i].columns[k]);
                        assert_true(at >= 0);
                        assert_string_equal(infp_table_column(table, (unsigned) at)->unit->name, wanted[i].unit);
                }
        }
}

/* What people read in percent. A load average is a ratio, and 2 of it is no 200 %. */
static void test_shares(void **state)
{
        static const struct {
                const char *table, *column;
                bool is_share;
        } wanted[] = {
                { "cpu", "vLoadAvg", false },
                { "mem", "vMemoryPercent", true },
                { "mem", "vMemoryTotal", false },
                { "vllm", "cache_kv_usage_percent", true },
                { "vllm", "cache_prefix_hit_ratio", true },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(wanted); i++) {
                const struct infp_table *table = infp_table_by_name(wanted[i].table);
                const int at = infp_table_find(table, wanted[i].column);

                assert_true(at >= 0);
                assert_int_equal(infp_column_is_share(infp_table_column(table, (unsigned) at)), wanted[i].is_share);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_table_is_sound),
                cmocka_unit_test(test_names_of_the_series_are_unique),
                cmocka_unit_test(test_prometheus_names_are_unique),
                cmocka_unit_test(test_the_missions_names),
                cmocka_unit_test(test_shares),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
