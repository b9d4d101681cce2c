/* NVIDIA's management library, declared here for loading it at run time: structs, numbers and calls as in its ABI on 64-bit
 * Linux (sizes measured from nvml.h 13.3). Every call but the four marked REQUIRED may be missing: old drivers lack new ones,
 * and new drivers drop old ones. Versioned structs have their size and version in their first word. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct nvml_handle *nvml_device; /* opaque */
typedef struct nvml_events *nvml_event_set;
typedef struct nvml_gpm *nvml_gpm_sample;

enum nvml_result {
        NVML_SUCCESS = 0,
        NVML_UNINITIALIZED = 1,
        NVML_INVALID_ARGUMENT = 2,
        NVML_NOT_SUPPORTED = 3,
        NVML_NO_PERMISSION = 4,
        NVML_NOT_FOUND = 6,
        NVML_INSUFFICIENT_SIZE = 7,
        NVML_INSUFFICIENT_POWER = 8,
        NVML_DRIVER_NOT_LOADED = 9,
        NVML_TIMEOUT = 10,
        NVML_IRQ_ISSUE = 11,
        NVML_LIBRARY_NOT_FOUND = 12,
        NVML_FUNCTION_NOT_FOUND = 13,
        NVML_CORRUPTED_INFOROM = 14,
        NVML_GPU_IS_LOST = 15,
        NVML_RESET_REQUIRED = 16,
        NVML_OPERATING_SYSTEM = 17,
        NVML_LIB_RM_VERSION_MISMATCH = 18,
        NVML_IN_USE = 19,
        NVML_MEMORY = 20,
        NVML_NO_DATA = 21,
        NVML_ARGUMENT_VERSION_MISMATCH = 25,
        NVML_DEPRECATED = 26,
        NVML_NOT_READY = 27,
        NVML_GPU_NOT_FOUND = 28,
        NVML_UNKNOWN = 999,
};

enum { NVML_NAME_SIZE = 96, NVML_VERSION_SIZE = 80, NVML_MAX_FANS = 16, NVML_MAX_MIG = 16 };

/* "Not available" in a field that has no code of its own. */
#define NVML_NONE_U32 UINT32_MAX
#define NVML_NONE_U64 UINT64_MAX

#define NVML_VERSION(type, version) ((uint32_t) (sizeof(type) | (version) << 24))
#define NVML_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has the size of NVML's")
#define NVML_AT(type, member, offset) \
        _Static_assert(offsetof(type, member) == (offset), #member " lies where NVML has it")

struct nvml_pci {
        char bus_id_legacy[16]; /* 0000:3B:00.0 */
        uint32_t domain, bus, device, pci_device_id, subsystem_id;
        char bus_id[32]; /* 00000000:3B:00.0 */
};
NVML_SIZE(struct nvml_pci, 68);
NVML_AT(struct nvml_pci, bus_id, 36);

struct nvml_utilization {
        uint32_t gpu, memory;
};
NVML_SIZE(struct nvml_utilization, 8);

struct nvml_memory {
        uint64_t total, free, used; /* used: with what the driver reserves */
};
NVML_SIZE(struct nvml_memory, 24);

struct nvml_memory_v2 {
        uint32_t version;
        uint64_t total, reserved, free, used; /* total is the sum of the other three */
};
NVML_SIZE(struct nvml_memory_v2, 40);
NVML_AT(struct nvml_memory_v2, used, 32);
#define NVML_MEMORY_V2 NVML_VERSION(struct nvml_memory_v2, 2)

struct nvml_process_v1 {
        uint32_t pid;
        uint64_t memory;
};
NVML_SIZE(struct nvml_process_v1, 16);

/* _v2 and _v3. For a time _v3 had 32 bytes, with a word about protected memory after these. */
struct nvml_process {
        uint32_t pid;
        uint64_t memory;
        uint32_t gpu_instance, compute_instance;
};
NVML_SIZE(struct nvml_process, 24);
NVML_AT(struct nvml_process, gpu_instance, 16);
enum { NVML_PROCESS_V1_BYTES = 16, NVML_PROCESS_BYTES = 24, NVML_PROCESS_LONG_BYTES = 32 };

struct nvml_process_sample {
        uint32_t pid;
        uint64_t time_us;
        uint32_t sm, memory, encoder, decoder; /* % */
};
NVML_SIZE(struct nvml_process_sample, 32);
NVML_AT(struct nvml_process_sample, sm, 16);

struct nvml_process_share {
        uint64_t time_us;
        uint32_t pid, sm, memory, encoder, decoder, jpeg, ofa;
};
NVML_SIZE(struct nvml_process_share, 40);
NVML_AT(struct nvml_process_share, pid, 8);

struct nvml_process_shares {
        uint32_t version, n;
        uint64_t last_seen_us;
        struct nvml_process_share *shares;
};
NVML_SIZE(struct nvml_process_shares, 24);
NVML_AT(struct nvml_process_shares, shares, 16);
#define NVML_PROCESS_SHARES_V1 NVML_VERSION(struct nvml_process_shares, 1)

enum nvml_value_type {
        NVML_DOUBLE,
        NVML_UNSIGNED_INT,
        NVML_UNSIGNED_LONG,
        NVML_UNSIGNED_LONG_LONG,
        NVML_SIGNED_LONG_LONG,
        NVML_SIGNED_INT,
        NVML_UNSIGNED_SHORT,
};
union nvml_value {
        double d;
        uint32_t u32;
        uint64_t u64; /* also unsigned long */
        int64_t i64;
        int32_t i32;
        uint16_t u16;
};
struct nvml_field {
        uint32_t id, scope;
        int64_t time_us, latency_us;
        uint32_t type; /* enum nvml_value_type */
        int32_t result;
        union nvml_value value;
};
NVML_SIZE(struct nvml_field, 40);
NVML_AT(struct nvml_field, type, 24);
NVML_AT(struct nvml_field, value, 32);

enum nvml_field_id {
        NVML_FIELD_NVLINK_CRC_ERRORS = 38, /* of control packets; of all links, like the next three */
        NVML_FIELD_NVLINK_CRC_DATA_ERRORS = 45,
        NVML_FIELD_NVLINK_REPLAY_ERRORS = 52,
        NVML_FIELD_NVLINK_RECOVERY_ERRORS = 59,
        NVML_FIELD_VIOLATION_POWER = 74, /* ns, in the order of enum nvml_policy */
        NVML_FIELD_MEMORY_TEMPERATURE = 82,
        NVML_FIELD_NVLINK_COUNT = 91,
        NVML_FIELD_NVLINK_TX = 138, /* KiB; scope: the link, ~0 all */
        NVML_FIELD_NVLINK_RX = 139,
        NVML_FIELD_POWER_AVERAGE = 185, /* mW; scope: enum nvml_power_scope */
        NVML_FIELD_POWER_INSTANT = 186,
        NVML_FIELD_PCIE_TX = 197, /* bytes */
        NVML_FIELD_PCIE_RX = 198,
        NVML_FIELD_RECOVERY_ACTION = 230,
        NVML_FIELD_SW_THERMAL = 269, /* ns; these three since driver 590, in their order */
        NVML_FIELD_HW_THERMAL = 270,
        NVML_FIELD_HW_POWER_BRAKE = 271,
        NVML_FIELD_SW_THERMAL_575 = 251, /* of drivers 575 to 580, whose 269 to 271 are settings of power smoothing */
};
enum nvml_power_scope { NVML_SCOPE_GPU, NVML_SCOPE_MODULE, NVML_SCOPE_MEMORY };

struct nvml_event {
        nvml_device device;
        uint64_t type, data; /* data: the number of the Xid */
        uint32_t gpu_instance, compute_instance;
};
NVML_SIZE(struct nvml_event, 32);
NVML_AT(struct nvml_event, data, 16);
#define NVML_EVENT_XID UINT64_C(8)

enum nvml_policy {
        NVML_POLICY_POWER,
        NVML_POLICY_THERMAL,
        NVML_POLICY_SYNC_BOOST,
        NVML_POLICY_BOARD_LIMIT,
        NVML_POLICY_LOW_UTILIZATION,
        NVML_POLICY_RELIABILITY,
        NVML_POLICY_N,
};
struct nvml_violation {
        uint64_t reference_us, violation_ns;
};
NVML_SIZE(struct nvml_violation, 16);

struct nvml_temperature {
        uint32_t version, sensor;
        int32_t celsius;
};
NVML_SIZE(struct nvml_temperature, 12);
#define NVML_TEMPERATURE_V1 NVML_VERSION(struct nvml_temperature, 1)

struct nvml_margin {
        uint32_t version;
        int32_t celsius;
};
NVML_SIZE(struct nvml_margin, 8);
#define NVML_MARGIN_V1 NVML_VERSION(struct nvml_margin, 1)

struct nvml_fan {
        uint32_t version, fan, rpm;
};
NVML_SIZE(struct nvml_fan, 12);
#define NVML_FAN_V1 NVML_VERSION(struct nvml_fan, 1)

enum nvml_threshold {
        NVML_THRESHOLD_SHUTDOWN,
        NVML_THRESHOLD_SLOWDOWN,
        NVML_THRESHOLD_MEMORY_MAX,
        NVML_THRESHOLD_GPU_MAX,
};
enum nvml_clock { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO };
enum { NVML_PCIE_TX, NVML_PCIE_RX };
enum { NVML_ECC_CORRECTED, NVML_ECC_UNCORRECTED };
enum { NVML_ECC_VOLATILE, NVML_ECC_AGGREGATE };
enum { NVML_PERF_STATE_UNKNOWN = 32 };

struct nvml_attributes {
        uint32_t n_sm, n_copy, n_decoder, n_encoder, n_jpeg, n_ofa, gpu_slices, compute_slices;
        uint64_t memory_mb;
};
NVML_SIZE(struct nvml_attributes, 40);

/* Metrics counted in the chip. The library reads as many entries as the header says, whatever its own array holds. */
enum nvml_gpm_metric_id {
        NVML_GPM_GRAPHICS = 1,
        NVML_GPM_SM = 2,
        NVML_GPM_SM_OCCUPANCY = 3,
        NVML_GPM_ANY_TENSOR = 5,
        NVML_GPM_DRAM_BANDWIDTH = 10,
        NVML_GPM_FP64 = 11,
        NVML_GPM_FP32 = 12,
        NVML_GPM_FP16 = 13,
        NVML_GPM_PCIE_TX = 20, /* MiB/s, like all below */
        NVML_GPM_PCIE_RX = 21,
        NVML_GPM_NVLINK_RX = 60,
        NVML_GPM_NVLINK_TX = 61,
};
enum { NVML_GPM_METRICS = 12 };
struct nvml_gpm_metric {
        uint32_t id;
        int32_t result;
        double value;
        char *short_name, *long_name, *unit;
};
NVML_SIZE(struct nvml_gpm_metric, 40);
struct nvml_gpm_metrics {
        uint32_t version, n;
        nvml_gpm_sample first, second;
        struct nvml_gpm_metric metrics[NVML_GPM_METRICS];
};
NVML_AT(struct nvml_gpm_metrics, metrics, 24);
struct nvml_gpm_support {
        uint32_t version, is_supported;
};
NVML_SIZE(struct nvml_gpm_support, 8);
enum { NVML_GPM_VERSION = 1 };

/* CALL(result type, name, arguments): symbol nvml<name>, member `name` of struct nvml. */
#define NVML_REQUIRED(CALL)                              \
        CALL(int, Init_v2, (void) )                      \
        CALL(int, Shutdown, (void) )                     \
        CALL(int, DeviceGetCount_v2, (uint32_t * ret_n)) \
        CALL(int, DeviceGetHandleByIndex_v2, (uint32_t index, nvml_device * ret))

#define NVML_OPTIONAL(CALL)                                                                                       \
        CALL(const char *, ErrorString, (int result))                                                             \
        CALL(int, SystemGetDriverVersion, (char *text, uint32_t size))                                            \
        CALL(int, SystemGetNVMLVersion, (char *text, uint32_t size))                                              \
        CALL(int, SystemGetCudaDriverVersion_v2, (int *ret))                                                      \
        CALL(int, SystemGetCudaDriverVersion, (int *ret))                                                         \
        CALL(int, DeviceGetName, (nvml_device, char *text, uint32_t size))                                        \
        CALL(int, DeviceGetUUID, (nvml_device, char *text, uint32_t size))                                        \
        CALL(int, DeviceGetPciInfo_v3, (nvml_device, struct nvml_pci * ret))                                      \
        CALL(int, DeviceGetCudaComputeCapability, (nvml_device, int *major, int *minor))                          \
        CALL(int, DeviceGetVbiosVersion, (nvml_device, char *text, uint32_t size))                                \
        CALL(int, DeviceGetNumaNodeId, (nvml_device, uint32_t * ret))                                             \
        CALL(int, DeviceGetMemoryBusWidth, (nvml_device, uint32_t * ret))                                         \
        CALL(int, DeviceGetUtilizationRates, (nvml_device, struct nvml_utilization * ret))                        \
        CALL(int, DeviceGetEncoderUtilization, (nvml_device, uint32_t * ret, uint32_t * period_us))               \
        CALL(int, DeviceGetDecoderUtilization, (nvml_device, uint32_t * ret, uint32_t * period_us))               \
        CALL(int, DeviceGetJpgUtilization, (nvml_device, uint32_t * ret, uint32_t * period_us))                   \
        CALL(int, DeviceGetOfaUtilization, (nvml_device, uint32_t * ret, uint32_t * period_us))                   \
        CALL(int, DeviceGetMemoryInfo, (nvml_device, struct nvml_memory * ret))                                   \
        CALL(int, DeviceGetMemoryInfo_v2, (nvml_device, struct nvml_memory_v2 * ret))                             \
        CALL(int, DeviceGetBAR1MemoryInfo, (nvml_device, struct nvml_memory * ret))                               \
        CALL(int, DeviceGetTemperatureV, (nvml_device, struct nvml_temperature * ret))                            \
        CALL(int, DeviceGetTemperature, (nvml_device, int sensor, uint32_t *ret))                                 \
        CALL(int, DeviceGetTemperatureThreshold, (nvml_device, int threshold, uint32_t *ret))                     \
        CALL(int, DeviceGetMarginTemperature, (nvml_device, struct nvml_margin * ret))                            \
        CALL(int, DeviceGetNumFans, (nvml_device, uint32_t * ret))                                                \
        CALL(int, DeviceGetFanSpeed, (nvml_device, uint32_t * ret))                                               \
        CALL(int, DeviceGetFanSpeed_v2, (nvml_device, uint32_t fan, uint32_t * ret))                              \
        CALL(int, DeviceGetFanSpeedRPM, (nvml_device, struct nvml_fan * ret))                                     \
        CALL(int, DeviceGetPowerUsage, (nvml_device, uint32_t * ret_mw))                                          \
        CALL(int, DeviceGetPowerManagementLimit, (nvml_device, uint32_t * ret_mw))                                \
        CALL(int, DeviceGetPowerManagementDefaultLimit, (nvml_device, uint32_t * ret_mw))                         \
        CALL(int, DeviceGetPowerManagementLimitConstraints, (nvml_device, uint32_t * min_mw, uint32_t * max_mw))  \
        CALL(int, DeviceGetEnforcedPowerLimit, (nvml_device, uint32_t * ret_mw))                                  \
        CALL(int, DeviceGetTotalEnergyConsumption, (nvml_device, uint64_t * ret_mj))                              \
        CALL(int, DeviceGetClockInfo, (nvml_device, int clock, uint32_t *ret_mhz))                                \
        CALL(int, DeviceGetMaxClockInfo, (nvml_device, int clock, uint32_t *ret_mhz))                             \
        CALL(int, DeviceGetPerformanceState, (nvml_device, int *ret))                                             \
        CALL(int, DeviceGetCurrentClocksEventReasons, (nvml_device, uint64_t * ret))                              \
        CALL(int, DeviceGetCurrentClocksThrottleReasons, (nvml_device, uint64_t * ret))                           \
        CALL(int, DeviceGetViolationStatus, (nvml_device, int policy, struct nvml_violation *ret))                \
        CALL(int, DeviceGetPcieThroughput, (nvml_device, int direction, uint32_t *ret_kib_per_s))                 \
        CALL(int, DeviceGetCurrPcieLinkGeneration, (nvml_device, uint32_t * ret))                                 \
        CALL(int, DeviceGetCurrPcieLinkWidth, (nvml_device, uint32_t * ret))                                      \
        CALL(int, DeviceGetMaxPcieLinkGeneration, (nvml_device, uint32_t * ret))                                  \
        CALL(int, DeviceGetMaxPcieLinkWidth, (nvml_device, uint32_t * ret))                                       \
        CALL(int, DeviceGetPcieReplayCounter, (nvml_device, uint32_t * ret))                                      \
        CALL(int, DeviceGetEccMode, (nvml_device, int *ret_current, int *ret_pending))                            \
        CALL(int, DeviceGetTotalEccErrors, (nvml_device, int kind, int counter, uint64_t *ret))                   \
        CALL(int, DeviceGetRetiredPages, (nvml_device, int cause, uint32_t *n, uint64_t *addresses))              \
        CALL(int, DeviceGetRetiredPagesPendingStatus, (nvml_device, int *ret))                                    \
        CALL(int, DeviceGetRemappedRows,                                                                          \
             (nvml_device, uint32_t * corrected, uint32_t * uncorrected, uint32_t * pending, uint32_t * failure)) \
        CALL(int, DeviceGetFieldValues, (nvml_device, int n, struct nvml_field *fields))                          \
        CALL(int, DeviceGetComputeRunningProcesses, (nvml_device, uint32_t * n, void *list))                      \
        CALL(int, DeviceGetComputeRunningProcesses_v2, (nvml_device, uint32_t * n, void *list))                   \
        CALL(int, DeviceGetComputeRunningProcesses_v3, (nvml_device, uint32_t * n, void *list))                   \
        CALL(int, DeviceGetGraphicsRunningProcesses, (nvml_device, uint32_t * n, void *list))                     \
        CALL(int, DeviceGetGraphicsRunningProcesses_v2, (nvml_device, uint32_t * n, void *list))                  \
        CALL(int, DeviceGetGraphicsRunningProcesses_v3, (nvml_device, uint32_t * n, void *list))                  \
        CALL(int, DeviceGetMPSComputeRunningProcesses, (nvml_device, uint32_t * n, void *list))                   \
        CALL(int, DeviceGetMPSComputeRunningProcesses_v2, (nvml_device, uint32_t * n, void *list))                \
        CALL(int, DeviceGetMPSComputeRunningProcesses_v3, (nvml_device, uint32_t * n, void *list))                \
        CALL(int, DeviceGetProcessUtilization,                                                                    \
             (nvml_device, struct nvml_process_sample * samples, uint32_t * n, uint64_t last_seen_us))            \
        CALL(int, DeviceGetProcessesUtilizationInfo, (nvml_device, struct nvml_process_shares * shares))          \
        CALL(int, DeviceGetMigMode, (nvml_device, uint32_t * current, uint32_t * pending))                        \
        CALL(int, DeviceGetMaxMigDeviceCount, (nvml_device, uint32_t * ret))                                      \
        CALL(int, DeviceGetMigDeviceHandleByIndex, (nvml_device, uint32_t index, nvml_device * ret))              \
        CALL(int, DeviceGetGpuInstanceId, (nvml_device, uint32_t * ret))                                          \
        CALL(int, DeviceGetComputeInstanceId, (nvml_device, uint32_t * ret))                                      \
        CALL(int, DeviceGetAttributes_v2, (nvml_device, struct nvml_attributes * ret))                            \
        CALL(int, GpmQueryDeviceSupport, (nvml_device, struct nvml_gpm_support * ret))                            \
        CALL(int, GpmSampleAlloc, (nvml_gpm_sample * ret))                                                        \
        CALL(int, GpmSampleFree, (nvml_gpm_sample))                                                               \
        CALL(int, GpmSampleGet, (nvml_device, nvml_gpm_sample))                                                   \
        CALL(int, GpmMigSampleGet, (nvml_device, uint32_t gpu_instance, nvml_gpm_sample))                         \
        CALL(int, GpmMetricsGet, (struct nvml_gpm_metrics * metrics))                                             \
        CALL(int, EventSetCreate, (nvml_event_set * ret))                                                         \
        CALL(int, EventSetFree, (nvml_event_set))                                                                 \
        CALL(int, DeviceGetSupportedEventTypes, (nvml_device, uint64_t * ret))                                    \
        CALL(int, DeviceRegisterEvents, (nvml_device, uint64_t types, nvml_event_set))                            \
        CALL(int, EventSetWait_v2, (nvml_event_set, struct nvml_event * ret, uint32_t timeout_ms))

#define NVML_MEMBER(type, name, arguments) type(*name) arguments;
struct nvml {
        void *library;
        NVML_REQUIRED(NVML_MEMBER)
        NVML_OPTIONAL(NVML_MEMBER) /* NULL where the library lacks it */
};
#undef NVML_MEMBER
