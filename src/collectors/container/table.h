/* The tables of the collector `containers`. Cells count keys first. */
#pragma once

#include "model/schema.h"

extern const struct infp_table infp_table_container;        /* who: entity */
extern const struct infp_table infp_table_containers;       /* what it uses and may use */
extern const struct infp_table infp_table_container_cpu;    /* CPU time by CPU, where the kernel shows (v1) */
extern const struct infp_table infp_table_container_device; /* I/O by block device */

enum container_entity_cell {
        WHO_ID,
        WHO_CID,
        WHO_VERSION,
        WHO_NAME,
        WHO_PATH,
        WHO_RUNTIME,
        WHO_POD,
        WHO_QOS,
        WHO_PID,
        WHO_INODE,
        WHO_N,
};

enum container_cell {
        C_CONTAINER,
        C_CPU_TIME,
        C_CPU_USER,
        C_CPU_KERNEL,
        C_MEMORY_USED,
        C_MEMORY_PEAK,
        C_READ_BYTES,
        C_WRITE_BYTES,
        C_NET_RECEIVED,
        C_NET_SENT,
        C_PROCESSORS,
        C_CPU_USER_NS,
        C_CPU_KERNEL_NS,
        C_PERIODS,
        C_THROTTLED,
        C_THROTTLED_NS,
        C_QUOTA,
        C_PERIOD,
        C_CPU_LIMIT,
        C_CPU_LIMIT_EFFECTIVE,
        C_CPUSET,
        C_WEIGHT,
        C_SHARES,
        C_MEMORY_LIMIT,
        C_MEMORY_LIMIT_EFFECTIVE,
        C_MEMORY_HIGH,
        C_MEMORY_ANON,
        C_MEMORY_FILE,
        C_MEMORY_KERNEL,
        C_MEMORY_SHMEM,
        C_MEMORY_INACTIVE_FILE,
        C_MEMORY_WORKING_SET,
        C_SWAP_USED,
        C_SWAP_LIMIT,
        C_OOM_KILLS,
        C_MEMORY_LIMIT_HITS,
        C_MEMORY_HIGH_HITS,
        C_MAJOR_FAULTS,
        C_READS,
        C_WRITES,
        C_PIDS,
        C_PIDS_LIMIT,
        C_PIDS_LIMIT_HITS,
        C_NET_PACKETS_RECEIVED,
        C_NET_PACKETS_SENT,
        C_CPU_SOME,
        C_CPU_FULL,
        C_MEMORY_SOME,
        C_MEMORY_FULL,
        C_IO_SOME,
        C_IO_FULL,
        C_IRQ_FULL,
        C_IS_TARGET,
        C_OTHERS,
        C_N,
};

enum container_cpu_cell { CPU_OF, CPU_NUMBER, CPU_TIME_NS, CPU_N_CELLS };
enum container_device_cell {
        DEVICE_OF,
        DEVICE_NUMBER,
        DEVICE_NAME,
        DEVICE_LOWER,
        DEVICE_COUNTED,
        DEVICE_READ_BYTES,
        DEVICE_WRITE_BYTES,
        DEVICE_READS,
        DEVICE_WRITES,
        DEVICE_N,
};
