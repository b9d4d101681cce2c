/* What the program in the kernel (frames.bpf.c) and its loader (bpf.h) say to each other. Needs <stdint.h> alone. */
#pragma once

#include "unwind/python/check.h"
#include "unwind/python/walk.h"

enum {
        INFP_FRAMES_MOST = 512,      /* of one stack; the outermost are left out */
        INFP_FRAMES_PROCESSES = 4096 /* that run Python at the same time */
};

/* A process that runs Python. Key: its number, as our own pid namespace has it. */
struct infp_frames_process {
        uint64_t runtime; /* address of _PyRuntime */
        struct infp_python_layout layout;
        struct infp_python_check check;
};

/* struct infp_python_frame in 24 bytes: a stack of 40 is a kilobyte. */
struct infp_frames_one {
        uint64_t code, instruction;
        uint32_t check; /* of the code object: infp_python_check_done */
        uint8_t owner, is_entry;
        uint16_t unused;
};

/* Written just before perf's own sample of the same interrupt. */
struct infp_frames_record {
        uint64_t t_ns;    /* CLOCK_MONOTONIC */
        uint64_t address; /* of the instruction that was interrupted, the kernel's or the program's */
        int32_t pid, tid;
        uint32_t n;
        uint32_t end;                                    /* enum infp_python_end */
        struct infp_frames_one frames[INFP_FRAMES_MOST]; /* n of them, the innermost first */
};

/* The one entry of map "counts". */
struct infp_frames_counts {
        uint64_t dropped; /* records that found no room */
        uint64_t full;    /* processes that a fork has made and that found no room */
};
