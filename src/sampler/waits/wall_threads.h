/* The threads of the target, as far as the reader of --wall knows them. Threads are listed when their number changes, when one
 * has ended, and once a second. Belongs to one thread. */
#pragma once

#include "collect/env.h"
#include "sampler/waits/wall_proc.h"

struct infp_wall_process {
        int32_t pid;
        uint64_t start_ticks; /* 0: the target has not found it yet */
        uint64_t hinted_ns;   /* when perf named it */
        int dir_fd;           /* of its task directory, -1: not kept */
        bool is_listed, must_list, is_seen;
        uint64_t n_links, listed_ns;
        struct infp_wall_thread *threads; /* by tid */
        uint32_t n_threads, cap_threads;
};

struct infp_wall_threads {
        int proc_fd;
        struct infp_wall_keeper keeper;
        struct infp_wall_process *processes; /* by pid */
        uint32_t n_processes, cap_processes;
        uint32_t n_threads;   /* of all */
        uint32_t stack_bytes; /* of new threads */
        struct infp_target_member *members;
        size_t cap_members;
        int32_t *tids;
        size_t cap_tids;
        /* A thread that was known is no more. */
        void (*gone)(void *context, int32_t tid);
        void *gone_context;
};

int infp_wall_threads_open(struct infp_wall_threads *threads, const struct infp_env *env, struct infp_err *err);
void infp_wall_threads_close(struct infp_wall_threads *threads); /* also half-open, zeroed before open */

/* Takes in who is new and lets go who is not: 0 or -ENOMEM. */
int infp_wall_threads_refresh(struct infp_wall_threads *threads, const struct infp_env *env, uint64_t now_ns);
/* A process that the target will find later, or not at all. */
void infp_wall_threads_hint(struct infp_wall_threads *threads, int32_t pid, uint64_t now_ns);
/* Thread number i of a process has ended. */
void infp_wall_threads_ended(struct infp_wall_threads *threads, struct infp_wall_process *process, uint32_t i);
