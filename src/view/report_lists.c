/* The lists of the text report: facts worth knowing, all metrics, what was absent. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "view/report_parts.h"

enum { NAME_WIDTH = 28, CELL_WIDTH = 12, TOTALS_FROM_WIDTH = 100 };

struct facts {
        struct infp_out *out;
        bool any;
};

static void say(struct facts *facts, const char *text)
{
        if (!facts->any)
                infp_report_title(facts->out, "Worth knowing");
        facts->any = true;
        infp_str_puts(&facts->out->text, "  - ");
        infp_report_wrap(facts->out, text, 4, 4);
}

static void say_cpu(struct facts *facts, const struct infp_report *report)
{
        const double cpus = report->effective_cpus, used = report->tree_cpu_s / report->wall_s;
        const double threads = infp_report_max(report, "tree_threads");
        /* Rates of times in seconds a second: cores. */
        const double steal = infp_report_mean(report, "vCpuSteal"), iowait = infp_report_mean(report, "vCpuTimeIOWait");
        infp_autostr struct infp_str text = { 0 };

        if (used >= 0.9 * cpus) {
                infp_str_printf(&text, "The tree used %.0f %% of its %.3g effective CPUs", 100 * used / cpus, cpus);
                if (threads > cpus)
                        infp_str_printf(&text, "; it had up to %.0f threads", threads);
                infp_str_putc(&text, '.');
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (cpus < report->n_cpus) {
                infp_str_printf(&text, "%.3g of the machine's %.0f CPUs were to be had (affinity, cpuset or quota).",
                                cpus, report->n_cpus);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (steal >= 0.01 * report->n_cpus) {
                infp_str_printf(&text, "The hypervisor gave %.1f %% of the CPU time to others (vCpuSteal).",
                                100 * steal / report->n_cpus);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (iowait >= 0.05 * report->n_cpus) {
                infp_str_printf(
                        &text,
                        "The CPUs were idle for %.1f %% of the time while a task waited for I/O (vCpuTimeIOWait).",
                        100 * iowait / report->n_cpus);
                say(facts, text.data);
        }
}

static void say_memory(struct facts *facts, const struct infp_report *report)
{
        const double rss = infp_report_max(report, "tree_rss_bytes"), swap = infp_report_max(report, "tree_swap_bytes");
        const double faults = infp_report_total(report, "tree_major_faults"), limit = report->memory_limit_bytes;
        const struct infp_report_metric *percent = infp_report_find(report, "vMemoryPercent");
        infp_autostr struct infp_str text = { 0 };

        if (rss >= 0.9 * limit) {
                infp_str_printf(&text, "The tree's memory came to %.0f %% of the control group's limit.",
                                100 * rss / limit);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (percent && percent->stat.n && percent->stat.max >= 90) {
                infp_str_printf(&text, "The machine's memory was in use to %.1f %% (vMemoryPercent).",
                                percent->stat.max);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (swap > 0) {
                infp_str_printf(&text, "Up to %s of the tree lay in swap.", infp_human(swap, "bytes", "", false).text);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (faults > 0) {
                infp_str_printf(&text, "%.0f page faults of the tree waited for a disk.", faults);
                say(facts, text.data);
        }
}

static void say_network(struct facts *facts, const struct infp_report *report)
{
        static const char *const names[] = { "vNetworkErrorsRecvd", "vNetworkErrorsSent", "vNetworkDropsRecvd",
                                             "vNetworkDropsSent" };
        infp_autostr struct infp_str text = { 0 };

        for (unsigned i = 0; i < 4; i++) {
                const double n = infp_report_total(report, names[i]);

                if (n > 0)
                        infp_str_printf(&text, "%s%.0f %s", text.size ? ", " : "Network: ", n, names[i]);
        }
        if (text.size) {
                infp_str_putc(&text, '.');
                say(facts, text.data);
        }
}

/* Shorter than a period: between two samples it came and went. */
static void say_unseen(struct facts *facts, const struct infp_report *report)
{
        infp_autostr struct infp_str text = { 0 };

        if (!infp_report_tree_unseen(report) || strcmp(report->run->info.mode, "run"))
                return;
        infp_str_printf(
                &text,
                "The command ran between two samples (one in %u ms): its CPU time is whole, but its memory, threads "
                "and I/O were not seen. A smaller -t sees them.",
                report->run->info.period_ms);
        if (text.size)
                say(facts, text.data);
}

static void say_own(struct facts *facts, const struct infp_report *report)
{
        const struct infp_report_self self = infp_report_self(report);
        infp_autostr struct infp_str text = { 0 };

        if (self.rows_dropped > 0)
                infp_str_printf(&text, "infprof dropped %.0f rows: figures may lack some samples.", self.rows_dropped);
        if (text.size)
                say(facts, text.data);
        infp_str_clear(&text);
        if (report->ticks.missed.total_u64)
                infp_str_printf(&text,
                                "infprof left out %llu samples, because it got no CPU or an earlier one took too long.",
                                (unsigned long long) report->ticks.missed.total_u64);
        if (text.size)
                say(facts, text.data);
        if (report->run->problem)
                say(facts, report->run->problem);
}

static void say_broken(struct facts *facts, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->n_broken; i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_str_printf(&text, "Table %s cannot be read, nothing here is of it: %s", report->broken[i].table,
                                report->broken[i].message);
                if (text.size)
                        say(facts, text.data);
        }
}

void infp_report_facts(struct infp_out *out, const struct infp_report *report)
{
        struct facts facts = { .out = out };

        say_broken(&facts, report);
        say_cpu(&facts, report);
        say_memory(&facts, report);
        say_network(&facts, report);
        say_unseen(&facts, report);
        say_own(&facts, report);
}

/* What never changed says little; the sections above hold what matters of it. */
static bool is_quiet(const struct infp_report_metric *m)
{
        return !m->stat.n || m->stat.min == m->stat.max;
}

static bool is_one_of(const char *const *names, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(names[i], name))
                        return true;
        return false;
}

/* The kernel counts more than a hundred things of the machine: those that a person asks for first are shown unasked. */
static bool is_detail(const struct infp_report_metric *m)
{
        static const char *const tables[] = { "cpu", "cpu_clock", "disk", "mem", "net" };
        static const char *const first[] = { "vCpuTimeUserMode", "vCpuTimeKernelMode", "vCpuTimeIOWait",
                                             "vCpuSteal",        "vLoadAvg",           "vMemoryUsed",
                                             "vMemoryFree",      "vSwapUsed",          "vDiskReadTime",
                                             "vDiskWriteTime",   "vDiskReadBytes",     "vDiskWriteBytes",
                                             "vDiskIOTime",      "vMemoryCached",      "vNetworkBytesRecvd",
                                             "vNetworkBytesSent" };

        return is_one_of(tables, INFP_COUNT(tables), m->table) && !is_one_of(first, INFP_COUNT(first), m->name);
}

static void put_metric(struct infp_out *out, const struct infp_report_metric *m, bool totals)
{
        const bool is_counter = m->column.kind == INFP_COUNTER;
        const double values[] = { infp_stat_mean(&m->stat), infp_stat_std(&m->stat), m->stat.n ? m->stat.min : NAN,
                                  m->stat.n ? m->stat.max : NAN };

        infp_str_printf(&out->text, "  %-*s", NAME_WIDTH, m->name);
        for (unsigned i = 0; i < 4; i++)
                infp_str_printf(&out->text, "%*s", CELL_WIDTH,
                                infp_human(values[i] * m->factor, m->base, m->unit, is_counter).text);
        if (totals && is_counter)
                infp_str_printf(
                        &out->text, "%*s", CELL_WIDTH + 4,
                        infp_human(infp_stat_total(&m->stat, &m->column) * m->factor, m->base, m->unit, false).text);
        infp_str_putc(&out->text, '\n');
}

/* What the run was about comes first. How many were left out. */
static unsigned put_metrics(struct infp_out *out, const struct infp_report *report, bool all, bool totals)
{
        const char *table = "";
        unsigned n_left_out = 0;

        for (unsigned i = 0; i < 2 * report->n_metrics; i++) {
                const struct infp_report_metric *m = &report->metrics[i % report->n_metrics];

                if (!strcmp(m->table, "tree") != (i < report->n_metrics))
                        continue;
                if (!all && (is_quiet(m) || is_detail(m))) {
                        n_left_out++;
                        continue;
                }
                if (strcmp(table, m->table))
                        infp_str_printf(&out->text, " %s\n", m->table);
                table = m->table;
                put_metric(out, m, totals);
        }
        return n_left_out;
}

void infp_report_metrics(struct infp_out *out, const struct infp_report *report, bool all)
{
        const bool totals = out->width >= TOTALS_FROM_WIDTH;
        unsigned n_left_out;
        char text[240];

        snprintf(text, sizeof(text), "%-*s%*s%*s%*s%*s%s", NAME_WIDTH + 2, "Metrics", CELL_WIDTH, "mean", CELL_WIDTH,
                 "std", CELL_WIDTH, "min", CELL_WIDTH, "max", totals ? "           total" : "");
        infp_report_title(out, text);
        n_left_out = put_metrics(out, report, all, totals);
        if (n_left_out < report->n_metrics) {
                infp_str_puts(&out->text, "  ");
                infp_report_wrap(
                        out,
                        "Counters are shown as rates between samples, weighted by time; times as shares of it. std is "
                        "that of the population.",
                        2, 2);
        }
        if (!n_left_out)
                return;
        snprintf(text, sizeof(text),
                 "%u more were left out: details of the machine, and what did not change or had no value (--all "
                 "shows them).",
                 n_left_out);
        infp_str_puts(&out->text, "  ");
        infp_report_wrap(out, text, 2, 2);
}

static bool same_reason(const struct infp_absence *a, const struct infp_absence *b)
{
        return !strcmp(a->collector, b->collector) && !strcmp(a->state, b->state) && !strcmp(a->reason, b->reason) &&
               !strcmp(a->fix, b->fix);
}

static bool is_first(const struct infp_absences *absences, unsigned index)
{
        for (unsigned i = 0; i < index; i++)
                if (same_reason(&absences->list[i], &absences->list[index]))
                        return false;
        return true;
}

/* The column, else the table, else the collector; with the instance. */
static void put_name(struct infp_str *text, const struct infp_absence *a)
{
        const char *name = *a->column && strcmp(a->column, "*") ? a->column
                           : *a->table && strcmp(a->table, "*") ? a->table
                                                                : a->collector;

        infp_str_puts(text, name);
        if (*a->instance)
                infp_str_printf(text, " (%s)", a->instance);
}

void infp_report_absences(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_absences *absences = &report->absences;
        infp_autostr struct infp_str text = { 0 };

        if (!absences->n)
                return;
        infp_report_title(out, "Absent, and why");
        for (unsigned i = 0; i < absences->n; i++) {
                const struct infp_absence *a = &absences->list[i];

                if (!is_first(absences, i))
                        continue;
                infp_str_clear(&text);
                for (unsigned k = i; k < absences->n; k++)
                        if (same_reason(a, &absences->list[k])) {
                                infp_str_puts(&text, k > i ? ", " : "");
                                put_name(&text, &absences->list[k]);
                        }
                infp_str_puts(&text, ": ");
                if (strcmp(a->state, "absent"))
                        infp_str_printf(&text, "%s: ", a->state);
                infp_str_puts(&text, *a->reason ? a->reason : "no reason was given");
                infp_str_puts(&out->text, "  ");
                infp_report_wrap(out, text.data ? text.data : "", 2, 4);
                if (*a->fix) {
                        infp_str_puts(&out->text, "    fix: ");
                        infp_report_wrap(out, a->fix, 9, 9);
                }
        }
}
