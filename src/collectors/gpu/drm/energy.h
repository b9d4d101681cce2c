/* Energy of a GPU: by its counter where it has one, else its power integrated by the trapezoid rule. */
#pragma once

#include "model/row.h"

struct gpu_energy {
        bool has_counter, has_power, has_counter_watts;
        uint64_t raw, counter_ns, power_ns;
        double watts, joules, seconds; /* seconds: that joules cover; without gaps */
        double counter_watts;          /* between the last two readings of the counter */
        const char *source;            /* NULL: no reading yet */
        bool is_estimated;             /* a part of it was integrated */
};

/* A reading of the counter, in steps of step_j. False: it has never counted anything, so it is not a valid counter. */
bool infp_gpu_energy_count(struct gpu_energy *energy, uint64_t raw, double step_j, uint64_t t_ns);
/* A reading of the power, where there is no counter to use. `source`: as in gEnergySource. */
void infp_gpu_energy_integrate(struct gpu_energy *energy, double watts, uint64_t t_ns, const char *source);
/* What is drawn until the next reading is not known, unless a counter has it. */
void infp_gpu_energy_pause(struct gpu_energy *energy);
/* gEnergyJoules, its seconds, source and quality, from the first reading on. */
void infp_gpu_energy_put(const struct gpu_energy *energy, struct infp_row *row);
