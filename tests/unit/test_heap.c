/* The heap of a run from its windows: sums, what is carried on, what ends with its process. */
#include "stack_rows.h"

#include <math.h>

#include "analyze/memory/heap.h"
#include "model/memory_account.h"

static struct sample_run *begin(void)
{
        static const struct infp_table *const tables[] = {
                &stack_process_table,     &infp_table_threads,        &infp_table_frames,
                &infp_table_symbols,      &infp_table_stacks,         &infp_table_stack_samples,
                &infp_table_heap_windows, &infp_table_memory_account, NULL
        };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

static uint64_t place(struct sample_run *s, const char *object, const char *name, uint64_t address, uint64_t parent)
{
        const uint64_t frame = put_frame(s, INFP_FRAME_NATIVE, object, address, false);

        put_symbol(s, frame, 0, name, "a.c", (int64_t) address, 0, "dwarf");
        return put_stack(s, parent, frame);
}

/* A row of a window of a quarter of a second that ends at t; live 0: nothing is in use. */
static void put_window(struct sample_run *s, uint64_t process, uint64_t stack, double t, double low, double live,
                       bool is_last)
{
        struct infp_row *row = sample_row(s, &infp_table_heap_windows, (uint64_t) (t * 1e9));

        infp_row_id(row, INFP_HEAP_WINDOWS_PROCESS, process);
        infp_row_id(row, INFP_HEAP_WINDOWS_STACK, stack);
        infp_row_f64(row, INFP_HEAP_WINDOWS_SECONDS, 0.25);
        infp_row_f64(row, INFP_HEAP_WINDOWS_ALLOCATED, 10);
        infp_row_f64(row, INFP_HEAP_WINDOWS_ALLOCATED_VARIANCE, 4);
        infp_row_f64(row, INFP_HEAP_WINDOWS_ALLOCATIONS, 2);
        infp_row_i64(row, INFP_HEAP_WINDOWS_SAMPLES, 1);
        infp_row_f64(row, INFP_HEAP_WINDOWS_LIVE, live);
        infp_row_f64(row, INFP_HEAP_WINDOWS_VARIANCE, live);
        infp_row_f64(row, INFP_HEAP_WINDOWS_LOW, low);
        infp_row_f64(row, INFP_HEAP_WINDOWS_OLD, live / 2);
        infp_row_i64(row, INFP_HEAP_WINDOWS_BLOCKS, (int64_t) live);
        infp_row_i64(row, INFP_HEAP_WINDOWS_MEAN_BYTES, 65536);
        infp_row_bool(row, INFP_HEAP_WINDOWS_IS_LAST, is_last);
        sample_put(s);
}

static const struct infp_heap_stack *find(const struct infp_heap *heap, uint64_t id)
{
        for (uint32_t i = 0; i < heap->n_stacks; i++)
                if (heap->stacks[i].id == id)
                        return &heap->stacks[i];
        fail();
        return NULL;
}

static void test_read(void **state)
{
        struct sample_run *s = begin();
        const uint64_t process = put_process(s, 4711, "server"), other = put_process(s, 4712, "tool");
        const uint64_t main_ = place(s, "server", "main", 0x100, 0);
        const uint64_t leak = place(s, "libc.so.6", "strdup", 0x200, place(s, "server", "leak", 0x300, main_));
        const uint64_t once = place(s, "server", "once", 0x400, main_);
        struct stack_sample is = {
                .t_ns = 101 * S, .process = process, .tid = 4711, .mode = "heap-allocated", .weight = 10
        };
        struct infp_heap heap;
        const struct infp_heap_stack *stack;

        (void) state;
        is.stack = leak, put_samples(s, &is, 1);
        is.stack = once, put_samples(s, &is, 1);
        is.process = other, put_samples(s, &is, 1);
        is.process = process, is.mode = "heap-peak", is.stack = leak, is.weight = 300, put_samples(s, &is, 1);
        put_window(s, process, once, 100.25, 0, 50, false);
        for (unsigned i = 1; i < 40; i++) /* grows by 5 a window; in the last one all is freed */
                put_window(s, process, leak, 100.25 + 0.25 * i, 5 * (i - 1), 5 * i, false);
        put_window(s, process, leak, 110.25, 0, 0, true);
        put_window(s, process, once, 110.25, 0, 0, true);
        put_window(s, other, once, 105, 0, 7, true); /* a shell, which runs another program in its place */
        put_window(s, other, once, 106, 0, 3, false);
        sample_end(s);

        sample_check(s, infp_heap_read(s->run, &(struct infp_heap_options){ 0 }, &heap, &s->err));
        assert_int_equal(heap.n_processes, 3);
        assert_int_equal(heap.processes[0].pid, 4711);
        assert_string_equal(heap.processes[0].name, "server");
        assert_true(heap.processes[0].has_ended && heap.processes[0].n_windows == 41 &&
                    heap.processes[0].n_judged == 40);
        assert_true(fabs(heap.processes[0].end.bytes) < 1e-9 && fabs(heap.processes[0].held.bytes - 245) < 1e-9);
        assert_true(fabs(heap.processes[0].held.variance - 245) < 1e-9);
        assert_true(fabs(heap.processes[0].peak.bytes - 300) < 1e-9);
        assert_int_equal(heap.processes[0].allocated.samples, 42);
        assert_true(fabs(heap.processes[0].allocated.bytes - 420) < 1e-9);
        assert_true(fabs(heap.processes[0].allocated.blocks - 84) < 1e-9);
        assert_true(fabs(heap.processes[1].held.bytes - 7) < 1e-9 && fabs(heap.processes[2].held.bytes - 3) < 1e-9);
        assert_true(heap.processes[1].has_ended && !heap.processes[2].has_ended);

        stack = find(&heap, leak);
        assert_int_equal(stack->growth.verdict, INFP_HEAP_LEAK);
        assert_true(fabs(stack->growth.rate - 20) < 1e-6);
        assert_true(fabs(stack->held.bytes - 195) < 1e-9 && fabs(stack->end.bytes) < 1e-9);
        assert_string_equal(infp_profile_str(&heap.profile, stack->place.function), "leak"); /* not the library's */
        assert_int_equal(stack->place.line, 0x300);
        stack = find(&heap, once); /* its only row is carried on */
        assert_int_equal(stack->growth.verdict, INFP_HEAP_STEADY);
        assert_true(fabs(stack->held.bytes - 50) < 1e-9);
        infp_heap_done(&heap);

        sample_check(s, infp_heap_read(s->run, &(struct infp_heap_options){ .pid = 4712 }, &heap, &s->err));
        assert_int_equal(heap.n_processes, 2);
        infp_heap_done(&heap);
        assert_int_equal(infp_heap_read(s->run, &(struct infp_heap_options){ .pid = 1 }, &heap, &s->err), -ENODATA);
        assert_non_null(strstr(s->err.text, "of process 1"));
        sample_free(s);
}

/* The recording was killed after a long time in which nothing happened: what grew has stopped. */
static void test_quiet(void **state)
{
        struct sample_run *s = begin();
        const uint64_t process = put_process(s, 4711, "server"), stack = place(s, "server", "load", 0x100, 0);
        struct stack_sample is = {
                .t_ns = 200 * S, .process = process, .tid = 4711, .mode = "heap-allocated", .weight = 10
        };
        struct infp_heap heap;

        (void) state;
        is.stack = stack;
        for (unsigned i = 0; i < 40; i++)
                put_window(s, process, stack, 100.25 + 0.25 * i, 5 * i, 5 * (i + 1), false);
        put_samples(s, &is, 1);
        sample_end(s);
        s->run->info.started_t_ns = 100 * S;
        s->run->info.ended_t_ns = 200 * S;
        sample_check(s, infp_heap_read(s->run, &(struct infp_heap_options){ 0 }, &heap, &s->err));
        assert_true(heap.processes[0].n_windows > 60); /* as long as they would have been */
        assert_true(heap.stacks[0].growth.verdict != INFP_HEAP_LEAK &&
                    heap.stacks[0].growth.verdict != INFP_HEAP_GROWS);
        infp_heap_done(&heap);
        sample_free(s);
}

static void put_name(struct sample_run *s, uint64_t t_ns, uint64_t process, const char *name)
{
        struct infp_row *row = sample_row(s, &stack_process_table, t_ns);

        infp_row_id(row, 0, process);
        infp_row_i64(row, 1, (int64_t) (process / 1000));
        infp_row_str(row, 2, name);
        sample_put(s);
}

/* A process that replaces its program: each has its own peak, and what the first one held is gone. */
static void test_exec(void **state)
{
        struct sample_run *s = begin();
        const uint64_t process = put_process(s, 4711, "tool"), a = place(s, "first", "a", 0x100, 0),
                       b = place(s, "second", "b", 0x200, 0);
        struct stack_sample is = {
                .t_ns = 101 * S, .process = process, .tid = 4711, .mode = "heap-allocated", .weight = 9
        };
        struct infp_profile profile;
        struct infp_heap heap;

        (void) state;
        is.stack = a, put_samples(s, &is, 1);
        is.stack = b, put_samples(s, &is, 1);
        put_window(s, process, a, 101, 0, 50, false);
        put_window(s, process, a, 102, 0, 40, true);
        is.mode = "heap", is.stack = a, is.weight = 40, is.t_ns = 102 * S, put_samples(s, &is, 1);
        is.mode = "heap-peak", is.weight = 300, put_samples(s, &is, 1);
        is.stack = b, is.weight = 100, put_samples(s, &is, 1); /* at the same time: of the same program */
        put_name(s, 102 * S + S / 2, process, "second");
        put_window(s, process, b, 102.2, 0, 60, false); /* it had blocks before the end of the first one was seen */
        put_window(s, process, b, 104, 0, 7, true);
        is.mode = "heap", is.weight = 7, is.t_ns = 104 * S, put_samples(s, &is, 1);
        is.mode = "heap-peak", is.weight = 200, is.t_ns = 103 * S, put_samples(s, &is, 1);
        sample_end(s);

        sample_check(s, infp_heap_read(s->run, &(struct infp_heap_options){ 0 }, &heap, &s->err));
        assert_int_equal(heap.n_processes, 2);
        assert_true(fabs(heap.processes[0].peak.bytes - 400) < 1e-9 && fabs(heap.processes[1].peak.bytes - 200) < 1e-9);
        assert_true(heap.processes[0].is_replaced && !heap.processes[1].is_replaced);
        assert_string_equal(heap.processes[0].name, "tool");
        assert_string_equal(heap.processes[1].name, "second");
        /* A block that waited for its stack was allocated before those that the first window began with. */
        assert_ptr_equal(infp_heap_program(&heap, process, 90 * S), &heap.processes[0]);
        assert_ptr_equal(infp_heap_program(&heap, process, 101 * S), &heap.processes[0]);
        assert_ptr_equal(infp_heap_program(&heap, process, 103 * S), &heap.processes[1]);
        assert_null(infp_heap_program(&heap, process + 1, 103 * S));
        infp_heap_done(&heap);

        sample_check(
                s, infp_profile_read(s->run, &(struct infp_profile_options){ .mode = "heap-peak" }, &profile, &s->err));
        assert_true(fabs(profile.weight - 400) < 1e-9);
        infp_profile_done(&profile);
        sample_check(s, infp_profile_read(s->run, &(struct infp_profile_options){ .mode = "heap" }, &profile, &s->err));
        assert_true(fabs(profile.weight - 7) < 1e-9);
        infp_profile_done(&profile);
        sample_free(s);
}

static void put_account(struct sample_run *s, uint64_t t_ns, uint64_t process, enum infp_memory_kind kind,
                        int64_t bytes)
{
        struct infp_row *row = sample_row(s, &infp_table_memory_account, t_ns);

        infp_row_id(row, INFP_MEMORY_ACCOUNT_PROCESS, process);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_KIND, infp_memory_kind_name(kind));
        infp_row_i64(row, INFP_MEMORY_ACCOUNT_BYTES, bytes);
        sample_put(s);
}

/* Grows by 5 a window until 105 s, then stays; another function holds 30 from the begin, and frees them at 103 s. */
static struct sample_run *begin_range(uint64_t *ret_grow, uint64_t *ret_once)
{
        struct sample_run *s = begin();
        const uint64_t process = put_process(s, 4711, "server"), old = put_process(s, 4712, "short"),
                       grow = place(s, "server", "grow", 0x100, 0), once = place(s, "server", "once", 0x200, 0);
        struct stack_sample is = {
                .t_ns = 103 * S, .process = process, .tid = 4711, .mode = "heap-peak", .weight = 400
        };

        is.stack = grow, put_samples(s, &is, 1);
        is.mode = "heap-allocated", put_samples(s, &is, 1);
        is.stack = once, put_samples(s, &is, 1);
        is.process = old, put_samples(s, &is, 1);
        put_window(s, process, once, 100.25, 0, 30, false);
        put_window(s, old, once, 101, 0, 70, true);
        for (unsigned i = 1; i <= 20; i++) {
                put_window(s, process, grow, 100.25 + 0.25 * i, 5 * (i - 1), 5 * i, false);
                if (i == 11)
                        put_window(s, process, once, 103, 0, 0, false);
        }
        put_window(s, process, grow, 110, 0, 0, true);
        put_account(s, 101 * S, process, INFP_MEMORY_HEAP, 7);
        for (unsigned i = 0; i < 2; i++) {
                put_account(s, (103 + 5 * i) * S, process, INFP_MEMORY_HEAP, 200 + i);
                put_account(s, (103 + 5 * i) * S, process, INFP_MEMORY_STACK, 1000);
                put_account(s, (103 + 5 * i) * S, process, INFP_MEMORY_ANONYMOUS, 50);
        }
        sample_end(s);
        s->run->info.started_t_ns = 100 * S;
        s->run->info.ended_t_ns = 110 * S;
        *ret_grow = grow;
        *ret_once = once;
        return s;
}

static void check_read(struct sample_run *s, const char *from, const char *to, struct infp_heap *ret)
{
        sample_check(s, infp_heap_read(s->run, &(struct infp_heap_options){ .from = from, .to = to }, ret, &s->err));
        assert_true(ret->is_part);
}

static void test_range(void **state)
{
        uint64_t grow, once;
        struct sample_run *s = begin_range(&grow, &once);
        const struct infp_heap_process *process;
        struct infp_heap heap;

        (void) state;
        check_read(s, "+2s", "+4.75s", &heap); /* eleven windows */
        assert_int_equal(heap.n_processes, 1); /* the other one has ended before */
        process = &heap.processes[0];
        assert_int_equal(process->pid, 4711);
        assert_int_equal(process->n_windows - process->n_before, 11);
        assert_true(process->begin_ns == 102 * S && infp_heap_end_ns(process) == (uint64_t) (104.75 * S));
        assert_true(!process->has_ended && process->goes_on && process->is_whole);
        assert_true(fabs(process->end.bytes - 90) < 1e-9 && fabs(process->held.bytes - 90) < 1e-9);
        assert_true(fabs(process->peak.bytes - 400) < 1e-9 && process->peak_ns == 103 * S);
        assert_true(process->resident.t_ns == 103 * S && fabs(process->resident.bytes - 250) < 1e-9);
        assert_true(fabs(process->resident.in_use.bytes - 55) < 1e-9);
        assert_int_equal(process->allocated.samples, 12);
        assert_int_equal(find(&heap, grow)->growth.verdict, INFP_HEAP_LEAK);
        assert_true(fabs(find(&heap, grow)->growth.rate - 20) < 1e-6);
        assert_true(fabs(find(&heap, once)->held.bytes) < 1e-9);
        infp_heap_done(&heap);

        check_read(s, NULL, "+2s", &heap);
        assert_int_equal(heap.n_processes, 2);
        assert_true(fabs(heap.processes[0].peak.bytes - 70) < 1e-9 && fabs(heap.processes[0].end.bytes - 70) < 1e-9);
        assert_true(fabs(heap.processes[1].peak.bytes - 65) < 1e-9); /* the peak of 103 s is not in it */
        assert_int_equal(heap.processes[1].resident.t_ns, 101 * S);
        assert_true(!heap.processes[0].resident.t_ns); /* of the other one there is no account */
        infp_heap_done(&heap);

        check_read(s, "+5.2s", "+9.7s", &heap); /* nothing happens: what it holds is carried on */
        process = &heap.processes[0];
        assert_true(fabs(process->end.bytes - 100) < 1e-9 && fabs(process->peak.bytes - 100) < 1e-9);
        assert_true(fabs(process->resident.bytes - 251) < 1e-9 && fabs(process->resident.in_use.bytes - 100) < 1e-9);
        assert_true(process->allocated.bytes < 1e-9 && !process->allocated.samples);
        assert_int_equal(find(&heap, grow)->growth.verdict, INFP_HEAP_STEADY);
        assert_int_equal(process->n_stacks, 1); /* `once` has nothing there */
        infp_heap_done(&heap);

        check_read(s, "+3.1s", "+3.15s", &heap); /* shorter than a window */
        assert_int_equal(heap.processes[0].n_windows - heap.processes[0].n_before, 1);
        assert_true(fabs(heap.processes[0].end.bytes - 60) < 1e-9);
        infp_heap_done(&heap);

        check_read(s, "+5s", NULL, &heap); /* with its end, before which it frees all */
        process = &heap.processes[0];
        assert_true(process->has_ended && fabs(process->end.bytes) < 1e-9 && fabs(process->held.bytes - 100) < 1e-9);
        infp_heap_done(&heap);
        assert_int_equal(
                infp_heap_read(s->run, &(struct infp_heap_options){ .pid = 4712, .from = "+3s" }, &heap, &s->err),
                -ENODATA);
        assert_non_null(strstr(s->err.text, "none in that range"));
        sample_free(s);
}

static void test_none(void **state)
{
        struct sample_run *s = begin();
        struct infp_heap heap;

        (void) state;
        put_process(s, 4711, "server");
        sample_end(s);
        assert_int_equal(infp_heap_read(s->run, &(struct infp_heap_options){ 0 }, &heap, &s->err), -ENODATA);
        assert_non_null(strstr(s->err.text, "infprof record --heap -- COMMAND"));
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read),  cmocka_unit_test(test_quiet), cmocka_unit_test(test_exec),
                cmocka_unit_test(test_range), cmocka_unit_test(test_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
