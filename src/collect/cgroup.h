/* Where control groups are: the one finder for all collectors. The mounts come from /proc/self/mountinfo, so that places
 * other than /sys/fs/cgroup, bind mounts of a part and both versions at once are understood; in a tree without that file the
 * usual places are tried. Paths are those of /proc/PID/cgroup: relative to our own cgroup namespace. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/procfile.h"
#include "collect/env.h"

enum infp_controller {
        INFP_CG_CPU,
        INFP_CG_CPUACCT,
        INFP_CG_CPUSET,
        INFP_CG_MEMORY,
        INFP_CG_IO, /* blkio in v1 */
        INFP_CG_PIDS,
        INFP_CG_NAMED, /* systemd's own hierarchy of v1 */
        INFP_CG_UNIFIED,
        INFP_CG_N,
};

enum { INFP_CGROUP_MOUNTS = 32, INFP_CGROUP_TEXT = 8192, INFP_CGROUP_PATH = 3072 };

struct infp_cgroup_mount {
        char path[256]; /* below the root directory, without '/' at its start */
        char root[512]; /* the part of the hierarchy that is mounted there: "/" is all of it */
        unsigned controllers;
        bool is_v2;
};

struct infp_cgroups {
        struct infp_cgroup_mount mounts[INFP_CGROUP_MOUNTS];
        unsigned n;
};

/* Finds the mounts. 0; -ENOENT: none. Allocates. */
int infp_cgroups_find(const struct infp_env *env, struct infp_cgroups *ret);

/* The cgroups of one process, one per hierarchy. */
struct infp_cgroup_paths {
        char text[INFP_CGROUP_TEXT];
        size_t size;
        struct infp_span at[INFP_CG_N]; /* into text; empty: not in that hierarchy */
};
/* pid 0: our own. 0 or a negative errno. */
int infp_cgroup_paths_read(const struct infp_env *env, int32_t pid, struct infp_cgroup_paths *ret);
/* "v1", "v2", "hybrid"; NULL: unknown. */
const char *infp_cgroup_mode(const struct infp_cgroup_paths *paths);

/* A directory of cgroupfs, and the way up from it. */
struct infp_cgroup_place {
        char path[INFP_CGROUP_PATH]; /* below the root directory */
        size_t size, base_size;      /* base: the mount, where the way up ends */
        bool is_v2;
};
/* The place of a controller: its v1 hierarchy where there is one, else the unified one. False: it cannot be seen from here
 * (no mount, or a path outside our namespace: then *ret is the mount itself when `or_mount`, which is all that a container
 * shows). */
bool infp_cgroup_place(const struct infp_cgroups *cgroups, const struct infp_cgroup_paths *paths,
                       enum infp_controller controller, bool or_mount, struct infp_cgroup_place *ret);
/* One step towards the root; false above it. */
bool infp_cgroup_up(struct infp_cgroup_place *place);
/* Reads a file there, without blanks at its ends; `text` holds it. 0 or a negative errno. */
int infp_cgroup_read(const struct infp_env *env, const struct infp_cgroup_place *place, const char *file, char *text,
                     size_t cap, struct infp_span *ret);
/* The root of the whole hierarchy: its figures are the machine's. */
bool infp_cgroup_is_machine(const struct infp_env *env, const struct infp_cgroup_place *place);

/* Limits; 0: none is set. v1 has no word for that, only a number near 2^63 that depends on page size and kernel. */
uint64_t infp_cgroup_limit(struct infp_span value);
/* CPUs that the quota of this level gives; 0: none. The two parts in us. */
double infp_cgroup_quota(const struct infp_env *env, const struct infp_cgroup_place *place, uint64_t *ret_quota_us,
                         uint64_t *ret_period_us);
/* The least of this level and all above it. */
double infp_cgroup_quota_effective(const struct infp_env *env, struct infp_cgroup_place place);
uint64_t infp_cgroup_memory_effective(const struct infp_env *env, struct infp_cgroup_place place);
