/* What the program in the kernel (frames.bpf.c) and its loader (bpf.h) say to each other. Needs <stdint.h> alone. */
#pragma once

#include "unwind/python/walk.h"

enum {
        INFP_FRAMES_MOST = 512,      /* of one stack; the outermost are left out */
        INFP_FRAMES_PROCESSES = 4096 /* that run Python at the same time */
};

/* A process that runs Python. Key: its number, as our own pid namespace has it. */
struct infp_frames_process {
        uint64_t runtime; /* address of _PyRuntime */
        struct infp_python_layout layout;
        /* Words of a code object whose values show by themselves when its address is used again for another one: where the first of
         * them lies, and a bit for each of INFP_FRAMES_CHECK_WORDS. */
        uint16_t check_offset;
        uint16_t check_mask;
};
enum { INFP_FRAMES_CHECK_WORDS = 4 };

/* struct infp_python_frame in 24 bytes: a stack of 40 is a kilobyte. */
struct infp_frames_one {
        uint64_t code, instruction;
        uint32_t check; /* of the code object's words: infp_frames_check */
        uint8_t owner, is_entry;
        uint16_t unused;
};

static inline uint32_t infp_frames_check(const struct infp_frames_process *process, const uint64_t *words)
{
        uint64_t ret = 0;

        for (int i = 0; i < INFP_FRAMES_CHECK_WORDS; i++)
                if (process->check_mask >> i & 1)
                        ret = (ret ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        return ret >> 32;
}

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
