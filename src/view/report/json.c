#include <math.h>
#include <string.h>

#include "base/json/json.h"
#include "view/report/findings.h"
#include "view/report/parts.h"
#include "view/report/report.h"

static const char *const states[] = {
        [INFP_RUN_RECORDING] = "recording",
        [INFP_RUN_INTERRUPTED] = "interrupted",
        [INFP_RUN_ENDED] = "ended",
        [INFP_RUN_FINISHED] = "finished",
};

/* A count that was computed as a double. */
static void put_count(struct infp_json *json, const char *key, double v)
{
        infp_json_key(json, key);
        if (isfinite(v))
                infp_json_i64(json, (int64_t) v);
        else
                infp_json_null(json);
}

static void put_str(struct infp_json *json, const char *key, const char *text)
{
        infp_json_member_str(json, key, text && *text ? text : NULL);
}

static void put_run(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_run_info *info = &report->run->info;

        put_str(json, "run", info->uuid);
        put_str(json, "command", info->command);
        put_str(json, "mode", info->mode);
        put_str(json, "state", states[report->run->state]);
        put_str(json, "host", info->hostname);
        infp_json_member_u64(json, "period_ms", info->period_ms);
        infp_json_key(json, "exit_code");
        if (info->exit_code >= 0)
                infp_json_i64(json, info->exit_code);
        else
                infp_json_null(json);
        infp_json_key(json, "exit_signal");
        if (info->exit_signal > 0)
                infp_json_i64(json, info->exit_signal);
        else
                infp_json_null(json);
        infp_json_member_bool(json, "cut_short", report->is_cut);
        infp_json_member_i64(json, "from", infp_unix_ms(report->from_unix_ns));
        infp_json_member_i64(json, "to", infp_unix_ms(report->to_unix_ns));
}

static void put_metric(struct infp_json *json, const struct infp_report_metric *m)
{
        const bool is_counter = m->column.kind == INFP_COUNTER;
        char unit[64];
        size_t n = strlen(m->unit) < 48 ? strlen(m->unit) : 48;

        memcpy(unit, m->unit, n);
        strcpy(unit + n, is_counter ? "/s" : "");
        infp_json_key(json, m->name);
        infp_json_object(json);
        infp_json_member_f64(json, "mean", infp_stat_mean(&m->stat));
        infp_json_member_f64(json, "std", infp_stat_std(&m->stat));
        infp_json_member_f64(json, "min", m->stat.n ? m->stat.min : NAN);
        infp_json_member_f64(json, "max", m->stat.n ? m->stat.max : NAN);
        infp_json_member_str(json, "unit", unit);
        infp_json_member_bool(json, "is_share", m->is_share);
        put_str(json, "quality", infp_quality_name(m->column.quality));
        put_str(json, "kind", infp_kind_name(m->column.kind));
        infp_json_member_u64(json, "n", m->stat.n);
        if (is_counter) {
                infp_json_key(json, "total");
                if (m->stat.n && m->column.type != INFP_F64)
                        infp_json_u64(json, m->stat.total_u64);
                else
                        infp_json_f64(json, infp_stat_total(&m->stat, &m->column));
        }
        infp_json_object_end(json);
}

static void put_cores(struct infp_json *json, const struct infp_cores *cores)
{
        infp_json_key(json, "cores");
        infp_json_array(json);
        for (unsigned i = 0; i < cores->n; i++) {
                const struct infp_core *core = &cores->cores[i];

                infp_json_object(json);
                infp_json_member_i64(json, "core", core->number);
                infp_json_member_f64(json, "load_percent", infp_stat_mean(&core->stat));
                infp_json_member_f64(json, "std", infp_stat_std(&core->stat));
                infp_json_member_f64(json, "max", core->stat.n ? core->stat.max : NAN);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_f64(json, "core_disparity_percent", infp_stat_mean(&cores->disparity));
        infp_json_member_u64(json, "dominant_core_changes", cores->n_dominant_changes);
}

static void put_moment(struct infp_json *json, const char *key, int64_t unix_ns)
{
        infp_json_member_i64(json, key, infp_unix_ms(unix_ns));
}

static void put_processes(struct infp_json *json, const struct infp_report_processes *processes)
{
        infp_json_key(json, "processes");
        infp_json_array(json);
        for (unsigned i = 0; i < processes->n; i++) {
                const struct infp_report_process *p = &processes->list[i];

                infp_json_object(json);
                put_count(json, "pid", p->pid >= 0 ? (double) p->pid : NAN);
                put_str(json, "name", p->name);
                put_str(json, "command", p->command);
                infp_json_member_f64(json, "cpu_s", p->cpu_s);
                infp_json_member_f64(json, "cpu_share_percent", p->cpu_share_percent);
                put_count(json, "rss_peak_bytes", p->rss_peak_bytes);
                put_moment(json, "first_seen", p->first_unix_ns);
                put_moment(json, "last_seen", p->last_unix_ns);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_u64(json, "processes_seen", processes->n_seen);
        infp_json_member_u64(json, "process_rows_left_out", processes->n_rows_left_out);
}

static void put_requests(struct infp_json *json, const struct infp_report *report)
{
        infp_json_key(json, "requests");
        if (!report->requests) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        put_str(json, "selection", report->is_part ? "came due in the range" : "all");
        infp_requests_json(json, report->requests);
        infp_json_object_end(json);
}

static void put_broken(struct infp_json *json, const struct infp_report *report)
{
        infp_json_key(json, "broken");
        infp_json_array(json);
        for (unsigned i = 0; i < report->n_broken; i++) {
                infp_json_object(json);
                put_str(json, "table_name", report->broken[i].table);
                put_str(json, "table", report->broken[i].table); /* as in older reports */
                put_str(json, "reason", report->broken[i].message);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_notes(struct infp_json *json, const struct infp_run_notes *notes)
{
        infp_json_key(json, "notes");
        infp_json_array(json);
        for (unsigned i = 0; i < notes->n; i++)
                infp_json_str(json, notes->list[i]);
        infp_json_array_end(json);
        infp_json_member_u64(json, "notes_left_out", notes->n_more);
}

static void put_absences(struct infp_json *json, const struct infp_absences *absences)
{
        infp_json_key(json, "absent");
        infp_json_array(json);
        for (unsigned i = 0; i < absences->n; i++) {
                const struct infp_absence *a = &absences->list[i];

                infp_json_object(json);
                put_str(json, "collector", a->collector);
                put_str(json, "instance", a->instance);
                put_str(json, "table_name", a->table);
                put_str(json, "column_name", a->column);
                put_str(json, "table", a->table); /* the names of older reports */
                put_str(json, "column", a->column);
                put_str(json, "state", a->state);
                put_str(json, "reason", a->reason);
                put_str(json, "fix", a->fix);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_self(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_report_self self = infp_report_self(report);

        infp_json_key(json, "self");
        infp_json_object(json);
        infp_json_member_f64(json, "cpu_s", self.cpu_s);
        infp_json_member_f64(json, "cpu_percent_of_a_core", self.cpu_percent);
        put_count(json, "rss_max_bytes", self.rss_max_bytes);
        put_count(json, "rows", self.rows);
        put_count(json, "rows_dropped", self.rows_dropped);
        put_count(json, "rows_lost", self.rows_lost);
        put_count(json, "ring_rows", self.ring_rows);
        put_count(json, "ring_dropped", self.ring_dropped);
        put_count(json, "bytes_written", self.bytes_written);
        put_count(json, "errors", self.errors);
        infp_json_member_u64(json, "ticks", report->ticks.n);
        infp_json_member_u64(json, "ticks_missed", report->ticks.missed.total_u64);
        infp_json_member_f64(json, "tick_late_mean_ms", infp_stat_mean(&report->ticks.late_ns) / 1e6);
        infp_json_member_f64(json, "tick_late_max_ms", report->ticks.late_ns.n ? report->ticks.late_ns.max / 1e6 : NAN);
        infp_json_object_end(json);
}

/* Notes on the figures, for readers of the file. */
static void put_statistics(struct infp_json *json, const struct infp_report *report)
{
        infp_json_key(json, "statistics");
        infp_json_object(json);
        put_str(json, "std", "population");
        put_str(json, "gauges", "every sample counts alike");
        put_str(json, "counters", "rates between samples, weighted by time; total is the increase");
        put_str(json, "intervals", "samples between the labels, each alike; std: sample (n - 1)");
        put_str(json, "tree_cpu", report->tree_is_fine ? "CPU clocks, ns" : "ticks of 10 ms");
        put_str(json, "process_cpu_share",
                report->processes.beyond_tree ? "of wall_s times all CPUs" : "of tree_cpu_s");
        put_str(json, "process_last_seen", "its last row; one that does nothing has one each 60 s");
        infp_json_object_end(json);
}

static void put_output(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_report_output *output = &report->output;

        if (!output->has)
                return;
        infp_json_key(json, "output");
        infp_json_object(json);
        infp_json_member_u64(json, "bytes", output->bytes);
        infp_json_member_u64(json, "bytes_in_range", output->range_bytes);
        infp_json_member_u64(json, "removed_bytes", output->removed);
        infp_json_object_end(json);
}

void infp_report_json_members(struct infp_json *json, const struct infp_report *report)
{
        put_run(json, report);
        infp_json_member_f64(json, "wall_s", report->wall_s);
        infp_json_member_f64(json, "tree_cpu_s", report->tree_cpu_s);
        infp_json_member_f64(json, "tree_cpu_user_s", report->tree_user_s);
        infp_json_member_f64(json, "tree_cpu_system_s", report->tree_system_s);
        infp_json_member_f64(json, "effective_cpus", report->effective_cpus);
        put_cores(json, &report->cores);
        put_output(json, report);
        infp_report_json_spans(json, report);
        infp_report_json_program_spans(json, report);
        infp_report_json_stops(json, report);
        put_processes(json, &report->processes);
        infp_report_json_containers(json, report);
        infp_report_json_limits(json, report);
        infp_bottlenecks_members(json, report, INFP_SEVERITY_LOW);
        infp_report_json_torch(json, report);
        infp_report_json_gil(json, report);
        infp_report_json_lag(json, report);
        infp_report_json_tasks(json, report);
        infp_report_json_gpus(json, report);
        infp_report_json_memory(json, report);
        infp_report_json_energy(json, report);
        infp_report_engines_json(json, report);
        put_requests(json, report);
        infp_json_key(json, "metrics");
        infp_json_object(json);
        for (unsigned i = 0; i < report->n_metrics; i++)
                put_metric(json, &report->metrics[i]);
        infp_json_object_end(json);
        put_absences(json, &report->absences);
        put_broken(json, report);
        put_notes(json, &report->run->notes);
        put_self(json, report);
        put_statistics(json, report);
}

void infp_report_json(struct infp_out *out, const struct infp_report *report)
{
        struct infp_json json;

        infp_json_begin(&json, &out->text, 2);
        infp_json_object(&json);
        infp_report_json_members(&json, report);
        infp_report_json_functions(&json, report);
        infp_json_object_end(&json);
        infp_str_putc(&out->text, '\n');
}
