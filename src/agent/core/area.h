/* Work areas for signal handlers, which may use neither the heap nor much of the stack that they were called on. There are as many as
 * threads may be in a handler at the same time; a handler that finds none free drops its sample. Only what is used of them takes memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { INFP_AGENT_AREAS = 64, INFP_AGENT_STACK_BYTES = 64 * 1024 };

int infp_agent_areas_make(size_t bytes); /* zeroed memory of each; 0 or -ENOMEM */
void infp_agent_areas_reset(void);       /* in a child of fork: the threads that held some are not there */

/* Calls work(memory, context) on a stack of its own. False: all areas are taken, and work was not called. */
bool infp_agent_area_work(void (*work)(void *memory, void *context), void *context);
