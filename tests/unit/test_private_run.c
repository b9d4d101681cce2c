/* Directories for runs that nobody keeps: which of them are swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/private_run.h"

enum { DAY_S = 86400 };

static bool is_there(const char *path)
{
        return access(path, F_OK) == 0;
}

/* With the number of a process that is not there, as a name from another pid namespace has, and made a day ago. */
static void make_old(char **path)
{
        const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = time(NULL) - DAY_S } };
        char *old = NULL;

        assert_true(asprintf(&old, "%.*s/infprof-unit-2147483647-abcdef", (int) (strrchr(*path, '/') - *path), *path) >
                    0);
        assert_int_equal(rename(*path, old), 0);
        assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
        free(*path);
        *path = old;
}

static void test_sweep(void **state)
{
        char place[] = "/tmp/infp-private-XXXXXX", *path;
        struct infp_err err;
        int held_fd = -1;

        (void) state;
        assert_non_null(mkdtemp(place));
        setenv("TMPDIR", place, 1);
        path = infp_private_directory("unit", false, &held_fd, &err);
        assert_true(path && held_fd >= 0);
        make_old(&path);
        infp_private_sweep("unit");
        assert_true(is_there(path)); /* we live, whatever its number says */
        close(held_fd);
        infp_private_sweep("other");
        assert_true(is_there(path));
        infp_private_sweep("unit");
        assert_false(is_there(path));
        free(path);

        path = infp_private_directory("unit", false, NULL, &err);
        assert_non_null(path);
        make_old(&path);
        path = infp_private_keep(path);
        assert_non_null(strstr(path, "/kept-infprof-unit-"));
        infp_private_sweep("unit");
        assert_true(is_there(path)); /* what could not be saved where it was asked for is not lost */
        assert_null(infp_private_remove(path));

        path = infp_private_directory("unit", false, NULL, &err);
        assert_non_null(path);
        infp_private_sweep("unit");
        assert_true(is_there(path)); /* it is new: its maker may not hold it yet */
        assert_null(infp_private_remove(path));
        assert_int_equal(rmdir(place), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_sweep) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
