/* Who listens where, on sockets of this process. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "collect/listen.h"
#include "fetch/http.h"

static struct infp_env env;

static int open_machine(void **state)
{
        struct infp_err err = { "" };

        (void) state;
        return infp_env_open(&env, "/", &err);
}

static int close_machine(void **state)
{
        (void) state;
        infp_env_close(&env);
        return 0;
}

static int listen_at(const char *host, unsigned *ret_port)
{
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
        struct sockaddr_in v4 = { .sin_family = AF_INET };
        const bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
        struct sockaddr *address = is_v4 ? (struct sockaddr *) &v4 : (struct sockaddr *) &v6;
        socklen_t size = is_v4 ? sizeof(v4) : sizeof(v6);
        int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1) || bind(fd, address, size) < 0 ||
            listen(fd, 1) < 0 || getsockname(fd, address, &size) < 0)
                return -1;
        *ret_port = ntohs(is_v4 ? v4.sin_port : v6.sin6_port);
        return fd;
}

static void ports(void **state)
{
        static const struct {
                const char *host, *shown;
                bool is_any;
        } cases[] = { { "127.0.0.1", "127.0.0.1", false },
                      { "127.0.0.3", "127.0.0.3", false },
                      { "0.0.0.0", "127.0.0.1", true },
                      { "::1", "[::1]", false },
                      { "::", "[::1]", true } };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct infp_listen all = { .n = 0 }, one = { .n = 0 };
                unsigned port = 0;
                int fd = listen_at(cases[i].host, &port), found;

                if (fd < 0) /* a machine without IPv6 */
                        continue;
                infp_listen_port(&env, 0, port, &all);
                infp_listen_port(&env, getpid(), port, &one);
                assert_int_equal(all.n, one.n);
                found = infp_listen_open(&env, getpid(), &all);
                assert_true(found >= 0);
                assert_string_equal(all.socket[found].host, cases[i].shown);
                assert_int_equal(all.socket[found].is_any, cases[i].is_any);
                close(fd);
                assert_int_equal(infp_listen_open(&env, getpid(), &all), -ENOENT);
                infp_listen_done(&all);
                infp_listen_done(&one);
        }
}

static void paths(void **state)
{
        char name[] = "/tmp/listenXXXXXX";
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct infp_listen all = { .n = 0 };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void) state;
        assert_non_null(mkdtemp(name));
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/a b: c", name);
        assert_int_equal(bind(fd, (struct sockaddr *) &address, sizeof(address)), 0);
        infp_listen_path(&env, 0, address.sun_path, &all);
        assert_int_equal(all.n, 0); /* bound, but it does not listen */
        assert_int_equal(listen(fd, 1), 0);
        infp_listen_path(&env, 0, address.sun_path, &all);
        assert_int_equal(all.n, 1);
        assert_int_equal(infp_listen_open(&env, getpid(), &all), 0);
        infp_listen_done(&all);
        close(fd);
        unlink(address.sun_path);
        rmdir(name);
}

static void networks_and_hosts(void **state)
{
        uint64_t network = 1;

        (void) state;
        assert_int_equal(infp_listen_network(&env, getpid(), &network), 0);
        assert_int_equal(network, 0);
        assert_int_equal(infp_listen_network(&env, 0x7ffffff0, &network), -ENOENT);
        assert_true(infp_listen_is_loopback("LocalHost") && infp_listen_is_own_address("127.0.0.9"));
        assert_false(infp_listen_is_loopback("localhost.example") || infp_listen_is_own_address("192.0.2.1"));
        assert_false(infp_listen_is_own_address("no address") || infp_listen_is_own_name("no.such.name.example"));
}

/* Texts that nobody has checked: what a message names, or the environment. */
static void test_hosts(void **state)
{
        static const struct {
                const char *url, *host; /* NULL: none */
                unsigned port;
        } cases[] = {
                { "http://a:8000/x", "a", 8000 },
                { "https://u:p@b/x:9", "b", 443 },
                { "http://[::1]:81", "::1", 81 },
                { "http://[::1]/metrics", "::1", 80 },
                { "http://[::1/metrics", NULL, 0 },
                { "http://[a/b:7", NULL, 0 },
                { "http://[", NULL, 0 },
                { "http://", NULL, 0 },
                { "a:80", NULL, 0 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                char *exact = strdup(cases[i].url), host[256]; /* so that the sanitizer sees one byte too many */
                unsigned found = 0;

                assert_int_equal(infp_http_url_host(exact, host, &found), cases[i].host != NULL);
                if (cases[i].host)
                        assert_string_equal(host, cases[i].host);
                assert_int_equal(found, cases[i].port);
                free(exact);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_hosts), cmocka_unit_test(ports),
                                            cmocka_unit_test(paths), cmocka_unit_test(networks_and_hosts) };

        return cmocka_run_group_tests(tests, open_machine, close_machine);
}
