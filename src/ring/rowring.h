/* The way of rows from one collector thread to the recorder: a byte ring of records of various sizes, one writer, one reader.
 * Neither ever waits for the other: a row that finds no room is dropped and counted. Steady state: no allocation, no lock. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "model/row.h"

struct infp_rowring;

/* Says that all rows of this tick of this writer stand before it. */
struct infp_rowring_tick {
        uint64_t number, t_ns;
        uint64_t end_ns; /* when it was over, and these rows were written */
};

enum infp_rowring_kind { INFP_ROWRING_EMPTY, INFP_ROWRING_ROW, INFP_ROWRING_TICK };

/* bytes: a power of two, at least 4 KiB; memory is touched only as far as rows wait in it. 0, -EINVAL or -ENOMEM. */
int infp_rowring_new(size_t bytes, struct infp_rowring **ret);
struct infp_rowring *infp_rowring_free(struct infp_rowring *ring); /* NULL is fine; returns NULL */

/* Writer. 0 or -ENOSPC: dropped and counted. A row of about half of the ring never fits. Room for ticks is held back
 * from rows, so that a burst of rows cannot lose the end of its tick. */
int infp_rowring_put(struct infp_rowring *ring, const struct infp_row *row);
int infp_rowring_put_tick(struct infp_rowring *ring, const struct infp_rowring_tick *tick);

/* Reader. Takes the next record; what the call before gave (the row's text lies in the ring) is given back to the writer. */
enum infp_rowring_kind infp_rowring_next(struct infp_rowring *ring, struct infp_row *ret_row,
                                         struct infp_rowring_tick *ret_tick);

/* Any thread. */
size_t infp_rowring_used(const struct infp_rowring *ring);
/* Bytes since the start that the writer has written and that the reader has given back; between them lies what is used. */
uint64_t infp_rowring_written(const struct infp_rowring *ring);
uint64_t infp_rowring_taken(const struct infp_rowring *ring);
size_t infp_rowring_size(const struct infp_rowring *ring);
uint64_t infp_rowring_dropped(const struct infp_rowring *ring);
