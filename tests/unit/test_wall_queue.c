/* The queue between the reader of threads and the maker of rows: messages of all sizes come whole, in order, and once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "sampler/waits/wall_queue.h"

enum { BYTES = 64 * 1024, MESSAGES = 50000, LARGEST = 20000 };

static uint32_t size_of(uint32_t i)
{
        return i * 2654435761u % LARGEST;
}

static bool put(struct infp_wall_queue *queue, uint32_t i)
{
        const uint32_t size = size_of(i);
        struct infp_wall_message *message = infp_wall_queue_begin(queue, LARGEST);

        if (!message)
                return false;
        message->kind = INFP_WALL_MESSAGE_MOMENT;
        message->tid = (int32_t) i;
        message->stack_size = size;
        memset(message->stack, (int) (i & 0xff), size);
        infp_wall_queue_commit(queue, message);
        return true;
}

static void check(const struct infp_wall_message *message, uint32_t i)
{
        assert_int_equal(message->kind, INFP_WALL_MESSAGE_MOMENT);
        assert_int_equal(message->tid, i);
        assert_int_equal(message->stack_size, size_of(i));
        for (uint32_t k = 0; k < message->stack_size; k += 97)
                assert_int_equal(message->stack[k], i & 0xff);
}

static void test_full(void **state)
{
        struct infp_wall_queue *queue;
        uint32_t n = 0;

        (void) state;
        assert_int_equal(infp_wall_queue_new(BYTES, &queue), 0);
        assert_null(infp_wall_queue_next(queue));
        while (put(queue, n))
                n++;
        assert_true(n >= 2);
        /* What was begun and not committed was never told. */
        for (uint32_t i = 0; i < n; i++)
                check(infp_wall_queue_next(queue), i);
        assert_null(infp_wall_queue_next(queue));
        assert_true(put(queue, n));
        check(infp_wall_queue_next(queue), n);
        infp_wall_queue_free(queue);
}

static void *writer(void *queue)
{
        for (uint32_t i = 0; i < MESSAGES;)
                if (put(queue, i))
                        i++;
                else
                        sched_yield();
        return NULL;
}

static void test_two_threads(void **state)
{
        struct infp_wall_queue *queue;
        pthread_t id;

        (void) state;
        assert_int_equal(infp_wall_queue_new(BYTES, &queue), 0);
        assert_int_equal(pthread_create(&id, NULL, writer, queue), 0);
        for (uint32_t i = 0; i < MESSAGES;) {
                const struct infp_wall_message *message = infp_wall_queue_next(queue);

                if (message)
                        check(message, i++);
                else
                        sched_yield();
        }
        pthread_join(id, NULL);
        assert_null(infp_wall_queue_next(queue));
        infp_wall_queue_free(queue);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_full), cmocka_unit_test(test_two_threads) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
