#include "store/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

bool infp_store_is_table_name(const char *name)
{
        size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

        return size > 0 && size <= 64 && name[size] == 0;
}

bool infp_store_parse_segment(const char *name, unsigned *ret_seq, bool *ret_parquet)
{
        size_t digits = strspn(name, "0123456789");
        unsigned seq = 0;

        if (digits < 6 || digits > 9)
                return false;
        for (size_t i = 0; i < digits; i++)
                seq = seq * 10 + (unsigned) (name[i] - '0');
        if (strcmp(name + digits, ".arrows") != 0 && strcmp(name + digits, ".parquet") != 0)
                return false;
        *ret_seq = seq;
        *ret_parquet = strcmp(name + digits, ".parquet") == 0;
        return true;
}

static int check_kind(int fd)
{
        struct stat status;

        if (fstat(fd, &status) < 0)
                return -errno;
        return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) ? 0 : -ENODEV;
}

/* O_NONBLOCK: a FIFO with the name of a segment must not hold us. */
static int open_one(int dir_fd, const char *name, int flags, mode_t mode)
{
        int fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
        int r;

        if (fd < 0)
                return -errno;
        r = flags & O_PATH ? 0 : check_kind(fd);
        if (r < 0) {
                infp_close(fd);
                return r;
        }
        return fd;
}

int infp_store_open(int dir_fd, const char *path, int flags, mode_t mode)
{
        infp_autoclose int parent = -1;
        const char *slash;

        if (dir_fd == AT_FDCWD)
                return open_one(dir_fd, path, flags, mode);
        while ((slash = strchr(path, '/'))) {
                char name[256];
                int fd;

                if ((size_t) (slash - path) >= sizeof(name))
                        return -ENAMETOOLONG;
                memcpy(name, path, (size_t) (slash - path));
                name[slash - path] = 0;
                fd = open_one(parent >= 0 ? parent : dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
                if (fd < 0)
                        return fd;
                infp_close(parent);
                parent = fd;
                path = slash + 1;
        }
        return open_one(parent >= 0 ? parent : dir_fd, path, flags | O_NOFOLLOW, mode);
}
