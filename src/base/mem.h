/* Ownership by attribute: one exit path a function. Destructors take NULL and half-made objects. */
#pragma once

#include <stdbool.h>
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

/* Room for one more item after the n that an array of `cap` holds: where there is none it is doubled, from `first` items on. True, or
 * false: no memory, and all is as it was. The first three are variables; new memory is not cleared. */
#define INFP_MAKE_ROOM(array, n, cap, first)                                                    \
        __extension__({                                                                         \
                if ((n) >= (cap)) {                                                             \
                        const size_t cap_ = (cap) ? 2 * (size_t) (cap) : (first);               \
                        __typeof__(array) grown_ = reallocarray(array, cap_, sizeof(*(array))); \
                        if (grown_) {                                                           \
                                (array) = grown_;                                               \
                                (cap) = (__typeof__(cap)) cap_;                                 \
                        }                                                                       \
                }                                                                               \
                (n) < (cap);                                                                    \
        })

#define INFP_COUNT(array) (sizeof(array) / sizeof((array)[0]))
