/* The unwind tables of this process, as its recorder has laid them out (struct infp_wire_tables): mapped, and never made here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/walk.h"

/* Where the recorder keeps tables. False: the path is too long. */
bool infp_agent_tables_set_directory(const char *path);

/* Takes over the file of that number, when nobody uses an older one just now. A thread that finds another one at it returns. start_ticks:
 * of the process, as the head of its ring file has it. */
void infp_agent_tables_load(uint64_t number, int32_t pid, uint64_t start_ticks);
uint64_t infp_agent_tables_number(void); /* that is loaded; 0: none */
void infp_agent_tables_reset(void);      /* in a child of fork */
/* Nothing is known of these addresses, until there are newer ones. False: nothing was. */
bool infp_agent_tables_forget(uint64_t begin, uint64_t end);

/* For one walk. NULL: there are none, or they are being replaced; then no end. */
const struct infp_unwind_space *infp_agent_tables_begin(uint64_t *ret_number);
void infp_agent_tables_end(void);
