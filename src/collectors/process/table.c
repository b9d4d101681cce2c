#include "collectors/process/table.h"

#include "base/mem.h"

// clang-format off
static const struct infp_column entity_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Hash of boot id, pid and start time: the process, even if another one gets its pid later."),
};

static const struct infp_column entity_columns[] = {
        [ENTITY_PID - 1] = INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, "stat:1", 0, "pid", "Pid."),
        [ENTITY_PARENT - 1] = INFP_COLUMN(pFirstParentId, I64, LABEL, none, MEASURED, NO, "stat:4", 0, NULL, "Pid of the parent when the process was first seen."),
        [ENTITY_NAME - 1] = INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, "stat:2", 0, "name", "Name that the kernel keeps (comm, 15 bytes)."),
        [ENTITY_CMDLINE - 1] = INFP_COLUMN(pCmdline, STR, LABEL, none, MEASURED, NO, "cmdline", 0, NULL, "Command line, the first 4,096 bytes, secrets masked; absent for kernel threads and what was a zombie at first sight."),
        [ENTITY_START - 1] = INFP_COLUMN(pStartTime, TS_NS, LABEL, none, DERIVED, NO, "stat:22", 0, NULL, "When it was started, in steps of 10 ms."),
        [ENTITY_UID - 1] = INFP_COLUMN(pUserId, I64, LABEL, none, MEASURED, NO, "status:Uid", 0, NULL, "Effective user id."),
};

static const struct infp_column process_keys[] = {
        INFP_COLUMN(process, ID64, LABEL, none, DERIVED, NO, "process", 0, NULL, "Process."),
};

static const struct infp_column process_columns[] = {
        [PROCESS_STATE - 1] = INFP_COLUMN(pState, STR, LABEL, none, MEASURED, NO, "stat:3", 0, NULL, "R runs, S sleeps, D waits uninterruptibly, T stopped, t traced, I idle, Z ended and not yet waited for; X in the last row of a process that has ended."),
        [PROCESS_IN_TREE - 1] = INFP_COLUMN(pInTree, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of the target: the command or the attached process, or a descendant."),
        [PROCESS_PARENT - 1] = INFP_COLUMN(pParentId, I64, LABEL, none, MEASURED, NO, "stat:4", 0, NULL, "Pid of the parent."),
        [PROCESS_THREADS - 1] = INFP_COLUMN(pNumThreads, I64, GAUGE, count, MEASURED, NO, "stat:20", 0, "infprof_process_threads", "Threads."),
        [PROCESS_USER - 1] = INFP_COLUMN(pCpuTimeUserMode, I64, COUNTER, cs, MEASURED, ZERO, "stat:14", 0, "infprof_process_cpu_user_seconds_total", "Time in user mode of all its threads."),
        [PROCESS_KERNEL - 1] = INFP_COLUMN(pCpuTimeKernelMode, I64, COUNTER, cs, MEASURED, ZERO, "stat:15", 0, "infprof_process_cpu_kernel_seconds_total", "Time in kernel mode of all its threads."),
        [PROCESS_CHILDREN_USER - 1] = INFP_COLUMN(pChildrenUserMode, I64, COUNTER, cs, MEASURED, ZERO, "stat:16", 0, "infprof_process_children_cpu_user_seconds_total", "Time in user mode of children that it has waited for, and of theirs."),
        [PROCESS_CHILDREN_KERNEL - 1] = INFP_COLUMN(pChildrenKernelMode, I64, COUNTER, cs, MEASURED, ZERO, "stat:17", 0, "infprof_process_children_cpu_kernel_seconds_total", "Time in kernel mode of children that it has waited for, and of theirs."),
        [PROCESS_CPU_NS - 1] = INFP_COLUMN(pCpuTimeNs, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_process_cpu_seconds_total", "Time in user and kernel mode of all its threads, by its CPU clock."),
        [PROCESS_VOLUNTARY - 1] = INFP_COLUMN(pVoluntaryContextSwitches, I64, COUNTER, count, MEASURED, ZERO, "status:voluntary_ctxt_switches", 0, "infprof_process_voluntary_context_switches_total", "Context switches of the main thread because it waited."),
        [PROCESS_NONVOLUNTARY - 1] = INFP_COLUMN(pNonvoluntaryContextSwitches, I64, COUNTER, count, MEASURED, ZERO, "status:nonvoluntary_ctxt_switches", 0, "infprof_process_nonvoluntary_context_switches_total", "Context switches of the main thread because another was to run."),
        [PROCESS_BLOCK_DELAY - 1] = INFP_COLUMN(pBlockIODelays, I64, COUNTER, cs, MEASURED, ZERO, "stat:42", 0, "infprof_process_block_io_delay_seconds_total", "Time that the main thread waited for block devices; only while the kernel's delay accounting is on."),
        [PROCESS_VMS - 1] = INFP_COLUMN(pVirtualMemoryBytes, I64, GAUGE, bytes, MEASURED, NO, "stat:23", 0, "infprof_process_virtual_memory_bytes", "Address space."),
        [PROCESS_RSS - 1] = INFP_COLUMN(pResidentSetSize, I64, GAUGE, bytes, MEASURED, NO, "statm:2", 0, "infprof_process_resident_memory_bytes", "Memory in RAM, pages that it shares with others included."),
        [PROCESS_RSS_ANON - 1] = INFP_COLUMN(pRssAnonBytes, I64, GAUGE, bytes, MEASURED, NO, "status:RssAnon", 1024, "infprof_process_resident_anonymous_bytes", "Memory in RAM that no file backs."),
        [PROCESS_RSS_FILE - 1] = INFP_COLUMN(pRssFileBytes, I64, GAUGE, bytes, MEASURED, NO, "status:RssFile", 1024, "infprof_process_resident_file_bytes", "Memory in RAM that maps files, such as model weights."),
        [PROCESS_RSS_SHMEM - 1] = INFP_COLUMN(pRssShmemBytes, I64, GAUGE, bytes, MEASURED, NO, "status:RssShmem", 1024, "infprof_process_resident_shared_bytes", "Shared memory in RAM."),
        [PROCESS_RSS_PEAK - 1] = INFP_COLUMN(pRssPeakBytes, I64, GAUGE, bytes, MEASURED, NO, "status:VmHWM", 1024, "infprof_process_resident_memory_peak_bytes", "Most memory in RAM so far."),
        [PROCESS_PSS - 1] = INFP_COLUMN(pPssBytes, I64, GAUGE, bytes, MEASURED, NO, "smaps_rollup:Pss", 1024, "infprof_process_proportional_memory_bytes", "Memory in RAM, shared pages divided by the number of sharers; read only on request."),
        [PROCESS_SWAP - 1] = INFP_COLUMN(pSwapBytes, I64, GAUGE, bytes, MEASURED, NO, "status:VmSwap", 1024, "infprof_process_swap_bytes", "Memory in swap."),
        [PROCESS_MINOR_FAULTS - 1] = INFP_COLUMN(pMinorFaults, I64, COUNTER, count, MEASURED, ZERO, "stat:10", 0, "infprof_process_minor_page_faults_total", "Page faults that needed no disk."),
        [PROCESS_MAJOR_FAULTS - 1] = INFP_COLUMN(pMajorFaults, I64, COUNTER, count, MEASURED, ZERO, "stat:12", 0, "infprof_process_major_page_faults_total", "Page faults that waited for a disk."),
        [PROCESS_CHILDREN_MINOR - 1] = INFP_COLUMN(pChildrenMinorFaults, I64, COUNTER, count, MEASURED, ZERO, "stat:11", 0, "infprof_process_children_minor_page_faults_total", "Minor page faults of children that it has waited for."),
        [PROCESS_CHILDREN_MAJOR - 1] = INFP_COLUMN(pChildrenMajorFaults, I64, COUNTER, count, MEASURED, ZERO, "stat:13", 0, "infprof_process_children_major_page_faults_total", "Major page faults of children that it has waited for."),
        [PROCESS_CPU - 1] = INFP_COLUMN(pLastCpu, I64, LABEL, none, MEASURED, NO, "stat:39", 0, NULL, "CPU on which the main thread ran last."),
        [PROCESS_READ_CHARS - 1] = INFP_COLUMN(pReadCharsBytes, I64, COUNTER, bytes, MEASURED, ZERO, "io:rchar", 0, "infprof_process_read_chars_bytes_total", "Bytes by read calls, from caches too; sockets' recv is not included; those of children that it has waited for are."),
        [PROCESS_WRITE_CHARS - 1] = INFP_COLUMN(pWriteCharsBytes, I64, COUNTER, bytes, MEASURED, ZERO, "io:wchar", 0, "infprof_process_write_chars_bytes_total", "Bytes by write calls, into caches too; sockets' send is not included; those of children that it has waited for are."),
        [PROCESS_READ_CALLS - 1] = INFP_COLUMN(pReadCalls, I64, COUNTER, count, MEASURED, ZERO, "io:syscr", 0, "infprof_process_read_calls_total", "Read calls, with those of children that it has waited for."),
        [PROCESS_WRITE_CALLS - 1] = INFP_COLUMN(pWriteCalls, I64, COUNTER, count, MEASURED, ZERO, "io:syscw", 0, "infprof_process_write_calls_total", "Write calls, with those of children that it has waited for."),
        [PROCESS_READ_BYTES - 1] = INFP_COLUMN(pReadBytes, I64, COUNTER, bytes, MEASURED, ZERO, "io:read_bytes", 0, "infprof_process_read_bytes_total", "Bytes fetched from block devices, with those of children that it has waited for."),
        [PROCESS_WRITE_BYTES - 1] = INFP_COLUMN(pWriteBytes, I64, COUNTER, bytes, MEASURED, ZERO, "io:write_bytes", 0, "infprof_process_write_bytes_total", "Bytes sent to block devices, with those of children that it has waited for."),
        [PROCESS_CANCELLED_BYTES - 1] = INFP_COLUMN(pCancelledWriteBytes, I64, COUNTER, bytes, MEASURED, ZERO, "io:cancelled_write_bytes", 0, "infprof_process_cancelled_write_bytes_total", "Bytes of pWriteBytes that never reached a disk, since their file was cut or removed before."),
        [PROCESS_RUN_DELAY - 1] = INFP_COLUMN(pRunDelayNs, I64, COUNTER, ns, MEASURED, ZERO, "task/TID/schedstat:2", 0, "infprof_process_run_delay_seconds_total", "Time in which its threads were ready to run and had no CPU, the sum over threads, ended ones as last read; null = it is not of the target."),
};

static const struct infp_column tree_columns[] = {
        [TREE_ALL] = INFP_COLUMN(pNumProcesses, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_processes", "Processes that the table processes follows."),
        [TREE_PROCESSES] = INFP_COLUMN(tree_processes, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_tree_processes", "Processes of the tree, zombies included; without a target all of the machine's, as in all tree_ columns."),
        [TREE_THREADS] = INFP_COLUMN(tree_threads, I64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_tree_threads", "Threads of the tree."),
        [TREE_RSS] = INFP_COLUMN(tree_rss_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_tree_resident_memory_bytes", "Sum of pResidentSetSize: pages that processes of the tree share count once for each."),
        [TREE_VMS] = INFP_COLUMN(tree_vms_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_tree_virtual_memory_bytes", "Sum of pVirtualMemoryBytes."),
        [TREE_SWAP] = INFP_COLUMN(tree_swap_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_tree_swap_bytes", "Sum of pSwapBytes."),
        [TREE_CPU_NS] = INFP_COLUMN(tree_cpu_ns, I64, COUNTER, ns, DERIVED, ZERO, NULL, 0, "infprof_tree_cpu_seconds_total", "CPU time of the tree: that of live processes by their own clocks, that of ended ones as wait(2) reported it."),
        [TREE_USER] = INFP_COLUMN(tree_cpu_user, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, "infprof_tree_cpu_user_seconds_total", "CPU time of the tree in user mode, the ended included."),
        [TREE_SYSTEM] = INFP_COLUMN(tree_cpu_system, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, "infprof_tree_cpu_system_seconds_total", "CPU time of the tree in kernel mode, the ended included."),
        [TREE_MINOR_FAULTS] = INFP_COLUMN(tree_minor_faults, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, "infprof_tree_minor_page_faults_total", "Minor page faults of the tree, the ended included."),
        [TREE_MAJOR_FAULTS] = INFP_COLUMN(tree_major_faults, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, "infprof_tree_major_page_faults_total", "Major page faults of the tree, the ended included."),
        [TREE_VOLUNTARY] = INFP_COLUMN(tree_voluntary_switches, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, "infprof_tree_voluntary_context_switches_total", "Sum of pVoluntaryContextSwitches, the ended with their last."),
        [TREE_INVOLUNTARY] = INFP_COLUMN(tree_involuntary_switches, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, "infprof_tree_involuntary_context_switches_total", "Sum of pNonvoluntaryContextSwitches, the ended with their last."),
        [TREE_READ_CHARS] = INFP_COLUMN(tree_rchar, I64, COUNTER, bytes, DERIVED, ZERO, NULL, 0, "infprof_tree_read_chars_bytes_total", "Bytes by read calls of the tree, the ended included."),
        [TREE_WRITE_CHARS] = INFP_COLUMN(tree_wchar, I64, COUNTER, bytes, DERIVED, ZERO, NULL, 0, "infprof_tree_write_chars_bytes_total", "Bytes by write calls of the tree, the ended included."),
        [TREE_READ_BYTES] = INFP_COLUMN(tree_read_bytes, I64, COUNTER, bytes, DERIVED, ZERO, NULL, 0, "infprof_tree_read_bytes_total", "Bytes that the tree fetched from block devices, the ended included."),
        [TREE_WRITE_BYTES] = INFP_COLUMN(tree_write_bytes, I64, COUNTER, bytes, DERIVED, ZERO, NULL, 0, "infprof_tree_write_bytes_total", "Bytes that the tree sent to block devices, the ended included."),
        [TREE_RSS_PEAK] = INFP_COLUMN(tree_process_rss_peak_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_tree_process_resident_memory_peak_bytes", "Most memory in RAM that one process of the tree has had so far: of the live pRssPeakBytes, of the ended what the kernel gives to who waits for them."),
        [TREE_RUN_DELAY] = INFP_COLUMN(tree_run_delay_ns, I64, COUNTER, ns, DERIVED, ZERO, NULL, 0, "infprof_tree_run_delay_seconds_total", "Sum of pRunDelayNs, the ended with their last; null = the machine is recorded, which is no target."),
};
// clang-format on

_Static_assert(INFP_COUNT(entity_columns) == ENTITY_N - 1, "a column for each cell");
_Static_assert(INFP_COUNT(process_columns) == PROCESS_N - 1, "a column for each cell");
_Static_assert(INFP_COUNT(tree_columns) == TREE_N, "a column for each cell");

const struct infp_table infp_table_process = {
        .name = "process",
        .help = "Processes: written when first seen, and again when name, command line or user have changed.",
        .keys = entity_keys,
        .n_keys = 1,
        .columns = entity_columns,
        .n_columns = ENTITY_N - 1,
        .entity = true,
};

const struct infp_table infp_table_processes = {
        .name = "processes",
        .help = "What processes use: a row when something changed, at least each 60 s, and one with state X at the "
                "end.",
        .keys = process_keys,
        .n_keys = 1,
        .columns = process_columns,
        .n_columns = PROCESS_N - 1,
        .on_change = true,
        .section = "processes",
};

const struct infp_table infp_table_tree = {
        .name = "tree",
        .help = "Totals of the target's process tree.",
        .columns = tree_columns,
        .n_columns = TREE_N,
        .section = "processes",
        .series = "",
};
