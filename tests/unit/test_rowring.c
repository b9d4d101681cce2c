/* The row ring: what goes in comes out, in order, whole, or is counted. The last test is meant for ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ring/rowring.h"

static const struct infp_column columns[] = {
        INFP_COLUMN(number, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "A number."),
        INFP_COLUMN(share, F64, GAUGE, ratio, MEASURED, NO, NULL, 0, NULL, "Never set."),
        INFP_COLUMN(text, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
};
static const struct infp_table table = { .name = "t", .help = "Test.", .columns = columns, .n_columns = 3 };

enum { NUMBER, SHARE, TEXT };

struct writer {
        struct infp_row row;
        char text[8192];
};

static int put(struct infp_rowring *ring, struct writer *w, int64_t number, size_t text_size)
{
        char text[8192];

        for (size_t i = 0; i < text_size; i++)
                text[i] = (char) ('a' + (number + (int64_t) i) % 26);
        w->row.text = w->text;
        w->row.text_cap = sizeof(w->text);
        infp_row_begin(&w->row, &table, (uint64_t) number + 1000);
        infp_row_i64(&w->row, NUMBER, number);
        infp_row_bytes(&w->row, TEXT, text, text_size);
        return infp_rowring_put(ring, &w->row);
}

static void check_row(const struct infp_row *row, int64_t number)
{
        size_t size;
        const char *text = infp_row_text(row, TEXT, &size);

        assert_ptr_equal(row->table, &table);
        assert_int_equal(row->t_ns, number + 1000);
        assert_int_equal(row->cell[NUMBER].i64, number);
        assert_true(infp_row_has(row, NUMBER));
        assert_false(infp_row_has(row, SHARE));
        for (size_t i = 0; i < size; i++)
                assert_int_equal(text[i], 'a' + (number + (int64_t) i) % 26);
}

static void test_order_and_content(void **state)
{
        struct infp_rowring *ring;
        struct infp_rowring_tick tick = { 0 };
        struct infp_row row;
        struct writer w;

        (void) state;
        assert_int_equal(infp_rowring_new(4096, &ring), 0);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_EMPTY);
        assert_int_equal(put(ring, &w, 1, 5), 0);
        assert_int_equal(infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 7, 70 }), 0);
        assert_int_equal(put(ring, &w, 2, 0), 0);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_ROW);
        check_row(&row, 1);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_TICK);
        assert_int_equal(tick.number, 7);
        assert_int_equal(tick.t_ns, 70);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_ROW);
        check_row(&row, 2);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_EMPTY);
        assert_int_equal(infp_rowring_used(ring), 0);
        infp_rowring_free(ring);
}

/* Many sizes around a small memory: every wrap, none lost while there is room. */
static void test_wraps(void **state)
{
        struct infp_rowring *ring;
        struct infp_rowring_tick tick;
        struct infp_row row;
        struct writer w;
        int64_t written = 0, taken = 0;

        (void) state;
        assert_int_equal(infp_rowring_new(4096, &ring), 0);
        for (unsigned turn = 0; turn < 3000; turn++) {
                for (unsigned i = 0; i < turn % 4 + 1; i++)
                        if (put(ring, &w, written, (turn * 37 + i * 101) % 300) == 0)
                                written++;
                if (turn % 3)
                        continue;
                while (infp_rowring_next(ring, &row, &tick) == INFP_ROWRING_ROW)
                        check_row(&row, taken++);
        }
        while (infp_rowring_next(ring, &row, &tick) == INFP_ROWRING_ROW)
                check_row(&row, taken++);
        assert_int_equal(taken, written);
        assert_true(written > 3000);
        infp_rowring_free(ring);
}

/* Whatever lies in the ring when the writer goes back to its start, a burst of a quarter of the ring finds room. */
static void test_burst_after_going_back(void **state)
{
        struct infp_rowring *ring;
        struct infp_rowring_tick tick;
        struct infp_row row;
        struct writer w;

        (void) state;
        assert_int_equal(infp_rowring_new(65536, &ring), 0);
        for (unsigned before = 1; before < 400; before += 7) {
                for (unsigned i = 0; i < before; i++) { /* moves the writer on, the reader follows at once */
                        assert_int_equal(put(ring, &w, i, 100), 0);
                        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_ROW);
                }
                assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_EMPTY);
                for (unsigned i = 0; i < 65536 / 4 / 200 - 8; i++)
                        assert_int_equal(put(ring, &w, i, 100), 0);
                for (unsigned i = 0; infp_rowring_next(ring, &row, &tick) == INFP_ROWRING_ROW; i++)
                        check_row(&row, i);
        }
        assert_int_equal(infp_rowring_dropped(ring), 0);
        infp_rowring_free(ring);
}

static void test_full(void **state)
{
        struct infp_rowring *ring;
        struct infp_rowring_tick tick;
        struct infp_row row;
        struct writer w;
        unsigned n = 0;

        (void) state;
        assert_int_equal(infp_rowring_new(4096, &ring), 0);
        while (put(ring, &w, n, 50) == 0)
                n++;
        assert_true(n > 10);
        assert_int_equal(infp_rowring_dropped(ring), 1);
        assert_int_equal(put(ring, &w, 99, 0), -ENOSPC);
        assert_int_equal(infp_rowring_dropped(ring), 2);
        /* The end of the tick still has its place. */
        assert_int_equal(infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 1, 2 }), 0);
        for (unsigned i = 0; i < n; i++) {
                assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_ROW);
                check_row(&row, i);
        }
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_TICK);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_EMPTY);
        /* And the ring works on. */
        assert_int_equal(put(ring, &w, 5, 800), 0);
        assert_int_equal(infp_rowring_next(ring, &row, &tick), INFP_ROWRING_ROW);
        check_row(&row, 5);
        infp_rowring_free(ring);
}

static void test_limits(void **state)
{
        struct infp_rowring *ring = NULL;
        struct writer w;

        (void) state;
        assert_int_equal(infp_rowring_new(4095, &ring), -EINVAL);
        assert_int_equal(infp_rowring_new(6000, &ring), -EINVAL);
        assert_int_equal(infp_rowring_new(2048, &ring), -EINVAL);
        assert_null(infp_rowring_free(NULL));
        assert_int_equal(infp_rowring_new(4096, &ring), 0);
        assert_int_equal(put(ring, &w, 1, 2000), -ENOSPC); /* never fits */
        assert_int_equal(infp_rowring_size(ring), 4096);
        infp_rowring_free(ring);
}

enum { STRESS_ROWS = 200000, LEAST_TAKEN = 1000 };

struct stress {
        struct infp_rowring *ring;
        uint64_t n_dropped;
        atomic_uint n_taken;
        _Atomic int64_t last; /* the number of the last row, which has to arrive; -1: not known yet */
};

static void *write_many(void *p)
{
        struct stress *s = p;
        struct writer w;

        int64_t i;

        for (i = 0; i < STRESS_ROWS || atomic_load(&s->n_taken) < LEAST_TAKEN; i++) {
                if (put(s->ring, &w, i, (size_t) (i * 7 % 200)) < 0)
                        s->n_dropped++;
                if (i % 1000 == 999)
                        infp_rowring_put_tick(s->ring, &(struct infp_rowring_tick){ (uint64_t) i, (uint64_t) i });
        }
        atomic_store(&s->last, i);
        while (put(s->ring, &w, i, 0) < 0) {
                s->n_dropped++;
                sched_yield();
        }
        return NULL;
}

static void test_two_threads(void **state)
{
        struct stress s = { .last = -1 };
        struct infp_rowring_tick tick;
        struct infp_row row;
        int64_t last = -1;
        unsigned n = 0;
        pthread_t thread;

        (void) state;
        assert_int_equal(infp_rowring_new(16384, &s.ring), 0);
        assert_int_equal(pthread_create(&thread, NULL, write_many, &s), 0);
        while (last < 0 || last != atomic_load(&s.last)) {
                enum infp_rowring_kind kind = infp_rowring_next(s.ring, &row, &tick);

                if (kind == INFP_ROWRING_EMPTY)
                        sched_yield();
                if (kind == INFP_ROWRING_TICK)
                        assert_true((int64_t) tick.number >= last);
                if (kind != INFP_ROWRING_ROW)
                        continue;
                assert_true(row.cell[NUMBER].i64 > last);
                last = row.cell[NUMBER].i64;
                check_row(&row, last);
                atomic_store(&s.n_taken, ++n);
        }
        pthread_join(thread, NULL);
        assert_true(n + infp_rowring_dropped(s.ring) >= (uint64_t) last + 1);
        assert_true(infp_rowring_dropped(s.ring) >= s.n_dropped);
        infp_rowring_free(s.ring);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_and_content),
                cmocka_unit_test(test_wraps),
                cmocka_unit_test(test_burst_after_going_back),
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_two_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
