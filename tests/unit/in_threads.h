/* Work that is done by several threads at once, each with its number. */
#pragma once

#include <pthread.h>
#include <stdint.h>

/* work returns NULL where all was right. */
static inline void in_threads(uintptr_t n, void *(*work)(void *number))
{
        pthread_t threads[16];
        void *bad;

        assert_in_range(n, 1, 16);
        for (uintptr_t i = 0; i < n; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, work, (void *) i), 0);
        for (uintptr_t i = 0; i < n; i++) {
                assert_int_equal(pthread_join(threads[i], &bad), 0);
                assert_ptr_equal(bad, NULL);
        }
}
