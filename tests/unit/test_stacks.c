/* From records of perf events to rows: moments of a real process, told of as the kernel does, also of processes that never were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stack_moment.h"

enum { NOBODY = 4194305 }; /* no pid is that large */

static struct infp_stacks *open_stacks(size_t waiting_bytes)
{
        const struct infp_stacks_options options = { .env = &env, .put = put, .waiting_bytes = waiting_bytes };
        struct infp_stacks *stacks = NULL;
        struct infp_err err = { "" };

        forget();
        if (infp_stacks_new(&options, &stacks, &err) < 0)
                fail_msg("%s", err.text);
        return stacks;
}

/* The moment as a sample of a thread. */
static struct infp_perf_sample sample_of(int32_t pid, int32_t tid)
{
        struct infp_perf_sample sample = {
                .t_ns = infp_clock_ns(CLOCK_MONOTONIC),
                .pid = pid,
                .tid = tid,
                .cpu = 1,
                .period = 10000000,
                .has_registers = true,
                .stack = moment.stack,
                .stack_size = (uint32_t) moment.dump.size,
                .is_cut = moment.dump.is_cut,
        };

        memcpy(sample.registers, moment.values, sizeof(sample.registers));
        return sample;
}

static void give(struct infp_stacks *stacks, int32_t pid, int32_t tid)
{
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        const struct infp_perf_sample sample = sample_of(pid, tid);

        handler.sample(handler.context, &sample);
}

static void finish(struct infp_stacks *stacks)
{
        infp_stacks_end(stacks, infp_clock_ns(CLOCK_MONOTONIC) + 20 * INFP_NS_PER_S);
}

/* Frames of the last sample's stack, after a check that all of them were written. ret_same: the longest run of one frame. */
static unsigned depth_of(unsigned *ret_same)
{
        uint64_t before = 0;
        unsigned n = 0, same = 0;

        *ret_same = 0;
        for (uint64_t node = got.stack; node; n++) {
                const uint64_t *frame = infp_map_get(&got.nodes, node), *parent = infp_map_get(&got.parents, node);

                assert_non_null(frame);
                assert_non_null(parent);
                assert_non_null(infp_map_get(&got.frames, *frame));
                same = *frame == before ? same + 1 : 1;
                *ret_same = same > *ret_same ? same : *ret_same;
                before = *frame;
                node = *parent;
        }
        return n;
}

static void a_sample_becomes_rows(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        struct infp_stacks_counts counts;
        unsigned depth, same, n_rows;

        (void) state;
        give(stacks, child, child);
        assert_int_equal(got.n_samples, 0); /* it waits for tables */
        finish(stacks);
        assert_int_equal(got.n_samples, 1);
        assert_false(got.is_truncated);
        depth = depth_of(&same);
        assert_in_range(depth, DEPTH + 4, DEPTH + 12);
        assert_in_range(same, DEPTH - 1, DEPTH);
        assert_true(got.weight == 0.01);
        assert_non_null(infp_map_get(&got.threads, got.thread));
        assert_string_equal(got.thread_name, "deep down");
        assert_int_equal(got.n_guessed, 0);
        assert_in_range(got.n_mapping_rows, 2, 6);
        n_rows = got.n_frame_rows + got.n_node_rows + got.n_thread_rows + got.n_mapping_rows;
        give(stacks, child, child);
        assert_int_equal(got.n_samples, 2); /* nothing is missing now, and nothing is told again */
        assert_int_equal(got.n_frame_rows + got.n_node_rows + got.n_thread_rows + got.n_mapping_rows, n_rows);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.modes[INFP_STACK_CPU].taken, 2);
        assert_int_equal(counts.modes[INFP_STACK_CPU].frames, 2 * depth);
        assert_int_equal(counts.modes[INFP_STACK_CPU].incomplete + counts.modes[INFP_STACK_CPU].truncated, 0);
        infp_stacks_free(stacks);
}

static void ids_are_the_same_in_another_run(void **state)
{
        uint64_t stack = 0, thread = 0, process = 0;

        (void) state;
        for (unsigned run = 0; run < 2; run++) {
                struct infp_stacks *stacks = open_stacks(0);

                give(stacks, child, child);
                finish(stacks);
                if (run) {
                        assert_true(got.stack == stack && got.thread == thread && got.process == process);
                }
                stack = got.stack;
                thread = got.thread;
                process = got.process;
                infp_stacks_free(stacks);
        }
}

static void rows_that_found_no_room_come_again(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        unsigned same;

        (void) state;
        got.refuses_entities = true;
        give(stacks, child, child);
        finish(stacks);
        assert_int_equal(got.n_samples, 1);
        assert_int_equal(got.n_node_rows, 0);
        got.refuses_entities = false;
        give(stacks, child, child);
        assert_in_range(depth_of(&same), DEPTH + 4, DEPTH + 12);
        assert_int_equal(got.n_thread_rows, 1);
        infp_stacks_free(stacks);
}

/* The recorder forgets entities that it was not told of for long. */
static void what_is_in_use_is_told_again(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        unsigned n_frames, n_nodes;

        (void) state;
        give(stacks, child, child);
        finish(stacks);
        n_frames = got.n_frame_rows;
        n_nodes = got.n_node_rows;
        infp_stacks_turn(stacks, now + 100 * INFP_NS_PER_S);
        give(stacks, child, child);
        assert_int_equal(got.n_node_rows, n_nodes);
        infp_stacks_turn(stacks, now + 400 * INFP_NS_PER_S);
        give(stacks, child, child);
        give(stacks, child, child);
        assert_int_equal(got.n_node_rows, 2 * n_nodes);
        assert_int_equal(got.n_frame_rows, 2 * n_frames);
        assert_int_equal(got.n_thread_rows, 2);
        assert_int_equal(got.n_samples, 4);
        infp_stacks_free(stacks);
}

/* Processes that only records tell of: a child has its parent's code until it executes something. */
static void records_alone_say_what_a_process_has(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_stacks_counts counts;
        uint64_t stack, process, thread;
        unsigned n_mappings;

        (void) state;
        give(stacks, child, child);
        finish(stacks);
        stack = got.stack;
        process = got.process;
        thread = got.thread;
        n_mappings = got.n_mapping_rows;
        handler.fork(handler.context, now, NOBODY, NOBODY, child, child);
        give(stacks, NOBODY, NOBODY);
        assert_true(got.stack == stack);
        assert_int_equal(got.n_mapping_rows, 2 * n_mappings); /* each process has its own */
        assert_true(got.process != process && got.process);
        assert_true(got.thread != thread);
        assert_string_equal(got.thread_name, "deep down"); /* its parent's */
        handler.fork(handler.context, now, NOBODY, NOBODY + 1, NOBODY, NOBODY);
        handler.name(handler.context, now, NOBODY, NOBODY + 1, "second", false);
        thread = got.thread;
        process = got.process;
        give(stacks, NOBODY, NOBODY + 1);
        assert_string_equal(got.thread_name, "second");
        assert_true(got.thread != thread && got.process == process && got.stack == stack);
        thread = got.thread;
        handler.name(handler.context, now, NOBODY, NOBODY, "other", true);
        give(stacks, NOBODY, NOBODY);
        finish(stacks);
        assert_true(got.stack != stack && got.is_truncated); /* its old code is gone */
        give(stacks, child, child);
        assert_true(got.stack == stack);
        handler.exit(handler.context, now, NOBODY, NOBODY + 1);
        give(stacks, NOBODY, NOBODY + 1); /* a sample between this and its very end */
        finish(stacks);
        assert_true(got.thread == thread);
        handler.exit(handler.context, now, NOBODY, NOBODY);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.n_processes, 2);
        infp_stacks_turn(stacks, now + 60 * INFP_NS_PER_S);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.n_processes, 1);
        assert_int_equal(counts.n_threads, 1);
        infp_stacks_free(stacks);
}

/* 100,000 processes of which none is sampled: cheap, and gone when they have ended. */
static void many_short_processes_cost_little(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        const uint64_t used = infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID), now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_stacks_counts counts;
        double us;

        (void) state;
        infp_stacks_seed(stacks, child);
        for (int i = 0; i < 100000; i++) {
                const int32_t pid = NOBODY + i % 30000;

                handler.fork(handler.context, now, pid, pid, child, child);
                handler.name(handler.context, now, pid, pid, "short", false);
                handler.exit(handler.context, now, pid, pid);
        }
        us = (double) (infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used) / 1e3 / 100000;
        print_message("%.2f us a process\n", us);
        assert_true(us < 50);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.n_processes, 30001);
        infp_stacks_turn(stacks, now + 60 * INFP_NS_PER_S);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.n_processes, 1);
        infp_stacks_free(stacks);
}

/* Threads point to their processes: one look forgets all of both, and who has the numbers next is somebody else. */
static void numbers_are_given_again(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_stacks_counts counts;
        uint64_t processes[300];

        (void) state;
        give(stacks, child, child);
        finish(stacks);
        for (int i = 0; i < 300; i++) {
                handler.fork(handler.context, now, NOBODY + i, NOBODY + i, child, child);
                give(stacks, NOBODY + i, NOBODY + i);
                processes[i] = got.process;
                handler.exit(handler.context, now, NOBODY + i, NOBODY + i);
        }
        infp_stacks_turn(stacks, now + 60 * INFP_NS_PER_S);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.n_processes, 1);
        assert_int_equal(counts.n_threads, 1);
        for (int i = 0; i < 300; i++) {
                handler.fork(handler.context, now + INFP_NS_PER_S, NOBODY + i, NOBODY + i, child, child);
                give(stacks, NOBODY + i, NOBODY + i);
                assert_true(got.process && got.process != processes[i]);
        }
        infp_stacks_free(stacks);
}

static void the_queue_is_bounded_and_in_order(void **state)
{
        struct infp_stacks *stacks = open_stacks(256 * 1024);
        struct infp_stacks_counts counts;

        (void) state;
        for (unsigned i = 0; i < 200; i++)
                give(stacks, child, child + (int32_t) (i & 1));
        infp_stacks_counts(stacks, &counts);
        assert_true(counts.waiting_bytes <= 256 * 1024);
        assert_true(counts.n_waiting > 4 && counts.n_waiting < 200);
        assert_true(counts.modes[INFP_STACK_CPU].hurried > 0); /* no room: with what was there */
        assert_int_equal(counts.n_waiting + got.n_samples, 200);
        finish(stacks);
        assert_int_equal(got.n_samples, 200);
        assert_false(got.is_out_of_order);
        assert_false(got.is_truncated);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.n_waiting, 0);
        assert_int_equal(counts.waiting_bytes, 0);
        infp_stacks_free(stacks);
}

static void found(void *context, uint64_t cookie, const struct infp_stack_found *what)
{
        struct infp_stack_found *into = context;

        assert_int_equal(cookie, 77);
        assert_int_equal(into->tid, 0); /* once */
        *into = *what;
}

static void other_modes_are_told(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        struct infp_stack_found what = { 0 };
        struct infp_perf_sample sample = sample_of(child, child);
        unsigned same;

        (void) state;
        infp_stacks_take(stacks, &sample, INFP_STACK_OFF_CPU, found, &what, 77);
        assert_int_equal(what.tid, 0);
        finish(stacks);
        assert_int_equal(what.tid, child);
        assert_int_equal(what.t_ns, sample.t_ns);
        assert_int_equal(what.mode, INFP_STACK_OFF_CPU);
        assert_int_equal(got.n_samples, 0);
        assert_int_equal(infp_stacks_put(stacks, &what, 1.5, "futex"), 0);
        assert_true(got.weight == 1.5 && got.stack == what.stack);
        assert_int_equal(depth_of(&same), what.depth + 1);
        infp_stacks_free(stacks);
}

static void kernel_frames_lie_below_the_users(void **state)
{
        static const uint64_t kernel[] = { UINT64_C(0xffffffff81000010), UINT64_C(0xffffffff81000020) };
        struct infp_stacks *stacks = open_stacks(0);
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        struct infp_perf_sample sample = sample_of(child, child);
        unsigned same, depth;
        uint64_t frame;

        (void) state;
        give(stacks, child, child);
        finish(stacks);
        depth = depth_of(&same);
        sample.kernel = kernel;
        sample.n_kernel = 2;
        handler.sample(handler.context, &sample);
        assert_int_equal(depth_of(&same), depth + 2);
        frame = *infp_map_get(&got.nodes, got.stack);
        assert_true(*infp_map_get(&got.frames, frame) == kernel[0]);
        assert_string_equal(got.kind, "kernel");
        sample.has_registers = false; /* a thread of the kernel */
        handler.sample(handler.context, &sample);
        assert_int_equal(depth_of(&same), 2);
        assert_false(got.is_truncated);
        sample.n_kernel = 0;
        handler.sample(handler.context, &sample);
        assert_false(got.has_stack);
        infp_stacks_free(stacks);
}

static void cut_stacks_are_truncated(void **state)
{
        struct infp_stacks *stacks = open_stacks(0);
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        struct infp_perf_sample sample = sample_of(child, child);
        struct infp_stacks_counts counts;
        unsigned same, depth;

        (void) state;
        give(stacks, child, child);
        finish(stacks);
        depth = depth_of(&same);
        sample.stack_size = 128;
        sample.is_cut = true;
        handler.sample(handler.context, &sample);
        assert_true(got.is_truncated && !got.is_completed && depth_of(&same) < depth);
        assert_in_range(got.cut_bytes, 128 - 64, 128 + 256); /* it says how deep it got */
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(counts.modes[INFP_STACK_CPU].truncated, 1);
        infp_stacks_free(stacks);
}

/* The rest of a stack that is cut: of the same moment, or from memory as long as nothing shows that the thread has moved. */
static void cut_stacks_are_completed(void **state)
{
        const struct infp_stacks_options options = { .env = &env, .put = put, .is_completing = true };
        struct infp_stacks *stacks = NULL;
        struct infp_err err = { "" };
        struct infp_perf_sample sample = sample_of(child, child);
        const struct infp_unwind_dump rest = { sample.stack + 512, sample.registers[INFP_RSP] + 512,
                                               sample.stack_size - 512, true };
        struct infp_perf_handler handler;
        struct infp_stacks_counts counts;
        const struct infp_stack_counts *cpu = &counts.modes[INFP_STACK_CPU];
        uint8_t copy[512];
        unsigned same, late;

        (void) state;
        forget();
        assert_int_equal(infp_stacks_new(&options, &stacks, &err), 0);
        handler = infp_stacks_handler(stacks);
        sample.stack_size = sizeof(copy);
        sample.is_cut = true;
        sample.rest = &rest;
        sample.n_rest = 1;
        handler.sample(handler.context, &sample); /* waits for tables, with its rest */
        finish(stacks);
        assert_true(!got.is_truncated && !got.is_completed);
        depth_of(&same);
        assert_int_equal(same, DEPTH);
        sample.n_rest = 0;
        assert_true(infp_stacks_due(stacks, infp_clock_ns(CLOCK_MONOTONIC)) == UINT64_MAX);
        for (late = 0; late < 1000; late++) { /* for want of a CPU: then it is not completed */
                sample.t_ns = infp_clock_ns(CLOCK_MONOTONIC);
                handler.sample(handler.context, &sample); /* nothing changes in the child's stack */
                if (got.is_completed)
                        break;
        }
        assert_true(!got.is_truncated && got.is_completed && !got.cut_bytes);
        depth_of(&same);
        assert_int_equal(same, DEPTH);
        assert_in_range(infp_stacks_due(stacks, sample.t_ns + 1), sample.t_ns + sample.period,
                        sample.t_ns + sample.period + INFP_NS_PER_MS);
        assert_in_range(infp_stacks_due(stacks, sample.t_ns + 5 * sample.period / 2), sample.t_ns + 3 * sample.period,
                        sample.t_ns + 3 * sample.period + INFP_NS_PER_MS);
        assert_true(infp_stacks_due(stacks, sample.t_ns + 2 * INFP_NS_PER_S) ==
                    UINT64_MAX);                  /* it has ended, or is not cut now */
        memcpy(copy, sample.stack, sizeof(copy)); /* another call, of which the memory knows nothing any more */
        copy[sizeof(copy) - 8] ^= 1;
        sample.stack = copy;
        sample.t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        handler.sample(handler.context, &sample);
        assert_true(got.is_truncated && !got.is_completed);
        sample.stack = moment.stack;
        sample.t_ns = infp_clock_ns(CLOCK_MONOTONIC) - 50 * INFP_NS_PER_MS; /* it may be in another call since */
        handler.sample(handler.context, &sample);
        assert_true(got.is_truncated && !got.is_completed);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(cpu->deep, 1);
        assert_int_equal(cpu->completed, 1);
        assert_int_equal(cpu->moved, 2 + late);
        assert_int_equal(cpu->truncated, 2 + late);
        infp_stacks_free(stacks);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_sample_becomes_rows),
                cmocka_unit_test(ids_are_the_same_in_another_run),
                cmocka_unit_test(rows_that_found_no_room_come_again),
                cmocka_unit_test(what_is_in_use_is_told_again),
                cmocka_unit_test(records_alone_say_what_a_process_has),
                cmocka_unit_test(many_short_processes_cost_little),
                cmocka_unit_test(numbers_are_given_again),
                cmocka_unit_test(the_queue_is_bounded_and_in_order),
                cmocka_unit_test(other_modes_are_told),
                cmocka_unit_test(kernel_frames_lie_below_the_users),
                cmocka_unit_test(cut_stacks_are_truncated),
                cmocka_unit_test(cut_stacks_are_completed),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
