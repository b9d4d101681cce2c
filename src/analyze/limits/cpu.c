/* CPU: the quota of control groups, and what else was available. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/limits/parts.h"

static const double cpu_reached = 0.9, cpu_near = 0.7, machine_full = 0.9, waited_reached = 0.25, ready_near = 0.1;
static const double throttled_reached = 0.05, waiting_reached = 0.25, waiting_near = 0.05;
/* Preemptions a second. A task that sleeps has none; two tasks that share a CPU are preempted at each slice (3 to 20 ms). */
static const double put_off_reached = 20, put_off_near = 1, wanted_reached = 0.1, wanted_near = 0.02; /* CPUs */

/* quota: NAN if unknown. False: neither it nor its periods are known. */
static bool set_throttled(struct infp_limit *limit, double share, double held, double seconds, double quota)
{
        char words[40] = "";

        if (quota > 0)
                snprintf(words, sizeof(words), " (quota: %.4g CPUs)", quota);
        if (!isnan(share))
                infp_limit_set(limit, infp_limit_state_of(share, throttled_reached, 1e-9), share,
                               "the target was throttled in %.0f %% of the quota's periods, for %.*f s in total over "
                               "all CPUs in %.*f s%s",
                               100 * share, infp_limit_decimals(held), held, infp_limit_decimals(seconds), seconds,
                               words);
        else if (quota > 0)
                infp_limit_set(limit, INFP_LIMIT_NOT_CHECKED, NAN,
                               "the quota is %.4g CPUs, but its periods were not counted", quota);
        return !isnan(share) || quota > 0;
}

static double quota_of(const struct infp_container_use *use)
{
        const struct infp_stat *quota = &use->stat[INFP_CONTAINER_CPU_LIMIT];

        return quota->has_last ? quota->last : NAN;
}

static void find_in_containers(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "containers", NULL };
        const struct infp_container_use *worst = NULL;
        double share = NAN, quota = NAN, held = NAN, seconds = NAN;
        bool any = false;

        for (unsigned i = 0; i < report->containers.n; i++) {
                const struct infp_container_use *use = &report->containers.list[i];
                const double of_it = use->is_target ? infp_container_throttled(use) : NAN;

                any |= use->is_target;
                if (use->is_target)
                        quota = fmin(quota, quota_of(use));
                if (!isnan(of_it) && !(of_it <= share)) {
                        share = of_it;
                        worst = use;
                }
        }
        if (worst) {
                held = infp_container_total(worst, INFP_CONTAINER_THROTTLED_NS);
                seconds = infp_container_seconds(worst);
                quota = quota_of(worst);
        }
        if (set_throttled(limit, share, held, seconds, quota))
                return;
        if (any)
                infp_limit_set(limit, INFP_LIMIT_FREE, NAN, "none set on the target's control group");
        else
                infp_limit_set_unchecked(limit, report, collectors, NULL, "no control group of a target was recorded");
}

static double total_of(const struct infp_report *report, const char *column)
{
        const struct infp_report_metric *m = infp_report_find(report, column);

        return m && m->stat.n ? infp_stat_total(&m->stat, &m->column) : NAN;
}

/* The target's group and all groups above it; runs of older versions have only containers. */
void infp_limit_throttling(const struct infp_report *report, struct infp_limit *limit)
{
        const struct infp_report_metric *groups = infp_report_find(report, "lGroups"),
                                        *periods = infp_report_find(report, "lCpuPeriods");
        const double n = total_of(report, "lCpuPeriods"),
                     share = n > 0 ? total_of(report, "lCpuThrottledPeriods") / n : NAN;

        if (set_throttled(limit, share, total_of(report, "lCpuThrottledTimeNs") / 1e9,
                          periods ? periods->stat.weight : NAN, infp_report_mean(report, "lCpuQuota")))
                return;
        if (groups && groups->stat.n)
                infp_limit_set(limit, INFP_LIMIT_FREE, NAN,
                               "none set on the target's control group or on its visible parents");
        else
                find_in_containers(report, limit);
}

/* One busy thread uses at most one CPU, however many there are. */
static bool is_one_thread(const struct infp_report *report, double used, double allowed)
{
        return allowed >= 2 && used >= 0.9 && used <= 1.05 && report->processes.n &&
               report->processes.list[0].cpu_s / report->wall_s >= 0.85;
}

static bool is_thread_full(const struct infp_report *report, double allowed)
{
        return allowed >= 2 && report->functions.busy.thread_s / report->wall_s >= cpu_reached;
}

/* By samples, else by processes with a single thread; otherwise it is a guess. */
static void find_one_thread(const struct infp_report *report, struct infp_limit *limit, double used, double allowed)
{
        const struct infp_busy *busy = &report->functions.busy;
        const double thread = busy->thread_s / report->wall_s;

        if (thread >= cpu_reached)
                infp_limit_set(limit, INFP_LIMIT_REACHED, thread,
                               "one thread (%lld) was busy %.0f %% of the time, by its samples, and one thread can use "
                               "one CPU; the target used %.2f of its %.4g CPUs",
                               (long long) busy->tid, fmin(100 * thread, 100), used, allowed);
        else if (infp_report_max(report, "tree_threads") <= infp_report_max(report, "tree_processes"))
                infp_limit_set(
                        limit, INFP_LIMIT_REACHED, used,
                        "the target used %.2f of its %.4g CPUs: its busiest process has one thread, which can use "
                        "one",
                        used, allowed);
        else
                infp_limit_set(limit, INFP_LIMIT_NEAR, used,
                               "the target used %.2f of its %.4g CPUs, like a program that runs one thread at a time, "
                               "such as Python with its lock (inferred; record with --cpu to see each thread)",
                               used, allowed);
        limit->is_estimated = thread >= cpu_reached || limit->state == INFP_LIMIT_NEAR;
}

/* /proc/PID/status counts the switches of a process's first thread only, not of its workers. */
static bool has_more_threads(const struct infp_report *report)
{
        return infp_report_mean(report, "tree_threads") > infp_report_mean(report, "tree_processes");
}

/* What the target may use. Runs of older versions have only infprof's own limits when the recording began, and containers. */
double infp_limit_cpus_allowed(const struct infp_report *report)
{
        const struct infp_report_metric *of_target = infp_report_find(report, "lEffectiveCpus");
        double allowed = report->effective_cpus;

        if (of_target && of_target->stat.n)
                return allowed;
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
                               "the machine's %.0f CPUs were %.0f %% busy%s", report->n_cpus, 100 * busy, stolen);
}

double infp_limit_run_delay_s(const struct infp_report *report)
{
        const double counted = infp_report_total(report, "tree_run_delay_ns");

        if (!isnan(counted))
                return counted;
        return report->functions.busy.has_waits ? report->functions.busy.runnable_s : NAN;
}

static double waited_share(const struct infp_report *report)
{
        const struct infp_busy *busy = &report->functions.busy;
        const double share = busy->seconds > 0 ? infp_busy_waited_s(busy) / busy->seconds : 0;

        return share >= waiting_near ? share : 0; /* less does not change the verdict */
}

void infp_limit_waiting(const struct infp_report *report, struct infp_limit *limit)
{
        const struct infp_busy *busy = &report->functions.busy;
        const double share = waited_share(report);
        char parts[160] = "";

        if (share <= 0) {
                if (busy->seconds > 0)
                        infp_limit_set(limit, INFP_LIMIT_FREE, 0, "less than %.0f %% of the CPU time was busy waiting",
                                       100 * waiting_near);
                return;
        }
        for (unsigned i = 0; i < INFP_BUSY_KINDS; i++) {
                const size_t size = strlen(parts);

                if (busy->waited_s[i] >= 0.01 * busy->seconds)
                        snprintf(parts + size, sizeof(parts) - size, "%s%s %.0f %%", size ? ", " : "",
                                 infp_busy_name(i), 100 * busy->waited_s[i] / busy->seconds);
        }
        infp_limit_set(limit, infp_limit_state_of(share, waiting_reached, waiting_near), share,
                       "%.0f %% of the target's CPU time was busy waiting, by samples: %s. These threads wait for "
                       "others: fewer threads, or work split more evenly, may be as fast",
                       100 * share, parts);
        limit->is_estimated = true;
}

void infp_limit_starved(const struct infp_report *report, const struct infp_limit *queue, struct infp_limit *cpu)
{
        const double waited = infp_limit_machine_waited(report, "cpu", false),
                     allowed = infp_limit_cpus_allowed(report), busy = infp_stat_mean(&report->cores.average) / 100,
                     used = report->tree_cpu_s / report->wall_s;

        if (queue->state != INFP_LIMIT_REACHED || (cpu->state != INFP_LIMIT_NEAR && cpu->state != INFP_LIMIT_FREE) ||
            !(waited >= waited_reached) || !(busy >= machine_full) || !(used >= wanted_reached) ||
            infp_limit_is_host(report) || !isnan(infp_limit_own_waited(report, INFP_CONTAINER_CPU_SOME)) ||
            !isnan(infp_limit_run_delay_s(report)))
                return;
        infp_limit_set(cpu, INFP_LIMIT_REACHED, used / allowed,
                       "tasks of the machine waited for a CPU %.0f %% of the time and its CPUs were %.0f %% busy, "
                       "while the target used %.2f of its %.4g and requests queued: other processes took the rest "
                       "(inferred; record with --off-cpu to measure the wait)",
                       100 * waited, 100 * busy, used, allowed);
        cpu->is_estimated = true;
}

void infp_limit_cpu(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "processes", NULL };
        const double busy = infp_stat_mean(&report->cores.average) / 100;
        const double used = report->tree_cpu_s / report->wall_s, allowed = infp_limit_cpus_allowed(report),
                     waited = waited_share(report), share = used / allowed * (1 - waited);
        const double steal = infp_report_mean(report, "vCpuSteal") / report->n_cpus;
        const double ready_s = infp_limit_run_delay_s(report), ready = ready_s / report->wall_s;
        const double own_wait = infp_limit_own_waited(report, INFP_CONTAINER_CPU_SOME),
                     put_off = infp_report_mean(report, "tree_involuntary_switches");
        char stolen[160] = "";

        if (steal >= 0.05)
                snprintf(stolen, sizeof(stolen), "; the hypervisor took %.0f %% of the machine's CPU time",
                         100 * steal);
        if (waited >= waiting_near)
                snprintf(stolen + strlen(stolen), sizeof(stolen) - strlen(stolen), "; %.0f %% of that was busy waiting",
                         100 * waited);
        if (infp_limit_is_host(report)) {
                find_host(report, limit, stolen);
                return;
        }
        if (isfinite(used) && !(allowed > 0)) {
                infp_limit_set(limit, INFP_LIMIT_NOT_CHECKED, NAN, "the target used %.2f CPUs; its limit is not known",
                               used);
                return;
        }
        if (!isfinite(used)) {
                infp_limit_set_unchecked(limit, report, collectors, "tree_cpu_ns",
                                         "the target's CPU time was not measured");
                return;
        }
        /* A control group of its own measures how long it waited. Otherwise a full machine proves nothing about a target that
         * sleeps, but a target that is preempted again and again while all CPUs are in use wants more. */
        if (share < cpu_reached && own_wait >= waited_reached)
                infp_limit_set(limit, INFP_LIMIT_REACHED, own_wait,
                               "at least one task of the target waited for a CPU %.0f %% of the time, while it used "
                               "%.2f of its %.4g CPUs%s",
                               100 * own_wait, used, allowed, stolen);
        else if (share < cpu_reached && ready >= ready_near)
                infp_limit_set(limit, ready >= waited_reached ? INFP_LIMIT_REACHED : INFP_LIMIT_NEAR, share,
                               "its threads waited for a CPU for %.1f s in total (%.2f threads on average, by the "
                               "kernel's count), while the target used %.2f of its %.4g CPUs%s",
                               ready_s, ready, used, allowed, stolen);
        else if (share < cpu_reached && isnan(own_wait) && isnan(ready) && busy >= machine_full &&
                 put_off >= put_off_near && used >= wanted_near) {
                infp_limit_set(limit,
                               put_off >= put_off_reached && used >= wanted_reached ? INFP_LIMIT_REACHED
                                                                                    : INFP_LIMIT_NEAR,
                               share,
                               "the target used %.2f of its %.4g CPUs and was preempted %.*f times a second, while the "
                               "machine's CPUs were %.0f %% busy: other processes took the rest (inferred; record with "
                               "--off-cpu to measure the wait)%s",
                               used, allowed, infp_limit_decimals(put_off), put_off, 100 * busy, stolen);
                limit->is_estimated = true;
        } else if (share < cpu_near && isnan(own_wait) && isnan(ready) && busy >= machine_full &&
                   used >= wanted_reached && has_more_threads(report)) {
                infp_limit_set(
                        limit, INFP_LIMIT_NEAR, share,
                        "the target used %.2f of its %.4g CPUs while the machine's CPUs were %.0f %% busy: its threads "
                        "may have waited for them (inferred; record with --off-cpu to measure the wait)%s",
                        used, allowed, 100 * busy, stolen);
                limit->is_estimated = true;
        } else if (share < cpu_near && waited <= 0 &&
                   (is_one_thread(report, used, allowed) || is_thread_full(report, allowed)))
                find_one_thread(report, limit, used, allowed);
        else
                infp_limit_set(limit, infp_limit_state_of(share, cpu_reached, cpu_near), share,
                               "the target used %.2f of its %.4g CPUs (%.0f %%)%s", used, allowed, 100 * used / allowed,
                               stolen);
}
