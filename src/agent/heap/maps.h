/* What the program has mapped itself and is counted: pieces of addresses, each a block, whether it was sampled or not. Any thread, which waits for
 * others that are at the same, but not for long; a signal handler that comes into the middle of its thread's own call finds nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct infp_agent_map {
        uint64_t begin, end;
        uint64_t id;   /* 0: it was not sampled */
        uint64_t mean; /* bytes between two samples then */
};

int infp_agent_maps_make(void);    /* 0 or -ENOMEM */
void infp_agent_maps_forked(void); /* in the child */
/* What is put from now on is newer than this. */
uint64_t infp_agent_maps_now(void);
/* False: there is no room, or something is there already. */
bool infp_agent_maps_put(const struct infp_agent_map *map);
bool infp_agent_maps_has(uint64_t begin, uint64_t end, uint64_t since);

/* One that is older than since, and of which begin to end is no more. */
struct infp_agent_cut {
        struct infp_agent_map old,
                rest[2]; /* rest: of a sample under the new ids; with its chance, by a smaller mean */
        unsigned n_rest;
};
/* False: there is no other; or another thread has been at the same for too long, and all stays as it was. ids: two that are not used yet. */
bool infp_agent_maps_cut(uint64_t begin, uint64_t end, uint64_t since, const uint64_t ids[2],
                         struct infp_agent_cut *ret);
