/* The command that is recorded. It is forked first, while infprof has one thread and has changed nothing of its own
 * state, and waits at a gate until the first sample is taken: so it has exactly the descriptors, terminal, working
 * directory, limits, process group, signal mask and dispositions that infprof was started with. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

enum infp_child_state {
        INFP_CHILD_NONE,
        INFP_CHILD_WAITING,  /* at the gate */
        INFP_CHILD_STARTING, /* released; the result of exec is not known yet */
        INFP_CHILD_RUNNING,
        INFP_CHILD_FAILED, /* exec failed: the exit code is 126 or 127 */
        INFP_CHILD_ENDED,
};

enum { INFP_CHILD_STRANGERS = 64 };

struct infp_child {
        enum infp_child_state state;
        pid_t pid;
        int gate_fd;              /* written once: go */
        int error_fd;             /* the errno of exec, or the end of file when it worked; poll it while STARTING */
        int status;               /* of wait, when ENDED */
        char **argv;              /* borrowed */
        bool has_children;        /* as the last wait found: others of the tree live */
        int io_fd;                /* its /proc/PID/io, kept since root owns that of an ended process; -1: none */
        uint64_t fork_peak_bytes; /* its peak memory while it was a fork of us */
        int stopped_by;           /* the signal that stopped it; 0: not stopped */
        /* Children that infprof had already when it was exec'ed. They are not part of the tree. */
        pid_t strangers[INFP_CHILD_STRANGERS];
        unsigned n_strangers;
};

/* Looks for the command as exec would, before anything is made. 0; -ENOENT or another errno, with a sentence and the
 * exit code of env(1): 127 not found, 126 found but not executable. */
int infp_child_check(char *const *argv, int *ret_code, struct infp_err *err);

/* Forks. `more`: NAME=VALUE texts that are added to the environment, ended by NULL. output_fd: becomes the command's
 * standard output and error; -1: infprof's own. Makes infprof the reaper of the tree. */
int infp_child_fork(struct infp_child *child, char **argv, const char *const *more, int output_fd,
                    struct infp_err *err);
int infp_child_release(struct infp_child *child, struct infp_err *err);
/* Call when error_fd is readable: RUNNING or FAILED. For FAILED the sentence and the code are those of
 * infp_child_check. */
void infp_child_hear(struct infp_child *child, int *ret_code, struct infp_err *err);
/* Ends a command that was never released; it is gone on return. */
void infp_child_abandon(struct infp_child *child);

/* Callbacks for ended children, except strangers. */
struct infp_child_ends {
        /* Not waited for yet: /proc still has it. The usage is what the wait will return. */
        void (*ended)(void *context, pid_t pid, const struct rusage *usage);
        void (*reaped)(void *context, pid_t pid, const struct rusage *usage);
        void *context;
};
/* Reaps all that have ended, without blocking. ends NULL: no callbacks. */
void infp_child_reap(struct infp_child *child, const struct infp_child_ends *ends);
/* Its state now: it may have continued before infp_child_reap sees that. */
bool infp_child_is_stopped(const struct infp_child *child);
bool infp_child_is_stranger(const struct infp_child *child, pid_t pid);

int infp_child_exit_code(const struct infp_child *child); /* of the command: 128 + signal when a signal ended it */

enum { INFP_JIT_NAMES = 3 };

/* Room for the user's value with ours appended. */
struct infp_jit_names {
        char node[4096];
};

/* record --jit-names: the variables that make JIT compilers write perf maps, which name their code. Puts up to INFP_JIT_NAMES
 * texts "NAME=VALUE" at ret and returns how many. A variable that the user has set keeps its value. Variables that print, that
 * keep a program from starting or that cost more than a few percent are left out. */
unsigned infp_jit_names_variables(struct infp_jit_names *memory, const char **ret);
