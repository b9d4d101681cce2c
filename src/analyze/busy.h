/* What the CPU time of a target went to besides work, told from its stacks of mode cpu: waiting that uses a CPU (threads that spin at a
 * barrier, or poll with sched_yield until others are done), and whether one thread was busy all the time, which more CPUs do not
 * make faster. Samples: all figures but runnable_s are estimates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/profile/flame.h"
#include "base/err.h"
#include "store/run.h"

enum infp_busy_kind {
        INFP_BUSY_OPENMP, /* barriers of the runtimes of OpenMP, which do nothing else that takes long */
        INFP_BUSY_GGML,   /* the barrier of llama.cpp's own threads */
        INFP_BUSY_YIELD,  /* sched_yield */
        INFP_BUSY_LOCK,   /* spin locks, of programs and of the kernel */
        INFP_BUSY_KINDS,
};

struct infp_busy {
        double seconds; /* of all samples; 0: there are none */
        double waited_s[INFP_BUSY_KINDS];
        double thread_s; /* of the thread that had most */
        int64_t tid;
        bool has_waits;    /* mode off-cpu was recorded */
        double runnable_s; /* then: how long threads were ready to run and had no CPU, by the kernel's switches */
};

/* With the flame's nodes. */
void infp_busy_waited(const struct infp_flame *flame, struct infp_busy *busy);
/* Samples of [t0, t1) by thread, and waits. 0 too where the run has none. */
int infp_busy_thread(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_busy *busy, struct infp_err *err);
double infp_busy_waited_s(const struct infp_busy *busy); /* of all kinds */
const char *infp_busy_name(enum infp_busy_kind kind);    /* "barriers of OpenMP" */
