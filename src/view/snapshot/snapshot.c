#include "view/snapshot/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/tables.h"
#include "view/cell_json.h"
#include "view/format.h"
#include "view/snapshot/parts.h"

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

/* What stands behind each value of a row on one line. */
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

/* The same text as by the long way, for less: of 50 containers these are 3,000 members at each tick. */
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
void infp_snapshot_member_as(struct infp_json *json, const char *name, const struct infp_table *table,
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

/* The attributes of the thing that an id names, without the id: a hash means nothing to a reader of one file. */
bool infp_snapshot_entity(struct infp_json *json, const struct infp_last *last, const char *name, uint64_t id)
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

void infp_snapshot_row(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                       const struct infp_batch *batch, uint32_t row)
{
        const struct ending ending = ending_of(batch, row);

        for (unsigned i = INFP_FIXED_COLUMNS, width = infp_table_width(table); i < width; i++) {
                const struct infp_column *c = infp_table_column(table, i);

                if (c->type == INFP_ID64 && i - INFP_FIXED_COLUMNS < table->n_keys &&
                    infp_snapshot_entity(json, last, c->key, batch ? infp_batch_u64(batch, i, row) : 0))
                        continue;
                put_member_as(json, c->name, c, batch, i, row, &ending);
        }
}

/* The row as it stands in the list is left with its keeper. */
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
        infp_snapshot_row(json, last, table, &batch, 0);
        infp_json_object_end(json);
        if (out->failed)
                return;
        from += out->data[from] == ',';
        last->keep(last->context, table, index, out->data + from, out->size - from);
}

/* Rows that are carried forward look the same at each tick, down to the time of their reading: of 500 processes on a quiet
 * machine that is nearly all of the file, and making it anew took as much time as reading the processes. */
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
                        infp_snapshot_row(json, last, table, &batch, row);
                        infp_json_object_end(json);
                }
        infp_json_array_end(json);
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
                        infp_snapshot_lead(json, last, table, memory);
                } else if (table->n_keys) {
                        infp_json_key(json, table->name);
                        put_list(json, last, table);
                } else {
                        const bool has = last->rows(last->context, table, 0, &batch);

                        infp_snapshot_row(json, last, table, has ? &batch : NULL, 0);
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

/* Only what does not work; what is not said here is well. */
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
                        infp_snapshot_row(json, last, table, &batch, row);
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
