/* Statistics, cores and the report as a whole; every expectation was computed by hand. */
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
#include "view/report.h"

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

static void assert_near(double a, double b)
{
        assert_true(fabs(a - b) <= 1e-9 * fmax(1, fabs(b)));
}

/* 1, 2, 3, 6: mean 3, squared distances 4 + 1 + 0 + 9 = 14, of the population 14 / 4 = 3.5. */
static void test_gauge(void **state)
{
        static const double values[] = { 1, 2, 3, 6 };
        struct infp_stat stat = { 0 };

        (void) state;
        assert_true(isnan(infp_stat_mean(&stat)) && isnan(infp_stat_std(&stat)));
        for (size_t i = 0; i < 4; i++)
                infp_stat_add_value(&stat, values[i], 1);
        assert_near(infp_stat_mean(&stat), 3);
        assert_near(infp_stat_std(&stat), sqrt(3.5));
        assert_near(stat.min, 1);
        assert_near(stat.max, 6);
}

/* Equal values have exactly that value as their mean, however many: 0.45 must not become 0.45000000000000001. */
static void test_mean_of_equal_values(void **state)
{
        struct infp_stat stat = { 0 };

        (void) state;
        for (int i = 0; i < 1000; i++)
                infp_stat_add_value(&stat, 0.45, 1);
        assert_true(infp_stat_mean(&stat) == 0.45 && infp_stat_std(&stat) == 0);
}

static void put_numbers(struct sample_run *s, uint64_t t_ns, double gauge, int64_t counter, int64_t noisy,
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

static void put_core(struct sample_run *s, uint64_t t_ns, int64_t core, int64_t user, int64_t idle)
{
        struct infp_row *row = sample_row(s, &core_table, t_ns);

        infp_row_i64(row, 0, core);
        infp_row_i64(row, 1, user);
        infp_row_i64(row, 2, 0);
        infp_row_i64(row, 3, idle);
        infp_row_i64(row, 4, 0);
        sample_put(s);
}

static void put_tree(struct sample_run *s, uint64_t t_ns, int64_t rss, int64_t cpu_ns, int64_t user, int64_t system)
{
        struct infp_row *row = sample_row(s, &tree_table, t_ns);

        infp_row_i64(row, 0, rss);
        if (cpu_ns >= 0)
                infp_row_i64(row, 1, cpu_ns);
        infp_row_i64(row, 2, user);
        infp_row_i64(row, 3, system);
        sample_put(s);
}

static void put_source(struct sample_run *s, uint64_t t_ns, const char *column, const char *word, const char *reason)
{
        struct infp_row *row = sample_row(s, &infp_table_sources, t_ns);

        infp_row_str(row, INFP_SOURCES_COLLECTOR, "numbers");
        infp_row_str(row, INFP_SOURCES_TABLE, "numbers");
        infp_row_str(row, INFP_SOURCES_COLUMN, column);
        infp_row_str(row, INFP_SOURCES_STATE, word);
        infp_row_str(row, INFP_SOURCES_REASON, reason);
        sample_put(s);
}

static struct sample_run *begin_with(const struct infp_table *tree)
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

static struct sample_run *begin(void)
{
        return begin_with(&tree_table);
}

/* Ends it as a run of this mode from 10 s to `end` on the monotonic clock. */
static void finish(struct sample_run *s, const char *mode, uint64_t end_ns)
{
        sample_end(s);
        s->run->info.started_t_ns = 10 * S;
        s->run->info.started_unix_ns = SAMPLE_UNIX + (int64_t) (10 * S);
        s->run->info.ended_t_ns = end_ns;
        free(s->run->info.mode);
        s->run->info.mode = strdup(mode);
}

static void make(struct sample_run *s, const char *from, const char *to, uint64_t skip_ns, struct infp_report *report)
{
        const struct infp_report_options options = { .from = from, .to = to, .skip_ns = skip_ns };

        sample_check(s, infp_report_make(s->run, &options, report, &s->err));
}

/* counter: 100 at 10 s, absent, 400 at 12 s, then it began anew: 50 at 13 s. Increases 300 in 2 s (150/s) and 50 in 1 s:
 * mean 350 / 3, variance (2 (150 - 116.67)^2 + (50 - 116.67)^2) / 3. noisy: 500, 480, 510: 0 and 30. The integer beyond 2^53
 * differs exactly. */
static void test_counters(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        const struct infp_report_metric *m;

        (void) state;
        put_numbers(s, 10 * S, 50, 100, 500, 0.5);
        put_numbers(s, 11 * S, NAN, -1, 480, 1.0);
        put_numbers(s, 12 * S, 70, 400, 510, 1.25);
        put_numbers(s, 13 * S, 60, 50, 510, 0.25);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);

        m = infp_report_find(&report, "counter");
        assert_non_null(m);
        assert_int_equal(m->stat.n, 2);
        assert_int_equal(m->stat.total_u64, 350);
        assert_near(infp_stat_mean(&m->stat), 350.0 / 3);
        assert_near(infp_stat_std(&m->stat), sqrt((2 * pow(150 - 350.0 / 3, 2) + pow(50 - 350.0 / 3, 2)) / 3));
        assert_near(m->stat.min, 50);
        assert_near(m->stat.max, 150);
        m = infp_report_find(&report, "noisy");
        assert_int_equal(m->stat.total_u64, 30);
        assert_near(m->stat.min, 0);
        m = infp_report_find(&report, "floating");
        assert_near(infp_stat_total(&m->stat, &m->column), 0.75 + 0.25);
        m = infp_report_find(&report, "gauge");
        assert_int_equal(m->stat.n, 3);
        assert_near(infp_stat_mean(&m->stat), 60);
        assert_near(infp_report_mean(&report, "gauge"), 0.6);
        assert_near(infp_report_max(&report, "gauge"), 0.7);
        assert_null(infp_report_find(&report, "nothing"));
        assert_near(report.wall_s, 4);
        assert_true(isnan(report.tree_cpu_s));
        infp_report_done(&report);
        sample_free(s);
}

static void test_big_counters(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_numbers(s, 10 * S, 0, INT64_C(9007199254740993), 0, 0);
        put_numbers(s, 11 * S, 0, INT64_C(9007199254740994), 0, 0);
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(infp_report_find(&report, "counter")->stat.total_u64, 1);
        infp_report_done(&report);
        sample_free(s);
}

/* Loads 0 and 100: (2 (1 x 0 + 2 x 1) - 2 - 1) / 2 = 0.5, normalised by (n - 1) / n = 0.5: 100. 10 20 30 40: p = .1 .2 .3 .4,
 * 2 x 3.0 - 5 = 1, / 4 = 0.25, / 0.75 = 33.33. */
static void test_disparity(void **state)
{
        double one[] = { 100, 0 }, even[] = { 50, 50, 50 }, four[] = { 30, 10, 40, 20 }, none[] = { 0, 0 };

        (void) state;
        assert_near(infp_disparity(one, 2), 100);
        assert_near(infp_disparity(even, 3), 0);
        assert_near(infp_disparity(four, 4), 100.0 / 3);
        assert_true(isnan(infp_disparity(none, 2)));
        assert_true(isnan(infp_disparity(one, 1)));
}

/* Intervals: (100, 0): disparity 100, core 0 dominates; (0, 100): 100, core 1; (50, 50): 0, nobody; (0, 0): left out;
 * (100, 0): core 0 again. Mean of 100, 100, 0, 100 = 75; two changes. Core 0: 100, 0, 50, 0, 100: mean 50. */
static void test_cores(void **state)
{
        static const int64_t user[2][6] = { { 0, 100, 100, 150, 150, 250 }, { 7, 7, 107, 157, 157, 157 } };
        static const int64_t idle[2][6] = { { 0, 0, 100, 150, 250, 250 }, { 0, 100, 100, 150, 250, 350 } };
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        for (unsigned tick = 0; tick < 6; tick++)
                for (unsigned core = 0; core < 2; core++)
                        put_core(s, (10 + tick) * S, core, user[core][tick], idle[core][tick]);
        finish(s, "host", 16 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.cores.n, 2);
        assert_near(infp_stat_mean(&report.cores.cores[0].stat), 50);
        assert_near(infp_stat_mean(&report.cores.cores[1].stat), 30);
        assert_near(infp_stat_mean(&report.cores.disparity), 75);
        assert_int_equal(report.cores.n_dominated, 3);
        assert_int_equal(report.cores.n_dominant_changes, 2);
        infp_report_done(&report);
        sample_free(s);
}

/* Report 02: core 2 comes back with a past of 31206 cs; the others keep their own numbers. */
static void test_core_that_comes_back(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_core(s, 10 * S, 2, 31000, 800);
        put_core(s, 10 * S, 3, 29870, 97300);
        put_core(s, 11 * S, 3, 29880, 97390);
        put_core(s, 12 * S, 3, 29970, 97400);
        put_core(s, 12 * S, 2, 31206, 842);
        put_core(s, 13 * S, 2, 31216, 932);
        put_core(s, 13 * S, 3, 29980, 97490);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.cores.n, 2);
        assert_int_equal(report.cores.cores[0].number, 2);
        assert_int_equal(report.cores.cores[0].stat.n, 1);
        assert_near(infp_stat_mean(&report.cores.cores[0].stat), 10);
        assert_int_equal(report.cores.cores[1].stat.n, 3);
        assert_near(infp_stat_mean(&report.cores.cores[1].stat), (10 + 90 + 10) / 3.0);
        infp_report_done(&report);
        sample_free(s);
}

/* A command's counters begin with it: what the first sample holds counts. What was attached to had a life before. */
static void test_cpu_of_the_tree(void **state)
{
        static const struct {
                const char *mode;
                uint64_t skip_s;
                double cpu, user, system;
        } cases[] = { { "run", 0, 3.5, 3, 0.5 }, { "pid", 0, 3, 2.6, 0.4 }, { "run", 1, 1, 0.8, 0.2 } };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct sample_run *s = begin();
                struct infp_report report;

                put_tree(s, 10 * S, 100, 500000000, 40, 10);
                put_tree(s, 11 * S, 300, 2500000000, 220, 30);
                put_tree(s, 12 * S, 200, 3500000000, 300, 50);
                finish(s, cases[i].mode, 13 * S);
                make(s, NULL, NULL, cases[i].skip_s * S, &report);
                assert_near(report.tree_cpu_s, cases[i].cpu);
                assert_near(report.tree_user_s, cases[i].user);
                assert_near(report.tree_system_s, cases[i].system);
                assert_true(report.tree_is_fine);
                assert_near(infp_report_max(&report, "tree_rss_bytes"), 300);
                infp_report_done(&report);
                sample_free(s);
        }
}

/* Without CPU clocks the ticks of 10 ms are taken, and said. */
static void test_cpu_of_ticks(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_tree(s, 10 * S, 100, -1, 0, 0);
        put_tree(s, 11 * S, 100, -1, 70, 20);
        finish(s, "run", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.tree_cpu_s, 0.9);
        assert_false(report.tree_is_fine);
        infp_report_done(&report);
        sample_free(s);
}

/* The last word about each source counts; what works at the end is not absent. */
static void test_absences(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_source(s, 10 * S, "gauge", "absent", "not yet there");
        put_source(s, 10 * S, "counter", "absent", "no file");
        put_source(s, 11 * S, "gauge", "ok", "");
        put_source(s, 12 * S, "counter", "denied", "no right");
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.absences.n, 1);
        assert_string_equal(report.absences.list[0].column, "counter");
        assert_string_equal(report.absences.list[0].state, "denied");
        assert_string_equal(report.absences.list[0].reason, "no right");
        infp_report_done(&report);
        make(s, NULL, "+500ms", 0, &report);
        assert_int_equal(report.absences.n, 2);
        infp_report_done(&report);
        sample_free(s);
}

static void test_nothing_was_recorded(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_out out;

        (void) state;
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        infp_out_init(&out, -1, "nowhere");
        infp_report_text(&out, &report, true);
        infp_report_json(&out, &report);
        assert_non_null(strstr(out.text.data, "not measured"));
        assert_non_null(strstr(out.text.data, "\"tree_cpu_s\": null"));
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* An old run wrote 0 for the gauges of a tree without a process, before its first and after its last: 100 and 300 were seen. */
static void put_sized(struct sample_run *s, uint64_t t_ns, int64_t processes, int64_t threads, int64_t rss,
                      int64_t user)
{
        struct infp_row *row = sample_row(s, &sized_table, t_ns);
        const int64_t values[] = { processes, threads, rss, user, 0, 0 };

        for (unsigned i = 0; i < INFP_COUNT(values); i++)
                if (values[i] >= 0)
                        infp_row_i64(row, i, values[i]);
        sample_put(s);
}

static void test_empty_tree(void **state)
{
        struct sample_run *s = begin_with(&sized_table);
        struct infp_report report;
        const struct infp_report_metric *m;

        (void) state;
        put_sized(s, 10 * S, 0, 0, 0, 0);
        put_sized(s, 11 * S, 1, 4, 100, 50);
        put_sized(s, 12 * S, 2, 8, 300, 150);
        put_sized(s, 13 * S, 0, -1, -1, 170);
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        m = infp_report_find(&report, "tree_rss_bytes");
        assert_int_equal(m->stat.n, 2);
        assert_near(m->stat.min, 100);
        assert_near(infp_stat_mean(&m->stat), 200);
        assert_near(infp_report_find(&report, "tree_threads")->stat.min, 4);
        assert_near(infp_report_find(&report, "tree_processes")->stat.min, 1);
        assert_near(report.tree_user_s, 1.7);
        assert_false(infp_report_tree_unseen(&report));
        infp_report_done(&report);
        sample_free(s);
}

static char *text_of(const struct infp_report *report, unsigned width)
{
        struct infp_out out;
        char *ret;

        infp_out_init(&out, -1, "nowhere");
        out.width = width;
        infp_report_text(&out, report, false);
        ret = strdup(out.text.data);
        infp_out_done(&out);
        return ret;
}

static void test_unseen_tree(void **state)
{
        struct sample_run *s = begin_with(&sized_table);
        struct infp_report report;
        char *text;

        (void) state;
        put_sized(s, 10 * S, 0, 0, 0, 0);
        put_sized(s, 11 * S, 0, 0, 0, 1);
        finish(s, "run", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_true(infp_report_tree_unseen(&report));
        text = text_of(&report, 80);
        assert_non_null(strstr(text, "threads     not seen"));
        assert_non_null(strstr(text, "tree: in RAM (RSS)                   not seen       not seen"));
        assert_non_null(strstr(text, "tree: by calls, caches too           not seen       not seen"));
        assert_non_null(strstr(text, "ran between two samples"));
        assert_null(strstr(text, " 0 B"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* 3 s of reads in a second: three were under way at once. */
static void test_disk_times(void **state)
{
        static const int64_t busy[][2] = { { 3000, 200 }, { 900, 1000 } };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(busy); i++) {
                struct sample_run *s = begin();
                struct infp_report report;
                char *text;

                for (unsigned tick = 0; tick < 2; tick++) {
                        struct infp_row *row = sample_row(s, &disk_table, (10 + tick) * S);

                        infp_row_i64(row, 0, tick * busy[i][0]);
                        infp_row_i64(row, 1, tick * busy[i][1]);
                        infp_row_i64(row, 2, tick * 4096);
                        sample_put(s);
                }
                finish(s, "host", 12 * S);
                make(s, NULL, NULL, 0, &report);
                text = text_of(&report, 80);
                assert_true(!strstr(text, "note        vDiskReadTime: the time of all requests in flight") == (i == 1));
                free(text);
                infp_report_done(&report);
                sample_free(s);
        }
}

static void put_process(struct sample_run *s, uint64_t t_ns, uint64_t id, const char *name, const char *command,
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

static void put_use(struct sample_run *s, uint64_t t_ns, uint64_t id, bool in_tree, int64_t ticks, int64_t cpu_ms,
                    int64_t rss, int64_t peak)
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

/* 1 lived before: 5.5 s - 5 s; its peak is from before. 2 began in the range: all of its 3 s, and the kernel's peak. 3 has
 * ticks alone: 120 cs - 20 cs. 4's clock could not be read when it ended: its ticks know of 2.4 s. 5 and 6 share the last
 * place by memory. 7 has the most memory, and hardly any CPU time. */
static struct sample_run *some_processes(void)
{
        struct sample_run *s = begin();

        put_process(s, 10 * S, 1, "old", "/opt/old --x", 1 * S);
        put_process(s, 10 * S, 3, "ticks", "ticks", 2 * S);
        put_process(s, 12 * S, 2, "sh", "sh", 12 * S - 5000000);
        put_process(s, 13 * S, 2, "new", "python3 new.py", 12 * S - 5000000);
        put_process(s, 12 * S, 4, "ended", NULL, 12 * S);
        put_process(s, 10 * S, 5, "five", "five", 3 * S);
        put_process(s, 10 * S, 6, "six", "six", 3 * S);
        put_process(s, 10 * S, 7, "big", "big", 3 * S);
        put_use(s, 10 * S, 1, true, 500, 5000, 100, 9000);
        put_use(s, 10 * S, 3, true, 20, -1, 50, -1);
        put_use(s, 10 * S, 5, true, 0, 100, 60, -1);
        put_use(s, 10 * S, 6, true, 0, 100, 70, -1);
        put_use(s, 10 * S, 7, true, 0, 500, 8000, -1);
        put_use(s, 12 * S, 2, true, 40, 500, 200, 200);
        put_use(s, 12 * S, 4, true, 30, 300, 10, -1);
        put_use(s, 13 * S, 1, true, 550, 5500, 80, 9000);
        put_use(s, 13 * S, 2, true, 300, 3000, 300, 700);
        put_use(s, 13 * S, 3, true, 120, -1, 40, -1);
        put_use(s, 13 * S, 4, true, 240, -1, -1, -1);
        put_use(s, 13 * S, 5, true, 0, 300, 60, -1);
        put_use(s, 13 * S, 6, true, 0, 300, 70, -1);
        put_use(s, 13 * S, 7, true, 0, 501, 7000, -1);
        put_tree(s, 10 * S, 100, 0, 0, 0);
        put_tree(s, 13 * S, 100, INT64_C(10000000000), 0, 0);
        return s;
}

static void test_processes(void **state)
{
        static const struct {
                int64_t pid;
                const char *name, *command;
                double cpu_s, share, rss;
        } expected[] = {
                { 20, "new", "python3 new.py", 3, 30, 700 },
                { 40, "ended", NULL, 2.4, 24, 10 },
                { 30, "ticks", "ticks", 1, 10, 50 },
                { 10, "old", "/opt/old --x", 0.5, 5, 100 },
                { 60, "six", "six", 0.2, 2, 70 },
                { 70, "big", "big", 0.001, 0.01, 8000 },
        };
        struct sample_run *s = some_processes();
        struct infp_report report;
        char *text;

        (void) state;
        finish(s, "pid", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.processes.n_seen, 7);
        assert_int_equal(report.processes.n, INFP_COUNT(expected));
        assert_false(report.processes.beyond_tree);
        for (size_t i = 0; i < INFP_COUNT(expected); i++) {
                const struct infp_report_process *p = &report.processes.list[i];

                assert_int_equal(p->pid, expected[i].pid);
                assert_string_equal(p->name, expected[i].name);
                assert_string_equal(p->command ? p->command : "-", expected[i].command ? expected[i].command : "-");
                assert_near(p->cpu_s, expected[i].cpu_s);
                assert_near(p->cpu_share_percent, expected[i].share);
                assert_near(p->rss_peak_bytes, expected[i].rss);
        }
        assert_int_equal(report.processes.list[0].first_unix_ns, SAMPLE_UNIX + (int64_t) (12 * S));
        assert_int_equal(report.processes.list[0].last_unix_ns, SAMPLE_UNIX + (int64_t) (13 * S));
        text = text_of(&report, 80);
        assert_non_null(strstr(text, "       20 new               3.00 s   30.0 %     700 B  python3 new.py\n"));
        assert_non_null(strstr(text, "  old --x\n"));
        assert_non_null(strstr(text, "The 5 of 7 with the most CPU time, and the one with the most memory."));
        free(text);
        infp_report_done(&report);
        /* What a command used before its first row is of the run as well. */
        free(s->run->info.mode);
        s->run->info.mode = strdup("run");
        make(s, NULL, NULL, 0, &report);
        assert_string_equal(report.processes.list[0].name, "old");
        assert_near(report.processes.list[0].cpu_s, 5.5);
        assert_near(report.processes.list[0].rss_peak_bytes, 9000);
        infp_report_done(&report);
        sample_free(s);
}

/* Where others were recorded the shares are of all CPUs: 3 s in 4 s of 2 CPUs. */
static void test_processes_of_the_machine(void **state)
{
        struct sample_run *s = some_processes();
        struct infp_report report;

        (void) state;
        put_use(s, 13 * S, 8, false, 1, 10, 5, -1);
        infp_row_i64(sample_row(s, &host_table, 10 * S), 2, 2);
        sample_put(s);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_true(report.processes.beyond_tree);
        assert_near(report.processes.list[0].cpu_share_percent, 37.5);
        infp_report_done(&report);
        sample_free(s);
}

/* Of more processes than are compared the rows of the later ones are counted, and the report says so. */
static void test_too_many_processes(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        char *text;

        (void) state;
        for (unsigned i = 1; i <= INFP_REPORT_MAX_PROCESSES + 3; i++) {
                put_use(s, 11 * S, i, true, 1, i, 10, -1);
                if (i % 4096 == 0)
                        sample_flush(s);
        }
        put_use(s, 12 * S, 5, true, 700, 7000000, 10, -1);
        put_use(s, 12 * S, INFP_REPORT_MAX_PROCESSES + 1, true, 700, 9000000, 10, -1);
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.processes.n_seen, INFP_REPORT_MAX_PROCESSES);
        assert_int_equal(report.processes.n_rows_left_out, 4);
        assert_int_equal(report.processes.list[0].id, 5);
        assert_near(report.processes.list[0].cpu_s, 7000);
        assert_int_equal(report.processes.list[1].id, INFP_REPORT_MAX_PROCESSES);
        text = text_of(&report, 120);
        assert_non_null(
                strstr(text, "Only the first 65536 processes were compared; 4 rows of later ones were left out."));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* The sample at the end, which comes 400 ms before its time, takes nothing off the lateness of the others: 3, 1 and 0 ms. */
static void test_early_last_tick(void **state)
{
        static const int64_t late_ms[] = { 3, 1, -400 };
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(late_ms); i++) {
                infp_row_i64(sample_row(s, &infp_table_ticks, (10 + i) * S), INFP_TICKS_LATE_NS, late_ms[i] * 1000000);
                sample_put(s);
        }
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.ticks.n, 3);
        assert_near(infp_stat_mean(&report.ticks.late_ns), 4e6 / 3);
        assert_near(report.ticks.late_ns.min, 0);
        assert_near(report.ticks.late_ns.max, 3e6);
        infp_report_done(&report);
        sample_free(s);
}

/* No line is longer than the terminal, whatever the names. */
static void test_text_fits(void **state)
{
        static const unsigned widths[] = { 80, 120 };
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_numbers(s, 10 * S, 50, 100, 500, 0.5);
        put_numbers(s, 11 * S, 51, INT64_C(900719925474099), 480, 1.0);
        for (uint64_t t = 10; t < 13; t++)
                for (int64_t core = 0; core < 40; core++)
                        put_core(s, t * S, core, (int64_t) (t - 10) * 2 * core, (int64_t) (t - 10) * 100);
        put_tree(s, 10 * S, 1, 0, 0, 0);
        put_tree(s, 11 * S, 1, 900000000, 80, 10);
        put_source(s, 10 * S, "a_column_with_a_name_that_goes_on_and_on", "broken",
                   "a reason that needs more than one line to be told, since whoever wrote it took the time to say "
                   "what is wrong");
        put_process(s, 10 * S, 1, "a name that is long and longer",
                    "/usr/bin/python3 \033[31m --and --has --many --arguments --which "
                    "--do --not --fit --in --a --line --of --a --terminal --of --whatever --width --it --may --be",
                    10 * S);
        put_use(s, 10 * S, 1, true, 80, INT64_C(90000000), INT64_C(900719925474099), -1);
        finish(s, "run", 12 * S);
        free(s->run->info.command);
        s->run->info.command = strdup(
                "python3 -c 'a command \033[31m that is long' --and --has --many --arguments --which --do --not --fit");
        make(s, NULL, NULL, 0, &report);
        for (size_t i = 0; i < INFP_COUNT(widths); i++) {
                struct infp_out out;
                char *save = NULL;

                infp_out_init(&out, -1, "nowhere");
                out.width = widths[i];
                infp_report_text(&out, &report, true);
                assert_null(strchr(out.text.data, '\033'));
                for (char *line = strtok_r(out.text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                        if (infp_text_width(line, strlen(line)) > widths[i])
                                fail_msg("longer than %u: %s", widths[i], line);
                infp_out_done(&out);
        }
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gauge),
                cmocka_unit_test(test_mean_of_equal_values),
                cmocka_unit_test(test_counters),
                cmocka_unit_test(test_big_counters),
                cmocka_unit_test(test_disparity),
                cmocka_unit_test(test_cores),
                cmocka_unit_test(test_core_that_comes_back),
                cmocka_unit_test(test_cpu_of_the_tree),
                cmocka_unit_test(test_cpu_of_ticks),
                cmocka_unit_test(test_absences),
                cmocka_unit_test(test_nothing_was_recorded),
                cmocka_unit_test(test_empty_tree),
                cmocka_unit_test(test_unseen_tree),
                cmocka_unit_test(test_disk_times),
                cmocka_unit_test(test_processes),
                cmocka_unit_test(test_processes_of_the_machine),
                cmocka_unit_test(test_too_many_processes),
                cmocka_unit_test(test_early_last_tick),
                cmocka_unit_test(test_text_fits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
