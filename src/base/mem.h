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

/* Makes room for one more item in an array of n items and capacity cap: a full array grows to twice its capacity, or to `first` items
 * when it has none. False when there is no memory; the array is then unchanged. array and cap are variables, n has no side effects; new
 * memory is not cleared. */
#define INFP_MAKE_ROOM(array, n, cap, first)                                                                   \
        __extension__({                                                                                        \
                if ((n) >= (cap)) {                                                                            \
                        const size_t cap_ = (cap) ? 2 * (size_t) (cap) : (first);                              \
                        const bool fits_ = (__typeof__(cap)) cap_ > (cap);                                     \
                        __typeof__(array) grown_ = fits_ ? reallocarray(array, cap_, sizeof(*(array))) : NULL; \
                        if (grown_) {                                                                          \
                                (array) = grown_;                                                              \
                                (cap) = (__typeof__(cap)) cap_;                                                \
                        }                                                                                      \
                }                                                                                              \
                (n) < (cap);                                                                                   \
        })

/* The same of an array without a capacity, all of whose items came this way: it holds the next power of two of n. */
#define INFP_ONE_MORE(array, n)                                                                     \
        __extension__({                                                                             \
                __typeof__(array) grown_ = (array);                                                 \
                if (((n) & ((n) -1)) == 0) {                                                        \
                        grown_ = reallocarray(array, (n) ? 2 * (size_t) (n) : 1, sizeof(*(array))); \
                        (array) = grown_ ? grown_ : (array);                                        \
                }                                                                                   \
                grown_ != NULL;                                                                     \
        })

#define INFP_COUNT(array) (sizeof(array) / sizeof((array)[0]))
