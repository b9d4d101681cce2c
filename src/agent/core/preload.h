/* What the preloaded stub and the agent that it loads say to each other. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#define INFP_AGENT_FILE "libinfprof-agent.so"
#define INFP_PRELOAD_FILE "libinfprof-preload.so"
#define INFP_AGENT_ENV "INFPROF_AGENT"               /* path of the agent; unset: the stub loads nothing */
#define INFP_AGENT_ENV_HZ "INFPROF_AGENT_HZ"         /* samples a second of CPU time, as 99.000 */
#define INFP_AGENT_ENV_TABLES "INFPROF_AGENT_TABLES" /* the directory of unwind tables */

/* Set by the agent: takes the program's calls of sigaction and signal. Returns false to let libc do it. */
typedef bool infp_preload_sigaction_fn(int number, const struct sigaction *action, struct sigaction *ret_old,
                                       int *ret_result);
#define INFP_PRELOAD_HOOK "infp_preload_sigaction"

/* Set by the agent: the program has made a thread. */
typedef void infp_preload_thread_fn(pthread_t thread);
#define INFP_PRELOAD_THREAD_HOOK "infp_preload_thread"

/* Set by the agent: the program closes a library; next does it. */
typedef int infp_preload_close_fn(void *handle, int (*next)(void *handle));
#define INFP_PRELOAD_CLOSE_HOOK "infp_preload_close"
