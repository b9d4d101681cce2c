/* What the name of a value says about it, and a value alone; for mask.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum infp_mask_name {
        MASK_NO_SECRET,
        MASK_MAYBE_SECRET, /* unless it is a path or one of a few words */
        MASK_IS_SECRET,
};
enum infp_mask_name infp_mask_name(const char *name, size_t size);
bool infp_mask_is_harmless_header(const char *name, size_t size);
bool infp_mask_is_harmless_value(const char *s, size_t size); /* a path, a word: of MASK_MAYBE_SECRET */

/* Those of <ctype.h> depend on the locale. */
static inline bool infp_mask_is_letter(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool infp_mask_is_alnum(char c)
{
        return infp_mask_is_letter(c) || (c >= '0' && c <= '9');
}

static inline bool infp_mask_is_digits(const char *s, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (s[i] < '0' || s[i] > '9')
                        return false;
        return size > 0;
}
