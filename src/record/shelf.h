/* A shelf holds one row per key of one table, in the order of the keys, and reuses its memory. The tail (tail.h) decides
 * which rows stay. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"
#include "model/batch.h"
#include "model/builder.h"
#include "model/row.h"

enum { INFP_SHELF_SLOTS = 65536 };

struct infp_slot {
        uint64_t key, t_ns, tick, valid[2];
        int64_t unix_ns;
        bool is_last;           /* state X: nothing follows */
        bool mark;              /* for the collector of unnamed entries */
        union infp_cell *cells; /* keys first, as in a row; texts are in `texts` */
        struct infp_str texts;
        uint64_t version; /* no other row of this shelf has this state */

        /* What a view made of the row, and from which versions of it and of the things that its keys name. */
        struct infp_str view_text;
        uint64_t view_stamp;
};

struct infp_shelf {
        const struct infp_table *table;
        unsigned n_cells;
        unsigned n_key_cells;
        int state_cell;       /* where X means that it ended; -1 */
        int entity_cell;      /* the ID64 key, -1 */
        uint64_t max_age_ns;  /* 0: never too old */
        size_t n_after_sweep; /* rows left by the last sweep of unnamed things */
        uint64_t n_versions;
        uint64_t n_changes; /* rows added and removed */
        uint64_t first_key; /* of the row that came first of all; it may be gone */

        struct infp_slot *slots;
        size_t n_slots, cap_slots;
        uint32_t *order; /* slots in use */
        size_t n_order;
        uint32_t *spare; /* slots not in use, with their memory */
        size_t n_spare;
        struct infp_map by_key;
        struct infp_builder *view, *one;
};

void infp_shelf_init(struct infp_shelf *s, const struct infp_table *table);
void infp_shelf_done(struct infp_shelf *s);

/* 0, -ENOSPC (no place for a new key) or -ENOMEM. */
int infp_shelf_take(struct infp_shelf *s, const struct infp_batch *batch, uint32_t row, uint64_t tick);

static inline struct infp_slot *infp_shelf_at(const struct infp_shelf *s, size_t place)
{
        return &s->slots[s->order[place]];
}
struct infp_slot *infp_shelf_by_id(const struct infp_shelf *s, uint64_t id); /* of an entity table; NULL */
/* The place of the row that came first of all; -1: it is gone. */
int64_t infp_shelf_first(const struct infp_shelf *s);
void infp_shelf_drop(struct infp_shelf *s, size_t place);
void infp_shelf_drop_unmarked(struct infp_shelf *s);

/* Rows from place `from` on, as many as a batch takes; borrowed until the next call. */
bool infp_shelf_rows(struct infp_shelf *s, uint32_t from, struct infp_batch *ret);
bool infp_shelf_row(struct infp_shelf *s, const struct infp_slot *slot, struct infp_batch *ret);
