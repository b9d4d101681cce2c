#include "import/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { CALLERS_ROWS = 16, FIRST_TEXT = 4096 };

int infp_import_rows_init(struct infp_import_rows *rows, struct infp_run *run, struct infp_sink *sink,
                          const struct infp_table *const *tables, unsigned n, struct infp_err *err)
{
        *rows = (struct infp_import_rows){ .run = run, .sink = sink, .segment = 1 };
        infp_import_reserve(rows, 0);
        if (!sink) {
                INFP_TRY(infp_store_sink_new(run, NULL, &rows->store, err));
                rows->sink = rows->store;
        }
        for (unsigned i = 0; i < n; i++) {
                rows->tables[rows->n_tables++] = (struct infp_import_table){ .table = tables[i] };
                INFP_TRY(rows->sink->table_begin(rows->sink, tables[i], err));
        }
        return 0;
}

void infp_import_rows_done(struct infp_import_rows *rows)
{
        for (unsigned i = 0; i < rows->n_tables; i++)
                infp_builder_free(rows->tables[i].builder);
        infp_store_sink_free(rows->store);
        free(rows->row.text);
        *rows = (struct infp_import_rows){ 0 };
}

struct infp_row *infp_import_row(struct infp_import_rows *rows, const struct infp_table *table, uint64_t t_ns)
{
        infp_row_begin(&rows->row, table, t_ns);
        return &rows->row;
}

void infp_import_reserve(struct infp_import_rows *rows, size_t text)
{
        struct infp_row *row = &rows->row;
        const size_t wanted = row->text_size + text + FIRST_TEXT;
        const size_t cap = wanted < INFP_ROW_TEXT / 2 ? 2 * wanted : INFP_ROW_TEXT;
        char *grown;

        if (row->text_cap == INFP_ROW_TEXT || wanted <= row->text_cap)
                return;
        grown = realloc(row->text, cap);
        rows->failed |= !grown;
        if (grown) {
                row->text = grown;
                row->text_cap = (uint32_t) cap;
        }
}

static int flush(struct infp_import_rows *rows, struct infp_import_table *t, struct infp_err *err)
{
        struct infp_batch batch = infp_builder_batch(t->builder, 0);
        int r = rows->sink->batch(rows->sink, &batch, err);

        if (r < 0) /* the store's own text speaks of a recording that continues */
                return infp_fail(err, r, "cannot write into %s/%s.infprof: %s; nothing was imported", rows->run->output,
                                 rows->run->info.uuid, strerror(-r));
        infp_builder_reset(t->builder);
        return 0;
}

/* What a row refers to is written first: tables are in that order. */
static int flush_all(struct infp_import_rows *rows, struct infp_err *err)
{
        for (unsigned i = 0; i < rows->n_tables; i++)
                if (rows->tables[i].builder && infp_builder_rows(rows->tables[i].builder))
                        INFP_TRY(flush(rows, &rows->tables[i], err));
        return 0;
}

/* The builder is created for the first row: many files leave some tables empty. NULL: not enough memory. */
static struct infp_import_table *find(struct infp_import_rows *rows, const struct infp_table *table)
{
        struct infp_import_table *t = rows->tables;

        while (t->table != table)
                t++;
        if (!t->builder)
                t->builder = infp_builder_new(table, rows->store ? INFP_BATCH_ROWS : CALLERS_ROWS);
        return t->builder ? t : NULL;
}

int infp_import_put(struct infp_import_rows *rows, struct infp_err *err)
{
        struct infp_import_table *t = rows->failed ? NULL : find(rows, rows->row.table);
        int64_t unix_ns = (int64_t) (rows->row.t_ns + (uint64_t) rows->unix_offset_ns);
        int r = t ? infp_builder_append(t->builder, &rows->row, unix_ns)
                  : infp_fail(err, -ENOMEM, "not enough memory to import");

        if (r != -ENOSPC)
                return r;
        INFP_TRY(flush_all(rows, err));
        r = infp_builder_append(t->builder, &rows->row, unix_ns);
        if (r == -ENOSPC && infp_builder_grow(t->builder, rows->row.text_size) == 0)
                r = infp_builder_append(t->builder, &rows->row, unix_ns);
        return r < 0 ? infp_fail(err, -ENOMEM, "not enough memory to import") : 0;
}

int infp_import_rotate(struct infp_import_rows *rows, bool *ret_rotated, struct infp_err *err)
{
        *ret_rotated = rows->sink->wants_rotation;
        if (!*ret_rotated)
                return 0;
        INFP_TRY(flush_all(rows, err));
        rows->sink->wants_rotation = false;
        return rows->sink->rotate(rows->sink, ++rows->segment, err);
}

/* A disk that is slow to sync is not a failure: the rows are written. */
int infp_import_rows_end(struct infp_import_rows *rows, struct infp_err *err)
{
        int r;

        INFP_TRY(flush_all(rows, err));
        r = rows->sink->end(rows->sink, err);
        return r == -ETIMEDOUT ? 0 : r;
}
