/* Rows of --wall by what its reader tells: one a stretch in which a thread did not run, at most a second long. */
#include <sys/syscall.h>

#include "sampled_rows.h"

#include "base/time.h"
#include "sampler/waits/wall_rows.h"

#define PERIOD (50 * INFP_NS_PER_MS)
#define BEGIN (UINT64_C(100) * INFP_NS_PER_S)
enum { TID = 77, OTHER = 78 };

struct world {
        struct sampled sampled;
        struct infp_wall_rows rows;
        uint64_t now_ns;
};

static void open_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        w->sampled = sampled_open();
        w->now_ns = BEGIN;
        infp_wall_rows_init(&w->rows, w->sampled.stacks);
        w->rows.flushed_ns = BEGIN;
}

static void close_world(struct world *w)
{
        infp_stacks_end(w->sampled.stacks, 0);
        infp_wall_rows_done(&w->rows);
        sampled_close(&w->sampled);
}

static void moment_of(struct world *w, int32_t tid, char letter, int64_t call, enum infp_gil gil)
{
        const struct infp_wall_message message = {
                .kind = INFP_WALL_MESSAGE_MOMENT,
                .pid = getpid(),
                .tid = tid,
                .gil = gil,
                .moment = { .t_ns = w->now_ns, .letter = letter, .has_call = letter != 'R', .call = call },
        };

        infp_wall_rows_take(&w->rows, &message);
}

static void moment(struct world *w, int32_t tid, char letter, int64_t call)
{
        moment_of(w, tid, letter, call, INFP_GIL_UNKNOWN);
}

static void gil(struct world *w, int32_t tid, enum infp_gil gil)
{
        const struct infp_wall_message message = { .kind = INFP_WALL_MESSAGE_GIL, .tid = tid, .gil = gil };

        infp_wall_rows_take(&w->rows, &message);
}

static void gone(struct world *w, int32_t tid)
{
        const struct infp_wall_message message = { .kind = INFP_WALL_MESSAGE_GONE, .tid = tid };

        infp_wall_rows_take(&w->rows, &message);
}

static void rounds(struct world *w, unsigned n, uint64_t period_ns)
{
        while (n-- > 0) {
                const struct infp_wall_message message = { .kind = INFP_WALL_MESSAGE_ROUND,
                                                           .moment = { .t_ns = w->now_ns },
                                                           .period_ns = period_ns };

                infp_wall_rows_take(&w->rows, &message);
                w->now_ns += period_ns;
        }
}

static void test_stretches(void **state)
{
        struct world w;
        char text[64];

        (void) state;
        open_world(&w);
        moment(&w, TID, 'S', SYS_futex);
        rounds(&w, 10, PERIOD);
        moment(&w, TID, 'S', SYS_read);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.5, 10, 1);
        rounds(&w, 3, PERIOD);
        moment(&w, TID, 'R', 0);
        sampled_check(&w.sampled, TID, "sleeping in read", 0.15, 3, 1);
        rounds(&w, 1, PERIOD);
        moment(&w, TID, 'R', 0);
        rounds(&w, 1, PERIOD);
        moment(&w, TID, 'D', -1);
        sampled_check(&w.sampled, TID, NULL, 0.1, 2, 2);
        assert_string_equal(sampled_leaf(&w.sampled, TID, text, sizeof(text)), "[running]");
        /* A round that did not end counts for nobody. */
        infp_wall_rows_end(&w.rows);
        sampled_check(&w.sampled, TID, "uninterruptible", 0, 0, 0);
        close_world(&w);
}

static void task(struct world *w, int32_t tid, uint64_t address, const char *name, const char *waits_for)
{
        union {
                struct infp_wall_message message;
                uint8_t bytes[sizeof(struct infp_wall_message) + sizeof(struct infp_wall_task_words)];
        } told = { .message = { .kind = name ? INFP_WALL_MESSAGE_TASK : INFP_WALL_MESSAGE_TASK_GONE,
                                .pid = getpid(),
                                .tid = tid,
                                .task = address,
                                .moment = { .t_ns = w->now_ns },
                                .stack_size = name ? sizeof(struct infp_wall_task_words) : 0 } };
        struct infp_wall_task_words words = { .name = "" };

        snprintf(words.name, sizeof(words.name), "%s", name ? name : "");
        snprintf(words.state, sizeof(words.state), "%s", waits_for);
        memcpy(told.message.stack, &words, sizeof(words));
        infp_wall_rows_take(&w->rows, &told.message);
}

/* Rounds in which a task of that name was in that state. */
static long task_rounds(const struct world *w, const char *name, const char *state)
{
        long n = 0;

        for (size_t i = 0; i < w->sampled.machine->n; i++) {
                const struct kept *k = &w->sampled.machine->rows[i];
                char text[64];

                if (k->table != &infp_table_stack_samples || !kept_has(k, INFP_STACK_SAMPLES_TASK) ||
                    strcmp(kept_text(k, INFP_STACK_SAMPLES_TASK, text, sizeof(text)), name) != 0)
                        continue;
                assert_string_equal(kept_text(k, INFP_STACK_SAMPLES_MODE, text, sizeof(text)), "async");
                if (kept_has(k, INFP_STACK_SAMPLES_STATE) == (state != NULL) &&
                    (!state || strcmp(kept_text(k, INFP_STACK_SAMPLES_STATE, text, sizeof(text)), state) == 0))
                        n += k->cell[INFP_STACK_SAMPLES_SAMPLES].i64;
        }
        return n;
}

/* What is told of a task holds until the next word of it, of its thread, or of all tasks of its process; and its thread's rows go on. */
static void test_tasks(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        moment(&w, TID, 'S', SYS_epoll_wait);
        task(&w, TID, 0x1000, "a", "waiting for b");
        task(&w, TID, 0x2000, "b", "");
        task(&w, OTHER, 0x3000, "c", "waiting");
        rounds(&w, 1, PERIOD);
        task(&w, TID, 0x2000, "b", "waiting");
        rounds(&w, 2, PERIOD);
        task(&w, TID, 0x1000, NULL, "");
        rounds(&w, 4, PERIOD);
        gone(&w, TID);
        rounds(&w, 8, PERIOD);
        task(&w, 0, 0, NULL, "");
        rounds(&w, 16, PERIOD);
        infp_wall_rows_end(&w.rows);
        assert_int_equal(task_rounds(&w, "a", "waiting for b"), 3);
        assert_int_equal(task_rounds(&w, "a", NULL), 0);
        assert_int_equal(task_rounds(&w, "b", NULL), 1);
        assert_int_equal(task_rounds(&w, "b", "waiting"), 6);
        assert_int_equal(task_rounds(&w, "c", "waiting"), 15);
        assert_int_equal(w.rows.n_tasks, 0);
        close_world(&w);
}

/* A look at a callback, so many ms after the first one and after the last one; `looks`: it is known where it is. */
static void hold(struct world *w, uint64_t after_first_ms, uint64_t after_last_ms, bool looks, int64_t call)
{
        union {
                struct infp_wall_message message;
                uint8_t bytes[sizeof(struct infp_wall_message) + sizeof(struct infp_frames_one)];
        } told = { .message = { .kind = INFP_WALL_MESSAGE_HOLD,
                                .pid = getpid(),
                                .tid = TID,
                                .program = 1,
                                .has_python = true,
                                .is_python_alone = true,
                                .n_python = looks,
                                .moment = { .letter = 'S', .has_call = true, .call = call } } };

        w->now_ns += after_last_ms * INFP_NS_PER_MS;
        told.message.hold = (struct infp_wall_hold){ .begin_ns = w->now_ns - after_first_ms * INFP_NS_PER_MS,
                                                     .t_ns = w->now_ns,
                                                     .since_ns = w->now_ns - after_last_ms * INFP_NS_PER_MS };
        infp_wall_rows_take(&w->rows, &told.message);
}

/* Callbacks become rows from 100 ms on, each stretch with the stack at its begin, and without a gap between. */
static void test_lag(void **state)
{
        uint64_t end_ns = 0;
        struct world w;

        (void) state;
        open_world(&w);
        hold(&w, 0, 0, true, SYS_futex);
        hold(&w, 60, 60, true, SYS_read);
        hold(&w, 0, 0, true, SYS_futex); /* another one */
        hold(&w, 40, 40, true, SYS_read);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0, 0, 0);
        hold(&w, 90, 50, false, 0);
        hold(&w, 100, 10, false, 0);
        hold(&w, 150, 50, true, SYS_write);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.04, 1, 1);
        sampled_check(&w.sampled, TID, "sleeping in read", 0.11, 3, 1);
        hold(&w, 155, 5, false, 0);
        hold(&w, 0, 0, false, 0);
        hold(&w, 500, 500, false, 0); /* it is not known where */
        hold(&w, 0, 0, true, SYS_futex);
        hold(&w, 99, 99, false, 0);
        gone(&w, TID);
        infp_wall_rows_end(&w.rows);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.04, 1, 1);
        sampled_check(&w.sampled, TID, "sleeping in read", 0.11, 3, 1);
        sampled_check(&w.sampled, TID, "sleeping in write", 0.005, 1, 1);
        for (size_t i = 0; i < w.sampled.machine->n; i++) {
                const struct kept *k = &w.sampled.machine->rows[i];
                char text[16];

                if (k->table != &infp_table_stack_samples)
                        continue;
                assert_string_equal(kept_text(k, INFP_STACK_SAMPLES_MODE, text, sizeof(text)), "lag");
                assert_true(!end_ns || end_ns == k->t_ns);
                end_ns = k->t_ns + (uint64_t) (k->cell[INFP_STACK_SAMPLES_WEIGHT].f64 * 1e9 + 0.5);
        }
        close_world(&w);
}

/* Seconds of rows with that word in column gil; NULL: without one. */
static double gil_s(const struct world *w, const char *word)
{
        double seconds = 0;

        for (size_t i = 0; i < w->sampled.machine->n; i++) {
                const struct kept *k = &w->sampled.machine->rows[i];
                char text[16];

                if (k->table == &infp_table_stack_samples && kept_has(k, INFP_STACK_SAMPLES_GIL) == (word != NULL) &&
                    (!word || strcmp(kept_text(k, INFP_STACK_SAMPLES_GIL, text, sizeof(text)), word) == 0))
                        seconds += k->cell[INFP_STACK_SAMPLES_WEIGHT].f64;
        }
        return seconds;
}

/* What a thread has of the GIL holds from its moment to its next one. A thread that was woken for it is told after its moment. */
static void test_gil(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        moment_of(&w, TID, 'R', 0, INFP_GIL_HELD);
        rounds(&w, 2, PERIOD);
        moment_of(&w, TID, 'S', SYS_futex, INFP_GIL_WAITED);
        rounds(&w, 4, PERIOD);
        moment_of(&w, TID, 'R', 0, INFP_GIL_NONE);
        gil(&w, TID, INFP_GIL_WAITED);
        rounds(&w, 1, PERIOD);
        moment_of(&w, TID, 'R', 0, INFP_GIL_NONE);
        gil(&w, OTHER, INFP_GIL_WAITED); /* nobody knows it */
        rounds(&w, 8, PERIOD);
        moment_of(&w, TID, 'R', 0, INFP_GIL_NONE);
        gil(&w, TID, INFP_GIL_UNKNOWN);
        rounds(&w, 16, PERIOD);
        infp_wall_rows_end(&w.rows);
        assert_float_equal(gil_s(&w, "holds"), 0.1, 1e-9);
        assert_float_equal(gil_s(&w, "waits"), 0.25, 1e-9);
        assert_float_equal(gil_s(&w, "none"), 0.4, 1e-9);
        assert_float_equal(gil_s(&w, NULL), 0.8, 1e-9);
        sampled_check(&w.sampled, TID, "waiting for the GIL", 0.25, 5, 2);
        close_world(&w);
}

/* Long stretches have a row a second, fewer rounds more weight, and ended threads no more. */
static void test_long(void **state)
{
        struct world w;
        char text[64];

        (void) state;
        open_world(&w);
        moment(&w, TID, 'S', SYS_epoll_wait);
        moment(&w, OTHER, 'S', SYS_epoll_wait);
        rounds(&w, 100, PERIOD);
        assert_true(sampled_sum(&w.sampled, TID, "sleeping in epoll_wait").samples >= 80);
        gone(&w, TID);
        sampled_check(&w.sampled, TID, "sleeping in epoll_wait", 5, 100, 5);
        rounds(&w, 10, 4 * PERIOD);
        infp_wall_rows_end(&w.rows);
        sampled_check(&w.sampled, TID, "sleeping in epoll_wait", 5, 100, 5);
        sampled_check(&w.sampled, OTHER, "sleeping in epoll_wait", 7, 110, 7);
        assert_string_equal(sampled_leaf(&w.sampled, OTHER, text, sizeof(text)), "sys_epoll_wait");
        assert_int_equal(machine_count(w.sampled.machine, "symbols"), 1);
        close_world(&w);
}

/* Where a running thread is, perf has seen since it waited last, and not long ago. */
static void test_running(void **state)
{
        static const uint64_t kernel[] = { UINT64_C(0xffffffff81000010) };
        struct world w;
        struct infp_perf_sample sample = {
                .pid = getpid(), .tid = TID, .is_in_kernel = true, .kernel = kernel, .n_kernel = 1
        };
        char text[64];

        (void) state;
        open_world(&w);
        rounds(&w, 1, PERIOD);
        sample.t_ns = w.now_ns - PERIOD / 2;
        infp_wall_rows_ran(&w.rows, &sample);
        moment(&w, TID, 'R', 0);
        rounds(&w, 1, PERIOD);
        moment(&w, TID, 'S', SYS_read);
        sampled_check(&w.sampled, TID, NULL, 0.05, 1, 1);
        assert_string_equal(sampled_leaf(&w.sampled, TID, text, sizeof(text)), ""); /* by its address */
        rounds(&w, 5, PERIOD);
        moment(&w, TID, 'R', 0);
        rounds(&w, 1, PERIOD);
        sampled_check(&w.sampled, TID, "sleeping in read", 0.25, 5, 1);
        infp_wall_rows_exited(&w.rows, TID);
        gone(&w, TID);
        sampled_check(&w.sampled, TID, NULL, 0.1, 2, 2);
        assert_string_equal(sampled_leaf(&w.sampled, TID, text, sizeof(text)), "[running]");
        assert_int_equal(w.rows.running.n, 0);
        close_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_stretches), cmocka_unit_test(test_long),
                                            cmocka_unit_test(test_running),   cmocka_unit_test(test_gil),
                                            cmocka_unit_test(test_tasks),     cmocka_unit_test(test_lag) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
