/* Only for the files mask*.c: what is secret within one argument. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define INFP_MASK_STARS "***"

/* Where the masked text goes; what does not fit is dropped. */
struct infp_mask_out {
        char *at;
        size_t size, cap;
        bool cut;
};

/* One argument while it is searched. */
struct infp_mask_argument {
        const char *s;
        size_t size;
        bool header; /* it is the value of curl's -H: what stands behind the first colon is the value */
        bool script; /* a shell's -c: many words in one argument */
};

void infp_mask_put(struct infp_mask_out *out, const char *s, size_t size);
/* Writes the argument with its secrets masked. */
void infp_mask_argument(const struct infp_mask_argument *a, struct infp_mask_out *out);
/* --name or -x at i, not a value that begins with a dash. */
bool infp_mask_is_option(const struct infp_mask_argument *a, size_t i);

static inline bool infp_mask_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Those of <ctype.h> depend on the locale. */
static inline bool infp_mask_letter(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool infp_mask_alnum(char c)
{
        return infp_mask_letter(c) || (c >= '0' && c <= '9');
}

static inline bool infp_mask_name_char(char c)
{
        return infp_mask_alnum(c) || c == '_' || c == '-' || c == '.';
}

static inline char infp_mask_at(const struct infp_mask_argument *a, size_t i)
{
        return i < a->size ? a->s[i] : 0;
}

static inline bool infp_mask_starts(const struct infp_mask_argument *a, size_t i, const char *text)
{
        size_t n = strlen(text);

        return i <= a->size && n <= a->size - i && memcmp(a->s + i, text, n) == 0;
}
