/* Random numbers that a seed gives again on every machine (splitmix64). */
#pragma once

#include <stdint.h>

struct infp_random {
        uint64_t state;
};

uint64_t infp_random_next(struct infp_random *random);
uint64_t infp_random_between(struct infp_random *random, uint64_t low, uint64_t high); /* both may come */
double infp_random_exponential(struct infp_random *random, double mean);
