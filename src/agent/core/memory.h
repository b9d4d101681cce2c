/* Memory of this process that may not be there, or go while it is read: copied by the kernel, so that nothing faults. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { INFP_AGENT_PAGE = 4096, INFP_AGENT_PAGES = 4 };

/* Pages that were copied last: what a walk reads lies close together. */
struct infp_agent_memory {
        uint64_t page[INFP_AGENT_PAGES]; /* addresses; 0: none */
        unsigned next;
        uint8_t bytes[INFP_AGENT_PAGES][INFP_AGENT_PAGE];
};

void infp_agent_memory_forget(struct infp_agent_memory *memory);
/* As struct infp_python_memory has it; context is a struct infp_agent_memory. */
int infp_agent_memory_read(void *context, uint64_t address, void *ret_bytes, size_t size);
/* As many of the bytes as can be read, or a negative errno. */
ssize_t infp_agent_memory_copy(uint64_t address, void *ret_bytes, size_t size);
