/* A timer of its CPU time for each thread of this process, which sends SIGPROF to that thread. No thread of ours looks for new ones, since
 * programs may rely on having one thread alone (unshare, Python's warning at fork): a timer of the whole process's CPU time does. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* What a signal is of. */
enum infp_agent_timer { INFP_AGENT_FOREIGN, INFP_AGENT_OF_PROCESS, INFP_AGENT_OF_THREAD };
enum infp_agent_timer infp_agent_timer_of(const siginfo_t *info);

/* The timer of the process: its first signal comes after a few ms of CPU time. 0 or a negative errno. */
int infp_agent_timers_begin(uint64_t period_ns);
/* Gives timers to threads that have none, and takes those of ended ones back. Returns how many threads got none: too many. Of one thread
 * at a time; others return at once. */
unsigned infp_agent_timers_look(void);
void infp_agent_timers_end(void);   /* no more signals, but for those that are under way */
void infp_agent_timers_reset(void); /* in a child of fork, which has none of them */
