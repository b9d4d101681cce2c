/* What limited a run: each threshold from both sides, what is told first, and what was not checked. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/report.h"

static struct infp_run run;
static struct infp_container_use use;
static struct infp_report_engine engine;
static struct infp_report_metric metrics[8];

static void add(struct infp_report *report, const char *table, const char *name, size_t prefix, double mean, double max)
{
        struct infp_report_metric *m = &metrics[report->n_metrics++];

        *m = (struct infp_report_metric){
                .table = (char *) table, .name = (char *) name, .prefix_size = prefix, .factor = 1
        };
        m->column.kind = INFP_GAUGE;
        m->stat = (struct infp_stat){ .n = 10, .weight = 10, .mean = mean, .min = 0, .max = max };
        report->metrics = metrics;
}

static void add_total(struct infp_report *report, const char *table, const char *name, uint64_t total)
{
        add(report, table, name, 0, (double) total / 10, (double) total);
        metrics[report->n_metrics - 1].column.kind = INFP_COUNTER;
        metrics[report->n_metrics - 1].column.type = INFP_U64;
        metrics[report->n_metrics - 1].stat.total_u64 = total;
}

/* A target that uses 1.0 of 4 CPUs for 10 s on a quiet machine, in a control group of its own. */
static struct infp_report quiet(const char *mode)
{
        struct infp_report report = { .run = &run, .wall_s = 10, .tree_cpu_s = 6, .effective_cpus = 4, .n_cpus = 4 };

        run.info.mode = (char *) mode;
        use = (struct infp_container_use){ .is_target = true, .first_t_ns = 1, .last_t_ns = 10000000001 };
        use.stat[INFP_CONTAINER_OTHERS] = (struct infp_stat){ .n = 2, .weight = 2 };
        report.containers = (struct infp_containers){ .list = &use, .n = 1 };
        report.cores.average = (struct infp_stat){ .n = 10, .weight = 10, .mean = 30 };
        return report;
}

static const struct infp_limit *get(const struct infp_limits *limits, enum infp_limit_resource resource)
{
        unsigned i = 0;

        while (limits->list[i].resource != resource)
                assert_true(++i < limits->n);
        return &limits->list[i];
}

static enum infp_limit_state state_of(const struct infp_report *report, enum infp_limit_resource resource)
{
        struct infp_limits limits;

        infp_limits_find(report, &limits);
        /* Busy waiting is a finding of samples. */
        assert_int_equal(limits.n, INFP_LIMIT_RESOURCES - !(report->functions.busy.seconds > 0));
        return get(&limits, resource)->state;
}

static void test_cpu(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        report.tree_cpu_s = 28;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_NEAR);
        report.tree_cpu_s = 36;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_REACHED);
        report.tree_cpu_s = 6;
        report.cores.average.mean = 96; /* of others: a target that never lost a CPU slept */
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        add(&report, "tree", "tree_involuntary_switches", 0, 0.9, 9);
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        add(&report, "tree", "tree_processes", 0, 1, 1);
        add(&report, "tree", "tree_threads", 0, 1, 1);
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        metrics[2].stat.mean = 4; /* what its other threads lost is not counted */
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_NEAR);
        metrics[2].stat.mean = 1;
        metrics[0].stat.mean = 2;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_NEAR);
        metrics[0].stat.mean = 200;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_REACHED);
        report.tree_cpu_s = 0.5; /* that little cannot have been kept from much */
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_NEAR);
        report.tree_cpu_s = 0.1;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        report.tree_cpu_s = 6;
        use.stat[INFP_CONTAINER_CPU_SOME] = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.24e9 };
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        use.stat[INFP_CONTAINER_CPU_SOME].mean = 0.26e9;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_REACHED);
        report.effective_cpus = NAN;
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_CPU)->text, "the target used 0.60 CPUs; its limit is not known");
        report.tree_cpu_s = NAN;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_NOT_CHECKED);
        report = quiet("host");
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        report.cores.average.mean = 91;
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_REACHED);
}

/* How long it wanted a CPU and had none was measured: nothing is guessed then. */
static void test_ready_without_a_cpu(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        report.functions.busy = (struct infp_busy){ .has_waits = true, .runnable_s = 4.58 };
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_CPU)->state, INFP_LIMIT_REACHED);
        assert_false(get(&limits, INFP_LIMIT_CPU)->is_estimated);
        assert_non_null(strstr(get(&limits, INFP_LIMIT_CPU)->text,
                               "its threads waited for a CPU for 4.6 s in total (0.46 threads on average"));
        report.functions.busy.runnable_s = 0.1;
        infp_limits_find(&report, &limits);
        assert_null(strstr(get(&limits, INFP_LIMIT_CPU)->text, "its threads waited for a CPU"));
        assert_null(strstr(get(&limits, INFP_LIMIT_CPU)->text, "a guess"));
}

static void test_one_thread(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        report.tree_cpu_s = 9.9;
        report.processes.n = 1;
        report.processes.list[0].cpu_s = 9.8;
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_CPU)->state, INFP_LIMIT_NEAR);
        assert_true(get(&limits, INFP_LIMIT_CPU)->is_estimated);
        report.processes.list[0].cpu_s = 5; /* two processes share it */
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
}

/* Samples tell threads apart; a process without a second thread needs none. */
static void test_one_thread_is_known(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        report.tree_cpu_s = 14;
        report.functions.busy = (struct infp_busy){ .seconds = 14, .thread_s = 8.9, .tid = 4711 };
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_FREE);
        report.functions.busy.thread_s = 9.5;
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_CPU)->state, INFP_LIMIT_REACHED);
        assert_true(get(&limits, INFP_LIMIT_CPU)->is_estimated);
        assert_string_equal(get(&limits, INFP_LIMIT_CPU)->text,
                            "one thread (4711) was busy 95 % of the time, by its samples, and one thread can use one "
                            "CPU; the target used 1.40 of its 4 CPUs");
        report = quiet("run");
        report.tree_cpu_s = 9.6;
        report.processes.n = 1;
        report.processes.list[0].cpu_s = 9.6;
        add(&report, "tree", "tree_processes", 0, 1, 1);
        add(&report, "tree", "tree_threads", 0, 1, 1);
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_CPU)->state, INFP_LIMIT_REACHED);
        assert_false(get(&limits, INFP_LIMIT_CPU)->is_estimated);
        metrics[1].stat.max = 2;
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_CPU)->state, INFP_LIMIT_NEAR);
        assert_true(get(&limits, INFP_LIMIT_CPU)->is_estimated);
}

/* All CPUs are in use, half of that to wait: they are not what limits it. */
static void test_busy_waiting(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        report.tree_cpu_s = 39;
        report.functions.busy = (struct infp_busy){ .seconds = 39, .thread_s = 9 };
        report.functions.busy.waited_s[INFP_BUSY_OPENMP] = 1.9;
        assert_int_equal(state_of(&report, INFP_LIMIT_WAITING), INFP_LIMIT_FREE);
        assert_int_equal(state_of(&report, INFP_LIMIT_CPU), INFP_LIMIT_REACHED);
        report.functions.busy.waited_s[INFP_BUSY_OPENMP] = 8;
        assert_int_equal(state_of(&report, INFP_LIMIT_WAITING), INFP_LIMIT_NEAR);
        report.functions.busy.waited_s[INFP_BUSY_OPENMP] = 15.6;
        report.functions.busy.waited_s[INFP_BUSY_YIELD] = 3.9;
        infp_limits_find(&report, &limits);
        assert_int_equal(limits.list[0].resource, INFP_LIMIT_WAITING);
        assert_int_equal(limits.list[0].state, INFP_LIMIT_REACHED);
        assert_int_equal(get(&limits, INFP_LIMIT_CPU)->state, INFP_LIMIT_FREE);
        assert_non_null(
                strstr(limits.headline, "Limited by busy waiting: 50 % of the target's CPU time was busy waiting"));
        assert_non_null(strstr(limits.headline, "OpenMP barriers 40 %, sched_yield polling 10 %"));
        assert_non_null(strstr(get(&limits, INFP_LIMIT_CPU)->text, "(98 %); 50 % of that was busy waiting"));
}

/* The limits of the target itself, those of its pod among them, go before infprof's own and its containers'. */
static void test_limits_of_the_target(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        add(&report, "limits", "lGroups", 0, 1, 1);
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_FREE);
        add(&report, "limits", "lCpuQuota", 0, 1.5, 1.5);
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_NOT_CHECKED);
        add_total(&report, "limits", "lCpuPeriods", 100);
        add_total(&report, "limits", "lCpuThrottledPeriods", 20);
        add_total(&report, "limits", "lCpuThrottledTimeNs", 3000000000);
        report.effective_cpus = 1; /* its cpuset allows less than the quota */
        infp_limits_find(&report, &limits);
        assert_string_equal(limits.list[0].text, "the target was throttled in 20 % of the quota's periods, for 3.00 s "
                                                 "in total over all CPUs in 10.0 s (quota: 1.5 CPUs)");
}

/* Requests queue since neighbours have the CPUs. */
static void test_a_starved_server(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        report.containers.n = 0;
        report.cores.average.mean = 98;
        report.containers.n_pressure = 1;
        report.containers.pressure[0] = (struct infp_pressure_use){ .resource = "cpu" };
        report.containers.pressure[0].some = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.45e9 };
        engine = (struct infp_report_engine){ .id = 1 };
        engine.gauges[INFP_ENGINE_WAITING] = (struct infp_stat){ .n = 9, .weight = 9, .mean = 3, .max = 5 };
        report.engines = (struct infp_report_engines){ .list = &engine, .n = 1 };
        infp_limits_find(&report, &limits);
        assert_int_equal(limits.list[0].resource, INFP_LIMIT_CPU);
        assert_int_equal(limits.list[0].state, INFP_LIMIT_REACHED);
        assert_true(limits.list[0].is_estimated);
        assert_non_null(
                strstr(limits.headline, "Limited by the CPU: tasks of the machine waited for a CPU 45 % of the time"));
        assert_non_null(strstr(limits.headline, "Also at the limit: engine's queue."));
        report.containers.pressure[0].some.mean = 0.2e9;
        infp_limits_find(&report, &limits);
        assert_int_equal(limits.list[0].resource, INFP_LIMIT_QUEUE);
}

static void test_throttling_comes_first(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_FREE); /* no quota */
        use.stat[INFP_CONTAINER_PERIODS] = (struct infp_stat){ .n = 1, .total_u64 = 100 };
        use.stat[INFP_CONTAINER_THROTTLED] = (struct infp_stat){ .n = 1, .total_u64 = 0 };
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_FREE);
        use.stat[INFP_CONTAINER_THROTTLED].total_u64 = 4;
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_NEAR);
        use.stat[INFP_CONTAINER_THROTTLED].total_u64 = 43;
        use.stat[INFP_CONTAINER_THROTTLED_NS] = (struct infp_stat){ .n = 1, .total_u64 = 2500000000 };
        report.tree_cpu_s = 40;
        infp_limits_find(&report, &limits);
        assert_int_equal(limits.list[0].resource, INFP_LIMIT_THROTTLING);
        assert_int_equal(limits.list[1].resource, INFP_LIMIT_CPU);
        assert_non_null(strstr(limits.headline, "Limited by the CPU quota: the target was throttled in 43 % of the "
                                                "quota's periods, for 2.50 s in total over all CPUs in 10.0 s"));
        assert_non_null(strstr(limits.headline, "Also at the limit: CPU."));
        use.stat[INFP_CONTAINER_THROTTLED_NS].total_u64 = 2500000000000;
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_REACHED);
        infp_limits_find(&report, &limits);
        assert_non_null(strstr(limits.headline, "for 2500 s in total"));
        assert_non_null(strstr(limits.headline, "Not checked: memory, GPU"));
        assert_null(strstr(limits.headline, "GPU memory"));  /* no GPU is said once; the list has both */
        assert_null(strstr(limits.list[0].text, "quota: ")); /* not known */
        use.stat[INFP_CONTAINER_CPU_LIMIT] = (struct infp_stat){ .n = 1, .last = 3, .has_last = true };
        use.stat[INFP_CONTAINER_PROCESSORS] = (struct infp_stat){ .n = 1, .last = 2, .has_last = true };
        infp_limits_find(&report, &limits);
        assert_non_null(strstr(limits.list[0].text, "(quota: 3 CPUs)"));
        report.containers.n = 0;
        assert_int_equal(state_of(&report, INFP_LIMIT_THROTTLING), INFP_LIMIT_NOT_CHECKED);
}

static void test_memory(void **state)
{
        struct infp_report report = quiet("run");

        (void) state;
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_NOT_CHECKED);
        add(&report, "mem", "vMemoryPercent", 0, 0.5, 0.6);
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_FREE);
        metrics[0].stat.max = 0.93;
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_NEAR);
        metrics[0].stat.max = 0.2;
        add(&report, "tree", "tree_swap_bytes", 0, 1000, 4096);
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_FREE);
        metrics[1].stat.max = 2e6;
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_NEAR);
        metrics[1].stat.max = 0;
        use.stat[INFP_CONTAINER_MEMORY] = (struct infp_stat){ .n = 2, .max = 95e6 };
        use.stat[INFP_CONTAINER_MEMORY_LIMIT] = (struct infp_stat){ .n = 2, .last = 100e6, .has_last = true };
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_NEAR);
        use.stat[INFP_CONTAINER_MEMORY].max = 40e6;
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_FREE);
        use.stat[INFP_CONTAINER_MEMORY_SOME] = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.2e9 };
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_REACHED);
        use.stat[INFP_CONTAINER_OTHERS].max =
                3; /* of all that is in it: the machine's word counts, and there is none */
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_FREE);
        use.stat[INFP_CONTAINER_OOM_KILLS] = (struct infp_stat){ .n = 1, .total_u64 = 1 };
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_REACHED);
}

static void test_io(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_pressure_use *io = &report.containers.pressure[0];
        struct infp_limits limits;

        (void) state;
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_NOT_CHECKED);
        report.containers.n_pressure = 1;
        *io = (struct infp_pressure_use){ .resource = "io" };
        io->some = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.04e9 };
        io->full = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.01e9 };
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_FREE);
        io->some.mean = 0.06e9;
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_NEAR);
        io->full.mean = 0.1e9; /* of the machine: of the target only if it had the disks to itself */
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_NEAR);
        add_total(&report, "tree", "tree_read_bytes", 100 << 20);
        add_total(&report, "tree", "tree_write_bytes", 20 << 20);
        add_total(&report, "disk", "vDiskReadBytes", 300 << 20);
        add_total(&report, "disk", "vDiskWriteBytes", 0);
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_NEAR);
        metrics[2].stat.total_u64 = 150 << 20;
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_IO)->state, INFP_LIMIT_REACHED);
        assert_true(get(&limits, INFP_LIMIT_IO)->is_estimated);
        assert_non_null(strstr(get(&limits, INFP_LIMIT_IO)->text, "the target moved 120 MiB to or from disks"));
        metrics[0].stat.total_u64 = UINT64_C(1600) << 20;
        infp_limits_find(&report, &limits);
        assert_non_null(strstr(get(&limits, INFP_LIMIT_IO)->text, "the target moved 1.58 GiB to or from disks"));
        metrics[0].stat.total_u64 = metrics[1].stat.total_u64 = 64 << 10; /* 32 pages in 10 s */
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_FREE);
        run.info.mode = (char *) "host";
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_REACHED);
        run.info.mode = (char *) "run";
        metrics[0].stat.total_u64 = 100 << 20;
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_REACHED);
        use.stat[INFP_CONTAINER_IO_SOME] =
                (struct infp_stat){ .n = 2, .weight = 10, .mean = 0 }; /* the target's own word */
        use.stat[INFP_CONTAINER_IO_FULL] = use.stat[INFP_CONTAINER_IO_SOME];
        assert_int_equal(state_of(&report, INFP_LIMIT_IO), INFP_LIMIT_FREE);
}

static void test_gpu(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU), INFP_LIMIT_NOT_CHECKED);
        add(&report, "nvidia", "nvidia0_gUtilizationGpu", 8, 12, 40);
        add(&report, "nvidia", "nvidia0_gMemoryUsedBytes", 8, 1e9, 2e9);
        add(&report, "nvidia", "nvidia0_gMemoryTotalBytes", 8, 80e9, 80e9);
        add(&report, "nvidia", "nvidia1_gUtilizationGpu", 8, 97, 100);
        add(&report, "nvidia", "nvidia1_gMemoryUsedBytes", 8, 70e9, 79e9);
        add(&report, "nvidia", "nvidia1_gMemoryTotalBytes", 8, 80e9, 80e9);
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_GPU)->state, INFP_LIMIT_REACHED);
        assert_string_equal(get(&limits, INFP_LIMIT_GPU)->text,
                            "a kernel ran on nvidia1 97 % of the time, the busiest of 2");
        assert_int_equal(get(&limits, INFP_LIMIT_GPU_MEMORY)->state, INFP_LIMIT_NEAR);
        metrics[3].stat.mean = 50;
        metrics[4].stat.max = 70e9;
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU), INFP_LIMIT_FREE);
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU_MEMORY), INFP_LIMIT_FREE);
}

/* The room of one GPU says nothing of another. */
static void test_gpu_unmeasured(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_gpu gpus[] = { { .table = "nvidia", .domain = "nvidia0", .uuid = "GPU-0" },
                                   { .table = "nvidia", .domain = "nvidia1", .uuid = "GPU-1" } };
        struct infp_absence absences[] = {
                { "nvidia", "", "nvidia", "*", "broken", "something else", "" },
                { "nvidia", "GPU-1", "nvidia", "gUtilizationGpu", "absent", "it is split into MIG devices", "" },
        };
        struct infp_limits limits;

        (void) state;
        report.gpus = (struct infp_gpus){ .list = gpus, .n = 2 };
        report.absences = (struct infp_absences){ .list = absences, .n = 2 };
        add(&report, "nvidia", "nvidia0_gUtilizationGpu", 8, 12, 40);
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_GPU)->state, INFP_LIMIT_NOT_CHECKED);
        assert_string_equal(get(&limits, INFP_LIMIT_GPU)->text,
                            "a kernel ran on nvidia0 12 % of the time; nvidia1 was not measured: it is split into MIG "
                            "devices");
        metrics[0].stat.mean = 95;
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_GPU)->state, INFP_LIMIT_REACHED);
        assert_non_null(strstr(get(&limits, INFP_LIMIT_GPU)->text, "nvidia1 was not measured"));
        add(&report, "nvidia", "nvidia1_gUtilizationGpu", 8, 12, 40);
        infp_limits_find(&report, &limits);
        assert_null(strstr(get(&limits, INFP_LIMIT_GPU)->text, "not measured"));
}

static void test_engine(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_absence absence = { .collector = (char *) "engine",
                                        .column = (char *) "",
                                        .reason = (char *) "not asked for: nobody is there" };
        struct infp_limits limits;

        (void) state;
        report.absences = (struct infp_absences){ .list = &absence, .n = 1 };
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_QUEUE)->text, "not asked for: nobody is there");
        engine = (struct infp_report_engine){ .counters[INFP_ENGINE_PREEMPTIONS] = NAN };
        report.engines = (struct infp_report_engines){ .list = &engine, .n = 1 };
        engine.gauges[INFP_ENGINE_WAITING] = (struct infp_stat){ .n = 10, .weight = 10, .mean = 0.05, .max = 1 };
        engine.gauges[INFP_ENGINE_KV] = (struct infp_stat){ .n = 10, .weight = 10, .mean = 0.2, .max = 0.5 };
        assert_int_equal(state_of(&report, INFP_LIMIT_QUEUE), INFP_LIMIT_FREE);
        assert_int_equal(state_of(&report, INFP_LIMIT_CACHE), INFP_LIMIT_FREE);
        engine.gauges[INFP_ENGINE_WAITING].mean = 0.5;
        engine.gauges[INFP_ENGINE_KV].max = 0.99;
        assert_int_equal(state_of(&report, INFP_LIMIT_QUEUE), INFP_LIMIT_NEAR);
        assert_int_equal(state_of(&report, INFP_LIMIT_CACHE), INFP_LIMIT_NEAR);
        engine.gauges[INFP_ENGINE_WAITING].mean = 3;
        engine.counters[INFP_ENGINE_PREEMPTIONS] = 2;
        assert_int_equal(state_of(&report, INFP_LIMIT_QUEUE), INFP_LIMIT_REACHED);
        assert_int_equal(state_of(&report, INFP_LIMIT_CACHE), INFP_LIMIT_REACHED);
}

static void test_headlines(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_limits limits;

        (void) state;
        infp_limits_find(&report, &limits);
        assert_ptr_equal(strstr(limits.headline, "No checked resource reached its limit. Not checked: memory, "),
                         limits.headline);
        report.tree_cpu_s = 30;
        infp_limits_find(&report, &limits);
        assert_ptr_equal(strstr(limits.headline, "No checked resource reached its limit; the CPU came near: the target "
                                                 "used 3.00 of its 4 CPUs (75 %)."),
                         limits.headline);
        report = quiet("load"); /* of no machine anything was recorded */
        infp_limits_find(&report, &limits);
        assert_int_equal(limits.n, 0);
        assert_string_equal(limits.headline, "");
}

/* The target's tree may lie in several control groups: the one that is worst off counts. */
static void test_a_group_below(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_container_use uses[2] = { use, use };
        struct infp_limits limits;

        (void) state;
        report.containers = (struct infp_containers){ .list = uses, .n = 2 };
        uses[1].stat[INFP_CONTAINER_MEMORY] = (struct infp_stat){ .n = 2, .max = 100e6 };
        uses[1].stat[INFP_CONTAINER_MEMORY_LIMIT] = (struct infp_stat){ .n = 2, .last = 100e6, .has_last = true };
        add(&report, "mem", "vMemoryPercent", 0, 0.1, 0.1);
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_NEAR);
        uses[1].stat[INFP_CONTAINER_OOM_KILLS] = (struct infp_stat){ .n = 1, .total_u64 = 1 };
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_REACHED);
        /* A quota that it met after the start, when all 4 CPUs were there. */
        uses[1].stat[INFP_CONTAINER_CPU_LIMIT] = (struct infp_stat){ .n = 2, .last = 0.5, .has_last = true };
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_THROTTLING)->text,
                            "the quota is 0.5 CPUs, but its periods were not counted");
        uses[1].stat[INFP_CONTAINER_PERIODS] = (struct infp_stat){ .n = 1, .total_u64 = 100 };
        uses[1].stat[INFP_CONTAINER_THROTTLED] = (struct infp_stat){ .n = 1, .total_u64 = 60 };
        uses[1].stat[INFP_CONTAINER_CPU] = (struct infp_stat){ .n = 1, .total_u64 = 4700000000 };
        report.tree_cpu_s = 4.9;
        infp_limits_find(&report, &limits);
        assert_int_equal(get(&limits, INFP_LIMIT_THROTTLING)->state, INFP_LIMIT_REACHED);
        assert_string_equal(get(&limits, INFP_LIMIT_CPU)->text, "the target used 0.49 of its 0.5 CPUs (98 %)");
}

/* That the machine waited for memory is the target's trouble where its own limit was hit, or its pages were fetched again. */
static void test_memory_of_the_machine(void **state)
{
        struct infp_report report = quiet("run");

        (void) state;
        report.containers.n_pressure = 1;
        report.containers.pressure[0] = (struct infp_pressure_use){ .resource = "memory" };
        report.containers.pressure[0].some = (struct infp_stat){ .n = 2, .weight = 10, .mean = 0.3e9 };
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_NEAR);
        use.stat[INFP_CONTAINER_LIMIT_HITS] = (struct infp_stat){ .n = 1, .total_u64 = 7 };
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_REACHED);
        use.stat[INFP_CONTAINER_LIMIT_HITS].n = 0;
        add(&report, "tree", "tree_major_faults", 0, 30, 90);
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_REACHED);
        report.n_metrics = 0;
        run.info.mode = (char *) "host"; /* is the machine */
        assert_int_equal(state_of(&report, INFP_LIMIT_MEMORY), INFP_LIMIT_REACHED);
}

/* What is said of one column is no reason for another. */
static void test_reasons(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_absence absence = { .collector = (char *) "pressure",
                                        .column = (char *) "vPressureIrqFull",
                                        .reason = (char *) "no interrupts" };
        struct infp_limits limits;

        (void) state;
        report.absences = (struct infp_absences){ .list = &absence, .n = 1 };
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_IO)->text, "how long tasks waited for disks was not measured");
        absence.column = (char *) "*";
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_IO)->text, "no interrupts");
}

static void test_gpu_of_others(void **state)
{
        struct infp_report report = quiet("run");
        struct infp_gpu_process process = { .pid = 7 };
        struct infp_gpu gpu = { .table = "amdgpu", .domain = "amdgpu0", .processes = &process, .n_processes = 1 };
        struct infp_limits limits;

        (void) state;
        add(&report, "amdgpu", "amdgpu0_gUtilizationGpu", 8, 97, 100);
        add(&report, "amdgpu", "amdgpu1_gUtilizationGpu", 8, 75, 100);
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_GPU)->text, "amdgpu0 was busy 97 % of the time, the busiest of 2");
        report.gpus = (struct infp_gpus){ .list = &gpu, .n = 1 };
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU), INFP_LIMIT_NEAR); /* the other one is what is left */
        metrics[1].stat.mean = 10;
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU), INFP_LIMIT_FREE);
        process.is_host_pid = true; /* may be the target's */
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU), INFP_LIMIT_REACHED);
        process = (struct infp_gpu_process){ .pid = 7, .is_target = true };
        assert_int_equal(state_of(&report, INFP_LIMIT_GPU), INFP_LIMIT_REACHED);
}

static void test_two_engines(void **state __attribute__((unused)))
{
        struct infp_report report = quiet("run");
        struct infp_report_engine engines[2] = { 0 };
        struct infp_limits limits;

        report.engines = (struct infp_report_engines){ .list = engines, .n = 2 };
        engines[0].counters[INFP_ENGINE_PREEMPTIONS] = 3;
        engines[1].counters[INFP_ENGINE_PREEMPTIONS] = NAN;
        engines[0].gauges[INFP_ENGINE_KV] = (struct infp_stat){ .n = 10, .weight = 10, .mean = 0.2, .max = 0.5 };
        engines[1].gauges[INFP_ENGINE_KV] = (struct infp_stat){ .n = 10, .weight = 10, .mean = 0.2, .max = 0.7 };
        assert_int_equal(state_of(&report, INFP_LIMIT_CACHE), INFP_LIMIT_REACHED); /* not made good by the second */
        engines[0].counters[INFP_ENGINE_PREEMPTIONS] = 0;
        assert_int_equal(state_of(&report, INFP_LIMIT_CACHE), INFP_LIMIT_FREE);
        engines[0].gauges[INFP_ENGINE_KV].max = engines[1].gauges[INFP_ENGINE_KV].max = 7; /* nothing is that full */
        engines[0].gauges[INFP_ENGINE_WAITING] = (struct infp_stat){ .n = 1, .weight = 1, .min = -5, .max = 1e308 };
        infp_limits_find(&report, &limits);
        assert_string_equal(get(&limits, INFP_LIMIT_CACHE)->text, "the engine reports an impossible fill level");
        assert_string_equal(get(&limits, INFP_LIMIT_QUEUE)->text,
                            "the engine reports an impossible number of waiting requests");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cpu),
                cmocka_unit_test(test_ready_without_a_cpu),
                cmocka_unit_test(test_one_thread),
                cmocka_unit_test(test_one_thread_is_known),
                cmocka_unit_test(test_busy_waiting),
                cmocka_unit_test(test_limits_of_the_target),
                cmocka_unit_test(test_a_starved_server),
                cmocka_unit_test(test_throttling_comes_first),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_io),
                cmocka_unit_test(test_gpu),
                cmocka_unit_test(test_gpu_unmeasured),
                cmocka_unit_test(test_engine),
                cmocka_unit_test(test_headlines),
                cmocka_unit_test(test_a_group_below),
                cmocka_unit_test(test_memory_of_the_machine),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_gpu_of_others),
                cmocka_unit_test(test_two_engines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
