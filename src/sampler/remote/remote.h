/* Threads of the target that are read from outside at random moments, as --wall reads them, but only those that have a CPU: while they
 * run (Python frames alone), or while they are stopped for it (--blocking: both stacks, of one moment). */
#pragma once

#include <stdatomic.h>

#include "sampler/mode.h"
#include "sampler/waits/wall_reader.h"

enum {
        INFP_REMOTE_BOUND_MS = 20, /* no thread is stopped for longer, as far as that is up to us */
};

/* Belongs to the reader's thread; others may read the counts. */
struct infp_remote_reads {
        const struct infp_mode_context *context;
        bool is_blocking;
        uint64_t period_ns;
        uint64_t spared_ns;      /* until then nothing is stopped */
        _Atomic bool is_untold;  /* the kernel does not tell who waits for a CPU */
        uint64_t came_ns;        /* when the reader's turn on its CPU began, as in infp_wall_turns; 0: not told */
        _Atomic uint64_t cpu_ns; /* that samples stand for */
        _Atomic uint64_t n_rejected, n_torn,
                n_lost;                      /* reads; samples; stops that took too long, or were left out after one */
        _Atomic int refused, refused_pid;    /* errno */
        struct infp_wall_python_found found; /* of the thread that is at work */
        struct infp_wall_turns turns;        /* of it, when it had a CPU */
        bool has_turns, is_displaced;        /* they are told; we have its CPU */
};

/* For infp_wall_reader_options.round and .read. */
void infp_remote_round(void *context);
bool infp_remote_read(void *context, struct infp_wall_reader *reader, struct infp_wall_threads *threads,
                      struct infp_wall_thread *thread, struct infp_wall_python *python);
