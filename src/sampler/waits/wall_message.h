/* What the reader of threads shows the thread that makes rows of it, by a byte ring. */
#pragma once

#include <string.h>

#include "sampler/perf/perf.h"
#include "sampler/python/python.h"
#include "sampler/waits/wall_python.h"

enum infp_wall_message_kind {
        INFP_WALL_MESSAGE_MOMENT, /* a thread has run since its last one, or is new: `moment` and the stack hold until the next */
        INFP_WALL_MESSAGE_GIL, /* what a thread that runs has of the GIL is another than its moment said: `gil` */
        INFP_WALL_MESSAGE_HOLD, /* a thread's loop is in a callback: `hold`, `moment` and its frames; none: it is where it was */
        INFP_WALL_MESSAGE_TASK, /* a task of asyncio is so from now on: struct infp_wall_task_words, and its frames */
        INFP_WALL_MESSAGE_TASK_GONE, /* it is no more; task 0: none of the process is */
        INFP_WALL_MESSAGE_REMOTE,    /* of another reader (sampler/remote) */
        INFP_WALL_MESSAGE_GONE,      /* a thread is no more */
        INFP_WALL_MESSAGE_ROUND,     /* all threads have been read: what was told before holds for one more period */
};

struct infp_wall_message {
        uint8_t kind;
        bool is_torn;  /* its stack could not be read in one piece */
        bool is_whole; /* the copy is as large as was asked for: the stack may go on above it */
        int32_t pid, tid;
        uint32_t n_threads;             /* of a round */
        uint64_t period_ns;             /* of a round; of another reader's sample the CPU time that it stands for */
        uint64_t waited_ns, stopped_ns; /* of a thread that was stopped, as in struct infp_stopped */
        struct infp_wall_moment moment; /* of a round its t_ns alone */
        struct infp_wall_hold hold;
        uint64_t task;    /* address of it */
        uint64_t program; /* of its process, which runs Python; 0: none that is known */
        enum infp_gil gil;
        bool has_python, is_python_alone; /* as in infp_wall_python_found */
        uint32_t n_python, python_end;
        uint32_t stack_size;         /* a multiple of 8 */
        _Alignas(8) uint8_t stack[]; /* from moment.registers[INFP_RSP] on; then the frames of Python */
};

/* In the place of a stack. */
struct infp_wall_task_words {
        char name[INFP_WALL_TASK_TEXT], state[INFP_WALL_TASK_TEXT]; /* state "": it runs */
};

static inline struct infp_frames_one *infp_wall_message_frames(const struct infp_wall_message *message)
{
        return (struct infp_frames_one *) (void *) (message->stack + message->stack_size);
}

/* After the stack, whose size is final by then. */
static inline void infp_wall_message_put_python(struct infp_wall_message *message,
                                                const struct infp_wall_python_found *found)
{
        message->program = found->program;
        message->gil = found->gil;
        message->has_python = found->has_frames;
        message->is_python_alone = found->is_alone;
        message->n_python = found->n;
        message->python_end = found->end;
        memcpy(infp_wall_message_frames(message), found->frames, found->n * sizeof(found->frames[0]));
}

/* The moment of a thread whose stack was read, or its Python frames, as those of perf; borrows the message, and pythons (NULL: there are
 * none) until their next call. */
static inline struct infp_perf_sample infp_wall_sample(const struct infp_wall_message *message,
                                                       struct infp_pythons *pythons)
{
        struct infp_perf_sample sample = {
                .t_ns = message->moment.t_ns,
                .pid = message->pid,
                .tid = message->tid,
                .cpu = -1,
                .has_registers = message->moment.has_registers && message->stack_size,
                .unknown = message->moment.unknown,
                .stack = message->stack,
                .stack_size = message->stack_size,
                .is_cut = message->is_whole,
        };

        memcpy(sample.registers, message->moment.registers, sizeof(sample.registers));
        if (pythons && message->program) {
                const struct infp_python_read read = { .program = message->program,
                                                       .has_frames = message->has_python,
                                                       .is_alone = message->is_python_alone,
                                                       .n = message->n_python,
                                                       .end = (enum infp_python_end) message->python_end,
                                                       .frames = infp_wall_message_frames(message) };

                sample.python = infp_pythons_read(pythons, message->pid, &read);
        }
        return sample;
}
