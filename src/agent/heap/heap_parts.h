/* What the files of the heap agent know of each other: sampling (heap.c) for the allocators that call it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/heap/hooks.h"
#include "agent/heap/live.h"
#include "ring/wire.h"

/* As infp_preload_heap's allocated, freed and kept. flags: INFP_WIRE_OBJECT, or 0. */
int64_t infp_agent_heap_allocated(uint64_t address, uint64_t size, int64_t left, bool is_new, uint8_t flags);
/* A part of a block that goes on: a new one, whose mean (and with it its chance) is known. */
void infp_agent_heap_again(uint64_t id, uint64_t address, uint64_t size, uint64_t mean, uint8_t flags);
void infp_agent_heap_freed(uint64_t id);
void infp_agent_heap_kept(uint64_t address, uint64_t id);

/* What the program maps itself (mapped.c). */
void infp_agent_mapped_begin(struct infp_preload_heap *hooks);
/* One that was counted. id: 0: it was not sampled. False: there is no room. */
bool infp_agent_mapped_put(uint64_t address, uint64_t size, uint64_t id, uint64_t mean);
/* Mappings of the code that this function is a part of are not counted. */
void infp_agent_mapped_leave_out(const void *function);
struct infp_agent_moment;
struct infp_agent_stack;
struct infp_agent_walk;
struct infp_writer_thread;

/* The id of a stack that was walked, without our own frames; 0: it found no room. */
uint32_t infp_agent_heap_stack(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                               const struct infp_agent_walk *walked, struct infp_writer_thread *thread);
/* What is mapped may have changed since the tables were made; the recorder then has newer ones. */
void infp_agent_heap_look_for_tables(struct infp_wire_head *head);

/* Functions of allocators that have names of their own (allocators.c): once, after mapped_begin. */
void infp_agent_allocators_begin(struct infp_preload_heap *hooks);

/* Python's own allocators (objects.c): wraps them, once, before the interpreter begins. */
void infp_agent_heap_objects_begin(struct infp_preload_heap *hooks, bool is_free_threaded);
