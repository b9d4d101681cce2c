/* What the target may use: CPUs by affinity, cpuset and quota, and memory, over time, since all of it may change while it
 * runs. Limits hold for a control group and all below it, so that each level up to the root counts, and so do the periods in
 * which a parent's group was throttled (a pod's, for a container without a quota of its own). `host` has the same for
 * infprof. */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "collect/collector.h"
#include "collect/target.h"
#include "collectors/allowed.h"
#include "collectors/host/host.h"
#include "model/rate.h"

enum { MOST_PIDS = 1024, MOST_GROUPS = 32, MOST_LEVELS = 16, FLOOR_MS = 1000 };
/* A command sets its affinity at its start, and processes rarely move later. */
static const uint64_t often_ns = INFP_NS_PER_S - INFP_NS_PER_S / 10, rarely_ns = 5 * INFP_NS_PER_S;

enum limit_cell {
        LIMIT_EFFECTIVE_CPUS,
        LIMIT_AFFINITY,
        LIMIT_CPUSET,
        LIMIT_QUOTA,
        LIMIT_MEMORY,
        LIMIT_GROUPS,
        LIMIT_IS_HIDDEN,
        LIMIT_PERIODS,
        LIMIT_THROTTLED,
        LIMIT_THROTTLED_NS,
        LIMIT_N,
};

// clang-format off
static const struct infp_column limit_columns[] = {
        [LIMIT_EFFECTIVE_CPUS] = INFP_COLUMN(lEffectiveCpus, F64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_target_effective_cpus", "CPUs that are available: online, in affinity and cpuset, within the quota."),
        [LIMIT_AFFINITY] = INFP_COLUMN(lAffinityCpus, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_target_affinity_cpus", "CPUs on which at least one thread of the target may run."),
        [LIMIT_CPUSET] = INFP_COLUMN(lCpusetCpus, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_target_cpuset_cpus", "CPUs in the effective cpusets of its control groups."),
        [LIMIT_QUOTA] = INFP_COLUMN(lCpuQuota, F64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_target_quota_cpus", "CPUs that the quotas of its control groups and of all above them allow; absent without one."),
        [LIMIT_MEMORY] = INFP_COLUMN(lMemoryLimitBytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_target_memory_limit_bytes", "Memory that its control groups and all above them allow; absent without a limit."),
        [LIMIT_GROUPS] = INFP_COLUMN(lGroups, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Control groups that its processes are in."),
        [LIMIT_IS_HIDDEN] = INFP_COLUMN(lIsHidden, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Control groups above those cannot be seen from here, or these cannot: there may be lower limits."),
        [LIMIT_PERIODS] = INFP_COLUMN(lCpuPeriods, I64, COUNTER, count, DERIVED, ZERO, "cpu.stat:nr_periods", 0, "infprof_target_cpu_periods_total", "Periods of the quota that held it back most, since the recording began."),
        [LIMIT_THROTTLED] = INFP_COLUMN(lCpuThrottledPeriods, I64, COUNTER, count, DERIVED, ZERO, "cpu.stat:nr_throttled", 0, "infprof_target_cpu_throttled_periods_total", "Of lCpuPeriods those in which it was held back."),
        [LIMIT_THROTTLED_NS] = INFP_COLUMN(lCpuThrottledTimeNs, I64, COUNTER, ns, DERIVED, ZERO, "cpu.stat:throttled_usec", 0, "infprof_target_cpu_throttled_seconds_total", "Time for which it was held back, over all CPUs."),
};
// clang-format on

static const struct infp_table limits_table = {
        .name = "limits",
        .help = "What the target may use of the machine.",
        .columns = limit_columns,
        .n_columns = LIMIT_N,
        .section = "limits",
        .series = "",
};

/* A level with a quota, and its last cpu.stat. */
struct level {
        struct infp_cgroup_place place;
        bool has_last;
        uint64_t last[3]; /* periods, throttled periods, ns */
};

struct limits {
        struct infp_cgroups cgroups;
        struct infp_procfile stat;
        int32_t pids[MOST_PIDS];
        uint64_t pids_hash, next_ns, step_ns;

        /* As of the last look. */
        struct infp_cpus online, affinity, cpuset; /* of all its threads and groups together */
        bool has_online, has_affinity, has_cpuset, is_hidden;
        uint64_t groups[MOST_GROUPS]; /* hashes */
        unsigned n_groups, n_levels, n_before;
        struct infp_allowed common; /* the nearest directories above all groups */
        double quota, memory;       /* 0: none */

        struct level levels[MOST_LEVELS], before[MOST_LEVELS];
        uint64_t sums[3];
        bool has_sums;
};

static int limits_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct limits *s = state;

        if (!env->target || infp_target_mode(env->target) == INFP_MODE_HOST)
                return infp_fail(err, -ENODEV, "no process is the target: table host has the limits of infprof itself");
        s->stat = (struct infp_procfile){ .fd = -1, .reopen = true };
        infp_cgroups_find(env, &s->cgroups);
        return 0;
}

static uint64_t hash_of(const struct infp_allowed *allowed)
{
        const struct infp_allowed_place *const places[] = { &allowed->cpu, &allowed->memory, &allowed->set };
        uint64_t h = 1;

        for (size_t i = 0; i < INFP_COUNT(places); i++)
                if (places[i]->has)
                        h = infp_hash64(places[i]->place.path, places[i]->place.size, h + i);
        return h;
}

/* Narrows to the nearest directory above both. */
static void narrow(struct infp_allowed_place *common, const struct infp_allowed_place *with)
{
        const struct infp_cgroup_place *w = &with->place;
        struct infp_cgroup_place *c = &common->place;

        common->has &= with->has;
        while (common->has && !(c->size <= w->size && !memcmp(c->path, w->path, c->size) &&
                                (c->size == w->size || w->path[c->size] == '/')))
                common->has = infp_cgroup_up(c);
}

static bool is_hidden(const struct infp_env *env, const struct infp_allowed_place *at)
{
        struct infp_cgroup_place top = at->place;

        if (!at->has)
                return true;
        while (infp_cgroup_up(&top))
                ;
        return !infp_cgroup_is_machine(env, &top);
}

static const struct level *find_level(const struct level *levels, unsigned n, const struct infp_cgroup_place *place)
{
        for (unsigned i = 0; i < n; i++)
                if (levels[i].place.size == place->size && !memcmp(levels[i].place.path, place->path, place->size))
                        return &levels[i];
        return NULL;
}

/* Levels with a quota, from a group to the root. */
static void add_levels(struct limits *s, const struct infp_env *env, const struct infp_allowed_place *from)
{
        struct infp_cgroup_place place = from->place;
        uint64_t quota, period;

        if (!from->has)
                return;
        do {
                const struct level *before = find_level(s->before, s->n_before, &place);

                if (s->n_levels == MOST_LEVELS || infp_cgroup_quota(env, &place, &quota, &period) <= 0 ||
                    find_level(s->levels, s->n_levels, &place))
                        continue;
                s->levels[s->n_levels++] = before ? *before : (struct level){ .place = place };
        } while (infp_cgroup_up(&place));
}

/* Sums over the groups of the target: where one has no limit of its own, only that of all of them holds. */
struct added {
        double quota, memory;
        bool is_quota_open, is_memory_open;
};

static void add_group(struct limits *s, const struct infp_env *env, const struct infp_allowed *allowed,
                      struct added *added)
{
        const double quota = infp_allowed_quota(env, allowed), memory = (double) infp_allowed_memory(env, allowed);
        struct infp_cpus cpuset;

        added->quota += quota;
        added->is_quota_open |= quota <= 0;
        added->memory += memory;
        added->is_memory_open |= memory <= 0;
        s->is_hidden |= is_hidden(env, &allowed->cpu) || is_hidden(env, &allowed->memory);
        if (infp_allowed_cpuset(env, allowed, &cpuset)) {
                infp_cpus_add(&s->cpuset, &cpuset);
                s->has_cpuset = true;
        }
        add_levels(s, env, &allowed->cpu);
        if (s->n_groups == 1)
                s->common = *allowed;
        narrow(&s->common.cpu, &allowed->cpu);
        narrow(&s->common.memory, &allowed->memory);
}

/* The smaller of two, where 0 means no limit. */
static double least(double a, double b)
{
        return a <= 0 || (b > 0 && b < a) ? b : a;
}

static bool is_new(struct limits *s, const struct infp_allowed *allowed)
{
        const uint64_t hash = hash_of(allowed);

        for (unsigned i = 0; i < s->n_groups; i++)
                if (s->groups[i] == hash)
                        return false;
        if (s->n_groups == MOST_GROUPS) { /* bound: the row says that there may be lower limits */
                s->is_hidden = true;
                return false;
        }
        s->groups[s->n_groups++] = hash;
        return true;
}

static void look(struct limits *s, const struct infp_env *env, size_t n_pids)
{
        struct added added = { 0 };
        struct infp_allowed allowed;

        s->has_online = !infp_host_online(env, &s->stat, &s->online) && s->online.n;
        s->affinity = s->cpuset = (struct infp_cpus){ .n = 0 };
        s->has_affinity = s->has_cpuset = s->is_hidden = false;
        memcpy(s->before, s->levels, sizeof(s->before));
        s->n_before = s->n_levels;
        s->n_groups = s->n_levels = 0;
        for (size_t i = 0; i < n_pids; i++) {
                if (!s->has_online || infp_allowed_common(&s->online, &s->affinity, NULL) < s->online.n)
                        s->has_affinity |= infp_allowed_affinity(env, s->pids[i], &s->affinity);
                infp_allowed_find(env, &s->cgroups, s->pids[i], &allowed);
                if (allowed.mode && is_new(s, &allowed))
                        add_group(s, env, &allowed, &added);
        }
        if (!s->n_groups)
                s->common = (struct infp_allowed){ .mode = NULL };
        s->quota = least(infp_allowed_quota(env, &s->common), added.is_quota_open ? 0 : added.quota);
        s->memory = least((double) infp_allowed_memory(env, &s->common), added.is_memory_open ? 0 : added.memory);
}

static bool is_due(struct limits *s, const struct infp_env *env, size_t n_pids)
{
        const uint64_t now = env->now_ns(env), hash = infp_hash64(s->pids, n_pids * sizeof(s->pids[0]), n_pids);

        if (env->is_live && hash == s->pids_hash && now < s->next_ns)
                return false;
        s->step_ns = hash != s->pids_hash ? often_ns : 2 * s->step_ns;
        if (s->step_ns > rarely_ns)
                s->step_ns = rarely_ns;
        s->pids_hash = hash;
        s->next_ns = now + s->step_ns;
        return true;
}

static bool read_stat(const struct infp_env *env, const struct infp_cgroup_place *place, uint64_t ret[3])
{
        struct infp_span text, line;
        char buffer[1024];
        bool has_periods = false;

        if (infp_cgroup_read(env, place, "cpu.stat", buffer, sizeof(buffer), &text) < 0)
                return false;
        while (infp_span_line(&text, &line)) {
                const struct infp_span name = infp_span_word(&line);
                uint64_t v;

                if (infp_span_u64(infp_span_word(&line), &v))
                        continue;
                if (infp_span_is(name, "nr_periods")) {
                        ret[0] = v;
                        has_periods = true;
                } else if (infp_span_is(name, "nr_throttled"))
                        ret[1] = v;
                else if (infp_span_is(name, "throttled_usec")) /* v2 */
                        ret[2] = v * 1000;
                else if (infp_span_is(name, "throttled_time"))
                        ret[2] = v;
        }
        return has_periods;
}

/* For each tick, the figures of the level that throttled it most. */
static void add_throttling(struct limits *s, const struct infp_env *env)
{
        uint64_t most[3] = { 0 };

        for (unsigned i = 0; i < s->n_levels; i++) {
                struct level *level = &s->levels[i];
                uint64_t now[3] = { 0 }, more[3];

                if (!read_stat(env, &level->place, now))
                        continue;
                for (unsigned k = 0; k < 3; k++)
                        more[k] = level->has_last ? infp_increase_u64(INFP_RESET_ZERO, level->last[k], now[k], 0) : 0;
                if (more[1] > most[1] || (more[1] == most[1] && more[0] > most[0]))
                        memcpy(most, more, sizeof(most));
                memcpy(level->last, now, sizeof(now));
                level->has_last = s->has_sums = true;
        }
        for (unsigned k = 0; k < 3; k++)
                s->sums[k] += most[k];
}

static void say(const struct limits *s, struct infp_emit *emit, unsigned cell, const char *none)
{
        infp_emit_source(
                emit, &limits_table, (int) cell, NULL, INFP_ABSENT,
                s->is_hidden ? "none is visible; the target's control group, or those above it, are hidden from here"
                             : none,
                s->is_hidden ? "run infprof on the host, outside of the container" : NULL);
}

static void fill(const struct limits *s, struct infp_emit *emit, struct infp_row *row)
{
        const double cpus = infp_allowed_cpus(&s->online, s->has_affinity ? &s->affinity : NULL,
                                              s->has_cpuset ? &s->cpuset : NULL, s->quota);

        if (s->has_online && cpus > 0)
                infp_row_f64(row, LIMIT_EFFECTIVE_CPUS, cpus);
        if (s->has_affinity)
                infp_row_i64(row, LIMIT_AFFINITY, s->affinity.n);
        if (s->has_cpuset)
                infp_row_i64(row, LIMIT_CPUSET, s->cpuset.n);
        if (s->n_groups) {
                infp_row_i64(row, LIMIT_GROUPS, s->n_groups);
                infp_row_bool(row, LIMIT_IS_HIDDEN, s->is_hidden);
        }
        if (s->quota > 0)
                infp_row_f64(row, LIMIT_QUOTA, s->quota);
        else if (s->n_groups)
                say(s, emit, LIMIT_QUOTA, "no quota is set");
        if (s->memory > 0)
                infp_row_i64(row, LIMIT_MEMORY, (int64_t) s->memory);
        else if (s->n_groups)
                say(s, emit, LIMIT_MEMORY, "no limit is set");
        for (unsigned k = 0; k < 3; k++)
                if (s->has_sums)
                        infp_row_raw(row, LIMIT_PERIODS + k, s->sums[k]);
                else
                        infp_emit_quiet(emit, LIMIT_PERIODS + k);
}

static int limits_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct limits *s = state;
        size_t n_pids = infp_target_pids(env->target, s->pids, MOST_PIDS);
        struct infp_row *row;

        (void) err;
        if (!n_pids)
                return 0; /* a limit belongs to a process */
        n_pids = n_pids < MOST_PIDS ? n_pids : MOST_PIDS;
        if (is_due(s, env, n_pids))
                look(s, env, n_pids);
        row = infp_emit_begin(emit, &limits_table, env->now_ns(env));
        add_throttling(s, env);
        fill(s, emit, row);
        infp_emit_commit(emit);
        return 0;
}

static void limits_close(void *state)
{
        infp_procfile_done(&((struct limits *) state)->stat);
}

static const struct infp_table *const tables[] = { &limits_table, NULL };

const struct infp_collector infp_collector_limits = {
        .name = "limits",
        .help = "What the target may use: its affinity, cpuset, quota and memory limit, and how it was held back.",
        .tables = tables,
        .floor_ms = FLOOR_MS,
        .state_size = sizeof(struct limits),
        .open = limits_open,
        .sample = limits_sample,
        .close = limits_close,
};
