/* Differences of counters between two readings: the one place that knows resets. SQL and reports call this code. */
#pragma once

#include <stdint.h>

#include "model/schema.h"

/* Increase from `before` to `after`. INFP_RESET_NONE: never negative, 0 when it fell. ZERO: `after` when it fell. WRAP: adds
 * `range` (how many values the counter has) once when it fell; range 0 = unknown: 0. Exact for the integers given. */
uint64_t infp_increase_u64(enum infp_reset reset, uint64_t before, uint64_t after, uint64_t range);
double infp_increase_f64(enum infp_reset reset, double before, double after, double range);

/* Seconds of an interval in which a counter counted: by what it counted over up to both ends (infp_batch_counted_s), else, where
 * one of them is NAN, all of it. 0: what came in it is not known, and there is no rate. */
double infp_counted_seconds(uint64_t from_ns, uint64_t to_ns, double counted_before_s, double counted_s);
