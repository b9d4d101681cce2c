/* Event loops of asyncio that one callback held for long (record --async): how often and where, by rows of mode lag. A callback is known
 * between looks alone, so that all times are lower bounds. */
#pragma once

#include "analyze/profile/place.h"
#include "base/err.h"
#include "base/strings.h"
#include "store/run.h"

struct infp_lag_thread {
        uint32_t name, process; /* strings */
        int64_t tid, pid;       /* 0: not known */
        uint64_t n;             /* callbacks that held its loop */
        double seconds, longest_s;
        struct infp_profile_places places; /* where it was held */
        /* While rows are taken. */
        uint64_t end_ns;
        double current_s;
};

struct infp_lag_report {
        struct infp_lag_thread *list; /* those held longest first */
        uint32_t n, cap;
        struct infp_strings strings;
};

int infp_lag_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_lag_report *ret, struct infp_err *err);
void infp_lag_done(struct infp_lag_report *lag);
