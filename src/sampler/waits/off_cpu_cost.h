/* What recording the switches of a target costs it, and when that is worth a notice. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct infp_off_cpu_cost {
        double rate, share; /* between the last two looks: switches a second, CPUs */
        double said_share, looked_cpu_s;
        uint64_t looked_ns, looked_switches;
};
/* Looks once a second, with sums since the beginning: cpu_s is what recording has cost. True: that is more than a twentieth of a CPU,
 * and news: the first time, or half as much more than the last one. now_ns 0: nothing happened yet. */
bool infp_off_cpu_is_costly(struct infp_off_cpu_cost *cost, uint64_t n_switches, double cpu_s, uint64_t now_ns);
