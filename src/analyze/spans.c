/* The spans of labels.h: made of neighbours, fed with the rows of the tables. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/labels.h"
#include "analyze/report_scan.h"
#include "model/rate.h"

void infp_spans_done(struct infp_spans *spans)
{
        for (unsigned i = 0; i < spans->n; i++)
                infp_cores_done(&spans->list[i].cores);
        free(spans->list);
        *spans = (struct infp_spans){ 0 };
}

static int make(unsigned n, struct infp_spans *ret, struct infp_err *err)
{
        *ret = (struct infp_spans){ .list = calloc(n ? n : 1, sizeof(*ret->list)), .n = n };
        if (ret->list)
                return 0;
        ret->n = 0;
        return infp_fail(err, -ENOMEM, "no memory for the report");
}

int infp_spans_between(const struct infp_labels *labels, struct infp_spans *ret, struct infp_err *err)
{
        INFP_TRY(make(labels->n ? labels->n - 1 : 0, ret, err));
        for (unsigned i = 0; i < ret->n; i++) {
                struct infp_labelled_span *span = &ret->list[i];

                span->t0 = labels->list[i].t_ns;
                span->t1 = labels->list[i + 1].t_ns;
                span->seconds = (double) (span->t1 - span->t0) / 1e9;
        }
        return 0;
}

int infp_spans_of_range(const struct infp_range *range, struct infp_spans *ret, struct infp_err *err)
{
        INFP_TRY(make(1, ret, err));
        ret->list[0].t0 = range->t0;
        ret->list[0].t1 = range->t1;
        /* The whole run's end lies just after its newest row. */
        ret->list[0].seconds = (double) (range->t1 - (range->t1 == range->end) - range->t0) / 1e9;
        return 0;
}

/* The span that holds the moment; NULL: none does. */
static struct infp_labelled_span *span_at(const struct infp_spans *spans, uint64_t t_ns)
{
        unsigned low = 0, high = spans->n;

        while (low < high) {
                const unsigned middle = (low + high) / 2;

                if (spans->list[middle].t1 <= t_ns)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < spans->n && spans->list[low].t0 <= t_ns ? &spans->list[low] : NULL;
}

enum { MAX_COLUMNS = 16 };

/* One table that is read for the spans. */
struct reading {
        const char *table;
        const char *const *columns; /* ended by NULL */
        void (*row)(struct infp_labelled_span *span, const struct infp_batch *batch, const int *at, uint32_t row);
};

static int read_table(struct infp_run *run, const struct infp_scan_options *options, const struct infp_spans *spans,
                      const struct reading *reading, struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[MAX_COLUMNS], r = infp_report_scan(run, reading->table, reading->columns, options, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; reading->columns[i]; i++)
                at[i] = infp_table_find(infp_scan_table(scan), reading->columns[i]);
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        struct infp_labelled_span *span = span_at(spans, (uint64_t) infp_batch_i64(&batch, 0, row));

                        if (span)
                                reading->row(span, &batch, at, row);
                }
        infp_scan_close(scan);
        return r;
}

static bool has(const struct infp_batch *batch, int column, uint32_t row)
{
        return column >= 0 && infp_batch_has(batch, (unsigned) column, row);
}

static void add_number(struct infp_stat *stat, const struct infp_batch *batch, int column, uint32_t row)
{
        const double v = has(batch, column, row) ? infp_batch_number(batch, (unsigned) column, row) : NAN;

        if (isnan(v))
                return;
        infp_stat_add_value(stat, v, 1);
        if (!stat->has_last)
                stat->first = v;
        stat->last = v;
        stat->has_last = true;
}

enum { PROCESSES, CPU_NS, CPU_USER, CPU_SYSTEM, RSS, VMS, SWAP };
static const char *const tree_columns[] = {
        [PROCESSES] = "tree_processes", [CPU_NS] = "tree_cpu_ns",
        [CPU_USER] = "tree_cpu_user",   [CPU_SYSTEM] = "tree_cpu_system",
        [RSS] = "tree_rss_bytes",       [VMS] = "tree_vms_bytes",
        [SWAP] = "tree_swap_bytes",     NULL,
};

/* By the CPU clocks, else by the ticks of 10 ms. False: the row does not say. */
static bool read_cpu(const struct infp_batch *batch, const int *at, uint32_t row, uint64_t *ret_ns)
{
        static const int64_t ns_per_tick = 10000000;

        if (has(batch, at[CPU_NS], row)) {
                *ret_ns = (uint64_t) infp_batch_i64(batch, (unsigned) at[CPU_NS], row);
                return true;
        }
        if (!has(batch, at[CPU_USER], row) || !has(batch, at[CPU_SYSTEM], row))
                return false;
        *ret_ns = (uint64_t) ((infp_batch_i64(batch, (unsigned) at[CPU_USER], row) +
                               infp_batch_i64(batch, (unsigned) at[CPU_SYSTEM], row)) *
                              ns_per_tick);
        return true;
}

static void take_tree(struct infp_labelled_span *span, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        uint64_t cpu_ns;

        span->n++;
        if (read_cpu(batch, at, row, &cpu_ns)) {
                if (span->last.has && t_ns > span->last.t_ns) {
                        const uint64_t more = infp_increase_u64(INFP_RESET_ZERO, span->last.cpu_ns, cpu_ns, 0);

                        infp_stat_add_value(&span->cpu_percent, 100 * (double) more / (double) (t_ns - span->last.t_ns),
                                            1);
                }
                span->last = (struct infp_span_last){ true, t_ns, cpu_ns };
        }
        /* A tree without a process has no memory. */
        if (has(batch, at[PROCESSES], row) && infp_batch_number(batch, (unsigned) at[PROCESSES], row) == 0)
                return;
        add_number(&span->rss_bytes, batch, at[RSS], row);
        add_number(&span->vms_bytes, batch, at[VMS], row);
        add_number(&span->swap_bytes, batch, at[SWAP], row);
}

static const char *const thermal_columns[] = { "vCpuTemperature", NULL };

static void take_thermal(struct infp_labelled_span *span, const struct infp_batch *batch, const int *at, uint32_t row)
{
        add_number(&span->temperature_c, batch, at[0], row);
}

static const char *const energy_columns[] = { "eMachineJoules", "eMachineQuality", "eMachineMeasuredS", NULL };

static void take_energy(struct infp_labelled_span *span, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const double counted_s = has(batch, at[2], row) ? infp_batch_number(batch, (unsigned) at[2], row) : NAN;
        const char *quality;
        size_t size;

        if (!has(batch, at[0], row))
                return;
        if (!span->energy_j.has_last) { /* of the first */
                span->energy_j.last_t_ns = t_ns;
                span->energy_j.last_counted_s = counted_s;
        }
        add_number(&span->energy_j, batch, at[0], row);
        span->energy_s = infp_counted_seconds(span->energy_j.last_t_ns, t_ns, span->energy_j.last_counted_s, counted_s);
        quality = has(batch, at[1], row) ? infp_batch_str(batch, (unsigned) at[1], row, &size) : NULL;
        span->energy_is_estimated |= quality && size == strlen("estimated") && !memcmp(quality, "estimated", size);
}

double infp_span_joules(const struct infp_labelled_span *span)
{
        return span->energy_j.n > 1 ? span->energy_j.last - span->energy_j.first : NAN;
}

double infp_span_watts(const struct infp_labelled_span *span)
{
        return span->energy_s > 0 ? infp_span_joules(span) / span->energy_s : NAN;
}

static int read_cores(struct infp_run *run, const struct infp_scan_options *options, struct infp_spans *spans,
                      struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_report_scan(run, "cpu_core", infp_cores_columns, options, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++) {
                        struct infp_labelled_span *span = span_at(spans, (uint64_t) infp_batch_i64(&batch, 0, row));

                        if (span && infp_cores_add(&span->cores, &batch, row, err) < 0)
                                r = -ENOMEM;
                }
        infp_scan_close(scan);
        for (unsigned i = 0; i < spans->n; i++)
                infp_cores_end(&spans->list[i].cores);
        return r;
}

/* Of one CPU to of all. */
static void scale(struct infp_stat *stat, double factor)
{
        stat->mean *= factor;
        stat->m2 *= factor * factor;
        stat->min *= factor;
        stat->max *= factor;
}

int infp_spans_read(struct infp_run *run, const struct infp_catalog *catalog, double n_cpus, struct infp_spans *spans,
                    const char **ret_table, struct infp_err *err)
{
        static const struct reading readings[] = {
                { "tree", tree_columns, take_tree },
                { "thermal", thermal_columns, take_thermal },
                { "energy_total", energy_columns, take_energy },
        };

        if (!spans->n)
                return 0;
        const struct infp_scan_options options = { .t0 = spans->list[0].t0,
                                                   .t1 = spans->list[spans->n - 1].t1,
                                                   .catalog = catalog };

        for (unsigned i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
                *ret_table = readings[i].table;
                INFP_TRY(read_table(run, &options, spans, &readings[i], err));
        }
        *ret_table = "cpu_core";
        INFP_TRY(read_cores(run, &options, spans, err));
        for (unsigned i = 0; i < spans->n; i++) {
                if (n_cpus > 0)
                        scale(&spans->list[i].cpu_percent, 1 / n_cpus);
                else
                        spans->list[i].cpu_percent = (struct infp_stat){ 0 };
        }
        return 0;
}
