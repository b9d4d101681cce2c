/* Blocks of the heap that agents inside processes have sampled (src/agent/heap): each becomes a row of heap_samples when it is freed, or at the end, and
 * rows of stack_samples; their sums by stack are rows of heap_windows. Belongs to the sampler's reading thread. */
#pragma once

#include "base/map.h"
#include "ring/reader.h"
#include "sampler/inside/heap_sites.h"
#include "sampler/stacks/stack.h"

/* Of a process. Zeroed it is empty. */
struct infp_inside_heap {
        struct infp_map live; /* id -> index */
        struct infp_inside_block *blocks;
        uint32_t n, cap;
        /* id -> when it was freed, and by which thread: that came before its block. */
        struct infp_map early, early_tids;
        struct infp_inside_sites sites;
        double live_bytes, peak_bytes;
        struct infp_inside_site *peak; /* what was alive then, by stack */
        uint32_t n_peak;
        uint64_t peak_ns;
        uint64_t left_out; /* blocks that found no room here */
};

/* found: its stack and thread, mode of no matter. weight: bytes that it stands for. */
void infp_inside_heap_block(struct infp_inside_heap *heap, struct infp_stacks *stacks,
                            const struct infp_stack_found *found, const struct infp_ring_block *block);
/* tid: of the thread that freed it; 0: not known. */
void infp_inside_heap_free(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t t_ns, uint64_t id,
                           int32_t tid);
/* Ends the window of heap_windows when it is time. */
void infp_inside_heap_turn(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t now_ns,
                           uint64_t mean_bytes);
/* What is left was alive then. */
void infp_inside_heap_end(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t t_ns,
                          uint64_t mean_bytes);
void infp_inside_heap_done(struct infp_inside_heap *heap);
