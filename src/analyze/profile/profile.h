/* The stacks of a run as they were taken: frames with their names, the tree of nodes, and sums of samples. What flame graphs and
 * foreign formats of profiles are made of. Only what the asked samples reach is kept: memory grows with the number of different
 * stacks, not with the run; beyond INFP_PROFILE_MOST of them it is -E2BIG.
 *
 * The run is input: cycles and missing parents cut a stack there (its outer frames are missing, which is counted), missing frames
 * have no name, depth is bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strings.h"
#include "model/stack_tables.h"
#include "store/run.h"

enum {
        INFP_PROFILE_MOST =
                1 << 23, /* different (stack, thread, state, mode, task); nodes; samples that are kept one by one */
        INFP_PROFILE_DEEPEST = 4096,    /* nodes of a stack; outer ones are left out */
        INFP_PROFILE_LEVELS = 64,       /* functions of a frame */
        INFP_PROFILE_NONE = UINT32_MAX, /* no node, thread, process */
};

/* A function at a frame. Strings are numbers in infp_profile.strings; 0: none. */
struct infp_profile_level {
        uint32_t name, mangled, file;
        int64_t line, function_line; /* 0: not known */
        bool is_unnamed;             /* a place instead of a name: "[libfoo.so+0x1200]", "[libfoo.so]" */
};

struct infp_profile_frame {
        uint64_t id, address;
        uint32_t object, build_id;
        uint32_t first_level; /* level 0, the compiled function, first */
        uint16_t n_levels;    /* at least 1 */
        uint8_t kind;
        bool is_guessed, has_address;
};

struct infp_profile_node {
        uint32_t parent; /* INFP_PROFILE_NONE: the outermost that is known */
        uint32_t frame;
        uint16_t depth;
        bool is_cut; /* its outermost callers are missing, though its samples do not say so */
};

struct infp_profile_process {
        uint64_t id;
        int64_t pid;   /* 0: not known */
        uint32_t name; /* string, 0: not known */
};

struct infp_profile_thread {
        uint64_t id; /* of table threads; 0: samples gave only the number */
        uint32_t process;
        int64_t tid;
        uint32_t name; /* that Python has for it, else the system's */
};

/* How far stacks were read that were too deep: bytes from the stack pointer, of all of them. 0, 0: of none that is known. */
struct infp_profile_cut {
        int64_t least, most;
};
static inline void infp_profile_cut(struct infp_profile_cut *all, int64_t least, int64_t most)
{
        if (most > all->most)
                all->most = most;
        if (least > 0 && (!all->least || least < all->least))
                all->least = least;
}

/* Samples alike in all of these. */
struct infp_profile_sum {
        uint64_t stack; /* id, as it was read; 0: none */
        uint32_t node;  /* innermost; INFP_PROFILE_NONE: the sample has no stack */
        uint32_t thread, process;
        uint32_t state, mode; /* strings; state 0: it ran */
        uint32_t task;        /* string; 0: of none, or not asked for */
        bool is_truncated;
        struct infp_profile_cut cut;
        uint64_t samples, completed_samples; /* of them: outer frames were read just after the sample */
        double weight;                       /* 0 where no row had one */
        double objects;                      /* of the heap: blocks; 0 where no row says it */
        double squares;                      /* of the weights, a sample */
};

struct infp_profile_time {
        uint64_t t_ns;
        uint32_t sum, samples;
        double weight;
};

/* What fell into one of n_buckets equal parts of [t0, t1). */
struct infp_profile_moment {
        uint32_t bucket, sum;
        uint64_t samples;
        double weight;
};

/* Which frames are left: time of the others is their callers' own. A stack without any is left out, as by a filter. */
enum infp_profile_part { INFP_PROFILE_WHOLE, INFP_PROFILE_PYTHON, INFP_PROFILE_NATIVE };

static inline bool infp_profile_part_has(enum infp_profile_part part, enum infp_frame_kind kind)
{
        return part == INFP_PROFILE_WHOLE || (part == INFP_PROFILE_PYTHON) == (kind == INFP_FRAME_PYTHON);
}

struct infp_profile_options {
        uint64_t t0, t1;    /* t1 0: no end */
        const char *mode;   /* as infp_flame_options */
        bool all_modes;     /* every mode that has the unit of the chosen one; without cpu: of the first in seconds */
        bool of_heap;       /* with a mode of the heap all of these */
        const char *unit;   /* with all_modes: the modes of this unit; NULL: as above */
        const char *filter; /* extended regular expression: stacks with a function that matches; NULL: all */
        enum infp_profile_part part;
        bool no_inlined;    /* frames have level 0 alone */
        bool keeps_tasks;   /* of asyncio, which are told apart by their names */
        int64_t process;    /* pid; 0: all */
        bool keeps_times;   /* each sample, in order of time */
        uint32_t n_buckets; /* of moments; 0: none */
};

struct infp_profile {
        struct infp_strings strings;
        struct infp_profile_level *levels;
        struct infp_profile_frame *frames;
        struct infp_profile_node *nodes; /* callers first */
        struct infp_profile_process *processes;
        struct infp_profile_thread *threads;
        struct infp_profile_sum *sums;
        struct infp_profile_time *times;
        struct infp_profile_moment *moments;
        uint32_t n_levels, n_frames, n_nodes, n_processes, n_threads, n_sums, n_times, n_moments, n_buckets;
        char mode[64];
        const char *
                unit; /* of weights: "seconds", "bytes", what the mode says after its slash, or "samples" where rows have none */
        uint64_t t0, t1;                /* as asked; t1 just after the last sample if no end was given */
        uint64_t first_t_ns, last_t_ns; /* samples */
        uint64_t samples;               /* in the sums */
        uint64_t all_samples;           /* with those that the filter leaves out */
        uint64_t cut_samples;
        double weight;
};

/* -EINVAL with a sentence if the filter is not a valid regular expression. */
int infp_profile_read(struct infp_run *run, const struct infp_profile_options *options, struct infp_profile *ret,
                      struct infp_err *err);
void infp_profile_done(struct infp_profile *profile);
/* Leaves a part of each stack; what infp_profile_read does with options->part, for callers that need the whole first. */
int infp_profile_take_part(struct infp_profile *profile, enum infp_profile_part part, struct infp_err *err);

/* Its outermost frames are missing: cut by the sampler, or lost with a part of the run. */
static inline bool infp_profile_is_truncated(const struct infp_profile *profile, const struct infp_profile_sum *sum)
{
        return sum->is_truncated || sum->node == INFP_PROFILE_NONE || profile->nodes[sum->node].is_cut;
}

const char *infp_profile_str(const struct infp_profile *profile, uint32_t string); /* NULL for 0 */
/* Of a mode of our own its unit; of TYPE/UNIT the unit; else "samples". Borrowed from mode or static. */
const char *infp_profile_unit(const char *mode);
/* "python (4711)", or "python" alone. */
void infp_profile_process_label(const struct infp_profile *profile, uint32_t process, bool with_number, char *ret,
                                size_t size);
void infp_profile_thread_label(const struct infp_profile *profile, uint32_t thread, bool with_number, char *ret,
                               size_t size);
/* The name that the program gave to the task, else its coroutine: "request()". */
void infp_profile_task_label(const struct infp_profile *profile, const struct infp_profile_sum *sum, char *ret,
                             size_t size);
