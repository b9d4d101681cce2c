/* How a collector emits rows, and reports why something is missing. Used by one thread. Never blocks, never allocates: a row
 * without room is dropped and counted by the emitter's owner. */
#pragma once

#include <stdint.h>

#include "model/row.h"
#include "model/tables.h"

enum { INFP_EMIT_STATES = 1024 };

struct infp_emit {
        struct infp_row row;
        /* Takes the row (ring of the recorder, snapshot, test); 0 or -ENOSPC (dropped). */
        int (*put)(void *context, const struct infp_row *row);
        void *context;
        uint64_t quiet[2]; /* columns of the row that may be empty without a reason */
        uint64_t n_rows, n_dropped;
        const char *collector; /* whose rows these are: set by the caller of open and sample */
        uint64_t t_ns;         /* of the running sample, for rows of `sources` */
        /* What was last reported of each (collector, instance, table, column), so that only changes are written. */
        struct infp_emit_state {
                uint64_t key, said;
        } states[INFP_EMIT_STATES];
        struct infp_row source_row;
        char text[INFP_ROW_TEXT], source_text[4096];
};

void infp_emit_init(struct infp_emit *emit, int (*put)(void *context, const struct infp_row *row), void *context);

/* A row to fill, borrowed until commit. */
struct infp_row *infp_emit_begin(struct infp_emit *emit, const struct infp_table *table, uint64_t t_ns);

/* Sends the row. In a table without keys every column that has no value now, and was not explained by infp_emit_source, gets
 * the reason "the source does not provide it here" in `sources`; when it has a value again, `ok`. */
void infp_emit_commit(struct infp_emit *emit);

/* Between begin and commit: the cell may be empty in this row without a reason, since the row itself shows why. */
void infp_emit_quiet(struct infp_emit *emit, unsigned cell);

/* State of a source: of the whole collector (table NULL), a table (column -1) or one column (a cell number). `instance`,
 * `reason`, `fix` may be NULL. Written only when it differs from the last report. Works between begin and commit, too. */
void infp_emit_source(struct infp_emit *emit, const struct infp_table *table, int column, const char *instance,
                      enum infp_source_state state, const char *reason, const char *fix);

/* The state for a negative errno of a file: ENOENT, ENODEV: absent; EACCES, EPERM: denied; else broken. */
enum infp_source_state infp_source_state_of(int r);
