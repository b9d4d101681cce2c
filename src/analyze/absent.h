/* What a run lacks, and why: the last row of `sources` for each source that is not ok. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "store/run.h"

struct infp_absence {
        char *collector, *instance, *table, *column; /* "" where the row has no value */
        char *state, *reason, *fix;
};

struct infp_absences {
        struct infp_absence *list; /* in the order in which they were first named */
        unsigned n, cap;
        uint64_t n_left_out; /* rows of sources beyond the bound; a note of the run reports them */
};

/* Up to t1 (t_ns; 0 = the end). A run without the table has none. */
int infp_absences_read(struct infp_run *run, uint64_t t1, struct infp_absences *ret, struct infp_err *err);
/* What a collector's instance lacks; NULL: nothing. */
const struct infp_absence *infp_absences_find(const struct infp_absences *absences, const char *collector,
                                              const char *instance);
void infp_absences_done(struct infp_absences *absences);
