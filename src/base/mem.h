/* Ownership by attribute: one exit path a function. Destructors take NULL and half-made objects. */
#pragma once

#include <stdlib.h>

static inline void infp_free_ptr_(void *p)
{
        free(*(void **) p);
}

#define infp_autofree __attribute__((cleanup(infp_free_ptr_)))
#define infp_cleanup(function) __attribute__((cleanup(function)))

/* Hands a pointer over: the variable becomes NULL, so that its cleanup does nothing. */
#define INFP_TAKE(pointer)                              \
        __extension__({                                 \
                __typeof__(pointer) taken_ = (pointer); \
                (pointer) = NULL;                       \
                taken_;                                 \
        })

#define INFP_COUNT(array) (sizeof(array) / sizeof((array)[0]))
