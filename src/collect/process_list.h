/* Which processes there are: the numbers in /proc, read by getdents64 through a kept descriptor.
 *
 * Listing costs the kernel about 1 us a process. On the machine's own procfs it is done only when something is new:
 * /proc/loadavg names the last pid given out (0.8 us); pids are given out in increasing order, so that only the end of the
 * directory after an earlier one must be read. The whole is listed when pids wrapped, and every few seconds in any case.
 * Elsewhere (fixture trees, the procfs of another pid namespace, lxcfs) the whole is listed each time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/env.h"

struct infp_listed {
        int32_t pid;  /* first: infp_compare_i32 */
        uint64_t ino; /* on procfs it changes when the pid is given to another process */
};

struct infp_process_list {
        int proc_fd, loadavg_fd;
        bool is_procfs;
        bool is_own;      /* the machine's, and of our pid namespace: a pid there is the same to system calls */
        int32_t self_pid; /* our own pid as that /proc names it; 0 where it does not */
        struct infp_listed *items; /* of the last read, by pid: all pids >= from */
        size_t n, cap;
        int32_t from; /* INT32_MAX: nothing was listed */
        uint64_t n_lists, n_tails;

        char *buffer;
        uint64_t next_whole_ns;
        int64_t seek_offset; /* directory position less pid; -1: unknown */
        struct infp_pid_mark {
                int32_t pid; /* the last given out at t_ns; -1: unknown */
                uint64_t t_ns;
        } older, newer;
};

int infp_process_list_open(struct infp_process_list *list, const struct infp_env *env, struct infp_err *err);
/* With `whole` nothing is skipped. 0 or a negative errno. */
int infp_process_list_read(struct infp_process_list *list, const struct infp_env *env, bool whole,
                           struct infp_err *err);
void infp_process_list_done(struct infp_process_list *list);
