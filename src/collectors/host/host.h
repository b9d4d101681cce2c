/* Parts of the collector `host`: its CPUs (cpu.c), how much of them we may use (limits.c), the rest (facts.c). */
#pragma once

#include "collect/cgroup.h"
#include "collect/collector.h"
#include "collectors/cpus.h"

enum host_cell {
        HOST_ID,
        HOST_NAME,
        HOST_KERNEL,
        HOST_BOOT_TIME,
        HOST_PROCESSORS,
        HOST_CPU_TYPE,
        HOST_L1D,
        HOST_L1I,
        HOST_L2,
        HOST_L3,
        HOST_KERNEL_INFO,
        HOST_MEMORY,
        HOST_SWAP,
        HOST_ARCHITECTURE,
        HOST_OS,
        HOST_MACHINE,
        HOST_HYPERVISOR,
        HOST_CLOCK_SOURCE,
        HOST_TIME_SYNCED,
        HOST_TIME_OFFSET,
        HOST_TIME_MAX_ERROR,
        HOST_CGROUP_MODE,
        HOST_CGROUP_QUOTA,
        HOST_CGROUP_CPUS,
        HOST_CGROUP_MEMORY,
        HOST_AFFINITY,
        HOST_EFFECTIVE_CPUS,
        HOST_PAGE_SIZE,
        HOST_TICKS,
        HOST_GOVERNOR,
        HOST_MAX_MHZ,
        HOST_SMT,
        HOST_NUMA_NODES,
        HOST_THP,
        HOST_SWAPPINESS,
        HOST_BOOT_ID,
        HOST_N,
};
enum { INFP_CACHE_KINDS = HOST_L3 - HOST_L1D + 1 };

struct infp_host_caches {
        uint64_t bytes[INFP_CACHE_KINDS]; /* L1d, L1i, L2, L3 */
        bool is_known[INFP_CACHE_KINDS];
};

/* Reads a small file below the root, without blanks at its ends; an empty span when that fails. `text` holds it. */
struct infp_span infp_host_read(const struct infp_env *env, const char *path, char *text, size_t cap);

/* The CPUs that are online: /sys, else /proc/stat, for whose text the caller has the memory. 0 or a negative errno. */
int infp_host_online(const struct infp_env *env, struct infp_procfile *stat, struct infp_cpus *cpus);
/* Sums the caches of these CPUs; one that several share counts once. Allocates. */
void infp_host_caches(const struct infp_env *env, const struct infp_cpus *cpus, struct infp_host_caches *ret);
/* Identity, kernel, distribution, board, settings and clock. The architecture is in the row already where a file says it. */
void infp_host_facts(const struct infp_env *env, struct infp_emit *emit);
void infp_host_cpu_type(const struct infp_env *env, struct infp_row *row);
void infp_host_hypervisor(const struct infp_env *env, struct infp_row *row);

/* Cgroup limits, affinity, and the CPUs that are left. */
void infp_host_limits(const struct infp_env *env, struct infp_emit *emit, const struct infp_cpus *online,
                      const struct infp_cgroups *cgroups);
