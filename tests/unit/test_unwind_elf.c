/* ELF images with parts missing or broken, and call frame information written by hand, with the rows worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>

#include "skip_because.h"
#include "unwind_bytes.h"
#include "unwind_space.h"

#define LOADER "/lib64/ld-linux-x86-64.so.2"

static const uint8_t relative = 0x1b; /* pcrel, sdata4 */

/* ---- files ---- */

/* The loader's file in memory that may be changed. */
static uint8_t *loader(size_t *ret_size)
{
        struct unwind_file file;
        uint8_t *copy;

        assert_int_equal(unwind_open(&file, LOADER), 0);
        copy = malloc(file.size);
        assert_non_null(copy);
        memcpy(copy, file.bytes, file.size);
        *ret_size = file.size;
        munmap((void *) (uintptr_t) file.table, file.room);
        munmap((void *) (uintptr_t) file.bytes, file.size);
        return copy;
}

static int build(struct unwind_file *file, const uint8_t *bytes, size_t size)
{
        *file = (struct unwind_file){ .bytes = bytes, .size = size };
        return unwind_build(file);
}

static void drop(struct unwind_file *file)
{
        if (file->table)
                munmap((void *) (uintptr_t) file->table, file->room);
}

static void rename_segment(uint8_t *bytes, uint32_t type)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *) bytes;
        Elf64_Phdr *segments = (Elf64_Phdr *) (bytes + head->e_phoff);

        for (unsigned i = 0; i < head->e_phnum; i++)
                if (segments[i].p_type == type)
                        segments[i].p_type = 0x70001234;
}

static void assert_same_rows(const struct infp_unwind_table *a, const struct infp_unwind_table *b)
{
        for (uint32_t i = 0; i < a->n_rows; i++) {
                const uint64_t vaddr = a->base + infp_unwind_table_pcs(a)[i];
                const struct infp_unwind_rule *x = &infp_unwind_table_rules(a)[infp_unwind_table_find(a, vaddr)],
                                              *y = &infp_unwind_table_rules(b)[infp_unwind_table_find(b, vaddr)];

                assert_memory_equal(x, y, offsetof(struct infp_unwind_rule, first_save));
        }
}

static void test_without_sections(void **state)
{
        struct unwind_file whole, stripped, bare;
        size_t size;
        uint8_t *bytes = loader(&size), *copy = malloc(size);

        (void) state;
        assert_int_equal(build(&whole, bytes, size), 0);
        assert_true(whole.elf.has_eh_frame_size);
        assert_true(whole.elf.build_id.size == 20);
        assert_true(whole.elf.n_plts >= 1);
        assert_true(whole.table->n_fdes > 100);
        memcpy(copy, bytes, size);
        ((Elf64_Ehdr *) copy)->e_shoff = 0;
        assert_int_equal(build(&stripped, copy, size), 0);
        assert_false(stripped.elf.has_eh_frame_size);
        assert_int_equal(stripped.table->n_fdes, whole.table->n_fdes);
        assert_int_equal(stripped.table->is_cut_short, 0);
        assert_same_rows(whole.table, stripped.table);
        drop(&stripped);
        /* Neither way to it. */
        rename_segment(copy, PT_GNU_EH_FRAME);
        assert_int_equal(build(&bare, copy, size), -ENODATA);
        /* Sections alone, as musl's compiler wrapper links. */
        rename_segment(bytes, PT_GNU_EH_FRAME);
        assert_int_equal(build(&bare, bytes, size), 0);
        assert_same_rows(whole.table, bare.table);
        drop(&bare);
        drop(&whole);
        free(bytes);
        free(copy);
}

/* The loader with .eh_frame_hdr's section under another name. */
static void rename_section(uint8_t *bytes, const char *name, uint64_t flags)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *) bytes;
        Elf64_Shdr *sections = (Elf64_Shdr *) (bytes + head->e_shoff);
        char *names = (char *) bytes + sections[head->e_shstrndx].sh_offset;

        for (unsigned i = 0; i < head->e_shnum; i++) {
                char *old = names + sections[i].sh_name;

                if (strcmp(old, ".eh_frame_hdr") == 0) {
                        memcpy(old, name, strlen(name) + 1);
                        sections[i].sh_flags = flags;
                        return;
                }
        }
        fail_msg("there is no .eh_frame_hdr");
}

static void test_compressed(void **state)
{
        struct infp_elf elf;
        size_t size;
        uint8_t *bytes = loader(&size), *copy = malloc(size);

        (void) state;
        assert_non_null(copy);
        memcpy(copy, bytes, size);
        assert_int_equal(infp_elf_open(&elf, copy, size, NULL), 0);
        assert_false(elf.compressed_debug_frame.bytes || elf.debug_frame.bytes);
        rename_section(copy, ".zdebug_frame", 0);
        assert_int_equal(infp_elf_open(&elf, copy, size, NULL), 0);
        assert_true(elf.compressed_debug_frame.bytes && !elf.debug_frame.bytes);
        memcpy(copy, bytes, size);
        rename_section(copy, ".debug_frame", SHF_COMPRESSED);
        assert_int_equal(infp_elf_open(&elf, copy, size, NULL), 0);
        assert_true(elf.compressed_debug_frame.bytes && !elf.debug_frame.bytes);
        memcpy(copy, bytes, size);
        rename_section(copy, ".debug_frame", 0);
        assert_int_equal(infp_elf_open(&elf, copy, size, NULL), 0);
        assert_true(!elf.compressed_debug_frame.bytes && elf.debug_frame.bytes);
        free(copy);
        free(bytes);
}

static void test_refused(void **state)
{
        struct infp_elf elf;
        size_t size;
        uint8_t *bytes = loader(&size);
        const char *why = NULL;

        (void) state;
        assert_int_equal(infp_elf_open(&elf, bytes, 63, &why), -EBADMSG);
        assert_string_equal(why, "it is not an ELF file");
        assert_int_equal(infp_elf_open(&elf, "", 0, &why), -EBADMSG);
        ((Elf64_Ehdr *) bytes)->e_machine = EM_AARCH64;
        assert_int_equal(infp_elf_open(&elf, bytes, size, &why), -ENOTSUP);
        ((Elf64_Ehdr *) bytes)->e_machine = EM_X86_64;
        ((Elf64_Ehdr *) bytes)->e_phnum = 0;
        assert_int_equal(infp_elf_open(&elf, bytes, size, &why), -EBADMSG);
        assert_string_equal(why, "it has no loadable segment");
        free(bytes);
}

/* Cut anywhere and with bytes changed: built or refused; what is built is sound. */
static void test_broken_files(void **state)
{
        const struct infp_unwind_table *table;
        struct unwind_file file;
        uint64_t random = 1;
        size_t size, n_built = 0;
        uint8_t *bytes = loader(&size), *copy;

        (void) state;
        for (unsigned i = 0; i < 250; i++) {
                const size_t n = i < 100 ? size * i / 100 : size;

                copy = malloc(n + 1);
                assert_non_null(copy);
                memcpy(copy, bytes, n);
                for (unsigned k = 0; n == size && k < 40; k++) {
                        random = random * 6364136223846793005u + 1442695040888963407u;
                        /* Half of the changes in the headers. */
                        copy[(random >> 20) % (k % 2 ? 800 : size)] = (uint8_t) (random >> 56);
                }
                if (build(&file, copy, n) == 0) {
                        assert_int_equal(infp_unwind_table_check(file.table, file.table->size, &table), 0);
                        n_built++;
                }
                drop(&file);
                free(copy);
        }
        print_message("%zu of 250 broken files gave a table\n", n_built);
        assert_true(n_built > 10);
        free(bytes);
}

/* ---- entries written by hand ---- */

/* push rbx; sub rsp, 0x30; ... add; pop; ret */
static const uint8_t push[] = { 0x41, 0x0e, 16, 0x83, 2, 0x44, 0x0e, 64, 0x50, 0x0e, 16, 0x41, 0x0e, 8 };

struct row {
        uint64_t pc;
        unsigned none; /* no function */
        int32_t cfa_offset;
        unsigned n_saves;
};

static void assert_rows(const struct infp_unwind_table *table, const struct row *rows, uint32_t n)
{
        assert_int_equal(table->n_rows, n);
        for (uint32_t i = 0; i < n; i++) {
                const unsigned number = infp_unwind_table_row_rules(table)[i];
                const struct infp_unwind_rule *rule = &infp_unwind_table_rules(table)[number];

                assert_int_equal(infp_unwind_table_pcs(table)[i], rows[i].pc);
                assert_int_equal(number == INFP_RULE_NONE, rows[i].none);
                if (rows[i].none)
                        continue;
                assert_int_equal(rule->cfa_offset, rows[i].cfa_offset);
                assert_int_equal(rule->n_saves, rows[i].n_saves);
        }
}

static const struct infp_unwind_table *build_bytes(const struct unwind_bytes *b, struct unwind_file *file)
{
        struct infp_unwind_room room;

        *file = (struct unwind_file){ .elf = unwind_image(b->bytes, b->size, b->is_debug) };
        assert_int_equal(infp_unwind_table_measure(&file->elf, &room), 0);
        file->room = room.bytes;
        assert_int_equal(infp_unwind_table_build(
                                 &file->elf, &room,
                                 mmap(NULL, room.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                                 &file->table),
                         0);
        return file->table;
}

static void test_rows(void **state)
{
        static const struct row rows[] = { { 0, 0, 8, 1 },   { 1, 0, 16, 2 }, { 5, 0, 64, 2 },
                                           { 21, 0, 16, 2 }, { 22, 0, 8, 2 }, { 32, 1, 0, 0 } };
        static const struct {
                unsigned version;
                bool is_debug;
                uint8_t encoding;
                const char *augmentation;
        } kinds[] = {
                { 1, false, 0x1b, "zR" }, { 3, false, 0x1b, "zR" }, { 1, false, 0x00, "zR" }, { 1, false, 0x1c, "zR" },
                { 1, false, 0x03, "zR" }, { 4, true, 0x00, "" },    { 3, true, 0x00, "" },    { 1, true, 0x00, "" },
        };
        struct unwind_file file;

        (void) state;
        for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                struct unwind_bytes b = { .is_debug = kinds[i].is_debug };
                uint64_t begin, end;

                put_cie(&b, kinds[i].version, kinds[i].augmentation, &kinds[i].encoding, 1);
                put_fde(&b, kinds[i].encoding, BYTES_TEXT, 32, push, sizeof(push));
                build_bytes(&b, &file);
                assert_rows(file.table, rows, 6);
                assert_true(infp_unwind_table_function(file.table, BYTES_TEXT + 31, &begin, &end));
                assert_int_equal(begin, BYTES_TEXT);
                assert_int_equal(end, BYTES_TEXT + 32);
                assert_false(infp_unwind_table_function(file.table, BYTES_TEXT + 32, &begin, &end));
                assert_int_equal(infp_unwind_table_find(file.table, BYTES_TEXT - 1), INFP_RULE_NONE);
                assert_int_equal(infp_unwind_table_find(file.table, BYTES_TEXT + 0x8000), INFP_RULE_NONE);
                assert_int_equal(infp_unwind_table_find(file.table, UINT64_MAX), INFP_RULE_NONE);
                drop(&file);
        }
}

/* Out of order, twice, one within another, empty, outside of the code. */
static void test_disorder(void **state)
{
        static const uint8_t nothing[] = { 0 };
        static const struct row rows[] = {
                { 0, 0, 8, 1 },     { 64, 1, 0, 0 },    { 0x100, 0, 8, 1 },
                { 0x140, 1, 0, 0 }, { 0x200, 0, 8, 1 }, { 0x260, 1, 0, 0 },
        };
        struct unwind_bytes b = { .size = 0 };
        struct unwind_file file;

        (void) state;
        put_cie(&b, 1, "zR", &relative, 1);
        put_fde(&b, relative, BYTES_TEXT + 0x200, 0x40, nothing, 1);
        put_fde(&b, relative, BYTES_TEXT + 0x100, 0x40, nothing, 1);
        put_fde(&b, relative, BYTES_TEXT, 0x40, nothing, 1);
        put_fde(&b, relative, BYTES_TEXT, 0x40, push, sizeof(push));          /* again */
        put_fde(&b, relative, BYTES_TEXT + 0x110, 0x10, push, sizeof(push));  /* within */
        put_fde(&b, relative, BYTES_TEXT + 0x220, 0x40, nothing, 1);          /* half */
        put_fde(&b, relative, BYTES_TEXT + 0x300, 0, push, sizeof(push));     /* empty */
        put_fde(&b, relative, 0, 0x40, push, sizeof(push));                   /* thrown away by a linker */
        put_fde(&b, relative, BYTES_TEXT + 0xfff0, 0x40, push, sizeof(push)); /* beyond the end */
        build_bytes(&b, &file);
        assert_rows(file.table, rows, 6);
        assert_int_equal(file.table->n_fdes, 9);
        assert_int_equal(file.table->n_overlapping, 3);
        assert_int_equal(file.table->n_outside, 3);
        drop(&file);
}

static const struct infp_unwind_rule *rule_at(const struct infp_unwind_table *table, uint64_t pc)
{
        return &infp_unwind_table_rules(table)[infp_unwind_table_find(table, BYTES_TEXT + pc)];
}

static void test_expressions(void **state)
{
        static const uint8_t drap[] = { 0x0f, 3, 0x76, 0x78, 0x06 };                /* *(rbp - 8) */
        static const uint8_t openssl[] = { 0x0f, 5, 0x77, 0x08, 0x06, 0x23, 0x08 }; /* *(rsp + 8) + 8 */
        static const uint8_t plt[] = { 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
        static const uint8_t odd[] = { 0x0f, 6, 0x77, 8, 0x79, 0, 0x38, 0x1e }; /* with a product */
        static const uint8_t odd_save[] = { 0x10, 3, 2, 0x77, 0, 0x41, 0x10, 3, 3, 0x77, 0, 0x1f };
        static const uint8_t end[] = { 0x07, 16 };
        static const uint8_t moved[] = { 0x09, 16, 5 };                                 /* vfork: ra in rdi */
        static const uint8_t broken[] = { 0x41, 0x0e, 16, 0x41, 0x3e, 0x41, 0x0e, 32 }; /* an unknown instruction */
        const struct {
                const void *program;
                size_t size;
        } all[] = { { drap, sizeof(drap) }, { openssl, sizeof(openssl) },   { plt, sizeof(plt) },
                    { odd, sizeof(odd) },   { odd_save, sizeof(odd_save) }, { end, 2 },
                    { moved, 3 },           { broken, sizeof(broken) } };
        struct unwind_bytes b = { .size = 0 };
        struct unwind_file file;
        const struct infp_unwind_table *table;

        (void) state;
        put_cie(&b, 1, "zR", &relative, 1);
        for (unsigned i = 0; i < 8; i++)
                put_fde(&b, relative, BYTES_TEXT + 16 * i, 16, all[i].program, all[i].size);
        table = build_bytes(&b, &file);
        assert_int_equal(rule_at(table, 0)->cfa_kind, INFP_CFA_AT);
        assert_int_equal(rule_at(table, 0)->cfa_register, INFP_RBP);
        assert_int_equal(rule_at(table, 0)->cfa_offset, -8);
        assert_int_equal(rule_at(table, 16)->cfa_addend, 8);
        assert_int_equal(rule_at(table, 32)->cfa_kind, INFP_CFA_PLT);
        assert_int_equal(rule_at(table, 32)->cfa_addend, 11);
        assert_int_equal(rule_at(table, 48)->flags, INFP_RULE_UNSUPPORTED);
        assert_int_equal(rule_at(table, 64)->flags, INFP_RULE_FROM_REGISTER);
        assert_int_equal(rule_at(table, 65)->flags, INFP_RULE_UNSUPPORTED);
        assert_int_equal(rule_at(table, 80)->flags, INFP_RULE_END);
        assert_int_equal(rule_at(table, 96)->n_saves, 1);
        assert_int_equal(infp_unwind_table_saves(table)[rule_at(table, 96)->first_save].from, INFP_RDI);
        /* What was said before the unknown instruction holds. */
        assert_int_equal(rule_at(table, 113)->cfa_offset, 16);
        assert_int_equal(rule_at(table, 114)->flags, INFP_RULE_UNSUPPORTED);
        assert_int_equal(rule_at(table, 127)->flags, INFP_RULE_UNSUPPORTED);
        assert_int_equal(table->n_bad, 1);
        drop(&file);
}

/* Linkage tables that no entry describes. */
static void test_plt(void **state)
{
        static const uint8_t nothing[] = { 0 };
        struct unwind_bytes b = { .size = 0 };
        struct infp_unwind_room room;
        const struct infp_unwind_table *table;
        struct infp_elf elf;
        void *memory;

        (void) state;
        put_cie(&b, 1, "zR", &relative, 1);
        put_fde(&b, relative, BYTES_TEXT + 0x200, 0x40, nothing, 1);
        elf = unwind_image(b.bytes, b.size, false);
        elf.n_plts = 2;
        elf.plts[0] = (struct infp_elf_plt){ BYTES_TEXT, 0x40, true };
        elf.plts[1] = (struct infp_elf_plt){ BYTES_TEXT + 0x40, 0x40, false };
        assert_int_equal(infp_unwind_table_measure(&elf, &room), 0);
        memory = malloc(room.bytes);
        assert_non_null(memory);
        assert_int_equal(infp_unwind_table_build(&elf, &room, memory, &table), 0);
        assert_int_equal(rule_at(table, 0)->cfa_offset, 16);
        assert_int_equal(rule_at(table, 6)->cfa_offset, 24);
        assert_int_equal(rule_at(table, 0x3f)->cfa_kind, INFP_CFA_PLT);
        assert_int_equal(rule_at(table, 0x40)->cfa_kind, INFP_CFA_REGISTER);
        assert_int_equal(rule_at(table, 0x40)->cfa_offset, 8);
        assert_int_equal(infp_unwind_table_find(table, BYTES_TEXT + 0x80), INFP_RULE_NONE);
        assert_int_equal(table->n_plt_rows, 4);
        free(memory);
}

/* Where functions are is the same without their rules. */
static void test_functions_alone(void **state)
{
        struct infp_unwind_room room;
        const struct infp_unwind_table *table;
        struct unwind_file file;
        void *memory;

        (void) state;
        assert_int_equal(unwind_open(&file, LOADER), 0);
        assert_int_equal(infp_unwind_table_measure_functions(&file.elf, &room), 0);
        memory = malloc(room.bytes);
        assert_non_null(memory);
        assert_int_equal(infp_unwind_table_build(&file.elf, &room, memory, &table), 0);
        assert_true(room.bytes < file.room && table->size < file.table->size);
        assert_true(table->n_functions > 100);
        assert_int_equal(table->n_functions, file.table->n_functions);
        for (uint32_t i = 0; i < file.table->n_rows; i++) {
                const uint64_t at = file.table->base + infp_unwind_table_pcs(file.table)[i];
                uint64_t begin, end, own_begin, own_end;
                const bool is_one = infp_unwind_table_function(file.table, at, &begin, &end);

                assert_int_equal(infp_unwind_table_function(table, at, &own_begin, &own_end), is_one);
                assert_true(!is_one || (own_begin == begin && own_end == end));
        }
        free(memory);
        munmap((void *) (uintptr_t) file.table, file.room);
        munmap((void *) (uintptr_t) file.bytes, file.size);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_sections),
                cmocka_unit_test(test_compressed),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_broken_files),
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_disorder),
                cmocka_unit_test(test_expressions),
                cmocka_unit_test(test_plt),
                cmocka_unit_test(test_functions_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
