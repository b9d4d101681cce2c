#include "ring/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/sort.h"
#include "ring/where.h"
#include "ring/wire.h"

enum { MAX_FILES = 4096 }; /* of a directory: what is more is somebody's mischief */

bool infp_ring_name_parse(const char *name, struct infp_ring_name *ret)
{
        struct infp_span rest = { name, strlen(name) }, pid, start;
        const size_t suffix = strlen(INFP_WIRE_SUFFIX);
        uint64_t number;

        if (rest.size <= suffix || strcmp(name + rest.size - suffix, INFP_WIRE_SUFFIX) != 0)
                return false;
        rest.size -= suffix;
        pid = infp_span_cut(rest, '-', &rest);
        start = infp_span_cut(rest, '-', &rest);
        if (infp_span_u64(pid, &number) < 0 || number == 0 || number > INT32_MAX ||
            infp_span_u64(start, &ret->start_ticks) < 0 || infp_span_u64(rest, &ret->created_ns) < 0)
                return false;
        ret->pid = (int32_t) number;
        return true;
}

struct entry {
        struct infp_ring_name parsed;
        char name[96];
};

static int compare(const void *a, const void *b)
{
        const struct entry *one = a, *other = b;

        if (one->parsed.pid != other->parsed.pid)
                return one->parsed.pid < other->parsed.pid ? -1 : 1;
        if (one->parsed.created_ns != other->parsed.created_ns)
                return one->parsed.created_ns < other->parsed.created_ns ? -1 : 1;
        return strcmp(one->name, other->name);
}

static int list(DIR *dir, struct entry **ret, size_t *ret_n)
{
        struct dirent *entry;
        size_t n = 0, cap = 0;

        while (n < MAX_FILES && (entry = readdir(dir))) {
                struct infp_ring_name parsed;

                if (strlen(entry->d_name) >= sizeof((*ret)->name) || !infp_ring_name_parse(entry->d_name, &parsed))
                        continue;
                if (n == cap) {
                        struct entry *more = reallocarray(*ret, cap ? 2 * cap : 16, sizeof(*more));

                        if (!more)
                                return -ENOMEM;
                        cap = cap ? 2 * cap : 16;
                        *ret = more;
                }
                (*ret)[n].parsed = parsed;
                memcpy((*ret)[n].name, entry->d_name, strlen(entry->d_name) + 1);
                n++;
        }
        *ret_n = n;
        return 0;
}

int infp_ring_names(int dir_fd, int (*each)(void *context, const char *name, const struct infp_ring_name *parsed),
                    void *context)
{
        infp_autofree struct entry *entries = NULL;
        /* Of its own: the position in a directory belongs to its descriptor. */
        const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        size_t n = 0;
        int r;

        if (!dir) {
                r = -errno;
                infp_close(fd);
                return r;
        }
        r = list(dir, &entries, &n);
        closedir(dir);
        infp_sort(entries, n, sizeof(*entries), compare);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = each(context, entries[i].name, &entries[i].parsed);
        return r;
}

int infp_ring_file_open(int dir_fd, const char *name, uint32_t uid, bool writable)
{
        /* O_NONBLOCK: a FIFO must not hold us. */
        const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
        int fd = openat(dir_fd, name, (writable ? O_RDWR : O_RDONLY) | flags);
        struct stat status;

        if (fd < 0)
                return errno == ELOOP ? -EPERM : -errno;
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == uid)
                return fd;
        infp_close(fd);
        return -EPERM;
}

struct search {
        const struct infp_ring_owner *owner;
        bool writable;
        int dir_fd;
        char first_path[256]; /* where it would lie */
        int (*found)(void *context, int file, const struct infp_ring_owner *owner, const char *name);
        void *context;
        int n;
};

static int take_name(void *context, const char *name, const struct infp_ring_name *parsed)
{
        struct search *s = context;
        int fd, r;

        if (parsed->pid != s->owner->pid || parsed->start_ticks != s->owner->start_ticks)
                return 0;
        fd = infp_ring_file_open(s->dir_fd, name, s->owner->uid, s->writable);
        if (fd < 0)
                return 0;
        r = s->found(s->context, fd, s->owner, name);
        s->n += r >= 0;
        return r < 0 ? r : 0;
}

static int take_directory(void *context, int fd, const char *path)
{
        struct search *s = context;
        int r;

        if (!s->first_path[0])
                memcpy(s->first_path, path, strnlen(path, sizeof(s->first_path) - 1));
        s->dir_fd = fd;
        r = infp_ring_names(fd, take_name, s);
        infp_close(fd);
        return r;
}

int infp_ring_find(int proc_fd, pid_t pid, bool writable,
                   int (*found)(void *context, int file, const struct infp_ring_owner *owner, const char *name),
                   void *context, struct infp_err *err)
{
        struct infp_ring_owner owner;
        struct infp_ring_wish wish;
        struct search s = { .owner = &owner, .writable = writable, .found = found, .context = context };

        INFP_TRY(infp_ring_owner_read(proc_fd, pid, &owner, err));
        INFP_TRY(infp_ring_directories(proc_fd, pid, &owner, &wish, take_directory, &s, err));
        if (s.n)
                return s.n;
        if (wish.is_named_refused)
                return infp_fail(
                        err, -ENOENT,
                        "process %d cannot create a ring file in the directory that " INFP_RING_ENV
                        " in its environment names: it must be a directory of its user with mode 0700, not a link",
                        (int) pid);
        if (wish.is_wanted)
                return infp_fail(err, -ENOENT,
                                 "process %d has " INFP_RING_ENV
                                 " in its environment but no ring file%s%s: it does not use libinfprof, has recorded "
                                 "nothing yet, or could not create the file",
                                 (int) pid, s.first_path[0] ? " in " : "", s.first_path);
        return infp_fail(err, -ENOENT,
                         "process %d does not record: start it with " INFP_RING_ENV
                         "=1 in its environment, or call infp_enable() in it",
                         (int) pid);
}
