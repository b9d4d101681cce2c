/* What a run could not have, and why: the last word of `sources` about each source, where it is not ok. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "store/run.h"

struct infp_absence {
        char *collector, *instance, *table, *column; /* "" where the row says nothing */
        char *state, *reason, *fix;
};

struct infp_absences {
        struct infp_absence *list; /* in the order in which they were first named */
        unsigned n, cap;
        uint64_t n_left_out; /* rows of those for which there was no room; a note of the run says so */
};

/* Up to t1 (t_ns; 0 = the end). A run without the table has none. */
int infp_absences_read(struct infp_run *run, uint64_t t1, struct infp_absences *ret, struct infp_err *err);
/* What a collector's instance could not have; NULL: nothing is missing. */
const struct infp_absence *infp_absences_find(const struct infp_absences *absences, const char *collector,
                                              const char *instance);
void infp_absences_done(struct infp_absences *absences);
