#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "skip_because.h"
#include "store/arrow.h"
#include "store_run.h"

static off_t size_of(int dir_fd, const char *path)
{
        struct stat status;

        assert_int_equal(fstatat(dir_fd, path, &status, 0), 0);
        return status.st_size;
}

static void keeps_what_it_is_given(void **state)
{
        struct test_run t = test_run_open(NULL);

        (void) state;
        assert_int_equal(t.sink->table_begin(t.sink, &sample_table, &t.err), 0);
        assert_int_equal(faccessat(t.run->fd, "sample", F_OK, 0), -1); /* no row, no folder */
        assert_int_equal(test_write(&t, 0, 100), 0);
        assert_int_equal(test_write(&t, 100, 1), 0);
        assert_int_equal(test_write(&t, 101, 0), 0);                           /* nothing is nothing */
        assert_true(check_segment(t.run->fd, "sample/000001.arrows", 0, 101)); /* readable while it grows */
        assert_int_equal(size_of(t.run->fd, "sample/000001.arrows"), infp_store_bytes(t.sink));
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        assert_false(check_segment(t.run->fd, "sample/000001.arrows", 0, 101));
        test_run_close(&t);
}

static void takes_slices(void **state)
{
        static const uint32_t firsts[] = { 0, 1, 7, 8, 9, 63, 99 };
        struct infp_builder *b = sample_builder(0, 100);
        struct test_run t = test_run_open(NULL);

        (void) state;
        for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
                struct infp_batch batch = infp_builder_batch(b, firsts[i]);
                char path[64];

                snprintf(path, sizeof(path), "sample/%06zu.arrows", i + 1);
                assert_int_equal(t.sink->batch(t.sink, &batch, &t.err), 0);
                assert_int_equal(t.sink->rotate(t.sink, (uint32_t) i + 2, &t.err), 0);
                assert_false(check_segment(t.run->fd, path, firsts[i], 100 - firsts[i]));
        }
        infp_builder_free(b);
        test_run_close(&t);
}

static void rotates(void **state)
{
        struct infp_store_options options = { .segment_bytes = 20000 };
        struct test_run t = test_run_open(&options);
        char **segments, **tables;

        (void) state;
        assert_int_equal(t.run->info.last_seq, 1);
        assert_int_equal(test_write(&t, 0, 100), 0);
        assert_false(t.sink->wants_rotation);
        assert_int_equal(test_write(&t, 100, 200), 0);
        assert_true(t.sink->wants_rotation);
        assert_int_equal(t.sink->rotate(t.sink, 7, &t.err), 0);
        assert_int_equal(t.run->info.last_seq, 7);
        assert_int_equal(test_write(&t, 300, 50), 0);
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        assert_false(check_segment(t.run->fd, "sample/000001.arrows", 0, 300));
        assert_false(check_segment(t.run->fd, "sample/000007.arrows", 300, 50));
        assert_int_equal(infp_run_tables(t.run, &tables, &t.err), 1);
        assert_string_equal(tables[0], "sample");
        assert_int_equal(infp_run_segments(t.run, "sample", &segments, &t.err), 2);
        assert_string_equal(segments[0], "sample/000001.arrows");
        assert_string_equal(segments[1], "sample/000007.arrows");
        free(tables[0]), free(tables), free(segments[0]), free(segments[1]), free(segments);
        test_run_close(&t);
}

/* A short write: the limit of file sizes cuts the third batch in the middle. */
static void cuts_off_half_a_batch(void **state)
{
        struct test_run t = test_run_open(NULL);
        struct rlimit before, limit;
        off_t whole;

        (void) state;
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(test_write(&t, 0, 100), 0);
        assert_int_equal(test_write(&t, 100, 100), 0);
        whole = size_of(t.run->fd, "sample/000001.arrows");
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = (rlim_t) whole + 1000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(test_write(&t, 999, 100), -EFBIG);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_non_null(strstr(t.err.text,
                               "sample/000001.arrows: File too large; 100 rows are lost; raise the file size limit"));
        assert_int_equal(size_of(t.run->fd, "sample/000001.arrows"), whole);
        assert_int_equal(test_write(&t, 200, 100), 0);
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        assert_false(check_segment(t.run->fd, "sample/000001.arrows", 0, 300));
        test_run_close(&t);
}

/* A root directory that is no mount (chroot) cannot be made private, which matters only where something is shared. */
static bool is_a_mount_shared(void)
{
        infp_autofree char *text = NULL;
        infp_autoclose int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return infp_read_all_at(root, "proc/self/mountinfo", 1 << 20, &text) < 0 || strstr(text, " shared:");
}

/* In a mount namespace of its own, which the machine does not see. Exit 77: not allowed here. */
static int fill_a_disk(void)
{
        struct test_run t;
        struct stat status;
        char junk[4096] = { 1 };
        uint32_t n = 0;
        int fd;

        if (unshare(CLONE_NEWNS) < 0 ||
            (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 && is_a_mount_shared()) ||
            mount("none", "/tmp", "tmpfs", 0, "size=256k") < 0)
                return 77;
        t = test_run_open(NULL);
        fd = open("/tmp/junk", O_WRONLY | O_CREAT, 0600);
        while (write(fd, junk, sizeof(junk)) > 0)
                if (fstat(fd, &status) == 0 && status.st_size >= 180 << 10)
                        break;
        while (test_write(&t, n * 50, 50) == 0)
                n++;
        if (n == 0 || n > 200 || !strstr(t.err.text, ": No space left on device; 50 rows are lost; free space"))
                return 1;
        if (!check_segment(t.run->fd, "sample/000001.arrows", 0, n * 50))
                return 2; /* there is no end marker yet */
        close(fd);
        unlink("/tmp/junk");
        if (test_write(&t, n * 50, 50) < 0 || t.sink->end(t.sink, &t.err) < 0)
                return 3;
        if (check_segment(t.run->fd, "sample/000001.arrows", 0, (n + 1) * 50))
                return 4;
        test_run_close(&t);
        return 0;
}

static void goes_on_when_space_returns(void **state)
{
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0)
                _exit(fill_a_disk());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("no mount namespace of its own can be had here");
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void says_when_its_directory_is_gone(void **state)
{
        struct test_run t = test_run_open(NULL);

        (void) state;
        assert_int_equal(test_write(&t, 0, 5), 0);
        remove_tree(t.dir);
        assert_int_equal(test_write(&t, 5, 5), -ENOENT);
        assert_non_null(strstr(t.err.text, "5 rows are lost (was the directory of the run removed?)"));
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        test_run_close(&t);
}

/* A file where the folder should be, then a folder again. */
static void follows_no_link(void **state)
{
        struct test_run t = test_run_open(NULL);

        (void) state;
        assert_int_equal(symlinkat("/tmp", t.run->fd, "sample"), 0);
        assert_true(test_write(&t, 0, 5) < 0);
        assert_int_equal(faccessat(AT_FDCWD, "/tmp/000001.arrows", F_OK, 0), -1);
        assert_int_equal(unlinkat(t.run->fd, "sample", 0), 0);
        assert_int_equal(test_write(&t, 0, 5), 0);
        test_run_close(&t);
}

enum { MANY = 20 };

static void lives_with_few_descriptors(void **state)
{
        struct infp_table tables[MANY];
        char names[MANY][16];
        struct infp_builder *b = sample_builder(0, 3);
        struct test_run t = test_run_open(NULL);
        struct infp_batch batch = infp_builder_batch(b, 0);
        struct rlimit before, few;

        (void) state;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = before;
        few.rlim_cur = 16;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        for (unsigned round = 0; round < 3; round++)
                for (unsigned i = 0; i < MANY; i++) {
                        snprintf(names[i], sizeof(names[i]), "table_%u", i);
                        tables[i] = sample_table;
                        tables[i].name = names[i];
                        batch.table = &tables[i];
                        assert_int_equal(t.sink->batch(t.sink, &batch, &t.err), 0);
                }
        assert_int_equal(t.sink->tick_end(t.sink, 1, 0, &t.err), 0);
        assert_int_equal(t.sink->tick_end(t.sink, UINT64_C(11000000000), 0, &t.err), 0); /* fdatasync of all */
        assert_int_equal(t.sink->end(t.sink, &t.err), 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (unsigned i = 0; i < MANY; i++) {
                struct infp_segment *segment;
                char path[64];
                bool torn;
                unsigned n = 0;

                snprintf(path, sizeof(path), "table_%u/000001.arrows", i);
                assert_int_equal(infp_segment_open(t.run->fd, path, &segment, &t.err), 0);
                assert_string_equal(infp_segment_table(segment)->name, tables[i].name);
                while (infp_segment_next(segment, &batch, &torn, &t.err) == 1)
                        n += batch.n_rows;
                assert_int_equal(n, 9);
                assert_false(torn);
                infp_segment_close(segment);
        }
        infp_builder_free(b);
        test_run_close(&t);
}

static void refuses_names_that_are_paths(void **state)
{
        static const char *const names[] = { "", "..", "a/b", "A", "x.y", "caf\xc3\xa9" };
        struct test_run t = test_run_open(NULL);

        (void) state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                struct infp_table table = sample_table;

                table.name = names[i];
                assert_int_equal(t.sink->table_begin(t.sink, &table, &t.err), -EINVAL);
        }
        test_run_close(&t);
}

static void keeps_what_the_columns_mean(void **state)
{
        struct test_run t = test_run_open(NULL);
        const struct infp_table *table;
        struct infp_segment *segment;

        (void) state;
        assert_int_equal(test_write(&t, 0, 1), 0);
        assert_int_equal(infp_segment_open(t.run->fd, "sample/000001.arrows", &segment, &t.err), 0);
        table = infp_segment_table(segment);
        assert_string_equal(table->name, "sample");
        assert_string_equal(table->help, "Rows of the tests.");
        assert_int_equal(table->n_keys, 1);
        assert_int_equal(table->n_columns, 6);
        assert_false(table->plain);
        assert_string_equal(table->keys[0].key, "processes");
        for (unsigned i = 0; i < infp_table_width(table); i++) {
                const struct infp_column *is = infp_table_column(table, i), *was = infp_table_column(&sample_table, i);

                assert_string_equal(is->name, was->name);
                assert_string_equal(is->help, was->help);
                assert_int_equal(is->type, was->type);
                assert_int_equal(is->kind, was->kind);
                assert_int_equal(is->quality, was->quality);
                assert_int_equal(is->reset, was->reset);
                assert_ptr_equal(is->unit, was->unit);
        }
        infp_segment_close(segment);
        test_run_close(&t);
}

/* 40 columns and 5 rows, as a collector at 1 Hz fills between two flushes. The budget of live segments (60 MiB an hour) leaves
 * 3.5 KB for each of 25 tables at 720 flushes; most tables are half as wide. Each column costs 48 bytes a batch. */
static void is_thrifty(void **state)
{
        static char names[40][8];
        static struct infp_column columns[40];
        struct infp_table table = { .name = "wide", .help = "Wide.", .columns = columns, .n_columns = 40 };
        struct infp_str out = { 0 };
        struct infp_arrow_writer *writer;
        struct infp_err err = { "" };
        struct infp_builder *b;
        struct infp_batch batch;
        size_t gapless;

        (void) state;
        for (unsigned i = 0; i < 40; i++) {
                snprintf(names[i], sizeof(names[i]), "c%u", i);
                columns[i] = sample_columns[1];
                columns[i].name = names[i];
        }
        b = infp_builder_new(&table, 5);
        for (unsigned row = 0; row < 5; row++) {
                assert_int_equal(infp_builder_row_begin(b, 1, 1), 0);
                for (unsigned i = 0; i < 40; i++)
                        infp_builder_set(b, 2 + i, (union infp_cell){ .u64 = i }, NULL, 0);
                assert_int_equal(infp_builder_row_end(b), 0);
        }
        batch = infp_builder_batch(b, 0);
        assert_int_equal(infp_arrow_writer_new(&table, NULL, &writer, &err), 0);
        assert_int_equal(infp_arrow_put_schema(writer, &out, &err), 0);
        print_message("schema of 40 columns: %zu bytes\n", out.size);
        infp_str_clear(&out);
        assert_int_equal(infp_arrow_put_batch(writer, &batch, &out, &err), 0);
        gapless = out.size;
        print_message("batch of 5 rows of 40 columns: %zu bytes, of which 1,680 are values\n", gapless);
        print_message("25 such tables, a flush each 5 s: %.1f MiB an hour\n", (double) gapless * 25 * 720 / (1 << 20));
        assert_true(gapless < 4300);
        assert_true(gapless % 8 == 0);
        infp_arrow_writer_free(writer);
        infp_builder_free(b);
        infp_str_done(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keeps_what_it_is_given),
                cmocka_unit_test(takes_slices),
                cmocka_unit_test(rotates),
                cmocka_unit_test(cuts_off_half_a_batch),
                cmocka_unit_test(goes_on_when_space_returns),
                cmocka_unit_test(says_when_its_directory_is_gone),
                cmocka_unit_test(follows_no_link),
                cmocka_unit_test(lives_with_few_descriptors),
                cmocka_unit_test(refuses_names_that_are_paths),
                cmocka_unit_test(keeps_what_the_columns_mean),
                cmocka_unit_test(is_thrifty),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
