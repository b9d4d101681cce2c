/* Counting (interpose.c) for the stub's other functions: operators.c and maps.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes until this thread's next sample: they change when a function of the allocator counts a block. */
int64_t infp_heap_left(void);
/* A block that the allocator gave without a call of malloc. NULL: nothing was given. */
void infp_heap_count(void *block, size_t size);
/* It is about to go. */
void infp_heap_gone(const void *block);
