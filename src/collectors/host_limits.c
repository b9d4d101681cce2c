/* How much of the machine this run may use: limits of its cgroup and all of that one's parents, in v1, v2 and both at once,
 * its cpuset, its affinity. What has no limit is absent: v1 knows no word for that, only a number near 2^63. */
#include <sched.h>
#include <string.h>

#include "collect/cgroup.h"
#include "collectors/host.h"

struct limits {
        const struct infp_cgroups *cgroups;
        struct infp_cgroup_paths paths;
};

/* In a container that sees another's path nothing is found until the mount, which is then its own cgroup. */
static bool find_place(const struct limits *limits, enum infp_controller controller, struct infp_cgroup_place *ret)
{
        ret->size = 0;
        return infp_cgroup_place(limits->cgroups, &limits->paths, controller, true, ret) || ret->size;
}

static double quota_of(const struct infp_env *env, const struct limits *limits)
{
        struct infp_cgroup_place place;

        return find_place(limits, INFP_CG_CPU, &place) ? infp_cgroup_quota_effective(env, place) : 0;
}

/* Bytes; 0: no limit. */
static uint64_t memory_of(const struct infp_env *env, const struct limits *limits)
{
        struct infp_cgroup_place place;

        return find_place(limits, INFP_CG_MEMORY, &place) ? infp_cgroup_memory_effective(env, place) : 0;
}

/* The kernel has already taken the parents into account; the nearest level that has the file tells. */
static bool cpuset_of(const struct infp_env *env, const struct limits *limits, struct infp_cpus *ret)
{
        struct infp_cgroup_place place;
        struct infp_span list;
        char text[4096];

        if (!find_place(limits, INFP_CG_CPUSET, &place))
                return false;
        do {
                infp_cgroup_read(env, &place, place.is_v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus", text,
                                 sizeof(text), &list);
                if (!place.is_v2 && !list.size)
                        infp_cgroup_read(env, &place, "cpuset.cpus", text, sizeof(text), &list);
                if (list.size && !infp_cpus_parse(ret, list) && ret->n)
                        return true;
        } while (infp_cgroup_up(&place));
        return false;
}

static bool affinity_of(const struct infp_env *env, struct infp_cpus *ret)
{
        char text[16384];
        struct infp_span status, line, value;

        if (env->is_live) {
                memset(ret, 0, sizeof(*ret));
                if (sched_getaffinity(0, sizeof(ret->bits), (cpu_set_t *) ret->bits) < 0)
                        return false;
                ret->n = (unsigned) CPU_COUNT_S(sizeof(ret->bits), (cpu_set_t *) ret->bits);
                return true;
        }
        status = infp_host_read(env, "proc/self/status", text, sizeof(text));
        while (infp_span_line(&status, &line))
                if (infp_span_is(infp_span_cut(line, ':', &value), "Cpus_allowed_list"))
                        return !infp_cpus_parse(ret, value) && ret->n;
        return false;
}

/* CPUs that are online and in both sets, where these are known. */
static unsigned count_common(const struct infp_cpus *online, const struct infp_cpus *a, const struct infp_cpus *b)
{
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(online->bits) / sizeof(online->bits[0]); i++)
                n += (unsigned) __builtin_popcountll(online->bits[i] & (a ? a->bits[i] : UINT64_MAX) &
                                                     (b ? b->bits[i] : UINT64_MAX));
        return n;
}

static void none(struct infp_emit *emit, unsigned cell, const char *reason)
{
        infp_emit_source(emit, emit->row.table, (int) cell, NULL, INFP_ABSENT, reason, NULL);
}

static void effective(struct infp_row *row, const struct infp_cpus *online, const struct infp_cpus *allowed,
                      const struct infp_cpus *cpuset, double quota)
{
        unsigned n = count_common(online, allowed, cpuset);

        /* Sets that have nothing in common were read at different moments. */
        if (n)
                infp_row_f64(row, HOST_EFFECTIVE_CPUS, quota > 0 && quota < n ? quota : n);
}

void infp_host_limits(const struct infp_env *env, struct infp_emit *emit, const struct infp_cpus *online,
                      const struct infp_cgroups *cgroups)
{
        struct limits limits = { .cgroups = cgroups };
        struct infp_cpus allowed, cpuset;
        struct infp_row *row = &emit->row;
        bool has_allowed = affinity_of(env, &allowed), has_cpuset = false;
        const char *mode;
        uint64_t memory = 0;
        double quota = 0;

        infp_cgroup_paths_read(env, 0, &limits.paths);
        mode = infp_cgroup_mode(&limits.paths);
        if (mode) { /* else it is not known which cgroup this is */
                has_cpuset = cpuset_of(env, &limits, &cpuset);
                quota = quota_of(env, &limits);
                memory = memory_of(env, &limits);
                infp_row_str(row, HOST_CGROUP_MODE, mode);
        }
        if (quota > 0)
                infp_row_f64(row, HOST_CGROUP_QUOTA, quota);
        else if (mode)
                none(emit, HOST_CGROUP_QUOTA, "no quota is set");
        if (memory)
                infp_row_raw(row, HOST_CGROUP_MEMORY, memory);
        else if (mode)
                none(emit, HOST_CGROUP_MEMORY, "no limit is set");
        if (has_cpuset)
                infp_row_i64(row, HOST_CGROUP_CPUS, cpuset.n);
        if (has_allowed)
                infp_row_i64(row, HOST_AFFINITY, allowed.n);
        if (online->n)
                effective(row, online, has_allowed ? &allowed : NULL, has_cpuset ? &cpuset : NULL, quota);
}
