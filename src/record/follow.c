#include "record/follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/regex.h"
#include "base/rights.h"
#include "base/time.h"
#include "collect/listen.h"
#include "record/processes.h"

/* Looking for networks costs some 20 us a process. */
static const uint64_t networks_pause_ns = 5 * INFP_NS_PER_S;

/* What matching needs of one process. */
struct seen {
        pid_t pid, ppid;
        uint64_t start_ticks;
        bool is_match;
};

struct seen_list {
        struct seen *all;
        size_t n, cap;
};

/* One look: all processes, those that match marked. */
struct look {
        struct infp_follow *follow;
        const struct infp_env *env;
        struct seen_list list;
        struct infp_listen sockets; /* that listen on the port */
        bool is_ours;               /* a match has started us */
};

static bool matches_name(struct look *look, const struct infp_process *process)
{
        char path[32], text[4096];
        ssize_t n;

        snprintf(text, sizeof text, "%.*s", process->comm_size, process->comm);
        if (regexec(&look->follow->regex, text, 0, NULL, 0) == 0)
                return true;
        if (strcmp(text, "infprof") == 0) /* the command lines of infprofs contain the names of their targets */
                return false;
        snprintf(path, sizeof path, "proc/%d/cmdline", process->pid);
        n = infp_read_at(look->env->root_fd, path, text, sizeof text);
        for (ssize_t i = 0; i + 1 < n; i++)
                if (!text[i])
                        text[i] = ' ';
        return n > 0 && regexec(&look->follow->regex, text, 0, NULL, 0) == 0;
}

static bool see(void *context, const struct infp_process *process)
{
        struct look *look = context;

        if (!INFP_MAKE_ROOM(look->list.all, look->list.n, look->list.cap, 256))
                return false;
        look->list.all[look->list.n++] = (struct seen){
                .pid = process->pid,
                .ppid = process->ppid,
                .start_ticks = process->start_ticks,
                .is_match = look->follow->options.port ? infp_listen_open(look->env, process->pid, &look->sockets) >= 0
                                                       : matches_name(look, process),
        };
        return true;
}

static struct seen *find_seen(struct look *look, pid_t pid)
{
        for (size_t i = 0; i < look->list.n; i++)
                if (look->list.all[i].pid == pid)
                        return &look->list.all[i];
        return NULL;
}

/* We and what started us (sudo, a shell with the pattern in its command line) never match: their trees contain us. */
static void leave_out_ourselves(struct look *look)
{
        struct seen *seen = find_seen(look, getpid());

        for (unsigned depth = 0; seen && depth < 1000; depth++) {
                look->is_ours |= seen->is_match;
                seen->is_match = false;
                seen = find_seen(look, seen->ppid);
        }
}

/* Matches whose parent is not a match. */
static void take_roots(struct look *look)
{
        struct infp_follow *follow = look->follow;
        unsigned n = 0;

        follow->n_roots = 0;
        for (size_t i = 0; i < look->list.n; i++) {
                const struct seen *seen = &look->list.all[i], *parent;

                if (!seen->is_match)
                        continue;
                parent = find_seen(look, seen->ppid);
                if (parent && parent->is_match && parent != seen)
                        continue;
                if (n++ < INFP_FOLLOW_PIDS)
                        follow->roots[follow->n_roots++] = (struct infp_followed){ seen->pid, seen->start_ticks };
        }
        if (n > INFP_FOLLOW_PIDS)
                snprintf(follow->problem, sizeof follow->problem,
                         "%u processes match: only the first %d and their descendants are recorded (use a narrower "
                         "pattern)",
                         n, INFP_FOLLOW_PIDS);
}

/* Why no process was found. */
static void give_reason(struct infp_follow *follow, bool is_denied)
{
        const char *when = follow->was_found ? "any more" : "yet";

        follow->is_denied = is_denied;
        follow->reason[0] = 0;
        if (follow->n_roots)
                follow->was_found = true;
        else if (is_denied)
                memcpy(follow->reason, follow->problem, sizeof follow->reason);
        else if (follow->options.port)
                snprintf(follow->reason, sizeof follow->reason, "nothing listens on port %u %s", follow->options.port,
                         when);
        else
                snprintf(follow->reason, sizeof follow->reason, "no process is named '%.200s' %s", follow->options.name,
                         when);
}

static bool note_network(void *context, const struct infp_process *process)
{
        struct look *look = context;
        struct infp_follow *follow = look->follow;
        uint64_t network;

        if (infp_listen_network(look->env, process->pid, &network) < 0 || !network)
                return true;
        for (unsigned i = 0; i < follow->n_networks; i++)
                if (follow->networks[i].id == network)
                        return true;
        follow->networks[follow->n_networks++] = (struct infp_follow_network){ network, process->pid };
        return follow->n_networks < INFP_FOLLOW_NETWORKS; /* bound: the port is not looked for in further networks */
}

/* A container, or what `unshare -n` started, has ports of its own: those that no process has in our network. */
static void look_elsewhere(struct look *look)
{
        struct infp_follow *follow = look->follow;
        const uint64_t now = look->env->now_ns(look->env);

        if (now >= follow->networks_ns) {
                follow->networks_ns = now + networks_pause_ns;
                follow->n_networks = 0;
                infp_process_each(look->env->root_fd, note_network, look);
        }
        for (unsigned i = 0; i < follow->n_networks; i++)
                infp_listen_port(look->env, follow->networks[i].pid, follow->options.port, &look->sockets);
}

static void search(struct infp_follow *follow, const struct infp_env *env)
{
        struct look look = { .follow = follow, .env = env };

        follow->problem[0] = 0;
        if (follow->options.port) {
                infp_listen_port(env, 0, follow->options.port, &look.sockets);
                if (!look.sockets.n)
                        look_elsewhere(&look);
        }
        if (!follow->options.port || look.sockets.n) {
                infp_process_each(env->root_fd, see, &look);
                if (env->is_live)
                        leave_out_ourselves(&look);
        }
        take_roots(&look);
        if (follow->n_roots == 0 && look.sockets.n && look.is_ours)
                snprintf(follow->problem, sizeof follow->problem,
                         "port %u belongs to a process that started this infprof, which it cannot record: run infprof "
                         "from another shell",
                         follow->options.port);
        else if (follow->n_roots == 0 && look.sockets.n)
                snprintf(follow->problem, sizeof follow->problem,
                         "something listens on port %u, but its process cannot be identified: %s", follow->options.port,
                         infp_rights_fix(INFP_MAY_TRACE));
        give_reason(follow, follow->n_roots == 0 && look.sockets.n);
        free(look.list.all);
        infp_listen_done(&look.sockets);
}

static bool is_alive(const struct infp_env *env, const struct infp_followed *root)
{
        struct infp_process process;

        return infp_process_look(env->root_fd, root->pid, &process) && process.start_ticks == root->start_ticks;
}

bool infp_follow_can_return(const struct infp_follow *follow)
{
        return follow->has_regex || follow->options.port;
}

bool infp_follow_look(struct infp_follow *follow, const struct infp_env *env)
{
        unsigned before = follow->n_roots, n = 0;

        for (unsigned i = 0; i < before; i++)
                if (is_alive(env, &follow->roots[i]))
                        follow->roots[n++] = follow->roots[i];
        follow->n_roots = n;
        if ((n < before || before == 0) && infp_follow_can_return(follow))
                search(follow, env);
        return n < before || follow->n_roots != before;
}

/* Threads have unlisted directories in /proc. Returns the process of a thread, else 0. */
static pid_t process_of_thread(const struct infp_env *env, pid_t pid)
{
        char path[32];
        uint64_t process;

        snprintf(path, sizeof path, "proc/%d/status", (int) pid);
        if (!infp_proc_number(env->root_fd, path, "Tgid:", 0, &process) || process > INT32_MAX)
                return 0;
        return (pid_t) process == pid ? 0 : (pid_t) process;
}

static int add_pid(struct infp_follow *follow, pid_t pid, const struct infp_env *env, struct infp_err *err)
{
        struct infp_process process;
        pid_t whole;

        if (!infp_process_look(env->root_fd, pid, &process))
                return infp_fail(err, -ESRCH, "there is no process %d", (int) pid);
        whole = process_of_thread(env, pid);
        if (whole)
                return infp_fail(err, -ESRCH,
                                 "there is no process %d: it is a thread of process %d, which can be recorded",
                                 (int) pid, (int) whole);
        if (follow->n_roots == INFP_FOLLOW_PIDS)
                return infp_fail(err, -E2BIG, "more than %d processes", INFP_FOLLOW_PIDS);
        follow->roots[follow->n_roots++] = (struct infp_followed){ pid, process.start_ticks };
        return 0;
}

int infp_follow_init(struct infp_follow *follow, const struct infp_follow_options *options, const struct infp_env *env,
                     struct infp_err *err)
{
        *follow = (struct infp_follow){ .options = *options };
        if (options->name) {
                INFP_TRY(infp_regex_compile(&follow->regex, options->name, err));
                follow->has_regex = true;
        }
        for (size_t i = 0; i < options->n_pids; i++)
                INFP_TRY(add_pid(follow, options->pids[i], env, err));
        follow->was_found = follow->n_roots > 0;
        if (infp_follow_can_return(follow))
                search(follow, env);
        return 0;
}

void infp_follow_done(struct infp_follow *follow)
{
        if (follow->has_regex)
                regfree(&follow->regex);
        follow->has_regex = false;
}

size_t infp_follow_pids(const struct infp_follow *follow, pid_t *ret, size_t cap)
{
        size_t n = follow->n_roots < cap ? follow->n_roots : cap;

        for (size_t i = 0; i < n; i++)
                ret[i] = follow->roots[i].pid;
        return n;
}
