/* Rows of an import on their way into the store: builders, batches, segments. */
#pragma once

#include "base/err.h"
#include "model/builder.h"
#include "model/row.h"
#include "store/run.h"
#include "store/store.h"

enum { INFP_IMPORT_TABLES = 10 };

struct infp_import_rows {
        const struct infp_run *run;
        struct infp_sink *sink, *store; /* store: the sink that is our own; NULL: it is the caller's */
        uint32_t segment;
        int64_t unix_offset_ns; /* wall clock less t_ns */
        struct infp_row row;
        bool failed; /* out of memory while the row was filled: put reports it */
        unsigned n_tables;
        struct infp_import_table {
                const struct infp_table *table;
                struct infp_builder *builder;
        } tables[INFP_IMPORT_TABLES];
};

/* sink: borrowed; NULL: the run's own on disk. */
int infp_import_rows_init(struct infp_import_rows *rows, struct infp_run *run, struct infp_sink *sink,
                          const struct infp_table *const *tables, unsigned n, struct infp_err *err);
void infp_import_rows_done(struct infp_import_rows *rows);

/* A row to fill, then to put. One at a time. Its texts may have 4 KiB together; reserve makes room for so many bytes more. */
struct infp_row *infp_import_row(struct infp_import_rows *rows, const struct infp_table *table, uint64_t t_ns);
void infp_import_reserve(struct infp_import_rows *rows, size_t text);
int infp_import_put(struct infp_import_rows *rows, struct infp_err *err);
/* A segment is full: everything is flushed and a new one begins, true. Entities are to be written again then. */
int infp_import_rotate(struct infp_import_rows *rows, bool *ret_rotated, struct infp_err *err);
int infp_import_rows_end(struct infp_import_rows *rows, struct infp_err *err);
