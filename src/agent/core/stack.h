/* The stack of a thread: its frames of code, and the frames of Python of the same moment. */
#pragma once

#include "agent/core/moment.h"
#include "agent/core/python.h"
#include "unwind/walk.h"

enum {
        INFP_AGENT_STACK_MOST =
                248 * 1024,      /* of a stack: what one call of the kernel copies, of pages that are not whole too */
        INFP_AGENT_RULES = 4096, /* cached ones of each area */
        INFP_AGENT_WAYS = 64,    /* likewise */
};

struct infp_agent_walk {
        uint64_t epoch; /* of the tables */
        uint32_t n;
        uint8_t flags; /* what is missing */
        bool has_tables;
        bool is_unmapped;           /* the next caller is in no mapping that the tables know */
        bool is_python;             /* the interpreter's loop is among the frames */
        struct infp_agent_way *way; /* NULL: none is kept of it */
};

/* A walk that was made. Programs allocate from the same places again and again: to see that all that the walk depended on is the same takes a
 * tenth of its time. */
struct infp_agent_way {
        uint32_t space; /* its id; 0: none */
        uint32_t reach; /* bytes from the stack pointer on in which the trail has words */
        /* Where it was written without frames of Python, in the writer's file of that number; stack 0: nowhere. */
        uint32_t file_number, stack;
        uint64_t registers[INFP_N_REGISTERS];
        struct infp_unwind_trail trail;
        struct infp_agent_walk walk;
        uint64_t native[INFP_UNWIND_TRAIL];
};

/* What a walk works with: memory of a work area, zeroed when it is new. */
struct infp_agent_stack {
        struct infp_unwind_cache cache; /* entries NULL: not used yet */
        struct infp_unwind_cached rules[INFP_AGENT_RULES];
        struct infp_agent_way ways[INFP_AGENT_WAYS];
        uint32_t n_ways; /* that were kept, ever */
        struct infp_unwind_frame frames[INFP_WIRE_FRAMES];
        uint64_t native[INFP_WIRE_FRAMES];
        struct infp_agent_python python;
        struct infp_agent_moment moment; /* the one that is walked */
        uint8_t dump[INFP_AGENT_STACK_MOST];
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
