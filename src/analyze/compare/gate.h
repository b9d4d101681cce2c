/* Conditions of a gate: 'ttft_p95>+5%'. A condition fails when the data show that it holds: the whole interval lies beyond the
 * threshold. It passes when the whole interval lies on the other side. Between these the data cannot decide. The intervals are of the
 * level 1 - 0.05 / n for n conditions, so that of differences that lie exactly at their thresholds at most 2.5 % fail, all
 * conditions of one comparison together. Between single runs a difference within the noise floor does not fail either. */
#pragma once

#include "analyze/compare/compare.h"

enum { INFP_GATES = 32 };

struct infp_gate {
        const char *text; /* as given; borrowed */
        char name[128];
        const struct infp_compare_number *number;
        bool is_above;
        double threshold; /* 0.05 of "5%" */
};

enum infp_gate_state { INFP_GATE_PASSED, INFP_GATE_FAILED, INFP_GATE_UNDECIDED, INFP_GATE_ABSENT };
const char *infp_gate_state_name(enum infp_gate_state state); /* "passed" */

struct infp_gate_result {
        const struct infp_gate *gate;
        unsigned side;
        enum infp_gate_state state;
        const struct infp_compare_row *row; /* NULL: no run has the number */
        double low, high;                   /* of the level above; NAN: none */
};

/* -EINVAL with a sentence that says what a condition looks like. */
int infp_gate_parse(const char *text, struct infp_gate *ret, struct infp_err *err);
/* Of one side; n: how many conditions there are in all. */
struct infp_gate_result infp_gate_judge(const struct infp_gate *gate, unsigned n, const struct infp_compare *compare,
                                        unsigned side);
