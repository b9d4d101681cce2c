/* Who listens on a TCP port: a request goes only to a socket that the engine itself, or one of its descendants, has opened. An
 * HTTP request to another port of a job (NCCL, ZMQ, TCPStore) can wedge it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/rights.h"
#include "collect/listen.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/engine/parts.h"
#include "model/id.h"

enum { GENERATIONS_MAX = 64 };

/* 0: in ours. */
static int check_network(const struct infp_env *env, int32_t pid, struct infp_err *err, const char **fix)
{
        uint64_t network;
        int r = infp_listen_network(env, pid, &network);

        if (r == -ENOENT)
                return r;
        if (r < 0) {
                *fix = infp_rights_fix(INFP_MAY_TRACE);
                return infp_fail(err, -EACCES,
                                 "process %" PRId32 ": /proc/%" PRId32
                                 "/ns/net cannot be read, so its port is not asked (--engine URL would)",
                                 pid, pid);
        }
        if (!network)
                return 0;
        *fix = "name the page as it is reached from here by --engine URL, or run infprof there (nsenter -t PID -n)";
        return infp_fail(err, -ENETUNREACH, "process %" PRId32 " has a network of its own (a container)", pid);
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

uint64_t infp_engine_cpu_ticks(const struct infp_env *env, int32_t pid)
{
        infp_autofree struct infp_process *process = calloc(1, sizeof(*process));

        return process && read_stat(env, pid, process) ? process->utime + process->stime : 0;
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

static int find_owner(const struct infp_env *env, int32_t pid, const struct infp_listen *listen,
                      const struct engine_finder *finder, int32_t *ret)
{
        int found = infp_listen_open(env, pid, listen);
        bool is_denied = found == -EACCES;

        *ret = pid;
        for (size_t i = 0; found < 0 && i < finder->n_pids; i++) {
                if (finder->pids[i] == pid)
                        continue;
                found = infp_listen_open(env, finder->pids[i], listen);
                *ret = finder->pids[i];
                if (found >= 0 && !descends(env, *ret, pid))
                        found = -ENOENT;
        }
        return found >= 0 ? found : is_denied ? -EACCES : -ENOENT;
}

int infp_engine_listens(const struct infp_env *env, int32_t pid, unsigned port, const struct engine_finder *finder,
                        struct engine_listener *ret, struct infp_err *err, const char **fix)
{
        struct infp_listen listen = { .n = 0 };
        int found;

        INFP_TRY(check_network(env, pid, err, fix));
        infp_listen_port(env, 0, port, &listen);
        found = listen.n ? find_owner(env, pid, &listen, finder, &ret->pid) : -ENOENT;
        if (found >= 0) {
                memcpy(ret->host, listen.socket[found].host, sizeof(ret->host));
                ret->is_any = listen.socket[found].is_any;
        }
        infp_listen_done(&listen);
        if (found == -EACCES) {
                *fix = infp_rights_fix(INFP_MAY_TRACE);
                return infp_fail(err, -EACCES,
                                 "process %" PRId32 ": its open files cannot be read, so it is not known whether port "
                                 "%u is its (--engine URL asks anyway)",
                                 pid, port);
        }
        return found < 0 ? found : 0;
}

int infp_engine_listens_anywhere(const struct infp_env *env, const struct engine_finder *finder,
                                 struct engine_listener *ret, unsigned *ret_port)
{
        struct infp_listen listen = { .n = 0 };
        int found = -ENOENT;

        infp_listen_port(env, 0, 0, &listen);
        for (size_t i = 0; found < 0 && listen.n && i < finder->n_pids; i++) {
                found = infp_listen_open(env, finder->pids[i], &listen);
                ret->pid = finder->pids[i];
        }
        if (found >= 0) {
                memcpy(ret->host, listen.socket[found].host, sizeof(ret->host));
                *ret_port = listen.socket[found].port;
        }
        infp_listen_done(&listen);
        return found < 0 ? -ENOENT : 0;
}
