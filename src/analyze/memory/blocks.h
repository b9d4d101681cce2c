/* Single blocks of the heap, from heap_samples: how large they are, and which are freed soon. Sums are estimates, as in heap.h. */
#pragma once

#include "analyze/memory/heap.h"

enum { INFP_HEAP_SIZES = 48 };
#define INFP_HEAP_SOON_S 1.0 /* freed soon: within so much time */

/* Blocks of more than 2^(i-1) bytes, up to 2^i; the last: and of more. */
struct infp_heap_size {
        struct infp_heap_sum allocated, end; /* end: in use as their process, the recording or the range ended */
        double allocated_spread, end_spread; /* variances of their blocks */
};

struct infp_heap_soon {
        uint32_t process; /* in infp_heap.profile.processes; INFP_PROFILE_NONE: not known */
        struct infp_profile_place place;
        struct infp_heap_sum allocated, soon;
        double soon_spread;
        double median_s; /* life of those that were freed: half of their bytes lived for less; NAN: none was */
};

struct infp_heap_blocks {
        struct infp_heap_size sizes[INFP_HEAP_SIZES];
        struct infp_heap_soon *stacks; /* by bytes that were freed soon */
        uint32_t n_stacks, cap_stacks;
        struct infp_map by_key;
        struct infp_heap_life *lives;
        uint32_t n_lives, cap_lives;
        double median_s;
        uint64_t first_ns, last_ns; /* of what was seen */
};

/* Of the processes and the range that heap was read of: what was allocated in it, even if it was freed soon after it. */
int infp_heap_blocks_read(struct infp_run *run, const struct infp_heap *heap, struct infp_heap_blocks *ret,
                          struct infp_err *err);
void infp_heap_blocks_done(struct infp_heap_blocks *blocks);
