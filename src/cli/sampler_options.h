/* Options of `record` for stacks: where the time goes. */
#pragma once

#include "base/err.h"
#include "cli/command.h"
#include "sampler/sampler.h"

// clang-format off
#define INFP_SAMPLER_OPTIONS                                                                                                         \
        { 0, "cpu", "[HZ]", "sample the stacks of what runs, 1 to 4000 times a second of CPU time (default: 99)", false },           \
        { 0, "wall", "[HZ]", "sample all threads, also those that wait, and what for, up to 1000 times a second (default: 20)", false }, \
        { 0, "off-cpu", NULL, "how long threads are off the CPU, by stack", false },                                                 \
        { 0, "stack-size", "SIZE", "copied of each stack to unwind it: 1K to 64K (default: 64K, above 250 Hz 32K)", false },                    \
        { 0, "max-stack-depth", "N", "frames of a stack, 128 to 1024; outer ones are left out (default: 512)", false }
// clang-format on

/* Fills what the user can choose. 0, or -EINVAL with the sentence. */
int infp_sampler_options_read(const struct infp_arguments *arguments, struct infp_sampler_options *ret,
                              struct infp_err *err);
