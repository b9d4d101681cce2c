/* Rules of bottlenecks on reports that are made by hand: what each finds, how much it says that costs, what explains what, and that
 * what was not recorded is never fine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/report.h"
#include "base/mem.h"
#include "view/report/findings.h"

static struct infp_run run;
static struct infp_container_use use;
static struct infp_report_engine engine;
static struct infp_gpu gpu;
static struct infp_gil_thread threads[2];
static struct infp_report_metric metrics[16];

static void add(struct infp_report *report, const char *table, const char *name, double mean, double max)
{
        struct infp_report_metric *m = &metrics[report->n_metrics++];

        *m = (struct infp_report_metric){ .table = (char *) table, .name = (char *) name, .factor = 1 };
        m->column.kind = INFP_GAUGE;
        m->stat = (struct infp_stat){ .n = 10, .weight = 10, .mean = mean, .max = max };
        report->metrics = metrics;
}

/* In 10 s. factor: to the base unit. */
static void add_total(struct infp_report *report, const char *table, const char *name, double total, double factor)
{
        add(report, table, name, total / 10, total);
        metrics[report->n_metrics - 1].factor = factor;
        metrics[report->n_metrics - 1].column.kind = INFP_COUNTER;
        metrics[report->n_metrics - 1].column.type = INFP_U64;
        metrics[report->n_metrics - 1].stat.total_u64 = (uint64_t) total;
}

/* A target that used this much CPU in 10 s, and whose threads waited this long for CPUs, of which it may use two. busy: the machine. */
static struct infp_report target(double cpu_s, double delay_s, double busy_percent)
{
        struct infp_report report = {
                .run = &run, .wall_s = 10, .tree_cpu_s = cpu_s, .effective_cpus = 2, .n_cpus = 2
        };

        run.info.mode = (char *) "run";
        report.energy.tree_joules = NAN;
        report.cores.average = (struct infp_stat){ .n = 10, .weight = 10, .mean = busy_percent };
        add_total(&report, "tree", "tree_run_delay_ns", delay_s * 1e9, 1e-9);
        return report;
}

static struct infp_bottlenecks find(struct infp_report *report)
{
        struct infp_bottlenecks ret;

        infp_limits_find(report, &report->limits);
        assert_int_equal(infp_bottlenecks_find(report, INFP_HOTSPOT_SAMPLES, &ret), 0);
        return ret;
}

static const struct infp_bottleneck *get(const struct infp_bottlenecks *findings, const char *id)
{
        for (unsigned i = 0; i < findings->n; i++)
                if (!strcmp(findings->list[i].rule->id, id))
                        return &findings->list[i];
        return NULL;
}

static const char *reason(const struct infp_bottlenecks *findings, const char *id)
{
        for (unsigned i = 0; i < findings->n_unchecked; i++)
                if (!strcmp(findings->unchecked[i].rule->id, id))
                        return findings->unchecked[i].reason;
        return NULL;
}

static bool is_clear(const struct infp_bottlenecks *findings, const char *id)
{
        for (unsigned i = 0; i < findings->n_clear; i++)
                if (!strcmp(findings->clear[i]->id, id))
                        return true;
        return false;
}

static void expect(struct infp_report *report, const char *id, enum infp_severity severity, double share)
{
        struct infp_bottlenecks findings = find(report);
        const struct infp_bottleneck *f = get(&findings, id);

        if (!f)
                fail_msg("%s was not found", id);
        if (f->severity != severity)
                fail_msg("%s is %s", id, infp_severity_name(f->severity));
        if (isnan(share) ? !isnan(f->share) || !f->no_share : !(fabs(f->share - share) < 1e-6))
                fail_msg("%s has the share %g", id, f->share);
        if (!isnan(share) && isnan(f->low) != (f->no_interval != NULL))
                fail_msg("%s has neither an interval nor a reason", id);
        assert_true(f->n_lines > 0);
        infp_bottlenecks_done(&findings);
}

static void expect_clear(struct infp_report *report, const char *id)
{
        struct infp_bottlenecks findings = find(report);

        if (!is_clear(&findings, id))
                fail_msg("%s is not clear: %s", id, get(&findings, id) ? "found" : reason(&findings, id));
        infp_bottlenecks_done(&findings);
}

static size_t index_of(const char *id)
{
        size_t i = 0;

        while (infp_rules[i].id && strcmp(infp_rules[i].id, id) != 0)
                i++;
        return i;
}

/* A cause stands before what it explains, so that there is no circle. */
static void test_records(void **state)
{
        (void) state;
        for (size_t i = 0; infp_rules[i].id; i++) {
                const struct infp_rule *rule = &infp_rules[i];
                const char *const sentences[] = { rule->means, rule->decided, rule->why, rule->advice, rule->verify };

                assert_int_equal(index_of(rule->id), i);
                assert_true(rule->title && rule->needs && rule->table && rule->unchecked && rule->find && rule->sql);
                for (size_t k = 0; k < INFP_COUNT(sentences); k++)
                        if (!sentences[k] || sentences[k][strlen(sentences[k]) - 1] != '.')
                                fail_msg("%s: not a sentence: %s", rule->id, sentences[k] ? sentences[k] : "-");
                for (int k = 1; k < INFP_SEVERITIES; k++)
                        assert_true(rule->steps[k] >= rule->steps[k - 1]);
                if (rule->steps[0] <= 1)
                        assert_non_null(rule->of);
                for (size_t k = 0; k < INFP_RULE_CAUSES && rule->causes[k]; k++)
                        if (index_of(rule->causes[k]) >= i)
                                fail_msg("%s: %s does not come before it", rule->id, rule->causes[k]);
                assert_null(rule->causes[INFP_RULE_CAUSES - 1]);
        }
}

static void test_severity(void **state)
{
        static const double steps[] = { 0.02, 0.05, 0.2, 0.5 };
        static const struct {
                double share;
                enum infp_severity severity;
        } cases[] = { { 0, INFP_SEVERITIES },          { 0.0199, INFP_SEVERITIES },     { 0.02, INFP_SEVERITY_LOW },
                      { 0.05, INFP_SEVERITY_MEDIUM },  { 0.199, INFP_SEVERITY_MEDIUM }, { 0.2, INFP_SEVERITY_HIGH },
                      { 0.5, INFP_SEVERITY_CRITICAL }, { NAN, INFP_SEVERITIES } };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++)
                assert_int_equal(infp_severity_of(cases[i].share, steps), cases[i].severity);
        assert_int_equal(infp_severity_by_name("critical"), INFP_SEVERITY_CRITICAL);
        assert_true(infp_severity_by_name("grave") < 0);
        /* Upstream's steps of a hot function: above 5, 10 and 20 %. */
        assert_int_equal(infp_severity_of(0.06, infp_hotspot_steps), INFP_SEVERITY_MEDIUM);
        assert_int_equal(infp_severity_of(0.11, infp_hotspot_steps), INFP_SEVERITY_HIGH);
        assert_int_equal(infp_severity_of(0.21, infp_hotspot_steps), INFP_SEVERITY_CRITICAL);
}

/* Nothing is found of a target that is well, and nothing that was not recorded is clear. */
static void test_a_healthy_target(void **state)
{
        struct infp_report report = target(6, 0.01, 30);
        struct infp_absence absent[] = { { "engine", "", "", "", "absent", "no port answers", "" } };
        struct infp_bottlenecks findings;

        (void) state;
        report.absences = (struct infp_absences){ .list = absent, .n = 1 };
        findings = find(&report);
        assert_int_equal(findings.n, 0);
        assert_true(is_clear(&findings, "cpu-neighbours") && is_clear(&findings, "cpu-saturated"));
        assert_false(is_clear(&findings, "gil-wait"));
        assert_string_equal(reason(&findings, "gil-wait"), "who held the GIL was not sampled: record with --gil");
        assert_string_equal(reason(&findings, "queue"), "no port answers"); /* as `sources` has it */
        assert_string_equal(reason(&findings, "busy-wait"), "stacks were not sampled: record with --cpu");
        infp_bottlenecks_done(&findings);
        report.n_metrics = 0; /* a run of an older version */
        findings = find(&report);
        assert_non_null(strstr(reason(&findings, "cpu-neighbours"), "this run is older than that"));
        infp_bottlenecks_done(&findings);
}

/* A table that cannot be read is not one that has nothing. */
static void test_a_broken_table(void **state)
{
        struct infp_report report = target(6, 0.01, 30);
        struct infp_report_broken broken = { (char *) "gc", (char *) "its checksum is wrong" };
        struct infp_bottlenecks findings;

        (void) state;
        report.torch = (struct infp_torch_report){ .n_steps = 1 };
        expect_clear(&report, "gc-pause");
        report.broken = &broken;
        report.n_broken = 1;
        findings = find(&report);
        assert_string_equal(reason(&findings, "gc-pause"), "table gc cannot be read: its checksum is wrong");
        assert_true(is_clear(&findings, "cpu-saturated"));
        infp_bottlenecks_done(&findings);
}

static void test_throttled(void **state)
{
        struct infp_report report = target(10, 0, 50);

        (void) state;
        add_total(&report, "limits", "lCpuPeriods", 100, 1);
        add_total(&report, "limits", "lCpuThrottledPeriods", 60, 1);
        add_total(&report, "limits", "lCpuThrottledTimeNs", 30e9, 1e-9);
        expect(&report, "cpu-throttled", INFP_SEVERITY_CRITICAL, 0.75); /* held 30 s, ran 10 s */
        metrics[3].stat.total_u64 = 100000000; /* 0.1 of 10.1 s, but in a tenth of the periods */
        metrics[2].stat.total_u64 = 10;
        expect(&report, "cpu-throttled", INFP_SEVERITY_LOW, 0.1 / 10.1);
        metrics[2].stat.total_u64 = 4;
        expect_clear(&report, "cpu-throttled");
        metrics[2].stat.total_u64 = 0;
        metrics[3].stat.total_u64 = 0;
        expect_clear(&report, "cpu-throttled");
}

/* What a target's threads want beyond its CPUs is its own doing; the rest is that of others. */
static void test_waiting_for_a_cpu(void **state)
{
        struct infp_report report = target(4, 6, 100); /* one thread beside four of others */

        (void) state;
        expect(&report, "cpu-neighbours", INFP_SEVERITY_CRITICAL, 0.6);
        expect_clear(&report, "cpu-saturated");
        report = target(20, 30, 100); /* five threads, alone */
        expect(&report, "cpu-saturated", INFP_SEVERITY_CRITICAL, 0.6);
        expect_clear(&report, "cpu-neighbours");
        report = target(100.0 / 7, 50 - 100.0 / 7, 100); /* five threads beside two */
        expect(&report, "cpu-saturated", INFP_SEVERITY_CRITICAL, 0.6);
        expect(&report, "cpu-neighbours", INFP_SEVERITY_MEDIUM, (20 - 100.0 / 7) / 50);
        report = target(0.05, 0.15, 100); /* it hardly ever wanted one: 1.5 % of the time */
        expect_clear(&report, "cpu-neighbours");
        report = target(4, 1, 60); /* CPUs were left over: its threads came in bursts */
        expect_clear(&report, "cpu-neighbours");
        expect(&report, "cpu-saturated", INFP_SEVERITY_MEDIUM, 0.1);
        add(&report, "tree", "tree_threads", 1, 2); /* too few of its own to wait for each other */
        expect_clear(&report, "cpu-saturated");
        expect(&report, "cpu-neighbours", INFP_SEVERITY_MEDIUM, 0.1);
        report.n_metrics = 1;
        report.effective_cpus = 1; /* by its affinity: nobody knows how busy that CPU was */
        expect(&report, "cpu-neighbours", INFP_SEVERITY_MEDIUM, 0.1);
        report = target(19, 0, 97);
        expect(&report, "cpu-saturated", INFP_SEVERITY_MEDIUM, 0); /* nobody waits yet */
}

static void put_queue(struct infp_report *report, double waiting, double running)
{
        engine = (struct infp_report_engine){ .max_seqs = NAN };
        for (unsigned i = 0; i < INFP_ENGINE_COUNTERS; i++)
                engine.counters[i] = NAN;
        engine.gauges[INFP_ENGINE_WAITING] =
                (struct infp_stat){ .n = 9, .weight = 9, .mean = waiting, .max = 2 * waiting, .last = waiting };
        engine.gauges[INFP_ENGINE_RUNNING] = (struct infp_stat){ .n = 9, .weight = 9, .mean = running, .max = running };
        report->engines = (struct infp_report_engines){ .list = &engine, .n = 1 };
}

/* Requests queue since neighbours have the CPUs: that is the first finding, whatever the queue's share. */
static void test_a_queue_that_follows(void **state)
{
        struct infp_report report = target(4, 6, 100);
        struct infp_bottlenecks findings;

        (void) state;
        put_queue(&report, 3, 1);
        expect(&report, "queue", INFP_SEVERITY_CRITICAL, 0.75);
        findings = find(&report);
        assert_int_equal(findings.n, 2);
        assert_string_equal(findings.list[0].rule->id, "cpu-neighbours");
        assert_string_equal(findings.list[1].rule->id, "queue");
        assert_ptr_equal(findings.list[1].cause, &findings.list[0]);
        infp_bottlenecks_done(&findings);
        report = target(4, 0.3, 100); /* 3 %: too little to explain a critical one */
        put_queue(&report, 3, 1);
        findings = find(&report);
        assert_string_equal(findings.list[0].rule->id, "queue");
        assert_null(findings.list[0].cause);
        infp_bottlenecks_done(&findings);
        put_queue(&report, 0, 1);
        expect_clear(&report, "queue");
}

static void test_engine(void **state)
{
        struct infp_report report = target(1, 0, 30);

        (void) state;
        put_queue(&report, 2, 2);
        engine.max_seqs = 8;
        expect(&report, "batch", INFP_SEVERITY_HIGH, 0.75);
        engine.gauges[INFP_ENGINE_WAITING].mean = 0;
        expect_clear(&report, "batch");
        engine.gauges[INFP_ENGINE_KV] = (struct infp_stat){ .n = 9, .weight = 9, .mean = 0.9, .max = 0.99 };
        expect(&report, "kv-cache", INFP_SEVERITY_LOW, NAN);
        engine.counters[INFP_ENGINE_PREEMPTIONS] = 3;
        expect(&report, "kv-cache", INFP_SEVERITY_HIGH, NAN);
}

static void test_threads(void **state)
{
        struct infp_report report = target(10, 0, 60);
        struct infp_code *code = &report.functions.code;
        struct infp_bottlenecks findings;
        double low, high;

        (void) state;
        report.functions.busy.has_waits = true;
        code->of[INFP_CODE_LOCK].seconds = 30;
        expect(&report, "lock-wait", INFP_SEVERITY_CRITICAL, 0.75);
        code->of[INFP_CODE_LOCK].seconds = 0.1;
        expect_clear(&report, "lock-wait");

        report.functions.busy.seconds = code->seconds = 10;
        code->samples = 1000;
        code->squares = 0.1; /* of 1,000 samples of 0.01 s */
        report.functions.busy.waited_s[INFP_BUSY_OPENMP] = 6;
        expect(&report, "busy-wait", INFP_SEVERITY_CRITICAL, 0.6);
        findings = find(&report);
        infp_flame_interval(600, 1000, &low, &high);
        assert_true(fabs(get(&findings, "busy-wait")->low - low / 100) < 1e-9);
        assert_true(fabs(get(&findings, "busy-wait")->high - high / 100) < 1e-9);
        infp_bottlenecks_done(&findings);

        code->of[INFP_CODE_ALLOCATOR].seconds = 0.4;
        expect_clear(&report, "allocator");
        code->of[INFP_CODE_ALLOCATOR].seconds = 2.1;
        expect(&report, "allocator", INFP_SEVERITY_HIGH, 0.21);
        code->of[INFP_CODE_TOKENIZER].seconds = 1.1;
        expect(&report, "tokenizer", INFP_SEVERITY_MEDIUM, 0.11);
        code->of[INFP_CODE_SAMPLING].seconds = 0.6;
        expect(&report, "token-sampling", INFP_SEVERITY_LOW, 0.06);
        code->samples = 99;
        findings = find(&report);
        assert_string_equal(reason(&findings, "allocator"), "there are 99 samples, fewer than 100, which say little");
        infp_bottlenecks_done(&findings);
}

static void test_python(void **state)
{
        struct infp_report report = target(10, 0, 60);
        struct infp_bottlenecks findings;
        double low, high;

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(threads); i++) {
                threads[i] = (struct infp_gil_thread){ .tid = i, .samples = 500, .known_s = 10 };
                threads[i].seconds[INFP_GIL_WAITED] = threads[i].seconds[INFP_GIL_HELD] = 5;
        }
        report.gil = (struct infp_gil_report){ .list = threads, .n = 2, .has_wall = true };
        expect(&report, "gil-wait", INFP_SEVERITY_CRITICAL, 0.5); /* waited 10 s, ran 10 s */
        findings = find(&report);
        infp_flame_interval(500, 1000, &low, &high);
        assert_true(fabs(get(&findings, "gil-wait")->low - low / 100) < 1e-9);
        infp_bottlenecks_done(&findings);
        report.gil.n = 0;
        findings = find(&report);
        assert_non_null(strstr(reason(&findings, "gil-wait"), "no thread of Python"));
        infp_bottlenecks_done(&findings);

        report.torch =
                (struct infp_torch_report){ .n_collections = 7, .collections_s = 0.6, .longest_collection_s = 0.2 };
        expect(&report, "gc-pause", INFP_SEVERITY_MEDIUM, 0.06);
        report.torch = (struct infp_torch_report){ .n_steps = 1 };
        expect_clear(&report, "gc-pause");
}

static void test_memory(void **state)
{
        struct infp_report report = target(1, 0, 30);
        struct infp_bottlenecks findings;

        (void) state;
        use = (struct infp_container_use){ .is_target = true, .first_t_ns = 1, .last_t_ns = 10000000001 };
        use.stat[INFP_CONTAINER_OTHERS] = (struct infp_stat){ .n = 2, .weight = 2 };
        use.stat[INFP_CONTAINER_OOM_KILLS] = (struct infp_stat){ .n = 1, .total_u64 = 0 };
        report.containers = (struct infp_containers){ .list = &use, .n = 1 };
        add(&report, "mem", "vMemoryPercent", 0.5, 0.6);
        expect_clear(&report, "oom-kill");
        expect_clear(&report, "memory");
        metrics[1].stat.max = 0.93;
        expect(&report, "memory", INFP_SEVERITY_LOW, NAN);
        use.stat[INFP_CONTAINER_MEMORY_SOME] = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.3e9 };
        expect(&report, "memory", INFP_SEVERITY_HIGH, 0.3);
        use.stat[INFP_CONTAINER_OOM_KILLS].total_u64 = 2;
        expect(&report, "oom-kill", INFP_SEVERITY_CRITICAL, NAN);
        use.stat[INFP_CONTAINER_IO_SOME] = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.06e9 };
        expect(&report, "io-wait", INFP_SEVERITY_MEDIUM, 0.06);

        add(&report, "tree", "tree_major_faults", 12, 12);
        expect(&report, "swap", INFP_SEVERITY_MEDIUM, NAN);
        add(&report, "tree", "tree_swap_bytes", 3e6, 3e6);
        expect(&report, "swap", INFP_SEVERITY_HIGH, NAN);
        metrics[2].stat.mean = 0;
        expect(&report, "swap", INFP_SEVERITY_LOW, NAN);

        report.heap = (struct infp_heap_sums){ .has = true, .leaked_bytes = 1 << 19 };
        expect_clear(&report, "memory-leak");
        report.heap = (struct infp_heap_sums){ .has = true, .leaked_bytes = 20 << 20, .n_leaks = 1, .leak_rate = 1e6 };
        expect(&report, "memory-leak", INFP_SEVERITY_HIGH, NAN);
        findings = find(&report);
        assert_string_equal(get(&findings, "memory")->cause->rule->id, "memory-leak");
        infp_bottlenecks_done(&findings);
}

static void test_gpu(void **state)
{
        struct infp_report report = target(1, 0, 30);

        (void) state;
        gpu = (struct infp_gpu){
                .table = "nvidia", .domain = "nvidia0", .n_rows = 20, .first_t_ns = 0, .last_t_ns = 1
        };
        report.gpus = (struct infp_gpus){ .list = &gpu, .n = 1 };
        gpu.stat[INFP_GPU_USED] = (struct infp_stat){ .n = 20, .weight = 20, .mean = 15 };
        expect(&report, "gpu-idle", INFP_SEVERITY_HIGH, 0.85);
        gpu.stat[INFP_GPU_USED].mean = 45;
        expect(&report, "gpu-idle", INFP_SEVERITY_MEDIUM, 0.55);
        put_queue(&report, 0, 0.2);
        expect_clear(&report, "gpu-idle"); /* nobody asked for more */
        report.engines.n = 0;
        gpu.stat[INFP_GPU_USED].mean = 0.5;
        expect_clear(&report, "gpu-idle"); /* the target does not use it */
        gpu.stat[INFP_GPU_MEMORY_USED] = (struct infp_stat){ .n = 20, .max = 90 };
        gpu.stat[INFP_GPU_MEMORY_TOTAL] = (struct infp_stat){ .n = 20, .max = 100 };
        expect(&report, "gpu-memory", INFP_SEVERITY_HIGH, NAN);
        gpu.stat[INFP_GPU_MEMORY_USED].max = 96;
        expect(&report, "gpu-memory", INFP_SEVERITY_CRITICAL, NAN);
        gpu.stat[INFP_GPU_HELD_POWER] = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.3e9 };
        expect(&report, "gpu-held", INFP_SEVERITY_HIGH, 0.3);
        add(&report, "nvidia", "nvidia0_gPcieGen", 4, 4);
        add(&report, "nvidia", "nvidia0_gPcieWidth", 16, 16);
        add_total(&report, "nvidia", "nvidia0_gPcieRxBytes", 10 * 0.75 * 16 * 1.969e9, 1);
        expect(&report, "pcie", INFP_SEVERITY_MEDIUM, 0.75);
}

/* The mission's own example: 1,000 calls of 45.2 ms each. */
static void test_calls(void **state)
{
        struct infp_report report = target(4, 6, 100);
        struct infp_program_span span = { .name = (char *) "matmul_kernel", .n = 1000 };
        struct infp_call *calls;
        unsigned n;

        (void) state;
        report.wall_s = 100;
        span.durations.stat = (struct infp_stat){ .n = 1000, .weight = 1000, .mean = 45.2e6 };
        report.program_spans = (struct infp_program_spans){ .list = &span, .n = 1 };
        report.findings = find(&report);
        assert_int_equal(infp_calls_find(&report, 10, INFP_SEVERITY_HIGH, &calls, &n), 0);
        assert_int_equal(n, 1);
        assert_string_equal(calls[0].function, "matmul_kernel");
        assert_true(fabs(calls[0].avg_ms - 45.2) < 1e-9 && calls[0].calls == 1000 && !calls[0].null_because);
        assert_int_equal(calls[0].severity, INFP_SEVERITY_HIGH); /* 45.2 % of the time */
        free(calls);
        assert_int_equal(infp_calls_find(&report, 50, INFP_SEVERITY_LOW, &calls, &n), 0);
        assert_int_equal(n, 1); /* the finding alone, which is no function */
        assert_true(!calls[0].function && isnan(calls[0].avg_ms) && isnan(calls[0].calls) && calls[0].null_because);
        free(calls);
        infp_bottlenecks_done(&report.findings);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_severity),
                cmocka_unit_test(test_a_healthy_target),
                cmocka_unit_test(test_throttled),
                cmocka_unit_test(test_a_broken_table),
                cmocka_unit_test(test_waiting_for_a_cpu),
                cmocka_unit_test(test_a_queue_that_follows),
                cmocka_unit_test(test_engine),
                cmocka_unit_test(test_threads),
                cmocka_unit_test(test_python),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_gpu),
                cmocka_unit_test(test_calls),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
