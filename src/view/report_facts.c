/* What the text report says is worth knowing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "view/report_parts.h"

struct facts {
        struct infp_out *out;
        bool any;
};

static void say(struct facts *facts, const char *text)
{
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
                infp_str_printf(&text, "The tree had up to %.0f threads for its %.3g effective CPUs.", threads, cpus);
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
        const double swap = infp_report_max(report, "tree_swap_bytes"),
                     faults = infp_report_total(report, "tree_major_faults");
        infp_autostr struct infp_str text = { 0 };

        if (swap > 0) {
                infp_str_printf(&text, "Up to %s of the tree lay in swap.", infp_report_bytes(swap).text);
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
        if (self.ring_dropped > 0)
                infp_str_printf(
                        &text,
                        "Programs dropped %.0f of their spans, attributes and marks, most likely since their ring "
                        "files were full: `infprof query \"FROM sources WHERE collector = 'rings'\"` has the "
                        "reason and what would help.",
                        self.ring_dropped);
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
