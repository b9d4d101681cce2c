/* Any bytes as an answer of a server: the events do not depend on where the stream is cut, and of a chunk that jansson takes for
 * an object the quick reader says the same. The first byte says how it is cut. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/http.h"
#include "load/chunk.h"
#include "load/sse.h"
#include "model/log_histogram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static int64_t count_of(const json_t *usage, const char *key)
{
        const json_t *value = json_object_get(usage, key);

        return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
}

/* Escaped and repeated keys are read in different ways. */
static void compare(const char *text, size_t size, const struct infp_chunk *chunk)
{
        json_t *root = memchr(text, '\\', size) ? NULL : json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        const json_t *choices = json_object_get(root, "choices"), *error = json_object_get(root, "error");

        if (json_is_object(root)) {
                expect(chunk->has_choice == (json_array_size(choices) > 0));
                expect(!(json_object_size(error) || json_array_size(error) || json_string_length(error) ||
                         json_is_true(error)) ||
                       chunk->is_error);
                expect(chunk->output_tokens == count_of(json_object_get(root, "usage"), "completion_tokens"));
                expect(chunk->prompt_tokens == count_of(json_object_get(root, "usage"), "prompt_tokens"));
        }
        json_decref(root);
}

static int take(void *context, const char *type, const char *data, size_t size)
{
        struct infp_chunk chunk;
        struct infp_str *out = context;
        json_t *root;

        infp_str_puts(out, type);
        infp_str_putc(out, '\0');
        infp_str_put(out, data, size);
        infp_str_putc(out, '\0');
        if (infp_chunk_read(data, size, &chunk) == 0) {
                expect(memchr(chunk.finish_reason, 0, sizeof(chunk.finish_reason)) != NULL);
                if (!chunk.is_done)
                        compare(data, size, &chunk);
        } else {
                root = json_loadb(data, size, 0, NULL);
                expect(!json_is_object(root));
                json_decref(root);
        }
        return 0;
}

static void feed(const char *text, size_t size, size_t step, struct infp_str *out)
{
        struct infp_sse sse = { 0 };

        for (size_t at = 0; at < size; at += step)
                expect(infp_sse_feed(&sse, text + at, size - at < step ? size - at : step, take, out) == 0);
        expect(infp_sse_end(&sse, take, out) == 0);
        if (sse.bare.size)
                infp_str_put(out, sse.bare.data, sse.bare.size);
        infp_sse_done(&sse);
}

static void histogram(const char *text, size_t size)
{
        struct infp_log_histogram one = { 0 }, two = { 0 };
        infp_autostr struct infp_str out = { 0 };

        if (infp_log_take(&one, text, size) < 0) {
                expect(one.n == 0);
                return;
        }
        infp_log_put(&one, &out);
        expect(infp_log_take(&two, out.data, out.size) == 0);
        expect(memcmp(&one, &two, sizeof(one)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        infp_autostr struct infp_str whole = { 0 }, parts = { 0 }, words = { 0 };
        const char *text = (const char *) data + 1;
        struct infp_chunk chunk;

        if (size < 1)
                return 0;
        size--;
        feed(text, size, size + 1, &whole);
        feed(text, size, 1 + data[0] % 32, &parts);
        expect(whole.size == parts.size && (whole.size == 0 || memcmp(whole.data, parts.data, whole.size) == 0));
        infp_chunk_read(text, size, &chunk);
        infp_http_words(text, size, &words);
        expect(words.size < 300);
        histogram(text, size);
        return 0;
}
