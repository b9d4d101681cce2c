#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/number.h"
#include "base/rights.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/listen.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/engine/parts.h"
#include "model/id.h"

/* What a process's command line says about an engine: which server it is, and where its metrics page is. */

enum { ARGUMENTS_MAX = 1024, PROGRAM_WORDS = 8 };

struct arguments {
        const char *at[ARGUMENTS_MAX]; /* each ends with NUL */
        unsigned n;
};

static void split(const char *text, size_t size, struct arguments *ret)
{
        ret->n = 0;
        /* bound: as many as the kept text has room for */
        for (size_t i = 0; i < size && ret->n < ARGUMENTS_MAX;) {
                size_t length = strnlen(text + i, size - i);

                if (i + length == size)
                        break; /* cut: its last argument has no end */
                ret->at[ret->n++] = text + i;
                i += length + 1;
        }
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* "vllm.entrypoints" is the module and everything in it: "vllm.entrypoints.openai.api_server". */
static bool is_word(const char *argument, const char *word, size_t size)
{
        return !strncmp(argument, word, size) && (!argument[size] || argument[size] == '.');
}

/* A command of several words, "vllm serve", is that many arguments. The first may be a path. */
static bool stands_at(const struct arguments *arguments, unsigned i, const char *command)
{
        for (bool is_first = true; *command; is_first = false, i++) {
                size_t size = strcspn(command, " ");
                const char *argument;

                if (i >= arguments->n)
                        return false;
                argument = is_first ? base_name(arguments->at[i]) : arguments->at[i];
                if (!is_word(argument, command, size))
                        return false;
                command += size;
                command += strspn(command, " ");
        }
        return true;
}

/* The program, after what an interpreter has before it: "python3 -u -m vllm.entrypoints...". Later arguments are file names
 * or texts. */
static enum infp_engine_make make_of_command(const struct arguments *arguments, unsigned *ret_at)
{
        /* bound: the program comes before its arguments */
        for (unsigned i = 0; i < arguments->n && i < PROGRAM_WORDS; i++)
                for (unsigned make = INFP_ENGINE_UNKNOWN + 1; make < INFP_ENGINE_N; make++)
                        for (const char *const *c = infp_engine_makes[make].commands; *c; c++)
                                if (stands_at(arguments, i, *c)) {
                                        *ret_at = i;
                                        return (enum infp_engine_make) make;
                                }
        return INFP_ENGINE_UNKNOWN;
}

/* The value of "--flag value" or "--flag=value" when argument i is that flag; NULL else. */
static const char *value_of(const struct arguments *arguments, unsigned i, const char *flag)
{
        const char *argument = arguments->at[i];
        size_t size = strlen(flag);

        if (strncmp(argument, flag, size))
                return NULL;
        if (argument[size] == '=')
                return argument + size + 1;
        return !argument[size] && i + 1 < arguments->n ? arguments->at[i + 1] : NULL;
}

static unsigned port_of(const struct arguments *arguments, unsigned from, const struct infp_engine_make_info *info)
{
        unsigned port = info->port;

        for (unsigned i = from; i < arguments->n; i++)
                for (const char *const *flag = info->port_flags; *flag; flag++) {
                        const char *text = value_of(arguments, i, *flag);
                        uint64_t number;

                        /* The last one counts, as in argparse. */
                        if (text && !infp_parse_u64(text, strlen(text), &number) && number && number <= 65535)
                                port = (unsigned) number;
                }
        return port;
}

/* The value of a flag, the last one; NULL: not given. */
static const char *last_value(const struct arguments *arguments, unsigned from, const char *flag)
{
        const char *found = NULL, *value;

        for (unsigned i = from; flag && i < arguments->n; i++) {
                value = value_of(arguments, i, flag);
                found = value ? value : found;
        }
        return found;
}

/* "/llm", "llm/" and so on, as in a URL. One that does not fit a URL is dropped. */
static void set_prefix(const char *text, char ret[ENGINE_PREFIX_MAX])
{
        size_t size;

        while (text && *text == '/')
                text++;
        size = text ? strlen(text) : 0;
        while (size && text[size - 1] == '/')
                size--;
        if (size && size + 2 <= ENGINE_PREFIX_MAX && strcspn(text, "?#") >= size)
                snprintf(ret, ENGINE_PREFIX_MAX, "/%.*s", (int) size, text);
}

static bool has_flag(const struct arguments *arguments, unsigned from, const char *flag)
{
        size_t size = strlen(flag);

        for (unsigned i = from; i < arguments->n; i++)
                if (!strncmp(arguments->at[i], flag, size) &&
                    (!arguments->at[i][size] || arguments->at[i][size] == '='))
                        return true;
        return false;
}

void infp_engine_command_read(const char *arguments, size_t size, struct engine_command *ret)
{
        static const char *const tls_flags[] = { "--ssl-keyfile", "--ssl-key-file" };
        const struct infp_engine_make_info *info;
        struct arguments list;
        const char *sleep;
        double sleep_s;
        unsigned at = 0;

        *ret = (struct engine_command){ .make = INFP_ENGINE_UNKNOWN };
        split(arguments, size, &list);
        ret->make = make_of_command(&list, &at);
        if (ret->make == INFP_ENGINE_UNKNOWN)
                return;
        info = &infp_engine_makes[ret->make];
        ret->port = port_of(&list, at, info);
        if (!ret->port)
                ret->make = INFP_ENGINE_UNKNOWN;
        if (info->metrics_flag && !has_flag(&list, at, info->metrics_flag))
                ret->missing_flag = info->metrics_flag;
        set_prefix(last_value(&list, at, info->prefix_flag), ret->prefix);
        sleep = last_value(&list, at, info->sleep_flag);
        ret->may_sleep = sleep && infp_parse_f64(sleep, strlen(sleep), &sleep_s) == 0 && sleep_s >= 0;
        for (unsigned i = 0; i < sizeof(tls_flags) / sizeof(tls_flags[0]); i++)
                ret->is_https |= has_flag(&list, at, tls_flags[i]);
}

/* Who listens on a TCP port: a request goes only to a socket that the engine itself, or one of its descendants, has opened.
 * An HTTP request to another port of a job (NCCL, ZMQ, TCPStore) can hang it. */

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

/* 0: it has ended. */
static uint64_t process_id(const struct infp_env *env, int32_t pid)
{
        struct infp_process process;

        return infp_process_stat_read(env->root_fd, pid, &process) < 0
                       ? 0
                       : infp_process_id(env->boot_id, pid, process.start_ticks);
}

uint64_t infp_engine_cpu_ticks(const struct infp_env *env, int32_t pid)
{
        struct infp_process process;

        return infp_process_stat_read(env->root_fd, pid, &process) < 0 ? 0 : process.utime + process.stime;
}

static bool descends(const struct infp_env *env, int32_t pid, int32_t from)
{
        struct infp_process process;

        for (unsigned i = 0; pid > 1 && i < GENERATIONS_MAX; i++) {
                if (pid == from)
                        return true;
                if (infp_process_stat_read(env->root_fd, pid, &process) < 0)
                        return false;
                pid = process.ppid;
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

/* Does the process, or one that descends from it, listen on the TCP port, in our network? 0 with its pid and the host to ask
 * ("127.0.0.1", "[::1]" ...); -ENOENT: not (yet); else a negative errno with a sentence, and what helps in *fix. */
static int listens(const struct infp_env *env, int32_t pid, unsigned port, const struct engine_finder *finder,
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

/* Which pages are read: those that the user names, the mission's default (or that of the port of --port), and those that the
 * command line of a known engine in the target names or implies. Never any other socket. */

enum { PIDS_MAX = 16384, LOOKS_DOUBLE = 6 };
static const char default_url[] = "http://localhost:8000/metrics";
static const uint64_t look_again_ns = 60 * INFP_NS_PER_S;
static const uint64_t check_again_ns = 30 * INFP_NS_PER_S; /* when permission is denied: that rarely changes */

int infp_engine_url(const char *text, char ret[ENGINE_URL_MAX], struct infp_err *err)
{
        const char *scheme = strstr(text, "://") ? "" : "http://";
        const char *host = *scheme ? text : strstr(text, "://") + 3;
        size_t path = strcspn(host, "/?#");
        const char *rest = host + path;
        const char *page = strrchr(host, ':'); /* of a socket: what follows its path */
        bool is_socket = !strncmp(text, "unix://", 7);
        bool has_page = is_socket ? page && page[1] == '/' : *rest && strcmp(rest, "/") != 0;
        size_t kept = has_page || is_socket ? strlen(text) : (size_t) (rest - text);
        int n = snprintf(ret, ENGINE_URL_MAX, "%s%.*s%s", scheme, (int) kept, text,
                         has_page    ? ""
                         : is_socket ? ":/metrics"
                                     : "/metrics");

        if (!*text)
                return infp_fail(err, -EINVAL, "the URL of the engine is empty");
        if (n < 0 || n >= ENGINE_URL_MAX)
                return infp_fail(err, -EINVAL, "the URL of an engine has at most %d bytes", ENGINE_URL_MAX - 1);
        return infp_http_check_url(ret, err);
}

static int add(struct engines *all, const char *text, enum engine_origin origin, struct infp_err *err)
{
        char url[ENGINE_URL_MAX];
        struct engine *engine;

        INFP_TRY(infp_engine_url(text, url, err));
        for (unsigned i = 0; i < all->n_engines; i++)
                if (!strcmp(all->engine[i]->url, url))
                        return 0;
        return infp_engine_new(all, url, origin, &engine, err);
}

static bool is_off(const char *text)
{
        return !strcmp(text, "off") || !strcmp(text, "0");
}

int infp_engine_check(const char *text, struct infp_err *err)
{
        char url[ENGINE_URL_MAX];

        return is_off(text) ? 0 : infp_engine_url(text, url, err);
}

static int add_from_environment(struct engines *all, const char *text, struct infp_err *err)
{
        struct infp_err why = { "" };
        int r = add(all, text, ENGINE_NAMED, &why);

        return r < 0 ? infp_fail(err, r, "VLLM_METRICS_URL: %s", why.text) : 0;
}

int infp_engine_find_named(struct engines *all, const struct infp_env *env, struct infp_err *err)
{
        const char *from_environment = env->is_live ? getenv("VLLM_METRICS_URL") : NULL, *url, *port;
        char of_port[64];
        unsigned first = 0;

        /* "off" cancels those before it. */
        for (unsigned i = 0; (url = infp_env_setting_at(env, "engine", i)); i++)
                first = is_off(url) ? i + 1 : first;
        for (unsigned i = first; (url = infp_env_setting_at(env, "engine", i)); i++)
                INFP_TRY(add(all, url, ENGINE_NAMED, err));
        if (all->n_engines)
                return 0;
        if (from_environment && *from_environment)
                return add_from_environment(all, from_environment, err);
        if (!env->is_live)
                return infp_fail(err, -ENODEV, "--root has no live servers; --engine URL reads one that runs here");
        port = infp_env_setting(env, "engine-port");
        snprintf(of_port, sizeof(of_port), "http://localhost:%.5s/metrics", port ? port : "");
        return add(all, port ? of_port : default_url, ENGINE_DEFAULT, err);
}

void infp_engine_finder_done(struct engine_finder *finder)
{
        free(finder->processes);
        free(finder->merged);
        free(finder->pids);
        free(finder->buffer);
        *finder = (struct engine_finder){ 0 };
}

static bool list_pids(struct engine_finder *finder, const struct infp_env *env)
{
        size_t n = infp_target_pids(env->target, finder->pids, finder->cap_pids);

        n = n < PIDS_MAX ? n : PIDS_MAX;
        if (n > finder->cap_pids) {
                int32_t *grown = realloc(finder->pids, (n + n / 2) * sizeof(*grown));

                if (!grown)
                        return false;
                finder->pids = grown;
                finder->cap_pids = n + n / 2;
                n = infp_target_pids(env->target, finder->pids, finder->cap_pids);
                n = n < finder->cap_pids ? n : finder->cap_pids;
        }
        finder->n_pids = n;
        infp_sort(finder->pids, n, sizeof(finder->pids[0]), infp_compare_i32);
        return true;
}

static struct engine_process *process_of(const struct engine_finder *finder, int32_t pid)
{
        return infp_find_i32(finder->processes, finder->n_processes, sizeof(*finder->processes), pid);
}

/* Copies what is known to the new list of pids. */
static bool merge(struct engine_finder *finder)
{
        struct engine_process *swap;
        size_t cap = finder->cap_processes;

        if (finder->n_pids > finder->cap_merged) {
                swap = realloc(finder->merged, finder->cap_pids * sizeof(*swap));
                if (!swap)
                        return false;
                finder->merged = swap;
                finder->cap_merged = finder->cap_pids;
        }
        for (size_t i = 0; i < finder->n_pids; i++) {
                const struct engine_process *known = process_of(finder, finder->pids[i]);

                finder->merged[i] = known ? *known : (struct engine_process){ .pid = finder->pids[i] };
        }
        swap = finder->processes;
        finder->processes = finder->merged;
        finder->n_processes = finder->n_pids;
        finder->cap_processes = finder->cap_merged;
        finder->merged = swap;
        finder->cap_merged = cap;
        return true;
}

static ssize_t read_command(const struct infp_env *env, struct engine_finder *finder, int32_t pid)
{
        char path[64];

        snprintf(path, sizeof(path), "proc/%" PRId32 "/cmdline", pid);
        return infp_read_at(env->root_fd, path, finder->buffer, ENGINE_BUFFER);
}

/* A process is looked at when it is new, and then less and less often: it may exec. */
static void look_at(struct engines *all, struct engine_process *process, uint64_t now)
{
        struct engine_command command;
        ssize_t size;

        if (process->look_ns > now)
                return;
        size = read_command(all->env, &all->finder, process->pid);
        process->look_ns = now + (process->n_looks < LOOKS_DOUBLE ? (UINT64_C(1) << process->n_looks) * INFP_NS_PER_S
                                                                  : look_again_ns);
        process->n_looks += process->n_looks < LOOKS_DOUBLE;
        /* A server that writes a title over its arguments ("VLLM::EngineCore") stays what it was. */
        if (size <= 0 || process->engine)
                return;
        infp_engine_command_read(all->finder.buffer, (size_t) size, &command);
        if (command.make != process->command.make)
                process->check_ns = 0;
        process->command = command;
}

/* Does the URL lead to where the process listens? An engine must not be read, and counted, twice. */
static bool leads_to(const char *url, const struct engine_listener *listener, unsigned port)
{
        char host[256], bare[64];
        unsigned url_port;

        if (!infp_http_url_host(url, host, &url_port) || url_port != port)
                return false;
        if (infp_listen_is_loopback(host))
                return true;
        snprintf(bare, sizeof(bare), "%s", listener->host + (listener->host[0] == '['));
        bare[strcspn(bare, "]")] = 0;
        return !strcmp(host, bare) || infp_listen_is_own_name(host) ||
               (listener->is_any && infp_listen_is_own_address(host));
}

static struct engine *engine_at(struct engines *all, const char *url, const struct engine_listener *listener,
                                unsigned port)
{
        for (unsigned i = 0; i < all->n_engines; i++)
                if (!strcmp(all->engine[i]->url, url) || leads_to(all->engine[i]->url, listener, port))
                        return all->engine[i];
        return NULL;
}

static void attach(struct engine *engine, int32_t pid, uint64_t now)
{
        struct engines *all = engine->all;
        uint64_t id = process_id(all->env, pid);
        ssize_t size = read_command(all->env, &all->finder, pid);

        if (!engine->is_there && engine->due_ns > now)
                engine->due_ns = now;
        engine->is_new_process = engine->process_id && engine->process_id != id;
        engine->is_there = engine->is_listed = true;
        engine->pid = pid;
        engine->process_id = id;
        engine->about.keeps_secrets = all->keeps_secrets;
        if (size > 0)
                infp_engine_about_command(&engine->about, all->finder.buffer, (size_t) size);
}

static void say(const struct engines *all, const struct engine_process *process, enum infp_source_state state,
                const char *reason, const char *fix)
{
        char instance[64];

        snprintf(instance, sizeof(instance), "%s, port %u", infp_engine_makes[process->command.make].name,
                 process->command.port);
        infp_emit_source(all->emit, NULL, -1, instance, state, reason, fix);
}

static void serve(struct engines *all, struct engine_process *process, const struct engine_listener *listener,
                  uint64_t now)
{
        const struct engine_command *command = &process->command;
        char url[ENGINE_URL_MAX];
        struct infp_err err = { "" };

        snprintf(url, sizeof(url), "%s://%s:%u%s%s", command->is_https ? "https" : "http",
                 command->is_https && !strcmp(listener->host, "127.0.0.1") ? "localhost" : listener->host,
                 command->port, command->prefix, infp_engine_makes[command->make].path);
        process->engine = engine_at(all, url, listener, command->port);
        infp_debug("engine: process %" PRId32 " is %s by its command line: asking %s", process->pid,
                   infp_engine_makes[command->make].name, url);
        if (!process->engine && infp_engine_new(all, url, ENGINE_FOUND, &process->engine, &err) < 0) {
                process->engine = NULL;
                process->check_ns = now + check_again_ns;
                say(all, process, INFP_BROKEN, err.text, NULL);
                return;
        }
        attach(process->engine, listener->pid, now);
        process->engine->about.commanded_make = command->make;
        process->engine->sleep_page = command->may_sleep ? infp_engine_makes[command->make].sleep_page : NULL;
        say(all, process, INFP_OK, NULL, NULL);
}

static bool is_served_by_another(const struct engines *all, const struct engine_process *process)
{
        for (size_t i = 0; i < all->finder.n_processes; i++) {
                const struct engine_process *other = &all->finder.processes[i];

                if (other != process && other->engine && other->engine->is_there &&
                    other->command.port == process->command.port)
                        return true;
        }
        return false;
}

/* An engine by its command line: is it there yet? */
static void check(struct engines *all, struct engine_process *process, uint64_t now)
{
        const struct engine_command *command = &process->command;
        struct engine_listener listener;
        struct infp_err err = { "" };
        char text[160];
        const char *fix = NULL;
        int r;

        if (command->make == INFP_ENGINE_UNKNOWN || process->check_ns > now)
                return;
        if ((process->engine && process->engine->is_there) || is_served_by_another(all, process))
                return;
        if (command->missing_flag) {
                snprintf(text, sizeof(text),
                         "the command line of process %" PRId32 " has no %s, without which there is no metrics page",
                         process->pid, command->missing_flag);
                say(all, process, INFP_ABSENT, text, "start the server with that flag, or name a page by --engine URL");
                process->check_ns = now + check_again_ns;
                return;
        }
        r = listens(all->env, process->pid, command->port, &all->finder, &listener, &err, &fix);
        if (r == 0) {
                serve(all, process, &listener, now);
        } else if (r == -ENOENT) {
                /* Without the pid: several processes with one command line (workers) would contradict each other at each
                 * look. */
                say(all, process, INFP_ABSENT, "its process does not listen on that port yet", NULL);
        } else {
                say(all, process, infp_source_state_of(r) == INFP_DENIED ? INFP_DENIED : INFP_ABSENT, err.text, fix);
                process->check_ns = now + check_again_ns;
        }
}

/* Engines whose process has ended are not asked: another process may have the port by now. */
static void see_ends(struct engines *all)
{
        for (unsigned i = 0; i < all->n_engines; i++) {
                struct engine *engine = all->engine[i];

                if (!engine->is_there || process_of(&all->finder, engine->pid))
                        continue;
                engine->is_there = false;
                snprintf(engine->why_not, sizeof(engine->why_not), "its process %" PRId32 " has ended", engine->pid);
        }
}

void infp_engine_find(struct engines *all, uint64_t now)
{
        const struct infp_env *env = all->env;
        struct engine_finder *finder = &all->finder;

        if (!env->is_live || !env->target || infp_target_mode(env->target) == INFP_MODE_HOST)
                return;
        if (!finder->buffer && !(finder->buffer = malloc(ENGINE_BUFFER)))
                return;
        if (!list_pids(finder, env) || !merge(finder))
                return;
        see_ends(all);
        for (size_t i = 0; i < finder->n_processes; i++) {
                look_at(all, &finder->processes[i], now);
                check(all, &finder->processes[i], now);
        }
}
