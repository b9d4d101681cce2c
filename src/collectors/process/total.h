/* Totals of a tree whose processes come and go, which never fall.
 *
 * Linux adds the times, faults and io of a process to its parent's when the parent waits for it, and at no other time: not
 * when the parent ignores SIGCHLD, and for us only when the parent is in the tree. So the use of each ended process is looked
 * for in what its parents, or we, have gained since; what is not found is kept as it was last known. While that is open, for
 * one tick, it counts as alive: it may have been waited for after its parent was read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/target.h"

/* Counters of a process that are part of totals. The first group moves to the parent with those of its children, io moves but
 * shows as the parent's own, switches do not move. */
enum process_counter {
        COUNTER_USER,
        COUNTER_SYSTEM,
        COUNTER_CPU_NS,
        COUNTER_MINOR_FAULTS,
        COUNTER_MAJOR_FAULTS, /* children included */
        COUNTER_READ_CHARS,
        COUNTER_WRITE_CHARS,
        COUNTER_READ_BYTES,
        COUNTER_WRITE_BYTES,
        COUNTER_VOLUNTARY,
        COUNTER_INVOLUNTARY,
        COUNTER_RUN_DELAY, /* does not move, either */
        COUNTER_N,
        COUNTER_FIRST_IO = COUNTER_READ_CHARS,
        COUNTER_FIRST_SWITCH = COUNTER_VOLUNTARY,
};

struct process_share {
        int64_t v[COUNTER_N];    /* user and system in ticks */
        int64_t base[COUNTER_N]; /* use before we attached: in v, but not in totals */
};

/* What a process got from children that it waited for: kept by the owner of the process between ticks. */
struct process_gain {
        bool is_known;
        int64_t faults, ticks;         /* cumulative, as last read */
        int64_t new_faults, new_ticks; /* since the last tick, not yet matched with an ended child */
        int64_t old_faults, old_ticks; /* of the tick before */
};

struct process_total {
        bool is_ours_known; /* self_pid and reaped are valid: mode RUN */
        int32_t self_pid;
        uint32_t ticks_per_s;
        struct process_gain ours; /* what we gained by waiting */

        struct process_share sum;  /* of the live of this tick */
        struct process_share lost; /* of ended processes that no other process has */
        bool has_lost;

        struct live_process {
                int32_t pid, ppid;
                uint64_t start_ticks;
                struct process_gain *gain;
        } * live; /* by pid */
        size_t n_live, cap_live;
        struct ended_process {
                int32_t pid, ppid;
                uint64_t start_ticks;
                bool is_old, is_done;
                int64_t faults, ticks;
                bool is_final; /* its numbers are final, including what it got from its children */
                struct process_gain gain;
                struct process_share share;
        } * ended;
        size_t n_ended, cap_ended;

        struct never_falls {
                int64_t last, offset;
                int64_t excess; /* part of `last` that is known to have counted twice */
                unsigned n_below;
        } totals[COUNTER_N];
        struct infp_reaped reaped;
};

void process_total_done(struct process_total *total);
void process_total_begin(struct process_total *total, const struct infp_reaped *reaped);
/* By ascending pid. 0 or -ENOMEM. */
int process_total_live(struct process_total *total, const struct infp_process *process, struct process_gain *gain,
                       const struct process_share *share);
/* Also between two pairs of begin and end. gain: for its life, where it was read at its end (process->last). */
int process_total_ended(struct process_total *total, const struct infp_process *process,
                        const struct process_gain *gain, const struct process_share *share);
/* The totals: user and system in ticks. */
void process_total_end(struct process_total *total, struct process_share *ret);
