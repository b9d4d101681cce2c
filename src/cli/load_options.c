#include "cli/load_options.h"
#include "base/human.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/time.h"
#include "cli/record_options.h"

enum { DEFAULT_CONCURRENCY = 4, DEFAULT_SECONDS = 20, DEFAULT_INPUT = 128, DEFAULT_OUTPUT = 64 };
static const uint64_t max_concurrency = 1 << 16, max_tokens = 1 << 22;
static const uint64_t default_grace_ns = 30 * INFP_NS_PER_S, default_timeout_ns = 600 * INFP_NS_PER_S;

// clang-format off
const struct infp_option infp_load_option_table[] = {
        { 0, "url", "URL", "the same as the operand: the server (http://127.0.0.1:8000) or the endpoint", false },
        { 0, "endpoint", "NAME", "chat or completions (default: from the URL, else completions; chat if prompts are messages)", false },
        { 'm', "model", "NAME", "model name (default: the first that the server lists)", false },
        { 'c', "concurrency", "N", "requests in flight: a closed loop of N users (default 4); with --rate, the maximum", false },
        { 0, "rate", "R", "an open loop: R requests a second, whether or not earlier ones have finished", false },
        { 0, "arrival", "NAME", "arrivals of the open loop: poisson or constant (default poisson)", false },
        { 'n', "requests", "N", "stop after N requests", false },
        { 0, "duration", "TIME", "send no new requests after this time (default 20s, unless --requests is given)", false },
        { 0, "grace", "TIME", "then wait this long for requests in flight (default 30s)", false },
        { 0, "timeout", "TIME", "timeout of one request (default 600s)", false },
        { 0, "prompts", "FILE", "one prompt per line, or JSON Lines with \"prompt\" or \"messages\", and \"max_tokens\"", false },
        { 0, "input-tokens", "N[..M]", "without a file: prompts of about N random tokens (default 128)", false },
        { 0, "output-tokens", "N[..M]", "tokens to generate (default 64)", false },
        { 0, "shared-prefix", "N", "first N words that all prompts share (default 0)", false },
        { 0, "seed", "N", "seed for prompts, lengths and arrivals: the same seed repeats the load (default 0)", false },
        { 0, "ignore-eos", NULL, "generate past end-of-sequence", false },
        { 0, "temperature", "T", "sampling temperature (default: the server's)", false },
        { 0, "extra", "JSON", "JSON object whose members are added to each request", false },
        { 0, "no-stream", NULL, "do not stream: no time to first token", false },
        { 0, "token-file", "FILE", "send the first line of this file as bearer token", false },
        { 0, "engine-token", "FILE", "the same as --token-file", false, "token-file" },
        { 'H', "header", "LINE", "also send this header (\"Name: value\"); may be repeated", true },
        { 0, "warmup", "N", "send N requests first that do not count (default 0)", false },
        { 0, "wait", "TIME", "wait this long for the server to become ready (default 0s)", false },
        { 0, "goodput", "NAME:MS", "count requests within ttft:MS, tpot:MS, e2el:MS; may be repeated", true },
        { 0, "name", "NAME", "name of this load in table requests (default: its start time)", false },
        { 'r', "run", "RUN", "live run that gets the requests (default: the run that started this process, else the newest live run of this server, else a new run)", false },
        { 'o', "output", "DIR", "directory of a new run (default ./profiler-output)", false },
        { 0, "no-record", NULL, "do not record the requests, only print the summary", false },
        { 0, "json", NULL, "print the summary as one JSON object", false },
        { 0 },
};
// clang-format on

/* Leaves *ret unchanged if the option is not given. */
static int take_u64(const struct infp_arguments *arguments, const char *name, uint64_t low, uint64_t high,
                    uint64_t *ret, struct infp_err *err)
{
        const char *value = infp_argument(arguments, name);
        uint64_t v;

        if (!value)
                return 0;
        if (infp_parse_u64(value, strlen(value), &v) < 0 || v < low || v > high)
                return infp_fail(err, -EINVAL, "--%s %s: it must be a whole number from %llu to %llu", name, value,
                                 (unsigned long long) low, (unsigned long long) high);
        *ret = v;
        return 0;
}

static int take_duration(const struct infp_arguments *arguments, const char *name, uint64_t *ret, struct infp_err *err)
{
        const char *value = infp_argument(arguments, name);

        if (value && infp_parse_duration(value, ret) < 0)
                return infp_fail(err, -EINVAL, "--%s %s: not a duration; write it like 20s, 5m or 500ms", name, value);
        return 0;
}

static int take_range(const struct infp_arguments *arguments, const char *name, struct infp_load_range *ret,
                      struct infp_err *err)
{
        const char *value = infp_argument(arguments, name), *dots;
        uint64_t low, high;

        if (!value)
                return 0;
        dots = strstr(value, "..");
        if (infp_parse_u64(value, dots ? (size_t) (dots - value) : strlen(value), &low) < 0)
                low = 0;
        if (!dots)
                high = low;
        else if (infp_parse_u64(dots + 2, strlen(dots + 2), &high) < 0)
                high = 0;
        if (low < 1 || high < low || high > max_tokens)
                return infp_fail(err, -EINVAL, "--%s %s: it must be a number from 1 on, or a range such as 64..256",
                                 name, value);
        *ret = (struct infp_load_range){ low, high };
        return 0;
}

static int take_number(const struct infp_arguments *arguments, const char *name, double low, double high, double *ret,
                       struct infp_err *err)
{
        const char *value = infp_argument(arguments, name);
        double v;

        if (!value)
                return 0;
        if (infp_parse_f64(value, strlen(value), &v) < 0 || !(v >= low && v <= high))
                return infp_fail(err, -EINVAL, "--%s %s: it must be a number from %s to %s", name, value,
                                 infp_number(low).text, infp_number(high).text);
        *ret = v;
        return 0;
}

static int take_goal(const char *text, struct infp_requests_goals *goals, struct infp_err *err)
{
        const struct {
                const char *name;
                uint64_t *ns;
        } all[] = { { "ttft", &goals->ttft_ns }, { "tpot", &goals->tpot_ns }, { "e2el", &goals->e2e_ns } };
        const char *colon = strchr(text, ':');
        double ms;

        for (size_t i = 0; colon && i < sizeof(all) / sizeof(*all); i++)
                if ((size_t) (colon - text) == strlen(all[i].name) &&
                    !memcmp(text, all[i].name, (size_t) (colon - text)) &&
                    infp_parse_f64(colon + 1, strlen(colon + 1), &ms) == 0 && ms > 0 && ms < 1e12) {
                        *all[i].ns = (uint64_t) llround(ms * 1e6);
                        return 0;
                }
        return infp_fail(err, -EINVAL, "--goodput %s: it must be ttft:MS, tpot:MS or e2el:MS", text);
}

/* Repeated options and operands: one URL; after --goodput further goals, as in other benchmarks. */
static int take_lists(const struct infp_arguments *arguments, struct infp_load_wishes *ret, struct infp_err *err)
{
        unsigned n = 0;

        for (size_t i = 0; i < arguments->n_given; i++) {
                const struct infp_given *given = &arguments->given[i];

                if (!strcmp(given->option->name, "goodput"))
                        INFP_TRY(take_goal(given->value, &ret->goals, err));
                if (strcmp(given->option->name, "header"))
                        continue;
                if (n == INFP_LOAD_HEADERS)
                        return infp_fail(err, -EINVAL, "more than %d headers", INFP_LOAD_HEADERS);
                INFP_TRY(infp_header_check(given->value, err));
                ret->headers[n++] = given->value;
        }
        ret->url = infp_argument(arguments, "url");
        for (int i = 0; i < arguments->n_rest; i++)
                if (infp_argument_given(arguments, "goodput") && ret->url && strchr(arguments->rest[i], ':') &&
                    !strstr(arguments->rest[i], "://"))
                        INFP_TRY(take_goal(arguments->rest[i], &ret->goals, err));
                else if (ret->url)
                        return infp_fail(err, -EINVAL, "one URL at a time: %s or %s", ret->url, arguments->rest[i]);
                else
                        ret->url = arguments->rest[i];
        if (!ret->url)
                return infp_fail(err, -EINVAL, "it needs the URL of a server, such as http://127.0.0.1:8000");
        return 0;
}

static int take_loop(const struct infp_arguments *arguments, struct infp_load_wishes *ret, struct infp_err *err)
{
        struct infp_load_options *load = &ret->load;
        const char *arrival = infp_argument(arguments, "arrival");
        uint64_t concurrency = 0, timeout_ns = default_timeout_ns;

        INFP_TRY(take_u64(arguments, "concurrency", 1, max_concurrency, &concurrency, err));
        INFP_TRY(take_number(arguments, "rate", 1e-6, 1e6, &load->rate, err));
        INFP_TRY(take_u64(arguments, "requests", 1, UINT64_C(1) << 40, &load->n_requests, err));
        INFP_TRY(take_duration(arguments, "duration", &load->duration_ns, err));
        INFP_TRY(take_duration(arguments, "grace", &load->grace_ns, err));
        INFP_TRY(take_duration(arguments, "timeout", &timeout_ns, err));
        INFP_TRY(take_duration(arguments, "wait", &ret->wait_ns, err));
        INFP_TRY(take_u64(arguments, "warmup", 0, 1 << 20, &ret->n_warmup, err));
        if (arrival && strcmp(arrival, "poisson") && strcmp(arrival, "constant"))
                return infp_fail(err, -EINVAL, "--arrival %s: it must be poisson or constant", arrival);
        if (arrival && load->rate <= 0)
                return infp_fail(err, -EINVAL, "--arrival needs --rate (an open loop)");
        if (infp_argument_given(arguments, "duration") && !load->duration_ns)
                return infp_fail(err, -EINVAL, "--duration must be more than 0");
        if (timeout_ns < INFP_NS_PER_MS || timeout_ns / INFP_NS_PER_MS > INT32_MAX)
                return infp_fail(err, -EINVAL, "--timeout must be from 1ms to 24 days");
        load->is_constant = arrival && !strcmp(arrival, "constant");
        load->concurrency = concurrency ? (unsigned) concurrency : load->rate > 0 ? 0 : DEFAULT_CONCURRENCY;
        load->timeout_ms = (uint32_t) (timeout_ns / INFP_NS_PER_MS);
        if (!load->n_requests && !load->duration_ns)
                load->duration_ns = DEFAULT_SECONDS * INFP_NS_PER_S;
        return 0;
}

static int take_extra(const char *text, struct infp_load_wishes *ret, struct infp_err *err)
{
        json_error_t error;
        json_t *root = json_loads(text, 0, &error);
        char *words = json_is_object(root) && json_object_size(root) ? json_dumps(root, JSON_COMPACT) : NULL;

        json_decref(root);
        if (!words)
                return infp_fail(err, -EINVAL,
                                 "--extra %s: it must be a JSON object with members, such as "
                                 "'{\"top_k\": 1}'",
                                 text);
        words[strlen(words) - 1] = 0;
        ret->extra = strdup(words + 1);
        free(words);
        ret->load.extra = ret->extra;
        return ret->extra ? 0 : infp_fail(err, -ENOMEM, "not enough memory");
}

static int take_prompts(const struct infp_arguments *arguments, struct infp_load_wishes *ret, struct infp_err *err)
{
        const char *path = infp_argument(arguments, "prompts"), *extra = infp_argument(arguments, "extra");
        struct infp_load_options *load = &ret->load;

        INFP_TRY(take_range(arguments, "input-tokens", &load->input_tokens, err));
        INFP_TRY(take_range(arguments, "output-tokens", &load->output_tokens, err));
        INFP_TRY(take_u64(arguments, "shared-prefix", 0, max_tokens, &load->shared_prefix, err));
        INFP_TRY(take_u64(arguments, "seed", 0, UINT64_MAX, &load->seed, err));
        INFP_TRY(take_number(arguments, "temperature", 0, 100, &load->temperature, err));
        if (path && (infp_argument_given(arguments, "input-tokens") || load->shared_prefix))
                return infp_fail(err, -EINVAL, "--prompts FILE or prompts of --input-tokens words, not both");
        if (load->shared_prefix > load->input_tokens.low)
                return infp_fail(err, -EINVAL, "--shared-prefix %llu is longer than a prompt (--input-tokens %llu)",
                                 (unsigned long long) load->shared_prefix, (unsigned long long) load->input_tokens.low);
        if (extra)
                INFP_TRY(take_extra(extra, ret, err));
        if (!path)
                return 0;
        INFP_TRY(infp_prompts_read(path, &ret->prompts, err));
        load->prompts = &ret->prompts;
        if (ret->prompts.has_messages && ret->endpoint && strcmp(ret->endpoint, "chat"))
                return infp_fail(err, -EINVAL, "%s has messages: they need --endpoint chat", path);
        return 0;
}

static int take_words(const struct infp_arguments *arguments, struct infp_load_wishes *ret, struct infp_err *err)
{
        const char *name = infp_argument(arguments, "name");

        ret->endpoint = infp_argument(arguments, "endpoint");
        ret->model = infp_argument(arguments, "model");
        ret->is_json = infp_argument_given(arguments, "json");
        ret->record = (struct infp_load_record_options){ .notices = &infp_said,
                                                         .output = infp_argument(arguments, "output"),
                                                         .run = infp_argument(arguments, "run"),
                                                         .no_record = infp_argument_given(arguments, "no-record") };
        ret->load.ignore_eos = infp_argument_given(arguments, "ignore-eos");
        ret->load.no_stream = infp_argument_given(arguments, "no-stream");
        ret->load.token_file = infp_argument(arguments, "token-file");
        ret->load.name = name && *name ? name : ret->name;
        if (ret->endpoint && strcmp(ret->endpoint, "chat") && strcmp(ret->endpoint, "completions"))
                return infp_fail(err, -EINVAL, "--endpoint %s: it must be chat or completions", ret->endpoint);
        if (ret->record.no_record && (ret->record.run || ret->record.output))
                return infp_fail(err, -EINVAL, "--no-record cannot be combined with --run or --output");
        if (ret->record.run && ret->record.output)
                return infp_fail(err, -EINVAL, "give either --run (a live run) or --output (a new run)");
        return 0;
}

int infp_load_wishes_read(const struct infp_arguments *arguments, struct infp_load_wishes *ret, struct infp_err *err)
{
        *ret = (struct infp_load_wishes){
                .load = { .temperature = NAN,
                          .input_tokens = { DEFAULT_INPUT, DEFAULT_INPUT },
                          .output_tokens = { DEFAULT_OUTPUT, DEFAULT_OUTPUT },
                          .grace_ns = default_grace_ns,
                          .headers = ret->headers,
                          .stop_fd = -1 },
        };
        snprintf(ret->name, sizeof(ret->name), "%llu",
                 (unsigned long long) (infp_clock_ns(CLOCK_REALTIME) / INFP_NS_PER_MS));
        INFP_TRY(take_words(arguments, ret, err));
        INFP_TRY(take_lists(arguments, ret, err));
        INFP_TRY(take_loop(arguments, ret, err));
        return take_prompts(arguments, ret, err);
}

void infp_load_wishes_done(struct infp_load_wishes *wishes)
{
        infp_prompts_done(&wishes->prompts);
        free(wishes->extra);
        wishes->extra = NULL;
}
