/* Texts that are JSON, and those that only look like it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json/text.h"
#include "base/mem.h"

static void test_valid(void **state)
{
        static const struct {
                const char *text;
                bool expected;
        } cases[] = {
                { "{}", true },
                { "[]", true },
                { " [ ] ", true },
                { "null", true },
                { "-0.5e+10", true },
                { "{\"a\":[1,2,{\"b\":null}],\"c\":\"\\u00e9\\n\"}", true },
                { "\"\xc3\xa9\"", true },
                { "[[[]],[]]", true },
                { "", false },
                { " ", false },
                { "{", false },
                { "{}}", false },
                { "{},", false },
                { "[1,]", false },
                { "[,1]", false },
                { "{\"a\"}", false },
                { "{\"a\":}", false },
                { "{\"a\":1,}", false },
                { "{a:1}", false },
                { "[}", false },
                { "{]", false },
                { "01", false },
                { "1.", false },
                { "-", false },
                { "1e", false },
                { "+1", false },
                { "NaN", false },
                { "nul", false },
                { "nullx", false },
                { "1 2", false },
                { "\"a", false },
                { "\"a\nb\"", false },
                { "\"\\x41\"", false },
                { "\"\\u12g4\"", false },
                { "\"\\", false },
                { "\"\xff\"", false },
                { "\"\xc3\"", false },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                /* Exactly so many bytes: what lies behind them is nobody's business. */
                const size_t size = strlen(cases[i].text);
                infp_autofree char *text = malloc(size + 1);

                memcpy(text, cases[i].text, size);
                if (infp_json_is_valid(text, size) != cases[i].expected)
                        fail_msg("%s", cases[i].text);
        }
        assert_false(infp_json_is_valid("1\0", 2));
}

static void test_depth(void **state)
{
        char text[140];

        (void) state;
        memset(text, '[', 70);
        memset(text + 64, ']', 64);
        assert_true(infp_json_is_valid(text, 128));
        memset(text, '[', 65);
        memset(text + 65, ']', 65);
        assert_false(infp_json_is_valid(text, 130));
}

static void test_put(void **state)
{
        static const struct {
                const char *text, *expected;
        } cases[] = {
                { "{\n\t\"a b\": [1,\r\n2]}", "{\"k\":{\"a b\": [1,2]},\"l\":1}" },
                { "{broken\n", "{\"k\":\"{broken\\n\",\"l\":1}" },
                { "\"x\"", "{\"k\":\"x\",\"l\":1}" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str out = { 0 };
                struct infp_json json;

                infp_json_begin(&json, &out, 0);
                infp_json_object(&json);
                infp_json_key(&json, "k");
                infp_json_text(&json, cases[i].text, strlen(cases[i].text));
                infp_json_key(&json, "l");
                infp_json_i64(&json, 1);
                infp_json_object_end(&json);
                assert_string_equal(out.data, cases[i].expected);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_valid),
                cmocka_unit_test(test_depth),
                cmocka_unit_test(test_put),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
