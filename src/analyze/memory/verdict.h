/* Whether the heap of one stack leaks: a pure function over its windows of time (table heap_windows).
 *
 * Looked at is the floor, the least that was in use in each window, after a warm-up of a fifth of the time. Its change a second is the mean of
 * the changes from window to window, each in proportion to the time between them, and the interval is Student's, from how much they differ: what goes up and down
 * without a trend, however far, has changes whose mean is 0, and so have sampling errors. A leak is
 * - growth that is significant by that (one-sided, 1 in 4,000), or by how many windows grew and how many shrank (binomial, the same),
 * - that goes on: in the last third at least at a third of the rate before,
 * - of which at least 80 % of what was there at half of the time is still there (age),
 * - with 20 sampled blocks in use at least.
 * Of stacks that do not leak at most 1 in 1,000 is called a leak (tests/unit/test_heap_verdict.c measures it). What is freed after more time
 * than was recorded looks like a leak to everybody. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
        INFP_HEAP_LEAST_SAMPLES = 20,
        INFP_HEAP_LEAST_WINDOWS = 8, /* after the warm-up */
};
#define INFP_HEAP_FALSE_ALARMS 0.001 /* of stacks that do not leak, at most */

enum infp_heap_verdict {
        INFP_HEAP_LEAK,
        INFP_HEAP_GROWS, /* not enough of the above is known */
        INFP_HEAP_CACHE, /* grew, then stopped */
        INFP_HEAP_STEADY,
        INFP_HEAP_TEMPORARY, /* most is freed in the window in which it is allocated */
        INFP_HEAP_FEW,       /* too few samples */
        INFP_HEAP_SHORT,     /* too few windows */
        INFP_HEAP_VERDICTS,
};
const char *infp_heap_verdict_name(enum infp_heap_verdict verdict);  /* "leak" */
const char *infp_heap_verdict_words(enum infp_heap_verdict verdict); /* "grew, then stopped" */

/* Windows without a row carry on what was in use before. */
struct infp_heap_series {
        const double *end_s, *low, *live; /* of each window: its end since the first sample; bytes */
        uint32_t n;
        double old;      /* bytes in use at the end that are older than half of the time */
        uint64_t blocks; /* sampled, in use at the end */
        double allocated, temporary;
};

struct infp_heap_growth {
        enum infp_heap_verdict verdict;
        double rate, low, high; /* bytes a second of the floor, 95 % interval; NAN: too few windows */
};
struct infp_heap_growth infp_heap_judge(const struct infp_heap_series *series);
