/* A timer of its CPU time for each thread of this process, which sends SIGPROF to that thread: to one that runs, since only its own CPU
 * time makes it. A timer of the process's time would send signals to any thread, and interrupt calls of those that sleep (pause, usleep,
 * sigwait). No thread of ours looks for new ones either, since programs may rely on having one thread alone (unshare, Python's warning at
 * fork): pthread_create reports them, and threads that run look for others now and then. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

bool infp_agent_timer_is_ours(const siginfo_t *info);

/* The timer of the calling thread: its first signal comes after a few ms of CPU time. 0 or a negative errno. */
int infp_agent_timers_begin(uint64_t period_ns);
/* Whether it is time to look; true for one caller at a time. */
bool infp_agent_timers_are_due(uint64_t now_ns);
/* Gives timers to threads that have none, and takes those of ended ones back. Returns how many threads got none: too many. While another
 * thread does so, that one does it again, and 0 is returned at once. */
unsigned infp_agent_timers_look(uint64_t now_ns);
/* A thread has begun. tid 0: one that is not known. */
void infp_agent_timers_add(int32_t tid, uint64_t now_ns);
void infp_agent_timers_end(void);   /* no more signals, but for those that are under way */
void infp_agent_timers_reset(void); /* in a child of fork, which has none of them */
