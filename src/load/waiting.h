/* Due times that wait for a free slot: first in, first out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct infp_waiting {
        uint64_t *due; /* a ring of cap places, a power of two */
        size_t first, n, cap;
};

int infp_waiting_put(struct infp_waiting *waiting, uint64_t due_ns); /* 0 or -ENOMEM */
bool infp_waiting_first(const struct infp_waiting *waiting, uint64_t *ret_due_ns);
void infp_waiting_drop(struct infp_waiting *waiting); /* the first */
void infp_waiting_done(struct infp_waiting *waiting);
