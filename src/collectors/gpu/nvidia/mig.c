/* MIG devices. The parent's list of processes needs privileges; power and utilisation are told of the parent only. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collectors/gpu/nvidia/nvidia.h"

static const uint64_t find_period_ns = 10 * INFP_NS_PER_S; /* instances are made and removed by hand */

void infp_nvidia_mig_done(const struct nvidia *nvidia, struct nvidia_device *device)
{
        for (uint32_t i = 0; i < device->n_mig; i++)
                infp_nvidia_gpm_done(nvidia, &device->mig[i].gpm);
        device->n_mig = 0;
}

static bool identify(const struct nvml *nvml, struct nvidia_mig *mig)
{
        if (!nvml->DeviceGetGpuInstanceId || !nvml->DeviceGetComputeInstanceId ||
            nvml->DeviceGetGpuInstanceId(mig->handle, &mig->gpu_instance) != NVML_SUCCESS ||
            nvml->DeviceGetComputeInstanceId(mig->handle, &mig->compute_instance) != NVML_SUCCESS)
                return false;
        if (!nvml->DeviceGetUUID || nvml->DeviceGetUUID(mig->handle, mig->uuid, sizeof(mig->uuid)) != NVML_SUCCESS)
                mig->uuid[0] = 0;
        if (!nvml->DeviceGetName || nvml->DeviceGetName(mig->handle, mig->name, sizeof(mig->name)) != NVML_SUCCESS)
                mig->name[0] = 0;
        mig->uuid[sizeof(mig->uuid) - 1] = mig->name[sizeof(mig->name) - 1] = 0;
        mig->has_attributes = nvml->DeviceGetAttributes_v2 &&
                              nvml->DeviceGetAttributes_v2(mig->handle, &mig->attributes) == NVML_SUCCESS;
        return true;
}

/* The samples of a device that is still there are kept. */
static void inherit(struct nvidia_device *device, struct nvidia_mig *mig)
{
        for (uint32_t i = 0; i < device->n_mig; i++) {
                struct nvidia_mig *old = &device->mig[i];

                if (strcmp(old->uuid, mig->uuid) != 0 || old->gpu_instance != mig->gpu_instance ||
                    old->compute_instance != mig->compute_instance)
                        continue;
                mig->gpm = old->gpm;
                old->gpm = (struct nvidia_gpm){ 0 };
        }
}

static void list(const struct nvidia_reading *reading)
{
        const struct nvml *nvml = &reading->nvidia->nvml;
        struct nvidia_device *device = reading->device;
        struct nvidia_mig found[NVML_MAX_MIG];
        uint32_t most = NVML_MAX_MIG, n = 0;

        if (!device->mig)
                device->mig = calloc(NVML_MAX_MIG, sizeof(*device->mig));
        if (!nvml->DeviceGetMigDeviceHandleByIndex || !device->mig)
                return;
        if (nvml->DeviceGetMaxMigDeviceCount && nvml->DeviceGetMaxMigDeviceCount(device->handle, &most) != NVML_SUCCESS)
                most = 0;
        for (uint32_t i = 0; i < most && i < NVML_MAX_MIG; i++) { /* bound: a GPU has seven instances */
                found[n] = (struct nvidia_mig){ .number = i };
                if (nvml->DeviceGetMigDeviceHandleByIndex(device->handle, i, &found[n].handle) != NVML_SUCCESS ||
                    !identify(nvml, &found[n]))
                        continue;
                inherit(device, &found[n]);
                n++;
        }
        infp_nvidia_mig_done(reading->nvidia, device); /* of those that are no more */
        memcpy(device->mig, found, n * sizeof(*found));
        device->n_mig = n;
}

void infp_nvidia_mig_find(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;
        uint32_t now = 0, next = 0;

        if (device->mig_ns && reading->t_ns - device->mig_ns < find_period_ns)
                return;
        if (!infp_nvidia_wants(device, GPU_MIG_MODE))
                return;
        device->mig_ns = reading->t_ns;
        if (!reading->nvidia->nvml.DeviceGetMigMode) {
                infp_nvidia_lacks(device, GPU_MIG_MODE);
                return;
        }
        if (!infp_nvidia_took(device, GPU_MIG_MODE,
                              reading->nvidia->nvml.DeviceGetMigMode(device->handle, &now, &next)))
                return;
        if (device->mig_mode >= 0 && device->mig_mode != (now == 1))
                infp_nvidia_ask_anew(device); /* as a whole it answers other questions now */
        device->mig_mode = now == 1;
        if (now == 1)
                list(reading);
        else
                infp_nvidia_mig_done(reading->nvidia, device);
}

static void put_text(struct infp_row *row, unsigned cell, const char *text)
{
        if (*text)
                infp_row_bytes(row, cell, text, strlen(text));
}

static void put_memory(const struct nvidia_reading *reading, const struct nvidia_mig *mig, struct infp_row *row)
{
        struct nvml_memory_v2 memory;
        bool has_old = reading->device->has_old_memory;

        if (infp_nvidia_memory(reading->nvidia, mig->handle, &has_old, &memory) != NVML_SUCCESS || !memory.total)
                return;
        infp_row_raw(row, GPU_MIG_MEMORY_TOTAL_BYTES, memory.total);
        infp_row_raw(row, GPU_MIG_MEMORY_USED_BYTES, memory.used);
        infp_row_raw(row, GPU_MIG_MEMORY_FREE_BYTES, memory.free);
        if (!has_old)
                infp_row_raw(row, GPU_MIG_MEMORY_RESERVED_BYTES, memory.reserved);
}

void infp_nvidia_mig_emit(const struct nvidia_reading *reading, struct infp_emit *emit)
{
        struct nvidia_device *device = reading->device;
        const bool has_gpm = infp_nvidia_wants(device, GPU_GPM_GRAPHICS) && reading->nvidia->nvml.GpmSampleGet;

        for (uint32_t i = 0; i < device->n_mig; i++) {
                struct nvidia_mig *mig = &device->mig[i];
                struct infp_row *row =
                        infp_emit_begin(emit, &infp_table_nvidia_mig, reading->env->now_ns(reading->env));

                infp_row_i64(row, GPU_MIG_INDEX, device->index);
                put_text(row, GPU_MIG_UUID, device->uuid);
                infp_row_i64(row, GPU_MIG_GPU_INSTANCE, mig->gpu_instance);
                infp_row_i64(row, GPU_MIG_COMPUTE_INSTANCE, mig->compute_instance);
                infp_row_str(row, GPU_MIG_VENDOR, "nvidia");
                infp_row_i64(row, GPU_MIG_NUMBER, mig->number);
                put_text(row, GPU_MIG_OWN_UUID, mig->uuid);
                put_text(row, GPU_MIG_NAME, mig->name);
                if (mig->has_attributes) {
                        infp_row_i64(row, GPU_MIG_SM_COUNT, mig->attributes.n_sm);
                        infp_row_i64(row, GPU_MIG_SLICES, mig->attributes.gpu_slices);
                }
                put_memory(reading, mig, row);
                if (device->has_processes)
                        infp_row_i64(row, GPU_MIG_PROCESS_COUNT, mig->n_processes);
                if (has_gpm) {
                        const bool by_parent = reading->nvidia->nvml.GpmMigSampleGet;

                        infp_nvidia_gpm_sample(reading->nvidia, &mig->gpm, by_parent ? device->handle : mig->handle,
                                               by_parent ? (int64_t) mig->gpu_instance : -1, row->t_ns);
                        infp_nvidia_gpm_put_mig(&mig->gpm, row);
                }
                infp_emit_commit(emit);
        }
}
