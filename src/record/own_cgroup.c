#include "record/own_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"

static const char prefix[] = "infprof-";
enum { DEEPEST = 16 };

static int write_file(const struct infp_env *env, const char *dir, const char *file, const char *text)
{
        char path[INFP_CGROUP_PATH + 64];
        infp_autoclose int fd = -1;

        snprintf(path, sizeof(path), "%s/%s", dir, file);
        fd = openat(env->root_fd, path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* "infprof-<pid>-<part of uuid>" of a process that has ended. */
static bool is_left_over(const char *name)
{
        const char *dash;
        uint64_t pid;

        if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
                return false;
        name += sizeof(prefix) - 1;
        dash = strchr(name, '-');
        if (!dash || infp_parse_u64(name, (size_t) (dash - name), &pid) || !pid || pid > INT32_MAX)
                return false;
        return kill((pid_t) pid, 0) < 0 && errno == ESRCH;
}

/* A command may have made cgroups in its own. They are removed with it once no process is in any of them: a live one may need
 * its empty ones. */
enum tree_step { IS_EMPTY, REMOVE };

static bool walk_tree(int parent_fd, const char *name, enum tree_step step, unsigned depth)
{
        int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        char text[32];
        bool ret = stream && depth < DEEPEST &&
                   (step == REMOVE || infp_read_at(fd, "cgroup.procs", text, sizeof(text)) == 0);

        if (!stream)
                infp_close(fd);
        while (ret && (entry = readdir(stream)))
                if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        ret = walk_tree(fd, entry->d_name, step, depth + 1);
        if (stream)
                closedir(stream);
        return ret && (step == IS_EMPTY || unlinkat(parent_fd, name, AT_REMOVEDIR) == 0);
}

/* rmdir of a cgroup fails as long as a process is in it. */
static void remove_tree(int parent_fd, const char *name)
{
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && walk_tree(parent_fd, name, IS_EMPTY, 0))
                walk_tree(parent_fd, name, REMOVE, 0);
}

static void sweep(const struct infp_env *env, const char *parent)
{
        int fd = openat(env->root_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!stream) {
                infp_close(fd);
                return;
        }
        while ((entry = readdir(stream)))
                if (is_left_over(entry->d_name))
                        remove_tree(fd, entry->d_name);
        closedir(stream);
}

/* Makes it below `parent`, limits it to so many processes (NULL: no change), and moves the process. */
static int make_at(struct infp_own_cgroup *own, const struct infp_env *env, const struct infp_cgroup_place *parent,
                   const char *name, const char *pids_max, pid_t pid)
{
        char *path = own->paths[own->n], text[24];
        int r;

        if (own->n == INFP_OWN_CGROUPS)
                return -ENOSPC;
        sweep(env, parent->path);
        r = snprintf(path, INFP_CGROUP_PATH, "%s/%s", parent->path, name);
        if (r < 0 || r >= INFP_CGROUP_PATH)
                return -ENAMETOOLONG;
        if (mkdirat(env->root_fd, path, 0755) < 0)
                return -errno;
        snprintf(text, sizeof(text), "%d", (int) pid);
        r = pids_max ? write_file(env, path, "pids.max", pids_max) : 0;
        if (r >= 0)
                r = write_file(env, path, "cgroup.procs", text);
        if (r < 0) {
                unlinkat(env->root_fd, path, AT_REMOVEDIR);
                return r;
        }
        own->n++;
        return 0;
}

static bool is_unset(const struct infp_env *env, const struct infp_cgroup_place *place, const char *file)
{
        struct infp_span value;
        char text[256];
        int r = infp_cgroup_read(env, place, file, text, sizeof(text), &value);

        return r == -ENOENT || (r == 0 && (!value.size || infp_span_starts(value, "max")));
}

/* A sibling of our cgroup escapes our limits: only where we have none. */
static bool may_stand_beside(const struct infp_env *env, const struct infp_cgroup_place *own)
{
        static const char *const limits[] = { "memory.max",  "memory.high", "memory.swap.max",
                                              "cpu.max",     "pids.max",    "cpuset.cpus",
                                              "cpuset.mems", "io.max",      "hugetlb.2MB.max" };

        if (own->size == own->base_size)
                return false;
        for (size_t i = 0; i < INFP_COUNT(limits); i++)
                if (!is_unset(env, own, limits[i]))
                        return false;
        return true;
}

static int make_v2(struct infp_own_cgroup *own, const struct infp_env *env, const struct infp_cgroup_place *place,
                   const char *name, pid_t pid)
{
        static const char *const controllers[] = { "+cpu", "+memory", "+io", "+pids" };
        struct infp_cgroup_place parent = *place;
        struct infp_span pids;
        char text[64], pids_max[64];

        /* A sibling has the same controllers as our cgroup. systemd usually limits the processes of a scope; the sibling gets
         * the same number. */
        infp_cgroup_read(env, place, "pids.max", text, sizeof(text), &pids);
        snprintf(pids_max, sizeof(pids_max), "%.*s", (int) pids.size, pids.at);
        if (may_stand_beside(env, place) && infp_cgroup_up(&parent) &&
            make_at(own, env, &parent, name, infp_cgroup_limit(pids) ? pids_max : NULL, pid) == 0)
                return 0;
        /* Below ours they must be enabled, which v2 allows only in the root while we are in it ourselves. */
        for (size_t i = 0; i < INFP_COUNT(controllers) && infp_cgroup_is_machine(env, place); i++)
                write_file(env, place->path, "cgroup.subtree_control", controllers[i]);
        return make_at(own, env, place, name, NULL, pid);
}

/* without cpuset: a new one of v1 has no CPUs, and the command keeps ours */
static int make_all(struct infp_own_cgroup *own, const struct infp_env *env, const struct infp_cgroups *cgroups,
                    const struct infp_cgroup_paths *paths, const char *name, pid_t pid)
{
        static const enum infp_controller wanted[] = { INFP_CG_CPU, INFP_CG_CPUACCT, INFP_CG_MEMORY,
                                                       INFP_CG_IO,  INFP_CG_PIDS,    INFP_CG_UNIFIED };
        char done[INFP_COUNT(wanted)][256] = { "" };
        unsigned n_done = 0;
        int first = -ENOENT;

        for (size_t i = 0; i < INFP_COUNT(wanted); i++) {
                struct infp_cgroup_place place;
                bool is_done = false;
                int r;

                if (!infp_cgroup_place(cgroups, paths, wanted[i], false, &place))
                        continue;
                for (unsigned k = 0; k < n_done; k++) /* cpu and cpuacct may be one hierarchy; in v2 all are */
                        is_done = is_done ||
                                  (strlen(done[k]) == place.base_size && !memcmp(done[k], place.path, place.base_size));
                if (is_done)
                        continue;
                snprintf(done[n_done++], sizeof(done[0]), "%.*s", (int) place.base_size, place.path);
                r = place.is_v2 ? make_v2(own, env, &place, name, pid) : make_at(own, env, &place, name, NULL, pid);
                if (r < 0 && first == -ENOENT)
                        first = r;
        }
        return own->n ? 0 : first;
}

int infp_own_cgroup_make(struct infp_own_cgroup *own, const struct infp_env *env, const char *uuid, pid_t pid,
                         struct infp_err *err)
{
        infp_autofree struct infp_cgroups *cgroups = calloc(1, sizeof(*cgroups));
        infp_autofree struct infp_cgroup_paths *paths = calloc(1, sizeof(*paths));
        char name[64];
        int r;

        own->n = 0;
        if (!cgroups || !paths)
                return infp_fail(err, -ENOMEM, "--own-cgroup: no memory");
        if (!env->is_live)
                return infp_fail(err, -EINVAL, "--own-cgroup: not possible with --root, a copy of a machine");
        if (infp_cgroups_find(env, cgroups) < 0 || infp_cgroup_paths_read(env, 0, paths) < 0)
                return infp_fail(err, -ENOENT, "--own-cgroup: no control groups are mounted here");
        snprintf(name, sizeof(name), "%s%d-%.8s", prefix, (int) getpid(), uuid);
        r = make_all(own, env, cgroups, paths, name, pid);
        if (r < 0)
                return infp_fail_errno(err, r,
                                       "--own-cgroup: no cgroup can be created for the command: that needs root, or a "
                                       "delegated cgroup (systemd-run --user --scope -p Delegate=yes infprof ...)");
        return 0;
}

void infp_own_cgroup_remove(struct infp_own_cgroup *own, const struct infp_env *env)
{
        while (own->n)
                remove_tree(env->root_fd, own->paths[--own->n]);
}
