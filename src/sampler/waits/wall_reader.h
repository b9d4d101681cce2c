/* The thread that reads all threads of the target, round after round. Of each stretch of a period it takes a random moment, so that
 * what the target does at a rhythm of its own is seen in its true share. Its reads may wait for the kernel; those who take
 * what it reports never do. */
#pragma once

#include "base/err.h"
#include "sampler/mode.h"
#include "sampler/waits/wall_message.h"
#include "sampler/waits/wall_threads.h"

enum {
        INFP_WALL_READS_PER_S = 20000,
        INFP_WALL_MESSAGES_A_TURN = 512,
        INFP_WALL_MAX_STACK_BYTES = 256 * 1024,
};

typedef void infp_wall_take_fn(void *context, const struct infp_wall_message *message);

struct infp_wall_reader;
struct infp_wall_reader_options {
        const struct infp_mode_context *context; /* its environment has a target; it is woken when something was told */
        double rate_hz;
        uint32_t stack_bytes; /* copied of each stack at first; of one that goes on, more; 0: none */
        uint32_t reads_per_s; /* at most; where that is not enough there are fewer rounds; 0: INFP_WALL_READS_PER_S */
        const char *thread_name; /* NULL: that of --wall */
        /* What is done with a thread of a round, instead of what --wall does. False: it has ended. NULL: infp_wall_thread_read. */
        bool (*read)(void *context, struct infp_wall_reader *reader, struct infp_wall_threads *threads,
                     struct infp_wall_thread *thread, struct infp_wall_python *python);
        /* Before the first thread of a round, at once when the reader has woken; NULL: nothing. */
        void (*round)(void *read_context);
        void *read_context;
        infp_wall_take_fn *take; /* what was told, in order, when infp_wall_reader_drain is called */
        void *take_context;
};

int infp_wall_reader_start(const struct infp_wall_reader_options *options, struct infp_wall_reader **ret,
                           struct infp_err *err);
/* Reads no more. Does not wait for a read that hangs. What was told can still be taken. */
void infp_wall_reader_stop(struct infp_wall_reader *reader);
struct infp_wall_reader *infp_wall_reader_free(struct infp_wall_reader *reader); /* NULL is fine; returns NULL */

/* For `read`: room for a message with so many bytes after it, zeroed but for these; NULL: it is to stop. Its stack_size is how many they
 * are at last. And that this thread cost as much as one that is read whole. */
struct infp_wall_message *infp_wall_reader_begin(struct infp_wall_reader *reader, uint32_t bytes);
void infp_wall_reader_commit(struct infp_wall_reader *reader, const struct infp_wall_message *message);
void infp_wall_reader_whole(struct infp_wall_reader *reader);
/* After stop: its thread hangs in a read, and keeps what `read` has. */
bool infp_wall_reader_is_left(const struct infp_wall_reader *reader);

/* Gives all that was told to `take`; else at most INFP_WALL_MESSAGES_A_TURN messages. True: there may be more. */
bool infp_wall_reader_drain(struct infp_wall_reader *reader, bool all);
/* The copy of this thread's stack was too small: the next one is larger, if it may. reader NULL is fine. */
void infp_wall_reader_enlarge(struct infp_wall_reader *reader, int32_t tid);

/* A process of the target that may be new: it is read from the next round on, before the target's own scan has found it. Cheap
 * when it was named before. */
void infp_wall_reader_hint(struct infp_wall_reader *reader, int32_t pid);

/* The Python of a process, consumed; NULL: it has none any more. A process that the reader does not know may become one that it does. */
void infp_wall_reader_python(struct infp_wall_reader *reader, int32_t pid, struct infp_wall_python *python);

/* Whether Python frames of threads that run are read, too, for want of a better way. */
void infp_wall_reader_want_running(struct infp_wall_reader *reader, bool wants);

struct infp_wall_reader_counts {
        double rate_hz;  /* of rounds, now */
        uint64_t wanted; /* threads times rounds */
        uint64_t lost;   /* of those: in rounds that were not made, since we were late */
        uint64_t n_torn; /* stacks that moved while they were read */
        uint64_t n_threads, own_cpu_ns;
        struct infp_wall_tasks_counts tasks;
        struct infp_wall_refused refused;
        int gil_off_pid; /* a process of free-threaded Python whose GIL was seen to be off; 0: none */
};
void infp_wall_reader_counts(const struct infp_wall_reader *reader,
                             struct infp_wall_reader_counts *ret); /* any thread */
