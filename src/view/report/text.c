/* The report for people: measured figures in plain words. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/report/parts.h"
#include "view/report/report.h"

enum {
        LABEL_WIDTH = 12,
        BAR_WIDTH = 30,
        ALL_CORES = 16,
        SOME_CORES = 8,
        BREAKS = 24 /* columns that two lines may lose at their ends */
};

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

static double whole_s(const struct infp_report *report)
{
        return (double) (report->range.end - 1 - report->range.start) / 1e9;
}

static struct human ended_as(const struct infp_run_info *info)
{
        struct human ret = { "" };

        if (info->exit_signal)
                snprintf(ret.text, sizeof(ret.text), ", exit code %d (signal %d)", info->exit_code, info->exit_signal);
        else if (info->exit_code >= 0)
                snprintf(ret.text, sizeof(ret.text), ", exit code %d", info->exit_code);
        return ret;
}

static const char *broken_off(const struct infp_report *report)
{
        return report->is_cut ? "; then the recording was interrupted; what followed is not known" : "";
}

static void put_times(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_run_info *info = &report->run->info;
        char from[64], to[64], every[32] = "", of[64] = "";

        put_moment(from, sizeof(from), report->from_unix_ns, "%Y-%m-%d %H:%M:%S");
        put_moment(to, sizeof(to), report->to_unix_ns, "%Y-%m-%d %H:%M:%S %z");
        if (info->period_ms)
                snprintf(every, sizeof(every), ", every %u ms", info->period_ms);
        infp_report_line(out, "time", "%s to %s%s", from, strncmp(from, to, 11) ? to : to + 11, every);
        if (report->is_part)
                snprintf(of, sizeof(of), " of %s", infp_report_seconds(whole_s(report)).text);
        infp_report_line(out, "lasted", "%s%s%s%s", infp_report_seconds(report->wall_s).text, of, ended_as(info).text,
                         broken_off(report));
}

void infp_run_target_words(struct infp_str *out, const struct infp_run *run)
{
        const struct infp_run_info *info = &run->info;

        if (run->problem)
                infp_str_puts(out, "unknown: its run.json cannot be read");
        else if (!*info->mode)
                infp_str_puts(out, "unknown");
        else if (strcmp(info->mode, "host") == 0)
                infp_str_puts(out, "the machine");
        else if (*info->target_name)
                infp_str_printf(out, "processes named %s", info->target_name);
        else if (info->target_port)
                infp_str_printf(out, "the process on port %u", info->target_port);
        else if (info->n_target_pids)
                infp_str_printf(out, "process %d%s", info->target_pids[0],
                                info->n_target_pids > 1 ? " and others" : "");
        else
                infp_str_puts(out, "a process that was already running");
}

static void put_target(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_run_info *info = &report->run->info;
        const bool is_found = *info->target_command, is_meant = *info->target_name || info->target_port;
        infp_autostr struct infp_str words = { 0 };

        infp_run_target_words(&words, report->run);
        infp_report_line(out, "target", "%s%s%s%s",
                         is_found   ? info->target_command
                         : is_meant ? "not found: "
                                    : "",
                         is_found ? " (" : "", words.data ? words.data : "", is_found ? ")" : "");
}

static void put_state(struct infp_out *out, const struct infp_report *report)
{
        static const char *const states[] = {
                [INFP_RUN_RECORDING] = "still recording",
                [INFP_RUN_INTERRUPTED] =
                        "interrupted: the recorder was killed, or the disk was full (infprof recover repairs it)",
                [INFP_RUN_ENDED] = "recorded; run `infprof finish`",
                [INFP_RUN_FINISHED] = "finished",
        };

        infp_report_style(out, "1");
        infp_report_put(out, "Run %s", report->run->info.uuid);
        infp_report_style(out, "0");
        infp_report_put(out, "  %s", states[report->run->state]);
        infp_report_end(out);
}

/* How much a captured command wrote, and how much of it was removed. */
static void put_output(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_output *output = &report->output;
        char of[96] = "", removed[96] = "";

        if (!output->has)
                return;
        if (report->is_part)
                snprintf(of, sizeof(of), ", %s of them here", infp_report_bytes((double) output->range_bytes).text);
        if (output->removed)
                snprintf(removed, sizeof(removed), "; its first %s are removed",
                         infp_report_bytes((double) output->removed).text);
        infp_report_line(out, "output", "%s in %s_output.txt%s%s", infp_report_bytes((double) output->bytes).text,
                         report->run->info.uuid, of, removed);
}

static void put_head(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_run_info *info = &report->run->info;

        put_state(out, report);
        if (*info->command)
                infp_report_line(out, "command", "%s", info->command);
        else
                put_target(out, report);
        if (*info->hostname)
                infp_report_line(out, "machine", "%s", info->hostname);
        put_times(out, report);
        put_output(out, report);
}

/* A server's command line may fill a screen: shows one line of it. */
static void put_head_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_run_info *info = &report->run->info;
        char from[64], of[64] = "", lasted[112] = "";

        put_state(out, report);
        if (*info->command) {
                infp_report_put(out, "  %-*s", LABEL_WIDTH, "command");
                infp_report_put_padded(out, info->command, infp_report_width(out) - LABEL_WIDTH - 2, true);
                infp_report_end(out);
        } else
                put_target(out, report);
        put_moment(from, sizeof(from), report->from_unix_ns, "%Y-%m-%d %H:%M:%S %z");
        if (report->is_part)
                snprintf(of, sizeof(of), " of %s", infp_report_seconds(whole_s(report)).text);
        if (report->wall_s >= 1e-6) /* an imported profile may have no times */
                snprintf(lasted, sizeof(lasted), "%s%s from ", infp_report_seconds(report->wall_s).text, of);
        infp_report_line(out, *lasted ? "lasted" : "time", "%s%s%s%s%s%s", lasted, from, *info->hostname ? " on " : "",
                         info->hostname, ended_as(info).text, broken_off(report));
}

bool infp_report_is_host(const struct infp_report *report)
{
        return strcmp(report->run->info.mode, "host") == 0;
}

/* A tick of 10 ms is a large part of a short interval; over the run the error is one tick. */
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

/* The machine has no tree. The mean is a rate: seconds per second. */
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

static void put_total(struct infp_out *out, const struct infp_report *report, const char *label)
{
        const double cores = report->tree_cpu_s / report->wall_s, cpus = report->effective_cpus;
        char of[112] = "";

        if (!isnan(cpus) && cpus > 0)
                snprintf(of, sizeof(of), ", %s %% of %s effective CPU%s", infp_fixed(100 * cores / cpus, 1).text,
                         infp_number(cpus).text, cpus == 1 ? "" : "s");
        infp_report_line(out, label, "%s: %s cores on average%s", infp_report_seconds(report->tree_cpu_s).text,
                         infp_fixed(cores, 2).text, of);
}

static void put_cpu_short(struct infp_out *out, const struct infp_report *report)
{
        const double machine =
                infp_report_mean(report, "vCpuTimeUserMode") + infp_report_mean(report, "vCpuTimeKernelMode");

        if (!isnan(report->tree_cpu_s))
                put_total(out, report, "CPU");
        else if (infp_report_is_host(report) && !isnan(machine))
                infp_report_line(out, "CPU", "%s cores on average (the machine)", infp_fixed(machine, 2).text);
        else
                infp_report_line(out, "CPU", "not measured");
}

static void put_cpu(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_metric *threads = infp_report_find(report, "tree_threads");
        const double peak = infp_report_max(report, "tree_cpu_ns");

        if (infp_report_is_host(report) && isnan(report->tree_cpu_s)) {
                put_machine_cpu(out, report);
                return;
        }
        infp_report_title(out, infp_report_is_host(report) ? "CPU of all processes" : "CPU of the process tree");
        if (isnan(report->tree_cpu_s)) {
                infp_report_line(out, "total", "not measured%s",
                                 report->absences.n ? "; `infprof report absent` says why" : "");
                return;
        }
        put_total(out, report, "total");
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
                                 "excludes CPU time from before infprof attached, and that of children that ended "
                                 "unseen and were not waited for");
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

/* On big machines: the busiest cores, and the mean of the rest. */
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
                infp_report_line(out, "imbalance", "%s %% (Gini of the cores' loads; 0 = even)",
                                 infp_fixed(infp_stat_mean(&cores->disparity), 1).text);
        if (cores->n > 1 && cores->n_dominated)
                infp_report_line(
                        out, "dominant",
                        "one core was 70 points above all others in %s of %s intervals; the core changed %s times",
                        infp_count(cores->n_dominated).text, infp_count(cores->disparity.n).text,
                        infp_count(cores->n_dominant_changes).text);
}

/* Dropped as they came, or lost on the way to the disk. */
static struct human not_kept(const struct infp_report_self *self)
{
        return infp_fixed(self->rows_dropped + (self->rows_lost > 0 ? self->rows_lost : 0), 0);
}

/* What was lost at the end is in no row. */
static const char *until(const struct infp_report *report)
{
        return report->run->state == INFP_RUN_INTERRUPTED ? " before it was interrupted" : "";
}

static void put_cost(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_self self = infp_report_self(report);

        infp_report_title(out, "Cost of infprof itself");
        if (isnan(self.cpu_s))
                infp_report_line(out, "CPU", "not measured");
        else
                infp_report_line(out, "CPU", "%s, %s %% of one core (finishing excluded)",
                                 infp_report_seconds(self.cpu_s).text, infp_number(self.cpu_percent).text);
        if (!isnan(self.rss_max_bytes))
                infp_report_line(out, "memory", "%s at most", infp_report_bytes(self.rss_max_bytes).text);
        if (!isnan(self.rows))
                infp_report_line(out, "rows", "%s taken, %s dropped%s, %s written", infp_fixed(self.rows, 0).text,
                                 not_kept(&self).text, until(report), infp_report_bytes(self.bytes_written).text);
        if (self.ring_rows > 0 || self.ring_dropped > 0)
                infp_report_line(out, "programs", "%s spans, marks and values taken, %s dropped",
                                 infp_fixed(self.ring_rows, 0).text, infp_fixed(self.ring_dropped, 0).text);
        if (report->ticks.n)
                infp_report_line(out, "ticks", "%s, %s skipped; late by %s on average, %s at most",
                                 infp_count(report->ticks.n).text, infp_count(report->ticks.missed.total_u64).text,
                                 infp_report_seconds(report->ticks.late_ns.mean / 1e9).text,
                                 infp_report_seconds(report->ticks.late_ns.max / 1e9).text);
}

static void put_cost_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_self self = infp_report_self(report);

        if (isnan(self.cpu_s))
                infp_report_line(out, "infprof", "its own cost was not measured");
        else
                infp_report_line(out, "infprof", "%s CPU, %s %% of one core; %s at most; %s rows dropped%s",
                                 infp_report_seconds(self.cpu_s).text, infp_number(self.cpu_percent).text,
                                 infp_report_bytes(self.rss_max_bytes).text, not_kept(&self).text, until(report));
}

static void put_labels(struct infp_out *out, const struct infp_report *report)
{
        (report->lists_labels ? infp_report_labels : infp_report_spans)(out, report);
}

// clang-format off
const struct infp_report_section infp_report_sections[] = {
        { "labels", "averages between two labels (--from TAG --to TAG), else between all of them", put_labels, NULL, put_labels, false, false },
        { "limits", "what limited the run", infp_report_limits, NULL, infp_report_limits_short, false, false },
        { "findings", "what holds the target back, how much it costs, and what to try", infp_report_findings, NULL, infp_report_findings_short, false, true },
        { "requests", "requests, measured at the client", infp_report_requests, NULL, infp_report_requests_short, false, false, "; `infprof load` sends requests and measures them" },
        { "engine", "each server, by its own metrics", infp_report_engines, NULL, infp_report_engines_short, false, false, "; `infprof report absent` says why" },
        { "spans", "spans that programs recorded, by name", infp_report_program_spans, NULL, NULL, false, false, "; programs record spans with libinfprof (docs/api.md)" },
        { "cpu", "CPU time of the process tree", put_cpu, NULL, put_cpu_short, true, true },
        { "memory", "memory in use, and its limit", infp_report_memory, NULL, infp_report_memory_short, true, true },
        { "gpus", "each GPU: use, memory, power, throttling", infp_report_gpus, NULL, infp_report_gpus_short, true, false, "; `infprof report absent --all` says why" },
        { "energy", "energy, in all and per token", infp_report_energy, NULL, infp_report_energy_short, true, false },
        { "cost", "CPU time and memory that infprof itself used", put_cost, NULL, put_cost_short, true, true },
        { "notes", "what else is worth knowing: swap, page faults, dropped rows", infp_report_facts, NULL, infp_report_facts_short, true, false },
        { "functions", "functions by self and total time, with confidence intervals", infp_report_functions, NULL, infp_report_functions_short, false, false, "; `infprof record --cpu` samples stacks" },
        { "lines", "the same by file and line of the source", infp_report_lines, NULL, NULL, false, false, "; `infprof record --cpu` samples stacks" },
        { "torch", "modules of PyTorch, slow steps, and what measuring them cost", infp_report_torch, NULL, infp_report_torch_short, false, false, "; `infprof record --torch` profiles PyTorch programs (docs/python.md)" },
        { "gil", "who held the GIL of Python and who waited for it, a line a thread", infp_report_gil, NULL, infp_report_gil_short, false, false, "; `infprof record --gil` samples it" },
        { "tasks", "what tasks of asyncio wait for, by their names", infp_report_tasks, NULL, NULL, false, false, "; `infprof record --async` samples them" },
        { "lag", "callbacks that held an event loop of asyncio for 100 ms or more, and where", infp_report_lag, NULL, infp_report_lag_short, false, false, "; `infprof record --async` looks for it" },
        { "stops", "how long threads were stopped by record --blocking: a histogram", infp_report_stops, NULL, infp_report_stops_short, false, false, "; `infprof record --cpu --blocking` stops threads" },
        { "cores", "load of each CPU core of the machine", put_cores, NULL, NULL, false, true },
        { "processes", "the busiest processes", infp_report_processes, NULL, NULL, false, true },
        { "containers", "containers, their limits, and pressure", infp_report_containers, NULL, NULL, false, true },
        { "io", "disk and network traffic", infp_report_traffic, NULL, NULL, false, true },
        { "metrics", "every metric: mean, std, min, max (--all: also those that did not change)", infp_report_metrics, infp_report_all_metrics, NULL, false, true },
        { "absent", "what was not recorded, and why", infp_report_absences, infp_report_all_absences, NULL, false, true },
        { 0 },
};
// clang-format on

/* Loads and imports record no machine. */
static bool has_machine(const struct infp_report *report)
{
        return strcmp(report->run->info.mode, "load") && strcmp(report->run->info.mode, "import");
}

static void put_section(struct infp_out *out, const struct infp_report *report,
                        const struct infp_report_section *section, enum infp_report_size size)
{
        if (section->of_machine && !has_machine(report))
                return;
        if (size == INFP_REPORT_ALL && section->put_all)
                section->put_all(out, report);
        else
                section->put(out, report);
}

static void put_chosen(struct infp_out *out, const struct infp_report *report, enum infp_report_size size,
                       const char *name)
{
        for (const struct infp_report_section *section = infp_report_sections; section->name; section++) {
                const size_t before = out->text.size;

                if (strcmp(section->name, name))
                        continue;
                put_section(out, report, section, size);
                if (out->text.size > before)
                        continue;
                infp_report_end(out);
                infp_report_line(out, name, "this run has no such data%s", section->fix ? section->fix : "");
        }
}

/* Prints the one-line sections from this one on; returns the last. Loads and imports may have none. */
static const struct infp_report_section *put_lines(struct infp_out *out, const struct infp_report *report,
                                                   const struct infp_report_section *section)
{
        const size_t before = out->text.size;
        size_t titled;

        infp_report_title(out, "What it used");
        titled = out->text.size;
        for (; section->is_line; section++)
                if (!section->of_machine || has_machine(report))
                        section->put_short(out, report);
        if (titled > before && out->text.size == titled) {
                out->text.size = before;
                out->text.data[before] = 0;
        }
        return section - 1;
}

static void put_short(struct infp_out *out, const struct infp_report *report)
{
        put_head_short(out, report);
        for (const struct infp_report_section *section = infp_report_sections; section->name; section++)
                if (section->is_line)
                        section = put_lines(out, report, section);
                else if (section->put_short && (!section->of_machine || has_machine(report)))
                        section->put_short(out, report);
        infp_report_end(out);
        infp_report_line(out, "more", "`infprof report SECTION` (-h lists them), --full for all of it");
}

void infp_report_text(struct infp_out *out, const struct infp_report *report, enum infp_report_size size,
                      char *const *sections)
{
        if (sections && *sections) {
                put_state(out, report);
                for (; *sections; sections++)
                        put_chosen(out, report, size, *sections);
                return;
        }
        if (size == INFP_REPORT_SHORT) {
                put_short(out, report);
                return;
        }
        put_head(out, report);
        for (const struct infp_report_section *section = infp_report_sections; section->name; section++)
                put_section(out, report, section, size);
}
