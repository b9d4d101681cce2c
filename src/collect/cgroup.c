#include "collect/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

static const char *const controller_names[] = {
        [INFP_CG_CPU] = "cpu",
        [INFP_CG_CPUACCT] = "cpuacct",
        [INFP_CG_CPUSET] = "cpuset",
        [INFP_CG_MEMORY] = "memory",
        [INFP_CG_IO] = "blkio",
        [INFP_CG_PIDS] = "pids",
        [INFP_CG_NAMED] = "name=systemd",
};

/* The known ones of "rw,cpu,cpuacct", "cpu,cpuacct", "name=systemd". */
static unsigned controllers_of(struct infp_span names)
{
        unsigned set = 0;

        while (names.size) {
                struct infp_span before = names, name = infp_span_cut(names, ',', &names);

                for (size_t i = 0; i < INFP_COUNT(controller_names); i++)
                        if (infp_span_is(name, controller_names[i]))
                                set |= 1u << i;
                if (names.at == before.at)
                        break;
        }
        return set;
}

static bool is_octal(char c)
{
        return c >= '0' && c <= '7';
}

/* The kernel escapes blanks and backslashes in paths: \040. False: too long. */
static bool unescape(struct infp_span s, char *ret, size_t cap)
{
        size_t n = 0;

        for (size_t i = 0; i < s.size; i++) {
                char c = s.at[i];

                if (c == '\\' && i + 3 < s.size && s.at[i + 1] >= '0' && s.at[i + 1] <= '3' && is_octal(s.at[i + 2]) &&
                    is_octal(s.at[i + 3])) {
                        c = (char) ((s.at[i + 1] - '0') << 6 | (s.at[i + 2] - '0') << 3 | (s.at[i + 3] - '0'));
                        i += 3;
                }
                if (n + 1 >= cap) /* bound: a longer path is refused */
                        return false;
                ret[n++] = c;
        }
        ret[n] = 0;
        return true;
}

static struct infp_cgroup_mount *next_mount(struct infp_cgroups *cgroups)
{
        return cgroups->n < INFP_CGROUP_MOUNTS ? &cgroups->mounts[cgroups->n] : NULL;
}

/* "31 24 0:27 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate" */
static void add_line(struct infp_cgroups *cgroups, struct infp_span line)
{
        struct infp_cgroup_mount *m = next_mount(cgroups);
        struct infp_span root, point, type, word;

        for (int i = 0; i < 3; i++)
                infp_span_word(&line);
        root = infp_span_word(&line);
        point = infp_span_word(&line);
        do
                word = infp_span_word(&line);
        while (word.size && !infp_span_is(word, "-"));
        type = infp_span_word(&line);
        infp_span_word(&line);
        if (!m || (!infp_span_is(type, "cgroup") && !infp_span_is(type, "cgroup2")))
                return;
        if (!point.size || point.at[0] != '/')
                return;
        point.at++;
        point.size--;
        *m = (struct infp_cgroup_mount){ .is_v2 = infp_span_is(type, "cgroup2") };
        if (!unescape(root, m->root, sizeof(m->root)) || !unescape(point, m->path, sizeof(m->path)))
                return;
        m->controllers = m->is_v2 ? 1u << INFP_CG_UNIFIED : controllers_of(infp_span_word(&line));
        cgroups->n += m->controllers != 0;
}

static bool exists(const struct infp_env *env, const char *path)
{
        return faccessat(env->root_fd, path, F_OK, 0) == 0;
}

static void add_usual(struct infp_cgroups *cgroups, const char *path, unsigned controllers)
{
        struct infp_cgroup_mount *m = next_mount(cgroups);

        if (!m)
                return;
        *m = (struct infp_cgroup_mount){ .root = "/",
                                         .controllers = controllers,
                                         .is_v2 = controllers == 1u << INFP_CG_UNIFIED };
        snprintf(m->path, sizeof(m->path), "%s", path);
        cgroups->n++;
}

/* Without mountinfo (a collected tree): "cpu,cpuacct" is mounted under that name, usually with a link for each of the two. */
static void find_usual(const struct infp_env *env, struct infp_cgroups *cgroups)
{
        static const char *const usual[] = { "cpu,cpuacct", "cpuacct,cpu", "cpu",   "cpuacct",
                                             "cpuset",      "memory",      "blkio", "pids" };
        char path[64];

        if (exists(env, "sys/fs/cgroup/cgroup.controllers")) {
                add_usual(cgroups, "sys/fs/cgroup", 1u << INFP_CG_UNIFIED);
                return;
        }
        for (size_t i = 0; i < INFP_COUNT(usual); i++) {
                snprintf(path, sizeof(path), "sys/fs/cgroup/%s", usual[i]);
                if (exists(env, path))
                        add_usual(cgroups, path, controllers_of((struct infp_span){ usual[i], strlen(usual[i]) }));
        }
        if (exists(env, "sys/fs/cgroup/systemd"))
                add_usual(cgroups, "sys/fs/cgroup/systemd", 1u << INFP_CG_NAMED);
        if (exists(env, "sys/fs/cgroup/unified"))
                add_usual(cgroups, "sys/fs/cgroup/unified", 1u << INFP_CG_UNIFIED);
}

int infp_cgroups_find(const struct infp_env *env, struct infp_cgroups *ret)
{
        infp_autofree char *text = NULL;
        ssize_t n = infp_read_all_at(env->root_fd, "proc/self/mountinfo", 16u << 20, &text);
        struct infp_span rest = { n > 0 ? text : "", n > 0 ? (size_t) n : 0 }, line;

        *ret = (struct infp_cgroups){ .n = 0 };
        while (infp_span_line(&rest, &line))
                add_line(ret, line);
        if (!ret->n)
                find_usual(env, ret);
        return ret->n ? 0 : -ENOENT;
}

/* "4:memory:/a/b", "0::/a/b"; the path may contain colons. " (deleted)" follows that of a removed cgroup. */
static void take_path(struct infp_cgroup_paths *paths, struct infp_span line)
{
        struct infp_span rest = { "", 0 }, names, path = { "", 0 };
        static const char deleted[] = " (deleted)";
        const size_t tail = sizeof(deleted) - 1;
        unsigned set;

        infp_span_cut(line, ':', &rest);
        names = infp_span_cut(rest, ':', &path);
        if (!path.size || path.at[0] != '/')
                return;
        if (path.size > tail && !memcmp(path.at + path.size - tail, deleted, tail))
                return;
        set = names.size ? controllers_of(names) : 1u << INFP_CG_UNIFIED;
        for (unsigned i = 0; i < INFP_CG_N; i++)
                if (set >> i & 1)
                        paths->at[i] = path;
}

int infp_cgroup_paths_read(const struct infp_env *env, int32_t pid, struct infp_cgroup_paths *ret)
{
        char path[48] = "proc/self/cgroup";
        struct infp_span text, line;
        ssize_t n;

        memset(ret->at, 0, sizeof(ret->at));
        for (unsigned i = 0; i < INFP_CG_N; i++)
                ret->at[i].at = "";
        if (pid)
                snprintf(path, sizeof(path), "proc/%d/cgroup", (int) pid);
        n = infp_read_at(env->root_fd, path, ret->text, sizeof(ret->text));
        ret->size = n > 0 ? (size_t) n : 0;
        if (n < 0)
                return (int) n;
        text = (struct infp_span){ ret->text, ret->size };
        while (infp_span_line(&text, &line))
                take_path(ret, line);
        return 0;
}

const char *infp_cgroup_mode(const struct infp_cgroup_paths *paths)
{
        bool has_v1 = false, has_v2 = paths->at[INFP_CG_UNIFIED].size;

        for (unsigned i = 0; i < INFP_CG_NAMED; i++)
                has_v1 = has_v1 || paths->at[i].size;
        return has_v1 && has_v2 ? "hybrid" : has_v1 ? "v1" : has_v2 ? "v2" : NULL;
}

static bool has_dots(struct infp_span path)
{
        for (size_t i = 0; i + 2 < path.size; i++)
                if (!memcmp(path.at + i, "/..", 3) && (i + 3 == path.size || path.at[i + 3] == '/'))
                        return true;
        return false;
}

/* The part of the path below the mount; false: it is not below. */
static bool below(const struct infp_cgroup_mount *m, struct infp_span path, struct infp_span *ret)
{
        size_t n = strlen(m->root);

        if (has_dots(path))
                return false;
        if (n == 1) {
                *ret = path;
                return true;
        }
        if (path.size < n || memcmp(path.at, m->root, n) != 0 || (path.size > n && path.at[n] != '/'))
                return false;
        *ret = (struct infp_span){ path.at + n, path.size - n };
        return true;
}

static bool set_place(struct infp_cgroup_place *place, const struct infp_cgroup_mount *m, struct infp_span rest)
{
        int n;

        while (rest.size && rest.at[rest.size - 1] == '/')
                rest.size--;
        n = snprintf(place->path, sizeof(place->path), "%s%.*s", m->path, (int) rest.size, rest.at);
        place->base_size = strlen(m->path);
        place->size = n < 0 ? 0 : (size_t) n;
        place->is_v2 = m->is_v2;
        return n > 0 && place->size < sizeof(place->path);
}

bool infp_cgroup_place(const struct infp_cgroups *cgroups, const struct infp_cgroup_paths *paths,
                       enum infp_controller controller, bool or_mount, struct infp_cgroup_place *ret)
{
        const struct infp_cgroup_mount *any = NULL;
        enum infp_controller wanted = paths->at[controller].size ? controller : INFP_CG_UNIFIED;

        for (unsigned i = cgroups->n; i-- > 0;) { /* a mount hides earlier ones at the same place */
                const struct infp_cgroup_mount *m = &cgroups->mounts[i];
                struct infp_span rest;

                if (!(m->controllers >> wanted & 1) || !paths->at[wanted].size)
                        continue;
                any = m;
                if (below(m, paths->at[wanted], &rest))
                        return set_place(ret, m, rest);
        }
        if (any && or_mount)
                set_place(ret, any, (struct infp_span){ "", 0 });
        return false;
}

bool infp_cgroup_up(struct infp_cgroup_place *place)
{
        while (place->size > place->base_size)
                if (place->path[--place->size] == '/') {
                        place->path[place->size] = 0;
                        return true;
                }
        return false;
}

int infp_cgroup_read(const struct infp_env *env, const struct infp_cgroup_place *place, const char *file, char *text,
                     size_t cap, struct infp_span *ret)
{
        char path[INFP_CGROUP_PATH + 64];
        ssize_t n;

        snprintf(path, sizeof(path), "%.*s/%s", (int) place->size, place->path, file);
        n = infp_read_at(env->root_fd, path, text, cap);
        *ret = (struct infp_span){ n > 0 ? text : "", n > 0 ? (size_t) n : 0 };
        while (ret->size && ret->at[ret->size - 1] == '\n')
                ret->size--;
        *ret = infp_span_trim(*ret);
        return n < 0 ? (int) n : 0;
}

/* Only the root of a hierarchy has these files (v1), or lacks that one (v2). A namespace's root differs. */
bool infp_cgroup_is_machine(const struct infp_env *env, const struct infp_cgroup_place *place)
{
        char path[INFP_CGROUP_PATH + 64];

        if (place->size != place->base_size)
                return false;
        snprintf(path, sizeof(path), "%s/%s", place->path, place->is_v2 ? "cgroup.type" : "release_agent");
        return place->is_v2 ? !exists(env, path) : exists(env, path);
}

uint64_t infp_cgroup_limit(struct infp_span value)
{
        const uint64_t no_limit = UINT64_C(1) << 62;
        uint64_t v;

        return infp_span_u64(value, &v) || v >= no_limit ? 0 : v;
}

double infp_cgroup_quota(const struct infp_env *env, const struct infp_cgroup_place *place, uint64_t *ret_quota_us,
                         uint64_t *ret_period_us)
{
        char text[64], period_text[64];
        struct infp_span first, second;
        uint64_t quota = 0, period = 0;

        *ret_quota_us = *ret_period_us = 0;
        if (place->is_v2) {
                struct infp_span line;

                infp_cgroup_read(env, place, "cpu.max", text, sizeof(text), &line); /* "max 100000" */
                first = infp_span_word(&line);
                second = infp_span_word(&line);
        } else {
                infp_cgroup_read(env, place, "cpu.cfs_quota_us", text, sizeof(text), &first); /* -1: none */
                infp_cgroup_read(env, place, "cpu.cfs_period_us", period_text, sizeof(period_text), &second);
        }
        if (infp_span_u64(second, &period) || !period)
                return 0;
        *ret_period_us = period;
        if (infp_span_u64(first, &quota) || !quota)
                return 0;
        *ret_quota_us = quota;
        return (double) quota / (double) period;
}

double infp_cgroup_quota_effective(const struct infp_env *env, struct infp_cgroup_place place)
{
        uint64_t quota, period;
        double least = 0, here;

        do {
                here = infp_cgroup_quota(env, &place, &quota, &period);
                if (here > 0 && (least <= 0 || here < least))
                        least = here;
        } while (infp_cgroup_up(&place));
        return least;
}

/* v1 reports the least of all levels itself, and knows parents that cannot be seen from inside; 0: none. */
static uint64_t hierarchical_limit(const struct infp_env *env, const struct infp_cgroup_place *place)
{
        struct infp_span rest, line;
        char text[8192];

        infp_cgroup_read(env, place, "memory.stat", text, sizeof(text), &rest);
        while (infp_span_line(&rest, &line))
                if (infp_span_is(infp_span_word(&line), "hierarchical_memory_limit"))
                        return infp_cgroup_limit(infp_span_word(&line));
        return 0;
}

uint64_t infp_cgroup_memory_effective(const struct infp_env *env, struct infp_cgroup_place place)
{
        uint64_t least = place.is_v2 ? 0 : hierarchical_limit(env, &place), here;
        struct infp_span value;
        char text[64];

        do {
                infp_cgroup_read(env, &place, place.is_v2 ? "memory.max" : "memory.limit_in_bytes", text, sizeof(text),
                                 &value);
                here = infp_cgroup_limit(value);
                if (here && (!least || here < least))
                        least = here;
        } while (infp_cgroup_up(&place));
        return least;
}
