#include "app/private_run.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/number.h"
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

char *infp_private_directory(const char *what, bool in_memory, struct infp_err *err)
{
        const char *places[3];

        list_places(in_memory, places);
        for (unsigned i = 0; i < INFP_COUNT(places); i++) {
                char path[PATH_MAX];

                snprintf(path, sizeof(path), "%s/infprof-%s-%d-XXXXXX", places[i], what, (int) getpid());
                if (mkdtemp(path))
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

/* A container that shares the place has other numbers for processes; the lock of a run holds across them. */
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

/* Of this kind, ours, and its maker is gone. */
static bool is_left(const char *place, const char *name, const char *what)
{
        char prefix[64], path[PATH_MAX];
        struct stat status;
        uint64_t pid;
        int size;

        size = snprintf(prefix, sizeof(prefix), "infprof-%s-", what);
        if (size >= (int) sizeof(prefix) || strncmp(name, prefix, (size_t) size) != 0)
                return false;
        if (infp_parse_u64(name + size, strcspn(name + size, "-"), &pid) < 0 || !pid || pid > INT32_MAX)
                return false;
        snprintf(path, sizeof(path), "%s/%s", place, name);
        return kill((pid_t) pid, 0) < 0 && errno == ESRCH && lstat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
               status.st_uid == geteuid() && (status.st_mode & 0777) == 0700 && is_idle(path, &status);
}

void infp_private_sweep(const char *what)
{
        const char *places[3];

        list_places(false, places);
        for (unsigned i = 0; i < INFP_COUNT(places); i++) {
                DIR *directory = opendir(places[i]);
                const struct dirent *entry;

                while (directory && (entry = readdir(directory))) {
                        char path[PATH_MAX];

                        if (!is_left(places[i], entry->d_name, what))
                                continue;
                        snprintf(path, sizeof(path), "%s/%s", places[i], entry->d_name);
                        infp_private_remove(strdup(path));
                }
                if (directory)
                        closedir(directory);
        }
}
