#include "view/snapshot/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "model/tables.h"
#include "view/cell_json.h"
#include "view/format.h"
#include "view/snapshot/snapshot.h"

static void put_value(struct infp_json *json, const struct infp_batch *batch, unsigned i, uint32_t row)
{
        if (batch)
                infp_cell_json(json, batch, i, row);
        else
                infp_json_null(json);
}

static void put_time(struct infp_json *json, const struct infp_batch *batch, unsigned i, uint32_t row)
{
        if (batch && infp_batch_has(batch, i, row) && infp_batch_has(batch, 1, row))
                infp_json_i64(json, infp_unix_ms(infp_batch_i64(batch, 1, row)));
        else
                infp_json_null(json);
}

/* The part after each value of a row on one line. */
struct ending {
        char text[40];
        size_t size;
};

static struct ending ending_of(const struct infp_batch *batch, uint32_t row)
{
        struct ending ret;

        if (batch && infp_batch_has(batch, 1, row))
                ret.size = (size_t) snprintf(ret.text, sizeof(ret.text), ",\"time\":%" PRId64 "}",
                                             infp_unix_ms(infp_batch_i64(batch, 1, row)));
        else
                ret.size = (size_t) snprintf(ret.text, sizeof(ret.text), ",\"time\":null}");
        return ret;
}

/* A fast path with the same result: 50 containers have 3,000 members per tick. */
static void put_timed_line(struct infp_json *json, const char *name, const struct infp_batch *batch, unsigned i,
                           uint32_t row, const struct ending *ending)
{
        static const char nothing[] = "null,\"time\":null}", begin[] = "\":{\"value\":";

        infp_json_raw(json, "\"", 1);
        infp_str_puts(json->out, name); /* names of columns need no escapes */
        infp_str_put(json->out, begin, sizeof(begin) - 1);
        if (!batch || !infp_batch_has(batch, i, row)) {
                infp_str_put(json->out, nothing, sizeof(nothing) - 1);
                return;
        }
        json->after_key = true;
        put_value(json, batch, i, row);
        infp_str_put(json->out, ending->text, ending->size);
}

static void put_member_as(struct infp_json *json, const char *name, const struct infp_column *c,
                          const struct infp_batch *batch, unsigned i, uint32_t row, const struct ending *ending)
{
        if (c->kind != INFP_LABEL && json->indent == 0) {
                put_timed_line(json, name, batch, i, row, ending);
                return;
        }
        infp_json_key(json, name);
        if (c->kind == INFP_LABEL) {
                put_value(json, batch, i, row);
                return;
        }
        infp_json_object(json);
        infp_json_key(json, "value");
        put_value(json, batch, i, row);
        infp_json_key(json, "time");
        put_time(json, batch, i, row);
        infp_json_object_end(json);
}

/* A label is plain; what changes carries the time of its own reading. `batch` NULL: the table has no row now. */
static void put_column_as(struct infp_json *json, const char *name, const struct infp_table *table,
                          const struct infp_batch *batch, unsigned i, uint32_t row)
{
        const struct ending ending = ending_of(batch, row);

        put_member_as(json, name, infp_table_column(table, i), batch, i, row, &ending);
}

static const struct infp_table *find_table(const struct infp_last *last, const char *name)
{
        const struct infp_table *table;

        for (unsigned i = 0; (table = last->table(last->context, i)); i++)
                if (!strcmp(table->name, name))
                        return table;
        return NULL;
}

/* The attributes of the entity, without its id: a hash means nothing to a reader of one file. */
static bool put_entity(struct infp_json *json, const struct infp_last *last, const char *name, uint64_t id)
{
        const struct infp_table *table = name && *name ? find_table(last, name) : NULL;
        struct infp_batch thing;
        const bool known = table && last->entity(last->context, name, id, &thing);
        const struct ending ending = ending_of(known ? &thing : NULL, 0);

        if (!table)
                return false;
        for (unsigned i = INFP_FIXED_COLUMNS, width = infp_table_width(table); i < width; i++) {
                const struct infp_column *c = infp_table_column(table, i);

                if (c->type != INFP_ID64)
                        put_member_as(json, c->name, c, known ? &thing : NULL, i, 0, &ending);
        }
        return true;
}

static void put_row(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                    const struct infp_batch *batch, uint32_t row)
{
        const struct ending ending = ending_of(batch, row);

        for (unsigned i = INFP_FIXED_COLUMNS, width = infp_table_width(table); i < width; i++) {
                const struct infp_column *c = infp_table_column(table, i);

                if (c->type == INFP_ID64 && i - INFP_FIXED_COLUMNS < table->n_keys &&
                    put_entity(json, last, c->key, batch ? infp_batch_u64(batch, i, row) : 0))
                        continue;
                put_member_as(json, c->name, c, batch, i, row, &ending);
        }
}

/* Leaves the text of the row with its keeper. */
static void put_and_keep(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                         uint32_t index)
{
        struct infp_str *out = json->out;
        size_t from = out->size;
        struct infp_batch batch;

        if (!last->row(last->context, table, index, &batch)) {
                out->failed = true;
                return;
        }
        infp_json_object(json);
        put_row(json, last, table, &batch, 0);
        infp_json_object_end(json);
        if (out->failed)
                return;
        from += out->data[from] == ',';
        last->keep(last->context, table, index, out->data + from, out->size - from);
}

/* Rows carried forward are the same at each tick, including their time: with 500 processes on a quiet machine that is nearly
 * the whole file, and writing it again took as long as reading the processes. */
static void put_kept_list(struct infp_json *json, const struct infp_last *last, const struct infp_table *table)
{
        infp_json_array(json);
        for (uint32_t index = 0; !json->out->failed; index++) {
                const char *text;
                size_t size;
                const int r = last->kept(last->context, table, index, &text, &size);

                if (r < 0)
                        break;
                if (r > 0)
                        infp_json_raw(json, text, size);
                else
                        put_and_keep(json, last, table, index);
        }
        infp_json_array_end(json);
}

static void put_list(struct infp_json *json, const struct infp_last *last, const struct infp_table *table)
{
        struct infp_batch batch;

        if (last->kept && table->on_change && json->indent == 0) {
                put_kept_list(json, last, table);
                return;
        }
        infp_json_array(json);
        for (uint32_t from = 0; last->rows(last->context, table, from, &batch); from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        infp_json_object(json);
                        put_row(json, last, table, &batch, row);
                        infp_json_object_end(json);
                }
        infp_json_array_end(json);
}

/* Tables whose first instance has the section to itself, as the mission nests them: "vllm" is the first engine, "containers"
 * the target's container. Further instances are in a list beside its values. */
/* Plain values; the row's time is written once. */
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
                    put_entity(json, last, c->key, batch ? infp_batch_u64(batch, i, row) : 0))
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
                put_row(json, last, table, batch, row);
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

static void put_instances(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
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
                put_column_as(json, made, table, batch, i, row);
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

/* Entities may have a number in the run (engines, in order of appearance): the lowest leads, even while it has no rows.
 * False: no numbers. */
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

/* The row whose BOOL column is true; -1: none. */
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

/* The leading row; -1: absent. */
static int64_t find_lead(const struct infp_last *last, const struct infp_table *table,
                         struct infp_snapshot_memory *memory)
{
        int64_t row = table->lead_by ? find_marked(last, table) : -1;

        if (row >= 0)
                return row;
        /* `memory` is for one table of this kind: the one with histograms. */
        if (table->histograms && table->keys[0].key && find_numbered(last, table, memory, &row))
                return row;
        return last->first ? last->first(last->context, table) : 0;
}

/* A batch of one row, without the many that may follow. */
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
                put_instances(json, last, table, histograms);
}

static void put_lead_and_list(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
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

static bool is_shown(const struct infp_table *table)
{
        return table->section && *table->section && !table->entity;
}

static bool in_section(const struct infp_table *table, const char *section)
{
        return is_shown(table) && !strcmp(table->section, section);
}

static void put_section(struct infp_json *json, const struct infp_last *last, const char *section,
                        struct infp_snapshot_memory *memory)
{
        const struct infp_table *table, *only = NULL;
        struct infp_batch batch;
        unsigned n = 0;

        for (unsigned i = 0; (table = last->table(last->context, i)); i++)
                if (in_section(table, section)) {
                        only = table;
                        n++;
                }
        infp_json_key(json, section);
        if (n == 1 && only->n_keys && !only->lead) {
                put_list(json, last, only);
                return;
        }
        infp_json_object(json);
        for (unsigned i = 0; (table = last->table(last->context, i)); i++) {
                if (!in_section(table, section) || table->spread)
                        continue;
                if (table->lead) {
                        put_lead_and_list(json, last, table, memory);
                } else if (table->n_keys) {
                        infp_json_key(json, table->name);
                        put_list(json, last, table);
                } else {
                        const bool has = last->rows(last->context, table, 0, &batch);

                        put_row(json, last, table, has ? &batch : NULL, 0);
                }
        }
        infp_json_object_end(json);
}

static bool is_first_of_section(const struct infp_last *last, unsigned index)
{
        const struct infp_table *table = last->table(last->context, index);

        for (unsigned i = 0; i < index; i++)
                if (in_section(last->table(last->context, i), table->section))
                        return false;
        return true;
}

/* Only sources that do not work. */
static void put_sources(struct infp_json *json, const struct infp_last *last)
{
        const struct infp_table *table = &infp_table_sources;
        struct infp_batch batch;

        infp_json_key(json, table->name);
        infp_json_array(json);
        for (uint32_t from = 0; last->rows(last->context, table, from, &batch); from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        size_t size;
                        const char *state = infp_batch_str(&batch, INFP_FIXED_COLUMNS + INFP_SOURCES_STATE, row, &size);

                        if (size == 2 && !memcmp(state, "ok", 2))
                                continue;
                        infp_json_object(json);
                        put_row(json, last, table, &batch, row);
                        infp_json_object_end(json);
                }
        infp_json_array_end(json);
}

void infp_snapshot_put_again(struct infp_str *out, const struct infp_last *last, int64_t unix_ms, unsigned indent,
                             bool sources, struct infp_snapshot_memory *memory)
{
        const struct infp_table *table;
        struct infp_json json;

        infp_json_begin(&json, out, indent);
        infp_json_object(&json);
        infp_json_key(&json, "timestamp");
        infp_json_i64(&json, unix_ms);
        for (unsigned i = 0; (table = last->table(last->context, i)); i++)
                if (is_shown(table) && is_first_of_section(last, i))
                        put_section(&json, last, table->section, memory);
        if (sources)
                put_sources(&json, last);
        infp_json_object_end(&json);
        infp_str_putc(out, '\n');
}

void infp_snapshot_put(struct infp_str *out, const struct infp_last *last, int64_t unix_ms, unsigned indent,
                       bool sources)
{
        struct infp_snapshot_memory memory = { 0 };

        infp_snapshot_put_again(out, last, unix_ms, indent, sources, &memory);
}
