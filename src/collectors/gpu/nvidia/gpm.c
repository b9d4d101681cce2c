/* Metrics counted in the chip (GPM, Hopper and later): the library computes them between two samples, at least 100 ms apart.
 * Unlike those of older GPUs they need no lock that profilers want. */
#include <string.h>

#include "base/time.h"
#include "collectors/gpu/nvidia/nvidia.h"

static const uint64_t least_ns = 100 * INFP_NS_PER_MS;
static const double most_mib_per_s = 1e9;

static const struct {
        uint32_t id;
        unsigned cell, mig_cell; /* mig_cell 0: none */
        double scale;
} metrics[NVML_GPM_METRICS] = {
        { NVML_GPM_GRAPHICS, GPU_GPM_GRAPHICS, GPU_MIG_GPM_GRAPHICS, 1 },
        { NVML_GPM_SM, GPU_GPM_SM, GPU_MIG_GPM_SM, 1 },
        { NVML_GPM_SM_OCCUPANCY, GPU_GPM_SM_OCCUPANCY, GPU_MIG_GPM_SM_OCCUPANCY, 1 },
        { NVML_GPM_ANY_TENSOR, GPU_GPM_TENSOR, GPU_MIG_GPM_TENSOR, 1 },
        { NVML_GPM_DRAM_BANDWIDTH, GPU_GPM_DRAM_BANDWIDTH, GPU_MIG_GPM_DRAM_BANDWIDTH, 1 },
        { NVML_GPM_FP64, GPU_GPM_FP64, GPU_MIG_GPM_FP64, 1 },
        { NVML_GPM_FP32, GPU_GPM_FP32, GPU_MIG_GPM_FP32, 1 },
        { NVML_GPM_FP16, GPU_GPM_FP16, GPU_MIG_GPM_FP16, 1 },
        { NVML_GPM_PCIE_TX, GPU_GPM_PCIE_TX_KBPS, 0, 1024 },
        { NVML_GPM_PCIE_RX, GPU_GPM_PCIE_RX_KBPS, 0, 1024 },
        { NVML_GPM_NVLINK_TX, GPU_GPM_NVLINK_TX_KBPS, 0, 1024 },
        { NVML_GPM_NVLINK_RX, GPU_GPM_NVLINK_RX_KBPS, 0, 1024 },
};
enum { IS_PERCENT = 8 }; /* this many of them, from the first */

static bool has_calls(const struct nvml *nvml)
{
        return nvml->GpmQueryDeviceSupport && nvml->GpmSampleAlloc && nvml->GpmSampleFree && nvml->GpmSampleGet &&
               nvml->GpmMetricsGet;
}

static bool begin(const struct nvml *nvml, struct nvidia_gpm *gpm)
{
        if (gpm->newer)
                return true;
        if (nvml->GpmSampleAlloc(&gpm->older) != NVML_SUCCESS)
                gpm->older = NULL;
        else if (nvml->GpmSampleAlloc(&gpm->newer) != NVML_SUCCESS)
                gpm->newer = NULL;
        gpm->is_refused = !gpm->older || !gpm->newer;
        return !gpm->is_refused;
}

static int take_sample(const struct nvml *nvml, nvml_device device, int64_t gpu_instance, nvml_gpm_sample sample)
{
        if (gpu_instance >= 0 && nvml->GpmMigSampleGet)
                return nvml->GpmMigSampleGet(device, (uint32_t) gpu_instance, sample);
        return nvml->GpmSampleGet(device, sample);
}

static void compute(const struct nvml *nvml, struct nvidia_gpm *gpm)
{
        struct nvml_gpm_metrics all = {
                .version = NVML_GPM_VERSION, .n = NVML_GPM_METRICS, .first = gpm->older, .second = gpm->newer
        };

        for (unsigned i = 0; i < NVML_GPM_METRICS; i++)
                all.metrics[i] = (struct nvml_gpm_metric){ .id = metrics[i].id, .result = NVML_NOT_SUPPORTED };
        gpm->has_values = nvml->GpmMetricsGet(&all) == NVML_SUCCESS;
        for (unsigned i = 0; i < NVML_GPM_METRICS && gpm->has_values; i++) {
                const struct nvml_gpm_metric *m = &all.metrics[i];

                /* Right after a change of load the counters do not match: a share above 100 % is dropped. */
                gpm->has[i] = m->result == NVML_SUCCESS && m->value >= 0 &&
                              m->value <= (i >= IS_PERCENT ? most_mib_per_s : 100);
                gpm->value[i] = m->value * metrics[i].scale;
        }
}

void infp_nvidia_gpm_sample(const struct nvidia *nvidia, struct nvidia_gpm *gpm, nvml_device device,
                            int64_t gpu_instance, uint64_t t_ns)
{
        const struct nvml *nvml = &nvidia->nvml;
        nvml_gpm_sample sample;
        int r;

        if (gpm->is_refused || (gpm->newer_ns && t_ns - gpm->newer_ns < least_ns))
                return;
        gpm->has_values = false;
        if (!begin(nvml, gpm))
                return;
        r = take_sample(nvml, device, gpu_instance, gpm->older);
        if (r != NVML_SUCCESS) {
                gpm->is_refused = infp_nvidia_is_refusal(r);
                gpm->newer_ns = 0;
                return;
        }
        sample = gpm->older; /* the newer one becomes the older one; nothing is allocated */
        gpm->older = gpm->newer;
        gpm->newer = sample;
        if (gpm->newer_ns)
                compute(nvml, gpm);
        gpm->newer_ns = t_ns;
}

void infp_nvidia_gpm_done(const struct nvidia *nvidia, struct nvidia_gpm *gpm)
{
        if (gpm->older)
                nvidia->nvml.GpmSampleFree(gpm->older);
        if (gpm->newer)
                nvidia->nvml.GpmSampleFree(gpm->newer);
        *gpm = (struct nvidia_gpm){ 0 };
}

/* Twice the clock (two transfers a cycle) by the width of the bus in bytes; KiB/s. */
static void put_bandwidth(const struct nvidia_reading *reading, double percent)
{
        const struct infp_row *row = reading->row;
        double bytes_per_s;

        if (!infp_row_has(row, GPU_CLOCK_MEM_MAX) || !reading->device->bus_width)
                return;
        bytes_per_s = 2e6 * (double) row->cell[GPU_CLOCK_MEM_MAX].i64 * reading->device->bus_width / 8;
        infp_row_f64(reading->row, GPU_MEMORY_BANDWIDTH_KBPS, bytes_per_s * percent / 100 / 1024);
}

static bool is_there(const struct nvidia_reading *reading)
{
        struct nvml_gpm_support support = { .version = NVML_GPM_VERSION };
        struct nvidia_device *device = reading->device;

        if (!infp_nvidia_wants(device, GPU_GPM_GRAPHICS))
                return false;
        if (device->gpm.newer)
                return true;
        if (!has_calls(&reading->nvidia->nvml)) {
                infp_nvidia_lacks(device, GPU_GPM_GRAPHICS);
                return false;
        }
        if (!infp_nvidia_took(device, GPU_GPM_GRAPHICS,
                              reading->nvidia->nvml.GpmQueryDeviceSupport(device->handle, &support)))
                return false;
        return support.is_supported || infp_nvidia_took(device, GPU_GPM_GRAPHICS, NVML_NOT_SUPPORTED);
}

void infp_nvidia_read_gpm(const struct nvidia_reading *reading)
{
        struct nvidia_gpm *gpm = &reading->device->gpm;

        if (!is_there(reading))
                return;
        infp_nvidia_gpm_sample(reading->nvidia, gpm, reading->device->handle, -1, reading->t_ns);
        if (gpm->is_refused) {
                infp_nvidia_took(reading->device, GPU_GPM_GRAPHICS, NVML_NOT_SUPPORTED);
                return;
        }
        for (unsigned i = 0; i < NVML_GPM_METRICS && gpm->has_values; i++) {
                if (!gpm->has[i])
                        continue;
                infp_row_f64(reading->row, metrics[i].cell, gpm->value[i]);
                if (metrics[i].id == NVML_GPM_DRAM_BANDWIDTH)
                        put_bandwidth(reading, gpm->value[i]);
        }
}

bool infp_nvidia_prime_gpm(const struct nvidia_reading *reading)
{
        if (!is_there(reading))
                return false;
        infp_nvidia_gpm_sample(reading->nvidia, &reading->device->gpm, reading->device->handle, -1, reading->t_ns);
        return reading->device->gpm.newer_ns;
}

void infp_nvidia_gpm_put_mig(const struct nvidia_gpm *gpm, struct infp_row *row)
{
        for (unsigned i = 0; i < NVML_GPM_METRICS && gpm->has_values; i++)
                if (metrics[i].mig_cell && gpm->has[i])
                        infp_row_f64(row, metrics[i].mig_cell, gpm->value[i]);
}
