/* A ring file, or any other of somebody else's, in memory. Its owner can make it shorter at any moment, and then the next touch
 * of a page behind its end is SIGBUS, which kills by default. Within infp_ring_touch_begin and _end of the touching thread the
 * signal puts zeros in the place of the whole mapping instead, notes that, and the access goes on. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct infp_ring_map {
        unsigned char *at; /* NULL: not mapped */
        size_t size;       /* may reach behind the file's end: what lies there is not to be touched */
        atomic_bool is_lost;
        struct infp_ring_map *next; /* further ones that may be touched with it; NULL */
};

/* 0 or a negative errno of mmap. */
int infp_ring_map(struct infp_ring_map *map, int file, size_t size, bool writable);
void infp_ring_unmap(struct infp_ring_map *map);

/* One mapping, and those that follow it by `next`, a thread at a time; they stay where they are meanwhile. */
void infp_ring_touch_begin(struct infp_ring_map *map);
void infp_ring_touch_end(void);
