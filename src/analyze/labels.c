#include "analyze/labels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/mem.h"
#include "base/sort.h"
#include "model/rate.h"

static const char filename[] = "filename: ";
enum { FILENAME_SIZE = sizeof(filename) - 1 };

void infp_labels_done(struct infp_labels *labels)
{
        for (unsigned i = 0; i < labels->n; i++) {
                free(labels->list[i].tag);
                free(labels->list[i].source);
                free(labels->list[i].stamp);
        }
        free(labels->list);
        free(labels->filename);
        *labels = (struct infp_labels){ 0 };
}

static char *text_of(const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text = infp_cell_str(batch, column, row, &size);

        return strndup(text, size);
}

enum { TAG, SOURCE, STAMP };
static const char *const columns[] = { "tag", "source", "stamp", NULL };

static bool is_filename(const struct infp_label_mark *mark)
{
        return !strcmp(mark->source, "output") && !strncmp(mark->tag, filename, FILENAME_SIZE);
}

/* Marks are few but come from outside: the array doubles, up to the bound. */
static int add(struct infp_labels *labels, struct infp_label_mark *mark)
{
        if (labels->n == INFP_LABELS_MAX) {
                labels->n_left_out++;
                return 0;
        }
        if (!INFP_ONE_MORE(labels->list, labels->n))
                return -ENOMEM;
        labels->list[labels->n++] = *mark;
        *mark = (struct infp_label_mark){ 0 };
        return 0;
}

static int take_mark(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_labels *labels = context;
        struct infp_label_mark mark = {
                .tag = text_of(batch, at[TAG], row),
                .source = text_of(batch, at[SOURCE], row),
                .stamp = text_of(batch, at[STAMP], row),
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .unix_ns = infp_batch_i64(batch, 1, row),
        };
        int r = mark.tag && mark.source && mark.stamp ? 0 : -ENOMEM;

        if (r == 0 && !*mark.stamp) {
                free(mark.stamp);
                mark.stamp = NULL;
        }
        if (r == 0 && is_filename(&mark)) {
                free(labels->filename);
                labels->filename = strdup(mark.tag + FILENAME_SIZE);
                r = labels->filename ? 0 : -ENOMEM;
        } else if (r == 0 && at[TAG] >= 0) {
                r = add(labels, &mark);
        }
        free(mark.tag);
        free(mark.source);
        free(mark.stamp);
        return r;
}

/* A label that brings its own time may be written after later ones. */
static int by_time(const void *a, const void *b)
{
        const struct infp_label_mark *x = a, *y = b;

        return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

int infp_labels_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_labels *ret,
                     struct infp_err *err)
{
        int r;

        *ret = (struct infp_labels){ 0 };
        r = infp_scan_rows(run, "marks", columns, options, take_mark, ret, err);
        if (r < 0)
                infp_labels_done(ret);
        else
                infp_sort(ret->list, ret->n, sizeof(*ret->list), by_time);
        return r;
}

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

/* The span that holds the moment of the row; NULL: none does. */
static struct infp_labelled_span *span_at(const struct infp_spans *spans, const struct infp_batch *batch, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
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

static void add_number(struct infp_stat *stat, const struct infp_batch *batch, int column, uint32_t row)
{
        const double v = infp_cell_number(batch, column, row);

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

/* By the CPU clocks, else by ticks of 10 ms. False: the row has neither. */
static bool read_cpu(const struct infp_batch *batch, const int *at, uint32_t row, uint64_t *ret_ns)
{
        static const int64_t ns_per_tick = 10000000;

        if (infp_cell_has(batch, at[CPU_NS], row)) {
                *ret_ns = (uint64_t) infp_batch_i64(batch, (unsigned) at[CPU_NS], row);
                return true;
        }
        if (!infp_cell_has(batch, at[CPU_USER], row) || !infp_cell_has(batch, at[CPU_SYSTEM], row))
                return false;
        *ret_ns = (uint64_t) ((infp_batch_i64(batch, (unsigned) at[CPU_USER], row) +
                               infp_batch_i64(batch, (unsigned) at[CPU_SYSTEM], row)) *
                              ns_per_tick);
        return true;
}

static void take_cpu(const struct infp_spans *spans, struct infp_labelled_span *span, uint64_t t_ns, uint64_t cpu_ns)
{
        const struct infp_span_last last = span->last;

        if (last.has && t_ns < last.t_ns + spans->shortest_ns)
                return;
        if (last.has && t_ns > last.t_ns)
                infp_stat_add_value(&span->cpu_percent,
                                    100 * (double) infp_increase_u64(INFP_RESET_ZERO, last.cpu_ns, cpu_ns, 0) /
                                            (double) (t_ns - last.t_ns),
                                    1);
        span->last = (struct infp_span_last){ true, t_ns, cpu_ns };
}

static int take_tree(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_labelled_span *span = span_at(context, batch, row);
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        uint64_t cpu_ns;

        if (!span)
                return 0;
        span->n++;
        if (read_cpu(batch, at, row, &cpu_ns))
                take_cpu(context, span, t_ns, cpu_ns);
        /* A tree without a process has no memory. */
        if (infp_cell_has(batch, at[PROCESSES], row) && infp_batch_number(batch, (unsigned) at[PROCESSES], row) == 0)
                return 0;
        add_number(&span->rss_bytes, batch, at[RSS], row);
        add_number(&span->vms_bytes, batch, at[VMS], row);
        add_number(&span->swap_bytes, batch, at[SWAP], row);
        return 0;
}

static const char *const thermal_columns[] = { "vCpuTemperature", NULL };

static int take_thermal(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_labelled_span *span = span_at(context, batch, row);
        if (span)
                add_number(&span->temperature_c, batch, at[0], row);
        return 0;
}

static const char *const energy_columns[] = { "eMachineJoules", "eMachineQuality", "eMachineMeasuredS", NULL };

static int take_energy(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_labelled_span *span = span_at(context, batch, row);
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const double counted_s = infp_cell_number(batch, at[2], row);

        if (!span || !infp_cell_has(batch, at[0], row))
                return 0;
        if (!span->energy_j.has_last) { /* of the first */
                span->energy_j.last_t_ns = t_ns;
                span->energy_j.last_counted_s = counted_s;
        }
        add_number(&span->energy_j, batch, at[0], row);
        span->energy_s = infp_counted_seconds(span->energy_j.last_t_ns, t_ns, span->energy_j.last_counted_s, counted_s);
        span->energy_is_estimated |= infp_cell_is(batch, at[1], row, "estimated");
        return 0;
}

double infp_span_joules(const struct infp_labelled_span *span)
{
        return span->energy_j.n > 1 ? span->energy_j.last - span->energy_j.first : NAN;
}

double infp_span_watts(const struct infp_labelled_span *span)
{
        return span->energy_s > 0 ? infp_span_joules(span) / span->energy_s : NAN;
}

static int take_core(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_labelled_span *span = span_at(context, batch, row);

        (void) at;
        return span ? infp_cores_add(&span->cores, batch, row) : 0;
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
        const struct {
                const char *table;
                const char *const *columns;
                infp_scan_row *take;
        } readings[] = {
                { "tree", tree_columns, take_tree },
                { "thermal", thermal_columns, take_thermal },
                { "energy_total", energy_columns, take_energy },
                { "cpu_core", infp_cores_columns, take_core },
        };

        if (!spans->n)
                return 0;
        spans->shortest_ns = infp_run_period_ns(&run->info, "tree") / 2;
        const struct infp_scan_options options = { .t0 = spans->list[0].t0,
                                                   .t1 = spans->list[spans->n - 1].t1,
                                                   .catalog = catalog };

        for (unsigned i = 0; i < INFP_COUNT(readings); i++) {
                *ret_table = readings[i].table;
                INFP_TRY(infp_scan_rows(run, readings[i].table, readings[i].columns, &options, readings[i].take, spans,
                                        err));
        }
        for (unsigned i = 0; i < spans->n; i++) {
                infp_cores_end(&spans->list[i].cores);
                if (n_cpus > 0)
                        scale(&spans->list[i].cpu_percent, 1 / n_cpus);
                else
                        spans->list[i].cpu_percent = (struct infp_stat){ 0 };
        }
        return 0;
}
