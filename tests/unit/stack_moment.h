/* A moment of a real process, and what becomes of the rows that are made of it, for tests of stacks. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>

#include "base/map.h"
#include "base/time.h"
#include "collect/env.h"
#include "sampler/stacks/stack.h"
#include "unwind_traced.h"

enum { DEPTH = 20 };

#ifdef __clang__
#define NO_INLINE __attribute__((noinline))
#else
#define NO_INLINE __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))
#endif
static volatile long sink;
static volatile bool is_deep = true;

/* What a sanitizer adds would change the stack meanwhile. */
NO_INLINE __attribute__((no_sanitize("thread", "address", "undefined"))) static void deep(int n)
{
        if (n)
                deep(n - 1);
        while (!n && is_deep)
                sink++;
        sink++;
}

static pid_t child;
static struct traced_moment moment;
static struct infp_env env;

/* What was put: ids of each kind of row, and what of samples. */
static struct {
        struct infp_map frames, nodes, parents, threads;
        unsigned n_frame_rows, n_node_rows, n_thread_rows, n_mapping_rows, n_symbol_rows, n_samples, n_guessed;
        uint64_t process, thread, stack, cut_bytes, t_ns, last_t_ns[2];
        double weight;
        bool is_truncated, is_completed, has_stack, refuses_entities, is_out_of_order;
        char thread_name[64], kind[32];
} got;

static inline int put(void *context, const struct infp_row *row)
{
        size_t size;

        (void) context;
        if (row->table->entity && got.refuses_entities)
                return -ENOSPC;
        if (row->table == &infp_table_frames) {
                got.n_frame_rows++;
                got.n_guessed += row->cell[INFP_FRAMES_IS_GUESSED].b;
                infp_map_put(&got.frames, row->cell[0].u64, row->cell[INFP_FRAMES_ADDRESS].u64);
                snprintf(got.kind, sizeof(got.kind), "%.*s", (int) row->cell[INFP_FRAMES_KIND].text.size,
                         infp_row_text(row, INFP_FRAMES_KIND, &size));
        } else if (row->table == &infp_table_stacks) {
                got.n_node_rows++;
                infp_map_put(&got.nodes, row->cell[0].u64, row->cell[INFP_STACKS_FRAME].u64);
                infp_map_put(&got.parents, row->cell[0].u64,
                             infp_row_has(row, INFP_STACKS_PARENT) ? row->cell[INFP_STACKS_PARENT].u64 : 0);
        } else if (row->table == &infp_table_threads) {
                got.n_thread_rows++;
                infp_map_put(&got.threads, row->cell[0].u64, 1);
                snprintf(got.thread_name, sizeof(got.thread_name), "%.*s", (int) row->cell[INFP_THREADS_NAME].text.size,
                         infp_row_text(row, INFP_THREADS_NAME, &size));
        } else if (row->table == &infp_table_symbols) {
                got.n_symbol_rows++;
        } else if (row->table == &infp_table_mappings) {
                got.n_mapping_rows++;
        } else {
                const unsigned thread = (unsigned) row->cell[INFP_STACK_SAMPLES_TID].i64 & 1;

                assert_ptr_equal(row->table, &infp_table_stack_samples);
                got.n_samples++;
                got.process = row->cell[INFP_STACK_SAMPLES_PROCESS].u64;
                got.thread = row->cell[INFP_STACK_SAMPLES_THREAD].u64;
                got.has_stack = infp_row_has(row, INFP_STACK_SAMPLES_STACK);
                got.stack = row->cell[INFP_STACK_SAMPLES_STACK].u64;
                got.is_truncated = got.has_stack && row->cell[INFP_STACK_SAMPLES_IS_TRUNCATED].b;
                got.is_completed = got.has_stack && row->cell[INFP_STACK_SAMPLES_IS_COMPLETED].b;
                got.cut_bytes = infp_row_has(row, INFP_STACK_SAMPLES_CUT_BYTES)
                                        ? (uint64_t) row->cell[INFP_STACK_SAMPLES_CUT_BYTES].i64
                                        : 0;
                got.weight = row->cell[INFP_STACK_SAMPLES_WEIGHT].f64;
                got.t_ns = row->t_ns;
                got.is_out_of_order |= row->t_ns < got.last_t_ns[thread];
                got.last_t_ns[thread] = row->t_ns;
        }
        return 0;
}

static inline void forget(void)
{
        infp_map_done(&got.frames);
        infp_map_done(&got.nodes);
        infp_map_done(&got.parents);
        infp_map_done(&got.threads);
        memset(&got, 0, sizeof(got));
}

static inline int begin(void **state)
{
        (void) state;
        if (infp_env_open(&env, "/", NULL) < 0)
                return -1;
        child = fork();
        if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                prctl(PR_SET_NAME, "deep down");
                deep(DEPTH);
                _exit(0);
        }
        traced_wait(child, 10);
        if (ptrace(PTRACE_SEIZE, child, NULL, NULL) < 0 || !traced_take(child, &moment)) {
                print_message("a child of ours cannot be traced here\n");
                return -1;
        }
        return 0;
}

static inline int end(void **state)
{
        (void) state;
        traced_end(child);
        infp_env_close(&env);
        forget();
        return 0;
}
