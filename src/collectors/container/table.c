#include "collectors/container/table.h"

#include "base/mem.h"

// clang-format off
static const struct infp_column entity_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Hash of boot id, path and inode of the cgroup: the same as long as it lives."),
};

static const struct infp_column entity_columns[] = {
        [WHO_CID - 1] = INFP_COLUMN(cId, STR, LABEL, none, MEASURED, NO, NULL, 0, "container", "The first 12 digits of the container's id, the name that LXC or nspawn has given it; in- and the cgroup's inode where neither can be seen."),
        [WHO_VERSION - 1] = INFP_COLUMN(cCgroupVersion, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Version of the control groups that count it: 1 or 2."),
        [WHO_NAME - 1] = INFP_COLUMN(cName, STR, LABEL, none, MEASURED, NO, NULL, 0, "cgroup", "Name of the cgroup: the last part of its path."),
        [WHO_PATH - 1] = INFP_COLUMN(cPath, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Path of the cgroup in its hierarchy, as infprof sees it."),
        [WHO_RUNTIME - 1] = INFP_COLUMN(cRuntime, STR, LABEL, none, DERIVED, NO, NULL, 0, "runtime", "Who made it, by the form of its path: docker, containerd, cri-o, podman, kubernetes, ecs, lxc, nspawn, libvirt; systemd for units, infprof for --own-cgroup."),
        [WHO_POD - 1] = INFP_COLUMN(cPodUid, STR, LABEL, none, MEASURED, NO, NULL, 0, "pod_uid", "Uid of the kubernetes pod."),
        [WHO_QOS - 1] = INFP_COLUMN(cPodQos, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Quality-of-service class of the pod: guaranteed, burstable or besteffort."),
        [WHO_PID - 1] = INFP_COLUMN(cPid, I64, LABEL, none, MEASURED, NO, "cgroup.procs", 0, NULL, "A process of it, the lowest pid: the first one of most containers."),
        [WHO_INODE - 1] = INFP_COLUMN(cInode, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Inode of the cgroup's directory, in v2 also its id in the kernel."),
};

static const struct infp_column container_keys[] = {
        INFP_COLUMN(container, ID64, LABEL, none, DERIVED, NO, "container", 0, NULL, "Container."),
};

static const struct infp_column container_columns[] = {
        [C_CPU_TIME - 1] = INFP_COLUMN(cCpuTime, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_cpu_seconds_total", "CPU time (cpu.stat usage_usec, v1 cpuacct.usage)."),
        [C_CPU_USER - 1] = INFP_COLUMN(cCpuTimeUserMode, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "CPU time in user mode (cpu.stat user_usec, v1 cpuacct.stat)."),
        [C_CPU_KERNEL - 1] = INFP_COLUMN(cCpuTimeKernelMode, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "CPU time in kernel mode (cpu.stat system_usec, v1 cpuacct.stat)."),
        [C_MEMORY_USED - 1] = INFP_COLUMN(cMemoryUsed, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_used_bytes", "Memory that is charged to it, page cache included."),
        [C_MEMORY_PEAK - 1] = INFP_COLUMN(cMemoryMaxUsed, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_peak_bytes", "The most that cMemoryUsed has been since the cgroup was made (memory.peak, since Linux 5.19)."),
        [C_READ_BYTES - 1] = INFP_COLUMN(cDiskReadBytes, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, "infprof_container_disk_read_bytes_total", "Bytes read from block devices; a layer above a disk that is counted itself is left out."),
        [C_WRITE_BYTES - 1] = INFP_COLUMN(cDiskWriteBytes, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, "infprof_container_disk_written_bytes_total", "Bytes written to block devices; a layer above a disk that is counted itself is left out."),
        [C_NET_RECEIVED - 1] = INFP_COLUMN(cNetworkBytesRecvd, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, "infprof_container_network_received_bytes_total", "Bytes received by the interfaces but lo of its network namespace, which containers of a pod share."),
        [C_NET_SENT - 1] = INFP_COLUMN(cNetworkBytesSent, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, "infprof_container_network_sent_bytes_total", "Bytes sent by the interfaces but lo of its network namespace, which containers of a pod share."),
        [C_PROCESSORS - 1] = INFP_COLUMN(cNumProcessors, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_container_cpus", "CPUs that it may run on: those of its effective cpuset, else all that the kernel counts for it."),
        [C_CPU_USER_NS - 1] = INFP_COLUMN(cCpuTimeUserNs, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_cpu_user_seconds_total", "CPU time in user mode at the kernel's full resolution."),
        [C_CPU_KERNEL_NS - 1] = INFP_COLUMN(cCpuTimeKernelNs, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_cpu_kernel_seconds_total", "CPU time in kernel mode at the kernel's full resolution."),
        [C_PERIODS - 1] = INFP_COLUMN(cCpuPeriods, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_cpu_periods_total", "Periods of its CPU quota in which it wanted to run."),
        [C_THROTTLED - 1] = INFP_COLUMN(cCpuThrottledPeriods, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_cpu_throttled_periods_total", "Such periods in which the quota was used up and it had to wait."),
        [C_THROTTLED_NS - 1] = INFP_COLUMN(cCpuThrottledTime, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_cpu_throttled_seconds_total", "Time that its threads waited for the quota, a sum over CPUs: it may exceed the elapsed time."),
        [C_QUOTA - 1] = INFP_COLUMN(cCpuQuota, I64, GAUGE, us, MEASURED, NO, NULL, 0, "infprof_container_cpu_quota_seconds", "CPU time that it may use in each cCpuPeriod; absent: no quota."),
        [C_PERIOD - 1] = INFP_COLUMN(cCpuPeriod, I64, GAUGE, us, MEASURED, NO, NULL, 0, "infprof_container_cpu_period_seconds", "Length of a period of the quota."),
        [C_CPU_LIMIT - 1] = INFP_COLUMN(cCpuLimit, F64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_container_cpu_limit_cpus", "CPUs that its own quota gives: cCpuQuota / cCpuPeriod."),
        [C_CPU_LIMIT_EFFECTIVE - 1] = INFP_COLUMN(cCpuLimitEffective, F64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_container_cpu_limit_effective_cpus", "The least of its own quota and those of all cgroups above it."),
        [C_CPUSET - 1] = INFP_COLUMN(cCpuset, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CPUs that it may run on, by number, the cgroups above it taken into account."),
        [C_WEIGHT - 1] = INFP_COLUMN(cCpuWeight, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_container_cpu_weight", "Its share against its neighbours (v2, 1 to 10000, by default 100)."),
        [C_SHARES - 1] = INFP_COLUMN(cCpuShares, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_container_cpu_shares", "Its share against its neighbours (v1, by default 1024)."),
        [C_MEMORY_LIMIT - 1] = INFP_COLUMN(cMemoryLimit, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_limit_bytes", "Its own memory limit; absent: none."),
        [C_MEMORY_LIMIT_EFFECTIVE - 1] = INFP_COLUMN(cMemoryLimitEffective, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_container_memory_limit_effective_bytes", "The memory limit that holds: the least of its own and those of all cgroups above it."),
        [C_MEMORY_HIGH - 1] = INFP_COLUMN(cMemoryHigh, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_high_bytes", "Use above which it is slowed down and its memory reclaimed (v2); absent: none."),
        [C_MEMORY_ANON - 1] = INFP_COLUMN(cMemoryAnon, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_anonymous_bytes", "Of cMemoryUsed: memory of programs that no file backs (v1 rss)."),
        [C_MEMORY_FILE - 1] = INFP_COLUMN(cMemoryFile, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_file_bytes", "Of cMemoryUsed: page cache, tmpfs and shared memory (v1 cache)."),
        [C_MEMORY_KERNEL - 1] = INFP_COLUMN(cMemoryKernel, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_kernel_bytes", "Of cMemoryUsed: memory of the kernel on its behalf."),
        [C_MEMORY_SHMEM - 1] = INFP_COLUMN(cMemoryShmem, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_shared_bytes", "Of cMemoryFile: tmpfs and shared memory."),
        [C_MEMORY_INACTIVE_FILE - 1] = INFP_COLUMN(cMemoryInactiveFile, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_memory_inactive_file_bytes", "Of cMemoryFile: what the kernel would drop first."),
        [C_MEMORY_WORKING_SET - 1] = INFP_COLUMN(cMemoryWorkingSet, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_container_memory_working_set_bytes", "cMemoryUsed less cMemoryInactiveFile: what kubernetes sets against limits."),
        [C_SWAP_USED - 1] = INFP_COLUMN(cSwapUsed, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_swap_used_bytes", "Its memory in swap."),
        [C_SWAP_LIMIT - 1] = INFP_COLUMN(cSwapLimit, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_container_swap_limit_bytes", "How much swap it may use (v2); absent: no limit."),
        [C_OOM_KILLS - 1] = INFP_COLUMN(cOomKills, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_oom_kills_total", "Its processes that were killed because memory ran out."),
        [C_MEMORY_LIMIT_HITS - 1] = INFP_COLUMN(cMemoryLimitHits, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_memory_limit_hits_total", "Times that its use was about to pass the limit (memory.events max, v1 failcnt)."),
        [C_MEMORY_HIGH_HITS - 1] = INFP_COLUMN(cMemoryHighHits, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_memory_high_hits_total", "Times that it was slowed down above cMemoryHigh (v2)."),
        [C_MAJOR_FAULTS - 1] = INFP_COLUMN(cMajorPageFault, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_major_page_faults_total", "Page faults that waited for a disk."),
        [C_READS - 1] = INFP_COLUMN(cDiskReads, I64, COUNTER, count, MEASURED, NONE, NULL, 0, "infprof_container_disk_reads_total", "Reads, over the devices of cDiskReadBytes."),
        [C_WRITES - 1] = INFP_COLUMN(cDiskWrites, I64, COUNTER, count, MEASURED, NONE, NULL, 0, "infprof_container_disk_writes_total", "Writes, over the devices of cDiskWriteBytes."),
        [C_PIDS - 1] = INFP_COLUMN(cPids, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_container_tasks", "Processes and threads in it."),
        [C_PIDS_LIMIT - 1] = INFP_COLUMN(cPidsLimit, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_container_tasks_limit", "How many processes and threads it may have; absent: no limit."),
        [C_PIDS_LIMIT_HITS - 1] = INFP_COLUMN(cPidsLimitHits, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_container_tasks_limit_hits_total", "Forks that failed at that limit."),
        [C_NET_PACKETS_RECEIVED - 1] = INFP_COLUMN(cNetworkPacketsRecvd, I64, COUNTER, count, MEASURED, NONE, NULL, 0, "infprof_container_network_received_packets_total", "Packets received, over the interfaces of cNetworkBytesRecvd."),
        [C_NET_PACKETS_SENT - 1] = INFP_COLUMN(cNetworkPacketsSent, I64, COUNTER, count, MEASURED, NONE, NULL, 0, "infprof_container_network_sent_packets_total", "Packets sent, over the interfaces of cNetworkBytesSent."),
        [C_CPU_SOME - 1] = INFP_COLUMN(cPressureCpuSome, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_cpu_some_seconds_total", "Time in which some task of it waited for a CPU."),
        [C_CPU_FULL - 1] = INFP_COLUMN(cPressureCpuFull, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_cpu_full_seconds_total", "Time in which all its tasks that had work waited for a CPU."),
        [C_MEMORY_SOME - 1] = INFP_COLUMN(cPressureMemorySome, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_memory_some_seconds_total", "Time in which some task of it waited for memory."),
        [C_MEMORY_FULL - 1] = INFP_COLUMN(cPressureMemoryFull, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_memory_full_seconds_total", "Time in which all its tasks that had work waited for memory."),
        [C_IO_SOME - 1] = INFP_COLUMN(cPressureIoSome, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_io_some_seconds_total", "Time in which some task of it waited for I/O."),
        [C_IO_FULL - 1] = INFP_COLUMN(cPressureIoFull, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_io_full_seconds_total", "Time in which all its tasks that had work waited for I/O."),
        [C_IRQ_FULL - 1] = INFP_COLUMN(cPressureIrqFull, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_pressure_irq_full_seconds_total", "Time that interrupts took from its tasks (Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING)."),
        [C_IS_TARGET - 1] = INFP_COLUMN(cIsTarget, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "The profiled process is in it."),
        [C_OTHERS - 1] = INFP_COLUMN(cOtherProcesses, I64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_container_other_processes", "Of the target's container: processes in it that are not the target's, infprof included; those in cgroups below it are not among them."),
};

static const struct infp_column cpu_keys[] = {
        INFP_COLUMN(container, ID64, LABEL, none, DERIVED, NO, "container", 0, NULL, "Container."),
        INFP_COLUMN(cpu, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of the CPU in the kernel."),
};

static const struct infp_column cpu_columns[] = {
        INFP_COLUMN(cCpuNTime, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_container_by_cpu_seconds_total", "CPU time on this CPU; the mission's cCpu0Time is that of CPU 0."),
};

static const struct infp_column device_keys[] = {
        INFP_COLUMN(container, ID64, LABEL, none, DERIVED, NO, "container", 0, NULL, "Container."),
        INFP_COLUMN(device, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Numbers of the device, as 8:0."),
};

static const struct infp_column device_columns[] = {
        [DEVICE_NAME - 2] = INFP_COLUMN(cDeviceName, STR, LABEL, none, MEASURED, NO, NULL, 0, "name", "Name of the device."),
        [DEVICE_LOWER - 2] = INFP_COLUMN(cDeviceLower, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Whole disks under it: the same bytes pass them as well."),
        [DEVICE_COUNTED - 2] = INFP_COLUMN(cDeviceCounted, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "It is in the sums cDiskReadBytes and so on; a layer whose disk is there too is not."),
        [DEVICE_READ_BYTES - 2] = INFP_COLUMN(cDeviceReadBytes, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, "infprof_container_device_read_bytes_total", "Bytes read from it."),
        [DEVICE_WRITE_BYTES - 2] = INFP_COLUMN(cDeviceWriteBytes, I64, COUNTER, bytes, MEASURED, NONE, NULL, 0, "infprof_container_device_written_bytes_total", "Bytes written to it."),
        [DEVICE_READS - 2] = INFP_COLUMN(cDeviceReads, I64, COUNTER, count, MEASURED, NONE, NULL, 0, "infprof_container_device_reads_total", "Reads from it."),
        [DEVICE_WRITES - 2] = INFP_COLUMN(cDeviceWrites, I64, COUNTER, count, MEASURED, NONE, NULL, 0, "infprof_container_device_writes_total", "Writes to it."),
};
// clang-format on

_Static_assert(INFP_COUNT(entity_columns) == WHO_N - 1, "a column for each cell");
_Static_assert(INFP_COUNT(container_columns) == C_N - 1, "a column for each cell");
_Static_assert(INFP_COUNT(device_columns) == DEVICE_N - 2, "a column for each cell");

const struct infp_table infp_table_container = {
        .name = "container",
        .help = "Containers, and the control group of the target if it is not in one.",
        .keys = entity_keys,
        .n_keys = 1,
        .columns = entity_columns,
        .n_columns = WHO_N - 1,
        .entity = true,
};

const struct infp_table infp_table_containers = {
        .name = "containers",
        .help = "What containers use, and what they may use; the target's comes first.",
        .keys = container_keys,
        .n_keys = 1,
        .columns = container_columns,
        .n_columns = C_N - 1,
        .section = "containers",
        .series = "container",
        .lead = true,
        .lead_by = "cIsTarget",
};

const struct infp_table infp_table_container_cpu = {
        .name = "container_cpu",
        .help = "CPU time of containers on each CPU; only v1 control groups count it.",
        .keys = cpu_keys,
        .n_keys = 2,
        .columns = cpu_columns,
        .n_columns = INFP_COUNT(cpu_columns),
        .section = "containers",
        .spread = true,
};

const struct infp_table infp_table_container_device = {
        .name = "container_device",
        .help = "Reads and writes of containers on each block device, layers such as LVM included.",
        .keys = device_keys,
        .n_keys = 2,
        .columns = device_columns,
        .n_columns = INFP_COUNT(device_columns),
        .section = "container_device",
};
