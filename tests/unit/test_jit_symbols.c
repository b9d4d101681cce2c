/* Names of code made at run time: perf maps and jitdumps that a program goes on writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/fd.h"
#include "base/str.h"
#include "skip_because.h"
#include "symbols/symbols.h"

static int file_of(const void *bytes, size_t size)
{
        const int fd = memfd_create("jit", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, size), size);
        return fd;
}

static struct infp_jit_symbols *new_jit(void)
{
        struct infp_jit_symbols *jit;

        assert_int_equal(infp_jit_symbols_new(&jit), 0);
        return jit;
}

static const char *name_at(struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns)
{
        struct infp_symbol symbol;

        return infp_jit_symbols_at(jit, address, t_ns, &symbol) ? symbol.name : "-";
}

/* ../shared/fixtures/reports/19: look-ups with their answers. */
static void map_of_a_report(void **state)
{
        static const char folder[] = "../../../shared/fixtures/reports/19-perf-map-appended-and-torn/";
        struct infp_jit_symbols *jit = new_jit();
        struct infp_jit_counts counts;
        char path[512], line[512];
        unsigned n = 0;
        FILE *file;

        (void) state;
        snprintf(path, sizeof(path), "%s/%sperf-4242.map", getenv("INFP_FIXTURES"), folder);
        file = fopen(path, "re");
        if (!file)
                SKIP_BECAUSE("../shared/fixtures is not here");
        assert_int_equal(infp_jit_symbols_read_perf_map(jit, fileno(file), NULL), 0);
        fclose(file);
        infp_jit_symbols_counts(jit, &counts);
        assert_int_equal(counts.entries, 4);
        assert_int_equal(counts.rejected, 5); /* the empty name too; the torn last line waits for its end */
        snprintf(path, sizeof(path), "%s/%slookups.tsv", getenv("INFP_FIXTURES"), folder);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                char *name = strchr(line, '\t');

                if (!name || !strncmp(line, "address", 7))
                        continue;
                name[strcspn(name, "\n")] = 0;
                assert_string_equal(name_at(jit, strtoull(line, NULL, 16), 0), name + 1);
                n++;
        }
        fclose(file);
        assert_int_equal(n, 13);
        infp_jit_symbols_free(jit);
}

static void append(int fd, const char *text)
{
        assert_int_equal(pwrite(fd, text, strlen(text), lseek(fd, 0, SEEK_END)), strlen(text));
}

/* Half a line is nothing yet; its rest makes it whole, once. A file that begins again is read anew. */
static void map_is_read_on(void **state)
{
        const int fd = file_of("1000 10 first\n2000 10 sec", 25);
        struct infp_jit_symbols *jit = new_jit();
        struct infp_jit_counts counts;

        (void) state;
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(infp_jit_symbols_read_perf_map(jit, fd, NULL), 0);
        assert_string_equal(name_at(jit, 0x100f, 0), "first");
        assert_string_equal(name_at(jit, 0x1010, 0), "-");
        assert_string_equal(name_at(jit, 0x2000, 0), "-");
        append(fd, "ond one\n0x1000 8 third\x01\xff\n");
        assert_int_equal(infp_jit_symbols_read_perf_map(jit, fd, NULL), 0);
        assert_string_equal(name_at(jit, 0x2000, 0), "second one");
        assert_string_equal(name_at(jit, 0x1007, 0), "third\\x01\\xFF");
        assert_string_equal(name_at(jit, 0x1008, 0), "first");
        infp_jit_symbols_counts(jit, &counts);
        assert_int_equal(counts.entries, 3);
        assert_int_equal(ftruncate(fd, 0), 0);
        append(fd, "1000 8 again\n");
        assert_int_equal(infp_jit_symbols_read_perf_map(jit, fd, NULL), 0);
        assert_string_equal(name_at(jit, 0x1000, 0), "again");
        infp_jit_symbols_free(jit);
        close(fd);
}

/* A map in which all entries have the same addresses: the newest is found, and finding it takes no time. */
static void map_of_one_place(void **state)
{
        struct infp_jit_symbols *jit = new_jit();
        struct infp_str text = { 0 };
        int fd;

        (void) state;
        for (unsigned i = 0; i < 100000; i++)
                infp_str_printf(&text, "1000 %x f%u\n", 16 + i, i);
        fd = file_of(text.data, text.size);
        assert_int_equal(infp_jit_symbols_read_perf_map(jit, fd, NULL), 0);
        assert_string_equal(name_at(jit, 0x1000, 0), "f99999");
        infp_str_done(&text);
        infp_jit_symbols_free(jit);
        close(fd);
}

/* Bytes of a jitdump, in either order. */
struct dump {
        struct infp_str bytes;
        bool is_swapped;
};

static void put32(struct dump *d, uint32_t v)
{
        v = d->is_swapped ? __builtin_bswap32(v) : v;
        infp_str_put(&d->bytes, &v, sizeof(v));
}

static void put64(struct dump *d, uint64_t v)
{
        v = d->is_swapped ? __builtin_bswap64(v) : v;
        infp_str_put(&d->bytes, &v, sizeof(v));
}

static void put_head(struct dump *d)
{
        put32(d, 0x4a695444);
        put32(d, 1);
        put32(d, 40);
        put32(d, 62);
        put32(d, 0);
        put32(d, 4242);
        put64(d, 5);
        put64(d, 0);
}

static void put_code(struct dump *d, uint64_t t_ns, uint64_t address, uint64_t size, const char *name)
{
        put32(d, 0);
        put32(d, (uint32_t) (16 + 40 + strlen(name) + 1 + size));
        put64(d, t_ns);
        put32(d, 4242);
        put32(d, 4243);
        put64(d, address);
        put64(d, address);
        put64(d, size);
        put64(d, 1);
        infp_str_put(&d->bytes, name, strlen(name) + 1);
        for (uint64_t i = 0; i < size; i++)
                infp_str_putc(&d->bytes, (char) 0xc3);
}

static void put_lines(struct dump *d, uint64_t address)
{
        put32(d, 2);
        put32(d, 16 + 16 + (16 + 10) + (16 + 2));
        put64(d, 9);
        put64(d, address);
        put64(d, 2);
        put64(d, address);
        put32(d, 10);
        put32(d, 0);
        infp_str_put(&d->bytes, "/srv/a.py", 10);
        put64(d, address + 8);
        put32(d, 12);
        put32(d, 0);
        infp_str_put(&d->bytes, "\xff", 2);
}

static void put_move(struct dump *d, uint64_t t_ns, uint64_t from, uint64_t to, uint64_t size)
{
        put32(d, 1);
        put32(d, 16 + 48);
        put64(d, t_ns);
        put32(d, 4242);
        put32(d, 4243);
        put64(d, from);
        put64(d, from);
        put64(d, to);
        put64(d, size);
        put64(d, 1);
}

static void check_dump(bool is_swapped)
{
        struct dump d = { .is_swapped = is_swapped };
        struct infp_jit_symbols *jit = new_jit();
        struct infp_symbol symbol;
        int fd;

        put_head(&d);
        put_lines(&d, 0x1000);
        put_code(&d, 10, 0x1000, 0x20, "py::first");
        put_code(&d, 20, 0x1000, 0x10, "py::second");
        put_move(&d, 30, 0x1000, 0x9000, 0x10);
        put32(&d, 77); /* a kind that is still to be invented */
        put32(&d, 20);
        put64(&d, 40);
        put32(&d, 0);
        put_code(&d, 50, 0x5000, 0x10, "py::third");
        fd = file_of(d.bytes.data, d.bytes.size - 3);
        assert_int_equal(infp_jit_symbols_read_jitdump(jit, fd, NULL), 0);
        assert_true(infp_jit_symbols_at(jit, 0x100a, 15, &symbol));
        assert_string_equal(symbol.name, "py::first");
        assert_string_equal(symbol.file, "/srv/a.py");
        assert_int_equal(symbol.line, 12);
        assert_string_equal(symbol.from, "jitdump");
        assert_true(infp_jit_symbols_at(jit, 0x1007, 15, &symbol));
        assert_int_equal(symbol.line, 10);
        assert_string_equal(name_at(jit, 0x1000, 9), "-"); /* it was not there yet */
        assert_string_equal(name_at(jit, 0x1000, 25), "py::second");
        assert_string_equal(name_at(jit, 0x1010, 25), "py::first");
        assert_string_equal(name_at(jit, 0x9000, 29), "-");
        assert_string_equal(name_at(jit, 0x9000, 30), "py::second");
        assert_string_equal(name_at(jit, 0x5000, 60), "-"); /* torn */
        assert_int_equal(pwrite(fd, d.bytes.data, d.bytes.size, 0), d.bytes.size);
        assert_int_equal(infp_jit_symbols_read_jitdump(jit, fd, NULL), 0);
        assert_string_equal(name_at(jit, 0x5000, 60), "py::third");
        infp_str_done(&d.bytes);
        infp_jit_symbols_free(jit);
        close(fd);
}

/* Node.js 20 writes memory that it has freed in place of a file's name; what stands behind it is no entry. */
static void lines_of_freed_memory(void **state)
{
        struct dump d = { 0 };
        struct infp_jit_symbols *jit = new_jit();
        struct infp_symbol symbol;
        int fd;

        (void) state;
        put_head(&d);
        put32(&d, 2);
        put32(&d, 16 + 16 + (16 + 3) + (16 + 9));
        put64(&d, 9);
        put64(&d, 0x1000);
        put64(&d, 2);
        put64(&d, 0x1000);
        put32(&d, 1);
        put32(&d, 39);
        infp_str_put(&d.bytes,
                     "\x99"
                     "b",
                     3);
        put64(&d, 0x1008);
        put32(&d, 1);
        put32(&d, 47);
        infp_str_put(&d.bytes, "/srv/a.js", 9);
        put_code(&d, 10, 0x1000, 0x20, "JS:*hot /srv/n.js:1:35");
        put_lines(&d, 0x2000);
        put_code(&d, 20, 0x2000, 0x20, "py::second");
        fd = file_of(d.bytes.data, d.bytes.size);
        assert_int_equal(infp_jit_symbols_read_jitdump(jit, fd, NULL), 0);
        assert_true(infp_jit_symbols_at(jit, 0x100a, 15, &symbol));
        assert_string_equal(symbol.name, "JS:*hot /srv/n.js:1:35");
        assert_null(symbol.file);
        assert_int_equal(symbol.line, 0);
        assert_true(infp_jit_symbols_at(jit, 0x200a, 25, &symbol));
        assert_string_equal(symbol.file, "/srv/a.py");
        infp_str_done(&d.bytes);
        infp_jit_symbols_free(jit);
        close(fd);
}

static void dump_in_either_order(void **state)
{
        (void) state;
        check_dump(false);
        check_dump(true);
}

static void no_dump(void **state)
{
        const int fd = file_of("this is no jitdump, although it is long enough to be one", 56);
        struct infp_jit_symbols *jit = new_jit();
        struct infp_err err = { "" };

        (void) state;
        assert_int_equal(infp_jit_symbols_read_jitdump(jit, fd, &err), -74 /* EBADMSG */);
        assert_true(err.text[0]);
        infp_jit_symbols_free(jit);
        close(fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(map_of_a_report),       cmocka_unit_test(map_is_read_on),
                cmocka_unit_test(map_of_one_place),      cmocka_unit_test(dump_in_either_order),
                cmocka_unit_test(lines_of_freed_memory), cmocka_unit_test(no_dump),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
