/* The stub that LD_PRELOAD names. It must not harm any program of a recorded tree, so it needs no library (it has no DT_NEEDED) and
 * names functions of libc by weak references alone: in a program with another libc (musl) they may be absent, and nothing is done.
 * Static, 32-bit and setuid programs do not load it at all.
 *
 * In a process that has a Python interpreter from its start it loads the agent. There alone sigaction and signal do more than to call
 * libc's: the agent's own signal must never reach a handler of the program, or end it when the program restores the default. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "agent/core/preload.h"

#define EXPORTED __attribute__((visibility("default")))

#pragma weak dlopen
#pragma weak dlsym
#pragma weak secure_getenv
extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern int __sigaction(int, const struct sigaction *, struct sigaction *) __attribute__((weak));
extern sighandler_t bsd_signal(int, sighandler_t) __attribute__((weak));
extern const char *Py_GetVersion(void) __attribute__((weak));

extern infp_preload_sigaction_fn *_Atomic infp_preload_sigaction;
EXPORTED infp_preload_sigaction_fn *_Atomic infp_preload_sigaction;

/* glibc's, which has it under a second name (before 2.34 dlsym may be absent); else that of the next library. */
static int libc_sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
        int (*next)(int, const struct sigaction *, struct sigaction *) = __sigaction;

        if (!next && dlsym)
                *(void **) &next = dlsym(RTLD_NEXT, "sigaction");
        return next ? next(number, action, ret_old) : -1;
}

EXPORTED int sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
        infp_preload_sigaction_fn *hook = infp_preload_sigaction;
        int result;

        if (hook && hook(number, action, ret_old, &result))
                return result;
        return libc_sigaction(number, action, ret_old);
}

EXPORTED sighandler_t signal(int number, sighandler_t handler)
{
        infp_preload_sigaction_fn *hook = infp_preload_sigaction;
        sighandler_t (*next)(int, sighandler_t) = bsd_signal;
        struct sigaction action, old;
        int result;

        if (hook) {
                for (size_t i = 0; i < sizeof action; i++) /* the compiler's own way would need libc */
                        ((volatile char *) &action)[i] = 0;
                action.sa_handler = handler;
                action.sa_flags = SA_RESTART;
                if (hook(number, &action, &old, &result))
                        return result < 0 ? SIG_ERR : old.sa_handler;
        }
        if (!next && dlsym)
                *(void **) &next = dlsym(RTLD_NEXT, "signal");
        return next ? next(number, handler) : SIG_ERR;
}

__attribute__((constructor)) static void load_agent(void)
{
        const char *path;

        if (!gnu_get_libc_version || !dlopen || !secure_getenv || !Py_GetVersion)
                return;
        path = secure_getenv(INFP_AGENT_ENV);
        if (path && path[0] == '/')
                dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}
