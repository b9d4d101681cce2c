/* One GPU: its handle, who it is, and what it has refused. Its number stays as long as the driver is loaded; its UUID stays for
 * ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/gpu/nvidia/nvidia.h"

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
        infp_gpu_energy_pause(&device->energy); /* what it drew meanwhile is not known */
        device->pcie[0].has_last = device->pcie[1].has_last = false;
        infp_nvidia_gpm_done(nvidia, &device->gpm);
        infp_nvidia_mig_done(nvidia, device);
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
                /* The short form is the one that the kernel and other makers' drivers use. */
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
        infp_nvidia_events_watch(nvidia, device);
        return !device->fault;
}

void infp_nvidia_device_done(struct nvidia *nvidia, struct nvidia_device *device)
{
        infp_nvidia_gpm_done(nvidia, &device->gpm);
        infp_nvidia_mig_done(nvidia, device);
        free(device->mig);
        device->mig = NULL;
        free(device->processes.at);
        device->processes = (struct nvidia_list){ 0 };
}

static void put_text(struct infp_row *row, unsigned cell, const char *text)
{
        if (*text)
                infp_row_bytes(row, cell, text, strlen(text));
}

void infp_nvidia_put_identity(const struct nvidia_reading *reading)
{
        const struct nvidia_device *device = reading->device;

        infp_row_i64(reading->row, GPU_INDEX, device->index);
        put_text(reading->row, GPU_UUID, device->uuid);
        infp_row_str(reading->row, GPU_VENDOR, "nvidia");
        put_text(reading->row, GPU_NAME, device->name);
        put_text(reading->row, GPU_PCI_BUS_ID, device->bus_id);
        infp_row_str(reading->row, GPU_DRIVER, "nvidia");
        put_text(reading->row, GPU_ARCHITECTURE, device->architecture);
        put_text(reading->row, GPU_VBIOS, device->vbios);
}
