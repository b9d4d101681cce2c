#include "collectors/allowed.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/names.h"
#include "base/number.h"

static void find(const struct infp_cgroups *cgroups, const struct infp_cgroup_paths *paths,
                 enum infp_controller controller, bool is_ours, struct infp_allowed_place *ret)
{
        ret->place.size = 0;
        ret->has = infp_cgroup_place(cgroups, paths, controller, is_ours, &ret->place) || ret->place.size;
}

int infp_allowed_find(const struct infp_env *env, const struct infp_cgroups *cgroups, int32_t pid,
                      struct infp_allowed *ret)
{
        struct infp_cgroup_paths paths, ours;
        int r = infp_cgroup_paths_read(env, pid, &paths);
        bool is_ours;

        *ret = (struct infp_allowed){ .mode = infp_cgroup_mode(&paths) };
        if (!ret->mode)
                return r;
        is_ours = !pid || (!infp_cgroup_paths_read(env, 0, &ours) && ours.size == paths.size &&
                           !memcmp(ours.text, paths.text, paths.size));
        find(cgroups, &paths, INFP_CG_CPU, is_ours, &ret->cpu);
        find(cgroups, &paths, INFP_CG_MEMORY, is_ours, &ret->memory);
        find(cgroups, &paths, INFP_CG_CPUSET, is_ours, &ret->set);
        return r;
}

double infp_allowed_quota(const struct infp_env *env, const struct infp_allowed *allowed)
{
        return allowed->cpu.has ? infp_cgroup_quota_effective(env, allowed->cpu.place) : 0;
}

uint64_t infp_allowed_memory(const struct infp_env *env, const struct infp_allowed *allowed)
{
        return allowed->memory.has ? infp_cgroup_memory_effective(env, allowed->memory.place) : 0;
}

int infp_cpuset_read(const struct infp_env *env, struct infp_cgroup_place place, char *text, size_t cap,
                     struct infp_span *ret_list, struct infp_cpus *ret)
{
        int r;

        do {
                r = infp_cgroup_read(env, &place, place.is_v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus", text,
                                     cap, ret_list);
                if (!place.is_v2 && !ret_list->size)
                        r = infp_cgroup_read(env, &place, "cpuset.cpus", text, cap, ret_list);
                if (ret_list->size && !infp_cpus_parse(ret, *ret_list) && ret->n)
                        return r;
        } while (infp_cgroup_up(&place));
        ret->n = 0;
        return r;
}

bool infp_allowed_cpuset(const struct infp_env *env, const struct infp_allowed *allowed, struct infp_cpus *ret)
{
        struct infp_span list;
        char text[4096];

        if (!allowed->set.has)
                return false;
        infp_cpuset_read(env, allowed->set.place, text, sizeof(text), &list, ret);
        return ret->n > 0;
}

/* The system call needs no permission, and costs less than a file. */
static bool add_thread(const struct infp_env *env, int32_t pid, int32_t tid, struct infp_cpus *ret)
{
        struct infp_cpus cpus = { .n = 0 };
        char path[64] = "proc/self/status", text[16384];
        struct infp_span status = { text, 0 }, line, value;
        ssize_t n;

        if (env->is_live) {
                if (sched_getaffinity(tid, sizeof(cpus.bits), (cpu_set_t *) cpus.bits) < 0)
                        return false;
                infp_cpus_add(ret, &cpus);
                return true;
        }
        if (pid && tid == pid)
                snprintf(path, sizeof(path), "proc/%d/status", (int) pid);
        else if (pid)
                snprintf(path, sizeof(path), "proc/%d/task/%d/status", (int) pid, (int) tid);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        status.size = n > 0 ? (size_t) n : 0;
        while (infp_span_line(&status, &line))
                if (infp_span_is(infp_span_cut(line, ':', &value), "Cpus_allowed_list")) {
                        if (infp_cpus_parse(&cpus, value) || !cpus.n)
                                return false;
                        infp_cpus_add(ret, &cpus);
                        return true;
                }
        return false;
}

bool infp_allowed_affinity(const struct infp_env *env, int32_t pid, struct infp_cpus *ret)
{
        char path[48];
        struct infp_names names;
        const char *name;
        uint64_t tid;
        infp_autoclose int fd = -1;
        bool any = add_thread(env, pid, pid, ret);

        if (!pid)
                return any;
        snprintf(path, sizeof(path), "proc/%d/task", (int) pid);
        fd = openat(env->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                if (!infp_parse_u64(name, strlen(name), &tid) && tid <= INT32_MAX && (int32_t) tid != pid)
                        any |= add_thread(env, pid, (int32_t) tid, ret);
        return any;
}

unsigned infp_allowed_common(const struct infp_cpus *online, const struct infp_cpus *a, const struct infp_cpus *b)
{
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(online->bits) / sizeof(online->bits[0]); i++)
                n += (unsigned) __builtin_popcountll(online->bits[i] & (a ? a->bits[i] : UINT64_MAX) &
                                                     (b ? b->bits[i] : UINT64_MAX));
        return n;
}

double infp_allowed_cpus(const struct infp_cpus *online, const struct infp_cpus *a, const struct infp_cpus *b,
                         double quota)
{
        const unsigned n = infp_allowed_common(online, a, b);

        return quota > 0 && quota < n ? quota : n;
}
