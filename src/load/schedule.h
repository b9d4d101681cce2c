/* When the requests of an open loop are due: Poisson or evenly spaced, whatever became of those before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/random.h"

struct infp_schedule {
        double rate; /* requests a second */
        bool is_constant;
        uint64_t n; /* given out */
        double at_s;
        struct infp_random random;
};

void infp_schedule_init(struct infp_schedule *schedule, double rate, bool is_constant, uint64_t seed);
/* ns after the start of the load; never falls. Constant: 0, 1/rate, 2/rate ... without summing up errors. */
uint64_t infp_schedule_next(struct infp_schedule *schedule);

/* Due times that wait for a free slot: first in, first out. */
struct infp_waiting {
        uint64_t *due; /* a ring of cap places, a power of two */
        size_t first, n, cap;
};

int infp_waiting_put(struct infp_waiting *waiting, uint64_t due_ns); /* 0 or -ENOMEM */
bool infp_waiting_first(const struct infp_waiting *waiting, uint64_t *ret_due_ns);
void infp_waiting_drop(struct infp_waiting *waiting); /* the first */
void infp_waiting_done(struct infp_waiting *waiting);
