#include "query/series_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "query/instances.h"

void infp_series_plan_done(struct infp_series_plan *plan)
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
        *plan = (struct infp_series_plan){ 0 };
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
static unsigned whole_of(const struct infp_series_plan *plan, const struct infp_table *table)
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

static int add_feeds(struct infp_run *run, struct infp_series_plan *plan)
{
        plan->feeds = calloc(plan->catalog.n_tables + 1, sizeof(*plan->feeds));
        if (!plan->feeds)
                return -ENOMEM;
        for (unsigned i = 0; i < plan->catalog.n_tables; i++) {
                const struct infp_table *table = &plan->catalog.tables[i];

                if (table->series && !table->plain)
                        plan->feeds[plan->n_feeds++] = (struct infp_series_feed){
                                .table = table,
                                .period_ns = infp_run_period_ns(&run->info, table->name),
                                .entity = *table->series ? entity_of(table, &plan->catalog) : NULL,
                        };
        }
        for (unsigned i = 0; i < plan->catalog.n_tables; i++) { /* when all wholes are known */
                const struct infp_table *table = &plan->catalog.tables[i];
                const unsigned whole = whole_of(plan, table);

                if (whole)
                        plan->feeds[plan->n_feeds++] = (struct infp_series_feed){
                                .table = table,
                                .period_ns = infp_run_period_ns(&run->info, table->name),
                                .whole = whole,
                        };
        }
        return 0;
}

int infp_series_slot_of(const struct infp_series_plan *plan, unsigned feed, const struct infp_str *key)
{
        for (unsigned i = 0; i < plan->n_slots; i++) {
                const struct infp_series_slot *slot = &plan->slots[i];

                if (slot->feed == feed && slot->key_size == key->size &&
                    (!key->size || memcmp(slot->key, key->data, key->size) == 0))
                        return (int) i;
        }
        return -1;
}

/* Takes over what the instance holds. */
static int add_slot(struct infp_series_plan *plan, unsigned feed, struct infp_instance *instance)
{
        struct infp_series_slot *more = realloc(plan->slots, (plan->n_slots + 1) * sizeof(*more));

        if (!more)
                return -ENOMEM;
        plan->slots = more;
        plan->slots[plan->n_slots++] = (struct infp_series_slot){ .feed = feed,
                                                                  .key = INFP_TAKE(instance->key),
                                                                  .key_size = instance->key_size,
                                                                  .prefix = INFP_TAKE(instance->prefix),
                                                                  .id = instance->id };
        return 0;
}

/* A run whose segments have none shows nothing of them. */
static int load_things(struct infp_run *run, const struct infp_series_plan *plan, struct infp_series_feed *feed,
                       struct infp_err *err)
{
        const int r = infp_entities_load(run, feed->entity->name, &plan->catalog, &feed->things, err);

        return r == -ENOENT ? 0 : r;
}

/* The slot of the whole, and which part: the second key. */
static int add_part(struct infp_series_plan *plan, unsigned feed, struct infp_instance *instance)
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

static int find_parts(struct infp_run *run, struct infp_series_plan *plan, unsigned feed, struct infp_err *err)
{
        infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };
        struct infp_table numbered = *plan->feeds[feed].table;

        numbered.series = "part"; /* each of them: how they are called is decided here */
        INFP_TRY(infp_instances_find(run, &numbered, &plan->catalog, &instances, err));
        for (unsigned k = 0; k < instances.n; k++)
                if (add_part(plan, feed, &instances.list[k]) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        return 0;
}

static int find_slots(struct infp_run *run, struct infp_series_plan *plan, struct infp_err *err)
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

static int add_column(struct infp_series_plan *plan, struct infp_series_column column, const char *name)
{
        struct infp_series_column *more;

        if ((plan->n_columns & (plan->n_columns - 1)) == 0) {
                more = realloc(plan->columns, (plan->n_columns ? 2 * (size_t) plan->n_columns : 1) * sizeof(*more));
                if (!more)
                        return -ENOMEM;
                plan->columns = more;
        }
        if (asprintf(&column.name, "%s%s%s", plan->slots[column.slot].prefix, name, column.is_time ? "_time" : "") < 0)
                return -ENOMEM;
        plan->columns[plan->n_columns++] = column;
        return 0;
}

/* What the id of an instance stands for; its own columns come first where names are equal. */
static int add_attributes(struct infp_series_plan *plan, unsigned slot)
{
        const struct infp_series_feed *feed = &plan->feeds[plan->slots[slot].feed];

        for (unsigned i = INFP_FIXED_COLUMNS; feed->entity && i < infp_table_width(feed->entity); i++) {
                const struct infp_column *attribute = infp_table_column(feed->entity, i);
                const struct infp_series_column column = { .slot = slot, .source = i, .is_attribute = true };

                if (attribute->type != INFP_ID64 && infp_table_find(feed->table, attribute->name) < 0)
                        INFP_TRY(add_column(plan, column, attribute->name));
        }
        return 0;
}

/* "cCpuNTime" of part 3: "cCpu3Time". */
static int add_part_columns(struct infp_series_plan *plan, unsigned slot)
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
                                plan, (struct infp_series_column){ .slot = slot, .source = i, .is_time = is_time },
                                name));
        }
        return 0;
}

/* What the slot shows: all columns; of keys, those that tell numbered instances apart. Only metrics carry their time. */
static int add_columns(struct infp_series_plan *plan, unsigned slot)
{
        const struct infp_series_feed *feed = &plan->feeds[plan->slots[slot].feed];
        const struct infp_table *table = feed->table;
        unsigned first = INFP_FIXED_COLUMNS;

        if (feed->whole)
                return add_part_columns(plan, slot);
        first += *table->series ? feed->entity != NULL : table->n_keys;
        INFP_TRY(add_attributes(plan, slot));
        for (unsigned i = first; i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);

                INFP_TRY(add_column(plan, (struct infp_series_column){ .slot = slot, .source = i }, column->name));
                if (column->kind != INFP_LABEL)
                        INFP_TRY(add_column(plan,
                                            (struct infp_series_column){ .slot = slot, .source = i, .is_time = true },
                                            column->name));
        }
        return 0;
}

/* Bare names first: a machine with hundreds of containers has more columns than a table may have, and then the last of its
 * numbered instances are left out; their own table has them all. */
static int add_all_columns(struct infp_series_plan *plan)
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
        const struct infp_series_column *x = a, *y = b;
        int order = strcmp(x->name, y->name);

        return order ? order : x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void drop_second_names(struct infp_series_plan *plan)
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

static int make_table(struct infp_series_plan *plan)
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
                const struct infp_series_column *c = &plan->columns[i];
                const struct infp_series_feed *feed = &plan->feeds[plan->slots[c->slot].feed];
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

int infp_series_plan_make(struct infp_run *run, struct infp_series_plan *ret, struct infp_err *err)
{
        infp_cleanup(infp_series_plan_done) struct infp_series_plan plan = { 0 };

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
        plan = (struct infp_series_plan){ 0 };
        return 0;
}
