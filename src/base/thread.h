/* The one way to start a thread, so that each has a name, a stack of a known size and a known signal mask. The kernel kills a
 * process when a thread that blocks SIGBUS touches a page that a shortened file has lost, even where a handler is installed:
 * what a thread's own instructions raise is therefore blocked in none. All other signals are blocked: the thread that asked for
 * them takes them. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name: at most 15 bytes, as ps and top show it. stack_bytes 0: 8 MiB, of which only touched pages cost memory. ret NULL: the
 * thread is detached. 0 or a negative errno. */
int infp_thread_start(pthread_t *ret, const char *name, size_t stack_bytes, void *(*run)(void *context), void *context);

/* The calling thread runs for moments and wants its CPU soon after it wakes: it asks for the shortest slice, which Linux grants from 6.12
 * on. Its share of a CPU stays what it was. */
void infp_thread_hurry(void);

/* Waits until deadline_ns of CLOCK_MONOTONIC at most: CLOCK_REALTIME jumps when somebody sets the time. False: it still runs. */
bool infp_thread_join_until(pthread_t thread, uint64_t deadline_ns);
/* Waits with a time limit on it count by CLOCK_MONOTONIC, too. */
void infp_cond_init(pthread_cond_t *cond);

/* A thread hangs in somebody else's library and will not be waited for. */
void infp_thread_leave_behind(void);
/* How the program ends, its streams flushed by the caller. Returns code. With a thread left behind it does not return: the end of libraries may wait for what that
 * thread holds. */
int infp_thread_exit_code(int code);
