#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"

static void lengths(void **state)
{
        static const struct {
                const char *bytes;
                size_t size;
                unsigned length;
        } cases[] = {
                { "", 0, 0 },
                { "a", 1, 1 },
                { "\0", 1, 1 },
                { "\x7f", 1, 1 },
                { "\x80", 1, 0 },
                { "\xc3\xa4", 2, 2 },
                { "\xc3\xa4", 1, 0 },         /* cut */
                { "\xc3(", 2, 0 },            /* no continuation */
                { "\xc0\xaf", 2, 0 },         /* overlong / */
                { "\xc1\xbf", 2, 0 },         /* overlong */
                { "\xe2\x82\xac", 3, 3 },     /* euro */
                { "\xe2\x82", 2, 0 },         /* cut */
                { "\xe0\x9f\xbf", 3, 0 },     /* overlong */
                { "\xe0\xa0\x80", 3, 3 },     /* U+0800 */
                { "\xed\x9f\xbf", 3, 3 },     /* U+D7FF */
                { "\xed\xa0\x80", 3, 0 },     /* U+D800, a surrogate */
                { "\xee\x80\x80", 3, 3 },     /* U+E000 */
                { "\xef\xbf\xbf", 3, 3 },     /* U+FFFF */
                { "\xf0\x9f\x98\x80", 4, 4 }, /* U+1F600 */
                { "\xf0\x9f\x98", 3, 0 },     /* cut */
                { "\xf0\x8f\xbf\xbf", 4, 0 }, /* overlong */
                { "\xf4\x8f\xbf\xbf", 4, 4 }, /* U+10FFFF */
                { "\xf4\x90\x80\x80", 4, 0 }, /* beyond */
                { "\xf5\x80\x80\x80", 4, 0 },
                { "\xff", 1, 0 },
                { "\xf0\x9f\x98(", 4, 0 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                if (infp_utf8_length(cases[i].bytes, cases[i].size) != cases[i].length)
                        fail_msg("case %zu", i);
        }
}

static void controls(void **state)
{
        static const struct {
                const char *bytes;
                bool is_control;
        } cases[] = {
                { "\x01", true },
                { "\n", true },
                { "\t", true },
                { "\x1f", true },
                { " ", false },
                { "~", false },
                { "\x7f", true },
                { "\xc2\x80", true },
                { "\xc2\x9f", true },
                { "\xc2\xa0", false },
                { "\xc3\x80", false },
                { "\xe2\x80\xa7", false },
                { "\xe2\x80\xa8", true },
                { "\xe2\x80\xa9", true },
                { "\xe2\x80\xaa", true },
                { "\xe2\x80\xae", true },
                { "\xe2\x80\xaf", false },
                { "\xe2\x81\xa5", false },
                { "\xe2\x81\xa6", true },
                { "\xe2\x81\xa9", true },
                { "\xe2\x81\xaa", false },
                { "\xe3\x80\xa8", false },
                { "\xf0\x9f\x98\x80", false },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++)
                if (infp_utf8_is_control(cases[i].bytes, (unsigned) strlen(cases[i].bytes)) != cases[i].is_control)
                        fail_msg("case %zu", i);
}

static void cut(void **state)
{
        (void) state;
        assert_int_equal(infp_utf8_cut("abc", 3, 3), 3);
        assert_int_equal(infp_utf8_cut("abc", 3, 2), 2);
        assert_int_equal(infp_utf8_cut("a\xc3\xa9", 3, 2), 1);
        assert_int_equal(infp_utf8_cut("a\xc3\xa9.", 4, 3), 3);
        assert_int_equal(infp_utf8_cut("\xf0\x9f\x90\x8d", 4, 3), 0);
}

struct escape {
        const char *bytes;
        size_t size;
        const char *text;
};

static const struct escape escapes[] = {
        { "", 0, "" },
        { "plain", 5, "plain" },
        { "a b) (c", 7, "a b) (c" },
        { "line\nline", 9, "line\nline" },
        { "a\\b", 3, "a\\\\b" },
        { "\xff", 1, "\\xFF" },
        { "\x80\x0a", 2, "\\x80\n" },
        { "\\xff", 4, "\\\\xff" }, /* the text \xff is not the byte */
        { "gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f" },
        { "gr\xfc\xdf", 4, "gr\\xFC\\xDF" }, /* Latin-1 */
        { "\xed\xa0\x80", 3, "\\xED\\xA0\\x80" },
        { "\xe2\x82", 2, "\\xE2\\x82" },
};

static void escape_and_back(void **state)
{
        (void) state;
        for (size_t i = 0; i < INFP_COUNT(escapes); i++) {
                char text[64], bytes[64];
                size_t n = infp_text_escape(escapes[i].bytes, escapes[i].size, text, sizeof(text));
                ssize_t back;

                assert_int_equal(n, strlen(escapes[i].text));
                assert_memory_equal(text, escapes[i].text, n);
                back = infp_text_unescape(text, n, bytes, n);
                assert_int_equal(back, escapes[i].size);
                assert_memory_equal(bytes, escapes[i].bytes, escapes[i].size);
        }
}

static void every_byte_comes_back(void **state)
{
        char bytes[256], text[1024], back[1024];
        size_t n;

        (void) state;
        for (int i = 0; i < 256; i++)
                bytes[i] = (char) i;
        n = infp_text_escape(bytes, sizeof(bytes), text, sizeof(text));
        assert_int_equal(n, 127 + 2 + 128 * 4);
        assert_int_equal(infp_text_unescape(text, n, back, sizeof(back)), 256);
        assert_memory_equal(back, bytes, 256);
}

/* Nothing is cut inside of an escape or a character, at any size of the buffer. */
static void small_buffers(void **state)
{
        static const char bytes[] = "a\xff\\\xe2\x82\xac";
        static const size_t written[] = { 0, 1, 1, 1, 1, 5, 5, 7, 7, 7, 10, 10 };
        char text[16];

        (void) state;
        for (size_t cap = 0; cap < INFP_COUNT(written); cap++) {
                memset(text, '#', sizeof(text));
                assert_int_equal(infp_text_escape(bytes, 6, text, cap), written[cap]);
                assert_int_equal(text[written[cap]], '#');
        }
}

static void malformed(void **state)
{
        static const char *const texts[] = { "\\", "\\x", "\\xf", "\\xfg", "\\n", "ab\\X41", "\\u0041" };
        char bytes[16];

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(texts); i++)
                assert_int_equal(infp_text_unescape(texts[i], strlen(texts[i]), bytes, sizeof(bytes)), -EBADMSG);
        assert_int_equal(infp_text_unescape("\\xFf", 4, bytes, sizeof(bytes)), 1);
        assert_int_equal((unsigned char) bytes[0], 0xff);
        assert_int_equal(infp_text_unescape("abc", 3, bytes, 2), -ENOSPC);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lengths),
                cmocka_unit_test(controls),
                cmocka_unit_test(cut),
                cmocka_unit_test(escape_and_back),
                cmocka_unit_test(every_byte_comes_back),
                cmocka_unit_test(small_buffers),
                cmocka_unit_test(malformed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
