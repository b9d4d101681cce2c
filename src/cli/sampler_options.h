/* Options of `record` for stacks: where the time goes. */
#pragma once

#include "base/err.h"
#include "cli/command.h"
#include "sampler/sampler.h"

// clang-format off
#define INFP_SAMPLER_OPTIONS                                                                                                         \
        { 0, "cpu", "[HZ]", "sample on-CPU stacks, HZ times per CPU-second: 1 to 4000 (default: 99)", false },           \
        { 0, "wall", "[HZ]", "sample all threads, running or waiting, and what they wait for; HZ up to 1000 (default: 20)", false }, \
        { 0, "off-cpu", NULL, "measure how long threads are off the CPU, by stack", false },                                                 \
        { 0, "stack-size", "SIZE", "bytes of each stack to copy for unwinding: 1K to 64K (default: 64K; 32K above 250 Hz)", false },                    \
        { 0, "max-stack-depth", "N", "maximum frames of a stack, 128 to 1024; outermost frames are dropped (default: 512)", false }
// clang-format on

/* Fills what the user can choose. 0, or -EINVAL with the sentence. */
int infp_sampler_options_read(const struct infp_arguments *arguments, struct infp_sampler_options *ret,
                              struct infp_err *err);
