/* The sampler inside a process: stacks of its threads by the clocks of their CPU time, with Python's frames, where nobody outside may
 * take them. It begins when its recorder has said so, and ends with it. */
#pragma once

#include <stdbool.h>

struct infp_agent_sampler_options {
        double hz;
        const char *tables; /* directory (tables.h) */
};

/* In the constructor of the agent, while the process has one thread. Nothing happens where the process has no Python. */
void infp_agent_sampler_begin(const struct infp_agent_sampler_options *options);
