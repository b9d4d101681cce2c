/* Shared by target.c, target_scan.c and last_look.c alone. */
#pragma once

#include <pthread.h>

#include "collect/process_files.h"
#include "collect/process_list.h"
#include "collect/target.h"

/* What is known of a pid that /proc lists. */
enum infp_entry_state {
        INFP_ENTRY_FRESH,   /* its stat was not read yet */
        INFP_ENTRY_OPEN,    /* read, but its parent was unknown: it is read again */
        INFP_ENTRY_CHECK,   /* settled, but the pid may have been given to another process */
        INFP_ENTRY_SETTLED, /* in the tree or not: that no longer changes */
};

struct infp_entry {
        int32_t pid, ppid; /* pid first: infp_find_i32 */
        uint64_t ino, start_ticks;
        uint64_t read_number;         /* of the refresh that has read its process last */
        struct infp_process *process; /* NULL: not followed */
        uint8_t state, n_tries;
        bool in_tree, is_excluded;
        bool is_at_gate;   /* not followed before its exec, which gives it its name */
        bool is_candidate; /* of this refresh: its place in the tree is being found */
        bool is_found;     /* joined an attached tree at this refresh with earlier use */
        bool is_ended;     /* found at this refresh; removed at its end */
};

/* Pids that were named and wait for the next refresh. */
struct infp_pid_requests {
        int32_t pid[INFP_TARGET_ROOTS];
        uint8_t age[INFP_TARGET_ROOTS];
        unsigned n;
};

struct infp_target {
        enum infp_mode mode;
        bool all;

        /* Of the collector thread. */
        struct infp_process_list list;
        bool is_open, is_full;
        struct infp_keeper keeper;
        struct infp_entry *entries, *merged; /* all pids, by pid; the second is for the part that was listed */
        size_t n_entries, cap_entries, cap_merged;
        struct infp_process **followed; /* those that ended at this tick first */
        size_t n_gone, n_followed, cap_followed;
        uint64_t next_full_ns, n_refreshes, n_stat_reads;
        struct infp_pid_requests roots, excluded;
        bool has_new_roots;
        bool has_unsettled, has_ended; /* entries that are not settled; that must be removed */
        bool has_roots; /* some were named: before that our own child is not the command yet, but a fork of us at its gate */

        /* Shared. */
        pthread_mutex_t lock;
        struct infp_pid_requests asked_roots, asked_excluded;
        struct infp_last_look *looks; /* of ended processes whose end no refresh has seen yet */
        unsigned n_looks;
        struct infp_reaped reaped, reaped_at_refresh;
        struct infp_target_missing missing;
        struct infp_target_member *members;
        size_t n_members, cap_members;
};

struct infp_process *infp_process_new(const struct infp_env *env, int32_t pid, uint64_t start_ticks);
void infp_process_end(struct infp_target *target, struct infp_process *process); /* closes and frees */

/* CPU time of a process of our own pid namespace by its clock, all threads; -1: none. */
int64_t infp_process_clock(int32_t pid);

/* Gives an ended process its last look, if there is one: stat is read from that. */
void infp_target_take_last(struct infp_target *target, struct infp_process *process);

/* Makes room and appends to the followed. 0 or -ENOMEM. */
int infp_target_follow(struct infp_target *target, struct infp_process *process);

/* Reads a kept file; without free descriptors it closes kept ones and tries again. */
ssize_t infp_target_read(struct infp_target *target, struct infp_process *process, enum infp_process_file file,
                         char *buffer, size_t cap);

/* target_scan.c: the entries after /proc was listed; ended ones are marked and stay until infp_target_sweep. */
int infp_target_merge(struct infp_target *target);
void infp_target_sweep(struct infp_target *target);
/* Reads the followed processes, then finds the place of new ones. */
int infp_target_scan(struct infp_target *target, const struct infp_env *env);
