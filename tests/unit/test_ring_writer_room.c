/* The writer takes no room that is not there: limits of the process, its control group and the disk, and directories that are not
 * its own. Then there is no file, or one that does not grow, and calls do nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include "ring_calls.h"
#include "skip_because.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* The kernel would end the process by SIGXFSZ. */
static void check_file_size_limit(void)
{
        struct rlimit limit = { 512 * 1024, 512 * 1024 };

        clean();
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK_EQUAL(infp_enable(), -EFBIG);
        call_all(10);
        CHECK_EQUAL(n_files(), 0);
}

static void check_growth_limit(void)
{
        struct rlimit limit = { 1024 * 1024, 1024 * 1024 };

        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        open_all();
        ring_head()->consumer_pid = 1;
        ring_head()->consumer_seen_ns = infp_now_ns();
        call_all(10000);
        CHECK(ring_head()->grow_errno == EFBIG && ring_head()->n_chunks == 221);
}

static void check_no_descriptor(void)
{
        struct rlimit limit = { 0, 0 };

        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK_EQUAL(infp_enable(), -EMFILE);
        call_all(10);
}

static void check_keeps_no_descriptor(void)
{
        int before = dup(0), after;

        open_all();
        call_all(10);
        after = dup(0);
        CHECK_EQUAL(after, before + 1);
}

#ifndef SANITIZED
static void check_address_space(void)
{
        struct rlimit limit = { 1 << 20, 1 << 20 };

        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        CHECK(infp_enable() < 0);
        call_all(10);
}

#endif

static void test_limits(void **state)
{
        (void) state;
        in_child(directory, check_file_size_limit);
        in_child(directory, check_growth_limit);
        in_child(directory, check_no_descriptor);
        in_child(directory, check_keeps_no_descriptor);
#ifndef SANITIZED
        in_child(directory, check_address_space);
#endif
}

static void check_open_directory(void) /* others could put files there */
{
        snprintf(infp_writer_config.directory, sizeof infp_writer_config.directory, "%s/open", directory);
        CHECK(mkdir(infp_writer_config.directory, 0700) == 0 && chmod(infp_writer_config.directory, 0755) == 0);
        CHECK_EQUAL(infp_enable(), -EPERM);
}

static void check_link(void)
{
        char target[128];

        snprintf(target, sizeof target, "%s/target", directory);
        snprintf(infp_writer_config.directory, sizeof infp_writer_config.directory, "%s/link", directory);
        CHECK(mkdir(target, 0700) == 0 && symlink(target, infp_writer_config.directory) == 0);
        CHECK(infp_enable() < 0);
}

static void check_made_directory(void)
{
        struct stat st;

        umask(0);
        snprintf(infp_writer_config.directory, sizeof infp_writer_config.directory, "%s/new", directory);
        CHECK_EQUAL(infp_enable(), 0);
        CHECK(stat(infp_writer_config.directory, &st) == 0 && st.st_mode == (S_IFDIR | 0700));
        CHECK(stat(infp_writer_file.path, &st) == 0 && st.st_mode == (S_IFREG | 0600));
}

static void check_other_user(void)
{
        if (geteuid() != 0)
                return;
        CHECK(chown(directory, 12345, 12345) == 0);
        CHECK_EQUAL(infp_enable(), -EPERM);
        CHECK(chown(directory, 0, 0) == 0);
}

static void check_nowhere(void) /* chroot without /proc, /dev/shm and /tmp */
{
        if (chroot(directory) < 0)
                return;
        infp_writer_config.directory[0] = 0;
        CHECK_EQUAL(infp_enable(), -ENOENT);
        CHECK(mkdir("/tmp", 0777) == 0);
        CHECK_EQUAL(infp_enable(), -ENOENT); /* there is no /proc: nobody could tell whose the file is */
        call_all(3);
        CHECK(!infp_is_recording());
        strcpy(infp_writer_config.directory, "/tmp/rings");
        CHECK_EQUAL(infp_enable(), -ENOENT);
        strcpy(directory, "/tmp/rings");
        CHECK_EQUAL(n_files(), 0);
}

static void test_directories(void **state)
{
        (void) state;
        in_child(directory, check_open_directory);
        in_child(directory, check_link);
        in_child(directory, check_made_directory);
        in_child(directory, check_other_user);
        in_child(directory, check_nowhere);
}

static void check_small_disk(void)
{
        char path[128];

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                _exit(77);
        snprintf(path, sizeof path, "%s/small", directory);
        if (mkdir(path, 0700) < 0 || mount("none", path, "tmpfs", 0, "size=700k,mode=700") < 0)
                _exit(77);
        strcpy(infp_writer_config.directory, path);
        CHECK_EQUAL(infp_enable(), -ENOSPC);
        call_all(10);
        CHECK(rmdir(path) < 0);
        /* Room for one file, not for its growth. */
        CHECK(mount("none", path, "tmpfs", 0, "size=1500k,mode=700") == 0);
        open_all();
        ring_head()->consumer_pid = 1;
        ring_head()->consumer_seen_ns = infp_now_ns();
        call_all(10000);
        CHECK(ring_head()->grow_errno == ENOSPC && ring_head()->n_chunks == 221 && ring_head()->dropped_full > 0);
}

static void test_live_full_disk(void **state)
{
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0) {
                use_directory(directory);
                check_small_disk();
                _exit(0);
        }
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("a small tmpfs cannot be mounted here (needs root)");
        assert_int_equal(status, 0);
}

static bool write_file(const char *directory_, const char *name, const char *text)
{
        char path[256];
        int file;
        bool is_written;

        snprintf(path, sizeof path, "%s/%s", directory_, name);
        file = open(path, O_WRONLY);
        is_written = file >= 0 && write(file, text, strlen(text)) == (ssize_t) strlen(text);
        close(file);
        return is_written;
}

/* A control group with 6 MiB: no file. With 16 MiB: one, which cannot grow to its full size. */
static char group[128];

static void check_control_group(void)
{
        static const char *const roots[] = { "/sys/fs/cgroup/memory", "/sys/fs/cgroup" };
        static const char *const limits[] = { "memory.limit_in_bytes", "memory.max" };
        char own[32];
        unsigned i;

        snprintf(own, sizeof own, "%d", (int) getpid());
        for (i = 0; i < 2; i++) {
                snprintf(group, sizeof group, "%s/infprof-test-%s", roots[i], own);
                if (mkdir(group, 0755) == 0 && write_file(group, limits[i], "6291456"))
                        break;
                rmdir(group);
        }
        if (i == 2 || !write_file(group, "cgroup.procs", own))
                _exit(77);
        CHECK_EQUAL(infp_enable(), -ENOMEM);
        CHECK(write_file(group, limits[i], "16777216"));
        CHECK_EQUAL(infp_enable(), 0);
        ring_head()->consumer_pid = 1;
        ring_head()->consumer_seen_ns = infp_now_ns();
        call_all(30000);
        CHECK(ring_head()->grow_errno == ENOMEM && ring_head()->n_chunks > 221 && ring_head()->n_chunks < 2700);
        write_file(roots[i], "cgroup.procs", own);
        rmdir(group);
}

static void test_live_control_group(void **state)
{
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0) {
                use_directory(directory);
                check_control_group();
                _exit(0);
        }
        waitpid(pid, &status, 0);
        for (unsigned i = 0; i < 2; i++) { /* when it failed */
                snprintf(group, sizeof group, "/sys/fs/cgroup%s/infprof-test-%d", i ? "" : "/memory", (int) pid);
                rmdir(group);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("a control group with a memory limit cannot be made here (needs root)");
        assert_int_equal(status, 0);
}

/* What the environment asked for cannot be had: calls are no-ops, tried again seldom. */
static void check_due(void)
{
        infp_writer_make_page();
        snprintf(infp_writer_config.directory, sizeof infp_writer_config.directory, "%s/a/b", directory);
        infp_writer_state = INFP_WRITER_DUE;
        CHECK_EQUAL(infp_is_recording(), 1); /* not known yet */
        infp_mark("first");
        CHECK_EQUAL(infp_is_recording(), 0);
        call_all(1000);
        CHECK_EQUAL(infp_is_recording(), 0);
        strcpy(infp_writer_config.directory, directory);
        call_all(1000); /* 30 s have not gone by */
        CHECK_EQUAL(infp_is_recording(), 0);
        CHECK_EQUAL(infp_enable(), 0); /* who asks is answered */
        infp_mark("there");
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 1);
        CHECK(ring_head()->dropped_full > 3000); /* what had no file is counted in the first */
}

static void test_due(void **state)
{
        (void) state;
        in_child(directory, check_due);
}

static sigjmp_buf away;

static void leave(int number)
{
        (void) number;
        siglongjmp(away, 1);
}

static void *enable_elsewhere(void *unused)
{
        (void) unused;
        return infp_enable() == 0 ? "it can" : NULL;
}

/* A handler that leaves by siglongjmp while the file is made, at ever later moments, leaves no lock held. */
static void check_left(unsigned us)
{
        struct itimerval soon = { { 0, 0 }, { 0, us } }, never = { { 0, 0 }, { 0, 0 } };
        void *returned = NULL;
        pthread_t thread;

        signal(SIGALRM, leave);
        if (sigsetjmp(away, 1) == 0) {
                setitimer(ITIMER_REAL, &soon, NULL);
                infp_enable();
        }
        setitimer(ITIMER_REAL, &never, NULL);
        CHECK(pthread_create(&thread, NULL, enable_elsewhere, NULL) == 0 && pthread_join(thread, &returned) == 0);
        CHECK(returned != NULL);
}

static void test_left(void **state)
{
        (void) state;
        for (unsigned us = 10; us <= 800; us += 10) {
                int status;
                pid_t pid;

                fflush(stdout);
                pid = fork();
                if (pid == 0) {
                        use_directory(directory);
                        check_left(us);
                        clean();
                        _exit(0);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_int_equal(status, 0);
        }
}

#ifndef SANITIZED
static void say_nothing(int number)
{
        (void) number;
}

static void say_first(int number)
{
        (void) number;
        CHECK_EQUAL(infp_enable(), 0);
        for (unsigned i = 0; i < 20000; i++)
                infp_mark("a first call, and what lets the file grow");
}

/* Bytes of a stack of its own that a handler uses. */
static size_t stack_of_handler(void (*handler)(int))
{
        enum { BYTES = 65536 };
        static unsigned char bytes[BYTES];
        stack_t stack = { .ss_sp = bytes, .ss_size = BYTES };
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
        size_t unused = 0;

        memset(bytes, 0xA5, BYTES);
        CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);
        while (unused < BYTES && bytes[unused] == 0xA5)
                unused++;
        sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
        return BYTES - unused;
}

/* Of 8 KiB (SIGSTKSZ) the kernel takes 3, and the loader 3 for the first call of a function. */
static void check_small_stack(void)
{
        size_t least = stack_of_handler(say_nothing);

        infp_writer_config.bytes = INFP_WIRE_MAX_BYTES;
        CHECK(stack_of_handler(say_first) < least + 6000);
        CHECK(ring_head()->n_chunks > 256);
}
#endif

static void test_small_stack(void **state)
{
        (void) state;
#ifndef SANITIZED
        in_child(directory, check_small_stack);
#endif
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_directories),
                cmocka_unit_test(test_live_full_disk),
                cmocka_unit_test(test_live_control_group),
                cmocka_unit_test(test_due),
                cmocka_unit_test(test_left),
                cmocka_unit_test(test_small_stack),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
