/* A run for the tests of the report, made row by row: tables, rows, the report of a range. For several test programs. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/report.h"
#include "base/mem.h"
#include "query_sample.h"
#include "view/report/report.h"

#define S UINT64_C(1000000000)

// clang-format off
static const struct infp_column numbers[] = {
        INFP_COLUMN(gauge, F64, GAUGE, percent, MEASURED, NO, NULL, 0, NULL, "Gauge."),
        INFP_COLUMN(counter, I64, COUNTER, bytes, MEASURED, ZERO, NULL, 0, NULL, "Counter."),
        INFP_COLUMN(noisy, I64, COUNTER, cs, MEASURED, NONE, NULL, 0, NULL, "Counter that may step back."),
        INFP_COLUMN(floating, F64, COUNTER, none, MEASURED, ZERO, NULL, 0, NULL, "Float counter."),
};
static const struct infp_column core_keys[] = {
        INFP_COLUMN(core, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Core."),
};
static const struct infp_column core_columns[] = {
        INFP_COLUMN(vCpuTimeUserMode, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "User."),
        INFP_COLUMN(vCpuTimeKernelMode, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "Kernel."),
        INFP_COLUMN(vCpuIdleTime, I64, COUNTER, cs, MEASURED, NONE, NULL, 0, NULL, "Idle."),
        INFP_COLUMN(vCpuTimeIOWait, I64, COUNTER, cs, MEASURED, NONE, NULL, 0, NULL, "Waiting."),
};
static const struct infp_column tree_columns[] = {
        INFP_COLUMN(tree_rss_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Memory."),
        INFP_COLUMN(tree_cpu_ns, I64, COUNTER, ns, DERIVED, ZERO, NULL, 0, NULL, "CPU."),
        INFP_COLUMN(tree_cpu_user, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, NULL, "User."),
        INFP_COLUMN(tree_cpu_system, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, NULL, "System."),
};
static const struct infp_column sized_columns[] = {
        INFP_COLUMN(tree_processes, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Processes."),
        INFP_COLUMN(tree_threads, I64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Threads."),
        INFP_COLUMN(tree_rss_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Memory."),
        INFP_COLUMN(tree_cpu_user, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, NULL, "User."),
        INFP_COLUMN(tree_cpu_system, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, NULL, "System."),
        INFP_COLUMN(tree_rchar, I64, COUNTER, bytes, DERIVED, ZERO, NULL, 0, NULL, "Read."),
};
static const struct infp_column process_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Process."),
};
static const struct infp_column process_columns[] = {
        INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Pid."),
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        INFP_COLUMN(pCmdline, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Command."),
        INFP_COLUMN(pStartTime, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Start."),
};
static const struct infp_column processes_keys[] = {
        INFP_COLUMN(process, ID64, LABEL, none, DERIVED, NO, "process", 0, NULL, "Process."),
};
static const struct infp_column processes_columns[] = {
        INFP_COLUMN(pInTree, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of the target."),
        INFP_COLUMN(pCpuTimeUserMode, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "User."),
        INFP_COLUMN(pCpuTimeKernelMode, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "Kernel."),
        INFP_COLUMN(pCpuTimeNs, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "CPU."),
        INFP_COLUMN(pResidentSetSize, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Memory."),
        INFP_COLUMN(pRssPeakBytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Most memory."),
};
static const struct infp_column disk_columns[] = {
        INFP_COLUMN(vDiskReadTime, I64, COUNTER, ms, MEASURED, NONE, NULL, 0, NULL, "Reads."),
        INFP_COLUMN(vDiskWriteTime, I64, COUNTER, ms, MEASURED, NONE, NULL, 0, NULL, "Writes."),
        INFP_COLUMN(vDiskReadBytes, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, NULL, "Read."),
};
static const struct infp_column host_columns[] = {
        INFP_COLUMN(vEffectiveCpus, F64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "CPUs."),
        INFP_COLUMN(vCgroupMemoryLimit, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Limit."),
        INFP_COLUMN(vNumProcessors, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "CPUs."),
};
// clang-format on
static const struct infp_table numbers_table = {
        .name = "numbers", .help = "Of the tests.", .columns = numbers, .n_columns = 4, .series = ""
};
static const struct infp_table core_table = { .name = "cpu_core",
                                              .help = "Of the tests.",
                                              .keys = core_keys,
                                              .columns = core_columns,
                                              .n_keys = 1,
                                              .n_columns = 4 };
static const struct infp_table tree_table = {
        .name = "tree", .help = "Of the tests.", .columns = tree_columns, .n_columns = 4, .series = ""
};
static const struct infp_table sized_table = {
        .name = "tree", .help = "Of the tests.", .columns = sized_columns, .n_columns = 6, .series = ""
};
static const struct infp_table process_table = { .name = "process",
                                                 .help = "Of the tests.",
                                                 .keys = process_keys,
                                                 .columns = process_columns,
                                                 .n_keys = 1,
                                                 .n_columns = 4,
                                                 .entity = true };
static const struct infp_table processes_table = { .name = "processes",
                                                   .help = "Of the tests.",
                                                   .keys = processes_keys,
                                                   .columns = processes_columns,
                                                   .n_keys = 1,
                                                   .n_columns = 6,
                                                   .on_change = true };
static const struct infp_table disk_table = {
        .name = "disk", .help = "Of the tests.", .columns = disk_columns, .n_columns = 3, .series = ""
};
static const struct infp_table host_table = {
        .name = "host", .help = "Of the tests.", .columns = host_columns, .n_columns = 3
};

static inline void assert_near(double a, double b)
{
        assert_true(fabs(a - b) <= 1e-9 * fmax(1, fabs(b)));
}

static inline void put_numbers(struct sample_run *s, uint64_t t_ns, double gauge, int64_t counter, int64_t noisy,
                               double floating)
{
        struct infp_row *row = sample_row(s, &numbers_table, t_ns);

        if (!isnan(gauge))
                infp_row_f64(row, 0, gauge);
        if (counter >= 0)
                infp_row_i64(row, 1, counter);
        infp_row_i64(row, 2, noisy);
        infp_row_f64(row, 3, floating);
        sample_put(s);
}

static inline void put_core(struct sample_run *s, uint64_t t_ns, int64_t core, int64_t user, int64_t idle)
{
        struct infp_row *row = sample_row(s, &core_table, t_ns);

        infp_row_i64(row, 0, core);
        infp_row_i64(row, 1, user);
        infp_row_i64(row, 2, 0);
        infp_row_i64(row, 3, idle);
        infp_row_i64(row, 4, 0);
        sample_put(s);
}

static inline void put_tree(struct sample_run *s, uint64_t t_ns, int64_t rss, int64_t cpu_ns, int64_t user,
                            int64_t system)
{
        struct infp_row *row = sample_row(s, &tree_table, t_ns);

        infp_row_i64(row, 0, rss);
        if (cpu_ns >= 0)
                infp_row_i64(row, 1, cpu_ns);
        infp_row_i64(row, 2, user);
        infp_row_i64(row, 3, system);
        sample_put(s);
}

static inline void put_source(struct sample_run *s, uint64_t t_ns, const char *column, const char *word,
                              const char *reason)
{
        struct infp_row *row = sample_row(s, &infp_table_sources, t_ns);

        infp_row_str(row, INFP_SOURCES_COLLECTOR, "numbers");
        infp_row_str(row, INFP_SOURCES_TABLE, "numbers");
        infp_row_str(row, INFP_SOURCES_COLUMN, column);
        infp_row_str(row, INFP_SOURCES_STATE, word);
        infp_row_str(row, INFP_SOURCES_REASON, reason);
        sample_put(s);
}

static inline struct sample_run *begin_with(const struct infp_table *tree)
{
        const struct infp_table *const tables[] = { &numbers_table,
                                                    &core_table,
                                                    tree,
                                                    &host_table,
                                                    &disk_table,
                                                    &process_table,
                                                    &processes_table,
                                                    &infp_table_sources,
                                                    &infp_table_ticks,
                                                    NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

static inline struct sample_run *begin(void)
{
        return begin_with(&tree_table);
}

/* Ends it as a run of this mode from 10 s to `end` on the monotonic clock. */
static inline void finish(struct sample_run *s, const char *mode, uint64_t end_ns)
{
        sample_end(s);
        s->run->info.started_t_ns = 10 * S;
        s->run->info.started_unix_ns = SAMPLE_UNIX + (int64_t) (10 * S);
        s->run->info.ended_t_ns = end_ns;
        free(s->run->info.mode);
        s->run->info.mode = strdup(mode);
}

static inline void make(struct sample_run *s, const char *from, const char *to, uint64_t skip_ns,
                        struct infp_report *report)
{
        const struct infp_report_options options = { .from = from, .to = to, .skip_ns = skip_ns };

        sample_check(s, infp_report_make(s->run, &options, report, &s->err));
}

static inline char *text_of(const struct infp_report *report, unsigned width)
{
        struct infp_out out;
        char *ret;

        infp_out_init(&out, -1, "nowhere");
        out.width = width;
        infp_report_text(&out, report, INFP_REPORT_FULL, NULL);
        ret = strdup(out.text.data);
        infp_out_done(&out);
        return ret;
}

static inline void put_process(struct sample_run *s, uint64_t t_ns, uint64_t id, const char *name, const char *command,
                               uint64_t start_ns)
{
        struct infp_row *row = sample_row(s, &process_table, t_ns);

        infp_row_id(row, 0, id);
        infp_row_i64(row, 1, (int64_t) id * 10);
        infp_row_str(row, 2, name);
        if (command)
                infp_row_str(row, 3, command);
        infp_row_ts(row, 4, SAMPLE_UNIX + (int64_t) start_ns);
        sample_put(s);
}

static inline void put_use(struct sample_run *s, uint64_t t_ns, uint64_t id, bool in_tree, int64_t ticks,
                           int64_t cpu_ms, int64_t rss, int64_t peak)
{
        struct infp_row *row = sample_row(s, &processes_table, t_ns);

        infp_row_id(row, 0, id);
        infp_row_bool(row, 1, in_tree);
        infp_row_i64(row, 2, ticks);
        infp_row_i64(row, 3, 0);
        if (cpu_ms >= 0)
                infp_row_i64(row, 4, cpu_ms * 1000000);
        if (rss >= 0)
                infp_row_i64(row, 5, rss);
        if (peak >= 0)
                infp_row_i64(row, 6, peak);
        sample_put(s);
}
