/* Whether the CPU time that a process says of its threads can be true: its ring is its own memory. A thread has at most as much as has
 * passed since the recording began, and since its last sample. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

struct infp_inside_weights {
        uint64_t begin_ns;     /* of the recording (CLOCK_MONOTONIC) */
        uint64_t slack_ns;     /* a period and a tick of the kernel's clock: what a sample may be early */
        struct infp_map until; /* tid -> until when its CPU time is accounted for */
};

/* A sample of time t_ns that is read at now_ns. False: it cannot have so much, and nothing is accounted. */
bool infp_inside_weight_fits(struct infp_inside_weights *weights, int32_t tid, uint64_t t_ns, uint64_t now_ns,
                             uint64_t weight_ns);
void infp_inside_weights_done(struct infp_inside_weights *weights);
