/* Memory and I/O: by the target's own control groups, else by the machine's figures and what the target did. */
#include <math.h>
#include <stdio.h>

#include "analyze/limits/parts.h"
#include "base/mem.h"

static const double memory_waited_reached = 0.1, memory_near = 0.9, major_faults_reached = 10;
static const double swap_near = 1 << 20; /* the kernel swaps out less than this even without need */
static const double io_some_reached = 0.25, io_full_reached = 0.1, io_near = 0.05, iowait_near = 0.2;
static const double io_mostly = 0.5; /* of what went through the machine's disks */
/* An upper bound for the time: pages one by one from a slow disk. */
static const double slow_page_bytes = 4096, slow_page_s = 0.01;

struct size {
        char text[32];
};

static struct size size_of(double bytes)
{
        static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
        unsigned i = 0;
        struct size ret;

        for (bytes /= 1024; bytes >= 999.5 && i + 1 < INFP_COUNT(units); i++)
                bytes /= 1024;
        snprintf(ret.text, sizeof(ret.text), bytes < 999.5 ? "%.3g %s" : "%.0f %s", bytes, units[i]);
        return ret;
}

/* Of the target's control groups: processes killed, times that the limit was hit, the fullest. */
struct charged {
        double killed, hits, fullest, allowed;
};

static struct charged charged_of(const struct infp_report *report)
{
        struct charged ret = { .fullest = NAN };

        for (unsigned i = 0; i < report->containers.n; i++) {
                const struct infp_container_use *use = &report->containers.list[i];
                bool is_limit;
                double allowed, share;

                if (!use->is_target)
                        continue;
                allowed = infp_container_memory_allowed(use, NAN, &is_limit);
                share = is_limit ? infp_container_memory_peak(use) / allowed : NAN;
                ret.killed += fmax(0, infp_container_total(use, INFP_CONTAINER_OOM_KILLS));
                ret.hits += fmax(0, infp_container_total(use, INFP_CONTAINER_LIMIT_HITS));
                if (!isnan(share) && !(share <= ret.fullest)) {
                        ret.fullest = share;
                        ret.allowed = allowed;
                }
        }
        return ret;
}

void infp_limit_memory(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "mem", NULL };
        const struct charged charged = charged_of(report);
        const double machine = infp_report_max(report, "vMemoryPercent"); /* 0..1 */
        const double swap = infp_report_max(report, "tree_swap_bytes"),
                     faults = infp_report_mean(report, "tree_major_faults"),
                     own = infp_limit_own_waited(report, INFP_CONTAINER_MEMORY_SOME),
                     all = infp_limit_machine_waited(report, "memory", false);
        const bool is_host = infp_limit_is_host(report);

        if (charged.killed > 0)
                infp_limit_set(limit, INFP_LIMIT_REACHED, NAN,
                               "the kernel killed %.0f process%s of its control group (out of memory)", charged.killed,
                               charged.killed == 1 ? "" : "es");
        else if (own >= memory_waited_reached)
                infp_limit_set(limit, INFP_LIMIT_REACHED, own,
                               "tasks of the target's control group waited for memory %.0f %% of the time", 100 * own);
        else if (isnan(own) && all >= memory_waited_reached && is_host)
                infp_limit_set(limit, INFP_LIMIT_REACHED, all,
                               "tasks of the machine waited for memory %.0f %% of the time", 100 * all);
        else if (isnan(own) && all >= memory_waited_reached && charged.hits > 0) {
                infp_limit_set(limit, INFP_LIMIT_REACHED, all,
                               "its control group hit its memory limit %.0f times, and tasks of the machine waited for "
                               "memory %.0f %% of the time (inferred to be the target's)",
                               charged.hits, 100 * all);
                limit->is_estimated = true;
        } else if (isnan(own) && all >= memory_waited_reached) {
                const bool is_hit = faults >= major_faults_reached;

                infp_limit_set(limit, is_hit ? INFP_LIMIT_REACHED : INFP_LIMIT_NEAR, all,
                               "tasks of the machine waited for memory %.0f %% of the time%s (inferred; the target's "
                               "own wait was not measured)",
                               100 * all, is_hit ? ", and the target read pages from disk" : "");
                limit->is_estimated = true;
        } else if (charged.fullest >= 0 && !(charged.fullest < machine))
                infp_limit_set(limit, infp_limit_state_of(charged.fullest, INFINITY, memory_near), charged.fullest,
                               "its control group used up to %.0f %% of its memory limit of %s, file cache included",
                               100 * charged.fullest, size_of(charged.allowed).text);
        else if (swap >= swap_near)
                infp_limit_set(limit, INFP_LIMIT_NEAR, NAN, "up to %s of %s was in swap", size_of(swap).text,
                               is_host ? "the programs" : "the target");
        else if (!isnan(machine))
                infp_limit_set(limit, infp_limit_state_of(machine, INFINITY, memory_near), machine,
                               "up to %.0f %% of the machine's memory was in use%s", 100 * machine,
                               is_host || charged.fullest >= 0 ? "" : "; the target has no limit");
        else
                infp_limit_set_unchecked(limit, report, collectors, "vMemoryPercent", "memory was not measured");
}

/* How long the target waited was not measured: only what it moved, and how long tasks of the whole machine waited. */
static void find_io_by_machine(const struct infp_report *report, struct infp_limit *limit, double some, double full)
{
        const double moved = infp_report_total(report, "tree_read_bytes") +
                             infp_report_total(report, "tree_write_bytes"),
                     faults = infp_report_total(report, "tree_major_faults"),
                     most_s = (moved / slow_page_bytes + fmax(0, faults)) * slow_page_s,
                     disks = infp_report_total(report, "vDiskReadBytes") + infp_report_total(report, "vDiskWriteBytes");
        const enum infp_limit_state machine =
                full >= io_full_reached ? INFP_LIMIT_REACHED : infp_limit_state_of(some, io_some_reached, io_near);

        if (machine == INFP_LIMIT_FREE) {
                infp_limit_set(limit, machine, some, "tasks of the machine waited for I/O %.1f %% of the time",
                               100 * some);
                return;
        }
        if (most_s < io_near * report->wall_s && !infp_report_tree_unseen(report)) {
                char size[64] = "nothing";

                if (moved > 0)
                        snprintf(size, sizeof(size), "no more than %s", size_of(moved).text);
                infp_limit_set(
                        limit, INFP_LIMIT_FREE, NAN,
                        "the target moved %s to or from disks; tasks of the machine waited for I/O %.1f %% of the "
                        "time",
                        size, 100 * some);
                return;
        }
        limit->is_estimated = true;
        if (isnan(moved)) {
                infp_limit_set(limit, INFP_LIMIT_NEAR, some,
                               "tasks of the machine waited for I/O %.1f %% of the time (inferred; the target's I/O "
                               "was not measured)",
                               100 * some);
                return;
        }
        infp_limit_set(limit,
                       machine == INFP_LIMIT_REACHED && moved >= io_mostly * disks ? INFP_LIMIT_REACHED
                                                                                   : INFP_LIMIT_NEAR,
                       some,
                       "tasks of the machine waited for I/O %.1f %% of the time, and the target moved %s to or from "
                       "disks (inferred; its own wait was not measured)",
                       100 * some, size_of(moved).text);
}

void infp_limit_io(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "pressure", NULL };
        const double iowait = infp_report_mean(report, "vCpuTimeIOWait") / report->n_cpus;
        const double own = infp_limit_own_waited(report, INFP_CONTAINER_IO_SOME),
                     own_full = infp_limit_own_waited(report, INFP_CONTAINER_IO_FULL),
                     some = infp_limit_machine_waited(report, "io", false),
                     full = infp_limit_machine_waited(report, "io", true);
        const bool is_host = infp_limit_is_host(report);

        if (!isnan(own))
                infp_limit_set(limit,
                               own_full >= io_full_reached ? INFP_LIMIT_REACHED
                                                           : infp_limit_state_of(own, io_some_reached, io_near),
                               own, "tasks of the target's control group waited for I/O %.1f %% of the time",
                               100 * own);
        else if (!isnan(some) && is_host)
                infp_limit_set(limit,
                               full >= io_full_reached ? INFP_LIMIT_REACHED
                                                       : infp_limit_state_of(some, io_some_reached, io_near),
                               some, "tasks of the machine waited for I/O %.1f %% of the time", 100 * some);
        else if (!isnan(some))
                find_io_by_machine(report, limit, some, full);
        else if (!isnan(iowait))
                infp_limit_set(limit, infp_limit_state_of(iowait, INFINITY, iowait_near), iowait,
                               "the machine's CPUs were idle %.0f %% of the time while a task waited for I/O",
                               100 * iowait);
        else
                infp_limit_set_unchecked(limit, report, collectors, "vPressureIoSome",
                                         "how long tasks waited for disks was not measured");
}
