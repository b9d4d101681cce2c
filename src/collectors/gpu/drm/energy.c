#include "collectors/gpu/drm/energy.h"

#include "base/time.h"
#include "collectors/gpu/table.h"

/* More than any board draws: the counter was set, or its driver was reloaded. */
static const double impossible_watts = 20000, slack_s = 1;
/* Over a longer gap the power in between is not known. */
static const uint64_t longest_gap_ns = 10 * INFP_NS_PER_S;

bool infp_gpu_energy_count(struct gpu_energy *energy, uint64_t raw, double step_j, uint64_t t_ns)
{
        const double seconds = t_ns > energy->counter_ns ? (double) (t_ns - energy->counter_ns) / 1e9 : 0;
        const double joules = (double) (raw - energy->raw) * step_j;

        energy->has_counter_watts = false;
        if (!raw && !energy->has_counter)
                return false;
        if (energy->has_counter && raw >= energy->raw && joules <= impossible_watts * (seconds + slack_s)) {
                energy->joules += joules;
                energy->seconds += seconds;
                energy->counter_watts = seconds > 0 ? joules / seconds : 0;
                energy->has_counter_watts = seconds > 0;
        }
        energy->has_counter = true;
        energy->raw = raw;
        energy->counter_ns = t_ns;
        energy->source = "counter";
        return true;
}

void infp_gpu_energy_integrate(struct gpu_energy *energy, double watts, uint64_t t_ns, const char *source)
{
        if (energy->has_counter)
                return;
        if (energy->has_power && t_ns > energy->power_ns && t_ns - energy->power_ns <= longest_gap_ns) {
                const double seconds = (double) (t_ns - energy->power_ns) / 1e9;

                energy->joules += (energy->watts + watts) / 2 * seconds;
                energy->seconds += seconds;
        }
        energy->has_power = true;
        energy->watts = watts;
        energy->power_ns = t_ns;
        energy->source = source;
        energy->is_estimated = true;
}

void infp_gpu_energy_pause(struct gpu_energy *energy)
{
        energy->has_power = energy->has_counter_watts = false;
}

void infp_gpu_energy_put(const struct gpu_energy *energy, struct infp_row *row)
{
        if (!energy->source)
                return;
        infp_row_f64(row, GPU_ENERGY_JOULES, energy->joules);
        infp_row_f64(row, GPU_ENERGY_MEASURED, energy->seconds);
        infp_row_str(row, GPU_ENERGY_SOURCE, energy->source);
        infp_row_str(row, GPU_ENERGY_QUALITY, infp_quality_name(energy->is_estimated ? INFP_ESTIMATED : INFP_MEASURED));
}
