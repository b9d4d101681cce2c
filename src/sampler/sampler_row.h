/* The row of table `sampler`: how the sampling of one mode goes. */
#pragma once

#include "sampler/inside/inside.h"
#include "sampler/mode.h"

/* What rows are made of. */
struct infp_sampler_rows {
        struct infp_emit *emit;
        struct infp_pythons *pythons; /* NULL: none, as inside */
        struct infp_inside *inside;
        const struct infp_stacks_counts *stacks;
        const struct infp_perf_counts *perf;
        uint64_t now_ns;
};

/* The row of a mode, whose counts are completed. is_first: what all modes share is counted as its. */
void infp_sampler_put_mode(const struct infp_sampler_rows *rows, enum infp_stack_mode mode,
                           struct infp_mode_counts *counts, bool is_first);
