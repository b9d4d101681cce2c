/* Where the recorder's rows go. Batches are borrowed for the call; a sink returns 0 or a negative errno with the text; the
 * recorder reports each failing sink once, counts, and goes on with the others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"

struct infp_sink {
        const char *name;
        /* true: gets what is new after each tick, in slices; false: gets full batches when the recorder flushes. */
        bool each_tick;
        /* What tick_end makes is of that moment alone: when the recorder is behind it is left out, so that no rows are lost. */
        bool can_skip;
        int (*table_begin)(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err);
        int (*batch)(struct infp_sink *sink, const struct infp_batch *batch, struct infp_err *err);
        /* After each tick's rows (each_tick) or after each flush. unix_ms: the tick's time. May be NULL. */
        int (*tick_end)(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err);
        /* All tables go on in new segments numbered `seq`; entities are written again before their first fact. May be NULL. */
        int (*rotate)(struct infp_sink *sink, uint32_t seq, struct infp_err *err);
        bool wants_rotation; /* set by the sink (a segment is full); the recorder rotates at its next flush and clears it */
        /* Once, at the end; nothing is called after it. The owner frees the sink itself. May be NULL. */
        int (*end)(struct infp_sink *sink, struct infp_err *err);
};
