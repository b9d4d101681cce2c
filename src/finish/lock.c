#include "finish/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Whoever saves run.json puts a new file in its place: a lock of the old one keeps nobody out. */
static bool is_current(const struct infp_run *run, int fd)
{
        struct stat held, now;

        return fstat(fd, &held) == 0 && fstatat(run->fd, "run.json", &now, AT_SYMLINK_NOFOLLOW) == 0 &&
               held.st_ino == now.st_ino && held.st_dev == now.st_dev;
}

/* run.json is the lock, since the lock of the directory says that the recorder lives. */
int infp_finish_lock(const struct infp_run *run, struct infp_err *err)
{
        for (;;) {
                int fd = openat(run->fd, "run.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
                int r;

                if (fd < 0 && errno == ENOENT)
                        return -ENOENT; /* lost, but the tables are there: nobody else will come */
                if (fd < 0 || flock(fd, LOCK_EX) < 0) {
                        r = infp_fail_errno(err, -errno, "cannot lock %s/%s.infprof/run.json", run->output,
                                            run->info.uuid);
                        infp_close(fd);
                        return r;
                }
                if (is_current(run, fd))
                        return fd;
                infp_close(fd);
        }
}
