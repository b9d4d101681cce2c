/* The time in which a recording measured the idle power (record --energy-baseline): between two marks of infprof's own. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "store/run.h"

struct infp_baseline {
        uint64_t t0, t1; /* t1 0: there was none, or it was not finished */
};

int infp_baseline_find(struct infp_run *run, struct infp_baseline *ret, struct infp_err *err);
