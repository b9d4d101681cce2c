/* JSON (an array of objects, one a line) and JSON Lines. Integers exact, floats in the shortest text that reads back, absent
 * is null. */
#include "base/json/json.h"

#include <errno.h>
#include <stdlib.h>

#include "view/cell_json.h"
#include "view/format.h"

static void put_row(struct infp_str *out, const struct infp_batch *batch, uint32_t row)
{
        const unsigned width = infp_table_width(batch->table);
        struct infp_json json;

        infp_json_begin(&json, out, 0);
        infp_json_object(&json);
        for (unsigned i = 0; i < width; i++) {
                infp_json_key(&json, infp_table_column(batch->table, i)->name);
                infp_cell_json(&json, batch, i, row);
        }
        infp_json_object_end(&json);
}

static int error_of(const struct infp_out *out)
{
        return out->error == -EPIPE ? 0 : out->error;
}

static int array_begin(struct infp_out *out, const struct infp_table *table)
{
        bool *any = calloc(1, sizeof(*any));

        (void) table;
        if (!any)
                return -ENOMEM;
        out->state = any;
        out->state_free = free;
        infp_str_putc(&out->text, '[');
        return error_of(out);
}

static int array_batch(struct infp_out *out, const struct infp_batch *batch)
{
        bool *any = out->state;

        for (uint32_t row = 0; row < batch->n_rows && !out->error; row++) {
                infp_str_puts(&out->text, *any ? ",\n" : "\n");
                *any = true;
                put_row(&out->text, batch, row);
                infp_out_drain(out);
        }
        return error_of(out);
}

static int array_end(struct infp_out *out, const struct infp_table *table)
{
        const bool *any = out->state;

        (void) table;
        infp_str_puts(&out->text, *any ? "\n]\n" : "]\n");
        free(out->state);
        out->state = NULL;
        infp_out_drain(out);
        return error_of(out);
}

static int lines_begin(struct infp_out *out, const struct infp_table *table)
{
        (void) table;
        return error_of(out);
}

static int lines_batch(struct infp_out *out, const struct infp_batch *batch)
{
        for (uint32_t row = 0; row < batch->n_rows && !out->error; row++) {
                put_row(&out->text, batch, row);
                infp_str_putc(&out->text, '\n');
                infp_out_drain(out);
        }
        return error_of(out);
}

static int lines_end(struct infp_out *out, const struct infp_table *table)
{
        (void) table;
        infp_out_drain(out);
        return error_of(out);
}

const struct infp_format infp_format_json = {
        .name = "json",
        .extension = "json",
        .help = "One JSON array of objects; absent is null.",
        .begin = array_begin,
        .batch = array_batch,
        .end = array_end,
};

const struct infp_format infp_format_jsonl = {
        .name = "jsonl",
        .extension = "json",
        .help = "JSON Lines: one object a line.",
        .begin = lines_begin,
        .batch = lines_batch,
        .end = lines_end,
};
