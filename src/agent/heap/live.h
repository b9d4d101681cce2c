/* The sampled blocks that are alive: address -> id. Any thread, also in a signal handler; nothing waits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/heap/hooks.h"

int infp_agent_live_make(struct infp_preload_heap *hooks); /* 0 or -ENOMEM; hooks: stays */
/* id: not 0. False: there is no room. */
bool infp_agent_live_put(uint64_t address, uint64_t id);
uint64_t infp_agent_live_take(uint64_t address); /* its id, and it is no longer there; 0: it is not */
