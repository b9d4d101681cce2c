#include "ring/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/rights.h"
#include "base/sort.h"
#include "model/id.h"
#include "ring/where.h"
#include "ring/wire.h"

enum { STAT_FIELDS = 20, MAX_ENVIRONMENT = 8 << 20 }; /* stat: from the state to the start time */

static ssize_t read_of(int proc_fd, pid_t pid, const char *name, char *ret, size_t cap)
{
        char path[64];

        snprintf(path, sizeof(path), "%d/%s", (int) pid, name);
        return infp_read_at(proc_fd, path, ret, cap);
}

/* State and start time of /proc/PID/stat. The name in it may hold anything but a byte 0. */
static int read_start(int proc_fd, pid_t pid, uint64_t *ret_start)
{
        char text[1024];
        const ssize_t n = read_of(proc_fd, pid, "stat", text, sizeof(text));
        struct infp_span words[STAT_FIELDS];
        const char *at;

        if (n <= 0)
                return -ESRCH;
        at = strrchr(text, ')');
        if (!at)
                return -EBADMSG;
        at++;
        infp_span_words((struct infp_span){ at, (size_t) (text + n - at) }, words, STAT_FIELDS);
        if (infp_span_is(words[0], "Z") || infp_span_is(words[0], "X"))
                return -ESRCH;
        return infp_span_u64(words[STAT_FIELDS - 1], ret_start);
}

static void read_boot_id(int proc_fd, char *ret, size_t cap)
{
        char text[64];
        const ssize_t n = infp_read_at(proc_fd, "sys/kernel/random/boot_id", text, sizeof(text));

        ret[0] = 0;
        if (n >= 36)
                snprintf(ret, cap, "%.36s", text);
}

int infp_ring_owner_read(int proc_fd, pid_t pid, struct infp_ring_owner *ret, struct infp_err *err)
{
        struct infp_ring_owner owner = { .pid = pid };
        char path[64];
        uint64_t uid, number;
        struct stat status;

        snprintf(path, sizeof(path), "%d/status", (int) pid);
        if (read_start(proc_fd, pid, &owner.start_ticks) < 0 || !infp_proc_number(proc_fd, path, "Uid:", 1, &uid))
                return infp_fail(err, -ESRCH, "there is no process %d", (int) pid);
        owner.uid = (uint32_t) uid;
        if (owner.uid != geteuid() && geteuid() != 0)
                return infp_fail(
                        err, -EPERM,
                        "process %d belongs to uid %u, and infprof runs as uid %u: only that user and root may read it",
                        (int) pid, owner.uid, (unsigned) geteuid());
        if (infp_proc_number(proc_fd, path, "NSpid:", INFP_PROC_LAST, &number)) {
                if (!number) /* the kernel's word for one that was reaped since its file was opened */
                        return infp_fail(err, -ESRCH, "there is no process %d", (int) pid);
                owner.pid = (int32_t) number;
        }
        snprintf(path, sizeof(path), "%d/ns/pid", (int) pid);
        if (fstatat(proc_fd, path, &status, 0) == 0)
                owner.pid_ns = status.st_ino;
        read_boot_id(proc_fd, owner.boot_id, sizeof(owner.boot_id));
        owner.process = infp_process_id(owner.boot_id, pid, owner.start_ticks);
        *ret = owner;
        return 0;
}

/* What the process itself calls this uid: in a user namespace another one, and the directories bear that. */
static uint32_t inner_uid(int proc_fd, pid_t pid, uint32_t uid)
{
        char text[4096];
        const ssize_t n = read_of(proc_fd, pid, "uid_map", text, sizeof(text));
        struct infp_span rest = { text, n > 0 ? (size_t) n : 0 }, line, words[3];

        while (infp_span_line(&rest, &line)) {
                uint64_t inside, outside, count;

                if (infp_span_words(line, words, 3) == 3 && infp_span_u64(words[0], &inside) == 0 &&
                    infp_span_u64(words[1], &outside) == 0 && infp_span_u64(words[2], &count) == 0 && uid >= outside &&
                    uid - outside < count)
                        return (uint32_t) (inside + (uid - outside));
        }
        return uid;
}

/* The variable's value in an environment of `size` bytes, or NULL. */
static const char *variable(const char *environment, size_t size, const char *name)
{
        const size_t name_size = strlen(name);

        for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
                if (strncmp(at, name, name_size) == 0 && at[name_size] == '=')
                        return at + name_size + 1;
        return NULL;
}

/* No link leads out of `root`; of the last part none is followed. */
static int open_below(int root, const char *path)
{
        struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
        const int fd = (int) syscall(SYS_openat2, root, path, &how, sizeof(how));

        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
                return fd < 0 ? -errno : fd;
        /* Kernels before 5.6, and seccomp filters of old container runtimes: only what cannot lead elsewhere. */
        return -ENOSYS;
}

static bool is_private(int fd, uint32_t uid)
{
        struct stat status;

        return fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid && !(status.st_mode & 077);
}

static bool is_same_directory(int a, int b)
{
        struct stat one, other;

        return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

struct places {
        int root;
        uint32_t uid;
        struct infp_ring_wish *wish;
        int (*each)(void *context, int fd, const char *path);
        void *context;
        int n;
};

static int try_place(struct places *p, const char *path)
{
        int fd = open_below(p->root, path), r;

        if (fd == -ENOSYS && p->wish->is_root_ours)
                fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || !is_private(fd, p->uid)) {
                infp_close(fd);
                p->wish->is_first_missing |= p->n == 0;
                return 0;
        }
        r = p->each(p->context, fd, path);
        p->n += r >= 0;
        return r < 0 ? r : 0;
}

static int try_places(struct places *p, uint32_t inner, const char *wanted, const char *runtime_dir)
{
        char path[PATH_MAX];

        p->wish->is_wanted = wanted && *wanted && strcmp(wanted, "0") != 0;
        if (wanted && wanted[0] == '/') {
                INFP_TRY(try_place(p, wanted));
                p->wish->is_named_refused = p->n == 0;
        }
        for (unsigned i = 0;; i++) {
                const int n = infp_ring_directory(i, inner, runtime_dir, path, sizeof(path));

                if (n < 0)
                        return p->n;
                if (n > 0)
                        INFP_TRY(try_place(p, path));
        }
}

int infp_ring_directories(int proc_fd, pid_t pid, const struct infp_ring_owner *owner, struct infp_ring_wish *ret,
                          int (*each)(void *context, int fd, const char *path), void *context, struct infp_err *err)
{
        const int32_t thread = infp_proc_thread(proc_fd, "", (int32_t) pid);
        infp_autofree char *environment = NULL;
        infp_autoclose int root = -1, our_root = -1;
        char path[64];
        ssize_t size;
        struct places places = { .uid = owner->uid, .wish = ret, .each = each, .context = context };

        *ret = (struct infp_ring_wish){ 0 };
        snprintf(path, sizeof(path), "%d/environ", (int) thread);
        size = infp_read_all_at(proc_fd, path, MAX_ENVIRONMENT, &environment);
        if (size == -ENOENT || size == -ESRCH)
                return infp_fail(err, -ESRCH, "process %d has ended", (int) pid);
        if (size < 0)
                return infp_fail(err, -EACCES, "/proc/%d/environ cannot be read (%s): %s", (int) pid,
                                 strerror((int) -size), infp_rights_fix(INFP_MAY_TRACE));
        snprintf(path, sizeof(path), "%d/root", (int) thread);
        root = places.root = openat(proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return infp_fail(err, -EACCES, "/proc/%d/root cannot be opened (%s): %s", (int) pid, strerror(errno),
                                 infp_rights_fix(INFP_MAY_TRACE));
        our_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        ret->is_root_ours = our_root >= 0 && is_same_directory(root, our_root);
        return try_places(&places, inner_uid(proc_fd, pid, owner->uid),
                          variable(environment, (size_t) size, INFP_RING_ENV),
                          variable(environment, (size_t) size, "XDG_RUNTIME_DIR"));
}

enum { MAX_FILES = 4096 }; /* of a directory: what is more is somebody's mischief */

static bool parse_name(const char *name, struct infp_ring_name *ret)
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

                if (strlen(entry->d_name) >= sizeof((*ret)->name) || !parse_name(entry->d_name, &parsed))
                        continue;
                if (!INFP_MAKE_ROOM(*ret, n, cap, 16))
                        return -ENOMEM;
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
