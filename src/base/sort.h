/* qsort(3) of a list that may be empty: it declares its pointer nonnull, so that of NULL and 0 elements the behaviour is undefined,
 * and compilers drop later checks of the pointer. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline void infp_sort(void *list, size_t n, size_t size, int (*compare)(const void *, const void *))
{
        if (n > 1)
                qsort(list, n, size, compare);
}

static inline void infp_sort_r(void *list, size_t n, size_t size, int (*compare)(const void *, const void *, void *),
                               void *context)
{
        if (n > 1)
                qsort_r(list, n, size, compare, context);
}

/* Lists of structs whose first member is an int32_t (a pid, as a rule), and of bare ones. */
static inline int infp_compare_i32(const void *a, const void *b)
{
        const int32_t x = *(const int32_t *) a, y = *(const int32_t *) b;

        return (x > y) - (x < y);
}

/* Of a list in that order: the index of the first with at least this key; n when there is none. */
static inline size_t infp_first_i32(const void *list, size_t n, size_t size, int32_t key)
{
        size_t low = 0, high = n;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (*(const int32_t *) (const void *) ((const char *) list + middle * size) < key)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* The item with this key, or NULL. */
static inline void *infp_find_i32(const void *list, size_t n, size_t size, int32_t key)
{
        const size_t i = infp_first_i32(list, n, size, key);
        const char *at = i < n ? (const char *) list + i * size : NULL;

        return at && *(const int32_t *) (const void *) at == key ? (void *) (uintptr_t) at : NULL;
}
