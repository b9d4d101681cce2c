/* Spans that programs recorded (libinfprof), by name: how many, how long. One pass, memory by the number of names. */
#pragma once

#include "analyze/stat.h"
#include "query/scan.h"

enum { INFP_PROGRAM_SPANS = 64 }; /* distinct names that are kept */

struct infp_program_span {
        char *name;
        uint64_t n, n_errors, n_open;  /* of n: status error; not ended, without a duration */
        struct infp_samples durations; /* ns */
};

struct infp_program_spans {
        struct infp_program_span *list; /* by their time in all, the most first */
        unsigned n;
        uint64_t n_rows, n_left_out; /* spans that began in the range; those with further names */
};

/* Of the range of `options`; none without such a table. */
int infp_program_spans_read(struct infp_run *run, const struct infp_scan_options *options,
                            struct infp_program_spans *ret, struct infp_err *err);
void infp_program_spans_done(struct infp_program_spans *spans);
