/* What a container may use, and who is in it: read less often than what it uses. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collectors/allowed.h"
#include "collectors/container/state.h"
#include "collectors/fields.h"

enum { LEVEL_TRIES = 8 };

static bool place_of(const struct container *c, enum infp_controller controller, struct infp_cgroup_place *ret)
{
        if (!c->dir[controller])
                return false;
        snprintf(ret->path, sizeof(ret->path), "%s", c->dir[controller]);
        ret->size = strlen(ret->path);
        ret->base_size = c->base_size[controller];
        ret->is_v2 = c->is_v2[controller];
        return true;
}

static uint64_t number(const struct infp_env *env, const struct infp_cgroup_place *place, const char *file, int *ret_r)
{
        struct infp_span value;
        char text[64];

        *ret_r = infp_cgroup_read(env, place, file, text, sizeof(text), &value);
        return infp_cgroup_limit(value);
}

/* A setting that may be 0. */
static uint64_t limit(const struct infp_env *env, const struct infp_cgroup_place *place, const char *file, int *ret_r)
{
        struct infp_span value;
        char text[64];
        uint64_t v;

        *ret_r = infp_cgroup_read(env, place, file, text, sizeof(text), &value);
        if (infp_span_u64(value, &v) || (v && !infp_cgroup_limit(value)))
                return NO_LIMIT;
        return v;
}

/* The slot of a directory: `is_known` when it was read in this round. */
static struct container_level *level_of(struct containers *s, const struct infp_cgroup_place *place,
                                        enum infp_controller controller, bool *ret_is_known)
{
        uint64_t hash = infp_hash64(place->path, place->size, controller + 1);
        struct container_level *level = NULL;

        for (unsigned i = 0; i < LEVEL_TRIES; i++) {
                level = &s->levels[(hash + i) % CONTAINER_LEVELS];
                *ret_is_known = level->hash == hash && level->t_ns == s->now_ns;
                if (*ret_is_known)
                        return level;
                if (level->t_ns != s->now_ns)
                        break;
        }
        *level = (struct container_level){ .hash = hash, .t_ns = s->now_ns };
        return level;
}

static double cpus_effective(struct containers *s, const struct infp_env *env, struct infp_cgroup_place place,
                             double least)
{
        uint64_t quota, period;
        bool is_known;

        while (infp_cgroup_up(&place)) {
                struct container_level *level = level_of(s, &place, INFP_CG_CPU, &is_known);

                if (!is_known)
                        level->cpus = infp_cgroup_quota(env, &place, &quota, &period);
                if (level->cpus > 0 && (least <= 0 || level->cpus < least))
                        least = level->cpus;
        }
        return least;
}

static uint64_t memory_effective(struct containers *s, const struct infp_env *env, struct infp_cgroup_place place,
                                 uint64_t least)
{
        bool is_known;
        int r;

        while (infp_cgroup_up(&place)) {
                struct container_level *level = level_of(s, &place, INFP_CG_MEMORY, &is_known);

                if (!is_known)
                        level->memory = number(env, &place, place.is_v2 ? "memory.max" : "memory.limit_in_bytes", &r);
                if (level->memory && (!least || level->memory < least))
                        least = level->memory;
        }
        return least;
}

static void read_cpu(struct containers *s, const struct infp_env *env, struct container *c)
{
        struct container_limits *l = &c->limits;
        struct infp_cgroup_place place;
        char text[64];
        struct infp_span value;

        l->r_cpu = l->r_weight = c->why[INFP_CG_CPU];
        if (!place_of(c, INFP_CG_CPU, &place))
                return;
        l->cpus = infp_cgroup_quota(env, &place, &l->quota_us, &l->period_us);
        l->r_cpu = 0;
        if (!l->period_us) /* what was not available */
                l->r_cpu = infp_cgroup_read(env, &place, place.is_v2 ? "cpu.max" : "cpu.cfs_quota_us", text,
                                            sizeof(text), &value);
        l->cpus_effective = cpus_effective(s, env, place, l->cpus);
        if (place.is_v2)
                l->weight = number(env, &place, "cpu.weight", &l->r_weight);
        else
                l->shares = number(env, &place, "cpu.shares", &l->r_weight);
}

static void read_memory(struct containers *s, const struct infp_env *env, struct container *c)
{
        struct container_limits *l = &c->limits;
        struct infp_cgroup_place place;

        l->r_memory = l->r_high = l->r_swap = c->why[INFP_CG_MEMORY];
        if (!place_of(c, INFP_CG_MEMORY, &place))
                return;
        l->memory = number(env, &place, place.is_v2 ? "memory.max" : "memory.limit_in_bytes", &l->r_memory);
        l->memory_effective = memory_effective(s, env, place, l->memory);
        l->r_high = l->r_swap = WHY_OTHER_VERSION;
        if (place.is_v2) {
                l->high = limit(env, &place, "memory.high", &l->r_high);
                l->swap = limit(env, &place, "memory.swap.max", &l->r_swap);
        }
}

static void read_cpuset(struct containers *s, const struct infp_env *env, struct container *c)
{
        struct container_limits *l = &c->limits;
        struct infp_cgroup_place place;
        struct infp_span list;
        struct infp_cpus cpus;

        l->r_cpuset = c->why[INFP_CG_CPUSET];
        if (!place_of(c, INFP_CG_CPUSET, &place))
                return;
        l->r_cpuset = infp_cpuset_read(env, place, s->small, sizeof(s->small), &list, &cpus);
        if (!cpus.n)
                return;
        l->n_cpus = cpus.n;
        l->cpuset = strndup(list.at, list.size); /* every second CPU of a big machine: a long list */
}

void container_read_limits(struct containers *s, const struct infp_env *env, struct container *c)
{
        struct infp_cgroup_place place;
        uint64_t hierarchy = c->limits.memory_hierarchy;

        free(c->limits.cpuset);
        c->limits = (struct container_limits){
                .memory_hierarchy = hierarchy, .high = NO_LIMIT, .swap = NO_LIMIT, .pids = NO_LIMIT
        };
        memset(c->is_hopeless, 0, sizeof(c->is_hopeless));
        c->is_all_read = true;
        read_cpu(s, env, c);
        read_memory(s, env, c);
        read_cpuset(s, env, c);
        c->limits.r_pids = c->why[INFP_CG_PIDS];
        if (place_of(c, INFP_CG_PIDS, &place))
                c->limits.pids = limit(env, &place, "pids.max", &c->limits.r_pids);
        c->limits_ns = s->now_ns;
}

static void positive(struct infp_row *row, unsigned cell, uint64_t v)
{
        if (v)
                infp_row_raw(row, cell, v);
}

void container_fill_limits(const struct container *c, struct infp_row *row)
{
        const struct container_limits *l = &c->limits;

        if (l->cpus > 0) {
                positive(row, C_QUOTA, l->quota_us);
                infp_row_f64(row, C_CPU_LIMIT, l->cpus);
        }
        positive(row, C_PERIOD, l->period_us);
        if (l->cpus_effective > 0)
                infp_row_f64(row, C_CPU_LIMIT_EFFECTIVE, l->cpus_effective);
        positive(row, C_WEIGHT, l->weight);
        positive(row, C_SHARES, l->shares);
        positive(row, C_PROCESSORS, l->n_cpus);
        if (l->cpuset)
                infp_row_str(row, C_CPUSET, l->cpuset);
        positive(row, C_MEMORY_LIMIT, l->memory);
        /* v1 reports it itself, and knows parents that cannot be seen from inside. */
        positive(row, C_MEMORY_LIMIT_EFFECTIVE,
                 l->memory_hierarchy && (!l->memory_effective || l->memory_hierarchy < l->memory_effective)
                         ? l->memory_hierarchy
                         : l->memory_effective);
        if (l->high != NO_LIMIT)
                infp_row_raw(row, C_MEMORY_HIGH, l->high);
        if (l->swap != NO_LIMIT)
                infp_row_raw(row, C_SWAP_LIMIT, l->swap);
        if (l->pids != NO_LIMIT)
                infp_row_raw(row, C_PIDS_LIMIT, l->pids);
}

static bool is_in(const int32_t *pids, size_t n, int32_t pid)
{
        for (size_t i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

/* Where the processes are listed: a v1 container need not be in all hierarchies. A threaded cgroup lists threads only. */
static ssize_t read_procs(struct containers *s, const struct infp_env *env, const struct container *c)
{
        static const enum infp_controller order[] = { INFP_CG_UNIFIED, INFP_CG_MEMORY, INFP_CG_CPU,    INFP_CG_CPUACCT,
                                                      INFP_CG_PIDS,    INFP_CG_IO,     INFP_CG_CPUSET, INFP_CG_NAMED };
        char path[INFP_CGROUP_PATH + 32];
        ssize_t n = -ENOENT;

        for (size_t i = 0; i < INFP_COUNT(order); i++) {
                /* The v2 side of a hybrid usually has no controllers, but has processes: both sides will do. */
                if (!c->dir[order[i]] || (c->version == 1 && order[i] == INFP_CG_UNIFIED))
                        continue;
                snprintf(path, sizeof(path), "%s/cgroup.procs", c->dir[order[i]]);
                n = infp_read_at(env->root_fd, path, s->text, sizeof(s->text));
                if (n == -EOPNOTSUPP || n == -ENOENT) {
                        snprintf(path, sizeof(path), "%s/cgroup.threads", c->dir[order[i]]);
                        n = infp_read_at(env->root_fd, path, s->text, sizeof(s->text));
                }
                if (n >= 0)
                        return n;
        }
        return n;
}

void container_read_members(struct containers *s, const struct infp_env *env, struct container *c)
{
        ssize_t size = read_procs(s, env, c);
        struct infp_span text = { s->text, size > 0 ? (size_t) size : 0 }, line;
        int32_t lowest = 0;
        uint64_t pid;
        bool is_listed = false;
        const int32_t own = (int32_t) getpid();

        uint32_t before = c->has_looked ? c->n_others_now : 0;

        c->n_members = c->n_others_now = 0;
        c->has_infprof = false;
        c->procs_ns = s->now_ns;
        text = infp_whole_words(text);
        while (infp_span_line(&text, &line)) {
                if (infp_span_u64(infp_span_trim(line), &pid) || pid > INT32_MAX || !pid)
                        continue; /* 0: a process of a pid namespace that we cannot see */
                c->n_members++;
                is_listed = is_listed || (int32_t) pid == c->pid;
                if (!lowest || (int32_t) pid < lowest)
                        lowest = (int32_t) pid;
                if (env->is_live && (int32_t) pid == own)
                        c->has_infprof = true;
                if (c->is_target && !is_in(s->pids, s->n_pids, (int32_t) pid))
                        c->n_others_now++;
        }
        /* A process that was forked after the look at the target is not counted. */
        c->n_others = before < c->n_others_now ? before : c->n_others_now;
        c->has_looked = true;
        if (is_listed && c->pid_fd >= 0)
                return;
        c->pid = lowest;
        c->pid_fd = infp_close(c->pid_fd);
        container_find_network(s, env, c);
}
