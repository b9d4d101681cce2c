/* Names of a few addresses, by tables that are read past what is not wanted, and by whole ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "symbols/dynamic.h"
#include "symbols/image.h"
#include "symbols/symbols.h"

enum { STEPS = 3000 };

struct got {
        char *names[STEPS];
        const char *from[STEPS];
};

static void take(void *context, size_t index, const struct infp_symbol *symbol)
{
        struct got *got = context;

        assert_null(got->names[index]);
        got->names[index] = strdup(symbol->name);
        got->from[index] = symbol->from;
}

/* All over the executable part of a file of this process. */
static void find_addresses(const char *path, void *function, uint64_t *ret)
{
        Dl_info info;
        struct link_map *map;
        uint64_t begin, size;
        const ElfW(Ehdr) * head;

        assert_true(dladdr1(function, &info, (void **) &map, RTLD_DL_LINKMAP) != 0);
        head = info.dli_fbase;
        for (unsigned i = 0; i < head->e_phnum; i++) {
                const ElfW(Phdr) *part = (const void *) ((const char *) head + head->e_phoff + i * sizeof(*part));

                if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
                        continue;
                begin = part->p_vaddr;
                size = part->p_filesz;
                for (unsigned j = 0; j < STEPS; j++)
                        ret[j] = begin + size * j / STEPS;
                return;
        }
        fail_msg("%s has no code", path);
}

static void compare(const char *path, void *function)
{
        const struct infp_symbols_options options = { .root_fd = AT_FDCWD,
                                                      .most_bytes = UINT64_C(1) << 30,
                                                      .no_lines = true };
        struct infp_symbol names[INFP_SYMBOL_MAX_LEVELS];
        uint64_t addresses[STEPS];
        struct infp_symbols *symbols;
        struct got got = { { NULL }, { NULL } };
        unsigned object, n_named = 0;
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        find_addresses(path, function, addresses);
        assert_int_equal(infp_symbols_new(&options, &symbols, NULL), 0);
        assert_int_equal(infp_symbols_all(symbols, path, fd, NULL, addresses, STEPS, take, &got, NULL), 0);
        assert_int_equal(infp_symbols_object(symbols, path, fd, NULL, &object, NULL), 0);
        for (unsigned i = 0; i < STEPS; i++) {
                if (!infp_symbols_at(symbols, object, addresses[i], names)) {
                        assert_null(got.names[i]);
                        continue;
                }
                assert_non_null(got.names[i]);
                assert_string_equal(got.names[i], names[0].name);
                assert_string_equal(got.from[i], names[0].from);
                n_named += names[0].name[0] != '[';
                free(got.names[i]);
        }
        assert_true(n_named > STEPS / 10);
        infp_symbols_free(symbols);
        close(fd);
}

static void a_few_names_are_those_of_all(void **state)
{
        Dl_info info;

        (void) state;
        compare("/proc/self/exe", (void *) (uintptr_t) compare);
        assert_true(dladdr((void *) (uintptr_t) qsort, &info) != 0); /* stripped, as libraries of systems are */
        compare(info.dli_fname, (void *) (uintptr_t) qsort);
}

/* Many parts that all name the same bytes: none is read again, whatever the file says. */
static void parts_that_overlap_are_read_once(void **state)
{
        enum { PARTS = 5000, SIZE = 1 << 20 };
        static uint8_t bytes[SIZE];
        Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB },
                            .e_machine = EM_X86_64,
                            .e_phoff = sizeof(head),
                            .e_phentsize = sizeof(Elf64_Phdr),
                            .e_phnum = PARTS };
        struct infp_image image;
        struct infp_err err = { "" };
        int fd = memfd_create("image", MFD_CLOEXEC);

        (void) state;
        for (size_t i = 0; i < SIZE; i++)
                bytes[i] = (uint8_t) (i * 7 + i / 4096);
        memcpy(bytes, &head, sizeof(head));
        for (unsigned i = 0; i < PARTS; i++) {
                const Elf64_Phdr part = { .p_type = PT_LOAD, .p_offset = i * 100, .p_filesz = SIZE - i * 150 };

                memcpy(bytes + sizeof(head) + i * sizeof(part), &part, sizeof(part));
        }
        assert_int_equal(infp_write_all(fd, bytes, SIZE, NULL), 0);
        assert_int_equal(infp_image_open(&image, fd, "image", &err), 0);
        assert_memory_equal(infp_image_need(&image, SIZE - 5000, 4999), bytes + SIZE - 5000, 4999);
        assert_memory_equal(infp_image_need(&image, SIZE / 2 - 1, 4098), bytes + SIZE / 2 - 1, 4098);
        assert_true(image.n_read < 5 * 4096 + PARTS * sizeof(Elf64_Phdr) + 4096); /* only what was asked for */
        infp_image_need_data(&image);
        assert_int_equal(image.n_read, SIZE);
        assert_memory_equal(infp_image_need(&image, 0, SIZE), bytes, SIZE);
        assert_int_equal(image.n_read, SIZE);
        assert_null(infp_image_need(&image, SIZE - 1, 2));
        assert_non_null(infp_image_need(&image, SIZE, 0));
        infp_image_close(&image);
}

/* Neither section headers, nor all of the segment that has the tables of the loader: what is there says how many symbols there are. */
static void symbols_of_a_cut_file_are_counted(void **state)
{
        struct {
                Elf64_Ehdr head;
                Elf64_Phdr parts[2];
                Elf64_Dyn dynamic[5];
                uint32_t hash[4]; /* buckets, first symbol, words of the filter, shift */
                uint64_t filter;
                uint32_t bucket, chain[3];
                Elf64_Sym symbols[4];
                char names[8];
        } file = {
                .head = { .e_ident = ELFMAG,
                          .e_type = ET_DYN,
                          .e_machine = EM_X86_64,
                          .e_phoff = sizeof(Elf64_Ehdr),
                          .e_phentsize = sizeof(Elf64_Phdr),
                          .e_phnum = 2 },
                .dynamic = { { .d_tag = DT_GNU_HASH },
                             { .d_tag = DT_SYMTAB },
                             { .d_tag = DT_STRTAB },
                             { .d_tag = DT_STRSZ } },
                .hash = { 1, 1, 1, 0 },
                .bucket = 1,
                .chain = { 2, 4, 5 }, /* the last of a chain is odd */
        };
        const uint64_t begin = (uint64_t) &file;
        struct infp_symbol_sections found;
        struct infp_image image;
        struct infp_err err = { "" };

        (void) state;
        file.head.e_ident[EI_CLASS] = ELFCLASS64;
        file.head.e_ident[EI_DATA] = ELFDATA2LSB;
        file.parts[0] =
                (Elf64_Phdr){ .p_type = PT_LOAD, .p_filesz = sizeof(file) + 65536, .p_memsz = sizeof(file) + 65536 };
        file.parts[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
                                      .p_offset = (uint64_t) file.dynamic - begin,
                                      .p_filesz = sizeof(file.dynamic) };
        file.dynamic[0].d_un.d_ptr = (uint64_t) file.hash - begin;
        file.dynamic[1].d_un.d_ptr = (uint64_t) file.symbols - begin;
        file.dynamic[2].d_un.d_ptr = (uint64_t) file.names - begin;
        file.dynamic[3].d_un.d_val = sizeof(file.names);
        if (infp_image_open_bytes(&image, &file, sizeof(file), false, "cut", &err) < 0)
                fail_msg("%s", err.text);
        assert_true(infp_symbol_sections_by_loader(&image, &found));
        assert_int_equal(found.symbols.sh_size, sizeof(file.symbols));
        assert_int_equal(found.symbols.sh_offset, (uint64_t) file.symbols - begin);
        infp_image_close(&image);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_few_names_are_those_of_all),
                cmocka_unit_test(parts_that_overlap_are_read_once),
                cmocka_unit_test(symbols_of_a_cut_file_are_counted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
