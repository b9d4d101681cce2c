/* Which share of a GPU each process had: the driver keeps samples of the last seconds, of those processes that did something. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"
#include "collectors/gpu/nvidia/nvidia.h"

/* It takes a sample in 1/6 to 1 s. A question for less than that finds nothing now and then, as if all had stopped. */
static const uint64_t least_us = 1000 * 1000;
enum { ROOM = 64, TRIES = 3, MOST = 1 << 16 };

static void *room(struct nvidia *nvidia, size_t size)
{
        void *shares;

        if (size > nvidia->shares_size) {
                shares = realloc(nvidia->shares, size);
                if (!shares)
                        return NULL;
                nvidia->shares = shares;
                nvidia->shares_size = size;
        }
        memset(nvidia->shares, 0, nvidia->shares_size);
        return nvidia->shares;
}

struct window {
        uint64_t since_us, now_us;
};

static int read_wide(struct nvidia *nvidia, struct nvidia_device *device, struct window window)
{
        uint32_t cap = ROOM;
        int r = NVML_MEMORY;

        for (int i = 0; i < TRIES; i++) {
                struct nvml_process_shares all = { .version = NVML_PROCESS_SHARES_V1,
                                                   .n = cap,
                                                   .last_seen_us = window.since_us,
                                                   .shares = room(nvidia, cap * sizeof(struct nvml_process_share)) };

                if (!all.shares)
                        return NVML_MEMORY;
                r = nvidia->nvml.DeviceGetProcessesUtilizationInfo(device->handle, &all);
                if (r == NVML_INSUFFICIENT_SIZE && all.n > cap && all.n <= MOST) {
                        cap = 2 * all.n;
                        continue;
                }
                /* bound: the driver has filled no more than cap */
                for (uint32_t k = 0; r == NVML_SUCCESS && k < all.n && k < cap; k++)
                        infp_nvidia_list_share(&device->processes, &all.shares[k], window.since_us, window.now_us);
                return r;
        }
        return r;
}

static int read_narrow(struct nvidia *nvidia, struct nvidia_device *device, struct window window)
{
        uint32_t cap = ROOM;
        int r = NVML_MEMORY;

        for (int i = 0; i < TRIES; i++) {
                struct nvml_process_sample *samples = room(nvidia, cap * sizeof(*samples));
                uint32_t n = cap;

                if (!samples)
                        return NVML_MEMORY;
                r = nvidia->nvml.DeviceGetProcessUtilization(device->handle, samples, &n, window.since_us);
                if (r == NVML_INSUFFICIENT_SIZE && n > cap && n <= MOST) {
                        cap = 2 * n;
                        continue;
                }
                /* bound: the driver has filled no more than cap */
                for (uint32_t k = 0; r == NVML_SUCCESS && k < n && k < cap; k++) {
                        const struct nvml_process_share share = { .time_us = samples[k].time_us,
                                                                  .pid = samples[k].pid,
                                                                  .sm = samples[k].sm,
                                                                  .memory = samples[k].memory,
                                                                  .encoder = samples[k].encoder,
                                                                  .decoder = samples[k].decoder,
                                                                  .jpeg = NVML_NONE_U32,
                                                                  .ofa = NVML_NONE_U32 };

                        infp_nvidia_list_share(&device->processes, &share, window.since_us, window.now_us);
                }
                return r;
        }
        return r;
}

void infp_nvidia_shares_read(const struct nvidia_reading *reading)
{
        struct nvidia *nvidia = reading->nvidia;
        struct nvidia_device *device = reading->device;
        const uint64_t now_us = infp_clock_ns(CLOCK_REALTIME) / 1000,
                       period_us = (uint64_t) reading->env->period_ms * 1000,
                       back_us = period_us > least_us ? period_us : least_us;
        const struct window window = { now_us > back_us ? now_us - back_us : 0, now_us + least_us };
        int r = NVML_FUNCTION_NOT_FOUND;

        device->has_shares = false;
        if (device->is_share_refused || !device->processes.n)
                return;
        if (nvidia->nvml.DeviceGetProcessesUtilizationInfo && device->has_wide_shares) {
                r = read_wide(nvidia, device, window);
                device->has_wide_shares = !infp_nvidia_is_refusal(r);
        }
        if (infp_nvidia_is_refusal(r) && nvidia->nvml.DeviceGetProcessUtilization)
                r = read_narrow(nvidia, device, window);
        if (infp_nvidia_is_fault(r))
                device->fault = r;
        device->is_share_refused = infp_nvidia_is_refusal(r);
        device->has_shares = r == NVML_SUCCESS || r == NVML_NOT_FOUND;
}
