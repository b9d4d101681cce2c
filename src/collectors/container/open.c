#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "collectors/container/name.h"
#include "collectors/container/state.h"

/* Finds containers as they come and go.
 *
 * inotify is silent about directories that other processes make in v1 on some kernels, and needs a watch for each. A cgroup
 * directory's link count is 2 plus the number of its subdirectories, so a stat of each known one shows where to look; that
 * one directory came and another went in between shows when all are listed again, each 10 s, and when a container's files
 * show that it is gone. Containers themselves, which are most of the directories and have many files, rarely contain others:
 * they are read only then, and listed each minute. */

enum { MOST_DIRS = 4096 };
#define EACH_NS (1 * INFP_NS_PER_S - INFP_NS_PER_S / 10) /* a tick may come a little early */
#define FULL_NS (10 * INFP_NS_PER_S)
#define DEEP_NS (60 * INFP_NS_PER_S)

void container_finder_done(struct container_finder *f)
{
        for (size_t i = 0; i < f->n; i++)
                free(f->dirs[i].path);
        free(f->dirs);
        *f = (struct container_finder){ 0 };
}

static int add_dir(struct container_finder *f, const char *path)
{
        struct infp_container_name name;
        struct infp_span span = { path + f->base_size, strlen(path) - f->base_size };
        struct found_dir *dir;

        if (f->n == MOST_DIRS) {
                f->is_full = true;
                return 0;
        }
        if (!INFP_MAKE_ROOM(f->dirs, f->n, f->cap, 64))
                return -ENOMEM;
        dir = &f->dirs[f->n];
        *dir = (struct found_dir){ .path = strdup(path), .hash = infp_hash64(path, strlen(path), 0), .is_new = true };
        if (!dir->path)
                return -ENOMEM;
        dir->is_container = infp_container_name(span, &name) && name.size == span.size;
        f->n++;
        return 0;
}

/* The hierarchy that contains all containers. */
static int begin(struct containers *s)
{
        static const enum infp_controller order[] = { INFP_CG_MEMORY, INFP_CG_PIDS,   INFP_CG_CPU,   INFP_CG_CPUACCT,
                                                      INFP_CG_IO,     INFP_CG_CPUSET, INFP_CG_NAMED, INFP_CG_UNIFIED };
        struct container_finder *f = &s->finder;

        for (size_t i = 0; i < INFP_COUNT(order); i++)
                for (unsigned k = s->cgroups.n; k-- > 0;) {
                        const struct infp_cgroup_mount *m = &s->cgroups.mounts[k];

                        if (!(m->controllers >> order[i] & 1))
                                continue;
                        f->controller = order[i];
                        f->is_v2 = m->is_v2;
                        f->base_size = strlen(m->path);
                        f->root = strcmp(m->root, "/") ? m->root : "";
                        return add_dir(f, m->path);
                }
        return 0;
}

static bool is_known(const struct container_finder *f, const char *path)
{
        uint64_t hash = infp_hash64(path, strlen(path), 0);

        for (size_t i = 0; i < f->n; i++)
                if (f->dirs[i].hash == hash && !strcmp(f->dirs[i].path, path))
                        return true;
        return false;
}

static int list_dir(struct container_finder *f, const struct infp_env *env, size_t index)
{
        char path[INFP_CGROUP_PATH];
        int fd = openat(env->root_fd, f->dirs[index].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!stream) {
                infp_close(fd);
                return 0; /* gone, or not readable for us */
        }
        while (r >= 0 && (entry = readdir(stream))) {
                int n;

                if (entry->d_name[0] == '.' && (!entry->d_name[1] || !strcmp(entry->d_name, "..")))
                        continue;
                if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
                        continue;
                n = snprintf(path, sizeof(path), "%s/%s", f->dirs[index].path, entry->d_name);
                if (n < 0 || (size_t) n >= sizeof(path) || is_known(f, path))
                        continue;
                if (entry->d_type == DT_UNKNOWN) {
                        struct stat st;

                        if (fstatat(env->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                                continue;
                }
                r = add_dir(f, path);
        }
        closedir(stream);
        return r;
}

/* Looks at a known one; false: it is gone. */
static bool look(struct container_finder *f, const struct infp_env *env, size_t index, bool full, bool deep, int *ret_r)
{
        struct found_dir *dir = &f->dirs[index];
        struct stat st;
        bool is_changed, is_container = dir->is_container;

        if (dir->is_container && !dir->is_new && !full)
                return true;
        if (fstatat(env->root_fd, dir->path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                return false;
        if (dir->inode != st.st_ino)
                dir->is_new = true; /* another one with its name */
        is_changed = dir->is_new || dir->n_links != st.st_nlink;
        dir->inode = st.st_ino;
        dir->n_links = (uint32_t) st.st_nlink;
        if (is_changed || (full && (deep || !is_container)))
                *ret_r = list_dir(f, env, index);
        return true;
}

static void lose(struct containers *s, const struct found_dir *dir)
{
        for (size_t i = 0; dir->is_container && i < s->n; i++)
                for (unsigned k = 0; k < INFP_CG_N; k++)
                        if (s->list[i]->dir[k] && !strcmp(s->list[i]->dir[k], dir->path))
                                s->list[i]->is_gone = true;
}

int container_find(struct containers *s, const struct infp_env *env,
                   void (*found)(struct containers *s, const struct infp_env *env, const char *dir))
{
        struct container_finder *f = &s->finder;
        bool full = !env->is_live || s->now_ns >= f->next_full_ns, deep = !env->is_live || s->now_ns >= f->next_deep_ns;
        size_t kept = 0;
        int r = 0;

        if (f->n && s->now_ns < f->next_ns && env->is_live)
                return 0;
        f->next_ns = s->now_ns + EACH_NS;
        if (full)
                f->next_full_ns = s->now_ns + FULL_NS;
        if (full && deep)
                f->next_deep_ns = s->now_ns + DEEP_NS;
        if (!f->n)
                r = begin(s);
        for (size_t i = 0; i < f->n && r >= 0; i++) /* grows while it is walked: found ones are looked at, too */
                f->dirs[i].is_gone = !look(f, env, i, full, deep, &r);
        for (size_t i = 0; i < f->n; i++)
                if (f->dirs[i].is_gone) {
                        lose(s, &f->dirs[i]);
                        free(f->dirs[i].path);
                } else {
                        f->dirs[kept++] = f->dirs[i];
                }
        f->n = kept;
        for (size_t i = 0; i < f->n; i++) {
                bool is_new = f->dirs[i].is_new;

                f->dirs[i].is_new = false;
                if (is_new && f->dirs[i].is_container)
                        found(s, env, f->dirs[i].path);
        }
        return r;
}

/* Who a container is, and where its files are. */

/* The hierarchy that shows who it is: among several, the first of these that does not count the machine. */
static const enum infp_controller order[] = { INFP_CG_MEMORY, INFP_CG_CPU,     INFP_CG_CPUACCT, INFP_CG_IO,
                                              INFP_CG_PIDS,   INFP_CG_UNIFIED, INFP_CG_CPUSET,  INFP_CG_NAMED };

struct container *container_free(struct container *c)
{
        if (!c)
                return NULL;
        container_close_files(c);
        for (unsigned i = 0; i < INFP_CG_N; i++)
                free(c->dir[i]);
        for (unsigned i = 0; i < FILE_N; i++)
                free(c->kept[i].at);
        free(c->path);
        free(c->limits.cpuset);
        free(c);
        return NULL;
}

void container_close_files(struct container *c)
{
        for (unsigned i = 0; i < FILE_N; i++)
                c->fd[i] = infp_close(c->fd[i]);
        c->pid_fd = infp_close(c->pid_fd);
}

static struct container *container_new(void)
{
        struct container *c = calloc(1, sizeof(*c));

        for (unsigned i = 0; c && i < FILE_N; i++)
                c->fd[i] = -1;
        for (unsigned i = 0; c && i < INFP_CG_N; i++)
                c->why[i] = WHY_NO_CONTROLLER;
        if (c)
                c->pid_fd = -1;
        return c;
}

static int set_dir(struct container *c, enum infp_controller controller, const struct infp_cgroup_place *place)
{
        c->dir[controller] = strndup(place->path, place->size);
        c->base_size[controller] = (uint16_t) place->base_size;
        c->is_v2[controller] = place->is_v2;
        c->why[controller] = 0;
        return c->dir[controller] ? 0 : -ENOMEM;
}

/* Cuts a path of the process to its container's: everything below the container's own directory. In each hierarchy
 * separately, since a container need not be in all of them. */
static void cut_path(struct infp_cgroup_paths *paths, enum infp_controller controller)
{
        struct infp_container_name name;

        if (infp_container_name(paths->at[controller], &name))
                paths->at[controller].size = name.size;
}

static bool inode_of(const struct infp_env *env, const char *path, uint64_t *ret)
{
        struct stat st;

        if (fstatat(env->root_fd, path, &st, 0) < 0 || !S_ISDIR(st.st_mode))
                return false;
        *ret = env->is_live ? (uint64_t) st.st_ino : 0; /* in a collected tree it means nothing */
        return true;
}

/* Fills the directories. Without any, the error of the first. */
static int set_dirs(struct containers *s, const struct infp_env *env, struct infp_cgroup_paths *paths,
                    struct container *c)
{
        bool is_any = false, is_machine = false;
        uint64_t inode;

        for (unsigned i = 0; i < INFP_CG_N; i++) {
                struct infp_cgroup_place place;

                cut_path(paths, i);
                if (!infp_cgroup_place(&s->cgroups, paths, i, false, &place) || !inode_of(env, place.path, &inode))
                        continue;
                if (infp_cgroup_is_machine(env, &place)) {
                        c->why[i] = WHY_MACHINE;
                        is_machine = true;
                        continue;
                }
                is_any = true;
                INFP_TRY(set_dir(c, i, &place));
        }
        return is_any ? 0 : is_machine ? -EXDEV : -ENOENT;
}

static void set_name(struct container *c, const struct infp_container_name *name, bool is_named)
{
        const char *slash = strrchr(c->path, '/');

        snprintf(c->name, sizeof(c->name), "%s", slash && slash[1] ? slash + 1 : c->path);
        if (!is_named)
                return;
        c->runtime = name->runtime;
        snprintf(c->cid, sizeof(c->cid), "%.*s",
                 infp_is_container_id(name->id) ? 12 : (int) (name->id.size < 79 ? name->id.size : 79), name->id.at);
        snprintf(c->pod, sizeof(c->pod), "%.*s", (int) (name->pod.size < 39 ? name->pod.size : 39), name->pod.at);
        snprintf(c->qos, sizeof(c->qos), "%.*s", (int) (name->qos.size < 15 ? name->qos.size : 15), name->qos.at);
        for (char *p = c->pod; *p; p++) /* systemd's slices may not contain a '-' there */
                *p = *p == '_' ? '-' : *p;
}

static bool is_runtimes_file(struct infp_span line)
{
        static const char *const points[] = { "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/.containerenv" };
        struct infp_span words[5];

        if (infp_span_words(line, words, INFP_COUNT(words)) < INFP_COUNT(words))
                return false;
        for (size_t i = 0; i < INFP_COUNT(points); i++)
                if (infp_span_is(words[4], points[i]))
                        return true;
        return false;
}

/* The 64 digits after `before`. */
static bool id_behind(struct infp_span line, const char *before, char *ret, size_t cap)
{
        const char *at = memmem(line.at, line.size, before, strlen(before));
        size_t skipped = at ? (size_t) (at - line.at) + strlen(before) : 0;

        if (!at || line.size - skipped < 64 || !infp_is_container_id((struct infp_span){ line.at + skipped, 64 }))
                return false;
        snprintf(ret, cap, "%.12s", line.at + skipped);
        return true;
}

/* Inside a container with a cgroup namespace of its own the path is "/", but /etc/hostname and similar files, which the
 * runtime has mounted, come from directories with its id. Other mounts may belong to containers in the container. */
static bool name_of_mounts(const struct infp_env *env, struct container *c)
{
        static const struct {
                const char *before, *runtime;
        } known[] = { { "/docker/containers/", "docker" },
                      { "/overlay-containers/", "podman" },
                      { "/io.containerd.runtime.v2.task/k8s.io/", "containerd" } };
        infp_autofree char *text = NULL;
        ssize_t n = infp_read_all_at(env->root_fd, "proc/self/mountinfo", 16u << 20, &text);
        struct infp_span rest = { n > 0 ? text : "", n > 0 ? (size_t) n : 0 }, line;

        while (infp_span_line(&rest, &line))
                for (size_t i = 0; i < INFP_COUNT(known) && is_runtimes_file(line); i++)
                        if (id_behind(line, known[i].before, c->cid, sizeof(c->cid))) {
                                c->runtime = known[i].runtime;
                                return true;
                        }
        return false;
}

/* Docker's default host name is the id. */
static bool name_of_host(const struct infp_env *env, struct container *c)
{
        char text[80];
        ssize_t n = infp_read_at(env->root_fd, "proc/sys/kernel/hostname", text, sizeof(text));

        if (n != 13 || strspn(text, "0123456789abcdef") != 12)
                return false;
        snprintf(c->cid, sizeof(c->cid), "%.12s", text);
        return true;
}

static void set_runtime(struct container *c)
{
        static const char *const units[] = { ".service", ".scope", ".slice" };
        size_t size = strlen(c->name);

        if (strncmp(c->name, "infprof-", 8) == 0)
                c->runtime = "infprof";
        for (size_t i = 0; !c->runtime && i < INFP_COUNT(units); i++)
                if (size > strlen(units[i]) && !strcmp(c->name + size - strlen(units[i]), units[i]))
                        c->runtime = "systemd";
}

static const char *last_part(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* v1 may count a process at another place in each hierarchy: a session has its own memory cgroup, and its CPU time is that of
 * the slice. Places with different names are not the same thing. */
static void drop_others(struct container *c, enum infp_controller main)
{
        const char *name = last_part(c->dir[main] + c->base_size[main]);

        for (unsigned i = 0; i < INFP_CG_N; i++)
                if (c->dir[i] && strcmp(last_part(c->dir[i] + c->base_size[i]), name) != 0) {
                        free(c->dir[i]);
                        c->dir[i] = NULL;
                        c->why[i] = WHY_OTHER_CGROUP;
                }
}

static int set_identity(const struct infp_env *env, struct container *c, const struct infp_cgroup_paths *paths,
                        bool *ret_is_container)
{
        struct infp_container_name name;
        enum infp_controller main = INFP_CG_N;

        for (size_t i = 0; i < INFP_COUNT(order) && main == INFP_CG_N; i++)
                if (c->dir[order[i]])
                        main = order[i];
        drop_others(c, main);
        c->path = strdup(c->dir[main][c->base_size[main]] ? c->dir[main] + c->base_size[main] : "/");
        if (!c->path)
                return -ENOMEM;
        inode_of(env, c->dir[main], &c->inode);
        c->version = c->is_v2[main] ? 2 : 1;
        /* By the path in the hierarchy, which may show more than its mounted part. */
        *ret_is_container = infp_container_name(paths->at[paths->at[main].size ? main : INFP_CG_UNIFIED], &name);
        set_name(c, &name, *ret_is_container);
        /* The root of what we see, and not the machine: the root of our own cgroup namespace, so of a container. */
        if (!*ret_is_container && !strcmp(c->path, "/")) {
                *ret_is_container = true;
                if (!name_of_mounts(env, c))
                        name_of_host(env, c);
        }
        if (!*ret_is_container)
                set_runtime(c);
        if (!c->cid[0] && c->inode)
                snprintf(c->cid, sizeof(c->cid), "in-%llu", (unsigned long long) c->inode);
        c->id = infp_hash64(env->boot_id, strlen(env->boot_id), 0xc0);
        c->id = infp_hash64(c->path, strlen(c->path), c->id);
        c->id = infp_hash64(&c->inode, sizeof(c->inode), c->id);
        c->id += !c->id;
        return 0;
}

struct container *container_of_paths(struct containers *s, const struct infp_env *env,
                                     const struct infp_cgroup_paths *paths, bool any, int *ret_r)
{
        infp_autofree struct infp_cgroup_paths *cut = malloc(sizeof(*cut));
        struct container *c = container_new();
        bool is_container = false;

        *ret_r = c && cut ? 0 : -ENOMEM;
        if (!*ret_r) {
                *cut = *paths; /* its spans point into paths, which outlives it */
                *ret_r = set_dirs(s, env, cut, c);
        }
        if (!*ret_r)
                *ret_r = set_identity(env, c, cut, &is_container);
        if (!*ret_r && !is_container && !any)
                *ret_r = -ENOENT;
        return *ret_r ? container_free(c) : c;
}

/* The paths of a member show its place in each hierarchy; without one it is assumed at the same place in all. */
static void guess_paths(struct containers *s, const struct infp_env *env, const char *path, int32_t pid,
                        struct infp_cgroup_paths *ret)
{
        struct infp_container_name name;
        struct infp_span own = { path, strlen(path) }, at;

        if (pid && infp_cgroup_paths_read(env, pid, ret) == 0) {
                at = ret->at[ret->at[s->finder.controller].size ? s->finder.controller : INFP_CG_UNIFIED];
                if (infp_container_name(at, &name) && name.size <= at.size && name.size >= own.size &&
                    !memcmp(at.at + name.size - own.size, own.at, own.size))
                        return; /* it has not moved since it was listed */
        }
        memset(ret->at, 0, sizeof(ret->at));
        for (unsigned i = 0; i < INFP_CG_N; i++)
                ret->at[i] = (struct infp_span){ "", 0 };
        if (s->finder.is_v2)
                ret->at[INFP_CG_UNIFIED] = own;
        else
                for (unsigned i = 0; i < INFP_CG_N; i++)
                        ret->at[i] = own;
}

static int32_t first_member(const struct infp_env *env, const char *dir)
{
        char path[INFP_CGROUP_PATH + 32], text[32];
        struct infp_span line;
        uint64_t pid;

        snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
        if (infp_read_at(env->root_fd, path, text, sizeof(text)) <= 0)
                return 0;
        line = (struct infp_span){ text, strlen(text) };
        return infp_span_line(&line, &line) && !infp_span_u64(line, &pid) && pid <= INT32_MAX ? (int32_t) pid : 0;
}

struct container *container_of_dir(struct containers *s, const struct infp_env *env, const char *dir, int *ret_r)
{
        /* The mount may be a part of the hierarchy only: /proc has the whole path. */
        snprintf(s->small, sizeof(s->small), "%s%s", s->finder.root, dir + s->finder.base_size);
        guess_paths(s, env, s->small, first_member(env, dir), &s->paths);
        return container_of_paths(s, env, &s->paths, false, ret_r);
}
