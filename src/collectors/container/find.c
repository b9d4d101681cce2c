/* Which containers there are, come and go.
 *
 * inotify says nothing about directories that others than us make in v1 of some kernels, and it wants a watch for each. A cgroup
 * directory's link count is 2 and one for each directory in it, so a stat of each known one shows where to look; that a
 * directory came and another went in between shows when all are listed again, each 10 s, and when a container's files say that
 * it is gone. Containers themselves, which are most of the directories and have many files, rarely hold others: they are looked at
 * only then, and listed each minute. */
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

static int add(struct container_finder *f, const char *path)
{
        struct infp_container_name name;
        struct infp_span span = { path + f->base_size, strlen(path) - f->base_size };
        struct found_dir *dir;

        if (f->n == MOST_DIRS) {
                f->is_full = true;
                return 0;
        }
        if (f->n == f->cap) {
                size_t cap = f->cap ? 2 * f->cap : 64;
                struct found_dir *more = reallocarray(f->dirs, cap, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                f->dirs = more;
                f->cap = cap;
        }
        dir = &f->dirs[f->n];
        *dir = (struct found_dir){ .path = strdup(path), .hash = infp_hash64(path, strlen(path), 0), .is_new = true };
        if (!dir->path)
                return -ENOMEM;
        dir->is_container = infp_container_name(span, &name) && name.size == span.size;
        f->n++;
        return 0;
}

/* The hierarchy in which all containers are. */
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
                        return add(f, m->path);
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
                return 0; /* gone, or not for us */
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
                r = add(f, path);
        }
        closedir(stream);
        return r;
}

/* Looks at one that is known; false: it is gone. */
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
                dir->is_new = true; /* another one of its name */
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
        for (size_t i = 0; i < f->n && r >= 0; i++) /* grows while it is walked: what is found is looked at as well */
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
