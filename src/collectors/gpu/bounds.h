/* What a GPU's driver says and cannot be. One such value is absent, and `sources` says what it was; all others stand. */
#pragma once

#include "collect/emit.h"

/* More than any GPU has drawn since it was made: 10 kW for 20 years. */
#define INFP_GPU_MOST_MJ UINT64_C(6300000000000000)

/* Takes values that cannot be out of the emitter's row of a GPU: shares above 100 %, temperatures of no board, more memory than it
 * has, more than four times the highest power limit that it shows (peaks of microseconds reach twice of it). May be called again
 * while the row is filled. `instance`: as `sources` names the GPU. */
void infp_gpu_bound(struct infp_emit *emit, const char *instance);

/* Of a table of processes on GPUs: what the driver said of the memory of one of them and cannot be; 0: nothing. */
void infp_gpu_say_memory(struct infp_emit *emit, const struct infp_table *table, const char *instance,
                         uint64_t refused_bytes);
