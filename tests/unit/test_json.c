#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/mem.h"

static void fill(struct infp_json *json)
{
        infp_json_object(json);
        infp_json_key(json, "i");
        infp_json_i64(json, -5);
        infp_json_key(json, "list");
        infp_json_array(json);
        infp_json_u64(json, UINT64_MAX);
        infp_json_f64(json, 0.5);
        infp_json_f64(json, 1);
        infp_json_f64(json, NAN);
        infp_json_bool(json, true);
        infp_json_null(json);
        infp_json_object(json);
        infp_json_object_end(json);
        infp_json_array(json);
        infp_json_array_end(json);
        infp_json_array_end(json);
        infp_json_key(json, "s");
        infp_json_str(json, "x");
        infp_json_key(json, "o");
        infp_json_object(json);
        infp_json_key(json, "in");
        infp_json_bool(json, false);
        infp_json_key(json, "raw");
        infp_json_raw(json, "[0, 1]", 6);
        infp_json_object_end(json);
        infp_json_object_end(json);
}

static void one_line(void **state)
{
        infp_autostr struct infp_str s = { 0 };
        struct infp_json json;

        (void) state;
        infp_json_begin(&json, &s, 0);
        fill(&json);
        assert_string_equal(s.data,
                            "{\"i\":-5,\"list\":[18446744073709551615,0.5,1.0,null,true,null,{},[]],\"s\":\"x\","
                            "\"o\":{\"in\":false,\"raw\":[0, 1]}}");
}

static void indented(void **state)
{
        infp_autostr struct infp_str s = { 0 };
        struct infp_json json;

        (void) state;
        infp_json_begin(&json, &s, 2);
        infp_json_object(&json);
        infp_json_key(&json, "a");
        infp_json_array(&json);
        infp_json_i64(&json, 1);
        infp_json_i64(&json, 2);
        infp_json_array_end(&json);
        infp_json_key(&json, "b");
        infp_json_object(&json);
        infp_json_object_end(&json);
        infp_json_object_end(&json);
        assert_string_equal(s.data, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
}

static void several_values_are_lines(void **state)
{
        infp_autostr struct infp_str s = { 0 };
        struct infp_json json;

        (void) state;
        infp_json_begin(&json, &s, 0);
        infp_json_i64(&json, 1);
        infp_json_array(&json);
        infp_json_array_end(&json);
        infp_json_str(&json, "x");
        assert_string_equal(s.data, "1\n[]\n\"x\"");
}

static void quotes(void **state)
{
        static const struct {
                const char *text;
                size_t size;
                const char *json;
        } cases[] = {
                { "", 0, "\"\"" },
                { "a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"" },
                { "\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\"" },
                { "\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\"" },
                { "\xc2\x9b|\xc2\xa0|\xe2\x80\xae|\xe2\x80\xa8", 13, "\"\\u009b|\xc2\xa0|\\u202e|\\u2028\"" },
                { "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", 11, "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"" },
                { "a\xff\x80z", 4, "\"a\xef\xbf\xbd\xef\xbf\xbdz\"" },
                { "\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str s = { 0 };
                json_t *read;

                infp_json_quote(&s, cases[i].text, cases[i].size);
                assert_string_equal(s.data, cases[i].json);
                read = json_loads(s.data, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                assert_non_null(read);
                json_decref(read);
        }
}

static void nested(struct infp_str *s, unsigned levels)
{
        struct infp_json json;

        infp_json_begin(&json, s, 0);
        for (unsigned i = 0; i < levels; i++)
                infp_json_array(&json);
        for (unsigned i = 0; i < levels; i++)
                infp_json_array_end(&json);
}

static void too_deep(void **state)
{
        infp_autostr struct infp_str deep = { 0 }, deeper = { 0 };

        (void) state;
        nested(&deep, 31);
        assert_false(deep.failed);
        assert_int_equal(deep.size, 62);
        nested(&deeper, 40);
        assert_true(deeper.failed);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_line), cmocka_unit_test(indented), cmocka_unit_test(several_values_are_lines),
                cmocka_unit_test(quotes),   cmocka_unit_test(too_deep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
