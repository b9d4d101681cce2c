/* The ring file of this process: what is asked of /proc, what others left, whether there is room, the file itself. */
#include "ring/writer_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/where.h"

/* Bytes, ended by 0; or -errno. */
static int read_text(const char *path, char *ret, size_t cap)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, ret, cap - 1);
        if (n < 0)
                n = -errno;
        close(fd);
        ret[n > 0 ? n : 0] = 0;
        return (int) n;
}

uint64_t infp_writer_parse(const char **text)
{
        uint64_t number = 0;

        for (; **text >= '0' && **text <= '9'; ++*text)
                number = number > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 - 1 : number * 10 + (uint64_t) (**text - '0');
        return number;
}

uint64_t infp_writer_start_ticks(const char *stat_path)
{
        char text[1024];
        const char *at;

        if (read_text(stat_path, text, sizeof text) <= 0 || !(at = strrchr(text, ')')))
                return 0;
        for (unsigned field = 2; field < 22 && at;
             field++) /* a name may hold blanks and brackets: the last one ends it */
                at = strchr(at + 1, ' ');
        if (!at)
                return 0;
        at++;
        return infp_writer_parse(&at);
}

static void read_boot_id(uint8_t ret[16])
{
        char text[64];
        unsigned n = 0;

        memset(ret, 0, 16);
        if (read_text("/proc/sys/kernel/random/boot_id", text, sizeof text) <= 0)
                return;
        for (const char *at = text; *at && n < 32; at++) {
                unsigned c = (unsigned char) *at;
                unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;

                if (digit < 16) {
                        ret[n / 2] = (uint8_t) (ret[n / 2] << 4 | digit);
                        n++;
                }
        }
}

static uint64_t pid_namespace(void)
{
        struct stat st;

        return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Removes files of processes that were killed or left by _exit while no recorder was there: nobody else would before the next
 * recording, and a server with a child a request would fill the memory. What belongs to a recording is left to it. */

enum { BYTES = 8192, MOST_LOOKS = 512, MOST_REMOVED = 64 };
#define FRESH_NS UINT64_C(2000000000) /* a recorder may be about to open it */

struct entry { /* as the kernel gives it: readdir would need the heap */
        uint64_t inode;
        int64_t offset;
        uint16_t size;
        uint8_t type;
        char name[];
};

/* Under page->opening; not on the stack, which may be a handler's. */
static _Alignas(struct entry) char entries[BYTES];
static struct infp_wire_head left_head;

static bool is_dead(int32_t pid)
{
        return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

static bool is_left_over(int fd, uint64_t pid_ns, uint64_t now_ns)
{
        struct stat st;

        return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
               pread(fd, &left_head, sizeof left_head, 0) == sizeof left_head &&
               memcmp(left_head.magic, INFP_WIRE_MAGIC, sizeof left_head.magic) == 0 &&
               left_head.version == INFP_WIRE_VERSION &&
               (!left_head.run[0] || left_head.sampler_hz_1000 || left_head.heap_mean) && left_head.pid_ns == pid_ns &&
               is_dead(left_head.pid) && left_head.created_ns + FRESH_NS < now_ns &&
               flock(fd, LOCK_EX | LOCK_NB) == 0; /* no recorder reads it */
}

static bool tidy(int directory, const char *name, uint64_t pid_ns, uint64_t now_ns)
{
        const char *at = name;
        uint64_t pid = infp_writer_parse(&at);
        bool is_removed = false;
        int fd;

        if (*at != '-' || pid > INT32_MAX || !is_dead((int32_t) pid))
                return false;
        fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return false;
        if (is_left_over(fd, pid_ns, now_ns))
                is_removed = unlinkat(directory, name, 0) == 0;
        close(fd);
        return is_removed;
}

static void tidy_directory(int directory, uint64_t now_ns)
{
        uint64_t pid_ns = pid_namespace();
        unsigned looks = 0, removed = 0;
        long n;

        while (pid_ns && (n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
                for (long at = 0; at < n;) {
                        const struct entry *entry = (const struct entry *) (void *) (entries + at);

                        at += entry->size;
                        removed += tidy(directory, entry->name, pid_ns, now_ns);
                        if (++looks == MOST_LOOKS || removed == MOST_REMOVED)
                                return;
                }
}

/* Whether the file may have more room. Taking it must not hurt the program: no SIGBUS and no SIGXFSZ, not the last memory of its
 * control group, not the last of a /dev/shm that it needs itself. */

enum {
        TEXT = 4096,
        ROOM_FACTOR = 8, /* of a control group's limit, times what we take, has to be left */
};
#define MUCH_ROOM (UINT64_C(256) << 20) /* free bytes of a file system that are enough, whatever its size */
#define RETRY_GROW_NS UINT64_C(5000000000)
#define CONSUMER_GONE_NS UINT64_C(60000000000)

static _Atomic uint64_t grow_at_ns;

/* Not on the stack: the first call may come from a handler that has 8 KiB of its own. Only one thread looks for room at a time: under
 * page->opening while there is no file, under grow_lock when there is one. */
static struct {
        char groups[TEXT], directory[TEXT], path[TEXT], text[TEXT];
} room;

/* The number of a file that holds one; false: none ("max") or no such file. */
static bool read_number(const char *directory, const char *name, uint64_t *ret)
{
        char text[64];
        const char *at = text;
        size_t size = infp_ring_append(room.path, TEXT, 0, directory);

        size = infp_ring_append(room.path, TEXT, size, name);
        if (size >= TEXT || read_text(room.path, text, sizeof text) <= 0 || *text < '0' || *text > '9')
                return false;
        *ret = infp_writer_parse(&at);
        return true;
}

/* The page cache of files, which gives way. */
static uint64_t reclaimable(const char *directory, const char *const words[2])
{
        const char *const text = room.text;
        uint64_t sum = 0;
        size_t size = infp_ring_append(room.path, TEXT, 0, directory);

        size = infp_ring_append(room.path, TEXT, size, "/memory.stat");
        if (size >= TEXT || read_text(room.path, room.text, TEXT) <= 0)
                return 0;
        for (unsigned i = 0; i < 2; i++) {
                const char *at = strstr(text, words[i]);

                if (at && (at == text || at[-1] == '\n')) {
                        at += strlen(words[i]);
                        sum += infp_writer_parse(&at);
                }
        }
        return sum;
}

static bool has_room(const char *directory, bool is_v2, uint64_t need)
{
        static const char *const words[2][2] = { { "\ntotal_inactive_file ", "\ntotal_active_file " },
                                                 { "\ninactive_file ", "\nactive_file " } };
        uint64_t limit, used;

        if (!read_number(directory, is_v2 ? "/memory.max" : "/memory.limit_in_bytes", &limit) ||
            !read_number(directory, is_v2 ? "/memory.current" : "/memory.usage_in_bytes", &used))
                return true;
        if (limit >= used && limit - used >= need)
                return true;
        return limit + reclaimable(directory, words[is_v2]) >= used + need;
}

/* Up from the group of a line of /proc/self/cgroup: each one's limit holds. In a container the path may be the host's; its
 * own group is then the root of what is mounted. */
static bool groups_have_room(const char *mount, const char *path, size_t size, bool is_v2, uint64_t need)
{
        char *const directory = room.directory;
        size_t at = infp_ring_append(directory, TEXT, 0, mount), root = at;

        if (at + size + 1 >= TEXT)
                return true;
        memcpy(directory + at, path, size);
        at += size;
        for (;;) {
                while (at > root && directory[at - 1] == '/')
                        at--;
                directory[at] = 0;
                if (!has_room(directory, is_v2, need))
                        return false;
                if (at == root)
                        return true;
                while (at > root && directory[at - 1] != '/')
                        at--;
        }
}

static bool control_groups_have_room(uint64_t need)
{
        if (read_text("/proc/self/cgroup", room.groups, TEXT) <= 0)
                return true;
        for (const char *line = room.groups; *line;) {
                size_t size = strcspn(line, "\n");
                const char *path = memchr(line, '/', size);
                bool is_v2 = strncmp(line, "0::", 3) == 0;
                const char *memory = memmem(line, size, "memory", 6);

                if (path && is_v2 &&
                    !groups_have_room("/sys/fs/cgroup", path, size - (size_t) (path - line), true, need))
                        return false;
                if (path && !is_v2 && memory && memory < path &&
                    !groups_have_room("/sys/fs/cgroup/memory", path, size - (size_t) (path - line), false, need))
                        return false;
                line += size + (line[size] == '\n');
        }
        return true;
}

/* For file systems that cannot reserve room: zeros. */
static int write_zeros(int fd, uint64_t have, uint64_t want)
{
        static const char zeros[INFP_WIRE_PAGE];

        for (uint64_t at = have; at < want; at += sizeof zeros) {
                ssize_t n = pwrite(fd, zeros, sizeof zeros, (off_t) at);

                if (n != (ssize_t) sizeof zeros)
                        return n < 0 ? -errno : -ENOSPC;
        }
        return 0;
}

/* Brings allocated pages into the page table now, so that the first write to each is no fault. Where the kernel cannot (before
 * 5.14), they come by faults. */
static void touch(struct infp_writer_file *file, uint64_t from, uint64_t to)
{
#ifdef MADV_POPULATE_WRITE
        madvise(file->base + from, to - from, MADV_POPULATE_WRITE);
#else
        (void) file, (void) from, (void) to;
#endif
}

static int allocate(int fd, uint64_t have, uint64_t want, bool at_first)
{
        struct rlimit limit;
        struct statfs fs;
        int r;

        if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && want > limit.rlim_cur)
                return -EFBIG; /* the kernel would send SIGXFSZ */
        if (fstatfs(fd, &fs) == 0 && fs.f_blocks) {
                uint64_t unit = (uint64_t) fs.f_bsize, keep = fs.f_blocks * unit / (at_first ? 16 : 2);

                if (fs.f_bavail * unit < want - have + (keep < MUCH_ROOM ? keep : MUCH_ROOM))
                        return -ENOSPC;
        }
        if (!control_groups_have_room((want - have) * ROOM_FACTOR))
                return -ENOMEM;
        do
                r = fallocate(fd, 0, (off_t) have, (off_t) (want - have)) < 0 ? -errno : 0;
        while (r == -EINTR);
        return r == -EOPNOTSUPP || r == -ENOSYS || r == -EPERM ? write_zeros(fd, have, want) : r;
}

static bool is_it(const struct infp_writer_file *file, const struct stat *st)
{
        return st->st_dev == file->device && st->st_ino == file->inode;
}

/* Opens the file again by its path; -ESTALE when that is another file now. No descriptor is kept: a program that closes those it
 * does not know would give its number to a file of its own. */
static int reopen(const struct infp_writer_file *file)
{
        int fd = open(file->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) == 0 && is_it(file, &st))
                return fd;
        close(fd);
        return -ESTALE;
}

static bool has_consumer(const struct infp_wire_head *head, uint64_t now_ns)
{
        return atomic_load_explicit(&head->consumer_pid, memory_order_relaxed) &&
               atomic_load_explicit(&head->consumer_seen_ns, memory_order_relaxed) + CONSUMER_GONE_NS > now_ns;
}

uint32_t infp_writer_chunk_limit(const struct infp_writer_file *file, bool is_held, uint64_t now_ns)
{
        bool may_grow = infp_writer_config.bytes || atomic_load(&infp_writer_limit_bytes) || is_held ||
                        has_consumer(file->head, now_ns);

        return may_grow ? file->max_chunks : 0;
}

bool infp_writer_is_growing(void)
{
        return atomic_load_explicit(&atomic_load(&infp_writer_page)->grow_lock, memory_order_relaxed) != 0;
}

/* Under the lock. */
static int grow(struct infp_writer_file *file, bool is_held, uint64_t now_ns)
{
        const uint32_t most = atomic_load(&file->max_chunks);
        uint32_t have, want;
        int fd, r;

        have = atomic_load(&file->n_chunks);
        want = have + (is_held && have > INFP_WRITER_STEP_CHUNKS ? have : INFP_WRITER_STEP_CHUNKS);
        want = want < most ? want : most;
        r = fd = have < want ? reopen(file) : -EFBIG;
        if (fd >= 0) {
                r = allocate(fd, INFP_WRITER_CHUNKS_AT + (uint64_t) have * INFP_WIRE_CHUNK,
                             INFP_WRITER_CHUNKS_AT + (uint64_t) want * INFP_WIRE_CHUNK, false);
                close(fd);
        }
        if (r == 0) {
                touch(file, INFP_WRITER_CHUNKS_AT + (uint64_t) have * INFP_WIRE_CHUNK,
                      INFP_WRITER_CHUNKS_AT + (uint64_t) want * INFP_WIRE_CHUNK);
                atomic_store_explicit(&file->head->n_chunks, want, memory_order_release);
                atomic_store_explicit(&file->n_chunks, want, memory_order_release);
        } else if (have < want) {
                infp_writer_add(&file->head->grow_failed, 1);
                atomic_store(&file->head->grow_errno, (uint64_t) -r);
                atomic_store(&grow_at_ns, now_ns + RETRY_GROW_NS);
        }
        return r;
}

int infp_writer_grow(struct infp_writer_file *file, bool is_held, uint64_t now_ns)
{
        struct infp_writer_page *page = atomic_load(&infp_writer_page);
        sigset_t before;
        int r = -EAGAIN;

        if (now_ns < atomic_load_explicit(&grow_at_ns, memory_order_relaxed))
                return r;
        infp_writer_block_signals(&before);
        if (infp_writer_try_lock(&page->grow_lock, 1)) {
                r = grow(file, is_held, now_ns);
                infp_writer_unlock(&page->grow_lock);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

_Static_assert(INFP_WRITER_CHUNKS_AT % INFP_WIRE_PAGE == 0, "chunks are pages");

/* A directory that is ours alone: what others could enter, they could put files into. */
static int open_directory(const char *path)
{
        bool is_new = mkdir(path, 0700) == 0;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        int r = 0;

        if (fd < 0)
                return -errno;
        if (is_new)
                fchmod(fd, 0700); /* whatever the umask is */
        if (fstat(fd, &st) < 0)
                r = -errno;
        else if (st.st_uid != geteuid() || st.st_mode & 077)
                r = -EPERM;
        if (r == 0)
                return fd;
        close(fd);
        return r;
}

static void fill_name(struct infp_wire_head *head)
{
        int n = read_text("/proc/self/comm", head->name, sizeof head->name);

        if (n > 0 && head->name[n - 1] == '\n')
                head->name[n - 1] = 0;
        head->parent = getppid();
}

uint32_t infp_writer_sampler_hz_1000;
uint64_t infp_writer_heap_mean;

/* Fills all but `ready`. */
static void fill(struct infp_writer_file *file, uint64_t start_ticks, uint64_t created_ns, uint64_t bytes)
{
        const struct infp_wire_head *before = infp_writer_file.head; /* of the parent, or of its parent */
        struct infp_wire_head *head = file->head;

        memcpy(head->magic, INFP_WIRE_MAGIC, sizeof head->magic);
        head->version = INFP_WIRE_VERSION;
        head->head_bytes = sizeof *head;
        read_boot_id(head->boot_id);
        head->pid = getpid();
        head->uid = geteuid();
        head->pid_ns = pid_namespace();
        head->start_ticks = start_ticks;
        head->created_ns = created_ns;
        head->kinds_at = INFP_WRITER_KINDS_AT;
        head->n_kinds = INFP_WIRE_OUR_KINDS;
        head->metrics_at = INFP_WRITER_METRICS_AT;
        head->max_metrics = INFP_WIRE_METRICS;
        head->arena_at = INFP_WRITER_ARENA_AT;
        head->arena_bytes = INFP_WIRE_ARENA;
        head->settings_at = infp_writer_sampler_hz_1000 || infp_writer_heap_mean ? 0 : INFP_WRITER_SETTINGS_AT;
        head->chunks_at = INFP_WRITER_CHUNKS_AT;
        head->max_chunks = (uint32_t) ((file->mapped - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK);
        strncpy(head->library, INFP_VERSION, sizeof head->library - 1);
        memcpy(head->run, infp_writer_config.run, sizeof head->run);
        head->sampler_hz_1000 = infp_writer_sampler_hz_1000;
        head->heap_mean = infp_writer_heap_mean;
        fill_name(head);
        if (before && before->pid_ns == head->pid_ns && before->pid != head->pid)
                head->forked_from = before->pid;
        memcpy(file->base + INFP_WRITER_KINDS_AT, infp_wire_kinds, sizeof infp_wire_kinds);
        atomic_store(&file->n_chunks, (uint32_t) ((bytes - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK));
        atomic_store(&head->n_chunks, atomic_load(&file->n_chunks));
        atomic_store(&head->arena_used, 8); /* place 0 means none */
}

/* The whole range is mapped at once; pages after the file's end are not touched before it has grown. Where the address space is
 * limited the file does not grow. */
static int map(struct infp_writer_file *file, int fd, uint64_t bytes)
{
        uint64_t most = infp_writer_config.bytes                        ? infp_writer_config.bytes
                        : infp_writer_heap_mean == INFP_WIRE_HEAP_EXACT ? INFP_WIRE_EXACT_BYTES
                                                                        : INFP_WIRE_MAX_BYTES;
        const uint64_t limit = atomic_load(&infp_writer_limit_bytes);
        void *base;

        most = most / INFP_WIRE_PAGE * INFP_WIRE_PAGE;
        base = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED) {
                most = bytes;
                base = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        if (base == MAP_FAILED)
                return -errno;
        file->base = base;
        file->mapped = most;
        file->head = base;
        file->metrics = (struct infp_wire_metric *) (file->base + INFP_WRITER_METRICS_AT);
        file->arena = file->base + INFP_WRITER_ARENA_AT;
        file->settings = (struct infp_wire_settings *) (file->base + INFP_WRITER_SETTINGS_AT);
        if (limit > bytes && limit < most)
                most = limit;
        file->max_chunks = (uint32_t) ((most - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK);
        return 0;
}

/* A hash of what tells this file from others, so that ids of several processes do not meet. */
static uint64_t mix(uint64_t number)
{
        number ^= number >> 33;
        number *= UINT64_C(0xff51afd7ed558ccd);
        number ^= number >> 33;
        number *= UINT64_C(0xc4ceb9fe1a85ec53);
        return number ^ number >> 33;
}

static int make_in(const char *directory, uint64_t start_ticks, struct infp_writer_file *ret)
{
        uint64_t bytes = infp_writer_config.bytes, created_ns = infp_writer_now_ns();
        static struct infp_writer_file file; /* under page->opening; not on the stack, which may be a handler's */
        int directory_fd = open_directory(directory), fd, r;
        struct stat st;
        size_t at;

        if (directory_fd < 0)
                return directory_fd;
        file = (struct infp_writer_file){ 0 };
        if (!start_ticks) { /* no /proc: no reader could tell whose the file is, and nobody would remove it */
                close(directory_fd);
                return -ENOENT;
        }
        tidy_directory(directory_fd, created_ns);
        if (!bytes || bytes > INFP_WRITER_FIRST_BYTES)
                bytes = INFP_WRITER_FIRST_BYTES;
        bytes = bytes / INFP_WIRE_PAGE * INFP_WIRE_PAGE;
        at = infp_ring_append(file.path, sizeof file.path, 0, directory);
        at = infp_ring_append(file.path, sizeof file.path, at, "/");
        at = infp_ring_append_number(file.path, sizeof file.path, at, (uint64_t) getpid());
        at = infp_ring_append(file.path, sizeof file.path, at, "-");
        at = infp_ring_append_number(file.path, sizeof file.path, at, start_ticks);
        at = infp_ring_append(file.path, sizeof file.path, at, "-");
        at = infp_ring_append_number(file.path, sizeof file.path, at, created_ns);
        at = infp_ring_append(file.path, sizeof file.path, at, INFP_WIRE_SUFFIX);
        fd = at < sizeof file.path ? openat(directory_fd, strrchr(file.path, '/') + 1,
                                            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                                   : -1;
        r = fd >= 0 ? 0 : at < sizeof file.path ? -errno : -ENAMETOOLONG;
        close(directory_fd);
        if (r < 0)
                return r;
        fchmod(fd, 0600);
        r = fstat(fd, &st) < 0 ? -errno : allocate(fd, 0, bytes, true);
        if (r == 0)
                r = map(&file, fd, bytes);
        close(fd);
        if (r < 0) {
                unlink(file.path);
                return r;
        }
        file.device = st.st_dev;
        file.inode = st.st_ino;
        /* Ids are positive as signed numbers too, which is what SQL and JSON have. */
        file.salt = mix(mix(created_ns) ^ mix((uint64_t) getpid() << 40 ^ st.st_ino) ^ start_ticks) >> 2;
        touch(&file, 0, bytes);
        fill(&file, start_ticks, created_ns, bytes);
        atomic_store_explicit(&file.head->ready, 1, memory_order_release);
        *ret = file;
        return 0;
}

int infp_writer_make_file(struct infp_writer_file *ret)
{
        uint64_t start_ticks = infp_writer_start_ticks("/proc/self/stat");
        const char *runtime = infp_writer_config.runtime_directory;
        char directory[sizeof infp_writer_config.runtime_directory + 16];
        int r = -ENOENT, n;

        if (infp_writer_config.directory[0])
                return make_in(infp_writer_config.directory, start_ticks, ret);
        for (unsigned i = 0;
             (n = infp_ring_directory(i, geteuid(), runtime[0] ? runtime : NULL, directory, sizeof directory)) >= 0;
             i++) {
                int own = n ? make_in(directory, start_ticks, ret) : -ENOENT;

                if (own == 0)
                        return 0;
                if (own != -ENOENT || r == -ENOENT)
                        r = own;
        }
        return r;
}

void infp_writer_unmap(struct infp_writer_file *file)
{
        if (file->base)
                munmap(file->base, file->mapped);
        *file = (struct infp_writer_file){ 0 };
}

void infp_writer_unlink(const struct infp_writer_file *file)
{
        struct stat st;

        if (lstat(file->path, &st) == 0 && is_it(file, &st))
                unlink(file->path);
}
