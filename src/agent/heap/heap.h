/* Samples blocks of the heap as they are allocated, by bytes, and says when they are freed. */
#pragma once

#include <stdint.h>

/* Before anything makes the ring file, whose head says what it samples. */
void infp_agent_heap_announce(uint64_t least);
/* least: bytes between two samples, on average; most: so many at most, where a thread's samples would take too much of its time. least 1: every block is counted (exact.h), and most is the number of the recorder. tables: the
 * directory of unwind tables. Nothing is done where the allocator functions are not preloaded. */
void infp_agent_heap_begin(uint64_t least, uint64_t most, const char *tables);
