#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"

enum { DEFAULT_STACK = 8 << 20 };

/* What an instruction or a write to the terminal raises in the thread itself. SIGTTIN and SIGTTOU are among them because the
 * kernel lets a thread that blocks SIGTTOU write to a terminal that does not belong to its job. SIGABRT is not: abort(3) unblocks
 * it by itself, and one that another process sent is for the recorder, which passes it on. */
static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGTTIN, SIGTTOU };

struct start {
        void *(*run)(void *context);
        void *context;
        const char *name;
};

static void *begin(void *context)
{
        const struct start start = *(struct start *) context;

        free(context);
        prctl(PR_SET_NAME, start.name);
        return start.run(start.context);
}

static int create(pthread_t *ret, const pthread_attr_t *attributes, struct start *start)
{
        sigset_t mask, before;
        int r;

        sigfillset(&mask);
        for (size_t i = 0; i < INFP_COUNT(own); i++)
                sigdelset(&mask, own[i]);
        pthread_sigmask(SIG_SETMASK, &mask, &before);
        r = pthread_create(ret, attributes, begin, start);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int infp_thread_start(pthread_t *ret, const char *name, size_t stack_bytes, void *(*run)(void *context), void *context)
{
        struct start *start = malloc(sizeof(*start));
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        if (!start)
                return -ENOMEM;
        *start = (struct start){ run, context, name };
        r = -pthread_attr_init(&attributes);
        if (r == 0) {
                r = -pthread_attr_setstacksize(&attributes, stack_bytes ? stack_bytes : DEFAULT_STACK);
                if (r == 0 && !ret)
                        r = -pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
                if (r == 0)
                        r = create(ret ? ret : &thread, &attributes, start);
                pthread_attr_destroy(&attributes);
        }
        if (r < 0)
                free(start);
        return r;
}

/* As sched_setattr(2) has it; headers of the kernel and of newer C libraries do not go together. */
struct attributes {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
};

void infp_thread_hurry(void)
{
        enum { LEAST_SLICE_NS = 100000 };
        struct attributes attributes = { .size = sizeof(attributes) };

        if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) < 0 || attributes.policy != SCHED_OTHER)
                return;
        attributes.runtime = LEAST_SLICE_NS;
        syscall(SYS_sched_setattr, 0, &attributes, 0);
}

bool infp_thread_join_until(pthread_t thread, uint64_t deadline_ns)
{
/* glibc has pthread_clockjoin_np since 2.31; the thread sanitizer's runtime (gcc 12) does not know it: it would call each such thread a race. */
#if defined(__SANITIZE_THREAD__) || !__GLIBC_PREREQ(2, 31)
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        const struct timespec deadline =
                infp_timespec(infp_clock_ns(CLOCK_REALTIME) + (deadline_ns > now_ns ? deadline_ns - now_ns : 0));

        return pthread_timedjoin_np(thread, NULL, &deadline) == 0;
#else
        const struct timespec deadline = infp_timespec(deadline_ns);

        return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline) == 0;
#endif
}

void infp_cond_init(pthread_cond_t *cond)
{
        pthread_condattr_t attributes;

        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(cond, &attributes);
        pthread_condattr_destroy(&attributes);
}

static bool is_left_behind;

void infp_thread_leave_behind(void)
{
        is_left_behind = true;
}

int infp_thread_exit_code(int code)
{
        if (!is_left_behind)
                return code;
        _exit(code); /* no flush of all streams: the thread may hold one */
}
