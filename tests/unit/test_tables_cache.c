/* Unwind tables on disk: what was put comes back, what anybody changed does not, and the directory keeps to its size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>

#include "sampler/objects/image.h"
#include "sampler/objects/tables_cache.h"
#include "skip_because.h"
#include "unwind_space.h"

static char folder[] = "/tmp/infp-tables-XXXXXX", path[64];
static struct unwind_file own;
static const uint8_t build_id[20] = { 0xab, 1, 2 };
static const struct infp_file_identity identity = { 1, 2, 3, 4 };

static int begin(void **state)
{
        (void) state;
        if (!mkdtemp(folder) || unwind_open(&own, "/proc/self/exe") < 0)
                return -1;
        snprintf(path, sizeof(path), "%s/a/b", folder);
        return 0;
}

/* Each file of the cache: unlinked, or counted. */
static unsigned each_file(bool unlinks, uint64_t *ret_bytes)
{
        DIR *files = opendir(path);
        const struct dirent *file;
        struct stat status;
        unsigned n = 0;

        *ret_bytes = 0;
        while (files && (file = readdir(files))) {
                if (fstatat(dirfd(files), file->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(status.st_mode))
                        continue;
                *ret_bytes += (uint64_t) status.st_size;
                n++;
                if (unlinks)
                        unlinkat(dirfd(files), file->d_name, 0);
        }
        if (files)
                closedir(files);
        return n;
}

static int clean(void **state)
{
        char above[64];
        uint64_t bytes;

        (void) state;
        chmod(path, 0700);
        each_file(true, &bytes);
        rmdir(path);
        snprintf(above, sizeof(above), "%s/a", folder);
        rmdir(above);
        return 0;
}

static int end(void **state)
{
        clean(state);
        return rmdir(folder);
}

static struct infp_tables_cache *open_cache(uint64_t max_bytes)
{
        struct infp_tables_cache *cache = NULL;
        struct infp_err err = { "" };

        if (infp_tables_cache_open(path, max_bytes, &cache, &err) < 0)
                fail_msg("%s", err.text);
        return cache;
}

static void close_equal(struct infp_guarded_map *map, const struct infp_unwind_table *table)
{
        assert_int_equal(table->size, own.table->size);
        assert_memory_equal(table, own.table, own.table->size);
        infp_guarded_map_close(map);
}

static int get(struct infp_tables_cache *cache, const struct infp_file_identity *who)
{
        const struct infp_unwind_table *table;
        struct infp_guarded_map map;
        const int r = infp_tables_cache_get(cache, build_id, sizeof(build_id), who, &map, &table);

        if (r == 0)
                close_equal(&map, table);
        return r;
}

static int put(struct infp_tables_cache *cache, const struct infp_file_identity *who)
{
        const struct infp_unwind_table *table;
        struct infp_guarded_map map;
        const int r = infp_tables_cache_put(cache, build_id, sizeof(build_id), who, own.table, &map, &table);

        if (r == 0)
                close_equal(&map, table);
        return r;
}

static void what_was_put_comes_back(void **state)
{
        struct infp_tables_cache *cache = open_cache(1 << 30);
        struct infp_file_identity other = identity;
        struct stat status;
        uint64_t bytes;

        (void) state;
        assert_int_equal(get(cache, &identity), -ENOENT);
        assert_int_equal(put(cache, &identity), 0);
        assert_int_equal(get(cache, &identity), 0);
        other.changed_ns++; /* the same build id in another file */
        assert_int_equal(get(cache, &other), -ENOENT);
        assert_int_equal(put(cache, &other), 0);
        assert_int_equal(each_file(false, &bytes), 2);
        infp_tables_cache_close(cache);
        cache = open_cache(1 << 30);
        assert_int_equal(get(cache, &identity), 0);
        infp_tables_cache_close(cache);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0700);
}

/* The only file of the cache, to be changed. */
static int open_entry(void)
{
        DIR *files = opendir(path);
        const struct dirent *file;
        int fd = -1;

        while (fd < 0 && (file = readdir(files)))
                if (file->d_name[0] != '.')
                        fd = openat(dirfd(files), file->d_name, O_RDWR | O_CLOEXEC);
        closedir(files);
        assert_true(fd >= 0);
        return fd;
}

static void what_was_changed_does_not(void **state)
{
        struct infp_tables_cache *cache = open_cache(1 << 30);
        struct stat status;
        int fd;

        (void) state;
        assert_int_equal(put(cache, &identity), 0);
        fd = open_entry();
        assert_int_equal(fstat(fd, &status), 0);
        for (off_t at = 0; at < status.st_size; at += at < 256 ? 1 : 997) {
                uint8_t byte;

                assert_int_equal(pread(fd, &byte, 1, at), 1);
                byte ^= 0x40;
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
                assert_int_equal(get(cache, &identity), -EBADMSG);
                byte ^= 0x40;
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        assert_int_equal(get(cache, &identity), 0);
        for (off_t size = 0; size < status.st_size; size += size < 256 ? 7 : 4099) {
                assert_int_equal(ftruncate(fd, size), 0);
                assert_int_equal(get(cache, &identity), -EBADMSG);
        }
        assert_int_equal(ftruncate(fd, status.st_size + 8), 0);
        assert_int_equal(get(cache, &identity), -EBADMSG);
        close(fd);
        assert_int_equal(put(cache, &identity), 0); /* it is written anew */
        assert_int_equal(get(cache, &identity), 0);
        infp_tables_cache_close(cache);
}

/* Sound by its hash, as whoever may write here could make it, and yet no table. */
static void a_table_is_checked_beside_its_hash(void **state)
{
        struct infp_unwind_table *broken = malloc(own.table->size);
        struct infp_tables_cache *cache = open_cache(1 << 30);
        const struct infp_unwind_table *mapped;
        struct infp_guarded_map map;

        (void) state;
        memcpy(broken, own.table, own.table->size);
        broken->n_rows = UINT32_MAX;
        assert_int_equal(infp_tables_cache_put(cache, build_id, sizeof(build_id), &identity, broken, &map, &mapped), 0);
        infp_guarded_map_close(&map);
        assert_int_equal(get(cache, &identity), -EBADMSG);
        free(broken);
        infp_tables_cache_close(cache);
}

static void entries_that_are_no_files_are_none(void **state)
{
        struct infp_tables_cache *cache = open_cache(1 << 30);
        char name[256], target[128];
        DIR *files;
        const struct dirent *file;

        (void) state;
        assert_int_equal(put(cache, &identity), 0);
        files = opendir(path);
        while ((file = readdir(files)))
                if (file->d_name[0] != '.')
                        snprintf(name, sizeof(name), "%s/%.180s", path, file->d_name);
        closedir(files);
        snprintf(target, sizeof(target), "%s/other", path);
        assert_int_equal(rename(name, target), 0);
        assert_int_equal(symlink(target, name), 0);
        assert_int_equal(get(cache, &identity), -ELOOP);
        assert_int_equal(unlink(name), 0);
        assert_int_equal(mkfifo(name, 0600), 0);
        assert_int_equal(get(cache, &identity), -EBADMSG); /* and nothing hangs */
        assert_int_equal(unlink(name), 0);
        assert_int_equal(rename(target, name), 0);
        assert_int_equal(chmod(name, 0622), 0);
        assert_int_equal(get(cache, &identity), -EBADMSG); /* others can write to it */
        infp_tables_cache_close(cache);
}

static void directories_of_others_are_refused(void **state)
{
        struct infp_tables_cache *cache = NULL;
        struct infp_err err = { "" };
        char link[64];

        (void) state;
        infp_tables_cache_close(open_cache(1 << 30));
        assert_int_equal(chmod(path, 0755), 0);
        assert_int_equal(infp_tables_cache_open(path, 1 << 30, &cache, &err), -EPERM);
        assert_non_null(strstr(err.text, path));
        assert_int_equal(chmod(path, 0700), 0);
        snprintf(link, sizeof(link), "%s/link", folder);
        assert_int_equal(symlink(path, link), 0);
        assert_int_equal(infp_tables_cache_open(link, 1 << 30, &cache, NULL), -ENOTDIR);
        unlink(link);
        assert_int_equal(infp_tables_cache_open("/proc/self/exe/x", 1 << 30, &cache, &err), -ENOTDIR);
        assert_null(cache);
        if (geteuid() != 0)
                SKIP_BECAUSE("only root can give a directory away");
        assert_int_equal(chown(path, 1, 1), 0);
        assert_int_equal(infp_tables_cache_open(path, 1 << 30, &cache, &err), -EPERM);
        assert_int_equal(chown(path, 0, 0), 0);
}

/* The directory is gone, or full: tables are not kept, and that is all. */
static void a_cache_that_fails_keeps_nothing(void **state)
{
        struct infp_tables_cache *cache = open_cache(1 << 30);

        assert_int_equal(put(cache, &identity), 0);
        clean(state);
        assert_int_equal(get(cache, &identity), -ENOENT);
        assert_int_equal(put(cache, &identity), -ENOENT);
        infp_tables_cache_close(cache);
}

static void what_was_not_used_for_longest_goes(void **state)
{
        const uint64_t entry = own.table->size + 128, max = 8 * entry;
        struct infp_tables_cache *cache = open_cache(max);
        struct infp_file_identity who = identity;
        const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
        uint64_t bytes;
        int fd;

        (void) state;
        assert_int_equal(put(cache, &identity), 0);
        fd = open_entry();
        assert_int_equal(futimens(fd, old), 0);
        close(fd);
        assert_int_equal(get(cache, &identity), 0); /* a use counts */
        for (unsigned i = 0; i < 40; i++) {
                who.inode++;
                assert_int_equal(put(cache, &who), 0);
                each_file(false, &bytes);
                assert_true(bytes <= max + entry);
        }
        assert_true(each_file(false, &bytes) >= 5);
        assert_int_equal(get(cache, &who), 0);
        infp_tables_cache_close(cache);
        cache = open_cache(entry); /* a table that is a large part of all is not kept */
        who.inode++;
        assert_int_equal(put(cache, &who), -EFBIG);
        infp_tables_cache_close(cache);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(what_was_put_comes_back, clean),
                cmocka_unit_test_teardown(what_was_changed_does_not, clean),
                cmocka_unit_test_teardown(a_table_is_checked_beside_its_hash, clean),
                cmocka_unit_test_teardown(entries_that_are_no_files_are_none, clean),
                cmocka_unit_test_teardown(directories_of_others_are_refused, clean),
                cmocka_unit_test_teardown(a_cache_that_fails_keeps_nothing, clean),
                cmocka_unit_test_teardown(what_was_not_used_for_longest_goes, clean),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
