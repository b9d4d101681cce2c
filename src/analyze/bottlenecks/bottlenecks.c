#include "analyze/bottlenecks/bottlenecks.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/bottlenecks/parts.h"
#include "analyze/limits/parts.h"
#include "analyze/profile/flame_top.h"
#include "base/mem.h"
#include "base/sort.h"

/* systems.md 1.4, of a function's share of the samples: above 5 % it is a hotspot. */
const double infp_hotspot_steps[INFP_SEVERITIES] = { 0.05, 0.05, 0.1, 0.2 };

static const char *const names[] = { "low", "medium", "high", "critical" };

const char *infp_severity_name(enum infp_severity severity)
{
        return severity < INFP_SEVERITIES ? names[severity] : "none";
}

int infp_severity_by_name(const char *name)
{
        for (int i = 0; i < INFP_SEVERITIES; i++)
                if (!strcmp(names[i], name))
                        return i;
        return -ENOENT;
}

enum infp_severity infp_severity_of(double share, const double *steps)
{
        int i = INFP_SEVERITIES;

        while (i > 0 && !(share >= steps[i - 1]))
                i--;
        return i > 0 ? (enum infp_severity)(i - 1) : INFP_SEVERITIES;
}

void infp_bottleneck_line(struct infp_bottleneck *finding, const char *format, ...)
{
        va_list ap;

        if (finding->n_lines == INFP_BOTTLENECK_LINES) /* bound: of many GPUs or engines, the first */
                return;
        va_start(ap, format);
        vsnprintf(finding->lines[finding->n_lines++], sizeof(finding->lines[0]), format, ap);
        va_end(ap);
}

void infp_bottleneck_share(struct infp_bottleneck *finding, double share, const char *no_interval)
{
        finding->share = fmin(share, 1);
        finding->no_share = NULL;
        finding->no_interval = no_interval;
        finding->severity = infp_severity_of(share, finding->rule->steps);
}

void infp_bottleneck_sampled(struct infp_bottleneck *finding, double part, double whole, double effective, double scale)
{
        const double n = round(effective), k = round(n * part / whole);
        double low, high;

        infp_bottleneck_share(finding, part / whole * scale, "too few samples");
        if (!isfinite(n) || n < 1 || k < 0 || k > n)
                return;
        infp_flame_interval((uint64_t) k, (uint64_t) n, &low, &high);
        finding->low = fmin(low / 100 * scale, 1);
        finding->high = fmin(high / 100 * scale, 1);
        finding->no_interval = NULL;
        finding->is_estimated = true;
}

void infp_bottleneck_no_share(struct infp_bottleneck *finding, enum infp_severity severity, const char *why)
{
        finding->share = NAN;
        finding->severity = severity;
        finding->no_share = finding->no_interval = why;
}

void infp_bottleneck_places(struct infp_bottleneck *finding, const struct infp_strings *strings,
                            const struct infp_profile_places *places, double whole)
{
        /* bound: those that took most; the finding has the sum */
        for (uint32_t i = 0; i < places->n && finding->n_places < INFP_BOTTLENECK_PLACES; i++) {
                const struct infp_profile_place *place = &places->list[i];

                finding->places[finding->n_places++] = (struct infp_bottleneck_place){
                        .function = infp_strings_get(strings, place->function),
                        .file = infp_strings_get(strings, place->file),
                        .line = place->line,
                        .share = whole > 0 ? place->seconds / whole : NAN,
                };
        }
}

enum infp_rule_answer infp_bottleneck_unchecked(struct infp_bottleneck *finding, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        vsnprintf(finding->reason, sizeof(finding->reason), format, ap);
        va_end(ap);
        return INFP_RULE_UNCHECKED;
}

const struct infp_limit *infp_bottleneck_limit(const struct infp_report *report, enum infp_limit_resource resource)
{
        for (unsigned i = 0; i < report->limits.n; i++)
                if (report->limits.list[i].resource == resource)
                        return &report->limits.list[i];
        return NULL;
}

enum infp_rule_answer infp_bottleneck_of_limit(const struct infp_report *report, enum infp_limit_resource resource,
                                               struct infp_bottleneck *ret)
{
        const struct infp_limit *limit = infp_bottleneck_limit(report, resource);

        if (!limit)
                return INFP_RULE_UNCHECKED;
        if (limit->state == INFP_LIMIT_NOT_CHECKED)
                return infp_bottleneck_unchecked(ret, "%s", limit->text);
        if (limit->state == INFP_LIMIT_FREE)
                return INFP_RULE_CLEAR;
        ret->is_estimated = limit->is_estimated;
        infp_bottleneck_line(ret, "%s", limit->text);
        return INFP_RULE_FOUND;
}

double infp_gil_waited_s(const struct infp_report *report)
{
        double ret = 0;

        if (!report->gil.n)
                return NAN;
        for (uint32_t i = 0; i < report->gil.n; i++)
                ret += report->gil.list[i].seconds[INFP_GIL_WAITED];
        return ret;
}

double infp_wanted_s(const struct infp_report *report)
{
        const double parts[] = { report->tree_cpu_s, infp_limit_run_delay_s(report), infp_gil_waited_s(report),
                                 report->functions.code.of[INFP_CODE_LOCK].seconds };
        double sum = 0;

        for (unsigned i = 0; i < INFP_COUNT(parts); i++)
                sum += isnan(parts[i]) ? 0 : parts[i];
        return fmax(sum, report->wall_s);
}

/* Why it was not checked: as the rule itself says, as `sources` says, else what to record. */
static void explain(const struct infp_report *report, const struct infp_rule *rule, struct infp_bottleneck *f)
{
        for (const char *const *collector = rule->collectors; collector && *collector && !*f->reason; collector++)
                for (unsigned i = 0; i < report->absences.n && !*f->reason; i++) {
                        const struct infp_absence *a = &report->absences.list[i];

                        if (!strcmp(a->collector, *collector) && *a->reason && (!*a->column || *a->column == '*'))
                                snprintf(f->reason, sizeof(f->reason), "%s", a->reason);
                }
        if (!*f->reason)
                snprintf(f->reason, sizeof(f->reason), "%s", rule->unchecked);
}

/* What a broken table had is not known, whatever else there is. */
static bool is_broken(const struct infp_report *report, struct infp_bottleneck *f)
{
        for (unsigned i = 0; i < report->n_broken; i++)
                if (!strcmp(report->broken[i].table, f->rule->table)) {
                        snprintf(f->reason, sizeof(f->reason), "table %.60s cannot be read: %.220s",
                                 report->broken[i].table, report->broken[i].message);
                        return true;
                }
        return false;
}

static int by_badness(const void *a, const void *b)
{
        const struct infp_bottleneck *x = a, *y = b;
        const double u = isnan(x->share) ? -1 : x->share, v = isnan(y->share) ? -1 : y->share;

        if (x->severity != y->severity)
                return x->severity > y->severity ? -1 : 1;
        if (u != v)
                return u > v ? -1 : 1;
        return x->rule < y->rule ? -1 : x->rule > y->rule; /* a cause before what it explains */
}

static bool explains(const struct infp_bottleneck *cause, const struct infp_bottleneck *f)
{
        for (unsigned i = 0; i < INFP_RULE_CAUSES && f->rule->causes[i]; i++)
                if (!strcmp(f->rule->causes[i], cause->rule->id))
                        return true;
        return false;
}

/* The worst of what may explain it; a low finding explains nothing that is worse. */
static const struct infp_bottleneck *cause_of(const struct infp_bottleneck *list, unsigned n,
                                              const struct infp_bottleneck *f)
{
        for (unsigned i = 0; i < n; i++)
                if (&list[i] != f && explains(&list[i], f) &&
                    (list[i].severity >= INFP_SEVERITY_MEDIUM || list[i].severity >= f->severity))
                        return &list[i];
        return NULL;
}

/* Puts each after what explains it. list is sorted, and `ret` has room; causes point into ret. */
static unsigned put_with_consequences(const struct infp_bottleneck *list, unsigned n,
                                      const struct infp_bottleneck *cause, const struct infp_bottleneck *placed,
                                      struct infp_bottleneck *ret, unsigned at)
{
        for (unsigned i = 0; i < n; i++) {
                const unsigned mine = at;

                if (list[i].cause != cause)
                        continue;
                ret[at] = list[i];
                ret[at++].cause = placed;
                at = put_with_consequences(list, n, &list[i], &ret[mine], ret, at);
        }
        return at;
}

static int order(struct infp_bottleneck *list, unsigned n, struct infp_bottlenecks *ret)
{
        unsigned at;

        ret->list = calloc((size_t) n + 1, sizeof(*ret->list));
        if (!ret->list)
                return -ENOMEM;
        infp_sort(list, n, sizeof(*list), by_badness);
        for (unsigned i = 0; i < n; i++)
                list[i].cause = cause_of(list, n, &list[i]);
        at = put_with_consequences(list, n, NULL, NULL, ret->list, 0);
        assert(at == n); /* rules.c: causes make no circle */
        ret->n = at;
        return 0;
}

static int apply(const struct infp_report *report, struct infp_bottleneck *found, struct infp_bottlenecks *ret)
{
        unsigned n = 0;

        for (const struct infp_rule *rule = infp_rules; rule->id; rule++) {
                struct infp_bottleneck f = {
                        .rule = rule, .share = NAN, .low = NAN, .high = NAN, .severity = INFP_SEVERITIES
                };

                switch (is_broken(report, &f) ? INFP_RULE_UNCHECKED : rule->find(report, &f)) {
                case INFP_RULE_FOUND:
                        if (f.severity < INFP_SEVERITIES)
                                found[n++] = f;
                        else
                                ret->clear[ret->n_clear++] = rule;
                        break;
                case INFP_RULE_CLEAR:
                        ret->clear[ret->n_clear++] = rule;
                        break;
                case INFP_RULE_UNCHECKED:
                        explain(report, rule, &f);
                        ret->unchecked[ret->n_unchecked++] = f;
                        break;
                }
        }
        return order(found, n, ret);
}

static int by_share(const void *a, const void *b)
{
        const struct infp_hotspot *x = a, *y = b;

        return x->share != y->share ? (x->share > y->share ? -1 : 1) : strcmp(x->function->name, y->function->name);
}

static int find_hotspots(const struct infp_flame *flame, struct infp_bottlenecks *ret)
{
        for (uint32_t i = 0; i < flame->n_functions; i++) {
                const struct infp_flame_function *f = &flame->functions[i];
                const struct infp_flame_share share = infp_flame_share(flame, f->self_weight);

                if (f->is_group || !(share.percent / 100 > infp_hotspot_steps[0]))
                        continue;
                if (!INFP_ONE_MORE(ret->hotspots, ret->n_hotspots))
                        return -ENOMEM;
                ret->hotspots[ret->n_hotspots++] =
                        (struct infp_hotspot){ .function = f,
                                               .severity = infp_severity_of(share.percent / 100, infp_hotspot_steps),
                                               .share = fmin(share.percent / 100, 1),
                                               .low = share.low / 100,
                                               .high = share.high / 100 };
        }
        infp_sort(ret->hotspots, ret->n_hotspots, sizeof(*ret->hotspots), by_share);
        return 0;
}

int infp_bottlenecks_find(const struct infp_report *report, uint64_t min_samples, struct infp_bottlenecks *ret)
{
        const struct infp_report_functions *functions = &report->functions;
        infp_autofree struct infp_bottleneck *found = NULL;
        size_t n = 0;
        int r = 0;

        *ret = (struct infp_bottlenecks){ 0 };
        while (infp_rules[n].id)
                n++;
        found = calloc(n + 1, sizeof(*found));
        ret->unchecked = calloc(n + 1, sizeof(*ret->unchecked));
        ret->clear = calloc(n + 1, sizeof(*ret->clear));
        r = found && ret->unchecked && ret->clear ? apply(report, found, ret) : -ENOMEM;
        for (unsigned i = 0; r >= 0 && i < functions->n; i++)
                if (infp_stack_mode_of(functions->flames[i].mode) == INFP_STACK_CPU &&
                    functions->flames[i].samples >= min_samples)
                        r = find_hotspots(&functions->flames[i], ret);
        if (r < 0)
                infp_bottlenecks_done(ret);
        return r;
}

void infp_bottlenecks_done(struct infp_bottlenecks *findings)
{
        free(findings->list);
        free(findings->unchecked);
        free(findings->clear);
        free(findings->hotspots);
        *findings = (struct infp_bottlenecks){ 0 };
}

void infp_rule_query(struct infp_str *out, const struct infp_rule *rule, const struct infp_report *report)
{
        const char *at = rule->sql;

        for (const char *open; (open = strchr(at, '{')); at = strchr(open, '}') + 1) {
                infp_str_put(out, at, (size_t) (open - at));
                if (!strncmp(open, "{gpus}", 6))
                        infp_str_puts(out, report && report->gpus.n ? report->gpus.list[0].table : infp_gpu_tables[0]);
                else if (report && report->is_part)
                        infp_str_printf(out, " %s t_ns >= %llu AND t_ns < %llu",
                                        strncmp(open, "{where}", 7) ? "AND" : "WHERE",
                                        (unsigned long long) report->range.t0, (unsigned long long) report->range.t1);
        }
        infp_str_puts(out, at);
}
