/* Texts by number, each stored once. Number 0 is no text. Pointers are valid until done. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

enum { INFP_STRING_MOST = 8192 }; /* bytes of a text; longer ones are cut, at a character, and end in "..." */

struct infp_strings {
        const char **texts;
        uint32_t n, cap;
        struct infp_map by_hash;
        struct infp_strings_chunk *chunks;
        size_t bytes, most_bytes; /* of the chunks; most_bytes 0: no bound */
};

/* A zeroed struct is empty. Texts end at a zero byte. 0 for an empty text; -ENOMEM; -ENOSPC at the bound. */
int infp_strings_add(struct infp_strings *strings, const char *text, size_t size, uint32_t *ret);
const char *infp_strings_get(const struct infp_strings *strings, uint32_t number); /* NULL for 0 */
/* The stored text itself; NULL for NULL, and where there is no room. */
const char *infp_strings_keep(struct infp_strings *strings, const char *text);
void infp_strings_done(struct infp_strings *strings);
