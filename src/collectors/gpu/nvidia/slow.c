/* What never changes while a GPU is open, and what changes so rarely that once a second is enough: limits, links, faults, fans. */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "collectors/gpu/nvidia/nvidia.h"

int64_t infp_nvidia_numa_node(const struct infp_env *env, const char *bus_id)
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
        from_files = reading->device->bus_id[0] ? infp_nvidia_numa_node(reading->env, reading->device->bus_id) : -1;
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
                         celsius && infp_nvidia_is_temperature(celsius))
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

        infp_nvidia_put_calls(reading, calls, INFP_COUNT(calls));
        infp_nvidia_put_clocks(reading, true);
        put_thresholds(reading);
        put_power_range(reading);
        put_numa_node(reading);
        if (reading->nvidia->nvml.DeviceGetMemoryBusWidth && !device->fault &&
            reading->nvidia->nvml.DeviceGetMemoryBusWidth(device->handle, &device->bus_width) != NVML_SUCCESS)
                device->bus_width = 0;
}

/* Without ECC the counters are not supported, which each says for itself. */
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

/* The number of addresses is all that is wanted: asked for with no room, the driver says how many there are. */
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

/* -1: the fan does not say it. */
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

/* Passive cards have no fan, and the call says that it is not supported. */
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

        infp_nvidia_put_calls(reading, calls, INFP_COUNT(calls));
        put_fans(reading);
        put_ecc(reading);
        put_retired_pages(reading);
        put_remapped_rows(reading);
}
