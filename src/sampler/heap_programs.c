#include "sampler/heap_programs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/time.h"

enum {
        MEMBERS = 4096,
        PROGRAMS = 64, /* that are told of; files that were looked at are remembered, however many */
        PARTS = 64,
        PIECE = 1 << 20,
        MOST = 64 << 20, /* of a file is searched */
};
#define PERIOD_NS UINT64_C(500000000) /* the target is looked at once a second */

/* ---- a file ---- */

struct file {
        int fd;
        Elf64_Ehdr head;
        Elf64_Phdr parts[PARTS];
        unsigned n_parts;
};

static bool read_parts(struct file *file)
{
        const size_t size = (size_t) file->head.e_phnum * sizeof(file->parts[0]);

        file->n_parts = file->head.e_phnum;
        return file->n_parts && file->n_parts <= PARTS && file->head.e_phentsize == sizeof(file->parts[0]) &&
               pread(file->fd, file->parts, size, (off_t) file->head.e_phoff) == (ssize_t) size;
}

static bool read_part(const struct file *file, uint32_t type, char *ret, size_t cap)
{
        memset(ret, 0, cap);
        for (unsigned i = 0; i < file->n_parts; i++) {
                const size_t size = file->parts[i].p_filesz < cap - 1 ? file->parts[i].p_filesz : cap - 1;

                if (file->parts[i].p_type == type && pread(file->fd, ret, size, (off_t) file->parts[i].p_offset) > 0)
                        return true;
        }
        return false;
}

/* Go's linker leaves a note of owner "Go". */
static bool is_go(const struct file *file)
{
        char notes[512];

        for (unsigned i = 0; i < file->n_parts; i++) {
                const size_t size = file->parts[i].p_filesz < sizeof(notes) ? file->parts[i].p_filesz : sizeof(notes);

                if (file->parts[i].p_type == PT_NOTE &&
                    pread(file->fd, notes, size, (off_t) file->parts[i].p_offset) == (ssize_t) size && size >= 16 &&
                    memcmp(notes, "\4\0\0\0", 4) == 0 && memcmp(notes + 12, "Go\0", 4) == 0)
                        return true;
        }
        return false;
}

/* Words that allocators print, and hardly anybody else has: names of what they read from the environment stand in programs that set it. Python 3.13 and later have mimalloc in them, and use it for objects, which are
 * sampled. */
static const struct {
        const char *word;
        enum infp_heap_program_kind kind;
} words[] = {
        { "PyMem_GetAllocator", INFP_HEAP_PROGRAM_FITS },
        { "<jemalloc>: ", INFP_HEAP_PROGRAM_JEMALLOC },
        { " Bytes in use by application\n", INFP_HEAP_PROGRAM_TCMALLOC },
        { "mimalloc: ", INFP_HEAP_PROGRAM_MIMALLOC },
};
enum { WORDS = sizeof(words) / sizeof(words[0]), LONGEST = 32 };

static void search(const struct file *file, const Elf64_Phdr *part, char *piece, bool found[WORDS])
{
        const uint64_t all = part->p_filesz < MOST ? part->p_filesz : MOST;

        for (uint64_t at = 0; at < all; at += PIECE) {
                const size_t rest = all - at < PIECE + LONGEST ? all - at : PIECE + LONGEST;
                const ssize_t n = pread(file->fd, piece, rest, (off_t) (part->p_offset + at));

                for (unsigned i = 0; n > 0 && i < WORDS; i++)
                        found[i] = found[i] || memmem(piece, (size_t) n, words[i].word, strlen(words[i].word));
        }
}

/* Constants lie in parts that are neither written nor run, but where the linker has put both into one. */
static enum infp_heap_program_kind allocator_of(const struct file *file)
{
        char *piece = malloc(PIECE + LONGEST);
        bool found[WORDS] = { false };

        for (unsigned i = 0; piece && i < file->n_parts; i++)
                if (file->parts[i].p_type == PT_LOAD && !(file->parts[i].p_flags & (PF_W | PF_X)))
                        search(file, &file->parts[i], piece, found);
        free(piece);
        for (unsigned i = 0; i < WORDS; i++)
                if (found[i])
                        return words[i].kind;
        return INFP_HEAP_PROGRAM_FITS;
}

enum infp_heap_program_kind infp_heap_program_look(int fd)
{
        struct file file = { .fd = fd };
        char loader[256];

        if (pread(fd, &file.head, sizeof(file.head), 0) != sizeof(file.head) ||
            memcmp(file.head.e_ident, ELFMAG, SELFMAG) != 0)
                return INFP_HEAP_PROGRAM_FITS;
        if (file.head.e_ident[EI_CLASS] == ELFCLASS32)
                return INFP_HEAP_PROGRAM_32_BIT;
        if (!read_parts(&file))
                return INFP_HEAP_PROGRAM_FITS;
        if (is_go(&file))
                return INFP_HEAP_PROGRAM_GO;
        if (!read_part(&file, PT_INTERP, loader, sizeof(loader)))
                return INFP_HEAP_PROGRAM_STATIC;
        if (strstr(loader, "ld-musl"))
                return INFP_HEAP_PROGRAM_MUSL;
        return allocator_of(&file);
}

/* ---- processes ---- */

struct infp_heap_programs {
        struct infp_target *target;
        int root_fd, wake_fd;
        pthread_mutex_t lock;
        pthread_cond_t news;
        bool is_stopping;
        struct infp_heap_program found[PROGRAMS];
        unsigned n_found, n_taken;
        /* Of the thread: */
        struct infp_map seen, files;
        struct infp_target_member members[MEMBERS];
        size_t n_members;
        dev_t own_device;
        ino_t own_file;
};

static void destroy(struct infp_heap_programs *programs)
{
        infp_map_done(&programs->seen);
        infp_map_done(&programs->files);
        infp_close(programs->root_fd);
        infp_close(programs->wake_fd);
        pthread_cond_destroy(&programs->news);
        pthread_mutex_destroy(&programs->lock);
        free(programs);
}

static void tell(struct infp_heap_programs *programs, int32_t pid, enum infp_heap_program_kind kind)
{
        struct infp_heap_program program = { .kind = kind, .pid = pid };
        const uint64_t one = 1;
        char path[64];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/comm", (int) pid);
        n = infp_read_at(programs->root_fd, path, program.name, sizeof(program.name));
        program.name[n > 0 ? strcspn(program.name, "\n") : 0] = 0;
        pthread_mutex_lock(&programs->lock);
        if (programs->n_found < PROGRAMS)
                programs->found[programs->n_found++] = program;
        if (!programs->is_stopping)
                (void) !write(programs->wake_fd, &one, sizeof(one));
        pthread_mutex_unlock(&programs->lock);
}

/* A program that is started by the loader's name: what that loads is not known by this file. */
static bool is_loader(const struct infp_heap_programs *programs, const char *path)
{
        char target[PATH_MAX];
        const ssize_t n = readlinkat(programs->root_fd, path, target, sizeof(target) - 1);
        const char *name;

        target[n > 0 ? n : 0] = 0;
        name = strrchr(target, '/');
        return name && strncmp(name, "/ld-", 4) == 0 && strstr(name, ".so");
}

/* False: it runs our own program, before its exec. */
static bool look_at(struct infp_heap_programs *programs, int32_t pid)
{
        infp_autoclose int fd = -1;
        enum infp_heap_program_kind kind;
        struct stat status;
        uint64_t file;
        char path[64];

        snprintf(path, sizeof(path), "proc/%d/exe", (int) pid);
        fd = openat(programs->root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) {
                if (errno == EACCES || errno == EPERM)
                        tell(programs, pid, INFP_HEAP_PROGRAM_DENIED);
                return true;
        }
        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
                return true;
        file = infp_hash64((const uint64_t[]){ status.st_dev, status.st_ino }, 2 * sizeof(file), 0);
        if (infp_map_get(&programs->files, file))
                return true;
        if (status.st_dev == programs->own_device && status.st_ino == programs->own_file)
                return false;
        infp_map_put(&programs->files, file, 1);
        kind = infp_heap_program_look(fd);
        if (kind != INFP_HEAP_PROGRAM_FITS && !is_loader(programs, path))
                tell(programs, pid, kind);
        return true;
}

/* Without the lock. */
static void look_at_new(struct infp_heap_programs *programs)
{
        const size_t n = programs->n_members < MEMBERS ? programs->n_members : MEMBERS;

        for (size_t i = 0; i < n; i++) {
                const struct infp_target_member *member = &programs->members[i];
                const uint64_t key = member->id ^ member->image * UINT64_C(0x9e3779b97f4a7c15);

                if (!infp_map_get(&programs->seen, key) && look_at(programs, member->pid))
                        infp_map_put(&programs->seen, key, 1);
        }
}

static void *run(void *context)
{
        struct infp_heap_programs *programs = context;

        pthread_mutex_lock(&programs->lock);
        while (!programs->is_stopping) {
                struct timespec until;

                programs->n_members = infp_target_members(programs->target, programs->members, MEMBERS);
                pthread_mutex_unlock(&programs->lock);
                look_at_new(programs);
                until = infp_timespec(infp_clock_ns(CLOCK_MONOTONIC) + PERIOD_NS);
                pthread_mutex_lock(&programs->lock);
                if (!programs->is_stopping)
                        pthread_cond_timedwait(&programs->news, &programs->lock, &until);
        }
        pthread_mutex_unlock(&programs->lock);
        destroy(programs);
        return NULL;
}

int infp_heap_programs_new(struct infp_target *target, int root_fd, int wake_fd, struct infp_heap_programs **ret)
{
        struct infp_heap_programs *programs = calloc(1, sizeof(*programs));
        struct stat own;
        int r;

        if (!programs)
                return -ENOMEM;
        programs->target = target;
        programs->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
        programs->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
        if (stat("/proc/self/exe", &own) == 0) {
                programs->own_device = own.st_dev;
                programs->own_file = own.st_ino;
        }
        pthread_mutex_init(&programs->lock, NULL);
        infp_cond_init(&programs->news);
        r = infp_thread_start(NULL, "infprof-heap", 0, run, programs);
        if (r < 0)
                destroy(programs);
        else
                *ret = programs;
        return r;
}

struct infp_heap_programs *infp_heap_programs_free(struct infp_heap_programs *programs)
{
        if (!programs)
                return NULL;
        pthread_mutex_lock(&programs->lock);
        programs->is_stopping = true;
        pthread_cond_signal(&programs->news);
        pthread_mutex_unlock(&programs->lock);
        return NULL;
}

bool infp_heap_programs_take(struct infp_heap_programs *programs, struct infp_heap_program *ret)
{
        bool has;

        pthread_mutex_lock(&programs->lock);
        has = programs->n_taken < programs->n_found;
        if (has)
                *ret = programs->found[programs->n_taken++];
        pthread_mutex_unlock(&programs->lock);
        return has;
}
