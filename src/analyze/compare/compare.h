/* Runs compared: every number that both sides have, with an interval and a verdict. Side 0 is the base; each other side is compared
 * with it, and all verdicts are corrected together. */
#pragma once

#include "analyze/compare/read.h"
#include "base/str.h"

enum { INFP_COMPARE_SIDES = 26, INFP_COMPARE_RUNS = 256 }; /* at most; runs: of a side */

/* Runs of one side are replicates. Borrowed. */
struct infp_compare_side {
        const struct infp_compare_run *const *runs;
        unsigned n;
};

struct infp_compare_row {
        enum infp_compare_section section;
        unsigned side; /* compared with side 0 */
        const char *name, *object;
        const struct infp_compare_number *number; /* NULL: a function or a module */
        enum infp_better better;
        struct infp_difference difference;
};

struct infp_compare {
        const struct infp_compare_side *sides;
        unsigned n_sides;
        struct infp_compare_row *rows; /* by section, name, side */
        unsigned n, cap;
        unsigned n_tested;        /* rows with a p value: what the correction is over */
        const char *mode;         /* of functions; "": they are not compared */
        const char *no_functions; /* why they are not; NULL: they are, or nobody has any */
        bool cuts_differ;         /* one side has more incomplete stacks by 5 points or more */
        double others;            /* share of the CPUs that others had, in the run with most; NAN: not measured */
        bool is_disturbed;        /* by them: time by the clock of single runs needs a factor of two */
        unsigned n_left_out[INFP_COMPARE_SECTIONS]; /* functions and modules with little time, which were not tested */
};

/* What makes the runs unlike, as clauses: "engine (vllm and sglang), model (a and b)"; nothing: they are alike as far as is known. */
void infp_compare_unlike(const struct infp_compare_side *sides, unsigned n, struct infp_str *ret);

/* Each side has one run, or each at least two (-EINVAL). 0 with n 0: they have no number in common. */
int infp_compare_make(const struct infp_compare_side *sides, unsigned n, struct infp_compare *ret,
                      struct infp_err *err);
void infp_compare_done(struct infp_compare *compare);

const struct infp_compare_row *infp_compare_find(const struct infp_compare *compare, const char *name, unsigned side);
unsigned infp_compare_count(const struct infp_compare *compare, enum infp_verdict verdict);
