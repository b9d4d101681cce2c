/* The sampler that is preloaded into the command (src/agent), where nobody outside may read its Python frames: which files, and the
 * variables of its environment that load them. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "sampler/sampler.h"

enum { INFP_PRELOAD_VARIABLES = 5 };

struct infp_preload {
        char preload[2 * PATH_MAX + 64], agent[PATH_MAX + 64], hz[64], tables[PATH_MAX + 64], asan[PATH_MAX];
};

/* True if mode cpu is asked for, and --python=inside was given, or --python=auto holds and BPF or perf events are not permitted here. */
bool infp_preload_is_wanted(const struct infp_sampler_options *options);
/* Finds its files beside the program or where they were installed. 0, or -ENOENT. */
int infp_preload_find(struct infp_err *err);
/* Fills ret and INFP_PRELOAD_VARIABLES texts NAME=VALUE, which lie in ret, ended by NULL. What LD_PRELOAD names already stays in
 * front. 0; -ENOENT: its files are missing, or options has no cache_directory; -EINVAL: the name of a file has a blank or a colon, or
 * LD_PRELOAD is too long already. */
int infp_preload_variables(const struct infp_sampler_options *options, struct infp_preload *ret,
                           const char *variables[INFP_PRELOAD_VARIABLES + 1], struct infp_err *err);
