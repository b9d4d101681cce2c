/* How long threads waited for a CPU: threads that come and go, in fixture trees and in this very program. */
#include "process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include "collectors/process/delays.h"

enum { PID = 70 };

static void put_thread(const char *top, int tid, const char *text)
{
        char path[96];

        snprintf(path, sizeof(path), "proc/%d/task/%d/schedstat", PID, tid);
        tree_put(top, path, text);
}

static int64_t read_sum(struct process_delays *delays, struct process_delay *delay, int root_fd, int n_threads)
{
        int64_t ret = -1;

        assert_int_equal(process_delay_read(delays, root_fd, PID, n_threads, delay, &ret), 0);
        return ret;
}

static void threads_come_and_go(void **state)
{
        char top[64];
        const int root_fd = open(tree_new(top), O_RDONLY | O_DIRECTORY);
        struct process_delays delays;
        struct process_delay delay = { 0 };

        (void) state;
        process_delays_init(&delays, false);
        put_thread(top, 70, "900 100 3\n");
        put_thread(top, 71, "800 20 3\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 2), 120);
        put_thread(top, 72, "0 0 0\n"); /* it has not run yet */
        put_thread(top, 71, "900 50 4\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 3), 150);
        assert_int_equal(delay.n, 3);
        tree_command("rm -r '%s/proc/70/task/71'", top); /* what it waited stays */
        put_thread(top, 72, "10 7 1\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 2), 157);
        /* One ends and another one begins: as many as before. */
        tree_command("rm -r '%s/proc/70/task/72'", top);
        put_thread(top, 73, "10 1000 1\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 2), 1157);
        assert_int_equal(delays.n_used, 2);
        process_delay_forget(&delays, &delay);
        assert_int_equal(delays.n_used, 0);
        process_delays_done(&delays);
        close(root_fd);
        tree_remove(top);
}

static void nothing_is_counted(void **state)
{
        char top[64];
        const int root_fd = open(tree_new(top), O_RDONLY | O_DIRECTORY);
        struct process_delays delays;
        struct process_delay delay = { 0 };
        int64_t ns;

        (void) state;
        process_delays_init(&delays, false);
        assert_int_equal(process_delay_read(&delays, root_fd, PID, 1, &delay, &ns), -ENOENT); /* no such process */
        put_thread(top, 70, "0 0 0\n"); /* a kernel that counts nothing */
        assert_int_equal(process_delay_read(&delays, root_fd, PID, 1, &delay, &ns), -ENOENT);
        put_thread(top, 70, "rubbish\n");
        assert_int_equal(process_delay_read(&delays, root_fd, PID, 1, &delay, &ns), -ENOENT);
        put_thread(top, 70, "5 -3 1\n");
        assert_int_equal(process_delay_read(&delays, root_fd, PID, 1, &delay, &ns), -ENOENT);
        put_thread(top, 70, "5 3 1\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 1), 3);
        process_delays_done(&delays);
        close(root_fd);
        tree_remove(top);
}

/* Beyond the bound a process counts by its first thread, and its sum does not fall. */
static void too_many_threads(void **state)
{
        char top[64];
        const int root_fd = open(tree_new(top), O_RDONLY | O_DIRECTORY);
        struct process_delays delays;
        struct process_delay delay = { 0 };

        (void) state;
        process_delays_init(&delays, false);
        put_thread(top, 70, "900 100 3\n");
        put_thread(top, 71, "900 40 3\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 2), 140);
        tree_command("cd '%s/proc/70/task' && seq 100 2199 | xargs mkdir", top);
        assert_int_equal(read_sum(&delays, &delay, root_fd, 2102), 140);
        assert_true(delays.is_cut && delay.is_by_leader);
        assert_int_equal(delays.n_used, 0);
        put_thread(top, 70, "900 130 3\n");
        put_thread(top, 71, "900 90 3\n");
        assert_int_equal(read_sum(&delays, &delay, root_fd, 2102), 170);
        process_delays_done(&delays);
        close(root_fd);
        tree_remove(top);
}

static void *wait_for_it(void *barrier)
{
        pthread_barrier_wait(barrier);
        pthread_barrier_wait(barrier);
        return NULL;
}

/* Also those of a sanitizer, and those that have been joined and are not quite gone. */
static int count_threads(void)
{
        DIR *tasks = opendir("/proc/self/task");
        int ret = -2; /* "." and ".." */

        assert_non_null(tasks);
        while (readdir(tasks))
                ret++;
        closedir(tasks);
        return ret;
}

/* Descriptors are kept, at most a quarter of those that there may be, and given back. */
static void descriptors_are_kept(void **state)
{
        enum { THREADS = 40 };
        const int root_fd = open("/", O_RDONLY | O_DIRECTORY), free_fd = dup(root_fd);
        struct rlimit before, limit = { .rlim_cur = 100 };
        struct process_delay delay = { 0 };
        struct process_delays delays;
        pthread_barrier_t barrier;
        pthread_t threads[THREADS];
        int64_t first, second;
        int next, n;

        (void) state;
        close(free_fd);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        limit.rlim_max = before.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        process_delays_init(&delays, true);
        pthread_barrier_init(&barrier, NULL, THREADS + 1);
        for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, &barrier), 0);
        pthread_barrier_wait(&barrier);
        n = count_threads();
        assert_true(n > THREADS);
        assert_int_equal(process_delay_read(&delays, root_fd, getpid(), n, &delay, &first), 0);
        assert_int_equal(delay.n, n);
        assert_int_equal(delays.n_kept, 25);
        assert_int_equal(process_delay_read(&delays, root_fd, getpid(), n, &delay, &second), 0);
        assert_true(second >= first && first > 0);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        for (n -= THREADS; count_threads() > n;)
                sched_yield();
        assert_int_equal(process_delay_read(&delays, root_fd, getpid(), n, &delay, &first), 0);
        assert_true(first >= second);
        assert_int_equal(delay.n, n);
        process_delays_done(&delays);
        next = dup(root_fd);
        assert_int_equal(next, free_fd); /* all were closed */
        close(next);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        pthread_barrier_destroy(&barrier);
        close(root_fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(threads_come_and_go),
                cmocka_unit_test(nothing_is_counted),
                cmocka_unit_test(too_many_threads),
                cmocka_unit_test(descriptors_are_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
