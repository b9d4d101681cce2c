/* The sampler of stacks: what a session starts beside its collectors. Its threads write rows (model/stack_tables.h) into rings of
 * their own, which the session drains like the collectors'. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/env.h"
#include "collect/run_one.h"
#include "ring/rowring.h"
#include "sampler/python/python.h"

enum {
        INFP_SAMPLER_DEFAULT_HZ = 99,
        INFP_SAMPLER_MAX_HZ = 4000,
        INFP_SAMPLER_DEFAULT_WALL_HZ = 20,
        INFP_SAMPLER_MAX_WALL_HZ = 1000,
        INFP_SAMPLER_DEFAULT_WAIT_US = 100,
        INFP_SAMPLER_MAX_WAIT_US = 1000 * 1000,
        INFP_SAMPLER_FAST_HZ = 250, /* above it, without another wish ... */
        INFP_SAMPLER_FAST_STACK_BYTES =
                32 * 1024, /* ... so much of each stack, below the most: copying costs the target */
        INFP_SAMPLER_MAX_STACK_BYTES =
                65528,               /* a record has at most 64 KiB, of which the head and the registers take some */
        INFP_SAMPLER_HEAP_EXACT = 1, /* as heap_bytes: every block is counted, none is sampled */
        INFP_SAMPLER_DEFAULT_HEAP_BYTES = 64 * 1024,
        INFP_SAMPLER_MOST_HEAP_BYTES = 4 * 1024 * 1024, /* where none are asked for */
        INFP_SAMPLER_DEFAULT_DEPTH = 512,
        INFP_SAMPLER_MAX_DEPTH = 1024,
};

enum infp_deep_way {
        INFP_DEEP_AUTO,  /* in the interrupt of the sample where BPF is allowed, else after it */
        INFP_DEEP_AFTER, /* from the process's memory, after the sample */
        INFP_DEEP_OFF,
        INFP_DEEP_WAYS,
};
/* As the option --deep-stacks has them. */
const char *infp_deep_way_name(enum infp_deep_way way);

struct infp_sampler_options {
        const struct infp_env *env;  /* with target */
        double cpu_hz;               /* 0: no on-CPU samples */
        double wall_hz;              /* 0: no wall-clock samples */
        bool async;                  /* tasks of asyncio, with wall_hz */
        bool off_cpu;                /* blocked time per stack */
        uint64_t least_wait_ns;      /* of off_cpu: shorter waits are summed, without stacks */
        uint32_t stack_bytes;        /* copied of each stack: a multiple of 8, at most INFP_SAMPLER_MAX_STACK_BYTES */
        uint32_t max_depth;          /* frames of a stack, at most INFP_SAMPLER_MAX_DEPTH; outer ones are left out */
        enum infp_python_way python; /* how Python frames are read */
        bool is_blocking;            /* mode cpu by stops of its threads, instead of perf (sampler/remote) */
        enum infp_deep_way deep;     /* the rest of stacks that are larger than their copies, of mode cpu */
        bool is_inside;              /* a sampler is preloaded into the command (sampler/inside) */
        uint64_t heap_bytes;         /* a heap agent is, and samples a block each so many bytes; 0: none */
        uint64_t heap_most_bytes;    /* or so many, where samples would cost too much */
        const char *cache_directory; /* of unwind tables; NULL: none on disk */
        int wake_fd;                 /* eventfd that is written when something lies in the rings */
        struct infp_stats *stats;    /* may be NULL */
        infp_notice_fn *notice;      /* called from any thread */
        void *notice_context;
};

/* Are stacks asked for? */
static inline bool infp_sampler_is_asked(const struct infp_sampler_options *options)
{
        return options->cpu_hz > 0 || options->wall_hz > 0 || options->off_cpu || options->heap_bytes;
}

struct infp_sampler;

/* Opens what it may and starts the threads. In mode run nothing is sampled before infp_sampler_launch; in mode pid before
 * infp_sampler_follow; in mode host everybody is at once. What is not allowed here (perf_event_open refused ...) is no error: it is
 * a row of `sources` (collector "sampler") with the reason and the fix, one notice, and the next mode. */
int infp_sampler_start(const struct infp_sampler_options *options, struct infp_sampler **ret, struct infp_err *err);

/* Mode run, before the command is let go from its gate: the events that its whole tree inherits, enabled by its exec. Waits until they
 * are there, at most 5 s. */
void infp_sampler_launch(struct infp_sampler *sampler, pid_t pid);
/* Mode pid: the roots of the target are these now. Returns at once. */
void infp_sampler_follow(struct infp_sampler *sampler, const pid_t *roots, size_t n);

/* A ring file of a sampler inside a process of the target: consumes the descriptors. False: none was preloaded, and it is left alone. */
struct infp_inside_ring;
bool infp_sampler_take_ring(struct infp_sampler *sampler, const struct infp_inside_ring *ring);

/* Rings to drain, by index, NULL at the end. */
struct infp_rowring *infp_sampler_ring(struct infp_sampler *sampler, unsigned index);
uint64_t infp_sampler_dropped(struct infp_sampler *sampler); /* rows that found no room in a ring */

/* What lies in the kernel's buffers is taken, then the threads end: begin returns at once, is_ended says when. Until then rings
 * are to be drained. At most 5 s: what is not done then is left out. */
void infp_sampler_stop_begin(struct infp_sampler *sampler);
bool infp_sampler_is_ended(struct infp_sampler *sampler);
/* NULL is fine. False: a thread is in a call that has not returned; it keeps the sampler's memory, and what env points to must stay
 * as well. */
bool infp_sampler_free(struct infp_sampler *sampler);
