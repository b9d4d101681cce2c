/* Pieces of text of a file that is imported: borrowed, not ended by 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* data NULL: none. */
struct infp_import_text {
        const char *data;
        size_t size;
};

/* Of a C string, NULL too. */
static inline struct infp_import_text infp_import_text(const char *text)
{
        return (struct infp_import_text){ text, text ? strlen(text) : 0 };
}

/* What lies from `at` to its end, and what lies before `end`. */
static inline struct infp_import_text infp_import_from(struct infp_import_text text, const char *at)
{
        return (struct infp_import_text){ at, (size_t) (text.data + text.size - at) };
}

static inline struct infp_import_text infp_import_upto(struct infp_import_text text, const char *end)
{
        return (struct infp_import_text){ text.data, (size_t) (end - text.data) };
}

static inline bool infp_import_is(struct infp_import_text text, const char *word)
{
        return text.size == strlen(word) && !memcmp(text.data, word, text.size);
}

static inline bool infp_import_begins(struct infp_import_text text, const char *with)
{
        return text.size >= strlen(with) && !memcmp(text.data, with, strlen(with));
}

static inline bool infp_import_ends(struct infp_import_text text, const char *with)
{
        return text.size >= strlen(with) && !memcmp(text.data + text.size - strlen(with), with, strlen(with));
}

/* Cuts an end off, where it has it. */
static inline bool infp_import_cut(struct infp_import_text *text, const char *end)
{
        if (!infp_import_ends(*text, end))
                return false;
        text->size -= strlen(end);
        return true;
}

static inline bool infp_import_is_blank(char c)
{
        return c == ' ' || c == '\t';
}

static inline struct infp_import_text infp_import_trim(struct infp_import_text text)
{
        while (text.size && infp_import_is_blank(text.data[0])) {
                text.data++;
                text.size--;
        }
        while (text.size && infp_import_is_blank(text.data[text.size - 1]))
                text.size--;
        return text;
}

/* The last place of c in the text, or NULL. */
static inline const char *infp_import_last(struct infp_import_text text, char c)
{
        /* Tests both: with sanitizers gcc 12 assumes NULL in texts that are not empty. */
        return text.data && text.size ? memrchr(text.data, c, text.size) : NULL;
}

/* Takes a hexadecimal number off the text, and the blanks before it. False: there is none, or it has more than 16 digits. */
static inline bool infp_import_hex(struct infp_import_text *text, uint64_t *ret)
{
        size_t at = 0, begin;
        uint64_t v = 0;

        while (at < text->size && infp_import_is_blank(text->data[at]))
                at++;
        for (begin = at; at < text->size; at++) {
                const char c = text->data[at];
                const int digit = c >= '0' && c <= '9'                     ? c - '0'
                                  : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                           : -1;

                if (digit < 0)
                        break;
                v = v << 4 | (uint64_t) digit;
        }
        if (at == begin || at - begin > 16)
                return false;
        *text = infp_import_from(*text, text->data + at);
        *ret = v;
        return true;
}

/* Takes the next word off the text, and the blanks before it; an empty one where there is none. */
static inline struct infp_import_text infp_import_word(struct infp_import_text *text)
{
        struct infp_import_text ret = infp_import_trim(*text);
        size_t n = 0;

        while (n < ret.size && !infp_import_is_blank(ret.data[n]))
                n++;
        *text = infp_import_from(ret, ret.data + n);
        ret.size = n;
        return ret;
}

/* The part after the last slash of a path. */
static inline struct infp_import_text infp_import_base(struct infp_import_text path)
{
        const char *slash = infp_import_last(path, '/');

        return slash ? infp_import_from(path, slash + 1) : path;
}

/* The next line of the first bytes of a file, without its end; the last one may be cut short. False: there is none. */
static inline bool infp_import_head_line(struct infp_import_text *head, struct infp_import_text *ret)
{
        const char *end = head->size ? memchr(head->data, '\n', head->size) : NULL;

        if (!head->size)
                return false;
        *ret = end ? infp_import_upto(*head, end) : *head;
        *head = infp_import_from(*head, head->data + ret->size + (end != NULL));
        infp_import_cut(ret, "\r");
        return true;
}
