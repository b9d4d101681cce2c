/* Whether the file may have more room. Taking it must not hurt the program: no SIGBUS and no SIGXFSZ, not the last memory of its
 * control group, not the last of a /dev/shm that it needs itself. */
#include "ring/writer_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

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
        size_t size = infp_writer_append(room.path, TEXT, 0, directory);

        size = infp_writer_append(room.path, TEXT, size, name);
        if (size >= TEXT || infp_writer_read(room.path, text, sizeof text) <= 0 || *text < '0' || *text > '9')
                return false;
        *ret = infp_writer_parse(&at);
        return true;
}

/* The page cache of files, which gives way. */
static uint64_t reclaimable(const char *directory, const char *const words[2])
{
        const char *const text = room.text;
        uint64_t sum = 0;
        size_t size = infp_writer_append(room.path, TEXT, 0, directory);

        size = infp_writer_append(room.path, TEXT, size, "/memory.stat");
        if (size >= TEXT || infp_writer_read(room.path, room.text, TEXT) <= 0)
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
        size_t at = infp_writer_append(directory, TEXT, 0, mount), root = at;

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
        if (infp_writer_read("/proc/self/cgroup", room.groups, TEXT) <= 0)
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

void infp_writer_touch(struct infp_writer_file *file, uint64_t from, uint64_t to)
{
#ifdef MADV_POPULATE_WRITE
        madvise(file->base + from, to - from, MADV_POPULATE_WRITE);
#else
        (void) file, (void) from, (void) to;
#endif
}

int infp_writer_allocate(int fd, uint64_t have, uint64_t want, bool at_first)
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

static bool has_consumer(const struct infp_wire_head *head, uint64_t now_ns)
{
        return atomic_load_explicit(&head->consumer_pid, memory_order_relaxed) &&
               atomic_load_explicit(&head->consumer_seen_ns, memory_order_relaxed) + CONSUMER_GONE_NS > now_ns;
}

uint32_t infp_writer_chunk_limit(const struct infp_writer_file *file, bool is_held, uint64_t now_ns)
{
        bool may_grow = infp_writer_config.bytes || is_held || has_consumer(file->head, now_ns);

        return may_grow ? file->max_chunks : 0;
}

bool infp_writer_is_growing(void)
{
        return atomic_load_explicit(&atomic_load(&infp_writer_page)->grow_lock, memory_order_relaxed) != 0;
}

/* Under the lock. */
static int grow(struct infp_writer_file *file, bool is_held, uint64_t now_ns)
{
        uint32_t have, want;
        int fd, r;

        have = atomic_load(&file->n_chunks);
        want = have + (is_held && have > INFP_WRITER_STEP_CHUNKS ? have : INFP_WRITER_STEP_CHUNKS);
        want = want < file->max_chunks ? want : file->max_chunks;
        r = fd = have < want ? infp_writer_reopen(file) : -EFBIG;
        if (fd >= 0) {
                r = infp_writer_allocate(fd, INFP_WRITER_CHUNKS_AT + (uint64_t) have * INFP_WIRE_CHUNK,
                                         INFP_WRITER_CHUNKS_AT + (uint64_t) want * INFP_WIRE_CHUNK, false);
                close(fd);
        }
        if (r == 0) {
                infp_writer_touch(file, INFP_WRITER_CHUNKS_AT + (uint64_t) have * INFP_WIRE_CHUNK,
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
