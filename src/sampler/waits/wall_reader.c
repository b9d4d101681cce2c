#include "sampler/waits/wall_reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_ring.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/time.h"

enum {
        QUEUE_BYTES = 2 << 20,
        TIDS = 4096, /* slots of sizes of stacks; threads may share one */
        MAX_DOUBLINGS = 8,
        HINTS = 64,
        MAX_HINTED = 4096,
        MAX_WOKEN = 256, /* in a process; of more it is not known */
        WHOLE_COST = 8,  /* reading a thread that has run costs so many reads of one that has not */
        JOIN_S = 2,
};
#define ROOM_NAP_NS (INFP_NS_PER_MS)

/* A thread that runs, or was woken for the GIL and has no CPU yet. */
struct woken {
        int32_t tid; /* 0: that it waits is known by other means */
        uint32_t n_waiting;
};

struct change {
        struct change *next;
        int32_t pid;
        struct infp_wall_python *python;
};

struct infp_wall_reader {
        struct infp_wall_reader_options options;
        pthread_t thread;
        bool is_started, is_left; /* is_left: it hangs in a read, and its memory stays */
        pthread_mutex_t lock;
        pthread_cond_t changed;
        _Atomic bool is_stopped; /* set under lock */
        _Atomic bool wants_running;
        int32_t hints[HINTS]; /* under lock */
        unsigned n_hints;
        struct change *changes; /* under lock: what is new of Python, the newest first */
        struct infp_map hinted; /* pids that were named; of the thread that names them */

        struct infp_byte_ring queue;
        struct infp_wall_threads threads;
        uint64_t random, begin_ns, period_ns; /* of the running stretch */
        uint64_t n_whole;                     /* threads of the running round that were read whole */
        _Atomic uint8_t doublings[TIDS];
        struct infp_map pythons;         /* pid -> struct infp_wall_python */
        struct infp_wall_python *python; /* of the process that is being read; NULL: none */
        struct infp_wall_python_found found;
        struct woken woken[MAX_WOKEN]; /* of the process that is being read */
        uint32_t n_woken;

        _Atomic uint64_t tasks_torn, tasks_left_out, tasks_no_queue, tasks_cpu_ns, lag_cpu_ns;
        _Atomic uint64_t wanted, lost, n_torn, n_threads, own_cpu_ns, shown_period_ns;
        _Atomic int refused_call, refused_stack, refused_pid, gil_off_pid;
};

/* Waits until deadline_ns; true: it was told to stop. */
static bool wait_until(struct infp_wall_reader *reader, uint64_t deadline_ns)
{
        const struct timespec until = infp_timespec(deadline_ns);
        int r = 0;

        pthread_mutex_lock(&reader->lock);
        while (!reader->is_stopped && r != ETIMEDOUT)
                r = pthread_cond_timedwait(&reader->changed, &reader->lock, &until);
        pthread_mutex_unlock(&reader->lock);
        return reader->is_stopped;
}

/* Room for a message, however long that takes: rounds come later then. NULL: it is to stop. */
struct infp_wall_message *infp_wall_reader_begin(struct infp_wall_reader *reader, uint32_t stack_bytes)
{
        struct infp_wall_message *message;

        while (!(message = infp_byte_ring_begin(&reader->queue, sizeof(*message) + stack_bytes, 0))) {
                if (reader->is_stopped) /* whom to wake is not there any more, if we hung in a read until now */
                        return NULL;
                reader->options.context->wake(reader->options.context);
                if (wait_until(reader, infp_clock_ns(CLOCK_MONOTONIC) + ROOM_NAP_NS))
                        return NULL;
        }
        memset(message, 0, sizeof(*message));
        return message;
}

void infp_wall_reader_commit(struct infp_wall_reader *reader, const struct infp_wall_message *message)
{
        infp_byte_ring_commit(&reader->queue, sizeof(*message) + message->stack_size +
                                                      message->n_python * sizeof(struct infp_frames_one));
}

static void tell_gone(void *context, int32_t tid)
{
        struct infp_wall_reader *reader = context;
        struct infp_wall_message *message;

        message = infp_wall_reader_begin(reader, 0);
        if (!message)
                return;
        message->kind = INFP_WALL_MESSAGE_GONE;
        message->tid = tid;
        infp_wall_reader_commit(reader, message);
}

void infp_wall_reader_whole(struct infp_wall_reader *reader)
{
        reader->n_whole++;
}

/* Stacks that proved larger are read again, with more room. */
static void choose_size(struct infp_wall_reader *reader, struct infp_wall_thread *thread)
{
        const unsigned doublings = atomic_load_explicit(&reader->doublings[thread->tid % TIDS], memory_order_relaxed);
        uint32_t bytes = reader->options.stack_bytes;

        for (unsigned i = 0; i < doublings && bytes < INFP_WALL_MAX_STACK_BYTES; i++)
                bytes *= 2;
        if (bytes > INFP_WALL_MAX_STACK_BYTES)
                bytes = INFP_WALL_MAX_STACK_BYTES;
        if (bytes == thread->stack_bytes)
                return;
        thread->stack_bytes = bytes;
        thread->is_known = false;
}

static void refuse(struct infp_wall_reader *reader, const struct infp_wall_refused *refused)
{
        if (!refused->call && !refused->stack)
                return;
        atomic_store(&reader->refused_pid, refused->pid);
        if (refused->call)
                atomic_store(&reader->refused_call, refused->call);
        if (refused->stack)
                atomic_store(&reader->refused_stack, refused->stack);
}

/* ---- Python ---- */

void infp_wall_reader_python(struct infp_wall_reader *reader, int32_t pid, struct infp_wall_python *python)
{
        struct change *change = malloc(sizeof(*change));

        if (!change) {
                infp_wall_python_free(python);
                return;
        }
        pthread_mutex_lock(&reader->lock);
        *change = (struct change){ reader->changes, pid, python };
        reader->changes = change;
        pthread_mutex_unlock(&reader->lock);
}

void infp_wall_reader_want_running(struct infp_wall_reader *reader, bool wants)
{
        reader->wants_running = wants;
}

static struct infp_wall_python *python_of(const struct infp_wall_reader *reader, int32_t pid)
{
        const uint64_t *at = infp_map_get(&reader->pythons, (uint64_t) pid);

        return at ? (struct infp_wall_python *) (uintptr_t) *at : NULL;
}

/* What was read of its threads lacks their frames. */
static void read_anew(struct infp_wall_reader *reader, int32_t pid)
{
        for (uint32_t i = 0; i < reader->threads.n_processes; i++)
                for (uint32_t k = 0;
                     reader->threads.processes[i].pid == pid && k < reader->threads.processes[i].n_threads; k++)
                        reader->threads.processes[i].threads[k].is_known = false;
}

/* Tasks of the program that the process has run until now. */
static void tell_no_tasks(struct infp_wall_reader *reader, int32_t pid)
{
        struct infp_wall_message *message = infp_wall_reader_begin(reader, 0);

        if (!message)
                return;
        message->kind = INFP_WALL_MESSAGE_TASK_GONE;
        message->pid = pid;
        infp_wall_reader_commit(reader, message);
}

static void put_python(struct infp_wall_reader *reader, int32_t pid, struct infp_wall_python *python)
{
        struct infp_wall_python *before = python_of(reader, pid);

        if (before && infp_wall_python_tasks(before))
                tell_no_tasks(reader, pid);
        infp_wall_python_free(before);
        infp_map_delete(&reader->pythons, (uint64_t) pid);
        if (python && infp_map_put(&reader->pythons, (uint64_t) pid, (uint64_t) (uintptr_t) python) < 0)
                python = infp_wall_python_free(python);
        if (python)
                read_anew(reader, pid);
}

static void take_pythons(struct infp_wall_reader *reader)
{
        struct change *newest, *oldest = NULL;

        pthread_mutex_lock(&reader->lock);
        newest = reader->changes;
        reader->changes = NULL;
        pthread_mutex_unlock(&reader->lock);
        while (newest) {
                struct change *next = newest->next;

                newest->next = oldest;
                oldest = newest;
                newest = next;
        }
        while (oldest) {
                struct change *next = oldest->next;

                put_python(reader, oldest->pid, oldest->python);
                free(oldest);
                oldest = next;
        }
}

static void free_pythons(struct infp_wall_reader *reader)
{
        take_pythons(reader);
        for (size_t i = 0; i < reader->pythons.cap; i++)
                if (reader->pythons.slots[i].key)
                        infp_wall_python_free((struct infp_wall_python *) (uintptr_t) reader->pythons.slots[i].value);
        infp_map_done(&reader->pythons);
}

static void read_blocked(void *context, struct infp_wall_thread *thread, const struct infp_wall_moment *moment)
{
        struct infp_wall_reader *reader = context;

        infp_wall_python_blocked(reader->python, reader->threads.proc_fd, thread, moment, &reader->found);
}

static struct infp_wall_tasks *tasks_of(const struct infp_wall_reader *reader)
{
        return reader->python ? infp_wall_python_tasks(reader->python) : NULL;
}

/* Behind the stack. */
static void put_found(struct infp_wall_reader *reader, struct infp_wall_thread *thread,
                      struct infp_wall_message *message)
{
        const struct infp_wall_python_found *found = &reader->found;

        if (!reader->python)
                return;
        if (message->moment.letter == 'R')
                infp_wall_python_running(reader->python, reader->threads.proc_fd, thread, reader->wants_running,
                                         &reader->found);
        if (found->gil_is_off)
                atomic_store(&reader->gil_off_pid, thread->pid);
        if (!found->program || message->is_torn)
                return;
        infp_wall_message_put_python(message, found);
        if (found->n_waiting) {
                if (reader->n_woken < MAX_WOKEN)
                        reader->woken[reader->n_woken] =
                                (struct woken){ found->gil == INFP_GIL_NONE ? thread->tid : 0, found->n_waiting };
                else if (found->gil == INFP_GIL_NONE)
                        message->gil = INFP_GIL_UNKNOWN;
                reader->n_woken++;
        }
}

/* ---- tasks ---- */

struct telling {
        struct infp_wall_reader *reader;
        const struct infp_wall_thread *thread;
        uint64_t t_ns;
};

static void tell_task(void *context, uint64_t address, const struct infp_wall_task *task)
{
        const struct telling *telling = context;
        struct infp_wall_task_words words = { .name = "" };
        struct infp_wall_message *message =
                infp_wall_reader_begin(telling->reader, sizeof(words) + (task ? task->n * sizeof(*task->frames) : 0));

        if (!message)
                return;
        message->kind = task ? INFP_WALL_MESSAGE_TASK : INFP_WALL_MESSAGE_TASK_GONE;
        message->pid = telling->thread->pid;
        message->tid = telling->thread->tid;
        message->task = address;
        message->moment.t_ns = telling->t_ns;
        if (task) {
                memcpy(words.name, task->name, sizeof(words.name));
                if (!task->is_running)
                        memcpy(words.state, task->state, sizeof(words.state));
                memcpy(message->stack, &words, sizeof(words));
                message->stack_size = sizeof(words);
                message->program = telling->reader->found.program;
                message->has_python = message->is_python_alone = true;
                message->n_python = task->n;
                message->python_end = task->is_cut ? INFP_PYTHON_TOO_DEEP : INFP_PYTHON_WHOLE;
                if (task->n)
                        memcpy(infp_wall_message_frames(message), task->frames, task->n * sizeof(*task->frames));
        }
        infp_wall_reader_commit(telling->reader, message);
}

static void tell_tasks(struct infp_wall_reader *reader, struct infp_wall_thread *thread, uint64_t t_ns)
{
        struct infp_wall_tasks *tasks = tasks_of(reader);
        struct telling telling = { reader, thread, t_ns };
        struct infp_wall_tasks_counts counts = { 0 };

        if (!tasks)
                return;
        if (!infp_wall_tasks_tell(tasks, tell_task, &telling, &counts))
                thread->is_known = false;
        atomic_fetch_add(&reader->tasks_torn, counts.torn);
        atomic_fetch_add(&reader->tasks_left_out, counts.left_out);
        atomic_fetch_add(&reader->tasks_no_queue, counts.no_queue);
        atomic_fetch_add(&reader->tasks_cpu_ns, counts.own_cpu_ns);
        atomic_fetch_add(&reader->lag_cpu_ns, counts.lag_cpu_ns);
}

/* moment NULL: it has not run since the last look. */
static void tell_hold(struct infp_wall_reader *reader, const struct infp_wall_thread *thread,
                      const struct infp_wall_moment *moment)
{
        struct infp_wall_message *message;
        struct infp_wall_hold hold;

        if (!tasks_of(reader) || !infp_wall_tasks_hold(tasks_of(reader), thread->tid, !moment, &hold))
                return;
        message = infp_wall_reader_begin(reader, hold.n * sizeof(*hold.frames));
        if (!message)
                return;
        message->kind = INFP_WALL_MESSAGE_HOLD;
        message->pid = thread->pid;
        message->tid = thread->tid;
        message->hold = hold;
        message->hold.frames = NULL;
        message->gil = reader->found.gil;
        if (moment)
                message->moment = *moment;
        message->moment.has_registers = false;
        message->program = reader->found.program;
        message->has_python = message->is_python_alone = true;
        message->n_python = hold.n;
        message->python_end = INFP_PYTHON_WHOLE;
        if (hold.n)
                memcpy(infp_wall_message_frames(message), hold.frames, hold.n * sizeof(*hold.frames));
        infp_wall_reader_commit(reader, message);
}

/* Reads a thread. False: it has ended. */
static bool read_thread(struct infp_wall_reader *reader, struct infp_wall_thread *thread)
{
        const struct infp_wall_also also = { read_blocked, reader };
        struct infp_wall_refused refused = { 0 };
        struct infp_wall_message *message;
        enum infp_wall_found found;
        struct infp_wall_moment moment;

        choose_size(reader, thread);
        reader->found.program = 0;
        if (tasks_of(reader))
                infp_wall_tasks_drop(tasks_of(reader));
        message = infp_wall_reader_begin(reader,
                                         thread->stack_bytes + (reader->python ? sizeof(reader->found.frames) : 0));
        if (!message)
                return true;
        found = infp_wall_thread_read(&reader->threads.keeper, reader->threads.proc_fd, thread, &message->moment,
                                      thread->stack_bytes ? message->stack : NULL, thread->stack_bytes,
                                      &message->stack_size, reader->python ? &also : NULL, &refused);
        refuse(reader, &refused);
        if (found == INFP_WALL_GONE)
                return false;
        if (found == INFP_WALL_FAILED) { /* what it does now is not known */
                atomic_fetch_add(&reader->lost, 1);
                thread->is_known = false;
                tell_gone(reader, thread->tid);
        }
        if (found == INFP_WALL_IDLE)
                tell_hold(reader, thread, NULL);
        if (found != INFP_WALL_CHANGED && found != INFP_WALL_TORN)
                return true;
        reader->n_whole++;
        message->kind = INFP_WALL_MESSAGE_MOMENT;
        message->pid = thread->pid;
        message->tid = thread->tid;
        message->is_torn = found == INFP_WALL_TORN;
        message->is_whole = message->stack_size == thread->stack_bytes;
        if (message->is_torn)
                atomic_fetch_add(&reader->n_torn, 1);
        put_found(reader, thread, message);
        moment = message->moment;
        infp_wall_reader_commit(reader, message);
        if (found == INFP_WALL_CHANGED) {
                tell_hold(reader, thread, &moment);
                tell_tasks(reader, thread, moment.t_ns);
        }
        return true;
}

static void tell_gil(struct infp_wall_reader *reader, int32_t tid, enum infp_gil gil)
{
        struct infp_wall_message *message = infp_wall_reader_begin(reader, 0);

        if (!message)
                return;
        message->kind = INFP_WALL_MESSAGE_GIL;
        message->tid = tid;
        message->gil = gil;
        infp_wall_reader_commit(reader, message);
}

/* A thread that was woken for the GIL waits for it until it has a CPU, but nothing shows where it is. The GIL's condition variables
 * count it: where as many wait as sleep there none was woken, and where as many more as there are threads that run, all were. */
static void judge_woken(struct infp_wall_reader *reader, const struct infp_wall_process *process)
{
        uint32_t n_asleep = 0;

        for (uint32_t i = 0; reader->n_woken && i < process->n_threads; i++)
                n_asleep += process->threads[i].was_blocked && process->threads[i].waits_in_gil;
        for (uint32_t i = 0; i < reader->n_woken && i < MAX_WOKEN; i++) {
                const struct woken *woken = &reader->woken[i];

                if (!woken->tid)
                        continue;
                if (woken->n_waiting >= n_asleep + reader->n_woken)
                        tell_gil(reader, woken->tid, INFP_GIL_WAITED);
                else if (woken->n_waiting > n_asleep)
                        tell_gil(reader, woken->tid, INFP_GIL_UNKNOWN);
        }
}

static void read_process(struct infp_wall_reader *reader, struct infp_wall_process *process)
{
        reader->n_woken = 0;
        reader->python = python_of(reader, process->pid);
        if (reader->python)
                infp_wall_python_round(reader->python);
        if (tasks_of(reader) && infp_wall_tasks_have_come(tasks_of(reader), process->pid))
                read_anew(reader, process->pid);
        for (uint32_t i = 0; i < process->n_threads && !reader->is_stopped;)
                if (reader->options.read ? reader->options.read(reader->options.read_context, reader, &reader->threads,
                                                                &process->threads[i], reader->python)
                                         : read_thread(reader, &process->threads[i]))
                        i++;
                else
                        infp_wall_threads_ended(&reader->threads, process, i);
        judge_woken(reader, process);
}

static void take_hints(struct infp_wall_reader *reader, uint64_t now_ns)
{
        pthread_mutex_lock(&reader->lock);
        for (unsigned i = 0; i < reader->n_hints; i++)
                infp_wall_threads_hint(&reader->threads, reader->hints[i], now_ns);
        reader->n_hints = 0;
        pthread_mutex_unlock(&reader->lock);
}

void infp_wall_reader_hint(struct infp_wall_reader *reader, int32_t pid)
{
        if (infp_map_get(&reader->hinted, (uint64_t) pid))
                return;
        if (reader->hinted.n >= MAX_HINTED)
                infp_map_done(&reader->hinted); /* numbers are given anew */
        if (infp_map_put(&reader->hinted, (uint64_t) pid, 1) < 0)
                return;
        pthread_mutex_lock(&reader->lock);
        if (reader->n_hints < HINTS)
                reader->hints[reader->n_hints++] = pid;
        pthread_mutex_unlock(&reader->lock);
}

static void run_round(struct infp_wall_reader *reader)
{
        const uint64_t t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_wall_threads *threads = &reader->threads;
        struct infp_wall_message *message;

        if (reader->options.round)
                reader->options.round(reader->options.read_context);
        reader->n_whole = 0;
        take_hints(reader, t_ns);
        take_pythons(reader);
        if (infp_wall_threads_refresh(threads, reader->options.context->options->env, t_ns) < 0)
                return;
        for (uint32_t i = 0; i < threads->n_processes; i++)
                read_process(reader, &threads->processes[i]);
        if (reader->is_stopped || !(message = infp_wall_reader_begin(reader, 0)))
                return;
        message->kind = INFP_WALL_MESSAGE_ROUND;
        message->moment.t_ns = t_ns;
        message->period_ns = reader->period_ns;
        message->n_threads = threads->n_threads;
        infp_wall_reader_commit(reader, message);
        reader->options.context->wake(reader->options.context);
        atomic_fetch_add(&reader->wanted, threads->n_threads);
        atomic_store(&reader->n_threads, threads->n_threads);
        atomic_store(&reader->own_cpu_ns, infp_clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

static double next_random(struct infp_wall_reader *reader)
{
        reader->random ^= reader->random << 13;
        reader->random ^= reader->random >> 7;
        reader->random ^= reader->random << 17;
        return (double) (reader->random >> 11) * 0x1p-53;
}

/* The next stretch: as long as asked for, or longer where so many threads would cost too many reads. */
static void next_stretch(struct infp_wall_reader *reader)
{
        const uint64_t cost = reader->threads.n_threads + (WHOLE_COST - 1) * reader->n_whole;
        const uint64_t asked = (uint64_t) (1e9 / reader->options.rate_hz);
        const uint64_t least = cost * INFP_NS_PER_S / reader->options.reads_per_s;
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        uint64_t n_missed;

        reader->begin_ns += reader->period_ns;
        reader->period_ns = least > asked ? least : asked;
        atomic_store(&reader->shown_period_ns, reader->period_ns);
        if (now_ns < reader->begin_ns + reader->period_ns)
                return;
        n_missed = (now_ns - reader->begin_ns) / reader->period_ns;
        reader->begin_ns += n_missed * reader->period_ns;
        atomic_fetch_add(&reader->wanted, n_missed * reader->threads.n_threads);
        atomic_fetch_add(&reader->lost, n_missed * reader->threads.n_threads);
}

static void *run(void *context)
{
        struct infp_wall_reader *reader = context;
        uint64_t due_ns;

        infp_thread_hurry(); /* who is late sees only those that let it in */
        reader->begin_ns = infp_clock_ns(CLOCK_MONOTONIC);
        reader->random = reader->begin_ns | 1;
        for (;;) {
                next_stretch(reader);
                due_ns = reader->begin_ns + (uint64_t) (next_random(reader) * (double) reader->period_ns);
                if (wait_until(reader, due_ns))
                        return NULL;
                run_round(reader);
        }
}

static int start_thread(struct infp_wall_reader *reader, struct infp_err *err)
{
        int r = infp_thread_start(&reader->thread,
                                  reader->options.thread_name ? reader->options.thread_name : "infprof-wall", 0, run,
                                  reader);

        if (r < 0)
                return infp_fail_errno(err, r, "cannot start the thread that reads the target's threads");
        reader->is_started = true;
        return 0;
}

int infp_wall_reader_start(const struct infp_wall_reader_options *options, struct infp_wall_reader **ret,
                           struct infp_err *err)
{
        struct infp_wall_reader *reader = calloc(1, sizeof(*reader));
        int r;

        if (!reader)
                return infp_fail(err, -ENOMEM, "no memory for reading threads");
        reader->options = *options;
        if (!reader->options.reads_per_s)
                reader->options.reads_per_s = INFP_WALL_READS_PER_S;
        pthread_mutex_init(&reader->lock, NULL);
        infp_cond_init(&reader->changed);
        reader->threads.stack_bytes = options->stack_bytes;
        reader->threads.gone = tell_gone;
        reader->threads.gone_context = reader;
        r = infp_byte_ring_init(&reader->queue, QUEUE_BYTES);
        if (r < 0)
                infp_fail(err, r, "no memory for what is read of threads");
        if (r == 0)
                r = infp_wall_threads_open(&reader->threads, options->context->options->env, err);
        if (r == 0)
                r = start_thread(reader, err);
        if (r < 0) {
                infp_wall_reader_free(reader);
                return r;
        }
        *ret = reader;
        return 0;
}

void infp_wall_reader_stop(struct infp_wall_reader *reader)
{
        if (!reader->is_started)
                return;
        pthread_mutex_lock(&reader->lock);
        reader->is_stopped = true;
        pthread_cond_broadcast(&reader->changed);
        pthread_mutex_unlock(&reader->lock);
        reader->is_started = false;
        if (!infp_thread_join_until(reader->thread, infp_clock_ns(CLOCK_MONOTONIC) + JOIN_S * INFP_NS_PER_S)) {
                pthread_detach(reader->thread);
                reader->is_left = true;
        }
}

bool infp_wall_reader_is_left(const struct infp_wall_reader *reader)
{
        return reader->is_left;
}

struct infp_wall_reader *infp_wall_reader_free(struct infp_wall_reader *reader)
{
        if (!reader)
                return NULL;
        infp_wall_reader_stop(reader);
        if (reader->is_left)
                return NULL;
        infp_wall_threads_close(&reader->threads);
        infp_byte_ring_done(&reader->queue);
        infp_map_done(&reader->hinted);
        free_pythons(reader);
        pthread_cond_destroy(&reader->changed);
        pthread_mutex_destroy(&reader->lock);
        free(reader);
        return NULL;
}

bool infp_wall_reader_drain(struct infp_wall_reader *reader, bool all)
{
        for (unsigned i = 0; all || i < INFP_WALL_MESSAGES_A_TURN; i++) {
                const struct infp_wall_message *message = infp_byte_ring_next(&reader->queue);

                if (!message)
                        return false;
                reader->options.take(reader->options.take_context, message);
        }
        return true;
}

void infp_wall_reader_enlarge(struct infp_wall_reader *reader, int32_t tid)
{
        _Atomic uint8_t *doublings = reader ? &reader->doublings[tid % TIDS] : NULL;

        if (doublings && atomic_load_explicit(doublings, memory_order_relaxed) < MAX_DOUBLINGS)
                atomic_fetch_add_explicit(doublings, 1, memory_order_relaxed);
}

void infp_wall_reader_counts(const struct infp_wall_reader *reader, struct infp_wall_reader_counts *ret)
{
        const uint64_t period_ns = atomic_load(&reader->shown_period_ns);

        *ret = (struct infp_wall_reader_counts){
                .rate_hz = period_ns ? 1e9 / (double) period_ns : reader->options.rate_hz,
                .wanted = atomic_load(&reader->wanted),
                .lost = atomic_load(&reader->lost),
                .n_torn = atomic_load(&reader->n_torn),
                .n_threads = atomic_load(&reader->n_threads),
                .own_cpu_ns = atomic_load(&reader->own_cpu_ns),
                .tasks = { atomic_load(&reader->tasks_torn), atomic_load(&reader->tasks_left_out),
                           atomic_load(&reader->tasks_no_queue), atomic_load(&reader->tasks_cpu_ns),
                           atomic_load(&reader->lag_cpu_ns) },
                .refused = { atomic_load(&reader->refused_call), atomic_load(&reader->refused_stack),
                             atomic_load(&reader->refused_pid) },
                .gil_off_pid = atomic_load(&reader->gil_off_pid),
        };
}
