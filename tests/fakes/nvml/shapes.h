/* The shapes of NVML as the fake has them, written without a look at the collector's: a mistake in one of the two shows against
 * the other. Sizes and offsets are those of NVIDIA's header on x86-64 and aarch64. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum nvml_code {
        NVML_OK = 0,
        NVML_UNINITIALIZED = 1,
        NVML_INVALID_ARGUMENT = 2,
        NVML_NOT_SUPPORTED = 3,
        NVML_NOT_FOUND = 6,
        NVML_INSUFFICIENT_SIZE = 7,
        NVML_TIMEOUT = 10,
        NVML_GPU_IS_LOST = 15,
        NVML_VERSION_MISMATCH = 25,
};

struct nvml_pci {
        char legacy[16];
        uint32_t domain, bus, device, id, subsystem;
        char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68 && offsetof(struct nvml_pci, bus_id) == 36, "nvmlPciInfo_t");

struct nvml_rates {
        uint32_t gpu, memory;
};
_Static_assert(sizeof(struct nvml_rates) == 8, "nvmlUtilization_t");

/* Also that of BAR1. */
struct nvml_memory {
        uint64_t total, free, used;
};
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");

struct nvml_memory_v2 {
        uint32_t version;
        uint64_t total, reserved, free, used;
};
_Static_assert(sizeof(struct nvml_memory_v2) == 40 && offsetof(struct nvml_memory_v2, used) == 32, "nvmlMemory_v2_t");

struct nvml_process_v1 {
        uint32_t pid;
        uint64_t memory;
};
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");

struct nvml_process {
        uint32_t pid;
        uint64_t memory;
        uint32_t gi, ci;
};
_Static_assert(sizeof(struct nvml_process) == 24 && offsetof(struct nvml_process, gi) == 16, "nvmlProcessInfo_v2_t");

/* What some drivers wrote behind the symbol _v3, and an element of the detail list. */
struct nvml_process_long {
        uint32_t pid;
        uint64_t memory;
        uint32_t gi, ci;
        uint64_t protected_memory;
};
_Static_assert(sizeof(struct nvml_process_long) == 32, "nvmlProcessDetail_v1_t");

struct nvml_detail_list {
        uint32_t version, mode, n;
        struct nvml_process_long *list;
};
_Static_assert(sizeof(struct nvml_detail_list) == 24 && offsetof(struct nvml_detail_list, list) == 16,
               "nvmlProcessDetailList_t");

struct nvml_process_use {
        uint32_t pid;
        uint64_t us;
        uint32_t sm, memory, encoder, decoder;
};
_Static_assert(sizeof(struct nvml_process_use) == 32, "nvmlProcessUtilizationSample_t");

struct nvml_process_use_v1 {
        uint64_t us;
        uint32_t pid, sm, memory, encoder, decoder, jpeg, ofa;
};
_Static_assert(sizeof(struct nvml_process_use_v1) == 40, "nvmlProcessUtilizationInfo_v1_t");

struct nvml_process_uses {
        uint32_t version, n;
        uint64_t since;
        struct nvml_process_use_v1 *list;
};
_Static_assert(sizeof(struct nvml_process_uses) == 24, "nvmlProcessesUtilizationInfo_v1_t");

struct nvml_accounting {
        uint32_t gpu, memory;
        uint64_t most_memory, time_ms, start_us;
        uint32_t is_running, reserved[5];
};
_Static_assert(sizeof(struct nvml_accounting) == 56, "nvmlAccountingStats_t");

union nvml_value {
        double f64;
        int32_t i32;
        uint32_t u32;
        uint64_t u64;
        int64_t i64;
};
enum nvml_value_type { NVML_DOUBLE, NVML_U32, NVML_ULONG, NVML_U64, NVML_I64, NVML_I32, NVML_U16 };

struct nvml_field {
        uint32_t id, scope;
        int64_t us, latency_us;
        uint32_t type, code;
        union nvml_value value;
};
_Static_assert(sizeof(struct nvml_field) == 40 && offsetof(struct nvml_field, code) == 28, "nvmlFieldValue_t");

struct nvml_sample {
        uint64_t us;
        union nvml_value value;
};
_Static_assert(sizeof(struct nvml_sample) == 16, "nvmlSample_t");

struct nvml_event {
        void *device;
        uint64_t type, data;
        uint32_t gi, ci;
};
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

struct nvml_violation {
        uint64_t reference_us, violation_ns;
};
_Static_assert(sizeof(struct nvml_violation) == 16, "nvmlViolationTime_t");

struct nvml_gpm_metric {
        uint32_t id, code;
        double value;
        struct {
                char *short_name, *long_name, *unit;
        } info;
};
_Static_assert(sizeof(struct nvml_gpm_metric) == 40, "nvmlGpmMetric_t");

struct nvml_gpm_get {
        uint32_t version, n;
        void *sample1, *sample2;
        struct nvml_gpm_metric metrics[];
};
_Static_assert(sizeof(struct nvml_gpm_get) == 24, "nvmlGpmMetricsGet_t");

struct nvml_gpm_support {
        uint32_t version, is_supported;
};
_Static_assert(sizeof(struct nvml_gpm_support) == 8, "nvmlGpmSupport_t");

struct nvml_temperature {
        uint32_t version, sensor;
        int32_t celsius;
};
_Static_assert(sizeof(struct nvml_temperature) == 12, "nvmlTemperature_v1_t");

struct nvml_margin {
        uint32_t version;
        int32_t celsius;
};
_Static_assert(sizeof(struct nvml_margin) == 8, "nvmlMarginTemperature_v1_t");

struct nvml_fan {
        uint32_t version, fan, rpm;
};
_Static_assert(sizeof(struct nvml_fan) == 12, "nvmlFanSpeedInfo_v1_t");

struct nvml_rows {
        uint32_t max, high, partial, low, none;
};
_Static_assert(sizeof(struct nvml_rows) == 20, "nvmlRowRemapperHistogramValues_t");

struct nvml_attributes {
        uint32_t multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
        uint64_t memory_mib;
};
_Static_assert(sizeof(struct nvml_attributes) == 40, "nvmlDeviceAttributes_t");

struct nvml_protected_memory {
        uint64_t protected_kib, unprotected_kib;
};
