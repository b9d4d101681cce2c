#include "query/series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/str.h"
#include "base/time.h"
#include "model/builder.h"
#include "model/tables.h"
#include "query/instances.h"
#include "query/joins.h"
#include "query/made.h"
#include "query/scan.h"

/* One table, or one instance of a keyed one. */
struct series_slot {
        unsigned feed; /* index of its table in the plan */
        char *key;     /* of keyed tables: the key cells as bytes */
        size_t key_size;
        char *prefix; /* "container0_", "" */
        uint64_t id;  /* of the thing that its first key names; 0: that is no id */
        int64_t part; /* of a feed of parts: which one, as its second key says */
};

struct series_column {
        char *name;
        unsigned slot;
        unsigned source;   /* column of the table's batches; of an attribute: of the entity's table */
        bool is_time;      /* <metric>_time */
        bool is_attribute; /* of the thing that the slot is about: in place of its id */
};

struct series_plan {
        struct infp_catalog catalog;
        struct series_feed {
                const struct infp_table *table; /* in the catalog */
                uint64_t period_ns;
                const struct infp_table *entity; /* that its first key names; NULL: none */
                struct infp_entities *things;    /* NULL: there are none */
                unsigned
                        whole; /* 1 + number of the feed whose instances its rows are parts of; 0: it stands for itself */
        } * feeds;
        unsigned n_feeds;
        struct series_slot *slots;
        unsigned n_slots;
        struct series_column *columns; /* without `timestamp`, sorted, each name once */
        unsigned n_columns;
        unsigned n_left_out;    /* instances without a column here: the table has no room for more */
        struct infp_made *made; /* `timestamp` first */
};

static void plan_done(struct series_plan *plan)
{
        for (unsigned i = 0; i < plan->n_slots; i++) {
                free(plan->slots[i].key);
                free(plan->slots[i].prefix);
        }
        for (unsigned i = 0; i < plan->n_columns; i++)
                free(plan->columns[i].name);
        for (unsigned i = 0; i < plan->n_feeds; i++)
                infp_entities_free(plan->feeds[i].things);
        free(plan->feeds);
        free(plan->slots);
        free(plan->columns);
        infp_made_free(plan->made);
        infp_catalog_done(&plan->catalog);
        *plan = (struct series_plan){ 0 };
}

/* The table of the things that the first key names. */
static const struct infp_table *entity_of(const struct infp_table *table, const struct infp_catalog *catalog)
{
        const struct infp_column *key = table->n_keys ? &table->keys[0] : NULL;
        const struct infp_table *entity =
                key && key->type == INFP_ID64 && key->key && *key->key ? infp_catalog_find(catalog, key->key) : NULL;

        return entity && entity->entity ? entity : NULL;
}

/* A table with a second, numeric key beside one of things in the same section of the snapshot: its rows are parts of those things,
 * and its columns stand among theirs, with the number in place of their N. 1 + the feed of the things; 0: it is not one. */
static unsigned whole_of(const struct series_plan *plan, const struct infp_table *table)
{
        if (table->series || table->plain || table->entity || table->n_keys != 2 || !table->section ||
            table->keys[0].type != INFP_ID64 || table->keys[1].type != INFP_I64)
                return 0;
        for (unsigned i = 0; i < plan->n_feeds; i++) {
                const struct infp_table *things = plan->feeds[i].table;

                if (things->n_keys == 1 && *things->series && things->section &&
                    !strcmp(things->section, table->section) && plan->feeds[i].entity)
                        return i + 1;
        }
        return 0;
}

static int add_feeds(struct infp_run *run, struct series_plan *plan)
{
        plan->feeds = calloc(plan->catalog.n_tables + 1, sizeof(*plan->feeds));
        if (!plan->feeds)
                return -ENOMEM;
        for (unsigned i = 0; i < plan->catalog.n_tables; i++) {
                const struct infp_table *table = &plan->catalog.tables[i];

                if (table->series && !table->plain)
                        plan->feeds[plan->n_feeds++] = (struct series_feed){
                                .table = table,
                                .period_ns = infp_run_period_ns(&run->info, table->name),
                                .entity = *table->series ? entity_of(table, &plan->catalog) : NULL,
                        };
        }
        for (unsigned i = 0; i < plan->catalog.n_tables; i++) { /* when all wholes are known */
                const struct infp_table *table = &plan->catalog.tables[i];
                const unsigned whole = whole_of(plan, table);

                if (whole)
                        plan->feeds[plan->n_feeds++] = (struct series_feed){
                                .table = table,
                                .period_ns = infp_run_period_ns(&run->info, table->name),
                                .whole = whole,
                        };
        }
        return 0;
}

/* The slot of a row of a feed by its key (query/instances.h); -1: none. */
static int slot_of(const struct series_plan *plan, unsigned feed, const struct infp_str *key)
{
        for (unsigned i = 0; i < plan->n_slots; i++) {
                const struct series_slot *slot = &plan->slots[i];

                if (slot->feed == feed && slot->key_size == key->size &&
                    (!key->size || memcmp(slot->key, key->data, key->size) == 0))
                        return (int) i;
        }
        return -1;
}

/* Takes over what the instance holds. */
static int add_slot(struct series_plan *plan, unsigned feed, struct infp_instance *instance)
{
        if (!INFP_ONE_MORE(plan->slots, plan->n_slots))
                return -ENOMEM;
        plan->slots[plan->n_slots++] = (struct series_slot){ .feed = feed,
                                                             .key = INFP_TAKE(instance->key),
                                                             .key_size = instance->key_size,
                                                             .prefix = INFP_TAKE(instance->prefix),
                                                             .id = instance->id };
        return 0;
}

/* Without segments of the entity table no attributes are shown. */
static int load_things(struct infp_run *run, const struct series_plan *plan, struct series_feed *feed,
                       struct infp_err *err)
{
        const int r = infp_entities_load(run, feed->entity->name, &plan->catalog, &feed->things, err);

        return r == -ENOENT ? 0 : r;
}

/* The slot of the whole, and which part: the second key. */
static int add_part(struct series_plan *plan, unsigned feed, struct infp_instance *instance)
{
        int64_t part;

        if (!infp_instance_second(instance, &part))
                return 0;
        for (unsigned i = 0; i < plan->n_slots; i++) {
                if (plan->slots[i].feed + 1 != plan->feeds[feed].whole || plan->slots[i].id != instance->id)
                        continue;
                free(instance->prefix);
                instance->prefix = strdup(plan->slots[i].prefix);
                if (!instance->prefix)
                        return -ENOMEM;
                INFP_TRY(add_slot(plan, feed, instance));
                plan->slots[plan->n_slots - 1].part = part;
                return 0;
        }
        return 0;
}

static int find_parts(struct infp_run *run, struct series_plan *plan, unsigned feed, struct infp_err *err)
{
        infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };
        struct infp_table numbered = *plan->feeds[feed].table;

        numbered.series = "part"; /* all of them; names are decided here */
        INFP_TRY(infp_instances_find(run, &numbered, &plan->catalog, &instances, err));
        for (unsigned k = 0; k < instances.n; k++)
                if (add_part(plan, feed, &instances.list[k]) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        return 0;
}

static int find_slots(struct infp_run *run, struct series_plan *plan, struct infp_err *err)
{
        for (unsigned i = 0; i < plan->n_feeds; i++) {
                infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };

                if (plan->feeds[i].whole) {
                        INFP_TRY(find_parts(run, plan, i, err));
                        continue;
                }
                INFP_TRY(infp_instances_find(run, plan->feeds[i].table, &plan->catalog, &instances, err));
                if (instances.n && plan->feeds[i].entity)
                        INFP_TRY(load_things(run, plan, &plan->feeds[i], err));
                for (unsigned k = 0; k < instances.n; k++)
                        if (add_slot(plan, i, &instances.list[k]) < 0)
                                return infp_fail(err, -ENOMEM, "out of memory");
        }
        return 0;
}

static int add_column(struct series_plan *plan, struct series_column column, const char *name)
{
        if (!INFP_ONE_MORE(plan->columns, plan->n_columns))
                return -ENOMEM;
        if (asprintf(&column.name, "%s%s%s", plan->slots[column.slot].prefix, name, column.is_time ? "_time" : "") < 0)
                return -ENOMEM;
        plan->columns[plan->n_columns++] = column;
        return 0;
}

/* The attributes of an instance's id; its own columns take precedence over equal names. */
static int add_attributes(struct series_plan *plan, unsigned slot)
{
        const struct series_feed *feed = &plan->feeds[plan->slots[slot].feed];

        for (unsigned i = INFP_FIXED_COLUMNS; feed->entity && i < infp_table_width(feed->entity); i++) {
                const struct infp_column *attribute = infp_table_column(feed->entity, i);
                const struct series_column column = { .slot = slot, .source = i, .is_attribute = true };

                if (attribute->type != INFP_ID64 && infp_table_find(feed->table, attribute->name) < 0)
                        INFP_TRY(add_column(plan, column, attribute->name));
        }
        return 0;
}

/* "cCpuNTime" of part 3: "cCpu3Time". */
static int add_part_columns(struct series_plan *plan, unsigned slot)
{
        const struct infp_table *table = plan->feeds[plan->slots[slot].feed].table;

        for (unsigned i = INFP_FIXED_COLUMNS + table->n_keys; i < infp_table_width(table); i++) {
                const char *pattern = infp_table_column(table, i)->name, *n = strchr(pattern, 'N');
                char name[128];

                if (!n)
                        continue;
                snprintf(name, sizeof(name), "%.*s%lld%s", (int) (n - pattern), pattern,
                         (long long) plan->slots[slot].part, n + 1);
                for (int is_time = 0; is_time < 2; is_time++)
                        INFP_TRY(add_column(
                                plan, (struct series_column){ .slot = slot, .source = i, .is_time = is_time }, name));
        }
        return 0;
}

/* A slot shows all columns, and those keys that distinguish numbered instances. Only metrics have a time column. */
static int add_columns(struct series_plan *plan, unsigned slot)
{
        const struct series_feed *feed = &plan->feeds[plan->slots[slot].feed];
        const struct infp_table *table = feed->table;
        unsigned first = INFP_FIXED_COLUMNS;

        if (feed->whole)
                return add_part_columns(plan, slot);
        first += *table->series ? feed->entity != NULL : table->n_keys;
        INFP_TRY(add_attributes(plan, slot));
        for (unsigned i = first; i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);

                INFP_TRY(add_column(plan, (struct series_column){ .slot = slot, .source = i }, column->name));
                if (column->kind != INFP_LABEL)
                        INFP_TRY(add_column(plan, (struct series_column){ .slot = slot, .source = i, .is_time = true },
                                            column->name));
        }
        return 0;
}

/* Bare names first: if hundreds of containers need more columns than a table may have, the last numbered instances are left out;
 * their own table has them all. */
static int add_all_columns(struct series_plan *plan)
{
        enum { MOST_OF_A_SLOT = 2 * (INFP_MAX_COLUMNS + INFP_FIXED_COLUMNS) + INFP_MAX_COLUMNS };

        for (int numbered = 0; numbered < 2; numbered++)
                for (unsigned i = 0; i < plan->n_slots; i++) {
                        if ((*plan->slots[i].prefix != 0) != numbered)
                                continue;
                        if (plan->n_columns + MOST_OF_A_SLOT < INFP_MADE_MAX)
                                INFP_TRY(add_columns(plan, i));
                        else
                                plan->n_left_out++;
                }
        return 0;
}

static int by_name(const void *a, const void *b)
{
        const struct series_column *x = a, *y = b;
        int order = strcmp(x->name, y->name);

        return order ? order : x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void drop_second_names(struct series_plan *plan)
{
        unsigned n = 0;

        for (unsigned i = 0; i < plan->n_columns; i++) {
                bool is_second = (n && strcmp(plan->columns[n - 1].name, plan->columns[i].name) == 0) ||
                                 strcmp(plan->columns[i].name, "timestamp") == 0;

                if (is_second)
                        free(plan->columns[i].name);
                else
                        plan->columns[n++] = plan->columns[i];
        }
        plan->n_columns = n;
}

static int make_table(struct series_plan *plan)
{
        static const struct infp_column timestamp = {
                "timestamp", INFP_I64, INFP_LABEL, &infp_unit_ms, INFP_MEASURED,
                0,           NULL,     0,          NULL,          "The tick, Unix time in ms.",
        };

        plan->made = infp_made_new("timeseries", true);
        if (!plan->made)
                return -ENOMEM;
        INFP_TRY(infp_made_add(plan->made, &timestamp, false));
        for (unsigned i = 0; i < plan->n_columns; i++) {
                const struct series_column *c = &plan->columns[i];
                const struct series_feed *feed = &plan->feeds[plan->slots[c->slot].feed];
                struct infp_column column = *infp_table_column(c->is_attribute ? feed->entity : feed->table, c->source);

                if (c->is_time)
                        column = (struct infp_column){ .type = INFP_I64,
                                                       .kind = INFP_LABEL,
                                                       .unit = &infp_unit_ms,
                                                       .quality = INFP_MEASURED,
                                                       .help = "When it was read, Unix time in ms." };
                column.name = c->name;
                INFP_TRY(infp_made_add(plan->made, &column, false));
        }
        return 0;
}

static int plan_make(struct infp_run *run, struct series_plan *ret, struct infp_err *err)
{
        infp_cleanup(plan_done) struct series_plan plan = { 0 };

        INFP_TRY(infp_catalog_read(run, &plan.catalog, err));
        if (add_feeds(run, &plan) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(find_slots(run, &plan, err));
        if (add_all_columns(&plan) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        infp_sort(plan.columns, plan.n_columns, sizeof(*plan.columns), by_name);
        drop_second_names(&plan);
        if (plan.n_left_out)
                infp_run_note(run,
                              "the time series has no room for the columns of %u numbered instances (containers, "
                              "GPUs); their own tables have them",
                              plan.n_left_out);
        if (make_table(&plan) < 0)
                return infp_fail(err, -E2BIG, "the time series has too many columns");
        *ret = plan;
        plan = (struct series_plan){ 0 };
        return 0;
}

enum { ROWS = 256 };

struct cell {
        bool has;
        union infp_cell value;
        char *text;
        size_t size, cap;
};

/* The last row of a slot that is not later than the tick. */
struct last {
        bool has;
        uint64_t t_ns;
        int64_t unix_ms;
        struct cell *cells; /* by column of the table */
        unsigned n;
};

/* One table, read in step with the ticks. */
struct feed {
        struct infp_scan *scan;
        struct infp_batch batch;
        uint32_t at;
        bool ended;
};

struct tick {
        uint64_t t_ns;
        int64_t unix_ms;
};

struct infp_series {
        struct series_plan plan;
        uint64_t t0, t1;
        struct feed *feeds, ticks;
        struct last *lasts; /* by slot */
        struct infp_builder *builder;
        struct tick next; /* read ahead: rows up to it belong to the tick before it */
        bool has_next;
        bool is_waiting; /* a tick's row did not fit into the last batch */
        struct tick waiting;
        struct infp_str key;
};

static void feed_done(struct feed *feed)
{
        infp_scan_close(feed->scan);
}

struct infp_series *infp_series_close(struct infp_series *s)
{
        if (!s)
                return NULL;
        for (unsigned i = 0; s->feeds && i < s->plan.n_feeds; i++)
                feed_done(&s->feeds[i]);
        feed_done(&s->ticks);
        for (unsigned i = 0; s->lasts && i < s->plan.n_slots; i++) {
                for (unsigned k = 0; s->lasts[i].cells && k < s->lasts[i].n; k++)
                        free(s->lasts[i].cells[k].text);
                free(s->lasts[i].cells);
        }
        free(s->feeds);
        free(s->lasts);
        infp_builder_free(s->builder);
        infp_str_done(&s->key);
        plan_done(&s->plan);
        free(s);
        return NULL;
}

static void free_series(struct infp_series **s)
{
        infp_series_close(*s);
}

const struct infp_table *infp_series_table(const struct infp_series *series)
{
        return &series->plan.made->table;
}

static int64_t to_ms(int64_t unix_ns)
{
        return unix_ns / (int64_t) INFP_NS_PER_MS - (unix_ns % (int64_t) INFP_NS_PER_MS < 0);
}

/* The row at feed->at is there: 1; 0: the table has ended. */
static int look(struct feed *feed, struct infp_err *err)
{
        int r = 1;

        while (!feed->ended && feed->at >= feed->batch.n_rows) {
                feed->at = 0;
                feed->batch.n_rows = 0;
                r = infp_scan_next(feed->scan, &feed->batch, err);
                if (r < 0)
                        return r;
                feed->ended = r == 0;
        }
        return !feed->ended;
}

static int next_tick(struct infp_series *s, struct infp_err *err)
{
        int r = s->ticks.scan ? look(&s->ticks, err) : 0;

        s->has_next = r > 0;
        if (r <= 0)
                return r;
        s->next.t_ns = (uint64_t) infp_batch_i64(&s->ticks.batch, 0, s->ticks.at);
        s->next.unix_ms = to_ms(infp_batch_i64(&s->ticks.batch, 1, s->ticks.at));
        s->ticks.at++;
        return 1;
}

static int keep_text(struct cell *cell, const char *text, size_t size)
{
        if (size > cell->cap || !cell->text) {
                char *more = realloc(cell->text, size + 64);

                if (!more)
                        return -ENOMEM;
                cell->text = more;
                cell->cap = size + 64;
        }
        memcpy(cell->text, text, size);
        cell->size = size;
        return 0;
}

static int keep_cell(struct cell *cell, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        size_t size;
        const char *text;

        cell->has = infp_batch_has(batch, column, row);
        if (!cell->has)
                return 0;
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                return keep_text(cell, text, size);
        case INFP_BOOL:
                cell->value.b = infp_batch_bool(batch, column, row);
                break;
        case INFP_F64:
                cell->value.f64 = infp_batch_f64(batch, column, row);
                break;
        case INFP_U64:
        case INFP_ID64:
                cell->value.u64 = infp_batch_u64(batch, column, row);
                break;
        case INFP_I64:
        case INFP_TS_NS:
                cell->value.i64 = infp_batch_i64(batch, column, row);
        }
        return 0;
}

static int keep_row(struct infp_series *s, unsigned feed_index, uint32_t row)
{
        const struct infp_batch *batch = &s->feeds[feed_index].batch;
        struct last *last;
        int slot;

        infp_str_clear(&s->key);
        infp_instance_key(&s->key, batch, row);
        slot = slot_of(&s->plan, feed_index, &s->key);
        if (slot < 0)
                return 0;
        last = &s->lasts[slot];
        last->has = true;
        last->t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        last->unix_ms = to_ms(infp_batch_i64(batch, 1, row));
        for (unsigned i = INFP_FIXED_COLUMNS; i < last->n; i++)
                INFP_TRY(keep_cell(&last->cells[i], batch, i, row));
        return 0;
}

/* Takes the rows of all tables that were stamped before `end`. */
static int advance(struct infp_series *s, uint64_t end, struct infp_err *err)
{
        for (unsigned i = 0; i < s->plan.n_feeds; i++) {
                struct feed *feed = &s->feeds[i];
                int r;

                while ((r = look(feed, err)) > 0 && (uint64_t) infp_batch_i64(&feed->batch, 0, feed->at) < end) {
                        if (keep_row(s, i, feed->at) < 0)
                                return infp_fail(err, -ENOMEM, "out of memory");
                        feed->at++;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Not older than two periods. */
static bool is_fresh(const struct infp_series *s, unsigned slot, uint64_t tick_ns)
{
        const struct last *last = &s->lasts[slot];
        uint64_t reach = 2 * s->plan.feeds[s->plan.slots[slot].feed].period_ns;

        return last->has && (last->t_ns >= tick_ns || tick_ns - last->t_ns <= reach);
}

static void put_attribute(const struct infp_series *s, unsigned index)
{
        const struct series_column *c = &s->plan.columns[index];
        const struct series_slot *slot = &s->plan.slots[c->slot];
        const struct infp_entities *things = s->plan.feeds[slot->feed].things;
        const struct infp_value *value = things ? infp_entities_value(things, slot->id, c->source) : NULL;
        const enum infp_type type = infp_table_column(infp_series_table(s), index + 1)->type;
        union infp_cell cell = { .u64 = 0 };

        if (!value)
                return;
        if (type == INFP_F64)
                cell.f64 = value->as.f64;
        else if (type == INFP_BOOL)
                cell.b = value->as.b;
        else if (type == INFP_U64)
                cell.u64 = value->as.u64;
        else if (type != INFP_STR)
                cell.i64 = value->as.i64;
        infp_builder_set(s->builder, index + 1, cell, value->text, value->size);
}

static int put_row(struct infp_series *s, const struct tick *tick)
{
        INFP_TRY(infp_builder_row_begin(s->builder, 0, 0));
        infp_builder_set(s->builder, 0, (union infp_cell){ .i64 = tick->unix_ms }, NULL, 0);
        for (unsigned i = 0; i < s->plan.n_columns; i++) {
                const struct series_column *c = &s->plan.columns[i];
                const struct last *last = &s->lasts[c->slot];
                const struct cell *cell = c->is_attribute ? NULL : &last->cells[c->source];

                if (!is_fresh(s, c->slot, tick->t_ns))
                        continue;
                if (c->is_attribute)
                        put_attribute(s, i);
                else if (cell->has && c->is_time)
                        infp_builder_set(s->builder, i + 1, (union infp_cell){ .i64 = last->unix_ms }, NULL, 0);
                else if (cell->has)
                        infp_builder_set(s->builder, i + 1, cell->value, cell->text, cell->size);
        }
        return infp_builder_row_end(s->builder);
}

static size_t text_size(const struct infp_series *s, const struct series_column *c)
{
        const struct series_slot *slot = &s->plan.slots[c->slot];
        const struct infp_entities *things = s->plan.feeds[slot->feed].things;
        const struct infp_value *value;

        if (!c->is_attribute)
                return s->lasts[c->slot].cells[c->source].size;
        value = things ? infp_entities_value(things, slot->id, c->source) : NULL;
        return value ? value->size : 0;
}

static size_t texts_size(const struct infp_series *s)
{
        size_t size = 0;

        for (unsigned i = 0; i < s->plan.n_columns; i++)
                size += text_size(s, &s->plan.columns[i]);
        return size;
}

static int put_waiting(struct infp_series *s, struct infp_err *err)
{
        int r = put_row(s, &s->waiting);

        if (r == -ENOSPC && infp_builder_rows(s->builder) == 0) {
                r = infp_builder_grow(s->builder, texts_size(s));
                if (r == 0)
                        r = put_row(s, &s->waiting);
        }
        s->is_waiting = r == -ENOSPC;
        return r == -ENOSPC ? 0 : r < 0 ? infp_fail(err, r, "out of memory for a row of the time series") : 0;
}

static bool in_range(const struct infp_series *s, const struct tick *tick)
{
        return tick->t_ns >= s->t0 && (!s->t1 || tick->t_ns < s->t1);
}

int infp_series_next(struct infp_series *s, struct infp_batch *ret, struct infp_err *err)
{
        infp_builder_reset(s->builder);
        if (s->is_waiting)
                INFP_TRY(put_waiting(s, err));
        while (s->has_next && !s->is_waiting) {
                s->waiting = s->next;
                INFP_TRY(next_tick(s, err));
                INFP_TRY(advance(s, s->has_next ? s->next.t_ns : UINT64_MAX, err));
                if (in_range(s, &s->waiting))
                        INFP_TRY(put_waiting(s, err));
        }
        *ret = infp_builder_batch(s->builder, 0);
        return ret->n_rows > 0;
}

static int open_feed(struct infp_series *s, struct infp_run *run, unsigned index, struct infp_err *err)
{
        const struct series_feed *plan = &s->plan.feeds[index];
        struct infp_scan_options options = { .catalog = &s->plan.catalog };

        /* Rows before the range are still valid at its first ticks. */
        if (s->t0 > 2 * plan->period_ns)
                options.t0 = s->t0 - 2 * plan->period_ns;
        return infp_scan_open(run, plan->table->name, &options, &s->feeds[index].scan, err);
}

static int open_feeds(struct infp_series *s, struct infp_run *run, struct infp_err *err)
{
        static const char *const nothing[] = { "tick", NULL };
        struct infp_scan_options ticks = { .catalog = &s->plan.catalog, .columns = nothing };
        int r;

        for (unsigned i = 0; i < s->plan.n_feeds; i++)
                INFP_TRY(open_feed(s, run, i, err));
        for (unsigned i = 0; i < s->plan.n_slots; i++) {
                struct last *last = &s->lasts[i];

                last->n = infp_table_width(s->plan.feeds[s->plan.slots[i].feed].table);
                last->cells = calloc(last->n + 1, sizeof(*last->cells));
                if (!last->cells)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        r = infp_scan_open(run, infp_table_ticks.name, &ticks, &s->ticks.scan, err);
        return r == -ENOENT ? 0 : r; /* a run without ticks has no rows */
}

int infp_series_open(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_series **ret, struct infp_err *err)
{
        infp_cleanup(free_series) struct infp_series *s = calloc(1, sizeof(*s));

        *ret = NULL;
        if (!s)
                return infp_fail(err, -ENOMEM, "out of memory");
        s->t0 = t0;
        s->t1 = t1;
        INFP_TRY(plan_make(run, &s->plan, err));
        s->feeds = calloc(s->plan.n_feeds + 1, sizeof(*s->feeds));
        s->lasts = calloc(s->plan.n_slots + 1, sizeof(*s->lasts));
        s->builder = infp_builder_new(infp_series_table(s), ROWS);
        if (!s->feeds || !s->lasts || !s->builder)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(open_feeds(s, run, err));
        INFP_TRY(next_tick(s, err));
        *ret = INFP_TAKE(s);
        return 0;
}
