/* The only way in which a collector sees the world: a root directory (a fixture tree is a machine), a clock, options, and the
 * target. Everything is read below root_fd by openat; collectors write nothing here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct infp_target;

/* Own counters of the recorder, written with relaxed atomics, read by the collector `self`. */
struct infp_stats {
        uint64_t rows, rows_dropped, bytes_written, batches, ticks_missed, notices;
        uint64_t errors;       /* samples that failed */
        uint64_t write_errors; /* calls of sinks that failed */
        uint64_t rows_lost;    /* by the store: rows of batches that it could not write */
        uint64_t snapshots_skipped;
        uint64_t ring_rows, ring_dropped; /* of spans, marks and counters of programs: taken; no room in their files */
};

/* Own figures are read by the collector `self` in another thread. */
static inline void infp_stats_add(uint64_t *counter, uint64_t n)
{
        __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
static inline void infp_stats_set(uint64_t *counter, uint64_t n)
{
        __atomic_store_n(counter, n, __ATOMIC_RELAXED);
}

struct infp_setting {
        const char *name, *value;
};

struct infp_env {
        int root_fd;
        bool is_live; /* root_fd is this machine's own "/": system calls about it (clocks of processes, affinity) mean something */
        uint64_t (*now_ns)(const struct infp_env *env); /* CLOCK_MONOTONIC of that world; tests bring their own */
        void *clock_context;
        const struct infp_setting *settings; /* ended by a NULL name; the command line's options for sources */
        struct infp_target *target;          /* never NULL while collectors run */
        const struct infp_stats *stats;      /* NULL outside a recording */
        uint32_t period_ms;                  /* of the run (-t) */
        uint32_t ticks_per_s;                /* USER_HZ of that machine: 100 */
        uint32_t page_size;
        char boot_id[40]; /* "" when the root does not have it */
};

/* Opens the root ("/" for the machine), reads boot_id; now_ns is the real clock. 0 or a negative errno with the path. */
struct infp_err;
int infp_env_open(struct infp_env *env, const char *root, struct infp_err *err);
void infp_env_close(struct infp_env *env);

const char *infp_env_setting(const struct infp_env *env, const char *name); /* NULL when not set; the last wins */
/* For a setting that may be repeated: value number `index`, from 0; NULL after the last. */
const char *infp_env_setting_at(const struct infp_env *env, const char *name, unsigned index);
bool infp_env_flag(const struct infp_env *env, const char *name); /* set, and not "0" or "off" */
