/* Reads a table in one pass: a track for each number of each instance, and for each ratio of two counters. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "base/sort.h"
#include "model/rate.h"

static void name_instance(struct infp_tracked *tracked, struct infp_tracked_instance *instance,
                          const struct infp_batch *batch, uint32_t row)
{
        const struct infp_panel_table *about = tracked->about;
        bool failed = false;

        if (batch->table->n_keys && batch->table->keys[0].type == INFP_ID64)
                instance->id = infp_batch_u64(batch, INFP_FIXED_COLUMNS, row);
        if (about && !about->entity) {
                for (unsigned i = 0; i < INFP_COUNT(about->label) && about->label[i] && !instance->label; i++)
                        instance->label =
                                infp_timeline_text(batch, infp_table_find(batch->table, about->label[i]), row, &failed);
                if (about->number) {
                        const int at = infp_table_find(batch->table, about->number);

                        if (at >= 0 && infp_batch_has(batch, (unsigned) at, row))
                                instance->number = infp_batch_i64(batch, (unsigned) at, row);
                }
        }
        if (!instance->label && batch->table->n_keys && batch->table->keys[0].type == INFP_STR)
                instance->label = infp_timeline_text(batch, INFP_FIXED_COLUMNS, row, &failed);
}

static int by_label(struct infp_tracked_instance *instances, unsigned n, uint64_t id)
{
        for (unsigned i = 0; i < n; i++)
                if (instances[i].id == id)
                        return (int) i;
        return -1;
}

/* A container without a name is called by the first 12 digits of its id. */
static void shorten_id(char *text)
{
        if (strlen(text) >= 32 && strspn(text, "0123456789abcdef") == strlen(text))
                text[12] = 0;
}

/* The latest name of each instance. */
static int take_name(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_tracked *tracked = context;
        const struct infp_panel_table *about = tracked->about;
        const int i = at[0] < 0 ? -1
                                : by_label(tracked->instances, tracked->n_instances,
                                           infp_batch_u64(batch, (unsigned) at[0], row));
        bool failed = false;
        char *text = NULL;

        if (i < 0)
                return 0;
        for (unsigned k = 0; k < INFP_COUNT(about->label) && about->label[k] && !text; k++)
                text = infp_timeline_text(batch, at[1 + k], row, &failed);
        if (text) {
                shorten_id(text);
                free(tracked->instances[i].label);
                tracked->instances[i].label = text;
        }
        if (about->number && infp_cell_has(batch, at[3], row))
                tracked->instances[i].number = infp_batch_i64(batch, (unsigned) at[3], row);
        return failed ? -ENOMEM : 0;
}

static int read_names(const struct infp_tracked_options *options, struct infp_tracked *tracked, struct infp_err *err)
{
        const struct infp_panel_table *about = tracked->about;
        const struct infp_scan_options whole = { .catalog = options->scan->catalog };
        const char *names[] = { "id", about->label[0] ? about->label[0] : "id",
                                about->label[1] ? about->label[1] : "id", about->number ? about->number : "id", NULL };

        return infp_scan_rows(options->run, about->entity, names, &whole, take_name, tracked, err);
}

static int rank(const void *a, const void *b, void *context)
{
        const struct infp_tracked_instance *x = a, *y = b;
        const struct infp_tracked *tracked = context;
        const struct infp_panel_table *about = tracked->about;
        const int column = about->rank ? infp_table_find(tracked->table, about->rank) : -1;

        if (x->is_first != y->is_first)
                return x->is_first ? -1 : 1;
        if (column >= 0) {
                const double u = x->columns[column].has_last ? x->columns[column].last_per : -1,
                             v = y->columns[column].has_last ? y->columns[column].last_per : -1;

                if (u != v)
                        return u > v ? -1 : 1;
        }
        if (x->number != y->number)
                return x->number > y->number ? 1 : -1;
        return x->order > y->order ? 1 : -1;
}

static void sort_instances(struct infp_tracked *tracked, const struct infp_grid *grid)
{
        const struct infp_panel_table *about = tracked->about;
        const int column = about && about->rank ? infp_table_find(tracked->table, about->rank) : -1;

        if (!about || tracked->n_instances < 2)
                return;
        /* The mean is needed many times: it is kept in a member that plain columns do not use. */
        for (unsigned i = 0; column >= 0 && i < tracked->n_instances; i++) {
                struct infp_track *track = &tracked->instances[i].columns[column];
                const double mean = infp_buckets_mean(track->buckets, grid->n);

                track->last_per = isnan(mean) ? -1 : mean;
        }
        infp_sort_r(tracked->instances, tracked->n_instances, sizeof(*tracked->instances), rank, tracked);
}

/* How many instances have panels, and how many keep every number. The rest is counted. */
enum { MOST_INSTANCES = 64, MOST_WHOLE = 12 };

void infp_tracked_done(struct infp_tracked *tracked)
{
        const unsigned width = tracked->table ? infp_table_width(tracked->table) : 0;

        for (unsigned i = 0; i < tracked->n_instances; i++) {
                struct infp_tracked_instance *instance = &tracked->instances[i];

                for (unsigned j = 0; instance->columns && j < width; j++)
                        free(instance->columns[j].buckets);
                for (unsigned j = 0; instance->ratios && j < tracked->n_ratios; j++)
                        free(instance->ratios[j].buckets);
                free(instance->columns);
                free(instance->ratios);
                free(instance->key);
                free(instance->label);
        }
        free(tracked->instances);
        free(tracked->ratios);
        free(tracked->wanted);
        free(tracked->of_panels);
        *tracked = (struct infp_tracked){ 0 };
}

static bool is_of(const struct infp_panel *panel, const char *table)
{
        for (unsigned i = 0; i < INFP_PANEL_TABLES && panel->tables[i]; i++)
                if (!strcmp(panel->tables[i], table))
                        return true;
        return false;
}

static void want(struct infp_tracked *tracked, const char *column)
{
        const int at = column ? infp_table_find(tracked->table, column) : -1;

        if (at >= INFP_FIXED_COLUMNS && infp_column_is_metric(infp_table_column(tracked->table, (unsigned) at)))
                tracked->wanted[at] = tracked->of_panels[at] = true;
}

static int want_ratio(struct infp_tracked *tracked, const struct infp_panel_series *series)
{
        const int column = infp_table_find(tracked->table, series->column),
                  per = infp_table_find(tracked->table, series->per);
        struct infp_tracked_ratio *more;

        if (column < 0 || per < 0)
                return 0;
        more = reallocarray(tracked->ratios, tracked->n_ratios + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        tracked->ratios = more;
        more[tracked->n_ratios++] = (struct infp_tracked_ratio){ (unsigned) column, (unsigned) per };
        return 0;
}

static int want_all(struct infp_tracked *tracked)
{
        const unsigned width = infp_table_width(tracked->table);

        tracked->wanted = calloc(width, sizeof(*tracked->wanted));
        tracked->of_panels = calloc(width, sizeof(*tracked->of_panels));
        if (!tracked->wanted || !tracked->of_panels)
                return -ENOMEM;
        for (unsigned i = INFP_FIXED_COLUMNS + tracked->table->n_keys; tracked->is_whole && i < width; i++)
                tracked->wanted[i] = infp_column_is_metric(infp_table_column(tracked->table, i));
        for (unsigned p = 0; p < infp_panels_n; p++) {
                const struct infp_panel *panel = &infp_panels[p];

                if (!is_of(panel, tracked->table->name))
                        continue;
                for (unsigned i = 0; i < INFP_PANEL_SERIES && panel->series[i].column; i++)
                        if (panel->series[i].per)
                                INFP_TRY(want_ratio(tracked, &panel->series[i]));
                        else
                                want(tracked, panel->series[i].column);
                for (unsigned i = 0; i < INFP_PANEL_LIMITS && panel->limits[i].name; i++)
                        want(tracked, panel->limits[i].column);
        }
        if (tracked->about)
                want(tracked, tracked->about->rank);
        return 0;
}

/* The names of all columns to read, with keys and labels; ended by NULL. NULL without memory. */
static const char **names_of(const struct infp_tracked *tracked)
{
        const struct infp_panel_table *about = tracked->about;
        const unsigned width = infp_table_width(tracked->table);
        const char **names = calloc(width + 1, sizeof(*names));
        unsigned n = 0;

        for (unsigned i = INFP_FIXED_COLUMNS; names && i < width; i++) {
                const char *name = infp_table_column(tracked->table, i)->name;
                bool is_used = i - INFP_FIXED_COLUMNS < tracked->table->n_keys || tracked->wanted[i];

                for (unsigned j = 0; j < tracked->n_ratios; j++)
                        is_used |= tracked->ratios[j].column == i || tracked->ratios[j].per == i;
                if (about && !about->entity)
                        is_used |= (about->label[0] && !strcmp(name, about->label[0])) ||
                                   (about->label[1] && !strcmp(name, about->label[1])) ||
                                   (about->number && !strcmp(name, about->number));
                if (about && about->first && !strcmp(name, about->first))
                        is_used = true;
                for (unsigned j = INFP_FIXED_COLUMNS; j < width; j++) {
                        const struct infp_column *c = infp_table_column(tracked->table, j);

                        is_used |= tracked->wanted[j] && c->reset == INFP_RESET_GAP && c->key && !strcmp(name, c->key);
                }
                if (is_used)
                        names[n++] = name;
        }
        return names;
}

/* The state of a pass: where the wanted columns are in its batches. */
struct pass {
        const struct infp_tracked_options *options;
        struct infp_tracked *tracked;
        const struct infp_table *table; /* of the batches */
        int *at;                        /* by column of the catalog's table; -1: not read */
        const struct infp_column **columns;
        unsigned width;
        int processes; /* of the tree: column of their number */
        struct infp_str key;
};

static void pass_done(struct pass *pass)
{
        free(pass->at);
        free(pass->columns);
        infp_str_done(&pass->key);
}

static int set_columns(struct pass *pass, const struct infp_table *table)
{
        pass->table = table;
        pass->width = infp_table_width(pass->tracked->table);
        pass->at = malloc(pass->width * sizeof(*pass->at));
        pass->columns = malloc(pass->width * sizeof(*pass->columns));
        if (!pass->at || !pass->columns)
                return -ENOMEM;
        for (unsigned i = 0; i < pass->width; i++) {
                pass->columns[i] = infp_table_column(pass->tracked->table, i);
                pass->at[i] = infp_table_find(table, pass->columns[i]->name);
        }
        pass->processes = infp_table_find(table, "tree_processes");
        return 0;
}

static int new_instance(struct pass *pass)
{
        struct infp_tracked *tracked = pass->tracked;
        struct infp_tracked_instance *more = reallocarray(tracked->instances, tracked->n_instances + 1, sizeof(*more));
        struct infp_tracked_instance *instance;

        if (!more)
                return -ENOMEM;
        tracked->instances = more;
        instance = &more[tracked->n_instances++];
        *instance = (struct infp_tracked_instance){
                .key = malloc(pass->key.size + 1),
                .key_size = pass->key.size,
                .order = tracked->n_instances - 1,
                .number = -1,
                .columns = calloc(pass->width, sizeof(*instance->columns)),
                .ratios = calloc(tracked->n_ratios + 1, sizeof(*instance->ratios)),
        };
        if (!instance->key || !instance->columns || !instance->ratios)
                return -ENOMEM;
        if (pass->key.size)
                memcpy(instance->key, pass->key.data, pass->key.size);
        return 0;
}

/* 1: its number in *ret; 0: no room. */
static int find_instance(struct pass *pass, const struct infp_batch *batch, uint32_t row, unsigned *ret)
{
        struct infp_tracked *tracked = pass->tracked;

        infp_str_clear(&pass->key);
        infp_instance_key(&pass->key, batch, row);
        if (pass->key.failed)
                return -ENOMEM;
        for (*ret = 0; *ret < tracked->n_instances; ++*ret) {
                const struct infp_tracked_instance *instance = &tracked->instances[*ret];

                if (instance->key_size == pass->key.size &&
                    (!pass->key.size || !memcmp(instance->key, pass->key.data, pass->key.size)))
                        return 1;
        }
        if (tracked->n_instances == MOST_INSTANCES) {
                tracked->n_not_looked_at++;
                return 0;
        }
        INFP_TRY(new_instance(pass));
        name_instance(tracked, &tracked->instances[*ret], batch, row);
        return 1;
}

static uint64_t raw_of(const struct infp_batch *batch, unsigned column, uint32_t row, enum infp_type type)
{
        if (type == INFP_U64)
                return infp_batch_u64(batch, column, row);
        return type == INFP_I64 ? (uint64_t) infp_batch_i64(batch, column, row) : 0;
}

static double increase(const struct infp_column *c, uint64_t raw_before, uint64_t raw, double before, double value)
{
        if (c->type == INFP_I64 || c->type == INFP_U64)
                return (double) infp_increase_u64(c->reset, raw_before, raw, 0);
        return infp_increase_f64(c->reset, before, value, 0);
}

/* The counter did not exist in the previous row. */
static bool begins_now(const struct pass *pass, const struct infp_track *track,
                       const struct infp_tracked_instance *instance, uint64_t t_ns)
{
        return !track->has_last && pass->tracked->about && pass->tracked->about->absent_is_new &&
               instance->last_row_t_ns && t_ns - instance->last_row_t_ns <= pass->tracked->gap_ns;
}

static int take_counter(const struct pass *pass, const struct infp_tracked_instance *instance, struct infp_track *track,
                        const struct infp_column *c, uint64_t t_ns, double counted_s, double value, uint64_t raw)
{
        double seconds;
        int r = 0;

        if (begins_now(pass, track, instance, t_ns)) {
                track->has_last = true;
                track->last_t_ns = instance->last_row_t_ns;
                track->last = 0;
                track->last_counted_s = 0;
                track->last_u64 = 0;
        }
        seconds = infp_counted_seconds(track->last_t_ns, t_ns, track->last_counted_s, counted_s);
        if (track->has_last && seconds > 0 && t_ns - track->last_t_ns <= pass->tracked->gap_ns)
                r = infp_track_between(track, pass->options->grid, track->last_t_ns, t_ns,
                                       increase(c, track->last_u64, raw, track->last, value) / seconds, seconds);
        track->has_last = true;
        track->last_t_ns = t_ns;
        track->last_counted_s = counted_s;
        track->last = value;
        track->last_u64 = raw;
        return r;
}

static int take_column(const struct pass *pass, struct infp_tracked_instance *instance, unsigned column,
                       const struct infp_batch *batch, uint32_t row, uint64_t t_ns)
{
        const unsigned at = (unsigned) pass->at[column];
        const struct infp_column *c = pass->columns[column];
        double value;

        if (!infp_batch_has(batch, at, row) || infp_stat_is_of_nobody(batch, c, pass->processes, row))
                return 0;
        value = infp_batch_number(batch, at, row);
        if (!isfinite(value))
                return 0;
        if (c->kind == INFP_COUNTER)
                return take_counter(pass, instance, &instance->columns[column], c, t_ns,
                                    infp_batch_counted_s(batch, c, row), value, raw_of(batch, at, row, c->type));
        return infp_track_level(&instance->columns[column], pass->options->grid, t_ns, value, pass->tracked->gap_ns);
}

static int take_ratio(const struct pass *pass, struct infp_tracked_instance *instance, unsigned number,
                      const struct infp_batch *batch, uint32_t row, uint64_t t_ns)
{
        const struct infp_tracked *tracked = pass->tracked;
        const struct infp_tracked_ratio *ratio = &tracked->ratios[number];
        const struct infp_column *c = pass->columns[ratio->column], *per = pass->columns[ratio->per];
        const int at = pass->at[ratio->column], at_per = pass->at[ratio->per];
        struct infp_track *track = &instance->ratios[number];
        uint64_t raw, raw_per;
        double value, value_per, more, n;
        int r = 0;

        if (at < 0 || at_per < 0 || !infp_batch_has(batch, (unsigned) at, row) ||
            !infp_batch_has(batch, (unsigned) at_per, row))
                return 0;
        value = infp_batch_number(batch, (unsigned) at, row);
        value_per = infp_batch_number(batch, (unsigned) at_per, row);
        raw = raw_of(batch, (unsigned) at, row, c->type);
        raw_per = raw_of(batch, (unsigned) at_per, row, per->type);
        if (!isfinite(value) || !isfinite(value_per))
                return 0;
        if (begins_now(pass, track, instance, t_ns))
                *track = (struct infp_track){ .buckets = track->buckets,
                                              .has_last = true,
                                              .last_t_ns = instance->last_row_t_ns };
        if (track->has_last && t_ns > track->last_t_ns && t_ns - track->last_t_ns <= tracked->gap_ns) {
                more = increase(c, track->last_u64, raw, track->last, value) * c->unit->factor;
                n = increase(per, track->last_per_u64, raw_per, track->last_per, value_per) * per->unit->factor;
                /* No events, no mean. */
                if (n > 0)
                        r = infp_track_between(track, pass->options->grid, t_ns, t_ns, more / n, n);
        }
        track->has_last = true;
        track->last_t_ns = t_ns;
        track->last = value;
        track->last_per = value_per;
        track->last_u64 = raw;
        track->last_per_u64 = raw_per;
        return r;
}

static int take_row(struct pass *pass, const struct infp_batch *batch, uint32_t row)
{
        struct infp_tracked *tracked = pass->tracked;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct infp_tracked_instance *instance;
        const bool *wanted;
        unsigned number;
        const int r = find_instance(pass, batch, row, &number);

        if (r <= 0)
                return r;
        instance = &tracked->instances[number];
        wanted = number < MOST_WHOLE ? tracked->wanted : tracked->of_panels;
        if (tracked->about && tracked->about->first) {
                const int first = infp_table_find(batch->table, tracked->about->first);

                instance->is_first |= first >= 0 && infp_batch_bool(batch, (unsigned) first, row);
        }
        for (unsigned i = 0; i < pass->width; i++)
                if (pass->at[i] >= 0 && wanted[i])
                        INFP_TRY(take_column(pass, instance, i, batch, row, t_ns));
        for (unsigned i = 0; i < tracked->n_ratios; i++)
                INFP_TRY(take_ratio(pass, instance, i, batch, row, t_ns));
        instance->last_row_t_ns = t_ns;
        return 0;
}

int infp_tracked_read(const struct infp_tracked_options *options, const struct infp_table *known, bool is_whole,
                      struct infp_tracked *ret, struct infp_err *err)
{
        infp_cleanup(infp_tracked_done) struct infp_tracked tracked = {
                .table = known,
                .about = infp_panel_table_of(known->name),
                /* Two periods, and half a period for late readings. */
                .gap_ns = infp_run_period_ns(&options->run->info, known->name) * 5 / 2,
                .is_whole = is_whole,
        };
        infp_cleanup(pass_done) struct pass pass = { .options = options, .tracked = &tracked };
        struct infp_scan_options scan_options = *options->scan;
        infp_autofree const char **names = NULL;
        struct infp_scan *scan;
        struct infp_batch batch;
        int r;

        if (want_all(&tracked) < 0 || !(names = names_of(&tracked)))
                return infp_fail(err, -ENOMEM, "no memory for the report");
        scan_options.columns = names;
        INFP_TRY(infp_scan_open(options->run, known->name, &scan_options, &scan, err));
        r = set_columns(&pass, infp_scan_table(scan));
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (take_row(&pass, &batch, row) < 0)
                                r = -ENOMEM;
        infp_scan_close(scan);
        if (r >= 0 && tracked.about && tracked.about->entity)
                r = read_names(options, &tracked, err);
        if (r == -ENOMEM)
                return infp_fail(err, r, "no memory for the report");
        INFP_TRY(r);
        if (!tracked.n_instances)
                return -ENOENT;
        sort_instances(&tracked, options->grid);
        *ret = tracked;
        tracked = (struct infp_tracked){ 0 };
        return 0;
}
