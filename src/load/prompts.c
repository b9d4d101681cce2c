#include "load/prompts.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/load.h"
#include "load/random.h"

enum { FILE_MAX = 512 << 20, READ_SIZE = 64 << 10 };

void infp_prompts_done(struct infp_prompts *prompts)
{
        for (size_t i = 0; i < prompts->n; i++)
                free(prompts->list[i].text);
        free(prompts->list);
        *prompts = (struct infp_prompts){ 0 };
}

/* Consumes prompt->text. */
static int add(struct infp_prompts *prompts, const struct infp_prompt *prompt, struct infp_err *err)
{
        if (!prompt->text || !INFP_MAKE_ROOM(prompts->list, prompts->n, prompts->cap, 64)) {
                free(prompt->text);
                return infp_fail(err, -ENOMEM, "not enough memory for the prompts");
        }
        prompts->has_messages |= prompt->is_messages;
        prompts->list[prompts->n++] = *prompt;
        return 0;
}

static int add_plain(struct infp_prompts *prompts, const char *line, size_t size, const char *where,
                     struct infp_err *err)
{
        const struct infp_prompt prompt = { .text = strndup(line, size), .size = size, .max_tokens = -1 };

        for (size_t i = 0; i < size;) {
                unsigned n = infp_utf8_length(line + i, size - i);

                if (!n || !line[i]) {
                        free(prompt.text);
                        return infp_fail(err, -EBADMSG, "%s: byte %zu is not UTF-8 text; a prompt is one line of text",
                                         where, i + 1);
                }
                i += n;
        }
        return add(prompts, &prompt, err);
}

static int take_object(struct infp_prompts *prompts, json_t *root, const char *where, struct infp_err *err)
{
        json_t *text = json_object_get(root, "prompt"), *messages = json_object_get(root, "messages"),
               *max = json_object_get(root, "max_tokens");
        struct infp_prompt prompt = { .max_tokens = -1 };

        if (max && !json_is_null(max)) {
                if (!json_is_integer(max) || json_integer_value(max) < 1)
                        return infp_fail(err, -EBADMSG, "%s: \"max_tokens\" must be an integer from 1 on", where);
                prompt.max_tokens = json_integer_value(max);
        }
        if (json_is_string(text)) {
                prompt.text = strdup(json_string_value(text));
        } else if (json_is_array(messages) && json_array_size(messages)) {
                prompt.text = json_dumps(messages, JSON_COMPACT);
                prompt.is_messages = true;
        } else {
                return infp_fail(err, -EBADMSG, "%s: it needs \"prompt\" (a text) or \"messages\" (a list)", where);
        }
        prompt.size = prompt.text ? strlen(prompt.text) : 0;
        return add(prompts, &prompt, err);
}

static int add_json(struct infp_prompts *prompts, const char *line, size_t size, const char *where,
                    struct infp_err *err)
{
        json_error_t error;
        json_t *root = json_loadb(line, size, 0, &error);
        int r;

        if (!json_is_object(root))
                r = infp_fail(err, -EBADMSG,
                              "%s: not a JSON object (%s); the file is read as JSON Lines because it begins with '{'",
                              where, root ? "another value" : error.text);
        else
                r = take_object(prompts, root, where, err);
        json_decref(root);
        return r;
}

static bool is_blank(const char *line, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!strchr(" \t\r\f\v", line[i]) || !line[i])
                        return false;
        return true;
}

static int take_lines(struct infp_prompts *prompts, const char *path, const char *text, size_t size,
                      struct infp_err *err)
{
        bool is_json = false;
        unsigned long number = 0;
        char where[300];

        for (const char *at = text, *end = text + size; at < end;) {
                const char *lf = memchr(at, '\n', (size_t) (end - at));
                size_t n = (size_t) ((lf ? lf : end) - at);
                const char *line = at;

                at += n + (lf != NULL);
                number++;
                if (is_blank(line, n))
                        continue;
                if (line[n - 1] == '\r')
                        n--;
                if (prompts->n == 0)
                        is_json = line[strspn(line, " \t")] == '{'; /* it is not blank: strspn ends within */
                snprintf(where, sizeof(where), "%.250s, line %lu", path, number);
                INFP_TRY(is_json ? add_json(prompts, line, n, where, err) : add_plain(prompts, line, n, where, err));
        }
        if (!prompts->n)
                return infp_fail(err, -EBADMSG, "%s has no prompt: every line is blank", path);
        return 0;
}

/* Also pipes: a file of prompts is often made on the way. */
static int read_all(int fd, struct infp_str *ret)
{
        ssize_t n;

        do {
                if (!infp_str_reserve(ret, READ_SIZE))
                        return -ENOMEM;
                n = read(fd, ret->data + ret->size, READ_SIZE);
                if (n > 0)
                        ret->size += (size_t) n;
                if (ret->size > FILE_MAX)
                        return -EFBIG;
        } while (n > 0 || (n < 0 && errno == EINTR));
        return n < 0 ? -errno : 0;
}

int infp_prompts_read(const char *path, struct infp_prompts *ret, struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };
        infp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : read_all(fd, &text);

        *ret = (struct infp_prompts){ 0 };
        if (r < 0)
                return infp_fail_errno(err, r, "cannot read the prompts %s", path);
        r = take_lines(ret, path, text.data ? text.data : "", text.size, err);
        if (r < 0)
                infp_prompts_done(ret);
        return r;
}

/* Common words, since tokenizers have those as one token with the blank before them. */
static const char *const words_list[] = {
        "the",   "of",     "and",   "to",      "in",    "is",    "that",    "for",    "it",    "as",      "was",
        "with",  "be",     "by",    "on",      "not",   "he",    "this",    "are",    "or",    "his",     "from",
        "at",    "which",  "but",   "have",    "an",    "had",   "they",    "you",    "were",  "their",   "one",
        "all",   "we",     "can",   "her",     "has",   "there", "been",    "if",     "more",  "when",    "will",
        "would", "who",    "so",    "no",      "she",   "other", "its",     "may",    "these", "what",    "them",
        "than",  "some",   "him",   "time",    "into",  "only",  "do",      "such",   "my",    "new",     "about",
        "out",   "also",   "two",   "any",     "up",    "first", "could",   "our",    "then",  "most",    "see",
        "me",    "should", "after", "said",    "your",  "very",  "between", "made",   "many",  "over",    "like",
        "those", "did",    "now",   "even",    "well",  "where", "must",    "people", "state", "through", "how",
        "same",  "work",   "being", "because", "man",   "life",  "before",  "each",   "much",  "under",   "years",
        "way",   "great",  "world", "own",     "still", "used",  "day",     "part",   "might", "use",     "water",
        "house", "night",  "light", "number",  "place", "long",  "small",   "end",    "hand",  "high",    "large",
};
enum { N_WORDS = INFP_COUNT(words_list) };

static void put_words(struct infp_str *out, uint64_t seed, uint64_t n)
{
        struct infp_random random = { seed };

        for (uint64_t i = 0; i < n; i++) {
                if (out->size)
                        infp_str_putc(out, ' ');
                infp_str_puts(out, words_list[infp_random_between(&random, 0, N_WORDS - 1)]);
        }
}

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

/* n words, each a token or so to most tokenizers (the server's own count is what is reported). shared_prefix of them are the same for
 * every number, the others depend on seed and number alone. */
static void put_random_words(struct infp_json *json, const struct infp_load_options *options, uint64_t number,
                             uint64_t n)
{
        struct infp_random own = { options->seed ^ (number + 1) * UINT64_C(0xd1342543de82ef95) };
        const uint64_t shared = options->shared_prefix < n ? options->shared_prefix : n;
        infp_autostr struct infp_str text = { 0 };

        put_words(&text, options->seed, shared);
        put_words(&text, infp_random_next(&own), n - shared);
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
                put_random_words(&json, options, number, n_in);
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
