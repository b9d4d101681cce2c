/* What an interpreter's file says of it, and the parts of its loop, from files made byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "python_elf.h"
#include "sampler/python/file.h"

static struct infp_python_file file;

/* Consumes the file. */
static void read(struct python_elf *elf)
{
        struct infp_image image;

        assert_int_equal(infp_image_open_bytes(&image, elf->bytes, ELF_SIZE, false, "file", NULL), 0);
        infp_python_file_read(&image, &file);
        infp_python_loop_find(&image, &file);
        infp_image_close(&image);
        free(elf);
}

static void test_symbols(void **state)
{
        struct python_elf *elf = elf_python();
        (void) state;

        elf_end(elf, true, false);
        read(elf);
        assert_int_equal(file.runtime, ELF_BASE + ELF_DATA + 0x100);
        assert_int_equal(file.code_type, ELF_BASE + ELF_DATA + 0x700);
        assert_int_equal(file.none, 0); /* another file's */
        assert_int_equal(file.version, 0x030e0af0);
        assert_int_equal(file.get_version, elf_function(1));
        assert_int_equal(file.loop, elf_function(0));
        /* Its own code, and the part; neither what calls it nor what it calls at its end. */
        assert_int_equal(file.n_parts, 2);
        assert_int_equal(file.parts[0].begin, elf_function(0));
        assert_int_equal(file.parts[0].end, elf_function(1));
        assert_int_equal(file.parts[1].begin, elf_function(2));
        assert_int_equal(file.parts[1].end, elf_function(3));
}

/* One jump back may be no jump at all. */
static void test_chance(void **state)
{
        struct python_elf *elf = elf_python();
        (void) state;

        memset(elf->bytes + ELF_CODE + 2 * ELF_STEP + 64, 0x90, 5);
        elf_end(elf, true, false);
        read(elf);
        assert_int_equal(file.n_parts, 1);
}

/* A part that only a part jumps to. */
static void test_part_of_part(void **state)
{
        struct python_elf *elf = elf_python();
        (void) state;

        elf_jump(elf, elf_function(2) + 128, elf_function(3) + 128, false);
        elf_jump(elf, elf_function(3) + 136, elf_function(2) + 200, false);
        elf_jump(elf, elf_function(3) + 144, elf_function(0) + 200, false);
        elf_end(elf, true, false);
        read(elf);
        assert_int_equal(file.n_parts, 3);
        assert_int_equal(file.parts[2].begin, elf_function(3));
}

static void test_named_parts(void **state)
{
        struct python_elf *elf = elf_new();
        (void) state;

        elf_symbol(elf, "_PyEval_EvalFrameDefault", elf_function(2), 0x100, STT_FUNC, 1);
        elf_symbol(elf, "_PyEval_EvalFrameDefault.cold.7", elf_function(0), 0x40, STT_FUNC, 1);
        elf_symbol(elf, "_PyEval_EvalFrameDefault.cold", elf_function(0) + 0x20, 0x40, STT_FUNC, 1);
        elf_symbol(elf, "_PyEval_EvalFrameDefaultX", elf_function(1), 0x40, STT_FUNC, 1);
        elf_symbol(elf, "_TAIL_CALL_BINARY_OP", elf_function(3), 0x40, STT_FUNC, 1);
        elf_symbol(elf, "_TAIL_CALL_table", elf_function(1), 0x40, STT_OBJECT, 1);
        elf_symbol(elf, "_TAIL_CALL_endless", elf_function(1), UINT64_MAX, STT_FUNC, 1);
        elf_end(elf, true, false);
        read(elf);
        assert_int_equal(file.n_parts, 3);
        assert_int_equal(file.parts[0].begin, elf_function(0));
        assert_int_equal(file.parts[0].end, elf_function(0) + 0x60);
        assert_false(file.parts[1].is_handler);
        assert_true(file.parts[2].is_handler);
}

/* Without symbols: by the section, and by what it begins with. */
static void test_runtime(void **state)
{
        (void) state;
        for (unsigned k = 0; k < 4; k++) {
                struct python_elf *elf = elf_new();

                if (k != 2)
                        memcpy(elf->bytes + ELF_DATA + 0x208, fake_words[k % 3], sizeof(fake_words[0]));
                if (k == 3)
                        elf->bytes[ELF_DATA + 0x208 + 11] = 4; /* Python 4 */
                elf_end(elf, k == 1, k == 1);
                read(elf);
                assert_int_equal(file.runtime, k == 0 ? ELF_BASE + ELF_DATA + 0x208 : k == 1 ? ELF_BASE + ELF_DATA : 0);
                assert_int_equal(file.n_parts, 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_symbols),     cmocka_unit_test(test_chance),  cmocka_unit_test(test_part_of_part),
                cmocka_unit_test(test_named_parts), cmocka_unit_test(test_runtime),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
