/* Does a server belong to the run? A load client wants to know before their rows come here. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "collect/listen.h"
#include "collect/target.h"
#include "fetch/http.h"
#include "record/processes.h"
#include "record/session_parts.h"

enum { GENERATIONS_MAX = 64 };
#define LOOK_NS (100 * INFP_NS_PER_MS)

struct server {
        char host[256]; /* "" of a socket in the file system */
        unsigned port;
        char path[128]; /* of the socket */
};

static bool read_url(const char *url, struct server *ret)
{
        static const char scheme[] = "unix://";
        char whole[512];
        const char *end;

        *ret = (struct server){ .port = 0 };
        if (!strncmp(url, scheme, sizeof(scheme) - 1)) {
                url += sizeof(scheme) - 1;
                end = strrchr(url, ':');
                snprintf(ret->path, sizeof(ret->path), "%.*s", (int) (end ? (size_t) (end - url) : strlen(url)), url);
                return *ret->path;
        }
        snprintf(whole, sizeof(whole), "%s%s", strstr(url, "://") ? "" : "http://", url);
        return infp_http_url_host(whole, ret->host, &ret->port);
}

static bool is_same(const struct server *a, const char *url)
{
        struct server b;

        return read_url(url, &b) && a->port == b.port && !strcmp(a->path, b.path) &&
               (!strcasecmp(a->host, b.host) || (infp_listen_is_loopback(a->host) && infp_listen_is_loopback(b.host)));
}

static bool is_named(const struct infp_env *env, const struct server *server)
{
        const char *url = getenv("VLLM_METRICS_URL");

        if (env->is_live && url && is_same(server, url))
                return true;
        for (unsigned i = 0; (url = infp_env_setting_at(env, "engine", i)); i++)
                if (is_same(server, url))
                        return true;
        return false;
}

/* The pids of the last refresh, and what has been started since: it descends from one of them, or, in mode run, from us. The
 * recorder's thread looks: on a machine with very many processes it must go on. */
struct owner {
        const struct infp_env *env;
        const struct infp_listen *listen;
        const int32_t *pids;
        size_t n_pids;
        uint64_t end_ns;
        bool is_found, is_late;
};

static bool is_open(struct owner *owner, int32_t pid)
{
        owner->is_found = infp_listen_open(owner->env, pid, owner->listen) >= 0;
        owner->is_late = !owner->is_found && owner->env->now_ns(owner->env) >= owner->end_ns;
        return owner->is_found || owner->is_late;
}

static bool is_among(const struct owner *owner, int32_t pid)
{
        for (size_t i = 0; i < owner->n_pids; i++)
                if (owner->pids[i] == pid)
                        return true;
        return infp_target_mode(owner->env->target) == INFP_MODE_RUN && pid == getpid();
}

static bool is_of_target(const struct owner *owner, const struct infp_process *process)
{
        struct infp_process parent = { .pid = process->ppid };

        for (unsigned i = 0; parent.pid > 1 && i < GENERATIONS_MAX; i++) {
                if (is_among(owner, parent.pid))
                        return true;
                if (!infp_process_look(owner->env->root_fd, parent.pid, &parent))
                        break;
                parent.pid = parent.ppid;
        }
        return false;
}

static bool look(void *context, const struct infp_process *process)
{
        struct owner *owner = context;

        owner->is_late = owner->env->now_ns(owner->env) >= owner->end_ns;
        return !owner->is_late && (process->pid == getpid() || is_among(owner, process->pid) ||
                                   !is_of_target(owner, process) || !is_open(owner, process->pid));
}

static void find_owner(struct owner *owner)
{
        const struct infp_env *env = owner->env;
        const size_t cap = infp_target_pids(env->target, NULL, 0) + 64;
        infp_autofree int32_t *pids = malloc(cap * sizeof(*pids));

        if (!pids)
                return;
        owner->end_ns = env->now_ns(env) + LOOK_NS;
        owner->pids = pids;
        owner->n_pids = infp_target_pids(env->target, pids, cap);
        owner->n_pids = owner->n_pids < cap ? owner->n_pids : cap;
        for (size_t i = 0; i < owner->n_pids; i++)
                if (is_open(owner, pids[i]))
                        return;
        infp_process_each(env->root_fd, look, owner);
}

int infp_session_serves(void *context, const char *url, struct infp_err *err)
{
        const struct infp_session *s = context;
        const struct infp_env *env = s->options->env;
        struct infp_listen listen = { .n = 0 };
        struct owner owner = { .env = env, .listen = &listen };
        struct server server;

        if (!read_url(url, &server))
                return infp_fail(err, -EINVAL, "%.200s does not name a server", url);
        if (is_named(env, &server))
                return 0;
        if (*server.path)
                infp_listen_path(env, 0, server.path, &listen);
        else if (infp_listen_is_loopback(server.host) || infp_listen_is_own_name(server.host) ||
                 infp_listen_is_own_address(server.host))
                infp_listen_port(env, 0, server.port, &listen);
        else
                return infp_fail(err, -ENOENT, "%.200s is on another machine", url);
        owner.is_found = listen.n && infp_target_mode(env->target) == INFP_MODE_HOST;
        if (listen.n && !owner.is_found)
                find_owner(&owner);
        infp_listen_done(&listen);
        if (owner.is_found)
                return 0;
        if (owner.is_late)
                return infp_fail(err, -EAGAIN,
                                 "100 ms were not enough to find out whether a process of the target listens at %.200s",
                                 url);
        return infp_fail(err, -ENOENT, "no process of the target listens at %.200s", url);
}
