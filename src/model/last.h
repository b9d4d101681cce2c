/* The last row of each table, and of each key in keyed tables, as somebody keeps them (record/tail.h): what snapshots, the
 * Prometheus page and `top` read. An interface, so that views need not know the recorder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/batch.h"

struct infp_last {
        void *context;
        /* By index, in the order in which they were announced; NULL at the end. A table may have no rows. */
        const struct infp_table *(*table)(void *context, unsigned index);
        /* The rows of the table from number `from` on, as many as go into a batch; borrowed until the next call of this
         * function. false: no more, or no memory. */
        bool (*rows)(void *context, const struct infp_table *table, uint32_t from, struct infp_batch *ret);
        /* The row of a thing by its id, borrowed until the next call of this function; false when it is unknown. */
        bool (*entity)(void *context, const char *table, uint64_t id, struct infp_batch *ret);

        /* For a view that shows the same rows at each tick: the text that it made of a row may stay with the row. NULL: rows
         * keep no text. `kept` gives that of row number `index` back (1, borrowed until the next call of anything here) until
         * the row, or a thing that its keys name, has changed: 0. -ENOENT: there is no such row. */
        int (*kept)(void *context, const struct infp_table *table, uint32_t index, const char **ret_text,
                    size_t *ret_size);
        void (*keep)(void *context, const struct infp_table *table, uint32_t index, const char *text, size_t size);
        /* The number of the row whose key came first of all, -1 when that one has no row now: the leading instance does not change
         * when it is silent. NULL: row 0. */
        int64_t (*first)(void *context, const struct infp_table *table);
        /* Another number whenever a row of the table came or went, of entity tables also when one was written again: what a
         * view has worked out from keys and entities holds as long. 0: there is no such table. NULL: not known. */
        uint64_t (*changes)(void *context, const char *table);
        /* One row by its number; borrowed until the next call of this function; false: no such row, or no memory. */
        bool (*row)(void *context, const struct infp_table *table, uint32_t index, struct infp_batch *ret);
};
