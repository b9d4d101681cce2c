/* The target: which processes the run is about, refreshed once a tick by the shared collector thread before its collectors
 * run (infp_target_refresh). One scan serves all: `processes` makes its rows from it, others take the pids.
 *
 * Threads: refresh and infp_target_at belong to the shared collector thread; infp_target_pids, _add_reaped, _reaped and
 * _set_root may be called from any thread (a mutex inside, held for a copy only). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "collect/env.h"

enum infp_mode {
        INFP_MODE_HOST, /* the machine: no process is the target */
        INFP_MODE_RUN,  /* a command that we started: all descendants, and those reparented to us (subreaper) */
        INFP_MODE_PID,  /* attached: the roots and their descendants by ppid at each tick */
};

/* What one read of /proc/PID/stat says. */
struct infp_process {
        uint64_t id; /* infp_process_id */
        int32_t pid, ppid, pgrp, session;
        char state;
        char comm[64]; /* raw bytes */
        uint8_t comm_size;
        int32_t n_threads, processor;
        uint64_t start_ticks, utime, stime, minor_faults, major_faults, vsize_bytes, rss_pages, blkio_ticks;
        int64_t cutime, cstime; /* ticks */
        uint64_t t_ns;          /* stamped just before the read of stat */

        bool in_tree;    /* of the target */
        bool is_new;     /* first seen at this tick */
        bool is_changed; /* the stat text differs from the last tick's, or is_new */
        bool is_gone;    /* ended since the last tick: the fields are the last known; removed at the next refresh */
        struct infp_process_files *files; /* kept descriptors, target.c's business */
        void *user;      /* of the collector `processes`; freed with free() when the process is removed */
};

struct infp_target;

/* mode RUN: root is set by infp_target_set_root once the child exists. `all`: every process of the machine is read (-p),
 * in_tree still tells the target's. */
int infp_target_new(enum infp_mode mode, bool all, struct infp_target **ret, struct infp_err *err);
struct infp_target *infp_target_free(struct infp_target *target);
void infp_target_set_root(struct infp_target *target, const pid_t *pids, size_t n);
enum infp_mode infp_target_mode(const struct infp_target *target);

/* Reads the process table below env->root_fd. 0 or a negative errno when /proc itself cannot be listed. */
int infp_target_refresh(struct infp_target *target, const struct infp_env *env, struct infp_err *err);

/* The processes that are followed (the tree; all with `all`), by index; the gone of this tick included. */
size_t infp_target_count(const struct infp_target *target);
struct infp_process *infp_target_at(struct infp_target *target, size_t index);

/* Reads a file of the process through a descriptor that is kept while the cap allows (RLIMIT_NOFILE less a reserve). name:
 * "status", "io", "cmdline", "statm", "smaps_rollup", "cgroup". Bytes read (buffer ends with 0) or a negative errno. */
ssize_t infp_process_read(struct infp_target *target, const struct infp_env *env, struct infp_process *process,
                          const char *name, char *buffer, size_t cap);

/* Copies the live pids of the tree: roots first. Returns their number, which may exceed cap. Any thread. */
size_t infp_target_pids(struct infp_target *target, int32_t *ret, size_t cap);

/* CPU of descendants that we ourselves have waited for (mode RUN), added by the recorder. */
struct infp_reaped {
        uint64_t user_ns, system_ns, n;
};
void infp_target_add_reaped(struct infp_target *target, const struct rusage *usage);
struct infp_reaped infp_target_reaped(struct infp_target *target);
