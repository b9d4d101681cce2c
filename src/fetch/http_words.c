/* What a server says went wrong. */
#include <jansson.h>
#include <string.h>

#include "fetch/http.h"

enum { WORDS_MAX = 240 };

/* {"detail":[{"msg":"..."}]} is how FastAPI says that a field is wrong. */
static const char *find_words(const json_t *root)
{
        static const char *const keys[] = { "message", "detail", "msg", "error" };
        const json_t *error = json_object_get(root, "error"), *detail = json_object_get(root, "detail"), *value;

        if (json_is_string(root))
                return json_string_value(root);
        if (json_is_object(error))
                root = error;
        else if (json_is_array(detail) && json_is_object(json_array_get(detail, 0)))
                root = json_array_get(detail, 0);
        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
                value = json_object_get(root, keys[i]);
                if (json_is_string(value) && json_string_length(value))
                        return json_string_value(value);
        }
        return NULL;
}

void infp_http_words(const char *body, size_t size, struct infp_str *out)
{
        json_t *root = json_loadb(body, size, JSON_DECODE_ANY, NULL);
        const char *words = root ? find_words(root) : NULL;
        size_t n = words ? strlen(words) : size;
        bool is_gap = false;

        if (!words)
                words = body;
        for (size_t i = 0; i < n && i < WORDS_MAX; i++) { /* bound: the text ends in "..." then */
                const bool blank = (unsigned char) words[i] <= ' ' || words[i] == 0x7f;

                if (!blank)
                        infp_str_putc(out, words[i]);
                else if (!is_gap && out->size)
                        infp_str_putc(out, ' ');
                is_gap = blank;
        }
        if (n > WORDS_MAX)
                infp_str_puts(out, " ...");
        json_decref(root);
}
