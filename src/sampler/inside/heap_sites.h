/* What the sampled blocks of a process add up to by the stacks that allocated them, and rows of heap_windows of it. Belongs to the sampler's reading
 * thread. */
#pragma once

#include "base/map.h"
#include "sampler/stacks/stack.h"

enum { INFP_INSIDE_NO_SITE = UINT32_MAX };

struct infp_inside_site {
        struct infp_stack_found found;  /* of its first block */
        double live, variance, objects; /* of what is in use: bytes, bytes squared, blocks */
        uint32_t blocks;                /* sampled, in use */
        bool has_changed;
        /* Since the window began. */
        uint32_t samples;
        double allocated, allocated_variance, allocations, freed, temporary, low;
        /* Made as a window ends. */
        double old;
        uint64_t oldest_ns;
};

/* Zeroed it is empty. */
struct infp_inside_sites {
        struct infp_map by_stack;
        struct infp_inside_site *list;
        uint32_t n, cap, window;     /* number of the window */
        uint64_t first_ns, begin_ns; /* of the process's first block; of the window */
        uint64_t n_others;           /* blocks of stacks beyond the bound: they count as of one without a stack */
};

/* A block that stands for weight bytes. */
struct infp_inside_weighed {
        uint64_t t_ns, size;
        double weight;
        uint32_t site, window; /* in which it was allocated */
};

/* Of the stack of found, which is new at most once; INFP_INSIDE_NO_SITE: no memory. */
uint32_t infp_inside_sites_of(struct infp_inside_sites *sites, const struct infp_stack_found *found);
/* Counts a block as allocated and sets its site and window; INFP_INSIDE_NO_SITE: no memory. */
void infp_inside_sites_allocated(struct infp_inside_sites *sites, const struct infp_stack_found *found,
                                 struct infp_inside_weighed *block);
/* It is in use; and is no longer. */
void infp_inside_sites_held(struct infp_inside_sites *sites, const struct infp_inside_weighed *block);
void infp_inside_sites_freed(struct infp_inside_sites *sites, const struct infp_inside_weighed *block);

bool infp_inside_sites_is_due(const struct infp_inside_sites *sites, uint64_t now_ns);
/* A window ends: begin; age with each block in use; end, which writes a row each stack that has changed. is_last: and each that holds something. */
void infp_inside_sites_end_begin(struct infp_inside_sites *sites);
void infp_inside_sites_age(struct infp_inside_sites *sites, const struct infp_inside_weighed *block, uint64_t t_ns);
void infp_inside_sites_end(struct infp_inside_sites *sites, struct infp_stacks *stacks, uint64_t t_ns,
                           uint64_t mean_bytes, bool is_last);
void infp_inside_sites_done(struct infp_inside_sites *sites);
