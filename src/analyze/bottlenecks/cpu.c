/* CPUs: what the quota held back, what neighbours took, what the target's own threads take from each other. */
#include <math.h>

#include "analyze/bottlenecks/parts.h"
#include "analyze/limits/parts.h"
#include "base/human.h"

static const char counted[] = "counted by the kernel, not sampled";
static const double periods_least = 0.05; /* of the quota's: below that and 2 % of the time nothing is said */
static const double others_least = 0.1;   /* CPUs */
static const double machine_full = 0.8;

/* Of the target's own groups; of containers where that table is older than `limits`. */
static double throttled_s(const struct infp_report *report)
{
        double ret = infp_report_total(report, "lCpuThrottledTimeNs");

        for (unsigned i = 0; isnan(ret) && i < report->containers.n; i++)
                if (report->containers.list[i].is_target)
                        ret = infp_container_total(&report->containers.list[i], INFP_CONTAINER_THROTTLED_NS);
        return isnan(ret) ? 0 : ret;
}

enum infp_rule_answer infp_rule_throttled(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_limit *limit = infp_bottleneck_limit(report, INFP_LIMIT_THROTTLING);
        const enum infp_rule_answer answer = infp_bottleneck_of_limit(report, INFP_LIMIT_THROTTLING, ret);
        const double held = throttled_s(report), whole = fmax(infp_wanted_s(report), report->tree_cpu_s + held);

        if (answer != INFP_RULE_FOUND)
                return answer;
        infp_bottleneck_share(ret, held / whole, counted);
        if (ret->severity == INFP_SEVERITIES && limit->share >= periods_least)
                ret->severity = INFP_SEVERITY_LOW;
        infp_bottleneck_line(ret, "it used %s CPUs on average",
                             infp_fixed(report->tree_cpu_s / report->wall_s, 2).text);
        return INFP_RULE_FOUND;
}

/* How threads that were ready and had no CPU lost that time. Averages: what comes in bursts is more the target's own doing. */
struct delay {
        double all_s, own_s, others_s;
        double wanted, allowed, others; /* CPUs */
};

static bool find_delay(const struct infp_report *report, struct delay *ret)
{
        const double busy = infp_stat_mean(&report->cores.average) / 100 * report->n_cpus,
                     used = report->tree_cpu_s / report->wall_s, allowed = infp_limit_cpus_allowed(report);
        const bool is_small = infp_report_max(report, "tree_threads") <= allowed;

        *ret = (struct delay){ .all_s = infp_limit_run_delay_s(report), .allowed = allowed };
        if (isnan(ret->all_s) || isnan(used) || !(ret->allowed > 0) || infp_limit_is_host(report))
                return false;
        ret->wanted = used + ret->all_s / report->wall_s;
        ret->others = isnan(busy) ? 0 : fmax(0, busy - used);
        ret->own_s = fmin(fmax(0, ret->wanted - ret->allowed) * report->wall_s, ret->all_s);
        ret->others_s = fmax(0, ret->all_s - ret->own_s - throttled_s(report));
        /* With CPUs left over, threads waited for each other: for a moment there were more of them than CPUs. Of a target that may use
         * some CPUs alone it is not known how busy those were, and one that has fewer threads than CPUs cannot do it. */
        if (ret->others < others_least ||
            (busy < machine_full * report->n_cpus && ret->allowed >= report->n_cpus - 0.01 && !is_small)) {
                ret->own_s += is_small ? 0 : ret->others_s;
                ret->others_s = 0;
        }
        return true;
}

static enum infp_rule_answer no_delay(const struct infp_report *report, struct infp_bottleneck *ret)
{
        if (infp_limit_is_host(report))
                return infp_bottleneck_unchecked(
                        ret, "the machine is recorded, which has no neighbours; record a command, or a "
                             "process with --pid");
        return INFP_RULE_UNCHECKED;
}

static void put_delay(const struct infp_report *report, const struct delay *delay, struct infp_bottleneck *ret)
{
        infp_bottleneck_line(ret,
                             "its threads were ready without a CPU for %s in total (%s threads on average), while they "
                             "ran on %s of its %s CPUs",
                             infp_human(delay->all_s, "seconds", "s", false).text,
                             infp_fixed(delay->all_s / report->wall_s, 2).text,
                             infp_fixed(report->tree_cpu_s / report->wall_s, 2).text, infp_number(delay->allowed).text);
        ret->is_estimated = true;
}

enum infp_rule_answer infp_rule_neighbours(const struct infp_report *report, struct infp_bottleneck *ret)
{
        struct delay delay;

        if (!find_delay(report, &delay))
                return no_delay(report, ret);
        infp_bottleneck_share(ret, delay.others_s / infp_wanted_s(report),
                              "the wait is counted by the kernel; whose fault it is is told by averages");
        put_delay(report, &delay, ret);
        infp_bottleneck_line(ret, "other processes used %s of the machine's %s CPUs meanwhile",
                             infp_fixed(delay.others, 2).text, infp_fixed(report->n_cpus, 0).text);
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_saturated(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_limit *limit = infp_bottleneck_limit(report, INFP_LIMIT_CPU);
        const double used = report->tree_cpu_s / report->wall_s;
        struct delay delay;

        if (infp_limit_is_host(report) && limit && limit->state == INFP_LIMIT_REACHED) {
                infp_bottleneck_line(ret, "%s", limit->text);
                infp_bottleneck_no_share(ret, INFP_SEVERITY_MEDIUM,
                                         "how long threads waited for a CPU is known of a target only");
                return INFP_RULE_FOUND;
        }
        if (!find_delay(report, &delay))
                return infp_limit_is_host(report) ? infp_bottleneck_of_limit(report, INFP_LIMIT_CPU, ret)
                                                  : INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, delay.own_s / infp_wanted_s(report), counted);
        put_delay(report, &delay, ret);
        if (used >= 0.9 * delay.allowed) {
                infp_bottleneck_line(ret, "it used %s %% of the CPUs that it may use: more work needs more CPU",
                                     infp_fixed(100 * used / delay.allowed, 0).text);
                if (ret->severity == INFP_SEVERITIES || ret->severity < INFP_SEVERITY_MEDIUM)
                        ret->severity = INFP_SEVERITY_MEDIUM;
        }
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_one_thread(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_busy *busy = &report->functions.busy;
        const double used = report->tree_cpu_s / report->wall_s, allowed = infp_limit_cpus_allowed(report),
                     thread = busy->thread_s / report->wall_s;

        if (!(busy->seconds > 0))
                return INFP_RULE_UNCHECKED;
        if (isnan(used) || isnan(allowed))
                return infp_bottleneck_unchecked(ret, "the CPUs that the target used, or may use, are not known");
        if (!(thread >= 0.9) || !(allowed >= 2) || !(used < 0.7 * allowed))
                return INFP_RULE_CLEAR;
        infp_bottleneck_line(
                ret, "thread %lld was busy %s %% of the time, by its samples, while the target used %s of its %s CPUs",
                (long long) busy->tid, infp_fixed(fmin(100 * thread, 100), 0).text, infp_fixed(used, 2).text,
                infp_number(allowed).text);
        infp_bottleneck_no_share(ret, INFP_SEVERITY_MEDIUM, "what of it could run in other threads is not known");
        ret->is_estimated = true;
        return INFP_RULE_FOUND;
}
