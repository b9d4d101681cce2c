/* The entity row of a process that no collector follows: of the machine's recording, or too short-lived for a tick. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "collect/env.h"
#include "model/row.h"

/* Fills a row of `process` from /proc/PID below env's root. False: the process is not there any more, or the build has no such
 * table. */
bool infp_process_row(struct infp_row *row, const struct infp_env *env, pid_t pid, uint64_t start_ticks);

/* The same of one that has ended, by what it has said of itself. parent 0, name "": not known. */
bool infp_process_row_ended(struct infp_row *row, const struct infp_env *env, pid_t pid, uint64_t start_ticks,
                            pid_t parent, const char *name, uint32_t uid);
