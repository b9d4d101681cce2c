/* What the files of the heap agent know of each other: sampling (heap.c) for the allocators that call it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/heap/hooks.h"
#include "agent/heap/live.h"
#include "ring/wire.h"

/* As infp_preload_heap's allocated, freed and kept. flags: INFP_WIRE_OBJECT, or 0. */
int64_t infp_agent_heap_allocated(uint64_t address, uint64_t size, int64_t left, bool is_new, uint8_t flags);
void infp_agent_heap_freed(uint64_t id);
void infp_agent_heap_kept(uint64_t address, uint64_t id);

/* Python's own allocators (objects.c): wraps them, once, before the interpreter begins. */
void infp_agent_heap_objects_begin(struct infp_preload_heap *hooks, bool is_free_threaded);
