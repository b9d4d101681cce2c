/* A hash map from 64-bit ids (already well mixed: content hashes) to 64-bit values; open addressing, grows by doubling. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct infp_map_slot {
        uint64_t key, value;
};

struct infp_map {
        struct infp_map_slot *slots; /* key 0 = free; the key 0 itself is kept apart */
        size_t n, cap;
        bool has_zero;
        uint64_t zero_value;
};

void infp_map_done(struct infp_map *map);
/* Pointer to the value or NULL. Valid until the next put or delete. */
uint64_t *infp_map_get(const struct infp_map *map, uint64_t key);
int infp_map_put(struct infp_map *map, uint64_t key, uint64_t value); /* 0 or -ENOMEM */
bool infp_map_delete(struct infp_map *map, uint64_t key);
