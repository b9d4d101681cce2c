/* The ways of sampling, each in a file of its name. */
#pragma once

#include "sampler/mode.h"

extern const struct infp_sampler_mode infp_sampler_mode_cpu;
extern const struct infp_sampler_mode infp_sampler_mode_wall;
extern const struct infp_sampler_mode infp_sampler_mode_off_cpu;
