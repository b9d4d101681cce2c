/* CLOCK_MONOTONIC of the run to UTC and back, by the anchors of its table `clock`. */
#pragma once

#include "base/err.h"
#include "model/anchor.h"
#include "store/run.h"

struct infp_run_clock {
        struct infp_anchor *anchors; /* by t_ns; at least one */
        unsigned n;
};

int infp_run_clock_read(struct infp_run *run, struct infp_run_clock *ret, struct infp_err *err);
void infp_run_clock_done(struct infp_run_clock *clock);
int64_t infp_run_clock_unix_ns(const struct infp_run_clock *clock, uint64_t t_ns);
uint64_t infp_run_clock_t_ns(const struct infp_run_clock *clock, int64_t unix_ns);
