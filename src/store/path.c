#include "store/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/new_file.h"

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

/* O_NONBLOCK: a FIFO with the name of a segment must not block us. */
static int open_one(int dir_fd, const char *name, int flags)
{
        int fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
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

/* Opens all folders of a path without following a link; -1: it has none. *path becomes the name in the last one. */
static int open_folder(int dir_fd, const char **path, int *ret)
{
        infp_autoclose int parent = -1;
        const char *slash;

        while ((slash = strchr(*path, '/'))) {
                char name[256];
                int fd;

                if ((size_t) (slash - *path) >= sizeof(name))
                        return -ENAMETOOLONG;
                memcpy(name, *path, (size_t) (slash - *path));
                name[slash - *path] = 0;
                fd = open_one(parent >= 0 ? parent : dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
                if (fd < 0)
                        return fd;
                infp_close(parent);
                parent = fd;
                *path = slash + 1;
        }
        *ret = parent;
        parent = -1;
        return 0;
}

int infp_store_open(int dir_fd, const char *path, int flags)
{
        infp_autoclose int folder = -1;

        if (dir_fd == AT_FDCWD)
                return open_one(dir_fd, path, flags);
        INFP_TRY(open_folder(dir_fd, &path, &folder));
        return open_one(folder >= 0 ? folder : dir_fd, path, flags | O_NOFOLLOW);
}

int infp_store_make(int dir_fd, const char *path, mode_t mode)
{
        infp_autoclose int folder = -1;

        INFP_TRY(open_folder(dir_fd, &path, &folder));
        return infp_make_file_at(folder >= 0 ? folder : dir_fd, path, O_WRONLY, mode);
}
