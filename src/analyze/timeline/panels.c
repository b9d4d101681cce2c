/* Which metrics share a panel. Columns that a run lacks are left out, and panels without any column. */
#include <math.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"

#define PERCENT INFP_SCALE_PERCENT
#define OF_CPUS INFP_SCALE_OF_CPUS
#define ONE INFP_PANEL_ONE
#define EACH INFP_PANEL_EACH
#define ACROSS INFP_PANEL_ACROSS
#define GPUS                                \
        {                                   \
                "nvidia", "amdgpu", "intel" \
        }
#define CORE_NOTE "100 % is one core"

// clang-format off
const struct infp_panel infp_panels[] = {
        { "tree-cpu", "tree", "CPU of the target", { "tree" }, ONE, 0, 0, 1, "%", "line", NAN, CORE_NOTE,
          { { "all", "tree_cpu_ns", NULL, PERCENT }, { "user", "tree_cpu_user", NULL, PERCENT }, { "system", "tree_cpu_system", NULL, PERCENT } }, { { 0 } } },
        { "tree-memory", "tree", "Memory of the target", { "tree" }, ONE, 0, 0, 1, "bytes", "line", NAN, NULL,
          { { "resident", "tree_rss_bytes", NULL, 0 }, { "swapped out", "tree_swap_bytes", NULL, 0 } }, { { 0 } } },
        { "tree-io", "tree", "Reads and writes of the target", { "tree" }, ONE, 0, 0, 1, "bytes/s", "line", NAN, "Disk I/O; calls also count what the page cache served",
          { { "read", "tree_read_bytes", NULL, 0 }, { "written", "tree_write_bytes", NULL, 0 }, { "read by calls", "tree_rchar", NULL, 0 }, { "written by calls", "tree_wchar", NULL, 0 } }, { { 0 } } },
        { "tree-tasks", "tree", "Processes and threads of the target", { "tree" }, ONE, 0, 0, 1, "", "line", NAN, NULL,
          { { "processes", "tree_processes", NULL, 0 }, { "threads", "tree_threads", NULL, 0 } }, { { 0 } } },
        { "tree-switches", "tree", "Context switches and page faults of the target", { "tree" }, ONE, 0, 0, 1, "/s", "line", NAN, NULL,
          { { "waited (voluntary)", "tree_voluntary_switches", NULL, 0 }, { "preempted (involuntary)", "tree_involuntary_switches", NULL, 0 }, { "major faults", "tree_major_faults", NULL, 0 } }, { { 0 } } },

        { "engine-tokens", "engine", "Tokens per second", { "vllm" }, EACH, 0, 0, 4, "tokens/s", "line", NAN, "As the engine counts them; some engines count a request's tokens only when it ends",
          { { "generated", "tokens_generation_total", NULL, 0 }, { "generated, step by step", "tokens_generation_live_total", NULL, 0 }, { "prompt", "tokens_prompt_total", NULL, 0 } }, { { 0 } } },
        { "engine-requests", "engine", "Requests in the engine", { "vllm" }, EACH, 0, 0, 4, "", "line", NAN, NULL,
          { { "running", "system_requests_running", NULL, 0 }, { "waiting", "system_requests_waiting", NULL, 0 }, { "swapped", "system_requests_swapped", NULL, 0 } },
          { { "slots", "system_slots", 0 } } },
        { "engine-latency", "engine", "Latency of requests", { "vllm" }, EACH, 0, 0, 4, "s", "line", NAN, "Mean of requests that finished since the previous scrape; percentiles below",
          { { "time to first token", "latency_ttft_s_sum", "latency_ttft_s_count", 0 }, { "whole request", "latency_e2e_s_sum", "latency_e2e_s_count", 0 }, { "in the queue", "latency_queue_s_sum", "latency_queue_s_count", 0 },
            { "prefill", "latency_prefill_s_sum", "latency_prefill_s_count", 0 }, { "decode", "latency_decode_s_sum", "latency_decode_s_count", 0 } }, { { 0 } } },
        { "engine-token-time", "engine", "Time between tokens", { "vllm" }, EACH, 0, 0, 4, "s", "line", NAN, "Mean of tokens since the previous scrape",
          { { "between tokens", "latency_inter_token_s_sum", "latency_inter_token_s_count", 0 }, { "per output token", "latency_tpot_s_sum", "latency_tpot_s_count", 0 }, { "a step", "latency_step_s_sum", "latency_step_s_count", 0 } }, { { 0 } } },
        { "engine-cache", "engine", "Caches of the engine", { "vllm" }, EACH, 0, 0, 4, "%", "line", 100, NULL,
          { { "KV cache in use", "cache_kv_usage_percent", NULL, PERCENT }, { "prefix cache hits", "cache_prefix_hits", "cache_prefix_queries", PERCENT }, { "draft tokens accepted", "spec_accepted_tokens_total", "spec_draft_tokens_total", PERCENT } }, { { 0 } } },
        { "engine-ends", "engine", "Finished requests", { "vllm" }, EACH, 0, 0, 4, "/s", "line", NAN, NULL,
          { { "finished", "requests_finished_total", NULL, 0 }, { "with an error", "requests_errored_total", NULL, 0 }, { "aborted", "requests_aborted_total", NULL, 0 }, { "preempted", "system_preemptions_total", NULL, 0 } }, { { 0 } } },

        { "gpu-utilization", "gpu", "Utilisation of the GPU", GPUS, EACH, 0, 2, 4, "%", "line", 100, "Share of time in which at least one kernel ran, however little of the chip it used",
          { { "GPU", "gUtilizationGpu", NULL, PERCENT }, { "memory interface", "gUtilizationMem", NULL, PERCENT }, { "encoder", "gUtilizationEncoder", NULL, PERCENT }, { "decoder", "gUtilizationDecoder", NULL, PERCENT }, { "copy", "gUtilizationCopy", NULL, PERCENT }, { "compute", "gUtilizationCompute", NULL, PERCENT } }, { { 0 } } },
        { "gpu-activity", "gpu", "Activity of the GPU's units", GPUS, EACH, 0, 2, 4, "%", "line", 100, NULL,
          { { "multiprocessors", "gGpmSmActive", NULL, PERCENT }, { "warps resident", "gGpmSmOccupancy", NULL, PERCENT }, { "tensor cores", "gGpmTensorActive", NULL, PERCENT }, { "memory bandwidth", "gGpmDramBandwidth", NULL, PERCENT }, { "FP16", "gGpmFp16Active", NULL, PERCENT }, { "FP32", "gGpmFp32Active", NULL, PERCENT } }, { { 0 } } },
        { "gpu-memory", "gpu", "Memory of the GPU", GPUS, EACH, 0, 2, 4, "bytes", "line", NAN, NULL,
          { { "used", "gMemoryUsedBytes", NULL, 0 }, { "reserved by the driver", "gMemoryReservedBytes", NULL, 0 }, { "of the system", "gSystemMemoryUsedBytes", NULL, 0 } }, { { "total", "gMemoryTotalBytes", 0 } } },
        { "gpu-power", "gpu", "Power of the GPU", GPUS, EACH, 0, 2, 4, "W", "line", NAN, NULL,
          { { "drawn", "gPowerDrawW", NULL, 0 }, { "average", "gPowerAverageW", NULL, 0 }, { "instant", "gPowerInstantW", NULL, 0 }, { "by the energy counter", "gEnergyJoules", NULL, 0 } }, { { "limit", "gPowerLimitEnforcedW", 0 }, { "limit set", "gPowerLimitW", 0 } } },
        { "gpu-temperature", "gpu", "Temperature of the GPU", GPUS, EACH, 0, 2, 4, "C", "line", NAN, NULL,
          { { "chip", "gTemperatureC", NULL, 0 }, { "memory", "gTemperatureMemoryC", NULL, 0 }, { "hottest spot", "gTemperatureHotspotC", NULL, 0 } }, { { "slows down", "gTemperatureSlowdownC", 0 } } },
        { "gpu-clocks", "gpu", "Clocks of the GPU", GPUS, EACH, 0, 2, 4, "Hz", "line", NAN, NULL,
          { { "graphics", "gClockGraphicsMhz", NULL, 0 }, { "multiprocessors", "gClockSmMhz", NULL, 0 }, { "memory", "gClockMemMhz", NULL, 0 } }, { { "most", "gClockSmMaxMhz", 0 } } },
        { "gpu-throttling", "gpu", "What slowed the GPU's clocks", GPUS, EACH, 0, 2, 4, "%", "line", 100, "Share of the time",
          { { "power", "gViolationPowerNs", NULL, PERCENT }, { "temperature", "gViolationThermalNs", NULL, PERCENT }, { "board limit", "gViolationBoardLimitNs", NULL, PERCENT }, { "reliability", "gViolationReliabilityNs", NULL, PERCENT } }, { { 0 } } },
        { "gpu-pcie", "gpu", "PCIe and NVLink of the GPU", GPUS, EACH, 0, 2, 4, "bytes/s", "line", NAN, NULL,
          { { "PCIe sent", "gPcieTxKbps", NULL, 0 }, { "PCIe received", "gPcieRxKbps", NULL, 0 }, { "PCIe sent (counter)", "gPcieTxBytes", NULL, 0 }, { "PCIe received (counter)", "gPcieRxBytes", NULL, 0 }, { "NVLink sent", "gNvlinkTxBytes", NULL, 0 }, { "NVLink received", "gNvlinkRxBytes", NULL, 0 } }, { { 0 } } },
        { "gpus-utilization", "gpu", "Utilisation of the GPUs", GPUS, ACROSS, 3, 0, 16, "%", "line", 100, "Share of time in which at least one kernel ran", { { "", "gUtilizationGpu", NULL, PERCENT } }, { { 0 } } },
        { "gpus-memory", "gpu", "Memory of the GPUs", GPUS, ACROSS, 3, 0, 16, "bytes", "line", NAN, NULL, { { "", "gMemoryUsedBytes", NULL, 0 } }, { { "total", "gMemoryTotalBytes", 0 } } },
        { "gpus-power", "gpu", "Power of the GPUs", GPUS, ACROSS, 3, 0, 16, "W", "line", NAN, NULL, { { "", "gPowerDrawW", NULL, 0 }, { "", "gPowerAverageW", NULL, 0 }, { "", "gEnergyJoules", NULL, 0 } }, { { "limit", "gPowerLimitEnforcedW", 0 } } },
        { "gpus-temperature", "gpu", "Temperature of the GPUs", GPUS, ACROSS, 3, 0, 16, "C", "line", NAN, NULL, { { "", "gTemperatureC", NULL, 0 } }, { { "slows down", "gTemperatureSlowdownC", 0 } } },
        { "gpus-clocks", "gpu", "Clocks of the GPUs", GPUS, ACROSS, 3, 0, 16, "Hz", "line", NAN, NULL, { { "", "gClockSmMhz", NULL, 0 }, { "", "gClockGraphicsMhz", NULL, 0 } }, { { "most", "gClockSmMaxMhz", 0 } } },
        { "gpus-received", "gpu", "PCIe, received by the GPUs", GPUS, ACROSS, 3, 0, 16, "bytes/s", "line", NAN, NULL, { { "", "gPcieRxKbps", NULL, 0 }, { "", "gPcieRxBytes", NULL, 0 } }, { { 0 } } },
        { "gpus-sent", "gpu", "PCIe, sent by the GPUs", GPUS, ACROSS, 3, 0, 16, "bytes/s", "line", NAN, NULL, { { "", "gPcieTxKbps", NULL, 0 }, { "", "gPcieTxBytes", NULL, 0 } }, { { 0 } } },

        { "container-cpu", "container", "CPU", { "containers" }, EACH, 0, 0, 3, "%", "line", NAN, CORE_NOTE,
          { { "all", "cCpuTime", NULL, PERCENT }, { "user", "cCpuTimeUserNs", NULL, PERCENT }, { "system", "cCpuTimeKernelNs", NULL, PERCENT } }, { { "limit", "cCpuLimitEffective", PERCENT } } },
        { "container-throttling", "container", "Throttling", { "containers" }, EACH, 0, 0, 3, "%", "line", NAN, "Of the quota's periods in which it wanted to run; of the time of all its CPUs together",
          { { "periods throttled", "cCpuThrottledPeriods", "cCpuPeriods", PERCENT }, { "time held back", "cCpuThrottledTime", NULL, PERCENT } }, { { 0 } } },
        { "container-memory", "container", "Memory", { "containers" }, EACH, 0, 0, 3, "bytes", "line", NAN, NULL,
          { { "used", "cMemoryUsed", NULL, 0 }, { "working set", "cMemoryWorkingSet", NULL, 0 }, { "of programs", "cMemoryAnon", NULL, 0 }, { "of files", "cMemoryFile", NULL, 0 } }, { { "limit", "cMemoryLimitEffective", 0 }, { "high", "cMemoryHigh", 0 } } },
        { "container-pressure", "container", "Time in which tasks waited", { "containers" }, EACH, 0, 0, 3, "%", "line", 100, "some: at least one; full: all at once",
          { { "CPU, some", "cPressureCpuSome", NULL, PERCENT }, { "memory, some", "cPressureMemorySome", NULL, PERCENT }, { "memory, full", "cPressureMemoryFull", NULL, PERCENT }, { "I/O, some", "cPressureIoSome", NULL, PERCENT }, { "I/O, full", "cPressureIoFull", NULL, PERCENT } }, { { 0 } } },
        { "container-io", "container", "Disk and network", { "containers" }, EACH, 0, 0, 3, "bytes/s", "line", NAN, NULL,
          { { "read", "cDiskReadBytes", NULL, 0 }, { "written", "cDiskWriteBytes", NULL, 0 }, { "received", "cNetworkBytesRecvd", NULL, 0 }, { "sent", "cNetworkBytesSent", NULL, 0 } }, { { 0 } } },
        { "containers-cpu", "container", "CPU of all containers", { "containers" }, ACROSS, 2, 0, 8, "%", "line", NAN, CORE_NOTE, { { "", "cCpuTime", NULL, PERCENT } }, { { 0 } } },
        { "containers-memory", "container", "Memory of all containers", { "containers" }, ACROSS, 2, 0, 8, "bytes", "line", NAN, NULL, { { "", "cMemoryUsed", NULL, 0 } }, { { 0 } } },

        { "pressure", "pressure", "Time in which tasks of the machine waited", { "pressure" }, ONE, 0, 0, 1, "%", "line", 100, "some: at least one; full: all at once",
          { { "CPU, some", "vPressureCpuSome", NULL, PERCENT }, { "memory, some", "vPressureMemorySome", NULL, PERCENT }, { "memory, full", "vPressureMemoryFull", NULL, PERCENT }, { "I/O, some", "vPressureIoSome", NULL, PERCENT }, { "I/O, full", "vPressureIoFull", NULL, PERCENT } }, { { 0 } } },
        { "host-cpu", "host", "CPU of the machine", { "cpu" }, ONE, 0, 0, 1, "%", "stack", 100, "Of all CPUs together",
          { { "user", "vCpuTimeUserMode", NULL, OF_CPUS }, { "nice", "vCpuNice", NULL, OF_CPUS }, { "system", "vCpuTimeKernelMode", NULL, OF_CPUS }, { "interrupts", "vCpuTimeIntSrvc", NULL, OF_CPUS }, { "soft interrupts", "vCpuTimeSoftIntSrvc", NULL, OF_CPUS }, { "waiting for I/O", "vCpuTimeIOWait", NULL, OF_CPUS }, { "stolen by the hypervisor", "vCpuSteal", NULL, OF_CPUS } }, { { 0 } } },
        { "host-memory", "host", "Memory of the machine", { "mem" }, ONE, 0, 0, 1, "bytes", "line", NAN, NULL,
          { { "used", "vMemoryUsed", NULL, 0 }, { "page cache", "vMemoryCached", NULL, 0 }, { "free", "vMemoryFree", NULL, 0 }, { "swap used", "vSwapUsed", NULL, 0 } }, { { "total", "vMemoryTotal", 0 } } },
        { "host-load", "host", "Load of the machine", { "cpu" }, ONE, 0, 0, 1, "", "line", NAN, NULL,
          { { "load average, 1 min", "vLoadAvg", NULL, 0 }, { "runnable", "vProcessesRunning", NULL, 0 }, { "blocked", "vProcessesBlocked", NULL, 0 } }, { { 0 } } },
        { "host-clock", "host", "Clock of the CPUs", { "cpu_clock" }, ONE, 0, 0, 1, "Hz", "line", NAN, NULL,
          { { "mean", "vCpuMhz", NULL, 0 }, { "slowest", "vCpuMhzMin", NULL, 0 }, { "fastest", "vCpuMhzMax", NULL, 0 } }, { { 0 } } },
        { "host-temperature", "host", "Temperature of the CPU", { "thermal" }, ONE, 0, 0, 1, "C", "line", NAN, NULL, { { "CPU", "vCpuTemperature", NULL, 0 } }, { { 0 } } },
        { "host-paging", "host", "Paging of the machine", { "mem" }, ONE, 0, 0, 1, "/s", "line", NAN, NULL,
          { { "major faults", "vMajorPageFault", NULL, 0 }, { "pages swapped in", "vSwapInPages", NULL, 0 }, { "pages swapped out", "vSwapOutPages", NULL, 0 } }, { { 0 } } },

        { "disk-bytes", "io", "Disks", { "disk" }, ONE, 0, 0, 1, "bytes/s", "line", NAN, NULL, { { "read", "vDiskReadBytes", NULL, 0 }, { "written", "vDiskWriteBytes", NULL, 0 } }, { { 0 } } },
        { "disk-latency", "io", "Disk latency", { "disk" }, ONE, 0, 0, 1, "s", "line", NAN, "Mean, including the kernel's queue", { { "read", "vDiskReadTime", "vDiskSuccessfulReads", 0 }, { "write", "vDiskWriteTime", "vDiskSuccessfulWrites", 0 } }, { { 0 } } },
        { "disk-busy", "io", "Disk busy time", { "disk_device" }, ACROSS, 0, 0, 4, "%", "line", 100, "A disk that serves requests in parallel can be busy all the time and not saturated", { { "", "vDiskIOTime", NULL, PERCENT } }, { { 0 } } },
        { "net-bytes", "net", "Network", { "net" }, ONE, 0, 0, 1, "bytes/s", "line", NAN, "Without loopback", { { "received", "vNetworkBytesRecvd", NULL, 0 }, { "sent", "vNetworkBytesSent", NULL, 0 } }, { { 0 } } },
        { "net-received", "net", "Received by interface", { "net_interface" }, ACROSS, 2, 0, 4, "bytes/s", "line", NAN, NULL, { { "", "vNetworkBytesRecvd", NULL, 0 } }, { { 0 } } },
        { "net-sent", "net", "Sent by interface", { "net_interface" }, ACROSS, 2, 0, 4, "bytes/s", "line", NAN, NULL, { { "", "vNetworkBytesSent", NULL, 0 } }, { { 0 } } },

        { "energy-power", "energy", "Power of the machine", { "energy_total" }, ONE, 0, 0, 1, "W", "line", NAN, "From its energy meters", { { "machine", "eMachineJoules", NULL, 0 }, { "packages", "ePackageJoules", NULL, 0 }, { "cores", "eCoreJoules", NULL, 0 }, { "memory", "eDramJoules", NULL, 0 }, { "platform", "ePsysJoules", NULL, 0 } }, { { 0 } } },
        { "energy-zones", "energy", "Power by zone", { "energy" }, ACROSS, 2, 0, 8, "W", "line", NAN, "Zones can be nested: do not add them up", { { "", "eJoules", NULL, 0 } }, { { 0 } } },
};
const unsigned infp_panels_n = INFP_COUNT(infp_panels);

static const struct infp_panel_table tables[] = {
        { .table = "containers", .word = "", .rank = "cCpuTime", .first = "cIsTarget", .label = { "cName", "cId" }, .entity = "container" },
        { .table = "vllm", .word = "engine", .number = "number", .label = { "model", "url" }, .entity = "engines", .absent_is_new = true },
        { .table = "nvidia", .word = "GPU", .number = "gGpuIndex", .label = { "gName" } },
        { .table = "amdgpu", .word = "GPU", .number = "gGpuIndex", .label = { "gName" } },
        { .table = "intel", .word = "GPU", .number = "gGpuIndex", .label = { "gName" } },
        { .table = "disk_device", .word = "", .rank = "vDiskIOTime", .label = { "device" } },
        { .table = "net_interface", .word = "", .rank = "vNetworkBytesRecvd", .label = { "interface" } },
        { .table = "energy", .word = "", .rank = "eJoules", .label = { "eName", "domain" } },
};
// clang-format on

const struct infp_panel_table *infp_panel_table_of(const char *table)
{
        for (unsigned i = 0; i < INFP_COUNT(tables); i++)
                if (!strcmp(tables[i].table, table))
                        return &tables[i];
        return NULL;
}
