/* The inside of the sampler, shared by its files alone. What is not said to be under the lock belongs to the reading thread once that
 * runs. */
#pragma once

#include <pthread.h>

#include "sampler/modes.h"
#include "sampler/names/symbols_live.h"

enum { SAMPLER_MODES = 8, SAMPLER_ROOTS = 256 };

struct infp_sampler {
        struct infp_sampler_options options;
        struct infp_mode_context context;
        struct infp_perf *perf; /* NULL: not allowed, or nobody wants it */
        struct infp_stacks *stacks;
        struct infp_symbols_live *live; /* names that cannot wait for the end of the recording */
        struct infp_rowring *ring;
        struct infp_emit *emit;
        struct infp_perf_handler stacks_handler, handler; /* theirs, and ours in front of it */

        struct sampler_mode {
                const struct infp_sampler_mode *mode;
                void *state;
                uint64_t due_ns;
        } modes[SAMPLER_MODES];
        unsigned n_modes;

        /* Why something is missing, found before the thread began. */
        struct infp_err perf_err;
        const char *perf_fix;

        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t done; /* on CLOCK_MONOTONIC */
        bool is_started;
        /* Under the lock. */
        pid_t launch_pid; /* 0: nothing is asked for */
        pid_t roots[SAMPLER_ROOTS];
        size_t n_roots;
        bool has_roots, is_stopping, is_ended;
        uint64_t stop_ns;

        uint64_t row_ns, start_ns, n_lost, patience_ns;
        uint64_t woken_at; /* bytes that the recorder had taken when it was woken for a burst */
        bool is_woken, said_skipped, said_refused;
        struct pollfd *fds;
        unsigned n_fds; /* of perf, after two of our own */
};

/* sampler_read.c */
void *infp_sampler_main(void *sampler);
/* sampler_rows.c */
int infp_sampler_put(void *sampler, const struct infp_row *row); /* waits a little for a full ring */
void infp_sampler_wake_recorder(const struct infp_sampler *sampler);
void infp_sampler_say(struct infp_sampler *sampler, const char *format, ...) __attribute__((format(printf, 2, 3)));
void infp_sampler_explain_perf(struct infp_sampler *sampler); /* rows of `sources` for what may not be done here */
void infp_sampler_put_counts(struct infp_sampler *sampler, uint64_t now_ns);
/* sampler_tree.c: the processes that descend from the roots, these too; n at most cap. */
size_t infp_sampler_tree(const pid_t *roots, size_t n_roots, int32_t *ret, size_t cap);
