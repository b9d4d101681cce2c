/* Stops one thread of another process for as long as reading its stack takes: PTRACE_SEIZE and PTRACE_INTERRUPT, which send no signal
 * and tell its parent nothing. A stopped process (SIGSTOP) stays stopped, a signal that arrives meanwhile is passed on, and the kernel
 * lets the thread go when the tracer ends, however it ends.
 *
 * Only the thread that stopped a thread can let it go: `run` of infp_stop_each is called in a thread made for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/rule.h"

enum infp_stop_result {
        INFP_STOP_STOPPED,
        INFP_STOP_GONE,   /* the thread has ended, or never was */
        INFP_STOP_DENIED, /* we may not */
        INFP_STOP_LATE, /* it did not stop in time: it waits for a disk, or for a child that it shares its memory with */
        INFP_STOP_OTHER_CODE, /* it runs 32-bit code, or this is no x86-64 */
        INFP_STOP_FAILED,     /* for another reason */
};

struct infp_stopped {
        pid_t pid, tid;
        enum infp_stop_result result;
        int error;                            /* errno of what failed */
        uint64_t registers[INFP_N_REGISTERS]; /* by DWARF number */
        uint64_t fs_base;                     /* glibc's and musl's pthread_t */
        /* From the request until we saw that it is stopped: it ran, or waited for a CPU, for most of it. From then until it was let go. Set
         * for `done` alone. */
        uint64_t waited_ns, stopped_ns;
};

/* For each of n threads: stops it, calls run, lets it go; calls done after that, or where it could not be stopped. run reads what
 * must not change meanwhile and nothing else. Both are called by one other thread at a time; they return when all are done.
 * patience_ms: how long a thread may take to stop, and again while may_wait: one that only waits for a CPU takes longer on a busy
 * machine. 0, or a negative errno: no thread could be made. */
struct infp_stop_each {
        const pid_t *tids;
        unsigned n;
        pid_t pid;
        unsigned patience_ms;
        bool is_sigchld_shared; /* others of this process wait for SIGCHLD: it is left to them, and the stop is polled for */
        bool (*may_wait)(void *context, unsigned index);
        void (*run)(void *context, unsigned index, const struct infp_stopped *stopped);
        void (*done)(void *context, unsigned index, const struct infp_stopped *stopped);
        void *context;
};
int infp_stop_each(const struct infp_stop_each *each);

/* Stops all n threads, calls run once while they are stopped, and lets them go. n_running: how many of them could not be stopped in time, or may
 * not be; those that have ended are not counted. run reads what must not change meanwhile and nothing else. 0, or a negative errno: no
 * thread could be made. */
struct infp_stop_all {
        const pid_t *tids;
        unsigned n;
        unsigned patience_ms;
        void (*run)(void *context, unsigned n_running);
        void *context;
        uint64_t stopped_ns; /* set: how long the first of them was stopped at most */
};
int infp_stop_all(struct infp_stop_all *all);
