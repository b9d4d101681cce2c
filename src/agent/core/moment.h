/* What is known of a moment of a thread before its stack is walked. Where the tables do not know the code that is at work yet (a library
 * that was just opened), it is kept until there are newer ones: a stack with a hole in it would be a wrong one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ring/wire.h"
#include "unwind/rule.h"

enum { INFP_AGENT_DUMP = 32 * 1024 };

struct infp_agent_stack;
struct infp_agent_walk;
struct infp_writer_thread;

struct infp_agent_moment {
        /* Writes the record of what happened. */
        void (*put)(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                    const struct infp_agent_walk *walked, struct infp_writer_thread *thread);
        struct {
                uint64_t id, address, size, mean;
                uint8_t flags; /* enum infp_wire_flags */
        } block;               /* that was allocated */
        uint64_t t_ns;
        uint32_t tid, cpu, periods, n_python, dump_size;
        uint8_t flags;  /* enum infp_wire_flags */
        bool is_cut;    /* the stack goes on above what was copied */
        bool may_recur; /* of a call, not of an interrupt: the next one may come from the same place */
        uint64_t registers[INFP_N_REGISTERS];
        struct infp_wire_python python[INFP_WIRE_FRAMES];
        uint8_t dump[INFP_AGENT_DUMP]; /* of the stack, from its pointer on */
};

int infp_agent_moments_make(void);   /* 0 or -ENOMEM */
void infp_agent_moments_reset(void); /* in a child of fork: they are its parent's */
/* Copies it. False: there is no room. */
bool infp_agent_moment_keep(const struct infp_agent_moment *moment);
/* Walks and puts those that were kept while there were tables of another number, or for too long, at most so many; last: all. Between begin and
 * end of the writer. */
void infp_agent_moments_give(struct infp_agent_stack *stack, struct infp_writer_thread *thread, unsigned most,
                             bool last);
