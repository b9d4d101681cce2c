/* Figures of a report that follow from the metrics that were read. */
#include <math.h>
#include <string.h>

#include "analyze/report.h"
#include "analyze/report_scan.h"
#include "base/mem.h"

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
        const char *const names[] = { "self_cpu_ns", "self_rows",      "self_rows_dropped", "self_bytes_written",
                                      "self_errors", "self_ring_rows", "self_ring_dropped" };
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
        };
}

bool infp_report_tree_unseen(const struct infp_report *report)
{
        const struct infp_report_metric *processes = infp_report_find(report, "tree_processes"),
                                        *user = infp_report_find(report, "tree_cpu_user");

        return processes && !processes->stat.n && user && user->stat.has_last;
}

/* Of the tree's CPU time; where all processes were recorded, of what all CPUs had to give. */
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

/* Over all CPUs what was not idle: niced work and interrupts too. */
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

/* `limits` has those of the target; `host`, of infprof, stands in where there is none. */
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

void infp_report_figures(struct infp_report *report)
{
        set_limits(report);
        find_tree_cpu(report);
        find_shares(report);
        split_energy(report);
        infp_limits_find(report, &report->limits);
}
