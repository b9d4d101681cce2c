/* One sample of every source, now: what `snapshot` and `doctor` show. */
#pragma once

#include "collect/run_one.h"

/* Opens, samples once and closes each collector that is enabled, or those whose names are in `only` (ended by NULL), opt-in
 * or not. With env->target the process table is read first. What fails is in `sources`. Those that may block have a thread each,
 * all together patience_ms (0: 10 s), and of one that does not return by then `sources` says so.
 *
 * 0; 1: one has not returned: its thread may still look at env's root and target, which stay until the program ends; -ENOENT for
 * a name in `only` that no collector has; nothing was run then. */
int infp_collect_once(const struct infp_env *env, const char *const *only, struct infp_emit *emit, uint32_t patience_ms,
                      struct infp_err *err);
