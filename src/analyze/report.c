#include "analyze/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/scan.h"

void infp_report_done(struct infp_report *report)
{
        infp_metrics_done(report->metrics, report->n_metrics);
        infp_metrics_done(report->self, report->n_self);
        infp_cores_done(&report->cores);
        infp_absences_done(&report->absences);
        *report = (struct infp_report){ 0 };
}

/* Scans only those of the wanted columns that the run has. -ENOENT: it has no such table. */
static int open_columns(struct infp_run *run, const char *table, const char *const *wanted,
                        const struct infp_scan_options *given, struct infp_scan **ret, struct infp_err *err)
{
        const struct infp_table *known = infp_catalog_find(given->catalog, table);
        struct infp_scan_options options = *given;
        const char *names[16];
        unsigned n = 0;

        if (!known)
                return -ENOENT;
        for (; *wanted && n + 1 < INFP_COUNT(names); wanted++)
                if (infp_table_find(known, *wanted) >= 0)
                        names[n++] = *wanted;
        names[n] = NULL;
        options.columns = names;
        return infp_scan_open(run, table, &options, ret, err);
}

static int read_cores(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = open_columns(run, "cpu_core", infp_cores_columns, options, &scan, err);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (infp_cores_add(&report->cores, &batch, row, err) < 0)
                                r = -ENOMEM;
        infp_scan_close(scan);
        infp_cores_end(&report->cores);
        return r;
}

/* `host` is written once and at each change: the last value at or before the end of the range is the one that held. */
static int read_host(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        static const char *const names[] = { "vEffectiveCpus", "vCgroupMemoryLimit", "vNumProcessors", NULL };
        double *const values[] = { &report->effective_cpus, &report->memory_limit_bytes, &report->n_cpus };
        const struct infp_scan_options options = { .t1 = report->range.t1, .columns = names };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r;

        for (unsigned i = 0; i < INFP_COUNT(values); i++)
                *values[i] = NAN;
        r = infp_scan_open(run, "host", &options, &scan, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (unsigned i = 0; i < INFP_COUNT(values); i++) {
                        const int column = infp_table_find(batch.table, names[i]);

                        for (uint32_t row = 0; column >= 0 && row < batch.n_rows; row++)
                                if (infp_batch_has(&batch, (unsigned) column, row))
                                        *values[i] = infp_batch_number(&batch, (unsigned) column, row);
                }
        infp_scan_close(scan);
        return r;
}

/* A recorder that ends in order writes a last anchor of the clock, whatever became of its run.json later (recover, finish). */
static int find_end(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        static const char *const names[] = { "reason", NULL };
        const struct infp_scan_options options = { .columns = names };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r;

        if (run->state == INFP_RUN_RECORDING)
                return 0;
        r = infp_scan_open(run, "clock", &options, &scan, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        const int column = infp_table_find(batch.table, names[0]);
                        size_t size;
                        const char *reason = infp_batch_str(&batch, (unsigned) column, row, &size);

                        report->is_cut = size != 3 || memcmp(reason, "end", 3) != 0;
                }
        infp_scan_close(scan);
        return r;
}

/* The sample at the end comes before its time: it is not late, and says nothing about the others. */
static void add_tick(struct infp_report_ticks *ticks, const struct infp_batch *batch, const int *columns, uint32_t row)
{
        ticks->n++;
        if (columns[0] >= 0 && infp_batch_has(batch, (unsigned) columns[0], row))
                infp_stat_add_value(&ticks->late_ns, fmax(infp_batch_number(batch, (unsigned) columns[0], row), 0), 1);
        if (columns[1] >= 0)
                infp_stat_add(&ticks->busy_ns, batch, (unsigned) columns[1], row);
        if (columns[2] >= 0)
                infp_stat_add(&ticks->missed, batch, (unsigned) columns[2], row);
}

static int read_ticks(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        static const char *const names[] = { "late_ns", "busy_ns", "missed", NULL };
        int columns[INFP_COUNT(names) - 1];
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = open_columns(run, "ticks", names, options, &scan, err);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        for (unsigned i = 0; i < INFP_COUNT(columns); i++)
                columns[i] = infp_table_find(infp_scan_table(scan), names[i]);
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        add_tick(&report->ticks, &batch, columns, row);
        infp_scan_close(scan);
        return r;
}

/* The tables of the time series. */
static bool is_read(const struct infp_table *table)
{
        return !table->entity && !table->plain && table->series;
}

static int read_tables(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        struct infp_catalog catalog = { 0 };
        struct infp_scan_options options = { .t0 = report->range.t0, .t1 = report->range.t1 };
        const struct infp_table *self;
        int r = infp_catalog_read(run, &catalog, err);

        options.catalog = &catalog;
        for (unsigned i = 0; r >= 0 && i < catalog.n_tables; i++)
                if (is_read(&catalog.tables[i]))
                        r = infp_metrics_read(run, &catalog.tables[i], &options, &report->metrics, &report->n_metrics,
                                              err);
        self = infp_catalog_find(&catalog, "self");
        if (r >= 0 && self)
                r = infp_metrics_read(run, self, &options, &report->self, &report->n_self, err);
        if (r >= 0)
                r = read_cores(report, run, &options, err);
        if (r >= 0)
                r = read_ticks(report, run, &options, err);
        infp_catalog_done(&catalog);
        return r;
}

static const struct infp_report_metric *find(const struct infp_report_metric *metrics, unsigned n, const char *name)
{
        for (unsigned i = 0; i < n; i++)
                if (!strcmp(metrics[i].name, name))
                        return &metrics[i];
        return NULL;
}

const struct infp_report_metric *infp_report_find(const struct infp_report *report, const char *name)
{
        return find(report->metrics, report->n_metrics, name);
}

double infp_report_mean(const struct infp_report *report, const char *name)
{
        const struct infp_report_metric *m = infp_report_find(report, name);

        return m ? infp_stat_mean(&m->stat) * m->factor : NAN;
}

double infp_report_total(const struct infp_report *report, const char *name)
{
        const struct infp_report_metric *m = infp_report_find(report, name);

        return m ? infp_stat_total(&m->stat, &m->column) * m->factor : NAN;
}

double infp_report_max(const struct infp_report *report, const char *name)
{
        const struct infp_report_metric *m = infp_report_find(report, name);

        return m && m->stat.n ? m->stat.max * m->factor : NAN;
}

/* The increase in the range, in the base unit. The counters of something that began with the run begin with it, so that over
 * the whole run what the first row already holds counts as well. */
static double increase(const struct infp_report *report, const struct infp_report_metric *m, bool began_with_run)
{
        const bool from_zero = began_with_run && report->range.t0 == report->range.start;
        double total;

        if (!m || !m->stat.has_last)
                return NAN;
        total = infp_stat_total(&m->stat, &m->column);
        if (isnan(total) && !from_zero)
                return NAN;
        return ((isnan(total) ? 0 : total) + (from_zero ? m->stat.first : 0)) * m->factor;
}

/* A tree that was attached to, and the machine's, had a life before. */
static double tree_seconds(const struct infp_report *report, const char *name)
{
        return increase(report, infp_report_find(report, name), !strcmp(report->run->info.mode, "run"));
}

struct infp_report_self infp_report_self(const struct infp_report *report)
{
        const char *const names[] = { "self_cpu_ns", "self_rows", "self_rows_dropped", "self_bytes_written",
                                      "self_errors" };
        double values[INFP_COUNT(names)];
        const struct infp_report_metric *rss = find(report->self, report->n_self, "self_rss_bytes");

        for (unsigned i = 0; i < INFP_COUNT(names); i++)
                values[i] = increase(report, find(report->self, report->n_self, names[i]), true);
        return (struct infp_report_self){
                .cpu_s = values[0],
                .cpu_percent = report->wall_s > 0 ? 100 * values[0] / report->wall_s : NAN,
                .rss_max_bytes = rss && rss->stat.n ? rss->stat.max : NAN,
                .rows = values[1],
                .rows_dropped = values[2],
                .bytes_written = values[3],
                .errors = values[4],
        };
}

static void find_tree_cpu(struct infp_report *report)
{
        report->tree_user_s = tree_seconds(report, "tree_cpu_user");
        report->tree_system_s = tree_seconds(report, "tree_cpu_system");
        report->tree_cpu_s = tree_seconds(report, "tree_cpu_ns");
        report->tree_is_fine = !isnan(report->tree_cpu_s);
        if (!report->tree_is_fine)
                report->tree_cpu_s = report->tree_user_s + report->tree_system_s;
}

static int find_times(struct infp_report *report, struct infp_run *run, const struct infp_report_options *options,
                      struct infp_err *err)
{
        struct infp_anchors anchors;

        report->is_part = options->from || options->to || options->skip_ns;
        INFP_TRY(infp_range_find(run, options->from, options->to, options->skip_ns, &report->range, err));
        INFP_TRY(infp_anchors_read(run, &anchors, err));
        const uint64_t end = report->range.t1 == report->range.end ? report->range.end - 1 : report->range.t1;

        report->from_unix_ns = infp_anchors_unix_ns(&anchors, report->range.t0);
        report->to_unix_ns = infp_anchors_unix_ns(&anchors, end);
        report->wall_s = (double) (end - report->range.t0) / 1e9;
        infp_anchors_done(&anchors);
        return 0;
}

int infp_report_make(struct infp_run *run, const struct infp_report_options *options, struct infp_report *ret,
                     struct infp_err *err)
{
        int r;

        *ret = (struct infp_report){ .run = run };
        r = find_times(ret, run, options, err);
        if (r >= 0)
                r = read_tables(ret, run, err);
        if (r >= 0)
                r = read_host(ret, run, err);
        if (r >= 0)
                r = find_end(ret, run, err);
        if (r >= 0)
                r = infp_absences_read(run, ret->range.t1, &ret->absences, err);
        if (r < 0) {
                infp_report_done(ret);
                return r;
        }
        find_tree_cpu(ret);
        return 0;
}
