/* What a sampler inside a process unwinds with (struct infp_wire_tables of ring/wire.h), written for it. */
#pragma once

#include "ring/reader.h"
#include "sampler/stacks/stack.h"

/* Asks for the tables of all that the process has mapped. False: some are still being made. */
bool infp_inside_tables_are_ready(struct infp_stacks *stacks, int32_t pid);
/* Differs when what the process has mapped, or its tables, has changed. 0: not known. */
uint64_t infp_inside_tables_version(struct infp_stacks *stacks, int32_t pid);
/* Writes the file of that number into the directory of tables. 0 or a negative errno. */
int infp_inside_tables_write(struct infp_stacks *stacks, int32_t pid, int directory,
                             const struct infp_ring_owner *owner, uint64_t number);
void infp_inside_tables_remove(int directory, const struct infp_ring_owner *owner, uint64_t number);
