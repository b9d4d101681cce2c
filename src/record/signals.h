/* Signals as events of the recorder's poll loop. No handler is ever set, so nothing has to be restored in programs that we
 * start but the mask. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct infp_signals {
        int fd; /* signalfd */
        sigset_t old_mask;
        sigset_t was_ignored; /* those that infprof was started with as ignored (nohup, a background job of a script) */
};

struct infp_signal {
        int number;
        bool by_process; /* kill, sigqueue; false: the terminal or the kernel */
        pid_t sender;    /* 0: outside of our pid namespace */
        int value;
        bool has_value; /* sigqueue */
};

/* for_command: also what is meant for a command alone, and left to the kernel otherwise: SIGTSTP, SIGCONT, SIGABRT, SIGSTKFLT.
 * Blocks all of them for this thread and those that it starts. */
int infp_signals_open(struct infp_signals *signals, bool for_command, struct infp_err *err);
void infp_signals_close(struct infp_signals *signals); /* keeps them blocked */
/* True: *ret is the next one. */
bool infp_signals_next(struct infp_signals *signals, struct infp_signal *ret);
bool infp_signal_is_end(int number); /* it asks a program to end */
