/* Where the time of a run went, by functions: of its stacks, if it has any. */
#pragma once

#include "analyze/busy.h"
#include "analyze/profile/flame.h"
#include "analyze/sampling.h"

enum { INFP_REPORT_FUNCTIONS_MODES = 4 };

struct infp_report_functions {
        struct infp_flame flames[INFP_REPORT_FUNCTIONS_MODES]; /* a mode each, without nodes */
        unsigned n;
        struct infp_sampling sampling;
        struct infp_busy busy; /* of mode cpu; none: seconds 0 */
};

/* Modes cpu, wall and off-cpu; of an imported profile the only one. No stacks: n 0. */
int infp_report_functions_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_report_functions *ret,
                               struct infp_err *err);
void infp_report_functions_done(struct infp_report_functions *functions);
