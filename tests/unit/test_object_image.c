/* Files that processes execute from: found in each way, read whole, and harmless when they are something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "sampler/objects/image.h"
#include "sampler/objects/open.h"
#include "sampler/objects/tables_cache.h"
#include "sampler/spaces/space.h"
#include "skip_because.h"
#include "unwind_space.h"

static char folder[] = "/tmp/infp-object-XXXXXX", exe[512];
static int root_fd;
static struct infp_object_place self; /* this program's code */

/* The mapping of this very function. */
static bool find_self(void)
{
        static char text[1 << 20];
        const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        struct infp_maps_line line;
        size_t size = 0;
        ssize_t n;
        char *at = text;

        while (size < sizeof(text) - 1 && (n = read(fd, text + size, sizeof(text) - 1 - size)) > 0)
                size += (size_t) n;
        close(fd);
        while (infp_maps_next(&at, &line))
                if (line.is_executable && (uint64_t) (uintptr_t) find_self - line.begin < line.end - line.begin) {
                        self = (struct infp_object_place){ .pid = getpid(),
                                                           .begin = line.begin,
                                                           .end = line.end,
                                                           .major = line.major,
                                                           .minor = line.minor,
                                                           .inode = line.inode,
                                                           .path = exe };
                        snprintf(exe, sizeof(exe), "%s", line.path);
                        return true;
                }
        return false;
}

static int begin(void **state)
{
        (void) state;
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return root_fd >= 0 && mkdtemp(folder) && find_self() ? 0 : -1;
}

static int end(void **state)
{
        (void) state;
        close(root_fd);
        return rmdir(folder);
}

/* A file of the test's folder; descriptor and identity. */
static int make_file(const char *name, const void *bytes, size_t size, struct infp_file_identity *ret)
{
        char path[512];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        unlink(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, size), size);
        *ret = (struct infp_file_identity){ 1, 2, size, 3 };
        return fd;
}

static struct infp_object_image *read_self(enum infp_object_way way)
{
        struct infp_object_image *image = NULL;
        struct infp_file_identity identity;
        const int fd = infp_object_open(root_fd, &self, way, &identity);

        if (fd < 0)
                return NULL;
        assert_int_equal(infp_object_image_read(fd, &identity, NULL, &image), 0);
        close(fd);
        return image;
}

static void an_image_says_what_the_file_does(void **state)
{
        struct infp_object_image *image = read_self(INFP_BY_OUR_ROOT);
        struct unwind_file file;
        uint64_t vaddr, wanted;

        (void) state;
        assert_non_null(image);
        assert_int_equal(unwind_open(&file, exe), 0);
        assert_true(image->is_elf && !image->is_go && image->has_eh_frame);
        assert_int_equal(image->build_id_size, file.elf.build_id.size);
        assert_memory_equal(image->build_id, file.elf.build_id.bytes, image->build_id_size);
        assert_int_equal(strlen(image->build_id_text), 2 * image->build_id_size);
        assert_int_equal(image->table->size, file.table->size);
        assert_memory_equal(image->table, file.table, file.table->size);
        for (uint64_t offset = 0; offset < image->size; offset += 4096)
                if (infp_object_image_vaddr(image, offset, &vaddr)) {
                        assert_true(infp_elf_vaddr(&file.elf, offset, &wanted) ||
                                    infp_elf_vaddr(&file.elf, offset + 4095, &wanted));
                        assert_int_equal(vaddr & 4095, offset & 4095);
                }
        infp_object_image_free(image);
}

static void each_way_leads_to_the_same_file(void **state)
{
        struct infp_object_image *first = read_self(INFP_BY_OUR_ROOT), *image;

        (void) state;
        for (enum infp_object_way way = INFP_BY_ITS_ROOT; way < INFP_OBJECT_WAYS; way++) {
                image = read_self(way);
                if (!image && (way == INFP_BY_MAP_FILES || way == INFP_BY_FD || way == INFP_BY_MEMORY))
                        continue; /* root's alone; held by nobody; not allowed */
                assert_non_null(image);
                assert_string_equal(image->build_id_text, first->build_id_text);
                assert_int_equal(image->table->n_rows, first->table->n_rows);
                infp_object_image_free(image);
        }
        infp_object_image_free(first);
}

static void other_files_are_refused(void **state)
{
        struct infp_object_place place = self;
        struct infp_file_identity identity;
        char fifo[64];

        (void) state;
        place.inode++;
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_OUR_ROOT, &identity), -ESTALE);
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_ITS_ROOT, &identity), -ESTALE);
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_EXE, &identity), -ESTALE);
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_MEMORY, &identity), -ENOENT);
        place.inode = 0; /* neither inode nor build id */
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_OUR_ROOT, &identity), -ENOENT);
        snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
        assert_int_equal(mkfifo(fifo, 0600), 0);
        place.build_id_size = 4;
        place.path = fifo;
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_OUR_ROOT, &identity),
                         -ESTALE); /* and nothing hangs */
        unlink(fifo);
        place.path = "/dev/null";
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_OUR_ROOT, &identity), -ESTALE);
        place.path = "/nowhere/at/all";
        assert_int_equal(infp_object_open(root_fd, &place, INFP_BY_OUR_ROOT, &identity), -ENOENT);
}

static void files_that_are_no_programs_have_no_code(void **state)
{
        struct infp_object_image *image;
        struct infp_file_identity identity;
        int fd = make_file("text", "#!/bin/sh\n", 10, &identity);

        (void) state;
        assert_int_equal(infp_object_image_read(fd, &identity, NULL, &image), 0);
        assert_true(!image->is_elf && !image->table && !image->n_loads);
        infp_object_image_free(image);
        close(fd);
        fd = make_file("empty", "", 0, &identity);
        assert_int_equal(infp_object_image_read(fd, &identity, NULL, &image), 0);
        assert_true(!image->is_elf && !image->bytes);
        infp_object_image_free(image);
        identity.size = UINT64_C(1) << 40;
        assert_int_equal(infp_object_image_read(fd, &identity, NULL, &image), -EFBIG);
        close(fd);
}

/* Whoever maps a file that becomes shorter is killed, unless it knows. */
static void files_that_become_shorter_are_an_error(void **state)
{
        struct infp_object_image *image = NULL;
        struct infp_file_identity identity;
        struct unwind_file file;
        int fd;

        (void) state;
        assert_int_equal(unwind_open(&file, exe), 0);
        for (size_t size = 4096; size < file.size; size += file.size / 5) {
                fd = make_file("shorter", file.bytes, size & ~(size_t) 4095, &identity);
                identity.size = file.size;
                assert_int_equal(infp_object_image_read(fd, &identity, NULL, &image), -EIO);
                assert_null(image);
                close(fd);
        }
}

static void the_vdso_has_a_table(void **state)
{
        struct infp_object_image *image;
        uint64_t vaddr;

        (void) state;
        if (infp_object_image_vdso(&image) < 0)
                SKIP_BECAUSE("this kernel gives processes no vDSO");
        assert_true(image->is_elf && image->table && image->build_id_size);
        assert_true(infp_object_image_vaddr(image, 0, &vaddr));
        assert_int_equal(vaddr, 0);
        infp_object_image_free(image);
}

/* The cache's only entry, to be changed or removed. */
static void open_entry(const char *path, char *ret_name, size_t cap, int *ret_fd)
{
        DIR *files = opendir(path);
        const struct dirent *file;

        *ret_fd = -1;
        while (files && (file = readdir(files)))
                if (file->d_name[0] != '.') {
                        snprintf(ret_name, cap, "%s/%s", path, file->d_name);
                        *ret_fd = open(ret_name, O_RDWR | O_CLOEXEC);
                }
        closedir(files);
        assert_true(*ret_fd >= 0);
}

/* A table of 20 MB is 20 MB of memory, unless it lies in a file; and the file may be cut by its owner. */
static void tables_of_a_cache_lie_in_its_files(void **state)
{
        struct infp_object_image *image;
        struct infp_tables_cache *cache;
        struct infp_file_identity identity;
        char path[128], name[512];
        const int fd = infp_object_open(root_fd, &self, INFP_BY_OUR_ROOT, &identity);
        int entry;

        (void) state;
        snprintf(path, sizeof(path), "%s/cache", folder);
        assert_int_equal(infp_tables_cache_open(path, 1 << 30, &cache, NULL), 0);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(infp_object_image_read(fd, &identity, cache, &image), 0);
                assert_int_equal(image->is_from_cache, i);
                assert_true(!image->memory && !image->memory_size);
                assert_in_range((uintptr_t) image->table, (uintptr_t) image->table_map.at,
                                (uintptr_t) image->table_map.at + image->table_map.size - image->table->size);
                if (i == 0)
                        infp_object_image_free(image);
        }
        open_entry(path, name, sizeof(name), &entry);
        assert_int_equal(ftruncate(entry, 0), 0);
        infp_guarded_map_begin(&image->table_map);
        assert_int_equal(infp_unwind_table_find(image->table, image->loads[0].vaddr + 4096), INFP_RULE_NONE);
        infp_guarded_map_end();
        assert_true(image->table_map.is_lost);
        infp_object_image_free(image);
        infp_tables_cache_close(cache);
        close(entry);
        close(fd);
        unlink(name);
        rmdir(path);
}

static void count(void *context)
{
        ++*(unsigned *) context;
}

/* What was read of call frame information is memory of ours, too, until it is forgotten. */
static void pages_are_forgotten_while_entries_are_read(void **state)
{
        const struct infp_unwind_table *table;
        struct infp_unwind_room room;
        struct unwind_file file;
        unsigned n = 0;
        void *memory;

        (void) state;
        if (unwind_open(&file, "/lib/x86_64-linux-gnu/libcrypto.so.3") < 0 || file.table->n_fdes < 8192)
                SKIP_BECAUSE("there is no libcrypto.so.3 of many functions");
        file.elf.forget = count;
        file.elf.forget_context = &n;
        assert_int_equal(infp_unwind_table_measure(&file.elf, &room), 0);
        memory = malloc(room.bytes);
        assert_int_equal(infp_unwind_table_build(&file.elf, &room, memory, &table), 0);
        assert_true(n >= 3 * (table->n_fdes / 4096)); /* measured, listed, run */
        free(memory);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_image_says_what_the_file_does),
                cmocka_unit_test(each_way_leads_to_the_same_file),
                cmocka_unit_test(other_files_are_refused),
                cmocka_unit_test(files_that_are_no_programs_have_no_code),
                cmocka_unit_test(files_that_become_shorter_are_an_error),
                cmocka_unit_test(the_vdso_has_a_table),
                cmocka_unit_test(tables_of_a_cache_lie_in_its_files),
                cmocka_unit_test(pages_are_forgotten_while_entries_are_read),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
