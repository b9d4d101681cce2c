/* Notes of the text report. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/report/parts.h"

struct facts {
        struct infp_out *out;
        bool is_short; /* lines among others, without a title */
        bool any;
};

static void say(struct facts *facts, const char *text)
{
        if (facts->is_short) {
                infp_report_line(facts->out, facts->any ? "" : "note", "%s", text);
                facts->any = true;
                return;
        }
        if (!facts->any)
                infp_report_title(facts->out, "Worth knowing");
        facts->any = true;
        infp_report_put(facts->out, "  - ");
        infp_report_wrap(facts->out, text, 4, 4);
}

static void say_cpu(struct facts *facts, const struct infp_report *report)
{
        const double cpus = report->effective_cpus, used = report->tree_cpu_s / report->wall_s;
        const double threads = infp_report_max(report, "tree_threads");
        /* Rates of times in seconds a second: cores. */
        const double steal = infp_report_mean(report, "vCpuSteal"), iowait = infp_report_mean(report, "vCpuTimeIOWait");
        infp_autostr struct infp_str text = { 0 };

        if (used >= 0.9 * cpus && threads > cpus) {
                infp_str_printf(&text, "The tree had up to %s threads for its %s effective CPUs.",
                                infp_fixed(threads, 0).text, infp_number(cpus).text);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (cpus < report->n_cpus) {
                infp_str_printf(&text, "%s of the machine's %s CPUs were available (affinity, cpuset or quota).",
                                infp_number(cpus).text, infp_fixed(report->n_cpus, 0).text);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (steal >= 0.01 * report->n_cpus) {
                infp_str_printf(&text, "The hypervisor gave %s %% of the CPU time to others (vCpuSteal).",
                                infp_fixed(100 * steal / report->n_cpus, 1).text);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (iowait >= 0.05 * report->n_cpus) {
                infp_str_printf(
                        &text, "The CPUs were idle for %s %% of the time while a task waited for I/O (vCpuTimeIOWait).",
                        infp_fixed(100 * iowait / report->n_cpus, 1).text);
                say(facts, text.data);
        }
}

static void say_memory(struct facts *facts, const struct infp_report *report)
{
        const double swap = infp_report_max(report, "tree_swap_bytes"),
                     faults = infp_report_total(report, "tree_major_faults");
        infp_autostr struct infp_str text = { 0 };

        if (swap > 0) {
                infp_str_printf(&text, "Up to %s of the tree was in swap.", infp_report_bytes(swap).text);
                say(facts, text.data);
                infp_str_clear(&text);
        }
        if (faults > 0) {
                infp_str_printf(&text, "%s major page fault%s of the tree (read from disk).",
                                infp_fixed(faults, 0).text, faults == 1 ? "" : "s");
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
                        infp_str_printf(&text, "%s%s %s", text.size ? ", " : "Network: ", infp_fixed(n, 0).text,
                                        names[i]);
        }
        if (text.size) {
                infp_str_putc(&text, '.');
                say(facts, text.data);
        }
}

/* Shorter than a period: it lived between two samples. */
static void say_unseen(struct facts *facts, const struct infp_report *report)
{
        infp_autostr struct infp_str text = { 0 };

        if (!infp_report_tree_unseen(report) || strcmp(report->run->info.mode, "run"))
                return;
        infp_str_printf(
                &text, "The command ran for less than one interval (%u ms): %s not measured. Use a smaller -t.",
                report->run->info.period_ms,
                report->processes.n
                        ? "its CPU time, I/O and peak memory are complete, but threads and other memory figures were"
                        : "its CPU time is complete, but its memory, threads and I/O were");
        if (text.size)
                say(facts, text.data);
}

static void say_own(struct facts *facts, const struct infp_report *report)
{
        const struct infp_report_self self = infp_report_self(report);
        infp_autostr struct infp_str text = { 0 };

        if (self.rows_dropped > 0)
                infp_str_printf(&text, "infprof dropped %s rows: figures may lack some samples. ",
                                infp_fixed(self.rows_dropped, 0).text);
        if (self.rows_lost > 0)
                infp_str_printf(&text, "%s rows could not be written: figures lack them.",
                                infp_fixed(self.rows_lost, 0).text);
        if (text.size)
                say(facts, text.data);
        infp_str_clear(&text);
        if (self.ring_dropped > 0)
                infp_str_printf(
                        &text,
                        "Programs dropped %s of their spans, attributes, marks and rows, most likely because their "
                        "ring files were full: `infprof query \"FROM sources WHERE collector = 'rings'\"` has "
                        "the reason and the fix.",
                        infp_fixed(self.ring_dropped, 0).text);
        if (text.size)
                say(facts, text.data);
        infp_str_clear(&text);
        if (report->ticks.missed.total_u64)
                infp_str_printf(&text,
                                "infprof skipped %s samples, because it got no CPU or an earlier one took too long.",
                                infp_count(report->ticks.missed.total_u64).text);
        if (text.size)
                say(facts, text.data);
        if (report->run->problem)
                say(facts, report->run->problem);
}

static void say_broken(struct facts *facts, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->n_broken; i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_str_printf(&text, "Table %s cannot be read and is missing here: %s", report->broken[i].table,
                                report->broken[i].message);
                if (text.size)
                        say(facts, text.data);
        }
}

static void say_all(struct infp_out *out, const struct infp_report *report, bool is_short)
{
        struct facts facts = { .out = out, .is_short = is_short };

        say_broken(&facts, report);
        say_cpu(&facts, report);
        say_memory(&facts, report);
        say_network(&facts, report);
        say_unseen(&facts, report);
        say_own(&facts, report);
}

void infp_report_facts(struct infp_out *out, const struct infp_report *report)
{
        say_all(out, report, false);
}

void infp_report_facts_short(struct infp_out *out, const struct infp_report *report)
{
        say_all(out, report, true);
}
