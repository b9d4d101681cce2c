/* Who listens on a TCP port: a request goes only to a socket that the engine itself, or one of its descendants, has opened. An
 * HTTP request to another port of a job (NCCL, ZMQ, TCPStore) can wedge it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/engine_parts.h"
#include "model/id.h"

enum { SOCKETS_MAX = 16, GENERATIONS_MAX = 64, LISTENING = 0x0A };

struct socket {
        uint64_t inode;
        char host[64];
        bool is_any;
};

static ssize_t read_link(const struct infp_env *env, const char *path, char *ret, size_t cap)
{
        ssize_t n = readlinkat(env->root_fd, infp_relative(path), ret, cap - 1);

        if (n < 0)
                return -errno;
        ret[n] = 0;
        return n;
}

/* 0: in ours. */
static int check_network(const struct infp_env *env, int32_t pid, struct infp_err *err, const char **fix)
{
        char path[64], own[64], other[64];
        ssize_t r;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/ns/net", pid);
        r = read_link(env, path, other, sizeof(other));
        if (r == -ENOENT)
                return -ENOENT;
        if (r < 0 || read_link(env, "proc/self/ns/net", own, sizeof(own)) < 0) {
                *fix = "run infprof as the same user or as root, or name the page by --engine URL";
                return infp_fail(err, -EACCES, "process %" PRId32 ": /%s cannot be read, so its port is not asked", pid,
                                 path);
        }
        if (!strcmp(own, other))
                return 0;
        *fix = "name the page as it is reached from here by --engine URL, or run infprof there (nsenter -t PID -n)";
        return infp_fail(err, -ENETUNREACH, "process %" PRId32 " has a network of its own (a container)", pid);
}

/* "0100007F": 32-bit words as the kernel has them in memory. */
static bool set_host(const char *hex, struct socket *ret)
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

/* The kernel lists sockets that listen first, so that the beginning of a long list is enough. */
static unsigned find_sockets(const struct infp_env *env, const char *path, unsigned port, char *buffer,
                             struct socket *sockets, unsigned n)
{
        ssize_t size = infp_read_at(env->root_fd, path, buffer, ENGINE_BUFFER);
        char *rest = buffer, *line;

        if (size < 0)
                return n;
        /* bound: any socket on the port names the process */
        while ((line = strsep(&rest, "\n")) && n < SOCKETS_MAX) {
                unsigned line_port, state;
                uint64_t inode;
                char hex[33];

                if (sscanf(line, "%*d: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %" SCNu64, hex, &line_port,
                           &state, &inode) == 4 &&
                    line_port == port && state == LISTENING && inode && set_host(hex, &sockets[n]))
                        sockets[n++].inode = inode;
        }
        return n;
}

/* The socket that the process has open; n: none of them; -EACCES. */
static int find_open(const struct infp_env *env, int32_t pid, const struct socket *sockets, unsigned n)
{
        char path[64], link[64];
        int fd, found = (int) n;
        struct dirent *entry;
        DIR *directory;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/fd", pid);
        fd = openat(env->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? (int) n : -EACCES;
        directory = fdopendir(fd);
        if (!directory) {
                infp_close(fd);
                return -EACCES;
        }
        while (found == (int) n && (entry = readdir(directory))) {
                ssize_t size = readlinkat(fd, entry->d_name, link, sizeof(link) - 1);
                uint64_t inode;

                if (size <= 0)
                        continue;
                link[size] = 0;
                if (sscanf(link, "socket:[%" SCNu64 "]", &inode) != 1)
                        continue;
                for (unsigned i = 0; i < n; i++)
                        if (sockets[i].inode == inode)
                                found = (int) i;
        }
        closedir(directory);
        return found;
}

static bool read_stat(const struct infp_env *env, int32_t pid, struct infp_process *ret)
{
        char path[64], text[1024];
        ssize_t size;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/stat", pid);
        size = infp_read_at(env->root_fd, path, text, sizeof(text));
        return size > 0 && !infp_process_stat_parse(text, (size_t) size, ret);
}

uint64_t infp_engine_process_id(const struct infp_env *env, int32_t pid)
{
        infp_autofree struct infp_process *process = calloc(1, sizeof(*process));

        return process && read_stat(env, pid, process) ? infp_process_id(env->boot_id, pid, process->start_ticks) : 0;
}

static bool descends(const struct infp_env *env, int32_t pid, int32_t from)
{
        infp_autofree struct infp_process *process = calloc(1, sizeof(*process));

        for (unsigned i = 0; process && pid > 1 && i < GENERATIONS_MAX; i++) {
                if (pid == from)
                        return true;
                if (!read_stat(env, pid, process))
                        return false;
                pid = process->ppid;
        }
        return false;
}

static int find_owner(const struct infp_env *env, int32_t pid, const struct socket *sockets, unsigned n,
                      const struct engine_finder *finder, int32_t *ret)
{
        int found = find_open(env, pid, sockets, n);
        bool is_denied = found < 0;

        *ret = pid;
        for (size_t i = 0; (found < 0 || found == (int) n) && i < finder->n_pids; i++) {
                if (finder->pids[i] == pid)
                        continue;
                found = find_open(env, finder->pids[i], sockets, n);
                *ret = finder->pids[i];
                if (found >= 0 && found < (int) n && !descends(env, *ret, pid))
                        found = (int) n;
        }
        return found >= 0 && found < (int) n ? found : is_denied ? -EACCES : -ENOENT;
}

int infp_engine_listens(const struct infp_env *env, int32_t pid, unsigned port, const struct engine_finder *finder,
                        struct engine_listener *ret, struct infp_err *err, const char **fix)
{
        struct socket sockets[SOCKETS_MAX];
        unsigned n;
        int found;

        INFP_TRY(check_network(env, pid, err, fix));
        n = find_sockets(env, "proc/self/net/tcp", port, finder->buffer, sockets, 0);
        n = find_sockets(env, "proc/self/net/tcp6", port, finder->buffer, sockets, n);
        if (!n)
                return -ENOENT;
        found = find_owner(env, pid, sockets, n, finder, &ret->pid);
        if (found == -EACCES) {
                *fix = "run infprof as the same user or as root, or name the page by --engine URL";
                return infp_fail(err, -EACCES,
                                 "process %" PRId32
                                 ": its open files cannot be read, so it is not known whether port %u is its",
                                 pid, port);
        }
        if (found < 0)
                return found;
        memcpy(ret->host, sockets[found].host, sizeof(ret->host));
        ret->is_any = sockets[found].is_any;
        return 0;
}
