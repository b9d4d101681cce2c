/* Rows of --wall: one for each stretch in which a thread did not run, or a task of asyncio stayed where it was, at most a second long,
 * and one for each moment of a thread that runs. Of a callback that holds its thread's loop those rows of mode lag that it is in. Belongs to the thread that makes stacks. */
#pragma once

#include "base/map.h"
#include "sampler/stacks/stack.h"
#include "sampler/waits/wall_reader.h"

struct infp_wall_run;

struct infp_wall_rows {
        struct infp_stacks *stacks;
        const struct infp_mode_context *context; /* NULL: there is no Python */
        struct infp_wall_reader *reader;         /* NULL: nobody reads larger copies of stacks */
        struct infp_map open;                    /* tid, or hash of a task -> the run that holds now */
        struct infp_map running;                 /* tid -> where it last ran, as perf saw it */
        struct infp_map words;                   /* hash -> text: states, kernel functions */
        struct infp_wall_run *all, *free;
        uint64_t n_rounds, round_ns, period_ns, weight_ns, flushed_ns;
        uint32_t n_tasks;           /* open runs of tasks */
        uint64_t n_runs, n_refused; /* moments for which there was no room */
};

void infp_wall_rows_init(struct infp_wall_rows *rows, struct infp_stacks *stacks);
void infp_wall_rows_done(struct infp_wall_rows *rows); /* not before infp_stacks_end: stacks may still be found */

void infp_wall_rows_take(void *rows, const struct infp_wall_message *message);
/* A sample of the CPU's clock: where running threads are. */
void infp_wall_rows_ran(struct infp_wall_rows *rows, const struct infp_perf_sample *sample);
/* The thread has ended, as perf says; when the reader says so it is forgotten too. */
void infp_wall_rows_exited(struct infp_wall_rows *rows, int32_t tid);
/* All that is still open ends. */
void infp_wall_rows_end(struct infp_wall_rows *rows);
