#include "base/cache_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

static int make_directories(const char *path)
{
        char part[PATH_MAX];

        if (strlen(path) >= sizeof(part))
                return -ENAMETOOLONG;
        for (const char *slash = path; slash;) {
                slash = strchr(slash + 1, '/');
                memcpy(part, path, slash ? (size_t) (slash - path) : strlen(path));
                part[slash ? (size_t) (slash - path) : strlen(path)] = 0;
                if (part[0] && mkdir(part, 0700) < 0 && errno != EEXIST && !slash)
                        return -errno;
        }
        return 0;
}

/* What is kept may be mapped: a page that must come from a server which does not answer would hold the thread that reads it. */
static bool is_remote(int fd)
{
        static const unsigned long remote[] = {
                0x6969,                                         /* NFS; statfs(2) has these */
                0x517b,     0xff534d42, 0xfe534d42,             /* SMB, CIFS, SMB2 */
                0x01021997, 0x00c36400, 0x5346414f, 0x73757245, /* 9P, Ceph, AFS, Coda */
                0x65735546, 0x0bd00bd0, 0x47504653,             /* FUSE, Lustre, GPFS */
        };
        struct statfs status;

        if (fstatfs(fd, &status) < 0)
                return true;
        for (size_t i = 0; i < INFP_COUNT(remote); i++)
                if (((unsigned long) status.f_type & 0xffffffff) == remote[i])
                        return true;
        return false;
}

int infp_cache_directory_open(const char *path, const char *what, struct infp_err *err)
{
        infp_autoclose int fd = -1;
        struct stat status;
        int r = make_directories(path), ret;

        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return infp_fail_errno(err, r < 0 ? r : -errno, "cannot open %s, which keeps %s", path, what);
        if (fstat(fd, &status) < 0)
                return infp_fail_errno(err, -errno, "cannot read %s, which keeps %s", path, what);
        if (status.st_uid != geteuid() || (status.st_mode & 077))
                return infp_fail(err, -EPERM,
                                 "%s is not used to keep %s: it must belong to this user and have mode 0700", path,
                                 what);
        if (is_remote(fd))
                return infp_fail(err, -EREMOTE,
                                 "%s is not used to keep %s: it lies on a network file system, whose server infprof "
                                 "would wait for",
                                 path, what);
        ret = fd;
        fd = -1;
        return ret;
}

char *infp_cache_path(const char *name)
{
        const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        char *path;
        int n;

        if (cache && cache[0] == '/')
                n = asprintf(&path, "%s/infprof/%s", cache, name);
        else if (home && home[0] == '/')
                n = asprintf(&path, "%s/.cache/infprof/%s", home, name);
        else
                return NULL;
        return n < 0 ? NULL : path;
}
