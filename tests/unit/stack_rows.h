/* Rows of stacks for tests: a small run whose trees are worked out by hand. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/stack_tables.h"
#include "query_sample.h"

#define S UINT64_C(1000000000)

// clang-format off
static const struct infp_column stack_process_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Process."),
};
static const struct infp_column stack_process_columns[] = {
        INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Pid."),
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
};
static const struct infp_table stack_process_table = { .name = "process", .help = "Of the tests.", .keys = stack_process_keys, .n_keys = 1,
        .columns = stack_process_columns, .n_columns = 2, .entity = true };
// clang-format on

static inline struct sample_run *stack_begin(void)
{
        static const struct infp_table *const tables[] = {
                &stack_process_table,      &infp_table_threads, &infp_table_frames,
                &infp_table_symbols,       &infp_table_stacks,  &infp_table_mappings,
                &infp_table_stack_samples, &infp_table_sampler, NULL
        };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

static inline uint64_t put_process(struct sample_run *s, int64_t pid, const char *name)
{
        struct infp_row *row = sample_row(s, &stack_process_table, S);

        infp_row_id(row, 0, (uint64_t) pid * 1000);
        infp_row_i64(row, 1, pid);
        infp_row_str(row, 2, name);
        sample_put(s);
        return (uint64_t) pid * 1000;
}

static inline uint64_t put_thread(struct sample_run *s, uint64_t process, int32_t tid, const char *name)
{
        const uint64_t id = infp_thread_id(process, tid, name);
        struct infp_row *row = sample_row(s, &infp_table_threads, S);

        infp_row_id(row, INFP_THREADS_ID, id);
        infp_row_id(row, INFP_THREADS_PROCESS, process);
        infp_row_i64(row, INFP_THREADS_TID, tid);
        infp_row_str(row, INFP_THREADS_NAME, name);
        sample_put(s);
        return id;
}

static inline uint64_t put_frame(struct sample_run *s, enum infp_frame_kind kind, const char *object, uint64_t address,
                                 bool is_guessed)
{
        const uint64_t id = infp_frame_id(kind, object, strlen(object), address, is_guessed);
        struct infp_row *row = sample_row(s, &infp_table_frames, S);

        infp_row_id(row, INFP_FRAMES_ID, id);
        infp_row_str(row, INFP_FRAMES_KIND, infp_frame_kind_name(kind));
        infp_row_str(row, INFP_FRAMES_OBJECT, object);
        infp_row_str(row, INFP_FRAMES_BUILD_ID, strstr(object, ".so") ? "11ee" : "00ff");
        infp_row_u64(row, INFP_FRAMES_ADDRESS, address);
        infp_row_bool(row, INFP_FRAMES_IS_GUESSED, is_guessed);
        sample_put(s);
        return id;
}

static inline void put_symbol(struct sample_run *s, uint64_t frame, int64_t level, const char *name, const char *file,
                              int64_t line, int64_t function_line, const char *from)
{
        struct infp_row *row = sample_row(s, &infp_table_symbols, S);

        infp_row_id(row, INFP_SYMBOLS_FRAME, frame);
        infp_row_i64(row, INFP_SYMBOLS_LEVEL, level);
        infp_row_str(row, INFP_SYMBOLS_NAME, name);
        if (file)
                infp_row_str(row, INFP_SYMBOLS_FILE, file);
        if (line)
                infp_row_i64(row, INFP_SYMBOLS_LINE, line);
        if (function_line)
                infp_row_i64(row, INFP_SYMBOLS_FUNCTION_LINE, function_line);
        infp_row_str(row, INFP_SYMBOLS_FROM, from);
        sample_put(s);
}

static inline void put_node(struct sample_run *s, uint64_t id, uint64_t parent, uint64_t frame)
{
        struct infp_row *row = sample_row(s, &infp_table_stacks, S);

        infp_row_id(row, INFP_STACKS_ID, id);
        if (parent)
                infp_row_id(row, INFP_STACKS_PARENT, parent);
        if (frame)
                infp_row_id(row, INFP_STACKS_FRAME, frame);
        infp_row_i64(row, INFP_STACKS_DEPTH, 0);
        sample_put(s);
}

static inline uint64_t put_stack(struct sample_run *s, uint64_t parent, uint64_t frame)
{
        put_node(s, infp_stack_id(parent, frame), parent, frame);
        return infp_stack_id(parent, frame);
}

struct stack_sample {
        uint64_t t_ns, process, thread, stack;
        int64_t tid;
        const char *mode, *state;
        double weight;
        bool is_truncated;
};

static inline void put_samples(struct sample_run *s, const struct stack_sample *is, unsigned n)
{
        while (n--) {
                struct infp_row *row = sample_row(s, &infp_table_stack_samples, is->t_ns);

                if (is->process)
                        infp_row_id(row, INFP_STACK_SAMPLES_PROCESS, is->process);
                if (is->tid)
                        infp_row_i64(row, INFP_STACK_SAMPLES_TID, is->tid);
                if (is->thread)
                        infp_row_id(row, INFP_STACK_SAMPLES_THREAD, is->thread);
                if (is->stack)
                        infp_row_id(row, INFP_STACK_SAMPLES_STACK, is->stack);
                if (is->weight >= 0)
                        infp_row_f64(row, INFP_STACK_SAMPLES_WEIGHT, is->weight);
                infp_row_i64(row, INFP_STACK_SAMPLES_SAMPLES, 1);
                infp_row_str(row, INFP_STACK_SAMPLES_MODE, is->mode);
                if (is->state)
                        infp_row_str(row, INFP_STACK_SAMPLES_STATE, is->state);
                infp_row_bool(row, INFP_STACK_SAMPLES_IS_TRUNCATED, is->is_truncated);
                sample_put(s);
        }
}

/* Sums since the beginning, at t_ns: of `wanted` samples one was lost by the kernel. */
static inline void put_sampler(struct sample_run *s, uint64_t t_ns, int64_t wanted)
{
        struct infp_row *row = sample_row(s, &infp_table_sampler, t_ns);

        infp_row_str(row, INFP_SAMPLER_MODE, "cpu");
        infp_row_str(row, INFP_SAMPLER_METHOD, "perf events of a tree");
        infp_row_f64(row, INFP_SAMPLER_RATE, 100);
        infp_row_i64(row, INFP_SAMPLER_WANTED, wanted);
        infp_row_i64(row, INFP_SAMPLER_TAKEN, wanted - 1);
        infp_row_i64(row, INFP_SAMPLER_LOST, 1);
        infp_row_i64(row, INFP_SAMPLER_DROPPED, 0);
        infp_row_i64(row, INFP_SAMPLER_TRUNCATED, 1);
        infp_row_i64(row, INFP_SAMPLER_INCOMPLETE, 0);
        infp_row_i64(row, INFP_SAMPLER_FRAMES, 30);
        infp_row_i64(row, INFP_SAMPLER_GUESSED_FRAMES, 1);
        infp_row_i64(row, INFP_SAMPLER_OWN_CPU_NS, 2000000);
        sample_put(s);
}

/* 13 samples of mode cpu, 10 ms each, of two threads, and one of mode wall:
 *   3 of A  main;work;helper (inlined)    at 2 s
 *   2 of B  main;work                     at 3 s
 *   4 of A  main;work;work                at 4 s
 *   1 of A  main;[lib.so] (no symbol)     at 5 s
 *   1 of A  main;[lib.so+0x180] (a range) at 5 s
 *   1 of B  main;work, guessed            at 5 s
 *   1 of B  main, truncated               at 6 s */
static inline void put_known(struct sample_run *s)
{
        const uint64_t process = put_process(s, 42, "server");
        const uint64_t a = put_thread(s, process, 42, "server"), b = put_thread(s, process, 43, "worker");
        const uint64_t f_main = put_frame(s, INFP_FRAME_NATIVE, "/usr/bin/a.out", 0x10, false);
        const uint64_t f_helper = put_frame(s, INFP_FRAME_NATIVE, "/usr/bin/a.out", 0x20, false);
        const uint64_t f_work = put_frame(s, INFP_FRAME_NATIVE, "/usr/bin/a.out", 0x28, false);
        const uint64_t f_lib = put_frame(s, INFP_FRAME_NATIVE, "/lib/lib.so", 0x100, false);
        const uint64_t f_range = put_frame(s, INFP_FRAME_NATIVE, "/lib/lib.so", 0x200, false);
        const uint64_t f_guess = put_frame(s, INFP_FRAME_NATIVE, "/usr/bin/a.out", 0x28, true);
        const uint64_t main_ = put_stack(s, 0, f_main), helper = put_stack(s, main_, f_helper);
        const uint64_t work = put_stack(s, main_, f_work), again = put_stack(s, work, f_work);
        const uint64_t lib = put_stack(s, main_, f_lib), range = put_stack(s, main_, f_range);
        const uint64_t guess = put_stack(s, main_, f_guess);
        struct stack_sample is = { .process = process, .thread = a, .tid = 42, .mode = "cpu", .weight = 0.01 };

        put_symbol(s, f_main, 0, "main", "/src/main.c", 10, 5, "dwarf");
        put_symbol(s, f_helper, 0, "work", "/src/work.c", 20, 15, "dwarf");
        put_symbol(s, f_helper, 1, "helper", "/src/help.h", 7, 3, "dwarf");
        put_symbol(s, f_work, 0, "work", "/src/work.c", 22, 15, "dwarf");
        put_symbol(s, f_range, 0, "[lib.so+0x180]", NULL, 0, 0, "range");
        put_symbol(s, f_guess, 0, "work", "/src/work.c", 22, 15, "dwarf");
        is.t_ns = 2 * S, is.stack = helper, put_samples(s, &is, 3);
        is.t_ns = 4 * S, is.stack = again, put_samples(s, &is, 4);
        is.t_ns = 5 * S, is.stack = lib, put_samples(s, &is, 1);
        is.stack = range, put_samples(s, &is, 1);
        is.thread = b, is.tid = 43;
        is.stack = guess, put_samples(s, &is, 1);
        is.t_ns = 3 * S, is.stack = work, put_samples(s, &is, 2);
        is.t_ns = 6 * S, is.stack = main_, is.is_truncated = true, put_samples(s, &is, 1);
        put_sampler(s, 3 * S, 8);
        put_sampler(s, 7 * S, 14);
        is.mode = "wall", is.state = "futex", is.is_truncated = false, put_samples(s, &is, 1);
}
