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

/* Whether the command gets one: it is asked for, or what would be better is not permitted here. */
bool infp_preload_is_wanted(const struct infp_sampler_options *options);
/* Whether its files are there. */
int infp_preload_find(struct infp_err *err);
/* Fills ret and INFP_PRELOAD_VARIABLES texts NAME=VALUE, which refer to it, ended by NULL. What LD_PRELOAD names already stays in front.
 * 0; -ENOENT: its files are missing; -EINVAL: LD_PRELOAD cannot name them. */
int infp_preload_variables(const struct infp_sampler_options *options, struct infp_preload *ret,
                           const char *variables[INFP_PRELOAD_VARIABLES + 1], struct infp_err *err);
