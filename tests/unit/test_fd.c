#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/new_file.h"

static int root = -1;
static char root_path[] = "/tmp/infp-fd-XXXXXX";

static int make_root(void **state)
{
        (void) state;
        if (!mkdtemp(root_path))
                return -1;
        root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return root < 0 ? -1 : 0;
}

static int remove_root(void **state)
{
        char command[128];

        (void) state;
        close(root);
        snprintf(command, sizeof(command), "rm -rf %s", root_path);
        return system(command);
}

static void relative(void **state)
{
        (void) state;
        assert_string_equal(infp_relative("/proc/stat"), "proc/stat");
        assert_string_equal(infp_relative("//proc"), "proc");
        assert_string_equal(infp_relative("proc"), "proc");
        assert_string_equal(infp_relative("/"), ".");
        assert_string_equal(infp_relative(""), ".");
}

static void closes(void **state)
{
        int fd = open("/", O_PATH | O_CLOEXEC);

        (void) state;
        errno = EXDEV;
        assert_int_equal(infp_close(fd), -1);
        assert_int_equal(infp_close(-1), -1);
        assert_int_equal(errno, EXDEV);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        assert_int_equal(errno, EBADF);
}

static void reads_what_fits(void **state)
{
        char buffer[8];

        (void) state;
        assert_int_equal(infp_replace_file_at(root, "ten", "0123456789", 10, 0600, false), 0);
        memset(buffer, '#', sizeof(buffer));
        assert_int_equal(infp_read_at(root, "/ten", buffer, 5), 4);
        assert_memory_equal(buffer, "0123\0###", 8);
        assert_int_equal(infp_read_at(root, "/none", buffer, sizeof(buffer)), -ENOENT);
        assert_int_equal(infp_read_at(root, "/", buffer, sizeof(buffer)), -EISDIR);
}

static void reads_all(void **state)
{
        static const size_t sizes[] = { 0, 1, 4094, 4095, 4096, 8191, 8192, 100000 };
        char *text = malloc(100001), *read = NULL;

        (void) state;
        assert_non_null(text);
        memset(text, 'x', 100001);
        for (size_t i = 0; i < INFP_COUNT(sizes); i++) {
                assert_int_equal(infp_replace_file_at(root, "all", text, sizes[i], 0600, false), 0);
                assert_int_equal(infp_read_all_at(root, "all", 100000, &read), sizes[i]);
                assert_int_equal(strlen(read), sizes[i]);
                free(read);
                read = NULL;
        }
        assert_int_equal(infp_replace_file_at(root, "all", text, 100001, 0600, false), 0);
        assert_int_equal(infp_read_all_at(root, "all", 100000, &read), -EFBIG);
        assert_null(read);
        assert_int_equal(infp_read_all_at(root, "none", 100, &read), -ENOENT);
        free(text);
}

static void says_how_much_was_written(void **state)
{
        infp_autoclose int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
        size_t written = 7;

        (void) state;
        assert_int_equal(infp_write_all(full, "abc", 3, &written), -ENOSPC);
        assert_int_equal(written, 0);
        assert_int_equal(infp_write_all(full, "", 0, &written), 0);
        assert_int_equal(infp_write_all(-1, "abc", 3, NULL), -EBADF);
}

/* A write that the kernel cuts short says why it went no further, not what failed before it. */
static void test_pwrite_all(void **state)
{
        const int fd = memfd_create("test", MFD_CLOEXEC);
        struct rlimit before, few;
        char text[9] = "";

        (void) state;
        assert_int_equal(infp_pwrite_all(fd, "01234567", 8, 2), 0);
        assert_int_equal(pread(fd, text, 8, 2), 8);
        assert_string_equal(text, "01234567");
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        few = (struct rlimit){ 14, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
        errno = ENOENT;
        assert_int_equal(infp_pwrite_all(fd, "89abcdef", 8, 10), -EFBIG);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(pread(fd, text, 8, 10), 4);
        close(fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(relative),
                cmocka_unit_test(closes),
                cmocka_unit_test(reads_what_fits),
                cmocka_unit_test(reads_all),
                cmocka_unit_test(says_how_much_was_written),
                cmocka_unit_test(test_pwrite_all),
        };

        return cmocka_run_group_tests(tests, make_root, remove_root);
}
