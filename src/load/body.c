#include "load/body.h"

#include <math.h>

#include "base/json.h"
#include "base/mem.h"
#include "load/random.h"

static void put_messages(struct infp_json *json, const char *text, size_t size)
{
        infp_json_array(json);
        infp_json_object(json);
        infp_json_key(json, "role");
        infp_json_str(json, "user");
        infp_json_key(json, "content");
        infp_json_strn(json, text, size);
        infp_json_object_end(json);
        infp_json_array_end(json);
}

static void put_prompt(struct infp_json *json, bool is_chat, const struct infp_prompt *prompt)
{
        infp_json_key(json, is_chat ? "messages" : "prompt");
        if (prompt->is_messages)
                infp_json_raw(json, prompt->text, prompt->size);
        else if (is_chat)
                put_messages(json, prompt->text, prompt->size);
        else
                infp_json_strn(json, prompt->text, prompt->size);
}

static void put_words(struct infp_json *json, const struct infp_load_options *options, uint64_t number, uint64_t n)
{
        const struct infp_words words = {
                .seed = options->seed, .number = number, .shared = options->shared_prefix, .n = n
        };
        infp_autostr struct infp_str text = { 0 };

        infp_words_put(&words, &text);
        put_prompt(json, options->is_chat,
                   &(struct infp_prompt){ .text = text.data ? text.data : "", .size = text.size });
        if (text.failed)
                json->out->failed = true;
}

static void put_stream(struct infp_json *json, const struct infp_load_options *options)
{
        infp_json_key(json, "stream");
        infp_json_bool(json, !options->no_stream);
        if (options->no_stream)
                return;
        infp_json_key(json, "stream_options");
        infp_json_object(json);
        infp_json_key(json, "include_usage");
        infp_json_bool(json, true);
        infp_json_object_end(json);
}

void infp_load_body(const struct infp_load_options *options, uint64_t number, struct infp_str *out,
                    int64_t *ret_max_tokens)
{
        struct infp_random random = { options->seed + number * UINT64_C(0xa0761d6478bd642f) };
        const uint64_t n_in = infp_random_between(&random, options->input_tokens.low, options->input_tokens.high);
        const uint64_t n_out = infp_random_between(&random, options->output_tokens.low, options->output_tokens.high);
        struct infp_json json;

        *ret_max_tokens = (int64_t) n_out;
        infp_json_begin(&json, out, 0);
        infp_json_object(&json);
        if (options->model) {
                infp_json_key(&json, "model");
                infp_json_str(&json, options->model);
        }
        if (options->prompts) {
                const struct infp_prompt *prompt = &options->prompts->list[number % options->prompts->n];

                put_prompt(&json, options->is_chat, prompt);
                if (prompt->max_tokens >= 0)
                        *ret_max_tokens = prompt->max_tokens;
        } else
                put_words(&json, options, number, n_in);
        infp_json_key(&json, "max_tokens");
        infp_json_i64(&json, *ret_max_tokens);
        put_stream(&json, options);
        if (!isnan(options->temperature)) {
                infp_json_key(&json, "temperature");
                infp_json_f64(&json, options->temperature);
        }
        if (options->ignore_eos) {
                infp_json_key(&json, "ignore_eos");
                infp_json_bool(&json, true);
        }
        infp_json_object_end(&json);
        if (options->extra && out->size) { /* after the rest: of two members with one name the last counts */
                out->size--;
                infp_str_putc(out, ',');
                infp_str_puts(out, options->extra);
                infp_str_putc(out, '}');
        }
}
