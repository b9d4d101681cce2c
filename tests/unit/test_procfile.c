#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/procfile.h"

static int root = -1;
static char root_path[] = "/tmp/infp-procfile-XXXXXX";

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

static void put_file(const char *name, const char *text, size_t size)
{
        assert_int_equal(infp_replace_file_at(root, name, text, size, 0600, false), 0);
}

static void assert_text(const struct infp_procfile *file, const char *text)
{
        struct infp_span s = infp_procfile_text(file);

        if (!infp_span_is(s, text))
                fail_msg("'%.*s' is not '%s'", (int) s.size, s.at, text);
        if (s.size)
                assert_int_equal(s.at[s.size], 0);
}

static void reads_again(void **state)
{
        struct infp_procfile file = INFP_PROCFILE_INIT;
        int fd = openat(root, "again", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        (void) state;
        assert_int_equal(pwrite(fd, "one two", 7, 0), 7);
        assert_int_equal(infp_procfile_read(&file, root, "/again"), 0);
        assert_text(&file, "one two");
        /* The same descriptor, from the beginning; shorter than before. */
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, "3", 1, 0), 1);
        assert_int_equal(infp_procfile_read(&file, root, "/again"), 0);
        assert_text(&file, "3");
        infp_procfile_done(&file);
        assert_int_equal(file.fd, -1);
        infp_procfile_done(&file);
        close(fd);
}

static void kept_or_reopened(void **state)
{
        struct infp_procfile kept = INFP_PROCFILE_INIT, anew = INFP_PROCFILE_INIT;

        (void) state;
        put_file("file", "old", 3);
        assert_int_equal(infp_procfile_open(&kept, root, "/file", false), 0);
        assert_int_equal(infp_procfile_open(&anew, root, "/file", true), 0);
        put_file("file", "new", 3); /* another file under the name */
        assert_int_equal(infp_procfile_read(&kept, root, "/file"), 0);
        assert_int_equal(infp_procfile_read(&anew, root, "/file"), 0);
        assert_text(&kept, "old");
        assert_text(&anew, "new");
        assert_int_equal(anew.fd, -1);
        infp_procfile_done(&kept);
        infp_procfile_done(&anew);
}

static void missing_then_there(void **state)
{
        struct infp_procfile file = INFP_PROCFILE_INIT;

        (void) state;
        assert_int_equal(infp_procfile_open(&file, root, "/late", false), -ENOENT);
        assert_int_equal(infp_procfile_read(&file, root, "/late"), -ENOENT);
        assert_text(&file, "");
        put_file("late", "5\n", 2);
        assert_int_equal(infp_procfile_read(&file, root, "/late"), 0);
        assert_text(&file, "5\n");
        infp_procfile_done(&file);
}

static void faults(void **state)
{
        struct infp_procfile file = INFP_PROCFILE_INIT;

        (void) state;
        put_file("empty", "", 0);
        assert_int_equal(infp_procfile_read(&file, root, "/empty"), -ENODATA);
        infp_procfile_done(&file);

        assert_int_equal(mkdirat(root, "dir", 0700), 0);
        assert_int_equal(infp_procfile_read(&file, root, "/dir"), -EISDIR);
        infp_procfile_done(&file);

        /* Reading address 0 of our own memory: -EIO. */
        assert_int_equal(symlinkat("/proc/self/mem", root, "broken"), 0);
        assert_int_equal(infp_procfile_read(&file, root, "/broken"), -EIO);
        assert_text(&file, "");
        infp_procfile_done(&file);

        /* A FIFO without a writer must not hold the sampler. */
        assert_int_equal(mkfifoat(root, "fifo", 0600), 0);
        assert_int_equal(infp_procfile_read(&file, root, "/fifo"), -ESPIPE);
        infp_procfile_done(&file);
}

static void text_of_last_time_is_gone(void **state)
{
        struct infp_procfile file = INFP_PROCFILE_INIT;

        (void) state;
        put_file("gone", "text", 4);
        assert_int_equal(infp_procfile_open(&file, root, "/gone", true), 0);
        assert_int_equal(infp_procfile_read(&file, root, "/gone"), 0);
        assert_int_equal(unlinkat(root, "gone", 0), 0);
        assert_int_equal(infp_procfile_read(&file, root, "/gone"), -ENOENT);
        assert_text(&file, "");
        infp_procfile_done(&file);
}

/* Around each size of the buffer, and at the limit. */
static void sizes(void **state)
{
        static const size_t sizes_of_files[] = { 1,    1022, 1023,  1024,  1025,  2047,
                                                 2048, 4096, 65535, 65536, 65537, INFP_PROCFILE_MAX };
        struct infp_procfile file = INFP_PROCFILE_INIT;
        char *text = malloc(INFP_PROCFILE_MAX + 1);

        (void) state;
        assert_non_null(text);
        for (size_t i = 0; i <= INFP_PROCFILE_MAX; i++)
                text[i] = (char) ('a' + i % 23);
        for (size_t i = 0; i < INFP_COUNT(sizes_of_files); i++) {
                put_file("large", text, sizes_of_files[i]);
                infp_procfile_done(&file);
                assert_int_equal(infp_procfile_read(&file, root, "/large"), 0);
                assert_int_equal(file.size, sizes_of_files[i]);
                assert_memory_equal(file.data, text, file.size);
                assert_int_equal(file.data[file.size], 0);
        }
        put_file("large", text, INFP_PROCFILE_MAX + 1);
        infp_procfile_done(&file);
        assert_int_equal(infp_procfile_read(&file, root, "/large"), -EFBIG);
        assert_text(&file, "");
        assert_int_equal(file.cap, 0); /* the memory is not kept */
        put_file("large", "small", 5);
        infp_procfile_done(&file);
        assert_int_equal(infp_procfile_read(&file, root, "/large"), 0);
        assert_text(&file, "small");
        infp_procfile_done(&file);
        free(text);
}

/* The kernel hands these out in pieces of at most a page: each must be read to its end. */
static void files_of_the_kernel(void **state)
{
        static const char *const paths[] = { "/proc/self/stat", "/proc/self/maps", "/proc/self/mountinfo",
                                             "/proc/stat" };
        infp_autoclose int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(paths); i++) {
                struct infp_procfile file = INFP_PROCFILE_INIT;

                for (int again = 0; again < 3; again++) {
                        assert_int_equal(infp_procfile_read(&file, slash, paths[i]), 0);
                        assert_true(file.size > 50);
                        assert_int_equal(file.data[file.size - 1], '\n');
                }
                if (strstr(paths[i], "maps")) /* the last mapping */
                        assert_non_null(strstr(file.data, "[stack]"));
                infp_procfile_done(&file);
        }
}

static struct infp_span span(const char *text)
{
        return (struct infp_span){ .at = text, .size = strlen(text) };
}

static void lines(void **state)
{
        static const struct {
                const char *text;
                size_t n;
                const char *lines[4];
        } cases[] = {
                { "", 0, { NULL } },
                { "a", 1, { "a" } },
                { "a\n", 1, { "a" } },
                { "\n", 1, { "" } },
                { "a\n\nb", 3, { "a", "", "b" } },
                { "\n\n", 2, { "", "" } },
                { "a b\nc\n", 2, { "a b", "c" } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_span text = span(cases[i].text), line;
                size_t n = 0;

                while (infp_span_line(&text, &line)) {
                        assert_true(n < cases[i].n);
                        assert_true(infp_span_is(line, cases[i].lines[n++]));
                }
                assert_int_equal(n, cases[i].n);
        }
}

static void words(void **state)
{
        struct infp_span line = span("  cpu0\t 12  -3 "), w[5];
        uint64_t u;
        int64_t i;

        (void) state;
        assert_int_equal(infp_span_words(line, w, 5), 3);
        assert_true(infp_span_is(w[0], "cpu0"));
        assert_int_equal(infp_span_u64(w[1], &u), 0);
        assert_int_equal(u, 12);
        assert_int_equal(infp_span_i64(w[2], &i), 0);
        assert_int_equal(i, -3);
        /* A missing word is empty, and no number. */
        assert_non_null(w[4].at);
        assert_int_equal(w[4].size, 0);
        assert_int_equal(infp_span_u64(w[4], &u), -EBADMSG);
        assert_int_equal(infp_span_words(line, w, 2), 2);
        assert_true(infp_span_is(infp_span_word(&line), "cpu0"));
        assert_true(infp_span_is(infp_span_word(&line), "12"));
        assert_true(infp_span_is(infp_span_word(&line), "-3"));
        assert_int_equal(infp_span_word(&line).size, 0);
        assert_int_equal(infp_span_word(&line).size, 0);
}

static void numbers_of_lines(void **state)
{
        static const char text[] = "Uid:\t1\t22\t3\nNSpid:\t7 8\t9\nNone:\nWord:\tx 5\nVmHWM:\t  12 kB";
        static const struct {
                const char *name;
                int index, number; /* -1: there is none */
        } cases[] = { { "Uid:", 1, 22 },
                      { "Uid:", 3, -1 },
                      { "NSpid:", INFP_PROC_LAST, 9 },
                      { "None:", 0, -1 },
                      { "None:", INFP_PROC_LAST, -1 },
                      { "Word:", 0, -1 },
                      { "Word:", 1, 5 },
                      { "VmHWM:", 0, 12 },
                      { "Absent:", 0, -1 } };
        uint64_t n;

        (void) state;
        put_file("status", text, strlen(text));
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                const bool is_there = infp_proc_number(root, "/status", cases[i].name, cases[i].index, &n);

                assert_int_equal(is_there ? (int) n : -1, cases[i].number);
        }
        assert_false(infp_proc_number(root, "missing", "Uid:", 0, &n));
}

/* Of the machine itself, wherever this program runs. */
static void paths_of_the_machine_are_whole(void **state)
{
        uint64_t n;

        (void) state;
        assert_int_equal(chdir(root_path), 0);
        assert_true(infp_proc_number(AT_FDCWD, "/proc/self/status", "Tgid:", 0, &n));
        assert_int_equal(n, getpid());
}

static void cuts(void **state)
{
        struct infp_span rest, s;

        (void) state;
        s = infp_span_cut(span("MemTotal:  5 kB"), ':', &rest);
        assert_true(infp_span_is(s, "MemTotal"));
        assert_true(infp_span_is(rest, "  5 kB"));
        assert_true(infp_span_is(infp_span_trim(rest), "5 kB"));
        s = infp_span_cut(rest, ':', &rest); /* not there */
        assert_true(infp_span_is(s, "  5 kB"));
        assert_int_equal(rest.size, 0);
        assert_non_null(rest.at);
        s = infp_span_cut(span(":x"), ':', &rest);
        assert_int_equal(s.size, 0);
        assert_true(infp_span_is(rest, "x"));
        assert_true(infp_span_is(infp_span_cut(span("a:b"), ':', NULL), "a"));
        s = infp_span_cut_last(span("a:b: 1"), ':', &rest);
        assert_true(infp_span_is(s, "a:b") && infp_span_is(rest, " 1"));
        s = infp_span_cut_last(span("ab"), ':', &rest); /* not there */
        assert_true(infp_span_is(s, "ab") && !rest.size && rest.at);
        assert_int_equal(infp_span_cut_last(span(""), ':', &rest).size, 0);
        assert_true(infp_span_is(infp_span_trim(span(" \t\r\n")), ""));
        assert_true(infp_span_is(infp_span_trim(span("\n a b \n")), "a b"));
        assert_true(infp_span_starts(span("some avg10=0"), "some"));
        assert_false(infp_span_starts(span("so"), "some"));
        assert_true(infp_span_starts(span(""), ""));
        assert_false(infp_span_is(span("cpu1"), "cpu"));
        assert_false(infp_span_is(span("cpu"), "cpu1"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reads_again),
                cmocka_unit_test(kept_or_reopened),
                cmocka_unit_test(missing_then_there),
                cmocka_unit_test(faults),
                cmocka_unit_test(text_of_last_time_is_gone),
                cmocka_unit_test(sizes),
                cmocka_unit_test(files_of_the_kernel),
                cmocka_unit_test(lines),
                cmocka_unit_test(words),
                cmocka_unit_test(cuts),
                cmocka_unit_test(numbers_of_lines),
                cmocka_unit_test(paths_of_the_machine_are_whole),
        };

        return cmocka_run_group_tests(tests, make_root, remove_root);
}
