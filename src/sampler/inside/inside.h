/* Samplers inside processes of the target (src/agent: of stacks by the clock, of the heap): takes over their ring files, lets each begin when its unwind tables are
 * there, and makes rows of their samples. From then on perf's samples of that process are left out: each process has one source of mode
 * cpu. All but infp_inside_take belongs to the sampler's reading thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "ring/reader.h"
#include "sampler/explain.h"
#include "sampler/python/python.h"
#include "sampler/stacks/stack.h"

/* Pointers are borrowed until free. */
struct infp_inside_options {
        const struct infp_env *env; /* root_fd is used */
        struct infp_stacks *stacks;
        struct infp_python_names *names;    /* filled; stays for longer than this */
        double hz;                          /* of samplers; 0: there are none */
        const char *cache_directory;        /* of unwind tables, which samplers read, too */
        int wake_fd;                        /* eventfd: written when a turn has something to do */
        bool is_python_off;                 /* Python frames are left out */
        bool has_records;                   /* perf reports what processes map, and when they run another program */
        const struct infp_explain *explain; /* told why a process is not sampled by itself, or not as was asked */
};

struct infp_inside;

/* 0, or a negative errno: no memory or no descriptors. */
int infp_inside_new(const struct infp_inside_options *options, struct infp_inside **ret, struct infp_err *err);
struct infp_inside *infp_inside_free(struct infp_inside *inside); /* NULL is fine; returns NULL */

/* A ring file of a sampler. */
struct infp_inside_ring {
        int file, dir_fd; /* opened O_RDWR; where it lies, to be removed there */
        char name[96];
        struct infp_ring_owner owner;
        int32_t pid; /* as we see it; 0: it has ended */
};
/* Any thread: consumes the descriptors. One that was given before is left alone. */
void infp_inside_take(struct infp_inside *inside, const struct infp_inside_ring *ring);

/* Returns when it wants to be called next (CLOCK_MONOTONIC); UINT64_MAX: when there is something. */
uint64_t infp_inside_turn(struct infp_inside *inside, uint64_t now_ns);
/* All that is left is read; the samplers end. */
void infp_inside_end(struct infp_inside *inside);

/* Whether the thread samples itself; counts the sample of perf that is left out. */
bool infp_inside_replaces(struct infp_inside *inside, int32_t pid, int32_t tid, uint64_t t_ns);

/* Says that the heap of a process is not recorded, or not all of it. */
void infp_inside_heap_problem(struct infp_inside *inside, int r, int32_t pid, const char *name, const char *why);

struct infp_inside_counts {
        bool has_samplers;
        uint64_t processes;  /* that have sampled themselves */
        uint64_t wanted;     /* samples that their CPU time asks for */
        uint64_t replaced;   /* of perf, left out */
        uint64_t skipped;    /* threads without a timer */
        uint64_t handler_ns; /* that they took in all processes */
        uint64_t heap_missed,
                heap_ns; /* of the heap: samples that are missing, and the time that samples took in all processes */
        struct infp_pythons_counts pythons;
};
struct infp_inside_counts infp_inside_counts(struct infp_inside *inside);
