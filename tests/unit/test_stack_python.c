/* Python frames in stacks: a child's recursion stands for the interpreter's loop, which each of its frames has entered for a function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sampler/python/names.h"
#include "stack_moment.h"

static struct infp_python_names names;
static struct infp_python_frame frames[DEPTH + 1];
static uint64_t ids[DEPTH + 1];
/* The recursion is compiled to frames of one function: nothing else lies there. */
static struct infp_python_range loop;

static struct infp_stacks *open_stacks(void)
{
        const struct infp_stacks_options options = { .env = &env, .put = put, .python = &names };
        struct infp_stacks *stacks = NULL;
        struct infp_err err = { "" };

        forget();
        if (infp_stacks_new(&options, &stacks, &err) < 0)
                fail_msg("%s", err.text);
        return stacks;
}

/* The frame that the stack has most often is the recursion's: its return address. */
static uint64_t recursion_pc(void)
{
        const uint64_t *words = (const void *) moment.stack;
        const size_t n = moment.dump.size / 8;

        for (size_t i = 0; i < n; i++) {
                unsigned same = 0;

                for (size_t k = i; k < n; k++)
                        same += words[k] == words[i];
                if (words[i] >= (uintptr_t) deep && words[i] < (uintptr_t) deep + 4096 && same >= DEPTH - 1)
                        return words[i];
        }
        fail_msg("the recursion is not on its stack");
        return 0;
}

static struct infp_stack_counts take(struct infp_stacks *stacks, const struct infp_python_moment *python)
{
        const struct infp_perf_handler handler = infp_stacks_handler(stacks);
        struct infp_perf_sample sample = {
                .t_ns = infp_clock_ns(CLOCK_MONOTONIC),
                .pid = child,
                .tid = child,
                .cpu = 1,
                .period = 10000000,
                .has_registers = !python->is_alone,
                .stack = moment.stack,
                .stack_size = (uint32_t) moment.dump.size,
                .is_cut = moment.dump.is_cut,
                .python = python,
        };
        struct infp_stacks_counts counts;

        memcpy(sample.registers, moment.values, sizeof(sample.registers));
        handler.sample(handler.context, &sample);
        infp_stacks_end(stacks, infp_clock_ns(CLOCK_MONOTONIC) + 20 * INFP_NS_PER_S);
        infp_stacks_counts(stacks, &counts);
        assert_int_equal(got.n_samples, 1);
        return counts.modes[INFP_STACK_CPU];
}

/* How many of the stack's frames are the Python functions, and how many others stand between those. */
static unsigned n_python(unsigned *ret_between)
{
        unsigned n = 0, others = 0;

        *ret_between = 0;
        for (uint64_t node = got.stack; node; node = *infp_map_get(&got.parents, node)) {
                const uint64_t frame = *infp_map_get(&got.nodes, node);
                bool is_python = false;

                for (unsigned i = 0; i < DEPTH + 1; i++)
                        is_python |= frame == ids[i];
                if (is_python && n)
                        *ret_between += others;
                others = is_python ? 0 : others + 1;
                n += is_python;
        }
        return n;
}

static int begin_names(void **state)
{
        static char functions[DEPTH + 1][16];
        uint64_t pc;

        if (begin(state) < 0)
                return -1;
        pc = recursion_pc();
        loop = (struct infp_python_range){ .begin = pc - 1, .end = pc };
        for (unsigned i = 0; i < DEPTH + 1; i++) {
                struct infp_python_name name = { .file = "/srv/model.py", .line = 10 + i, .first_line = 9 + i };

                snprintf(functions[i], sizeof(functions[i]), "step_%u", i);
                name.function = functions[i];
                frames[i] = (struct infp_python_frame){ .code = 4096 + 64 * i, .is_entry = true };
                ids[i] = infp_python_names_add(&names, &name);
        }
        return 0;
}

static int end_names(void **state)
{
        infp_python_names_done(&names);
        return end(state);
}

static struct infp_python_moment moment_of(uint32_t n)
{
        return (struct infp_python_moment){
                .ranges = &loop, .n_ranges = 1, .has_frames = true, .n = n, .frames = frames, .ids = ids
        };
}

/* The recursion's return address is on the stack once for each call but the first. */
static unsigned n_loops(void)
{
        const uint64_t *words = (const void *) moment.stack;
        unsigned n = 0;

        for (size_t i = 0; i < moment.dump.size / 8; i++)
                n += words[i] == loop.end;
        return n;
}

static void python_frames_take_the_places_of_the_loop(void **state)
{
        struct infp_stacks *stacks = open_stacks();
        const struct infp_python_moment python = moment_of(n_loops());
        const struct infp_stack_counts counts = take(stacks, &python);
        unsigned between;

        (void) state;
        assert_int_equal(counts.python_merged, 1);
        assert_int_equal(counts.python_unmerged + counts.python_torn + counts.python_missed, 0);
        assert_int_equal(n_python(&between), python.n);
        assert_int_equal(between, 0);
        assert_int_equal(got.n_symbol_rows, python.n); /* each function once */
        assert_false(got.is_truncated);
        infp_stacks_free(stacks);
}

/* What does not fit, was torn or was not read is counted, and the stack stays native. */
static void what_is_not_sure_stays_native(void **state)
{
        static const struct {
                bool has_frames;
                enum infp_python_end end;
                int more; /* Python frames than loops */
                size_t counter;
        } cases[] = {
                { true, INFP_PYTHON_WHOLE, 1, offsetof(struct infp_stack_counts, python_unmerged) },
                { true, INFP_PYTHON_WHOLE, -1, offsetof(struct infp_stack_counts, python_unmerged) },
                { true, INFP_PYTHON_TORN, 0, offsetof(struct infp_stack_counts, python_torn) },
                { true, INFP_PYTHON_MOVED, 0, offsetof(struct infp_stack_counts, python_torn) },
                { true, INFP_PYTHON_CYCLE, 0, offsetof(struct infp_stack_counts, python_torn) },
                { false, INFP_PYTHON_WHOLE, 0, offsetof(struct infp_stack_counts, python_missed) },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_stacks *stacks = open_stacks();
                struct infp_python_moment python = moment_of((uint32_t) ((int) n_loops() + cases[i].more));
                struct infp_stack_counts counts;
                unsigned between;

                python.has_frames = cases[i].has_frames;
                python.n = python.has_frames ? python.n : 0;
                python.end = cases[i].end;
                counts = take(stacks, &python);
                assert_int_equal(*(const uint64_t *) (const void *) ((const char *) &counts + cases[i].counter), 1);
                assert_int_equal(
                        counts.python_merged + counts.python_unmerged + counts.python_torn + counts.python_missed, 1);
                assert_int_equal(n_python(&between), 0);
                assert_int_equal(got.n_symbol_rows, 0);
                infp_stacks_free(stacks);
        }
}

/* Read of a thread that was not stopped: they are the stack, and are not merged. */
static void python_frames_alone_are_a_stack(void **state)
{
        (void) state;
        for (int is_cut = 0; is_cut < 2; is_cut++) {
                struct infp_stacks *stacks = open_stacks();
                struct infp_python_moment python = moment_of(5);
                struct infp_stack_counts counts;
                unsigned between;

                python.is_alone = true;
                python.end = is_cut ? INFP_PYTHON_TOO_DEEP : INFP_PYTHON_WHOLE;
                counts = take(stacks, &python);
                assert_int_equal(
                        counts.python_merged + counts.python_unmerged + counts.python_torn + counts.python_missed, 0);
                assert_int_equal(counts.python_alone, 1);
                assert_int_equal(n_python(&between), 5);
                assert_int_equal(got.nodes.n, 5);
                assert_int_equal(got.is_truncated, is_cut);
                infp_stacks_free(stacks);
        }
}

/* Outermost Python frames that were not read: the loops that are left stay, and the stack says that it is not whole. */
static void a_walk_that_was_too_deep_is_truncated(void **state)
{
        struct infp_stacks *stacks = open_stacks();
        struct infp_python_moment python = moment_of(5);
        struct infp_stack_counts counts;
        unsigned between;

        (void) state;
        python.end = INFP_PYTHON_TOO_DEEP;
        counts = take(stacks, &python);
        assert_int_equal(counts.python_merged, 1);
        assert_int_equal(counts.truncated, 1);
        assert_int_equal(n_python(&between), 5);
        assert_true(got.is_truncated);
        infp_stacks_free(stacks);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(python_frames_take_the_places_of_the_loop),
                cmocka_unit_test(what_is_not_sure_stays_native),
                cmocka_unit_test(python_frames_alone_are_a_stack),
                cmocka_unit_test(a_walk_that_was_too_deep_is_truncated),
        };

        return cmocka_run_group_tests(tests, begin_names, end_names);
}
