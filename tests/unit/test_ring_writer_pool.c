/* The pool of chunks: who gets which one when there are few, what is dropped then, and what threads leave behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include "ring_file.h"
#include "skip_because.h"

static void mark_number(const char *word, unsigned number)
{
        char tag[64];

        snprintf(tag, sizeof tag, "%s %u", word, number);
        infp_mark(tag);
}

struct seen {
        unsigned marks, last_mark;
        uint64_t values;
        double last_value;
};

static void see(const struct infp_wire_record *record, void *context)
{
        struct seen *seen = context;

        if (record->kind == INFP_WIRE_MARK) {
                const struct infp_wire_mark *mark = (const void *) record;
                unsigned number = 0;

                CHECK(sscanf(ring_text(mark, &mark->text), "%*s %u", &number) == 1);
                seen->marks++;
                seen->last_mark = number > seen->last_mark ? number : seen->last_mark;
        } else if (record->kind == INFP_WIRE_VALUE) {
                double value;

                memcpy(&value, &((const struct infp_wire_value *) (const void *) record)->value, sizeof value);
                seen->values++;
                seen->last_value = value > seen->last_value ? value : seen->last_value;
        }
}

/* Nobody reads: of marks the first stay and the later are counted, of values the newest stay; each has its part. */
static void check_full(void)
{
        enum { N = 60000 };
        struct seen seen = { 0 };
        infp_metric *counter;

        CHECK_EQUAL(infp_enable(), 0);
        counter = infp_counter("n", NULL, NULL);
        for (unsigned i = 1; i <= N; i++) {
                mark_number("mark", i);
                infp_add(counter, 1);
        }
        ring_each(see, &seen);
        CHECK_EQUAL(ring_head()->n_chunks, 221); /* without a reader it does not grow */
        CHECK_EQUAL(seen.marks + ring_head()->dropped_full, N);
        CHECK(seen.marks > 10000 && seen.last_mark < N / 2);
        CHECK(seen.last_value == N && seen.values > 2000);
        CHECK(ring_head()->evicted_chunks > 100);
        CHECK_EQUAL(seen.values * 32 + ring_head()->evicted_bytes, N * 32);
}

static void test_full(void **state)
{
        (void) state;
        in_child(directory, check_full);
}

static void drain_all(void)
{
        for (uint32_t i = 0; i < ring_head()->n_chunks; i++)
                if (ring_state(i) != INFP_WIRE_FREE)
                        ring_chunk(i)->drained = ring_chunk(i)->stamp >> 3 << 32 | ring_chunk(i)->used;
        ring_head()->consumer_seen_ns = infp_now_ns();
}

/* With a consumer the file grows, once, and chunks that it has read are used again: nothing is dropped. */
static void check_consumer(void)
{
        struct stat st;
        uint32_t grown;

        CHECK_EQUAL(infp_enable(), 0);
        ring_head()->consumer_pid = 1;
        ring_head()->consumer_seen_ns = infp_now_ns();
        for (unsigned i = 0; i < 50000; i++)
                mark_number("mark", i);
        CHECK_EQUAL(ring_head()->dropped_full, 0);
        grown = ring_head()->n_chunks;
        CHECK(grown > 221 && grown < 1000);
        CHECK(stat(infp_writer_file.path, &st) == 0);
        CHECK_EQUAL(st.st_size, ring_head()->chunks_at + grown * 4096);
        for (unsigned round = 0; round < 20; round++) {
                drain_all();
                for (unsigned i = 0; i < 50000; i++)
                        mark_number("mark", i);
        }
        CHECK_EQUAL(ring_head()->dropped_full, 0);
        CHECK(ring_head()->n_chunks < grown + 600);
        CHECK(ring_chunk(0)->stamp >> 3 > 3);
        /* It stops reading: 16 MiB and no more. */
        for (unsigned i = 0; i < 800000; i++)
                mark_number("mark", i);
        CHECK_EQUAL(ring_head()->n_chunks, ring_head()->max_chunks);
        CHECK(stat(infp_writer_file.path, &st) == 0);
        CHECK(st.st_size <= 16 * 1024 * 1024 && ring_head()->dropped_full > 1000);
        CHECK_EQUAL(ring_head()->grow_failed, 0);
        /* And reads again. */
        drain_all();
        usleep(2000);
        uint64_t dropped = ring_head()->dropped_full;
        for (unsigned i = 0; i < 50000; i++)
                mark_number("mark", i);
        CHECK_EQUAL(ring_head()->dropped_full, dropped);
}

static void test_consumer(void **state)
{
        (void) state;
        in_child(directory, check_consumer);
}

/* The file cannot grow: it is gone from its directory. Counted, and what is there goes on. */
static void check_no_growth(void)
{
        CHECK_EQUAL(infp_enable(), 0);
        ring_head()->consumer_pid = 1;
        ring_head()->consumer_seen_ns = infp_now_ns();
        CHECK(unlink(infp_writer_file.path) == 0);
        for (unsigned i = 0; i < 50000; i++)
                mark_number("mark", i);
        CHECK_EQUAL(ring_head()->n_chunks, 221);
        CHECK_EQUAL(ring_head()->grow_failed, 1); /* not tried again at once */
        CHECK_EQUAL(ring_head()->grow_errno, ENOENT);
        CHECK(ring_head()->dropped_full > 0);
}

static void test_no_growth(void **state)
{
        (void) state;
        in_child(directory, check_no_growth);
}

static unsigned in_thread(unsigned n, unsigned at_once, void *(*body)(void *) )
{
        pthread_t threads[100];
        unsigned failed = 0;

        for (unsigned begun = 0; begun < n; begun += at_once) {
                for (unsigned i = 0; i < at_once; i++)
                        failed += pthread_create(&threads[i], NULL, body, (void *) (uintptr_t) (begun + i)) != 0;
                for (unsigned i = 0; i < at_once; i++)
                        pthread_join(threads[i], NULL);
        }
        return failed;
}

static void *mark_once(void *context)
{
        mark_number("thread", (unsigned) (uintptr_t) context);
        return NULL;
}

/* Threads that come, mark once and go: each goes on in the chunk of one before. */
static void check_short_threads(void)
{
        enum { N = 10000 };
        struct seen seen = { 0 };

        CHECK_EQUAL(infp_enable(), 0);
        CHECK_EQUAL(in_thread(N, 4, mark_once), 0);
        ring_each(see, &seen);
        CHECK_EQUAL(seen.marks, N);
        CHECK_EQUAL(ring_head()->n_threads, N);
        CHECK_EQUAL(ring_head()->dropped_full, 0);
        CHECK_EQUAL(ring_head()->n_chunks, 221);
        CHECK_EQUAL(ring_count(INFP_WIRE_ACTIVE), 0);
        CHECK(ring_count(INFP_WIRE_SEALED) >= N * 40 / 4096 && ring_count(INFP_WIRE_SEALED) < N * 48 / 4000 + 8);
        CHECK(infp_writer_thread_at(0) && !infp_writer_thread_at(1024)); /* memory of a few threads */
}

static void test_short_threads(void **state)
{
        (void) state;
        in_child(directory, check_short_threads);
}

static pthread_barrier_t all_here;

static void *mark_at_once(void *context)
{
        pthread_barrier_wait(&all_here);
        return mark_once(context);
}

/* The first calls of several threads at the same moment: one of them makes the file, and none is lost. */
static void check_first_calls(void)
{
        struct seen seen = { 0 };

        infp_writer_make_page();
        infp_writer_state = INFP_WRITER_DUE;
        pthread_barrier_init(&all_here, NULL, 8);
        CHECK_EQUAL(in_thread(8, 8, mark_at_once), 0);
        ring_each(see, &seen);
        CHECK_EQUAL(seen.marks, 8);
}

static void test_first_calls(void **state)
{
        (void) state;
        for (unsigned i = 0; i < 20; i++)
                in_child(directory, check_first_calls);
}

static void *mark_among_all(void *context)
{
        mark_number("thread", (unsigned) (uintptr_t) context);
        pthread_barrier_wait(&all_here);
        return NULL;
}

/* 4,000 at once: the file grows so that each has its chunk, also when nobody reads. */
static void check_many_threads(void)
{
        enum { N = 4000 };
        static pthread_t threads[N];
        struct seen seen = { 0 };
        pthread_attr_t attr;

        CHECK_EQUAL(infp_enable(), 0);
        pthread_barrier_init(&all_here, NULL, N + 1);
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 64 * 1024);
        for (unsigned i = 0; i < N; i++)
                if (pthread_create(&threads[i], &attr, mark_among_all, (void *) (uintptr_t) i) != 0) {
                        fprintf(stderr, "this machine does not allow %u threads: %s\n", N, strerror(errno));
                        _exit(77);
                }
        pthread_barrier_wait(&all_here);
        for (unsigned i = 0; i < N; i++)
                pthread_join(threads[i], NULL);
        ring_each(see, &seen);
        CHECK_EQUAL(seen.marks + ring_head()->dropped_full, N);
        CHECK(ring_head()->dropped_full < N / 4); /* none, unless the thread that makes room is put aside meanwhile */
        CHECK_EQUAL(ring_count(INFP_WIRE_PARKED), seen.marks);
}

static void test_many_threads(void **state)
{
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0) {
                use_directory(directory);
                check_many_threads();
                _exit(0);
        }
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
                print_message("4,000 threads cannot be made here\n");
                skip();
        }
        assert_int_equal(status, 0);
}

static void *mark_and_vanish(void *context)
{
        infp_metric *counter = context;

        infp_add(counter, 1);
        mark_number("vanished", 1);
        syscall(SYS_exit, 0); /* no destructor runs */
        return NULL;
}

/* Threads that end without a word: what they held is free again once the pool is empty, and their records stay. */
static void check_vanished(void)
{
        enum { N = 20 };
        pthread_t thread;
        struct seen seen = { 0 };
        infp_metric *counter;

        infp_writer_config.bytes = INFP_WRITER_LEAST_BYTES; /* 29 chunks */
        CHECK_EQUAL(infp_enable(), 0);
        CHECK_EQUAL(ring_head()->max_chunks, 29);
        counter = infp_counter("n", NULL, NULL);
        for (unsigned i = 0; i < N / 2; i++)
                CHECK(pthread_create(&thread, NULL, mark_and_vanish, counter) == 0);
        while (ring_head()->n_threads < N / 2)
                usleep(1000);
        usleep(50000);
        CHECK_EQUAL(ring_count(INFP_WIRE_ACTIVE), N);
        for (unsigned i = 0; i < 5000; i++)
                mark_number("mark", i);
        CHECK(ring_count(INFP_WIRE_ACTIVE) <= 1);
        ring_each(see, &seen);
        CHECK_EQUAL(seen.marks + ring_head()->dropped_full, 5000 + N / 2);
        CHECK(ring_count(INFP_WIRE_PARKED) == N / 2); /* of class recent: theirs of keep were filled up */
}

static void test_vanished(void **state)
{
        (void) state;
#ifdef __SANITIZE_THREAD__
        SKIP_BECAUSE("the thread sanitizer does not see a thread that exits by a bare system call");
#endif
        in_child(directory, check_vanished);
}

/* Meant for ThreadSanitizer: writers of both classes in a file that is far too small, threads that end and begin, and a reader
 * that copies by the rules of wire.h. What it believes must be whole. */
static _Atomic bool stop;
static infp_metric *stress_counter;

static void *stress_write(void *context)
{
        unsigned number = (unsigned) (uintptr_t) context;

        for (unsigned i = 0; i < 300; i++) {
                char tag[32];
                unsigned n = number * 1000 + i;

                snprintf(tag, sizeof tag, "s %u %u", n, n * 2654435761U);
                infp_mark(tag);
                infp_add(stress_counter, 1);
                infp_span span = infp_span_begin("stress");
                infp_span_int(&span, "number", n);
                infp_span_end(&span);
        }
        return NULL;
}

static unsigned believe(const uint64_t *copy, uint32_t used)
{
        const char *data = (const char *) copy;
        unsigned n = 0;

        for (uint32_t at = 0; at < used; n++) {
                const struct infp_wire_record *record = (const void *) (data + at);

                CHECK(record->size >= 16 && record->size % 8 == 0 && at + record->size <= used);
                CHECK(record->kind >= 1 && record->kind <= 6 && record->t_ns && record->tid);
                if (record->kind == INFP_WIRE_MARK) {
                        const struct infp_wire_mark *mark = (const void *) record;
                        char text[64] = "";
                        unsigned a, b;

                        memcpy(text, data + at + 24, mark->text.size < 63 ? mark->text.size : 63);
                        CHECK(sscanf(text, "s %u %u", &a, &b) == 2 && b == a * 2654435761U);
                }
                at += record->size;
        }
        return n;
}

static void *stress_read(void *context)
{
        static uint64_t copy[INFP_WRITER_ROOM / 8];
        unsigned long *n = context;

        while (!atomic_load(&stop))
                for (uint32_t i = 0; i < atomic_load(&ring_head()->n_chunks); i++) {
                        struct infp_wire_chunk *chunk = ring_chunk(i);
                        const uint64_t *from = (const uint64_t *) (const void *) (chunk + 1);
                        uint64_t stamp = atomic_load_explicit(&chunk->stamp, memory_order_acquire);
                        uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire);

                        if ((stamp & 7) < INFP_WIRE_ACTIVE || used > INFP_WRITER_ROOM)
                                continue;
                        for (uint32_t k = 0; k < used / 8; k++)
                                copy[k] = __atomic_load_n(from + k, __ATOMIC_RELAXED);
#ifndef __SANITIZE_THREAD__
                        atomic_thread_fence(memory_order_acquire);
#endif
                        if (atomic_load_explicit(&chunk->stamp, memory_order_relaxed) >> 3 != stamp >> 3)
                                continue;
                        *n += believe(copy, used);
                        /* Half of the time it takes what it has read. */
                        if (i % 2) {
                                atomic_store(&chunk->drained, (stamp >> 3) << 32 | used);
                                atomic_store(&ring_head()->consumer_seen_ns, 1);
                        }
                }
        return NULL;
}

static void check_stress(void)
{
        unsigned long n_read = 0;
        pthread_t reader;

        infp_writer_config.bytes = INFP_WRITER_LEAST_BYTES;
        CHECK_EQUAL(infp_enable(), 0);
        stress_counter = infp_counter("stress", NULL, NULL);
        CHECK(pthread_create(&reader, NULL, stress_read, &n_read) == 0);
        CHECK_EQUAL(in_thread(400, 4, stress_write), 0);
        atomic_store(&stop, true);
        pthread_join(reader, NULL);
        CHECK(n_read > 1000);
        CHECK(ring_head()->evicted_chunks > 0 && ring_head()->dropped_full > 0);
        double sum;
        memcpy(&sum, &infp_writer_file.metrics[0].value, sizeof sum);
        CHECK(sum == 400 * 300); /* sums lose nothing, whatever records were dropped */
}

static void test_stress(void **state)
{
        (void) state;
        in_child(directory, check_stress);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full),          cmocka_unit_test(test_consumer),
                cmocka_unit_test(test_no_growth),     cmocka_unit_test(test_first_calls),
                cmocka_unit_test(test_short_threads), cmocka_unit_test(test_many_threads),
                cmocka_unit_test(test_vanished),      cmocka_unit_test(test_stress),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
