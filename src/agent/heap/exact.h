/* Counts every block of the heap: sums a stack (struct infp_wire_site), which lie in the ring file, so that its reader has them up to the last moment
 * of the process, however that ended. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/heap/hooks.h"

/* Waits until the recorder (its number; as this process sees it) has given unwind tables, for 3 s at most. False: there is no memory. */
bool infp_agent_exact_begin(struct infp_preload_heap *hooks, int32_t recorder, bool has_python);
void infp_agent_exact_forked(void); /* in a child of fork */

/* As infp_preload_heap's allocated, taken, freed and kept. */
int64_t infp_agent_exact_allocated(uint64_t address, uint64_t size);
uint64_t infp_agent_exact_taken(uint64_t address);
void infp_agent_exact_freed(uint64_t id);
void infp_agent_exact_kept(uint64_t address, uint64_t id);
