/* A part of a run, as people name it: by a mark's tag, a clock time or a distance from an end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/run.h"

struct infp_range {
        uint64_t t0, t1;               /* CLOCK_MONOTONIC ns: t0 <= t < t1 */
        uint64_t start, end;           /* of the whole run; end is just after the newest row while it is recorded */
        bool from_is_mark, to_is_mark; /* that end was named by a mark's tag */
};

/* from, to (NULL: the whole): the tag of a mark (the first one with it; for `to` the first at or after `from`), the name of a
 * load (from its first request, to the end of its last one), "ready" (the first page of metrics that an engine answered), a clock time
 * ("14:05:00", "2026-05-18T14:05:00" in local time, with Z or +02:00 after it elsewhere), "+30s" after the start or "-5m"
 * before the end. skip_ns is left out at the start. What cannot be understood is -EINVAL with the tags that there are;
 * an empty range is -EINVAL as well. */
int infp_range_find(struct infp_run *run, const char *from, const char *to, uint64_t skip_ns, struct infp_range *ret,
                    struct infp_err *err);

/* The time in which a recording measured the idle power (record --energy-baseline): between two marks of infprof's own. */
struct infp_baseline {
        uint64_t t0, t1; /* t1 0: there was none, or it was not finished */
};
int infp_baseline_find(struct infp_run *run, struct infp_baseline *ret, struct infp_err *err);

/* A clock time in text to Unix ns. A time without a date is that of the day of first_unix_ns; when it lies before that, and
 * the next day's not after last_unix_ns, it is the next day's: a run may go past midnight. -EINVAL. */
int infp_clock_parse(const char *text, int64_t first_unix_ns, int64_t last_unix_ns, int64_t *ret_unix_ns);
