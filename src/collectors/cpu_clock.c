/* Clock frequency of the CPUs: a source of its own because reading it is expensive (a driver may interrupt the core, and
 * /proc/cpuinfo waits for a measurement), so it has a slower period than the rest of `cpu`. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "collect/collector.h"
#include "collectors/cpus.h"

enum clock_cell { CLOCK_MEAN, CLOCK_MIN, CLOCK_MAX, CLOCK_N };

// clang-format off
static const struct infp_column clock_columns[] = {
        [CLOCK_MEAN] = INFP_COLUMN(vCpuMhz, F64, GAUGE, mhz, DERIVED, NO, NULL, 0, "infprof_host_cpu_frequency_hertz", "Clock frequency, mean of the cores that report one."),
        [CLOCK_MIN] = INFP_COLUMN(vCpuMhzMin, F64, GAUGE, mhz, DERIVED, NO, NULL, 0, "infprof_host_cpu_frequency_min_hertz", "Clock frequency of the slowest core."),
        [CLOCK_MAX] = INFP_COLUMN(vCpuMhzMax, F64, GAUGE, mhz, DERIVED, NO, NULL, 0, "infprof_host_cpu_frequency_max_hertz", "Clock frequency of the fastest core."),
};
// clang-format on

static const struct infp_table clock_table = {
        .name = "cpu_clock",
        .help = "Clock frequency of the CPUs, at most every 5 s.",
        .columns = clock_columns,
        .n_columns = CLOCK_N,
        .section = "cpu",
        .series = "",
};

struct cpu_clock {
        struct infp_procfile cpuinfo;
        struct infp_cpus cpus;
};

struct clocks {
        double sum, min, max; /* kHz from cpufreq, MHz from cpuinfo */
        unsigned n;
};

static int clock_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct cpu_clock *c = state;

        (void) env;
        (void) err;
        c->cpuinfo = (struct infp_procfile) INFP_PROCFILE_INIT;
        return 0;
}

static void add(struct clocks *clocks, double v)
{
        clocks->min = clocks->n && clocks->min < v ? clocks->min : v;
        clocks->max = clocks->n && clocks->max > v ? clocks->max : v;
        clocks->sum += v;
        clocks->n++;
}

/* Offline cores have no file, some drivers write "<unknown>" or 0: such cores do not count. */
static void read_cpufreq(struct cpu_clock *c, const struct infp_env *env, struct clocks *clocks)
{
        enum { FASTEST_KHZ = 100000000 };
        char path[96], text[64];
        uint64_t khz;
        ssize_t n;

        if (infp_cpus_list(&c->cpus, env->root_fd) < 0)
                return;
        for (unsigned cpu = 0, seen = 0; seen < c->cpus.n; cpu++) {
                if (!infp_cpus_has(&c->cpus, cpu))
                        continue;
                seen++;
                snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", cpu);
                n = infp_read_at(env->root_fd, path, text, sizeof(text));
                if (n <= 0 || infp_span_u64(infp_span_trim((struct infp_span){ text, (size_t) n }), &khz))
                        continue;
                if (khz && khz <= FASTEST_KHZ)
                        add(clocks, (double) khz);
        }
}

static int read_cpuinfo(struct cpu_clock *c, const struct infp_env *env, struct clocks *clocks)
{
        struct infp_span text, line, value;
        double mhz;
        int r;

        if (c->cpuinfo.fd < 0) {
                r = infp_procfile_open(&c->cpuinfo, env->root_fd, "proc/cpuinfo", !env->is_live);
                if (r < 0)
                        return r;
        }
        r = infp_procfile_read(&c->cpuinfo, env->root_fd, "proc/cpuinfo");
        if (r < 0)
                return r;
        for (text = infp_procfile_text(&c->cpuinfo); infp_span_line(&text, &line);) {
                struct infp_span name = infp_span_trim(infp_span_cut(line, ':', &value));

                if (infp_span_is(name, "cpu MHz") && !infp_span_f64(infp_span_trim(value), &mhz) && mhz > 0 &&
                    mhz <= 100000)
                        add(clocks, mhz);
        }
        return 0;
}

static void explain(struct infp_emit *emit, int r)
{
        const char *reason = r == -EACCES ? "neither cpufreq in /sys nor /proc/cpuinfo can be read"
                                          : "no core reports its frequency, in /sys (cpufreq) or /proc/cpuinfo";

        for (int i = 0; i < CLOCK_N; i++)
                infp_emit_source(emit, &clock_table, i, NULL, r == -EACCES ? INFP_DENIED : INFP_ABSENT, reason, NULL);
}

static int clock_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct cpu_clock *c = state;
        uint64_t t_ns = env->now_ns(env);
        struct clocks clocks = { 0 };
        double per_mhz = 1000;
        struct infp_row *row;
        int r = 0;

        (void) err;
        read_cpufreq(c, env, &clocks);
        if (!clocks.n) {
                per_mhz = 1;
                r = read_cpuinfo(c, env, &clocks);
        }
        /* A row without a value would add nothing. */
        if (!clocks.n) {
                explain(emit, r);
                return 0;
        }
        row = infp_emit_begin(emit, &clock_table, t_ns);
        infp_row_f64(row, CLOCK_MEAN, clocks.sum / (per_mhz * clocks.n));
        infp_row_f64(row, CLOCK_MIN, clocks.min / per_mhz);
        infp_row_f64(row, CLOCK_MAX, clocks.max / per_mhz);
        infp_emit_commit(emit);
        return 0;
}

static void clock_close(void *state)
{
        struct cpu_clock *c = state;

        infp_procfile_done(&c->cpuinfo);
}

static const struct infp_table *const clock_tables[] = { &clock_table, NULL };

const struct infp_collector infp_collector_cpu_clock = {
        .name = "cpu_clock",
        .help = "Clock frequency of the CPUs.",
        .tables = clock_tables,
        .floor_ms = 5000,
        .state_size = sizeof(struct cpu_clock),
        .open = clock_open,
        .sample = clock_sample,
        .close = clock_close,
};
