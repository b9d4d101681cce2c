/* A captured output without a command: events, labels, copying to readers of all kinds, the hole at the head. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "record/capture.h"

enum { PATIENCE_MS = 20000, NO_FD = 999 /* nothing opens so many */ };

struct world {
        char directory[64];
        int directory_fd, wake_fd, out_fd; /* out_fd: what the command writes to */
        struct infp_capture *capture;
        struct infp_notices notices;
        pthread_mutex_t mutex; /* of the notice: threads give it */
        char notice[1024];
        /* Of the events that were taken. */
        uint64_t n_new, bytes, removed, n_labels;
        char labels[4096];
};

static void say(void *context, const char *text)
{
        struct world *w = context;

        pthread_mutex_lock(&w->mutex);
        snprintf(w->notice, sizeof(w->notice), "%s", text);
        pthread_mutex_unlock(&w->mutex);
}

static bool was_said(struct world *w, const char *text)
{
        bool ret;

        pthread_mutex_lock(&w->mutex);
        ret = strstr(w->notice, text) != NULL;
        pthread_mutex_unlock(&w->mutex);
        return ret;
}

static struct world *begin(uint64_t limit_bytes, int show_fd)
{
        struct world *w = calloc(1, sizeof(*w));
        struct infp_err err = { "" };

        pthread_mutex_init(&w->mutex, NULL);
        snprintf(w->directory, sizeof(w->directory), "/tmp/test_capture-XXXXXX");
        assert_non_null(mkdtemp(w->directory));
        w->directory_fd = open(w->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        w->notices = (struct infp_notices){ .say = say, .context = w };
        const struct infp_capture_options options = {
                .directory_fd = w->directory_fd,
                .mode = 0600,
                .directory = w->directory,
                .uuid = "u",
                .limit_bytes = limit_bytes,
                .period_ms = 100,
        };

        assert_int_equal(infp_capture_open(&options, &w->capture, &err), 0);
        w->out_fd = dup(infp_capture_child_fd(w->capture));
        assert_int_equal(infp_capture_start(w->capture, show_fd, w->wake_fd, &w->notices, &err), 0);
        return w;
}

static void take(struct world *w)
{
        struct infp_capture_event e;

        while (infp_capture_take(w->capture, &e)) {
                w->n_new += e.kind == INFP_CAPTURE_NEW;
                w->bytes += e.kind == INFP_CAPTURE_NEW ? e.length : 0;
                w->removed += e.kind == INFP_CAPTURE_REMOVED ? e.length : 0;
                if (e.kind != INFP_CAPTURE_LABEL)
                        continue;
                w->n_labels++;
                if (strlen(w->labels) + e.tag_size + 2 < sizeof(w->labels)) {
                        strncat(w->labels, e.tag, e.tag_size);
                        strcat(w->labels, ";");
                }
        }
}

/* The last look, as the recorder has it. */
static void stop(struct world *w)
{
        const uint64_t end = infp_clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * INFP_NS_PER_MS;

        infp_capture_stop(w->capture);
        while (!infp_capture_is_over(w->capture)) {
                assert_true(infp_clock_ns(CLOCK_MONOTONIC) < end);
                take(w);
                poll(NULL, 0, 1);
        }
        take(w);
}

static void wait_shown(struct world *w)
{
        const uint64_t end = infp_clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * INFP_NS_PER_MS;

        while (!infp_capture_shown(w->capture).is_over) {
                assert_true(infp_clock_ns(CLOCK_MONOTONIC) < end);
                poll(NULL, 0, 1);
        }
}

static void end(struct world *w)
{
        char command[128];

        infp_capture_free(w->capture);
        close(w->out_fd);
        close(w->directory_fd);
        close(w->wake_fd);
        snprintf(command, sizeof(command), "rm -rf '%s'", w->directory);
        assert_int_equal(system(command), 0);
        free(w);
}

static char *file_text(const struct world *w)
{
        char *ret;

        assert_true(infp_read_all_at(w->directory_fd, "u_output.txt", 64 << 20, &ret) >= 0);
        return ret;
}

static void test_file(void **state)
{
        int pipe_fds[2];
        struct stat st;
        char got[64];

        (void) state;
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        struct world *w = begin(0, pipe_fds[1]);
        infp_autofree char *text = NULL;

        assert_true(fcntl(w->out_fd, F_GETFL) & O_APPEND);
        assert_int_equal(fstat(w->out_fd, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(write(w->out_fd, "hello\nmeasure_label-x: 5\n", 25), 25);
        stop(w);
        wait_shown(w);
        assert_int_equal(w->bytes, 25);
        assert_string_equal(w->labels, "x;");
        assert_int_equal(read(pipe_fds[0], got, sizeof(got)), 25);
        assert_memory_equal(got, "hello\nmeasure_label-x: 5\n", 25);
        text = file_text(w);
        assert_string_equal(text, "hello\nmeasure_label-x: 5\n");
        end(w);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* It must not be there already: it could be somebody else's. */
static void test_taken(void **state)
{
        struct world *w = begin(0, STDERR_FILENO);
        struct infp_capture *other = NULL;
        struct infp_err err = { "" };
        const struct infp_capture_options options = { w->directory_fd, 0600, w->directory, "u", 0, 100 };

        (void) state;
        assert_int_equal(infp_capture_open(&options, &other, &err), -EEXIST);
        assert_non_null(strstr(err.text, "u_output.txt"));
        stop(w);
        wait_shown(w);
        end(w);
}

/* Nobody reads: 4 MiB are seen, counted and labelled all the same; then somebody does and gets them all. */
static void test_slow_reader(void **state)
{
        enum { LINES = 65536, LINE = 64 };
        int pipe_fds[2];
        char line[LINE + 1];
        uint64_t got = 0;

        (void) state;
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        struct world *w = begin(0, pipe_fds[1]);

        for (unsigned i = 0; i < LINES; i++) {
                snprintf(line, sizeof(line), "%*u\n", LINE - 1, i);
                assert_int_equal(write(w->out_fd, line, LINE), LINE);
        }
        assert_int_equal(write(w->out_fd, "measure_label-end: 1", 20), 20); /* no end of line */
        stop(w);
        assert_int_equal(w->bytes, (uint64_t) LINES * LINE + 20);
        assert_string_equal(w->labels, "end;");
        assert_false(infp_capture_shown(w->capture).is_over);
        for (unsigned i = 0; i < LINES; i++) {
                char wanted[LINE + 1];
                size_t n = 0;

                snprintf(wanted, sizeof(wanted), "%*u\n", LINE - 1, i);
                while (n < LINE) {
                        ssize_t r = read(pipe_fds[0], line + n, LINE - n);

                        assert_true(r > 0);
                        n += (size_t) r;
                }
                assert_memory_equal(line, wanted, LINE);
                got += n;
        }
        assert_int_equal(read(pipe_fds[0], line, sizeof(line)), 20);
        assert_int_equal(got, (uint64_t) LINES * LINE);
        wait_shown(w);
        end(w);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

static void test_no_reader(void **state)
{
        int pipe_fds[2];

        (void) state;
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        close(pipe_fds[0]);
        struct world *w = begin(0, pipe_fds[1]);

        assert_int_equal(write(w->out_fd, "lost?\n", 6), 6);
        stop(w);
        wait_shown(w);
        assert_int_equal(w->bytes, 6);
        assert_true(was_said(w, "standard output is closed"));
        end(w);
        close(pipe_fds[1]);
        /* Never had one: not a word. */
        w = begin(0, NO_FD);
        assert_int_equal(write(w->out_fd, "lost?\n", 6), 6);
        stop(w);
        wait_shown(w);
        assert_string_equal(w->notice, "");
        end(w);
}

/* A descriptor that is non-blocking loses nothing. */
static void test_nonblocking(void **state)
{
        enum { BYTES = 1 << 20 };
        infp_autofree char *text = malloc(BYTES);
        char got[4096];
        int pipe_fds[2];
        size_t n = 0;

        (void) state;
        memset(text, 'z', BYTES);
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
        fcntl(pipe_fds[0], F_SETFL, 0);
        struct world *w = begin(0, pipe_fds[1]);

        assert_int_equal(write(w->out_fd, text, BYTES), BYTES);
        stop(w);
        while (n < BYTES) {
                ssize_t r = read(pipe_fds[0], got, sizeof(got));

                assert_true(r > 0 && memchr(got, 0, (size_t) r) == NULL);
                n += (size_t) r;
        }
        wait_shown(w);
        end(w);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* Bursts: what comes within one gap is one row. */
static void test_rate(void **state)
{
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        struct world *w = begin(0, null_fd);
        const uint64_t start = infp_clock_ns(CLOCK_MONOTONIC);
        uint64_t n = 0, ms;

        (void) state;
        while (infp_clock_ns(CLOCK_MONOTONIC) - start < 500 * INFP_NS_PER_MS)
                n += (uint64_t) write(w->out_fd, "x\n", 2);
        stop(w);
        ms = (infp_clock_ns(CLOCK_MONOTONIC) - start) / INFP_NS_PER_MS;
        assert_int_equal(w->bytes, n);
        assert_true(w->n_new >= 2 && w->n_new <= ms / INFP_CAPTURE_GAP_MS + 2);
        end(w);
        close(null_fd);
}

/* At most the limit stays, of whole blocks; the copy has no zeros in it, and what it lacks is counted. */
static void test_limit(void **state)
{
        enum { LIMIT = 64 << 10, PIECE = 10000, PIECES = 100 };
        infp_autofree char *piece = malloc(PIECE);
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        struct world *w = begin(LIMIT, null_fd);
        struct infp_capture_sums sums;
        struct stat st;

        (void) state;
        memset(piece, 'p', PIECE);
        for (unsigned i = 0; i < PIECES; i++) {
                assert_int_equal(write(w->out_fd, piece, PIECE), PIECE);
                poll(NULL, 0, 5);
        }
        stop(w);
        wait_shown(w);
        sums = infp_capture_sums(w->capture);
        assert_int_equal(w->bytes, (uint64_t) PIECE * PIECES);
        assert_int_equal(sums.bytes, w->bytes);
        assert_int_equal(sums.removed, w->removed);
        assert_int_equal(fstat(w->out_fd, &st), 0);
        assert_int_equal(st.st_size, (off_t) PIECE * PIECES);
        if (was_said(w, "--capture-limit has no effect")) { /* a file system without holes: said */
                assert_int_equal(sums.removed, 0);
        } else {
                infp_autofree char *text = file_text(w);

                assert_true(sums.bytes - sums.removed <= LIMIT && sums.bytes - sums.removed > LIMIT / 2);
                assert_true(st.st_blocks * 512 <= LIMIT + 4096);
                for (uint64_t i = 0; i < sums.bytes; i++)
                        assert_int_equal(text[i], i < sums.removed ? 0 : 'p');
        }
        end(w);
        close(null_fd);
}

/* A reader that is slower than the limit: what he gets is a part of what was written, without holes within. */
static void test_limit_and_slow_reader(void **state)
{
        enum { LIMIT = 256 << 10, LINE = 64, LINES = 65536 };
        int pipe_fds[2];
        char line[LINE + 1];
        uint64_t got = 0;

        (void) state;
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        struct world *w = begin(LIMIT, pipe_fds[1]);

        for (unsigned i = 0; i < LINES; i++) {
                snprintf(line, sizeof(line), "%0*u\n", LINE - 1, i);
                assert_int_equal(write(w->out_fd, line, LINE), LINE);
                if (i % 4096 == 0)
                        poll(NULL, 0, 25);
        }
        stop(w);
        fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
        for (;;) {
                const bool over = infp_capture_shown(w->capture).is_over;
                ssize_t n = read(pipe_fds[0], line, sizeof(line));

                for (ssize_t i = 0; i < n; i++)
                        assert_true((line[i] >= '0' && line[i] <= '9') || line[i] == '\n');
                got += n > 0 ? (uint64_t) n : 0;
                if (n < 0 && over)
                        break;
                if (n < 0)
                        poll(NULL, 0, 1);
        }
        assert_int_equal(got + infp_capture_sums(w->capture).skipped, (uint64_t) LINE * LINES);
        end(w);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* More labels than a table should take: the rest is counted. */
static void test_many_labels(void **state)
{
        enum { LABELS = 20000 };
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        struct world *w = begin(0, null_fd);
        const uint64_t start = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_capture_sums sums;
        uint64_t seconds;
        char line[64];

        (void) state;
        for (unsigned i = 0; i < LABELS; i++)
                assert_true(write(w->out_fd, line, (size_t) snprintf(line, sizeof(line), "measure_label-%u: 1\n", i)) >
                            0);
        stop(w);
        seconds = (infp_clock_ns(CLOCK_MONOTONIC) - start) / INFP_NS_PER_S;
        sums = infp_capture_sums(w->capture);
        assert_int_equal(w->n_labels + sums.labels_missed, LABELS);
        assert_true(w->n_labels >= INFP_CAPTURE_LABELS && w->n_labels <= INFP_CAPTURE_LABELS * (seconds + 2));
        end(w);
        close(null_fd);
}

/* The command may shorten its own file. */
static void test_shorter(void **state)
{
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        struct world *w = begin(0, null_fd);

        (void) state;
        assert_int_equal(write(w->out_fd, "0123456789\n", 11), 11);
        for (unsigned i = 0; i < PATIENCE_MS && !w->bytes; i++) {
                poll(NULL, 0, 1);
                take(w);
        }
        assert_int_equal(ftruncate(w->out_fd, 0), 0);
        for (unsigned i = 0; i < PATIENCE_MS && !was_said(w, "was truncated"); i++)
                poll(NULL, 0, 1);
        assert_true(was_said(w, "was truncated"));
        assert_int_equal(write(w->out_fd, "measure_label-again: 1\n", 23), 23);
        stop(w);
        wait_shown(w);
        assert_string_equal(w->labels, "again;");
        assert_int_equal(w->bytes, 11 + 23);
        end(w);
        close(null_fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_file),        cmocka_unit_test(test_taken),
                cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_no_reader),
                cmocka_unit_test(test_nonblocking), cmocka_unit_test(test_rate),
                cmocka_unit_test(test_limit),       cmocka_unit_test(test_limit_and_slow_reader),
                cmocka_unit_test(test_many_labels), cmocka_unit_test(test_shorter),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
