/* What changes from sample to sample and has a call of its own. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/gpu/nvidia/nvidia.h"

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

void infp_nvidia_put_calls(const struct nvidia_reading *reading, const struct nvidia_call *calls, size_t n)
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
        infp_nvidia_put(reading, GPU_UTILIZATION_GPU, utilization.gpu); /* infp_gpu_bound looks at them */
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

/* A library that fails may leave all bits set, or sums that wrap. */
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
                /* The header's comments contradict each other on what used means; the sum does not. */
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
        /* GPUs that use the machine's memory say that they have none. */
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

bool infp_nvidia_is_temperature(int64_t celsius)
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
            infp_nvidia_is_temperature(celsius) && (uint32_t) celsius != NVML_NONE_U32)
                infp_row_i64(reading->row, GPU_TEMPERATURE, celsius);
        if (!infp_nvidia_wants(device, GPU_TEMPERATURE_MARGIN))
                return;
        if (!reading->nvidia->nvml.DeviceGetMarginTemperature)
                infp_nvidia_lacks(device, GPU_TEMPERATURE_MARGIN);
        else if (infp_nvidia_took(device, GPU_TEMPERATURE_MARGIN,
                                  reading->nvidia->nvml.DeviceGetMarginTemperature(device->handle, &margin)) &&
                 infp_nvidia_is_temperature(margin.celsius))
                infp_row_i64(reading->row, GPU_TEMPERATURE_MARGIN, margin.celsius);
}

void infp_nvidia_put_clocks(const struct nvidia_reading *reading, bool max)
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

/* Two readings of 20 ms each, in which the driver holds its lock: only for those who ask for it. */
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
        infp_nvidia_put_calls(reading, calls, INFP_COUNT(calls));
        infp_nvidia_put_clocks(reading, false);
        read_perf_state(reading);
        read_event_reasons(reading);
        read_pcie_throughput(reading);
}
