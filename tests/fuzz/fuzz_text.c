/* Any bytes: escaping makes UTF-8 and comes back; what the JSON writer makes of them, jansson reads as the same. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static bool is_utf8(const char *s, size_t size)
{
        for (size_t i = 0; i < size;) {
                unsigned n = infp_utf8_length(s + i, size - i);

                if (n == 0)
                        return false;
                i += n;
        }
        return true;
}

static void round_trip(const char *bytes, size_t size)
{
        infp_autofree char *text = malloc(4 * size + 1), *back = malloc(4 * size + 1), *small = malloc(size + 1);
        size_t n, part;

        if (!text || !back || !small)
                return;
        n = infp_text_escape(bytes, size, text, 4 * size);
        expect(is_utf8(text, n));
        expect(infp_text_unescape(text, n, back, n) == (ssize_t) size && memcmp(back, bytes, size) == 0);
        /* In too small a buffer it writes the beginning, in whole escapes. */
        part = infp_text_escape(bytes, size, small, size / 2);
        expect(part <= size / 2 && memcmp(small, text, part) == 0 && is_utf8(small, part));
        expect(infp_text_unescape(small, part, back, part) >= 0);
        /* The input as an escaped text: most are none. */
        if (infp_text_unescape(bytes, size, back, size) > (ssize_t) size)
                abort();
}

static void json(const char *bytes, size_t size)
{
        infp_autostr struct infp_str s = { 0 };
        struct infp_json json;
        json_t *read;
        double f = 0;

        memcpy(&f, bytes, size < sizeof(f) ? size : sizeof(f));
        infp_json_begin(&json, &s, size % 3);
        infp_json_object(&json);
        infp_json_key(&json, "text");
        infp_json_strn(&json, bytes, size);
        infp_json_key(&json, "list");
        infp_json_array(&json);
        infp_json_f64(&json, f);
        infp_json_i64(&json, (int64_t) size);
        infp_json_bool(&json, size % 2);
        infp_json_null(&json);
        infp_json_array_end(&json);
        infp_json_object_end(&json);
        expect(!s.failed && is_utf8(s.data, s.size));
        read = json_loadb(s.data, s.size, JSON_ALLOW_NUL, NULL);
        expect(read != NULL);
        if (is_utf8(bytes, size)) {
                const json_t *text = json_object_get(read, "text");

                expect(json_string_length(text) == size && memcmp(json_string_value(text), bytes, size) == 0);
        }
        json_decref(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        round_trip((const char *) data, size);
        json((const char *) data, size);
        return 0;
}
