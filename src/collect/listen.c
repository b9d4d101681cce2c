#include "collect/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/procfile.h"

enum { BUFFER = 256 * 1024, LISTENING = 0x0A, PATH_LISTENS = 1 << 16 };

/* "0100007F": 32-bit words as the kernel has them in memory. */
static bool set_host(const char *hex, struct infp_listen_socket *ret)
{
        uint32_t words[4] = { 0 };
        size_t n = strlen(hex) / 8;
        char text[INET6_ADDRSTRLEN];

        if (n != 1 && n != 4)
                return false;
        ret->is_any = true;
        for (size_t i = 0; i < n; i++) {
                char word[9] = "";

                memcpy(word, hex + 8 * i, 8);
                words[i] = (uint32_t) strtoul(word, NULL, 16);
                ret->is_any &= !words[i];
        }
        if (ret->is_any)
                snprintf(ret->host, sizeof(ret->host), "%s", n == 1 ? "127.0.0.1" : "[::1]");
        else if (!inet_ntop(n == 1 ? AF_INET : AF_INET6, words, text, sizeof(text)))
                return false;
        else
                snprintf(ret->host, sizeof(ret->host), n == 1 ? "%s" : "[%s]", text);
        return true;
}

/* Whether the line is of a wanted socket; sets it. */
typedef bool reader(const char *line, const void *wanted, struct infp_listen_socket *ret);

static bool read_tcp(const char *line, const void *wanted, struct infp_listen_socket *ret)
{
        const unsigned wanted_port = *(const unsigned *) wanted;
        unsigned state;
        char hex[33];

        return sscanf(line, "%*d: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %" SCNu64, hex, &ret->port,
                      &state, &ret->inode) == 4 &&
               (!wanted_port || ret->port == wanted_port) && state == LISTENING && ret->inode && set_host(hex, ret);
}

static bool read_unix(const char *line, const void *wanted, struct infp_listen_socket *ret)
{
        unsigned flags;
        int path = 0;

        ret->host[0] = 0;
        ret->port = 0;
        ret->is_any = false;
        return sscanf(line, "%*[^:]: %*x %*x %x %*x %*x %" SCNu64 " %n", &flags, &ret->inode, &path) == 2 && path &&
               flags & PATH_LISTENS && !strcmp(line + path, wanted);
}

static bool has_room(struct infp_listen *listen)
{
        return INFP_MAKE_ROOM(listen->socket, listen->n, listen->cap, 8);
}

void infp_listen_done(struct infp_listen *listen)
{
        free(listen->socket);
        *listen = (struct infp_listen){ .n = 0 };
}

/* The kernel lists listening TCP sockets first, so that the start of a long list is enough; Unix sockets can be anywhere. */
static void find(const struct infp_env *env, int32_t pid, const char *name, reader *read, const void *wanted,
                 struct infp_listen *ret)
{
        const size_t cap = strcmp(name, "unix") ? BUFFER : INFP_PROCFILE_MAX;
        infp_autofree char *buffer = malloc(cap);
        char path[64], *rest = buffer, *line;
        ssize_t n;

        if (pid)
                snprintf(path, sizeof(path), "proc/%" PRId32 "/net/%s", pid, name);
        else
                snprintf(path, sizeof(path), "proc/net/%s", name);
        n = buffer ? infp_read_at(env->root_fd, path, buffer, cap) : -ENOMEM;
        if (n < 0)
                return;
        while (n > 0 && (size_t) n + 1 >= cap && buffer[n - 1] != '\n') /* leave out a line that was cut */
                buffer[--n] = 0;
        while ((line = strsep(&rest, "\n")) && has_room(ret))
                ret->n += read(line, wanted, &ret->socket[ret->n]);
}

void infp_listen_port(const struct infp_env *env, int32_t pid, unsigned port, struct infp_listen *ret)
{
        find(env, pid, "tcp", read_tcp, &port, ret);
        find(env, pid, "tcp6", read_tcp, &port, ret);
}

void infp_listen_path(const struct infp_env *env, int32_t pid, const char *path, struct infp_listen *ret)
{
        find(env, pid, "unix", read_unix, path, ret);
}

static int number_of(const struct infp_listen *listen, const char *link)
{
        uint64_t inode;

        if (sscanf(link, "socket:[%" SCNu64 "]", &inode) != 1)
                return -ENOENT;
        for (unsigned i = 0; i < listen->n; i++)
                if (listen->socket[i].inode == inode)
                        return (int) i;
        return -ENOENT;
}

int infp_listen_open(const struct infp_env *env, int32_t pid, const struct infp_listen *listen)
{
        char path[64], link[64];
        infp_autoclose int fd = -1;
        int found = -ENOENT;
        struct infp_names names;
        const char *name;

        /* An ended leader shows no descriptors, but its threads do. */
        snprintf(path, sizeof(path), "proc/%" PRId32 "/fd", infp_proc_thread(env->root_fd, "proc/", pid));
        fd = openat(env->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -ENOENT : -EACCES;
        infp_names_begin(&names, fd);
        while (found < 0 && (name = infp_names_next(&names))) {
                ssize_t size = readlinkat(fd, name, link, sizeof(link) - 1);

                if (size <= 0)
                        continue;
                link[size] = 0;
                found = number_of(listen, link);
        }
        return found;
}

static int read_network(const struct infp_env *env, const char *process, uint64_t *ret)
{
        char path[64], link[64];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%s/ns/net", process);
        n = readlinkat(env->root_fd, path, link, sizeof(link) - 1);
        if (n < 0)
                return errno == ENOENT ? -ENOENT : -EACCES;
        link[n] = 0;
        return sscanf(link, "net:[%" SCNu64 "]", ret) == 1 ? 0 : -EACCES;
}

int infp_listen_network(const struct infp_env *env, int32_t pid, uint64_t *ret)
{
        char process[16];
        uint64_t own;

        snprintf(process, sizeof(process), "%" PRId32, pid);
        INFP_TRY(read_network(env, process, ret));
        INFP_TRY(read_network(env, "self", &own));
        if (*ret == own)
                *ret = 0;
        return 0;
}

bool infp_listen_is_loopback(const char *host)
{
        static const char *const names[] = { "localhost", "127.0.0.1", "::1", "0.0.0.0" };

        for (size_t i = 0; i < INFP_COUNT(names); i++)
                if (!strcasecmp(host, names[i]))
                        return true;
        return false;
}

/* Only an address of this machine can be bound. */
bool infp_listen_is_own_address(const char *host)
{
        struct sockaddr_in v4 = { .sin_family = AF_INET };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
        bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
        infp_autoclose int fd = -1;

        if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
                return false;
        fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        return fd >= 0 &&
               !(is_v4 ? bind(fd, (struct sockaddr *) &v4, sizeof(v4)) : bind(fd, (struct sockaddr *) &v6, sizeof(v6)));
}

bool infp_listen_is_own_name(const char *host)
{
        char name[256] = "";
        size_t size = strcspn(host, ".");

        if (gethostname(name, sizeof(name) - 1) || !*name)
                return false;
        /* Either may have the domain after it. */
        return !strcmp(host, name) ||
               (strcspn(name, ".") == size && !strncmp(host, name, size) && (!host[size] || !name[size]));
}

/* A line of if_inet6 begins with 32 hexadecimal digits. fib_trie has two lines for an address: "|-- 127.0.0.1", "/32 host LOCAL". */
bool infp_listen_has_address(const struct infp_env *env, int32_t pid, const char *host)
{
        infp_autofree char *buffer = malloc(BUFFER);
        unsigned char v4[4], v6[16];
        const bool is_v6 = inet_pton(AF_INET6, host, v6) == 1;
        char path[64], wanted[80] = "";
        const char *at;

        if (!buffer || (!is_v6 && inet_pton(AF_INET, host, v4) != 1))
                return false;
        for (size_t i = 0; is_v6 && i < sizeof(v6); i++)
                snprintf(wanted + 2 * i, 3, "%02x", v6[i]);
        if (!is_v6)
                snprintf(wanted, sizeof(wanted), "|-- %s\n", host);
        snprintf(path, sizeof(path), "proc/%" PRId32 "/net/%s", pid, is_v6 ? "if_inet6" : "fib_trie");
        if (infp_read_at(env->root_fd, path, buffer, BUFFER) <= 0)
                return false;
        at = strstr(buffer, wanted);
        return at && (is_v6 || !strncmp(at + strlen(wanted) + strspn(at + strlen(wanted), " "), "/32 host LOCAL", 14));
}
