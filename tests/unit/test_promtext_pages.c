/* The reader of metric pages: what servers really send (../shared/fixtures), and what people were bitten by. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "promtext_show.h"

#include "base/fd.h"
#include "skip_because.h"

static ssize_t read_shared(const char *name, char **ret)
{
        infp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        const char *top = getenv("INFP_FIXTURES");
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/../../../shared/fixtures/%s", top ? top : "tests/fixtures", name);
        if (access(path, R_OK) != 0)
                SKIP_BECAUSE("../shared/fixtures is not here");
        return infp_read_all_at(top ? root : AT_FDCWD, path, 16 << 20, ret);
}

/* What to look for on a page: by the whole line that `show` makes. */
static void captured_pages(void **state)
{
        static const struct {
                const char *name;
                unsigned n_samples;
                const char *lines[8];
        } cases[] = {
                { "engines/vllm-0.32.0/metrics-load.prom",
                  457,
                  { "vllm:num_requests_running{engine=0,model_name=tiny} gauge/value 4.0 help ",
                    "vllm:prompt_tokens_total{engine=0,model_name=tiny} counter/value 4369.0 help ",
                    "vllm:request_success_total{engine=0,finished_reason=length,model_name=tiny} counter/value 17.0 "
                    "help ",
                    "vllm:iteration_tokens_total_sum{engine=0,model_name=tiny} histogram/sum 5301.0 of "
                    "vllm:iteration_tokens_total help ",
                    "vllm:iteration_tokens_total_created{engine=0,model_name=tiny} histogram/created "
                    "1795830105.4812334 of ",
                    "vllm:time_to_first_token_seconds_bucket{engine=0,le=0.5,model_name=tiny} histogram/bucket 12.0 le "
                    "0.5 of ",
                    "vllm:time_to_first_token_seconds_sum{engine=0,model_name=tiny} histogram/sum 36.870060443878174 "
                    "of " } },
                { "engines/vllm-0.32.0/metrics-idle.prom", 410, { NULL } },
                { "engines/vllm-0.32.0/metrics-after.prom", 457, { NULL } },
                { "engines/vllm-0.32.0/metrics-load2.prom", 457, { NULL } },
                { "engines/vllm-0.32.0/metrics-prefix-after.prom", 457, { NULL } },
                { "engines/vllm-0.32.0/metrics-prefix-load.prom", 457, { NULL } },
                { "engines/vllm-0.32.0/metrics-smallkv-after.prom", 427, { NULL } },
                { "engines/vllm-0.32.0/metrics-smallkv-load.prom", 425, { NULL } },
                { "engines/vllm-0.32.0/metrics-smallkv-load2.prom", 425, { NULL } },
                { "engines/llamacpp-b10434/metrics-load.prom",
                  15,
                  { "llamacpp:tokens_predicted_seconds_total counter/value 29.2321 help ",
                    "llamacpp:n_tokens_max counter/value 258.0 help ",
                    "llamacpp:requests_deferred gauge/value 4.0 help " } },
                { "engines/llamacpp-b10434/metrics-idle.prom", 15, { NULL } },
                { "engines/llamacpp-b10434/metrics-after.prom", 15, { NULL } },
                { "engines/llamacpp-b10434/metrics-load2.prom", 15, { NULL } },
                { "engines/llamacpp-b11434/metrics-load.prom", 15, { NULL } },
                { "engines/llamacpp-b11434/metrics-load2.prom", 15, { NULL } },
                { "engines/llamacpp-b11434/metrics-idle.prom", 15, { NULL } },
                { "engines/llamacpp-b11434/metrics-after.prom", 15, { NULL } },
                { "engines/ray-serve-2.60.0/metrics-load.prom",
                  435,
                  { ",le=1.0,namespace=(LongPollNamespace.DEPLOYMENT_CONFIG, Deployment(name='Embed', app='default')),"
                    "otel_scope_name=ray._private.telemetry.open_telemetry_metric_recorder,otel_scope_schema_url=,"
                    "otel_scope_version=} histogram/bucket 0.0 le 1.0 of ray_serve_long_poll_latency_ms help " } },
                { "engines/ray-serve-2.60.0/metrics-idle.prom", 242, { NULL } },
                { "engines/ray-serve-2.60.0/metrics-after.prom", 434, { NULL } },
                { "engines/mlserver-1.7.1/metrics-load.prom",
                  65,
                  { "model_infer_request_duration_sum{model=sinsum,version=None} summary/sum 2.9608623429994623 of ",
                    "model_infer_request_duration_created{model=sinsum,version=None} summary/created 1795830434.460145 "
                    "of ",
                    "rest_server_request_duration_seconds_bucket{app_name=mlserver,le=+Inf,method=POST,"
                    "path=/v2/models/{model_name}/infer,status_code=200} histogram/bucket 11.0 le inf of " } },
                { "engines/mlserver-1.7.1/metrics-idle.prom", 37, { NULL } },
                { "engines/mlserver-1.7.1/metrics-after.prom", 85, { NULL } },
                { "reports/12-minus-nan-from-an-idle-engine/idle.prom",
                  10,
                  { "llamacpp:n_busy_slots_per_decode counter/value nan help ",
                    "llamacpp:prompt_tokens_seconds gauge/value nan help ",
                    "llamacpp:predicted_tokens_seconds gauge/value -inf help ",
                    "llamacpp:requests_deferred gauge/value 0.0 help " } },
                { "reports/12-minus-nan-from-an-idle-engine/busy.prom",
                  10,
                  { "llamacpp:prompt_tokens_total counter/value 1250.0 help ",
                    "llamacpp:n_busy_slots_per_decode counter/value 3.75 help " } },
                { "reports/13-hostile-label-values/page.prom",
                  6,
                  { "{model_name=C:\\models\\qwen \"q4\",engine=0} gauge/value 4.0 at 1788000000123000000 help text "
                    "with \\ and \n in it,",
                    "{engine=1,model_name=a,b}c{d=\"e\" # 9} gauge/value 7.0 help ",
                    "{model_name=line\none,engine=0} gauge/value 2.0\n", "{model_name=,engine=1} gauge/value 3.0\n",
                    "{model_name=tab\tand \\n stays,engine=0} counter/value 1500.0\n",
                    "vllm:prompt_tokens_total counter/value 600.0\n" } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str shown = { 0 };
                infp_autofree char *text = NULL;
                struct infp_prom_page page;
                ssize_t size = read_shared(cases[i].name, &text);

                assert_true(size > 0);
                assert_int_equal(parse(text, (size_t) size, false, &shown, &page, NULL), 0);
                assert_int_equal(page.n_bad_lines, 0);
                assert_true(page.ends_in_line);
                if (page.n_samples != cases[i].n_samples)
                        fail_msg("%s: %u samples", cases[i].name, (unsigned) page.n_samples);
                for (unsigned k = 0; k < INFP_COUNT(cases[i].lines) && cases[i].lines[k]; k++)
                        if (!strstr(shown.data, cases[i].lines[k]))
                                fail_msg("%s: no line %s", cases[i].name, cases[i].lines[k]);
        }
}

/* Nothing else on vLLM's page that looks like a time is taken for a value, but the one that is. */
static int no_birth(void *context, const struct infp_prom_sample *sample)
{
        (void) context;
        if (sample->part != INFP_PROM_CREATED && sample->value > 1.7e9 && sample->value < 1.9e9 &&
            memcmp(sample->name.at, "process_start_time_seconds", 26) != 0)
                fail_msg("%.*s", (int) sample->name.size, sample->name.at);
        return 0;
}

static void births_are_no_values(void **state)
{
        struct infp_promtext *parser = infp_promtext_new();
        infp_autofree char *text = NULL;
        struct infp_prom_page page;
        ssize_t size = read_shared("engines/vllm-0.32.0/metrics-idle.prom", &text);

        (void) state;
        assert_true(size > 0);
        assert_int_equal(infp_promtext_parse(parser, text, (size_t) size, false, no_birth, NULL, &page, NULL), 0);
        infp_promtext_free(parser);
}

/* The body of an answer of report 14. */
static void cut_pages(void **state)
{
        static const struct {
                const char *name, *last;
                bool header, ends_in_line, has_eof;
                unsigned n;
        } cases[] = {
                { "good", "counter/value 48213.0\n", false, true, false, 3 },
                { "short", "counter/value 91500.0\n", false, false, false, 2 },
                { "http10", "counter/value 91500.0\n", false, false, false, 2 },
                { "noeof", "counter/value 48213.0\n", true, true, false, 3 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str shown = { 0 };
                infp_autofree char *text = NULL;
                struct infp_prom_page page;
                char name[256];
                const char *body;

                snprintf(name, sizeof(name), "reports/14-page-cut-in-the-middle-of-a-number/%s.http", cases[i].name);
                assert_true(read_shared(name, &text) > 0);
                body = strstr(text, "\n\n") ? strstr(text, "\n\n") + 2 : strstr(text, "\r\n\r\n") + 4;
                assert_int_equal(parse(body, strlen(body), cases[i].header, &shown, &page, NULL), 0);
                assert_int_equal(page.n_samples, cases[i].n);
                assert_int_equal(page.ends_in_line, cases[i].ends_in_line);
                assert_int_equal(page.has_eof, cases[i].has_eof);
                assert_int_equal(page.is_openmetrics, cases[i].header);
                assert_string_equal(shown.data + shown.size - strlen(cases[i].last), cases[i].last);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(captured_pages),
                cmocka_unit_test(births_are_no_values),
                cmocka_unit_test(cut_pages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
