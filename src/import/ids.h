/* A set of 64-bit ids, bounded. */
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
