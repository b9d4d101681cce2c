/* The tail: a sink that keeps the last row of each table (of each key in keyed ones; in `sources` that of each source).
 *
 * It shows what is true now: a row of a table that is in snapshots is dropped once it is older than two periods of its
 * collector (a core went offline, a collector failed). Tables written on change keep theirs. Rows about processes (with a
 * pState) are repeated every 60 s, so they stay for two such repeats, and those in state X until the end of the next tick; so
 * do rows about other things (samples of an engine's series) that have no value any more. Used by one thread. No allocation
 * once every key has been seen. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "collect/env.h"
#include "model/last.h"
#include "model/sink.h"

/* run_period_ms: for tables that no collector of this build owns, and for those without a period of their own. */
int infp_tail_new(uint32_t run_period_ms, struct infp_sink **ret, struct infp_err *err);
/* Periods are those of this recording, whatever its target; before begin, env must stay. */
void infp_tail_use_env(struct infp_sink *sink, const struct infp_env *env);
struct infp_sink *infp_tail_free(struct infp_sink *sink); /* returns NULL */

/* Sinks that read it (snapshots) must come after it in the recorder's list. */
struct infp_last infp_tail_last(struct infp_sink *sink);

/* Rows that were dropped because a table had 65,536 keys. */
uint64_t infp_tail_dropped(const struct infp_sink *sink);
