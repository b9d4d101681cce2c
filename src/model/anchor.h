/* One moment on two clocks: what turns CLOCK_MONOTONIC into UTC, when rows are recorded and when they are read. */
#pragma once

#include <stdint.h>

struct infp_anchor {
        uint64_t t_ns; /* CLOCK_MONOTONIC */
        int64_t unix_ns;
};

static inline int64_t infp_anchor_unix_ns(struct infp_anchor anchor, uint64_t t_ns)
{
        return anchor.unix_ns + (int64_t) (t_ns - anchor.t_ns);
}
