/* Libraries that the program closes (dlclose): another one may be put where one was, and tables of the first would make wrong stacks of it. */
#pragma once

/* Once: the stub's dlclose says so from now on. */
void infp_agent_closing_begin(void);
