/* Samples blocks of the heap as they are allocated, by bytes, and says when they are freed. */
#pragma once

#include <stdint.h>

/* mean: bytes between two samples, on average. tables: the directory of unwind tables. Nothing is done where the allocator functions are
 * not preloaded. */
void infp_agent_heap_begin(uint64_t mean, const char *tables);
