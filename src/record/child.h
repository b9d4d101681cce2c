/* The command that is recorded. It is forked first of all, while infprof has one thread and has changed nothing of itself, and
 * waits at a gate until the first sample is taken: so it has exactly the descriptors, terminal, working directory, limits,
 * process group, signal mask and dispositions that infprof was started with. */
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
        INFP_CHILD_STARTING, /* let go; exec has not been heard of */
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
        bool has_children;        /* as wait said last: others of the tree still live */
        int io_fd;                /* its /proc/PID/io, kept since that of an ended process is root's; -1: none */
        uint64_t fork_peak_bytes; /* the most memory of it while it was a fork of us */
        int stopped_by;           /* the signal that has stopped it; 0: it is not stopped */
        /* Children that infprof had before: it was exec'ed by a program that had some. They are no part of the tree. */
        pid_t strangers[INFP_CHILD_STRANGERS];
        unsigned n_strangers;
};

/* Looks for the command as exec would, before anything is made. 0; -ENOENT or another errno, with the sentence and the exit
 * code of env(1): 127 not found, 126 found but not executable. */
int infp_child_check(char *const *argv, int *ret_code, struct infp_err *err);

/* Forks. `more`: NAME=VALUE texts that join the environment, ended by NULL. output_fd: what the command gets as its standard
 * output and error; -1: those that infprof has. Makes infprof the reaper of the tree. */
int infp_child_fork(struct infp_child *child, char **argv, const char *const *more, int output_fd,
                    struct infp_err *err);
int infp_child_release(struct infp_child *child, struct infp_err *err);
/* When error_fd has something to read: RUNNING or FAILED. In FAILED the sentence and the code are those of infp_child_check. */
void infp_child_hear(struct infp_child *child, int *ret_code, struct infp_err *err);
/* It was never let go: it is gone when this returns. */
void infp_child_abandon(struct infp_child *child);

/* Who hears of those that ended, all but the strangers. */
struct infp_child_ends {
        /* Not waited for yet: /proc has it. The usage is what the wait will give. */
        void (*ended)(void *context, pid_t pid, const struct rusage *usage);
        void (*reaped)(void *context, pid_t pid, const struct rusage *usage);
        void *context;
};
/* Collects all that ended, without waiting for more to end. ends NULL: nobody is told. */
void infp_child_reap(struct infp_child *child, const struct infp_child_ends *ends);
/* As it is now: that it goes on may be known before infp_child_reap has heard of it. */
bool infp_child_is_stopped(const struct infp_child *child);
bool infp_child_is_stranger(const struct infp_child *child, pid_t pid);

int infp_child_exit_code(const struct infp_child *child); /* of the command: 128 + signal when it died by one */

enum { INFP_JIT_NAMES = 3 };

/* Room for a variable of ours that is appended to the user's. */
struct infp_jit_names {
        char node[4096];
};

/* record --jit-names: the variables that make JIT compilers write perf maps, which name their code. Puts up to INFP_JIT_NAMES
 * texts "NAME=VALUE" at ret and returns how many. A variable that the user has set keeps its value. Variables that print, that
 * keep a program from starting or that cost more than a few percent are left out. */
unsigned infp_jit_names_variables(struct infp_jit_names *memory, const char **ret);
