#include "app/move_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/discard.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/new_file.h"

enum { PIECE = 1 << 16, DEEPEST = 4 };

static int copy_bytes(int from, int to)
{
        infp_autofree char *piece = malloc(PIECE);
        ssize_t n;

        if (!piece)
                return -ENOMEM;
        while ((n = read(from, piece, PIECE)) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                INFP_TRY(infp_write_all(to, piece, (size_t) n, NULL));
        }
        return 0;
}

static int copy_file(int from_dir, int to_dir, const char *name, mode_t mode)
{
        infp_autoclose int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        struct infp_new_file file = INFP_NEW_FILE_INIT;
        int r = from < 0 ? -errno : infp_new_file_at(&file, to_dir, name, mode);

        if (r >= 0)
                r = copy_bytes(from, file.fd);
        if (r >= 0)
                r = infp_new_file_commit(&file, false);
        infp_new_file_done(&file);
        return r;
}

static int copy_folder(int from_dir, int to_dir, const char *name, mode_t mode, unsigned depth);

static int copy_one(int from_dir, int to_dir, const char *name, unsigned depth)
{
        struct stat status;

        if (fstatat(from_dir, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(status.st_mode))
                return depth < DEEPEST ? copy_folder(from_dir, to_dir, name, status.st_mode & 0777, depth + 1) : -ELOOP;
        return S_ISREG(status.st_mode) ? copy_file(from_dir, to_dir, name, status.st_mode & 0777) : 0;
}

static int copy_folder(int from_dir, int to_dir, const char *name, mode_t mode, unsigned depth)
{
        infp_autoclose int to = -1;
        int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), r = 0;
        DIR *directory = from < 0 ? NULL : fdopendir(from);
        const struct dirent *entry;

        if (!directory) {
                r = -errno;
                infp_close(from);
                return r;
        }
        if (mkdirat(to_dir, name, mode) < 0 && errno != EEXIST)
                r = -errno;
        if (r == 0)
                to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (r == 0 && to < 0)
                r = -errno;
        while (r == 0 && (entry = readdir(directory)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = copy_one(from, to, entry->d_name, depth);
        closedir(directory);
        return r;
}

/* A file or folder of the run. Missing ones are no error. */
static int move(const struct infp_run *run, int to_dir, const char *name, bool *ret_copied)
{
        int r = renameat(run->output_fd, name, to_dir, name) < 0 ? -errno : 0;

        if (r == -EXDEV) {
                r = copy_one(run->output_fd, to_dir, name, 0);
                *ret_copied = true;
        }
        return r == -ENOENT ? 0 : r;
}

int infp_move_run(struct infp_run *run, const char *output, struct infp_err *err)
{
        infp_autoclose int to = -1;
        char name[64];
        bool is_copied = false;
        int r;

        INFP_TRY(infp_run_make_output(output, &to, err));
        snprintf(name, sizeof(name), "static_%s.json", run->info.uuid);
        r = move(run, to, name, &is_copied);
        snprintf(name, sizeof(name), "%s.infprof", run->info.uuid);
        if (r == 0)
                r = move(run, to, name, &is_copied);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot move run %s to %s", run->info.uuid, output);
        if (is_copied)
                infp_discard_run(run);
        return 0;
}
