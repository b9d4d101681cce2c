/* A set of 64-bit ids that are hashes of contents, bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct infp_ids {
        uint64_t *slots;    /* 0: free */
        size_t n, cap, max; /* max: ids */
};

void infp_ids_init(struct infp_ids *ids, size_t max);
void infp_ids_done(struct infp_ids *ids);
void infp_ids_clear(struct infp_ids *ids); /* keeps the memory */
/* id: not 0. 1: it is new; 0: it was there; -ENOSPC: the set is full; -ENOMEM. */
int infp_ids_add(struct infp_ids *ids, uint64_t id);

/* Where an id is, or the free slot where it would go: ids are well mixed. */
static inline uint64_t *infp_ids_slot(uint64_t *slots, size_t cap, uint64_t id)
{
        size_t i = (size_t) (id ^ id >> 32) & (cap - 1);

        while (slots[i] && slots[i] != id)
                i = (i + 1) & (cap - 1);
        return &slots[i];
}

static inline bool infp_ids_has(const struct infp_ids *ids, uint64_t id)
{
        return ids->cap && *infp_ids_slot(ids->slots, ids->cap, id);
}
