/* The report for people. Figures that were measured, in plain words; nothing is guessed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/report/parts.h"
#include "view/report/report.h"

enum { LABEL_WIDTH = 12, BAR_WIDTH = 30, ALL_CORES = 16, SOME_CORES = 8 };

struct human infp_report_bytes(double v)
{
        return infp_human(v, "bytes", "", false);
}

struct human infp_report_seconds(double v)
{
        return infp_human(v, "seconds", "s", false);
}

struct human infp_report_joules(double v)
{
        return infp_human(v, "joules", "J", false);
}

struct human infp_report_watts(double v)
{
        return infp_human(v, "watts", "W", false);
}

static void put_moment(char *ret, size_t size, int64_t unix_ns, const char *format)
{
        const time_t t = (time_t) (unix_ns / 1000000000);
        struct tm tm;

        if (!localtime_r(&t, &tm) || !strftime(ret, size, format, &tm))
                snprintf(ret, size, "%lld", (long long) t);
}

static void put_times(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_run_info *info = &report->run->info;
        const double whole = (double) (report->range.end - 1 - report->range.start) / 1e9;
        char from[64], to[64], every[32] = "", ended[64] = "", of[64] = "";

        put_moment(from, sizeof(from), report->from_unix_ns, "%Y-%m-%d %H:%M:%S");
        put_moment(to, sizeof(to), report->to_unix_ns, "%Y-%m-%d %H:%M:%S %z");
        if (info->period_ms)
                snprintf(every, sizeof(every), ", every %u ms", info->period_ms);
        infp_report_line(out, "time", "%s to %s%s", from, strncmp(from, to, 11) ? to : to + 11, every);
        if (info->exit_signal)
                snprintf(ended, sizeof(ended), ", exit code %d (signal %d)", info->exit_code, info->exit_signal);
        else if (info->exit_code >= 0)
                snprintf(ended, sizeof(ended), ", exit code %d", info->exit_code);
        if (report->is_part)
                snprintf(of, sizeof(of), " of %s", infp_report_seconds(whole).text);
        infp_report_line(out, "lasted", "%s%s%s%s", infp_report_seconds(report->wall_s).text, of, ended,
                         report->is_cut ? "; then the recording broke off: what came later is not known" : "");
}

/* Of a run without a command: the machine, or whom the user has named, and who that was. */
static void put_target(struct infp_out *out, const struct infp_run_info *info)
{
        bool is_meant = *info->target_name || info->target_port;
        const char *who = *info->target_command ? info->target_command
                          : is_meant            ? "nobody was found"
                                                : "a process that ran already";

        if (!*info->mode || strcmp(info->mode, "host") == 0)
                infp_report_line(out, "target", "%s", *info->mode ? "the machine" : "unknown");
        else if (*info->target_name)
                infp_report_line(out, "target", "%s (by name: %s)", who, info->target_name);
        else if (info->target_port)
                infp_report_line(out, "target", "%s (by port: %u)", who, info->target_port);
        else if (info->n_target_pids)
                infp_report_line(out, "target", "%s (process %d%s)", who, (int) info->target_pids[0],
                                 info->n_target_pids > 1 ? " and others" : "");
        else
                infp_report_line(out, "target", "%s", who);
}

static void put_head(struct infp_out *out, const struct infp_report *report)
{
        static const char *const states[] = {
                [INFP_RUN_RECORDING] = "still recording",
                [INFP_RUN_INTERRUPTED] =
                        "interrupted: the recorder was killed, or its disk was full (infprof recover mends it)",
                [INFP_RUN_ENDED] = "recorded; `infprof finish` is left",
                [INFP_RUN_FINISHED] = "finished",
        };
        const struct infp_run_info *info = &report->run->info;

        infp_report_style(out, "1");
        infp_report_put(out, "Run %s", info->uuid);
        infp_report_style(out, "0");
        infp_report_put(out, "  %s", states[report->run->state]);
        infp_report_end(out);
        if (*info->command)
                infp_report_line(out, "command", "%s", info->command);
        else
                put_target(out, info);
        if (*info->hostname)
                infp_report_line(out, "machine", "%s", info->hostname);
        put_times(out, report);
        infp_report_output(out, report);
}

bool infp_report_is_host(const struct infp_report *report)
{
        return strcmp(report->run->info.mode, "host") == 0;
}

/* A tick of 10 ms is much of a short interval; over the run the error is one tick. */
static void put_steps(struct infp_out *out, const struct infp_report *report)
{
        const uint32_t period = report->run->info.period_ms;
        char step[80] = "";

        if (period)
                snprintf(step, sizeof(step), ", each %s %% of an interval", infp_number(1000.0 / period).text);
        infp_report_line(
                out, "resolution",
                report->tree_is_fine ? "CPU clocks (ns); user and system: ticks of 10 ms%s" : "ticks of 10 ms%s", step);
}

/* The machine has no tree. A mean is a rate of seconds a second. */
static void put_machine_cpu(struct infp_out *out, const struct infp_report *report)
{
        static const char *const parts[][2] = { { "user", "vCpuTimeUserMode" },
                                                { "system", "vCpuTimeKernelMode" },
                                                { "I/O wait", "vCpuTimeIOWait" },
                                                { "stolen", "vCpuSteal" } };

        infp_report_title(out, "CPU of the machine");
        for (unsigned i = 0; i < INFP_COUNT(parts); i++) {
                const double total = infp_report_total(report, parts[i][1]),
                             mean = infp_report_mean(report, parts[i][1]);

                if (!isnan(total) && (total > 0 || i < 2))
                        infp_report_line(out, parts[i][0], "%s: %s cores on average", infp_report_seconds(total).text,
                                         infp_fixed(mean, 2).text);
        }
}

static void put_tree_cpu(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_metric *threads = infp_report_find(report, "tree_threads");
        const double cores = report->tree_cpu_s / report->wall_s, peak = infp_report_max(report, "tree_cpu_ns");
        const double cpus = report->effective_cpus;

        if (infp_report_is_host(report) && isnan(report->tree_cpu_s)) {
                put_machine_cpu(out, report);
                return;
        }
        infp_report_title(out, infp_report_is_host(report) ? "CPU of all processes" : "CPU of the process tree");
        if (isnan(report->tree_cpu_s)) {
                infp_report_line(out, "total", "not measured%s", report->absences.n ? "; the reason is below" : "");
                return;
        }
        char of[112] = "";

        if (!isnan(cpus) && cpus > 0)
                snprintf(of, sizeof(of), ", %s %% of %s effective CPU%s", infp_fixed(100 * cores / cpus, 1).text,
                         infp_number(cpus).text, cpus == 1 ? "" : "s");
        infp_report_line(out, "total", "%s: %s cores on average%s", infp_report_seconds(report->tree_cpu_s).text,
                         infp_fixed(cores, 2).text, of);
        infp_report_line(out, "user", "%s", infp_report_seconds(report->tree_user_s).text);
        infp_report_line(out, "system", "%s", infp_report_seconds(report->tree_system_s).text);
        if (!isnan(peak))
                infp_report_line(out, "peak", "%s cores (one interval)", infp_fixed(peak, 2).text);
        if (threads && threads->stat.n)
                infp_report_line(out, "threads", "%s on average, %s at most", infp_number(threads->stat.mean).text,
                                 infp_fixed(threads->stat.max, 0).text);
        else if (infp_report_tree_unseen(report))
                infp_report_line(out, "threads", "not seen");
        put_steps(out, report);
        if (!strcmp(report->run->info.mode, "pid"))
                infp_report_line(out, "note",
                                 "what it used before infprof was attached is not in it, nor what children used that "
                                 "ended unseen and that it has not waited for");
}

static void put_core(struct infp_out *out, const struct infp_core *core)
{
        const double load = infp_stat_mean(&core->stat);
        const unsigned bar = isnan(load) ? 0 : (unsigned) (load / 100 * BAR_WIDTH + 0.5);

        infp_report_put(out, "  %-*lld", LABEL_WIDTH - 4, (long long) core->number);
        if (isnan(load)) {
                infp_report_put(out, "      -");
                infp_report_end(out);
                return;
        }
        infp_report_put(out, "%5s %%  ", infp_fixed(load, 1).text);
        for (unsigned i = 0; i < BAR_WIDTH; i++)
                infp_report_put(out, "%c", i < bar ? '#' : '.');
        infp_report_put(out, "  most %s %%", infp_fixed(core->stat.max, 1).text);
        infp_report_end(out);
}

/* Of a big machine the busiest cores, and the mean of the rest. */
static void put_busiest(struct infp_out *out, const struct infp_cores *cores)
{
        double below = INFINITY, rest = 0;
        unsigned shown = 0, n_rest = 0;

        for (unsigned i = 0; i < cores->n; i++)
                rest += cores->cores[i].stat.n ? cores->cores[i].stat.mean : 0;
        while (shown < SOME_CORES) {
                double next = -1;

                for (unsigned i = 0; i < cores->n; i++)
                        if (cores->cores[i].stat.n && cores->cores[i].stat.mean < below &&
                            cores->cores[i].stat.mean > next)
                                next = cores->cores[i].stat.mean;
                if (next < 0)
                        break;
                /* bound: the others stand below as one line */
                for (unsigned i = 0; i < cores->n && shown < SOME_CORES; i++)
                        if (cores->cores[i].stat.n && cores->cores[i].stat.mean == next) {
                                put_core(out, &cores->cores[i]);
                                rest -= next;
                                shown++;
                        }
                below = next;
        }
        n_rest = cores->n - shown;
        if (n_rest) {
                infp_report_put(out, "  the %u others %s %% on average", n_rest,
                                infp_fixed(fmax(rest, 0) / n_rest, 1).text);
                infp_report_end(out);
        }
}

static void put_cores(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_cores *cores = &report->cores;

        if (!cores->n)
                return;
        infp_report_title(out, "Load of the machine's cores");
        if (cores->n > ALL_CORES)
                put_busiest(out, cores);
        for (unsigned i = 0; i < cores->n && cores->n <= ALL_CORES; i++) /* bound: of more the busiest */
                put_core(out, &cores->cores[i]);
        if (cores->disparity.n)
                infp_report_line(out, "disparity",
                                 "%s of 100 (Gini, normalised: 0 all cores alike, 100 all load on one)",
                                 infp_fixed(infp_stat_mean(&cores->disparity), 1).text);
        if (cores->n > 1 && cores->n_dominated)
                infp_report_line(out, "dominant",
                                 "one core was 70 points above all others in %s of %s intervals; it changed "
                                 "%s times",
                                 infp_count(cores->n_dominated).text, infp_count(cores->disparity.n).text,
                                 infp_count(cores->n_dominant_changes).text);
}

static void put_cost(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_self self = infp_report_self(report);

        infp_report_title(out, "Cost of infprof itself");
        if (isnan(self.cpu_s))
                infp_report_line(out, "CPU", "not measured");
        else
                infp_report_line(out, "CPU", "%s, %s %% of one core (without the finishing)",
                                 infp_report_seconds(self.cpu_s).text, infp_number(self.cpu_percent).text);
        if (!isnan(self.rss_max_bytes))
                infp_report_line(out, "memory", "%s at most", infp_report_bytes(self.rss_max_bytes).text);
        if (!isnan(self.rows))
                infp_report_line(out, "rows", "%s taken, %s dropped, %s written", infp_fixed(self.rows, 0).text,
                                 infp_fixed(self.rows_dropped, 0).text, infp_report_bytes(self.bytes_written).text);
        if (self.ring_rows > 0 || self.ring_dropped > 0)
                infp_report_line(out, "programs", "%s spans, marks and values taken, %s dropped",
                                 infp_fixed(self.ring_rows, 0).text, infp_fixed(self.ring_dropped, 0).text);
        if (report->ticks.n)
                infp_report_line(out, "ticks", "%s, %s left out; late by %s on average, %s at most",
                                 infp_count(report->ticks.n).text, infp_count(report->ticks.missed.total_u64).text,
                                 infp_report_seconds(report->ticks.late_ns.mean / 1e9).text,
                                 infp_report_seconds(report->ticks.late_ns.max / 1e9).text);
}

void infp_report_text(struct infp_out *out, const struct infp_report *report, bool all)
{
        put_head(out, report);
        if (report->lists_labels)
                infp_report_labels(out, report);
        else
                infp_report_spans(out, report);
        infp_report_limits(out, report);
        infp_report_functions(out, report);
        infp_report_engines(out, report);
        infp_report_requests(out, report);
        infp_report_program_spans(out, report);
        infp_report_gpus(out, report);
        infp_report_energy(out, report);
        infp_report_facts(out, report);
        if (!strcmp(report->run->info.mode, "load") || !strcmp(report->run->info.mode, "import"))
                return; /* of the machine nothing was recorded */
        put_tree_cpu(out, report);
        put_cores(out, report);
        infp_report_processes(out, report);
        infp_report_containers(out, report);
        infp_report_memory(out, report);
        infp_report_traffic(out, report);
        infp_report_metrics(out, report, all);
        infp_report_absences(out, report, all);
        put_cost(out, report);
}
