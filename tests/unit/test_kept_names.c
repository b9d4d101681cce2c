/* Names on disk: what was put comes back, what anybody changed does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/kept.h"

static char folder[] = "/tmp/infp-names-XXXXXX", directory[64], object[64], entry[128];
static const char build_id[] = "ab0123456789";
static const struct infp_kept_file file = { build_id, object };

static void write_object(const char *text)
{
        FILE *out = fopen(object, "w");

        assert_non_null(out);
        fputs(text, out);
        fclose(out);
}

static int begin(void **state)
{
        (void) state;
        if (!mkdtemp(folder))
                return -1;
        snprintf(directory, sizeof(directory), "%s/names", folder);
        snprintf(object, sizeof(object), "%s/object", folder);
        snprintf(entry, sizeof(entry), "%s/%s", directory, build_id);
        return 0;
}

static int end(void **state)
{
        (void) state;
        unlink(entry);
        chmod(directory, 0700);
        rmdir(directory);
        unlink(object);
        return rmdir(folder);
}

/* What was given back, as text. */
static char seen[1024];

static void take(void *context, uint64_t address, const struct infp_symbol *levels, unsigned n)
{
        char *at = seen + strlen(seen);

        (void) context;
        at += sprintf(at, "%llx:", (unsigned long long) address);
        for (unsigned i = 0; i < n; i++)
                at += sprintf(at, " %s %s:%lld", levels[i].name, levels[i].file ? levels[i].file : "-",
                              (long long) levels[i].line);
        strcpy(at, ";");
}

static const char *read_back(const struct infp_kept_names *kept)
{
        seen[0] = 0;
        infp_kept_names_each(kept, &file, take, NULL);
        return seen;
}

static struct infp_kept_names *open_kept(void)
{
        struct infp_kept_names *kept;
        struct infp_err err;

        assert_int_equal(infp_kept_names_open(directory, &kept, &err), 0);
        return kept;
}

static void put(const struct infp_kept_names *kept)
{
        const struct infp_symbol levels[] = { { .name = "outer", .file = "a.c", .line = 7 }, { .name = "inner<T>" } };
        struct infp_str names = { 0 };

        infp_kept_names_add(&names, 0x10, levels, 2);
        infp_kept_names_add(&names, 0x20, NULL, 0);
        infp_kept_names_put(kept, &file, &names);
        infp_str_done(&names);
}

static const char whole[] = "10: outer a.c:7 inner<T> -:0;20:;";

static void test_there_and_back(void **state)
{
        struct infp_kept_names *kept = open_kept();
        struct stat status;

        (void) state;
        write_object("one");
        assert_string_equal(read_back(kept), "");
        put(kept);
        assert_string_equal(read_back(kept), whole);
        infp_kept_names_close(kept);
        kept = open_kept();
        assert_string_equal(read_back(kept), whole);
        infp_kept_names_close(kept);
        assert_int_equal(stat(entry, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
}

static void test_another_object(void **state)
{
        struct infp_kept_names *kept = open_kept();

        (void) state;
        write_object("one");
        put(kept);
        write_object("another one");
        assert_string_equal(read_back(kept), "");
        unlink(object);
        assert_string_equal(read_back(kept), "");
        infp_kept_names_close(kept);
}

/* Each byte changed, each length: all of it or nothing comes back. */
static void test_damaged(void **state)
{
        struct infp_kept_names *kept = open_kept();
        char bytes[512];
        ssize_t size;
        int fd;

        (void) state;
        write_object("one");
        put(kept);
        fd = open(entry, O_RDWR);
        size = read(fd, bytes, sizeof(bytes));
        assert_in_range(size, 32, sizeof(bytes) - 1);
        for (ssize_t i = 0; i < size; i++) {
                const char changed = (char) (bytes[i] ^ 0x55);

                assert_int_equal(pwrite(fd, &changed, 1, i), 1);
                assert_string_equal(read_back(kept), "");
                assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
        }
        assert_string_equal(read_back(kept), whole);
        for (ssize_t i = size; i-- > 0;) {
                assert_int_equal(ftruncate(fd, i), 0);
                assert_string_equal(read_back(kept), "");
        }
        close(fd);
        infp_kept_names_close(kept);
}

static void test_build_ids_are_no_paths(void **state)
{
        static const char *const bad[] = { "",      "ab",   "../x",
                                           "ab/cd", "ABCD", "0123456789012345678901234567890123456789a" };
        struct infp_kept_names *kept = open_kept();
        struct infp_str names = { 0 };

        (void) state;
        write_object("one");
        infp_kept_names_add(&names, 1, NULL, 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                const struct infp_kept_file other = { bad[i], object };

                infp_kept_names_put(kept, &other, &names);
                seen[0] = 0;
                infp_kept_names_each(kept, &other, take, NULL);
                assert_string_equal(seen, "");
        }
        infp_str_done(&names);
        infp_kept_names_close(kept);
}

static void test_a_directory_for_all(void **state)
{
        struct infp_kept_names *kept = NULL;
        struct infp_err err;

        (void) state;
        infp_kept_names_close(open_kept());
        assert_int_equal(chmod(directory, 0755), 0);
        assert_int_equal(infp_kept_names_open(directory, &kept, &err), -EPERM);
        assert_non_null(strstr(err.text, "is not used to keep names of code"));
        assert_int_equal(chmod(directory, 0700), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_another_object),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_build_ids_are_no_paths),
                cmocka_unit_test(test_a_directory_for_all),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
