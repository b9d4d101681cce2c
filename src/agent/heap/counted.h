/* Counting (interpose.c) for the stub's other functions: operators.c and mappings.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Changes when a function of the allocator counts a block of this thread. */
int64_t infp_heap_left(void);
/* A block that the allocator gave without a call of malloc. NULL: nothing was given. */
void infp_heap_count(void *block, size_t size);
/* The agent is at work in this thread. */
bool infp_heap_is_busy(void);
/* What the program has mapped itself. */
void infp_heap_mapped(uint64_t address, uint64_t size);
/* It is about to go. */
void infp_heap_gone(const void *block);
