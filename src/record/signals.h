/* Signals as events of the recorder's poll loop. No handler is ever set, so a program that we start needs only its mask
 * restored. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct infp_signals {
        int fd; /* signalfd */
        sigset_t old_mask;
        sigset_t was_ignored; /* those that infprof inherited as ignored (nohup, a background job of a script) */
};

struct infp_signal {
        int number;
        bool by_process; /* kill, sigqueue; false: the terminal or the kernel */
        pid_t sender;    /* 0: outside our pid namespace */
        int value;
        bool has_value; /* sigqueue */
};

/* for_command: also signals that are meant for a command alone, and are otherwise left to the kernel: SIGTSTP, SIGCONT,
 * SIGABRT, SIGSTKFLT. Blocks all of them for this thread and those that it starts. */
int infp_signals_open(struct infp_signals *signals, bool for_command, struct infp_err *err);
void infp_signals_close(struct infp_signals *signals); /* keeps them blocked */
/* True: *ret is the next one. */
bool infp_signals_next(struct infp_signals *signals, struct infp_signal *ret);
bool infp_signal_is_end(int number); /* it asks a program to end */
/* Waits at most wait_ms for signals, and takes them all. True: one was such. */
bool infp_signals_end(struct infp_signals *signals, int wait_ms);
