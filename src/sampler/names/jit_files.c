#include "sampler/names/jit_files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/procfile.h"
#include "symbols/debug_file.h"

static int open_root(int root_fd, int32_t pid)
{
        char path[64];

        snprintf(path, sizeof(path), "proc/%d/root", infp_proc_thread(root_fd, "proc/", pid));
        return openat(root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* /tmp is everybody's: another user could leave a file of wrong names there, or a link to what we alone may read. */
static int open_map(int root, int proc_root, int32_t pid, const char *path)
{
        infp_autoclose int fd = infp_open_in_root(root, path);
        const char *name = strrchr(path, '/');
        const size_t size = strlen(name);
        char link[64], found[PATH_MAX];
        struct stat file, process;
        ssize_t n = 0;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (fd >= 0)
                n = readlink(link, found, sizeof(found));
        if (n < (ssize_t) size || memcmp(found + n - size, name, size) != 0 || fstat(fd, &file) < 0)
                return -1;
        snprintf(link, sizeof(link), "proc/%d", pid);
        if (file.st_uid != 0 && file.st_uid != geteuid() &&
            (fstatat(proc_root, link, &process, 0) < 0 || process.st_uid != file.st_uid))
                return -1;
        return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void infp_jit_files_open(int root_fd, int32_t pid, const char *jitdump, struct infp_jit_files *files)
{
        const int32_t own = infp_proc_own_number(root_fd, "proc/", pid, pid);
        infp_autoclose int root = open_root(root_fd, pid);
        char path[64];

        if (files->perf_map < 0 && root >= 0) {
                snprintf(path, sizeof(path), "/tmp/perf-%d.map", own);
                files->perf_map = open_map(root, root_fd, pid, path);
        }
        if (files->perf_map < 0) {
                snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
                files->perf_map = open_map(root_fd, root_fd, pid, path);
        }
        if (files->jitdump < 0 && jitdump)
                files->jitdump = infp_open_in_root(root >= 0 ? root : root_fd, jitdump);
}

void infp_jit_files_close(struct infp_jit_files *files)
{
        files->perf_map = infp_close(files->perf_map);
        files->jitdump = infp_close(files->jitdump);
}
