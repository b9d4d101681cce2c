/* What the programs in the kernel that time waits (switches.bpf.h) and those who read their answers say to each other. Needs <stdint.h>
 * alone. */
#pragma once

#include <stdint.h>

enum { INFP_SWITCHES_THREADS = 16384 }; /* of the target, at the same time */

/* Of a stack that is not larger perf copies so much alone: thousands of threads that go on at once leave little room in its buffer. */
enum { INFP_SWITCH_SHALLOW_BYTES = 4096 };

/* Beside perf's sample of a wait that lasted long enough, taken as its thread has a CPU again. */
struct infp_switch {
        uint64_t out_ns, in_ns; /* CLOCK_MONOTONIC */
        uint64_t first_ns;      /* as in infp_switch_thread */
        uint64_t
                place; /* to where the scheduler returns as the thread loses its CPU: the innermost address of the wait */
        uint32_t is_preempted;
        uint32_t unused;
};

/* Waits without a stack, since the thread's begin: they are preempted (1) or blocked (0). */
struct infp_switch_sum {
        uint64_t n[2], ns[2];
};

/* A thread. Key: its number in the first pid namespace. */
struct infp_switch_thread {
        uint64_t start_ns; /* of the thread, by the kernel: another one may have the same number */
        uint64_t first_ns; /* it got a CPU, for the first time since it is looked at, about here or earlier */
        uint64_t out_ns;   /* it waits since; 0: it runs */
        uint64_t place;    /* as in infp_switch, of its last wait */
        int32_t pid, tid;  /* as our own pid namespace has them */
        uint32_t is_preempted, unused;
        struct infp_switch_sum too_short, no_room; /* no_room: perf's buffer was full */
};

struct infp_switches_counts {
        uint64_t full; /* waits of threads for which there was no room */
};
