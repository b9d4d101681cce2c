/* Energy: the GPU's own counter (Volta and later), else its power, integrated. Each is named in the row, since they are not
 * equally good: the counter moves in steps of about 100 ms, and readings of power miss what lies between them. */
#include "collectors/gpu/bounds.h"
#include "collectors/gpu/nvidia/nvidia.h"

static const double step_j = 1e-3;

/* False: there is no counter. One that is only silent now has no value in this row: its next one holds what is used meanwhile. */
static bool take_counter(const struct nvidia_reading *reading)
{
        struct gpu_energy *energy = &reading->device->energy;
        uint64_t mj = 0;

        if (!infp_nvidia_wants(reading->device, GPU_ENERGY_MJ))
                return false;
        if (!reading->nvidia->nvml.DeviceGetTotalEnergyConsumption) {
                infp_nvidia_lacks(reading->device, GPU_ENERGY_MJ);
                return false;
        }
        if (!infp_nvidia_took(reading->device, GPU_ENERGY_MJ,
                              reading->nvidia->nvml.DeviceGetTotalEnergyConsumption(reading->device->handle, &mj)) ||
            mj == NVML_NONE_U64)
                return energy->has_counter;
        if (mj > INFP_GPU_MOST_MJ) {
                infp_nvidia_put(reading, GPU_ENERGY_MJ, mj); /* for infp_gpu_bound to say it */
                return energy->has_counter;
        }
        /* Virtual GPUs answer, and count nothing. */
        if (!infp_gpu_energy_count(energy, mj, step_j, reading->t_ns))
                return false;
        infp_nvidia_put(reading, GPU_ENERGY_MJ, mj);
        infp_gpu_energy_put(energy, reading->row);
        return true;
}

void infp_nvidia_read_energy(const struct nvidia_reading *reading)
{
        struct gpu_energy *energy = &reading->device->energy;
        const bool is_instant = infp_row_has(reading->row, GPU_POWER_INSTANT);
        const unsigned cell = is_instant ? GPU_POWER_INSTANT : GPU_POWER_DRAW;

        if (take_counter(reading))
                return;
        if (!infp_row_has(reading->row, cell)) {
                infp_gpu_energy_pause(energy);
                return;
        }
        infp_gpu_energy_integrate(energy, reading->row->cell[cell].f64, reading->t_ns,
                                  is_instant ? "instant power" : "power");
        infp_gpu_energy_put(energy, reading->row);
}
