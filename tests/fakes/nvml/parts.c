/* MIG devices and GPM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

NVML(nvmlDeviceGetMigMode, const struct fake_device *device, uint32_t *now, uint32_t *pending)
{
        int r;

        ENTER_WHOLE(device);
        r = fake_give_u32(device, "mig.mode", now);
        if (r == NVML_OK)
                *pending = *now;
        return r;
}

NVML(nvmlDeviceGetMaxMigDeviceCount, const struct fake_device *device, uint32_t *ret)
{
        ENTER_WHOLE(device);
        if (!fake_text(device, "mig.mode")) {
                *ret = 0;
                return NVML_OK;
        }
        *ret = FAKE_PARTS;
        return NVML_OK;
}

NVML(nvmlDeviceGetMigDeviceHandleByIndex, const struct fake_device *device, uint32_t index,
     const struct fake_device **ret)
{
        uint32_t mode;
        int r;

        ENTER_WHOLE(device);
        r = fake_give_u32(device, "mig.mode", &mode);
        if (r)
                return r;
        if (index >= FAKE_PARTS)
                return NVML_INVALID_ARGUMENT;
        if (!mode || !fake_has_part(device, (int) index))
                return NVML_NOT_FOUND;
        *ret = fake_device_at(device->index, (int) index);
        return NVML_OK;
}

NVML(nvmlDeviceIsMigDeviceHandle, const struct fake_device *device, uint32_t *ret)
{
        ENTER(device);
        *ret = device->part != FAKE_WHOLE;
        return NVML_OK;
}

NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, const struct fake_device *device, const struct fake_device **ret)
{
        ENTER(device);
        if (device->part == FAKE_WHOLE)
                return NVML_INVALID_ARGUMENT;
        *ret = fake_device_at(device->index, FAKE_WHOLE);
        return NVML_OK;
}

#define OF_PART(function, key)                                                                            \
        NVML(function, const struct fake_device *device, uint32_t *ret)                                   \
        {                                                                                                 \
                ENTER(device);                                                                            \
                return device->part == FAKE_WHOLE ? NVML_NOT_SUPPORTED : fake_give_u32(device, key, ret); \
        }
OF_PART(nvmlDeviceGetGpuInstanceId, "gi")
OF_PART(nvmlDeviceGetComputeInstanceId, "ci")

NVML(nvmlDeviceGetAttributes_v2, const struct fake_device *device, struct nvml_attributes *ret)
{
        int r;

        ENTER(device);
        if (device->part == FAKE_WHOLE)
                return NVML_NOT_SUPPORTED;
        memset(ret, 0, sizeof(*ret));
        r = fake_give_u32(device, "attribute.multiprocessors", &ret->multiprocessors);
        if (r)
                return r;
        fake_give_u32(device, "attribute.copy", &ret->copy);
        fake_give_u32(device, "attribute.gpu_slices", &ret->gpu_slices);
        fake_give_u32(device, "attribute.compute_slices", &ret->compute_slices);
        fake_give_u64(device, "attribute.memory", &ret->memory_mib);
        return NVML_OK;
}

/* A sample is the moment and whose it is: metrics are made of two of them. */
struct gpm_sample {
        const struct fake_device *device;
        double ms;
};

static bool has_gpm(const struct fake_device *device)
{
        double v = 0;

        return fake_number(fake_device_at(device->index, FAKE_WHOLE), "gpm", &v) && v != 0;
}

NVML(nvmlGpmQueryDeviceSupport, const struct fake_device *device, struct nvml_gpm_support *ret)
{
        ENTER(device);
        if (ret->version != 1)
                return NVML_VERSION_MISMATCH;
        ret->is_supported = has_gpm(device);
        return NVML_OK;
}

NVML(nvmlGpmSampleAlloc, struct gpm_sample **ret)
{
        ENTER_SYSTEM();
        *ret = calloc(1, sizeof(**ret));
        return *ret ? NVML_OK : 20;
}

NVML(nvmlGpmSampleFree, struct gpm_sample *sample)
{
        ENTER_SYSTEM();
        free(sample);
        return NVML_OK;
}

NVML(nvmlGpmSampleGet, const struct fake_device *device, struct gpm_sample *sample)
{
        ENTER(device);
        if (!has_gpm(device) || !sample)
                return sample ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
        *sample = (struct gpm_sample){ .device = device, .ms = fake_ms() };
        return NVML_OK;
}

NVML(nvmlGpmMigSampleGet, const struct fake_device *device, uint32_t gi, struct gpm_sample *sample)
{
        ENTER_WHOLE(device);
        if (!has_gpm(device) || !sample)
                return sample ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
        for (int part = 0; part < FAKE_PARTS; part++) {
                uint64_t own;

                if (fake_has_part(device, part) && fake_u64(fake_device_at(device->index, part), "gi", &own) &&
                    own == gi) {
                        *sample = (struct gpm_sample){ .device = fake_device_at(device->index, part), .ms = fake_ms() };
                        return NVML_OK;
                }
        }
        return NVML_NOT_FOUND;
}

/* "gpm.10": the mean of what the script says at both moments. Two samples of one moment give nothing. */
NVML(nvmlGpmMetricsGet, struct nvml_gpm_get *get)
{
        const struct gpm_sample *a = get->sample1, *b = get->sample2;

        ENTER_SYSTEM();
        if (get->version != 1)
                return NVML_VERSION_MISMATCH;
        if (!a || !b || !a->device || a->device != b->device || b->ms <= a->ms)
                return NVML_INVALID_ARGUMENT;
        for (uint32_t i = 0; i < get->n; i++) {
                struct nvml_gpm_metric *m = &get->metrics[i];
                const struct fake_line *from, *to;
                char key[32];

                snprintf(key, sizeof(key), "gpm.%u", m->id);
                from = fake_line_at(a->device, key, a->ms);
                to = fake_line_at(b->device, key, b->ms);
                m->code = from && to ? NVML_OK : NVML_NOT_SUPPORTED;
                m->value = from && to ? (fake_number_of(from, a->ms) + fake_number_of(to, b->ms)) / 2 : 0;
        }
        return NVML_OK;
}
