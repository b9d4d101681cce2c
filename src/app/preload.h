/* What is preloaded into the command (src/agent): a sampler, where nobody outside may read its Python frames, and functions in front of the
 * allocator's, where the heap is sampled. Which files, and the variables of its environment that load them. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "sampler/sampler.h"

enum { INFP_PRELOAD_VARIABLES = 6 };

struct infp_preload {
        char preload[2 * PATH_MAX + 64], agent[PATH_MAX + 64], hz[64], heap[64], tables[PATH_MAX + 64], asan[PATH_MAX];
};

/* True if mode cpu is asked for, and --python=inside was given, or --python=auto holds and BPF or perf events are not permitted here, or libbpf is missing. */
bool infp_preload_is_wanted(const struct infp_sampler_options *options);
/* Finds its files beside the program or where they were installed. 0, or -ENOENT. */
int infp_preload_find(struct infp_err *err);
/* Fills ret and at most INFP_PRELOAD_VARIABLES texts NAME=VALUE, which lie in ret, ended by NULL. has_sampler: the sampler is wanted; the
 * heap is where options say so. What LD_PRELOAD names already stays in front, but for an allocator. How many; -ENOENT: its files are missing,
 * or options has no cache_directory; -EINVAL: the name of a file has a blank or a colon, or LD_PRELOAD is too long already. */
int infp_preload_variables(const struct infp_sampler_options *options, bool has_sampler, struct infp_preload *ret,
                           const char *variables[INFP_PRELOAD_VARIABLES + 1], struct infp_err *err);
