#include "load/chunk.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"

/* No server has counted so many: their sums fit. */
static const int64_t most_tokens = INT64_C(1) << 40;

struct cursor {
        const char *at, *end;
};

struct text {
        const char *at;
        size_t size;
};

static bool is_blank(char c)
{
        return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static char look(struct cursor *c)
{
        while (c->at < c->end && is_blank(*c->at))
                c->at++;
        return c->at < c->end ? *c->at : 0;
}

/* As it stands between its quotes: escapes are left as they are. */
static bool take_string(struct cursor *c, struct text *ret)
{
        const char *start, *quote;

        if (look(c) != '"')
                return false;
        start = c->at + 1;
        for (quote = start; (quote = memchr(quote, '"', (size_t) (c->end - quote))); quote++) {
                const char *before = quote;

                while (before > start && before[-1] == '\\')
                        before--;
                if ((quote - before) % 2 == 0)
                        break;
        }
        if (!quote)
                return false;
        *ret = (struct text){ start, (size_t) (quote - start) };
        c->at = quote + 1;
        return true;
}

/* A number, true, false, null. */
static bool take_word(struct cursor *c, struct text *ret)
{
        const char *start;

        look(c);
        start = c->at;
        while (c->at < c->end && !is_blank(*c->at) && !strchr(",:]}[{\"", *c->at))
                c->at++;
        *ret = (struct text){ start, (size_t) (c->at - start) };
        return ret->size > 0;
}

/* Steps over one value. Whether brackets match in kind is not looked at. */
static bool skip_value(struct cursor *c)
{
        unsigned depth = 0;
        struct text text;

        do {
                switch (look(c)) {
                case '"':
                        if (!take_string(c, &text))
                                return false;
                        break;
                case '{':
                case '[':
                        depth++;
                        c->at++;
                        break;
                case '}':
                case ']':
                        if (!depth--)
                                return false;
                        c->at++;
                        break;
                case ',':
                case ':':
                        if (!depth)
                                return false;
                        c->at++;
                        break;
                default:
                        if (!take_word(c, &text))
                                return false;
                }
        } while (depth);
        return true;
}

typedef bool member(struct cursor *c, struct text key, struct infp_chunk *ret);

static bool is(struct text text, const char *word)
{
        return text.size == strlen(word) && !memcmp(text.at, word, text.size);
}

/* `take` takes the value of each member. What is no object is stepped over. */
static bool take_object(struct cursor *c, member *take, struct infp_chunk *ret)
{
        struct text key;

        if (look(c) != '{')
                return skip_value(c);
        c->at++;
        if (look(c) == '}') {
                c->at++;
                return true;
        }
        for (;;) {
                if (!take_string(c, &key) || look(c) != ':')
                        return false;
                c->at++;
                if (!take(c, key, ret))
                        return false;
                switch (look(c)) {
                case ',':
                        c->at++;
                        continue;
                case '}':
                        c->at++;
                        return true;
                default:
                        return false;
                }
        }
}

static bool take_list(struct cursor *c, bool (*take)(struct cursor *c, struct infp_chunk *ret), struct infp_chunk *ret)
{
        if (look(c) != '[')
                return skip_value(c);
        c->at++;
        if (look(c) == ']') {
                c->at++;
                return true;
        }
        for (;;) {
                if (!take(c, ret))
                        return false;
                switch (look(c)) {
                case ',':
                        c->at++;
                        continue;
                case ']':
                        c->at++;
                        return true;
                default:
                        return false;
                }
        }
}

static bool take_count(struct cursor *c, int64_t *ret)
{
        struct text word;

        if (look(c) && strchr("{[\"", *c->at))
                return skip_value(c);
        if (!take_word(c, &word))
                return false;
        if (infp_parse_i64(word.at, word.size, ret) < 0 || *ret < 0 || *ret > most_tokens)
                *ret = -1;
        return true;
}

/* A text, or a list, that is not empty. */
static bool take_content(struct cursor *c, struct infp_chunk *ret)
{
        const char *start;
        struct text text;

        if (look(c) == '"') {
                if (!take_string(c, &text))
                        return false;
                ret->has_text |= text.size > 0;
                return true;
        }
        if (look(c) == '[') {
                start = c->at;
                if (!skip_value(c))
                        return false;
                for (start++; start < c->at - 1 && is_blank(*start);)
                        start++;
                ret->has_text |= start < c->at - 1;
                return true;
        }
        return skip_value(c);
}

static bool of_delta(struct cursor *c, struct text key, struct infp_chunk *ret)
{
        static const char *const seen[] = { "content", "reasoning_content", "reasoning", "tool_calls", "refusal" };

        for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++)
                if (is(key, seen[i]))
                        return take_content(c, ret);
        return skip_value(c);
}

static bool of_choice(struct cursor *c, struct text key, struct infp_chunk *ret)
{
        struct text reason;

        if (is(key, "text"))
                return take_content(c, ret);
        if (is(key, "delta") || is(key, "message"))
                return take_object(c, of_delta, ret);
        if (!is(key, "finish_reason") || look(c) != '"')
                return skip_value(c);
        if (!take_string(c, &reason))
                return false;
        if (reason.size >= sizeof(ret->finish_reason))
                reason.size = sizeof(ret->finish_reason) - 1;
        memcpy(ret->finish_reason, reason.at, reason.size);
        ret->finish_reason[reason.size] = 0;
        return true;
}

static bool take_choice(struct cursor *c, struct infp_chunk *ret)
{
        ret->has_choice = true;
        return take_object(c, of_choice, ret);
}

static bool of_details(struct cursor *c, struct text key, struct infp_chunk *ret)
{
        return is(key, "cached_tokens") ? take_count(c, &ret->cached_tokens) : skip_value(c);
}

static bool of_usage(struct cursor *c, struct text key, struct infp_chunk *ret)
{
        if (is(key, "prompt_tokens"))
                return take_count(c, &ret->prompt_tokens);
        if (is(key, "completion_tokens"))
                return take_count(c, &ret->output_tokens);
        if (is(key, "prompt_tokens_details"))
                return take_object(c, of_details, ret);
        return skip_value(c);
}

/* null, false, "", 0, {} and [] say that there is no error, as some servers do with each chunk. */
static bool take_error(struct cursor *c, bool *ret)
{
        static const char *const none[] = { "null", "false", "\"\"", "0" };
        struct text value = { .at = NULL };

        look(c);
        value.at = c->at;
        if (!skip_value(c))
                return false;
        value.size = (size_t) (c->at - value.at);
        for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
                if (is(value, none[i]))
                        return true;
        if (*value.at == '{' || *value.at == '[') {
                struct cursor inside = { value.at + 1, c->at };

                *ret |= look(&inside) != '}' && look(&inside) != ']';
        } else
                *ret = true;
        return true;
}

static bool of_top(struct cursor *c, struct text key, struct infp_chunk *ret)
{
        struct text text;

        if (is(key, "choices"))
                return take_list(c, take_choice, ret);
        if (is(key, "usage"))
                return take_object(c, of_usage, ret);
        if (is(key, "error"))
                return take_error(c, &ret->is_error);
        if (!is(key, "object") || look(c) != '"')
                return skip_value(c);
        if (!take_string(c, &text))
                return false;
        ret->is_error |= is(text, "error");
        return true;
}

int infp_chunk_read(const char *data, size_t size, struct infp_chunk *ret)
{
        struct cursor c = { data, data + size };

        *ret = (struct infp_chunk){ .prompt_tokens = -1, .cached_tokens = -1, .output_tokens = -1 };
        while (size && is_blank(data[size - 1]))
                size--;
        ret->is_done = is((struct text){ data, size }, "[DONE]");
        if (ret->is_done)
                return 0;
        if (look(&c) != '{' || !take_object(&c, of_top, ret) || look(&c) || c.at < c.end)
                return -EBADMSG;
        return 0;
}
