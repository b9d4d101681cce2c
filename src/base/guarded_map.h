/* The one way to map a file that somebody else can make shorter. The next touch of a page past its new end raises SIGBUS, which
 * kills by default, and always in a thread that blocks it. Between infp_guarded_map_begin and _end of the touching thread, which
 * unblock it there, the signal puts zeros in the place of the whole mapping instead, notes that, and the access goes on. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct infp_guarded_map {
        unsigned char *at; /* NULL: not mapped */
        size_t size;       /* may reach past the file's end: what lies there is not to be touched */
        atomic_bool is_lost;
        struct infp_guarded_map *next; /* further ones that may be touched with it; NULL */
};

/* 0 or a negative errno of mmap. */
int infp_guarded_map_open(struct infp_guarded_map *map, int file, size_t size, bool writable);
void infp_guarded_map_close(struct infp_guarded_map *map);

/* One mapping, and those that follow it by `next`, a thread at a time; they stay where they are meanwhile. Not nested. */
void infp_guarded_map_begin(struct infp_guarded_map *map);
void infp_guarded_map_end(void);
