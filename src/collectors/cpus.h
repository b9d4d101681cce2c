/* Sets of CPU numbers, as directories of /sys/devices/system/cpu and lists like "0-3,8" name them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/procfile.h"

enum { INFP_CPUS_MAX = 8192 }; /* the kernel's own limit on x86 */

struct infp_cpus {
        uint64_t bits[INFP_CPUS_MAX / 64];
        unsigned n;
};

static inline bool infp_cpus_has(const struct infp_cpus *cpus, unsigned cpu)
{
        return cpu < INFP_CPUS_MAX && (cpus->bits[cpu / 64] >> (cpu % 64) & 1);
}

/* 0 or -EBADMSG: not a list, a range that runs backwards, a number beyond the limit. An empty list is an empty set. */
int infp_cpus_parse(struct infp_cpus *cpus, struct infp_span list);
/* The union: adds those of `cpus`. */
void infp_cpus_add(struct infp_cpus *to, const struct infp_cpus *cpus);
/* The cpuN directories, whether online or not. 0 or a negative errno. Does not allocate. */
int infp_cpus_list(struct infp_cpus *cpus, int root_fd);
