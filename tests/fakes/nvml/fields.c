/* Fields that are asked for by number, samples from the driver's ring, NVLink, events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"

/* In the driver since its branch of that number, and before the branch of the other (0: in all later ones). */
static const struct field {
        uint32_t id;
        const char *key;
        enum nvml_value_type type;
        int since, before;
} fields[] = {
        { 1, "ecc.mode", NVML_U32, 0, 0 },
        { 3, "ecc.corrected.volatile", NVML_U64, 0, 0 },
        { 4, "ecc.uncorrected.volatile", NVML_U64, 0, 0 },
        { 5, "ecc.corrected.aggregate", NVML_U64, 0, 0 },
        { 6, "ecc.uncorrected.aggregate", NVML_U64, 0, 0 },
        { 29, "retired.single", NVML_U32, 0, 0 },
        { 30, "retired.double", NVML_U32, 0, 0 },
        { 31, "retired.pending", NVML_U32, 0, 0 },
        { 38, "nvlink.crc_flit", NVML_U64, 0, 0 },
        { 45, "nvlink.crc_data", NVML_U64, 0, 0 },
        { 52, "nvlink.replay", NVML_U64, 0, 0 },
        { 59, "nvlink.recovery", NVML_U64, 0, 0 },
        { 74, "violation.power", NVML_U64, 0, 0 },
        { 75, "violation.thermal", NVML_U64, 0, 0 },
        { 76, "violation.sync_boost", NVML_U64, 0, 0 },
        { 77, "violation.board", NVML_U64, 0, 0 },
        { 78, "violation.utilization", NVML_U64, 0, 0 },
        { 79, "violation.reliability", NVML_U64, 0, 0 },
        { 80, "violation.app_clocks", NVML_U64, 0, 0 },
        { 81, "violation.base_clocks", NVML_U64, 0, 0 },
        { 82, "temperature.memory", NVML_U32, 0, 0 },
        { 83, "energy", NVML_U64, 0, 0 },
        { 90, "nvlink.speed", NVML_U32, 0, 0 },
        { 91, "nvlink.count", NVML_U32, 0, 0 },
        { 94, "pcie.replay", NVML_U32, 0, 0 },
        { 138, "nvlink.tx", NVML_U64, 0, 0 },
        { 139, "nvlink.rx", NVML_U64, 0, 0 },
        { 140, "nvlink.raw_tx", NVML_U64, 0, 0 },
        { 141, "nvlink.raw_rx", NVML_U64, 0, 0 },
        { 185, "power.average", NVML_U32, 535, 0 },
        { 186, "power.instant", NVML_U32, 535, 0 },
        { 187, "power.min", NVML_U32, 535, 0 },
        { 188, "power.max", NVML_U32, 535, 0 },
        { 189, "power.default", NVML_U32, 535, 0 },
        { 190, "power.limit", NVML_U32, 535, 0 },
        { 191, "energy", NVML_U64, 535, 0 },
        { 197, "pcie.tx_bytes", NVML_U64, 550, 0 },
        { 198, "pcie.rx_bytes", NVML_U64, 550, 0 },
        { 202, "nvlink.xmit_bytes", NVML_U64, 570, 0 },
        { 204, "nvlink.rcv_bytes", NVML_U64, 570, 0 },
        { 230, "recovery", NVML_U32, 560, 0 },
        { 251, "violation.sw_thermal", NVML_U64, 575, 590 },
        { 252, "violation.hw_thermal", NVML_U64, 575, 590 },
        { 253, "violation.hw_brake", NVML_U64, 575, 590 },
        { 251, "smoothing.enabled", NVML_U64, 590, 0 },
        { 269, "smoothing.profile", NVML_U64, 575, 590 },
        { 270, "smoothing.floor", NVML_U64, 575, 590 },
        { 271, "smoothing.ramp_up", NVML_U64, 575, 590 },
        { 269, "violation.sw_thermal", NVML_U64, 590, 0 },
        { 270, "violation.hw_thermal", NVML_U64, 590, 0 },
        { 271, "violation.hw_brake", NVML_U64, 590, 0 },
};

/* Power by scope: the GPU, the module with its CPU, its memory. */
static const char *key_of(const struct field *field, uint32_t scope)
{
        if (field->id != 185 && field->id != 186)
                return field->key;
        return scope == 0 ? field->key : scope == 1 ? "power.module" : scope == 2 ? "power.memory" : "none";
}

static void give_field(const struct fake_device *device, struct nvml_field *ret)
{
        const char *driver = fake_text(NULL, "driver");
        const int branch = driver ? atoi(driver) : 0;
        uint64_t v;

        ret->us = (int64_t) fake_us();
        ret->latency_us = 20;
        ret->code = NVML_NOT_SUPPORTED;
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                if (fields[i].id != ret->id || branch < fields[i].since ||
                    (fields[i].before && branch >= fields[i].before))
                        continue;
                if (!fake_u64(device, key_of(&fields[i], ret->scope), &v))
                        return;
                ret->type = fields[i].type;
                ret->code = NVML_OK;
                /* The rest of the union is not written by the driver. */
                if (fields[i].type == NVML_U32)
                        ret->value.u32 = (uint32_t) v;
                else
                        ret->value.u64 = v;
        }
}

NVML(nvmlDeviceGetFieldValues, const struct fake_device *device, int n, struct nvml_field *list)
{
        ENTER_WHOLE(device);
        if (n <= 0 || !list)
                return NVML_INVALID_ARGUMENT;
        for (int i = 0; i < n; i++)
                give_field(device, &list[i]);
        return NVML_OK;
}

enum { RING = 120, RING_STEP_MS = 20 };

/* The ring of the last 2.4 s: what the script said then, each 20 ms. */
NVML(nvmlDeviceGetSamples, const struct fake_device *device, uint32_t kind, uint64_t since_us, uint32_t *type,
     uint32_t *n, struct nvml_sample *list)
{
        static const char *const keys[] = { "power.usage",         "utilization.gpu",     "utilization.memory",
                                            "utilization.encoder", "utilization.decoder", "clock.graphics",
                                            "clock.memory",        "power.module" };
        const double now = fake_ms();
        const long last = (long) (now / RING_STEP_MS);
        uint32_t there = 0;

        ENTER_WHOLE(device);
        if (kind >= sizeof(keys) / sizeof(keys[0]) || !n || !type)
                return NVML_INVALID_ARGUMENT;
        if (!fake_text(device, keys[kind]))
                return NVML_NOT_SUPPORTED;
        *type = NVML_U32;
        if (!list) {
                *n = RING;
                return NVML_OK;
        }
        for (long i = last >= RING ? last - RING + 1 : 0; i <= last; i++) {
                const double ms = (double) (i * RING_STEP_MS);
                const uint64_t us = (uint64_t) (fake_clock_us() + ms * 1e3);
                const struct fake_line *line = fake_line_at(device, keys[kind], ms);

                if (us <= since_us || !line)
                        continue;
                if (there == *n)
                        break;
                list[there++] = (struct nvml_sample){ .us = us, .value.u32 = (uint32_t) fake_number_of(line, ms) };
        }
        *n = there;
        return there ? NVML_OK : NVML_NOT_FOUND;
}

static int link_enter(const struct fake_device *device, uint32_t link, const char *function)
{
        uint32_t n;
        const int r = fake_device_enter(device, function);

        if (r)
                return r;
        if (device->part != FAKE_WHOLE || fake_give_u32(device, "nvlink.count", &n))
                return NVML_NOT_SUPPORTED;
        return link < n ? NVML_OK : NVML_INVALID_ARGUMENT;
}

NVML(nvmlDeviceGetNvLinkState, const struct fake_device *device, uint32_t link, uint32_t *ret)
{
        const int r = link_enter(device, link, __func__);

        if (r == NVML_OK)
                *ret = 1;
        return r;
}

NVML(nvmlDeviceGetNvLinkVersion, const struct fake_device *device, uint32_t link, uint32_t *ret)
{
        const int r = link_enter(device, link, __func__);

        return r ? r : fake_give_u32(device, "nvlink.version", ret);
}

/* Errors of all links stand at the first. */
NVML(nvmlDeviceGetNvLinkErrorCounter, const struct fake_device *device, uint32_t link, uint32_t counter, uint64_t *ret)
{
        static const char *const keys[] = { "nvlink.replay", "nvlink.recovery", "nvlink.crc_flit", "nvlink.crc_data" };
        const int r = link_enter(device, link, __func__);

        if (r || counter >= sizeof(keys) / sizeof(keys[0]))
                return r ? r : NVML_INVALID_ARGUMENT;
        *ret = 0;
        return link ? NVML_OK : fake_give_u64(device, keys[counter], ret);
}

/* Events: lines `xid`, each given once, when its time has come. */
static struct events {
        uint64_t types;
        bool is_open;
        bool has[FAKE_DEVICES];
        unsigned given[FAKE_DEVICES];
} events;

NVML(nvmlDeviceGetSupportedEventTypes, const struct fake_device *device, uint64_t *ret)
{
        ENTER_WHOLE(device);
        *ret = 0x1f;
        return NVML_OK;
}

NVML(nvmlEventSetCreate, struct events **ret)
{
        ENTER_SYSTEM();
        events = (struct events){ .is_open = true };
        *ret = &events;
        return NVML_OK;
}

NVML(nvmlEventSetFree, struct events *set)
{
        ENTER_SYSTEM();
        if (set != &events)
                return NVML_INVALID_ARGUMENT;
        set->is_open = false;
        return NVML_OK;
}

NVML(nvmlDeviceRegisterEvents, const struct fake_device *device, uint64_t types, struct events *set)
{
        ENTER_WHOLE(device);
        if (set != &events || !set->is_open)
                return NVML_INVALID_ARGUMENT;
        if (types & ~UINT64_C(0x1f))
                return NVML_NOT_SUPPORTED;
        set->types |= types;
        set->has[device->index] = true;
        return NVML_OK;
}

static bool next_event(struct events *set, struct nvml_event *ret)
{
        for (int i = 0; i < FAKE_DEVICES; i++) {
                const struct fake_device *device = fake_device_at(i, FAKE_WHOLE);
                const struct fake_line *line;
                unsigned at = set->given[i];

                if (!set->has[i] || !(line = fake_next(device, "xid", &at)))
                        continue;
                set->given[i] = at;
                *ret = (struct nvml_event){ .device = (void *) (uintptr_t) device,
                                            .type = 8,
                                            .data = strtoull(line->value, NULL, 0),
                                            .gi = UINT32_MAX,
                                            .ci = UINT32_MAX };
                return true;
        }
        return false;
}

NVML(nvmlEventSetWait_v2, struct events *set, struct nvml_event *ret, uint32_t timeout_ms)
{
        const double end = fake_ms() + timeout_ms;

        ENTER_SYSTEM();
        if (set != &events || !set->is_open)
                return NVML_INVALID_ARGUMENT;
        for (;;) {
                if (next_event(set, ret))
                        return NVML_OK;
                if (fake_ms() >= end)
                        return NVML_TIMEOUT;
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
}
