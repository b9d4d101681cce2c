/* Address spaces of processes: what lies on top of what, who shares what, and what text of /proc/PID/maps says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/perf/perf.h"
#include "sampler/spaces/space.h"

static struct infp_objects *objects;
static int root_fd;

static int begin(void **state)
{
        (void) state;
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return root_fd < 0 ? -1 : infp_objects_new(root_fd, NULL, &objects, NULL);
}

static int end(void **state)
{
        (void) state;
        objects = infp_objects_free(objects);
        close(root_fd);
        return 0;
}

/* Nobody asks for these: the files need not exist. */
static struct infp_object *object(const char *path)
{
        const struct infp_perf_mapping mapping = { .inode = 7, .major = 1, .path = path };

        return infp_objects_get(objects, &mapping);
}

static void map(struct infp_space **space, uint64_t from, uint64_t to, uint64_t offset, const char *path)
{
        assert_int_equal(infp_space_map(space, from, to, offset, object(path)), 0);
}

/* "FROM-TO+OFFSET NAME ..." of all mappings, in hexadecimal. */
static const char *show(const struct infp_space *space)
{
        static char text[4096];
        size_t n = 0;

        text[0] = 0;
        for (uint32_t i = 0; i < space->n; i++) {
                const struct infp_space_mapping *m = &space->mappings[i];

                n += (size_t) snprintf(text + n, sizeof(text) - n, "%s%" PRIx64 "-%" PRIx64 "+%" PRIx64 " %s",
                                       i ? ", " : "", m->begin, m->end, m->offset, m->object->name);
        }
        return text;
}

static void new_mappings_lie_on_top(void **state)
{
        static const struct {
                uint64_t from, to, offset;
                const char *path, *then;
        } steps[] = {
                { 0x1000, 0x5000, 0x1000, "/a", "1000-5000+1000 /a" },
                { 0x9000, 0xa000, 0, "/b", "1000-5000+1000 /a, 9000-a000+0 /b" },
                { 0x2000, 0x3000, 0x70, "/c", "1000-2000+1000 /a, 2000-3000+70 /c, 3000-5000+3000 /a, 9000-a000+0 /b" },
                { 0x2000, 0x2800, 0, "/d",
                  "1000-2000+1000 /a, 2000-2800+0 /d, 2800-3000+870 /c, 3000-5000+3000 /a, 9000-a000+0 /b" },
                { 0x1800, 0x4000, 0, "/e", "1000-1800+1000 /a, 1800-4000+0 /e, 4000-5000+4000 /a, 9000-a000+0 /b" },
                { 0x4000, 0x9000, 0, "/f", "1000-1800+1000 /a, 1800-4000+0 /e, 4000-9000+0 /f, 9000-a000+0 /b" },
                { 0, 0xffff, 0, "/g", "0-ffff+0 /g" },
        };
        struct infp_space *space = infp_space_new();

        (void) state;
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                map(&space, steps[i].from, steps[i].to, steps[i].offset, steps[i].path);
                assert_string_equal(show(space), steps[i].then);
        }
        assert_null(infp_space_find(space, 0xffff));
        assert_string_equal(infp_space_find(space, 0)->object->name, "/g");
        infp_space_unref(space);
}

static void memory_that_grows_is_one_mapping(void **state)
{
        struct infp_space *space = infp_space_new();

        (void) state;
        map(&space, 0x1000, 0x2000, 0, "//anon");
        map(&space, 0x2000, 0x3000, 0, "//anon");
        map(&space, 0x3000, 0x4000, 0x3000, "/a");
        map(&space, 0x4000, 0x5000, 0x4000, "/a");
        map(&space, 0x5000, 0x6000, 0, "/a"); /* another part of the file */
        assert_string_equal(show(space), "1000-3000+0 [anon], 3000-5000+3000 /a, 5000-6000+0 /a");
        infp_space_unref(space);
}

static void what_cannot_be_is_refused(void **state)
{
        struct infp_space *space = infp_space_new();

        (void) state;
        assert_int_equal(infp_space_map(&space, 0x2000, 0x1000, 0, object("/a")), -EINVAL);
        assert_int_equal(infp_space_map(&space, 0x2000, 0x2000, 0, object("/a")), -EINVAL);
        assert_int_equal(space->n, 0);
        for (uint64_t i = 0; i < 2 * INFP_SPACE_MAX_MAPPINGS; i++) {
                const int r = infp_space_map(&space, i * 0x2000, i * 0x2000 + 0x1000, 0, object("/a"));

                assert_true(r == 0 || r == -ENOSPC);
        }
        assert_true(space->n <= INFP_SPACE_MAX_MAPPINGS && space->n > INFP_SPACE_MAX_MAPPINGS - 4 && space->is_full);
        infp_space_unref(space);
}

static uint32_t id_of(struct infp_space *space, uint32_t *last)
{
        struct infp_unwind_space view;

        assert_int_equal(infp_space_view(space, objects, last, &view), 0);
        assert_int_equal(view.n_mappings, space->n);
        return view.id;
}

static void a_space_that_changes_has_another_id(void **state)
{
        struct infp_space *space = infp_space_new();
        uint32_t last = 0, first;

        (void) state;
        map(&space, 0x1000, 0x5000, 0, "/a");
        first = id_of(space, &last);
        assert_int_not_equal(first, 0);
        assert_int_equal(id_of(space, &last), first);
        map(&space, 0x1000, 0x5000, 0, "/a"); /* an mprotect tells of what is there */
        map(&space, 0x2000, 0x3000, 0x1000, "/a");
        assert_int_equal(id_of(space, &last), first);
        map(&space, 0x2000, 0x3000, 0, "/b");
        assert_int_not_equal(id_of(space, &last), first);
        infp_space_unref(space);
}

static void spaces_are_shared_until_one_changes(void **state)
{
        struct infp_space *parent = infp_space_new(), *child;
        uint32_t last = 0, id;

        (void) state;
        map(&parent, 0x1000, 0x5000, 0, "/a");
        id = id_of(parent, &last);
        child = infp_space_ref(parent);
        map(&child, 0x1000, 0x2000, 0, "/a");
        assert_ptr_equal(child, parent);
        map(&child, 0x2000, 0x3000, 0, "/b");
        assert_ptr_not_equal(child, parent);
        assert_string_equal(show(parent), "1000-5000+0 /a");
        assert_string_equal(show(child), "1000-2000+0 /a, 2000-3000+0 /b, 3000-5000+2000 /a");
        assert_int_equal(id_of(parent, &last), id);
        assert_int_not_equal(id_of(child, &last), id);
        assert_int_equal(parent->mappings[0].object->n_refs, 3);
        infp_space_unref(child);
        assert_int_equal(parent->mappings[0].object->n_refs, 1);
        infp_space_unref(parent);
}

static void objects_are_told_apart(void **state)
{
        static const uint8_t id_a[] = { 1, 2, 3 }, id_b[] = { 1, 2, 4 };
        struct infp_perf_mapping mapping = { .t_ns = 1, .major = 8, .minor = 1, .inode = 9, .path = "/lib/x.so" };
        struct infp_object *first = infp_objects_get(objects, &mapping), *other;

        (void) state;
        assert_ptr_equal(infp_objects_get(objects, &mapping), first);
        mapping.t_ns = 10000000000; /* by then it may be another file with its inode */
        assert_ptr_not_equal(infp_objects_get(objects, &mapping), first);
        mapping.path = "/lib/x.so (deleted)";
        assert_string_equal(infp_objects_get(objects, &mapping)->name, "/lib/x.so");
        mapping.inode = 10;
        assert_ptr_not_equal(infp_objects_get(objects, &mapping), first);
        mapping = (struct infp_perf_mapping){ .t_ns = 1, .build_id = id_a, .build_id_size = 3, .path = "/lib/x.so" };
        other = infp_objects_get(objects, &mapping);
        mapping.t_ns = 10000000000;
        assert_ptr_equal(infp_objects_get(objects, &mapping), other);
        mapping.build_id = id_b;
        assert_ptr_not_equal(infp_objects_get(objects, &mapping), other);
}

static void objects_have_names_and_kinds(void **state)
{
        static const struct {
                const char *path, *name;
                enum infp_frame_kind kind;
                enum infp_object_state state;
                bool is_file, is_jitdump;
        } all[] = {
                { "//anon", "[anon]", INFP_FRAME_JIT, INFP_OBJECT_READY, false, false },
                { "", "[anon]", INFP_FRAME_JIT, INFP_OBJECT_READY, false, false },
                { "[anon:v8]", "[anon]", INFP_FRAME_JIT, INFP_OBJECT_READY, false, false },
                { "/dev/zero (deleted)", "[anon]", INFP_FRAME_JIT, INFP_OBJECT_READY, false, false },
                { "[heap]", "[heap]", INFP_FRAME_JIT, INFP_OBJECT_READY, false, false },
                { "[stack]", "[stack]", INFP_FRAME_JIT, INFP_OBJECT_READY, false, false },
                { "[vdso]", "[vdso]", INFP_FRAME_VDSO, INFP_OBJECT_NEW, false, false },
                { "[vsyscall]", "[vsyscall]", INFP_FRAME_UNKNOWN, INFP_OBJECT_READY, false, false },
                { "/memfd:code (deleted)", "memfd:code", INFP_FRAME_UNKNOWN, INFP_OBJECT_NEW, true, false },
                { "/tmp/jit-17.dump", "/tmp/jit-17.dump", INFP_FRAME_UNKNOWN, INFP_OBJECT_NEW, true, true },
                { "/tmp/jit-x.dump", "/tmp/jit-x.dump", INFP_FRAME_UNKNOWN, INFP_OBJECT_NEW, true, false },
                { "/usr/bin/[", "/usr/bin/[", INFP_FRAME_UNKNOWN, INFP_OBJECT_NEW, true, false },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                const struct infp_object *got = object(all[i].path);

                assert_string_equal(got->name, all[i].name);
                assert_int_equal(got->kind, all[i].kind);
                assert_int_equal(got->state, all[i].state);
                assert_int_equal(got->is_file, all[i].is_file);
                assert_int_equal(got->is_jitdump, all[i].is_jitdump);
        }
}

static void maps_are_read(void **state)
{
        char text[] = "00400000-00401000 r-xp 00001000 fe:01 123 /bin/a b\n"
                      "nonsense\n"
                      "7f00-7e00 r-xp 0 0:0 0\n"
                      "ffffffffffffffffff-1 r-xp 0 00:00 0 x\n"
                      "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
                      "7ffd0000-7ffd1000 --xs ffff 103:0a 18446744073709551615    /a\\012b (deleted)\n"
                      "1000-2000 r-xp 0 00:00 0";
        struct infp_maps_line line;
        char *at = text;

        (void) state;
        assert_true(infp_maps_next(&at, &line));
        assert_int_equal(line.begin, 0x400000);
        assert_int_equal(line.end, 0x401000);
        assert_int_equal(line.offset, 0x1000);
        assert_int_equal(line.major, 0xfe);
        assert_int_equal(line.minor, 1);
        assert_int_equal(line.inode, 123);
        assert_true(line.is_readable && line.is_executable);
        assert_string_equal(line.path, "/bin/a b");
        assert_true(infp_maps_next(&at, &line));
        assert_int_equal(line.begin, 0x7f0000000000);
        assert_true(line.is_readable && !line.is_executable);
        assert_string_equal(line.path, "");
        assert_true(infp_maps_next(&at, &line));
        assert_true(!line.is_readable && line.is_executable);
        assert_int_equal(line.major, 0x103);
        assert_true(line.inode == UINT64_MAX);
        assert_string_equal(line.path, "/a\nb (deleted)");
        assert_true(infp_maps_next(&at, &line));
        assert_int_equal(line.end, 0x2000);
        assert_string_equal(line.path, "");
        assert_false(infp_maps_next(&at, &line));
}

/* Memory between two parts of a file is its code; memory elsewhere, or between parts that do not fit together, is not. */
static void holes_are_filled(void **state)
{
#define HEAD "1000-3000 r-xp 00001000 fe:01 7 /bin/a\n"
        static const struct {
                const char *text;
                uint64_t offset; /* 0: it stays what it is */
        } cases[] = {
                { HEAD "3000-5000 r-xp 0 00:00 0 \n5000-6000 r-xp 00005000 fe:01 7 /bin/a\n", 0x3000 },
                { HEAD "3000-5000 r-xp 0 00:00 0 \n5000-6000 r--p 00009000 fe:01 7 /bin/a\n", 0x3000 },
                { HEAD "3000-5000 r-xp 0 00:0f 99 /anon_hugepage (deleted)\n5000-6000 r-xp 00005000 fe:01 7 /bin/a\n",
                  0x3000 },
                { "1000-3000 r--p 00000000 fe:01 7 /bin/a\n3000-5000 r-xp 0 00:00 0 \n5000-6000 r-xp 00006000 fe:01 7 "
                  "/bin/a\n",
                  0x4000 },
                { "1000-3000 r--p 00001000 fe:01 7 /bin/a\n3000-5000 r-xp 0 00:00 0 \n5000-6000 r--p 00005000 fe:01 7 "
                  "/bin/a\n",
                  0x3000 },
                { "1000-3000 r--p 00000000 fe:01 7 /bin/a\n3000-5000 r-xp 0 00:00 0 \n5000-6000 r--p 00006000 fe:01 7 "
                  "/bin/a\n",
                  0 },
                { HEAD "3000-5000 r-xp 0 00:00 0 \n5000-6000 r-xp 00006000 fe:01 7 /bin/a\n", 0 },
                { HEAD "3000-5000 rw-p 0 00:00 0 \n5000-6000 r-xp 00005000 fe:01 7 /bin/a\n", 0 },
                { HEAD "3000-5000 r-xp 0 00:00 0 \n5000-6000 r-xp 00005000 fe:01 8 /bin/b\n", 0 },
                { HEAD "3000-5000 r-xp 0 00:00 0 \n5001-6000 r-xp 00005000 fe:01 7 /bin/a\n", 0 },
                { HEAD "4000-5000 r-xp 0 00:00 0 \n5000-6000 r-xp 00005000 fe:01 7 /bin/a\n", 0 },
                { HEAD "3000-5000 r-xp 0 fe:01 9 /bin/c\n5000-6000 r-xp 00005000 fe:01 7 /bin/a\n", 0 },
                { "1000-3000 r-xp 0 00:00 0 \n3000-5000 r-xp 0 00:00 0 \n5000-6000 r-xp 00005000 00:00 0 \n", 0 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_maps_line lines[3];
                char *text = strdup(cases[i].text), *at = text;
                const char *path;

                assert_non_null(text);
                for (unsigned k = 0; k < 3; k++)
                        assert_true(infp_maps_next(&at, &lines[k]));
                path = lines[1].path;
                infp_maps_fill_hole(&lines[1], &lines[0], &lines[2]);
                assert_int_equal(lines[1].offset, cases[i].offset);
                assert_string_equal(lines[1].path, cases[i].offset ? "/bin/a" : path);
                if (cases[i].offset)
                        assert_true(lines[1].inode == 7 && lines[1].major == 0xfe && lines[1].minor == 1);
                free(text);
        }
#undef HEAD
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(new_mappings_lie_on_top),
                cmocka_unit_test(memory_that_grows_is_one_mapping),
                cmocka_unit_test(what_cannot_be_is_refused),
                cmocka_unit_test(a_space_that_changes_has_another_id),
                cmocka_unit_test(spaces_are_shared_until_one_changes),
                cmocka_unit_test(objects_are_told_apart),
                cmocka_unit_test(objects_have_names_and_kinds),
                cmocka_unit_test(maps_are_read),
                cmocka_unit_test(holes_are_filled),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
