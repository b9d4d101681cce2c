/* The reader's side: who has a CPU, and what its stack is. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/time.h"
#include "sampler/remote/remote.h"
#include "sampler/stopped/stop.h"

enum {
        MOST_DUE = 8, /* samples: a thread that could not be read for long does not get them all at once */
        OWN_TEXT = 4096,
        FORGET = 256, /* looks, of which half are kept */
        PRIOR = 4, /* before anything is known, a look counts like one of a thread that runs, but only this part of it */
        /* Samples' worth of CPU time without a look: the thread's turns may be counted wrong; UNSEEN times as much: they are. */
        UNSEEN = 8,
        SPARE = 10, /* after a stop that was too long, none for so many times as long */
};

/* Of a reading; has_python is as in infp_wall_python_found. */
static struct infp_wall_message *begin(struct infp_remote_reads *reads, struct infp_wall_reader *reader,
                                       const struct infp_wall_thread *thread, uint32_t stack_bytes)
{
        struct infp_wall_message *message =
                infp_wall_reader_begin(reader, stack_bytes + (uint32_t) sizeof(reads->found.frames));

        if (!message)
                return NULL;
        message->kind = INFP_WALL_MESSAGE_REMOTE;
        message->pid = thread->pid;
        message->tid = thread->tid;
        message->moment.t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        return message;
}

/* A thread whose turn has ended meanwhile was read where it slept, or has waited for a CPU. A stop ends a turn, after it has begun one
 * for a thread that had none. */
static bool has_moved(struct infp_remote_reads *reads, struct infp_wall_threads *threads,
                      struct infp_wall_thread *thread)
{
        struct infp_wall_turns now;

        if (!reads->has_turns)
                return false;
        if (infp_wall_thread_turns(&threads->keeper, threads->proc_fd, thread, &now) < 0)
                return true;
        return reads->is_blocking ? now.n_begun != reads->turns.n_begun + reads->is_displaced
                                  : now.n_begun != reads->turns.n_begun || now.n_ended != reads->turns.n_ended;
}

/* ---- while it runs ---- */

/* False: what it used counts for its next sample. */
static bool read_running(struct infp_remote_reads *reads, struct infp_wall_reader *reader,
                         struct infp_wall_threads *threads, struct infp_wall_thread *thread,
                         struct infp_wall_python *python, uint64_t weight_ns)
{
        struct infp_wall_message *message = begin(reads, reader, thread, 0);
        struct infp_wall_python_found *found = &reads->found;

        if (!message)
                return false;
        message->period_ns = weight_ns;
        if (!python) { /* nobody has looked for it yet, or it has none */
                infp_wall_reader_commit(reader, message);
                return false;
        }
        found->n_rejected = 0;
        infp_wall_python_running(python, threads->proc_fd, thread, true, found);
        atomic_fetch_add(&reads->n_rejected, found->n_rejected);
        if (has_moved(reads, threads, thread)) {
                atomic_fetch_add(&reads->n_rejected, 1);
                return false;
        }
        if (!found->has_frames || (found->end == INFP_PYTHON_WHOLE && !found->n)) /* its time is not Python's */
                return true;
        if (found->end != INFP_PYTHON_WHOLE && found->end != INFP_PYTHON_TOO_DEEP) {
                if (!found->n_rejected)
                        atomic_fetch_add(&reads->n_torn, 1);
                return false;
        }
        infp_wall_message_put_python(message, found);
        atomic_fetch_add(&reads->cpu_ns, weight_ns);
        infp_wall_reader_commit(reader, message);
        return true;
}

/* ---- while it is stopped ---- */

struct stopping {
        struct infp_remote_reads *reads;
        struct infp_wall_reader *reader;
        struct infp_wall_threads *threads;
        struct infp_wall_thread *thread;
        struct infp_wall_python *python;
        struct infp_wall_message *message;
        bool was_taken, has_moved;
};

static bool may_wait(void *context, unsigned index)
{
        (void) context;
        (void) index;
        return false;
}

static void read_stopped(void *context, unsigned index, const struct infp_stopped *stopped)
{
        struct stopping *s = context;
        struct infp_wall_message *message = s->message;
        struct infp_wall_python_found *found = &s->reads->found;
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC),
                       until_ns = now_ns + INFP_REMOTE_BOUND_MS * INFP_NS_PER_MS;
        ssize_t n;

        (void) index;
        message->moment.t_ns = now_ns;
        s->has_moved = has_moved(s->reads, s->threads, s->thread);
        message->is_torn = true;
        if (s->has_moved)
                return;
        message->moment.has_registers = true;
        memcpy(message->moment.registers, stopped->registers, sizeof(stopped->registers));
        if (s->python)
                infp_wall_python_blocked(s->python, s->threads->proc_fd, s->thread, &message->moment, found);
        if (infp_clock_ns(CLOCK_MONOTONIC) >= until_ns)
                return;
        n = infp_wall_read_stack(stopped->tid, stopped->registers[INFP_RSP], message->stack, INFP_WALL_MAX_STACK_BYTES);
        message->stack_size = n > 0 ? (uint32_t) n & ~UINT32_C(7) : 0;
        message->is_whole = message->stack_size == INFP_WALL_MAX_STACK_BYTES;
        message->is_torn = infp_clock_ns(CLOCK_MONOTONIC) >= until_ns;
        if (s->python)
                infp_wall_message_put_python(message, found);
}

/* Of a thread that has ended the kernel says, too, that it may not be stopped. */
static bool has_ended(const struct stopping *s)
{
        uint64_t ns;
        char letter;

        return infp_wall_thread_time(&s->threads->keeper, s->threads->proc_fd, s->thread, &ns, &letter) < 0 ||
               !letter || strchr("ZX", letter);
}

static void done(void *context, unsigned index, const struct infp_stopped *stopped)
{
        struct stopping *s = context;
        struct infp_remote_reads *reads = s->reads;

        (void) index;
        if ((stopped->result == INFP_STOP_DENIED || stopped->result == INFP_STOP_FAILED) && !has_ended(s)) {
                atomic_store(&reads->refused_pid, stopped->pid);
                atomic_store(&reads->refused, stopped->error);
        }
        if (stopped->result == INFP_STOP_LATE)
                atomic_fetch_add(&reads->n_lost, 1);
        if (stopped->result != INFP_STOP_STOPPED)
                return;
        if (stopped->stopped_ns > INFP_REMOTE_BOUND_MS * INFP_NS_PER_MS)
                reads->spared_ns = infp_clock_ns(CLOCK_MONOTONIC) + SPARE * stopped->stopped_ns;
        s->was_taken = !s->message->is_torn;
        if (s->message->is_torn)
                atomic_fetch_add(s->has_moved ? &reads->n_rejected : &reads->n_lost, 1);
        else
                atomic_fetch_add(&reads->cpu_ns, s->message->period_ns);
        s->message->waited_ns = stopped->waited_ns;
        s->message->stopped_ns = stopped->stopped_ns;
        infp_wall_reader_commit(s->reader, s->message);
}

static bool stop_and_read(struct infp_remote_reads *reads, struct infp_wall_reader *reader,
                          struct infp_wall_threads *threads, struct infp_wall_thread *thread,
                          struct infp_wall_python *python, uint64_t weight_ns)
{
        struct stopping s = {
                .reads = reads, .reader = reader, .threads = threads, .thread = thread, .python = python
        };
        const struct infp_stop_each each = { .tids = &thread->tid,
                                             .n = 1,
                                             .pid = thread->pid,
                                             .patience_ms = INFP_REMOTE_BOUND_MS,
                                             .is_sigchld_shared = true,
                                             .may_wait = may_wait,
                                             .run = read_stopped,
                                             .done = done,
                                             .context = &s };

        if (infp_clock_ns(CLOCK_MONOTONIC) < reads->spared_ns) {
                atomic_fetch_add(&reads->n_lost, 1);
                return false;
        }
        s.message = begin(reads, reader, thread, INFP_WALL_MAX_STACK_BYTES);
        if (!s.message)
                return false;
        s.message->period_ns = weight_ns;
        return infp_stop_each(&each) == 0 && s.was_taken;
}

/* ---- a thread of a round ---- */

void infp_remote_round(void *context)
{
        struct infp_remote_reads *reads = context;
        char text[OWN_TEXT];
        const ssize_t n = infp_read_at(AT_FDCWD, "/proc/thread-self/sched", text, sizeof(text));
        struct infp_wall_turns turns;

        reads->came_ns = n > 0 && infp_wall_parse_turns(text, (size_t) n, &turns) == 0 ? turns.counted_ns : 0;
}

/* A thread that waits for a CPU is not where its CPU time goes, but where it lost the CPU, or slept. One has a CPU that has begun a turn
 * more than it has ended; the kernel does not count the begin where a thread was displaced on its way to sleep, so the difference sinks
 * in time, as one sees of a thread that sleeps. And one had the CPU that we have: its last turn ended when ours began. Where the kernel
 * does not tell, those that wait are looked at, too. */
static bool has_cpu(struct infp_remote_reads *reads, struct infp_wall_threads *threads, struct infp_wall_thread *thread)
{
        const bool wants = thread->letter == 'R', is_long = thread->unseen_ns > UNSEEN * reads->period_ns;
        struct infp_wall_turns *turns = &reads->turns;
        int64_t open;
        int r;

        if (!wants && (!thread->letter || !is_long))
                return false;
        r = infp_wall_thread_turns(&threads->keeper, threads->proc_fd, thread, turns);
        reads->has_turns = r == 0;
        if (r == -ENOENT || r == -EACCES || r == -EBADMSG)
                atomic_store(&reads->is_untold, true);
        if (r < 0)
                return wants;
        open = (int64_t) (turns->n_begun - turns->n_ended) + !wants;
        if (is_long && (!wants || thread->unseen_ns > UNSEEN * UNSEEN * reads->period_ns) && open < thread->open_turns)
                thread->open_turns = open;
        if (is_long && !wants)
                thread->unseen_ns = 0;
        if (wants && open > thread->open_turns)
                thread->open_turns = open;
        reads->is_displaced = open != thread->open_turns;
        return wants && (!reads->is_displaced || (reads->came_ns && turns->counted_ns == reads->came_ns));
}

/* Whether the thread is one to look at, and what it has used. */
static bool is_seen(struct infp_remote_reads *reads, struct infp_wall_threads *threads, struct infp_wall_thread *thread,
                    uint64_t cpu_ns)
{
        const uint64_t used_ns = thread->is_met && cpu_ns > thread->cpu_ns ? cpu_ns - thread->cpu_ns : 0;

        if (!thread->is_met)
                thread->open_turns = 1;
        thread->is_met = true;
        thread->cpu_ns = cpu_ns;
        thread->used_ns += used_ns;
        thread->unseen_ns += used_ns;
        if (!has_cpu(reads, threads, thread))
                return false;
        thread->unseen_ns = 0;
        return true;
}

/* Looks at a thread that has a CPU are samples, and stand for as much as it takes for the CPU time that it has used. That does not hang
 * on what the kernel has counted since the last look: that is counted at ticks and when a thread leaves its CPU, and threads that
 * leave it often would be seen too often, where they do. */
bool infp_remote_read(void *context, struct infp_wall_reader *reader, struct infp_wall_threads *threads,
                      struct infp_wall_thread *thread, struct infp_wall_python *python)
{
        struct infp_remote_reads *reads = context;
        const bool counts = thread->is_met; /* at the first look nothing can have been counted */
        double due, n_looks;
        uint64_t cpu_ns;
        unsigned n;
        char letter;
        const int r = infp_wall_thread_time(&threads->keeper, threads->proc_fd, thread, &cpu_ns, &letter);

        if (r == -ESRCH || r == -ENOENT)
                return false;
        if (r < 0 || !is_seen(reads, threads, thread, cpu_ns))
                return true;
        n_looks = (double) (thread->n_looks + counts);
        due = thread->due + ((double) thread->used_ns * PRIOR / (double) reads->period_ns + 1) / (n_looks * PRIOR + 1);
        if (due > MOST_DUE)
                due = MOST_DUE;
        n = (unsigned) due;
        if (n) {
                const uint64_t weight_ns = n * reads->period_ns;

                infp_wall_reader_whole(reader);
                if (!(reads->is_blocking ? stop_and_read(reads, reader, threads, thread, python, weight_ns)
                                         : read_running(reads, reader, threads, thread, python, weight_ns)))
                        return true; /* as if nobody had looked */
        }
        thread->due = due - n;
        thread->n_looks += counts;
        if (thread->n_looks >= FORGET) {
                thread->n_looks /= 2;
                thread->used_ns /= 2;
        }
        return true;
}
