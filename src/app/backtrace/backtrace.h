/* Takes the stacks of all threads of some processes, once. A process of any kind has native frames; those of CPython are merged with
 * the native ones of the same moment. */
#pragma once

#include "base/err.h"
#include "base/notice.h"
#include "record/follow.h"
#include "view/backtrace/backtrace.h"

struct infp_backtrace_options {
        struct infp_follow_options follow; /* its pids and name are borrowed for the call */
        pid_t tid;                         /* this thread alone; 0: all */
        bool is_alone;                     /* not those that descend from the first process */
        bool python_only, native_only;     /* not both */
        bool no_block;                     /* stops nothing: Python frames alone */
        bool locals;                       /* values of Python's variables; not with no_block */
        bool tasks;                        /* those of asyncio, too */
        bool keep_secrets;
        unsigned patience_ms; /* for a thread to stop */
};

struct infp_backtraces;

/* 0, or what kept everything from being read: -ESRCH, -EPERM ... What kept a part of it is in `ret`, and in a notice for each process. */
int infp_backtraces_take(const struct infp_backtrace_options *options, const struct infp_notices *notices,
                         struct infp_backtraces **ret, struct infp_err *err);
/* Borrowed until free, with all texts in it. */
const struct infp_backtrace *infp_backtraces_shown(const struct infp_backtraces *backtraces);
struct infp_backtraces *infp_backtraces_free(struct infp_backtraces *backtraces); /* NULL is fine; returns NULL */
