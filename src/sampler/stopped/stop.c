#include "sampler/stopped/stop.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"

/* One after the other, in a thread of their own. */
struct work {
        const struct infp_stop_each *each;
        unsigned next;
        bool is_stuck; /* the thread before `next` was not let go: only the end of this thread does */
};

enum { TRACER_STACK = 256 << 10, SLICE_NS = 100000, FIRST_NAP_NS = 10000, MOST_NAP_NS = 200000 };

#ifdef __x86_64__
static const struct {
        unsigned dwarf;
        size_t offset;
} places[] = {
#define PLACE(name, member)                                            \
        {                                                              \
                INFP_##name, offsetof(struct user_regs_struct, member) \
        }
        PLACE(RAX, rax), PLACE(RDX, rdx), PLACE(RCX, rcx), PLACE(RBX, rbx), PLACE(RSI, rsi), PLACE(RDI, rdi),
        PLACE(RBP, rbp), PLACE(RSP, rsp), PLACE(R8, r8),   PLACE(R9, r9),   PLACE(R10, r10), PLACE(R11, r11),
        PLACE(R12, r12), PLACE(R13, r13), PLACE(R14, r14), PLACE(R15, r15), PLACE(RIP, rip),
#undef PLACE
};

enum { CODE_64BIT = 0x33 }; /* its segment */

static enum infp_stop_result read_registers(struct infp_stopped *stopped)
{
        struct user_regs_struct all;
        struct iovec vector = { &all, sizeof(all) };

        if (ptrace(PTRACE_GETREGSET, stopped->tid, (void *) (uintptr_t) NT_PRSTATUS, &vector) < 0) {
                stopped->error = errno;
                return errno == ESRCH ? INFP_STOP_GONE : INFP_STOP_FAILED;
        }
        if (vector.iov_len != sizeof(all) || all.cs != CODE_64BIT)
                return INFP_STOP_OTHER_CODE;
        for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++)
                memcpy(&stopped->registers[places[i].dwarf], (const char *) &all + places[i].offset, sizeof(uint64_t));
        stopped->fs_base = all.fs_base;
        return INFP_STOP_STOPPED;
}
#else /* the unwinder knows no other machine */
static enum infp_stop_result read_registers(struct infp_stopped *stopped)
{
        (void) stopped;
        return INFP_STOP_OTHER_CODE;
}
#endif

/* As long as it took until now, a quarter more: at once where it runs on another CPU, and rarely where it has none. */
static void nap(uint64_t begin_ns, uint64_t now_ns)
{
        const uint64_t wanted = FIRST_NAP_NS + (now_ns - begin_ns) / 4;
        const struct timespec pause = infp_timespec(wanted < MOST_NAP_NS ? wanted : MOST_NAP_NS);

        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Waits for its next stop: the kernel sends SIGCHLD, which all threads block, at each. 0: a status was taken. */
static int wait_for(pid_t tid, uint64_t deadline_ns, bool polls, int *ret_status)
{
        const uint64_t begin_ns = infp_clock_ns(CLOCK_MONOTONIC);
        sigset_t child;

        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        for (;;) {
                const pid_t got = waitpid(tid, ret_status, __WALL | WNOHANG | __WNOTHREAD);
                const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
                struct timespec left;

                if (got == tid)
                        return 0;
                if (got < 0 && errno != EINTR)
                        return -errno;
                if (now >= deadline_ns)
                        return -ETIMEDOUT;
                if (polls) {
                        nap(begin_ns, now);
                        continue;
                }
                left = (struct timespec){ .tv_sec = (time_t) ((deadline_ns - now) / INFP_NS_PER_S),
                                          .tv_nsec = (long) ((deadline_ns - now) % INFP_NS_PER_S) };
                sigtimedwait(&child, NULL, &left);
        }
}

/* What it stopped for. A signal that was on its way to it is what it goes on with. */
static int signal_of(int status)
{
        return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
}

/* 0: it stops, or is about to end: the wait for it shows which. */
static int ask(pid_t tid)
{
        if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
                return -errno;
        ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
        return 0;
}

/* Waits until it is stopped. False: it is not traced any more, or (*ret_error) only the end of this thread lets it go. */
static bool await_stop(pid_t tid, uint64_t deadline_ns, bool polls, int *ret_signal, int *ret_error)
{
        int status;

        *ret_error = -wait_for(tid, deadline_ns, polls, &status);
        if (*ret_error || !WIFSTOPPED(status))
                return false;
        *ret_signal = signal_of(status);
        return true;
}

/* False: it is not traced any more, or only the end of this thread lets it go. */
static bool stop(const struct infp_stop_each *each, unsigned index, struct infp_stopped *stopped, int *ret_signal,
                 bool *ret_is_stuck)
{
        bool is_stopped;

        stopped->error = -ask(stopped->tid);
        if (stopped->error) {
                stopped->result = stopped->error == ESRCH                               ? INFP_STOP_GONE
                                  : stopped->error == EPERM || stopped->error == EACCES ? INFP_STOP_DENIED
                                                                                        : INFP_STOP_FAILED;
                return false;
        }
        do
                is_stopped =
                        await_stop(stopped->tid, infp_clock_ns(CLOCK_MONOTONIC) + each->patience_ms * INFP_NS_PER_MS,
                                   each->is_sigchld_shared, ret_signal, &stopped->error);
        while (stopped->error == ETIMEDOUT && each->may_wait(each->context, index));
        if (is_stopped)
                return true;
        *ret_is_stuck = stopped->error != 0;
        stopped->result = stopped->error == ETIMEDOUT ? INFP_STOP_LATE : INFP_STOP_GONE;
        return false;
}

/* False: it was killed, and is still ours. */
static bool let_go(pid_t tid, int signal)
{
        return ptrace(PTRACE_DETACH, tid, NULL, (void *) (intptr_t) signal) == 0;
}

/* A stopped thread waits until we are scheduled again, which takes long on busy CPUs. Since Linux 6.12 a thread that wants a short
 * slice gets it soon, without any right; before, this changes nothing. */
static void ask_for_short_slices(void)
{
        struct {
                uint32_t size, policy;
                uint64_t flags;
                int32_t nice;
                uint32_t priority;
                uint64_t runtime, deadline, period;
        } attributes = { 0 };

        if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) < 0 || attributes.policy != SCHED_OTHER)
                return;
        attributes.size = sizeof(attributes);
        attributes.runtime = SLICE_NS;
        syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static void *trace(void *context)
{
        struct work *work = context;
        const struct infp_stop_each *each = work->each;

        ask_for_short_slices();
        prctl(PR_SET_TIMERSLACK, 1UL);
        while (work->next < each->n && !work->is_stuck) {
                const unsigned index = work->next++;
                struct infp_stopped stopped = { .pid = each->pid, .tid = each->tids[index] };
                const uint64_t begin = infp_clock_ns(CLOCK_MONOTONIC);
                uint64_t seen;
                int signal = 0;

                if (stop(each, index, &stopped, &signal, &work->is_stuck)) {
                        seen = infp_clock_ns(CLOCK_MONOTONIC);
                        stopped.waited_ns = seen - begin;
                        stopped.result = read_registers(&stopped);
                        if (stopped.result == INFP_STOP_STOPPED)
                                each->run(each->context, index, &stopped);
                        work->is_stuck = !let_go(stopped.tid, signal);
                        stopped.stopped_ns = infp_clock_ns(CLOCK_MONOTONIC) - seen;
                }
                each->done(each->context, index, &stopped);
        }
        return NULL;
}

/* Runs work, which must end, in a thread that may trace. */
static int run_tracer(void *(*run)(void *), void *context, bool is_sigchld_shared)
{
        sigset_t child, before;
        pthread_t thread;
        int r;

        if (is_sigchld_shared) { /* its owner has seen to it that it is blocked, and not ignored */
                r = infp_thread_start(&thread, "infprof-stop", TRACER_STACK, run, context);
                if (r == 0)
                        pthread_join(thread, NULL);
                return r;
        }
        signal(SIGCHLD, SIG_DFL); /* ignored, it would not be sent */
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        pthread_sigmask(SIG_BLOCK, &child, &before);
        r = infp_thread_start(&thread, "infprof-stop", TRACER_STACK, run, context);
        if (r == 0)
                pthread_join(thread, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

/* A thread that does not stop in time, or that took another thread's number by exec, is ours until our thread ends: then another one
 * goes on. To keep it would be worse: an exec of its process would wait for it, and we for the exec. */
int infp_stop_each(const struct infp_stop_each *each)
{
        struct work work = { .each = each };
        int r = 0;

        while (work.next < each->n && r == 0) {
                work.is_stuck = false;
                r = run_tracer(trace, &work, each->is_sigchld_shared);
        }
        return r;
}

/* ---- all at once ---- */

struct one {
        int signal;
        bool is_traced;
};

struct all {
        struct infp_stop_all *asked;
        struct one *ones;
};

/* All are asked before one is waited for, so that they stop in the time that the slowest one needs. Those that did not stop are let go
 * by this thread's end. */
static void *trace_all(void *context)
{
        struct all *all = context;
        struct infp_stop_all *asked = all->asked;
        const uint64_t begin = infp_clock_ns(CLOCK_MONOTONIC), deadline = begin + asked->patience_ms * INFP_NS_PER_MS;
        unsigned n_running = 0;

        ask_for_short_slices();
        for (unsigned i = 0; i < asked->n; i++) {
                const int r = ask(asked->tids[i]);

                all->ones[i].is_traced = r == 0;
                n_running += r < 0 && r != -ESRCH;
        }
        for (unsigned i = 0; i < asked->n; i++) {
                struct one *one = &all->ones[i];
                int error = 0;

                if (!one->is_traced)
                        continue;
                one->is_traced = await_stop(asked->tids[i], deadline, false, &one->signal, &error);
                n_running += error == ETIMEDOUT;
        }
        asked->run(asked->context, n_running);
        for (unsigned i = 0; i < asked->n; i++)
                if (all->ones[i].is_traced)
                        let_go(asked->tids[i], all->ones[i].signal);
        asked->stopped_ns = infp_clock_ns(CLOCK_MONOTONIC) - begin;
        return NULL;
}

int infp_stop_all(struct infp_stop_all *asked)
{
        struct all all = { asked, calloc(asked->n ? asked->n : 1, sizeof(struct one)) };
        int r = all.ones ? run_tracer(trace_all, &all, false) : -ENOMEM;

        free(all.ones);
        return r;
}
