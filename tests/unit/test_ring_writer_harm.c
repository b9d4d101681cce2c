/* The writer harms nobody: no heap, no system call in the hot path, no signal, no descriptor, no growth beyond limits; a program
 * that forks, execs, sandboxes itself or has no room goes on as without us. */
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
#include "ring_file.h"
#include "skip_because.h"

static char directory[64];

static int setup(void **state)
{
        (void) state;
        unsetenv("INFPROF_RUN");
        strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/infprof-test-XXXXXX" : "/tmp/infprof-test-XXXXXX");
        return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
        char command[128];

        (void) state;
        snprintf(command, sizeof command, "rm -rf %s", directory);
        return system(command);
}

static unsigned n_files(void)
{
        DIR *stream = opendir(directory);
        unsigned n = 0;

        for (struct dirent *entry; stream && (entry = readdir(stream));)
                n += strstr(entry->d_name, ".ring") != NULL;
        closedir(stream);
        return n;
}

static void clean(void)
{
        char command[128];

        snprintf(command, sizeof command, "rm -f %s/*.ring", directory);
        CHECK(system(command) == 0);
}

static infp_metric *counter, *gauge;

static void call_all(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                infp_span span = infp_span_begin("span"), request = infp_span_start("request", &span);

                infp_span_text(&request, INFP_GEN_AI_REQUEST_MODEL, "tiny");
                infp_span_int(&span, "n", i);
                infp_mark("mark");
                infp_add(counter, 1);
                infp_set(gauge, i);
                infp_step();
                infp_span_fail(&request, "none");
                infp_span_end(&span);
        }
}

static void open_all(void)
{
        CHECK_EQUAL(infp_enable(), 0);
        counter = infp_counter("c", NULL, NULL);
        gauge = infp_gauge("g", NULL, NULL);
}

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

/* Also when chunks run out, as long as the pool need not ask who still lives. */
static void check_no_system_call(void)
{
        open_all();
        call_all(10);
        allow_only_exit();
        call_all(400);
        CHECK(ring_count_kind(INFP_WIRE_MARK) == 410 && ring_count(INFP_WIRE_SEALED) > 20);
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
                strcpy(infp_writer_config.directory, directory);
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
        CHECK(ring_head()->grow_errno == EFBIG && ring_head()->n_chunks == 222);
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

#ifndef COUNT_BY_SANITIZER
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
#ifndef COUNT_BY_SANITIZER
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
        CHECK_EQUAL(infp_enable(), 0); /* there is no /proc: what it would say is 0 */
        CHECK(ring_head()->start_ticks == 0 && ring_head()->pid_ns == 0);
        call_all(3);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 3);
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
        CHECK(ring_head()->grow_errno == ENOSPC && ring_head()->n_chunks == 222 && ring_head()->dropped_full > 0);
}

static void test_live_full_disk(void **state)
{
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0) {
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
        CHECK(ring_head()->grow_errno == ENOMEM && ring_head()->n_chunks > 222 && ring_head()->n_chunks < 2700);
        write_file(roots[i], "cgroup.procs", own);
        rmdir(group);
}

static void test_live_control_group(void **state)
{
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0) {
                strcpy(infp_writer_config.directory, directory);
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
        uint32_t chunks = ring_head() ? 0 : 222;

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
                        strcpy(infp_writer_config.directory, directory);
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
                cmocka_unit_test(test_no_heap),
                cmocka_unit_test(test_no_system_call),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_directories),
                cmocka_unit_test(test_live_full_disk),
                cmocka_unit_test(test_live_control_group),
                cmocka_unit_test(test_due),
                cmocka_unit_test(test_fork),
                cmocka_unit_test(test_signals),
                cmocka_unit_test(test_scribbled),
                cmocka_unit_test(test_exit),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
