/* Rooms in which signal handlers work: a handler may neither use the heap nor much of the stack that it was called on. There are as
 * many as threads may be in a handler at the same time; who finds none gives up. Only what is used of them takes memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { INFP_AGENT_AREAS = 64, INFP_AGENT_STACK_BYTES = 64 * 1024 };

int infp_agent_areas_make(size_t bytes); /* zeroed memory of each; 0 or -ENOMEM */
void infp_agent_areas_reset(void);       /* in a child of fork: the threads that held some are not there */

/* Calls work(memory, context) on a stack of its own. False: all rooms are taken. */
bool infp_agent_area_work(void (*work)(void *memory, void *context), void *context);
