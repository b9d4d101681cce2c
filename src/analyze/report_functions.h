/* Where the time of a run went, by functions, from its stacks. Also busy waiting (threads that spin at a barrier or poll with
 * sched_yield), and whether one thread was always busy, which more CPUs cannot speed up. All figures but runnable_s are
 * estimates from samples. */
#pragma once

#include "analyze/bottlenecks/code.h"
#include "analyze/profile/flame.h"
#include "analyze/profile/sampling.h"
#include "base/strings.h"

enum infp_busy_kind {
        INFP_BUSY_OPENMP, /* barriers of OpenMP runtimes, which do nothing else for long */
        INFP_BUSY_GGML,   /* the barrier of llama.cpp's own threads */
        INFP_BUSY_YIELD,  /* sched_yield */
        INFP_BUSY_LOCK,   /* spin locks, of programs and of the kernel */
        INFP_BUSY_KINDS,
};

struct infp_busy {
        double seconds; /* of all samples; 0: no samples */
        double waited_s[INFP_BUSY_KINDS];
        double thread_s; /* of the thread that had most */
        int64_t tid;
        bool has_waits;    /* mode off-cpu was recorded */
        double runnable_s; /* then: how long threads were runnable without a CPU, by the kernel's context switches */
};

struct infp_report_functions {
        /* A mode each, without nodes; the same by line of source. */
        struct infp_flame flames[INFP_STACK_MODES], lines[INFP_STACK_MODES];
        unsigned n;
        enum infp_profile_part part; /* of the stacks, in both */
        struct infp_sampling sampling;
        struct infp_busy busy;          /* of mode cpu, of whole stacks; none: seconds 0 */
        struct infp_code code;          /* likewise; strings are strings[0] */
        struct infp_strings strings[2]; /* of the flames: those in seconds, those of the heap */
};

/* Our modes; of an imported profile its only mode. n is 0 without stacks. */
int infp_report_functions_read(struct infp_run *run, uint64_t t0, uint64_t t1, enum infp_profile_part part,
                               struct infp_report_functions *ret, struct infp_err *err);
void infp_report_functions_done(struct infp_report_functions *functions);
double infp_busy_waited_s(const struct infp_busy *busy); /* of all kinds */
const char *infp_busy_name(enum infp_busy_kind kind);    /* "barriers of OpenMP" */
