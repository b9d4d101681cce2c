/* The rest of stacks that are larger than perf's copy of them, as the program in the kernel (deep.bpf.h) reads it in the interrupt of the
 * sample: pieces in a ring, which are joined with their samples (deep.c). Of one thread. */
#pragma once

#include "sampler/perf/perf.h"
#include "sampler/python/deep_piece.h"

struct infp_deep;

/* map: the ring's descriptor, borrowed; bytes: its size. 0 or a negative errno. */
int infp_deep_open(int map, uint32_t bytes, struct infp_deep **ret);
struct infp_deep *infp_deep_free(struct infp_deep *deep); /* NULL is fine; returns NULL */

/* So much is in the ring that it has to be read before perf's rings are half full: a quarter. */
bool infp_deep_is_filling(const struct infp_deep *deep);

/* What is wanted of the stack of a thread, by what was missing in its last samples. */
struct infp_deep_wants {
        struct infp_deep_want {
                int32_t tid; /* 0: nobody */
                unsigned next;
                struct infp_deep_wanted wanted;
        } threads[INFP_DEEP_THREADS];
};
/* The 8 bytes at the address were missing. NULL: that is wanted already. */
const struct infp_deep_wanted *infp_deep_want(struct infp_deep_wants *wants, int32_t tid, uint64_t address);

enum { INFP_DEEP_DUMPS = 24 };
/* Parts of the sample's stack, into ret (of INFP_DEEP_DUMPS), until the next call. Returns how many; 0: perf's copy is all there is. Samples
 * come in the order of their times. */
uint32_t infp_deep_take(struct infp_deep *deep, const struct infp_perf_sample *sample, struct infp_unwind_dump *ret);
