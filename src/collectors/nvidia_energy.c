/* Energy: the GPU's own counter (Volta and later), else its power, integrated. Each is named in the row, since they are not
 * equally good: the counter moves in steps of about 100 ms, and readings of power miss what lies between them. */
#include "collectors/nvidia.h"

/* Across a longer gap the power in between is not known. */
static const uint64_t longest_gap_ns = UINT64_C(10) * 1000 * 1000 * 1000;

static const double impossible_watts = 10000, step_s = 0.1;

/* A driver that was loaded anew counts from 0. What no GPU can draw was not counted, but set: 0. */
static uint64_t increase_mj(const struct nvidia_energy *energy, uint64_t mj, uint64_t t_ns)
{
        const uint64_t more = mj >= energy->counter_mj ? mj - energy->counter_mj : mj;
        const double seconds = (double) (t_ns - energy->counter_ns) / 1e9;

        return (double) more > impossible_watts * 1e3 * (seconds + step_s) ? 0 : more;
}

static void put_joules(const struct nvidia_reading *reading)
{
        const struct nvidia_energy *energy = &reading->device->energy;

        infp_row_f64(reading->row, GPU_ENERGY_JOULES, (double) energy->counted_mj / 1000 + energy->integrated_j);
}

static bool take_counter(const struct nvidia_reading *reading)
{
        struct nvidia_energy *energy = &reading->device->energy;
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
                return energy->has_counter; /* it is only silent now: its next value holds what is used meanwhile */
        /* Virtual GPUs answer, and count nothing. */
        if (!mj && !energy->has_counter)
                return false;
        infp_nvidia_put(reading, GPU_ENERGY_MJ, mj);
        if (energy->has_counter)
                energy->counted_mj += increase_mj(energy, mj, reading->t_ns);
        energy->has_counter = true;
        energy->counter_mj = mj;
        energy->counter_ns = reading->t_ns;
        energy->source = "counter";
        put_joules(reading);
        return true;
}

static void integrate(const struct nvidia_reading *reading)
{
        struct nvidia_energy *energy = &reading->device->energy;
        const bool is_instant = infp_row_has(reading->row, GPU_POWER_INSTANT);
        const unsigned cell = is_instant ? GPU_POWER_INSTANT : GPU_POWER_DRAW;
        const uint64_t gap_ns = reading->t_ns - energy->power_ns;
        double watts;

        if (!infp_row_has(reading->row, cell)) {
                energy->has_power = false;
                return;
        }
        watts = reading->row->cell[cell].f64;
        if (energy->has_power && gap_ns <= longest_gap_ns)
                energy->integrated_j += (energy->power_w + watts) / 2 * ((double) gap_ns / 1e9);
        energy->has_power = true;
        energy->power_w = watts;
        energy->power_ns = reading->t_ns;
        energy->source = is_instant ? "instant power" : "power";
        energy->is_estimated = true;
        put_joules(reading);
}

void infp_nvidia_read_energy(const struct nvidia_reading *reading)
{
        const struct nvidia_energy *energy = &reading->device->energy;

        if (!take_counter(reading))
                integrate(reading);
        if (!infp_row_has(reading->row, GPU_ENERGY_JOULES))
                return;
        infp_row_str(reading->row, GPU_ENERGY_SOURCE, energy->source);
        infp_row_str(reading->row, GPU_ENERGY_QUALITY,
                     infp_quality_name(energy->is_estimated ? INFP_ESTIMATED : INFP_MEASURED));
}
