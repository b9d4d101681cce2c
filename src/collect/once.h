/* One sample of every source, now: for `snapshot` and `doctor`. */
#pragma once

#include "collect/run_one.h"

/* Opens, samples once and closes each collector that is enabled, or those whose names are in `only` (ended by NULL), opt-in
 * or not. With env->target the process table is read first. Failures are in `sources`. Collectors that may block get a thread
 * each, and patience_ms (0: 10 s) together; one that has not returned by then is reported in `sources`.
 *
 * 0; 1: one has not returned: its thread may still look at env's root and target, which stay until the program ends; -ENOENT
 * for a name in `only` that no collector has; then nothing was run. */
int infp_collect_once(const struct infp_env *env, const char *const *only, struct infp_emit *emit, uint32_t patience_ms,
                      struct infp_err *err);
