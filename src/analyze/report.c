#include "analyze/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "analyze/report_uses.h"
#include "analyze/run_clock.h"
#include "base/mem.h"
#include "model/tables.h"
#include "query/scan.h"

void infp_report_done(struct infp_report *report)
{
        infp_metrics_done(report->metrics, report->n_metrics);
        infp_metrics_done(report->self, report->n_self);
        infp_cores_done(&report->cores);
        infp_absences_done(&report->absences);
        infp_report_processes_done(&report->processes);
        infp_engines_done(&report->engines);
        infp_energy_done(&report->energy);
        infp_containers_done(&report->containers);
        infp_gpus_done(&report->gpus);
        infp_labels_done(&report->labels);
        infp_spans_done(&report->spans);
        infp_program_spans_done(&report->program_spans);
        infp_report_functions_done(&report->functions);
        free(report->from_label);
        free(report->to_label);
        if (report->requests)
                infp_requests_done(report->requests);
        free(report->requests);
        for (unsigned i = 0; i < report->n_broken; i++) {
                free(report->broken[i].table);
                free(report->broken[i].message);
        }
        free(report->broken);
        *report = (struct infp_report){ 0 };
}

/* A table that cannot be read is noted, once, and the others go on: 0. Without memory nothing goes on. */
static int pass(struct infp_report *report, const char *table, int r, struct infp_err *err)
{
        struct infp_report_broken *more;

        if (r >= 0 || r == -ENOMEM)
                return r;
        for (unsigned i = 0; i < report->n_broken; i++)
                if (!strcmp(report->broken[i].table, table))
                        return 0;
        more = reallocarray(report->broken, report->n_broken + 1, sizeof(*more));
        if (more)
                report->broken = more;
        if (!more)
                return infp_fail(err, -ENOMEM, "no memory for the report");
        more += report->n_broken++;
        *more = (struct infp_report_broken){ strdup(table), strdup(err && *err->text ? err->text : strerror(-r)) };
        if (err)
                *err->text = 0;
        return more->table && more->message ? 0 : infp_fail(err, -ENOMEM, "no memory for the report");
}

int infp_report_scan(struct infp_run *run, const char *table, const char *const *wanted,
                     const struct infp_scan_options *given, struct infp_scan **ret, struct infp_err *err)
{
        const struct infp_table *known = infp_catalog_find(given->catalog, table);
        struct infp_scan_options options = *given;
        infp_autofree const char **names = NULL;
        size_t n = 0;

        if (!known)
                return -ENOENT;
        while (wanted[n])
                n++;
        names = calloc(n + 1, sizeof(*names));
        if (!names)
                return infp_fail(err, -ENOMEM, "no memory for the report");
        for (n = 0; *wanted; wanted++)
                if (infp_table_find(known, *wanted) >= 0)
                        names[n++] = *wanted;
        options.columns = names;
        return infp_scan_open(run, table, &options, ret, err);
}

static int read_cores(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_report_scan(run, "cpu_core", infp_cores_columns, options, &scan, err);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (infp_cores_add(&report->cores, &batch, row, err) < 0)
                                r = -ENOMEM;
        infp_scan_close(scan);
        infp_cores_end(&report->cores);
        if (r < 0)
                infp_cores_done(&report->cores);
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
        if (r < 0)
                report->is_cut = false;
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
        int r = infp_report_scan(run, "ticks", names, options, &scan, err);

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
        if (r < 0)
                report->ticks = (struct infp_report_ticks){ 0 };
        return r;
}

/* The tables of the time series. */
static bool is_read(const struct infp_table *table)
{
        return !table->entity && !table->plain && table->series;
}

static int read_processes(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                          struct infp_err *err)
{
        const struct infp_report_processes_options options = infp_uses_options(report, scan);
        const char *table;
        const int r = infp_report_processes_read(run, &options, &report->processes, &table, err);

        return r == -ENOENT ? 0 : pass(report, table, r, err);
}

static int read_requests(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                         struct infp_err *err)
{
        struct infp_requests *requests = calloc(1, sizeof(*requests));
        int r = requests ? infp_requests_read(run, scan, requests, err)
                         : infp_fail(err, -ENOMEM, "no memory for the report");

        if (r >= 0 && requests->n) {
                report->requests = requests;
                return 0;
        }
        if (requests)
                infp_requests_done(requests);
        free(requests);
        return r == -ENOENT ? 0 : r;
}

static int read_energy(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                       struct infp_err *err)
{
        struct infp_energy_options options = {
                .scan = scan,
                .range = &report->range,
                .is_command = !strcmp(run->info.mode, "run"),
        };
        const char *table;
        int r;

        infp_energy_tokens_span(&report->engines, &options.tokens_t0, &options.tokens_t1);
        r = infp_energy_read(run, &options, &report->energy, &table, err);
        return pass(report, table, r, err);
}

static int read_engines(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                        struct infp_err *err)
{
        const char *table;
        const int r = infp_engines_read(run, scan, &report->engines, &table, err);

        return pass(report, table, r, err);
}

static int read_containers(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                           struct infp_err *err)
{
        const char *table;
        const int r = infp_containers_read(run, scan, &report->containers, &table, err);

        return pass(report, table, r, err);
}

static int read_gpus(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                     struct infp_err *err)
{
        const char *table;
        const int r = infp_gpus_read(run, scan, &report->gpus, &table, err);

        return pass(report, table, r, err);
}

static int read_functions(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        const int r = infp_report_functions_read(run, report->range.t0, report->range.t1, &report->functions, err);

        return pass(report, infp_table_stack_samples.name, r, err);
}

static int read_metrics(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                        struct infp_err *err)
{
        const struct infp_catalog *catalog = options->catalog;
        const struct infp_table *self = infp_catalog_find(catalog, "self");

        for (unsigned i = 0; i < catalog->n_tables; i++)
                if (is_read(&catalog->tables[i]))
                        INFP_TRY(pass(report, catalog->tables[i].name,
                                      infp_metrics_read(run, &catalog->tables[i], options, &report->metrics,
                                                        &report->n_metrics, err),
                                      err));
        if (self)
                INFP_TRY(pass(report, self->name,
                              infp_metrics_read(run, self, options, &report->self, &report->n_self, err), err));
        return 0;
}

/* After the host: it says how many CPUs there are. */
static int read_spans(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        const char *table = "marks";
        int r = 0;

        if (report->lists_labels) {
                INFP_TRY(pass(report, table, infp_labels_read(run, options, &report->labels, err), err));
                r = infp_spans_between(&report->labels, &report->spans, err);
        } else if (report->from_label || report->to_label) {
                r = infp_spans_of_range(&report->range, &report->spans, err);
        }
        if (r >= 0)
                r = infp_spans_read(run, options->catalog, report->n_cpus, &report->spans, &table, err);
        return pass(report, table, r, err);
}

static int read_tables(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };
        const struct infp_scan_options options = { .t0 = report->range.t0,
                                                   .t1 = report->range.t1,
                                                   .catalog = &catalog };

        INFP_TRY(infp_catalog_read(run, &catalog, err));
        INFP_TRY(read_metrics(report, run, &options, err));
        INFP_TRY(pass(report, "cpu_core", read_cores(report, run, &options, err), err));
        INFP_TRY(pass(report, "ticks", read_ticks(report, run, &options, err), err));
        INFP_TRY(read_processes(report, run, &options, err));
        INFP_TRY(read_engines(report, run, &options, err));
        INFP_TRY(read_energy(report, run, &options, err));
        INFP_TRY(read_containers(report, run, &options, err));
        INFP_TRY(read_gpus(report, run, &options, err));
        INFP_TRY(read_functions(report, run, err));
        INFP_TRY(pass(report, infp_table_requests.name, read_requests(report, run, &options, err), err));
        INFP_TRY(pass(report, "host", read_host(report, run, err), err));
        INFP_TRY(read_spans(report, run, &options, err));
        INFP_TRY(pass(report, infp_table_spans.name,
                      infp_program_spans_read(run, &options, &report->program_spans, err), err));
        INFP_TRY(pass(report, "output", infp_report_output_read(run, &options, &report->output, err), err));
        INFP_TRY(pass(report, "clock", find_end(report, run, err), err));
        return pass(report, "sources", infp_absences_read(run, report->range.t1, &report->absences, err), err);
}

/* A table without a row has metrics too. */
static bool has_values(const struct infp_report_metric *metrics, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                if (metrics[i].stat.n || metrics[i].stat.has_last)
                        return true;
        return false;
}

/* Something went wrong, and nothing went well. */
static int fail_if_empty(const struct infp_report *report, struct infp_err *err)
{
        if (!report->n_broken || has_values(report->metrics, report->n_metrics) ||
            has_values(report->self, report->n_self) || report->ticks.n || report->cores.n)
                return 0;
        return infp_fail(err, -EBADMSG, "table %s cannot be read, nor any other: %s", report->broken[0].table,
                         report->broken[0].message);
}

static int find_times(struct infp_report *report, struct infp_run *run, const struct infp_report_options *options,
                      struct infp_err *err)
{
        /* Instead of a clock that cannot be read. */
        struct infp_anchor start = { run->info.started_t_ns, run->info.started_unix_ns };
        struct infp_run_clock clock;
        int r;

        report->is_part = options->from || options->to || options->skip_ns;
        INFP_TRY(infp_range_find(run, options->from, options->to, options->skip_ns, &report->range, err));
        if (report->range.from_is_mark)
                report->from_label = strdup(options->from);
        if (report->range.to_is_mark)
                report->to_label = strdup(options->to);
        if ((report->range.from_is_mark && !report->from_label) || (report->range.to_is_mark && !report->to_label))
                return infp_fail(err, -ENOMEM, "no memory for the report");
        const uint64_t end = report->range.t1 == report->range.end ? report->range.end - 1 : report->range.t1;

        r = infp_run_clock_read(run, &clock, err);
        INFP_TRY(pass(report, "clock", r, err));
        if (r < 0)
                clock = (struct infp_run_clock){ .anchors = &start, .n = 1 };
        report->from_unix_ns = infp_run_clock_unix_ns(&clock, report->range.t0);
        report->to_unix_ns = infp_run_clock_unix_ns(&clock, end);
        report->wall_s = (double) (end - report->range.t0) / 1e9;
        if (r >= 0)
                infp_run_clock_done(&clock);
        return 0;
}

int infp_report_make(struct infp_run *run, const struct infp_report_options *options, struct infp_report *ret,
                     struct infp_err *err)
{
        int r;

        *ret = (struct infp_report){ .run = run, .lists_labels = options->labels };
        r = find_times(ret, run, options, err);
        if (r >= 0)
                r = read_tables(ret, run, err);
        if (r >= 0)
                r = fail_if_empty(ret, err);
        if (r < 0) {
                infp_report_done(ret);
                return r;
        }
        infp_report_figures(ret);
        return 0;
}
