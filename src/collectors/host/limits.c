/* How much of the machine infprof itself may use; of its target the collector `limits` says it. */
#include "collectors/allowed.h"
#include "collectors/host/host.h"

static void none(struct infp_emit *emit, unsigned cell, const char *reason)
{
        infp_emit_source(emit, emit->row.table, (int) cell, NULL, INFP_ABSENT, reason, NULL);
}

static void effective(struct infp_row *row, const struct infp_cpus *online, const struct infp_cpus *allowed,
                      const struct infp_cpus *cpuset, double quota)
{
        unsigned n = infp_allowed_common(online, allowed, cpuset);

        /* Sets that have nothing in common were read at different moments. */
        if (n)
                infp_row_f64(row, HOST_EFFECTIVE_CPUS, quota > 0 && quota < n ? quota : n);
}

void infp_host_limits(const struct infp_env *env, struct infp_emit *emit, const struct infp_cpus *online,
                      const struct infp_cgroups *cgroups)
{
        struct infp_allowed ours;
        struct infp_cpus allowed = { .n = 0 }, cpuset;
        struct infp_row *row = &emit->row;
        const bool has_allowed = infp_allowed_affinity(env, 0, &allowed);
        bool has_cpuset;
        uint64_t memory;
        double quota;

        infp_allowed_find(env, cgroups, 0, &ours);
        has_cpuset = infp_allowed_cpuset(env, &ours, &cpuset);
        quota = infp_allowed_quota(env, &ours);
        memory = infp_allowed_memory(env, &ours);
        if (ours.mode)
                infp_row_str(row, HOST_CGROUP_MODE, ours.mode);
        if (quota > 0)
                infp_row_f64(row, HOST_CGROUP_QUOTA, quota);
        else if (ours.mode)
                none(emit, HOST_CGROUP_QUOTA, "no quota is set");
        if (memory)
                infp_row_raw(row, HOST_CGROUP_MEMORY, memory);
        else if (ours.mode)
                none(emit, HOST_CGROUP_MEMORY, "no limit is set");
        if (has_cpuset)
                infp_row_i64(row, HOST_CGROUP_CPUS, cpuset.n);
        if (has_allowed)
                infp_row_i64(row, HOST_AFFINITY, allowed.n);
        if (online->n)
                effective(row, online, has_allowed ? &allowed : NULL, has_cpuset ? &cpuset : NULL, quota);
}
