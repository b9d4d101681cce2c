/* Tables of which one instance stands for all: "vllm" is the first engine, "containers" the container of the target, as the
 * mission nests them. What there is beyond the first stands in a list beside its values. */
#include "view/snapshot/parts.h"

#include <stdio.h>
#include <string.h>

#include "view/cell_json.h"
#include "view/format.h"

/* The values plainly: the row's time is said once. */
static void put_flat(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                     const struct infp_batch *batch, uint32_t row)
{
        infp_json_key(json, "timestamp");
        if (batch && infp_batch_has(batch, 1, row))
                infp_json_i64(json, infp_unix_ms(infp_batch_i64(batch, 1, row)));
        else
                infp_json_null(json);
        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(table); i++) {
                const struct infp_column *c = infp_table_column(table, i);

                if (c->type == INFP_ID64 && i - INFP_FIXED_COLUMNS < table->n_keys &&
                    infp_snapshot_entity(json, last, c->key, batch ? infp_batch_u64(batch, i, row) : 0))
                        continue;
                infp_json_key(json, c->name);
                if (batch)
                        infp_cell_json(json, batch, i, row);
                else
                        infp_json_null(json);
        }
}

static void put_instance(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                         const struct infp_batch *batch, uint32_t row, const struct infp_histograms *histograms)
{
        if (table->flat_section)
                put_flat(json, last, table, batch, row);
        else
                infp_snapshot_row(json, last, table, batch, row);
        if (!table->histograms)
                return;
        infp_json_key(json, "histograms");
        if (batch) {
                infp_histograms_put(histograms, json, infp_batch_u64(batch, INFP_FIXED_COLUMNS, row));
        } else {
                infp_json_object(json);
                infp_json_object_end(json);
        }
}

static void put_list(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                     const struct infp_histograms *histograms)
{
        struct infp_batch batch;

        infp_json_key(json, table->list ? table->list : table->name);
        infp_json_array(json);
        for (uint32_t from = 0; last->rows(last->context, table, from, &batch); from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        infp_json_object(json);
                        put_instance(json, last, table, &batch, row, histograms);
                        infp_json_object_end(json);
                }
        infp_json_array_end(json);
}

/* "cCpu3Time": the number in place of the N. */
static void put_spread_row(struct infp_json *json, const struct infp_batch *batch, uint32_t row)
{
        const struct infp_table *table = batch->table;

        for (unsigned i = INFP_FIXED_COLUMNS + table->n_keys; i < infp_table_width(table); i++) {
                const char *name = infp_table_column(table, i)->name, *n = strchr(name, 'N');
                char made[80];

                if (!n)
                        continue;
                snprintf(made, sizeof(made), "%.*s%lld%s", (int) (n - name), name,
                         (long long) infp_batch_i64(batch, INFP_FIXED_COLUMNS + 1, row), n + 1);
                infp_snapshot_member_as(json, made, table, batch, i, row);
        }
}

static void put_spread(struct infp_json *json, const struct infp_last *last, const char *section, uint64_t id)
{
        const struct infp_table *table;
        struct infp_batch batch;

        for (unsigned i = 0; (table = last->table(last->context, i)); i++) {
                if (!table->spread || !table->section || strcmp(table->section, section) != 0)
                        continue;
                for (uint32_t from = 0; last->rows(last->context, table, from, &batch); from += batch.n_rows)
                        for (uint32_t row = 0; row < batch.n_rows; row++)
                                if (infp_batch_u64(&batch, INFP_FIXED_COLUMNS, row) == id)
                                        put_spread_row(json, &batch, row);
        }
}

static bool number_of(const struct infp_last *last, const struct infp_table *table, uint64_t id, int64_t *ret)
{
        struct infp_batch thing;
        int column;

        if (!last->entity(last->context, table->keys[0].key, id, &thing))
                return false;
        column = infp_table_find(thing.table, "number");
        if (column < 0 || infp_table_column(thing.table, (unsigned) column)->type != INFP_I64)
                return false;
        *ret = infp_batch_i64(&thing, (unsigned) column, 0);
        return true;
}

/* Things may have a number of their own in the run (engines in the order in which they were named): the lowest leads, and goes on
 * doing so while it is silent. False: they have none. */
static bool find_numbered(const struct infp_last *last, const struct infp_table *table,
                          struct infp_snapshot_memory *memory, int64_t *ret_row)
{
        struct infp_batch batch;
        int64_t number, at = -1;

        for (uint32_t from = 0; last->rows(last->context, table, from, &batch); from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        const uint64_t id = infp_batch_u64(&batch, INFP_FIXED_COLUMNS, row);

                        if (number_of(last, table, id, &number) &&
                            (!memory->has_lead || number < memory->lead_number)) {
                                memory->has_lead = true;
                                memory->lead = id;
                                memory->lead_number = number;
                        }
                        if (memory->has_lead && memory->lead == id)
                                at = (int64_t) from + row;
                }
        *ret_row = at;
        return memory->has_lead;
}

/* The number of the row that has the BOOL column; -1: none has. */
static int64_t find_marked(const struct infp_last *last, const struct infp_table *table)
{
        const int column = infp_table_find(table, table->lead_by);
        struct infp_batch batch;

        for (uint32_t from = 0; column >= 0 && last->rows(last->context, table, from, &batch); from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        if (infp_batch_bool(&batch, (unsigned) column, row))
                                return (int64_t) from + row;
        return -1;
}

/* The number of the leading row; -1: it is not there. */
static int64_t find_lead(const struct infp_last *last, const struct infp_table *table,
                         struct infp_snapshot_memory *memory)
{
        int64_t row = table->lead_by ? find_marked(last, table) : -1;

        if (row >= 0)
                return row;
        /* `memory` knows one table of this kind: that with histograms. */
        if (table->histograms && table->keys[0].key && find_numbered(last, table, memory, &row))
                return row;
        return last->first ? last->first(last->context, table) : 0;
}

/* One row: those after it are not wanted here, and there may be many. */
static bool row_of(const struct infp_last *last, const struct infp_table *table, uint32_t index, struct infp_batch *ret)
{
        return last->row ? last->row(last->context, table, index, ret) : last->rows(last->context, table, index, ret);
}

static void put_lead(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                     struct infp_snapshot_memory *memory, const struct infp_histograms *histograms)
{
        const int64_t lead = find_lead(last, table, memory);
        struct infp_batch batch;
        const bool has = lead >= 0 && row_of(last, table, (uint32_t) lead, &batch);

        put_instance(json, last, table, has ? &batch : NULL, 0, histograms);
        if (has && table->keys[0].type == INFP_ID64)
                put_spread(json, last, table->section, infp_batch_u64(&batch, INFP_FIXED_COLUMNS, 0));
        if (row_of(last, table, has ? 1 : 0, &batch))
                put_list(json, last, table, histograms);
}

void infp_snapshot_lead(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                        struct infp_snapshot_memory *memory)
{
        struct infp_histograms *own = table->histograms && !memory->histograms ? infp_histograms_new() : NULL;
        struct infp_histograms *histograms = memory->histograms ? memory->histograms : own;

        if (table->histograms && (!histograms || infp_histograms_refresh(histograms, last, table->histograms) < 0))
                json->out->failed = true;
        else
                put_lead(json, last, table, memory, histograms);
        infp_histograms_free(own);
}
