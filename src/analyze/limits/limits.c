#include "analyze/limits/limits.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/limits/parts.h"
#include "base/mem.h"

const char *infp_limit_resource_name(enum infp_limit_resource resource)
{
        static const char *const names[] = {
                [INFP_LIMIT_THROTTLING] = "CPU quota",
                [INFP_LIMIT_MEMORY] = "memory",
                [INFP_LIMIT_GPU] = "GPU",
                [INFP_LIMIT_GPU_MEMORY] = "GPU memory",
                [INFP_LIMIT_WAITING] = "busy waiting",
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

const char *infp_limit_state_words(enum infp_limit_state state)
{
        return state == INFP_LIMIT_FREE ? "headroom" : infp_limit_state_name(state);
}

void infp_limit_set(struct infp_limit *limit, enum infp_limit_state state, double share, const char *format, ...)
{
        va_list ap;

        limit->state = state;
        limit->share = share;
        va_start(ap, format);
        vsnprintf(limit->text, sizeof(limit->text), format, ap);
        va_end(ap);
}

enum infp_limit_state infp_limit_state_of(double v, double reached, double near)
{
        return v >= reached ? INFP_LIMIT_REACHED : v >= near ? INFP_LIMIT_NEAR : INFP_LIMIT_FREE;
}

void infp_limit_set_unchecked(struct infp_limit *limit, const struct infp_report *report, const char *const *collectors,
                              const char *column, const char *otherwise)
{
        for (; *collectors; collectors++)
                for (unsigned i = 0; i < report->absences.n; i++) {
                        const struct infp_absence *a = &report->absences.list[i];
                        const bool is_of_it =
                                !*a->column || !strcmp(a->column, "*") || (column && !strcmp(a->column, column));

                        if (!strcmp(a->collector, *collectors) && is_of_it && *a->reason) {
                                infp_limit_set(limit, INFP_LIMIT_NOT_CHECKED, NAN, "%s", a->reason);
                                return;
                        }
                }
        infp_limit_set(limit, INFP_LIMIT_NOT_CHECKED, NAN, "%s", otherwise);
}

int infp_limit_decimals(double v)
{
        return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

bool infp_limit_is_host(const struct infp_report *report)
{
        return !strcmp(report->run->info.mode, "host");
}

/* Only the target is in it, so its figures are the target's. */
static bool is_own(const struct infp_container_use *use)
{
        const struct infp_stat *others = &use->stat[INFP_CONTAINER_OTHERS];

        return others->n && others->max <= 0;
}

double infp_limit_own_waited(const struct infp_report *report, enum infp_container_figure figure)
{
        double most = NAN;

        for (unsigned i = 0; i < report->containers.n; i++) {
                const struct infp_container_use *use = &report->containers.list[i];

                if (use->is_target && is_own(use))
                        most = fmax(most, infp_container_waited(use, figure)); /* fmax ignores NAN */
        }
        return most;
}

double infp_limit_machine_waited(const struct infp_report *report, const char *resource, bool full)
{
        for (unsigned i = 0; i < report->containers.n_pressure; i++)
                if (!strcmp(report->containers.pressure[i].resource, resource))
                        return infp_pressure_waited(&report->containers.pressure[i], full);
        return NAN;
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

bool infp_limit_repeats(const struct infp_limits *limits, unsigned i)
{
        const struct infp_limit *l = &limits->list[i];

        return i && l->resource == INFP_LIMIT_GPU_MEMORY && l->state == INFP_LIMIT_NOT_CHECKED &&
               l[-1].resource == INFP_LIMIT_GPU && l[-1].state == INFP_LIMIT_NOT_CHECKED &&
               !strcmp(l->text, l[-1].text);
}

static void list_names(struct infp_limits *limits, const char *words, enum infp_limit_state state, unsigned from)
{
        bool any = false;

        for (unsigned i = from; i < limits->n; i++)
                if (limits->list[i].state == state && !infp_limit_repeats(limits, i)) {
                        add_words(limits, "%s%s", any ? ", " : words,
                                  infp_limit_resource_name(limits->list[i].resource));
                        any = true;
                }
        if (any)
                add_words(limits, ".");
}

static void write_headline(const struct infp_report *report, struct infp_limits *limits)
{
        const struct infp_limit *first = &limits->list[0];
        const bool is_mass = first->resource == INFP_LIMIT_MEMORY || first->resource == INFP_LIMIT_GPU_MEMORY ||
                             first->resource == INFP_LIMIT_IO || first->resource == INFP_LIMIT_WAITING;
        const char *name = infp_limit_resource_name(first->resource), *the = is_mass ? "" : "the ";

        if (report->run->info.exit_signal)
                add_words(limits, "The command was killed by signal %d (%s). ", report->run->info.exit_signal,
                          strsignal(report->run->info.exit_signal));
        if (first->state == INFP_LIMIT_REACHED) {
                add_words(limits, "Limited by %s%s: %s.", the, name, first->text);
                list_names(limits, " Also at the limit: ", INFP_LIMIT_REACHED, 1);
        } else if (first->state == INFP_LIMIT_NEAR) {
                add_words(limits, "No checked resource reached its limit; %s%s came near: %s.", the, name, first->text);
                list_names(limits, " Also near: ", INFP_LIMIT_NEAR, 1);
        } else if (first->state == INFP_LIMIT_FREE) {
                add_words(limits, "No checked resource reached its limit.");
        } else {
                add_words(limits, "What limited the run is not known.");
        }
        list_names(limits, " Not checked: ", INFP_LIMIT_NOT_CHECKED, 0);
}

void infp_limits_find(const struct infp_report *report, struct infp_limits *ret)
{
        struct infp_limit found[INFP_LIMIT_RESOURCES] = { 0 };

        *ret = (struct infp_limits){ 0 };
        if (!strcmp(report->run->info.mode, "load") || !strcmp(report->run->info.mode, "import"))
                return;
        for (unsigned i = 0; i < INFP_LIMIT_RESOURCES; i++)
                found[i].resource = i;
        infp_limit_throttling(report, &found[INFP_LIMIT_THROTTLING]);
        infp_limit_memory(report, &found[INFP_LIMIT_MEMORY]);
        infp_limit_gpu(report, &found[INFP_LIMIT_GPU], &found[INFP_LIMIT_GPU_MEMORY]);
        infp_limit_cpu(report, &found[INFP_LIMIT_CPU]);
        infp_limit_io(report, &found[INFP_LIMIT_IO]);
        infp_limit_engine(report, &found[INFP_LIMIT_QUEUE], &found[INFP_LIMIT_CACHE]);
        infp_limit_waiting(report, &found[INFP_LIMIT_WAITING]);
        infp_limit_starved(report, &found[INFP_LIMIT_QUEUE], &found[INFP_LIMIT_CPU]);
        for (int state = INFP_LIMIT_REACHED; state <= INFP_LIMIT_NOT_CHECKED; state++)
                for (unsigned i = 0; i < INFP_LIMIT_RESOURCES; i++)
                        if ((int) found[i].state == state && *found[i].text) /* samples may give no finding */
                                ret->list[ret->n++] = found[i];
        write_headline(report, ret);
}
