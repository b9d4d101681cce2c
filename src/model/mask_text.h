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
        bool header; /* it is the value of curl's -H, or JSON of headers */
        bool script; /* a shell's -c: many words in one argument */
};

void infp_mask_put(struct infp_mask_out *out, const char *s, size_t size);
/* What a name says about its value. */
enum infp_mask_name {
        MASK_NO_SECRET,
        MASK_MAYBE_SECRET /* unless it is a path or one of a few words */,
        MASK_IS_SECRET
};
enum infp_mask_name infp_mask_name(const char *name, size_t size);
bool infp_mask_is_harmless_header(const char *name, size_t size);
bool infp_mask_is_harmless_value(const char *s, size_t size);

/* What an argument says about the next one. */
enum infp_mask_follow {
        MASK_PLAIN,
        MASK_SECRET,
        MASK_FIRST_SECRET,
        MASK_MORE_SECRETS,
        MASK_MAYBE,
        MASK_HEADER, /* NAME: SECRET */
        MASK_USER,   /* NAME:SECRET */
        MASK_COOKIE, /* NAME=SECRET */
        MASK_SCRIPT,
};
enum infp_mask_follow infp_mask_option(const char *s, size_t size);
/* --option=VALUE, -uVALUE: where VALUE begins; 0: it has none, or it needs no special look. */
size_t infp_mask_attached(const struct infp_mask_argument *a, enum infp_mask_follow *ret);
/* From where on a value is secret; size: nowhere. */
size_t infp_mask_secret_at(enum infp_mask_follow follow, const char *s, size_t size);

/* A token that begins at i: where it ends; i: there is none. */
size_t infp_mask_shape_end(const struct infp_mask_argument *a, size_t i);
/* A PEM block at i: where its content begins, its end in *ret_end; i: there is none. */
size_t infp_mask_pem(const struct infp_mask_argument *a, size_t i, size_t *ret_end);
/* A URL whose host begins there: where the secret of a webhook begins, and its end; 0: it is not one. */
size_t infp_mask_webhook(const struct infp_mask_argument *a, size_t host, size_t *ret_end);

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
