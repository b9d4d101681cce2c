/* Use, memory, temperatures, power, clocks, fans, PCIe, ECC. */
#include <string.h>

#include "answer.h"

#define U32(function, key)                                              \
        NVML(function, const struct fake_device *device, uint32_t *ret) \
        {                                                               \
                ENTER_WHOLE(device);                                    \
                return fake_give_u32(device, key, ret);                 \
        }
#define U64(function, key)                                              \
        NVML(function, const struct fake_device *device, uint64_t *ret) \
        {                                                               \
                ENTER_WHOLE(device);                                    \
                return fake_give_u64(device, key, ret);                 \
        }
/* Something of each kind: the key of kind number i. */
#define U32_OF(function, ...)                                                          \
        NVML(function, const struct fake_device *device, uint32_t kind, uint32_t *ret) \
        {                                                                              \
                static const char *const keys[] = { __VA_ARGS__ };                     \
                ENTER_WHOLE(device);                                                   \
                if (kind >= sizeof(keys) / sizeof(keys[0]))                            \
                        return NVML_INVALID_ARGUMENT;                                  \
                return fake_give_u32(device, keys[kind], ret);                         \
        }
/* With the sampling period behind it. */
#define UTILIZATION(function, key)                                                           \
        NVML(function, const struct fake_device *device, uint32_t *ret, uint32_t *period_us) \
        {                                                                                    \
                ENTER_WHOLE(device);                                                         \
                *period_us = 167000;                                                         \
                return fake_give_u32(device, key, ret);                                      \
        }

UTILIZATION(nvmlDeviceGetEncoderUtilization, "utilization.encoder")
UTILIZATION(nvmlDeviceGetDecoderUtilization, "utilization.decoder")
UTILIZATION(nvmlDeviceGetJpgUtilization, "utilization.jpeg")
UTILIZATION(nvmlDeviceGetOfaUtilization, "utilization.ofa")

U32(nvmlDeviceGetPowerUsage, "power.usage")
U32(nvmlDeviceGetEnforcedPowerLimit, "power.limit")
U32(nvmlDeviceGetPowerManagementLimit, "power.limit")
U32(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
U64(nvmlDeviceGetTotalEnergyConsumption, "energy")
U32(nvmlDeviceGetPerformanceState, "pstate")
U64(nvmlDeviceGetCurrentClocksThrottleReasons, "reasons")
U64(nvmlDeviceGetCurrentClocksEventReasons, "reasons")
U64(nvmlDeviceGetSupportedClocksThrottleReasons, "reasons.supported")
U64(nvmlDeviceGetSupportedClocksEventReasons, "reasons.supported")
U32(nvmlDeviceGetNumFans, "fan.count")
U32(nvmlDeviceGetFanSpeed, "fan.speed")
U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen")
U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.gen_max")
U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width_max")
U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.gen_max")
U32(nvmlDeviceGetPcieReplayCounter, "pcie.replay")
U32(nvmlDeviceGetRetiredPagesPendingStatus, "retired.pending")

U32_OF(nvmlDeviceGetClockInfo, "clock.graphics", "clock.sm", "clock.memory", "clock.video")
U32_OF(nvmlDeviceGetMaxClockInfo, "clock_max.graphics", "clock_max.sm", "clock_max.memory", "clock_max.video")
U32_OF(nvmlDeviceGetApplicationsClock, "clock_app.graphics", "clock_app.sm", "clock_app.memory", "clock_app.video")
U32_OF(nvmlDeviceGetPcieThroughput, "pcie.tx", "pcie.rx")
U32_OF(nvmlDeviceGetTemperature, "temperature.gpu")
U32_OF(nvmlDeviceGetTemperatureThreshold, "temperature.shutdown", "temperature.slowdown", "temperature.memory_max",
       "temperature.gpu_max")

NVML(nvmlDeviceGetUtilizationRates, const struct fake_device *device, struct nvml_rates *ret)
{
        int r;

        ENTER_WHOLE(device);
        r = fake_give_u32(device, "utilization.gpu", &ret->gpu);
        return r ? r : fake_give_u32(device, "utilization.memory", &ret->memory);
}

NVML(nvmlDeviceGetMemoryInfo, const struct fake_device *device, struct nvml_memory *ret)
{
        uint64_t reserved = 0;

        ENTER(device);
        if (!fake_u64(device, "memory.total", &ret->total) || !fake_u64(device, "memory.used", &ret->used))
                return NVML_NOT_SUPPORTED;
        fake_u64(device, "memory.reserved", &reserved);
        ret->used += ret->total ? reserved : 0; /* as the old call does */
        ret->free = ret->total - ret->used;
        return NVML_OK;
}

NVML(nvmlDeviceGetMemoryInfo_v2, const struct fake_device *device, struct nvml_memory_v2 *ret)
{
        ENTER(device);
        if (ret->version != fake_version(sizeof(*ret), 2))
                return NVML_VERSION_MISMATCH;
        if (!fake_u64(device, "memory.total", &ret->total) || !fake_u64(device, "memory.used", &ret->used))
                return NVML_NOT_SUPPORTED;
        if (!fake_u64(device, "memory.reserved", &ret->reserved))
                ret->reserved = 0;
        ret->free = ret->total ? ret->total - ret->used - ret->reserved : 0;
        return NVML_OK;
}

NVML(nvmlDeviceGetBAR1MemoryInfo, const struct fake_device *device, struct nvml_memory *ret)
{
        ENTER(device);
        if (!fake_u64(device, "bar1.total", &ret->total) || !fake_u64(device, "bar1.used", &ret->used))
                return NVML_NOT_SUPPORTED;
        ret->free = ret->total - ret->used;
        return NVML_OK;
}

NVML(nvmlDeviceGetTemperatureV, const struct fake_device *device, struct nvml_temperature *ret)
{
        ENTER_WHOLE(device);
        if (ret->version != fake_version(sizeof(*ret), 1))
                return NVML_VERSION_MISMATCH;
        if (ret->sensor != 0)
                return NVML_INVALID_ARGUMENT;
        return fake_give_u32(device, "temperature.gpu", (uint32_t *) &ret->celsius);
}

NVML(nvmlDeviceGetMarginTemperature, const struct fake_device *device, struct nvml_margin *ret)
{
        ENTER_WHOLE(device);
        if (ret->version != fake_version(sizeof(*ret), 1))
                return NVML_VERSION_MISMATCH;
        return fake_give_u32(device, "temperature.margin", (uint32_t *) &ret->celsius);
}

NVML(nvmlDeviceGetPowerManagementLimitConstraints, const struct fake_device *device, uint32_t *min, uint32_t *max)
{
        int r;

        ENTER_WHOLE(device);
        r = fake_give_u32(device, "power.min", min);
        return r ? r : fake_give_u32(device, "power.max", max);
}

/* Fans of the list have the speed of all, unless it has one of its own: "fan.speed.1". */
NVML(nvmlDeviceGetFanSpeed_v2, const struct fake_device *device, uint32_t fan, uint32_t *ret)
{
        char key[] = "fan.speed.0";
        uint32_t n = 0;

        ENTER_WHOLE(device);
        if (fake_give_u32(device, "fan.count", &n))
                return NVML_NOT_SUPPORTED;
        if (fan >= n || fan > 9)
                return NVML_INVALID_ARGUMENT;
        key[sizeof(key) - 2] = (char) ('0' + fan);
        return fake_text(device, key) ? fake_give_u32(device, key, ret) : fake_give_u32(device, "fan.speed", ret);
}

NVML(nvmlDeviceGetFanSpeedRPM, const struct fake_device *device, struct nvml_fan *ret)
{
        ENTER_WHOLE(device);
        if (ret->version != fake_version(sizeof(*ret), 1))
                return NVML_VERSION_MISMATCH;
        return fake_give_u32(device, "fan.rpm", &ret->rpm);
}

NVML(nvmlDeviceGetViolationStatus, const struct fake_device *device, uint32_t policy, struct nvml_violation *ret)
{
        static const char *const keys[] = { "violation.power",
                                            "violation.thermal",
                                            "violation.sync_boost",
                                            "violation.board",
                                            "violation.utilization",
                                            "violation.reliability",
                                            NULL,
                                            NULL,
                                            NULL,
                                            NULL,
                                            "violation.app_clocks",
                                            "violation.base_clocks" };

        ENTER_WHOLE(device);
        if (policy >= sizeof(keys) / sizeof(keys[0]) || !keys[policy])
                return NVML_INVALID_ARGUMENT;
        ret->reference_us = fake_us();
        return fake_give_u64(device, keys[policy], &ret->violation_ns);
}

NVML(nvmlDeviceGetEccMode, const struct fake_device *device, uint32_t *now, uint32_t *pending)
{
        int r;

        ENTER_WHOLE(device);
        r = fake_give_u32(device, "ecc.mode", now);
        if (r == NVML_OK)
                *pending = *now;
        return r;
}

static const char *ecc_key(uint32_t error, uint32_t counter)
{
        static const char *const keys[2][2] = { { "ecc.corrected.volatile", "ecc.corrected.aggregate" },
                                                { "ecc.uncorrected.volatile", "ecc.uncorrected.aggregate" } };

        return error < 2 && counter < 2 ? keys[error][counter] : NULL;
}

NVML(nvmlDeviceGetTotalEccErrors, const struct fake_device *device, uint32_t error, uint32_t counter, uint64_t *ret)
{
        ENTER_WHOLE(device);
        return ecc_key(error, counter) ? fake_give_u64(device, ecc_key(error, counter), ret) : NVML_INVALID_ARGUMENT;
}

/* All of them in the memory of the device (location 2). */
NVML(nvmlDeviceGetMemoryErrorCounter, const struct fake_device *device, uint32_t error, uint32_t counter,
     uint32_t location, uint64_t *ret)
{
        int r;

        ENTER_WHOLE(device);
        if (!ecc_key(error, counter))
                return NVML_INVALID_ARGUMENT;
        r = fake_give_u64(device, ecc_key(error, counter), ret);
        if (r == NVML_OK && location != 2)
                *ret = 0;
        return r;
}

/* Addresses of pages: as many as the script counts. */
static int give_pages(const struct fake_device *device, uint32_t cause, uint32_t *n, uint64_t *addresses,
                      uint64_t *times)
{
        uint32_t there;
        int r;

        if (cause > 1 || !n)
                return NVML_INVALID_ARGUMENT;
        r = fake_give_u32(device, cause ? "retired.double" : "retired.single", &there);
        if (r)
                return r;
        if (*n < there) {
                *n = there;
                return NVML_INSUFFICIENT_SIZE;
        }
        *n = there;
        for (uint32_t i = 0; i < there; i++) {
                if (addresses)
                        addresses[i] = 0x1000 * (i + 1);
                if (times)
                        times[i] = 1700000000u + i;
        }
        return NVML_OK;
}

NVML(nvmlDeviceGetRetiredPages, const struct fake_device *device, uint32_t cause, uint32_t *n, uint64_t *addresses)
{
        ENTER_WHOLE(device);
        return give_pages(device, cause, n, addresses, NULL);
}

NVML(nvmlDeviceGetRetiredPages_v2, const struct fake_device *device, uint32_t cause, uint32_t *n, uint64_t *addresses,
     uint64_t *times)
{
        ENTER_WHOLE(device);
        return give_pages(device, cause, n, addresses, times);
}

NVML(nvmlDeviceGetRemappedRows, const struct fake_device *device, uint32_t *corrected, uint32_t *uncorrected,
     uint32_t *pending, uint32_t *failure)
{
        static const char *const keys[] = { "remap.corrected", "remap.uncorrected", "remap.pending", "remap.failure" };
        uint32_t *const to[] = { corrected, uncorrected, pending, failure };

        ENTER_WHOLE(device);
        for (size_t i = 0; i < 4; i++) {
                const int r = fake_give_u32(device, keys[i], to[i]);

                if (r)
                        return r;
        }
        return NVML_OK;
}

NVML(nvmlDeviceGetRowRemapperHistogram, const struct fake_device *device, struct nvml_rows *ret)
{
        ENTER_WHOLE(device);
        memset(ret, 0, sizeof(*ret));
        return fake_give_u32(device, "remap.banks", &ret->max);
}
