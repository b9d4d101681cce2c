/* One sample of every source, now: what `snapshot` and `doctor` show. */
#pragma once

#include "collect/run_one.h"

/* Opens, samples once and closes each collector that is enabled, or those whose names are in `only` (ended by NULL), opt-in
 * or not. With env->target the process table is read first. What fails is in `sources`. 0, or -ENOENT for a name in `only`
 * that no collector has; nothing was run then. */
int infp_collect_once(const struct infp_env *env, const char *const *only, struct infp_emit *emit,
                      infp_notice_fn *notice, void *context, struct infp_err *err);
