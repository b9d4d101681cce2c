/* Opens and reads the runs of a comparison, as people name them. */
#pragma once

#include "analyze/compare/compare.h"
#include "base/notice.h"

/* One side: TEXT is RUN[@FROM..TO][,RUN[@FROM..TO]...], each run named as everywhere ("": the newest), either end of a range may be
 * left out. A text that is a directory's name as it stands has no range. */
struct infp_compare_operand {
        const char *text;
        const char *from, *to; /* of runs without a range of their own; NULL: the whole */
};

struct infp_compare_request {
        struct infp_compare_operand sides[INFP_COMPARE_SIDES];
        unsigned n;
        unsigned replicates; /* 0; else each side is a directory, and its newest so many runs are taken */
        const char *mode;    /* of stacks; NULL: as infp_flame_read chooses */
        bool anyway;         /* unlike runs too */
};

struct infp_compared {
        struct infp_compare_side sides[INFP_COMPARE_SIDES];
        unsigned n;
        char *words[INFP_COMPARE_SIDES]; /* which runs, in one line */
        char *unlike;                    /* NULL: they are alike */
        struct infp_compared_run {
                struct infp_run *run;
                struct infp_compare_run *numbers;
                int lock;
                unsigned side;
        } * runs;
        unsigned n_runs, cap;
        const struct infp_notices *notices;
};

/* -EINVAL: an operand cannot be understood; -EPERM: the runs are unlike. */
int infp_compare_runs_read(const struct infp_compare_request *request, const struct infp_notices *notices,
                           struct infp_compared *ret, struct infp_err *err);
void infp_compared_done(struct infp_compared *compared);
