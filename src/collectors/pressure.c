/* Pressure stall information of the machine: /proc/pressure, since Linux 4.20; irq since 6.1. Time is counted in which tasks
 * waited although they had work: `some` of them, or all (`full`). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collectors/fields.h"

enum pressure_cell {
        PRESSURE_RESOURCE,
        SOME_AVG10,
        SOME_AVG60,
        SOME_AVG300,
        SOME_TIME,
        FULL_AVG10,
        FULL_AVG60,
        FULL_AVG300,
        FULL_TIME,
        PRESSURE_N,
};

// clang-format off
static const struct infp_column pressure_keys[] = {
        INFP_COLUMN(resource, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What is waited for: cpu, memory, io, irq."),
};

static const struct infp_column pressure_columns[] = {
        [SOME_AVG10 - 1] = INFP_COLUMN(vPressureSomeAvg10, F64, GAUGE, percent, MEASURED, NO, "some:avg10", 0, "infprof_pressure_some_10s_ratio", "Share of time in which some task waited, the kernel's average over 10 s."),
        [SOME_AVG60 - 1] = INFP_COLUMN(vPressureSomeAvg60, F64, GAUGE, percent, MEASURED, NO, "some:avg60", 0, "infprof_pressure_some_60s_ratio", "The same over 60 s."),
        [SOME_AVG300 - 1] = INFP_COLUMN(vPressureSomeAvg300, F64, GAUGE, percent, MEASURED, NO, "some:avg300", 0, "infprof_pressure_some_300s_ratio", "The same over 300 s."),
        [SOME_TIME - 1] = INFP_COLUMN(vPressureSome, I64, COUNTER, ns, MEASURED, ZERO, "some:total", 1000, "infprof_pressure_some_seconds_total", "Time in which some task waited, in steps of 1 us."),
        [FULL_AVG10 - 1] = INFP_COLUMN(vPressureFullAvg10, F64, GAUGE, percent, MEASURED, NO, "full:avg10", 0, "infprof_pressure_full_10s_ratio", "Share of time in which all tasks that had work waited, the kernel's average over 10 s."),
        [FULL_AVG60 - 1] = INFP_COLUMN(vPressureFullAvg60, F64, GAUGE, percent, MEASURED, NO, "full:avg60", 0, "infprof_pressure_full_60s_ratio", "The same over 60 s."),
        [FULL_AVG300 - 1] = INFP_COLUMN(vPressureFullAvg300, F64, GAUGE, percent, MEASURED, NO, "full:avg300", 0, "infprof_pressure_full_300s_ratio", "The same over 300 s."),
        [FULL_TIME - 1] = INFP_COLUMN(vPressureFull, I64, COUNTER, ns, MEASURED, ZERO, "full:total", 1000, "infprof_pressure_full_seconds_total", "Time in which all tasks that had work waited, in steps of 1 us; of the CPUs of a whole machine the kernel does not define it and says 0."),
};
// clang-format on

_Static_assert(INFP_COUNT(pressure_columns) == PRESSURE_N - 1, "a column for each cell");

static const struct infp_table pressure_table = {
        .name = "pressure",
        .help = "Pressure of the machine: how long tasks waited for CPUs, memory and I/O.",
        .keys = pressure_keys,
        .n_keys = 1,
        .columns = pressure_columns,
        .n_columns = INFP_COUNT(pressure_columns),
        .section = "pressure",
        .series = "pressure",
};

static const char *const resources[] = { "cpu", "memory", "io", "irq" };
enum { RESOURCES = INFP_COUNT(resources), OPTIONAL = 3 };

struct pressure {
        struct infp_procfile files[RESOURCES];
};

static void path_of(char *ret, size_t cap, unsigned i)
{
        snprintf(ret, cap, "proc/pressure/%s", resources[i]);
}

/* A kernel that was built with PSI switched off has the files, and reading them fails with EOPNOTSUPP. */
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
                                 first == -ENOENT ? "/proc/pressure is not there" : "they are switched off");
        return infp_fail_errno(err, first, "/proc/pressure cannot be read");
}

static unsigned cell_of(struct infp_span what, struct infp_span name)
{
        for (unsigned i = 0; i < INFP_COUNT(pressure_columns); i++) {
                const char *key = pressure_columns[i].key;
                size_t n = strcspn(key, ":");

                if (what.size == n && !memcmp(what.at, key, n) && infp_span_is(name, key + n + 1))
                        return i + 1;
        }
        return 0;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345" */
static void take_line(struct infp_row *row, struct infp_span line)
{
        struct infp_span what = infp_span_word(&line), word;

        while ((word = infp_span_word(&line)).size) {
                struct infp_span value = { "", 0 }, name = infp_span_cut(word, '=', &value);
                unsigned cell = cell_of(what, name);
                uint64_t raw;
                double v;

                if (!cell)
                        continue;
                if (pressure_columns[cell - 1].type == INFP_F64) {
                        if (!infp_span_f64(value, &v))
                                infp_row_f64(row, cell, v);
                } else if (!infp_span_u64(value, &raw)) {
                        infp_row_raw(row, cell, raw);
                }
        }
}

static int pressure_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct pressure *p = state;
        unsigned n = 0;
        int first = 0;

        for (unsigned i = 0; i < RESOURCES; i++) {
                uint64_t t_ns = env->now_ns(env);
                struct infp_span text, line;
                struct infp_row *row;
                char path[40], reason[128];
                int r;

                path_of(path, sizeof(path), i);
                r = infp_procfile_read(&p->files[i], env->root_fd, path);
                if (r < 0) {
                        first = first ? first : r;
                        if (i >= OPTIONAL && r == -ENOENT)
                                snprintf(reason, sizeof(reason),
                                         "/%s is not there: since Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING", path);
                        else
                                snprintf(reason, sizeof(reason), "/%s: %s", path, strerror(-r));
                        infp_emit_source(emit, &pressure_table, -1, resources[i],
                                         r == -EOPNOTSUPP ? INFP_ABSENT : infp_source_state_of(r), reason,
                                         i < OPTIONAL ? "boot with psi=1" : NULL);
                        continue;
                }
                infp_emit_source(emit, &pressure_table, -1, resources[i], INFP_OK, NULL, NULL);
                row = infp_emit_begin(emit, &pressure_table, t_ns);
                infp_row_str(row, PRESSURE_RESOURCE, resources[i]);
                text = infp_whole_words(infp_procfile_text(&p->files[i]));
                while (infp_span_line(&text, &line))
                        take_line(row, line);
                infp_emit_commit(emit);
                n++;
        }
        return n ? 0 : infp_fail_errno(err, first, "/proc/pressure cannot be read");
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
