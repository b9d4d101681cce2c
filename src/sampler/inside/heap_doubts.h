/* What is wrong with the heap of a process as it was recorded, in words: each thing once, for `sources` and as a notice. */
#pragma once

#include "sampler/explain.h"
#include "sampler/inside/exact.h"

struct infp_inside_heap_said {
        bool kept, others, missed, state;
};

/* sites, exact: one of them is empty. */
void infp_inside_heap_doubts(struct infp_inside_heap_said *said, const struct infp_explain *explain, int32_t pid,
                             const struct infp_ring_heap *counts, const struct infp_inside_sites *sites,
                             const struct infp_inside_exact *exact);
