/* How long threads were ready to run without a CPU: /proc/PID/task/TID/schedstat, which the kernel counts a thread and adds up nowhere.
 * A thread's time is known as of its last reading: what it waited after that, and threads that lived between two samples, are not in it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/names.h"

enum { PROCESS_DELAY_THREADS = 2000 }; /* of all processes; beyond that a process counts by its first thread alone */

struct process_delay {    /* of a process: a part of process_user, all zero at first */
        uint32_t first;   /* thread: place in the list and 1 more; 0: none */
        int32_t n;        /* threads that are read */
        int64_t ended_ns; /* of threads that have ended */
        bool is_known, is_by_leader;
};

struct process_delays { /* of all */
        struct thread_delay {
                uint32_t next;
                int32_t tid;
                int fd; /* -1: none is kept */
                int64_t ns;
                bool is_listed;
        } * threads;
        uint32_t n, cap, free; /* free: the first of those that are in no process; place and 1 more */
        uint32_t n_used, n_kept, most_kept;
        bool is_cut; /* some process counts by its first thread */
        struct infp_names names;
};

void process_delays_init(struct process_delays *delays, bool may_keep);
void process_delays_done(struct process_delays *delays);
/* Reads the threads of a process that has n_threads; *ret_ns: the sum. 0; -ENOENT: this kernel counts nothing, or the process has just
 * ended; -ENOMEM. */
int process_delay_read(struct process_delays *delays, int root_fd, int32_t pid, int32_t n_threads,
                       struct process_delay *delay, int64_t *ret_ns);
void process_delay_forget(struct process_delays *delays, struct process_delay *delay); /* it has ended */
