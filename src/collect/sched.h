/* The scheduler: threads that sample collectors at absolute deadlines of CLOCK_MONOTONIC. Collectors that cannot block share
 * one thread, each MAY_BLOCK has its own. A collector that hangs in the shared thread keeps that thread: the others continue
 * in a new one, and `sources` says late. Rows go into rings, one per thread, for one reader: the recorder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/run_one.h"
#include "ring/rowring.h"

struct infp_sched_options {
        const struct infp_env *env;                     /* with target; period_ms is the run's */
        const struct infp_collector *const *collectors; /* ended by NULL; those that the settings enable take part */
        size_t ring_bytes;                              /* 0: 1 MiB */
        int wake_fd;                                    /* eventfd that is written when rows are in the rings */
        struct infp_stats *stats;                       /* ticks_missed, errors; may be NULL */
        infp_notice_fn *notice;                         /* called from any thread */
        void *notice_context;
        uint64_t target_floor_ns; /* the process table is read no more often than this; 0: at each tick */
        uint64_t hang_ns;         /* 0: 3 periods, at least 1 s */
        uint64_t retry_ns;        /* pause after a hang, doubled each time; 0: 10 s */
};

struct infp_sched;

/* Starts the threads: everything is opened and sampled at once (tick 0). */
int infp_sched_start(const struct infp_sched_options *options, struct infp_sched **ret, struct infp_err *err);

/* True when every collector has had its first sample, cannot be opened, or hangs. */
bool infp_sched_is_first_done(struct infp_sched *sched);

/* Rings to drain, by index, NULL at the end; those of own threads come before the shared one, whose ticks end a tick. */
struct infp_rowring *infp_sched_ring(struct infp_sched *sched, unsigned index);
uint64_t infp_sched_dropped(struct infp_sched *sched); /* rows that found no room in a ring */

/* The reader calls this when due: finds what hangs, starts the others again, takes back what returned. Rows of `sources` go
 * to put. */
void infp_sched_watch(struct infp_sched *sched, int (*put)(void *context, const struct infp_row *row), void *context);
uint64_t infp_sched_watch_due_ns(struct infp_sched *sched);

/* A last sample, then the end of the threads: begin returns at once, is_ended says when (also when the rest hangs). */
void infp_sched_stop_begin(struct infp_sched *sched);
bool infp_sched_is_ended(struct infp_sched *sched);

/* After the end. False: a thread is in a call that has not returned; it keeps the scheduler's memory, and what env points to
 * must stay as well. */
bool infp_sched_free(struct infp_sched *sched);
