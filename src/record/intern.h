/* Entities: what repeats (a process, later a frame, a stack) is kept here by its id and written once a segment, before the
 * first fact that names it. Facts and entity rows may come in either order. Memory is bounded, and nothing is allocated
 * between two calls of infp_intern_make_room. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/row.h"

struct infp_intern;

/* One entity; owned by the intern, valid until make_room. */
struct infp_entity {
        const struct infp_table *table;
        uint64_t id;
        struct infp_entity *next; /* for the caller's own lists */
};

/* max_bytes: of all kept rows together. */
int infp_intern_new(size_t max_bytes, struct infp_intern **ret);
struct infp_intern *infp_intern_free(struct infp_intern *intern); /* NULL is fine; returns NULL */

/* Keeps the row (cell 0 is its id; a row without one is ignored). 1: *ret must be written now, since a fact of this segment
 * has named it and the row is new or has changed; 0: nothing to do; -ENOSPC: make_room first. */
int infp_intern_put(struct infp_intern *intern, const struct infp_row *row, struct infp_entity **ret);

/* A row that is about to be written names the id. 1: *ret must be written before it; 0; -ENOSPC: make_room first. */
int infp_intern_refer(struct infp_intern *intern, const struct infp_table *table, uint64_t id, uint64_t t_ns,
                      struct infp_entity **ret);

/* The row as it was put; its text is borrowed. */
void infp_intern_row(const struct infp_intern *intern, const struct infp_entity *entity, struct infp_row *ret);

/* A new segment begins: every entity is written again; those that no fact of the last two segments named are forgotten at the
 * next make_room. */
void infp_intern_next_segment(struct infp_intern *intern);

/* Gets memory for the time until the next call; beyond max_bytes the entities that were named longest ago are forgotten (they
 * are in the files; a later segment may then lack them). t_ns: now. 0 or -ENOMEM. */
int infp_intern_make_room(struct infp_intern *intern, uint64_t t_ns);

/* True when a row of it is kept. */
bool infp_intern_has(const struct infp_intern *intern, const struct infp_table *table, uint64_t id);

size_t infp_intern_count(const struct infp_intern *intern);
size_t infp_intern_bytes(const struct infp_intern *intern);
