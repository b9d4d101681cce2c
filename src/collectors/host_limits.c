/* How much of the machine this run may use: limits of its cgroup and all of that one's parents, in v1, v2 and both at once,
 * its cpuset, its affinity. What has no limit is absent: v1 knows no word for that, only a number near 2^63. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "collectors/host.h"

enum { CGROUP_TEXT = 8192 };

/* Where the limits of one controller are found: `base` below the root, `path` within it, without '/' at its end. */
struct place {
        char base[256], path[PATH_MAX];
};

struct cgroups {
        char text[CGROUP_TEXT]; /* of /proc/self/cgroup */
        struct infp_span all;
        const char *mode;    /* NULL: it is not known which cgroup this is */
        const char *unified; /* where v2 is mounted */
};

/* Splits "4:memory:/a/b". */
static bool split(struct infp_span line, struct infp_span *ret_names, struct infp_span *ret_path)
{
        struct infp_span rest = { "", 0 };

        *ret_path = rest;
        infp_span_cut(line, ':', &rest);
        *ret_names = infp_span_cut(rest, ':', ret_path);
        return ret_path->size && ret_path->at[0] == '/';
}

static bool lists(struct infp_span names, const char *controller)
{
        while (names.size) {
                struct infp_span text = names;

                if (infp_span_is(infp_span_cut(text, ',', &names), controller))
                        return true;
                if (names.at == text.at)
                        break;
        }
        return false;
}

static void read_cgroups(const struct infp_env *env, struct cgroups *cgroups)
{
        bool has_v1 = false, has_v2 = false;
        struct infp_span text, line, names, path;
        char controllers[64];

        cgroups->all = text = infp_host_read(env, "proc/self/cgroup", cgroups->text, sizeof(cgroups->text));
        while (infp_span_line(&text, &line)) {
                if (!split(line, &names, &path))
                        continue;
                if (!names.size)
                        has_v2 = true;
                else if (!infp_span_starts(names, "name="))
                        has_v1 = true;
        }
        cgroups->mode = has_v1 && has_v2 ? "hybrid" : has_v1 ? "v1" : has_v2 ? "v2" : NULL;
        cgroups->unified =
                infp_read_at(env->root_fd, "sys/fs/cgroup/cgroup.controllers", controllers, sizeof(controllers)) >= 0
                        ? "sys/fs/cgroup"
                        : "sys/fs/cgroup/unified";
}

static bool set_place(struct place *place, const char *base, struct infp_span path)
{
        int n = snprintf(place->path, sizeof(place->path), "%.*s", (int) path.size, path.at);

        /* "/../x": a cgroup outside of our namespace, of which nothing can be seen here. */
        if (n < 0 || (size_t) n >= sizeof(place->path) || strstr(place->path, "/.."))
                place->path[0] = 0;
        while (n > 0 && place->path[strlen(place->path) - !!place->path[0]] == '/')
                place->path[strlen(place->path) - 1] = 0;
        snprintf(place->base, sizeof(place->base), "%s", base);
        return true;
}

/* The v1 hierarchy of the controller when there is one, else the unified one. */
static bool find_place(const struct infp_env *env, const struct cgroups *cgroups, const char *controller,
                       struct place *ret, bool *ret_v1)
{
        struct infp_span text = cgroups->all, line, names, path, unified = { "", 0 };
        char base[256], probe[300], seen[8];

        while (infp_span_line(&text, &line)) {
                if (!split(line, &names, &path))
                        continue;
                if (!names.size)
                        unified = path;
                if (!lists(names, controller))
                        continue;
                /* "cpu,cpuacct" is mounted under that name, and as a link under each of the two. */
                *ret_v1 = true;
                snprintf(base, sizeof(base), "sys/fs/cgroup/%.*s", (int) (names.size < 200 ? names.size : 200),
                         names.at);
                snprintf(probe, sizeof(probe), "%s/cgroup.procs", base);
                if (infp_read_at(env->root_fd, probe, seen, sizeof(seen)) < 0)
                        snprintf(base, sizeof(base), "sys/fs/cgroup/%s", controller);
                return set_place(ret, base, path);
        }
        *ret_v1 = false;
        return unified.size && set_place(ret, cgroups->unified, unified);
}

static struct infp_span read_here(const struct infp_env *env, const struct place *place, const char *file, char *text,
                                  size_t cap)
{
        char path[sizeof(place->base) + sizeof(place->path) + 64];

        snprintf(path, sizeof(path), "%s%s/%s", place->base, place->path, file);
        return infp_host_read(env, path, text, cap);
}

/* One step towards the root; false above it. In a container that sees another's path nothing is found until the root, which
 * is then its own cgroup. */
static bool go_up(struct place *place)
{
        char *slash = strrchr(place->path, '/');

        if (!slash)
                return false;
        *slash = 0;
        return true;
}

/* CPUs that the quota at one level gives; 0: none is set. */
static double quota_here(const struct infp_env *env, const struct place *place, bool v1)
{
        char text[64], period_text[64];
        struct infp_span line, first, second;
        uint64_t quota, period;

        if (v1) {
                first = read_here(env, place, "cpu.cfs_quota_us", text, sizeof(text)); /* -1: none */
                second = read_here(env, place, "cpu.cfs_period_us", period_text, sizeof(period_text));
        } else {
                line = read_here(env, place, "cpu.max", text, sizeof(text)); /* "max 100000" */
                first = infp_span_word(&line);
                second = infp_span_word(&line);
        }
        if (infp_span_u64(first, &quota) || infp_span_u64(second, &period) || !quota || !period)
                return 0;
        return (double) quota / (double) period;
}

static double quota_of(const struct infp_env *env, const struct cgroups *cgroups)
{
        struct place place;
        double least = 0, here;
        bool v1;

        if (!find_place(env, cgroups, "cpu", &place, &v1))
                return 0;
        do {
                here = quota_here(env, &place, v1);
                if (here > 0 && (least <= 0 || here < least))
                        least = here;
        } while (go_up(&place));
        return least;
}

/* Bytes; 0: no limit. */
static uint64_t memory_of(const struct infp_env *env, const struct cgroups *cgroups)
{
        /* v1's "none" is LONG_MAX rounded down to a page, or in old kernels to nothing. */
        const uint64_t no_limit = UINT64_C(1) << 62;
        struct place place;
        uint64_t least = 0, here;
        char text[64];
        bool v1;

        if (!find_place(env, cgroups, "memory", &place, &v1))
                return 0;
        do {
                struct infp_span value =
                        read_here(env, &place, v1 ? "memory.limit_in_bytes" : "memory.max", text, sizeof(text));

                if (!infp_span_u64(value, &here) && here < no_limit && (!least || here < least))
                        least = here;
        } while (go_up(&place));
        return least;
}

/* The kernel has already taken the parents into account; the nearest level that has the file tells. */
static bool cpuset_of(const struct infp_env *env, const struct cgroups *cgroups, struct infp_cpus *ret)
{
        struct place place;
        char text[4096];
        bool v1;

        if (!find_place(env, cgroups, "cpuset", &place, &v1))
                return false;
        do {
                struct infp_span list = read_here(env, &place, v1 ? "cpuset.effective_cpus" : "cpuset.cpus.effective",
                                                  text, sizeof(text));

                if (v1 && !list.size)
                        list = read_here(env, &place, "cpuset.cpus", text, sizeof(text));
                if (list.size && !infp_cpus_parse(ret, list) && ret->n)
                        return true;
        } while (go_up(&place));
        return false;
}

static bool affinity_of(const struct infp_env *env, struct infp_cpus *ret)
{
        char text[16384];
        struct infp_span status, line, value;

        if (env->is_live) {
                memset(ret, 0, sizeof(*ret));
                if (sched_getaffinity(0, sizeof(ret->bits), (cpu_set_t *) ret->bits) < 0)
                        return false;
                ret->n = (unsigned) CPU_COUNT_S(sizeof(ret->bits), (cpu_set_t *) ret->bits);
                return true;
        }
        status = infp_host_read(env, "proc/self/status", text, sizeof(text));
        while (infp_span_line(&status, &line))
                if (infp_span_is(infp_span_cut(line, ':', &value), "Cpus_allowed_list"))
                        return !infp_cpus_parse(ret, value) && ret->n;
        return false;
}

/* CPUs that are online and in both sets, where these are known. */
static unsigned count_common(const struct infp_cpus *online, const struct infp_cpus *a, const struct infp_cpus *b)
{
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(online->bits) / sizeof(online->bits[0]); i++)
                n += (unsigned) __builtin_popcountll(online->bits[i] & (a ? a->bits[i] : UINT64_MAX) &
                                                     (b ? b->bits[i] : UINT64_MAX));
        return n;
}

static void none(struct infp_emit *emit, unsigned cell, const char *reason)
{
        infp_emit_source(emit, emit->row.table, (int) cell, NULL, INFP_ABSENT, reason, NULL);
}

static void effective(struct infp_row *row, const struct infp_cpus *online, const struct infp_cpus *allowed,
                      const struct infp_cpus *cpuset, double quota)
{
        unsigned n = count_common(online, allowed, cpuset);

        /* Sets that have nothing in common were read at different moments. */
        if (n)
                infp_row_f64(row, HOST_EFFECTIVE_CPUS, quota > 0 && quota < n ? quota : n);
}

void infp_host_limits(const struct infp_env *env, struct infp_emit *emit, const struct infp_cpus *online)
{
        struct cgroups cgroups;
        struct infp_cpus allowed, cpuset;
        struct infp_row *row = &emit->row;
        bool has_allowed = affinity_of(env, &allowed), has_cpuset;
        uint64_t memory;
        double quota;

        read_cgroups(env, &cgroups);
        has_cpuset = cgroups.mode && cpuset_of(env, &cgroups, &cpuset);
        quota = cgroups.mode ? quota_of(env, &cgroups) : 0;
        memory = cgroups.mode ? memory_of(env, &cgroups) : 0;
        if (cgroups.mode)
                infp_row_str(row, HOST_CGROUP_MODE, cgroups.mode);
        if (quota > 0)
                infp_row_f64(row, HOST_CGROUP_QUOTA, quota);
        else if (cgroups.mode)
                none(emit, HOST_CGROUP_QUOTA, "no quota is set");
        if (memory)
                infp_row_raw(row, HOST_CGROUP_MEMORY, memory);
        else if (cgroups.mode)
                none(emit, HOST_CGROUP_MEMORY, "no limit is set");
        if (has_cpuset)
                infp_row_i64(row, HOST_CGROUP_CPUS, cpuset.n);
        if (has_allowed)
                infp_row_i64(row, HOST_AFFINITY, allowed.n);
        if (online->n)
                effective(row, online, has_allowed ? &allowed : NULL, has_cpuset ? &cpuset : NULL, quota);
}
