/* The stub that LD_PRELOAD names. It must not harm any program of a recorded tree, so it needs no library (it has no DT_NEEDED) and
 * names functions of libc by weak references alone: in a program with another libc (musl) they may be absent, and nothing is done.
 * Static, 32-bit and setuid programs do not load it at all.
 *
 * In a process that has a Python interpreter from its start, or whose heap is sampled, it loads the agent. There alone sigaction, signal,
 * pthread_create and dlclose do more than to call the next library's: the agent's own signal must never reach a handler of the program, or end it when the program
 * restores the default, each thread gets a timer of its own, and tables of libraries that are closed are forgotten. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "agent/core/next.h"
#include "agent/core/preload.h"
#include "agent/heap/hooks.h"

#define EXPORTED __attribute__((visibility("default")))

#pragma weak dlopen
#pragma weak secure_getenv
#pragma weak __errno_location
extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern int __sigaction(int, const struct sigaction *, struct sigaction *) __attribute__((weak));
extern sighandler_t bsd_signal(int, sighandler_t) __attribute__((weak));
extern const char *Py_GetVersion(void) __attribute__((weak));
extern struct infp_preload_heap infp_preload_heap __attribute__((weak)); /* absent where no heap is sampled */

extern infp_preload_sigaction_fn *_Atomic infp_preload_sigaction;
EXPORTED infp_preload_sigaction_fn *_Atomic infp_preload_sigaction;
extern infp_preload_thread_fn *_Atomic infp_preload_thread;
EXPORTED infp_preload_thread_fn *_Atomic infp_preload_thread;
extern infp_preload_close_fn *_Atomic infp_preload_close;
EXPORTED infp_preload_close_fn *_Atomic infp_preload_close;

typedef int sigaction_fn(int, const struct sigaction *, struct sigaction *);
typedef sighandler_t signal_fn(int, sighandler_t);
typedef int dlclose_fn(void *);
typedef int pthread_create_fn(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

/* Those of the next library, which may wrap libc's, too: found once, since dlsym waits for locks of the loader. NULL: not yet, or there is
 * no dlsym (before glibc 2.34); then glibc's under their second names. */
static sigaction_fn *_Atomic next_sigaction;
static signal_fn *_Atomic next_signal;
static pthread_create_fn *_Atomic next_pthread_create;
static dlclose_fn *_Atomic next_dlclose;

static int libc_sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
        sigaction_fn *next = next_sigaction;

        if (!next)
                *(void **) &next = infp_next("sigaction");
        if (!next)
                next = __sigaction;
        if (next)
                return next(number, action, ret_old);
        if (__errno_location)
                errno = ENOSYS;
        return -1;
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
        signal_fn *next = next_signal;
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
        if (!next)
                *(void **) &next = infp_next("signal");
        if (!next)
                next = bsd_signal;
        if (next)
                return next(number, handler);
        if (__errno_location)
                errno = ENOSYS;
        return SIG_ERR;
}

EXPORTED int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*start)(void *),
                            void *argument)
{
        infp_preload_thread_fn *hook = infp_preload_thread;
        pthread_create_fn *next = next_pthread_create;
        int result;

        if (!next)
                *(void **) &next = infp_next("pthread_create");
        result = next ? next(ret_thread, attributes, start, argument) : ENOSYS;
        if (hook && result == 0)
                hook(*ret_thread);
        return result;
}

/* Where there is no next one the library stays. */
EXPORTED int dlclose(void *handle)
{
        infp_preload_close_fn *hook = infp_preload_close;
        dlclose_fn *next = next_dlclose;

        if (!next)
                *(void **) &next = infp_next("dlclose");
        if (!next)
                return 0;
        return hook ? hook(handle, next) : next(handle);
}

static void find_all(void)
{
        *(void **) &next_dlclose = infp_next("dlclose");
        *(void **) &next_sigaction = infp_next("sigaction");
        *(void **) &next_signal = infp_next("signal");
        *(void **) &next_pthread_create = infp_next("pthread_create");
}

__attribute__((constructor)) static void load_agent(void)
{
        const char *path;

        find_all();
        if (!gnu_get_libc_version || !dlopen || !secure_getenv || (!Py_GetVersion && !&infp_preload_heap))
                return;
        path = secure_getenv(INFP_AGENT_ENV);
        if (path && path[0] == '/')
                dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}
