/* The writer harms nobody: no heap, no system call in the hot path; a program that forks, takes signals, sandboxes itself or whose
 * file others write to goes on as without us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "count_mallocs.h"
#include "ring_calls.h"
#include "skip_because.h"

static void check_no_heap(void)
{
        unsigned long before = n_mallocs;

        open_all();
        call_all(5000); /* until full, and on */
        CHECK(ring_head()->dropped_full > 0 && ring_head()->evicted_chunks > 0);
        CHECK_EQUAL(n_mallocs, before);
}

static void test_no_heap(void **state)
{
        free(malloc(10));
        assert_true(n_mallocs > 0); /* the count counts */
        (void) state;
        in_child(directory, check_no_heap);
}

/* From here on each system call but exit and write ends the process; n: the number that stays allowed. */
static void allow_only_exit(void)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                _exit(77);
}

/* Also when chunks run out: who still lives is asked only where living threads hold much of the file. */
static void check_no_system_call(void)
{
        open_all();
        call_all(10);
        allow_only_exit();
        call_all(400);
        CHECK(ring_count_kind(INFP_WIRE_MARK) == 410 && ring_count(INFP_WIRE_SEALED) > 20);
        call_all(5000);
        CHECK(ring_head()->dropped_full > 0 && ring_head()->evicted_chunks > 0);
}

static void test_no_system_call(void **state)
{
        int status;
        pid_t pid;

        (void) state;
#ifdef COUNT_BY_SANITIZER
        SKIP_BECAUSE("a sanitizer makes system calls of its own");
#endif
        pid = fork();
        if (pid == 0) {
                use_directory(directory);
                check_no_system_call();
                _exit(0);
        }
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("seccomp is not allowed here");
        assert_int_equal(status, 0);
}

/* A sandbox that refuses what the file needs: no file, an error, and no harm. */
static void refuse(int number)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                _exit(0); /* not allowed here: the test above says so */
}

static void check_refused_openat(void)
{
        refuse(SYS_openat);
        CHECK_EQUAL(infp_enable(), -EPERM);
        call_all(10);
        CHECK_EQUAL(infp_is_recording(), 0);
}

static void check_refused_mmap(void)
{
        refuse(SYS_mmap);
        CHECK(infp_enable() < 0);
        call_all(10);
}

static void check_refused_fallocate(void) /* zeros are written instead */
{
        refuse(SYS_fallocate);
        CHECK_EQUAL(infp_enable(), 0);
        call_all(10);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 10);
}

static void check_refused_madvise(void) /* a kernel without MADV_WIPEONFORK: fork by libc is told all the same */
{
        int status;
        pid_t pid;

        refuse(SYS_madvise);
        open_all();
        infp_mark("parent");
        pid = fork();
        if (pid == 0) {
                infp_mark("child");
                _exit(ring_head()->pid == getpid() && ring_count_kind(INFP_WIRE_MARK) == 1 ? 0 : 1);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 1);
}

static void test_refused(void **state)
{
        (void) state;
        in_child(directory, check_refused_openat);
        in_child(directory, check_refused_mmap);
        in_child(directory, check_refused_fallocate);
        in_child(directory, check_refused_madvise);
}

static void check_fork(void)
{
        infp_span before, other;
        int status;
        pid_t pid;

        clean();
        open_all();
        infp_add(counter, 5);
        before = infp_span_begin("before fork");
        pid = fork();
        if (pid == 0) {
                CHECK_EQUAL(n_files(), 1); /* a child that says nothing has no file */
                infp_mark("child");
                CHECK_EQUAL(n_files(), 2);
                CHECK_EQUAL(ring_head()->pid, getpid());
                infp_span_int(&before, "not ours", 1);
                infp_span_end(&before);
                other = infp_span_begin("in the child");
                CHECK_EQUAL(other.parent, 0);
                infp_add(counter, 1);
                CHECK(infp_writer_file.metrics[0].n == 1 && infp_writer_file.metrics[0].value == 0x3ff0000000000000);
                CHECK(strcmp(ring_text(NULL, &infp_writer_file.metrics[0].name), "c") == 0);
                CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END) + ring_count_kind(INFP_WIRE_SPAN_ATTR), 0);
                pid = fork(); /* and its child */
                if (pid == 0) {
                        infp_mark("grandchild");
                        CHECK(n_files() == 3 && ring_head()->pid == getpid());
                        _exit(0);
                }
                CHECK(waitpid(pid, &status, 0) == pid);
                _exit(status);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        infp_span_end(&before);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END), 1);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 0);
        CHECK_EQUAL(ring_head()->pid, getpid());
}

__attribute__((unused)) static void check_vfork(void)
{
        int status;
        pid_t pid;

        open_all();
        infp_mark("before");
        pid = vfork();
        if (pid == 0) {
                infp_mark("in vfork");
                _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        infp_mark("after");
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 3);
}

static void test_fork(void **state)
{
        (void) state;
        in_child(directory, check_fork);
#ifndef COUNT_BY_SANITIZER /* which makes a fork of it */
        in_child(directory, check_vfork);
#endif
}

static _Atomic unsigned n_signals;

static void on_signal(int number)
{
        (void) number;
        infp_mark("signal");
        atomic_fetch_add(&n_signals, 1);
}

/* A handler that interrupts one of our calls in its own thread is turned away, and counted. */
static void check_signals(void)
{
        struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
        uint64_t until;
        unsigned n = 0;

        open_all();
        signal(SIGALRM, on_signal);
        setitimer(ITIMER_REAL, &often, NULL);
        until = infp_now_ns() + 200000000;
        while (infp_now_ns() < until) {
                infp_mark("loop");
                n++;
        }
        setitimer(ITIMER_REAL, &never, NULL);
        CHECK(n_signals > 100);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK) + ring_head()->dropped_full + ring_head()->dropped_busy,
                    n + n_signals);
        CHECK(ring_head()->dropped_busy > 0);
}

static void test_signals(void **state)
{
        (void) state;
        in_child(directory, check_signals);
}

/* Another process of this user writes nonsense into the file: what is recorded is lost, the program goes on. */
static void check_scribbled(void)
{
        uint64_t random = 88172645463325252;
        uint32_t chunks = ring_head() ? 0 : 221;

        open_all();
        for (unsigned i = 0; i < 20000; i++) {
                uint64_t *word;

                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if (random % 4 == 0) /* of the head, behind what is written once */
                        word = (uint64_t *) (void *) ring_head() + offsetof(struct infp_wire_head, n_chunks) / 8 +
                               random / 4 % 24;
                else /* of a chunk's head */
                        word = (uint64_t *) (void *) ring_chunk((uint32_t) (random / 4 % chunks)) + random / 1024 % 8;
                __atomic_store_n(word, random % 3 ? random >> random % 64 : random % 65536, __ATOMIC_RELAXED);
                call_all(3);
        }
}

static void test_scribbled(void **state)
{
        (void) state;
        in_child(directory, check_scribbled);
}

/* What takes system calls leaves errno as it was: the first call, a full file, metrics, files that cannot be made. */
static void check_errno(void)
{
        char name[32];

        strcpy(infp_writer_config.directory, "/proc/nowhere");
        errno = EXDEV;
        CHECK(infp_enable() < 0 && errno == EXDEV);
        use_directory(directory);
        open_all();
        CHECK_EQUAL(errno, EXDEV);
        for (unsigned i = 0; i < 2000; i++) {
                snprintf(name, sizeof name, "m%u", i);
                infp_gauge(name, NULL, NULL);
        }
        infp_writer_config.bytes = INFP_WIRE_MAX_BYTES; /* it may grow, but finds no file any more */
        clean();
        errno = EXDEV;
        call_all(5000);
        CHECK_EQUAL(errno, EXDEV);
        CHECK_EQUAL(ring_head()->grow_errno, ENOENT);
}

static void test_errno(void **state)
{
        (void) state;
        in_child(directory, check_errno);
}

static void *record_cancelled(void *unused)
{
        (void) unused;
        pthread_cancel(pthread_self()); /* at its next point of cancellation */
        open_all();
        call_all(5000);
        return "done";
}

/* No call of ours is a point of cancellation: not the one that makes the file, nor those that let it grow. */
static void check_cancelled(void)
{
        pthread_t thread;
        void *returned = NULL;

        infp_writer_config.bytes = INFP_WIRE_MAX_BYTES;
        CHECK(pthread_create(&thread, NULL, record_cancelled, NULL) == 0 && pthread_join(thread, &returned) == 0);
        CHECK(returned != PTHREAD_CANCELED && ring_head()->n_chunks > 256);
        infp_mark("no lock is held");
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 5001);
}

static void test_cancelled(void **state)
{
        (void) state;
        in_child(directory, check_cancelled);
}

/* Exit in order: nobody has read it, so it goes; with a recorder about it stays and says that it has ended. */
static void test_exit(void **state)
{
        (void) state;
        for (unsigned kept = 0; kept < 2; kept++) {
                int status;
                pid_t pid;

                clean();
                fflush(stdout);
                pid = fork();
                if (pid == 0) {
                        use_directory(directory);
                        strcpy(infp_writer_config.run, kept ? "0123-run" : "");
                        open_all();
                        infp_mark("the last");
                        if (n_files() != 1)
                                _exit(1);
                        exit(0);
                }
                waitpid(pid, &status, 0);
                assert_int_equal(status, 0);
                assert_int_equal(n_files(), kept);
        }
        /* The one that was kept. */
        DIR *stream = opendir(directory);
        for (struct dirent *entry; (entry = readdir(stream));) {
                struct infp_wire_head head;
                char path[512];
                int file;

                if (!strstr(entry->d_name, ".ring"))
                        continue;
                snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
                file = open(path, O_RDONLY);
                assert_int_equal(read(file, &head, sizeof head), sizeof head);
                close(file);
                assert_int_equal(head.ended, 1);
                assert_string_equal(head.run, "0123-run");
        }
        closedir(stream);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_heap), cmocka_unit_test(test_no_system_call), cmocka_unit_test(test_refused),
                cmocka_unit_test(test_fork),    cmocka_unit_test(test_signals),        cmocka_unit_test(test_scribbled),
                cmocka_unit_test(test_errno),   cmocka_unit_test(test_cancelled),      cmocka_unit_test(test_exit),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
