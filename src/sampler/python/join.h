/* Which record of Python frames belongs to which sample of perf: that of the same interrupt. Both have the thread, the interrupted
 * address and nearly the same time. Of one thread. */
#pragma once

#include "base/byte_ring.h"
#include "sampler/perf/perf.h"
#include "sampler/python/frames.h"

/* Whether what was read in some interrupt can be of that of the sample, and how far apart both times may be. */
bool infp_python_join_is_of(const struct infp_perf_sample *sample, int32_t pid, int32_t tid, uint64_t address);
uint64_t infp_python_join_distance(const struct infp_perf_sample *sample);
#define INFP_JOIN_LONGEST_NS UINT64_C(5000000) /* at most so much */

struct infp_python_join {
        struct infp_byte_ring ring;
};

int infp_python_join_init(struct infp_python_join *join, uint32_t bytes); /* a power of two; 0 or -ENOMEM */
void infp_python_join_done(struct infp_python_join *join);

/* Copies the record to the end of those that wait for their samples. Where there is no room the oldest are dropped. */
void infp_python_join_put(struct infp_python_join *join, const struct infp_frames_record *record);
/* The sample's record, which no other sample gets; valid until the next call. NULL when it was not found. Samples are asked for by time. */
const struct infp_frames_record *infp_python_join_take(struct infp_python_join *join,
                                                       const struct infp_perf_sample *sample);
