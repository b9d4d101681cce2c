#include "ring/writer_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/where.h"

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
        int n = infp_writer_read("/proc/self/comm", head->name, sizeof head->name);

        if (n > 0 && head->name[n - 1] == '\n')
                head->name[n - 1] = 0;
        head->parent = getppid();
}

/* Fills all but `ready`. */
static void fill(struct infp_writer_file *file, uint64_t start_ticks, uint64_t created_ns, uint64_t bytes)
{
        struct infp_wire_head *head = file->head;

        memcpy(head->magic, INFP_WIRE_MAGIC, sizeof head->magic);
        head->version = INFP_WIRE_VERSION;
        head->head_bytes = sizeof *head;
        infp_writer_boot_id(head->boot_id);
        head->pid = getpid();
        head->uid = geteuid();
        head->pid_ns = infp_writer_pid_namespace();
        head->start_ticks = start_ticks;
        head->created_ns = created_ns;
        head->kinds_at = INFP_WRITER_KINDS_AT;
        head->n_kinds = infp_writer_n_kinds;
        head->metrics_at = INFP_WRITER_METRICS_AT;
        head->max_metrics = INFP_WIRE_METRICS;
        head->arena_at = INFP_WRITER_ARENA_AT;
        head->arena_bytes = INFP_WIRE_ARENA;
        head->chunks_at = INFP_WRITER_CHUNKS_AT;
        head->max_chunks = file->max_chunks;
        strncpy(head->library, INFP_VERSION, sizeof head->library - 1);
        memcpy(head->run, infp_writer_config.run, sizeof head->run);
        fill_name(head);
        memcpy(file->base + INFP_WRITER_KINDS_AT, infp_writer_kinds, infp_writer_n_kinds * sizeof infp_writer_kinds[0]);
        atomic_store(&file->n_chunks, (uint32_t) ((bytes - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK));
        atomic_store(&head->n_chunks, atomic_load(&file->n_chunks));
        atomic_store(&head->arena_used, 8); /* place 0 means none */
}

/* The whole range is mapped at once; pages after the file's end are not touched before it has grown. Where the address space is
 * limited the file does not grow. */
static int map(struct infp_writer_file *file, int fd, uint64_t bytes)
{
        uint64_t most = infp_writer_config.bytes ? infp_writer_config.bytes : INFP_WIRE_MAX_BYTES;
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
        infp_writer_tidy(directory_fd, created_ns);
        if (!bytes || bytes > INFP_WRITER_FIRST_BYTES)
                bytes = INFP_WRITER_FIRST_BYTES;
        bytes = bytes / INFP_WIRE_PAGE * INFP_WIRE_PAGE;
        at = infp_writer_append(file.path, sizeof file.path, 0, directory);
        at = infp_writer_append(file.path, sizeof file.path, at, "/");
        at = infp_writer_number(file.path, sizeof file.path, at, (uint64_t) getpid());
        at = infp_writer_append(file.path, sizeof file.path, at, "-");
        at = infp_writer_number(file.path, sizeof file.path, at, start_ticks);
        at = infp_writer_append(file.path, sizeof file.path, at, "-");
        at = infp_writer_number(file.path, sizeof file.path, at, created_ns);
        at = infp_writer_append(file.path, sizeof file.path, at, INFP_WIRE_SUFFIX);
        fd = at < sizeof file.path ? openat(directory_fd, strrchr(file.path, '/') + 1,
                                            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                                   : -1;
        r = fd >= 0 ? 0 : at < sizeof file.path ? -errno : -ENAMETOOLONG;
        close(directory_fd);
        if (r < 0)
                return r;
        fchmod(fd, 0600);
        r = fstat(fd, &st) < 0 ? -errno : infp_writer_allocate(fd, 0, bytes, true);
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
        infp_writer_touch(&file, 0, bytes);
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

static bool is_it(const struct infp_writer_file *file, const struct stat *st)
{
        return st->st_dev == file->device && st->st_ino == file->inode;
}

int infp_writer_reopen(const struct infp_writer_file *file)
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

void infp_writer_unlink(const struct infp_writer_file *file)
{
        struct stat st;

        if (lstat(file->path, &st) == 0 && is_it(file, &st))
                unlink(file->path);
}
