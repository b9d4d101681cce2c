/* What is asked and when: schedule, prompts, bodies, and where. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "load/load.h"
#include "load/prompts.h"
#include "load/schedule.h"
#include "load/target.h"

static void constant_arrivals(void **state)
{
        struct infp_schedule schedule;

        (void) state;
        infp_schedule_init(&schedule, 3, true, 1);
        for (uint64_t i = 0; i < 30000; i++) {
                const uint64_t due = infp_schedule_next(&schedule);

                if (i % 3 == 0) /* after whole seconds, without a sum of roundings */
                        assert_true(due == i / 3 * UINT64_C(1000000000));
        }
}

/* 20,000 gaps of mean 10 ms: the mean of so many deviates by 0.7 %, their deviation equals the mean. A seed gives them again. */
static void poisson_arrivals(void **state)
{
        enum { N = 20000 };
        struct infp_schedule schedule, again, other;
        uint64_t before = 0, same = 0;
        double sum = 0, squares = 0;

        (void) state;
        infp_schedule_init(&schedule, 100, false, 7);
        infp_schedule_init(&again, 100, false, 7);
        infp_schedule_init(&other, 100, false, 8);
        for (int i = 0; i < N; i++) {
                const uint64_t due = infp_schedule_next(&schedule);
                const double gap = (double) (due - before) / 1e9;

                assert_true(due >= before);
                assert_true(due == infp_schedule_next(&again));
                same += due == infp_schedule_next(&other);
                before = due;
                sum += gap;
                squares += gap * gap;
        }
        assert_true(fabs(sum / N - 0.01) < 0.01 * 0.025);
        assert_true(fabs(sqrt(squares / N - sum / N * (sum / N)) - 0.01) < 0.01 * 0.04);
        assert_true(same < 5);
}

static void random_range(void **state)
{
        struct infp_random random = { 3 };
        unsigned seen[4] = { 0 };

        (void) state;
        for (int i = 0; i < 1000; i++) {
                const uint64_t v = infp_random_between(&random, 10, 13);

                assert_in_range(v, 10, 13);
                seen[v - 10]++;
        }
        for (int i = 0; i < 4; i++)
                assert_in_range(seen[i], 180, 320);
        assert_int_equal(infp_random_between(&random, 5, 5), 5);
        infp_random_between(&random, 0, UINT64_MAX);
}

static void waiting_is_first_in_first_out(void **state)
{
        struct infp_waiting waiting = { 0 };
        uint64_t in = 0, out = 0, due;

        (void) state;
        assert_false(infp_waiting_first(&waiting, &due));
        for (int round = 0; round < 50; round++) {
                for (int i = 0; i < 37; i++)
                        assert_int_equal(infp_waiting_put(&waiting, in++), 0);
                for (int i = 0; i < 30; i++) {
                        assert_true(infp_waiting_first(&waiting, &due));
                        assert_true(due == out++);
                        infp_waiting_drop(&waiting);
                }
        }
        assert_int_equal(waiting.n, in - out);
        infp_waiting_done(&waiting);
}

static int read_prompts(const char *text, size_t size, struct infp_prompts *ret, struct infp_err *err)
{
        char path[] = "/tmp/infprof-prompts-XXXXXX";
        infp_autoclose int fd = mkstemp(path);
        int r;

        assert_true(fd >= 0);
        assert_int_equal(infp_write_all(fd, text, size, NULL), 0);
        err->text[0] = 0;
        r = infp_prompts_read(path, ret, err);
        unlink(path);
        return r;
}

static void prompt_files(void **state)
{
        static const struct {
                const char *text;
                int r;
                size_t n;
                const char *first, *word; /* of the first prompt; of the error */
        } cases[] = {
                { "one\ntwo\n\n three \n", 0, 3, "one", "" },
                { "\n\r\n  \nfirst\r\nsecond", 0, 2, "first", "" },
                { "{\"prompt\":\"a\\nb\"}\n\n{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":5}\n",
                  0, 2, "a\nb", "" },
                { "{\"prompt\":\"a\",\"max_tokens\":null}", 0, 1, "a", "" },
                { "", -EBADMSG, 0, NULL, "blank" },
                { "\n \n\t\n", -EBADMSG, 0, NULL, "blank" },
                { "good\nbad \xff byte\n", -EBADMSG, 0, NULL, "line 2" },
                { "{\"prompt\":\"a\"}\nplain\n", -EBADMSG, 0, NULL, "line 2" },
                { "{\"prompt\":\"a\"}\n\n{\"prompt\":\"b\"\n", -EBADMSG, 0, NULL, "line 3" },
                { "{\"text\":\"a\"}\n", -EBADMSG, 0, NULL, "\"prompt\"" },
                { "{\"messages\":[]}\n", -EBADMSG, 0, NULL, "\"messages\"" },
                { "{\"prompt\":\"a\",\"max_tokens\":0}\n", -EBADMSG, 0, NULL, "max_tokens" },
        };
        struct infp_prompts prompts;
        struct infp_err err;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                assert_int_equal(read_prompts(cases[i].text, strlen(cases[i].text), &prompts, &err), cases[i].r);
                if (cases[i].r < 0) {
                        if (!strstr(err.text, cases[i].word))
                                fail_msg("%s: %s", cases[i].text, err.text);
                        continue;
                }
                assert_int_equal(prompts.n, cases[i].n);
                assert_string_equal(prompts.list[0].text, cases[i].first);
                infp_prompts_done(&prompts);
        }
        assert_int_equal(read_prompts(cases[2].text, strlen(cases[2].text), &prompts, &err), 0);
        assert_true(prompts.has_messages && prompts.list[1].is_messages && !prompts.list[0].is_messages);
        assert_int_equal(prompts.list[1].max_tokens, 5);
        infp_prompts_done(&prompts);
        assert_int_equal(infp_prompts_read("/nonexistent/prompts", &prompts, &err), -ENOENT);
        assert_non_null(strstr(err.text, "/nonexistent/prompts"));
        assert_int_equal(infp_prompts_read("/tmp", &prompts, &err), -EISDIR);
}

static json_t *body_of(const struct infp_load_options *options, uint64_t number, int64_t *max)
{
        infp_autostr struct infp_str text = { 0 };
        json_error_t error;
        json_t *ret;

        infp_load_body(options, number, &text, max);
        assert_false(text.failed);
        ret = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
        if (!ret)
                fail_msg("%s in %s", error.text, text.data);
        return ret;
}

static size_t count_words(const char *text)
{
        size_t n = *text != 0;

        for (; *text; text++)
                n += *text == ' ';
        return n;
}

static void word_bodies(void **state)
{
        struct infp_load_options options = {
                .model = "m \"x\"",
                .input_tokens = { 20, 30 },
                .output_tokens = { 5, 9 },
                .shared_prefix = 12,
                .seed = 4,
                .temperature = NAN,
                .ignore_eos = true,
                .extra = "\"top_k\":1",
        };
        char first[2000] = "";
        size_t lengths = 0;

        (void) state;
        for (uint64_t i = 0; i < 50; i++) {
                int64_t max, again_max;
                json_t *body = body_of(&options, i, &max), *again = body_of(&options, i, &again_max);
                const char *prompt = json_string_value(json_object_get(body, "prompt"));
                size_t prefix = 0;

                assert_true(json_equal(body, again) && max == again_max);
                assert_string_equal(json_string_value(json_object_get(body, "model")), "m \"x\"");
                assert_in_range(max, 5, 9);
                assert_int_equal(json_integer_value(json_object_get(body, "max_tokens")), max);
                assert_true(json_is_true(json_object_get(body, "stream")));
                assert_true(json_is_true(json_object_get(json_object_get(body, "stream_options"), "include_usage")));
                assert_true(json_is_true(json_object_get(body, "ignore_eos")));
                assert_int_equal(json_integer_value(json_object_get(body, "top_k")), 1);
                assert_null(json_object_get(body, "temperature"));
                assert_in_range(count_words(prompt), 20, 30);
                lengths |= (size_t) 1 << (count_words(prompt) - 20);
                if (!*first)
                        snprintf(first, sizeof(first), "%s", prompt);
                while (prompt[prefix] && prompt[prefix] == first[prefix])
                        prefix++;
                if (i) { /* the shared words, and no more than a word or two by chance */
                        char shared[2000];

                        snprintf(shared, sizeof(shared), "%.*s", (int) prefix, prompt);
                        assert_in_range(count_words(shared), 12, 16);
                }
                json_decref(body);
                json_decref(again);
        }
        assert_true(__builtin_popcountll(lengths) > 5);
}

static void file_bodies(void **state)
{
        struct infp_prompt list[] = { { (char *) "say \"hi\"", 8, false, -1 },
                                      { (char *) "[{\"role\":\"user\",\"content\":\"x\"}]", 31, true, 3 } };
        const struct infp_prompts prompts = { .list = list, .n = 2, .has_messages = true };
        struct infp_load_options options = { .is_chat = true,
                                             .prompts = &prompts,
                                             .output_tokens = { 7, 7 },
                                             .input_tokens = { 1, 1 },
                                             .temperature = 0.5,
                                             .no_stream = true };
        int64_t max;
        json_t *body = body_of(&options, 0, &max), *message;

        (void) state;
        message = json_array_get(json_object_get(body, "messages"), 0);
        assert_string_equal(json_string_value(json_object_get(message, "content")), "say \"hi\"");
        assert_string_equal(json_string_value(json_object_get(message, "role")), "user");
        assert_int_equal(max, 7);
        assert_null(json_object_get(body, "model"));
        assert_true(json_is_false(json_object_get(body, "stream")));
        assert_null(json_object_get(body, "stream_options"));
        assert_true(json_real_value(json_object_get(body, "temperature")) == 0.5);
        json_decref(body);
        body = body_of(&options, 3, &max);
        assert_int_equal(max, 3);
        assert_int_equal(json_array_size(json_object_get(body, "messages")), 1);
        json_decref(body);
}

static void targets(void **state)
{
        static const struct {
                const char *given, *endpoint;
                bool messages;
                const char *url, *api, *root; /* url NULL: refused */
        } cases[] = {
                { "http://h:1", NULL, false, "http://h:1/v1/completions", "http://h:1/v1", "http://h:1" },
                { "http://h:1/", "chat", false, "http://h:1/v1/chat/completions", "http://h:1/v1", "http://h:1" },
                { "127.0.0.1:8091", NULL, true, "http://127.0.0.1:8091/v1/chat/completions", "http://127.0.0.1:8091/v1",
                  "http://127.0.0.1:8091" },
                { "https://h/v1/", NULL, false, "https://h/v1/completions", "https://h/v1", "https://h" },
                { "http://h/v1/chat/completions", NULL, false, "http://h/v1/chat/completions", "http://h/v1",
                  "http://h" },
                { "http://h/v1/completions", NULL, true, "http://h/v1/completions", "http://h/v1", "http://h" },
                { "http://h/openai/chat/completions", NULL, false, "http://h/openai/chat/completions",
                  "http://h/openai", NULL },
                { "http://h/v1/completions", "chat", false, NULL, NULL, NULL },
                { "http://h/v1/chat/completions", "completions", false, NULL, NULL, NULL },
                { "unix:///run/x.sock", NULL, false, "unix:///run/x.sock:/v1/completions", "unix:///run/x.sock:/v1",
                  "unix:///run/x.sock:" },
                { "unix:///run/x.sock:/v1", NULL, false, "unix:///run/x.sock:/v1/completions", "unix:///run/x.sock:/v1",
                  "unix:///run/x.sock:" },
                { "unix:///run/x.sock?a=b", NULL, false, "unix:///run/x.sock:/v1/completions?a=b",
                  "unix:///run/x.sock:/v1", "unix:///run/x.sock:" },
                { "http://[::1]:8000", NULL, false, "http://[::1]:8000/v1/completions", "http://[::1]:8000/v1",
                  "http://[::1]:8000" },
                { "http://h/openai?api-version=1&k=/v1#top", "chat", false,
                  "http://h/openai/v1/chat/completions?api-version=1&k=/v1", "http://h/openai/v1", "http://h/openai" },
                { "http://h/v1/completions/?a=b", NULL, false, "http://h/v1/completions?a=b", "http://h/v1",
                  "http://h" },
                { "ftp://h", NULL, false, NULL, NULL, NULL },
                { "", NULL, false, NULL, NULL, NULL },
        };
        struct infp_load_target target;
        struct infp_err err = { "" };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                int r = infp_load_target_init(&target, cases[i].given, cases[i].endpoint, cases[i].messages, &err);

                if (!cases[i].url) {
                        assert_int_equal(r, -EINVAL);
                        continue;
                }
                if (r < 0)
                        fail_msg("%s: %s", cases[i].given, err.text);
                assert_string_equal(target.endpoint, cases[i].url);
                assert_string_equal(target.api, cases[i].api);
                assert_string_equal(target.root ? target.root : "none", cases[i].root ? cases[i].root : "none");
                assert_int_equal(target.is_chat, strstr(cases[i].url, "/chat/") != NULL);
                infp_load_target_done(&target);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(constant_arrivals), cmocka_unit_test(poisson_arrivals),
                cmocka_unit_test(random_range),      cmocka_unit_test(waiting_is_first_in_first_out),
                cmocka_unit_test(prompt_files),      cmocka_unit_test(word_bodies),
                cmocka_unit_test(file_bodies),       cmocka_unit_test(targets)
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
