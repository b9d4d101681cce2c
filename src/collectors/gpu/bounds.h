/* Impossible values from a GPU's driver. Such a value is absent, and `sources` has it; all others stay. */
#pragma once

#include "collect/emit.h"

/* More than any GPU has drawn in its life: 10 kW for 20 years. */
#define INFP_GPU_MOST_MJ UINT64_C(6300000000000000)

/* Removes impossible values from the emitter's row of a GPU: shares above 100 %, temperatures that no board has, more memory
 * than it has, more than four times its highest power limit (peaks of microseconds reach twice of it). May be called again
 * while the row is filled. `instance`: as `sources` names the GPU. */
void infp_gpu_bound(struct infp_emit *emit, const char *instance);

/* For a table of processes on GPUs: the impossible memory of one of them; 0: none. */
void infp_gpu_say_memory(struct infp_emit *emit, const struct infp_table *table, const char *instance,
                         uint64_t refused_bytes);
