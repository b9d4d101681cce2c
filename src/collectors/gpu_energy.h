/* Energy of a card of the DRM drivers: by its counter where it has one, else its power integrated by the trapezoid rule. */
#pragma once

#include "model/row.h"

struct gpu_energy {
        bool has_counter, has_power, has_moved;
        uint64_t raw, counter_ns, power_ns;
        double watts, joules;
        double counter_watts; /* between the last two readings of the counter */
        bool has_counter_watts;
        const char *source; /* NULL: nothing yet */
        bool is_measured;
};

/* A reading of the counter, in steps of step_j. */
void infp_gpu_energy_count(struct gpu_energy *energy, uint64_t raw, double step_j, uint64_t t_ns);
/* A reading of the power; does nothing once there is a counter. `source`: as gEnergySource says it. */
void infp_gpu_energy_integrate(struct gpu_energy *energy, double watts, uint64_t t_ns, const char *source);
/* What is drawn until the next reading is not known, unless a counter has it. */
void infp_gpu_energy_pause(struct gpu_energy *energy);
/* gEnergyJoules, its source and quality; nothing before the first two readings. */
void infp_gpu_energy_put(const struct gpu_energy *energy, struct infp_row *row);
