/* Whether code objects are still those of which names are known: the check of unwind/python/check.h, of a whole stack at once. */
#pragma once

#include <stdint.h>
#include <sys/uio.h>

#include "ring/wire.h"
#include "unwind/python/check.h"

enum { INFP_AGENT_CHECK_TEXTS = INFP_WIRE_FRAMES * INFP_PYTHON_CHECK_TEXTS };

struct infp_agent_checks {
        uint32_t n;
        uint64_t codes[INFP_WIRE_FRAMES]; /* n addresses, which the caller writes */
        uint32_t ret[INFP_WIRE_FRAMES];
        /* What is read. */
        uint64_t words[INFP_WIRE_FRAMES][INFP_PYTHON_CHECK_WORDS];
        uint64_t addresses[INFP_AGENT_CHECK_TEXTS];
        struct infp_python_check_text texts[INFP_AGENT_CHECK_TEXTS];
        uint64_t ends[INFP_AGENT_CHECK_TEXTS];
        struct iovec remote[INFP_AGENT_CHECK_TEXTS];
};

/* By at most three calls of the kernel. Returns how many of the checks could be made, from the first on. errno stays. */
uint32_t infp_agent_checks_make(struct infp_agent_checks *checks, const struct infp_python_layout *layout,
                                const struct infp_python_check *check);
