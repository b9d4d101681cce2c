#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fd.h"
#include "finish/lock.h"
#include "store_run.h"

static char said[256];

static void say(void *context, const char *text)
{
        (void) context;
        snprintf(said, sizeof(said), "%s", text);
}

/* A process that holds the lock until it is killed. */
static pid_t hold(const struct infp_run *run)
{
        int ready[2];
        char byte;
        pid_t pid;

        assert_int_equal(pipe(ready), 0);
        pid = fork();
        if (pid == 0) {
                if (infp_finish_lock(run, 0, NULL, NULL) < 0 || write(ready[1], "x", 1) != 1)
                        _exit(1);
                pause();
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        return pid;
}

static void waits_for_one_and_says_for_whom(void **state)
{
        const struct infp_notices notices = { .say = say };
        struct test_run t = test_run_open(NULL);
        pid_t pid = hold(t.run);
        char want[160];
        int fd;

        (void) state;
        snprintf(want, sizeof(want), "process %d has worked on the files of run %s for more than 1 s", (int) pid,
                 t.run->info.uuid);
        assert_int_equal(infp_finish_lock(t.run, 1001, &notices, &t.err), -EBUSY);
        assert_memory_equal(t.err.text, want, strlen(want));
        snprintf(want, sizeof(want), "waiting for process %d, which works on the files of run %s", (int) pid,
                 t.run->info.uuid);
        assert_string_equal(said, want);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        fd = infp_finish_lock(t.run, 0, &notices, &t.err); /* a lock dies with its holder */
        assert_true(fd >= 0);
        close(fd);
        test_run_close(&t);
}

/* Whoever can read a run can lock what he reads: that holds nobody up. */
static void is_of_a_file_that_others_cannot_open(void **state)
{
        struct test_run t = test_run_open(NULL);
        int dir = openat(t.run->fd, ".", O_RDONLY | O_DIRECTORY), json = openat(t.run->fd, "run.json", O_RDONLY), fd;
        struct stat st;

        (void) state;
        assert_int_equal(flock(dir, LOCK_EX), 0);
        assert_int_equal(flock(json, LOCK_EX), 0);
        fd = infp_finish_lock(t.run, 0, NULL, &t.err);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        close(fd), close(dir), close(json);
        test_run_close(&t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(waits_for_one_and_says_for_whom),
                cmocka_unit_test(is_of_a_file_that_others_cannot_open),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
