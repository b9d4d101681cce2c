/* Inside off_cpu_waits: samples that are kept until their wait is known to be long enough, and stacks that waits have or will have. */
#pragma once

#include "sampler/waits/off_cpu_waits.h"

/* A stack that a wait has, or will have when infp_stacks has found it. */
struct infp_off_cpu_place {
        struct infp_off_cpu_wait *wait; /* NULL: none yet, or none any more */
        struct infp_off_cpu_place *next, *previous;
        int32_t pid, tid;
        uint64_t t_ns;                    /* when it was read */
        const char *state, *call, *wchan; /* as the reader says; NULL: not told */
        bool is_found, is_orphan;         /* orphan: nobody wants it, infp_stacks still has it */
        bool is_whole;                    /* the copy is as large as was asked for */
        struct infp_stack_found found;
};

/* A sample of perf, kept until it is known whether its wait is long enough. */
struct infp_off_cpu_copy {
        size_t bytes;
        struct infp_perf_sample sample;
        struct infp_python_moment python;
        uint64_t kernel[INFP_PERF_MAX_KERNEL_FRAMES];
        uint8_t data[] __attribute__((aligned(8))); /* Python frames, then the stack */
};

/* NULL: no room; the sample is then taken without a stack. */
struct infp_off_cpu_copy *infp_off_cpu_copy_new(struct infp_off_cpu_waits *waits,
                                                const struct infp_perf_sample *sample);
void infp_off_cpu_copy_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_copy *copy);

struct infp_off_cpu_place *infp_off_cpu_place_new(struct infp_off_cpu_waits *waits); /* NULL: no room */
void infp_off_cpu_place_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place);
/* Nobody wants it any more: it goes at once, or when infp_stacks has found it. */
void infp_off_cpu_place_drop(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place);
