#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collectors/gpu/nvidia/nvidia.h"

/* Xid errors, which the driver reports to those who wait for them. Each sample asks without waiting, so that no separate
 * thread is needed. */

enum { EVENTS_AT_ONCE = 256 };

static void watch_events(struct nvidia *nvidia, struct nvidia_device *device)
{
        const struct nvml *nvml = &nvidia->nvml;
        uint64_t types = 0;
        int r;

        device->has_events = false;
        if (!nvml->EventSetCreate || !nvml->EventSetFree || !nvml->EventSetWait_v2 || !nvml->DeviceRegisterEvents ||
            !nvml->DeviceGetSupportedEventTypes) {
                infp_nvidia_lacks(device, GPU_XID_ERRORS);
                return;
        }
        r = nvml->DeviceGetSupportedEventTypes(device->handle, &types);
        if (r == NVML_SUCCESS && !(types & NVML_EVENT_XID))
                r = NVML_NOT_SUPPORTED;
        if (r == NVML_SUCCESS && !nvidia->events)
                r = nvml->EventSetCreate(&nvidia->events);
        if (r == NVML_SUCCESS)
                r = nvml->DeviceRegisterEvents(device->handle, NVML_EVENT_XID, nvidia->events);
        device->has_events = infp_nvidia_took(device, GPU_XID_ERRORS, r);
}

static void take_event(struct nvidia *nvidia, const struct nvml_event *event)
{
        for (uint32_t i = 0; i < nvidia->n_devices; i++) {
                struct nvidia_device *device = &nvidia->devices[i];

                if (device->handle != event->device)
                        continue;
                device->n_xid++;
                device->last_xid = (int64_t) (event->data & INT64_MAX);
        }
}

void infp_nvidia_events_poll(struct nvidia *nvidia)
{
        for (int i = 0; i < EVENTS_AT_ONCE && nvidia->events; i++) {
                struct nvml_event event = { 0 };

                if (nvidia->nvml.EventSetWait_v2(nvidia->events, &event, 0) != NVML_SUCCESS)
                        return;
                if (event.type & NVML_EVENT_XID)
                        take_event(nvidia, &event);
        }
}

void infp_nvidia_events_done(struct nvidia *nvidia)
{
        if (nvidia->events)
                nvidia->nvml.EventSetFree(nvidia->events);
        nvidia->events = NULL;
}

void infp_nvidia_put_events(const struct nvidia_reading *reading)
{
        if (!reading->device->has_events)
                return;
        infp_row_i64(reading->row, GPU_XID_ERRORS, reading->device->n_xid);
        if (reading->device->n_xid)
                infp_row_i64(reading->row, GPU_XID_LAST, reading->device->last_xid);
}

/* MIG devices. The parent's list of processes needs privileges; power and utilisation are reported for the parent only. */

static const uint64_t find_period_ns = 10 * INFP_NS_PER_S; /* instances are made and removed by hand */

static void mig_done(const struct nvidia *nvidia, struct nvidia_device *device)
{
        for (uint32_t i = 0; i < device->n_mig; i++)
                infp_nvidia_gpm_done(nvidia, &device->mig[i].gpm);
        device->n_mig = 0;
}

static bool identify_mig(const struct nvml *nvml, struct nvidia_mig *mig)
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

/* Keeps the samples of a device that is still there. */
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
                    !identify_mig(nvml, &found[n]))
                        continue;
                inherit(device, &found[n]);
                n++;
        }
        mig_done(reading->nvidia, device); /* of those that are gone */
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
                infp_nvidia_ask_anew(device); /* as a whole it now answers other calls */
        device->mig_mode = now == 1;
        if (now == 1)
                list(reading);
        else
                mig_done(reading->nvidia, device);
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
                infp_row_foreign(row, GPU_MIG_UUID, device->uuid);
                infp_row_i64(row, GPU_MIG_GPU_INSTANCE, mig->gpu_instance);
                infp_row_i64(row, GPU_MIG_COMPUTE_INSTANCE, mig->compute_instance);
                infp_row_str(row, GPU_MIG_VENDOR, "nvidia");
                infp_row_i64(row, GPU_MIG_NUMBER, mig->number);
                infp_row_foreign(row, GPU_MIG_OWN_UUID, mig->uuid);
                infp_row_foreign(row, GPU_MIG_NAME, mig->name);
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

/* One GPU: its handle, its identity, and the cells that it has refused. Its number stays while the driver is loaded; its UUID
 * stays for ever. */

bool infp_nvidia_took(struct nvidia_device *device, unsigned cell, int result)
{
        if (result == NVML_SUCCESS)
                return true;
        if (infp_nvidia_is_fault(result)) {
                device->fault = result;
        } else if (infp_nvidia_is_refusal(result)) {
                device->refused[cell / 64] |= UINT64_C(1) << cell % 64;
                device->why[cell] = (int16_t) result;
        }
        return false;
}

void infp_nvidia_lacks(struct nvidia_device *device, unsigned cell)
{
        infp_nvidia_took(device, cell, NVML_FUNCTION_NOT_FOUND);
}

void infp_nvidia_ask_anew(struct nvidia_device *device)
{
        memset(device->refused, 0, sizeof(device->refused));
        memset(device->why, 0, sizeof(device->why));
        device->refused_fields = 0;
        device->checked_violations = 0;
        device->fixed.is_filled = device->slow.is_filled = false;
        device->has_old_memory = device->has_old_temperature = device->has_no_fields = false;
        for (int i = 0; i < 3; i++)
                device->process_version[i] = -1;
        device->process_refusal = NVML_SUCCESS;
        device->has_wide_shares = true;
        device->is_share_refused = false;
}

/* It may have been reset. */
static void forget(struct nvidia *nvidia, struct nvidia_device *device)
{
        infp_nvidia_ask_anew(device);
        device->slow_ns = device->mig_ns = 0;
        device->bus_width = 0;
        device->recovery[0] = device->fans[0] = 0;
        device->mig_mode = -1;
        infp_gpu_energy_pause(&device->energy); /* its use meanwhile is not known */
        device->pcie[0].has_last = device->pcie[1].has_last = false;
        infp_nvidia_gpm_done(nvidia, &device->gpm);
        mig_done(nvidia, device);
}

static void terminate(char *text, size_t size)
{
        text[size - 1] = 0;
}

static void identify(const struct nvidia *nvidia, struct nvidia_device *device, nvml_device handle)
{
        const struct nvml *nvml = &nvidia->nvml;
        struct nvml_pci pci = { .bus_id = "" };
        char uuid[NVML_NAME_SIZE] = "";
        int major = 0, minor = 0;

        if (nvml->DeviceGetPciInfo_v3 &&
            infp_nvidia_took(device, GPU_PCI_BUS_ID, nvml->DeviceGetPciInfo_v3(handle, &pci))) {
                terminate(pci.bus_id_legacy, sizeof(pci.bus_id_legacy));
                terminate(pci.bus_id, sizeof(pci.bus_id));
                /* The short form is used by the kernel and other makers' drivers. */
                snprintf(device->bus_id, sizeof(device->bus_id), "%s",
                         pci.bus_id_legacy[0] ? pci.bus_id_legacy : pci.bus_id);
        }
        if (nvml->DeviceGetName &&
            infp_nvidia_took(device, GPU_NAME, nvml->DeviceGetName(handle, device->name, sizeof(device->name))))
                terminate(device->name, sizeof(device->name));
        if (nvml->DeviceGetCudaComputeCapability &&
            infp_nvidia_took(device, GPU_ARCHITECTURE, nvml->DeviceGetCudaComputeCapability(handle, &major, &minor)))
                snprintf(device->architecture, sizeof(device->architecture), "%d.%d", major % 1000, minor % 1000);
        if (nvml->DeviceGetVbiosVersion &&
            infp_nvidia_took(device, GPU_VBIOS,
                             nvml->DeviceGetVbiosVersion(handle, device->vbios, sizeof(device->vbios))))
                terminate(device->vbios, sizeof(device->vbios));
        if (nvml->DeviceGetUUID && infp_nvidia_took(device, GPU_UUID, nvml->DeviceGetUUID(handle, uuid, sizeof(uuid))))
                terminate(uuid, sizeof(uuid));
        if (!uuid[0])
                snprintf(uuid, sizeof(uuid), "%s", device->bus_id);
        if (!uuid[0])
                snprintf(uuid, sizeof(uuid), "GPU %u", device->index);
        if (strcmp(uuid, device->uuid) != 0) { /* another GPU has its number now */
                device->energy = (struct gpu_energy){ 0 };
                device->pcie[0] = device->pcie[1] = (struct nvidia_wrapping){ 0 };
                device->n_xid = device->last_xid = 0;
        }
        if (!device->fault)
                memcpy(device->uuid, uuid, sizeof(uuid));
}

bool infp_nvidia_device_open(struct nvidia *nvidia, struct nvidia_device *device, const struct infp_env *env)
{
        nvml_device handle = NULL;
        int r;

        (void) env;
        forget(nvidia, device);
        device->fault = 0;
        r = nvidia->nvml.DeviceGetHandleByIndex_v2(device->index, &handle);
        if (r != NVML_SUCCESS || !handle) {
                device->fault = r != NVML_SUCCESS ? r : NVML_UNKNOWN;
                return false;
        }
        identify(nvidia, device, handle);
        if (device->fault)
                return false;
        device->handle = handle;
        watch_events(nvidia, device);
        return !device->fault;
}

void infp_nvidia_device_done(struct nvidia *nvidia, struct nvidia_device *device)
{
        infp_nvidia_gpm_done(nvidia, &device->gpm);
        mig_done(nvidia, device);
        free(device->mig);
        device->mig = NULL;
        free(device->processes.at);
        device->processes = (struct nvidia_list){ 0 };
}

void infp_nvidia_put_identity(const struct nvidia_reading *reading)
{
        const struct nvidia_device *device = reading->device;

        infp_row_i64(reading->row, GPU_INDEX, device->index);
        infp_row_foreign(reading->row, GPU_UUID, device->uuid);
        infp_row_str(reading->row, GPU_VENDOR, "nvidia");
        infp_row_foreign(reading->row, GPU_NAME, device->name);
        infp_row_foreign(reading->row, GPU_PCI_BUS_ID, device->bus_id);
        infp_row_str(reading->row, GPU_DRIVER, "nvidia");
        infp_row_foreign(reading->row, GPU_ARCHITECTURE, device->architecture);
        infp_row_foreign(reading->row, GPU_VBIOS, device->vbios);
}
