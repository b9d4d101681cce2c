/* Clocks in nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

#define INFP_NS_PER_S UINT64_C(1000000000)
#define INFP_NS_PER_MS UINT64_C(1000000)

/* clock_gettime(clock) in ns; 0 when the clock does not exist. */
static inline uint64_t infp_clock_ns(clockid_t clock)
{
        struct timespec t;

        if (clock_gettime(clock, &t))
                return 0;
        return (uint64_t) t.tv_sec * INFP_NS_PER_S + (uint64_t) t.tv_nsec;
}

static inline struct timespec infp_timespec(uint64_t ns)
{
        return (struct timespec){ .tv_sec = (time_t) (ns / INFP_NS_PER_S), .tv_nsec = (long) (ns % INFP_NS_PER_S) };
}

/* Nanoseconds to microseconds, rounded down. */
static inline int64_t infp_floor_us(int64_t ns)
{
        return ns / 1000 - (ns % 1000 < 0);
}
