#include "sampler/objects/tables_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_directory.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/sort.h"
#include "sampler/objects/image.h"

enum {
        USED_S = 3600,        /* the time of last use is no more exact than this */
        LEFT_BEHIND_S = 3600, /* a temporary file that is older has no writer */
        WRITTEN_AT_ONCE = 16 * 1024,
        MAX_ENTRIES = 8192,
};
_Static_assert(INFP_TABLES_CACHE_NAME >= 2 * INFP_MAX_BUILD_ID + 18, "a name has room");
#define MAGIC \
        UINT64_C(0x32454c4241544e49) /* "INTABLE2": another one whenever tables of the same file become other ones */

struct infp_tables_cache {
        int fd;
        uint64_t max_bytes;
        atomic_uint_least64_t bytes; /* since they were counted last; UINT64_MAX: not counted yet */
        pthread_mutex_t trim_lock;
};

/* What stands before the table in a file: all of it must be as it is to be. */
struct head {
        uint64_t magic;
        struct infp_file_identity identity;
        uint64_t build_id_hash, table_size, table_hash;
};

int infp_tables_cache_open(const char *directory, uint64_t max_bytes, struct infp_tables_cache **ret,
                           struct infp_err *err)
{
        const int fd = infp_cache_directory_open(directory, "unwind tables", err);
        struct infp_tables_cache *cache;

        if (fd < 0)
                return fd;
        cache = calloc(1, sizeof(*cache));
        if (!cache) {
                infp_close(fd);
                return infp_fail(err, -ENOMEM, "no memory for the cache of unwind tables");
        }
        cache->fd = fd;
        cache->max_bytes = max_bytes;
        atomic_init(&cache->bytes, UINT64_MAX);
        pthread_mutex_init(&cache->trim_lock, NULL);
        *ret = cache;
        return 0;
}

struct infp_tables_cache *infp_tables_cache_close(struct infp_tables_cache *cache)
{
        if (cache) {
                infp_close(cache->fd);
                pthread_mutex_destroy(&cache->trim_lock);
                free(cache);
        }
        return NULL;
}

/* Two files of one build id (one of them not stripped, or a forgery) do not push each other out. */
void infp_tables_cache_name(const uint8_t *build_id, uint32_t size, const struct infp_file_identity *identity,
                            char ret[INFP_TABLES_CACHE_NAME])
{
        for (uint32_t i = 0; i < size; i++)
                sprintf(ret + (size_t) 2 * i, "%02x", build_id[i]);
        sprintf(ret + (size_t) 2 * size, "-%016llx", (unsigned long long) infp_hash64(identity, sizeof(*identity), 0));
}

static struct head head_of(const uint8_t *build_id, uint32_t size, const struct infp_file_identity *identity)
{
        return (struct head){ .magic = MAGIC, .identity = *identity, .build_id_hash = infp_hash64(build_id, size, 0) };
}

static bool is_whole(int fd, struct head *wanted)
{
        struct stat status;
        struct head head;

        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
            (status.st_mode & 022) || pread(fd, &head, sizeof(head), 0) != (ssize_t) sizeof(head))
                return false;
        wanted->table_size = head.table_size;
        wanted->table_hash = head.table_hash;
        return memcmp(&head, wanted, sizeof(head)) == 0 && status.st_size > (off_t) sizeof(head) &&
               head.table_size == (uint64_t) status.st_size - sizeof(head) && head.table_size <= UINT32_MAX;
}

/* What is used stays. */
static void note_use(int fd)
{
        struct timespec now[2] = { { 0, UTIME_OMIT }, { 0, UTIME_NOW } };
        struct stat status;

        if (fstat(fd, &status) == 0 && time(NULL) - status.st_mtime > USED_S)
                futimens(fd, now);
}

static int map_table(int fd, uint64_t table_size, struct infp_guarded_map *ret_map,
                     const struct infp_unwind_table **ret)
{
        INFP_TRY(infp_guarded_map_open(ret_map, fd, sizeof(struct head) + table_size, false));
        *ret = (const struct infp_unwind_table *) (const void *) (ret_map->at + sizeof(struct head));
        return 0;
}

/* All of it is looked at once, and given back. */
static bool is_sound(struct infp_guarded_map *map, const struct head *head)
{
        unsigned char *at = map->at + sizeof(*head);
        const struct infp_unwind_table *table;
        bool ret;

        madvise(map->at, map->size, MADV_POPULATE_READ); /* one fault for all; since Linux 5.14 */
        infp_guarded_map_begin(map);
        ret = infp_hash64(at, head->table_size, 0) == head->table_hash &&
              infp_unwind_table_check(at, head->table_size, &table) == 0;
        infp_guarded_map_end();
        madvise(map->at, map->size, MADV_DONTNEED);
        return ret && !atomic_load(&map->is_lost);
}

int infp_tables_cache_get(struct infp_tables_cache *cache, const uint8_t *build_id, uint32_t build_id_size,
                          const struct infp_file_identity *identity, struct infp_guarded_map *ret_map,
                          const struct infp_unwind_table **ret)
{
        struct head head = head_of(build_id, build_id_size, identity);
        infp_autoclose int fd = -1;
        char name[INFP_TABLES_CACHE_NAME];

        if (build_id_size > INFP_MAX_BUILD_ID)
                return -EINVAL;
        infp_tables_cache_name(build_id, build_id_size, identity, name);
        fd = openat(cache->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* reading ahead makes large folios, too: see write_file */
        if (!is_whole(fd, &head))
                return -EBADMSG;
        INFP_TRY(map_table(fd, head.table_size, ret_map, ret));
        if (!is_sound(ret_map, &head)) {
                infp_guarded_map_close(ret_map);
                return -EBADMSG;
        }
        infp_debug("unwind table %s: from the cache", name);
        note_use(fd);
        return 0;
}

/* One file of the directory. */
struct entry {
        char name[INFP_TABLES_CACHE_NAME];
        uint64_t size;
        int64_t used;
};

static int by_use(const void *a, const void *b)
{
        const struct entry *x = a, *y = b;

        return (x->used > y->used) - (x->used < y->used);
}

static bool take_entry(int fd, const char *name, time_t now, struct entry *ret)
{
        struct stat status;

        if (strlen(name) >= sizeof(ret->name) || fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(status.st_mode))
                return false;
        if (name[0] == '.') { /* a writer that was killed left it */
                if (now - status.st_mtime > LEFT_BEHIND_S)
                        unlinkat(fd, name, 0);
                return false;
        }
        *ret = (struct entry){ .size = (uint64_t) status.st_size, .used = status.st_mtime };
        strcpy(ret->name, name);
        return true;
}

/* The files by their last use, and their size. NULL: no memory, or it cannot be read. */
static struct entry *list(int directory, size_t *ret_n, uint64_t *ret_bytes)
{
        const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *files = fd < 0 ? NULL : fdopendir(fd);
        struct entry *entries = files ? malloc(MAX_ENTRIES * sizeof(*entries)) : NULL;
        const time_t now = time(NULL);
        const struct dirent *file;

        *ret_n = *ret_bytes = 0;
        while (entries && *ret_n < MAX_ENTRIES && (file = readdir(files)))
                if (take_entry(fd, file->d_name, now, &entries[*ret_n]))
                        *ret_bytes += entries[(*ret_n)++].size;
        if (files)
                closedir(files);
        else
                infp_close(fd);
        infp_sort(entries, *ret_n, sizeof(*entries), by_use);
        return entries;
}

/* Removes what was not used for longest, down to nine tenths. */
static void trim(struct infp_tables_cache *cache)
{
        infp_autofree struct entry *entries = NULL;
        uint64_t bytes;
        size_t n;

        if (pthread_mutex_trylock(&cache->trim_lock) != 0)
                return;
        entries = list(cache->fd, &n, &bytes);
        if (entries && (bytes > cache->max_bytes || n == MAX_ENTRIES)) {
                const size_t first_kept = n == MAX_ENTRIES ? MAX_ENTRIES / 10 : 0;

                for (size_t i = 0; i < n && (i < first_kept || bytes > cache->max_bytes / 10 * 9); i++)
                        if (unlinkat(cache->fd, entries[i].name, 0) == 0)
                                bytes -= entries[i].size;
        }
        if (entries)
                atomic_store(&cache->bytes, bytes);
        pthread_mutex_unlock(&cache->trim_lock);
}

static int write_file(int dir_fd, const char *name, const struct head *head, const struct infp_unwind_table *table,
                      struct infp_guarded_map *ret_map, const struct infp_unwind_table **ret)
{
        infp_cleanup(infp_new_file_done) struct infp_new_file file = INFP_NEW_FILE_INIT;
        int r = infp_new_file_at(&file, dir_fd, name, 0600);

        if (r == 0)
                r = infp_write_all(file.fd, head, sizeof(*head), NULL);
        /* A write makes folios of its size (up to 2 MiB on ext4 since Linux 6.16), and a page that is touched brings all of its folio
         * into our memory (since 6.18). */
        for (uint64_t at = 0; r == 0 && at < table->size; at += WRITTEN_AT_ONCE)
                r = infp_write_all(file.fd, (const char *) table + at,
                                   table->size - at < WRITTEN_AT_ONCE ? table->size - at : WRITTEN_AT_ONCE, NULL);
        if (r == 0)
                r = infp_new_file_commit(&file, false);
        return r < 0 ? r : map_table(file.fd, table->size, ret_map, ret);
}

int infp_tables_cache_put(struct infp_tables_cache *cache, const uint8_t *build_id, uint32_t build_id_size,
                          const struct infp_file_identity *identity, const struct infp_unwind_table *table,
                          struct infp_guarded_map *ret_map, const struct infp_unwind_table **ret)
{
        struct head head = head_of(build_id, build_id_size, identity);
        char name[INFP_TABLES_CACHE_NAME];

        if (build_id_size > INFP_MAX_BUILD_ID)
                return -EINVAL;
        if (table->size > cache->max_bytes / 4)
                return -EFBIG;
        head.table_size = table->size;
        head.table_hash = infp_hash64(table, table->size, 0);
        infp_tables_cache_name(build_id, build_id_size, identity, name);
        INFP_TRY(write_file(cache->fd, name, &head, table, ret_map, ret));
        if (atomic_load(&cache->bytes) == UINT64_MAX ||
            atomic_fetch_add(&cache->bytes, table->size + sizeof(head)) > cache->max_bytes)
                trim(cache);
        return 0;
}
