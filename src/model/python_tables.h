/* Tables that programs fill by infp_row() of infprof.h, as infprof's Python package does. SQL has them in schema `python`. They all
 * begin with the columns that the reader of the ring fills; a program names the others. Only these can be written so. */
#pragma once

#include "model/schema.h"

#define INFP_PYTHON_SCHEMA "python"

enum infp_python_cell {
        INFP_PYTHON_PROCESS,
        INFP_PYTHON_TID,
        INFP_PYTHON_THREAD,
        INFP_PYTHON_OWN /* the first of its own */
};

extern const struct infp_table infp_table_torch_trace;    /* what the modules of PyTorch cost */
extern const struct infp_table infp_table_torch_steps;    /* the steps in which they were called */
extern const struct infp_table infp_table_torch_overhead; /* what measuring them cost */
extern const struct infp_table infp_table_gc;             /* collections of garbage meanwhile */

extern const struct infp_table infp_table_own_stacks; /* that programs took of themselves */

/* Not of programs: a view by SQL of stack_samples, own_stacks, and stacks_now, which is there where a process is asked without a
 * recording. */
extern const struct infp_table infp_table_backtrace, infp_table_stacks_now;
enum infp_backtrace_cell {
        INFP_BACKTRACE_PID,
        INFP_BACKTRACE_TID,
        INFP_BACKTRACE_THREAD,
        INFP_BACKTRACE_SAMPLE,
        INFP_BACKTRACE_DEPTH,
        INFP_BACKTRACE_IP,
        INFP_BACKTRACE_FILE,
        INFP_BACKTRACE_FUNC,
        INFP_BACKTRACE_LINENO,
        INFP_BACKTRACE_FRAME_TYPE,
        INFP_BACKTRACE_MODE,
        INFP_BACKTRACE_TRIGGER,
        INFP_BACKTRACE_CAUSE,
        INFP_BACKTRACE_N,
};

const char *infp_python_bare_name(const char *name); /* without "python." before it */

extern const struct infp_table *const infp_python_tables[];        /* ended by NULL */
const struct infp_table *infp_python_table_find(const char *name); /* NULL: no table has that name */
