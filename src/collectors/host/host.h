/* Cells of table `host`, and which CPUs are online. */
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
/* The CPUs that are online: from /sys, else /proc/stat, for whose text the caller has the memory. 0 or a negative errno. */
int infp_host_online(const struct infp_env *env, struct infp_procfile *stat, struct infp_cpus *cpus);
