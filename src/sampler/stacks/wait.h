/* Samples that wait for tables, with copies of their stacks: a bounded queue, in the order in which they came. Those in the middle
 * may be done before those in front of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_ring.h"
#include "sampler/spaces/space.h"
#include "sampler/stacks/stack.h"

struct infp_waiting {
        size_t size; /* with its data */
        bool is_done;
        struct infp_space *space;         /* a reference */
        const struct infp_object *object; /* that it waits for; NULL: for an earlier sample of its thread */
        uint64_t deadline_ns;
        struct infp_stack_found moment;
        infp_stack_found_fn *found;
        void *context;
        uint64_t cookie;
        struct infp_perf_sample sample;   /* what it points to lies after the record */
        struct infp_python_moment python; /* if the sample has that */
};

enum { INFP_WAIT_BUCKETS = 1024 };

struct infp_wait {
        struct infp_byte_ring ring;
        size_t used; /* bytes of those that are not done */
        uint64_t n;  /* not done */
        bool was_large;
        uint32_t n_by_thread[INFP_WAIT_BUCKETS]; /* not done, by a hash of the thread */
};

int infp_wait_init(struct infp_wait *wait, size_t bytes); /* a power of two; 0 or -ENOMEM */
void infp_wait_done(struct infp_wait *wait);

/* Whether an earlier sample of this thread (or of one with its hash) waits. */
static inline unsigned infp_wait_bucket(int32_t tid)
{
        return (uint32_t) tid % INFP_WAIT_BUCKETS;
}

/* Copies the sample after those that wait; the rest of the record is the caller's to fill. NULL: no room. */
struct infp_waiting *infp_wait_put(struct infp_wait *wait, const struct infp_perf_sample *sample);
/* The one that comes first, and that after another one; those that are done are left out. NULL: no more. To be asked before the
 * other one is removed. */
struct infp_waiting *infp_wait_next(struct infp_wait *wait, const struct infp_waiting *before);
void infp_wait_remove(struct infp_wait *wait, struct infp_waiting *waiting);
