/* qsort(3) of a list that may be empty: it declares its pointer nonnull, so that of NULL and 0 elements the behaviour is undefined,
 * and compilers drop later checks of the pointer. */
#pragma once

#include <stddef.h>
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
