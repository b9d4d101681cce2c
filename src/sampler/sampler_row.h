/* The row of table `sampler`: how the sampling of one mode goes. */
#pragma once

#include "sampler/mode.h"

/* pythons NULL: the mode has no Python frames. */
void infp_sampler_put_row(struct infp_emit *emit, enum infp_stack_mode mode, const struct infp_stack_counts *stacks,
                          const struct infp_mode_counts *counts, const struct infp_pythons_counts *pythons,
                          uint64_t now_ns);
