/* Go's table in all layouts, of images that tests/fuzz/make_unwind_corpus.py writes from what the formats say: a goroutine's first
 * function, one with a frame of 24 bytes, its leaf, and one that switches stacks, 64 bytes each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/go_table.h"
#include "unwind/table.h"

enum {
        TEXT = 0x10000,
        FIRST = TEXT,
        OUTER = TEXT + 0x40,
        LEAF = TEXT + 0x80,
        SWITCH = TEXT + 0xc0,
        END = TEXT + 0x100
};

static uint8_t image[8192];

/* The seed of that name; its first byte is the fuzzer's. */
static struct infp_elf open_seed(const char *name)
{
        struct infp_elf elf;
        char path[4096];
        size_t size;
        FILE *file;

        snprintf(path, sizeof(path), "%s/../fuzz/corpus/unwind/%s", getenv("INFP_FIXTURES"), name);
        file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fgetc(file), 2);
        size = fread(image, 1, sizeof(image), file);
        fclose(file);
        assert_true(size > 0x400 && size < sizeof(image));
        assert_int_equal(infp_elf_open(&elf, image, size, NULL), 0);
        assert_true(elf.is_go);
        return elf;
}

static const struct infp_unwind_table *build(const struct infp_elf *elf)
{
        const struct infp_unwind_table *table, *checked;
        struct infp_unwind_room room;
        void *memory;

        assert_int_equal(infp_unwind_table_measure(elf, &room), 0);
        memory = malloc(room.bytes);
        assert_non_null(memory);
        assert_int_equal(infp_unwind_table_build(elf, &room, memory, &table), 0);
        assert_int_equal(infp_unwind_table_check(table, table->size, &checked), 0);
        assert_int_equal(table->n_bad, 0);
        return table;
}

/* The caller's stack pointer is `offset` above that at vaddr, and its frame pointer right below the return address, or untouched. */
static void expect_frame(const struct infp_unwind_table *table, uint64_t vaddr, int32_t offset, bool has_frame_pointer)
{
        const unsigned number = infp_unwind_table_find(table, vaddr);
        const struct infp_unwind_rule *rule = &infp_unwind_table_rules(table)[number];
        const struct infp_unwind_save *saves = infp_unwind_table_saves(table) + rule->first_save;
        bool has_saved = false;

        assert_true(number >= INFP_RULE_KNOWN);
        assert_int_equal(rule->cfa_kind, INFP_CFA_REGISTER);
        assert_int_equal(rule->cfa_register, INFP_RSP);
        assert_int_equal(rule->cfa_offset, offset);
        for (unsigned i = 0; i < rule->n_saves; i++) {
                assert_true(saves[i].reg == INFP_RIP || saves[i].reg == INFP_RBP);
                assert_int_equal(saves[i].offset, saves[i].reg == INFP_RIP ? -8 : -16);
                has_saved |= saves[i].reg == INFP_RBP;
        }
        assert_int_equal(has_saved, has_frame_pointer);
}

static void expect_name(const struct infp_go *go, uint64_t address, const char *name)
{
        struct infp_go_function function;
        uint64_t size;

        assert_true(infp_go_find(go, address, &function));
        assert_string_equal((const char *) infp_go_names(go, &size) + function.name, name);
        assert_true(function.name < size);
}

static void check(const char *seed, unsigned version)
{
        struct infp_elf elf = open_seed(seed);
        const struct infp_unwind_table *table = build(&elf);
        struct infp_go_place place;
        struct infp_go go;

        assert_int_equal(infp_go_open(&go, &elf), 0);
        assert_int_equal(go.version, version);
        assert_true(go.begin == FIRST && go.end == END);
        expect_name(&go, FIRST, "runtime.goexit");
        expect_name(&go, LEAF - 1, "main.outer");
        expect_name(&go, LEAF, "main.leaf");
        expect_name(&go, END - 1, "runtime.asmcgocall");
        assert_true(infp_go_place(&go, OUTER + 4, &place));
        assert_string_equal(place.file, "/src/main.go");
        assert_int_equal(place.function_line, version == 20 ? 6 : 0);
        assert_int_equal(place.line, version == 2 ? 0 : 7);
        assert_true(infp_go_place(&go, OUTER + 0x18, &place) && place.line == (version == 2 ? 0 : 8));
        /* Something was inlined there: its line is not the function's. */
        assert_true(infp_go_place(&go, OUTER + 0x20, &place) && place.line == 0);
        assert_false(infp_go_place(&go, END, &place));

        expect_frame(table, OUTER, 8, false);
        expect_frame(table, OUTER + 4, 32, true);
        expect_frame(table, OUTER + 0x3b, 32, true);
        expect_frame(table, OUTER + 0x3c, 8, false);
        expect_frame(table, LEAF, 8, false);
        expect_frame(table, LEAF + 0x3f, 8, false);
        assert_int_equal(infp_unwind_table_find(table, END), INFP_RULE_NONE);
        if (version > 2) { /* which of them are special was first written by 1.17 */
                assert_int_equal(infp_unwind_table_rules(table)[infp_unwind_table_find(table, FIRST)].flags,
                                 INFP_RULE_END);
                assert_int_equal(infp_unwind_table_find(table, SWITCH), INFP_RULE_NONE);
        }
        free((void *) table);
}

static void test_layouts(void **state)
{
        (void) state;
        check("go-2", 2);
        check("go-16", 16);
        check("go-18", 18);
        check("go-20", 20);
        check("go-relocated", 20);
}

/* Where the table was cut the file has no function that reaches outside, and nothing outside is read (sanitizers see it). */
static void test_cut(void **state)
{
        static const char *const seeds[] = { "go-2", "go-16", "go-18", "go-20" };
        struct infp_go_function function;
        struct infp_go_place place;
        struct infp_go go;

        (void) state;
        for (unsigned i = 0; i < 4; i++) {
                struct infp_elf elf = open_seed(seeds[i]);
                const uint8_t *bytes = elf.go_table.bytes;
                const uint64_t whole = elf.go_table.size;
                uint8_t *copy = malloc(whole);

                assert_non_null(copy);
                for (uint64_t size = 0; size < whole; size += 3) {
                        uint8_t *exact = copy + (whole - size);

                        memcpy(exact, bytes, size);
                        elf.go_table.size = size;
                        elf.go_table.bytes = exact;
                        for (uint64_t at = 0; infp_go_open(&go, &elf) == 0 && at < go.n_functions; at++)
                                if (infp_go_function(&go, at, &function))
                                        infp_go_place(&go, function.begin, &place);
                }
                free(copy);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts), cmocka_unit_test(test_cut) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
