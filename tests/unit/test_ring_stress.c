/* Writer and reader at once, in all ways that two threads can meet; meant for ThreadSanitizer. Every record is accounted for:
 * given, or counted as lost, and what is given is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "model/tables.h"
#include "ring/reader.h"
#include "ring_file.h"

enum { THREADS = 4, GENERATIONS = 25, CALLS = 150 };

static infp_metric *counter;
static _Atomic bool stop;

static void *write_some(void *context)
{
        for (unsigned i = 0; i < CALLS; i++) {
                const unsigned n = (unsigned) (uintptr_t) context * 1000 + i;
                char tag[48];

                snprintf(tag, sizeof tag, "%u %u", n, n * 2654435761U);
                infp_mark(tag);
                infp_add(counter, 1);
        }
        return NULL;
}

/* Generations of threads, so that chunks are parked and adopted under the reader's eyes. */
static void *write_all(void *context)
{
        pthread_t threads[THREADS];

        (void) context;
        for (unsigned g = 0; g < GENERATIONS; g++) {
                for (unsigned i = 0; i < THREADS; i++)
                        pthread_create(&threads[i], NULL, write_some, (void *) (uintptr_t) (g * THREADS + i));
                for (unsigned i = 0; i < THREADS; i++)
                        pthread_join(threads[i], NULL);
        }
        atomic_store(&stop, true);
        return NULL;
}

struct given {
        uint64_t marks, values;
        double largest;
};

static int put(void *context, const struct infp_row *row)
{
        struct given *given = context;

        for (unsigned i = 0; i < row->table->n_columns; i++) {
                const char *name = row->table->columns[i].name;
                unsigned a, b;
                size_t size;

                if (strcmp(name, "tag") == 0) {
                        const char *text = infp_row_text(row, i, &size);
                        char tag[64] = "";

                        CHECK(size < sizeof tag);
                        memcpy(tag, text, size);
                        CHECK(sscanf(tag, "%u %u", &a, &b) == 2 && b == a * 2654435761U);
                        given->marks++;
                } else if (strcmp(name, "value") == 0) {
                        const double value = row->cell[i].f64;

                        CHECK(value >= 1 && value <= THREADS * GENERATIONS * CALLS);
                        given->largest = value > given->largest ? value : given->largest;
                        /* Without a thread it is the newest value, whose record was overwritten. */
                        given->values += infp_row_has(row, INFP_COUNTERS_TID);
                }
        }
        return 0;
}

static struct infp_ring *open_reader(bool is_consumer, int *ret_file)
{
        const struct infp_ring_owner owner = {
                .process = 1, .start_ticks = ring_head()->start_ticks, .pid = getpid(), .uid = geteuid()
        };
        struct infp_ring *ring = NULL;
        struct infp_err err = { "" };

        *ret_file = open(infp_writer_file.path, is_consumer ? O_RDWR : O_RDONLY);
        CHECK(*ret_file >= 0);
        if (infp_ring_open(*ret_file, &owner, is_consumer, &ring, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                _exit(1);
        }
        return ring;
}

static void check_stress(bool is_consumer, uint32_t bytes)
{
        const uint64_t n = THREADS * GENERATIONS * CALLS;
        struct given given = { 0 };
        struct infp_err err = { "" };
        struct infp_ring *ring;
        pthread_t writer;
        int file;

        infp_writer_config.bytes = bytes;
        CHECK_EQUAL(infp_enable(), 0);
        counter = infp_counter("n", NULL, NULL);
        ring = open_reader(is_consumer, &file);
        CHECK(pthread_create(&writer, NULL, write_all, NULL) == 0);
        while (!atomic_load(&stop))
                CHECK(infp_ring_read(ring, false, put, &given, &err) >= 0);
        pthread_join(writer, NULL);
        while (infp_ring_read(ring, true, put, &given, &err) > 0)
                ;
        const struct infp_ring_counts *counts = infp_ring_counts(ring);
        CHECK_EQUAL(counts->broken + counts->unknown, 0);
        CHECK_EQUAL(given.marks, counts->rows[0]);
        CHECK(given.marks > 1000 && given.values > 0 && given.largest == (double) n);
        if (is_consumer) {
                CHECK_EQUAL(given.marks + counts->dropped_full, n);
                CHECK_EQUAL(given.values + counts->evicted_bytes / sizeof(struct infp_wire_value), n);
        } else {
                CHECK(given.marks + counts->dropped_full <= n && given.values <= n);
        }
        infp_ring_close(ring);
        close(file);
}

static void consumer_small(void)
{
        check_stress(true, INFP_WRITER_LEAST_BYTES);
}

static void consumer_growing(void)
{
        check_stress(true, 0);
}

static void reader_small(void)
{
        check_stress(false, INFP_WRITER_LEAST_BYTES);
}

static void test_consumer_of_a_small_file(void **state)
{
        (void) state;
        in_child(directory, consumer_small);
}

static void test_consumer_of_a_file_that_grows(void **state)
{
        (void) state;
        in_child(directory, consumer_growing);
}

static void test_reader_beside_no_consumer(void **state)
{
        (void) state;
        in_child(directory, reader_small);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_consumer_of_a_small_file),
                cmocka_unit_test(test_consumer_of_a_file_that_grows),
                cmocka_unit_test(test_reader_beside_no_consumer),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
