/* Names and lines of code objects in memory made by hand, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "python_memory.h"

enum { FIRST = FAKE_FIRST, LAST = FAKE_LAST };

static struct infp_python_code code;

static void test_names(void **state)
{
        static const uint8_t latin1[] = { 'g', 'r', 0xf6, 0xdf, 'e' };
        static const uint16_t two[] = { 0x65e5, 0x672c, 'x' }, half[] = { 'a', 0xdcff, 0xd800, 0, 'b' };
        static const uint32_t four[] = { 0x1d518, 'y', 0x10ffff, 0x110000 };
        (void) state;

        for (uint16_t version = FIRST; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_memory memory = fake_memory(fake);
                const struct {
                        uint64_t text;
                        const char *expected;
                } cases[] = {
                        { fake_text(fake, "Model.forward"), "Model.forward" },
                        { fake_text(fake, ""), "" },
                        { fake_str(fake, 1, latin1, 5), "gr\xc3\xb6\xc3\x9f"
                                                        "e" },
                        { fake_str(fake, 2, two, 3), "\xe6\x97\xa5\xe6\x9c\xacx" },
                        { fake_str(fake, 2, half, 5), "a\\xff\xef\xbf\xbd\\x00b" },
                        { fake_str(fake, 4, four, 4), "\xf0\x9d\x94\x98y\xf4\x8f\xbf\xbf\xef\xbf\xbd" },
                };

                for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                        const uint64_t at = fake_code(fake, fake_text(fake, "/a/b.py"), cases[i].text, 12, "", 0);

                        assert_int_equal(infp_python_code_read(&fake->layout, &memory, FAKE_TYPE, at, &code), 0);
                        assert_string_equal(code.file, "/a/b.py");
                        assert_string_equal(code.function, cases[i].expected);
                        assert_int_equal(code.lines.first_line, 12);
                        assert_int_equal(infp_python_code_read(&fake->layout, &memory, 0, at, &code), 0);
                        assert_int_equal(infp_python_code_read(&fake->layout, &memory, FAKE_TYPE + 8, at, &code),
                                         -EBADMSG);
                }
                free(fake);
        }
}

/* Long texts are cut at a character's edge; those that are too long to be true are read as far as there is room. */
static void test_long_names(void **state)
{
        struct fake *fake = fake_new(0x30d);
        const struct infp_python_memory memory = fake_memory(fake);
        uint16_t two[2000];
        char one[2000];
        uint64_t at, text;
        (void) state;

        for (unsigned i = 0; i < 2000; i++) {
                two[i] = 0x65e5;
                one[i] = 'a';
        }
        text = fake_str(fake, 2, two, 2000);
        at = fake_code(fake, fake_str(fake, 0, one, 2000), text, 1, "", 0);
        assert_int_equal(infp_python_code_read(&fake->layout, &memory, 0, at, &code), 0);
        assert_int_equal(strlen(code.file), INFP_PYTHON_TEXT - 1);
        assert_int_equal(strlen(code.function), 1023 / 3 * 3);
        fake_put(fake, text + fake->layout.str_length, INT64_MAX);
        assert_int_equal(infp_python_code_read(&fake->layout, &memory, 0, at, &code), 0);
        fake_put(fake, text + fake->layout.str_length, UINT64_C(1) << 63);
        assert_int_equal(infp_python_code_read(&fake->layout, &memory, 0, at, &code), -EBADMSG);
        free(fake);
}

static void test_damaged(void **state)
{
        (void) state;
        for (uint16_t version = FIRST; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_layout *l = &fake->layout;
                const struct infp_python_memory memory = fake_memory(fake);
                const uint64_t name = fake_text(fake, "f"), at = fake_code(fake, name, name, 1, "", 0);
                const uint16_t pointers[] = { l->code_file, l->code_line_table,
                                              l->code_qualname != INFP_PYTHON_ABSENT ? l->code_qualname
                                                                                     : l->code_name };
                uint64_t kept;

                assert_int_equal(infp_python_code_read(l, &memory, 0, 0, &code), -EBADMSG);
                assert_int_equal(infp_python_code_read(l, &memory, 0, UINT64_MAX - 7, &code), -EFAULT);
                for (unsigned i = 0; i < 3; i++) {
                        memcpy(&kept, fake_at(fake, at + pointers[i]), 8);
                        fake_put(fake, at + pointers[i], 0);
                        assert_int_equal(infp_python_code_read(l, &memory, 0, at, &code), -EBADMSG);
                        fake_put(fake, at + pointers[i], UINT64_MAX - 20);
                        assert_int_equal(infp_python_code_read(l, &memory, 0, at, &code), -EFAULT);
                        fake_put(fake, at + pointers[i], kept);
                }
                for (uint32_t s = 0; s < 32; s++) { /* kinds that there are not, and texts that are not compact */
                        const uint32_t kind = s & 7, is_compact = s >> 3 & 1, is_ascii = s >> 4 & 1;
                        const bool is_good =
                                is_compact && (kind == 1 || kind == 2 || kind == 4) && (!is_ascii || kind == 1);

                        fake_put32(fake, name + l->str_state, s << l->str_kind_shift);
                        assert_int_equal(infp_python_code_read(l, &memory, 0, at, &code), is_good ? 0 : -EBADMSG);
                }
                free(fake);
        }
}

static void test_lines(void **state)
{
        static const uint8_t lnotab[] = { 0, 1, 4, 1, 255, 0, 10, 0xfe }, pairs[] = { 0, 1, 4, 1, 6, 0x80, 4, 2 };
        static const uint8_t locations[] = {
                0x80, 0x00,                         /* short form, 1 unit: line 1 */
                0xd9, 0x05,       0x06,             /* one line further (11), 2 units: 3 bytes in all */
                0xe8, 0x02,                         /* no columns (13), 1 unit, +1 */
                0xf0, 0x05,       0x00, 0x00, 0x00, /* long (14), 1 unit: line - 2 */
                0xf8,                               /* none (15), 1 unit */
                0xe8, 0x40 | 0x0, 0x20,             /* + 512 in a number of two bytes */
        };
        static const struct {
                uint16_t version;
                const uint8_t *table;
                uint32_t size;
                int32_t at, line; /* of an instruction, as the version keeps it; the first line is 10 */
        } cases[] = {
                { 0x308, lnotab, 8, -1, 10 },    { 0x308, lnotab, 8, 0, 11 },      { 0x308, lnotab, 8, 3, 11 },
                { 0x309, lnotab, 8, 4, 12 },     { 0x309, lnotab, 8, 268, 12 },    { 0x309, lnotab, 8, 269, 10 },
                { 0x309, lnotab, 0, 6, 10 },     { 0x30a, pairs, 8, -1, 10 },      { 0x30a, pairs, 8, 0, 12 },
                { 0x30a, pairs, 8, 1, 12 },      { 0x30a, pairs, 8, 2, 0 },        { 0x30a, pairs, 8, 5, 14 },
                { 0x30a, pairs, 8, 7, 0 },       { 0x30b, locations, 16, -2, 10 }, { 0x30b, locations, 16, 0, 10 },
                { 0x30c, locations, 16, 2, 11 }, { 0x30d, locations, 16, 4, 11 },  { 0x30e, locations, 16, 6, 12 },
                { 0x30f, locations, 16, 8, 10 }, { 0x30d, locations, 16, 10, 0 },  { 0x30d, locations, 16, 12, 1034 },
                { 0x30d, locations, 16, 14, 0 }, { 0x30d, locations, 16, -4, 0 },  { 0x30d, locations, 16, 200, 0 },
                { 0x30d, locations, 3, 4, 11 },  { 0x30d, locations, 3, 6, 0 },
        };
        (void) state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct fake *fake = fake_new(cases[i].version);
                const struct infp_python_memory memory = fake_memory(fake);
                const uint64_t name = fake_text(fake, "f"),
                               at = fake_code(fake, name, name, 10, cases[i].table, cases[i].size);

                assert_int_equal(infp_python_code_read(&fake->layout, &memory, FAKE_TYPE, at, &code), 0);
                assert_int_equal(infp_python_code_line(&fake->layout, &code.lines,
                                                       (uint64_t) (int64_t) cases[i].at +
                                                               (fake->layout.instruction_unit ? 0 : code.lines.bytes)),
                                 cases[i].line);
                free(fake);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_long_names),
                                            cmocka_unit_test(test_damaged), cmocka_unit_test(test_lines) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
