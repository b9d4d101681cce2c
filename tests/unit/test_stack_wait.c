/* The queue of samples that wait: order, contents and bound, against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sampler/stacks/wait.h"

enum { BYTES = 1 << 16, ROUNDS = 20000, LIST = 512 };

/* What should be in the queue, by the t_ns of each. */
struct list {
        uint64_t t[LIST];
        size_t n;
};

static uint8_t stack[8192], above[2][512];
static uint64_t kernel[8], ids[8];
static struct infp_python_frame frames[8];

static bool put(struct infp_wait *wait, uint64_t t, uint32_t size, uint32_t n_kernel)
{
        struct infp_perf_sample sample = {
                .t_ns = t, .tid = (int32_t) (t % 3), .stack_size = size, .n_kernel = n_kernel
        };
        struct infp_unwind_dump rest[2];
        const struct infp_python_moment python = { .n = n_kernel, .frames = frames, .ids = ids };
        const struct infp_waiting *waiting;

        memset(stack, (int) (t & 255), size);
        for (uint32_t i = 0; i < n_kernel; i++)
                kernel[i] = frames[i].code = t, ids[i] = t + i;
        if (t % 2)
                sample.python = &python;
        memset(above, (int) (t & 127), sizeof(above));
        sample.rest = rest;
        sample.n_rest = (uint32_t) (t % 3);
        for (uint32_t i = 0; i < sample.n_rest; i++)
                rest[i] = (struct infp_unwind_dump){ above[i], t + i, 512, true };
        sample.stack = stack;
        sample.kernel = kernel;
        waiting = infp_wait_put(wait, &sample);
        if (!waiting)
                return false;
        assert_false(waiting->is_done);
        return true;
}

static void check(struct infp_wait *wait, const struct list *list)
{
        const struct infp_waiting *at = NULL;

        for (size_t i = 0; i < list->n; i++) {
                at = infp_wait_next(wait, at);
                assert_non_null(at);
                assert_int_equal(at->sample.t_ns, list->t[i]);
                for (uint32_t k = 0; k < at->sample.stack_size; k += 97)
                        assert_int_equal(at->sample.stack[k], list->t[i] & 255);
                for (uint32_t k = 0; k < at->sample.n_kernel; k++)
                        assert_int_equal(at->sample.kernel[k], list->t[i]);
                assert_int_equal(at->sample.n_rest, list->t[i] % 3);
                for (uint32_t k = 0; k < at->sample.n_rest; k++) {
                        assert_int_equal(at->sample.rest[k].begin, list->t[i] + k);
                        assert_int_equal(at->sample.rest[k].size, 512);
                        assert_int_equal(at->sample.rest[k].bytes[511], list->t[i] & 127);
                }
                assert_int_equal(at->sample.python != NULL, list->t[i] % 2);
                for (uint32_t k = 0; at->sample.python && k < at->sample.python->n; k++) {
                        assert_int_equal(at->sample.python->frames[k].code, list->t[i]);
                        assert_int_equal(at->sample.python->ids[k], list->t[i] + k);
                }
        }
        assert_null(infp_wait_next(wait, at));
        assert_int_equal(wait->n, list->n);
}

static void remove_at(struct infp_wait *wait, struct list *list, size_t index)
{
        struct infp_waiting *at = NULL;

        for (size_t i = 0; i <= index; i++)
                at = infp_wait_next(wait, at);
        infp_wait_remove(wait, at);
        memmove(&list->t[index], &list->t[index + 1], (list->n - index - 1) * sizeof(list->t[0]));
        list->n--;
}

static void order_and_contents_stay(void **state)
{
        struct infp_wait wait;
        struct list list = { .n = 0 };
        unsigned n_refused = 0;

        (void) state;
        srand(1);
        assert_int_equal(infp_wait_init(&wait, BYTES), 0);
        for (uint64_t t = 1; t <= ROUNDS; t++) {
                const bool grows = (t / 500) % 2;

                if (rand() % 8 < (grows ? 6 : 3)) {
                        if (put(&wait, t, (uint32_t) (rand() % 3) * 1000 + (uint32_t) rand() % 700,
                                (uint32_t) rand() % 8))
                                list.t[list.n++] = t;
                        else
                                n_refused++;
                } else if (list.n) {
                        remove_at(&wait, &list, rand() % 2 ? 0 : (size_t) rand() % list.n);
                }
                if (t % 7 == 0)
                        check(&wait, &list);
        }
        assert_true(n_refused > 100);
        while (list.n)
                remove_at(&wait, &list, (size_t) rand() % list.n);
        check(&wait, &list);
        assert_int_equal(wait.used, 0);
        for (unsigned i = 0; i < INFP_WAIT_BUCKETS; i++)
                assert_int_equal(wait.n_by_thread[i], 0);
        infp_wait_done(&wait);
}

static void it_is_full_and_then_empty(void **state)
{
        struct infp_wait wait;
        struct list list = { .n = 0 };

        (void) state;
        assert_int_equal(infp_wait_init(&wait, BYTES), 0);
        for (unsigned round = 0; round < 50; round++) {
                while (put(&wait, list.n + 1, 4096, 0))
                        list.t[list.n] = list.n + 1, list.n++;
                assert_in_range(list.n, BYTES / 5400, BYTES / 4096);
                assert_false(put(&wait, 99, 8192, 0));
                assert_int_equal(wait.n_by_thread[1], (list.n + 2) / 3);
                check(&wait, &list);
                while (list.n)
                        remove_at(&wait, &list, round % 2 ? list.n - 1 : 0);
        }
        infp_wait_done(&wait);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(order_and_contents_stay),
                cmocka_unit_test(it_is_full_and_then_empty),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
