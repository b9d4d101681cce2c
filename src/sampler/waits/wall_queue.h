/* What the reader of threads shows the thread that makes rows of it. One writer, one reader; neither waits. */
#pragma once

#include "sampler/perf/perf.h"
#include "sampler/waits/wall_proc.h"

enum infp_wall_message_kind {
        INFP_WALL_MESSAGE_WRAP, /* of the queue's own */
        INFP_WALL_MESSAGE_MOMENT, /* a thread has run since its last one, or is new: `moment` and the stack hold until the next */
        INFP_WALL_MESSAGE_GONE,  /* a thread is no more */
        INFP_WALL_MESSAGE_ROUND, /* all threads have been read: what was told before holds for one more period */
};

struct infp_wall_message {
        uint32_t size; /* of the whole */
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

struct infp_wall_queue;
int infp_wall_queue_new(size_t bytes, struct infp_wall_queue **ret); /* a power of two; 0 or -ENOMEM */
struct infp_wall_queue *infp_wall_queue_free(struct infp_wall_queue *queue);

/* Writer: room for a message with up to stack_bytes of stack, NULL: there is none now. Nothing is told before commit. */
struct infp_wall_message *infp_wall_queue_begin(struct infp_wall_queue *queue, uint32_t stack_bytes);
void infp_wall_queue_commit(struct infp_wall_queue *queue, struct infp_wall_message *message);

/* Reader: the next message, which stays until the next call; NULL: none. */
const struct infp_wall_message *infp_wall_queue_next(struct infp_wall_queue *queue);

/* The moment of a blocked thread whose stack was read, as those of perf; borrows the message. */
struct infp_perf_sample infp_wall_sample(const struct infp_wall_message *message);
