/* How threads are started, and mappings that survive what other programs do to their file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/guarded_map.h"
#include "base/thread.h"
#include "base/time.h"

enum { PAGE = 4096, PAGES = 4 };

struct seen {
        char name[17];
        sigset_t mask;
        size_t stack_bytes;
};

static void *look(void *context)
{
        struct seen *seen = context;
        pthread_attr_t attributes;

        prctl(PR_GET_NAME, seen->name);
        pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
        assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
        pthread_attr_getstacksize(&attributes, &seen->stack_bytes);
        pthread_attr_destroy(&attributes);
        return NULL;
}

/* As threads of the recorder inherit it. */
static void block_all(void)
{
        sigset_t all;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void the_mask_is_not_the_starters(void **state)
{
        struct seen seen;
        pthread_t thread;
        sigset_t mask;

        (void) state;
        for (unsigned i = 0; i < 2; i++) {
                if (i)
                        block_all();
                assert_int_equal(infp_thread_start(&thread, "infprof-test", 0, look, &seen), 0);
                assert_int_equal(pthread_join(thread, NULL), 0);
                assert_string_equal(seen.name, "infprof-test");
                assert_true(seen.stack_bytes >= 8 << 20);
                for (int number = 1; number < 32; number++) {
                        const bool is_own = number == SIGBUS || number == SIGSEGV || number == SIGFPE ||
                                            number == SIGILL || number == SIGTRAP || number == SIGSYS ||
                                            number == SIGTTIN || number == SIGTTOU;

                        if (number != SIGKILL && number != SIGSTOP)
                                assert_int_equal(sigismember(&seen.mask, number), !is_own);
                }
                pthread_sigmask(SIG_SETMASK, NULL, &mask);
                assert_int_equal(sigismember(&mask, SIGTERM), i); /* its own is as before */
        }
        assert_int_equal(infp_thread_start(&thread, "infprof-test", 256 << 10, look, &seen), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
#ifdef __SANITIZE_THREAD__ /* its runtime adds to each stack; the default has 8 MiB */
        assert_in_range(seen.stack_bytes, 256 << 10, 2 << 20);
#else
        assert_in_range(seen.stack_bytes, 256 << 10, 512 << 10);
#endif
}

static void *pause_until_told(void *context)
{
        char byte;

        (void) !read(*(const int *) context, &byte, 1);
        return NULL;
}

static void a_join_ends_at_its_time(void **state)
{
        int pipe_fds[2];
        pthread_t thread;

        (void) state;
        assert_int_equal(pipe(pipe_fds), 0);
        assert_int_equal(infp_thread_start(&thread, "infprof-test", 0, pause_until_told, pipe_fds), 0);
        assert_false(infp_thread_join_until(thread, infp_clock_ns(CLOCK_MONOTONIC) + INFP_NS_PER_MS));
        assert_int_equal(write(pipe_fds[1], "", 1), 1);
        assert_true(infp_thread_join_until(thread, infp_clock_ns(CLOCK_MONOTONIC) + 60 * INFP_NS_PER_S));
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* Sums all bytes of a file that is cut after it was mapped. */
static void *sum_cut_file(void *context)
{
        struct infp_guarded_map maps[2] = { 0 };
        const int *files = context;
        uint64_t sum = 0;

        block_all();
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(infp_guarded_map_open(&maps[i], files[i], PAGES * PAGE, false), 0);
        maps[0].next = &maps[1];
        assert_int_equal(ftruncate(files[1], PAGE), 0);
        infp_guarded_map_begin(&maps[0]);
        for (unsigned i = 0; i < 2; i++)
                for (size_t at = PAGES * PAGE; at--;)
                        sum += *(volatile unsigned char *) (maps[i].at + at);
        infp_guarded_map_end();
        assert_false(atomic_load(&maps[0].is_lost));
        assert_true(atomic_load(&maps[1].is_lost));
        assert_int_equal(sum, PAGES * PAGE); /* the cut one is zeros altogether */
        for (unsigned i = 0; i < 2; i++)
                infp_guarded_map_close(&maps[i]);
        return NULL;
}

static void a_cut_file_kills_nobody(void **state)
{
        unsigned char bytes[PAGES * PAGE];
        int files[2];
        pthread_t thread;

        (void) state;
        memset(bytes, 1, sizeof(bytes));
        for (unsigned i = 0; i < 2; i++) {
                files[i] = memfd_create("test", MFD_CLOEXEC);
                assert_int_equal(write(files[i], bytes, sizeof(bytes)), sizeof(bytes));
        }
        assert_int_equal(pthread_create(&thread, NULL, sum_cut_file, files), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        close(files[0]);
        close(files[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_mask_is_not_the_starters),
                cmocka_unit_test(a_join_ends_at_its_time),
                cmocka_unit_test(a_cut_file_kills_nobody),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
