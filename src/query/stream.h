/* A table of a run that is being recorded, read on as it grows: each row once, in order of segments. Beside scan.h, which reads a
 * table from its begin each time. Rows are on disk at most a second after their stamp while the caller is registered as a reader
 * (store/live.h). */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "store/run.h"

/* A wanted column: where the table lacks it, or has it with another type, it is absent in every row. */
struct infp_stream_column {
        const char *name;
        enum infp_type type;
};

struct infp_stream;
/* table and columns are borrowed until close, as the run is. The table need not be there yet. */
int infp_stream_open(struct infp_run *run, const char *table, const struct infp_stream_column *columns, unsigned n,
                     struct infp_stream **ret, struct infp_err *err);
struct infp_stream *infp_stream_close(struct infp_stream *stream); /* NULL is fine; returns NULL */
/* 1: a batch, borrowed until the next call; 0: no more rows yet; a negative errno. *ret_at: where each wanted column is in the
 * batch, or -1. */
int infp_stream_next(struct infp_stream *stream, struct infp_batch *ret, const int **ret_at, struct infp_err *err);
