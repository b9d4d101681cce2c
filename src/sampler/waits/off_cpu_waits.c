#include "sampler/waits/off_cpu_waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "sampler/waits/off_cpu_places.h"

struct infp_off_cpu_wait {
        struct infp_off_cpu_wait *next, *previous, **list; /* NULL: in none */
        struct infp_off_cpu_wait *older;                   /* of closed ones: of the same thread */
        int32_t pid, tid;
        uint64_t out_ns, in_ns, told_ns; /* told: up to there it stands in rows */
        bool is_preempted, is_over, has_row;
        bool has_kernel;   /* its stack has the kernel's frames */
        bool is_closing;   /* its place is being looked for */
        const char *state; /* as the reader says; NULL: it does not */
        struct infp_off_cpu_copy *copy;
        struct infp_off_cpu_place *place;
};

struct thread {
        int32_t pid, tid;
        bool has_records;                          /* perf sees it */
        bool is_refused;                           /* there was no room for its wait, which is counted */
        uint64_t in_ns, dead_ns, gone_ns;          /* it got a CPU last; it ended, by perf; by the reader */
        struct infp_off_cpu_wait *wait;            /* open */
        struct infp_off_cpu_wait *closed;          /* the newest */
        struct infp_off_cpu_copy *copy;            /* of the wait that begins with the next record */
        struct infp_off_cpu_place *place;          /* read, of a wait whose record is still to come */
        struct infp_off_cpu_place *unsampled;      /* read, of no wait that has a sample: of one that found no room */
        struct infp_switch_sum too_short, no_room; /* to be told */
        struct infp_switch_thread seen;            /* of the kernel's map */
        int key;                                   /* in it; 0: not known */
};

static const char without_cpu[] = "[waits for a CPU]", without_stack[] = "[no stack was read]";
enum { STATE_TEXT = 96, MAX_STATES = 16384 };
#define TELL_NS INFP_NS_PER_S        /* sums of short waits */
#define LONG_NS (10 * INFP_NS_PER_S) /* of a wait that goes on there is a row so often */
#define DEAD_NS (2 * INFP_NS_PER_S)  /* a thread that has ended still has its last switch before it */

/* The one copy of a text; "blocked" when there are too many. */
static const char *word_of(struct infp_off_cpu_waits *waits, const char *text)
{
        const char *word = infp_wall_word(&waits->words, text);

        return word ? word : "blocked";
}

/* ---- waits ---- */

static struct infp_off_cpu_wait *new_wait(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid)
{
        struct infp_off_cpu_wait *wait = waits->n_waits < INFP_OFF_CPU_MAX_WAITS ? malloc(sizeof(*wait)) : NULL;

        if (!wait)
                return NULL;
        *wait = (struct infp_off_cpu_wait){ .pid = pid, .tid = tid };
        waits->n_waits++;
        return wait;
}

static void link_wait(struct infp_off_cpu_wait **list, struct infp_off_cpu_wait *wait)
{
        wait->list = list;
        wait->previous = NULL;
        wait->next = *list;
        if (*list)
                (*list)->previous = wait;
        *list = wait;
}

static void unlink_wait(struct infp_off_cpu_wait *wait)
{
        if (!wait->list)
                return;
        if (wait->previous)
                wait->previous->next = wait->next;
        else
                *wait->list = wait->next;
        if (wait->next)
                wait->next->previous = wait->previous;
        wait->list = NULL;
}

/* Of an open one too. */
static void free_wait(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        unlink_wait(wait);
        infp_off_cpu_copy_free(waits, wait->copy);
        infp_off_cpu_place_drop(waits, wait->place);
        free(wait);
        waits->n_waits--;
}

/* The state of a wait by what the reader says. Where it did not come by in time: of an earlier wait with the very same stack, the
 * kernel's frames included, since that waits for the same. */
static const char *state_of(struct infp_off_cpu_waits *waits, const struct infp_off_cpu_wait *wait, uint64_t stack)
{
        const char *state = wait->state ? wait->state : wait->place->state;
        const uint64_t *learned;

        if (wait->is_preempted)
                return word_of(waits, "runnable");
        if (!wait->has_kernel)
                return state ? state : word_of(waits, "blocked");
        learned = infp_map_get(&waits->states, stack);
        if (state) {
                if (!learned && waits->states.n < MAX_STATES)
                        infp_map_put(&waits->states, stack, (uint64_t) (uintptr_t) state);
                return state;
        }
        return learned ? (const char *) (uintptr_t) *learned : word_of(waits, "blocked");
}

/* The row up to until_ns, if its stack is known; of one that is over it is the last: the wait is freed. */
static void tell_wait(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait, uint64_t until_ns)
{
        struct infp_off_cpu_place *place = wait->place;

        if (!place) /* there was no room for one */
                waits->n_refused += wait->is_over;
        if (place && !place->is_found) {
                place->wait = wait;
                return;
        }
        if (place && until_ns > wait->told_ns) {
                struct infp_stack_found found = place->found;

                if (!found.stack)
                        infp_stacks_extend(waits->stacks, &found, INFP_FRAME_UNKNOWN,
                                           wait->is_preempted ? without_cpu : without_stack);
                found.t_ns = wait->told_ns;
                found.samples = !wait->has_row;
                infp_stacks_put(waits->stacks, &found, (double) (until_ns - wait->told_ns) / 1e9,
                                state_of(waits, wait, found.stack));
                waits->n_taken += !wait->has_row;
                wait->has_row = true;
                wait->told_ns = until_ns;
        }
        if (wait->is_over)
                free_wait(waits, wait);
}

/* Its stack is known: frames of the reader go below it, and a wait that is over and waits for it becomes a row. */
static void found_place(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place,
                        const struct infp_stack_found *found)
{
        struct infp_stack_found *own = &place->found;

        place->is_found = true;
        if (place->is_orphan) {
                infp_off_cpu_place_free(waits, place);
                return;
        }
        *own = *found;
        own->mode = INFP_STACK_OFF_CPU;
        own->cpu = -1;
        if (place->call)
                infp_stacks_extend(waits->stacks, own, INFP_FRAME_KERNEL, place->call);
        if (place->wchan)
                infp_stacks_extend(waits->stacks, own, INFP_FRAME_KERNEL, place->wchan);
        /* One that is closed is told with the others at the end of the turn. */
        if (place->wait && place->wait->list == &waits->telling && !place->wait->is_closing)
                tell_wait(waits, place->wait, place->wait->in_ns);
}

/* It has none. */
static void found_nothing(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place)
{
        struct infp_stack_found found = { .cpu = -1 };

        infp_stacks_thread(waits->stacks, place->pid, place->tid, &found);
        found.stack = found.depth = 0;
        found_place(waits, place, &found);
}

static void on_found(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        found_place(context, (struct infp_off_cpu_place *) (uintptr_t) cookie, found);
}

/* Sees to it that it has a place: by perf's copy, the reader's, or without a stack. */
static void find_stack(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        struct infp_off_cpu_copy *copy = wait->copy;
        struct infp_off_cpu_place *place = wait->place;

        if (!copy && place)
                return;
        place = infp_off_cpu_place_new(waits);
        if (!place)
                return;
        if (wait->place && !wait->state)
                wait->state = wait->place->state;
        infp_off_cpu_place_drop(waits, wait->place);
        wait->place = place;
        wait->copy = NULL;
        place->wait = wait;
        place->pid = wait->pid;
        place->tid = wait->tid;
        wait->has_kernel = copy && copy->sample.n_kernel;
        wait->is_closing = true; /* found at once: the caller reports it */
        if (copy)
                infp_stacks_take(waits->stacks, &copy->sample, INFP_STACK_OFF_CPU, on_found, waits,
                                 (uint64_t) (uintptr_t) place);
        else
                found_nothing(waits, place);
        wait->is_closing = false;
        infp_off_cpu_copy_free(waits, copy);
}

static void free_thread(struct infp_off_cpu_waits *waits, struct thread *thread)
{
        if (thread->wait)
                free_wait(waits, thread->wait);
        infp_off_cpu_copy_free(waits, thread->copy);
        infp_off_cpu_place_drop(waits, thread->place);
        infp_off_cpu_place_drop(waits, thread->unsampled);
        free(thread);
}

void infp_off_cpu_waits_init(struct infp_off_cpu_waits *waits, struct infp_stacks *stacks, uint64_t least_ns)
{
        *waits = (struct infp_off_cpu_waits){ .stacks = stacks, .least_ns = least_ns };
}

/* ---- threads ---- */

static struct thread *find_thread(const struct infp_off_cpu_waits *waits, int32_t tid)
{
        const uint64_t *value = infp_map_get(&waits->threads, (uint64_t) tid);

        return value ? (struct thread *) (uintptr_t) *value : NULL;
}

static struct thread *get_thread(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid)
{
        struct thread *thread = find_thread(waits, tid);

        if (thread) {
                thread->pid = pid;
                return thread;
        }
        if (waits->threads.n < INFP_OFF_CPU_MAX_THREADS)
                thread = calloc(1, sizeof(*thread));
        if (!thread || infp_map_put(&waits->threads, (uint64_t) tid, (uint64_t) (uintptr_t) thread) < 0) {
                free(thread);
                return NULL;
        }
        thread->pid = pid;
        thread->tid = tid;
        return thread;
}

/* What was read during no wait that has a sample was read during one that has none. */
static void keep_unsampled(struct infp_off_cpu_waits *waits, struct thread *thread, struct infp_off_cpu_place *place)
{
        if (!place)
                return;
        place->wait = NULL;
        infp_off_cpu_place_drop(waits, thread->unsampled);
        thread->unsampled = place;
}

/* ---- records ---- */

static void begin_wait(struct infp_off_cpu_waits *waits, struct thread *thread, uint64_t t_ns, bool is_preempted)
{
        struct infp_off_cpu_wait *wait = new_wait(waits, thread->pid, thread->tid);
        struct infp_off_cpu_place *place = thread->place;

        thread->wait = wait;
        waits->n_refused += !wait && !thread->is_refused;
        thread->is_refused = !wait;
        if (!wait)
                return;
        wait->out_ns = wait->told_ns = t_ns;
        wait->is_preempted = is_preempted;
        wait->copy = thread->copy;
        thread->copy = NULL;
        /* The reader was faster than the records. */
        thread->place = NULL;
        if (place && place->t_ns >= t_ns && !is_preempted)
                wait->place = place;
        else
                keep_unsampled(waits, thread, place);
        link_wait(&waits->open, wait);
}

/* It is over: short ones are summed, the rest is told at the end of the turn, when all that was read during it is known. */
static void end_wait(struct infp_off_cpu_waits *waits, struct thread *thread, uint64_t t_ns)
{
        struct infp_off_cpu_wait *wait = thread->wait;
        const uint64_t spent_ns = t_ns > wait->out_ns ? t_ns - wait->out_ns : 0;

        thread->wait = NULL;
        if (wait->told_ns == wait->out_ns && spent_ns < waits->least_ns) {
                thread->too_short.n[wait->is_preempted]++;
                thread->too_short.ns[wait->is_preempted] += spent_ns;
                waits->n_short++;
                free_wait(waits, wait);
                return;
        }
        wait->in_ns = t_ns;
        wait->is_over = true;
        unlink_wait(wait);
        link_wait(&waits->closed, wait);
        wait->older = thread->closed;
        thread->closed = wait;
}

void infp_off_cpu_run(struct infp_off_cpu_waits *waits, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in,
                      bool is_preempted)
{
        struct thread *thread = get_thread(waits, pid, tid);

        waits->n_refused += !thread && !is_in;
        if (!thread || thread->dead_ns)
                return;
        thread->has_records = true;
        if (is_in) {
                thread->is_refused = false;
                if (thread->wait)
                        end_wait(waits, thread, t_ns);
                thread->in_ns = t_ns;
                infp_off_cpu_copy_free(waits, thread->copy); /* of a switch whose record was lost */
                thread->copy = NULL;
                return;
        }
        thread->is_refused = false;
        if (thread->wait) { /* when it got its CPU was lost: so is the wait */
                waits->n_lost++;
                free_wait(waits, thread->wait);
                thread->wait = NULL;
        }
        waits->n_switches++;
        waits->switched_ns = t_ns;
        begin_wait(waits, thread, t_ns, is_preempted);
}

void infp_off_cpu_moved(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample)
{
        struct thread *thread = get_thread(waits, sample->pid, sample->tid);

        if (!thread || thread->dead_ns)
                return;
        infp_off_cpu_copy_free(waits, thread->copy);
        thread->copy = infp_off_cpu_copy_new(waits, sample);
}

/* Since the thread was looked at last. */
static uint64_t add_new(struct infp_switch_sum *to, struct infp_switch_sum *seen, const struct infp_switch_sum *sum)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < INFP_COUNT(sum->n); i++) {
                n += sum->n[i] - seen->n[i];
                to->n[i] += sum->n[i] - seen->n[i];
                to->ns[i] += sum->ns[i] - seen->ns[i];
        }
        *seen = *sum;
        return n;
}

/* What the reader has taken for a wait of a thread that had not switched yet ends here; one that began after the thread's first turn on a
 * CPU is in the kernel's times. One that the kernel does not know is lost. */
static void leave_other(struct infp_off_cpu_waits *waits, struct thread *thread, uint64_t out_ns, uint64_t first_ns)
{
        if (thread->wait && thread->wait->out_ns != out_ns) {
                if (!thread->has_records && first_ns > thread->wait->out_ns) {
                        end_wait(waits, thread, first_ns);
                } else {
                        waits->n_lost += thread->has_records;
                        free_wait(waits, thread->wait);
                        thread->wait = NULL;
                }
        }
        thread->has_records = true;
}

void infp_off_cpu_waited(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample)
{
        struct thread *thread = get_thread(waits, sample->pid, sample->tid);
        const struct infp_switch *wait = sample->wait;

        waits->n_refused += !thread;
        if (!thread || thread->dead_ns)
                return;
        leave_other(waits, thread, wait->out_ns, wait->first_ns);
        infp_off_cpu_copy_free(waits, thread->copy);
        thread->copy = infp_off_cpu_copy_new(waits, sample);
        waits->n_switches++;
        waits->switched_ns = wait->in_ns;
        if (!thread->wait) {
                thread->is_refused = false;
                begin_wait(waits, thread, wait->out_ns, wait->is_preempted & 1);
        } else if (!thread->wait->has_row) { /* else it keeps the stack that was told */
                thread->wait->copy = INFP_TAKE(thread->copy);
        }
        if (thread->wait)
                end_wait(waits, thread, wait->in_ns);
        infp_off_cpu_copy_free(waits, INFP_TAKE(thread->copy));
        thread->in_ns = wait->in_ns;
}

/* A wait has ended without a sample: what the reader has seen of it is not of the one that goes on since out_ns. */
static void look_unsampled(struct infp_off_cpu_waits *waits, struct thread *thread, uint64_t out_ns)
{
        struct infp_off_cpu_wait *wait = thread->wait;

        if (wait && wait->out_ns != out_ns && !wait->has_row) {
                keep_unsampled(waits, thread, INFP_TAKE(wait->place));
                free_wait(waits, INFP_TAKE(thread->wait));
        }
        if (thread->place && !(out_ns && thread->place->t_ns >= out_ns))
                keep_unsampled(waits, thread, INFP_TAKE(thread->place));
}

void infp_off_cpu_look(struct infp_off_cpu_waits *waits, int key, const struct infp_switch_thread *seen,
                       uint64_t began_ns)
{
        struct thread *thread = get_thread(waits, seen->pid, seen->tid);
        uint64_t n, n_unsampled;

        if (!thread || thread->dead_ns)
                return;
        if (thread->seen.start_ns != seen->start_ns)
                thread->seen = (struct infp_switch_thread){ .start_ns = seen->start_ns };
        thread->key = key;
        n = add_new(&thread->too_short, &thread->seen.too_short, &seen->too_short);
        waits->n_short += n;
        waits->n_filtered += n;
        n_unsampled = add_new(&thread->no_room, &thread->seen.no_room, &seen->no_room);
        waits->n_switches += n + n_unsampled;
        if (!thread->has_records)
                leave_other(waits, thread, 0, seen->first_ns);
        else if (n_unsampled)
                look_unsampled(waits, thread, seen->out_ns);
        if (seen->out_ns && seen->out_ns < began_ns && !thread->wait)
                begin_wait(waits, thread, seen->out_ns, seen->is_preempted & 1);
}

int infp_off_cpu_key(const struct infp_off_cpu_waits *waits, int32_t tid)
{
        const struct thread *thread = find_thread(waits, tid);

        return thread && thread->key ? thread->key : tid;
}

void infp_off_cpu_fork(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid)
{
        struct thread *thread = find_thread(waits, tid);

        if (!thread || !thread->dead_ns)
                return;
        thread->dead_ns = 0; /* its number was given anew */
        thread->gone_ns = 0;
        thread->pid = pid;
        thread->in_ns = 0;
}

/* ---- what the reader reports ---- */

static void on_read(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        struct infp_off_cpu_place *place = (struct infp_off_cpu_place *) (uintptr_t) cookie;
        struct infp_off_cpu_waits *waits = context;

        if (found->is_truncated && place->is_whole)
                infp_wall_reader_enlarge(waits->reader, place->tid);
        found_place(waits, place, found); /* may free it */
}

static struct infp_off_cpu_place *read_place(struct infp_off_cpu_waits *waits, const struct infp_wall_message *message)
{
        struct infp_off_cpu_place *place = infp_off_cpu_place_new(waits);
        char text[STATE_TEXT];

        if (!place)
                return NULL;
        place->t_ns = message->moment.t_ns;
        place->pid = message->pid;
        place->tid = message->tid;
        place->is_whole = message->is_whole;
        infp_wall_state(&message->moment, text, sizeof(text));
        place->state = word_of(waits, text);
        infp_wall_call_name(&message->moment, text, sizeof(text));
        place->call = *text ? word_of(waits, text) : NULL;
        place->wchan = *message->moment.wchan ? word_of(waits, message->moment.wchan) : NULL;
        if ((message->moment.has_registers && message->stack_size) || message->n_python) {
                const struct infp_perf_sample sample =
                        infp_wall_sample(message, waits->context ? waits->context->pythons : NULL);

                infp_stacks_take(waits->stacks, &sample, INFP_STACK_OFF_CPU, on_read, waits,
                                 (uint64_t) (uintptr_t) place);
        } else {
                found_nothing(waits, place);
        }
        return place;
}

static void read_of_wait(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait,
                         const struct infp_wall_message *message)
{
        char text[STATE_TEXT];

        if (!wait->copy && !wait->place) {
                wait->place = read_place(waits, message);
        } else if (!wait->state) { /* perf has its stack */
                infp_wall_state(&message->moment, text, sizeof(text));
                wait->state = word_of(waits, text);
        }
}

static bool is_during(const struct infp_off_cpu_wait *wait, uint64_t t_ns)
{
        return t_ns >= wait->out_ns && (!wait->is_over || t_ns <= wait->in_ns);
}

/* The wait in which the thread was read: the open one, one that has just ended, or one whose begin is still to come. */
static void place_moment(struct infp_off_cpu_waits *waits, struct thread *thread,
                         const struct infp_wall_message *message)
{
        struct infp_off_cpu_wait *wait = thread->wait;
        const uint64_t t_ns = message->moment.t_ns;

        if (wait && !is_during(wait, t_ns))
                wait = NULL;
        for (struct infp_off_cpu_wait *w = thread->closed; w && !wait; w = w->older)
                if (is_during(w, t_ns))
                        wait = w;
        if (wait && !wait->is_preempted)
                read_of_wait(waits, wait, message);
        if (wait || t_ns <= thread->in_ns)
                return;
        infp_off_cpu_place_drop(waits, thread->place);
        thread->place = read_place(waits, message);
        if (thread->has_records)
                return;
        /* It has waited since before the recording, or perf does not see it: it does so from now on at least. */
        begin_wait(waits, thread, t_ns, false);
}

static void take_moment(struct infp_off_cpu_waits *waits, const struct infp_wall_message *message)
{
        struct thread *thread = get_thread(waits, message->pid, message->tid);

        if (!thread || thread->dead_ns)
                return;
        /* Without records of perf that it has run is known by the reader alone: some time in the last round. A kernel that times waits
         * says when, at the next look; until then the stack is the one that was read last, as when Python was not known before. */
        if (!thread->has_records && thread->wait && thread->wait->out_ns < message->moment.t_ns) {
                if (!waits->is_timed)
                        end_wait(waits, thread,
                                 waits->round_ns > thread->wait->out_ns ? waits->round_ns : thread->wait->out_ns);
                else if (message->moment.letter != 'R')
                        infp_off_cpu_place_drop(waits, INFP_TAKE(thread->wait->place));
        }
        if (message->moment.letter != 'R')
                place_moment(waits, thread, message);
}

/* Of those that perf sees the record is still to come, and with it what is older. */
static void take_gone(struct infp_off_cpu_waits *waits, int32_t tid)
{
        struct thread *thread = find_thread(waits, tid);

        if (!thread || thread->dead_ns)
                return;
        thread->gone_ns = waits->round_ns ? waits->round_ns : 1;
        if (!waits->is_timed && !thread->has_records)
                infp_off_cpu_exit(waits, thread->gone_ns, tid);
}

void infp_off_cpu_take(void *context, const struct infp_wall_message *message)
{
        struct infp_off_cpu_waits *waits = context;

        if (message->kind == INFP_WALL_MESSAGE_MOMENT && waits->context && waits->context->pythons)
                infp_pythons_meet(waits->context->pythons, message->pid, message->moment.t_ns);
        if (message->kind == INFP_WALL_MESSAGE_MOMENT)
                take_moment(waits, message);
        else if (message->kind == INFP_WALL_MESSAGE_ROUND)
                waits->round_ns = message->moment.t_ns;
        else if (message->kind == INFP_WALL_MESSAGE_GONE)
                take_gone(waits, message->tid);
}

/* ---- rows ---- */

static void tell_sum(struct infp_off_cpu_waits *waits, const struct thread *thread, struct infp_switch_sum *sum,
                     const char *text, bool is_preempted, uint64_t t_ns)
{
        struct infp_stack_found found = { .cpu = -1 };

        if (!sum->n[is_preempted])
                return;
        infp_stacks_thread(waits->stacks, thread->pid, thread->tid, &found);
        found.stack = found.depth = 0;
        found.mode = INFP_STACK_OFF_CPU;
        found.t_ns = t_ns;
        found.samples = sum->n[is_preempted];
        infp_stacks_extend(waits->stacks, &found, INFP_FRAME_UNKNOWN, text);
        infp_stacks_put(waits->stacks, &found, (double) sum->ns[is_preempted] / 1e9,
                        word_of(waits, is_preempted ? "runnable" : "blocked"));
        sum->n[is_preempted] = sum->ns[is_preempted] = 0;
}

/* Waits whose samples found no room in perf's buffer, which is what many threads that go on at once make: the stack is the one that the
 * reader found, of one of them. */
static void tell_unsampled(struct infp_off_cpu_waits *waits, struct thread *thread, uint64_t t_ns)
{
        struct infp_off_cpu_place *place = INFP_TAKE(thread->unsampled);
        struct infp_switch_sum *sum = &thread->no_room;

        if (place && place->is_found && place->found.stack && sum->n[false]) {
                struct infp_stack_found found = place->found;

                found.t_ns = t_ns;
                found.samples = sum->n[false];
                infp_stacks_put(waits->stacks, &found, (double) sum->ns[false] / 1e9, place->state);
                sum->n[false] = sum->ns[false] = 0;
        }
        infp_off_cpu_place_drop(waits, place);
}

static void tell_short(struct infp_off_cpu_waits *waits, struct thread *thread, uint64_t t_ns)
{
        char text[STATE_TEXT];

        tell_unsampled(waits, thread, t_ns);

        snprintf(text, sizeof(text), "[waits below %llu us]", (unsigned long long) waits->least_ns / 1000);
        for (int i = 0; i < 2; i++) {
                tell_sum(waits, thread, &thread->too_short, text, i, t_ns);
                tell_sum(waits, thread, &thread->no_room, i ? without_cpu : without_stack, i, t_ns);
        }
}

static void tell_closed(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        unlink_wait(wait);
        link_wait(&waits->telling, wait);
        find_stack(waits, wait);
        tell_wait(waits, wait, wait->in_ns);
}

/* What it has is told now: after its end nobody knows its name. */
void infp_off_cpu_exit(struct infp_off_cpu_waits *waits, uint64_t t_ns, int32_t tid)
{
        struct thread *thread = find_thread(waits, tid);

        if (!thread || thread->dead_ns)
                return;
        if (thread->wait)
                end_wait(waits, thread, t_ns);
        for (struct infp_off_cpu_wait *wait = INFP_TAKE(thread->closed), *older; wait; wait = older) {
                older = wait->older;
                tell_closed(waits, wait);
        }
        tell_short(waits, thread, waits->told_ns ? waits->told_ns : t_ns);
        thread->dead_ns = t_ns;
}

/* All sums, and threads that ended long enough ago. */
static void tell_sums(struct infp_off_cpu_waits *waits, uint64_t now_ns, bool is_end)
{
        const uint64_t t_ns = waits->told_ns ? waits->told_ns : now_ns;

        for (size_t i = 0; i < waits->threads.cap; i++) {
                struct thread *thread = (void *) (uintptr_t) waits->threads.slots[i].value;

                if (!waits->threads.slots[i].key)
                        continue;
                tell_short(waits, thread, t_ns);
                if (!thread->dead_ns && thread->gone_ns && now_ns - thread->gone_ns > DEAD_NS)
                        infp_off_cpu_exit(waits, thread->gone_ns, thread->tid); /* its last record was lost */
                if (!is_end && (!thread->dead_ns || now_ns - thread->dead_ns < DEAD_NS))
                        continue;
                free_thread(waits, thread);
                infp_map_delete(&waits->threads, waits->threads.slots[i].key);
                i--; /* another one may have moved here */
        }
}

/* In the order in which they ended. */
static void tell_all_closed(struct infp_off_cpu_waits *waits)
{
        struct infp_off_cpu_wait *wait = waits->closed;

        while (wait && wait->next)
                wait = wait->next;
        while (wait) {
                struct infp_off_cpu_wait *previous = wait->previous;
                struct thread *thread = find_thread(waits, wait->tid);

                if (thread)
                        thread->closed = NULL; /* all of them are told */
                tell_closed(waits, wait);
                wait = previous;
        }
}

void infp_off_cpu_turn(struct infp_off_cpu_waits *waits, uint64_t now_ns)
{
        for (struct infp_off_cpu_wait *wait = waits->open, *next; wait; wait = next) {
                next = wait->next;
                /* What waits for long does not need a copy of its stack any more. */
                if (wait->copy && now_ns > wait->out_ns && now_ns - wait->out_ns > waits->least_ns)
                        find_stack(waits, wait);
                if (now_ns > wait->told_ns && now_ns - wait->told_ns > LONG_NS)
                        tell_wait(waits, wait, now_ns);
        }
        tell_all_closed(waits);
        if (now_ns - waits->told_ns < TELL_NS)
                return;
        tell_sums(waits, now_ns, false);
        waits->told_ns = now_ns;
}

void infp_off_cpu_end(struct infp_off_cpu_waits *waits, uint64_t now_ns)
{
        for (size_t i = 0; i < waits->threads.cap; i++) {
                struct thread *thread = (void *) (uintptr_t) waits->threads.slots[i].value;

                if (waits->threads.slots[i].key && thread->wait)
                        end_wait(waits, thread, now_ns);
        }
        infp_off_cpu_turn(waits, now_ns);
        tell_sums(waits, now_ns, true);
}

static void free_waits(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        while (wait) {
                struct infp_off_cpu_wait *next = wait->next;

                infp_off_cpu_copy_free(waits, wait->copy);
                free(wait);
                wait = next;
        }
}

void infp_off_cpu_waits_done(struct infp_off_cpu_waits *waits)
{
        for (size_t i = 0; i < waits->threads.cap; i++)
                if (waits->threads.slots[i].key)
                        free_thread(waits, (void *) (uintptr_t) waits->threads.slots[i].value);
        infp_map_done(&waits->threads);
        free_waits(waits, waits->open);
        free_waits(waits, waits->closed);
        free_waits(waits, waits->telling);
        while (waits->places)
                infp_off_cpu_place_free(waits, waits->places);
        infp_wall_words_done(&waits->words);
        infp_map_done(&waits->states);
        waits->open = waits->closed = waits->telling = NULL;
}
