/* The byte ring: records of all sizes come whole, in order and once; a list says what should be in it. The last test is meant for
 * ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/byte_ring.h"

enum { BYTES = 64 * 1024, RECORDS = 50000, LARGEST = 20000 };

struct record {
        uint32_t number, size;
        unsigned char bytes[];
};

static uint32_t size_of(uint32_t i)
{
        return i * 2654435761u % LARGEST;
}

static void *put(struct infp_byte_ring *ring, uint32_t i)
{
        struct record *record = infp_byte_ring_begin(ring, sizeof(*record) + LARGEST, 0);

        if (!record)
                return NULL;
        assert_int_equal((uintptr_t) record % 8, 0);
        *record = (struct record){ i, size_of(i) };
        memset(record->bytes, (int) (i & 0xff), record->size);
        infp_byte_ring_commit(ring, sizeof(*record) + record->size);
        return record;
}

static void check(const struct record *record, uint32_t i)
{
        assert_non_null(record);
        assert_int_equal(record->number, i);
        assert_int_equal(record->size, size_of(i));
        for (uint32_t k = 0; k < record->size; k += 97)
                assert_int_equal(record->bytes[k], i & 0xff);
}

static void test_full(void **state)
{
        struct infp_byte_ring ring;
        uint32_t n = 0;

        (void) state;
        assert_int_equal(infp_byte_ring_init(&ring, BYTES), 0);
        assert_null(infp_byte_ring_next(&ring));
        while (put(&ring, n))
                n++;
        assert_true(n >= 2);
        /* What was begun and not committed was never there. */
        for (uint32_t i = 0; i < n; i++)
                check(infp_byte_ring_next(&ring), i);
        assert_null(infp_byte_ring_next(&ring));
        assert_int_equal(infp_byte_ring_written(&ring), infp_byte_ring_taken(&ring));
        assert_non_null(put(&ring, n));
        check(infp_byte_ring_next(&ring), n);
        infp_byte_ring_done(&ring);
}

/* Of 4,096 bytes: a record costs its size, rounded up to 8, and 8; `spare` stays free; what is held counts. */
static void test_room(void **state)
{
        struct infp_byte_ring ring;
        void *first;

        (void) state;
        assert_int_equal(infp_byte_ring_init(&ring, 4096), 0);
        assert_null(infp_byte_ring_begin(&ring, 4089, 0));
        assert_null(infp_byte_ring_begin(&ring, 4088, 8));
        assert_non_null(infp_byte_ring_begin(&ring, 4088, 0));
        infp_byte_ring_commit(&ring, 1001); /* 1016 bytes */
        assert_int_equal(infp_byte_ring_written(&ring), 1016);
        first = infp_byte_ring_next(&ring);
        assert_ptr_equal(first, ring.data + 8);
        assert_null(infp_byte_ring_begin(&ring, 4096 - 1016 - 8, 8));
        assert_non_null(infp_byte_ring_begin(&ring, 4096 - 1016 - 8, 0));
        infp_byte_ring_commit(&ring, 2000);                /* up to 3024 */
        assert_null(infp_byte_ring_begin(&ring, 1100, 0)); /* the first is held; at the end there are 1072 bytes */
        assert_int_equal(infp_byte_ring_taken(&ring), 0);
        assert_ptr_equal(infp_byte_ring_next(&ring), ring.data + 1016 + 8);
        assert_int_equal(infp_byte_ring_taken(&ring), 1016);
        assert_null(infp_byte_ring_begin(&ring, 1100, 0)); /* at the start there are 1016 */
        assert_ptr_equal(infp_byte_ring_begin(&ring, 1008, 0), ring.data + 3024 + 8);
        assert_null(infp_byte_ring_next(&ring));
        /* All was seen, and more than half was used: back to the start, which counts as used what it passes over. */
        assert_ptr_equal(infp_byte_ring_begin(&ring, 8, 0), ring.data + 8);
        infp_byte_ring_commit(&ring, 8);
        assert_int_equal(infp_byte_ring_written(&ring), 4096 + 16);
        assert_ptr_equal(infp_byte_ring_next(&ring), ring.data + 8);
        infp_byte_ring_done(&ring);
}

/* By hand, as a queue of one thread. */
static void test_walk(void **state)
{
        struct infp_byte_ring ring;
        const struct record *at = NULL;

        (void) state;
        assert_int_equal(infp_byte_ring_init(&ring, 1 << 18), 0);
        for (uint32_t i = 0; i < 8; i++)
                assert_non_null(put(&ring, i));
        for (uint32_t i = 0; i < 8; i++)
                check(at = infp_byte_ring_after(&ring, at), i);
        assert_null(infp_byte_ring_after(&ring, at));
        at = NULL;
        for (uint32_t i = 0; i < 3; i++)
                at = infp_byte_ring_after(&ring, at);
        infp_byte_ring_give_back(&ring, at);
        for (uint32_t i = 3, n = 8; n < 400; i++) {
                check(infp_byte_ring_after(&ring, NULL), i);
                while (put(&ring, n))
                        n++;
                at = NULL;
                for (uint32_t k = i; k < n; k++)
                        check(at = infp_byte_ring_after(&ring, at), k);
                assert_null(infp_byte_ring_after(&ring, at));
                infp_byte_ring_give_back(&ring, infp_byte_ring_after(&ring, NULL));
        }
        while ((at = infp_byte_ring_after(&ring, NULL)))
                infp_byte_ring_give_back(&ring, at);
        infp_byte_ring_restart(&ring);
        assert_ptr_equal(put(&ring, 1), ring.data + 8);
        infp_byte_ring_done(&ring);
}

static void *writer(void *ring)
{
        for (uint32_t i = 0; i < RECORDS;)
                if (put(ring, i))
                        i++;
                else
                        sched_yield();
        return NULL;
}

static void test_two_threads(void **state)
{
        struct infp_byte_ring ring;
        pthread_t id;

        (void) state;
        assert_int_equal(infp_byte_ring_init(&ring, BYTES), 0);
        assert_int_equal(pthread_create(&id, NULL, writer, &ring), 0);
        for (uint32_t i = 0; i < RECORDS;) {
                const struct record *record = infp_byte_ring_next(&ring);

                if (record)
                        check(record, i++);
                else
                        sched_yield();
        }
        pthread_join(id, NULL);
        assert_null(infp_byte_ring_next(&ring));
        infp_byte_ring_done(&ring);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_walk),
                cmocka_unit_test(test_two_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
