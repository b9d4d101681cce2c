/* What the reader of threads shows the thread that makes rows of it, by a byte ring. */
#pragma once

#include <string.h>

#include "sampler/perf/perf.h"
#include "sampler/waits/wall_proc.h"

enum infp_wall_message_kind {
        INFP_WALL_MESSAGE_MOMENT, /* a thread has run since its last one, or is new: `moment` and the stack hold until the next */
        INFP_WALL_MESSAGE_GONE,  /* a thread is no more */
        INFP_WALL_MESSAGE_ROUND, /* all threads have been read: what was told before holds for one more period */
};

struct infp_wall_message {
        uint8_t kind;
        bool is_torn;  /* its stack could not be read in one piece */
        bool is_whole; /* the copy is as large as was asked for: the stack may go on above it */
        int32_t pid, tid;
        uint32_t n_threads;             /* of a round */
        uint64_t period_ns;             /* of a round */
        struct infp_wall_moment moment; /* of a round its t_ns alone */
        uint32_t stack_size;
        uint8_t stack[]; /* from moment.registers[INFP_RSP] on */
};

/* The moment of a blocked thread whose stack was read, as those of perf; borrows the message. */
static inline struct infp_perf_sample infp_wall_sample(const struct infp_wall_message *message)
{
        struct infp_perf_sample sample = {
                .t_ns = message->moment.t_ns,
                .pid = message->pid,
                .tid = message->tid,
                .cpu = -1,
                .has_registers = true,
                .unknown = message->moment.unknown,
                .stack = message->stack,
                .stack_size = message->stack_size,
                .is_cut = message->is_whole,
        };

        memcpy(sample.registers, message->moment.registers, sizeof(sample.registers));
        return sample;
}
