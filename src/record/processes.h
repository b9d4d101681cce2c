/* Single reads of the process table: who descends from whom, and the entity row of a process that no collector follows (of the
 * machine's recording, or too short-lived for a tick). */
#pragma once

#include <stdbool.h>

#include "collect/env.h"
#include "collect/target.h"
#include "model/row.h"

/* Reads /proc/PID/stat below root_fd. False: there is no such process, or it is a zombie. */
bool infp_process_look(int root_fd, pid_t pid, struct infp_process *ret);

/* Calls back for each live process (no zombies) until that returns false. -errno when /proc cannot be listed. */
int infp_process_each(int root_fd, bool (*each)(void *context, const struct infp_process *process), void *context);

/* The processes that descend from `ancestor`, apart from the children in `without` and their descendants. */
unsigned infp_process_count_descendants(pid_t ancestor, const pid_t *without, unsigned n_without);

/* Fills a row of `process` from /proc/PID below env's root. False: the process has ended, or the build has no such table. */
bool infp_process_row(struct infp_row *row, const struct infp_env *env, pid_t pid, uint64_t start_ticks);

/* The same for an ended process, by what it recorded about itself. parent 0, name "": not known. */
bool infp_process_row_ended(struct infp_row *row, const struct infp_env *env, pid_t pid, uint64_t start_ticks,
                            pid_t parent, const char *name, uint32_t uid);
