/* Several variants side by side, as the System Profiler's post-processing has them: mean and deviation over the runs of a variant, the
 * mean by the smallest mean of all variants, and the ratio to the first variant: of geometric means, with Student's t 95 % interval
 * of the logarithms (Welch's degrees of freedom). A last row for each number is over all variants: the geometric mean of their ratios to
 * the first, with n - 1 degrees of freedom for n ratios. */
#pragma once

#include "analyze/compare/compare.h"

struct infp_group_row {
        const struct infp_compare_number *number;
        const char *name;
        unsigned side;              /* n_sides: over all variants */
        unsigned n;                 /* runs with a value; of the last row: ratios */
        double mean, std, min, max; /* NAN in the last row; std with n - 1 */
        double normalised;          /* mean by the smallest mean */
        double ratio, low, high;    /* NAN: not known */
};

struct infp_group {
        struct infp_group_row *rows;
        unsigned n, cap;
};

/* 0 or -ENOMEM. */
int infp_group_make(const struct infp_compare_side *sides, unsigned n, struct infp_group *ret);
void infp_group_done(struct infp_group *group);
