/* What backtrace knows of the threads and the code of a process whose memory is made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "app/backtrace/parts.h"
#include "python_memory.h"

enum { VERSION = 0x30b, N_THREADS = 100, OF_PYTHON = 0x7000, OF_NATIVE = 0x9000, INTERPRETER_ID = 5 };

struct world {
        struct fake *fake;
        struct infp_backtraces b;
        struct infp_backtrace_python python;
        struct infp_backtrace_walked walked;
        uint64_t runtime, interpreter, newest;
};

/* Before all others, as interpreters do. */
static uint64_t add_thread(struct world *w, uint64_t pthread, uint64_t frame)
{
        const struct infp_python_layout *l = &w->fake->layout;
        const uint64_t address = fake_thread(w->fake, w->interpreter, frame);

        fake_put(w->fake, address + l->thread_pthread, pthread);
        fake_put(w->fake, address + l->thread_next, w->newest);
        fake_put(w->fake, w->interpreter + l->interp_threads, address);
        w->newest = address;
        return address;
}

static struct world *world_new(void)
{
        struct world *w = calloc(1, sizeof(*w));
        struct infp_backtrace_python *python;

        if (!w)
                abort();
        w->fake = fake_new(VERSION);
        w->runtime = fake_take(w->fake, 2048);
        w->interpreter = fake_take(w->fake, 16384);
        fake_put(w->fake, w->runtime + w->fake->layout.runtime_interpreters, w->interpreter);
        fake_put(w->fake, w->interpreter + w->fake->layout.interp_id, INTERPRETER_ID);
        python = &w->python;
        python->b = &w->b;
        python->memory = fake_memory(w->fake);
        python->found.layout = w->fake->layout;
        python->found.runtime = w->runtime;
        python->found.code_type = FAKE_TYPE;
        python->scratch = malloc(sizeof(*python->scratch));
        python->threads = malloc(INFP_BACKTRACE_THREADS * sizeof(*python->threads));
        assert_true(python->scratch && python->threads);
        return w;
}

static void world_free(struct world *w)
{
        infp_backtrace_python_done(&w->python);
        infp_strings_done(&w->b.texts);
        free(w->fake);
        free(w);
}

/* Returns how often memory was read for it. */
static unsigned walk(struct world *w, uint64_t pthread)
{
        const unsigned before = w->fake->n_reads;

        infp_backtrace_python_walk(&w->python, pthread, &w->walked);
        return w->fake->n_reads - before;
}

/* A thread that runs no Python costs no list of those that do, until there is a new one. */
static void test_native_threads(void **state)
{
        struct world *w = world_new();
        uint64_t last;

        (void) state;
        for (unsigned i = 0; i < N_THREADS; i++)
                add_thread(w, OF_PYTHON + i, 0);
        infp_backtrace_python_list(&w->python);
        assert_int_equal(w->python.n_threads, N_THREADS);
        assert_in_range(walk(w, OF_NATIVE), 1, 10);
        assert_null(w->walked.thread);
        walk(w, OF_PYTHON);
        assert_non_null(w->walked.thread);

        last = add_thread(w, OF_NATIVE, 0);
        assert_in_range(walk(w, OF_NATIVE + 1), N_THREADS, 3 * N_THREADS);
        assert_null(w->walked.thread);
        assert_in_range(walk(w, OF_NATIVE), 1, 10);
        assert_non_null(w->walked.thread);

        /* It ends; the next one has its place, and another thread. */
        fake_put(w->fake, last + w->fake->layout.thread_pthread, OF_NATIVE + 1);
        walk(w, OF_NATIVE + 1);
        assert_true(w->walked.thread && w->walked.thread->state == last);
        walk(w, OF_NATIVE);
        assert_null(w->walked.thread);
        world_free(w);
}

static const char *function(struct world *w)
{
        struct infp_backtrace_frame frame;

        assert_int_equal(w->walked.n, 1);
        assert_int_equal(w->walked.end, INFP_PYTHON_WHOLE);
        assert_true(infp_backtrace_python_frame(&w->python, &w->walked, 0, &frame));
        return frame.func;
}

/* A code object with the place of one that was freed, and texts with the places of its texts: all pointers are the same. */
static void test_code_in_the_place_of_another(void **state)
{
        struct world *w = world_new();
        const uint64_t file = fake_text(w->fake, "/f0.py"), name = fake_text(w->fake, "f0"),
                       code = fake_code(w->fake, file, name, 1, "", 0), frame = fake_take(w->fake, 128);

        (void) state;
        fake_frame(w->fake, frame, code, 0, code + w->fake->layout.code_bytes, INFP_PYTHON_OWNER_THREAD, true);
        add_thread(w, OF_PYTHON, frame);
        add_thread(w, OF_PYTHON + 1, frame);
        infp_backtrace_python_list(&w->python);
        walk(w, OF_PYTHON);
        assert_string_equal(function(w), "f0");
        *fake_at(w->fake, name + w->fake->layout.str_ascii + 1) = '1';
        walk(w, OF_PYTHON + 1);
        assert_string_equal(function(w), "f1");
        *fake_at(w->fake, name + w->fake->layout.str_ascii + 1) = '2';
        assert_true(infp_backtrace_python_walk_running(&w->python, &w->python.threads[0], &w->walked));
        assert_string_equal(function(w), "f2");
        world_free(w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_native_threads),
                cmocka_unit_test(test_code_in_the_place_of_another),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
