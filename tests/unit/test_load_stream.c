/* Events and chunks: what a stream says, however it is cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "fetch/http.h"
#include "load/chunk.h"
#include "load/sse.h"

/* Events joined by '|', each behind its type where it has one. */
static int collect(void *context, const char *type, const char *data, size_t size)
{
        struct infp_str *out = context;

        infp_str_puts(out, type);
        if (*type)
                infp_str_putc(out, '=');
        infp_str_put(out, data, size);
        infp_str_putc(out, '|');
        return 0;
}

static void feed(const char *text, size_t size, size_t step, struct infp_str *out)
{
        struct infp_sse sse = { 0 };

        infp_str_clear(out);
        infp_str_puts(out, "");
        for (size_t at = 0; at < size; at += step)
                assert_int_equal(infp_sse_feed(&sse, text + at, size - at < step ? size - at : step, collect, out), 0);
        assert_int_equal(infp_sse_end(&sse, collect, out), 0);
        if (sse.bare.size)
                infp_str_put(out, sse.bare.data, sse.bare.size);
        infp_sse_done(&sse);
}

static void events(void **state)
{
        static const struct {
                const char *text, *events;
        } cases[] = {
                { "data: a\n\ndata: b\n\n", "a|b|" },
                { "data:a\r\n\r\ndata: b\r\n\r\n", "a|b|" },
                { "data: a\r\rdata: b\r\r", "a|b|" },
                { "data: a\r\n\ndata: b\n\r\n", "a|b|" },
                { ": ping\n\n: more\ndata: x\n\n", "x|" },
                { "event: error\ndata: 1\ndata: 2\nid: 7\nretry: 5\n\ndata: 3\n\n", "error=1\n2|3|" },
                { "event: lost\n\ndata: 1\nevent:first\nevent\n\n", "1|" },
                { "data: 1\n\n{\"error\":\n\n \"full\"}\ndata: 2\n\n", "1|2|{\"error\":\n \"full\"}\n" },
                { "data\n\n", "|" },
                { "data:\n\n", "|" },
                { "data:  two blanks\n\n", " two blanks|" },
                { "dataset: no\n\ndat: no\n\n", "" },
                { "data: last line without an end", "last line without an end|" },
                { "data: no empty line\n", "no empty line|" },
                { "\xef\xbb\xbf"
                  "data: marked\n\n\xef\xbb\xbf"
                  "data: not again\n\n",
                  "marked|" },
                { "\n\n\n\ndata: x\n\n\n\n", "x|" },
                { "", "" },
        };
        infp_autostr struct infp_str out = { 0 };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++)
                for (size_t step = 1; step <= strlen(cases[i].text) + 1; step++) {
                        feed(cases[i].text, strlen(cases[i].text), step, &out);
                        assert_string_equal(out.data ? out.data : "", cases[i].events);
                }
}

static int refuse(void *context, const char *type, const char *data, size_t size)
{
        (void) context, (void) type, (void) data, (void) size;
        return -77;
}

static void events_are_bounded(void **state)
{
        static char big[1 << 20];
        struct infp_sse sse = { 0 };
        infp_autostr struct infp_str out = { 0 };
        int r = 0;

        (void) state;
        memset(big, 'x', sizeof(big));
        for (int i = 0; i < 8 && r == 0; i++)
                r = infp_sse_feed(&sse, big, sizeof(big), collect, &out);
        assert_int_equal(r, -EMSGSIZE);
        infp_sse_done(&sse);
        memcpy(big, "data: ", 6);
        big[sizeof(big) - 1] = '\n';
        for (int i = r = 0; i < 8 && r == 0; i++)
                r = infp_sse_feed(&sse, big, sizeof(big), collect, &out);
        assert_int_equal(r, -EMSGSIZE);
        infp_sse_done(&sse);
        assert_int_equal(infp_sse_feed(&sse, "data: a\n\ndata: b\n\n", 18, refuse, NULL), -77);
        infp_sse_done(&sse);
}

static void chunks(void **state)
{
        static const struct {
                const char *text;
                int r;
                struct infp_chunk want;
        } cases[] = {
                { "[DONE]", 0, { true, false, false, false, "", -1, -1, -1 } },
                { " [DONE]\n", -EBADMSG, { 0 } },
                { "[DONE] ", 0, { true, false, false, false, "", -1, -1, -1 } },
                { "{}", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"text\":\" is\",\"index\":0,\"finish_reason\":null}]}",
                  0,
                  { false, true, true, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"completion_tokens\":12,"
                  "\"prompt_tokens\":8,"
                  "\"total_tokens\":20,\"prompt_tokens_details\":{\"cached_tokens\":3}}}",
                  0,
                  { false, true, false, false, "length", 8, 3, 12 } },
                { "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}",
                  0,
                  { false, true, false, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
                  0,
                  { false, true, false, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}", 0, { false, true, true, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"delta\":{\"reasoning_content\":\"a\"}}]}",
                  0,
                  { false, true, true, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}",
                  0,
                  { false, true, true, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"delta\":{\"tool_calls\":[ ]}}]}",
                  0,
                  { false, true, false, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"message\":{\"content\":\"whole\"},\"finish_reason\":\"stop\"}]}",
                  0,
                  { false, true, true, false, "stop", -1, -1, -1 } },
                { "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":21,\"completion_tokens\":12}}",
                  0,
                  { false, false, false, false, "", 9, -1, 12 } },
                { "{\"usage\":null,\"choices\":null}", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"usage\":{\"prompt_tokens\":-4,\"completion_tokens\":1.5}}",
                  0,
                  { false, false, false, false, "", -1, -1, -1 } },
                { "{\"usage\":{\"prompt_tokens\":\"4\",\"completion_tokens\":99999999999999999999}}",
                  0,
                  { false, false, false, false, "", -1, -1, -1 } },
                { "{\"usage\":{\"prompt_tokens\":9223372036854775807,\"completion_tokens\":1099511627776}}",
                  0,
                  { false, false, false, false, "", -1, -1, INT64_C(1099511627776) } },
                { "{\"error\":{\"message\":\"no\"}}", 0, { false, false, false, true, "", -1, -1, -1 } },
                { "{\"error\":null}", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"error\":\"\",\"choices\":[{\"text\":\"a\"}]}", 0, { false, true, true, false, "", -1, -1, -1 } },
                { "{\"error\" : false }", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"error\":0}", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"error\":{ }}", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"error\":[]}", 0, { false, false, false, false, "", -1, -1, -1 } },
                { "{\"error\":true}", 0, { false, false, false, true, "", -1, -1, -1 } },
                { "{\"error\":\"no\"}", 0, { false, false, false, true, "", -1, -1, -1 } },
                { "{\"error\":500}", 0, { false, false, false, true, "", -1, -1, -1 } },
                { "{\"error\":[{}]}", 0, { false, false, false, true, "", -1, -1, -1 } },
                { "{\"object\":\"error\",\"message\":\"no\"}", 0, { false, false, false, true, "", -1, -1, -1 } },
                { "{\"x\":\"\\\"choices\\\":[{\\\\\",\"choices\":[{\"text\":\"\\\"}]}\"}]}",
                  0,
                  { false, true, true, false, "", -1, -1, -1 } },
                { "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"a reason that is longer than any that is "
                  "known\"}]}",
                  0,
                  { false, true, true, false, "a reason that is longer than an", -1, -1, -1 } },
                { "", -EBADMSG, { 0 } },
                { "null", -EBADMSG, { 0 } },
                { "[]", -EBADMSG, { 0 } },
                { "{", -EBADMSG, { 0 } },
                { "{\"a\":1", -EBADMSG, { 0 } },
                { "{\"a\":1} x", -EBADMSG, { 0 } },
                { "{\"a\"}", -EBADMSG, { 0 } },
                { "{\"a\":\"x", -EBADMSG, { 0 } },
                { "{\"a\":[[[}", -EBADMSG, { 0 } },
                { "{\"choices\":[{\"text\":\"a\"", -EBADMSG, { 0 } },
                { "<html>oops</html>", -EBADMSG, { 0 } },
        };
        struct infp_chunk got;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                /* In memory of just its size: the sanitizer sees a byte too far. */
                const size_t size = strlen(cases[i].text);
                infp_autofree char *copy = malloc(size ? size : 1);

                memcpy(copy, cases[i].text, size);
                if (infp_chunk_read(copy, size, &got) != cases[i].r)
                        fail_msg("%s", cases[i].text);
                if (cases[i].r < 0)
                        continue;
                assert_int_equal(got.is_done, cases[i].want.is_done);
                if (got.has_choice != cases[i].want.has_choice || got.has_text != cases[i].want.has_text ||
                    got.is_error != cases[i].want.is_error || got.prompt_tokens != cases[i].want.prompt_tokens ||
                    got.cached_tokens != cases[i].want.cached_tokens ||
                    got.output_tokens != cases[i].want.output_tokens)
                        fail_msg("%s", cases[i].text);
                assert_string_equal(got.finish_reason, cases[i].want.finish_reason);
        }
}

static void error_words(void **state)
{
        static const struct {
                const char *body, *words;
        } cases[] = {
                { "{\"error\":{\"code\":400,\"message\":\"'messages' is "
                  "required\",\"type\":\"invalid_request_error\"}}",
                  "'messages' is required" },
                { "{\"error\":\"overloaded\",\"error_type\":\"overloaded\"}", "overloaded" },
                { "{\"object\":\"error\",\"message\":\"no\\nsuch   model\"}", "no such model" },
                { "{\"detail\":\"Not Found\"}", "Not Found" },
                { "\"metrics are \\\"off\\\"\"\n", "metrics are \"off\"" },
                { "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"field required\"}]}", "field required" },
                { "  plain\x01 words\r\n", "plain words " },
                { "{\"something\":1}", "{\"something\":1}" },
                { "", "" },
        };
        infp_autostr struct infp_str out = { 0 };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_str_clear(&out);
                infp_http_words(cases[i].body, strlen(cases[i].body), &out);
                assert_string_equal(out.data ? out.data : "", cases[i].words);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(events), cmocka_unit_test(events_are_bounded),
                                            cmocka_unit_test(chunks), cmocka_unit_test(error_words) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
