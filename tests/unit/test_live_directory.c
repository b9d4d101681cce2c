/* Where live runs are found: whose directory it is, and what the dead left in it. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "live_runs.h"
#include "skip_because.h"

static void trusts_only_a_directory_of_its_own(void **state)
{
        struct infp_err err = { "" };
        char path[300], seen[300], want[600];

        (void) state;
        snprintf(path, sizeof(path), "%s/infprof", dir);
        assert_int_equal(infp_live_directory(seen, sizeof(seen), &err), 0);
        assert_string_equal(seen, path);
        assert_int_equal(chmod(path, 0755), 0);
        assert_int_equal(infp_live_directory(seen, sizeof(seen), &err), -EPERM);
        snprintf(want, sizeof(want),
                 "%s is open to other users (mode 0755), who could imitate this user's runs: chmod 700 it; set "
                 "XDG_RUNTIME_DIR to your own directory with mode 0700",
                 path);
        assert_string_equal(err.text, want);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(symlink("/tmp", path), 0);
        assert_int_equal(infp_live_directory(seen, sizeof(seen), &err), -EPERM);
        assert_non_null(strstr(err.text, "is a link or a file, not a directory"));
        assert_int_equal(unlink(path), 0);
        if (geteuid() == 0) {
                assert_int_equal(mkdir(path, 0700), 0);
                assert_int_equal(chown(path, 65534, 65534), 0);
                assert_int_equal(infp_live_directory(seen, sizeof(seen), &err), -EPERM);
                assert_non_null(strstr(err.text, "belongs to uid 65534, not to this user (uid 0)"));
                /* The runtime directory of another (sudo -E): ours is in /tmp then. */
                assert_int_equal(chown(dir, 65534, 65534), 0);
                assert_int_equal(infp_live_directory(seen, sizeof(seen), &err), 0);
                assert_string_equal(seen, "/tmp/infprof-0");
        }
}

/* Killed between the socket and the entry. */
static void removes_sockets_without_an_entry(void **state)
{
        static const struct timespec long_ago[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
        char old[200], fresh[200];

        (void) state;
        infp_live_withdraw(publish(uuid)); /* makes the directory */
        snprintf(old, sizeof(old), "%s/infprof/%s.sock", dir, other);
        snprintf(fresh, sizeof(fresh), "%s/infprof/01990000-0000-7000-8000-000000000003.sock", dir);
        close(open(old, O_WRONLY | O_CREAT, 0600));
        close(open(fresh, O_WRONLY | O_CREAT, 0600));
        assert_int_equal(utimensat(AT_FDCWD, old, long_ago, 0), 0);
        infp_live_withdraw(publish(uuid));
        assert_int_equal(access(old, F_OK), -1);
        assert_int_equal(access(fresh, F_OK), 0); /* perhaps a recorder that begins */
}

/* Anybody can make /tmp/infprof-UID of somebody else. */
static void goes_elsewhere_when_its_name_is_taken(void **state)
{
        int status;
        pid_t pid;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        pid = fork();
        if (pid == 0) {
                struct infp_err err = { "" };
                char seen[300];

                unsetenv("XDG_RUNTIME_DIR");
                if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                    mount("none", "/tmp", "tmpfs", 0, NULL) < 0 || mount("none", "/dev/shm", "tmpfs", 0, NULL) < 0)
                        _exit(77);
                if (mkdir("/tmp/infprof-0", 0700) < 0 || chown("/tmp/infprof-0", 65534, 65534) < 0)
                        _exit(1);
                if (infp_live_directory(seen, sizeof(seen), &err) < 0 || strcmp(seen, "/dev/shm/infprof-0") != 0)
                        _exit(2);
                if (rmdir(seen) < 0 || symlink("/tmp", seen) < 0)
                        _exit(3);
                if (infp_live_directory(seen, sizeof(seen), &err) != -EPERM ||
                    strcmp(err.text, "/tmp/infprof-0 belongs to uid 65534, not to this user (uid 0); set "
                                     "XDG_RUNTIME_DIR to your own directory with mode 0700") != 0)
                        _exit(4);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("/tmp cannot be hidden here");
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, live_set_up, live_tear_down)
        const struct CMUnitTest tests[] = {
                TEST(trusts_only_a_directory_of_its_own),
                TEST(removes_sockets_without_an_entry),
                TEST(goes_elsewhere_when_its_name_is_taken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
