/* How much of the machine a process may use: its affinity, and the limits of its control group and of all above it, in v1, v2
 * and both at once. No limit is 0 or empty: v1 has no word for that, only a number near 2^63. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/cgroup.h"
#include "collectors/cpus.h"

/* Its control groups. One that another namespace hides is not `has`; for infprof's own the mount takes its place, which is
 * all that a container shows. */
struct infp_allowed_place {
        bool has;
        struct infp_cgroup_place place;
};
struct infp_allowed {
        const char *mode; /* "v1", "v2", "hybrid"; NULL: it is not known which group this is */
        struct infp_allowed_place cpu, memory, set;
};

/* pid 0: infprof itself. 0 or a negative errno. */
int infp_allowed_find(const struct infp_env *env, const struct infp_cgroups *cgroups, int32_t pid,
                      struct infp_allowed *ret);
/* CPUs, the least of all levels; 0: no quota. */
double infp_allowed_quota(const struct infp_env *env, const struct infp_allowed *allowed);
/* Bytes, the least of all levels; 0: no limit. */
uint64_t infp_allowed_memory(const struct infp_env *env, const struct infp_allowed *allowed);
/* The cpuset of the nearest level that has one: the kernel has taken the parents into account. *ret_list, in `text`, is the
 * file's text; ret->n 0: no level has one. Returns the result of the last read. */
int infp_cpuset_read(const struct infp_env *env, struct infp_cgroup_place place, char *text, size_t cap,
                     struct infp_span *ret_list, struct infp_cpus *ret);
/* The same; false: not known. */
bool infp_allowed_cpuset(const struct infp_env *env, const struct infp_allowed *allowed, struct infp_cpus *ret);
/* Adds the CPUs that the threads of a process may run on (pid 0: infprof's calling thread). False: not known. */
bool infp_allowed_affinity(const struct infp_env *env, int32_t pid, struct infp_cpus *ret);

/* CPUs that are in all these sets; NULL: any CPU. */
unsigned infp_allowed_common(const struct infp_cpus *online, const struct infp_cpus *a, const struct infp_cpus *b);
/* The same number within a quota (0: none). 0: the sets have nothing in common, since they were read at different times. */
double infp_allowed_cpus(const struct infp_cpus *online, const struct infp_cpus *a, const struct infp_cpus *b,
                         double quota);
