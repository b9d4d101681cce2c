/* Containers and control groups: what they use and what they may use. For a target: the cgroup of its processes; without one
 * the container that infprof itself runs in; with --containers all containers.
 *
 * A thread of its own: reading memory.stat makes the kernel add up what all CPUs have counted, which can take long. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/target.h"
#include "collectors/container/state.h"

#define OFTEN_NS (INFP_NS_PER_S - INFP_NS_PER_S / 10)
#define SELDOM_NS (10 * INFP_NS_PER_S - INFP_NS_PER_S / 10)
#define LOOK_NS (5 * INFP_NS_PER_S - INFP_NS_PER_S / 10)
/* Settings of a few are read more often than those of many, and among many those of the target. */
#define LIMITS_NS (5 * INFP_NS_PER_S - INFP_NS_PER_S / 10)
#define RARELY_NS (30 * INFP_NS_PER_S - INFP_NS_PER_S / 10)

/* MANY: the kernel sorts the list of a cgroup's processes for each reader, 0.5 ms for 600. */
enum { FEW = 8, MANY = 100, WAIT_STEPS = 20, WAIT_STEP_NS = 2000000 };

enum infp_mode container_mode(const struct infp_env *env)
{
        return env->target ? infp_target_mode(env->target) : INFP_MODE_HOST;
}

static int containers_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct containers *s = state;

        if (infp_cgroups_find(env, &s->cgroups) < 0)
                return infp_fail(err, -ENODEV, "no control groups are mounted (see /proc/self/mountinfo)");
        s->all = infp_env_flag(env, "containers");
        infp_cgroup_paths_read(env, 0, &s->own);
        return 0;
}

static void forget(struct containers *s, const struct container *c)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < s->n_seen; i++)
                if (s->seen[i].container != c)
                        s->seen[kept++] = s->seen[i];
        s->n_seen = kept;
}

static void drop(struct containers *s, size_t index)
{
        forget(s, s->list[index]);
        if (s->list[index]->is_gone) /* another one with its name may exist by now */
                s->finder.next_full_ns = 0;
        container_free(s->list[index]);
        s->n--;
        memmove(&s->list[index], &s->list[index + 1], (s->n - index) * sizeof(*s->list));
}

/* Takes it over; returns the one of its id that was there. NULL: no memory, or more than are followed. */
static struct container *add(struct containers *s, struct container *c)
{
        for (size_t i = 0; i < s->n; i++)
                if (s->list[i]->id == c->id) {
                        container_free(c);
                        return s->list[i];
                }
        /* bound: container_explain reports it */
        if (s->n == CONTAINER_MOST || !INFP_MAKE_ROOM(s->list, s->n, s->cap, 16)) {
                container_free(c);
                return NULL;
        }
        s->list[s->n++] = c;
        return c;
}

static struct container_seen *see(struct containers *s, const struct infp_env *env,
                                  const struct infp_cgroup_paths *paths, bool is_own)
{
        uint64_t hash = infp_hash64(paths->text, paths->size, 0);
        struct container_seen *seen;
        struct container *c;

        for (unsigned i = 0; i < s->n_seen; i++)
                if (s->seen[i].hash == hash)
                        return &s->seen[i];
        if (s->n_seen == CONTAINER_SEEN)
                s->n_seen = 0; /* processes that move: found again */
        seen = &s->seen[s->n_seen++];
        *seen = (struct container_seen){ .hash = hash };
        c = container_of_paths(s, env, paths, !is_own, &seen->r);
        seen->container = c ? add(s, c) : NULL;
        return seen;
}

static void look_at(struct containers *s, const struct infp_env *env, int32_t pid)
{
        const struct container_seen *seen;
        int r = pid ? infp_cgroup_paths_read(env, pid, &s->paths) : 0;

        if (r < 0) {
                if (r != -ENOENT && r != -ESRCH)
                        s->target_r = r;
                return;
        }
        seen = see(s, env, pid ? &s->paths : &s->own, !pid);
        if (seen->container)
                seen->container->is_seen = true;
        else
                s->target_r = seen->r;
}

/* An attached target is known once the table was read for the first time, which another thread is doing now. */
static void wait_for_target(struct containers *s, const struct infp_env *env)
{
        const struct timespec step = { .tv_nsec = WAIT_STEP_NS };

        for (int i = 0; i < WAIT_STEPS && !s->n_pids; i++) {
                nanosleep(&step, NULL);
                s->n_pids = infp_target_pids(env->target, s->pids, CONTAINER_PIDS);
        }
}

/* A command that has not started waits at its gate, our youngest child: only its cgroup is its own so far, and the first row
 * is about that. */
static void find_waiting_command(struct containers *s, const struct infp_env *env)
{
        struct infp_span text, word;
        uint64_t pid = 0;
        char path[64];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/task/%d/children", (int) getpid(), (int) getpid());
        n = infp_read_at(env->root_fd, path, s->small, sizeof(s->small));
        text = (struct infp_span){ s->small, n > 0 ? (size_t) n : 0 };
        while ((word = infp_span_word(&text)).size && !infp_span_u64(word, &pid))
                s->pids[0] = (int32_t) pid;
        s->n_pids = pid != 0;
}

static void list_target(struct containers *s, const struct infp_env *env)
{
        enum infp_mode mode = container_mode(env);

        s->n_pids = env->target ? infp_target_pids(env->target, s->pids, CONTAINER_PIDS) : 0;
        if (s->n_pids > CONTAINER_PIDS)
                s->n_pids = CONTAINER_PIDS;
        s->has_run = s->has_run || s->n_pids;
        if (s->n_pids || !env->is_live)
                return;
        if (mode == INFP_MODE_PID && !s->has_sampled)
                wait_for_target(s, env);
        else if (mode == INFP_MODE_RUN && !s->has_run) /* its gate may be shut for long: --energy-baseline */
                find_waiting_command(s, env);
}

/* Processes rarely move, and then at their start: their cgroups are read soon after new processes appear, then less and less
 * often, down to each 5 s. */
static bool is_due_to_look(struct containers *s, const struct infp_env *env)
{
        uint64_t hash = infp_hash64(s->pids, s->n_pids * sizeof(s->pids[0]), s->n_pids);

        if (env->is_live && hash == s->pids_hash && s->now_ns < s->next_look_ns)
                return false;
        s->look_step_ns = hash != s->pids_hash ? OFTEN_NS : 2 * s->look_step_ns;
        if (s->look_step_ns > LOOK_NS)
                s->look_step_ns = LOOK_NS;
        s->pids_hash = hash;
        s->next_look_ns = s->now_ns + s->look_step_ns;
        return true;
}

static void find_target(struct containers *s, const struct infp_env *env)
{
        bool is_host = container_mode(env) == INFP_MODE_HOST;

        if (s->now_ns < s->next_target_ns && s->n_pids && env->is_live)
                return;
        s->next_target_ns = s->now_ns + OFTEN_NS;
        list_target(s, env);
        /* A target that has ended is in no cgroup any more; its use until then must still be read. */
        if (!is_host && !s->n_pids)
                return;
        if (!is_due_to_look(s, env))
                return;
        s->target_r = 0;
        for (size_t i = 0; i < s->n; i++)
                s->list[i]->is_seen = false;
        if (is_host)
                look_at(s, env, 0);
        /* bound: sources report when there are more (container_explain) */
        for (size_t i = 0; !is_host && i < s->n_pids && i < CONTAINER_TARGETS; i++)
                look_at(s, env, s->pids[i]);
        for (size_t i = s->n; i-- > 0;) {
                s->list[i]->is_target = s->list[i]->is_seen && !is_host;
                if (!s->list[i]->is_seen && !s->list[i]->is_found)
                        drop(s, i);
        }
}

static void found(struct containers *s, const struct infp_env *env, const char *dir)
{
        int r;
        struct container *c = container_of_dir(s, env, dir, &r);

        if (c)
                c = add(s, c);
        if (c)
                c->is_found = true;
}

/* The target's, then in the order in which they were made: by their first process. Those found later come after. */
static int in_order(const void *a, const void *b)
{
        const struct container *x = *(struct container *const *) a, *y = *(struct container *const *) b;

        if (x->is_seen != y->is_seen)
                return x->is_seen ? -1 : 1;
        if (x->pid != y->pid)
                return !x->pid ? 1 : !y->pid ? -1 : x->pid < y->pid ? -1 : 1;
        return strcmp(x->path, y->path);
}

static void refresh(struct containers *s, const struct infp_env *env)
{
        for (size_t i = 0; i < s->n; i++) {
                struct container *c = s->list[i];
                const uint64_t pause = s->n <= FEW ? LIMITS_NS : c->is_target ? SELDOM_NS : RARELY_NS;
                const uint64_t least = c->n_members > MANY ? SELDOM_NS : 0;
                const uint64_t wanted = c->is_target ? OFTEN_NS : pause;
                const uint64_t procs_pause = wanted > least ? wanted : least;

                if (!c->limits_ns || s->now_ns - c->limits_ns >= pause || !env->is_live)
                        container_read_limits(s, env, c);
                if (!c->procs_ns || s->now_ns - c->procs_ns >= procs_pause || !env->is_live)
                        container_read_members(s, env, c);
        }
}

static void emit_entity(const struct containers *s, struct infp_emit *emit, struct container *c)
{
        struct infp_row *row;

        if (c->is_said && c->said_pid == c->pid)
                return;
        row = infp_emit_begin(emit, &infp_table_container, s->now_ns);
        infp_row_id(row, WHO_ID, c->id);
        infp_row_foreign(row, WHO_CID, c->cid);
        infp_row_i64(row, WHO_VERSION, c->version);
        infp_row_foreign(row, WHO_NAME, c->name);
        infp_row_foreign(row, WHO_PATH, c->path);
        infp_row_foreign(row, WHO_RUNTIME, c->runtime ? c->runtime : "");
        infp_row_foreign(row, WHO_POD, c->pod);
        infp_row_foreign(row, WHO_QOS, c->qos);
        if (c->pid)
                infp_row_i64(row, WHO_PID, c->pid);
        if (c->inode)
                infp_row_i64(row, WHO_INODE, (int64_t) c->inode);
        infp_emit_commit(emit);
        c->is_said = true;
        c->said_pid = c->pid;
}

static bool has_values(const struct infp_row *row)
{
        for (unsigned cell = C_CONTAINER + 1; cell < C_N; cell++)
                if (cell != C_IS_TARGET && cell != C_OTHERS && infp_row_has(row, cell))
                        return true;
        return false;
}

/* False: no figures. Its directory went away in between, or it is the root of a v1 hierarchy, which has none, in a tree that
 * lacks the file by which that is known. */
static bool sample_one(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c,
                       uint64_t ret_missing[2])
{
        emit_entity(s, emit, c);
        if (container_sample(s, env, emit, c) < 0 ||
            (!strcmp(c->path, "/") && !c->is_target && !has_values(&emit->row)))
                return false;
        for (unsigned i = 0; i < 2; i++) {
                s->has[i] |= emit->row.valid[i];
                ret_missing[i] = ~emit->row.valid[i];
        }
        infp_emit_commit(emit);
        return true;
}

/* Reports what the first and the target's lack; the first stands for all others. */
static void sample_all(struct containers *s, const struct infp_env *env, struct infp_emit *emit)
{
        uint64_t missing[CONTAINER_TARGETS][2] = { { 0 } }, rest[2];
        size_t first = SIZE_MAX;

        s->has[0] = s->has[1] = 0;
        for (size_t i = 0; i < s->n; i++)
                if (sample_one(s, env, emit, s->list[i], i < CONTAINER_TARGETS ? missing[i] : rest) &&
                    first == SIZE_MAX)
                        first = i;
        /* bound: the first ones are explained */
        for (size_t i = 0; i < s->n && i < CONTAINER_TARGETS; i++) {
                if (s->list[i]->is_gone)
                        continue;
                if (i == first)
                        container_explain_one(s, emit, s->list[i], missing[i], false);
                if (s->list[i]->is_target && s->n > 1)
                        container_explain_one(s, emit, s->list[i], missing[i], true);
        }
        for (size_t i = s->n; i-- > 0;)
                if (s->list[i]->is_gone)
                        drop(s, i);
}

static int containers_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct containers *s = state;
        size_t n_before = s->n;

        s->now_ns = env->now_ns(env);
        find_target(s, env);
        if (s->all && container_find(s, env, found) < 0)
                return infp_fail(err, -ENOMEM, "no memory for the containers");
        refresh(s, env);
        if (s->n > 0 && (!s->has_sampled || s->n > n_before)) {
                size_t from = s->has_sampled && n_before < s->n ? n_before : 0;

                infp_sort(s->list + from, s->n - from, sizeof(*s->list), in_order);
        }
        sample_all(s, env, emit);
        container_explain(s, env, emit);
        s->has_sampled = true;
        return 0;
}

static void containers_close(void *state)
{
        struct containers *s = state;

        while (s->n)
                drop(s, s->n - 1);
        free(s->list);
        container_finder_done(&s->finder);
        container_devices_done(&s->devices);
}

static const struct infp_table *const tables[] = { &infp_table_container, &infp_table_containers,
                                                   &infp_table_container_cpu, &infp_table_container_device, NULL };

const struct infp_collector infp_collector_containers = {
        .name = "containers",
        .help = "What containers and control groups use, and their limits.",
        .tables = tables,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct containers),
        .open = containers_open,
        .sample = containers_sample,
        .close = containers_close,
};
