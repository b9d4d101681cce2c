/* Counts allocations of this program: by the hooks of a sanitizer's allocator, else in front of glibc's. For one test file. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

static _Atomic unsigned long n_mallocs;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNT_BY_SANITIZER 1
#endif

#ifdef COUNT_BY_SANITIZER
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *));

static void note_malloc(const volatile void *p, size_t size)
{
        (void) p;
        (void) size;
        n_mallocs++;
}

static void note_free(const volatile void *p)
{
        (void) p;
}

__attribute__((constructor)) static void begin_counting(void)
{
        __sanitizer_install_malloc_and_free_hooks(note_malloc, note_free);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size)
{
        n_mallocs++;
        return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
        n_mallocs++;
        return __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t size)
{
        n_mallocs++;
        return __libc_realloc(p, size);
}
#endif
