/* What deep.bpf.h and deep.c say to each other. Needs <stdint.h> alone. */
#pragma once

#include <stdint.h>

enum {
        INFP_DEEP_PAGE = 4096,
        INFP_DEEP_PAGES = 4,
        /* Of one sample, with perf's copy 256 KiB: half of them above the copy, half up to the stack's base, since a frame of half a
         * megabyte (OpenBLAS) has nothing in it that an unwinder needs; and what was missing in earlier samples of the thread. */
        INFP_DEEP_PIECES = 8,
        INFP_DEEP_WANTED = 16,   /* pages */
        INFP_DEEP_THREADS = 256, /* of which something is wanted */
};

/* Pages of a stack. Pieces of one sample have the same time. */
struct infp_deep_piece {
        uint64_t t_ns;    /* CLOCK_MONOTONIC */
        uint64_t address; /* of the instruction that was interrupted, the kernel's or the program's */
        int32_t pid, tid;
        uint64_t pages[INFP_DEEP_PAGES]; /* their addresses; 0: it could not be read */
        uint8_t bytes[INFP_DEEP_PAGES * INFP_DEEP_PAGE];
};

/* Of map "deep_wanted", by the thread's number: addresses of pages; 0: none. */
struct infp_deep_wanted {
        uint64_t pages[INFP_DEEP_WANTED];
};

/* The one entry of map "deep_state". */
struct infp_deep_state {
        uint64_t copied[2]; /* what perf copies of a stack at least: with the clock, after a wait; 0: nothing is read */
};
