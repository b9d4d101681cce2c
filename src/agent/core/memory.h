/* Memory of this process that may not be there, or go while it is read: copied by the kernel, so that nothing faults. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { INFP_AGENT_PAGE = 4096, INFP_AGENT_LINE = 64, INFP_AGENT_LINES = 1024 };

/* A call of the kernel takes as long as the copies of a hundred lines, and a sample reads mostly what those before it have read: that
 * is copied anew as it begins, all by one call. Zeroed when it is new. */
struct infp_agent_memory {
        uint32_t n, next, n_samples; /* next: the line that is likely to be read */
        bool has_gaps, was_full;
        bool is_used[INFP_AGENT_LINES];
        uint64_t lines[INFP_AGENT_LINES];      /* addresses; 0: it cannot be read */
        uint16_t places[2 * INFP_AGENT_LINES]; /* by a hash of their addresses: number + 1 */
        struct iovec pieces[INFP_AGENT_LINES]; /* for a call */
        uint8_t bytes[INFP_AGENT_LINES][INFP_AGENT_LINE];
};

/* Of a sample: all that is read from here on is of this moment. */
void infp_agent_memory_begin(struct infp_agent_memory *memory);
/* As struct infp_python_memory has it; context is a struct infp_agent_memory. */
int infp_agent_memory_read(void *context, uint64_t address, void *ret_bytes, size_t size);
/* As struct infp_python_checks has it; likewise. */
ssize_t infp_agent_memory_gather(void *context, const struct iovec *pieces, unsigned n, void *ret_bytes, size_t size);
/* The same as _read() for what no later sample is going to read. */
int infp_agent_memory_read_once(void *context, uint64_t address, void *ret_bytes, size_t size);
/* As many of the bytes as can be read, or a negative errno. */
ssize_t infp_agent_memory_copy(uint64_t address, void *ret_bytes, size_t size);
