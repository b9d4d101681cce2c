#include "symbols/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_directory.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "unwind/cursor.h"

enum {
        MOST_BYTES = 256 << 10, /* of a file */
        MOST_FILES = 512,       /* beyond, all are removed: they are made again */
        BUILD_ID_DIGITS = 40,
};
#define MAGIC UINT64_C(0x3153454d414e4e49) /* "INNAMES1": another one whenever a file would read otherwise */

struct infp_kept_names {
        int fd;
};

/* File header; a file whose header does not match is ignored. */
struct head {
        uint64_t magic, where; /* the file and its debug file, as they are now */
        uint64_t size, hash;
};

int infp_kept_names_open(const char *directory, struct infp_kept_names **ret, struct infp_err *err)
{
        const int fd = infp_cache_directory_open(directory, "names of code", err);

        if (fd < 0)
                return fd;
        *ret = malloc(sizeof(**ret));
        if (!*ret) {
                infp_close(fd);
                return infp_fail(err, -ENOMEM, "no memory for names of code");
        }
        (*ret)->fd = fd;
        return 0;
}

struct infp_kept_names *infp_kept_names_close(struct infp_kept_names *kept)
{
        if (kept)
                infp_close(kept->fd);
        free(kept);
        return NULL;
}

static uint64_t hash_of(const char *path, uint64_t seed)
{
        struct stat status = { 0 };
        const bool is_there = stat(path, &status) == 0;
        const uint64_t parts[] = { is_there, is_there ? (uint64_t) status.st_size : 0,
                                   is_there ? (uint64_t) status.st_mtim.tv_sec : 0,
                                   is_there ? (uint64_t) status.st_mtim.tv_nsec : 0,
                                   is_there ? (uint64_t) status.st_ino : 0 };

        return infp_hash64(parts, sizeof(parts), seed);
}

/* Debug symbols that were installed since change it. */
static uint64_t where_of(const struct infp_kept_file *file)
{
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", file->build_id, file->build_id + 2);
        return hash_of(path, hash_of(file->path, 1));
}

/* "ab12...": hexadecimal digits alone, so that it is no path. */
static bool is_name(const char *build_id)
{
        const size_t n = strspn(build_id, "0123456789abcdef");

        return n > 2 && !build_id[n] && n <= BUILD_ID_DIGITS;
}

static bool take_one(struct infp_cursor *c,
                     void (*take)(void *context, uint64_t address, const struct infp_symbol *levels, unsigned n),
                     void *context)
{
        const uint64_t address = infp_cursor_u64(c);
        const uint32_t n = infp_cursor_u32(c);
        struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];

        if (n > INFP_SYMBOL_MAX_LEVELS)
                return false;
        for (uint32_t i = 0; i < n; i++) {
                levels[i] = (struct infp_symbol){ .line = (int64_t) infp_cursor_u64(c) };
                levels[i].name = infp_cursor_text(c);
                levels[i].file = infp_cursor_text(c);
                if (!levels[i].name || !levels[i].file)
                        return false;
                if (!*levels[i].file)
                        levels[i].file = NULL;
        }
        if (!c->is_bad)
                take(context, address, levels, n);
        return !c->is_bad;
}

void infp_kept_names_each(const struct infp_kept_names *kept, const struct infp_kept_file *file,
                          void (*take)(void *context, uint64_t address, const struct infp_symbol *levels, unsigned n),
                          void *context)
{
        infp_autofree char *data = NULL;
        infp_autoclose int fd = -1;
        struct infp_cursor c;
        struct stat status;
        struct head head;

        if (!is_name(file->build_id))
                return;
        fd = openat(kept->fd, file->build_id, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
            status.st_size < (off_t) sizeof(head) || status.st_size > (off_t) (sizeof(head) + MOST_BYTES) ||
            pread(fd, &head, sizeof(head), 0) != (ssize_t) sizeof(head) || head.magic != MAGIC ||
            head.size != (uint64_t) status.st_size - sizeof(head) || head.where != where_of(file))
                return;
        data = malloc(head.size + 1);
        if (!data || pread(fd, data, head.size, sizeof(head)) != (ssize_t) head.size ||
            infp_hash64(data, head.size, 0) != head.hash)
                return;
        c = infp_cursor(data, head.size);
        while (infp_cursor_left(&c) && take_one(&c, take, context))
                ;
}

void infp_kept_names_add(struct infp_str *to, uint64_t address, const struct infp_symbol *levels, unsigned n)
{
        const uint32_t n_levels = n;

        infp_str_put(to, &address, sizeof(address));
        infp_str_put(to, &n_levels, sizeof(n_levels));
        for (unsigned i = 0; i < n; i++) {
                infp_str_put(to, &levels[i].line, sizeof(levels[i].line));
                infp_str_puts(to, levels[i].name);
                infp_str_putc(to, 0);
                infp_str_puts(to, levels[i].file ? levels[i].file : "");
                infp_str_putc(to, 0);
        }
}

static void keep_bound(int directory)
{
        const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *files = fd < 0 ? NULL : fdopendir(fd);
        const struct dirent *file;
        unsigned n = 0;

        while (files && readdir(files))
                n++;
        if (n > MOST_FILES) {
                rewinddir(files);
                while ((file = readdir(files)))
                        unlinkat(fd, file->d_name, 0);
        }
        if (files)
                closedir(files);
        else
                infp_close(fd);
}

void infp_kept_names_put(const struct infp_kept_names *kept, const struct infp_kept_file *file,
                         const struct infp_str *names)
{
        infp_autostr struct infp_str whole = { 0 };
        struct head head = { .magic = MAGIC, .size = names->size };

        if (!is_name(file->build_id) || names->failed || !names->size || names->size > MOST_BYTES)
                return;
        head.where = where_of(file);
        head.hash = infp_hash64(names->data, names->size, 0);
        infp_str_put(&whole, &head, sizeof(head));
        infp_str_put(&whole, names->data, names->size);
        if (whole.failed)
                return;
        keep_bound(kept->fd);
        infp_replace_file_at(kept->fd, file->build_id, whole.data, whole.size, 0600, false);
}
