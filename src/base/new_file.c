#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

enum { MAX_LINKS = 40, MAX_TRIES = 100 };

int infp_make_file_at(int dir_fd, const char *name, int flags, mode_t mode)
{
        int fd = openat(dir_fd, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, mode);

        return fd < 0 ? -errno : fd;
}

/* It gets its name by way of /proc, which a chroot may lack. */
static int open_unnamed(int dir_fd, const char *path, mode_t mode)
{
        int fd = openat(dir_fd, path, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
        char link[40];

        if (fd < 0)
                return -errno;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (faccessat(AT_FDCWD, link, F_OK, 0) == 0)
                return fd;
        infp_close(fd);
        return -EOPNOTSUPP;
}

static void make_part_name(char ret[NAME_MAX + 1], const char *path)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        const int folder = (int) (name - path);
        uint64_t number;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                number = (uint64_t) (uintptr_t) ret ^ (uint64_t) getpid(); /* O_EXCL still holds */
        snprintf(ret, NAME_MAX + 1, "%.*s.%.*s.%016llx.part", folder, path, folder < 100 ? 220 - folder : 120, name,
                 (unsigned long long) number);
}

static int open_named(struct infp_new_file *file, mode_t mode)
{
        int fd = -EEXIST;

        for (unsigned i = 0; fd == -EEXIST && i < MAX_TRIES; i++) {
                make_part_name(file->part, file->name);
                fd = infp_make_file_at(file->dir_fd, file->part, O_RDWR, mode);
        }
        if (fd < 0)
                file->part[0] = 0;
        return fd;
}

static int open_part(struct infp_new_file *file, mode_t mode)
{
        const char *slash = strchr(file->name, '/');
        char folder[NAME_MAX + 1] = ".";
        int fd;

        if (slash)
                snprintf(folder, sizeof(folder), "%.*s", (int) (slash - file->name), file->name);
        fd = open_unnamed(file->dir_fd, folder, mode);
        return fd < 0 ? open_named(file, mode) : fd;
}

/* Opens the directory of a path and writes the name in it into ret. */
static int open_parent(int dir_fd, const char *path, int flags, char ret[NAME_MAX + 1])
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        size_t size = slash ? (size_t) (slash - path) + 1 : 0;
        char parent[PATH_MAX] = ".";
        int fd;

        if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
                return -EISDIR;
        if (strlen(name) > NAME_MAX || size >= sizeof(parent))
                return -ENAMETOOLONG;
        if (flags & O_NOFOLLOW && size > 1) /* with a slash at its end the flag would say nothing */
                size--;
        if (size) {
                memcpy(parent, path, size);
                parent[size] = 0;
        }
        fd = openat(dir_fd, parent, O_PATH | O_DIRECTORY | O_CLOEXEC | flags);
        if (fd < 0)
                return -errno;
        memcpy(ret, name, strlen(name) + 1);
        return fd;
}

static int begin(struct infp_new_file *file, mode_t mode)
{
        file->fd = open_part(file, mode);
        if (file->fd >= 0)
                return 0;
        int r = file->fd;

        infp_new_file_done(file);
        return r;
}

int infp_new_file_at(struct infp_new_file *ret, int dir_fd, const char *name, mode_t mode)
{
        infp_autoclose int folder = -1;

        *ret = INFP_NEW_FILE_INIT;
        folder = open_parent(dir_fd, name, O_NOFOLLOW, ret->name);
        if (folder < 0)
                return folder;
        if (strlen(name) > 100)
                return -ENAMETOOLONG;
        folder = infp_close(folder);
        memcpy(ret->name, name, strlen(name) + 1);
        ret->dir_fd = dir_fd;
        return begin(ret, mode);
}

/* Whether what lies in a directory, and belongs to this user, was put there by ourselves, by root, or by somebody who let us
 * have it. */
static bool is_trusted(int dir_fd, uid_t owner)
{
        struct stat dir;

        if (owner == geteuid() || owner == 0)
                return true;
        return fstat(dir_fd, &dir) == 0 && !(dir.st_mode & 022) && (dir.st_uid == geteuid() || dir.st_uid == 0);
}

/* What is no regular file: written where it is. */
static int open_direct(struct infp_new_file *file, int flags)
{
        int fd = openat(file->dir_fd, file->name, O_WRONLY | O_NOCTTY | O_CLOEXEC | flags);
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode)) { /* changed in between */
                infp_close(fd);
                return -EAGAIN;
        }
        file->fd = fd;
        file->is_direct = true;
        return 0;
}

/* /dev/fd/63 leads to /proc/self/fd/63, and that to a pipe which has no path. */
static bool leads_nowhere(const struct infp_new_file *file)
{
        struct statfs fs;
        struct stat st;

        return fstatfs(file->dir_fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
               fstatat(file->dir_fd, file->name, &st, 0) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static int go_to(struct infp_new_file *file, int link)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
        int next;

        if (n < 0)
                return -errno;
        target[n] = 0;
        next = open_parent(file->dir_fd, target, 0, file->name);
        if (next < 0)
                return next;
        infp_close(file->dir_fd);
        file->dir_fd = next;
        return 0;
}

/* Goes where links lead to, and sees what is there. A link is asked by its own descriptor: whose it is and where it leads are
 * of one and the same link. A pipe of somebody else is no place for what we write. */
static int follow(struct infp_new_file *file, mode_t *mode, bool *ret_has_mode)
{
        int r = 0;

        for (unsigned i = 0; r == 0 && i < MAX_LINKS; i++) {
                infp_autoclose int entry = openat(file->dir_fd, file->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                struct stat st;

                if (entry < 0 || fstat(entry, &st) < 0)
                        return errno == ENOENT ? 0 : -errno;
                if (S_ISDIR(st.st_mode))
                        return -EISDIR;
                *ret_has_mode = S_ISREG(st.st_mode) && st.st_uid == geteuid();
                if (*ret_has_mode)
                        *mode = st.st_mode & 0777;
                if (S_ISREG(st.st_mode) ||
                    ((S_ISLNK(st.st_mode) || S_ISFIFO(st.st_mode)) && !is_trusted(file->dir_fd, st.st_uid)))
                        return 0;
                if (!S_ISLNK(st.st_mode))
                        return open_direct(file, O_NOFOLLOW);
                if (leads_nowhere(file))
                        return open_direct(file, 0);
                r = go_to(file, entry);
        }
        return r < 0 ? r : -ELOOP;
}

int infp_new_file_open(struct infp_new_file *ret, const char *path, mode_t mode)
{
        bool has_mode = false;
        int r;

        *ret = INFP_NEW_FILE_INIT;
        ret->dir_fd = open_parent(AT_FDCWD, path, 0, ret->name);
        if (ret->dir_fd < 0)
                return ret->dir_fd;
        ret->owns_dir = true;
        r = follow(ret, &mode, &has_mode);
        if (r == 0 && !ret->is_direct)
                r = begin(ret, mode);
        if (r == 0 && has_mode)
                fchmod(ret->fd, mode);
        if (r < 0)
                infp_new_file_done(ret);
        return r;
}

static int link_part(struct infp_new_file *file)
{
        char path[40];
        int r = -EEXIST;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
        for (unsigned i = 0; r == -EEXIST && i < MAX_TRIES; i++) {
                make_part_name(file->part, file->name);
                r = linkat(AT_FDCWD, path, file->dir_fd, file->part, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
        }
        if (r < 0)
                file->part[0] = 0;
        return r;
}

/* A security policy, or a file system in user space, may create a file without a name and yet refuse linkat(2). */
static int copy_part(struct infp_new_file *file)
{
        infp_autoclose int named = -1;
        struct stat st;

        if (fstat(file->fd, &st) < 0)
                return -errno;
        named = open_named(file, st.st_mode & 0777);
        if (named < 0)
                return named;
        if (fchmod(named, st.st_mode & 0777) < 0)
                return -errno;
        for (off_t at = 0; at < st.st_size;) {
                ssize_t n = sendfile(named, file->fd, &at, (size_t) (st.st_size - at));

                if (n == 0 || (n < 0 && errno != EINTR))
                        return n == 0 ? -EIO : -errno;
        }
        /* A lock of the caller's would end with the description that dup3 closes. */
        flock(named, LOCK_EX | LOCK_NB);
        return dup3(named, file->fd, O_CLOEXEC) < 0 ? -errno : 0; /* the caller keeps the number */
}

static int name_part(struct infp_new_file *file)
{
        int r = link_part(file); /* replaces nothing: rename(2) does that */

        switch (r) {
        case -EPERM:
        case -EACCES:
        case -EXDEV:
        case -ENOENT:
        case -ENOSYS:
        case -EOPNOTSUPP:
                return copy_part(file);
        default:
                return r;
        }
}

int infp_new_file_commit(struct infp_new_file *file, bool is_synced)
{
        if (file->is_direct)
                return 0;
        if (!file->part[0])
                INFP_TRY(name_part(file));
        if (is_synced && fsync(file->fd) < 0 && errno != EINVAL)
                return -errno;
        if (renameat(file->dir_fd, file->part, file->dir_fd, file->name) < 0)
                return -errno;
        file->part[0] = 0;
        return 0;
}

void infp_new_file_done(struct infp_new_file *file)
{
        if (file->part[0])
                unlinkat(file->dir_fd, file->part, 0);
        infp_close(file->fd);
        if (file->owns_dir)
                infp_close(file->dir_fd);
        *file = INFP_NEW_FILE_INIT;
}

int infp_replace_file_at(int dir_fd, const char *name, const void *data, size_t size, mode_t mode, bool is_synced)
{
        infp_cleanup(infp_new_file_done) struct infp_new_file file = INFP_NEW_FILE_INIT;
        int r = infp_new_file_at(&file, dir_fd, name, mode);

        if (r == 0)
                r = infp_write_all(file.fd, data, size, NULL);
        return r < 0 ? r : infp_new_file_commit(&file, is_synced);
}

int infp_unnamed_file(void)
{
        const char *dir = getenv("TMPDIR");
        struct infp_new_file file = INFP_NEW_FILE_INIT;
        int fd, r;

        dir = dir && *dir ? dir : "/tmp";
        file.dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (file.dir_fd < 0)
                return -errno;
        file.owns_dir = true;
        snprintf(file.name, sizeof(file.name), "infprof");
        r = begin(&file, 0600);
        fd = r < 0 ? r : file.fd;
        file.fd = -1;
        infp_new_file_done(&file);
        return fd;
}
