/* The stack of a thread: its frames of code, and the frames of Python of the same moment. */
#pragma once

#include "agent/core/moment.h"
#include "agent/core/python.h"
#include "unwind/walk.h"

enum {
        INFP_AGENT_STACK_MOST =
                248 * 1024,      /* of a stack: what one call of the kernel copies, of pages that are not whole too */
        INFP_AGENT_RULES = 4096, /* cached ones of each area */
};

/* What a walk works with: memory of a work area, zeroed when it is new. */
struct infp_agent_stack {
        struct infp_unwind_cache cache; /* entries NULL: not used yet */
        struct infp_unwind_cached rules[INFP_AGENT_RULES];
        struct infp_unwind_frame frames[INFP_WIRE_FRAMES];
        uint64_t native[INFP_WIRE_FRAMES];
        struct infp_agent_python python;
        struct infp_agent_moment moment; /* the one that is walked */
        uint8_t dump[INFP_AGENT_STACK_MOST];
};

struct infp_agent_walk {
        uint64_t epoch; /* of the tables */
        uint32_t n;
        uint8_t flags; /* what is missing */
        bool has_tables;
        bool is_unmapped; /* the next caller is in no mapping that the tables know */
        bool is_python;   /* the interpreter's loop is among the frames */
};

/* Once, however often it is called: for all agents of the process. tables: the directory of unwind tables. False: there is no memory, the path is
 * too long, or the kernel does not let the process read its own memory. */
bool infp_agent_stacks_begin(const char *tables);
void infp_agent_stacks_forked(void); /* in a child of fork */

/* Keeps a moment, whose registers are set, until there are tables. False: there is no room. */
bool infp_agent_stack_keep(struct infp_agent_moment *moment);
/* Fills stack->native, the innermost first. Of the thread that calls (is_live) the whole stack can be had; of a moment that was kept what
 * was copied. */
struct infp_agent_walk infp_agent_stack_walk(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                                             bool is_live);
