#include "analyze/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/instances.h"

/* Those from number `from` on. */
static void clear(struct infp_report_metric *metrics, unsigned from, unsigned n)
{
        for (unsigned i = from; i < n; i++) {
                free(metrics[i].table);
                free(metrics[i].name);
                free(metrics[i].unit);
                free(metrics[i].base);
        }
}

void infp_metrics_done(struct infp_report_metric *metrics, unsigned n)
{
        clear(metrics, 0, n);
        free(metrics);
}

double infp_metric_increase(const struct infp_report_metric *m, bool from_zero)
{
        double total;

        if (!m->stat.has_last)
                return NAN;
        total = infp_stat_total(&m->stat, &m->column);
        if (isnan(total) && !from_zero)
                return NAN;
        return ((isnan(total) ? 0 : total) + (from_zero ? m->stat.first : 0)) * m->factor;
}

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the report");
}

/* A table being read: its instances, and for each column of the batches its number among an instance's metrics. */
struct reading {
        struct infp_instances instances;
        unsigned first, n_each; /* metrics: n_each for each instance, from `first` on */
        int *number;            /* of each column of the batches; -1: not a metric */
};

static void reading_done(struct reading *reading)
{
        infp_instances_done(&reading->instances);
        free(reading->number);
}

/* The keys of the table and its numbers by name, ended by NULL; NULL without memory. */
static const char **columns_of(const struct infp_table *table)
{
        const unsigned width = infp_table_width(table);
        const char **names = calloc(width + 1, sizeof(*names));
        unsigned n = 0;

        for (unsigned i = INFP_FIXED_COLUMNS; names && i < width; i++)
                if (i - INFP_FIXED_COLUMNS < table->n_keys || infp_column_is_metric(infp_table_column(table, i)))
                        names[n++] = infp_table_column(table, i)->name;
        return names;
}

static int fill_metric(struct infp_report_metric *m, const struct infp_table *table, const struct infp_column *c,
                       const char *prefix)
{
        *m = (struct infp_report_metric){
                .table = strdup(table->name),
                .unit = strdup(c->unit->name),
                .base = strdup(c->unit->base),
                .is_share = infp_column_is_share(c),
                .prefix_size = strlen(prefix),
                .factor = c->unit->factor,
                .column = *c,
        };
        if (asprintf(&m->name, "%s%s", prefix, c->name) < 0)
                m->name = NULL;
        return m->table && m->name && m->unit && m->base ? 0 : -ENOMEM;
}

/* A metric for each number of each instance. */
static int add_metrics(struct reading *reading, struct infp_report_metric **metrics, unsigned *n,
                       const struct infp_table *table)
{
        const unsigned width = infp_table_width(table);
        struct infp_report_metric *more =
                reallocarray(*metrics, *n + (size_t) reading->instances.n * width + 1, sizeof(*more));

        reading->number = calloc(width, sizeof(*reading->number));
        if (more)
                *metrics = more;
        if (!more || !reading->number)
                return -ENOMEM;
        reading->first = *n;
        for (unsigned i = 0; i < width; i++)
                reading->number[i] = i >= INFP_FIXED_COLUMNS && infp_column_is_metric(infp_table_column(table, i))
                                             ? (int) reading->n_each++
                                             : -1;
        for (unsigned k = 0; k < reading->instances.n; k++)
                for (unsigned i = 0; i < width; i++)
                        if (reading->number[i] >= 0)
                                INFP_TRY(fill_metric(&more[(*n)++], table, infp_table_column(table, i),
                                                     reading->instances.list[k].prefix));
        return 0;
}

static void take_row(const struct reading *reading, struct infp_report_metric *metrics, unsigned instance,
                     const struct infp_batch *batch, uint32_t row)
{
        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(batch->table); i++)
                if (reading->number[i] >= 0)
                        infp_stat_add(
                                &metrics[reading->first + instance * reading->n_each + (unsigned) reading->number[i]]
                                         .stat,
                                batch, i, row);
}

/* Column by column, since values of a column are adjacent in memory. */
static void take_columns(const struct reading *reading, struct infp_report_metric *metrics,
                         const struct infp_batch *batch)
{
        const int processes = infp_table_find(batch->table, "tree_processes");

        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(batch->table); i++)
                for (uint32_t row = 0; reading->number[i] >= 0 && row < batch->n_rows; row++)
                        if (!infp_stat_is_of_nobody(batch, infp_table_column(batch->table, i), processes, row))
                                infp_stat_add(&metrics[reading->first + (unsigned) reading->number[i]].stat, batch, i,
                                              row);
}

static void take_batch(struct reading *reading, struct infp_report_metric *metrics, const struct infp_batch *batch)
{
        if (!batch->table->n_keys) {
                take_columns(reading, metrics, batch);
                return;
        }
        for (uint32_t row = 0; row < batch->n_rows; row++) {
                const int instance = infp_instances_of(&reading->instances, batch, row);

                if (instance >= 0)
                        take_row(reading, metrics, (unsigned) instance, batch, row);
        }
}

int infp_metrics_read(struct infp_run *run, const struct infp_table *known, const struct infp_scan_options *wanted,
                      struct infp_report_metric **metrics, unsigned *n, struct infp_err *err)
{
        infp_cleanup(reading_done) struct reading reading = { 0 };
        infp_autofree const char **names = columns_of(known);
        struct infp_scan_options options = *wanted;
        struct infp_scan *scan;
        struct infp_batch batch;
        const unsigned n_before = *n;
        int r;

        if (!names)
                return out_of_memory(err);
        options.columns = names;
        r = infp_instances_find(run, known, wanted->catalog, &reading.instances, err);
        if (r >= 0)
                r = infp_scan_open(run, known->name, &options, &scan, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        if (add_metrics(&reading, metrics, n, infp_scan_table(scan)) < 0)
                r = out_of_memory(err);
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                take_batch(&reading, *metrics, &batch);
        infp_scan_close(scan);
        if (r < 0) {
                clear(*metrics, n_before, *n);
                *n = n_before;
        }
        return r;
}
