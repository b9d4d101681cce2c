#include "sampler/objects/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "sampler/spaces/space.h"

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

int infp_object_from_memory(int root_fd, const struct infp_object_place *place, struct infp_file_identity *ret)
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
