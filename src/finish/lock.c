#include "finish/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_file.h"
#include "base/notice.h"
#include "store/path.h"

/* Not run.json: any process that can open a file, even for reading, can lock it; only the owner can open this one. */
static const char name[] = "finish.lock";

enum { SILENT_MS = 1000 };

static int open_lock(int run_fd)
{
        int fd = infp_make_file_at(run_fd, name, O_RDWR, 0600);
        struct stat st;

        /* If root created it in a user's run, the user could never open it. */
        if (fd >= 0 && geteuid() == 0 && fstat(run_fd, &st) == 0 && st.st_uid != 0 &&
            fchown(fd, st.st_uid, st.st_gid) < 0) {
                const int r = -errno;

                unlinkat(run_fd, name, 0);
                infp_close(fd);
                return r;
        }
        return fd == -EEXIST ? infp_store_open(run_fd, name, O_RDWR) : fd;
}

/* The pid that was last written to the file. 0: unknown. */
static int holder_of(int fd)
{
        char text[16];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        int pid = 0;

        text[n > 0 ? n : 0] = 0;
        return sscanf(text, "%d", &pid) == 1 && pid > 0 ? pid : 0;
}

int infp_finish_lock(const struct infp_run *run, unsigned patience_ms, const struct infp_notices *notices,
                     struct infp_err *err)
{
        infp_autoclose int fd = open_lock(run->fd);
        int r = fd < 0 ? fd : infp_lock(fd, LOCK_EX, patience_ms < SILENT_MS ? patience_ms : SILENT_MS), ret;
        char text[16];

        if (r == -EWOULDBLOCK && patience_ms > SILENT_MS) {
                infp_notice(notices, "waiting for process %d, which works on the files of run %s", holder_of(fd),
                            run->info.uuid);
                r = infp_lock(fd, LOCK_EX, patience_ms - SILENT_MS);
        }
        if (r == -EWOULDBLOCK)
                return infp_fail(
                        err, -EBUSY,
                        "process %d has worked on the files of run %s for more than %u s: try again when it has ended",
                        holder_of(fd), run->info.uuid, patience_ms / 1000);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot lock %s/%s.infprof/%s", run->output, run->info.uuid, name);
        snprintf(text, sizeof(text), "%d\n", (int) getpid());
        if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0) {
                /* It only informs other processes. */
        }
        ret = fd;
        fd = -1;
        return ret;
}
