#include "base/json/json.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

void infp_json_begin(struct infp_json *json, struct infp_str *out, unsigned indent)
{
        *json = (struct infp_json){ .out = out, .indent = indent, .first = { true } };
}

static void new_line(struct infp_json *json)
{
        infp_str_putc(json->out, '\n');
        for (unsigned i = 0; i < json->indent * json->depth; i++)
                infp_str_putc(json->out, ' ');
}

/* What must stand before the next key, or before a value that follows no key. */
static void separate(struct infp_json *json)
{
        bool *first = &json->first[json->depth];

        if (json->after_key) {
                json->after_key = false;
                return;
        }
        if (json->depth == 0) {
                if (!*first)
                        infp_str_putc(json->out, '\n'); /* JSON Lines */
        } else {
                if (!*first)
                        infp_str_putc(json->out, ',');
                if (json->indent > 0)
                        new_line(json);
        }
        *first = false;
}

static void open_level(struct infp_json *json, char bracket)
{
        separate(json);
        infp_str_putc(json->out, bracket);
        if (json->depth + 1 >= INFP_COUNT(json->first)) {
                json->out->failed = true; /* deeper than any shape of ours: no text rather than a wrong one */
                return;
        }
        json->first[++json->depth] = true;
}

static void close_level(struct infp_json *json, char bracket)
{
        bool empty = json->first[json->depth];

        if (json->depth > 0)
                json->depth--;
        if (!empty && json->indent > 0)
                new_line(json);
        infp_str_putc(json->out, bracket);
}

void infp_json_object(struct infp_json *json)
{
        open_level(json, '{');
}

void infp_json_object_end(struct infp_json *json)
{
        close_level(json, '}');
}

void infp_json_array(struct infp_json *json)
{
        open_level(json, '[');
}

void infp_json_array_end(struct infp_json *json)
{
        close_level(json, ']');
}

void infp_json_key(struct infp_json *json, const char *key)
{
        separate(json);
        infp_json_quote(json->out, key, strlen(key));
        infp_str_puts(json->out, json->indent > 0 ? ": " : ":");
        json->after_key = true;
}

void infp_json_strn(struct infp_json *json, const char *text, size_t size)
{
        separate(json);
        infp_json_quote(json->out, text, size);
}

void infp_json_str(struct infp_json *json, const char *text)
{
        infp_json_strn(json, text, strlen(text));
}

void infp_json_i64(struct infp_json *json, int64_t v)
{
        separate(json);
        infp_str_i64(json->out, v);
}

void infp_json_u64(struct infp_json *json, uint64_t v)
{
        separate(json);
        infp_str_u64(json->out, v);
}

void infp_json_f64(struct infp_json *json, double v)
{
        separate(json);
        if (isfinite(v))
                infp_str_f64(json->out, v);
        else
                infp_str_puts(json->out, "null");
}

void infp_json_bool(struct infp_json *json, bool v)
{
        separate(json);
        infp_str_puts(json->out, v ? "true" : "false");
}

void infp_json_null(struct infp_json *json)
{
        separate(json);
        infp_str_puts(json->out, "null");
}

void infp_json_member_str(struct infp_json *json, const char *key, const char *text)
{
        infp_json_key(json, key);
        if (text)
                infp_json_str(json, text);
        else
                infp_json_null(json);
}

void infp_json_member_i64(struct infp_json *json, const char *key, int64_t v)
{
        infp_json_key(json, key);
        infp_json_i64(json, v);
}

void infp_json_member_u64(struct infp_json *json, const char *key, uint64_t v)
{
        infp_json_key(json, key);
        infp_json_u64(json, v);
}

void infp_json_member_f64(struct infp_json *json, const char *key, double v)
{
        infp_json_key(json, key);
        infp_json_f64(json, v);
}

void infp_json_member_bool(struct infp_json *json, const char *key, bool v)
{
        infp_json_key(json, key);
        infp_json_bool(json, v);
}

void infp_json_raw(struct infp_json *json, const char *text, size_t size)
{
        separate(json);
        infp_str_put(json->out, text, size);
}

static void put_control(struct infp_str *out, unsigned char c)
{
        static const char hex[] = "0123456789abcdef";
        static const char short_forms[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r' };
        char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

        if (c < sizeof(short_forms) && short_forms[c]) {
                text[1] = short_forms[c];
                infp_str_put(out, text, 2);
        } else {
                infp_str_put(out, text, 6);
        }
}

/* JSON allows them as they are, but a terminal that shows the text obeys them. */
static void put_wide_control(struct infp_str *out, const unsigned char *s, unsigned length)
{
        infp_str_printf(out, "\\u%04x",
                        length == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                                    : (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu));
}

static bool is_plain(unsigned char c)
{
        return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

void infp_json_quote(struct infp_str *out, const char *text, size_t size)
{
        infp_str_putc(out, '"');
        for (size_t i = 0, plain; i < size;) {
                unsigned length;

                /* The usual text in one piece. */
                for (plain = i; plain < size && is_plain((unsigned char) text[plain]);)
                        plain++;
                infp_str_put(out, text + i, plain - i);
                i = plain;
                if (i == size)
                        break;
                length = infp_utf8_length(text + i, size - i);
                if (length == 0) {
                        infp_str_puts(out, "\xef\xbf\xbd");
                        i++;
                } else if (text[i] == '"' || text[i] == '\\') {
                        infp_str_putc(out, '\\');
                        infp_str_putc(out, text[i++]);
                } else if (length == 1) {
                        put_control(out, (unsigned char) text[i++]);
                } else if (infp_utf8_is_control(text + i, length)) {
                        put_wide_control(out, (const unsigned char *) text + i, length);
                        i += length;
                } else {
                        infp_str_put(out, text + i, length);
                        i += length;
                }
        }
        infp_str_putc(out, '"');
}
