#include "base/json/text.h"

#include <string.h>

#include "base/text.h"

enum { MAX_DEPTH = 64 };

struct check {
        const char *at, *end;
        unsigned depth;
        char closing[MAX_DEPTH]; /* of the open levels: } or ] */
};

static void skip_space(struct check *c)
{
        while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
                c->at++;
}

static bool take(struct check *c, char expected)
{
        if (c->at == c->end || *c->at != expected)
                return false;
        c->at++;
        return true;
}

static bool is_digit(const struct check *c)
{
        return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

static bool take_digits(struct check *c)
{
        if (!is_digit(c))
                return false;
        while (is_digit(c))
                c->at++;
        return true;
}

static bool take_number(struct check *c)
{
        take(c, '-');
        if (!take(c, '0') && !take_digits(c))
                return false;
        if (take(c, '.') && !take_digits(c))
                return false;
        if (take(c, 'e') || take(c, 'E')) {
                if (!take(c, '+'))
                        take(c, '-');
                return take_digits(c);
        }
        return true;
}

static bool take_escape(struct check *c)
{
        if (c->at == c->end)
                return false;
        if (*c->at != 'u')
                return memchr("\"\\/bfnrt", *c->at++, 8) != NULL;
        c->at++;
        for (int i = 0; i < 4; i++, c->at++)
                if (c->at == c->end || !*c->at || !strchr("0123456789abcdefABCDEF", *c->at))
                        return false;
        return true;
}

static bool take_string(struct check *c)
{
        if (!take(c, '"'))
                return false;
        while (c->at < c->end) {
                const unsigned char byte = (unsigned char) *c->at;
                unsigned n;

                if (byte == '"')
                        return take(c, '"');
                if (byte == '\\') {
                        c->at++;
                        if (!take_escape(c))
                                return false;
                        continue;
                }
                n = byte < ' ' ? 0 : byte < 0x80 ? 1 : infp_utf8_length(c->at, (size_t) (c->end - c->at));
                if (!n)
                        return false;
                c->at += n;
        }
        return false;
}

static bool take_word(struct check *c, const char *word)
{
        const size_t size = strlen(word);

        if ((size_t) (c->end - c->at) < size || memcmp(c->at, word, size) != 0)
                return false;
        c->at += size;
        return true;
}

static bool take_key(struct check *c)
{
        skip_space(c);
        if (!take_string(c))
                return false;
        skip_space(c);
        return take(c, ':');
}

static bool take_scalar(struct check *c)
{
        if (c->at == c->end)
                return false;
        switch (*c->at) {
        case '"':
                return take_string(c);
        case 't':
                return take_word(c, "true");
        case 'f':
                return take_word(c, "false");
        case 'n':
                return take_word(c, "null");
        default:
                return take_number(c);
        }
}

/* The beginning of a value: a scalar, or the opening of a level, with its first key. */
static bool take_beginning(struct check *c, bool *ret_is_open)
{
        skip_space(c);
        *ret_is_open = c->at < c->end && (*c->at == '{' || *c->at == '[');
        if (!*ret_is_open)
                return take_scalar(c);
        if (c->depth == MAX_DEPTH)
                return false;
        c->closing[c->depth++] = *c->at++ == '{' ? '}' : ']';
        skip_space(c);
        if (take(c, c->closing[c->depth - 1])) {
                c->depth--;
                *ret_is_open = false;
                return true;
        }
        return c->closing[c->depth - 1] == ']' || take_key(c);
}

bool infp_json_is_valid(const char *text, size_t size)
{
        struct check c = { .at = text, .end = text + size };
        bool is_open;

        for (;;) {
                if (!take_beginning(&c, &is_open))
                        return false;
                if (is_open)
                        continue;
                /* A value has ended: levels may end with it. */
                for (;;) {
                        skip_space(&c);
                        if (!c.depth)
                                return c.at == c.end;
                        if (!take(&c, c.closing[c.depth - 1]))
                                break;
                        c.depth--;
                }
                if (!take(&c, ','))
                        return false;
                if (c.closing[c.depth - 1] == '}' && !take_key(&c))
                        return false;
        }
}

void infp_json_text(struct infp_json *json, const char *text, size_t size)
{
        size_t from = 0;

        if (!infp_json_is_valid(text, size)) {
                infp_json_strn(json, text, size);
                return;
        }
        infp_json_raw(json, "", 0);
        /* Control characters of valid JSON stand between its parts only: one line of JSON Lines stays one. */
        for (size_t i = 0; i <= size; i++)
                if (i == size || (unsigned char) text[i] < ' ') {
                        infp_str_put(json->out, text + from, i - from);
                        from = i + 1;
                }
}
