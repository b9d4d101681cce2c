/* The store's way to the disk, with a disk of the test's own: fdatasync is defined here. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/time.h"
#include "store_run.h"

static struct disk {
        atomic_uint n_begun, n_ended, n_at_once, most_at_once, n_open_to_signals;
        atomic_int error;
        atomic_bool is_stuck;
        sem_t go; /* one for each that is stuck */
} disk;

int fdatasync(int fd)
{
        unsigned n = ++disk.n_at_once;
        sigset_t set;
        int error = disk.error;

        (void) fd;
        if (n > disk.most_at_once)
                disk.most_at_once = n;
        disk.n_begun++;
        pthread_sigmask(SIG_SETMASK, NULL, &set);
        disk.n_open_to_signals += sigismember(&set, SIGTERM) != 1 || sigismember(&set, SIGCHLD) != 1;
        if (disk.is_stuck)
                sem_wait(&disk.go);
        disk.n_at_once--;
        disk.n_ended++;
        errno = error;
        return error ? -1 : 0;
}

static int new_disk(void **state)
{
        (void) state;
        disk.n_begun = disk.n_ended = disk.n_at_once = disk.most_at_once = disk.n_open_to_signals = 0;
        disk.error = 0;
        disk.is_stuck = false;
        return sem_init(&disk.go, 0, 0);
}

static void until(atomic_uint *counter, unsigned n)
{
        for (unsigned i = 0; i < 10000 && *counter < n; i++)
                usleep(1000);
        assert_true(*counter >= n);
}

static int tick(struct test_run *t, unsigned seconds)
{
        t->err.text[0] = 0;
        return t->sink->tick_end(t->sink, seconds * INFP_NS_PER_S, 0, &t->err);
}

enum { TABLES = 3 };

static void write_tables(struct test_run *t)
{
        static struct infp_table tables[TABLES];
        static char names[TABLES][16];
        struct infp_builder *b = sample_builder(0, 3);
        struct infp_batch batch = infp_builder_batch(b, 0);

        for (unsigned i = 0; i < TABLES; i++) {
                snprintf(names[i], sizeof(names[i]), "table_%u", i);
                tables[i] = sample_table;
                tables[i].name = names[i];
                batch.table = &tables[i];
                assert_int_equal(t->sink->batch(t->sink, &batch, &t->err), 0);
        }
        infp_builder_free(b);
}

/* With a disk that answers nothing the store goes on, never asks it two things at once, and has an end. */
static void waits_for_no_disk(void **state)
{
        struct test_run t = test_run_open(NULL);
        uint64_t began;
        char path[128];
        struct infp_run *again;

        (void) state;
        disk.is_stuck = true;
        write_tables(&t);
        assert_int_equal(tick(&t, 1), 0);
        assert_int_equal(tick(&t, 11), 0);
        until(&disk.n_begun, 1);
        for (unsigned second = 12; second < 60; second += 4) {
                write_tables(&t);
                assert_int_equal(tick(&t, second), 0);
        }
        assert_int_equal(t.sink->rotate(t.sink, 2, &t.err), 0);
        write_tables(&t);
        assert_int_equal(disk.n_begun, 1);
        began = infp_clock_ns(CLOCK_MONOTONIC);
        assert_int_equal(t.sink->end(t.sink, &t.err), -ETIMEDOUT);
        assert_in_range(infp_clock_ns(CLOCK_MONOTONIC) - began, INFP_NS_PER_S, 30 * INFP_NS_PER_S);
        /* Three of the pass, and all of both segments of each table since. */
        assert_non_null(strstr(t.err.text, "the disk is slow: 9 files in "));
        infp_store_sink_free(t.sink);
        snprintf(path, sizeof(path), "%s/%s.infprof", t.dir, t.run->info.uuid);
        infp_run_close(t.run);
        /* The thread that still waits holds no lock of the run. */
        assert_int_equal(infp_run_open(path, NULL, &again, &t.err), 0);
        assert_false(infp_run_is_recording(again));
        infp_run_close(again);
        disk.is_stuck = false;
        sem_post(&disk.go);
        until(&disk.n_ended, TABLES);
        assert_int_equal(disk.most_at_once, 1);
        assert_int_equal(disk.n_open_to_signals, 0);
        usleep(20000); /* the thread frees what it had */
        remove_tree(t.dir);
}

static void brings_all_to_the_disk_at_the_end(void **state)
{
        struct test_run t = test_run_open(NULL);

        (void) state;
        write_tables(&t);
        assert_int_equal(t.sink->rotate(t.sink, 2, &t.err), 0);
        write_tables(&t);
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        assert_int_equal(disk.n_ended, 2 * TABLES);
        test_run_close(&t);
}

static void says_what_the_disk_refuses(void **state)
{
        struct test_run t = test_run_open(NULL);
        int r = 0;

        (void) state;
        disk.error = EIO;
        write_tables(&t);
        assert_int_equal(tick(&t, 1), 0);
        assert_int_equal(tick(&t, 11), 0);
        for (unsigned i = 0; i < 10000 && r == 0; i++) {
                usleep(1000);
                r = tick(&t, 12);
        }
        assert_int_equal(r, -EIO);
        assert_non_null(strstr(t.err.text, "table_0/000001.arrows to disk: Input/output error"));
        assert_non_null(strstr(t.err.text, t.dir));
        assert_int_equal(disk.n_ended, TABLES); /* the others were tried all the same */
        /* It is so until the disk has taken something. */
        assert_int_equal(tick(&t, 13), -EIO);
        disk.error = 0;
        write_tables(&t);
        assert_int_equal(tick(&t, 22), -EIO);
        for (unsigned i = 0; i < 10000 && r < 0; i++) {
                usleep(1000);
                r = tick(&t, 23);
        }
        assert_int_equal(r, 0);
        /* A file system without such a thing is fine. */
        disk.error = EINVAL;
        write_tables(&t);
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        test_run_close(&t);
}

/* A full disk can show here first: blocks are given out late. */
static void says_at_the_end_what_the_disk_refuses(void **state)
{
        struct test_run t = test_run_open(NULL);

        (void) state;
        disk.error = ENOSPC;
        write_tables(&t);
        assert_int_equal(t.sink->end(t.sink, &t.err), -ENOSPC);
        assert_non_null(strstr(t.err.text, "to disk: No space left on device"));
        test_run_close(&t);
}

static void tries_again_without_descriptors(void **state)
{
        struct test_run t = test_run_open(NULL);
        struct rlimit before, few;

        (void) state;
        write_tables(&t);
        assert_int_equal(tick(&t, 1), 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = before;
        few.rlim_cur = 3;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        assert_int_equal(tick(&t, 11), 0);
        assert_int_equal(tick(&t, 22), 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(disk.n_begun, 0);
        assert_int_equal(tick(&t, 33), 0);
        until(&disk.n_ended, TABLES);
        test_run_close(&t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(waits_for_no_disk, new_disk),
                cmocka_unit_test_setup(brings_all_to_the_disk_at_the_end, new_disk),
                cmocka_unit_test_setup(says_what_the_disk_refuses, new_disk),
                cmocka_unit_test_setup(says_at_the_end_what_the_disk_refuses, new_disk),
                cmocka_unit_test_setup(tries_again_without_descriptors, new_disk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
