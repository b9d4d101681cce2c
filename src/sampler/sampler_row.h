/* The row of table `sampler`: how the sampling of one mode goes. */
#pragma once

#include "sampler/inside/inside.h"
#include "sampler/mode.h"

/* How Python frames are read. */
struct infp_sampler_pythons {
        const char *method;  /* as in sampler.python_method; NULL: they are not */
        uint64_t own_cpu_ns; /* of all that reads them, for whatever mode */
        struct infp_pythons_counts counts;
        bool is_inside;
        uint64_t replaced, handler_ns; /* of samplers inside processes */
};

/* Of a mode. Each may be NULL. */
void infp_sampler_count_pythons(struct infp_pythons *outside, struct infp_inside *inside, enum infp_stack_mode mode,
                                struct infp_sampler_pythons *ret);
/* Of a mode whose samples are perf's. */
void infp_sampler_count_perf(const struct infp_perf_counts *perf, struct infp_mode_counts *ret);
/* pythons NULL: the mode has no Python frames. */
void infp_sampler_put_row(struct infp_emit *emit, enum infp_stack_mode mode, const struct infp_stack_counts *stacks,
                          const struct infp_mode_counts *counts, const struct infp_sampler_pythons *pythons,
                          uint64_t now_ns);
