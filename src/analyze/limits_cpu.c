/* CPU: the quota of control groups, and what else was to be had. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/limits_parts.h"

static const double cpu_reached = 0.9, cpu_near = 0.7, machine_full = 0.9, waited_reached = 0.25;
static const double throttled_reached = 0.05;
/* How often a second it lost a CPU that it would have kept: of a task that sleeps, never; of two tasks that share a CPU, each with
 * each slice (3 to 20 ms). */
static const double put_off_reached = 20, put_off_near = 1, wanted_reached = 0.1, wanted_near = 0.02; /* CPUs */

void infp_limit_throttling(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "containers", NULL };
        const struct infp_container_use *worst = NULL;
        double share = NAN, quota = NAN;
        bool any = false;

        for (unsigned i = 0; i < report->containers.n; i++) {
                const struct infp_container_use *use = &report->containers.list[i];
                const double of_it = use->is_target ? infp_container_throttled(use) : NAN;

                any |= use->is_target;
                if (use->is_target && use->stat[INFP_CONTAINER_CPU_LIMIT].has_last)
                        quota = fmin(quota, use->stat[INFP_CONTAINER_CPU_LIMIT].last);
                if (!isnan(of_it) && !(of_it <= share)) {
                        share = of_it;
                        worst = use;
                }
        }
        if (worst) {
                const double held = infp_container_total(worst, INFP_CONTAINER_THROTTLED_NS),
                             seconds = infp_container_seconds(worst);

                infp_limit_set(
                        limit, infp_limit_state_of(share, throttled_reached, 1e-9), share,
                        "the target was held back in %.0f %% of the quota's periods, for %.*f s together over all "
                        "CPUs in %.*f s (%.4g CPUs allowed)",
                        100 * share, infp_limit_decimals(held), held, infp_limit_decimals(seconds), seconds,
                        infp_container_cpus_allowed(worst, report->n_cpus));
        } else if (quota > 0)
                infp_limit_set(limit, INFP_LIMIT_NOT_CHECKED, NAN,
                               "a quota of %.4g CPUs is set, but none of its periods was counted", quota);
        else if (any)
                infp_limit_set(limit, INFP_LIMIT_FREE, NAN, "no quota is set on the target's control group");
        else
                infp_limit_set_unchecked(limit, report, collectors, NULL, "no control group of a target was recorded");
}

/* One busy thread can use no more than one CPU, be there a hundred: told as a guess, since threads are not told apart. */
static bool is_one_thread(const struct infp_report *report, double used, double allowed)
{
        return allowed >= 2 && used >= 0.9 && used <= 1.05 && report->processes.n &&
               report->processes.list[0].cpu_s / report->wall_s >= 0.85;
}

/* The switches of a process are those of its first thread alone (/proc/PID/status): of worker threads they say nothing. */
static bool has_more_threads(const struct infp_report *report)
{
        return infp_report_mean(report, "tree_threads") > infp_report_mean(report, "tree_processes");
}

/* What the target could have: as its recording began, or less where it went into a control group with a quota of its own. */
static double cpus_allowed(const struct infp_report *report)
{
        double allowed = report->effective_cpus;

        for (unsigned i = 0; i < report->containers.n; i++) {
                const struct infp_container_use *use = &report->containers.list[i];

                if (use->is_target && infp_container_total(use, INFP_CONTAINER_CPU) >= report->tree_cpu_s / 2)
                        allowed = fmin(allowed, infp_container_cpus_allowed(use, allowed));
        }
        return allowed;
}

static void find_host(const struct infp_report *report, struct infp_limit *limit, const char *stolen)
{
        static const char *const collectors[] = { "cpu", NULL };
        const double busy = infp_stat_mean(&report->cores.average) / 100;

        if (isnan(busy))
                infp_limit_set_unchecked(limit, report, collectors, NULL, "the machine's CPUs were not measured");
        else
                infp_limit_set(limit, infp_limit_state_of(busy, cpu_reached, cpu_near), busy,
                               "the machine's %.0f CPUs were busy to %.0f %%%s", report->n_cpus, 100 * busy, stolen);
}

void infp_limit_cpu(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "processes", NULL };
        const double busy = infp_stat_mean(&report->cores.average) / 100;
        const double used = report->tree_cpu_s / report->wall_s, allowed = cpus_allowed(report), share = used / allowed;
        const double steal = infp_report_mean(report, "vCpuSteal") / report->n_cpus;
        const double own_wait = infp_limit_own_waited(report, INFP_CONTAINER_CPU_SOME),
                     put_off = infp_report_mean(report, "tree_involuntary_switches");
        char stolen[80] = "";

        if (steal >= 0.05)
                snprintf(stolen, sizeof(stolen), "; the hypervisor took %.0f %% of the machine's", 100 * steal);
        if (infp_limit_is_host(report)) {
                find_host(report, limit, stolen);
                return;
        }
        if (isfinite(used) && !(allowed > 0)) {
                infp_limit_set(limit, INFP_LIMIT_NOT_CHECKED, NAN,
                               "the target used %.2f CPUs; how many it could have is not known", used);
                return;
        }
        if (!isfinite(used)) {
                infp_limit_set_unchecked(limit, report, collectors, "tree_cpu_ns",
                                         "the target's CPU time was not measured");
                return;
        }
        /* What it waited is known of a control group of its own. Else that the machine was full says nothing of a target that
         * sleeps; that it lost CPUs again and again while they were all in use tells of one that wanted more. */
        if (share < cpu_reached && own_wait >= waited_reached)
                infp_limit_set(
                        limit, INFP_LIMIT_REACHED, own_wait,
                        "some task of the target waited for a CPU %.0f %% of the time, while it used %.2f of its "
                        "%.4g CPUs%s",
                        100 * own_wait, used, allowed, stolen);
        else if (share < cpu_reached && isnan(own_wait) && busy >= machine_full && put_off >= put_off_near &&
                 used >= wanted_near) {
                infp_limit_set(limit,
                               put_off >= put_off_reached && used >= wanted_reached ? INFP_LIMIT_REACHED
                                                                                    : INFP_LIMIT_NEAR,
                               share,
                               "the target used %.2f of its %.4g CPUs and was put off them %.*f times a second, while "
                               "the machine's were busy to %.0f %%: it shared them with others (a guess: how long it "
                               "waited was not measured)%s",
                               used, allowed, infp_limit_decimals(put_off), put_off, 100 * busy, stolen);
                limit->is_estimated = true;
        } else if (share < cpu_near && isnan(own_wait) && busy >= machine_full && used >= wanted_reached &&
                   has_more_threads(report)) {
                infp_limit_set(limit, INFP_LIMIT_NEAR, share,
                               "the target used %.2f of its %.4g CPUs while the machine's were busy to %.0f %%: its "
                               "threads may have waited for them (a guess: that was not measured)%s",
                               used, allowed, 100 * busy, stolen);
                limit->is_estimated = true;
        } else if (share < cpu_near && is_one_thread(report, used, allowed)) {
                infp_limit_set(limit, INFP_LIMIT_NEAR, share,
                               "the target used %.2f of its %.4g CPUs, as a program does in which one thread is always "
                               "busy (a guess: threads were not told apart)",
                               used, allowed);
                limit->is_estimated = true;
        } else
                infp_limit_set(limit, infp_limit_state_of(share, cpu_reached, cpu_near), share,
                               "the target used %.2f of its %.4g CPUs (%.0f %%)%s", used, allowed, 100 * share, stolen);
}
