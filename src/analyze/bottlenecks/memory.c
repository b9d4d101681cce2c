/* Memory and disks. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/bottlenecks/parts.h"
#include "analyze/limits/parts.h"
#include "analyze/memory/heap.h"
#include "base/human.h"

static const double swap_least = 1 << 20; /* bytes: the kernel swaps out less even without need */
static const double faults_least = 10;    /* a second, from disk */
static const double leak_least = 1 << 20; /* bytes; the steps of systems.md 1.4 */
static const double leak_high = 10 << 20, leak_critical = 100 << 20;

enum infp_rule_answer infp_rule_oom(const struct infp_report *report, struct infp_bottleneck *ret)
{
        double killed = 0;
        bool any = false;

        for (unsigned i = 0; i < report->containers.n; i++) {
                const struct infp_container_use *use = &report->containers.list[i];
                const double n = use->is_target ? infp_container_total(use, INFP_CONTAINER_OOM_KILLS) : NAN;

                any |= !isnan(n);
                killed += isnan(n) ? 0 : n;
        }
        if (!any)
                return INFP_RULE_UNCHECKED;
        if (!(killed > 0))
                return INFP_RULE_CLEAR;
        infp_bottleneck_line(ret, "the kernel killed %s process%s of the target's control group",
                             infp_fixed(killed, 0).text, killed == 1 ? "" : "es");
        infp_bottleneck_no_share(ret, INFP_SEVERITY_CRITICAL, "what a killed process would have done is not known");
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_memory(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const enum infp_rule_answer answer = infp_bottleneck_of_limit(report, INFP_LIMIT_MEMORY, ret);
        const struct infp_limit *limit = infp_bottleneck_limit(report, INFP_LIMIT_MEMORY);
        const double own = infp_limit_own_waited(report, INFP_CONTAINER_MEMORY_SOME);

        if (answer != INFP_RULE_FOUND)
                return answer;
        if (own > 0)
                infp_bottleneck_share(ret, own, "counted by the kernel, not sampled");
        else if (limit->state == INFP_LIMIT_REACHED && !isnan(limit->share))
                infp_bottleneck_share(ret, limit->share, "counted by the kernel for the whole machine");
        if (ret->severity == INFP_SEVERITIES)
                infp_bottleneck_no_share(ret, INFP_SEVERITY_LOW,
                                         "nothing waited for memory yet, as far as was measured");
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_swap(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const double swap = infp_report_max(report, "tree_swap_bytes"),
                     faults = infp_report_mean(report, "tree_major_faults");

        if (isnan(swap) && isnan(faults))
                return INFP_RULE_UNCHECKED;
        if (!(swap >= swap_least) && !(faults >= faults_least))
                return INFP_RULE_CLEAR;
        if (swap >= swap_least)
                infp_bottleneck_line(ret, "up to %s of the target was in swap",
                                     infp_human(swap, "bytes", "", false).text);
        if (faults > 0)
                infp_bottleneck_line(ret, "it waited for a page from a disk %s times a second (major faults)",
                                     infp_number(faults).text);
        infp_bottleneck_no_share(ret,
                                 !(faults >= faults_least) ? INFP_SEVERITY_LOW
                                 : swap >= swap_least      ? INFP_SEVERITY_HIGH
                                                           : INFP_SEVERITY_MEDIUM,
                                 "the kernel counts such faults, not how long they took");
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_leak(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_heap_sums *heap = &report->heap;
        const double bytes = heap->leaked_bytes;

        if (!heap->has)
                return INFP_RULE_UNCHECKED;
        if (!(bytes > leak_least))
                return INFP_RULE_CLEAR;
        infp_bottleneck_line(ret, "%u stack%s hold%s %s that grow by %s a second%s", heap->n_leaks,
                             heap->n_leaks == 1 ? "" : "s", heap->n_leaks == 1 ? "s" : "",
                             infp_human(bytes, "bytes", "", false).text,
                             infp_human(heap->leak_rate, "bytes", "", false).text,
                             heap->is_sampled ? " (estimated from sampled blocks)" : "");
        if (*heap->place)
                infp_bottleneck_line(ret, "the fastest: %s, in %s", heap->place, heap->process);
        infp_bottleneck_no_share(ret,
                                 bytes > leak_critical ? INFP_SEVERITY_CRITICAL
                                 : bytes > leak_high   ? INFP_SEVERITY_HIGH
                                                       : INFP_SEVERITY_MEDIUM,
                                 "a leak takes memory, not time");
        ret->is_estimated = heap->is_sampled;
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_io(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const enum infp_rule_answer answer = infp_bottleneck_of_limit(report, INFP_LIMIT_IO, ret);
        const struct infp_limit *limit = infp_bottleneck_limit(report, INFP_LIMIT_IO);

        if (answer != INFP_RULE_FOUND)
                return answer;
        infp_bottleneck_share(ret, limit->share,
                              limit->is_estimated ? "counted by the kernel for the whole machine"
                                                  : "counted by the kernel, not sampled");
        if (limit->is_estimated && limit->state == INFP_LIMIT_NEAR && ret->severity < INFP_SEVERITIES)
                ret->severity = INFP_SEVERITY_LOW; /* whose wait it is is a guess */
        return INFP_RULE_FOUND;
}

static void name_fastest(const struct infp_heap *heap, const struct infp_heap_process *process,
                         const struct infp_heap_stack *stack, struct infp_heap_sums *ret)
{
        const char *function = infp_profile_str(&heap->profile, stack->place.function),
                   *file = infp_profile_str(&heap->profile, stack->place.file);

        snprintf(ret->process, sizeof(ret->process), "%.40s (%lld)", process->name ? process->name : "a process",
                 (long long) process->pid);
        snprintf(ret->place, sizeof(ret->place), "%.90s%s%.80s", function ? function : "a stack without names",
                 file ? " in " : "", file ? file : "");
}

static void add_leaks(const struct infp_heap *heap, struct infp_heap_sums *ret)
{
        double fastest = 0;

        for (uint32_t i = 0; i < heap->n_stacks; i++) {
                const struct infp_heap_stack *stack = &heap->stacks[i];

                if (stack->process >= heap->n_processes || stack->growth.verdict != INFP_HEAP_LEAK)
                        continue;
                ret->n_leaks++;
                ret->leak_rate += stack->growth.rate;
                if (stack->growth.rate > fastest) {
                        fastest = stack->growth.rate;
                        name_fastest(heap, &heap->processes[stack->process], stack, ret);
                }
        }
}

int infp_heap_sums_read(struct infp_run *run, const struct infp_range *range, struct infp_heap_sums *ret,
                        struct infp_err *err)
{
        const struct infp_heap_options options = { .range = range };
        struct infp_heap heap;
        int r;

        *ret = (struct infp_heap_sums){ 0 };
        r = infp_heap_read(run, &options, &heap, err);
        if (r == -ENODATA) {
                if (err)
                        *err->text = 0;
                return 0;
        }
        INFP_TRY(r);
        ret->has = true;
        ret->is_sampled = heap.is_sampled;
        for (uint32_t i = 0; i < heap.n_processes; i++) {
                ret->leaked_bytes += heap.processes[i].leaked_bytes;
                ret->blocks_allocated += heap.processes[i].allocated.blocks;
        }
        add_leaks(&heap, ret);
        infp_heap_done(&heap);
        return 0;
}
