/* GPUs: held down, idle, full, and their link. Of several the worst one counts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/bottlenecks/parts.h"
#include "base/human.h"
#include "base/mem.h"

static const double idle_below = 0.5, idle_high = 0.2, used_least = 0.01; /* systems.md 1.4: mean use */
static const double memory_high = 0.85, memory_critical = 0.95;           /* likewise, of its memory */
enum { ROWS_LEAST = 10 };

/* Another program's GPU is no business of the target. A pid of another namespace may be the target's. */
static bool is_of_target(const struct infp_report *report, const struct infp_gpu *gpu)
{
        bool any = !strcmp(report->run->info.mode, "host") || !gpu->n_processes;

        for (unsigned i = 0; i < gpu->n_processes; i++)
                any |= gpu->processes[i].is_target || gpu->processes[i].is_host_pid;
        return any;
}

enum infp_rule_answer infp_rule_gpu_held(const struct infp_report *report, struct infp_bottleneck *ret)
{
        static const struct {
                enum infp_gpu_figure figure;
                const char *words;
        } by[] = { { INFP_GPU_HELD_POWER, "its power limit" },        { INFP_GPU_HELD_THERMAL, "heat" },
                   { INFP_GPU_HELD_SW_THERMAL, "heat, by software" }, { INFP_GPU_HELD_HW_THERMAL, "heat, by hardware" },
                   { INFP_GPU_HELD_HW_BRAKE, "the power supply" },    { INFP_GPU_HELD_BOARD, "a limit of the board" },
                   { INFP_GPU_HELD_RELIABILITY, "its voltage limit" } };
        double worst = NAN;

        for (unsigned i = 0; i < report->gpus.n; i++)
                for (unsigned k = 0; k < INFP_COUNT(by); k++) {
                        const struct infp_gpu *gpu = &report->gpus.list[i];
                        const double held = is_of_target(report, gpu) ? infp_gpu_held(gpu, by[k].figure) : NAN;

                        worst = fmax(worst, held);
                        if (held >= ret->rule->steps[0])
                                infp_bottleneck_line(ret, "%s: its clocks were held down by %s %s %% of the time",
                                                     gpu->domain, by[k].words, infp_fixed(100 * held, 0).text);
                }
        if (isnan(worst))
                return INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, worst, "counted by the driver, not sampled");
        return INFP_RULE_FOUND;
}

/* Requests were few: a GPU that waits for work is no bottleneck. */
static bool is_little_asked(const struct infp_report *report)
{
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];
                const struct infp_stat *running = &e->gauges[INFP_ENGINE_RUNNING],
                                       *waiting = &e->gauges[INFP_ENGINE_WAITING];

                if (running->n && infp_stat_mean(running) < 0.5 && !(waiting->n && waiting->max > 0))
                        return true;
        }
        return false;
}

enum infp_rule_answer infp_rule_gpu_idle(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_gpu *idlest = NULL;
        double least = NAN;

        for (unsigned i = 0; i < report->gpus.n; i++) {
                const struct infp_gpu *gpu = &report->gpus.list[i];
                const double used = infp_gpu_mean(gpu, INFP_GPU_USED) / 100;

                if (gpu->n_rows > ROWS_LEAST && used >= used_least && is_of_target(report, gpu) && !(used >= least)) {
                        least = used;
                        idlest = gpu;
                }
        }
        if (!report->gpus.n)
                return INFP_RULE_UNCHECKED;
        if (!idlest || !(least < idle_below) || is_little_asked(report))
                return INFP_RULE_CLEAR;
        infp_bottleneck_line(ret, "a kernel ran on %s %s %% of the time", idlest->domain,
                             infp_fixed(100 * least, 0).text);
        infp_bottleneck_share(ret, 1 - least, "the driver's own averages, whose errors are not known");
        ret->severity = least < idle_high ? INFP_SEVERITY_HIGH : INFP_SEVERITY_MEDIUM;
        return INFP_RULE_FOUND;
}

/* Engines take nearly all of it as they start, for a cache whose fill they report themselves. */
static bool has_cache(const struct infp_report *report)
{
        for (unsigned i = 0; i < report->engines.n; i++)
                if (report->engines.list[i].gauges[INFP_ENGINE_KV].n)
                        return true;
        return false;
}

enum infp_rule_answer infp_rule_gpu_memory(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_gpu *fullest = NULL;
        double most = NAN;

        for (unsigned i = 0; i < report->gpus.n; i++) {
                const struct infp_gpu *gpu = &report->gpus.list[i];
                const double share =
                        infp_gpu_most(gpu, INFP_GPU_MEMORY_USED) / infp_gpu_most(gpu, INFP_GPU_MEMORY_TOTAL);

                if (isfinite(share) && is_of_target(report, gpu) && !(share <= most)) {
                        most = share;
                        fullest = gpu;
                }
        }
        if (!fullest)
                return INFP_RULE_UNCHECKED;
        if (!(most > memory_high) || has_cache(report))
                return INFP_RULE_CLEAR;
        infp_bottleneck_line(ret, "up to %s %% of the memory of %s was in use", infp_fixed(100 * most, 0).text,
                             fullest->domain);
        infp_bottleneck_no_share(ret, most > memory_critical ? INFP_SEVERITY_CRITICAL : INFP_SEVERITY_HIGH,
                                 "full memory takes no time until something does not fit");
        return INFP_RULE_FOUND;
}

static double of_gpu(const struct infp_report *report, const struct infp_gpu *gpu, const char *column, bool most)
{
        char name[96];

        snprintf(name, sizeof(name), "%s_%s", gpu->domain, column);
        return most ? infp_report_max(report, name) : infp_report_mean(report, name);
}

/* What a link carries at most, one way, in bytes a second: lanes x transfers x coding (8b/10b, from generation 3 on 128b/130b). */
static double link_bytes(double generation, double lanes)
{
        static const double per_lane[] = { 0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9 };
        const int at = (int) generation;

        return generation >= 1 && at < (int) INFP_COUNT(per_lane) && lanes > 0 ? per_lane[at] * lanes : NAN;
}

enum infp_rule_answer infp_rule_pcie(const struct infp_report *report, struct infp_bottleneck *ret)
{
        static const char *const ways[][2] = { { "gPcieRxBytes", "gPcieRxKbps" }, { "gPcieTxBytes", "gPcieTxKbps" } };
        double worst = NAN;

        for (unsigned i = 0; i < report->gpus.n; i++)
                for (unsigned k = 0; k < INFP_COUNT(ways); k++) {
                        const struct infp_gpu *gpu = &report->gpus.list[i];
                        const double most = link_bytes(of_gpu(report, gpu, "gPcieGen", true),
                                                       of_gpu(report, gpu, "gPcieWidth", true)),
                                     counted = of_gpu(report, gpu, ways[k][0], false),
                                     rate = isnan(counted) ? of_gpu(report, gpu, ways[k][1], false) : counted,
                                     share = is_of_target(report, gpu) ? rate / most : NAN;

                        worst = fmax(worst, share);
                        if (share >= ret->rule->steps[0])
                                infp_bottleneck_line(ret, "%s moved %s %s it, %s %% of what its link can carry",
                                                     gpu->domain, infp_human(rate, "bytes", "bytes", true).text,
                                                     k ? "from" : "to", infp_fixed(100 * share, 0).text);
                }
        if (isnan(worst))
                return INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, worst, "counted by the driver, not sampled");
        return INFP_RULE_FOUND;
}
