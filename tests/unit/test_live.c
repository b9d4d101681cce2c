#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fd.h"
#include "live_runs.h"
#include "model/tables.h"
#include "skip_because.h"
#include "store/live.h"

static void finds_who_lives(void **state)
{
        struct infp_live_entry entry;
        struct infp_err err = { "" };
        struct infp_live *one, *two;
        char want[200];

        (void) state;
        assert_int_equal(infp_live_find(NULL, &entry, &err), -ENOENT);
        snprintf(want, sizeof(want), "no live run of uid %u (looked in %s/infprof): start one with `infprof record`",
                 (unsigned) geteuid(), dir);
        assert_string_equal(err.text, want);
        one = publish(uuid);
        two = publish(other);
        assert_int_equal(infp_live_find(NULL, &entry, &err), 0); /* the newest */
        assert_string_equal(entry.uuid, other);
        assert_string_equal(entry.output, dir);
        assert_int_equal(entry.pid, getpid());
        free(entry.output);
        assert_int_equal(infp_live_find(uuid, &entry, &err), 0);
        assert_string_equal(entry.uuid, uuid);
        free(entry.output);
        assert_int_equal(infp_live_find("0199", &entry, &err), -ENOTUNIQ);
        setenv("INFPROF_RUN", uuid, 1); /* the run in which we were started */
        assert_int_equal(infp_live_find(NULL, &entry, &err), 0);
        assert_string_equal(entry.uuid, uuid);
        free(entry.output);
        infp_live_withdraw(one);
        assert_int_equal(infp_live_find(NULL, &entry, &err), -ENOENT); /* never the wrong one instead */
        assert_non_null(strstr(err.text, "is no longer recorded"));
        infp_live_withdraw(two);
}

/* Two that record at once: who stands in a directory with a live run means that one. */
static void prefers_who_lives_here(void **state)
{
        struct infp_live_entry entry;
        struct infp_err err = { "" };
        char here[200];
        struct infp_live *one, *two;

        (void) state;
        unsetenv("INFPROF_RUN");
        assert_int_equal(chdir(dir), 0);
        assert_int_equal(mkdir("profiler-output", 0700), 0);
        snprintf(here, sizeof(here), "%s/profiler-output", dir);
        assert_int_equal(infp_live_publish(uuid, here, &one, &err), 0);
        two = publish(other); /* newer, elsewhere */
        assert_int_equal(infp_live_find(NULL, &entry, &err), 0);
        assert_string_equal(entry.uuid, uuid);
        free(entry.output);
        infp_live_withdraw(one);
        assert_int_equal(infp_live_find(NULL, &entry, &err), 0);
        assert_string_equal(entry.uuid, other);
        free(entry.output);
        infp_live_withdraw(two);
        assert_int_equal(chdir("/"), 0);
}

/* What a killed recorder leaves is removed by the next who looks. */
static void forgets_the_dead(void **state)
{
        struct infp_live_entry entry;
        struct infp_err err = { "" };
        char path[200];
        int status;
        pid_t pid = fork();

        (void) state;
        if (pid == 0) {
                publish(uuid);
                raise(SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        snprintf(path, sizeof(path), "%s/infprof/%s.sock", dir, uuid);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(infp_live_find(NULL, &entry, &err), -ENOENT);
        assert_int_equal(access(path, F_OK), -1);
        snprintf(path, sizeof(path), "%s/infprof/%s.json", dir, uuid);
        assert_int_equal(access(path, F_OK), -1);
        snprintf(path, sizeof(path), "%s/infprof/%s.reader", dir, uuid);
        assert_int_equal(access(path, F_OK), -1);
}

static void knows_its_readers(void **state)
{
        struct infp_live *live = publish(uuid);
        struct infp_err err = { "" };
        int one, two;

        (void) state;
        assert_false(infp_live_has_reader(live));
        one = infp_live_read_lock(uuid, &err);
        two = infp_live_read_lock(NULL, &err);
        assert_true(one >= 0 && two >= 0);
        assert_true(infp_live_has_reader(live));
        close(one);
        assert_true(infp_live_has_reader(live));
        close(two);
        assert_false(infp_live_has_reader(live));
        infp_live_withdraw(live);
        assert_int_equal(infp_live_read_lock(uuid, &err), -ENOENT);
}

static const struct infp_table *const tables[] = { &infp_table_marks, &sample_table, NULL };

struct taken {
        unsigned n;
        uint64_t t_ns[8];
        char tag[8][64];
        int r;
};

static int take_row(void *context, const struct infp_row *row)
{
        struct taken *taken = context;
        size_t size;
        const char *text;

        if (taken->n == 8)
                return -ENOSPC;
        taken->t_ns[taken->n] = row->t_ns;
        if (row->table == &infp_table_marks) {
                text = infp_row_text(row, INFP_MARKS_TAG, &size);
                snprintf(taken->tag[taken->n], sizeof(taken->tag[0]), "%.*s", (int) size, text);
        }
        taken->n++;
        return 0;
}

struct sending {
        const char *message;
        int r;
        struct infp_err err;
        pthread_t thread;
};

static void *send_it(void *argument)
{
        struct sending *s = argument;

        s->r = infp_live_send(uuid, s->message, strlen(s->message), 5000, &s->err);
        return NULL;
}

/* The recorder's loop until `n` messages were taken. */
static void serve(struct infp_live *live, const struct infp_live_taker *taker, unsigned n)
{
        struct pollfd fds[INFP_LIVE_CLIENTS + 1];
        unsigned taken = 0;

        while (taken < n) {
                assert_true(poll(fds, infp_live_pollfds(live, fds), 5000) > 0);
                taken += infp_live_serve(live, taker);
        }
}

static void answers_when_it_is_stored(void **state)
{
        struct infp_live *live = publish(uuid);
        struct taken taken = { 0 };
        struct infp_live_taker taker = { .tables = tables, .row = take_row, .context = &taken };
        struct sending one = {
                .message = "{\"table\":\"marks\",\"rows\":[{\"t_ns\":5,\"tag\":\"a\"},{\"t_ns\":\"6\",\"tag\":\"b\"}]}"
        };
        struct sending two = { .message = "{\"table\":\"marks\",\"rows\":[{\"t_ns\":7,\"tag\":null}]}" };

        (void) state;
        pthread_create(&one.thread, NULL, send_it, &one);
        pthread_create(&two.thread, NULL, send_it, &two);
        serve(live, &taker, 2);
        assert_int_equal(infp_live_waiting(live), 2);
        infp_live_answer(live, 0, NULL);
        pthread_join(one.thread, NULL);
        pthread_join(two.thread, NULL);
        assert_int_equal(infp_live_waiting(live), 0);
        assert_int_equal(one.r, 2);
        assert_int_equal(two.r, 1);
        assert_int_equal(taken.n, 3);
        /* And where it could not be stored. */
        pthread_create(&two.thread, NULL, send_it, &two);
        serve(live, &taker, 1);
        infp_live_answer(live, -ENOSPC, "cannot write x: No space left on device");
        pthread_join(two.thread, NULL);
        assert_int_equal(two.r, -EPROTO);
        assert_string_equal(two.err.text, "the recorder refused the message: cannot write x: No space left on device");
        infp_live_withdraw(live);
}

static int serves_at_the_second(void *context, const char *url, struct infp_err *err)
{
        unsigned *n = context;

        assert_string_equal(url, "localhost:8000");
        return (*n)++ ? 0 : infp_fail(err, -EAGAIN, "100 ms were not enough");
}

static void *find_it(void *argument)
{
        struct sending *s = argument;
        struct infp_live_entry entry;
        unsigned others;
        char newest[37];

        s->r = infp_live_find_server(s->message, NULL, &entry, &others, newest, &s->err);
        if (s->r == 0)
                free(entry.output);
        return NULL;
}

/* A recorder that could not find out in time is asked again. */
static void asks_again_who_serves(void **state)
{
        struct infp_live *live = publish(uuid);
        unsigned n = 0;
        struct infp_live_taker taker = { .tables = tables, .serves = serves_at_the_second, .serves_context = &n };
        struct sending one = { .message = "localhost:8000" };

        (void) state;
        pthread_create(&one.thread, NULL, find_it, &one);
        serve(live, &taker, 1);
        infp_live_answer(live, 0, NULL);
        pthread_join(one.thread, NULL);
        assert_int_equal(one.r, 0);
        assert_int_equal(n, 2);
        infp_live_withdraw(live);
}

static void says_when_nobody_answers(void **state)
{
        static const char message[] = "{\"table\":\"marks\",\"rows\":[]}";
        struct infp_live *live = publish(uuid);
        struct infp_err err = { "" };

        (void) state;
        assert_int_equal(infp_live_send(NULL, message, strlen(message), 30, &err), -ETIMEDOUT);
        assert_non_null(strstr(err.text, "did not answer within 30 ms; the rows may yet be stored"));
        infp_live_withdraw(live);
        assert_int_equal(infp_live_send(NULL, message, strlen(message), 30, &err), -ENOENT);
}

static int connect_raw(void)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), room = 1 << 20;

        snprintf(address.sun_path, sizeof(address.sun_path), "%s/infprof/%s.sock", dir, uuid);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        if (connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0) {
                close(fd);
                return -1;
        }
        return fd;
}

static void check_answer(int fd, const char *want)
{
        char text[512];
        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

        assert_true(n > 0);
        text[n] = 0;
        assert_non_null(strstr(text, want));
}

static void survives_hostile_clients(void **state)
{
        static char large[INFP_LIVE_MESSAGE_MAX + 1];
        struct infp_live *live = publish(uuid);
        struct taken taken = { 0 };
        struct infp_live_taker taker = { .tables = tables, .row = take_row, .context = &taken };
        int idle[INFP_LIVE_CLIENTS + 8], fd;

        (void) state;
        memset(large, ' ', sizeof(large));
        fd = connect_raw();
        assert_true(send(fd, large, sizeof(large), 0) == (ssize_t) sizeof(large));
        assert_int_equal(infp_live_serve(live, &taker), 0);
        check_answer(fd, "a message is at most 262144 bytes");
        assert_true(send(fd, "{", 1, 0) == 1); /* the same client again */
        assert_int_equal(infp_live_serve(live, &taker), 0);
        check_answer(fd, "\"ok\":false");
        close(fd);
        /* More that say nothing than there are places: the silent give way. */
        for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
                idle[i] = connect_raw();
                assert_int_equal(infp_live_serve(live, &taker), 0);
        }
        fd = connect_raw();
        assert_true(send(fd, "{\"table\":\"marks\",\"rows\":[{\"t_ns\":1}]}", 37, 0) == 37);
        assert_int_equal(infp_live_serve(live, &taker), 1);
        infp_live_answer(live, 0, NULL);
        check_answer(fd, "{\"ok\":true,\"rows\":1}");
        close(fd);
        for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
                close(idle[i]);
        assert_int_equal(infp_live_serve(live, &taker), 0);
        assert_int_equal(taken.n, 1);
        infp_live_withdraw(live);
}

/* Another user may not write into our run, whatever the directory lets through. */
static void asks_who_it_is(void **state)
{
        struct infp_live *live;
        struct infp_live_taker taker = { .tables = tables, .row = take_row };
        char path[300];
        int status;
        pid_t pid;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        live = publish(uuid);
        snprintf(path, sizeof(path), "%s/infprof", dir);
        assert_int_equal(chmod(dir, 0755), 0);
        assert_int_equal(chmod(path, 0755), 0);
        snprintf(path, sizeof(path), "%s/infprof/%s.sock", dir, uuid);
        assert_int_equal(chmod(path, 0777), 0);
        pid = fork();
        if (pid == 0) {
                char text[300] = "";
                int fd;

                if (setuid(65534) < 0)
                        _exit(1);
                fd = connect_raw();
                if (fd < 0)
                        _exit(2);
                send(fd, "{\"table\":\"marks\",\"rows\":[{\"t_ns\":1}]}", 37, MSG_NOSIGNAL);
                if (recv(fd, text, sizeof(text) - 1, 0) <= 0 && recv(fd, text, sizeof(text) - 1, 0) <= 0)
                        _exit(3); /* the first may be a reset, when it was turned away before it was read */
                _exit(strstr(text, "only the user of the run and root may write into it") ? 0 : 4);
        }
        assert_int_equal(poll(&(struct pollfd){ .fd = infp_live_fd(live), .events = POLLIN }, 1, 5000), 1);
        assert_int_equal(infp_live_serve(live, &taker), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        infp_live_withdraw(live);
}

static void takes_a_long_path(void **state)
{
        static const char message[] = "{\"table\":\"marks\",\"rows\":[]}";
        char deep[400];
        struct sending one = { .message = message };
        struct infp_live_taker taker = { .tables = tables, .row = take_row };
        struct infp_live *live;

        (void) state;
        snprintf(deep, sizeof(deep), "%s/%0100d", dir, 7);
        assert_int_equal(mkdir(deep, 0700), 0);
        setenv("XDG_RUNTIME_DIR", deep, 1);
        live = publish(uuid);
        pthread_create(&one.thread, NULL, send_it, &one);
        serve(live, &taker, 1);
        infp_live_answer(live, 0, NULL);
        pthread_join(one.thread, NULL);
        assert_int_equal(one.r, 0);
        infp_live_withdraw(live);
}

static void checks_each_cell(void **state)
{
#define ROWS(row) "{\"table\":\"sample\",\"rows\":[" row "]}"
        static const struct {
                const char *message;
                int r;
                unsigned rows;
                const char *error;
        } cases[] = {
                { ROWS(""), 0, 0, "" },
                { ROWS("{\"t_ns\":1}"), 0, 1, "" },
                { ROWS("{\"t_ns\":1,\"process\":\"18446744073709551615\",\"delta\":-5,\"ticks\":7,\"ratio\":1,\"is_"
                       "on\":true,"
                       "\"name\":\"x\",\"born\":1764302400123.5}"),
                  0, 1, "" },
                { ROWS("{\"t_ns\":1,\"delta\":null,\"born\":\"1764302400123456789\"},{\"t_ns\":2}"), 0, 2, "" },
                { ROWS("{\"delta\":1}"), -EBADMSG, 0, "each row needs t_ns, its CLOCK_MONOTONIC in ns" },
                { ROWS("{\"t_ns\":0}"), -EBADMSG, 0, "each row needs t_ns, its CLOCK_MONOTONIC in ns" },
                { ROWS("{\"t_ns\":9223372036854775807}"), -EBADMSG, 0,
                  "t_ns of a row lies in the future: it is CLOCK_MONOTONIC in ns" },
                { ROWS("{\"t_ns\":1.5}"), -EBADMSG, 0, "each row needs t_ns, its CLOCK_MONOTONIC in ns" },
                { ROWS("{\"t_ns\":1,\"time\":5}"), -EBADMSG, 0, "table sample has no column 'time' to write" },
                { ROWS("{\"t_ns\":1,\"nope\":5}"), -EBADMSG, 0, "table sample has no column 'nope' to write" },
                { ROWS("{\"t_ns\":1},{\"t_ns\":1,\"delta\":\"x\"}"), -EBADMSG, 0,
                  "column 'delta' of sample must be an integer" },
                { ROWS("{\"t_ns\":1,\"delta\":1.5}"), -EBADMSG, 0, "column 'delta' of sample must be an integer" },
                { ROWS("{\"t_ns\":1,\"ticks\":-1}"), -EBADMSG, 0,
                  "column 'ticks' of sample must be a non-negative integer (above 2^53 as a text)" },
                { ROWS("{\"t_ns\":1,\"ratio\":\"1\"}"), -EBADMSG, 0, "column 'ratio' of sample must be a number" },
                { ROWS("{\"t_ns\":1,\"is_on\":1}"), -EBADMSG, 0, "column 'is_on' of sample must be true or false" },
                { ROWS("{\"t_ns\":1,\"name\":[]}"), -EBADMSG, 0, "column 'name' of sample must be a text" },
                { ROWS("{\"t_ns\":1,\"name\":\"0123456789012345678901234567890123456789012345678901234567890123456\"}"),
                  -EBADMSG, 0, "the texts of one row of sample are longer than 64 bytes" },
                { ROWS("{\"t_ns\":1,\"born\":1e300}"), -EBADMSG, 0,
                  "column 'born' of sample must be a time in Unix ms, or in ns as a text" },
                { ROWS("{\"t_ns\":1,\"born\":9223372036854775807}"), -EBADMSG, 0,
                  "column 'born' of sample must be a time in Unix ms, or in ns as a text" },
                { ROWS("5"), -EBADMSG, 0, "\"rows\" must be a list of objects" },
                { "{\"table\":\"sample\"}", -EBADMSG, 0, "\"rows\" must be a list of objects" },
                { "{\"table\":\"cpu\",\"rows\":[]}", -EBADMSG, 0, "table 'cpu' takes no rows from other programs" },
                { "{\"table\":5,\"rows\":[]}", -EBADMSG, 0, "table '' takes no rows from other programs" },
                { "[]", -EBADMSG, 0, "a message must be one JSON object" },
                { ROWS("{\"t_ns\":1},{\"t_ns\":1},{\"t_ns\":1},{\"t_ns\":1},{\"t_ns\":1},{\"t_ns\":1},{\"t_ns\":1},"
                       "{\"t_ns\":1},{\"t_ns\":1}"),
                  -ENOSPC, 8, "8 of 9 rows were taken: No space left on device" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                static struct infp_row row;
                struct taken taken = { 0 };
                struct infp_live_taker taker = { .tables = tables, .row = take_row, .context = &taken };
                struct infp_err err = { "" };
                char text[64];
                unsigned n;

                row.text = text;
                row.text_cap = sizeof(text);
                assert_int_equal(
                        infp_live_message_take(cases[i].message, strlen(cases[i].message), &taker, &row, &n, &err),
                        cases[i].r);
                assert_string_equal(err.text, cases[i].error);
                assert_int_equal(n, cases[i].rows);
                assert_int_equal(taken.n, cases[i].rows);
        }
}

static int check_row(void *context, const struct infp_row *row)
{
        const char *text;
        size_t size;

        (void) context;
        assert_int_equal(row->t_ns, UINT64_C(9007199254740993));
        assert_int_equal(row->cell[SAMPLE_PROCESS].u64, UINT64_MAX);
        assert_int_equal(row->cell[SAMPLE_DELTA].i64, -5);
        assert_int_equal(row->cell[SAMPLE_TICKS].u64, INT64_MAX);
        assert_true(row->cell[SAMPLE_RATIO].f64 == 0.25);
        assert_true(infp_row_has(row, SAMPLE_IS_ON) && !row->cell[SAMPLE_IS_ON].b);
        text = infp_row_text(row, SAMPLE_NAME, &size);
        assert_int_equal(size, strlen("caf\xc3\xa9 \\x41"));
        assert_memory_equal(text, "caf\xc3\xa9 \\x41", size);
        assert_int_equal(row->cell[SAMPLE_BORN].i64, INT64_C(1764302400123500000));
        return 0;
}

static void keeps_values_exactly(void **state)
{
        static const char message[] =
                ROWS("{\"t_ns\":9007199254740993,\"process\":\"18446744073709551615\",\"delta\":-5,"
                     "\"ticks\":9223372036854775807,\"ratio\":0.25,\"is_on\":false,\"name\":\"caf\\u00e9 \\\\x41\","
                     "\"born\":1764302400123.5}");
        static struct infp_row row;
        struct infp_live_taker taker = { .tables = tables, .row = check_row };
        struct infp_err err = { "" };
        char text[64];
        unsigned n;

        (void) state;
        row.text = text;
        row.text_cap = sizeof(text);
        assert_int_equal(infp_live_message_take(message, strlen(message), &taker, &row, &n, &err), 0);
        assert_int_equal(n, 1);
}

/* A run that lives elsewhere is found by the beginning of its uuid. */
static void opens_a_live_run_by_its_uuid(void **state)
{
        struct infp_run_info info = test_info();
        struct infp_err err = { "" };
        struct infp_run *recorder, *run;
        struct infp_live *live;
        char prefix[37];

        (void) state;
        assert_int_equal(infp_run_create(dir, &info, &recorder, &err), 0);
        live = publish(info.uuid);
        snprintf(prefix, sizeof(prefix), "%.20s", info.uuid);
        assert_int_equal(infp_run_open(prefix, "/nowhere", &run, &err), 0);
        assert_string_equal(run->info.uuid, info.uuid);
        assert_string_equal(run->output, dir);
        assert_int_equal(run->state, INFP_RUN_RECORDING);
        infp_run_close(run);
        infp_live_withdraw(live);
        infp_run_close(recorder);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, live_set_up, live_tear_down)
        const struct CMUnitTest tests[] = {
                TEST(finds_who_lives),
                TEST(prefers_who_lives_here),
                TEST(forgets_the_dead),
                TEST(knows_its_readers),
                TEST(answers_when_it_is_stored),
                TEST(asks_again_who_serves),
                TEST(says_when_nobody_answers),
                TEST(survives_hostile_clients),
                TEST(asks_who_it_is),
                TEST(takes_a_long_path),
                TEST(checks_each_cell),
                TEST(keeps_values_exactly),
                TEST(opens_a_live_run_by_its_uuid),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
