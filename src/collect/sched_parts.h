/* Shared by sched.c and sched_watch.c alone.
 *
 * A slot belongs to the worker that may run it. The thread that runs a slot's call owns the whole slot; otherwise, and for
 * the fields that the watch reads, the scheduler's lock counts. The lock is never held during a call of a collector. */
#pragma once

#include <pthread.h>

#include "collect/sched.h"

enum { SCHED_SLOTS = 64, SCHED_WORKERS = SCHED_SLOTS + 8 };

/* What a source says of itself; zeroed: ok. */
struct sched_words {
        enum infp_source_state state;
        char reason[256], fix[256];
};

/* One collector. */
struct sched_slot {
        struct infp_sched *sched;
        const struct infp_collector *collector; /* NULL: the reading of the process table */
        const char *name;
        struct infp_collector_state state;
        struct infp_emit *emit;
        uint64_t period_ns, next_ns, ran_ns;
        bool is_open, was_broken;

        struct sched_worker *worker;
        bool was_run;
        bool is_hung; /* it keeps the shared thread */
        bool is_late; /* `late` was reported and not yet taken back */
        unsigned n_hangs;
        uint64_t n_done, n_done_before; /* calls that returned in time; the same when `late` was reported */
        uint64_t retry_ns;              /* not sampled before this, after a hang */
        struct sched_words words;       /* its own last ones of the whole collector; under lock */
};

/* One thread and its ring. */
struct sched_worker {
        struct infp_sched *sched;
        pthread_t thread;
        struct infp_rowring *ring;
        struct sched_slot *own; /* NULL: shared */
        bool is_started, is_ended;
        bool is_abandoned;          /* another worker has taken over: it ends when its call returns */
        struct sched_slot *current; /* what it runs now; NULL: it waits for a deadline */
        uint64_t call_ns, n_calls;
        uint64_t wake_ns;                  /* when it will wake up */
        uint64_t watched_call, watched_ns; /* of the watch: when it first saw this call */
        bool is_woken; /* this thread has woken the reader within this tick, when it had taken woken_at bytes */
        uint64_t woken_at;
};

struct infp_sched {
        struct infp_sched_options options;
        uint64_t period_ns, hang_ns, start_ns; /* tick k is due at start + k * period */
        pthread_mutex_t lock;
        pthread_cond_t wake; /* on CLOCK_MONOTONIC */
        bool is_stopping;
        uint64_t stop_ns;

        struct sched_slot slots[SCHED_SLOTS]; /* the shared ones first */
        unsigned n_slots, n_shared;
        bool has_walkers;
        struct sched_slot target; /* reading /proc can hang, too */

        struct sched_worker workers[SCHED_WORKERS]; /* own threads first */
        unsigned n_workers;
        struct sched_worker *shared;

        uint64_t tick, n_missed; /* these three belong to the present shared worker */
        struct infp_row tick_row;
        struct infp_emit *watch_emit; /* this and the next belong to the reader */
        uint64_t watched_ns;
};

/* sched.c */
uint64_t infp_sched_now(void);
/* A worker: new, or in place of one that ended; and its thread. The lock is held, or there is no thread yet. */
int infp_sched_add_worker(struct infp_sched *sched, struct sched_slot *own, struct sched_worker **ret,
                          struct infp_err *err);
int infp_sched_start_worker(struct sched_worker *worker, struct infp_err *err);
