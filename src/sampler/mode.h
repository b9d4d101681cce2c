/* A way of sampling (cpu, wall, off-cpu): a file with one const record, and its word in sampler.c. All functions are called by the
 * sampler's reading thread; a mode that may wait for something does that in a thread of its own, which wakes the reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/emit.h"
#include "sampler/perf/front.h"
#include "sampler/perf/perf.h"
#include "sampler/sampler.h"
#include "sampler/stacks/stack.h"

/* What a mode sees of the sampler; stays until its close. */
struct infp_mode_context {
        const struct infp_sampler_options *options;
        struct infp_stacks *stacks;
        /* Rows of its own (entities of named frames ...): emit->put; and of `sources`: infp_emit_source(emit, NULL ...) speaks
         * of collector "sampler"; the instance is the mode's name. */
        struct infp_emit *emit;
        const struct infp_perf *perf; /* NULL: no perf events are allowed */
        const char *perf_problem;     /* why */
        struct infp_bpf *filter;      /* times waits in the kernel, once the target is followed; NULL: nobody does */
        struct infp_inside *inside;   /* samplers inside processes; NULL: none */
        struct infp_pythons *pythons; /* changes; NULL: there are no Python frames */
        /* Any thread: has turn called soon. */
        void (*wake)(const struct infp_mode_context *context);
        int wake_fd;
};

/* A row of table `sampler`, sums since the start. What infp_stacks counts of a mode (taken, dropped, truncated, incomplete,
 * frames, guessed frames) is filled in by the sampler, and of a mode without a method of its own all that perf counts. */
struct infp_mode_counts {
        const char *method; /* NULL: perf's */
        double rate_hz;     /* 0: there is no rate */
        bool has_wanted;
        uint64_t wanted, lost, throttled, skipped_threads;
        bool has_torn;
        uint64_t torn;                         /* stacks that moved while they were read */
        uint64_t own_cpu_ns;                   /* of threads of its own */
        uint64_t handler_ns;                   /* that it took in processes of the target; 0: nothing */
        const char *python_method;             /* how it reads Python frames by itself; NULL: it does not */
        uint64_t python_rejected, python_torn; /* reads that the stack overtook; samples that became no row */
};

struct infp_sampler_mode {
        enum infp_stack_mode mode;
        size_t state_size; /* zeroed memory of this size is given */
        bool (*is_wanted)(const struct infp_sampler_options *options);
        /* What perf is to deliver for it. NULL: nothing. */
        void (*ask)(const struct infp_sampler_options *options, struct infp_perf_options *ret);
        /* 0; else it takes no part: a row of `sources` has err's text, and a notice too. */
        int (*open)(void *state, const struct infp_mode_context *context, struct infp_err *err);
        /* Each may be NULL. Samples of switches go to `moved` alone, and those of the CPU clock to `sample`. By then infp_stacks has
         * taken the record. */
        void (*sample)(void *state, const struct infp_perf_sample *sample);
        void (*moved)(void *state, const struct infp_perf_sample *sample);
        void (*run)(void *state, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in, bool is_preempted);
        void (*fork)(void *state, int32_t pid, int32_t tid);
        void (*exec)(void *state, int32_t pid); /* it runs another program now: also a command that we started */
        void (*exit)(void *state, uint64_t t_ns, int32_t tid);
        /* The Python of a process is known; python NULL: it runs that program no more. */
        void (*python)(void *state, int32_t pid, uint64_t program, const struct infp_python *python);
        /* Behind each reading of the buffers, and when it is due. Returns when it wants to be called next at the latest (CLOCK_MONOTONIC);
         * UINT64_MAX: when there is something. */
        uint64_t (*turn)(void *state, uint64_t now_ns);
        /* The target ends: what is still open becomes rows now. Before infp_stacks_end. */
        void (*end)(void *state, uint64_t now_ns);
        void (*counts)(void *state, struct infp_mode_counts *ret);
        /* Other modes that it has rows of, the first is i 0 (INFP_STACK_MODES: no more now), and how that goes. May be NULL. */
        enum infp_stack_mode (*also)(void *state, unsigned i, struct infp_mode_counts *ret);
        void (*close)(void *state); /* also of a state whose open failed */
};

extern const struct infp_sampler_mode infp_sampler_mode_cpu;
extern const struct infp_sampler_mode infp_sampler_mode_wall;
extern const struct infp_sampler_mode infp_sampler_mode_off_cpu;
extern const struct infp_sampler_mode infp_sampler_mode_heap;
extern const struct infp_sampler_mode infp_sampler_mode_python, infp_sampler_mode_blocking; /* sampler/remote */
