#include "sampler/modes.h"

#include <stddef.h>

/* The first stands for the thread that reads: its CPU time is that one's. */
const struct infp_sampler_mode *const infp_sampler_modes[] = { &infp_sampler_mode_cpu, &infp_sampler_mode_wall,
                                                               &infp_sampler_mode_off_cpu, NULL };
