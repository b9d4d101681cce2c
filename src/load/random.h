/* Random numbers that a seed gives again on every machine (splitmix64). */
#pragma once

#include <math.h>
#include <stdint.h>

struct infp_random {
        uint64_t state;
};

static inline uint64_t infp_random_next(struct infp_random *random)
{
        uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* Both may come. The bias of the product is below range / 2^64. */
static inline uint64_t infp_random_between(struct infp_random *random, uint64_t low, uint64_t high)
{
        const uint64_t range = high - low + 1;

        if (range == 0)
                return infp_random_next(random);
        return low + (uint64_t) ((unsigned __int128) infp_random_next(random) * range >> 64);
}

static inline double infp_random_exponential(struct infp_random *random, double mean)
{
        return -log1p(-(double) (infp_random_next(random) >> 11) * 0x1p-53) * mean;
}
