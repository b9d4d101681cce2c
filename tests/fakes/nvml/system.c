/* The system, and how devices are found and named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

NVML(nvmlInit_v2, void)
{
        return fake_begin(__func__);
}

NVML(nvmlInitWithFlags, uint32_t flags)
{
        (void) flags;
        return fake_begin(__func__);
}

NVML(nvmlShutdown, void)
{
        ENTER_SYSTEM();
        fake_end();
        return NVML_OK;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
        static const char *const texts[] = {
                "Success",
                "Uninitialized",
                "Invalid Argument",
                "Not Supported",
                "Insufficient Permissions",
                "Already Initialized",
                "Not Found",
                "Insufficient Size",
                "Insufficient External Power",
                "Driver Not Loaded",
                "Timeout",
                "Interrupt Request Issue",
                "NVML Shared Library Not Found",
                "Function Not Found",
                "Corrupted infoROM",
                "GPU is lost",
                "GPU requires reset",
                "GPU access blocked by the operating system",
                "Driver/library version mismatch",
                "In use by another client",
                "Insufficient Memory",
                "No data",
                "VGPU ECC not supported",
                "Insufficient resources",
                "Requested frequency not supported",
                "Argument version mismatch",
                "Deprecated",
                "Not Ready",
                "GPU not found",
                "Invalid state",
                "Reset type not supported",
        };

        return code >= 0 && (size_t) code < sizeof(texts) / sizeof(texts[0]) ? texts[code] : "Unknown Error";
}

NVML(nvmlSystemGetDriverVersion, char *ret, uint32_t size)
{
        ENTER_SYSTEM();
        return fake_give_text(NULL, "driver", ret, size);
}

NVML(nvmlSystemGetNVMLVersion, char *ret, uint32_t size)
{
        ENTER_SYSTEM();
        return fake_give_text(NULL, "nvml", ret, size);
}

NVML(nvmlSystemGetCudaDriverVersion, int *ret)
{
        ENTER_SYSTEM();
        return fake_give_u32(NULL, "cuda", (uint32_t *) ret);
}

NVML(nvmlSystemGetCudaDriverVersion_v2, int *ret)
{
        ENTER_SYSTEM();
        return fake_give_u32(NULL, "cuda", (uint32_t *) ret);
}

NVML(nvmlDeviceGetCount_v2, uint32_t *ret)
{
        ENTER_SYSTEM();
        return fake_give_u32(NULL, "devices", ret);
}

NVML(nvmlDeviceGetHandleByIndex_v2, uint32_t index, const struct fake_device **ret)
{
        uint32_t n;
        int r;

        ENTER_SYSTEM();
        if (fake_give_u32(NULL, "devices", &n) || index >= n || index >= FAKE_DEVICES || !ret)
                return NVML_INVALID_ARGUMENT;
        r = fake_enter(fake_device_at((int) index, FAKE_WHOLE), __func__);
        if (r == NVML_OK)
                *ret = fake_device_at((int) index, FAKE_WHOLE);
        return r;
}

/* By a text of the device: its UUID, or where it is on the bus. */
static int find(const char *key, const char *text, const char *function, const struct fake_device **ret)
{
        uint32_t n;

        if (!text || !ret || fake_give_u32(NULL, "devices", &n))
                return NVML_INVALID_ARGUMENT;
        for (int i = 0; i < (int) n; i++)
                for (int part = FAKE_WHOLE; part < FAKE_PARTS; part++) {
                        const struct fake_device *device = fake_device_at(i, part);
                        const char *own = fake_text(device, key);

                        if (!own || strcasecmp(own, text))
                                continue;
                        *ret = device;
                        return fake_enter(device, function);
                }
        return NVML_NOT_FOUND;
}

NVML(nvmlDeviceGetHandleByUUID, const char *uuid, const struct fake_device **ret)
{
        ENTER_SYSTEM();
        return find("uuid", uuid, __func__, ret);
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, const struct fake_device **ret)
{
        ENTER_SYSTEM();
        return find("bus", bus, __func__, ret);
}

NVML(nvmlDeviceGetName, const struct fake_device *device, char *ret, uint32_t size)
{
        ENTER(device);
        return fake_give_text(device, "name", ret, size);
}

NVML(nvmlDeviceGetUUID, const struct fake_device *device, char *ret, uint32_t size)
{
        ENTER(device);
        return fake_give_text(device, "uuid", ret, size);
}

NVML(nvmlDeviceGetSerial, const struct fake_device *device, char *ret, uint32_t size)
{
        ENTER_WHOLE(device);
        return fake_give_text(device, "serial", ret, size);
}

NVML(nvmlDeviceGetVbiosVersion, const struct fake_device *device, char *ret, uint32_t size)
{
        ENTER_WHOLE(device);
        return fake_give_text(device, "vbios", ret, size);
}

NVML(nvmlDeviceGetGspFirmwareVersion, const struct fake_device *device, char *ret)
{
        ENTER_WHOLE(device);
        return fake_give_text(device, "gsp", ret, 64);
}

NVML(nvmlDeviceGetIndex, const struct fake_device *device, uint32_t *ret)
{
        ENTER(device);
        if (!ret)
                return NVML_INVALID_ARGUMENT;
        *ret = (uint32_t) (device->part == FAKE_WHOLE ? device->index : device->part);
        return NVML_OK;
}

NVML(nvmlDeviceGetMinorNumber, const struct fake_device *device, uint32_t *ret)
{
        ENTER_WHOLE(device);
        *ret = (uint32_t) device->index;
        return NVML_OK;
}

/* "00000000:17:00.0" */
NVML(nvmlDeviceGetPciInfo_v3, const struct fake_device *device, struct nvml_pci *ret)
{
        const char *bus;
        uint64_t id;

        ENTER_WHOLE(device);
        bus = fake_text(device, "bus");
        if (!bus || !ret)
                return ret ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
        memset(ret, 0, sizeof(*ret));
        snprintf(ret->bus_id, sizeof(ret->bus_id), "%s", bus);
        snprintf(ret->legacy, sizeof(ret->legacy), "%s", bus + 4);
        sscanf(bus, "%x:%x:%x", &ret->domain, &ret->bus, &ret->device);
        ret->id = fake_u64(device, "pci.device", &id) ? (uint32_t) id : 0;
        ret->subsystem = fake_u64(device, "pci.subsystem", &id) ? (uint32_t) id : 0;
        return NVML_OK;
}

NVML(nvmlDeviceGetCudaComputeCapability, const struct fake_device *device, int *major, int *minor)
{
        const char *text;

        ENTER(device);
        text = fake_text(device, "capability");
        return text && sscanf(text, "%d.%d", major, minor) == 2 ? NVML_OK : NVML_NOT_SUPPORTED;
}

#define U32(function, key)                                              \
        NVML(function, const struct fake_device *device, uint32_t *ret) \
        {                                                               \
                ENTER_WHOLE(device);                                    \
                return fake_give_u32(device, key, ret);                 \
        }
U32(nvmlDeviceGetBrand, "brand")
U32(nvmlDeviceGetArchitecture, "architecture")
U32(nvmlDeviceGetNumGpuCores, "cores")
U32(nvmlDeviceGetMemoryBusWidth, "bus_width")
U32(nvmlDeviceGetNumaNodeId, "numa")
U32(nvmlDeviceGetPersistenceMode, "persistence")
U32(nvmlDeviceGetComputeMode, "compute_mode")
