#include "analyze/limits.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/report.h"
#include "base/mem.h"

static const double cpu_reached = 0.9, cpu_near = 0.7, machine_full = 0.9, cpu_waited_reached = 0.25;
static const double throttled_reached = 0.05;
static const double memory_waited_reached = 0.1, memory_near = 0.9;
static const double io_some_reached = 0.25, io_full_reached = 0.1, io_near = 0.05, iowait_near = 0.2;
static const double queue_reached = 1, queue_near = 0.1, cache_near = 0.95;

const char *infp_limit_resource_name(enum infp_limit_resource resource)
{
        static const char *const names[] = {
                [INFP_LIMIT_THROTTLING] = "CPU quota",
                [INFP_LIMIT_MEMORY] = "memory",
                [INFP_LIMIT_GPU] = "GPU",
                [INFP_LIMIT_GPU_MEMORY] = "GPU memory",
                [INFP_LIMIT_CPU] = "CPU",
                [INFP_LIMIT_IO] = "I/O",
                [INFP_LIMIT_CACHE] = "engine's KV cache",
                [INFP_LIMIT_QUEUE] = "engine's queue",
        };

        return names[resource];
}

const char *infp_limit_state_name(enum infp_limit_state state)
{
        static const char *const names[] = {
                [INFP_LIMIT_REACHED] = "limited",
                [INFP_LIMIT_NEAR] = "near",
                [INFP_LIMIT_FREE] = "room",
                [INFP_LIMIT_NOT_CHECKED] = "not checked",
        };

        return names[state];
}

static void set(struct infp_limit *limit, enum infp_limit_state state, double share, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
static void set(struct infp_limit *limit, enum infp_limit_state state, double share, const char *format, ...)
{
        va_list ap;

        limit->state = state;
        limit->share = share;
        va_start(ap, format);
        vsnprintf(limit->text, sizeof(limit->text), format, ap);
        va_end(ap);
}

static enum infp_limit_state state_of(double v, double reached, double near)
{
        return v >= reached ? INFP_LIMIT_REACHED : v >= near ? INFP_LIMIT_NEAR : INFP_LIMIT_FREE;
}

/* Why nothing of it was recorded, in the words of `sources`. */
static void set_unchecked(struct infp_limit *limit, const struct infp_report *report, const char *const *collectors,
                          const char *otherwise)
{
        for (; *collectors; collectors++)
                for (unsigned i = 0; i < report->absences.n; i++) {
                        const struct infp_absence *a = &report->absences.list[i];

                        if (!strcmp(a->collector, *collectors) && *a->reason) {
                                set(limit, INFP_LIMIT_NOT_CHECKED, NAN, "%s", a->reason);
                                return;
                        }
                }
        set(limit, INFP_LIMIT_NOT_CHECKED, NAN, "%s", otherwise);
}

static bool is_host(const struct infp_report *report)
{
        return !strcmp(report->run->info.mode, "host");
}

static const struct infp_container_use *target_container(const struct infp_report *report)
{
        for (unsigned i = 0; i < report->containers.n; i++)
                if (report->containers.list[i].is_target)
                        return &report->containers.list[i];
        return NULL;
}

/* Nobody but the target is in it, so that its figures are the target's. */
static bool is_own(const struct infp_container_use *use)
{
        const struct infp_stat *others = &use->stat[INFP_CONTAINER_OTHERS];

        return others->n && others->max <= 0;
}

/* Share of the time in which some task waited, of the target where that is known, else of the machine. NAN: not measured. */
static double waited(const struct infp_report *report, enum infp_container_figure some, const char *resource, bool full,
                     const char **ret_who)
{
        const struct infp_container_use *use = target_container(report);
        const double own = use && is_own(use) ? infp_container_waited(use, some + (full ? 1 : 0)) : NAN;

        *ret_who = isnan(own) ? "the machine" : "the target's control group";
        for (unsigned i = 0; isnan(own) && i < report->containers.n_pressure; i++)
                if (!strcmp(report->containers.pressure[i].resource, resource))
                        return infp_pressure_waited(&report->containers.pressure[i], full);
        return own;
}

static void find_throttling(const struct infp_report *report, struct infp_limit *limit)
{
        const struct infp_container_use *use = target_container(report);
        const double share = use ? infp_container_throttled(use) : NAN;
        static const char *const collectors[] = { "containers", NULL };

        if (isnan(share) && use) {
                set(limit, INFP_LIMIT_FREE, NAN, "no quota is set on the target's control group");
                return;
        }
        if (isnan(share)) {
                set_unchecked(limit, report, collectors, "no control group of a target was recorded");
                return;
        }
        set(limit, state_of(share, throttled_reached, 1e-9), share,
            "the target was held back in %.0f %% of the quota's periods, for %.3g s of %.3g s (%.3g CPUs "
            "allowed)",
            100 * share, infp_container_total(use, INFP_CONTAINER_THROTTLED_NS), infp_container_seconds(use),
            infp_container_cpus_allowed(use, report->n_cpus));
}

/* One busy thread can use no more than one CPU, be there a hundred: told as a guess, since threads are not told apart. */
static bool is_one_thread(const struct infp_report *report, double used, double allowed)
{
        return allowed >= 2 && used >= 0.9 && used <= 1.05 && report->processes.n &&
               report->processes.list[0].cpu_s / report->wall_s >= 0.85;
}

static void find_cpu(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "processes", "cpu", NULL };
        const double busy = infp_stat_mean(&report->cores.average) / 100;
        const double used = report->tree_cpu_s / report->wall_s, allowed = report->effective_cpus;
        const double steal = infp_report_mean(report, "vCpuSteal") / report->n_cpus;
        char stolen[80] = "";

        if (steal >= 0.05)
                snprintf(stolen, sizeof(stolen), "; the hypervisor took %.0f %% of their time", 100 * steal);
        if (is_host(report)) {
                if (isnan(busy))
                        set_unchecked(limit, report, collectors, "the machine's CPUs were not measured");
                else
                        set(limit, state_of(busy, cpu_reached, cpu_near), busy,
                            "the machine's %.0f CPUs were busy to %.0f %%%s", report->n_cpus, 100 * busy, stolen);
                return;
        }
        if (isnan(used) || !(allowed > 0)) {
                set_unchecked(limit, report, collectors, "the target's CPU time was not measured");
                return;
        }
        const struct infp_container_use *use = target_container(report);
        const double share = used / allowed,
                     own_wait = use && is_own(use) ? infp_container_waited(use, INFP_CONTAINER_CPU_SOME) : NAN;

        /* What it waited is known of a control group of its own; else that the machine was full is a hint and no more: a target
         * that sleeps lacks nothing. */
        if (share < cpu_reached && own_wait >= cpu_waited_reached)
                set(limit, INFP_LIMIT_REACHED, own_wait,
                    "some task of the target waited for a CPU %.0f %% of the time, while it used %.2f of its %.3g%s",
                    100 * own_wait, used, allowed, stolen);
        else if (share < cpu_near && isnan(own_wait) && busy >= machine_full) {
                set(limit, INFP_LIMIT_NEAR, share,
                    "the target used %.2f of its %.3g CPUs while the machine's were busy to %.0f %%: it may have "
                    "waited for "
                    "others (a guess: how long it waited was not measured)%s",
                    used, allowed, 100 * busy, stolen);
                limit->is_estimated = true;
        } else if (share < cpu_near && is_one_thread(report, used, allowed)) {
                set(limit, INFP_LIMIT_NEAR, share,
                    "the target used %.2f of its %.3g CPUs, as a program does in which one thread is always busy (a "
                    "guess: "
                    "threads were not told apart)",
                    used, allowed);
                limit->is_estimated = true;
        } else
                set(limit, state_of(share, cpu_reached, cpu_near), share,
                    "the target used %.2f of its %.3g CPUs (%.0f %%)%s", used, allowed, 100 * share, stolen);
}

static void find_memory(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "mem", NULL };
        const struct infp_container_use *use = target_container(report);
        const double killed = use ? infp_container_total(use, INFP_CONTAINER_OOM_KILLS) : NAN;
        const double machine = infp_report_max(report, "vMemoryPercent"); /* 0..1 */
        const double swap = infp_report_max(report, "tree_swap_bytes");
        const char *who;
        const double some = waited(report, INFP_CONTAINER_MEMORY_SOME, "memory", false, &who);
        bool is_limit = false;
        double peak = NAN, allowed = NAN;

        if (use) {
                peak = infp_container_memory_peak(use);
                allowed = infp_container_memory_allowed(use, NAN, &is_limit);
        }
        if (killed > 0)
                set(limit, INFP_LIMIT_REACHED, NAN,
                    "the kernel killed %.0f process%s of its control group for want of memory", killed,
                    killed == 1 ? "" : "es");
        else if (some >= memory_waited_reached)
                set(limit, INFP_LIMIT_REACHED, some, "tasks of %s waited for memory %.0f %% of the time", who,
                    100 * some);
        else if (is_limit && peak / allowed >= machine && peak >= 0)
                set(limit, state_of(peak / allowed, INFINITY, memory_near), peak / allowed,
                    "its control group's memory came to %.0f %% of the limit of %.3g GiB, file cache included",
                    100 * peak / allowed, allowed / (1 << 30));
        else if (swap > 0)
                set(limit, INFP_LIMIT_NEAR, NAN, "up to %.3g MiB of the target lay in swap", swap / (1 << 20));
        else if (!isnan(machine))
                set(limit, state_of(machine, INFINITY, memory_near), machine,
                    "the machine's memory was in use to %.0f %%%s", 100 * machine,
                    is_limit ? "" : "; no limit is set on the target");
        else
                set_unchecked(limit, report, collectors, "memory was not measured");
}

static void find_io(const struct infp_report *report, struct infp_limit *limit)
{
        static const char *const collectors[] = { "pressure", NULL };
        const double iowait = infp_report_mean(report, "vCpuTimeIOWait") / report->n_cpus;
        const char *who;
        const double some = waited(report, INFP_CONTAINER_IO_SOME, "io", false, &who),
                     full = waited(report, INFP_CONTAINER_IO_SOME, "io", true, &who);

        if (isnan(some) && isnan(iowait))
                set_unchecked(limit, report, collectors, "how long tasks waited for disks was not measured");
        else if (isnan(some))
                set(limit, state_of(iowait, INFINITY, iowait_near), iowait,
                    "the CPUs were idle %.0f %% of the time while a task waited for I/O", 100 * iowait);
        else
                set(limit, full >= io_full_reached ? INFP_LIMIT_REACHED : state_of(some, io_some_reached, io_near),
                    some, "tasks of %s waited for I/O %.1f %% of the time", who, 100 * some);
}

static bool is_gpu(const struct infp_report_metric *m, const char *column)
{
        return m->stat.n && !strcmp(m->name + m->prefix_size, column) &&
               (!strcmp(m->table, "nvidia") || !strcmp(m->table, "amdgpu") || !strcmp(m->table, "intel"));
}

/* The busiest GPU, and the one whose memory was fullest. */
static void find_gpu(const struct infp_report *report, struct infp_limit *busy, struct infp_limit *memory)
{
        static const char *const collectors[] = { "nvidia", "amdgpu", "intel", NULL };
        unsigned n = 0;

        set_unchecked(busy, report, collectors, "no GPU was recorded");
        set_unchecked(memory, report, collectors, "no GPU was recorded");
        for (unsigned i = 0; i < report->n_metrics; i++) {
                const struct infp_report_metric *m = &report->metrics[i];

                if (is_gpu(m, "gUtilizationGpu")) {
                        const double share = infp_stat_mean(&m->stat) / 100;

                        n++;
                        if (busy->state == INFP_LIMIT_NOT_CHECKED || share > busy->share)
                                set(busy, state_of(share, cpu_reached, cpu_near), share,
                                    "a kernel ran on %.*s %.0f %% of the time",
                                    (int) (m->prefix_size ? m->prefix_size - 1 : 3), m->prefix_size ? m->name : "GPU",
                                    100 * share);
                }
                for (unsigned k = 0; is_gpu(m, "gMemoryUsedBytes") && k < report->n_metrics; k++) {
                        const struct infp_report_metric *t = &report->metrics[k];
                        const bool is_same = t->prefix_size == m->prefix_size &&
                                             !memcmp(t->name, m->name, m->prefix_size) &&
                                             is_gpu(t, "gMemoryTotalBytes");
                        const double share = is_same && t->stat.max > 0 ? m->stat.max / t->stat.max : NAN;

                        if (!isnan(share) && (memory->state == INFP_LIMIT_NOT_CHECKED || share > memory->share))
                                set(memory, state_of(share, INFINITY, cache_near), share,
                                    "%.1f of %.1f GiB of %.*s were in use", m->stat.max / (1 << 30),
                                    t->stat.max / (1 << 30), (int) (m->prefix_size ? m->prefix_size - 1 : 3),
                                    m->prefix_size ? m->name : "GPU");
                }
        }
        if (n > 1 && busy->state != INFP_LIMIT_NOT_CHECKED) {
                const size_t used = strlen(busy->text);

                snprintf(busy->text + used, sizeof(busy->text) - used, ", the busiest of %u", n);
        }
}

static void find_engine(const struct infp_report *report, struct infp_limit *queue, struct infp_limit *cache)
{
        static const char *const collectors[] = { "engine", NULL };

        set_unchecked(queue, report, collectors, "no engine was found");
        set_unchecked(cache, report, collectors, "no engine was found");
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];
                const struct infp_stat *waiting = &e->gauges[INFP_ENGINE_WAITING],
                                       *running = &e->gauges[INFP_ENGINE_RUNNING], *kv = &e->gauges[INFP_ENGINE_KV];
                const double mean = infp_stat_mean(waiting), fill = kv->n ? kv->max : NAN,
                             pushed = e->counters[INFP_ENGINE_PREEMPTIONS];

                if (waiting->n && (queue->state == INFP_LIMIT_NOT_CHECKED || mean > queue->share))
                        set(queue, state_of(mean, queue_reached, queue_near), mean,
                            "%.2f requests waited on average (%.0f at most) while %.3g ran", mean, waiting->max,
                            infp_stat_mean(running));
                if (pushed > 0)
                        set(cache, INFP_LIMIT_REACHED, fill, "the engine pushed out %.0f requests for want of room",
                            pushed);
                else if (!isnan(fill) && (cache->state == INFP_LIMIT_NOT_CHECKED || fill > cache->share))
                        set(cache, state_of(fill, INFINITY, cache_near), fill, "it was full to %.0f %% at most",
                            100 * fill);
                else if (cache->state == INFP_LIMIT_NOT_CHECKED)
                        set(cache, INFP_LIMIT_NOT_CHECKED, NAN, "the engine does not say how full it is");
        }
        queue->share = NAN; /* requests are no share */
}

static void add_words(struct infp_limits *limits, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_words(struct infp_limits *limits, const char *format, ...)
{
        const size_t used = strlen(limits->headline);
        va_list ap;

        va_start(ap, format);
        vsnprintf(limits->headline + used, sizeof(limits->headline) - used, format, ap);
        va_end(ap);
}

static void list_names(struct infp_limits *limits, const char *words, enum infp_limit_state state, unsigned from)
{
        bool any = false;

        for (unsigned i = from; i < limits->n; i++)
                if (limits->list[i].state == state) {
                        add_words(limits, "%s%s", any ? ", " : words,
                                  infp_limit_resource_name(limits->list[i].resource));
                        any = true;
                }
        if (any)
                add_words(limits, ".");
}

static void write_headline(struct infp_limits *limits)
{
        const struct infp_limit *first = &limits->list[0];
        const char *name = infp_limit_resource_name(first->resource);

        if (first->state == INFP_LIMIT_REACHED) {
                add_words(limits, "Limited by the %s: %s.", name, first->text);
                list_names(limits, " Also at the limit: ", INFP_LIMIT_REACHED, 1);
        } else if (first->state == INFP_LIMIT_NEAR) {
                add_words(limits, "Nothing that was checked was at its limit; the %s came near: %s.", name,
                          first->text);
        } else if (first->state == INFP_LIMIT_FREE) {
                add_words(limits, "Nothing that was checked was at its limit.");
        } else {
                add_words(limits, "What limited the run is not known.");
        }
        list_names(limits, " Not checked: ", INFP_LIMIT_NOT_CHECKED, 0);
}

void infp_limits_find(const struct infp_report *report, struct infp_limits *ret)
{
        struct infp_limit found[INFP_LIMIT_RESOURCES] = { 0 };

        *ret = (struct infp_limits){ 0 };
        if (!strcmp(report->run->info.mode, "load"))
                return;
        for (unsigned i = 0; i < INFP_LIMIT_RESOURCES; i++)
                found[i].resource = i;
        find_throttling(report, &found[INFP_LIMIT_THROTTLING]);
        find_memory(report, &found[INFP_LIMIT_MEMORY]);
        find_gpu(report, &found[INFP_LIMIT_GPU], &found[INFP_LIMIT_GPU_MEMORY]);
        find_cpu(report, &found[INFP_LIMIT_CPU]);
        find_io(report, &found[INFP_LIMIT_IO]);
        find_engine(report, &found[INFP_LIMIT_QUEUE], &found[INFP_LIMIT_CACHE]);
        for (int state = INFP_LIMIT_REACHED; state <= INFP_LIMIT_NOT_CHECKED; state++)
                for (unsigned i = 0; i < INFP_LIMIT_RESOURCES; i++)
                        if ((int) found[i].state == state)
                                ret->list[ret->n++] = found[i];
        write_headline(ret);
}
