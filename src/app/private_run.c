#include "app/private_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/run.h"

enum { DEPTH = 16, PATIENCE_S = 60 };

/* TMPDIR, and a memory file system first or last. */
static void list_places(bool in_memory, const char *ret[3])
{
        const char *tmp = getenv("TMPDIR");

        ret[0] = tmp && *tmp == '/' ? tmp : "/tmp";
        ret[1] = in_memory ? "/dev/shm" : "/tmp";
        ret[2] = in_memory ? "/tmp" : "/dev/shm";
        if (in_memory && ret[0] != tmp)
                ret[0] = "/dev/shm";
}

/* The kernel lets go of a lock when the last process that has it ends, in whatever pid namespace that is. -1: somebody has it. */
static int hold(const char *path)
{
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                return fd;
        infp_close(fd);
        return -1;
}

char *infp_private_directory(const char *what, bool in_memory, int *ret_held_fd, struct infp_err *err)
{
        const char *places[3];

        list_places(in_memory, places);
        for (unsigned i = 0; i < INFP_COUNT(places); i++) {
                char path[PATH_MAX];

                snprintf(path, sizeof(path), "%s/infprof-%s-%d-XXXXXX", places[i], what, (int) getpid());
                if (!mkdtemp(path))
                        continue;
                if (ret_held_fd)
                        *ret_held_fd = hold(path);
                return strdup(path);
        }
        infp_fail_errno(err, -errno, "cannot make a directory below TMPDIR, /dev/shm or /tmp");
        return NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
        (void) status;
        (void) type;
        (void) place;
        (void) !remove(path);
        return 0;
}

char *infp_private_remove(char *directory)
{
        if (directory)
                nftw(directory, remove_one, DEPTH, FTW_DEPTH | FTW_PHYS);
        free(directory);
        return NULL;
}

char *infp_private_keep(char *directory)
{
        const char *name = strrchr(directory, '/') + 1;
        char *kept;

        if (asprintf(&kept, "%.*skept-%s", (int) (name - directory), directory, name) < 0)
                return directory;
        if (rename(directory, kept) < 0) {
                free(kept);
                return directory;
        }
        free(directory);
        return kept;
}

/* Nothing is recorded in it, and it is no new one that its maker does not hold yet. */
static bool is_idle(const char *path, const struct stat *status)
{
        struct infp_run *run = NULL;
        bool is_recorded;

        if (infp_run_open(path, NULL, &run, NULL) < 0) /* none yet, or none any more */
                return status->st_mtime + PATIENCE_S < time(NULL);
        is_recorded = infp_run_is_recording(run);
        infp_run_close(run);
        return !is_recorded;
}

/* Removes it if it is of this kind, ours, and nobody holds it. */
static void sweep_one(const char *place, const char *name, const char *what)
{
        char prefix[64], path[PATH_MAX];
        infp_autoclose int held_fd = -1;
        struct stat status;
        int size;

        size = snprintf(prefix, sizeof(prefix), "infprof-%s-", what);
        if (size >= (int) sizeof(prefix) || strncmp(name, prefix, (size_t) size) != 0)
                return;
        snprintf(path, sizeof(path), "%s/%s", place, name);
        if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
            (status.st_mode & 0777) != 0700)
                return;
        held_fd = hold(path);
        if (held_fd >= 0 && is_idle(path, &status))
                infp_private_remove(strdup(path));
}

void infp_private_sweep(const char *what)
{
        const char *places[3];

        list_places(false, places);
        for (unsigned i = 0; i < INFP_COUNT(places); i++) {
                DIR *directory = opendir(places[i]);
                const struct dirent *entry;

                while (directory && (entry = readdir(directory)))
                        sweep_one(places[i], entry->d_name, what);
                if (directory)
                        closedir(directory);
        }
}
