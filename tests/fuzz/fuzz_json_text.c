/* Any bytes as a text that claims to be JSON: whatever is embedded reads back by jansson as the same, and what jansson reads is
 * never turned into a string. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

/* Deeper than 64 levels: a claim that the check refuses on purpose. */
static unsigned depth_of(const json_t *value)
{
        unsigned deepest = 0;
        const char *key;
        json_t *member;
        size_t i;

        json_object_foreach((json_t *) (uintptr_t) value, key, member)
        {
                const unsigned depth = depth_of(member);

                deepest = depth > deepest ? depth : deepest;
        }
        json_array_foreach(value, i, member)
        {
                const unsigned depth = depth_of(member);

                deepest = depth > deepest ? depth : deepest;
        }
        return deepest + (json_is_object(value) || json_is_array(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
        const char *text = (const char *) data;
        json_t *value = json_loadb(text, size, flags, NULL), *object, *member;
        const bool is_valid = infp_json_is_valid(text, size);
        infp_autostr struct infp_str out = { 0 };
        struct infp_json json;

        /* A byte 0 ends the text for jansson. */
        if (value && !memchr(text, 0, size))
                expect(is_valid || depth_of(value) > 64);
        infp_json_begin(&json, &out, 0);
        infp_json_object(&json);
        infp_json_key(&json, "k");
        infp_json_text(&json, text, size);
        infp_json_object_end(&json);
        for (size_t i = 0; i < out.size; i++)
                expect((unsigned char) out.data[i] >= ' ');
        object = json_loadb(out.data, out.size, flags, NULL);
        member = json_object_get(object, "k");
        /* jansson refuses some that are valid: numbers that no double holds, half a surrogate pair. */
        expect(is_valid ? !value || json_equal(member, value) : json_is_string(member));
        json_decref(object);
        json_decref(value);
        return 0;
}
