#include "store/live_registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/live.h"
#include "store/run.h"

/* Only a runtime directory that we own: `sudo -E` gives root the user's, and a folder that root creates there would lock the user
 * out. */
static bool is_ours(const char *path)
{
        struct stat status;

        return path && path[0] == '/' && stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
               status.st_uid == geteuid();
}

/* Where live runs are found, in this order: our own runtime directory, else places where others may have put something under our
 * name. -1: no more. */
static int candidate(unsigned index, char *ret, size_t cap)
{
        static const char *const shared[] = { "/tmp/infprof-%u", "/dev/shm/infprof-%u" };
        const char *runtime = getenv("XDG_RUNTIME_DIR");

        if (is_ours(runtime))
                return index ? -1 : snprintf(ret, cap, "%s/infprof", runtime);
        return index < INFP_COUNT(shared) ? snprintf(ret, cap, shared[index], (unsigned) geteuid()) : -1;
}

static int check(int fd, const char *path, struct infp_err *err)
{
        struct stat status;

        if (fstat(fd, &status) < 0)
                return infp_fail_errno(err, -errno, "cannot read %s", path);
        if (status.st_uid != geteuid())
                return infp_fail(err, -EPERM, "%s belongs to uid %u, not to this user (uid %u)", path,
                                 (unsigned) status.st_uid, (unsigned) geteuid());
        if (status.st_mode & 077)
                return infp_fail(
                        err, -EPERM,
                        "%s is open to other users (mode %04o), who could imitate this user's runs: chmod 700 it", path,
                        (unsigned) status.st_mode & 07777);
        return 0;
}

static int open_directory(const char *path, struct infp_err *err)
{
        int fd, r;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return infp_fail_errno(err, -errno, "cannot make %s, where live runs are found", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
                return infp_fail(err, -EPERM, "%s is a link or a file, not a directory", path);
        if (fd < 0)
                return infp_fail_errno(err, errno == EACCES ? -EPERM : -errno,
                                       "cannot open %s, where live runs are found", path);
        r = check(fd, path, err);
        if (r < 0) {
                infp_close(fd);
                return r;
        }
        return fd;
}

int infp_live_open_directory(char *ret, size_t cap, struct infp_err *err)
{
        struct infp_err why = { "" }, first = { "" };
        int n, fd, r = -EPERM;

        for (unsigned i = 0; (n = candidate(i, ret, cap)) >= 0; i++) {
                if ((size_t) n >= cap)
                        return infp_fail(err, -ENAMETOOLONG, "the path of XDG_RUNTIME_DIR is too long");
                fd = open_directory(ret, &why);
                if (fd >= 0)
                        return fd;
                if (i == 0) {
                        r = fd;
                        first = why;
                }
        }
        /* /tmp is sticky: we cannot remove what is there. */
        return infp_fail(err, r, "%s; set XDG_RUNTIME_DIR to your own directory with mode 0700", first.text);
}

int infp_live_directory(char *ret, size_t cap, struct infp_err *err)
{
        int fd = infp_live_open_directory(ret, cap, err);

        infp_close(fd);
        return fd < 0 ? fd : 0;
}

socklen_t infp_live_address(int dir_fd, const char *directory, const char *uuid, struct sockaddr_un *ret)
{
        int n;

        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s.sock", directory, uuid);
        if (n < 0 || (size_t) n >= sizeof(ret->sun_path)) /* an address holds 107 bytes */
                snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s.sock", dir_fd, uuid);
        return sizeof(*ret);
}

void infp_live_remove(int dir_fd, const char *uuid)
{
        static const char *const endings[] = { "json", "sock", "reader" };
        char name[64];

        for (size_t i = 0; i < INFP_COUNT(endings); i++) {
                snprintf(name, sizeof(name), "%s.%s", uuid, endings[i]);
                unlinkat(dir_fd, name, 0);
        }
}

/* A recorder killed before it had its entry leaves a socket; one that is just starting has no entry yet, either. */
static void remove_orphan(int dir_fd, const char *name)
{
        enum { LEFT_BEHIND_S = 60 };
        char uuid[37], entry[64];
        struct stat status;

        snprintf(uuid, sizeof(uuid), "%.36s", name);
        snprintf(entry, sizeof(entry), "%s.json", uuid);
        if (infp_uuid_check(uuid) && name[36] == '.' && faccessat(dir_fd, entry, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
            errno == ENOENT && fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - status.st_mtime > LEFT_BEHIND_S)
                infp_live_remove(dir_fd, uuid);
}

/* The text of a live entry: 1; 0 when its recorder is gone (its lock went with it). */
static int read_entry(int dir_fd, const char *name, char *ret, size_t cap)
{
        infp_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        ssize_t n;

        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_SH | LOCK_NB) == 0)
                return 0;
        n = pread(fd, ret, cap - 1, 0);
        if (n < 0)
                return -errno;
        ret[n] = 0;
        return 1;
}

static char *output_of(const char *text)
{
        json_t *root = json_loads(text, 0, NULL);
        const char *output = json_string_value(json_object_get(root, "output"));
        char *ret = output && output[0] == '/' ? strdup(output) : NULL;

        json_decref(root);
        return ret;
}

static int visit(int dir_fd, const char *name, int (*each)(void *context, const char *uuid, const char *output),
                 void *context)
{
        infp_autofree char *output = NULL;
        char uuid[37], text[PATH_MAX * 6 + 512]; /* each byte of the path may be escaped */
        int r;

        if (strlen(name) != 36 + strlen(".json") || strcmp(name + 36, ".json") != 0) {
                if (strlen(name) > 36)
                        remove_orphan(dir_fd, name);
                return 0;
        }
        snprintf(uuid, sizeof(uuid), "%.36s", name);
        if (!infp_uuid_check(uuid))
                return 0;
        r = read_entry(dir_fd, name, text, sizeof(text));
        if (r == 0)
                infp_live_remove(dir_fd, uuid);
        if (r <= 0)
                return 0;
        output = output_of(text);
        return output ? each(context, uuid, output) : 0;
}

int infp_live_each(int dir_fd, int (*each)(void *context, const char *uuid, const char *output), void *context,
                   struct infp_err *err)
{
        const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        int r = dir ? 0 : -errno;

        if (!dir) {
                infp_close(fd);
                return infp_fail_errno(err, r, "cannot list the live runs");
        }
        while (r == 0 && (entry = readdir(dir)))
                r = visit(dir_fd, entry->d_name, each, context);
        closedir(dir);
        return r;
}
