/* One look at the process table, for what needs only parentage: whom to follow, what is left of a tree. */
#pragma once

#include <stdbool.h>

#include "collect/target.h"

/* Reads /proc/PID/stat below root_fd. False: there is none, or it is dead already (a zombie). */
bool infp_process_look(int root_fd, pid_t pid, struct infp_process *ret);

/* Calls back for each process that lives (not for zombies) until that returns false. -errno when /proc cannot be listed. */
int infp_process_each(int root_fd, bool (*each)(void *context, const struct infp_process *process), void *context);

/* The processes that descend from `ancestor`, apart from the children in `without` and what descends from them. */
unsigned infp_process_count_descendants(pid_t ancestor, const pid_t *without, unsigned n_without);
