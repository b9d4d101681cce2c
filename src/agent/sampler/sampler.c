#include "agent/sampler/sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/area.h"
#include "agent/core/machine.h"
#include "agent/core/memory.h"
#include "agent/core/preload.h"
#include "agent/core/stack.h"
#include "agent/core/tables.h"
#include "agent/sampler/timers.h"
#include "ring/writer.h"

#define WAIT_NS UINT64_C(60000000000) /* for a recorder */
#define GONE_NS UINT64_C(5000000000)  /* a recorder that has not read for so long is stopped or dead */

struct signal {
        const ucontext_t *context;
        uint64_t now_ns;
        uint32_t periods;
};

extern int __sigaction(int, const struct sigaction *, struct sigaction *); /* libc's own: the stub has the other name */

static _Atomic uint32_t state; /* enum infp_wire_sampler; 0: not begun */
static uint64_t period_ns;
static _Atomic uint64_t wait_ns;      /* since when it waits for a recorder */
static _Atomic uint64_t recorder;     /* the pid that it has sampled for; 0: none yet */
static _Atomic uint64_t cpu_begin_ns; /* of the process, when it began to sample */
static struct sigaction before;       /* what the program believes to be the action for SIGPROF */
static infp_preload_sigaction_fn *_Atomic *hook;
static infp_preload_thread_fn *_Atomic *thread_hook;
static uint64_t tid_offset; /* of a thread's number from its pthread_t; 0: not known */

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

static void set_state(enum infp_wire_sampler next)
{
        struct infp_wire_head *head = infp_writer_head();

        atomic_store(&state, next);
        if (head)
                atomic_store(&head->sampler_state, next);
        if (next > INFP_WIRE_SAMPLER_RUNS)
                infp_agent_timers_end();
        if (next == INFP_WIRE_SAMPLER_ALONE && head && !atomic_load(&head->consumer_seen_ns))
                infp_writer_remove(); /* no recorder has come */
}

/* ---- a sample, in the handler of the thread that it is of ---- */

static void put_sample(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                       const struct infp_agent_walk *walked, struct infp_writer_thread *thread)
{
        struct infp_wire_sample sample = {
                .record = { .kind = INFP_WIRE_SAMPLE, .flags = moment->flags | walked->flags, .t_ns = moment->t_ns },
                .cpu = moment->cpu,
                .periods = moment->periods,
                .epoch = walked->epoch,
                .tid = moment->tid,
        };
        const struct infp_writer_text texts[] = {
                { &sample.native, (const char *) stack->native, walked->n * 8 },
                { &sample.python, (const char *) moment->python, moment->n_python * 8 },
        };

        infp_writer_put(thread, INFP_WIRE_RECENT, &sample, sizeof(sample), texts, 2);
}

static void account(uint64_t since_ns)
{
        struct infp_wire_head *head = infp_writer_head();
        const uint64_t begun = atomic_load_explicit(&cpu_begin_ns, memory_order_relaxed);

        atomic_fetch_add_explicit(&head->sampler_own_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - since_ns,
                                  memory_order_relaxed);
        atomic_store_explicit(&head->sampler_cpu_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun, memory_order_relaxed);
}

static void fill_moment(struct infp_agent_moment *moment, const struct signal *signal)
{
        const int cpu = sched_getcpu();

        moment->put = put_sample;
        moment->t_ns = signal->now_ns;
        moment->tid = (uint32_t) syscall(SYS_gettid);
        moment->cpu = cpu < 0 ? UINT32_MAX : (uint32_t) cpu;
        moment->periods = signal->periods;
        moment->flags = 0;
        moment->may_recur = false;
        infp_agent_registers(signal->context, moment->registers);
}

static void take_sample(void *memory, void *context)
{
        struct infp_agent_stack *stack = memory;
        const struct signal *signal = context;
        struct infp_agent_moment *moment = &stack->moment;
        const uint64_t since_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        struct infp_writer_thread *thread = infp_writer_begin();
        struct infp_agent_walk walked;

        if (!thread)
                return;
        fill_moment(moment, signal);
        walked = infp_agent_stack_walk(stack, moment, true);
        moment->n_python = infp_agent_python_frames(&stack->python, thread, walked.is_python || walked.is_unmapped,
                                                    moment->python, &moment->flags);
        if (walked.is_unmapped)
                atomic_fetch_add(&infp_writer_head()->sampler_unmapped, 1);
        if (!walked.is_unmapped || !infp_agent_stack_keep(moment))
                put_sample(stack, moment, &walked, thread);
        account(since_ns);
        infp_writer_end();
}

/* ---- now and then: who listens, what is mapped, which threads there are ---- */

/* After a pause its CPU time goes on from where it began: the time between shows as samples that are missing. */
static void begin_sampling(uint64_t consumer)
{
        if (!atomic_load(&recorder))
                atomic_store(&cpu_begin_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        atomic_store(&recorder, consumer);
        set_state(INFP_WIRE_SAMPLER_RUNS);
}

static void await_recorder(struct infp_wire_head *head, uint64_t now_ns, bool is_read)
{
        const uint64_t consumer = atomic_load(&head->consumer_pid), before_pause = atomic_load(&recorder);

        atomic_store(&head->sampler_state, INFP_WIRE_SAMPLER_WAITS);
        atomic_store(&head->sampler_period_ns, (uint32_t) period_ns);
        if (before_pause)
                atomic_store_explicit(&head->sampler_cpu_ns,
                                      clock_ns(CLOCK_PROCESS_CPUTIME_ID) - atomic_load(&cpu_begin_ns),
                                      memory_order_relaxed);
        if (now_ns > atomic_load(&wait_ns) + WAIT_NS || (before_pause && before_pause != consumer))
                set_state(INFP_WIRE_SAMPLER_ALONE);
        else if (is_read && infp_agent_tables_number())
                begin_sampling(consumer);
}

static void look_around(void *memory, void *context)
{
        const struct signal *signal = context;
        struct infp_writer_thread *thread = infp_writer_begin(); /* a child of fork makes its file here */
        struct infp_wire_head *head = infp_writer_head();
        uint64_t consumer, tables;
        bool is_read;

        if (!thread)
                return;
        consumer = atomic_load(&head->consumer_pid);
        is_read = consumer && atomic_load(&head->consumer_seen_ns) + GONE_NS >= signal->now_ns;
        tables = atomic_load(&head->tables);
        if (tables && tables != infp_agent_tables_number())
                infp_agent_tables_load(tables, head->pid, head->start_ticks);
        infp_agent_moments_give(memory, thread, UINT_MAX, false);
        if (atomic_load(&state) == INFP_WIRE_SAMPLER_WAITS) {
                await_recorder(head, signal->now_ns, is_read && tables);
        } else if (!consumer) {
                set_state(INFP_WIRE_SAMPLER_ALONE);
        } else if (!is_read) { /* it may have been stopped, and go on */
                atomic_store(&wait_ns, signal->now_ns);
                set_state(INFP_WIRE_SAMPLER_WAITS);
        }
        if (atomic_load(&state) <= INFP_WIRE_SAMPLER_RUNS)
                atomic_store(&head->sampler_skipped, infp_agent_timers_look(signal->now_ns));
        infp_writer_end();
}

/* ---- the signal ---- */

/* It is the program's: as if we were not here. It is blocked until this handler returns. */
static void pass_on(int number)
{
        if (before.sa_handler == SIG_IGN)
                return;
        __sigaction(number, &before, NULL);
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
        const int error = errno;
        struct signal signal = { .context = context };
        int cancel_state;
        bool samples;

        if (!infp_agent_timer_is_ours(info)) {
                pass_on(number);
                return;
        }
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        signal.now_ns = infp_writer_now_ns();
        signal.periods = 1 + (info->si_overrun > 0 ? (uint32_t) info->si_overrun : 0);
        samples = atomic_load(&state) == INFP_WIRE_SAMPLER_RUNS;
        if (atomic_load(&state) <= INFP_WIRE_SAMPLER_RUNS && infp_agent_timers_are_due(signal.now_ns))
                infp_agent_area_work(look_around, &signal);
        if (samples && !infp_agent_area_work(take_sample, &signal))
                atomic_fetch_add_explicit(&infp_writer_head()->sampler_busy, 1, memory_order_relaxed);
        pthread_setcancelstate(cancel_state, NULL);
        errno = error;
}

/* In the thread that has made another one. Where the kernel says where libc keeps a thread's number it is read there; else all threads are
 * looked for. */
static void on_thread(pthread_t made)
{
        const int error = errno;
        int32_t tid = 0;
        int cancel_state;

        if (atomic_load(&state) > INFP_WIRE_SAMPLER_RUNS)
                return;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        if (tid_offset)
                infp_agent_memory_copy((uint64_t) made + tid_offset, &tid, sizeof(tid));
        if (tid || !tid_offset) /* else it has ended */
                infp_agent_timers_add(tid, infp_writer_now_ns());
        pthread_setcancelstate(cancel_state, NULL);
        errno = error;
}

/* The program's own calls. A handler of its own ends our sampling before it is set; a program that only asks, or restores the default, sees
 * what would be there without us. */
static bool take_sigaction(int number, const struct sigaction *action, struct sigaction *ret_old, int *ret_result)
{
        if (number != SIGPROF || atomic_load(&state) == INFP_WIRE_SAMPLER_LEFT)
                return false;
        if (action && action->sa_handler != before.sa_handler) {
                const struct sigaction old = before;

                set_state(INFP_WIRE_SAMPLER_LEFT);
                *ret_result = __sigaction(number, action, NULL);
                if (ret_old && *ret_result == 0)
                        *ret_old = old;
                return true;
        }
        if (ret_old)
                *ret_old = before;
        *ret_result = 0;
        return true;
}

/* ---- begin, and again in a child ---- */

static void find_tid_offset(void)
{
        const uint64_t self = (uint64_t) pthread_self();
        int32_t *at = NULL;

        if (prctl(PR_GET_TID_ADDRESS, &at) == 0 && (uint64_t) (uintptr_t) at > self &&
            (uint64_t) (uintptr_t) at - self < 4096 && *at == (int32_t) syscall(SYS_gettid))
                tid_offset = (uint64_t) (uintptr_t) at - self;
}

static int begin_timers(void)
{
        atomic_store(&wait_ns, infp_writer_now_ns());
        atomic_store(&state, INFP_WIRE_SAMPLER_WAITS);
        return infp_agent_timers_begin(period_ns);
}

/* Its ring file comes with its first CPU time: most children of servers exec at once. */
static void forked(void)
{
        if (atomic_load(&state) > INFP_WIRE_SAMPLER_RUNS)
                return;
        infp_agent_stacks_forked();
        infp_agent_timers_reset();
        atomic_store(&recorder, 0);
        begin_timers();
}

static void refuse(enum infp_wire_sampler why, uint32_t version)
{
        atomic_store(&infp_writer_head()->sampler_python, version);
        set_state(why);
}

/* At most one signal a tick of the kernel's clock. */
static uint64_t period_of(double hz)
{
        struct timespec tick = { 0, 4000000 };
        const uint64_t asked = (uint64_t) (1e9 / hz);

        clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
        return asked > (uint64_t) tick.tv_nsec ? asked : (uint64_t) tick.tv_nsec;
}

static bool take_signal(void)
{
        struct sigaction action;

        if (__sigaction(SIGPROF, NULL, &before) < 0 || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN))
                return false;
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
        sigfillset(&action.sa_mask); /* a handler of the program must not run on our stack */
        for (const int *kept = (const int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, 0 }; *kept; kept++)
                sigdelset(&action.sa_mask, *kept);
        atomic_store(hook, take_sigaction);
        return __sigaction(SIGPROF, &action, NULL) == 0;
}

void infp_agent_sampler_begin(const struct infp_agent_sampler_options *options)
{
        uint32_t version = 0;
        int r = infp_agent_python_find(&version);

        hook = (infp_preload_sigaction_fn * _Atomic *) dlsym(RTLD_DEFAULT, INFP_PRELOAD_HOOK);
        thread_hook = (infp_preload_thread_fn * _Atomic *) dlsym(RTLD_DEFAULT, INFP_PRELOAD_THREAD_HOOK);
        if (!INFP_AGENT_IS_SUPPORTED || r == -ENOENT || !hook || !thread_hook)
                return;
        period_ns = period_of(options->hz);
        infp_writer_sampler_hz_1000 = (uint32_t) (options->hz * 1000);
        if (infp_writer_enable() < 0)
                return;
        if (r < 0) {
                refuse(INFP_WIRE_SAMPLER_UNKNOWN, version);
                return;
        }
        atomic_store(&infp_writer_head()->sampler_python, version);
        if (!infp_agent_stacks_begin(options->tables)) {
                refuse(INFP_WIRE_SAMPLER_REFUSED, version);
                return;
        }
        if (!take_signal()) {
                refuse(INFP_WIRE_SAMPLER_LEFT, version);
                return;
        }
        pthread_atfork(NULL, NULL, forked);
        if (begin_timers() < 0) {
                refuse(INFP_WIRE_SAMPLER_REFUSED, version);
                return;
        }
        find_tid_offset();
        atomic_store(thread_hook, on_thread);
}
