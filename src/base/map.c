#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

void infp_map_done(struct infp_map *map)
{
        free(map->slots);
        *map = (struct infp_map){ 0 };
}

/* Ids are mixed already, but pids and counters end up here as well: Fibonacci hashing costs one multiplication. */
static size_t home(size_t cap, uint64_t key)
{
        return (size_t) (key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - __builtin_ctzll(cap)));
}

/* The slot of `key`, or the free one where it would go. cap > 0, and at least one slot is always free. */
static struct infp_map_slot *find(struct infp_map_slot *slots, size_t cap, uint64_t key)
{
        size_t i = home(cap, key);

        while (slots[i].key != 0 && slots[i].key != key)
                i = (i + 1) & (cap - 1);
        return &slots[i];
}

uint64_t *infp_map_get(const struct infp_map *map, uint64_t key)
{
        struct infp_map_slot *slot;

        if (key == 0)
                return map->has_zero ? (uint64_t *) &map->zero_value : NULL;
        if (map->cap == 0)
                return NULL;
        slot = find(map->slots, map->cap, key);
        return slot->key ? &slot->value : NULL;
}

static int grow(struct infp_map *map)
{
        size_t cap = map->cap ? map->cap * 2 : 16;
        struct infp_map_slot *slots = calloc(cap, sizeof(*slots));

        if (!slots)
                return -ENOMEM;
        for (size_t i = 0; i < map->cap; i++) {
                if (map->slots[i].key)
                        *find(slots, cap, map->slots[i].key) = map->slots[i];
        }
        free(map->slots);
        map->slots = slots;
        map->cap = cap;
        return 0;
}

int infp_map_put(struct infp_map *map, uint64_t key, uint64_t value)
{
        uint64_t *present = infp_map_get(map, key);
        int r;

        if (present) {
                *present = value;
                return 0;
        }
        if (key == 0) {
                map->has_zero = true;
                map->zero_value = value;
                map->n++;
                return 0;
        }
        if (map->n + 1 > map->cap / 4 * 3) {
                r = grow(map);
                if (r < 0)
                        return r;
        }
        *find(map->slots, map->cap, key) = (struct infp_map_slot){ .key = key, .value = value };
        map->n++;
        return 0;
}

bool infp_map_delete(struct infp_map *map, uint64_t key)
{
        size_t mask = map->cap - 1, hole, i;
        struct infp_map_slot *slot;

        if (!infp_map_get(map, key))
                return false;
        map->n--;
        if (key == 0) {
                map->has_zero = false;
                return true;
        }
        /* Moves back what could not be found any more after the hole; no tombstones, so a busy map does not fill up. */
        slot = find(map->slots, map->cap, key);
        hole = (size_t) (slot - map->slots);
        for (i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
                size_t wanted = home(map->cap, map->slots[i].key);

                if (((i - wanted) & mask) >= ((i - hole) & mask)) {
                        map->slots[hole] = map->slots[i];
                        hole = i;
                }
        }
        map->slots[hole] = (struct infp_map_slot){ 0 };
        return true;
}
