/* Collects rows into a batch. Appending never allocates: when rows, or the room for texts, are used up it says -ENOSPC and
 * the owner takes the batch, resets and may grow. */
#pragma once

#include "model/batch.h"
#include "model/row.h"

struct infp_builder; /* owns its memory */

/* cap_rows <= INFP_BATCH_ROWS. NULL without memory. */
struct infp_builder *infp_builder_new(const struct infp_table *table, uint32_t cap_rows);
struct infp_builder *infp_builder_free(struct infp_builder *b); /* returns NULL */

/* unix_ns is the row's `time`. 0, or -ENOSPC: nothing was appended. A row whose texts alone exceed the empty builder's room
 * makes infp_builder_grow necessary. */
int infp_builder_append(struct infp_builder *b, const struct infp_row *row, int64_t unix_ns);

uint32_t infp_builder_rows(const struct infp_builder *b);
size_t infp_builder_bytes(const struct infp_builder *b);
/* All rows, or those from `first` on; borrowed until the next append, reset or grow. */
struct infp_batch infp_builder_batch(const struct infp_builder *b, uint32_t first);
void infp_builder_reset(struct infp_builder *b);
/* Doubles rows (up to INFP_BATCH_ROWS) and makes room for at least `text` bytes more in each text column; only when empty. */
int infp_builder_grow(struct infp_builder *b, size_t text);

/* Cell-wise, for readers and tests that make batches without rows: begin a row, set by table column index (0 = t_ns), end. */
int infp_builder_row_begin(struct infp_builder *b, uint64_t t_ns, int64_t unix_ns);
void infp_builder_set(struct infp_builder *b, unsigned column, union infp_cell cell, const char *text, size_t size);
void infp_builder_set_text(struct infp_builder *b, unsigned column, const char *text);
void infp_builder_set_f64(struct infp_builder *b, unsigned column, double v); /* not finite: no value */
int infp_builder_row_end(struct infp_builder *b); /* 0, or -ENOSPC when a text did not fit: the row is not there */
