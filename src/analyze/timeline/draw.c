/* Makes panels from the tables: the named ones, then one for each other metric that changed. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"

struct drawing {
        struct infp_timeline *timeline;
        const struct infp_report *report;
        struct infp_tracked *tracked;
        unsigned n;
        bool **used; /* by table and column: a panel shows it */
};

/* An instance of one of the tables of a panel. */
struct chosen {
        struct infp_tracked *tracked;
        struct infp_tracked_instance *instance;
};

enum { MOST_CHOSEN = 256 };

static double scale_of(enum infp_panel_scale scale, const struct infp_report *report)
{
        const double n_cpus = isfinite(report->n_cpus) ? report->n_cpus : report->cores.n;

        if (scale == INFP_SCALE_PERCENT)
                return 100;
        return scale == INFP_SCALE_OF_CPUS ? 100 / n_cpus : 1;
}

static struct infp_bucket_stat *scaled(const struct infp_bucket_stat *buckets, unsigned n, double factor)
{
        struct infp_bucket_stat *ret = malloc(n * sizeof(*ret));

        for (unsigned i = 0; ret && i < n; i++)
                ret[i] = (struct infp_bucket_stat){ buckets[i].sum * factor, buckets[i].weight, buckets[i].min * factor,
                                                    buckets[i].max * factor };
        return ret;
}

static char *name_of(const struct chosen *chosen, bool has_several)
{
        const struct infp_tracked_instance *instance = chosen->instance;
        const char *word = chosen->tracked->about ? chosen->tracked->about->word : "";
        char *ret;
        int r;

        if (instance->number >= 0 && *word)
                r = asprintf(&ret, "%s %lld%s%s", word, (long long) instance->number, instance->label ? " " : "",
                             instance->label ? instance->label : "");
        else if (instance->label)
                r = asprintf(&ret, "%s", instance->label);
        else if (has_several)
                r = asprintf(&ret, "%s %u", chosen->tracked->table->name, instance->order);
        else
                r = asprintf(&ret, "%s", chosen->tracked->table->name);
        return r < 0 ? NULL : ret;
}

/* The track of a panel's series; NULL without values. */
static const struct infp_track *track_of(const struct chosen *chosen, const struct infp_panel_series *series,
                                         const struct infp_column **ret_column)
{
        const struct infp_tracked *tracked = chosen->tracked;
        const int at = infp_table_find(tracked->table, series->column),
                  per = series->per ? infp_table_find(tracked->table, series->per) : -1;

        if (at < 0 || (series->per && per < 0))
                return NULL;
        *ret_column = infp_table_column(tracked->table, (unsigned) at);
        if (!series->per)
                return chosen->instance->columns[at].buckets ? &chosen->instance->columns[at] : NULL;
        for (unsigned i = 0; i < tracked->n_ratios; i++)
                if (tracked->ratios[i].column == (unsigned) at && tracked->ratios[i].per == (unsigned) per)
                        return chosen->instance->ratios[i].buckets ? &chosen->instance->ratios[i] : NULL;
        return NULL;
}

/* 1: added; 0: no values. `name` NULL: the series' own. */
static int add_series(struct drawing *drawing, struct infp_timeline_panel *panel, const struct chosen *chosen,
                      const struct infp_panel_series *series, const char *name, const char *instance)
{
        const struct infp_column *column = NULL;
        const struct infp_track *track = track_of(chosen, series, &column);
        const double factor = (series->per ? 1
                               : column    ? column->unit->factor
                                           : 1) *
                              scale_of(series->scale, drawing->report);
        struct infp_timeline_series *to;

        if (!track || !isfinite(factor))
                return 0;
        to = infp_timeline_add_series(panel);
        if (!to)
                return -ENOMEM;
        to->name = strdup(name ? name : series->name);
        if (asprintf(&to->metric, series->per ? "%s / %s" : "%s", series->column, series->per) < 0)
                to->metric = NULL;
        to->table = strdup(chosen->tracked->table->name);
        to->help = strdup(column->help ? column->help : "");
        to->instance = instance ? strdup(instance) : NULL;
        to->quality = series->per ? INFP_DERIVED : column->quality;
        to->is_rate = !series->per && column->kind == INFP_COUNTER;
        to->is_ratio = series->per != NULL;
        to->buckets = scaled(track->buckets, drawing->timeline->grid.n, factor);
        if (!to->name || !to->metric || !to->table || !to->help || (instance && !to->instance) || !to->buckets)
                return -ENOMEM;
        return 1;
}

static double limit_of(const struct drawing *drawing, const struct chosen *chosen, const struct infp_panel_limit *limit)
{
        const int at = infp_table_find(chosen->tracked->table, limit->column);
        const struct infp_track *track = at >= 0 ? &chosen->instance->columns[at] : NULL;

        if (!track || !track->has_last || track->last <= 0)
                return NAN;
        return track->last * infp_table_column(chosen->tracked->table, (unsigned) at)->unit->factor *
               scale_of(limit->scale, drawing->report);
}

/* Limits from the report: the CPUs and the memory that the target may use. */
static int add_report_limits(const struct drawing *drawing, struct infp_timeline_panel *panel, const char *id)
{
        const struct infp_report *report = drawing->report;

        if (!strcmp(id, "tree-cpu") && isfinite(report->effective_cpus))
                return infp_timeline_add_limit(panel, "available CPUs", 100 * report->effective_cpus);
        if (!strcmp(id, "tree-memory") && isfinite(report->memory_limit_bytes) && report->memory_limit_bytes > 0)
                return infp_timeline_add_limit(panel, "limit", report->memory_limit_bytes);
        if (!strcmp(id, "host-load") && isfinite(report->n_cpus))
                return infp_timeline_add_limit(panel, "CPUs", report->n_cpus);
        return 0;
}

static struct infp_timeline_panel *begin_panel(struct drawing *drawing, const struct infp_panel *def, const char *what,
                                               unsigned number)
{
        struct infp_timeline_panel *panel = infp_timeline_add_panel(drawing->timeline);

        if (!panel)
                return NULL;
        panel->group = def->group;
        panel->unit = def->unit;
        panel->kind = def->kind;
        panel->max = def->max;
        if (asprintf(&panel->id, number ? "%s-%u" : "%s", def->id, number) < 0)
                panel->id = NULL;
        if (asprintf(&panel->title, what ? "%s · %s" : "%s", def->title, what) < 0)
                panel->title = NULL;
        panel->note = def->note ? strdup(def->note) : NULL;
        return panel->id && panel->title && (panel->note || !def->note) ? panel : NULL;
}

static void drop_if_empty(struct infp_timeline *timeline)
{
        if (!timeline->panels[timeline->n_panels - 1].n_series)
                infp_timeline_panel_done(&timeline->panels[--timeline->n_panels]);
}

static int draw_each(struct drawing *drawing, const struct infp_panel *def, const struct chosen *chosen, unsigned n)
{
        const unsigned shown = n < def->shown ? n : def->shown;

        for (unsigned k = 0; k < shown; k++) {
                const bool is_named = def->shape == INFP_PANEL_EACH && (n > 1 || !strcmp(def->group, "container"));
                infp_autofree char *name = def->shape == INFP_PANEL_EACH ? name_of(&chosen[k], n > 1) : NULL;
                struct infp_timeline_panel *panel = begin_panel(drawing, def, is_named ? name : NULL, k);

                if (!panel || (def->shape == INFP_PANEL_EACH && !name))
                        return -ENOMEM;
                for (unsigned i = 0; i < INFP_PANEL_SERIES && def->series[i].column; i++)
                        INFP_TRY(add_series(drawing, panel, &chosen[k], &def->series[i], NULL, name));
                for (unsigned i = 0; i < INFP_PANEL_LIMITS && def->limits[i].name; i++) {
                        const double value = limit_of(drawing, &chosen[k], &def->limits[i]);

                        if (isfinite(value))
                                INFP_TRY(infp_timeline_add_limit(panel, def->limits[i].name, value));
                }
                INFP_TRY(add_report_limits(drawing, panel, def->id));
                drop_if_empty(drawing->timeline);
        }
        return 0;
}

/* One line if all have the same limit; a line each for a few that differ. */
static int add_limits_across(struct drawing *drawing, const struct infp_panel *def, struct infp_timeline_panel *panel,
                             const struct chosen *chosen, unsigned n)
{
        for (unsigned i = 0; i < INFP_PANEL_LIMITS && def->limits[i].name; i++) {
                const double first = limit_of(drawing, &chosen[0], &def->limits[i]);
                bool are_equal = true;

                for (unsigned k = 1; k < n; k++)
                        are_equal &= limit_of(drawing, &chosen[k], &def->limits[i]) == first;
                if (are_equal && isfinite(first))
                        INFP_TRY(infp_timeline_add_limit(panel, def->limits[i].name, first));
                for (unsigned k = 0; k < n && n <= 4 && !are_equal; k++) {
                        const double value = limit_of(drawing, &chosen[k], &def->limits[i]);
                        infp_autofree char *name = name_of(&chosen[k], true), *text = NULL;

                        if (!name || asprintf(&text, "%s, %s", def->limits[i].name, name) < 0)
                                return -ENOMEM;
                        if (isfinite(value))
                                INFP_TRY(infp_timeline_add_limit(panel, text, value));
                }
        }
        return 0;
}

static int draw_across(struct drawing *drawing, const struct infp_panel *def, const struct chosen *chosen, unsigned n)
{
        const unsigned shown = n < def->shown ? n : def->shown;
        struct infp_timeline_panel *panel = begin_panel(drawing, def, NULL, 0);

        if (!panel)
                return -ENOMEM;
        for (unsigned k = 0; k < shown; k++) {
                infp_autofree char *name = name_of(&chosen[k], n > 1);

                if (!name)
                        return -ENOMEM;
                /* The first column that has values. */
                for (unsigned i = 0, has = 0; i < INFP_PANEL_SERIES && def->series[i].column && !has; i++) {
                        const int r = add_series(drawing, panel, &chosen[k], &def->series[i], name, name);

                        INFP_TRY(r);
                        has = (unsigned) r;
                }
        }
        panel->left_out = n - shown;
        INFP_TRY(add_limits_across(drawing, def, panel, chosen, shown));
        drop_if_empty(drawing->timeline);
        return 0;
}

static void mark_used(struct drawing *drawing, const struct infp_panel *def, const struct infp_tracked *tracked)
{
        for (unsigned i = 0; i < INFP_PANEL_SERIES && def->series[i].column; i++) {
                const int at = infp_table_find(tracked->table, def->series[i].column);

                if (at >= 0 && !def->series[i].per)
                        drawing->used[tracked - drawing->tracked][at] = true;
        }
}

/* Most interfaces, disks and containers are idle: a line at 0 is left out, except the first. */
static bool is_idle(const struct drawing *drawing, const struct infp_tracked *tracked, unsigned instance)
{
        const int rank =
                tracked->about && tracked->about->rank ? infp_table_find(tracked->table, tracked->about->rank) : -1;

        return rank >= 0 && instance > 0 && !tracked->instances[instance].is_first &&
               !(infp_buckets_mean(tracked->instances[instance].columns[rank].buckets, drawing->timeline->grid.n) > 0);
}

static unsigned choose(struct drawing *drawing, const struct infp_panel *def, struct chosen *chosen)
{
        unsigned n = 0;

        for (unsigned i = 0; i < drawing->n * INFP_PANEL_TABLES; i++) {
                struct infp_tracked *tracked = &drawing->tracked[i % drawing->n];
                const char *table = def->tables[i / drawing->n];

                for (unsigned k = 0; table && !strcmp(tracked->table->name, table) && k < tracked->n_instances; k++)
                        /* bound: tables of a panel times instances that are tracked; those beyond are counted there */
                        if (n < MOST_CHOSEN && !is_idle(drawing, tracked, k))
                                chosen[n++] = (struct chosen){ tracked, &tracked->instances[k] };
        }
        return n;
}

static int draw(struct drawing *drawing, const struct infp_panel *def)
{
        struct chosen chosen[MOST_CHOSEN];
        const unsigned n = choose(drawing, def, chosen);

        if (!n || n < def->least || (def->most && n > def->most))
                return 0;
        for (unsigned k = 0; k < n; k++)
                mark_used(drawing, def, chosen[k].tracked);
        return def->shape == INFP_PANEL_ACROSS ? draw_across(drawing, def, chosen, n)
                                               : draw_each(drawing, def, chosen, n);
}

/* The unit of a plain metric: its base unit; seconds per second as a share. */
static const char *unit_of(const struct infp_column *c)
{
        const bool is_rate = c->kind == INFP_COUNTER;
        static const struct {
                const char *base, *level, *rate;
        } words[] = {
                { "bytes", "bytes", "bytes/s" }, { "seconds", "s", "%" },
                { "joules", "J", "W" },          { "watts", "W", "/s" },
                { "celsius", "C", "/s" },        { "hertz", "Hz", "/s" },
                { "tokens", "", "tokens/s" },    { "bytes_per_second", "bytes/s", "/s" },
        };

        if (!strcmp(c->unit->name, "%") && !is_rate)
                return "%";
        for (unsigned i = 0; i < INFP_COUNT(words); i++)
                if (!strcmp(c->unit->base, words[i].base))
                        return is_rate ? words[i].rate : words[i].level;
        return is_rate ? "/s" : "";
}

static bool moved(const struct infp_bucket_stat *buckets, unsigned n)
{
        const struct infp_bucket_stat *first = NULL;

        for (unsigned i = 0; i < n; i++) {
                if (!(buckets[i].weight > 0))
                        continue;
                if (!first)
                        first = &buckets[i];
                if (buckets[i].min != first->min || buckets[i].max != first->min)
                        return true;
        }
        return false;
}

static int draw_metric(struct drawing *drawing, const struct chosen *chosen, unsigned column)
{
        const struct infp_column *c = infp_table_column(chosen->tracked->table, column);
        const struct infp_panel def = {
                .id = "all", .group = "all", .title = c->name, .kind = "line", .max = NAN, .unit = unit_of(c)
        };
        const bool has_keys = chosen->tracked->table->n_keys > 0;
        infp_autofree char *name = has_keys ? name_of(chosen, true) : NULL;
        struct infp_panel_series series = { .name = c->name, .column = c->name };
        struct infp_timeline_panel *panel;

        if (has_keys && !name)
                return -ENOMEM;
        if (!strcmp(def.unit, "%"))
                series.scale = INFP_SCALE_PERCENT;
        panel = begin_panel(drawing, &def, name, drawing->timeline->n_panels);
        if (!panel)
                return -ENOMEM;
        return add_series(drawing, panel, chosen, &series, NULL, name);
}

static int draw_rest(struct drawing *drawing)
{
        static const char *const first[] = { "tree", "vllm", "nvidia", "amdgpu", "intel", "containers", "mem" };

        for (unsigned turn = 0; turn <= INFP_COUNT(first); turn++)
                for (unsigned t = 0; t < drawing->n; t++) {
                        struct infp_tracked *tracked = &drawing->tracked[t];
                        unsigned place = 0;

                        while (place < INFP_COUNT(first) && strcmp(first[place], tracked->table->name))
                                place++;
                        for (unsigned k = 0; place == turn && tracked->is_whole && k < tracked->n_instances; k++)
                                for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(tracked->table); i++) {
                                        const struct chosen chosen = { tracked, &tracked->instances[k] };
                                        const struct infp_track *track = &tracked->instances[k].columns[i];

                                        if (!drawing->used[t][i] && track->buckets &&
                                            moved(track->buckets, drawing->timeline->grid.n))
                                                INFP_TRY(draw_metric(drawing, &chosen, i));
                                }
                }
        return 0;
}

static int draw_all(struct drawing *drawing)
{
        for (unsigned i = 0; i < drawing->n; i++) {
                drawing->used[i] = calloc(infp_table_width(drawing->tracked[i].table), sizeof(**drawing->used));
                if (!drawing->used[i])
                        return -ENOMEM;
        }
        for (unsigned i = 0; i < infp_panels_n; i++)
                INFP_TRY(draw(drawing, &infp_panels[i]));
        return draw_rest(drawing);
}

int infp_timeline_panels(struct infp_timeline *timeline, const struct infp_report *report, struct infp_tracked *tracked,
                         unsigned n)
{
        struct drawing drawing = { timeline, report, tracked, n, calloc(n + 1, sizeof(*drawing.used)) };
        int r = drawing.used ? draw_all(&drawing) : -ENOMEM;

        for (unsigned i = 0; drawing.used && i < n; i++)
                free(drawing.used[i]);
        free(drawing.used);
        return r;
}
