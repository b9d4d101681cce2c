#include "symbols/debug_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"

#define USUAL "/usr/lib/debug"

int infp_open_in_root(int root_fd, const char *path)
{
        const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* a FIFO holds nobody up */
        struct open_how how = { .flags = (uint64_t) flags, .resolve = RESOLVE_IN_ROOT };
        struct stat st;
        int fd;

        if (root_fd == AT_FDCWD) {
                fd = open(path, flags);
        } else {
                fd = (int) syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd < 0 &&
                    (errno == ENOSYS || errno == EPERM)) /* an old kernel, or a filter that knows no openat2 */
                        fd = openat(root_fd, infp_relative(path), flags);
        }
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                infp_close(fd);
                return -ENOENT;
        }
        return fd;
}

struct search {
        const struct infp_debug_places *places;
        const struct infp_image *object; /* NULL: not there */
        const char *build_id;            /* "": none */
        const char *link;                /* file name of the debug link; NULL: none */
        uint32_t crc;
        struct infp_image *ret;
        char *ret_path;
        size_t cap;
};

static bool has_crc(struct infp_image *image, uint32_t wanted)
{
        uint8_t buffer[65536];
        uLong crc = crc32(0, NULL, 0);

        for (uint64_t at = 0; at < image->size;) {
                const ssize_t n = pread(image->fd, buffer, sizeof(buffer), (off_t) at);

                if (n <= 0)
                        return false;
                crc = crc32(crc, buffer, (uInt) n);
                at += (uint64_t) n;
        }
        return (uint32_t) crc == wanted;
}

/* Whether the file is the object's. Build ids decide where both have one; else the sum that the link names. A file that proves
 * nothing is not taken. */
static bool belongs(const struct search *s, struct infp_image *file, bool by_link)
{
        if (s->object && s->object->fd >= 0 && file->device == s->object->device && file->inode == s->object->inode)
                return false; /* the object itself */
        if (*s->build_id && file->build_id_size)
                return infp_image_is_build(file, s->build_id);
        return by_link && has_crc(file, s->crc);
}

static bool try(const struct search *s, int root_fd, bool by_link, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

static bool try(const struct search *s, int root_fd, bool by_link, const char *format, ...)
{
        char path[PATH_MAX];
        va_list ap;
        int n, fd;

        va_start(ap, format);
        n = vsnprintf(path, sizeof(path), format, ap);
        va_end(ap);
        fd = n < (int) sizeof(path) ? infp_open_in_root(root_fd, path) : -ENAMETOOLONG;
        if (fd < 0 || infp_image_open(s->ret, fd, path, NULL) < 0)
                return false;
        s->ret->most_bytes = s->places->most_bytes;
        if (!belongs(s, s->ret, by_link)) {
                infp_image_close(s->ret);
                return false;
        }
        snprintf(s->ret_path, s->cap, "%s", path);
        return true;
}

static bool try_build_id(const struct search *s)
{
        const char *const id = s->build_id;

        if (strlen(id) < 4 || strspn(id, "0123456789abcdefABCDEF") != strlen(id))
                return false;
        for (const char *const *d = s->places->directories; d && *d; d++)
                if (try(s, AT_FDCWD, false, "%s/.build-id/%.2s/%s.debug", *d, id, id + 2) ||
                    try(s, AT_FDCWD, false, "%s/%.2s/%s.debug", *d, id, id + 2) ||
                    try(s, AT_FDCWD, false, "%s/%s/debuginfo", *d, id)) /* as debuginfod keeps them */
                        return true;
        return try(s, s->places->root_fd, false, USUAL "/.build-id/%.2s/%s.debug", id, id + 2);
}

static bool try_link(const struct search *s, const char *directory)
{
        const char *const name = s->link;

        if (!name)
                return false;
        for (const char *const *d = s->places->directories; d && *d; d++)
                if (try(s, AT_FDCWD, true, "%s%s/%s", *d, directory, name) || try(s, AT_FDCWD, true, "%s/%s", *d, name))
                        return true;
        return try(s, s->places->root_fd, true, "%s/%s", directory, name) ||
               try(s, s->places->root_fd, true, "%s/.debug/%s", directory, name) ||
               try(s, s->places->root_fd, true, USUAL "%s/%s", directory, name);
}

/* The object as it was before it was stripped, or its symbols under the object's own name. */
static bool try_name(const struct search *s, const char *directory, const char *name)
{
        for (const char *const *d = s->places->directories; d && *d; d++)
                if (try(s, AT_FDCWD, false, "%s%s/%s", *d, directory, name) ||
                    try(s, AT_FDCWD, false, "%s%s/%s.debug", *d, directory, name) ||
                    try(s, AT_FDCWD, false, "%s/%s", *d, name) || try(s, AT_FDCWD, false, "%s/%s.debug", *d, name))
                        return true;
        return try(s, s->places->root_fd, false, USUAL "%s/%s.debug", directory, name) ||
               try(s, s->places->root_fd, false, USUAL "%s/%s", directory, name);
}

/* A file name and, after it at a multiple of 4, a sum. */
static void read_link(struct search *s, struct infp_image *object)
{
        const Elf64_Shdr *section = object ? infp_image_section(object, ".gnu_debuglink", 0) : NULL;
        const uint8_t *bytes = infp_image_data(object, section);
        const char *name = bytes ? infp_image_text(bytes, section->sh_size, 0, NAME_MAX + 1) : NULL;
        uint64_t at;

        if (!name || !*name || strchr(name, '/'))
                return;
        at = (strlen(name) + 4) & ~(uint64_t) 3;
        if (at + 4 > section->sh_size)
                return;
        memcpy(&s->crc, bytes + at, 4);
        s->link = name;
}

int infp_debug_file_find(const struct infp_debug_places *places, struct infp_image *object, const char *path,
                         const char *build_id, struct infp_image *ret, char *ret_path, size_t cap)
{
        struct search s = { places, object, build_id ? build_id : "", NULL, 0, ret, ret_path, cap };
        const char *slash = strrchr(path, '/');
        char directory[PATH_MAX];

        if (object)
                read_link(&s, object);
        snprintf(directory, sizeof(directory), "%.*s", slash ? (int) (slash - path) : 0, path);
        if (try_build_id(&s) || try_link(&s, directory))
                return 0;
        return slash && slash[1] && try_name(&s, directory, slash + 1) ? 0 : -ENOENT;
}

int infp_debug_file_by_build_id(const struct infp_debug_places *places, const uint8_t *build_id, size_t size)
{
        char hex[2 * INFP_IMAGE_MAX_BUILD_ID + 1], path[PATH_MAX];
        struct infp_image image;
        int fd;

        if (!size || size > INFP_IMAGE_MAX_BUILD_ID)
                return -ENOENT;
        for (size_t i = 0; i < size; i++)
                snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
        if (!try_build_id(&(struct search){ places, NULL, hex, NULL, 0, &image, path, sizeof(path) }))
                return -ENOENT;
        fd = fcntl(image.fd, F_DUPFD_CLOEXEC, 0);
        infp_image_close(&image);
        return fd < 0 ? -errno : fd;
}
