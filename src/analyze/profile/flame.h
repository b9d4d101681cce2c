/* The tree of stacks of a run, with names: what flame graphs, tables of functions and foreign formats are made of. Pure function
 * over scans of stack_samples, stacks, frames, symbols, threads, process.
 *
 * A frame of the run becomes one node a level of inlining. Nodes are merged by what names them: (kind, object, function), or
 * by line too, where each line counts as a function; that the unwinder guessed a frame is counted beside and keeps nothing apart. Numbers: samples (whole) and weight
 * (f64, in the unit). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/profile/profile.h"
#include "base/err.h"
#include "model/stack_tables.h"
#include "store/run.h"

/* process, thread, state, mode, task: a node each between the root and the stacks. module: nodes are objects, not functions; calls within
 * one are one node. line: a function is split by the line that was executed there. mode takes all that have the unit of the
 * chosen one. */
enum infp_flame_by {
        INFP_FLAME_BY_NOTHING,
        INFP_FLAME_BY_PROCESS,
        INFP_FLAME_BY_THREAD,
        INFP_FLAME_BY_STATE,
        INFP_FLAME_BY_MODE,
        INFP_FLAME_BY_TASK,
        INFP_FLAME_BY_MODULE,
        INFP_FLAME_BY_LINE
};

struct infp_flame_options {
        uint64_t t0, t1; /* t1 0: no end */
        const char *
                mode; /* NULL: cpu when there are such samples (python with part PYTHON), else python, else the only one; several and none of these: -EINVAL that names them */
        const char *filter; /* extended regular expression: stacks with a function that matches; NULL: all */
        enum infp_flame_by by;
        enum infp_profile_part part;
        bool reverse;    /* leaf first: who calls it */
        bool no_inlined; /* compiled functions alone */
        /* Mode wall, without moments: threads that waited at least 95 % of the time are only in infp_flame.folded, in no node
         * and no other sum. */
        bool fold_waiting;
        bool no_numbers; /* by process and thread: merge those of one name, whatever their pid or tid (for differences) */
        int64_t process;    /* pid; 0: all */
        uint32_t n_buckets; /* for moments; 0: none */
};

struct infp_flame_function {
        const char *name, *object, *file; /* object: base name; file NULL: not known */
        int64_t line; /* where the function begins, else the least line seen; with is_line that one; 0: not known */
        enum infp_frame_kind kind;
        bool is_unnamed; /* a range of an object without a symbol, or all that has none in an object */
        bool is_inlined; /* wherever it was seen */
        bool is_group;   /* no function: a process, thread, state, mode or task; or "[truncated]" */
        bool is_line;    /* what was executed at one line of it (INFP_FLAME_BY_LINE) */
        /* Of waits (is_wait of nodes) self is that of the innermost function outside the kernel. */
        uint64_t self_samples, total_samples; /* total: each sample once, however often it recurs in the stack */
        double self_weight, total_weight;
        uint64_t guessed_samples;                       /* of the total: with a frame of it that was guessed */
        uint64_t base_self_samples, base_total_samples; /* of a difference: in the older run */
        double base_self_weight, base_total_weight;
};

/* What a picture colours as a guess: most of its samples are. */
static inline bool infp_flame_is_guessed(const struct infp_flame_function *function)
{
        return 2 * function->guessed_samples > function->total_samples;
}

/* Node 0 is the root; a parent comes before its children; siblings by name. */
struct infp_flame_node {
        uint32_t parent, function;          /* function: index; UINT32_MAX for the root */
        uint32_t first_child, next_sibling; /* 0: none */
        uint16_t depth;
        bool is_inlined;
        /* Samples of its own are of threads that waited in the kernel: functions count them as self time of the innermost
         * function outside it, since "schedule" says nothing. A stack of the kernel's alone has none. */
        bool is_wait;
        uint64_t self_samples, total_samples;
        double self_weight, total_weight;
};

enum { INFP_FLAME_FOLDED_STATES = 3 };

/* When stacks were seen: what a node had of itself within one bucket of [t0, t1). By bucket, then node. */
struct infp_flame_moment {
        uint32_t bucket, node;
        uint64_t samples;
        double weight;
};

struct infp_flame {
        struct infp_flame_node *nodes;
        uint32_t n_nodes;
        struct infp_flame_function *functions;
        uint32_t n_functions;
        struct infp_flame_moment *moments; /* NULL unless asked for */
        uint32_t n_moments, n_buckets;
        /* Of a difference: what the older run has of each node (numbers of the nodes are the newer's); else NULL. */
        struct infp_flame_base {
                uint64_t self_samples, total_samples;
                double self_weight, total_weight;
        } * base;
        uint64_t base_samples; /* of the whole older run */
        double base_weight, base_effective_samples;
        uint64_t base_truncated_samples;
        char mode[64];
        const char *unit; /* "seconds", "bytes" ... */
        uint64_t t0, t1;  /* of the run that was looked at */
        uint64_t samples; /* in the tree */
        double weight;
        double effective_samples; /* as many samples of equal weight would be worth as much; INFINITY: nothing was sampled, all is exact */
        uint64_t all_samples;       /* of the mode in that time, also those that the filter leaves out */
        uint64_t truncated_samples; /* their outermost node is the function "[truncated]" */
        uint64_t cut_samples;       /* of those: the run lost a part of the stack (a torn or broken table) */
        uint64_t completed_samples; /* outer frames were read just after them */
        struct infp_profile_cut cut;
        uint64_t unnamed_samples; /* whose function has no name */
        uint64_t guessed_samples; /* with a guessed frame */
        bool is_by_line;          /* its functions are lines of functions */
        uint64_t wait_samples;    /* that count for a function outside the kernel, in which they waited */
        struct infp_flame_folded {
                uint32_t threads; /* 0: nothing is folded */
                uint64_t samples;
                double weight;
                struct infp_flame_folded_state {
                        const char *state; /* "sleeping in futex" */
                        uint64_t samples;
                } states[INFP_FLAME_FOLDED_STATES]; /* the most first; NULL: no more */
        } folded;
        struct infp_flame_memory *memory;
};

struct infp_profile;
/* The samples of one mode of a profile, which may have several; mode NULL: all. Borrows the profile's strings. */
int infp_flame_make(struct infp_profile *profile, const char *mode, const struct infp_flame_options *options,
                    struct infp_flame *ret, struct infp_err *err);
int infp_flame_read(struct infp_run *run, const struct infp_flame_options *options, struct infp_flame *ret,
                    struct infp_err *err);
/* Consumes both. The result has the nodes of either run: the numbers of `newer`, and those of `older` in `base`. -EINVAL if
 * their modes differ. */
int infp_flame_diff(struct infp_flame *older, struct infp_flame *newer, struct infp_flame *ret, struct infp_err *err);
/* Of a difference: one run has significantly (95 %) more incomplete stacks than the other, by more than 5 points. Incomplete
 * stacks start at other frames, so compare functions rather than trees. */
bool infp_flame_cuts_differ(const struct infp_flame *flame);
/* Merges nodes with less weight than `least` in all into their callers, of which their own samples then are, and forgets functions that no
 * node is left of. Sums of functions (self) stay those of the whole tree. For trees that are no difference. */
int infp_flame_prune(struct infp_flame *flame, double least, struct infp_err *err);
/* Joins each k neighbouring buckets into one; n_buckets must be a multiple of k. */
void infp_flame_coarsen(struct infp_flame *flame, uint32_t k);
void infp_flame_done(struct infp_flame *flame);

/* The 95 % interval of a share k of n samples (Wilson score), in percent. */
void infp_flame_interval(uint64_t k, uint64_t n, double *ret_low, double *ret_high);
