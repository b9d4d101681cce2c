/* The HTTP client against a server in threads of this program that answers by path, mostly badly. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/time.h"
#include "fetch/http.h"

static char folder[] = "/tmp/infp-http-XXXXXX", unix_path[64], token_path[64];
static int listeners[3];
static unsigned port, port6;
static atomic_int n_connections;

static void say(int fd, const char *text)
{
        if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
                return;
}

static void say_packed(int fd, size_t size)
{
        z_stream z = { 0 };
        char head[128], *plain = calloc(1, size);
        size_t cap = size + 1024;
        unsigned char *packed = malloc(cap);

        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
        z.next_in = (unsigned char *) plain;
        z.avail_in = (unsigned) size;
        z.next_out = packed;
        z.avail_out = (unsigned) cap;
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %lu\r\n\r\n",
                 z.total_out);
        say(fd, head);
        send(fd, packed, z.total_out, MSG_NOSIGNAL);
        deflateEnd(&z);
        free(plain);
        free(packed);
}

static void say_for_ever(int fd, const char *head, const char *piece, unsigned pause_us)
{
        say(fd, head);
        while (send(fd, piece, strlen(piece), MSG_NOSIGNAL) > 0)
                if (pause_us)
                        usleep(pause_us);
}

static const struct {
        const char *path, *answer; /* NULL: below */
} answers[] = {
        { "/ok", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n" },
        { "/missing", "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n" },
        { "/empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" },
        { "/old", "HTTP/1.0 200 OK\r\n\r\nold page\n" },
        { "/short", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789" },
        { "/chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" },
        { "/cut-chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" },
        { "/redirect",
          "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x?token=abcdef\r\nContent-Length: 0\r\n\r\n" },
        { "/garbage", "SSH-2.0-OpenSSH_9.2\r\n" },
        { "/bad-status", "HTTP/1.1 two hundred\r\n\r\n" },
        { "/bad-gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip\n" },
        { "/close", "" },
        { "/cut-head", "HTTP/1.1 200 OK\r\nContent-Len" },
};

static bool answer(int fd, const char *request)
{
        char path[64] = "";

        sscanf(request, "%*s %63s", path);
        for (size_t i = 0; i < INFP_COUNT(answers); i++)
                if (!strcmp(path, answers[i].path)) {
                        say(fd, answers[i].answer);
                        return strstr(answers[i].answer, "Content-Length: ") && strcmp(path, "/short");
                }
        if (!strcmp(path, "/echo")) {
                char head[96];

                snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(request));
                say(fd, head);
                say(fd, request);
                return true;
        }
        if (!strcmp(path, "/gzip"))
                say_packed(fd, 1000);
        else if (!strcmp(path, "/bomb"))
                say_packed(fd, 64 << 20);
        else if (!strcmp(path, "/huge"))
                say_for_ever(fd, "HTTP/1.1 200 OK\r\n\r\n", "0123456789abcdef0123456789abcdef", 0);
        else if (!strcmp(path, "/drip"))
                say_for_ever(fd, "HTTP/1.1 200 OK\r\n\r\n", "x", 20000);
        else if (!strcmp(path, "/headers"))
                say_for_ever(fd, "HTTP/1.1 200 OK\r\n", "X-More: 0123456789abcdef0123456789abcdef\r\n", 0);
        else if (!strcmp(path, "/header"))
                say_for_ever(fd, "HTTP/1.1 200 OK\r\nX-More: ", "0123456789abcdef0123456789abcdef", 0);
        else if (!strcmp(path, "/hang"))
                recv(fd, path, sizeof(path), 0); /* until the client goes away */
        return false;
}

static void *serve_one(void *context)
{
        int fd = (int) (intptr_t) context;
        char request[8192];
        size_t size = 0;

        for (;;) {
                ssize_t n = recv(fd, request + size, sizeof(request) - 1 - size, 0);

                if (n <= 0)
                        break;
                size += (size_t) n;
                request[size] = 0;
                if (!strstr(request, "\r\n\r\n"))
                        continue;
                if (!answer(fd, request))
                        break;
                size = 0;
        }
        close(fd);
        return NULL;
}

static void *serve(void *context)
{
        int listener = *(int *) context, fd;

        while ((fd = accept(listener, NULL, NULL)) >= 0) {
                pthread_t thread;

                atomic_fetch_add(&n_connections, 1);
                assert_int_equal(pthread_create(&thread, NULL, serve_one, (void *) (intptr_t) fd), 0);
                pthread_detach(thread);
        }
        return NULL;
}

static int listen_at(const struct sockaddr *address, socklen_t size, int *ret)
{
        pthread_t thread;

        *ret = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*ret < 0 || bind(*ret, address, size) || listen(*ret, 16))
                return -1;
        return pthread_create(&thread, NULL, serve, ret) || pthread_detach(thread) ? -1 : 0;
}

static int start(void **state)
{
        struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        struct sockaddr_un local = { .sun_family = AF_UNIX };
        socklen_t size;

        (void) state;
        if (!mkdtemp(folder))
                return -1;
        snprintf(unix_path, sizeof(unix_path), "%s/socket", folder);
        snprintf(token_path, sizeof(token_path), "%s/token", folder);
        snprintf(local.sun_path, sizeof(local.sun_path), "%s", unix_path);
        if (listen_at((struct sockaddr *) &v4, sizeof(v4), &listeners[0]) ||
            listen_at((struct sockaddr *) &local, sizeof(local), &listeners[2]))
                return -1;
        if (!listen_at((struct sockaddr *) &v6, sizeof(v6), &listeners[1]) &&
            !getsockname(listeners[1], (struct sockaddr *) &v6, &(socklen_t){ sizeof(v6) }))
                port6 = ntohs(v6.sin6_port);
        size = sizeof(v4);
        getsockname(listeners[0], (struct sockaddr *) &v4, &size);
        port = ntohs(v4.sin_port);
        return 0;
}

static int stop(void **state)
{
        (void) state;
        unlink(unix_path);
        unlink(token_path);
        return rmdir(folder);
}

static const char *url_of(const char *path)
{
        static char url[256];

        snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, path);
        return url;
}

/* One GET with a context of its own. */
static int get(const struct infp_http_request *request, char **ret_body, size_t *ret_size, long *ret_status,
               struct infp_err *err)
{
        struct infp_http *http = NULL;
        int r;

        err->text[0] = 0;
        assert_int_equal(infp_http_new(&http, err), 0);
        r = infp_http_get(http, request, ret_body, ret_size, ret_status, err);
        infp_http_free(http);
        return r;
}

static void good_answers(void **state)
{
        static const struct {
                const char *path, *body;
                long status;
        } cases[] = {
                { "/ok", "hello\n", 200 },     { "/missing", "no\n", 404 }, { "/empty", "", 200 },
                { "/old", "old page\n", 200 }, { "/chunks", "abcde", 200 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_http_request request = { .url = url_of(cases[i].path), .timeout_ms = 5000 };
                infp_autofree char *body = NULL;
                struct infp_err err;
                size_t size = 99;
                long status = 0;

                assert_int_equal(get(&request, &body, &size, &status, &err), 0);
                assert_string_equal(body, cases[i].body);
                assert_int_equal(size, strlen(cases[i].body));
                assert_int_equal(status, cases[i].status);
        }
}

static void bad_answers(void **state)
{
        static const struct {
                const char *path;
                int r;
                const char *text; /* in the sentence */
        } cases[] = {
                { "/short", -EBADMSG, "90 of 100 bytes are missing" },
                { "/cut-chunks", -EBADMSG, "cut short after 3 bytes" },
                { "/redirect", -EREMCHG, "redirects (302) to http://127.0.0.1:1/x?token=***" },
                { "/garbage", -EBADMSG, "not HTTP" },
                { "/bad-status", -EBADMSG, "not HTTP" },
                { "/bad-gzip", -EBADMSG, "unpacked" },
                { "/close", -EBADMSG, "without an answer" },
                { "/bomb", -EFBIG, "limit of 1048576 bytes" },
                { "/huge", -EFBIG, "limit of 1048576 bytes" },
                { "/headers", -EMSGSIZE, "headers" },
                { "/header", -EMSGSIZE, "headers" },
                { "/hang", -ETIMEDOUT, "has not answered within 300 ms" },
                { "/drip", -ETIMEDOUT, "sends too slowly" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                bool is_slow = cases[i].r == -ETIMEDOUT;
                struct infp_http_request request = { .url = url_of(cases[i].path),
                                                     .timeout_ms = is_slow ? 300 : 20000,
                                                     .max_bytes = 1 << 20 };
                infp_autofree char *body = NULL;
                struct infp_err err;

                if (get(&request, &body, NULL, NULL, &err) != cases[i].r || !strstr(err.text, cases[i].text) ||
                    !strstr(err.text, request.url))
                        fail_msg("%s: %s", cases[i].path, err.text);
                assert_null(body);
        }
}

static void head_that_is_cut(void **state)
{
        struct infp_http_request request = { .url = url_of("/cut-head"), .timeout_ms = 5000 };
        infp_autofree char *body = NULL;
        struct infp_err err;

        (void) state;
        /* libcurl takes a head without its end for an answer without a body, or for none: never for a page. */
        if (get(&request, &body, NULL, NULL, &err) == 0)
                assert_string_equal(body, "");
}

static void unpacks(void **state)
{
        struct infp_http_request request = { .url = url_of("/gzip"), .timeout_ms = 5000, .max_bytes = 1000 };
        infp_autofree char *body = NULL;
        struct infp_err err;
        size_t size = 0;

        (void) state;
        assert_int_equal(get(&request, &body, &size, NULL, &err), 0);
        assert_int_equal(size, 1000);
        for (size_t i = 0; i < size; i++)
                assert_int_equal(body[i], 0);
}

static void other_addresses(void **state)
{
        char url[2][128];

        (void) state;
        snprintf(url[0], sizeof(url[0]), "unix://%s:/ok", unix_path);
        snprintf(url[1], sizeof(url[1]), "http://[::1]:%u/ok", port6);
        for (unsigned i = 0; i < (port6 ? 2 : 1); i++) {
                struct infp_http_request request = { .url = url[i], .timeout_ms = 5000 };
                infp_autofree char *body = NULL;
                struct infp_err err;

                assert_int_equal(get(&request, &body, NULL, NULL, &err), 0);
                assert_string_equal(body, "hello\n");
        }
}

static void nobody_there(void **state)
{
        char missing[128];
        const char *const urls[] = { "http://127.0.0.1:1/metrics", missing };
        static const int expected[] = { -ECONNREFUSED, -ENOENT };

        (void) state;
        snprintf(missing, sizeof(missing), "unix://%s/none:/ok", folder);
        for (unsigned i = 0; i < 2; i++) {
                struct infp_http_request request = { .url = urls[i], .timeout_ms = 5000 };
                infp_autofree char *body = NULL;
                struct infp_err err;

                assert_int_equal(get(&request, &body, NULL, NULL, &err), expected[i]);
                assert_non_null(strstr(err.text, urls[i]));
        }
}

static void what_is_sent(void **state)
{
        static const char *const headers[] = { "X-Mine: 1", NULL };
        struct infp_http_request request = { .url = url_of("/echo"), .timeout_ms = 5000, .headers = headers };
        infp_autofree char *body = NULL;
        struct infp_err err;

        (void) state;
        setenv("http_proxy", "http://127.0.0.1:1", 1);
        setenv("all_proxy", "http://127.0.0.1:1", 1);
        assert_int_equal(get(&request, &body, NULL, NULL, &err), 0);
        unsetenv("http_proxy");
        unsetenv("all_proxy");
        assert_non_null(strstr(body, "GET /echo HTTP/1.1\r\n"));
        assert_non_null(strstr(body, "X-Mine: 1\r\n"));
        assert_non_null(strstr(body, "Accept-Encoding: gzip\r\n"));
        assert_non_null(strstr(body, "User-Agent: infprof/"));
        assert_null(strstr(body, "Authorization"));
}

static void write_token(const char *text)
{
        FILE *file = fopen(token_path, "w");

        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void token(void **state)
{
        struct infp_http_request request = { .url = url_of("/echo"), .timeout_ms = 5000, .token_file = token_path };
        static const struct {
                const char *text, *sent;
        } cases[] = {
                { "first-token\n", "Authorization: Bearer first-token\r\n" },
                { "second \r\nmore\n", "Authorization: Bearer second\r\n" },
                { "", NULL },
                { "\n", NULL },
                { "a b\n", NULL },
        };
        struct infp_err err;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autofree char *body = NULL;

                write_token(cases[i].text);
                assert_int_equal(get(&request, &body, NULL, NULL, &err), cases[i].sent ? 0 : -EINVAL);
                if (cases[i].sent)
                        assert_non_null(strstr(body, cases[i].sent));
                else
                        assert_non_null(strstr(err.text, token_path));
        }
        unlink(token_path);
        assert_int_equal(get(&request, &(char *){ NULL }, NULL, NULL, &err), -ENOENT);
        assert_non_null(strstr(err.text, token_path));
        request.token_file = folder;
        assert_int_equal(get(&request, &(char *){ NULL }, NULL, NULL, &err), -EINVAL);
}

static void url_check(void **state)
{
        static const char *const good[] = { "http://localhost:8000/metrics", "https://h/",    "http://[::1]:1/x",
                                            "unix:///run/x:/metrics",        "unix:///run/x", "http://u:p@h/" };
        static const char *const bad[] = { "",
                                           "localhost:8000",
                                           "ftp://h/x",
                                           "file:///etc/passwd",
                                           "http://",
                                           "http://h:x",
                                           "http://h:99999/x",
                                           "unix://x:/metrics",
                                           "http://a b/",
                                           "http://h/\n",
                                           "unix:///run/x:metrics",
                                           "gopher://h:70/",
                                           "http:///x" };
        struct infp_err err;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(good); i++)
                if (infp_http_check_url(good[i], &err))
                        fail_msg("%s: %s", good[i], err.text);
        for (size_t i = 0; i < INFP_COUNT(bad); i++)
                if (infp_http_check_url(bad[i], &err) != -EINVAL)
                        fail_msg("%s was taken", bad[i]);
        assert_int_equal(infp_http_check_url("http://user:hunter2@h:x/", &err), -EINVAL);
        assert_null(strstr(err.text, "hunter2"));
}

/* Side by side: what each of several transfers saw. */
struct seen {
        int n_done, r;
        uint64_t done_t_ns, n_bytes;
        struct infp_http *http;
        struct infp_http_transfer *to_cancel;
};

static void on_done(void *context, const struct infp_http_result *result)
{
        struct seen *seen = context;

        seen->n_done++;
        seen->r = result->r;
        seen->done_t_ns = result->done_t_ns;
        seen->n_bytes = result->n_bytes;
        if (!result->r) {
                assert_true(result->sent_t_ns && result->sent_t_ns <= result->first_byte_t_ns);
                assert_true(result->first_byte_t_ns <= result->done_t_ns);
        }
}

static int on_data(void *context, const char *bytes, size_t size, uint64_t t_ns)
{
        struct seen *seen = context;

        (void) bytes;
        (void) size;
        (void) t_ns;
        if (seen->to_cancel)
                infp_http_cancel(seen->http, seen->to_cancel);
        seen->to_cancel = NULL;
        return 0;
}

static void side_by_side(void **state)
{
        struct infp_http *http = NULL;
        struct seen hang = { 0 }, quick = { 0 };
        struct infp_http_request request = { .timeout_ms = 1500, .done = on_done, .data = on_data };
        uint64_t begin = infp_clock_ns(CLOCK_MONOTONIC);

        (void) state;
        assert_int_equal(infp_http_new(&http, NULL), 0);
        request.context = &hang;
        request.url = url_of("/hang");
        assert_int_equal(infp_http_start(http, &request, NULL, NULL), 0);
        request.context = &quick;
        request.url = url_of("/ok");
        assert_int_equal(infp_http_start(http, &request, NULL, NULL), 0);
        assert_int_equal(hang.n_done + quick.n_done, 0);
        while (infp_http_poll(http, 100, -1) > 0)
                ;
        assert_int_equal(quick.n_done, 1);
        assert_int_equal(quick.r, 0);
        assert_int_equal(quick.n_bytes, 6);
        assert_int_equal(hang.n_done, 1);
        assert_int_equal(hang.r, -ETIMEDOUT);
        assert_true(quick.done_t_ns < hang.done_t_ns);
        assert_true(hang.done_t_ns - begin >= 1490 * INFP_NS_PER_MS);
        infp_http_free(http);
}

static void cancels(void **state)
{
        struct infp_http *http = NULL;
        struct seen hang[2] = { 0 }, quick = { 0 };
        struct infp_http_transfer *transfer[2];
        struct infp_http_request request = { .timeout_ms = 60000, .done = on_done, .data = on_data };

        (void) state;
        assert_int_equal(infp_http_new(&http, NULL), 0);
        for (int i = 0; i < 2; i++) {
                request.context = &hang[i];
                request.url = url_of("/hang");
                assert_int_equal(infp_http_start(http, &request, &transfer[i], NULL), 0);
        }
        infp_http_poll(http, 50, -1);
        /* From within the other's callback. */
        quick.http = http;
        quick.to_cancel = transfer[0];
        request.context = &quick;
        request.url = url_of("/ok");
        assert_int_equal(infp_http_start(http, &request, NULL, NULL), 0);
        while (!quick.n_done || !hang[0].n_done)
                infp_http_poll(http, 100, -1);
        assert_int_equal(hang[0].r, -ECANCELED);
        assert_int_equal(hang[1].n_done, 0);
        infp_http_free(http);
        assert_int_equal(hang[1].n_done, 1);
        assert_int_equal(hang[1].r, -ECANCELED);
        assert_int_equal(hang[0].n_done, 1);
}

static void wakes(void **state)
{
        struct infp_http *http = NULL;
        uint64_t begin = infp_clock_ns(CLOCK_MONOTONIC);
        int fds[2];

        (void) state;
        assert_int_equal(infp_http_new(&http, NULL), 0);
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        assert_int_equal(infp_http_poll(http, 30000, fds[0]), 0);
        assert_true(infp_clock_ns(CLOCK_MONOTONIC) - begin < 20 * INFP_NS_PER_S);
        close(fds[0]);
        close(fds[1]);
        infp_http_free(http);
}

static void connections_are_kept(void **state)
{
        struct infp_http_request request = { .url = url_of("/ok"), .timeout_ms = 5000 };
        struct infp_http *http = NULL;
        int before = atomic_load(&n_connections);

        (void) state;
        assert_int_equal(infp_http_new(&http, NULL), 0);
        for (int i = 0; i < 5; i++) {
                infp_autofree char *body = NULL;

                request.fresh = i == 4;
                assert_int_equal(infp_http_get(http, &request, &body, NULL, NULL, NULL), 0);
        }
        assert_int_equal(atomic_load(&n_connections) - before, 2);
        infp_http_free(http);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(good_answers),
                cmocka_unit_test(bad_answers),
                cmocka_unit_test(head_that_is_cut),
                cmocka_unit_test(unpacks),
                cmocka_unit_test(nobody_there),
                cmocka_unit_test(other_addresses),
                cmocka_unit_test(what_is_sent),
                cmocka_unit_test(token),
                cmocka_unit_test(url_check),
                cmocka_unit_test(side_by_side),
                cmocka_unit_test(cancels),
                cmocka_unit_test(wakes),
                cmocka_unit_test(connections_are_kept),
        };

        return cmocka_run_group_tests_name("http", tests, start, stop);
}
