#include "analyze/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/run_clock.h"
#include "analyze/scan_some.h"
#include "base/mem.h"
#include "model/python_tables.h"
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
        infp_memory_accounts_done(&report->memory);
        infp_bottlenecks_done(&report->findings);
        infp_labels_done(&report->labels);
        infp_spans_done(&report->spans);
        infp_program_spans_done(&report->program_spans);
        infp_gil_done(&report->gil);
        infp_torch_done(&report->torch);
        infp_lag_done(&report->lag);
        infp_tasks_done(&report->tasks);
        infp_thread_stops_done(&report->stops);
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

/* Notes once that a table cannot be read, and lets the others go on: 0. -ENOMEM ends all. */
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

static int take_core(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_report *report = context;

        (void) at;
        return infp_cores_add(&report->cores, batch, row);
}

static int read_cores(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        const int r = infp_scan_rows(run, "cpu_core", infp_cores_columns, options, take_core, report, err);

        infp_cores_end(&report->cores);
        if (r < 0)
                infp_cores_done(&report->cores);
        return r;
}

static int take_host(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_report *report = context;
        double *const values[] = { &report->effective_cpus, &report->memory_limit_bytes, &report->n_cpus };

        for (unsigned i = 0; i < INFP_COUNT(values); i++)
                if (infp_cell_has(batch, at[i], row))
                        *values[i] = infp_cell_number(batch, at[i], row);
        return 0;
}

/* `host` has a row at the start and at each change: the last value up to the end of the range applies. */
static int read_host(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        static const char *const names[] = { "vEffectiveCpus", "vCgroupMemoryLimit", "vNumProcessors", NULL };
        const struct infp_scan_options options = { .t1 = report->range.t1 };

        report->effective_cpus = report->memory_limit_bytes = report->n_cpus = NAN;
        return infp_scan_rows(run, "host", names, &options, take_host, report, err);
}

static int take_anchor(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_report *report = context;

        report->is_cut = !infp_cell_is(batch, at[0], row, "end");
        return 0;
}

/* A recorder that ends normally writes a last anchor of the clock, whatever recover and finish later write to run.json. */
static int find_end(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        static const char *const names[] = { "reason", NULL };
        static const struct infp_scan_options whole;
        int r = 0;

        if (run->state != INFP_RUN_RECORDING)
                r = infp_scan_rows(run, "clock", names, &whole, take_anchor, report, err);
        if (r < 0)
                report->is_cut = false;
        return r;
}

/* The sample at the end comes before its time and does not count as late. */
static int take_tick(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_report_ticks *ticks = context;

        ticks->n++;
        if (infp_cell_has(batch, at[0], row))
                infp_stat_add_value(&ticks->late_ns, fmax(infp_cell_number(batch, at[0], row), 0), 1);
        if (at[1] >= 0)
                infp_stat_add(&ticks->busy_ns, batch, (unsigned) at[1], row);
        if (at[2] >= 0)
                infp_stat_add(&ticks->missed, batch, (unsigned) at[2], row);
        return 0;
}

static int read_ticks(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        static const char *const names[] = { "late_ns", "busy_ns", "missed", NULL };
        const int r = infp_scan_rows(run, "ticks", names, options, take_tick, &report->ticks, err);

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

        return pass(report, table, r, err);
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

/* After the clock, which says whether it came to its end. */
static int read_memory(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *scan,
                       struct infp_err *err)
{
        const bool has_end = !report->is_cut && (run->state == INFP_RUN_ENDED || run->state == INFP_RUN_FINISHED);
        const char *table;
        const int r = infp_memory_accounts_read(run, scan, has_end, &report->memory, &table, err);

        return pass(report, table, r, err);
}

static int read_heap(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        return pass(report, infp_table_heap_windows.name, infp_heap_sums_read(run, &report->range, &report->heap, err),
                    err);
}

static int read_functions(struct infp_report *report, struct infp_run *run, enum infp_profile_part part,
                          struct infp_err *err)
{
        const int r =
                infp_report_functions_read(run, report->range.t0, report->range.t1, part, &report->functions, err);

        return pass(report, infp_table_stack_samples.name, r, err);
}

/* After the functions, which know the modes that have samples. */
static bool has_mode(const struct infp_report *report, enum infp_stack_mode mode)
{
        for (unsigned i = 0; i < report->functions.n; i++)
                if (infp_stack_mode_of(report->functions.flames[i].mode) == mode)
                        return true;
        return false;
}

static int read_asyncio(struct infp_report *report, struct infp_run *run, struct infp_err *err)
{
        const struct infp_range *range = &report->range;

        if (has_mode(report, INFP_STACK_LAG))
                INFP_TRY(infp_lag_read(run, range->t0, range->t1, &report->lag, err));
        return has_mode(report, INFP_STACK_ASYNC) ? infp_tasks_read(run, range->t0, range->t1, &report->tasks, err) : 0;
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

/* After `host`, which has the number of CPUs. */
static int read_spans(struct infp_report *report, struct infp_run *run, const struct infp_scan_options *options,
                      struct infp_err *err)
{
        struct infp_scan_options marks = *options;
        const char *table = "marks";
        int r = 0;

        /* A mark may come before the first row: a run takes marks as soon as it can be found. */
        if (report->range.t0 == report->range.start && !report->energy.baseline.t1)
                marks.t0 = 0;
        if (report->lists_labels) {
                INFP_TRY(pass(report, table, infp_labels_read(run, &marks, &report->labels, err), err));
                r = infp_spans_between(&report->labels, &report->spans, err);
        } else if (report->from_label || report->to_label) {
                r = infp_spans_of_range(&report->range, &report->spans, err);
        }
        if (r >= 0)
                r = infp_spans_read(run, options->catalog, report->n_cpus, &report->spans, &table, err);
        return pass(report, table, r, err);
}

enum { STREAM, OFFSET, LENGTH };
static const char *const output_columns[] = { "stream", "offset", "length", NULL };

/* The file belongs to the whole run: rows outside the range count too. */
static int take_output(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_report *report = context;
        struct infp_report_output *output = &report->output;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        int64_t offset, length;
        uint64_t end;

        if (at[STREAM] < 0 || at[OFFSET] < 0 || at[LENGTH] < 0)
                return 0;
        offset = infp_batch_i64(batch, (unsigned) at[OFFSET], row);
        length = infp_batch_i64(batch, (unsigned) at[LENGTH], row);
        if (offset < 0 || length < 0)
                return 0;
        end = (uint64_t) offset + (uint64_t) length;
        output->has = true;
        if (infp_cell_is(batch, at[STREAM], row, "removed")) {
                output->removed = end > output->removed ? end : output->removed;
                return 0;
        }
        output->bytes = end > output->bytes ? end : output->bytes;
        output->range_bytes += t_ns >= report->range.t0 && t_ns < report->range.t1 ? (uint64_t) length : 0;
        return 0;
}

static int read_output(struct infp_report *report, struct infp_run *run, const struct infp_catalog *catalog,
                       struct infp_err *err)
{
        const struct infp_scan_options whole = { .catalog = catalog };

        return infp_scan_rows(run, "output", output_columns, &whole, take_output, report, err);
}

static int read_tables(struct infp_report *report, struct infp_run *run, enum infp_profile_part part,
                       struct infp_err *err)
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
        INFP_TRY(read_functions(report, run, part, err));
        INFP_TRY(pass(report, infp_table_stack_samples.name, read_asyncio(report, run, err), err));
        INFP_TRY(pass(report, infp_table_stack_samples.name, infp_gil_read(run, &options, &report->gil, err), err));
        INFP_TRY(pass(report, infp_table_torch_trace.name, infp_torch_read(run, &options, &report->torch, err), err));
        INFP_TRY(pass(report, infp_table_requests.name, read_requests(report, run, &options, err), err));
        INFP_TRY(pass(report, "host", read_host(report, run, err), err));
        INFP_TRY(read_spans(report, run, &options, err));
        INFP_TRY(pass(report, infp_table_spans.name,
                      infp_program_spans_read(run, &options, &report->program_spans, err), err));
        INFP_TRY(pass(report, infp_table_thread_stops.name, infp_thread_stops_read(run, &options, &report->stops, err),
                      err));
        INFP_TRY(pass(report, "output", read_output(report, run, &catalog, err), err));
        INFP_TRY(pass(report, "clock", find_end(report, run, err), err));
        INFP_TRY(read_memory(report, run, &options, err));
        INFP_TRY(read_heap(report, run, err));
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

/* Fails if nothing could be read. */
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
        /* Used if the clock cannot be read. */
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

double infp_report_tree_rss_most(const struct infp_report *report)
{
        const struct infp_report_metric *peak = infp_report_find(report, "tree_process_rss_peak_bytes");
        const bool began_with_range = !strcmp(report->run->info.mode, "run") && report->range.t0 == report->range.start;
        const double most = infp_report_max(report, "tree_rss_bytes");

        if (!peak || !peak->stat.n || (!began_with_range && peak->stat.last <= peak->stat.first))
                return most;
        return fmax(most, peak->stat.max * peak->factor);
}

/* Counters of something that began with the run start at 0. */
static double increase(const struct infp_report *report, const struct infp_report_metric *m, bool began_with_run)
{
        return m ? infp_metric_increase(m, began_with_run && report->range.t0 == report->range.start) : NAN;
}

/* An attached tree and the machine had counts before the run. */
static double tree_seconds(const struct infp_report *report, const char *name)
{
        return increase(report, infp_report_find(report, name), !strcmp(report->run->info.mode, "run"));
}

struct infp_report_self infp_report_self(const struct infp_report *report)
{
        const char *const names[] = { "self_cpu_ns", "self_rows",      "self_rows_dropped", "self_bytes_written",
                                      "self_errors", "self_ring_rows", "self_ring_dropped", "self_rows_lost" };
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
                .ring_rows = values[5],
                .ring_dropped = values[6],
                .rows_lost = values[7],
        };
}

bool infp_report_tree_unseen(const struct infp_report *report)
{
        const struct infp_report_metric *processes = infp_report_find(report, "tree_processes"),
                                        *user = infp_report_find(report, "tree_cpu_user");

        return processes && !processes->stat.n && user && user->stat.has_last;
}

/* Share of the tree's CPU time; if all processes were recorded, of the time of all CPUs. */
static void find_shares(struct infp_report *report)
{
        const double whole = report->processes.beyond_tree ? report->wall_s * report->n_cpus : report->tree_cpu_s;

        for (unsigned i = 0; i < report->processes.n && whole > 0; i++)
                report->processes.list[i].cpu_share_percent = 100 * report->processes.list[i].cpu_s / whole;
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

/* All CPU time that was not idle, with nice and interrupts. */
static void split_energy(struct infp_report *report)
{
        static const char *const more[] = { "vCpuNice", "vCpuTimeIntSrvc", "vCpuTimeSoftIntSrvc" };
        double rate = infp_report_mean(report, "vCpuTime");

        for (unsigned i = 0; i < INFP_COUNT(more); i++) {
                const double part = infp_report_mean(report, more[i]);

                rate += isnan(part) ? 0 : part;
        }
        infp_energy_split(&report->energy, report->tree_cpu_s, rate * report->wall_s);
        infp_energy_per_token(&report->energy, &report->engines, report->requests);
}

/* `limits` has the target's; `host` has infprof's, the fallback. */
static void set_limits(struct infp_report *report)
{
        const struct infp_report_metric *cpus = infp_report_find(report, "lEffectiveCpus"),
                                        *memory = infp_report_find(report, "lMemoryLimitBytes"),
                                        *groups = infp_report_find(report, "lGroups");

        if (cpus && cpus->stat.n)
                report->effective_cpus = infp_stat_mean(&cpus->stat);
        if (groups && groups->stat.n)
                report->memory_limit_bytes = memory && memory->stat.n ? memory->stat.last : NAN;
}

/* Derives figures from the metrics, after all tables were read. */
static void find_figures(struct infp_report *report)
{
        set_limits(report);
        find_tree_cpu(report);
        find_shares(report);
        split_energy(report);
        infp_limits_find(report, &report->limits);
}

int infp_report_make(struct infp_run *run, const struct infp_report_options *options, struct infp_report *ret,
                     struct infp_err *err)
{
        int r;

        *ret = (struct infp_report){ .run = run, .lists_labels = options->labels };
        r = find_times(ret, run, options, err);
        if (r >= 0)
                r = read_tables(ret, run, options->part, err);
        if (r >= 0)
                r = fail_if_empty(ret, err);
        if (r < 0) {
                infp_report_done(ret);
                return r;
        }
        find_figures(ret);
        if (infp_bottlenecks_find(ret, options->min_samples ? options->min_samples : INFP_HOTSPOT_SAMPLES,
                                  &ret->findings) < 0) {
                infp_report_done(ret);
                return infp_fail(err, -ENOMEM, "no memory for the report");
        }
        return 0;
}
