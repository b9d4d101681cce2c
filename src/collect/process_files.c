#include "collect/process_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"

/* Left for the rest of the program: open segments, kernel files, sockets, the child's pipes. */
enum { RESERVE = 128, MOST_KEPT = 65536 };

static const char *const names[] = {
        [INFP_FILE_STAT] = "stat",
        [INFP_FILE_STATUS] = "status",
        [INFP_FILE_IO] = "io",
        [INFP_FILE_STATM] = "statm",
};

const char *infp_process_file_name(enum infp_process_file file)
{
        return names[file];
}

void infp_keeper_init(struct infp_keeper *keeper, bool may_keep)
{
        struct rlimit limit;

        *keeper = (struct infp_keeper){ 0 };
        if (!may_keep || getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > MOST_KEPT + RESERVE)
                limit.rlim_cur = MOST_KEPT + RESERVE;
        keeper->cap = limit.rlim_cur > RESERVE ? (uint32_t) limit.rlim_cur - RESERVE : 0;
}

void infp_process_files_init(struct infp_process_files *files)
{
        for (unsigned i = 0; i < INFP_N_KEPT_FILES; i++)
                files->fd[i] = -1;
}

static void drop(struct infp_keeper *keeper, int *fd)
{
        if (*fd < 0)
                return;
        *fd = infp_close(*fd);
        keeper->n_kept--;
}

void infp_process_files_close(struct infp_keeper *keeper, struct infp_process_files *files)
{
        for (unsigned i = 0; i < INFP_N_KEPT_FILES; i++)
                drop(keeper, &files->fd[i]);
}

/* "PID/name" without stdio: this runs for each process. */
static void make_path(char *path, int32_t pid, const char *name)
{
        char digits[12];
        unsigned n = 0;
        uint32_t v = (uint32_t) pid;

        do
                digits[n++] = (char) ('0' + v % 10);
        while (v /= 10);
        while (n)
                *path++ = digits[--n];
        *path++ = '/';
        strcpy(path, name);
}

enum { PATH_SIZE = 12 + 32 };

static int open_file(int proc_fd, int32_t pid, const char *name)
{
        char path[PATH_SIZE];
        int fd;

        if (strlen(name) >= PATH_SIZE - 12)
                return -EINVAL;
        make_path(path, pid, name);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static ssize_t read_file(int fd, char *buffer, size_t cap)
{
        size_t size = 0;

        while (size < cap - 1) {
                ssize_t n = pread(fd, buffer + size, cap - 1 - size, (off_t) size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                size += (size_t) n;
                /* These files come whole in one read if there is room; a second one only where the first filled a page. */
                if (n == 0 || size % 4096)
                        break;
        }
        buffer[size] = 0;
        return (ssize_t) size;
}

ssize_t infp_pid_file_read(int proc_fd, int32_t pid, const char *name, char *buffer, size_t cap)
{
        infp_autoclose int fd = open_file(proc_fd, pid, name);

        return fd < 0 ? fd : read_file(fd, buffer, cap);
}

/* stat is read for all at each scan, the others for processes that do something, mostly of the tree. */
static bool wants_keeping(const struct infp_keeper *keeper, const struct infp_process *process,
                          enum infp_process_file file)
{
        return keeper->n_kept < (file == INFP_FILE_STAT || process->in_tree ? keeper->cap : keeper->cap / 2);
}

ssize_t infp_process_file_read(struct infp_keeper *keeper, int proc_fd, struct infp_process *process,
                               enum infp_process_file file, char *buffer, size_t cap)
{
        int *kept = &process->files->fd[file], fd = *kept;
        ssize_t n;

        if (fd < 0)
                fd = open_file(proc_fd, process->pid, names[file]);
        if (fd < 0)
                return fd;
        n = read_file(fd, buffer, cap);
        if (*kept >= 0) {
                if (n < 0)
                        drop(keeper, kept);
        } else if (n >= 0 && wants_keeping(keeper, process, file)) {
                *kept = fd;
                keeper->n_kept++;
        } else {
                infp_close(fd);
        }
        return n;
}
