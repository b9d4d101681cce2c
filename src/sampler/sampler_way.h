/* The way of rows to the recorder: a ring, and patience where it is full. */
#pragma once

#include "ring/rowring.h"

struct infp_sampler_way {
        struct infp_rowring *ring;
        int wake_fd;          /* of the recorder */
        uint64_t patience_ns; /* how long rows may wait for room; each wait is taken off */
        uint64_t woken_at;    /* bytes that the recorder had taken when it was woken for a burst */
        bool is_woken;
};

void infp_sampler_way_wake(const struct infp_sampler_way *way);
/* context: the way. 0 or -ENOSPC. */
int infp_sampler_way_put(void *context, const struct infp_row *row);
