/* Does a server belong to the run? A load client asks before it sends its rows. */
#include <errno.h>
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

enum { GENERATIONS_MAX = 64, NETWORKS_MAX = 16 };
/* The recorder's thread looks: all questions of one second may take this long together. */
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

/* The pids of the last refresh, and processes started since: these descend from one of them or, in mode run, from us. */
struct owner {
        const struct infp_env *env;
        const struct server *server;
        struct infp_listen listen;
        const int32_t *pids;
        size_t n_pids;
        uint64_t end_ns;
        bool is_found, is_late;
};

static bool is_open(struct owner *owner, int32_t pid)
{
        owner->is_found = infp_listen_open(owner->env, pid, &owner->listen) >= 0;
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

static void add_sockets(struct owner *owner, int32_t pid)
{
        if (*owner->server->path)
                infp_listen_path(owner->env, pid, owner->server->path, &owner->listen);
        else
                infp_listen_port(owner->env, pid, owner->server->port, &owner->listen);
}

/* A container has ports and addresses of its own. False: no network of the target has the address. */
static bool add_sockets_elsewhere(struct owner *owner, bool is_here)
{
        const struct infp_env *env = owner->env;
        uint64_t seen[NETWORKS_MAX], network;
        unsigned n = 0, k;
        bool any = is_here;

        /* bound: a target in more networks is looked for in the first */
        for (size_t i = 0; i < owner->n_pids && n < NETWORKS_MAX && !owner->is_late; i++) {
                const int32_t pid = owner->pids[i];

                if (infp_listen_network(env, pid, &network) < 0 || !network)
                        continue;
                for (k = 0; k < n && seen[k] != network; k++)
                        ;
                if (k < n)
                        continue;
                seen[n++] = network;
                owner->is_late = env->now_ns(env) >= owner->end_ns;
                if (is_here || infp_listen_has_address(env, pid, owner->server->host)) {
                        add_sockets(owner, pid);
                        any = true;
                }
        }
        return any;
}

static void find_owner(struct owner *owner)
{
        for (size_t i = 0; i < owner->n_pids; i++)
                if (is_open(owner, owner->pids[i]))
                        return;
        infp_process_each(owner->env->root_fd, look, owner);
}

/* False: the host is another machine. */
static bool answer(struct owner *owner)
{
        const struct server *server = owner->server;
        const struct infp_env *env = owner->env;
        const size_t cap = infp_target_pids(env->target, NULL, 0) + 64;
        infp_autofree int32_t *pids = malloc(cap * sizeof(*pids));
        const bool is_here = *server->path || infp_listen_is_loopback(server->host) ||
                             infp_listen_is_own_name(server->host) || infp_listen_is_own_address(server->host);
        bool is_reachable = true;

        if (is_here)
                add_sockets(owner, 0);
        owner->is_found = owner->listen.n && infp_target_mode(env->target) == INFP_MODE_HOST;
        if (owner->is_found || !pids)
                return true;
        owner->pids = pids;
        owner->n_pids = infp_target_pids(env->target, pids, cap);
        owner->n_pids = owner->n_pids < cap ? owner->n_pids : cap;
        if (!owner->listen.n)
                is_reachable = add_sockets_elsewhere(owner, is_here);
        if (owner->listen.n && !owner->is_late)
                find_owner(owner);
        return is_reachable;
}

int infp_session_serves(void *context, const char *url, struct infp_err *err)
{
        struct infp_session *s = context;
        const struct infp_env *env = s->options->env;
        struct server server;
        struct owner owner = { .env = env, .server = &server };
        const uint64_t begin_ns = env->now_ns(env);
        bool is_reachable;

        if (!read_url(url, &server))
                return infp_fail(err, -EINVAL, "%.200s does not name a server", url);
        if (is_named(env, &server))
                return 0;
        if (begin_ns - s->asked_ns >= INFP_NS_PER_S) {
                s->asked_ns = begin_ns;
                s->ask_cost_ns = 0;
        }
        owner.is_late = s->ask_cost_ns >= LOOK_NS;
        owner.end_ns = begin_ns + LOOK_NS - s->ask_cost_ns;
        is_reachable = owner.is_late || answer(&owner);
        infp_listen_done(&owner.listen);
        s->ask_cost_ns += env->now_ns(env) - begin_ns;
        if (owner.is_found)
                return 0;
        if (owner.is_late)
                return infp_fail(err, -EAGAIN,
                                 "100 ms were not enough to find out whether a process of the target listens at %.200s",
                                 url);
        return infp_fail(err, -ENOENT,
                         is_reachable ? "no process of the target listens at %.200s" : "%.200s is on another machine",
                         url);
}
