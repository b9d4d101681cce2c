/* "Did you mean": the word that was probably meant. */
#pragma once

#include <stddef.h>

/* Counts letters left out, inserted, replaced, or swapped with their neighbour. */
unsigned infp_edit_distance(const char *a, const char *b);

struct infp_nearest {
        const char *word; /* what was typed */
        const char *best; /* NULL: none is near */
        unsigned distance;
};
void infp_nearest_try(struct infp_nearest *nearest, const char *candidate);
