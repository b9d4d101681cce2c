#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "collectors/gpu/bounds.h"
#include "collectors/gpu/nvidia/nvidia.h"

/* A call with one u32, as most have; `member` is its place in struct nvml. */
struct nvidia_call {
        unsigned cell;
        size_t member;
        uint32_t divisor; /* mW to W; 0: as it is */
};

/* Energy: the GPU's own counter (Volta and later), else its power, integrated. The row names the source, since they are not
 * equally good: the counter moves in steps of about 100 ms, and readings of power miss what lies between them. */

static const double step_j = 1e-3;

/* False: no counter. One that is silent this time has no value in this row: its next value includes the use meanwhile. */
static bool take_counter(const struct nvidia_reading *reading)
{
        struct gpu_energy *energy = &reading->device->energy;
        uint64_t mj = 0;

        if (!infp_nvidia_wants(reading->device, GPU_ENERGY_MJ))
                return false;
        if (!reading->nvidia->nvml.DeviceGetTotalEnergyConsumption) {
                infp_nvidia_lacks(reading->device, GPU_ENERGY_MJ);
                return false;
        }
        if (!infp_nvidia_took(reading->device, GPU_ENERGY_MJ,
                              reading->nvidia->nvml.DeviceGetTotalEnergyConsumption(reading->device->handle, &mj)) ||
            mj == NVML_NONE_U64)
                return energy->has_counter;
        if (mj > INFP_GPU_MOST_MJ) {
                infp_nvidia_put(reading, GPU_ENERGY_MJ, mj); /* so that infp_gpu_bound reports it */
                return energy->has_counter;
        }
        /* Virtual GPUs answer, but count nothing. */
        if (!infp_gpu_energy_count(energy, mj, step_j, reading->t_ns))
                return false;
        infp_nvidia_put(reading, GPU_ENERGY_MJ, mj);
        infp_gpu_energy_put(energy, reading->row);
        return true;
}

void infp_nvidia_read_energy(const struct nvidia_reading *reading)
{
        struct gpu_energy *energy = &reading->device->energy;
        const bool is_instant = infp_row_has(reading->row, GPU_POWER_INSTANT);
        const unsigned cell = is_instant ? GPU_POWER_INSTANT : GPU_POWER_DRAW;

        if (take_counter(reading))
                return;
        if (!infp_row_has(reading->row, cell)) {
                infp_gpu_energy_pause(energy);
                return;
        }
        infp_gpu_energy_integrate(energy, reading->row->cell[cell].f64, reading->t_ns,
                                  is_instant ? "instant power" : "power");
        infp_gpu_energy_put(energy, reading->row);
}

/* Values that change from sample to sample, each with a call of its own. */

static const uint64_t bytes_per_mib = 1 << 20, most_bytes = UINT64_C(1) << 50;
enum { COLDEST_C = -80, HOTTEST_C = 300 };

void infp_nvidia_put(const struct nvidia_reading *reading, unsigned cell, uint64_t value)
{
        const struct infp_column *column = infp_table_column(&infp_table_nvidia, INFP_FIXED_COLUMNS + cell);

        if (column->type == INFP_BOOL)
                infp_row_bool(reading->row, cell, value != 0);
        else
                infp_row_raw(reading->row, cell, value);
}

typedef int call_u32(nvml_device, uint32_t *);

static void put_calls(const struct nvidia_reading *reading, const struct nvidia_call *calls, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                const unsigned cell = calls[i].cell;
                uint32_t value = NVML_NONE_U32;
                call_u32 *call;

                if (!infp_nvidia_wants(reading->device, cell))
                        continue;
                memcpy(&call, (const char *) &reading->nvidia->nvml + calls[i].member, sizeof(call));
                if (!call) {
                        infp_nvidia_lacks(reading->device, cell);
                        continue;
                }
                if (!infp_nvidia_took(reading->device, cell, call(reading->device->handle, &value)) ||
                    value == NVML_NONE_U32)
                        continue;
                if (calls[i].divisor)
                        infp_row_f64(reading->row, cell, (double) value / calls[i].divisor);
                else
                        infp_nvidia_put(reading, cell, value);
        }
}

static void put_utilization(const struct nvidia_reading *reading)
{
        struct nvml_utilization utilization = { 0 };

        if (!infp_nvidia_wants(reading->device, GPU_UTILIZATION_GPU))
                return;
        if (!reading->nvidia->nvml.DeviceGetUtilizationRates) {
                infp_nvidia_lacks(reading->device, GPU_UTILIZATION_GPU);
                return;
        }
        if (!infp_nvidia_took(reading->device, GPU_UTILIZATION_GPU,
                              reading->nvidia->nvml.DeviceGetUtilizationRates(reading->device->handle, &utilization)))
                return;
        infp_nvidia_put(reading, GPU_UTILIZATION_GPU, utilization.gpu); /* infp_gpu_bound checks them */
        infp_nvidia_put(reading, GPU_UTILIZATION_MEM, utilization.memory);
}

static void put_engines(const struct nvidia_reading *reading)
{
        const struct nvml *nvml = &reading->nvidia->nvml;
        const struct {
                unsigned cell;
                int (*call)(nvml_device, uint32_t *, uint32_t *);
        } engines[] = {
                { GPU_UTILIZATION_ENCODER, nvml->DeviceGetEncoderUtilization },
                { GPU_UTILIZATION_DECODER, nvml->DeviceGetDecoderUtilization },
                { GPU_UTILIZATION_JPEG, nvml->DeviceGetJpgUtilization },
                { GPU_UTILIZATION_OFA, nvml->DeviceGetOfaUtilization },
        };

        for (size_t i = 0; i < INFP_COUNT(engines); i++) {
                uint32_t percent = 0, period_us = 0;

                if (!infp_nvidia_wants(reading->device, engines[i].cell))
                        continue;
                if (!engines[i].call)
                        infp_nvidia_lacks(reading->device, engines[i].cell);
                else if (infp_nvidia_took(reading->device, engines[i].cell,
                                          engines[i].call(reading->device->handle, &percent, &period_us)))
                        infp_nvidia_put(reading, engines[i].cell, percent);
        }
}

static void put_memory(const struct nvidia_reading *reading, const struct nvml_memory_v2 *memory, bool has_reserved)
{
        infp_nvidia_put(reading, GPU_MEMORY_TOTAL_MB, memory->total / bytes_per_mib);
        infp_nvidia_put(reading, GPU_MEMORY_USED_MB, memory->used / bytes_per_mib);
        infp_nvidia_put(reading, GPU_MEMORY_FREE_MB, memory->free / bytes_per_mib);
        infp_nvidia_put(reading, GPU_MEMORY_TOTAL_BYTES, memory->total);
        infp_nvidia_put(reading, GPU_MEMORY_USED_BYTES, memory->used);
        infp_nvidia_put(reading, GPU_MEMORY_FREE_BYTES, memory->free);
        if (!has_reserved)
                return;
        infp_nvidia_put(reading, GPU_MEMORY_RESERVED_MB, memory->reserved / bytes_per_mib);
        infp_nvidia_put(reading, GPU_MEMORY_RESERVED_BYTES, memory->reserved);
}

/* A failing library may leave all bits set, or sums that wrap. */
static bool is_sound(const struct nvml_memory_v2 *m)
{
        return m->total <= most_bytes && m->reserved <= m->total && m->used <= m->total && m->free <= m->total;
}

int infp_nvidia_memory(const struct nvidia *nvidia, nvml_device handle, bool *has_old, struct nvml_memory_v2 *ret)
{
        struct nvml_memory old = { 0 };
        int r = NVML_FUNCTION_NOT_FOUND;

        *ret = (struct nvml_memory_v2){ .version = NVML_MEMORY_V2 };
        if (nvidia->nvml.DeviceGetMemoryInfo_v2 && !*has_old) {
                r = nvidia->nvml.DeviceGetMemoryInfo_v2(handle, ret);
                /* The header's comments contradict each other on `used`; the sum shows which is right. */
                if (r == NVML_SUCCESS && is_sound(ret) && ret->reserved + ret->used + ret->free == ret->total)
                        return r;
                if (r != NVML_SUCCESS && !infp_nvidia_is_refusal(r))
                        return r;
        }
        if (!nvidia->nvml.DeviceGetMemoryInfo)
                return r == NVML_SUCCESS ? NVML_NO_DATA : r;
        *has_old = true;
        r = nvidia->nvml.DeviceGetMemoryInfo(handle, &old);
        *ret = (struct nvml_memory_v2){ .total = old.total, .free = old.free, .used = old.used };
        return r == NVML_SUCCESS && !is_sound(ret) ? NVML_NO_DATA : r;
}

static void read_memory(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;
        struct nvml_memory_v2 memory;
        int r;

        if (!infp_nvidia_wants(device, GPU_MEMORY_TOTAL_MB))
                return;
        r = infp_nvidia_memory(reading->nvidia, device->handle, &device->has_old_memory, &memory);
        /* GPUs that use the machine's memory report that they have none. */
        if (r == NVML_SUCCESS && !memory.total)
                r = NVML_NOT_SUPPORTED;
        if (infp_nvidia_took(device, GPU_MEMORY_TOTAL_MB, r))
                put_memory(reading, &memory, !device->has_old_memory);
        if (device->has_old_memory && infp_nvidia_wants(device, GPU_MEMORY_RESERVED_MB))
                infp_nvidia_lacks(device, GPU_MEMORY_RESERVED_MB);
}

static void read_bar1(const struct nvidia_reading *reading)
{
        struct nvml_memory bar1 = { 0 };

        if (!infp_nvidia_wants(reading->device, GPU_BAR1_TOTAL_MB))
                return;
        if (!reading->nvidia->nvml.DeviceGetBAR1MemoryInfo) {
                infp_nvidia_lacks(reading->device, GPU_BAR1_TOTAL_MB);
                return;
        }
        if (!infp_nvidia_took(reading->device, GPU_BAR1_TOTAL_MB,
                              reading->nvidia->nvml.DeviceGetBAR1MemoryInfo(reading->device->handle, &bar1)) ||
            bar1.total > most_bytes || bar1.used > bar1.total || bar1.free > bar1.total)
                return;
        infp_nvidia_put(reading, GPU_BAR1_TOTAL_MB, bar1.total / bytes_per_mib);
        infp_nvidia_put(reading, GPU_BAR1_USED_MB, bar1.used / bytes_per_mib);
        infp_nvidia_put(reading, GPU_BAR1_FREE_MB, bar1.free / bytes_per_mib);
}

static bool is_temperature(int64_t celsius)
{
        return celsius >= COLDEST_C && celsius <= HOTTEST_C;
}

static int temperature(const struct nvidia *nvidia, struct nvidia_device *device, int32_t *ret)
{
        struct nvml_temperature now = { .version = NVML_TEMPERATURE_V1 };
        uint32_t celsius = 0;
        int r;

        if (nvidia->nvml.DeviceGetTemperatureV && !device->has_old_temperature) {
                r = nvidia->nvml.DeviceGetTemperatureV(device->handle, &now);
                *ret = now.celsius;
                if (r == NVML_SUCCESS || !infp_nvidia_is_refusal(r))
                        return r;
                device->has_old_temperature = true;
        }
        if (!nvidia->nvml.DeviceGetTemperature)
                return NVML_FUNCTION_NOT_FOUND;
        r = nvidia->nvml.DeviceGetTemperature(device->handle, 0, &celsius);
        *ret = (int32_t) celsius;
        return r;
}

static void read_temperatures(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;
        struct nvml_margin margin = { .version = NVML_MARGIN_V1 };
        int32_t celsius = 0;

        if (infp_nvidia_wants(device, GPU_TEMPERATURE) &&
            infp_nvidia_took(device, GPU_TEMPERATURE, temperature(reading->nvidia, device, &celsius)) &&
            is_temperature(celsius) && (uint32_t) celsius != NVML_NONE_U32)
                infp_row_i64(reading->row, GPU_TEMPERATURE, celsius);
        if (!infp_nvidia_wants(device, GPU_TEMPERATURE_MARGIN))
                return;
        if (!reading->nvidia->nvml.DeviceGetMarginTemperature)
                infp_nvidia_lacks(device, GPU_TEMPERATURE_MARGIN);
        else if (infp_nvidia_took(device, GPU_TEMPERATURE_MARGIN,
                                  reading->nvidia->nvml.DeviceGetMarginTemperature(device->handle, &margin)) &&
                 is_temperature(margin.celsius))
                infp_row_i64(reading->row, GPU_TEMPERATURE_MARGIN, margin.celsius);
}

static void put_clocks(const struct nvidia_reading *reading, bool max)
{
        static const unsigned now_cells[] = { GPU_CLOCK_GRAPHICS, GPU_CLOCK_SM, GPU_CLOCK_MEM, GPU_CLOCK_VIDEO };
        static const unsigned max_cells[] = { GPU_CLOCK_GRAPHICS_MAX, GPU_CLOCK_SM_MAX, GPU_CLOCK_MEM_MAX,
                                              GPU_CLOCK_VIDEO_MAX };
        int (*call)(nvml_device, int, uint32_t *) =
                max ? reading->nvidia->nvml.DeviceGetMaxClockInfo : reading->nvidia->nvml.DeviceGetClockInfo;

        for (int clock = NVML_CLOCK_GRAPHICS; clock <= NVML_CLOCK_VIDEO; clock++) {
                const unsigned cell = max ? max_cells[clock] : now_cells[clock];
                uint32_t mhz = 0;

                if (!infp_nvidia_wants(reading->device, cell))
                        continue;
                if (!call)
                        infp_nvidia_lacks(reading->device, cell);
                else if (infp_nvidia_took(reading->device, cell, call(reading->device->handle, clock, &mhz)) &&
                         mhz != NVML_NONE_U32)
                        infp_nvidia_put(reading, cell, mhz);
        }
}

static void read_perf_state(const struct nvidia_reading *reading)
{
        int state = NVML_PERF_STATE_UNKNOWN;
        char text[16];

        if (!infp_nvidia_wants(reading->device, GPU_PERF_STATE))
                return;
        if (!reading->nvidia->nvml.DeviceGetPerformanceState) {
                infp_nvidia_lacks(reading->device, GPU_PERF_STATE);
                return;
        }
        if (!infp_nvidia_took(reading->device, GPU_PERF_STATE,
                              reading->nvidia->nvml.DeviceGetPerformanceState(reading->device->handle, &state)) ||
            state < 0 || state >= NVML_PERF_STATE_UNKNOWN)
                return;
        snprintf(text, sizeof(text), "P%d", state);
        infp_row_str(reading->row, GPU_PERF_STATE, text);
}

static void read_event_reasons(const struct nvidia_reading *reading)
{
        const struct nvml *nvml = &reading->nvidia->nvml;
        int (*call)(nvml_device, uint64_t *) = nvml->DeviceGetCurrentClocksEventReasons
                                                       ? nvml->DeviceGetCurrentClocksEventReasons
                                                       : nvml->DeviceGetCurrentClocksThrottleReasons;
        uint64_t bits = 0;
        char text[256];

        if (!infp_nvidia_wants(reading->device, GPU_EVENT_REASONS))
                return;
        if (!call) {
                infp_nvidia_lacks(reading->device, GPU_EVENT_REASONS);
                return;
        }
        if (!infp_nvidia_took(reading->device, GPU_EVENT_REASONS, call(reading->device->handle, &bits)))
                return;
        infp_nvidia_put(reading, GPU_EVENT_REASONS, bits);
        infp_nvidia_event_words(bits, text, sizeof(text));
        infp_row_str(reading->row, GPU_EVENT_REASONS_TEXT, text);
}

/* Two readings of 20 ms each, in which the driver holds its lock: only on request. */
static void read_pcie_throughput(const struct nvidia_reading *reading)
{
        static const unsigned cells[] = { GPU_PCIE_TX_KBPS, GPU_PCIE_RX_KBPS };

        for (int direction = NVML_PCIE_TX; direction <= NVML_PCIE_RX && reading->nvidia->wants_pcie; direction++) {
                uint32_t kib_per_s = 0;

                if (!infp_nvidia_wants(reading->device, cells[direction]))
                        continue;
                if (!reading->nvidia->nvml.DeviceGetPcieThroughput)
                        infp_nvidia_lacks(reading->device, cells[direction]);
                else if (infp_nvidia_took(reading->device, cells[direction],
                                          reading->nvidia->nvml.DeviceGetPcieThroughput(reading->device->handle,
                                                                                        direction, &kib_per_s)))
                        infp_nvidia_put(reading, cells[direction], kib_per_s);
        }
}

void infp_nvidia_read_lesser(const struct nvidia_reading *reading)
{
        put_engines(reading);
        read_bar1(reading);
}

void infp_nvidia_read(const struct nvidia_reading *reading)
{
        static const struct nvidia_call calls[] = {
                { GPU_POWER_DRAW, offsetof(struct nvml, DeviceGetPowerUsage), 1000 },
        };

        put_utilization(reading);
        read_memory(reading);
        read_temperatures(reading);
        put_calls(reading, calls, INFP_COUNT(calls));
        put_clocks(reading, false);
        read_perf_state(reading);
        read_event_reasons(reading);
        read_pcie_throughput(reading);
}

/* What never changes while a GPU is open, and what changes so rarely that once a second is enough: limits, links, faults,
 * fans. */

static int64_t numa_node(const struct infp_env *env, const char *bus_id)
{
        char path[96] = "sys/bus/pci/devices/", text[32], *at = path + strlen(path);
        int64_t node;
        ssize_t n;

        snprintf(at, sizeof(path) - (size_t) (at - path), "%s/numa_node", bus_id);
        for (; *at && *at != '/'; at++)
                if (*at >= 'A' && *at <= 'F') /* the kernel writes small letters */
                        *at = (char) (*at - 'A' + 'a');
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        while (n > 0 && text[n - 1] == '\n')
                n--;
        return n > 0 && infp_parse_i64(text, (size_t) n, &node) >= 0 ? node : -1;
}

static void put_numa_node(const struct nvidia_reading *reading)
{
        const struct nvml *nvml = &reading->nvidia->nvml;
        uint32_t node = NVML_NONE_U32;
        int64_t from_files;

        if (infp_nvidia_wants(reading->device, GPU_NUMA_NODE) && nvml->DeviceGetNumaNodeId &&
            infp_nvidia_took(reading->device, GPU_NUMA_NODE,
                             nvml->DeviceGetNumaNodeId(reading->device->handle, &node)) &&
            node != NVML_NONE_U32) {
                infp_nvidia_put(reading, GPU_NUMA_NODE, node);
                return;
        }
        from_files = reading->device->bus_id[0] ? numa_node(reading->env, reading->device->bus_id) : -1;
        if (from_files >= 0)
                infp_nvidia_put(reading, GPU_NUMA_NODE, (uint64_t) from_files);
}

static void put_thresholds(const struct nvidia_reading *reading)
{
        static const struct {
                unsigned cell;
                int threshold;
        } thresholds[] = {
                { GPU_TEMPERATURE_SHUTDOWN, NVML_THRESHOLD_SHUTDOWN },
                { GPU_TEMPERATURE_SLOWDOWN, NVML_THRESHOLD_SLOWDOWN },
                { GPU_TEMPERATURE_GPU_MAX, NVML_THRESHOLD_GPU_MAX },
                { GPU_TEMPERATURE_MEMORY_MAX, NVML_THRESHOLD_MEMORY_MAX },
        };

        for (size_t i = 0; i < INFP_COUNT(thresholds); i++) {
                uint32_t celsius = 0;

                if (!infp_nvidia_wants(reading->device, thresholds[i].cell))
                        continue;
                if (!reading->nvidia->nvml.DeviceGetTemperatureThreshold)
                        infp_nvidia_lacks(reading->device, thresholds[i].cell);
                else if (infp_nvidia_took(reading->device, thresholds[i].cell,
                                          reading->nvidia->nvml.DeviceGetTemperatureThreshold(
                                                  reading->device->handle, thresholds[i].threshold, &celsius)) &&
                         celsius && is_temperature(celsius))
                        infp_nvidia_put(reading, thresholds[i].cell, celsius);
        }
}

static void put_power_range(const struct nvidia_reading *reading)
{
        uint32_t min_mw = 0, max_mw = 0;

        if (!infp_nvidia_wants(reading->device, GPU_POWER_LIMIT_MIN))
                return;
        if (!reading->nvidia->nvml.DeviceGetPowerManagementLimitConstraints) {
                infp_nvidia_lacks(reading->device, GPU_POWER_LIMIT_MIN);
                return;
        }
        if (!infp_nvidia_took(reading->device, GPU_POWER_LIMIT_MIN,
                              reading->nvidia->nvml.DeviceGetPowerManagementLimitConstraints(reading->device->handle,
                                                                                             &min_mw, &max_mw)))
                return;
        if (min_mw != NVML_NONE_U32)
                infp_row_f64(reading->row, GPU_POWER_LIMIT_MIN, (double) min_mw / 1000);
        if (max_mw != NVML_NONE_U32)
                infp_row_f64(reading->row, GPU_POWER_LIMIT_MAX, (double) max_mw / 1000);
}

void infp_nvidia_read_fixed(const struct nvidia_reading *reading)
{
        static const struct nvidia_call calls[] = {
                { GPU_POWER_LIMIT_DEFAULT, offsetof(struct nvml, DeviceGetPowerManagementDefaultLimit), 1000 },
                { GPU_PCIE_GEN_MAX, offsetof(struct nvml, DeviceGetMaxPcieLinkGeneration), 0 },
                { GPU_PCIE_WIDTH_MAX, offsetof(struct nvml, DeviceGetMaxPcieLinkWidth), 0 },
        };
        struct nvidia_device *device = reading->device;

        put_calls(reading, calls, INFP_COUNT(calls));
        put_clocks(reading, true);
        put_thresholds(reading);
        put_power_range(reading);
        put_numa_node(reading);
        if (reading->nvidia->nvml.DeviceGetMemoryBusWidth && !device->fault &&
            reading->nvidia->nvml.DeviceGetMemoryBusWidth(device->handle, &device->bus_width) != NVML_SUCCESS)
                device->bus_width = 0;
}

/* Without ECC the counters are not supported, which each call reports. */
static void put_ecc(const struct nvidia_reading *reading)
{
        static const struct {
                unsigned cell;
                int kind, counter;
        } counters[] = {
                { GPU_ECC_SINGLE_BIT, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE },
                { GPU_ECC_DOUBLE_BIT, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE },
                { GPU_ECC_AGGREGATE_SINGLE_BIT, NVML_ECC_CORRECTED, NVML_ECC_AGGREGATE },
                { GPU_ECC_AGGREGATE_DOUBLE_BIT, NVML_ECC_UNCORRECTED, NVML_ECC_AGGREGATE },
        };
        const struct nvml *nvml = &reading->nvidia->nvml;
        int now = 0, next = 0;

        if (infp_nvidia_wants(reading->device, GPU_ECC_ENABLED)) {
                if (!nvml->DeviceGetEccMode)
                        infp_nvidia_lacks(reading->device, GPU_ECC_ENABLED);
                else if (infp_nvidia_took(reading->device, GPU_ECC_ENABLED,
                                          nvml->DeviceGetEccMode(reading->device->handle, &now, &next)))
                        infp_row_bool(reading->row, GPU_ECC_ENABLED, now == 1);
        }
        for (size_t i = 0; i < INFP_COUNT(counters); i++) {
                uint64_t errors = 0;

                if (!infp_nvidia_wants(reading->device, counters[i].cell))
                        continue;
                if (!nvml->DeviceGetTotalEccErrors)
                        infp_nvidia_lacks(reading->device, counters[i].cell);
                else if (infp_nvidia_took(reading->device, counters[i].cell,
                                          nvml->DeviceGetTotalEccErrors(reading->device->handle, counters[i].kind,
                                                                        counters[i].counter, &errors)) &&
                         errors != NVML_NONE_U64)
                        infp_nvidia_put(reading, counters[i].cell, errors);
        }
}

/* Only the number of addresses is needed: called without room, the driver returns it. */
static void put_retired_pages(const struct nvidia_reading *reading)
{
        static const unsigned cells[] = { GPU_RETIRED_PAGES_SINGLE_BIT, GPU_RETIRED_PAGES_DOUBLE_BIT };
        const struct nvml *nvml = &reading->nvidia->nvml;
        int is_pending = 0;

        for (int cause = 0; cause < 2; cause++) {
                uint32_t n = 0;
                int r;

                if (!infp_nvidia_wants(reading->device, cells[cause]))
                        continue;
                if (!nvml->DeviceGetRetiredPages) {
                        infp_nvidia_lacks(reading->device, cells[cause]);
                        continue;
                }
                r = nvml->DeviceGetRetiredPages(reading->device->handle, cause, &n, NULL);
                if (infp_nvidia_took(reading->device, cells[cause], r == NVML_INSUFFICIENT_SIZE ? NVML_SUCCESS : r))
                        infp_nvidia_put(reading, cells[cause], n);
        }
        if (!infp_nvidia_wants(reading->device, GPU_RETIRED_PAGES_PENDING))
                return;
        if (!nvml->DeviceGetRetiredPagesPendingStatus)
                infp_nvidia_lacks(reading->device, GPU_RETIRED_PAGES_PENDING);
        else if (infp_nvidia_took(reading->device, GPU_RETIRED_PAGES_PENDING,
                                  nvml->DeviceGetRetiredPagesPendingStatus(reading->device->handle, &is_pending)))
                infp_row_bool(reading->row, GPU_RETIRED_PAGES_PENDING, is_pending == 1);
}

static void put_remapped_rows(const struct nvidia_reading *reading)
{
        uint32_t corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0;

        if (!infp_nvidia_wants(reading->device, GPU_REMAPPED_ROWS_CORRECTABLE))
                return;
        if (!reading->nvidia->nvml.DeviceGetRemappedRows) {
                infp_nvidia_lacks(reading->device, GPU_REMAPPED_ROWS_CORRECTABLE);
                return;
        }
        if (!infp_nvidia_took(reading->device, GPU_REMAPPED_ROWS_CORRECTABLE,
                              reading->nvidia->nvml.DeviceGetRemappedRows(reading->device->handle, &corrected,
                                                                          &uncorrected, &is_pending, &has_failed)) ||
            corrected == NVML_NONE_U32 || uncorrected == NVML_NONE_U32)
                return;
        infp_nvidia_put(reading, GPU_REMAPPED_ROWS_CORRECTABLE, corrected);
        infp_nvidia_put(reading, GPU_REMAPPED_ROWS_UNCORRECTABLE, uncorrected);
        infp_nvidia_put(reading, GPU_REMAPPED_ROWS_PENDING, is_pending);
        infp_nvidia_put(reading, GPU_REMAPPED_ROWS_FAILURE, has_failed);
}

/* -1: the fan does not report it. */
static int64_t fan_percent(const struct nvidia_reading *reading, uint32_t fan)
{
        const struct nvml *nvml = &reading->nvidia->nvml;
        uint32_t percent = 0;
        int r = NVML_NOT_SUPPORTED;

        if (nvml->DeviceGetFanSpeed_v2)
                r = nvml->DeviceGetFanSpeed_v2(reading->device->handle, fan, &percent);
        else if (nvml->DeviceGetFanSpeed && !fan)
                r = nvml->DeviceGetFanSpeed(reading->device->handle, &percent);
        if (infp_nvidia_is_fault(r))
                reading->device->fault = r;
        return r == NVML_SUCCESS && percent != NVML_NONE_U32 ? (int64_t) percent : -1;
}

static int64_t fan_rpm(const struct nvidia_reading *reading, uint32_t fan)
{
        struct nvml_fan speed = { .version = NVML_FAN_V1, .fan = fan };

        if (!reading->nvidia->nvml.DeviceGetFanSpeedRPM ||
            reading->nvidia->nvml.DeviceGetFanSpeedRPM(reading->device->handle, &speed) != NVML_SUCCESS)
                return -1;
        return speed.rpm != NVML_NONE_U32 ? (int64_t) speed.rpm : -1;
}

static size_t put_fan(char *text, size_t cap, bool is_first, int64_t percent, int64_t rpm)
{
        char percent_text[24] = "null", rpm_text[24] = "null";
        int n;

        if (percent >= 0)
                snprintf(percent_text, sizeof(percent_text), "%lld", (long long) percent);
        if (rpm >= 0)
                snprintf(rpm_text, sizeof(rpm_text), "%lld", (long long) rpm);
        n = snprintf(text, cap, "%s{\"percent\":%s,\"rpm\":%s}", is_first ? "" : ",", percent_text, rpm_text);
        return n > 0 && (size_t) n < cap ? (size_t) n : 0;
}

/* Passive cards have no fan, and the call returns that it is not supported. */
static void put_fans(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;
        const struct nvml *nvml = &reading->nvidia->nvml;
        uint32_t n_fans = 1;
        size_t n = 1;

        device->fans[0] = 0;
        if (!infp_nvidia_wants(device, GPU_FAN_SPEED))
                return;
        if (nvml->DeviceGetNumFans &&
            !infp_nvidia_took(device, GPU_FAN_SPEED, nvml->DeviceGetNumFans(device->handle, &n_fans)))
                return;
        if (!n_fans || fan_percent(reading, 0) < 0) {
                infp_nvidia_took(device, GPU_FAN_SPEED, device->fault ? device->fault : NVML_NOT_SUPPORTED);
                return;
        }
        /* bound: a card has some three fans */
        for (uint32_t fan = 0; fan < n_fans && fan < NVML_MAX_FANS && !device->fault; fan++) {
                const int64_t percent = fan_percent(reading, fan), rpm = fan_rpm(reading, fan);

                if (!fan && percent >= 0)
                        infp_row_i64(reading->row, GPU_FAN_SPEED, percent);
                if (!fan && rpm >= 0)
                        infp_row_i64(reading->row, GPU_FAN_RPM, rpm);
                n += put_fan(device->fans + n, sizeof(device->fans) - n - 1, !fan, percent, rpm);
        }
        device->fans[0] = '[';
        device->fans[n] = ']';
        device->fans[n + 1] = 0;
}

void infp_nvidia_read_slow(const struct nvidia_reading *reading)
{
        static const struct nvidia_call calls[] = {
                { GPU_POWER_LIMIT, offsetof(struct nvml, DeviceGetPowerManagementLimit), 1000 },
                { GPU_POWER_LIMIT_ENFORCED, offsetof(struct nvml, DeviceGetEnforcedPowerLimit), 1000 },
                { GPU_PCIE_GEN, offsetof(struct nvml, DeviceGetCurrPcieLinkGeneration), 0 },
                { GPU_PCIE_WIDTH, offsetof(struct nvml, DeviceGetCurrPcieLinkWidth), 0 },
                { GPU_PCIE_REPLAYS, offsetof(struct nvml, DeviceGetPcieReplayCounter), 0 },
        };

        put_calls(reading, calls, INFP_COUNT(calls));
        put_fans(reading);
        put_ecc(reading);
        put_retired_pages(reading);
        put_remapped_rows(reading);
}
