/* The heap of a process that counts every block itself (src/agent/heap/exact.c): the sums of its stacks, read from its ring file as each window of
 * time ends, become rows of heap_windows and stack_samples, and what was in use at the peak and at the end. Belongs to the sampler's reading
 * thread. */
#pragma once

#include "base/map.h"
#include "ring/reader.h"
#include "sampler/inside/heap_sites.h"
#include "sampler/stacks/stack.h"

/* Of a process. Zeroed it is empty. */
struct infp_inside_exact {
        struct infp_map known; /* id of a site -> index */
        struct infp_inside_exact_site *list;
        uint32_t n, cap;
        uint64_t *begins_ns; /* of windows, by their numbers */
        uint32_t n_begins, cap_begins;
        uint64_t other_blocks; /* of stacks that found no room */
};

/* Who reads it. */
struct infp_inside_exact_reader {
        struct infp_ring *ring;
        const struct infp_ring_heap *counts; /* of just now */
        struct infp_stacks *stacks;
        /* Makes a stack of one that the process has walked; NULL: it found no room. False: some code in it is not known yet. */
        bool (*find)(void *context, uint64_t t_ns, int32_t tid, const struct infp_ring_stack *stack,
                     struct infp_stack_found *ret);
        void *context;
        bool is_stale; /* what find knows of the process's code is older than that */
};

/* Finds new stacks by the code that is known now: other code may lie there when that is looked at anew. */
void infp_inside_exact_find(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                            const struct infp_inside_exact_reader *reader);

/* Ends the window of heap_windows when it is time. */
void infp_inside_exact_turn(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                            const struct infp_inside_exact_reader *reader, uint64_t now_ns);
/* Of the process, or of the recording: what is left was in use then. */
void infp_inside_exact_end(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                           const struct infp_inside_exact_reader *reader, uint64_t t_ns);
void infp_inside_exact_done(struct infp_inside_exact *exact);
