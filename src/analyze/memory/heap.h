/* The heap of the processes of a run, by the stacks that allocated it: what was in use, what grew, what leaks (table heap_windows, named by the stacks
 * of stack_samples). Unless every block was counted (is_sampled) all bytes are estimates from samples; a variance is in bytes squared, and 1.96 of its roots make the 95 % interval. */
#pragma once

#include "analyze/memory/verdict.h"
#include "analyze/profile/place.h"
#include "analyze/range.h"
#include "base/map.h"
#include "model/batch.h"

/* What was in use at a moment. */
struct infp_heap_use {
        double bytes, variance;
        uint64_t blocks; /* sampled */
};
struct infp_heap_sum {
        double bytes, variance, blocks; /* blocks: estimated */
        uint64_t samples;
};

/* Heap and anonymous memory that was in RAM, by an account of memory, and what was in use then. */
struct infp_heap_resident {
        uint64_t t_ns; /* 0: there is no account */
        double bytes;
        struct infp_heap_use in_use; /* as the window ended that is nearest to it */
};

/* Stacks that differ only in what the place where they are has called: by other ways through the C library, the interpreter, a package. */
struct infp_heap_stack {
        uint64_t id;      /* of the innermost node of one of them; 0: none */
        uint32_t process; /* in infp_heap.processes */
        struct infp_profile_place place;
        struct infp_heap_sum allocated;
        double temporary;         /* bytes freed in the window in which they were allocated */
        struct infp_heap_use end; /* as its process, or the recording, ended */
        /* As the judgement ends: of a process that frees all that it holds as it ends just before that. */
        struct infp_heap_use held;
        uint64_t oldest_ns; /* of held; 0: none */
        struct infp_heap_growth growth;
        uint32_t first_part, next; /* next: of the process */
};

/* A program that a process ran; after exec there is another one of the same id, and the blocks of the one before are gone. */
struct infp_heap_process {
        uint64_t id;
        int64_t pid;      /* 0: not known */
        const char *name; /* NULL: not known */
        uint64_t first_ns;
        uint64_t begin_ns;   /* first_ns, or where the range begins between two windows */
        uint64_t *window_ns; /* ends of its windows, up to the end of the range */
        uint32_t n_windows, cap_windows, n_judged;
        uint32_t n_before;       /* windows before the range */
        uint32_t earlier;        /* the program that it has replaced; UINT32_MAX: none is known */
        bool has_ended, goes_on; /* it, or the recording as it should; it does after the range */
        bool is_replaced;        /* it has ended by exec */
        bool is_whole;           /* its end was seen, maybe after the range */
        uint64_t mean_bytes;
        struct infp_heap_use end, held, peak; /* peak: no blocks */
        struct infp_heap_sum allocated;
        double leaked_bytes;                /* held by stacks that leak */
        double peak_bytes;                  /* as the sampler saw it in the range; 0: it said none */
        uint64_t peak_ns;                   /* when it had the most: of peak_bytes, or the end of the fullest window */
        struct infp_heap_resident resident; /* of the last account in the range */
        uint32_t first_stack, n_stacks, verdicts[INFP_HEAP_VERDICTS]; /* of its stacks */
};

struct infp_heap {
        struct infp_profile profile; /* of the modes in bytes: names */
        struct infp_heap_process *processes;
        struct infp_heap_stack *stacks;
        struct infp_heap_part *parts; /* single stacks */
        struct infp_heap_row *rows;
        uint32_t n_processes, n_stacks, n_parts, n_rows, cap_processes, cap_stacks, cap_parts, cap_rows;
        uint32_t n_programs;                  /* with those that ended before the range, which come last in processes */
        struct infp_map newest, nodes, names; /* process, stack, process: to indices */
        struct infp_map by_key, by_place;     /* (process, stack) to parts, (process, place) to stacks */
        struct infp_range range;              /* t0, t1: those that were asked for, widened to a window at least */
        bool is_part;                         /* of the run */
        int64_t pid;                          /* 0: all processes */
        bool is_sampled; /* else every block was counted (--heap=exact): all variances are 0, and samples are blocks */
};

struct infp_heap_options {
        int64_t pid;                    /* of the only process; 0: all */
        const char *from, *to;          /* as infp_range_find; NULL: the whole run */
        const struct infp_range *range; /* in place of them, where it is known; NULL: it is not */
};
/* What was in use at the end of the range, and allocated, freed and at the peak in it, by the windows that lie in it by half at least; verdicts by
 * these alone. -ENODATA with a sentence where the heap was not recorded, or not then. Processes are in order of their peaks. */
int infp_heap_read(struct infp_run *run, const struct infp_heap_options *options, struct infp_heap *ret,
                   struct infp_err *err);
void infp_heap_done(struct infp_heap *heap);

/* Stacks of a process (UINT32_MAX: of all) for which `by` is above 0, the most first: an array to free. NULL: no memory. */
uint32_t *infp_heap_top(const struct infp_heap *heap, uint32_t process,
                        double (*by)(const struct infp_heap_stack *stack), uint32_t *ret_n);
/* The order of a list of leaks: leaks before what grows, the fastest first; 0: neither. */
double infp_heap_leaking(const struct infp_heap_stack *stack);
double infp_heap_held(const struct infp_heap_stack *stack); /* bytes */

/* The program that the process ran then, as far as windows know; before all of them the first one. NULL: none is known. */
const struct infp_heap_process *infp_heap_program(const struct infp_heap *heap, uint64_t process, uint64_t t_ns);

/* Adds what stacks of the place had in use at the end of each window of its process, of which there are n_windows. */
void infp_heap_over_time(const struct infp_heap *heap, const struct infp_heap_stack *stack, struct infp_heap_use *to);

/* names.c: of programs that another one has replaced, and of that. NULL: it was not looked at in time. */
int infp_heap_read_names(struct infp_run *run, struct infp_heap *heap, struct infp_err *err);
/* resident.c: the account of each process. */
int infp_heap_read_resident(struct infp_run *run, struct infp_heap *heap, struct infp_err *err);

/* Where a stack is. Returns the key of the stacks that belong together: of that place, as it was called. */
uint64_t infp_heap_place(const struct infp_heap *heap, uint64_t process, uint64_t stack,
                         struct infp_profile_place *ret);

/* An id in a batch of whatever file; 0: none. */
uint64_t infp_heap_id(const struct infp_batch *batch, int column, uint32_t row);

static inline double infp_heap_seconds(uint64_t from_ns, uint64_t to_ns)
{
        return to_ns > from_ns ? (double) (to_ns - from_ns) / 1e9 : 0;
}
static inline double infp_heap_range_s(const struct infp_heap *heap)
{
        const struct infp_range *range = &heap->range;

        return infp_heap_seconds(range->t0 > range->start ? range->t0 : range->start,
                                 range->t1 < range->end ? range->t1 : range->end);
}
/* Of what was looked at. */
static inline uint64_t infp_heap_end_ns(const struct infp_heap_process *process)
{
        return process->window_ns[process->n_windows - 1];
}
static inline double infp_heap_observed_s(const struct infp_heap_process *process)
{
        return infp_heap_seconds(process->begin_ns, infp_heap_end_ns(process));
}
/* What held and growth are of. */
static inline uint64_t infp_heap_judged_ns(const struct infp_heap_process *process)
{
        return process->window_ns[process->n_judged - 1];
}
