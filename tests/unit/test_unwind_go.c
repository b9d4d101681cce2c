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
#include "unwind/walk.h"

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

enum { STACK = 0x7000 };

/* A walk through a stack of those words with the first at the stack pointer. */
static void walk(uint64_t pc, uint64_t frame_pointer, const uint64_t *words, unsigned n_words,
                 struct infp_unwind_frame *ret_frames, struct infp_unwind_result *ret)
{
        struct infp_elf elf = open_seed("go-20");
        const struct infp_unwind_table *table = build(&elf);
        const struct infp_unwind_mapping mapping = {
                .begin = TEXT, .end = TEXT + 0x1000, .table = table, .flags = INFP_MAPPING_FRAME_POINTERS
        };
        const struct infp_unwind_space space = { &mapping, 1, 1 };
        const struct infp_unwind_dump dump = { (const uint8_t *) words, STACK, n_words * sizeof(*words), false };
        uint64_t values[INFP_N_REGISTERS] = { 0 };
        const struct infp_unwind_start start = { &space, &dump, 1, false, values };

        values[INFP_RIP] = pc;
        values[INFP_RSP] = STACK;
        values[INFP_RBP] = frame_pointer;
        infp_unwind(&start, NULL, ret_frames, 8, ret);
        free((void *) table);
}

/* A leaf has no frame of its own: the frame pointer is its caller's, whose frame it would hide. */
static void test_caller_of_a_leaf(void **state)
{
        const uint64_t words[] = { OUTER + 0x20, 1, 2, STACK + 40, FIRST + 1, 0, 0 };
        struct infp_unwind_frame frames[8];
        struct infp_unwind_result result;

        (void) state;
        walk(LEAF + 0x10, STACK + 24, words, 7, frames, &result);
        assert_string_equal(infp_unwind_end_name(result.end), "complete");
        assert_int_equal(result.n_frames, 3);
        assert_int_equal(frames[1].pc, OUTER + 0x20);
        assert_int_equal(frames[2].pc, FIRST + 1);
        assert_int_equal(result.n_guessed, 0);
}

/* What a function that switches stacks says of its stack pointer is not so: its caller by frame pointer is a guess. */
static void test_stack_that_is_switched(void **state)
{
        const uint64_t words[] = { 7, 7, STACK + 40, FIRST + 1, 0, 0 };
        struct infp_unwind_frame frames[8];
        struct infp_unwind_result result;

        (void) state;
        walk(SWITCH + 4, STACK + 16, words, 6, frames, &result);
        assert_string_equal(infp_unwind_end_name(result.end), "complete");
        assert_int_equal(result.n_frames, 2);
        assert_true(frames[0].flags & INFP_FRAME_FRAME_POINTER);
        assert_true(frames[1].flags & INFP_FRAME_GUESSED);
        assert_int_equal(result.n_guessed, 1);
        /* A frame pointer of 0 says that there is no caller. */
        walk(SWITCH + 4, 0, words, 6, frames, &result);
        assert_string_equal(infp_unwind_end_name(result.end), "complete");
        assert_true(result.n_frames == 1 && result.n_guessed == 0);
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
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts), cmocka_unit_test(test_caller_of_a_leaf),
                                            cmocka_unit_test(test_stack_that_is_switched), cmocka_unit_test(test_cut) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
