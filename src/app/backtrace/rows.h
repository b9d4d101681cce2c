/* What the threads of one process do at this moment, as rows of table `stacks_now` (model/python_tables.h). */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/notice.h"
#include "model/row.h"

/* row: for each, given to put. 0, or what kept everything from being read, as infp_backtraces_take; an error of put. */
int infp_backtrace_rows(pid_t pid, const struct infp_notices *notices, struct infp_row *row,
                        int (*put)(void *context, const struct infp_row *row), void *context, struct infp_err *err);
