/* Arrow IPC streams in memory: what the store writes into its segments and what `-f arrow` writes anywhere. Each put appends
 * whole messages to a string; a failed one appends nothing. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "model/batch.h"

/* Encoding memory of one thread; all writers of a sink share one, since it grows to the size of the largest batch. */
struct infp_arrow_encoder;
int infp_arrow_encoder_new(struct infp_arrow_encoder **ret, struct infp_err *err);
struct infp_arrow_encoder *infp_arrow_encoder_free(struct infp_arrow_encoder *encoder); /* NULL is fine; returns NULL */

/* Both the table and the encoder are borrowed. encoder NULL: the writer makes one of its own. */
struct infp_arrow_writer;
int infp_arrow_writer_new(const struct infp_table *table, struct infp_arrow_encoder *encoder,
                          struct infp_arrow_writer **ret, struct infp_err *err);
struct infp_arrow_writer *infp_arrow_writer_free(struct infp_arrow_writer *writer); /* NULL is fine; returns NULL */

/* The first message of a stream. Field metadata: unit, kind, quality, reset, help, and type "id64" with its entity. */
int infp_arrow_put_schema(struct infp_arrow_writer *writer, struct infp_str *out, struct infp_err *err);
/* Any slice of the table's columns (first may be anything); no rows: nothing is appended. */
int infp_arrow_put_batch(struct infp_arrow_writer *writer, const struct infp_batch *batch, struct infp_str *out,
                         struct infp_err *err);
void infp_arrow_put_end(struct infp_str *out); /* the end-of-stream marker */
