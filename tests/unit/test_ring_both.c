/* The library's writer and the recorder's reader on one file, at full speed: meant for ThreadSanitizer as well. What was written is
 * read once and whole, or counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "infprof/infprof.h"
#include "model/tables.h"
#include "ring/find.h"

enum { THREADS = 4, EACH = 20000, SPANS = 4000 };

static char directory[64];

struct seen {
        bool has[THREADS][EACH];
        uint64_t n_marks, n_spans, n_values;
        double sum;
};

static int check_mark(struct seen *seen, const struct infp_row *row)
{
        unsigned thread = 0, number = 0, again = 0;
        char text[64] = "";
        size_t size;
        const char *tag = infp_row_text(row, INFP_MARKS_TAG, &size);

        assert_true(size < sizeof(text));
        memcpy(text, tag, size);
        assert_int_equal(sscanf(text, "t%u-%u-%u", &thread, &number, &again), 3);
        assert_true(thread < THREADS && number == again);
        assert_true(number < EACH && !seen->has[thread][number]); /* none twice */
        seen->has[thread][number] = true;
        seen->n_marks++;
        return 0;
}

static const char *find_text(const char *text, const char *wanted)
{
        const char *at = strstr(text, wanted);

        assert_non_null(at);
        return at;
}

/* The span has both attributes, though its end may lie in another thread's chunk than they do. */
static int check_span(struct seen *seen, const struct infp_row *row)
{
        unsigned number = 0, doubled = 0;
        char text[128] = "";
        size_t size;
        const char *attributes = infp_row_text(row, INFP_SPANS_ATTRIBUTES, &size);

        assert_true(size < sizeof(text));
        memcpy(text, attributes, size);
        /* In either order: each lies in its own thread's chunk. */
        assert_int_equal(sscanf(find_text(text, "number"), "number\":%u", &number), 1);
        assert_int_equal(sscanf(find_text(text, "doubled"), "doubled\":%u", &doubled), 1);
        assert_int_equal(doubled, 2 * number);
        assert_true(infp_row_has(row, INFP_SPANS_DURATION_NS));
        seen->n_spans++;
        return 0;
}

static int check(void *context, const struct infp_row *row)
{
        struct seen *seen = context;

        if (row->table == &infp_table_marks)
                return check_mark(seen, row);
        if (row->table == &infp_table_spans)
                return check_span(seen, row);
        seen->sum = row->cell[INFP_COUNTERS_VALUE].f64 > seen->sum ? row->cell[INFP_COUNTERS_VALUE].f64 : seen->sum;
        seen->n_values++;
        return 0;
}

static atomic_uint n_running;

static void *write_marks(void *number)
{
        infp_metric *count = infp_counter("marks", "1", NULL);

        for (unsigned i = 0; i < EACH; i++) {
                char tag[64];

                snprintf(tag, sizeof(tag), "t%u-%u-%u", (unsigned) (uintptr_t) number, i, i);
                infp_mark(tag);
                infp_add(count, 1);
        }
        atomic_fetch_sub(&n_running, 1);
        return NULL;
}

/* Spans are begun here and ended by another thread. */
static infp_span handed[SPANS];
static atomic_uint n_handed;

static void *begin_spans(void *unused)
{
        (void) unused;
        for (unsigned i = 0; i < SPANS; i++) {
                handed[i] = infp_span_start("handed", NULL);
                infp_span_int(&handed[i], "number", i);
                atomic_store_explicit(&n_handed, i + 1, memory_order_release);
        }
        atomic_fetch_sub(&n_running, 1);
        return NULL;
}

static void *end_spans(void *unused)
{
        (void) unused;
        for (unsigned i = 0; i < SPANS; i++) {
                while (atomic_load_explicit(&n_handed, memory_order_acquire) <= i)
                        sched_yield();
                infp_span_int(&handed[i], "doubled", 2 * i);
                infp_span_end(&handed[i]);
        }
        atomic_fetch_sub(&n_running, 1);
        return NULL;
}

static int take_file(void *context, int file, const struct infp_ring_owner *owner, const char *name)
{
        struct infp_ring **ring = context;
        struct infp_err err;

        (void) name;
        /* The descriptor stays open until the test ends: the reader borrows it. */
        assert_int_equal(infp_ring_open(file, owner, true, ring, &err), 0);
        return 0;
}

static struct infp_ring *open_own(void)
{
        int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_ring *ring = NULL;
        struct infp_err err = { "" };

        if (infp_ring_find(proc_fd, getpid(), true, take_file, &ring, &err) != 1)
                fail_msg("%s", err.text);
        close(proc_fd);
        return ring;
}

static void read_all(struct infp_ring *ring, struct seen *seen)
{
        while (atomic_load(&n_running))
                assert_true(infp_ring_read(ring, false, check, seen, NULL) >= 0);
        assert_true(infp_ring_read(ring, true, check, seen, NULL) >= 0);
}

static void what_is_written_is_read_or_counted(void **state)
{
        pthread_t threads[THREADS];
        static struct seen seen;
        const struct infp_ring_counts *counts;
        struct infp_ring *ring;

        (void) state;
        infp_counter("marks", "1", NULL);
        assert_int_equal(infp_enable(), 0);
        ring = open_own();
        atomic_store(&n_running, THREADS);
        for (uintptr_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, write_marks, (void *) i), 0);
        read_all(ring, &seen);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        counts = infp_ring_counts(ring);
        assert_int_equal(counts->broken, 0);
        assert_int_equal(seen.n_marks + counts->dropped_full, THREADS * EACH);
        assert_true(seen.n_values > 0 && seen.n_values <= THREADS * EACH);
        assert_true(seen.sum == THREADS * EACH); /* the newest value is there, whatever was overwritten */

        /* The same file goes on. */
        atomic_store(&n_running, 2);
        assert_int_equal(pthread_create(&threads[0], NULL, begin_spans, NULL), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, end_spans, NULL), 0);
        read_all(ring, &seen);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        counts = infp_ring_counts(ring);
        assert_int_equal(counts->broken, 0);
        assert_int_equal(counts->dropped_full, THREADS * EACH - seen.n_marks); /* none of the spans */
        assert_int_equal(seen.n_spans, SPANS);
        infp_ring_close(ring);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
        (void) status;
        (void) type;
        (void) place;
        return remove(path);
}

static int clean(void **state)
{
        (void) state;
        return nftw(directory, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_written_is_read_or_counted) };

        (void) argc;
        /* The writer reads its environment before main. */
        if (!getenv("INFPROF_RING")) {
                snprintf(directory, sizeof(directory), "/dev/shm/infprof-test-%d", (int) getpid());
                if (mkdir(directory, 0700) < 0)
                        return 1;
                setenv("INFPROF_RING", directory, 1);
                setenv("INFPROF_RING_BYTES", "4m", 1);
                execv("/proc/self/exe", argv);
                return 1;
        }
        snprintf(directory, sizeof(directory), "%s", getenv("INFPROF_RING"));
        return cmocka_run_group_tests(tests, NULL, clean);
}
