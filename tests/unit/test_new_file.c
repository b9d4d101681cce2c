#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "skip_because.h"

static char root_path[32];
static int root;

static int make_root(void **state)
{
        (void) state;
        strcpy(root_path, "/tmp/infp-new-XXXXXX");
        umask(022);
        root = mkdtemp(root_path) ? open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        return root < 0 ? -1 : 0;
}

static int remove_root(void **state)
{
        char command[64];

        (void) state;
        close(root);
        snprintf(command, sizeof(command), "rm -rf %s", root_path);
        return system(command);
}

static const char *in_root(const char *name)
{
        static char path[128];

        snprintf(path, sizeof(path), "%s/%s", root_path, name);
        return path;
}

static unsigned count_entries(void)
{
        DIR *dir = opendir(root_path);
        unsigned n = 0;

        assert_non_null(dir);
        for (struct dirent *entry; (entry = readdir(dir));)
                n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        closedir(dir);
        return n;
}

static void put(const char *name, const char *text, mode_t mode)
{
        int fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(fchmod(fd, mode), 0);
        close(fd);
}

static void check(const char *name, const char *want)
{
        char text[256];

        assert_true(infp_read_at(root, name, text, sizeof(text)) >= 0);
        assert_string_equal(text, want);
}

static mode_t mode_of(const char *name)
{
        struct stat st;

        assert_int_equal(fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        return st.st_mode;
}

static int write_to(const char *path, const char *text)
{
        struct infp_new_file file = INFP_NEW_FILE_INIT;
        int r = infp_new_file_open(&file, path, 0666);

        if (r == 0)
                r = infp_write_all(file.fd, text, strlen(text), NULL);
        if (r == 0)
                r = infp_new_file_commit(&file, true);
        infp_new_file_done(&file);
        return r;
}

static void replaces_whole_files(void **state)
{
        struct infp_new_file file;

        (void) state;
        assert_int_equal(infp_replace_file_at(root, "file", "old", 3, 0640, true), 0);
        assert_int_equal(infp_replace_file_at(root, "file", "new!", 4, 0640, false), 0);
        check("file", "new!");
        assert_int_equal(mode_of("file") & 07777, 0640);
        assert_int_equal(mkdirat(root, "dir", 0700), 0);
        assert_int_equal(infp_replace_file_at(root, "dir/file", "x", 1, 0600, false), 0);
        check("dir/file", "x");
        assert_int_equal(infp_replace_file_at(root, "none/file", "x", 1, 0600, false), -ENOENT);

        /* A directory in the way; a write that was given up. */
        assert_int_equal(infp_replace_file_at(root, "dir", "x", 1, 0600, false), -EISDIR);
        assert_int_equal(write_to(in_root("dir"), "x"), -EISDIR);
        assert_int_equal(write_to(in_root("dir/"), "x"), -EISDIR);
        assert_int_equal(infp_new_file_open(&file, in_root("file"), 0666), 0);
        assert_int_equal(infp_write_all(file.fd, "half", 4, NULL), 0);
        infp_new_file_done(&file);
        check("file", "new!");
        assert_int_equal(count_entries(), 2);
}

static void keeps_the_mode_of_a_file_of_ours(void **state)
{
        (void) state;
        put("secret", "old", 0600);
        assert_int_equal(write_to(in_root("secret"), "new"), 0);
        check("secret", "new");
        assert_int_equal(mode_of("secret") & 07777, 0600);
        assert_int_equal(write_to(in_root("fresh"), "new"), 0);
        assert_int_equal(mode_of("fresh") & 07777, 0644);
}

/* Each writes a file of its own: what stands there in the end is all of the last. */
static void keeps_writers_of_one_name_apart(void **state)
{
        struct infp_new_file one, two;

        (void) state;
        assert_int_equal(infp_new_file_open(&one, in_root("out"), 0666), 0);
        assert_int_equal(infp_new_file_open(&two, in_root("out"), 0666), 0);
        assert_int_equal(infp_write_all(one.fd, "one ", 4, NULL), 0);
        assert_int_equal(infp_write_all(two.fd, "two two two ", 12, NULL), 0);
        assert_int_equal(infp_write_all(one.fd, "one", 3, NULL), 0);
        assert_int_equal(infp_new_file_commit(&two, false), 0);
        check("out", "two two two ");
        assert_int_equal(infp_new_file_commit(&one, false), 0);
        check("out", "one one");
        infp_new_file_done(&one);
        infp_new_file_done(&two);
        assert_int_equal(count_entries(), 1);
}

static void follows_links_of_ours(void **state)
{
        (void) state;
        put("target", "old", 0644);
        assert_int_equal(mkdirat(root, "dir", 0700), 0);
        assert_int_equal(symlinkat("../target", root, "dir/link"), 0);
        assert_int_equal(symlinkat("dir/link", root, "link"), 0);
        assert_int_equal(symlinkat("dir/later", root, "dangling"), 0);
        assert_int_equal(symlinkat("loop", root, "loop"), 0);
        assert_int_equal(write_to(in_root("link"), "new"), 0);
        check("target", "new");
        assert_true(S_ISLNK(mode_of("link")) && S_ISLNK(mode_of("dir/link")));
        assert_int_equal(write_to(in_root("dangling"), "new"), 0);
        check("dir/later", "new");
        assert_int_equal(write_to(in_root("loop"), "new"), -ELOOP);

        /* Below a run's directory none is followed, whosever it is. */
        assert_int_equal(infp_replace_file_at(root, "link", "own", 3, 0600, false), 0);
        check("target", "new");
        check("link", "own");
        assert_int_equal(symlinkat("dir", root, "folder"), 0);
        assert_int_equal(infp_replace_file_at(root, "folder/x", "x", 1, 0600, false), -ENOTDIR);
}

static void writes_into_pipes(void **state)
{
        char path[40], text[8] = "";
        int pipe_fds[2];

        (void) state;
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        snprintf(path, sizeof(path), "/dev/fd/%d", pipe_fds[1]);
        assert_int_equal(write_to(path, "one"), 0);
        assert_int_equal(read(pipe_fds[0], text, sizeof(text)), 3);
        assert_string_equal(text, "one");
        assert_int_equal(mkfifoat(root, "fifo", 0600), 0);
        int reader = openat(root, "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

        assert_int_equal(write_to(in_root("fifo"), "two"), 0);
        assert_int_equal(read(reader, text, sizeof(text)), 3);
        assert_string_equal(text, "two");
        assert_true(S_ISFIFO(mode_of("fifo")));
        assert_int_equal(write_to("/dev/null", "x"), 0);
        close(reader);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* Another user lays links and pipes into a directory that all can write, also under the names that older versions used. */
static void is_led_astray_by_nobody(void **state)
{
        static const char *const names[] = { "victim", "out.html", "out.html.part", ".out.html.part" };
        int status;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("another user's links need root");
        put("victim", "shadow", 0600);
        assert_int_equal(mkdirat(root, "tmp", 0700), 0);
        assert_int_equal(fchmodat(root, "tmp", 01777, 0), 0);
        assert_int_equal(fchmod(root, 0755), 0);
        const pid_t pid = fork();

        if (pid == 0) {
                char path[64];

                if (setuid(65534) < 0 || fchdir(root) < 0 || chdir("tmp") < 0)
                        _exit(1);
                snprintf(path, sizeof(path), "%s/victim", root_path);
                for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                        if (symlink(path, names[i]) < 0)
                                _exit(1);
                _exit(symlink("/dev/full", "device") < 0 || mkfifo("pipe", 0666) < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(write_to(in_root("tmp/out.html"), "page"), 0);
        assert_int_equal(write_to(in_root("tmp/victim"), "page"), 0);
        assert_int_equal(write_to(in_root("tmp/device"), "page"), 0);
        assert_int_equal(write_to(in_root("tmp/pipe"), "page"), 0);
        check("victim", "shadow");
        check("tmp/out.html", "page");
        check("tmp/victim", "page");
        check("tmp/device", "page");
        check("tmp/pipe", "page");
}

/* Without /proc a file cannot get a name later. */
static void does_without_unnamed_files(void **state)
{
        int status;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("hiding /proc needs root");
        const pid_t pid = fork();

        if (pid == 0) {
                struct infp_new_file file;

                if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                    mount("none", "/proc", "tmpfs", 0, NULL) < 0)
                        _exit(77);
                if (infp_new_file_open(&file, in_root("given-up"), 0666) < 0 || !file.part[0])
                        _exit(1);
                infp_new_file_done(&file);
                _exit(write_to(in_root("file"), "one") < 0 || write_to(in_root("file"), "two") < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("/proc cannot be hidden here");
        assert_int_equal(status, 0);
        check("file", "two");
        assert_int_equal(count_entries(), 1);
}

/* A policy refuses hard links: seccomp(2) stands for it. */
static void does_without_hard_links(void **state)
{
        static struct sock_filter instructions[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_linkat, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog filter = { .len = 4, .filter = instructions };
        int status;

        (void) state;
        const pid_t pid = fork();

        if (pid == 0) {
                infp_cleanup(infp_new_file_done) struct infp_new_file file;

                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
                        _exit(77);
                if (write_to(in_root("file"), "one") < 0 || infp_new_file_open(&file, in_root("file"), 0640) < 0)
                        _exit(1);
                if (infp_write_all(file.fd, "two", 3, NULL) < 0 || infp_new_file_commit(&file, true) < 0)
                        _exit(2);
                _exit(infp_write_all(file.fd, " and more", 9, NULL) < 0); /* it is still the same file */
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("seccomp is not available here");
        assert_int_equal(status, 0);
        check("file", "two and more");
        assert_int_equal(mode_of("file") & 07777, 0644); /* that of the file which it replaced */
        assert_int_equal(count_entries(), 1);
}

static void makes_a_file_only_once(void **state)
{
        int fd = infp_make_file_at(root, "out.txt", O_WRONLY | O_APPEND, 0600);

        (void) state;
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(infp_make_file_at(root, "out.txt", O_WRONLY, 0600), -EEXIST);
        assert_int_equal(symlinkat("elsewhere", root, "link"), 0);
        assert_int_equal(infp_make_file_at(root, "link", O_WRONLY, 0600), -EEXIST);
        fd = infp_unnamed_file();
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(count_entries(), 2);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_root, remove_root)
        const struct CMUnitTest tests[] = {
                TEST(replaces_whole_files),
                TEST(keeps_the_mode_of_a_file_of_ours),
                TEST(keeps_writers_of_one_name_apart),
                TEST(follows_links_of_ours),
                TEST(writes_into_pipes),
                TEST(is_led_astray_by_nobody),
                TEST(does_without_unnamed_files),
                TEST(does_without_hard_links),
                TEST(makes_a_file_only_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
