/* Opens, samples and closes one collector, and turns its errors into rows of `sources`: for the scheduler, the snapshot and
 * doctor. Nothing here waits; time is env->now_ns. */
#pragma once

#include "collect/collector.h"

/* Sentences for users, each given once. May be NULL. */
typedef void infp_notice_fn(void *context, const char *text);

struct infp_collector_state {
        const struct infp_collector *collector;
        void *memory; /* the collector's own, zeroed before open; NULL: not opened yet */
        uint64_t period_ns;
        uint64_t next_ns;       /* when it is due: set by the scheduler after the first sample */
        uint64_t not_before_ns; /* the pause after errors; 0 = none */
        uint64_t n_errors;      /* consecutive */
        bool is_closed;         /* for this run: never opened, not on this machine, gone or closed */
};

/* False when it is opt-in and not requested, or disabled by its own setting ("0", "off"). */
bool infp_collector_enabled(const struct infp_collector *collector, const struct infp_env *env);

/* 0, or the negative errno of a collector that takes no part in this run: a row of `sources` has the reason, and a notice was
 * given unless it is just not on this machine. -EMFILE, -ENFILE: no descriptor was free for its files, which passes: sampling
 * tries it again, with the pauses of a failed sample. */
int infp_collector_open(struct infp_collector_state *state, const struct infp_collector *collector,
                        const struct infp_env *env, struct infp_emit *emit, infp_notice_fn *notice, void *context);

/* It takes no part in this run for a reason outside it: reports that, and the fix. */
void infp_collector_leave_out(struct infp_collector_state *state, const struct infp_collector *collector,
                              const struct infp_env *env, struct infp_emit *emit, const char *reason, const char *fix);

/* 0: sampled. -EAGAIN: nothing this time, or it pauses after an error. -ENODEV: closed for this run. Else the error of the
 * collector, which is counted, reported once in a row of errors, and followed by a pause that grows from one period to 60 s. */
int infp_collector_sample(struct infp_collector_state *state, const struct infp_env *env, struct infp_emit *emit,
                          infp_notice_fn *notice, void *context);

/* Takes zeroed and half-open states. */
void infp_collector_close(struct infp_collector_state *state);
