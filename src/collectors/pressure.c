/* Pressure stall information of the machine: /proc/pressure, since Linux 4.20; irq since 6.1. It counts the time in which
 * tasks waited although they had work: `some` of them, or all (`full`). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collectors/fields.h"

// clang-format off
static const struct infp_column pressure_columns[] = {
        INFP_COLUMN(vPressureCpuSome, I64, COUNTER, ns, MEASURED, ZERO, "cpu:some:total", 1000, "infprof_pressure_cpu_some_seconds_total", "Time in which at least one task waited for a CPU, in steps of 1 us."),
        INFP_COLUMN(vPressureCpuSomeAvg10, F64, GAUGE, percent, MEASURED, NO, "cpu:some:avg10", 0, "infprof_pressure_cpu_some_10s_ratio", "The kernel's average of vPressureCpuSome over 10 s, as a share of time."),
        INFP_COLUMN(vPressureCpuSomeAvg60, F64, GAUGE, percent, MEASURED, NO, "cpu:some:avg60", 0, "infprof_pressure_cpu_some_60s_ratio", "The kernel's average of vPressureCpuSome over 60 s, as a share of time."),
        INFP_COLUMN(vPressureCpuSomeAvg300, F64, GAUGE, percent, MEASURED, NO, "cpu:some:avg300", 0, "infprof_pressure_cpu_some_300s_ratio", "The kernel's average of vPressureCpuSome over 300 s, as a share of time."),
        INFP_COLUMN(vPressureCpuFull, I64, COUNTER, ns, MEASURED, ZERO, "cpu:full:total", 1000, "infprof_pressure_cpu_full_seconds_total", "Time in which all tasks that had work waited for a CPU; for a whole machine the kernel does not define it and reports 0."),
        INFP_COLUMN(vPressureCpuFullAvg10, F64, GAUGE, percent, MEASURED, NO, "cpu:full:avg10", 0, "infprof_pressure_cpu_full_10s_ratio", "The kernel's average of vPressureCpuFull over 10 s, as a share of time."),
        INFP_COLUMN(vPressureCpuFullAvg60, F64, GAUGE, percent, MEASURED, NO, "cpu:full:avg60", 0, "infprof_pressure_cpu_full_60s_ratio", "The kernel's average of vPressureCpuFull over 60 s, as a share of time."),
        INFP_COLUMN(vPressureCpuFullAvg300, F64, GAUGE, percent, MEASURED, NO, "cpu:full:avg300", 0, "infprof_pressure_cpu_full_300s_ratio", "The kernel's average of vPressureCpuFull over 300 s, as a share of time."),
        INFP_COLUMN(vPressureMemorySome, I64, COUNTER, ns, MEASURED, ZERO, "memory:some:total", 1000, "infprof_pressure_memory_some_seconds_total", "Time in which some task waited for memory, in steps of 1 us."),
        INFP_COLUMN(vPressureMemorySomeAvg10, F64, GAUGE, percent, MEASURED, NO, "memory:some:avg10", 0, "infprof_pressure_memory_some_10s_ratio", "The kernel's average of vPressureMemorySome over 10 s, as a share of time."),
        INFP_COLUMN(vPressureMemorySomeAvg60, F64, GAUGE, percent, MEASURED, NO, "memory:some:avg60", 0, "infprof_pressure_memory_some_60s_ratio", "The kernel's average of vPressureMemorySome over 60 s, as a share of time."),
        INFP_COLUMN(vPressureMemorySomeAvg300, F64, GAUGE, percent, MEASURED, NO, "memory:some:avg300", 0, "infprof_pressure_memory_some_300s_ratio", "The kernel's average of vPressureMemorySome over 300 s, as a share of time."),
        INFP_COLUMN(vPressureMemoryFull, I64, COUNTER, ns, MEASURED, ZERO, "memory:full:total", 1000, "infprof_pressure_memory_full_seconds_total", "Time in which all tasks that had work waited for memory, in steps of 1 us."),
        INFP_COLUMN(vPressureMemoryFullAvg10, F64, GAUGE, percent, MEASURED, NO, "memory:full:avg10", 0, "infprof_pressure_memory_full_10s_ratio", "The kernel's average of vPressureMemoryFull over 10 s, as a share of time."),
        INFP_COLUMN(vPressureMemoryFullAvg60, F64, GAUGE, percent, MEASURED, NO, "memory:full:avg60", 0, "infprof_pressure_memory_full_60s_ratio", "The kernel's average of vPressureMemoryFull over 60 s, as a share of time."),
        INFP_COLUMN(vPressureMemoryFullAvg300, F64, GAUGE, percent, MEASURED, NO, "memory:full:avg300", 0, "infprof_pressure_memory_full_300s_ratio", "The kernel's average of vPressureMemoryFull over 300 s, as a share of time."),
        INFP_COLUMN(vPressureIoSome, I64, COUNTER, ns, MEASURED, ZERO, "io:some:total", 1000, "infprof_pressure_io_some_seconds_total", "Time in which some task waited for I/O, in steps of 1 us."),
        INFP_COLUMN(vPressureIoSomeAvg10, F64, GAUGE, percent, MEASURED, NO, "io:some:avg10", 0, "infprof_pressure_io_some_10s_ratio", "The kernel's average of vPressureIoSome over 10 s, as a share of time."),
        INFP_COLUMN(vPressureIoSomeAvg60, F64, GAUGE, percent, MEASURED, NO, "io:some:avg60", 0, "infprof_pressure_io_some_60s_ratio", "The kernel's average of vPressureIoSome over 60 s, as a share of time."),
        INFP_COLUMN(vPressureIoSomeAvg300, F64, GAUGE, percent, MEASURED, NO, "io:some:avg300", 0, "infprof_pressure_io_some_300s_ratio", "The kernel's average of vPressureIoSome over 300 s, as a share of time."),
        INFP_COLUMN(vPressureIoFull, I64, COUNTER, ns, MEASURED, ZERO, "io:full:total", 1000, "infprof_pressure_io_full_seconds_total", "Time in which all tasks that had work waited for I/O, in steps of 1 us."),
        INFP_COLUMN(vPressureIoFullAvg10, F64, GAUGE, percent, MEASURED, NO, "io:full:avg10", 0, "infprof_pressure_io_full_10s_ratio", "The kernel's average of vPressureIoFull over 10 s, as a share of time."),
        INFP_COLUMN(vPressureIoFullAvg60, F64, GAUGE, percent, MEASURED, NO, "io:full:avg60", 0, "infprof_pressure_io_full_60s_ratio", "The kernel's average of vPressureIoFull over 60 s, as a share of time."),
        INFP_COLUMN(vPressureIoFullAvg300, F64, GAUGE, percent, MEASURED, NO, "io:full:avg300", 0, "infprof_pressure_io_full_300s_ratio", "The kernel's average of vPressureIoFull over 300 s, as a share of time."),
        INFP_COLUMN(vPressureIrqFull, I64, COUNTER, ns, MEASURED, ZERO, "irq:full:total", 1000, "infprof_pressure_irq_full_seconds_total", "Time that interrupts took from tasks, in steps of 1 us (Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING)."),
        INFP_COLUMN(vPressureIrqFullAvg10, F64, GAUGE, percent, MEASURED, NO, "irq:full:avg10", 0, "infprof_pressure_irq_full_10s_ratio", "The kernel's average of vPressureIrqFull over 10 s, as a share of time."),
        INFP_COLUMN(vPressureIrqFullAvg60, F64, GAUGE, percent, MEASURED, NO, "irq:full:avg60", 0, "infprof_pressure_irq_full_60s_ratio", "The kernel's average of vPressureIrqFull over 60 s, as a share of time."),
        INFP_COLUMN(vPressureIrqFullAvg300, F64, GAUGE, percent, MEASURED, NO, "irq:full:avg300", 0, "infprof_pressure_irq_full_300s_ratio", "The kernel's average of vPressureIrqFull over 300 s, as a share of time."),
};
// clang-format on

static const struct infp_table pressure_table = {
        .name = "pressure",
        .help = "Pressure of the machine: how long tasks waited for CPUs, memory and I/O.",
        .columns = pressure_columns,
        .n_columns = INFP_COUNT(pressure_columns),
        .section = "pressure",
        .series = "",
};

/* Files of /proc/pressure: the first word of the columns' keys. */
static const char *const resources[] = { "cpu", "memory", "io", "irq" };
enum { RESOURCES = INFP_COUNT(resources), OPTIONAL = 3 };

struct pressure {
        struct infp_procfile files[RESOURCES];
};

static void path_of(char *ret, size_t cap, unsigned i)
{
        snprintf(ret, cap, "proc/pressure/%s", resources[i]);
}

/* A kernel with PSI disabled has the files, and reading them fails with EOPNOTSUPP. */
static int pressure_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct pressure *p = state;
        int first = 0;
        unsigned n = 0;

        for (unsigned i = 0; i < RESOURCES; i++) {
                char path[40];
                int r;

                p->files[i] = (struct infp_procfile) INFP_PROCFILE_INIT;
                path_of(path, sizeof(path), i);
                r = infp_procfile_open(&p->files[i], env->root_fd, path, !env->is_live);
                if (r >= 0)
                        r = infp_procfile_read(&p->files[i], env->root_fd, path);
                n += r >= 0;
                if (r < 0 && !first)
                        first = r;
        }
        if (n)
                return 0;
        if (first == -ENOENT || first == -EOPNOTSUPP)
                return infp_fail(err, -ENODEV,
                                 "the kernel keeps no pressure figures: %s (boot with psi=1; it must have been built "
                                 "with CONFIG_PSI)",
                                 first == -ENOENT ? "/proc/pressure is missing" : "they are switched off");
        return infp_fail_errno(err, first, "/proc/pressure cannot be read");
}

/* Whether the column comes from the resource's file; then *ret is the rest of its key. */
static bool is_of(const struct infp_column *column, const char *resource, const char **ret)
{
        const size_t size = strlen(resource);

        if (strncmp(column->key, resource, size) || column->key[size] != ':')
                return false;
        *ret = column->key + size + 1;
        return true;
}

static int cell_of(const char *resource, struct infp_span what, struct infp_span name)
{
        const char *rest;

        for (unsigned i = 0; i < INFP_COUNT(pressure_columns); i++)
                if (is_of(&pressure_columns[i], resource, &rest) && what.size == strcspn(rest, ":") &&
                    !memcmp(what.at, rest, what.size) && infp_span_is(name, rest + what.size + 1))
                        return (int) i;
        return -1;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345" */
static void take_line(struct infp_row *row, const char *resource, struct infp_span line)
{
        struct infp_span what = infp_span_word(&line), word;

        while ((word = infp_span_word(&line)).size) {
                struct infp_span value = { "", 0 }, name = infp_span_cut(word, '=', &value);
                const int cell = cell_of(resource, what, name);
                uint64_t raw;
                double v;

                if (cell < 0)
                        continue;
                if (pressure_columns[cell].type == INFP_F64) {
                        if (!infp_span_f64(value, &v))
                                infp_row_f64(row, (unsigned) cell, v);
                } else if (!infp_span_u64(value, &raw)) {
                        infp_row_raw(row, (unsigned) cell, raw);
                }
        }
}

/* For all columns that a file would have given. */
static void explain(struct infp_emit *emit, unsigned resource, const char *path, int r)
{
        char reason[128];
        const char *rest;

        if (resource >= OPTIONAL && r == -ENOENT)
                snprintf(reason, sizeof(reason), "/%s is missing: it needs Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING",
                         path);
        else
                snprintf(reason, sizeof(reason), "/%s: %s", path, strerror(-r));
        for (unsigned i = 0; i < INFP_COUNT(pressure_columns); i++)
                if (is_of(&pressure_columns[i], resources[resource], &rest))
                        infp_emit_source(emit, &pressure_table, (int) i, NULL,
                                         r == -EOPNOTSUPP ? INFP_ABSENT : infp_source_state_of(r), reason,
                                         resource < OPTIONAL ? "boot with psi=1" : NULL);
}

static int pressure_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct pressure *p = state;
        struct infp_row *row = infp_emit_begin(emit, &pressure_table, env->now_ns(env));
        unsigned n = 0;
        int first = 0;

        for (unsigned i = 0; i < RESOURCES; i++) {
                struct infp_span text, line;
                char path[40];
                int r;

                path_of(path, sizeof(path), i);
                r = infp_procfile_read(&p->files[i], env->root_fd, path);
                if (r < 0) {
                        first = first ? first : r;
                        explain(emit, i, path, r);
                        continue;
                }
                text = infp_whole_words(infp_procfile_text(&p->files[i]));
                while (infp_span_line(&text, &line))
                        take_line(row, resources[i], line);
                n++;
        }
        if (!n)
                return infp_fail_errno(err, first, "/proc/pressure cannot be read");
        infp_emit_commit(emit);
        return 0;
}

static void pressure_close(void *state)
{
        struct pressure *p = state;

        for (unsigned i = 0; i < RESOURCES; i++)
                infp_procfile_done(&p->files[i]);
}

static const struct infp_table *const pressure_tables[] = { &pressure_table, NULL };

const struct infp_collector infp_collector_pressure = {
        .name = "pressure",
        .help = "How long tasks of the machine waited for CPUs, memory and I/O.",
        .tables = pressure_tables,
        .state_size = sizeof(struct pressure),
        .open = pressure_open,
        .sample = pressure_sample,
        .close = pressure_close,
};
