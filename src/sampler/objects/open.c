#include "sampler/objects/open.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/time.h"
#include "sampler/spaces/space.h"

/* ---- the last way to a file that is gone: what a process has of it in its memory ---- */

enum { PIECE = 256 * 1024, MAPS_BYTES = 16 << 20 };
/* Tables are made of what lies beside the code; the code itself helps to guess. */
static const uint64_t max_code = UINT64_C(8) << 20, max_bytes = UINT64_C(96) << 20;
static const uint64_t max_offset = UINT64_C(1) << 36;

static ssize_t read_maps(int root_fd, pid_t pid, char **ret)
{
        char path[40];

        snprintf(path, sizeof(path), "proc/%d/maps", (int) pid);
        return infp_read_all_at(root_fd, path, MAPS_BYTES, ret);
}

bool infp_object_find(int root_fd, struct infp_object_place *place)
{
        infp_autofree char *text = NULL;
        struct infp_maps_line line;
        char *at;

        if (read_maps(root_fd, place->pid, &text) <= 0)
                return false;
        at = text;
        while (infp_maps_next(&at, &line)) {
                if (!line.is_executable || place->begin < line.begin || place->begin >= line.end)
                        continue;
                place->begin = line.begin;
                place->end = line.end;
                place->inode = line.inode;
                place->major = line.major;
                place->minor = line.minor;
                return line.inode != 0;
        }
        return false;
}

static int copy_piece(pid_t pid, uint64_t from, uint64_t size, int fd, uint64_t at, char *buffer)
{
        const struct iovec local = { buffer, size }, remote = { (void *) (uintptr_t) from, size };
        const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

        if (n <= 0)
                return n < 0 ? -errno : -EIO;
        INFP_TRY(infp_pwrite_all(fd, buffer, (size_t) n, (off_t) at));
        return (int) n;
}

static int copy_mapping(pid_t pid, const struct infp_maps_line *line, int fd, char *buffer)
{
        const uint64_t size = line->end - line->begin;

        for (uint64_t at = 0; at < size;) {
                const uint64_t left = size - at;
                const int n =
                        copy_piece(pid, line->begin + at, left < PIECE ? left : PIECE, fd, line->offset + at, buffer);

                if (n <= 0)
                        return n;
                at += (uint64_t) n;
        }
        return 0;
}

static bool is_part(const struct infp_maps_line *line, const struct infp_object_place *place)
{
        const uint64_t size = line->end - line->begin;

        return line->is_readable && line->inode == place->inode && line->major == place->major &&
               line->minor == place->minor && line->offset < max_offset && size <= max_bytes &&
               !(line->is_executable && size > max_code);
}

/* A memory file with the parts of the file that the process has mapped, each at its offset; the rest is zeros. Large code is left
 * out. A descriptor, or a negative errno: -EPERM where its memory may not be read. */
static int copy_from_memory(int root_fd, const struct infp_object_place *place, struct infp_file_identity *ret)
{
        infp_autofree char *text = NULL, *buffer = malloc(PIECE);
        infp_autoclose int fd = memfd_create("infprof-object", MFD_CLOEXEC);
        uint64_t copied = 0, size = 0;
        struct infp_maps_line line;
        int r = -ENOENT, result;
        ssize_t n;
        char *at;

        if (fd < 0 || !buffer || !place->inode)
                return fd < 0 ? -errno : !buffer ? -ENOMEM : -ENOENT;
        n = read_maps(root_fd, place->pid, &text);
        if (n <= 0)
                return n < 0 ? (int) n : -ENOENT;
        at = text;
        while (infp_maps_next(&at, &line)) {
                if (!is_part(&line, place) || copied + (line.end - line.begin) > max_bytes)
                        continue;
                r = copy_mapping(place->pid, &line, fd, buffer);
                if (r == -EPERM || r == -ESRCH)
                        return r;
                copied += line.end - line.begin;
                if (line.offset + (line.end - line.begin) > size)
                        size = line.offset + (line.end - line.begin);
        }
        if (!copied || r == -ENOENT)
                return r < 0 ? r : -ENOENT;
        /* No file has this device; the same file of another process is another image. */
        *ret = (struct infp_file_identity){ UINT64_MAX, place->inode, size,
                                            place->begin ^ (uint64_t) place->pid << 48 };
        result = fd;
        fd = -1;
        return result;
}

/* ---- all ways ---- */

enum { MAX_FDS = 1024 };

/* The inode as mappings show it, which on overlay and btrfs file systems is not always that of stat. 0: not shown (before 5.14). */
static uint64_t inode_of_mappings(int fd)
{
        char path[48];
        uint64_t ret;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        return infp_proc_number(AT_FDCWD, path, "ino:", 0, &ret) ? ret : 0;
}

/* fd is open with O_PATH. With a build id alone the caller has to compare that. */
static bool is_it(int fd, const struct stat *status, const struct infp_object_place *place)
{
        if (!place->inode)
                return place->build_id_size > 0;
        if (status->st_ino == place->inode && major(status->st_dev) == place->major &&
            minor(status->st_dev) == place->minor)
                return true;
        return inode_of_mappings(fd) == place->inode;
}

/* What O_PATH found is looked at before it is opened: opening a device or a pipe may do something. */
static int open_if_it(int path_fd, const struct infp_object_place *place, struct infp_file_identity *ret)
{
        char path[48];
        struct stat status;
        int fd;

        if (fstat(path_fd, &status) < 0)
                return -errno;
        if (!S_ISREG(status.st_mode) || !is_it(path_fd, &status, place))
                return -ESTALE;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return -errno;
        *ret = (struct infp_file_identity){ status.st_dev, status.st_ino, (uint64_t) status.st_size,
                                            (uint64_t) status.st_ctim.tv_sec * INFP_NS_PER_S +
                                                    (uint64_t) status.st_ctim.tv_nsec };
        return fd;
}

static int open_at(int dir_fd, const char *path, const struct infp_object_place *place, struct infp_file_identity *ret)
{
        infp_autoclose int path_fd = openat(dir_fd, path, O_PATH | O_CLOEXEC);

        return path_fd < 0 ? -errno : open_if_it(path_fd, place, ret);
}

static int open_in_root(const struct infp_object_place *place, struct infp_file_identity *ret)
{
        char path[48];
        infp_autoclose int root = -1;

        snprintf(path, sizeof(path), "/proc/%d/root", (int) place->pid);
        root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return root < 0 ? -errno : open_at(root, infp_relative(place->path), place, ret);
}

/* A program that made a file in memory, or deleted one, may still have it open. */
static int open_held(const struct infp_object_place *place, struct infp_file_identity *ret)
{
        char path[48];
        const struct dirent *entry;
        unsigned n = 0;
        DIR *held;
        int r = -ENOENT;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int) place->pid);
        held = opendir(path);
        if (!held)
                return -errno;
        while (r < 0 && n++ < MAX_FDS && (entry = readdir(held))) {
                struct stat status;

                if (entry->d_name[0] != '.' && fstatat(dirfd(held), entry->d_name, &status, 0) == 0 &&
                    S_ISREG(status.st_mode) && status.st_ino == place->inode)
                        r = open_at(dirfd(held), entry->d_name, place, ret);
        }
        closedir(held);
        return r;
}

int infp_object_open(int root_fd, const struct infp_object_place *place, enum infp_object_way way,
                     struct infp_file_identity *ret)
{
        const bool has_path = place->path[0] == '/' && place->path[1] != '/';
        char path[80];

        if (!place->inode && !place->build_id_size)
                return -ENOENT;
        switch (way) {
        case INFP_BY_OUR_ROOT:
                return has_path ? open_at(root_fd, infp_relative(place->path), place, ret) : -ENOENT;
        case INFP_BY_ITS_ROOT:
                return has_path ? open_in_root(place, ret) : -ENOENT;
        case INFP_BY_MAP_FILES:
                snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int) place->pid, place->begin,
                         place->end);
                return open_at(AT_FDCWD, path, place, ret);
        case INFP_BY_EXE:
                snprintf(path, sizeof(path), "/proc/%d/exe", (int) place->pid);
                return open_at(AT_FDCWD, path, place, ret);
        case INFP_BY_FD:
                return place->inode ? open_held(place, ret) : -ENOENT;
        case INFP_BY_MEMORY:
                return copy_from_memory(root_fd, place, ret);
        default:
                return -EINVAL;
        }
}
