/* How well stacks were sampled: table `sampler`, by mode. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/stack_tables.h"
#include "store/run.h"

struct infp_sampling_mode {
        bool is_known; /* the table has rows of it */
        enum infp_stack_mode mode;
        char method[192];        /* "" not known */
        char python_method[192]; /* "" Python frames were not read */
        double rate_hz;          /* the last; NAN if unknown, as all below */
        double wanted, taken, lost, throttled, dropped, truncated, incomplete, frames, guessed_frames;
        double deep, completed, moved; /* stacks that were read beyond their copy: at once, after it; in vain */
        double python_merged, python_unmerged, python_torn, python_missed, python_alone, python_unknown;
        double python_rejected; /* reads of threads from outside; NAN: none were read so */
        double skipped_threads; /* most at one time */
        double own_cpu_s;
};

struct infp_sampling {
        struct infp_sampling_mode modes[INFP_STACK_MODES];
};

/* Within [t0, t1); t1 0: no end. A run without the table has no mode that is known. */
int infp_sampling_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_sampling *ret, struct infp_err *err);
/* NULL: not known. */
const struct infp_sampling_mode *infp_sampling_find(const struct infp_sampling *sampling, enum infp_stack_mode mode);
