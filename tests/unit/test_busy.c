/* Waiting that uses CPU, and the thread that had most: stacks of a run, added up by hand. */
#include "stack_rows.h"

#include <math.h>

#include "analyze/report_functions.h"

static uint64_t place(struct sample_run *s, enum infp_frame_kind kind, const char *object, uint64_t address,
                      const char *name, uint64_t parent)
{
        const uint64_t frame = put_frame(s, kind, object, address, false);

        put_symbol(s, frame, 0, name, NULL, 0, 0, "symtab");
        return put_stack(s, parent, frame);
}

static void test_busy(void **state)
{
        struct sample_run *s = stack_begin();
        const uint64_t process = put_process(s, 4711, "server"), other = put_process(s, 4712, "server");
        const uint64_t main_ = place(s, INFP_FRAME_NATIVE, "server", 0x100, "main", 0);
        const uint64_t gomp = place(s, INFP_FRAME_NATIVE, "libgomp-a34b3233.so.1", 0x200, "[libgomp+0x200]", main_);
        const uint64_t work = place(s, INFP_FRAME_NATIVE, "server", 0x300, "main._omp_fn.0", gomp);
        const uint64_t yield = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x400, "__sched_yield", main_);
        const uint64_t call = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x500, "do_sched_yield", yield);
        const uint64_t futex = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x600, "do_futex", gomp);
        const uint64_t ggml = place(s, INFP_FRAME_NATIVE, "libggml-cpu.so", 0x700, "ggml_barrier", main_);
        const uint64_t poll = place(s, INFP_FRAME_NATIVE, "libgomp-a34b3233.so.1", 0x800, "[libgomp+0x800]", main_);
        const uint64_t polled = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x400, "__sched_yield", poll);
        const uint64_t file = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x900, "vfs_read", main_);
        struct stack_sample is = { .t_ns = 2 * S, .process = process, .tid = 4711, .mode = "cpu", .weight = 0.5 };
        struct infp_report_functions functions;

        (void) state;
        is.stack = work, put_samples(s, &is, 5); /* work that the runtime has called */
        is.stack = file, put_samples(s, &is, 1);
        is.tid = 4712;
        is.stack = gomp, put_samples(s, &is, 3);
        is.stack = futex, put_samples(s, &is, 1); /* its call into the kernel */
        is.stack = polled, put_samples(s, &is, 1);
        is.process = other; /* a tid of another process namespace */
        is.stack = yield, put_samples(s, &is, 2);
        is.stack = call, put_samples(s, &is, 1);
        is.stack = ggml, put_samples(s, &is, 4);
        is.mode = "wall", put_samples(s, &is, 40);
        sample_end(s);
        sample_check(s, infp_report_functions_read(s->run, 0, 0, INFP_PROFILE_WHOLE, &functions, &s->err));
        assert_true(fabs(functions.busy.seconds - 9) < 1e-9);
        assert_true(fabs(functions.busy.waited_s[INFP_BUSY_OPENMP] - 2.5) < 1e-9);
        assert_true(fabs(functions.busy.waited_s[INFP_BUSY_YIELD] - 1.5) < 1e-9);
        assert_true(fabs(functions.busy.waited_s[INFP_BUSY_GGML] - 2) < 1e-9);
        assert_true(fabs(infp_busy_waited_s(&functions.busy) - 6) < 1e-9);
        assert_true(fabs(functions.busy.thread_s - 3.5) < 1e-9);
        assert_int_equal(functions.busy.tid, 4712);
        infp_report_functions_done(&functions);
        sample_free(s);
}

/* Each mode has its own samples and functions, though all are read at once; waits for a CPU are counted without mode cpu, too. */
static void test_modes_without_cpu(void **state)
{
        struct sample_run *s = stack_begin();
        const uint64_t process = put_process(s, 4711, "server");
        const uint64_t work = place(s, INFP_FRAME_NATIVE, "server", 0x100, "work", 0);
        const uint64_t wait = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x200, "schedule", 0);
        struct stack_sample is = { .t_ns = 2 * S, .process = process, .tid = 4711, .mode = "wall", .weight = 0.5 };
        struct infp_report_functions functions;

        (void) state;
        is.stack = work, put_samples(s, &is, 3);
        is.mode = "off-cpu", is.state = "runnable", is.stack = wait, put_samples(s, &is, 2);
        is.state = "sleeping", put_samples(s, &is, 5);
        sample_end(s);
        sample_check(s, infp_report_functions_read(s->run, 0, 0, INFP_PROFILE_WHOLE, &functions, &s->err));
        assert_int_equal(functions.n, 2);
        assert_string_equal(functions.flames[0].mode, "wall");
        assert_int_equal(functions.flames[0].samples, 3);
        assert_int_equal(functions.flames[0].all_samples, 3);
        assert_string_equal(functions.flames[1].mode, "off-cpu");
        assert_int_equal(functions.flames[1].samples, 7);
        assert_true(functions.busy.has_waits && functions.busy.seconds == 0 && functions.busy.thread_s == 0);
        assert_true(fabs(functions.busy.runnable_s - 1) < 1e-9);
        infp_report_functions_done(&functions);
        sample_free(s);
}

/* Waits for a lock, not those for work, which are in futex as well; code of the allocator, not what it was called from. */
static void test_code(void **state)
{
        struct sample_run *s = stack_begin();
        const uint64_t process = put_process(s, 4711, "server");
        const uint64_t main_ = place(s, INFP_FRAME_NATIVE, "server", 0x100, "main", 0);
        const uint64_t critical = place(s, INFP_FRAME_NATIVE, "server", 0x110, "update_table", main_);
        const uint64_t mutex = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x200, "pthread_mutex_lock", critical);
        const uint64_t lll = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x210, "[libc.so.6+0x210]", mutex);
        const uint64_t futex = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x300, "futex_wait", lll);
        const uint64_t cond = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x220, "pthread_cond_wait", critical);
        const uint64_t idle = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x300, "futex_wait", cond);
        const uint64_t read = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x310, "vfs_read", mutex);
        const uint64_t inner = place(s, INFP_FRAME_NATIVE, "server", 0x120, "work", mutex);
        const uint64_t heap = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x230, "malloc", critical);
        const uint64_t fault = place(s, INFP_FRAME_KERNEL, "[kernel]", 0x320, "do_page_fault", heap);
        const uint64_t own = place(s, INFP_FRAME_NATIVE, "server", 0x130, "malloc_statistics", main_);
        const uint64_t hook = place(s, INFP_FRAME_NATIVE, "server", 0x140, "called_back", heap);
        const uint64_t tokens = place(s, INFP_FRAME_NATIVE, "libllama.so", 0x400, "llama_tokenize", main_);
        const uint64_t copy = place(s, INFP_FRAME_NATIVE, "libc.so.6", 0x240, "memmove", tokens);
        struct stack_sample is = { .t_ns = 2 * S, .process = process, .tid = 4711, .mode = "off-cpu", .weight = 0.5 };
        struct infp_report_functions functions;
        const struct infp_code *code = &functions.code;

        (void) state;
        is.state = "sleeping in futex", is.stack = futex, put_samples(s, &is, 4);
        is.stack = idle, put_samples(s, &is, 10);
        is.stack = inner, put_samples(s, &is, 3);
        is.state = "blocked", is.stack = read, put_samples(s, &is, 1);
        is.state = "runnable", is.stack = futex, put_samples(s, &is, 2);
        is.mode = "cpu", is.state = NULL;
        is.stack = heap, put_samples(s, &is, 2);
        is.stack = fault, put_samples(s, &is, 1);
        is.stack = own, put_samples(s, &is, 1);
        is.stack = hook, put_samples(s, &is, 1);
        is.stack = copy, put_samples(s, &is, 3);
        is.stack = futex, put_samples(s, &is, 2);
        sample_end(s);
        sample_check(s, infp_report_functions_read(s->run, 0, 0, INFP_PROFILE_WHOLE, &functions, &s->err));
        assert_true(fabs(code->of[INFP_CODE_LOCK].seconds - 2.5) < 1e-9);
        assert_int_equal(code->of[INFP_CODE_LOCK].places.n, 1);
        assert_string_equal(infp_strings_get(&functions.strings[0], code->of[INFP_CODE_LOCK].places.list[0].function),
                            "update_table");
        assert_int_equal(code->samples, 10);
        assert_true(fabs(infp_code_effective(code) - 10) < 1e-9);
        assert_true(fabs(code->of[INFP_CODE_ALLOCATOR].seconds - 1.5) < 1e-9);
        assert_int_equal(code->of[INFP_CODE_TOKENIZER].samples, 3);
        assert_int_equal(code->of[INFP_CODE_SAMPLING].samples, 0);
        infp_report_functions_done(&functions);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_busy), cmocka_unit_test(test_modes_without_cpu),
                                            cmocka_unit_test(test_code) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
