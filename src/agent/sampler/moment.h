/* What is known of a moment of a thread before its stack is walked. Where the tables do not know the code that is at work yet (a library
 * that was just opened), it is kept until there are newer ones: a stack with a hole in it would be a wrong one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ring/wire.h"
#include "unwind/rule.h"

enum { INFP_AGENT_DUMP = 32 * 1024 };

struct infp_agent_moment {
        uint64_t t_ns;
        uint32_t tid, cpu, periods, n_python, dump_size;
        uint8_t flags; /* enum infp_wire_flags */
        uint64_t registers[INFP_N_REGISTERS];
        struct infp_wire_python python[INFP_WIRE_FRAMES];
        uint8_t dump[INFP_AGENT_DUMP]; /* of the stack, from its pointer on */
};

int infp_agent_moments_make(void);   /* 0 or -ENOMEM */
void infp_agent_moments_reset(void); /* in a child of fork: they are its parent's */
/* Copies it. False: there is no room. */
bool infp_agent_moment_keep(const struct infp_agent_moment *moment);
/* Gives those that were kept while there were tables of another number, or for too long. */
void infp_agent_moments_give(uint64_t number, uint64_t now_ns,
                             void (*give)(void *context, const struct infp_agent_moment *moment), void *context);
