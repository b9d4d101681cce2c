#include "query/series_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "query/instances.h"

void infp_series_plan_done(struct infp_series_plan *plan)
{
        for (unsigned i = 0; i < plan->n_slots; i++) {
                free(plan->slots[i].key);
                free(plan->slots[i].prefix);
        }
        for (unsigned i = 0; i < plan->n_columns; i++)
                free(plan->columns[i].name);
        free(plan->feeds);
        free(plan->slots);
        free(plan->columns);
        infp_made_free(plan->made);
        infp_catalog_done(&plan->catalog);
        *plan = (struct infp_series_plan){ 0 };
}

static bool names_table(const char *list, const char *table)
{
        size_t size = strlen(table);

        for (const char *at = list; (at = strstr(at, table)); at += size)
                if ((at == list || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0))
                        return true;
        return false;
}

static uint64_t period_of(const struct infp_run_info *info, const char *table)
{
        uint32_t period_ms = info->period_ms;

        for (unsigned i = 0; i < info->n_collectors; i++)
                if (info->collectors[i].tables && names_table(info->collectors[i].tables, table) &&
                    info->collectors[i].period_ms)
                        period_ms = info->collectors[i].period_ms;
        return (period_ms ? period_ms : 1000) * INFP_NS_PER_MS;
}

static int add_feeds(struct infp_run *run, struct infp_series_plan *plan)
{
        plan->feeds = calloc(plan->catalog.n_tables + 1, sizeof(*plan->feeds));
        if (!plan->feeds)
                return -ENOMEM;
        for (unsigned i = 0; i < plan->catalog.n_tables; i++) {
                const struct infp_table *table = &plan->catalog.tables[i];

                if (table->series && !table->plain)
                        plan->feeds[plan->n_feeds++] =
                                (struct infp_series_feed){ table, period_of(&run->info, table->name) };
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
                                                                  .prefix = INFP_TAKE(instance->prefix) };
        return 0;
}

static int find_slots(struct infp_run *run, struct infp_series_plan *plan, struct infp_err *err)
{
        for (unsigned i = 0; i < plan->n_feeds; i++) {
                infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };

                INFP_TRY(infp_instances_find(run, plan->feeds[i].table, &plan->catalog, &instances, err));
                for (unsigned k = 0; k < instances.n; k++)
                        if (add_slot(plan, i, &instances.list[k]) < 0)
                                return infp_fail(err, -ENOMEM, "out of memory");
        }
        return 0;
}

static int add_column(struct infp_series_plan *plan, unsigned slot, unsigned source, const char *name, bool is_time)
{
        struct infp_series_column *more, column = { .slot = slot, .source = source, .is_time = is_time };

        if ((plan->n_columns & (plan->n_columns - 1)) == 0) {
                more = realloc(plan->columns, (plan->n_columns ? 2 * (size_t) plan->n_columns : 1) * sizeof(*more));
                if (!more)
                        return -ENOMEM;
                plan->columns = more;
        }
        if (asprintf(&column.name, "%s%s%s", plan->slots[slot].prefix, name, is_time ? "_time" : "") < 0)
                return -ENOMEM;
        plan->columns[plan->n_columns++] = column;
        return 0;
}

/* What the slot shows: all columns; of keys, those that tell numbered instances apart. Only metrics carry their time. */
static int add_columns(struct infp_series_plan *plan, unsigned slot)
{
        const struct infp_table *table = plan->feeds[plan->slots[slot].feed].table;
        unsigned first = INFP_FIXED_COLUMNS + (*table->series ? 0 : table->n_keys);

        for (unsigned i = first; i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);

                INFP_TRY(add_column(plan, slot, i, column->name, false));
                if (column->kind != INFP_LABEL)
                        INFP_TRY(add_column(plan, slot, i, column->name, true));
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
                const struct infp_table *table = plan->feeds[plan->slots[c->slot].feed].table;
                struct infp_column column = *infp_table_column(table, c->source);

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
        for (unsigned i = 0; i < plan.n_slots; i++)
                if (add_columns(&plan, i) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        if (plan.n_columns)
                qsort(plan.columns, plan.n_columns, sizeof(*plan.columns), by_name);
        drop_second_names(&plan);
        if (make_table(&plan) < 0)
                return infp_fail(err, -E2BIG, "the time series has too many columns");
        *ret = plan;
        plan = (struct infp_series_plan){ 0 };
        return 0;
}
