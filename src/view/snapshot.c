#include "view/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "model/tables.h"
#include "view/format.h"

static void put_value(struct infp_json *json, const struct infp_batch *batch, unsigned i, uint32_t row)
{
        size_t size;
        const char *text;

        if (!batch || !infp_batch_has(batch, i, row)) {
                infp_json_null(json);
                return;
        }
        switch (infp_table_column(batch->table, i)->type) {
        case INFP_I64:
                infp_json_i64(json, infp_batch_i64(batch, i, row));
                break;
        case INFP_U64:
        case INFP_ID64:
                infp_json_u64(json, infp_batch_u64(batch, i, row));
                break;
        case INFP_F64:
                infp_json_f64(json, infp_batch_f64(batch, i, row));
                break;
        case INFP_BOOL:
                infp_json_bool(json, infp_batch_bool(batch, i, row));
                break;
        case INFP_TS_NS:
                infp_json_i64(json, infp_unix_ms(infp_batch_i64(batch, i, row)));
                break;
        case INFP_STR:
                text = infp_batch_str(batch, i, row, &size);
                infp_json_strn(json, text, size);
                break;
        }
}

/* A label is plain; what changes carries the time of its own reading. `batch` NULL: the table has no row now. */
static void put_member(struct infp_json *json, const struct infp_table *table, const struct infp_batch *batch,
                       unsigned i, uint32_t row)
{
        const struct infp_column *c = infp_table_column(table, i);

        infp_json_key(json, c->name);
        if (c->kind == INFP_LABEL) {
                put_value(json, batch, i, row);
                return;
        }
        infp_json_object(json);
        infp_json_key(json, "value");
        put_value(json, batch, i, row);
        infp_json_key(json, "time");
        if (batch && infp_batch_has(batch, i, row) && infp_batch_has(batch, 1, row))
                infp_json_i64(json, infp_unix_ms(infp_batch_i64(batch, 1, row)));
        else
                infp_json_null(json);
        infp_json_object_end(json);
}

static const struct infp_table *table_named(const struct infp_last *last, const char *name)
{
        const struct infp_table *table;

        for (unsigned i = 0; (table = last->table(last->context, i)); i++)
                if (!strcmp(table->name, name))
                        return table;
        return NULL;
}

/* The attributes of the thing that an id names, without the id: a hash means nothing to a reader of one file. */
static bool put_entity(struct infp_json *json, const struct infp_last *last, const char *name, uint64_t id)
{
        const struct infp_table *table = name && *name ? table_named(last, name) : NULL;
        struct infp_batch thing;
        const bool known = table && last->entity(last->context, name, id, &thing);

        if (!table)
                return false;
        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(table); i++)
                if (infp_table_column(table, i)->type != INFP_ID64)
                        put_member(json, table, known ? &thing : NULL, i, 0);
        return true;
}

static void put_row(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                    const struct infp_batch *batch, uint32_t row)
{
        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(table); i++) {
                const struct infp_column *c = infp_table_column(table, i);

                if (c->type == INFP_ID64 && i - INFP_FIXED_COLUMNS < table->n_keys && batch &&
                    put_entity(json, last, c->key, infp_batch_u64(batch, i, row)))
                        continue;
                put_member(json, table, batch, i, row);
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
        put_row(json, last, table, &batch, 0);
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
                        put_row(json, last, table, &batch, row);
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

static void put_section(struct infp_json *json, const struct infp_last *last, const char *section)
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
        if (n == 1 && only->n_keys) {
                put_list(json, last, only);
                return;
        }
        infp_json_object(json);
        for (unsigned i = 0; (table = last->table(last->context, i)); i++) {
                if (!in_section(table, section))
                        continue;
                if (table->n_keys) {
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
                        put_row(json, last, table, &batch, row);
                        infp_json_object_end(json);
                }
        infp_json_array_end(json);
}

void infp_snapshot_put(struct infp_str *out, const struct infp_last *last, int64_t unix_ms, unsigned indent,
                       bool sources)
{
        const struct infp_table *table;
        struct infp_json json;

        infp_json_begin(&json, out, indent);
        infp_json_object(&json);
        infp_json_key(&json, "timestamp");
        infp_json_i64(&json, unix_ms);
        for (unsigned i = 0; (table = last->table(last->context, i)); i++)
                if (is_shown(table) && is_first_of_section(last, i))
                        put_section(&json, last, table->section);
        if (sources)
                put_sources(&json, last);
        infp_json_object_end(&json);
        infp_str_putc(out, '\n');
}

/* The sink. */

struct snapshots {
        struct infp_sink sink;
        struct infp_snapshot_options options;
        char uuid[40];
        struct infp_str text;
        uint64_t n_bytes;
        bool is_full;
};

static struct snapshots *snapshots_of(const struct infp_sink *sink)
{
        return (struct snapshots *) (uintptr_t) sink;
}

static int table_begin(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        (void) sink;
        (void) table;
        (void) err;
        return 0;
}

static int batch(struct infp_sink *sink, const struct infp_batch *rows, struct infp_err *err)
{
        (void) sink;
        (void) rows;
        (void) err;
        return 0;
}

/* Written in one piece under its final name: a file is there whole, or (after a crash in between, a full disk) not at all. */
static int write_file(struct snapshots *s, int64_t unix_ms, struct infp_err *err)
{
        char name[80];
        int fd, r;

        snprintf(name, sizeof(name), "%s-%lld.json", s->uuid, (long long) unix_ms);
        fd = openat(s->options.output_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
                return infp_fail_errno(err, -errno, "cannot create the snapshot %s", name);
        r = infp_write_all(fd, s->text.data, s->text.size, NULL);
        infp_close(fd);
        if (r < 0) {
                unlinkat(s->options.output_fd, name, 0);
                return infp_fail_errno(err, r, "cannot write the snapshot %s", name);
        }
        s->n_bytes += s->text.size;
        return 0;
}

static void say_full(struct snapshots *s)
{
        char text[200];

        s->is_full = true;
        snprintf(text, sizeof(text),
                 "snapshots stop here: they have reached their limit of %.1f MiB (--snapshot-limit); the recording "
                 "itself "
                 "goes on",
                 (double) s->options.limit_bytes / (1 << 20));
        if (s->options.notice)
                s->options.notice(s->options.context, text);
}

static int tick_end(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct snapshots *s = snapshots_of(sink);

        (void) t_ns;
        if (s->is_full)
                return 0;
        infp_str_clear(&s->text);
        infp_snapshot_put(&s->text, &s->options.last, unix_ms, 0, false);
        if (s->text.failed) {
                infp_str_done(&s->text);
                return infp_fail(err, -ENOMEM, "no memory for a snapshot");
        }
        if (s->n_bytes + s->text.size > s->options.limit_bytes) {
                say_full(s);
                return 0;
        }
        return write_file(s, unix_ms, err);
}

int infp_snapshot_sink_new(const struct infp_snapshot_options *options, struct infp_sink **ret, struct infp_err *err)
{
        struct snapshots *s = calloc(1, sizeof(*s));

        if (!s)
                return infp_fail(err, -ENOMEM, "no memory for snapshots");
        s->options = *options;
        if (!s->options.limit_bytes)
                s->options.limit_bytes = INFP_SNAPSHOT_LIMIT;
        snprintf(s->uuid, sizeof(s->uuid), "%s", options->uuid);
        s->sink = (struct infp_sink){
                .name = "snapshots",
                .each_tick = true,
                .can_skip = true,
                .table_begin = table_begin,
                .batch = batch,
                .tick_end = tick_end,
        };
        *ret = &s->sink;
        return 0;
}

struct infp_sink *infp_snapshot_sink_free(struct infp_sink *sink)
{
        struct snapshots *s = snapshots_of(sink);

        if (!s)
                return NULL;
        infp_str_done(&s->text);
        free(s);
        return NULL;
}

uint64_t infp_snapshot_bytes(const struct infp_sink *sink)
{
        return snapshots_of(sink)->n_bytes;
}
