/* What other users of the machine can do to a run: nothing. */
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

#include "skip_because.h"
#include "store_run.h"

static char dir[64];

static int set_up(void **state)
{
        (void) state;
        strcpy(dir, "/tmp/infprof-others-XXXXXX");
        return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
        (void) state;
        remove_tree(dir);
        return 0;
}

static struct infp_run *reopened(const char *output)
{
        struct infp_err err = { "" };
        struct infp_run *run;

        assert_int_equal(infp_run_open(output, NULL, &run, &err), 0);
        return run;
}

static mode_t mode_of(int dir_fd, const char *name)
{
        struct stat st;

        assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        return st.st_mode & 07777;
}

/* Command lines and output are nobody else's business. */
static void is_closed_to_others(void **state)
{
        struct infp_run_info info = test_info();
        struct infp_err err = { "" };
        struct infp_run *run;
        mode_t before = umask(022);

        (void) state;
        assert_int_equal(infp_run_create(dir, &info, &run, &err), 0);
        assert_int_equal(mode_of(run->fd, "."), 0700);
        assert_int_equal(infp_run_file_mode(run), 0600);
        infp_run_close(run);
        info.is_shared = true;
        infp_uuid_make(info.uuid);
        assert_int_equal(infp_run_create(dir, &info, &run, &err), 0);
        assert_int_equal(mode_of(run->fd, "."), 0755);
        assert_int_equal(mode_of(run->fd, "run.json"), 0644);
        assert_int_equal(mode_of(run->fd, "run.lock"), 0600);
        assert_int_equal(infp_run_file_mode(run), 0666);
        assert_int_equal(infp_run_remove(run), 0);
        infp_run_close(run);
        umask(before);
}

/* Another user locks all that he can open of a shared run whose recorder died: nobody takes it for one that is recorded. */
static void is_not_held_up_by_locks_of_others(void **state)
{
        static const char *const names[] = { ".", "run.json", "run.lock" };
        struct infp_run_info info = test_info();
        struct infp_err err = { "" };
        struct infp_run *run;
        int status, go[2];
        pid_t pid;
        char byte;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        info.is_shared = true;
        assert_int_equal(infp_run_create(dir, &info, &run, &err), 0);
        infp_run_close(run);
        assert_int_equal(chmod(dir, 0755), 0);
        run = reopened(dir);
        assert_int_equal(pipe(go), 0);
        pid = fork();
        if (pid == 0) {
                unsigned n = 0;

                if (setuid(65534) < 0)
                        _exit(1);
                for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                        int fd = openat(run->fd, names[i], O_RDONLY);

                        n += fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
                }
                if (n != 2 || write(go[1], "x", 1) != 1)
                        _exit(2);
                pause();
        }
        close(go[1]);
        assert_int_equal(read(go[0], &byte, 1), 1);
        close(go[0]);
        infp_run_close(run);
        run = reopened(dir);
        assert_int_equal(run->state, INFP_RUN_INTERRUPTED);
        infp_run_close(run);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
        const struct CMUnitTest tests[] = { TEST(is_closed_to_others), TEST(is_not_held_up_by_locks_of_others) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
