#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

enum { SPARE_DESCRIPTORS = 8 };

int infp_close(int fd)
{
        if (fd >= 0) {
                int saved = errno;

                close(fd);
                errno = saved;
        }
        return -1;
}

bool infp_fd_is_scarce(int fd)
{
        struct rlimit limit;

        return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t) fd + 1 + SPARE_DESCRIPTORS;
}

bool infp_fds_are_few(unsigned *ret_limit)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= INFP_ENOUGH_FDS)
                return false;
        *ret_limit = (unsigned) limit.rlim_cur;
        return true;
}

void infp_close_ptr_(int *fd)
{
        infp_close(*fd);
}

const char *infp_relative(const char *path)
{
        while (*path == '/')
                path++;
        return *path ? path : ".";
}

static ssize_t read_until(int fd, char *buffer, size_t cap)
{
        size_t size = 0;

        while (size < cap) {
                ssize_t n = read(fd, buffer + size, cap - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
        }
        return (ssize_t) size;
}

/* O_NONBLOCK: a FIFO or a device in a fixture tree must not hold the sampler. */
static int open_to_read(int dir_fd, const char *path)
{
        int fd = openat(dir_fd, dir_fd == AT_FDCWD ? path : infp_relative(path),
                        O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        return fd < 0 ? -errno : fd;
}

ssize_t infp_read_at(int dir_fd, const char *path, char *buffer, size_t cap)
{
        infp_autoclose int fd = open_to_read(dir_fd, path);
        ssize_t n;

        if (fd < 0)
                return fd;
        n = read_until(fd, buffer, cap - 1);
        if (n >= 0)
                buffer[n] = 0;
        return n;
}

ssize_t infp_read_all_at(int dir_fd, const char *path, size_t max, char **ret)
{
        infp_autoclose int fd = open_to_read(dir_fd, path);
        infp_autofree char *data = NULL;
        size_t size = 0, cap = 0;

        if (fd < 0)
                return fd;
        for (;;) {
                size_t room;
                ssize_t n;
                char *grown;

                if (size + 1 >= cap) {
                        cap = cap ? cap * 2 : 4096;
                        grown = realloc(data, cap);
                        if (!grown)
                                return -ENOMEM;
                        data = grown;
                }
                room = cap - size - 1;
                n = read_until(fd, data + size, room);
                if (n < 0)
                        return n;
                size += (size_t) n;
                if (size > max)
                        return -EFBIG;
                if ((size_t) n < room)
                        break;
        }
        data[size] = 0;
        *ret = INFP_TAKE(data);
        return (ssize_t) size;
}

int infp_pwrite_all(int fd, const void *data, size_t size, off_t offset)
{
        const char *at = data;

        while (size > 0) {
                const ssize_t n = pwrite(fd, at, size, offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                at += n;
                size -= (size_t) n;
                offset += n;
        }
        return 0;
}

int infp_write_all(int fd, const void *data, size_t size, size_t *ret_written)
{
        const char *at = data;
        size_t left = size;
        int r = 0;

        while (left > 0) {
                ssize_t n = write(fd, at, left);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        r = -errno;
                        break;
                }
                at += n;
                left -= (size_t) n;
        }
        if (ret_written)
                *ret_written = size - left;
        return r;
}

int infp_lock(int fd, int operation, unsigned wait_ms)
{
        enum { PAUSE_MS = 5 };

        for (unsigned waited_ms = 0;; waited_ms += PAUSE_MS) {
                if (flock(fd, operation | LOCK_NB) == 0)
                        return 0;
                if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= wait_ms)
                        return -errno;
                usleep(PAUSE_MS * 1000);
        }
}
