/* Xid errors, which the driver shows to those who wait for them. They are asked for at each sample without waiting, so that no
 * thread of its own is needed. */
#include "collectors/gpu/nvidia/nvidia.h"

enum { EVENTS_AT_ONCE = 256 };

void infp_nvidia_events_watch(struct nvidia *nvidia, struct nvidia_device *device)
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

static void take(struct nvidia *nvidia, const struct nvml_event *event)
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
                        take(nvidia, &event);
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
