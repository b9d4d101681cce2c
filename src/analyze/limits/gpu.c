/* GPUs: the busiest one, and the one whose memory was fullest. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/limits/parts.h"

static const double gpu_reached = 0.9, gpu_near = 0.7, memory_near = 0.95;

static bool is_gpu(const struct infp_report_metric *m, const char *column)
{
        return m->stat.n && !strcmp(m->name + m->prefix_size, column) &&
               (!strcmp(m->table, "nvidia") || !strcmp(m->table, "amdgpu") || !strcmp(m->table, "intel"));
}

/* All its processes are known, and none is the target's. A pid of another namespace may be the target's. */
static bool is_of_others(const struct infp_report *report, const struct infp_report_metric *m)
{
        if (!strcmp(report->run->info.mode, "host"))
                return false;
        for (unsigned i = 0; i < report->gpus.n; i++) {
                const struct infp_gpu *gpu = &report->gpus.list[i];
                bool any = false;

                if (strlen(gpu->domain) + 1 != m->prefix_size || strncmp(gpu->domain, m->name, m->prefix_size - 1))
                        continue;
                for (unsigned k = 0; k < gpu->n_processes; k++)
                        any |= gpu->processes[k].is_target || gpu->processes[k].is_host_pid;
                return gpu->n_processes && !any;
        }
        return false;
}

static void set_busy(const struct infp_report *report, const struct infp_report_metric *m, double share,
                     struct infp_limit *limit)
{
        const bool others = is_of_others(report, m);

        infp_limit_set(limit, others ? INFP_LIMIT_FREE : infp_limit_state_of(share, gpu_reached, gpu_near), share,
                       strcmp(m->table, "nvidia") ? "%.*s was busy %.0f %% of the time%s"
                                                  : "a kernel ran on %.*s %.0f %% of the time%s",
                       (int) (m->prefix_size ? m->prefix_size - 1 : 3), m->prefix_size ? m->name : "GPU", 100 * share,
                       others ? " for programs other than the target" : "");
}

/* The worse of two: by state, then by share. */
static bool is_worse(const struct infp_limit *a, const struct infp_limit *than)
{
        return a->state != than->state ? a->state < than->state : a->share > than->share;
}

static bool is_measured(const struct infp_report *report, const struct infp_gpu *gpu, const char *column)
{
        for (unsigned i = 0; i < report->n_metrics; i++) {
                const struct infp_report_metric *m = &report->metrics[i];

                if (m->prefix_size == strlen(gpu->domain) + 1 && !strncmp(m->name, gpu->domain, m->prefix_size - 1) &&
                    is_gpu(m, column))
                        return true;
        }
        return false;
}

/* Of this GPU, else of all of its driver's. */
static const char *reason_of(const struct infp_report *report, const struct infp_gpu *gpu, const char *column)
{
        const char *ret = "it has no value";

        for (unsigned i = 0; i < report->absences.n; i++) {
                const struct infp_absence *a = &report->absences.list[i];

                if (strcmp(a->collector, gpu->table) || !*a->reason ||
                    (strcmp(a->column, column) && strcmp(a->column, "*") && *a->column))
                        continue;
                if (gpu->uuid && !strcmp(a->instance, gpu->uuid))
                        return a->reason;
                if (!*a->instance)
                        ret = a->reason;
        }
        return ret;
}

/* Headroom on one GPU proves nothing about another that was not measured. */
static void add_unmeasured(const struct infp_report *report, const char *column, struct infp_limit *limit)
{
        const struct infp_gpu *without = NULL;
        unsigned n = 0;
        char more[200] = "", text[sizeof(limit->text)];

        for (unsigned i = 0; i < report->gpus.n; i++)
                if (!is_measured(report, &report->gpus.list[i], column))
                        without = n++ ? without : &report->gpus.list[i];
        if (!without || n == report->gpus.n || limit->state == INFP_LIMIT_NOT_CHECKED)
                return;
        if (n > 1)
                snprintf(more, sizeof(more), " and %u more", n - 1);
        memcpy(text, limit->text, sizeof(text));
        infp_limit_set(limit, limit->state == INFP_LIMIT_FREE ? INFP_LIMIT_NOT_CHECKED : limit->state, limit->share,
                       "%.140s; %s%s %s not measured: %.150s", text, without->domain, more, n > 1 ? "were" : "was",
                       reason_of(report, without, column));
}

void infp_limit_gpu(const struct infp_report *report, struct infp_limit *busy, struct infp_limit *memory)
{
        static const char *const collectors[] = { "nvidia", "amdgpu", "intel", NULL };
        unsigned n = 0;

        infp_limit_set_unchecked(busy, report, collectors, NULL, "no GPU was recorded");
        infp_limit_set_unchecked(memory, report, collectors, NULL, "no GPU was recorded");
        for (unsigned i = 0; i < report->n_metrics; i++) {
                const struct infp_report_metric *m = &report->metrics[i];

                if (is_gpu(m, "gUtilizationGpu")) {
                        struct infp_limit one = *busy;

                        n++;
                        set_busy(report, m, infp_stat_mean(&m->stat) / 100, &one);
                        if (is_worse(&one, busy))
                                *busy = one;
                }
                for (unsigned k = 0; is_gpu(m, "gMemoryUsedBytes") && k < report->n_metrics; k++) {
                        const struct infp_report_metric *t = &report->metrics[k];
                        const bool is_same = t->prefix_size == m->prefix_size &&
                                             !memcmp(t->name, m->name, m->prefix_size) &&
                                             is_gpu(t, "gMemoryTotalBytes");
                        const double share = is_same && t->stat.max > 0 ? m->stat.max / t->stat.max : NAN;

                        if (!isnan(share) && (memory->state == INFP_LIMIT_NOT_CHECKED || share > memory->share))
                                infp_limit_set(memory, infp_limit_state_of(share, INFINITY, memory_near), share,
                                               "%.1f of %.1f GiB of %.*s were in use", m->stat.max / (1 << 30),
                                               t->stat.max / (1 << 30), (int) (m->prefix_size ? m->prefix_size - 1 : 3),
                                               m->prefix_size ? m->name : "GPU");
                }
        }
        if (n > 1 && busy->state != INFP_LIMIT_NOT_CHECKED) {
                const size_t used = strlen(busy->text);

                snprintf(busy->text + used, sizeof(busy->text) - used, ", the busiest of %u", n);
        }
        add_unmeasured(report, "gUtilizationGpu", busy);
        add_unmeasured(report, "gMemoryUsedBytes", memory);
}
