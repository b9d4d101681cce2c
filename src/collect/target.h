/* The target: the processes that the run is about, refreshed once a tick by the shared collector thread before its collectors
 * run (infp_target_refresh). One scan serves all: `processes` makes its rows from it, others take the pids.
 *
 * Threads: refresh, infp_target_at and what reads processes belong to the shared collector thread; infp_target_pids,
 * _members, _exclude, _add_last, _add_reaped, _reaped and _set_root may be called from any thread (a mutex inside, held for a
 * copy only). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "collect/env.h"
#include "collect/last_look.h"

enum infp_mode {
        INFP_MODE_HOST, /* the machine: no process is the target */
        INFP_MODE_RUN,  /* a command that we started: all descendants, and those reparented to us (subreaper) */
        INFP_MODE_PID,  /* attached: the roots and their descendants by ppid at each tick; once one, always one */
};

/* One read of /proc/PID/stat. */
struct infp_process {
        uint64_t id; /* infp_process_id */
        int32_t pid, ppid, pgrp, session;
        char state;
        char comm[64]; /* raw bytes */
        uint8_t comm_size;
        int32_t n_threads, processor;
        uint64_t start_ticks, utime, stime, minor_faults, major_faults, vsize_bytes, rss_pages, blkio_ticks;
        uint64_t child_minor_faults, child_major_faults; /* like cutime: of the children that it has waited for */
        int64_t cutime, cstime;                          /* ticks */
        uint64_t image; /* changes at each exec; 0 where the kernel does not show it to us */
        int64_t cpu_ns; /* its CPU clock, all threads; -1 where that cannot be read */
        uint64_t t_ns;  /* stamped just before these were read */

        bool in_tree;    /* of the target */
        bool is_new;     /* first seen at this tick */
        bool is_changed; /* the stat text differs from the last tick's, or is_new */
        bool is_found; /* joined at this tick as a part of an attached tree that existed before: its past use is not ours */
        bool is_gone; /* ended since the last tick: the fields are the last known; removed at the next refresh */
        struct infp_last_look *last;      /* files of an ended process that we have waited for; NULL: not known */
        struct infp_process_files *files; /* kept descriptors, used by target.c */
        void *user; /* of the collector `processes`; freed with free() when the process is removed */
};

struct infp_target;

/* mode RUN: root is set by infp_target_set_root once the child exists. `all`: every process of the machine is read (-p),
 * in_tree marks the target's. */
int infp_target_new(enum infp_mode mode, bool all, struct infp_target **ret, struct infp_err *err);
struct infp_target *infp_target_free(struct infp_target *target);
/* Names roots; at most this many between two refreshes, then the last ones count. */
enum { INFP_TARGET_ROOTS = 256 };
void infp_target_set_root(struct infp_target *target, const pid_t *pids, size_t n);
enum infp_mode infp_target_mode(const struct infp_target *target);
bool infp_target_all(const struct infp_target *target);
/* A child of ours that is not part of the target (a helper), and its descendants. */
void infp_target_exclude(struct infp_target *target, pid_t pid);

/* Reads the process table below env->root_fd. 0 or a negative errno when /proc itself cannot be listed. */
int infp_target_refresh(struct infp_target *target, const struct infp_env *env, struct infp_err *err);

/* The processes that are followed (the tree; all with `all`), by index: those that ended at this tick, then the live by pid. */
size_t infp_target_count(const struct infp_target *target);
struct infp_process *infp_target_at(struct infp_target *target, size_t index);
/* Processes outside the tree are read this often at most. */
enum { INFP_TARGET_OTHERS_MS = 1000 };
/* False when this refresh skipped those outside the tree: with `all` they are read once a second at most. */
bool infp_target_is_full(const struct infp_target *target);

/* Reads a file of the process through a descriptor that is kept while the cap allows (RLIMIT_NOFILE less a reserve). name:
 * "status", "io", "cmdline", "statm", "smaps_rollup", "cgroup". Bytes read (buffer ends with 0) or a negative errno. */
ssize_t infp_process_read(struct infp_target *target, const struct infp_env *env, struct infp_process *process,
                          const char *name, char *buffer, size_t cap);

/* Copies the live pids of the tree: roots first. Returns their number, which may exceed cap. Any thread. */
size_t infp_target_pids(struct infp_target *target, int32_t *ret, size_t cap);

/* The same with who they are, sorted by pid. */
struct infp_target_member {
        int32_t pid;                     /* first: infp_find_i32 */
        uint64_t id, start_ticks, image; /* as in struct infp_process */
};
size_t infp_target_members(struct infp_target *target, struct infp_target_member *ret, size_t cap);

/* Use of descendants that we have waited for ourselves (mode RUN), with all that they had waited for; added by the recorder
 * from wait4's usage. A process that a refresh saw as a zombie before it was waited for has left its last io. */
struct infp_reaped {
        uint64_t user_ns, system_ns, n, minor_faults, major_faults;
};
/* The last look at one of them, taken before it is waited for, so that a caller that finds it gone finds this. Consumes.
 * Beyond INFP_TARGET_LOOKS between two refreshes only the sums count. */
enum { INFP_TARGET_LOOKS = 512 };
void infp_target_add_last(struct infp_target *target, struct infp_last_look *look);
void infp_target_add_reaped(struct infp_target *target, const struct rusage *usage);
struct infp_reaped infp_target_reaped(struct infp_target *target);
/* As of the start of the last refresh: it matches the processes of that refresh, so that none counts twice. */
struct infp_reaped infp_target_reaped_at_refresh(struct infp_target *target);

/* Why no process was found to attach to, for `sources`. text "": one was found. Any thread. */
struct infp_target_missing {
        bool is_denied; /* it is there, but we may not see it */
        char text[256];
};
void infp_target_set_missing(struct infp_target *target, bool is_denied, const char *text);
struct infp_target_missing infp_target_missing(struct infp_target *target);

/* The cost of scanning, for the collector `self`. */
struct infp_target_work {
        uint64_t n_refreshes, n_lists, n_tails, n_stat_reads; /* whole lists of /proc, lists of its new end only */
        uint32_t n_kept;                                      /* descriptors kept now */
};
struct infp_target_work infp_target_work(const struct infp_target *target);
