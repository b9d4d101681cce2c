#include "sampler/waits/off_cpu_waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "sampler/waits/off_cpu_parts.h"

enum { STATE_TEXT = 96 };
#define TELL_NS INFP_NS_PER_S        /* sums of short waits */
#define LONG_NS (10 * INFP_NS_PER_S) /* of a wait that goes on there is a row so often */
#define DEAD_NS (2 * INFP_NS_PER_S)  /* a thread that has ended still has its last switch before it */

void infp_off_cpu_waits_init(struct infp_off_cpu_waits *waits, struct infp_stacks *stacks, uint64_t least_ns)
{
        *waits = (struct infp_off_cpu_waits){ .stacks = stacks, .least_ns = least_ns };
}

/* ---- threads ---- */

static struct infp_off_cpu_thread *find_thread(const struct infp_off_cpu_waits *waits, int32_t tid)
{
        const uint64_t *value = infp_map_get(&waits->threads, (uint64_t) tid);

        return value ? (struct infp_off_cpu_thread *) (uintptr_t) *value : NULL;
}

static struct infp_off_cpu_thread *get_thread(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid)
{
        struct infp_off_cpu_thread *thread = find_thread(waits, tid);

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

/* ---- records ---- */

static void begin_wait(struct infp_off_cpu_waits *waits, struct infp_off_cpu_thread *thread, uint64_t t_ns,
                       bool is_preempted)
{
        struct infp_off_cpu_wait *wait = infp_off_cpu_wait_new(waits, thread->pid, thread->tid);
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
                infp_off_cpu_place_drop(waits, place);
        infp_off_cpu_wait_link(&waits->open, wait);
}

/* It is over: short ones are summed, the rest is told at the end of the turn, when all that was read during it is known. */
static void end_wait(struct infp_off_cpu_waits *waits, struct infp_off_cpu_thread *thread, uint64_t t_ns)
{
        struct infp_off_cpu_wait *wait = thread->wait;
        const uint64_t spent_ns = t_ns > wait->out_ns ? t_ns - wait->out_ns : 0;

        thread->wait = NULL;
        if (wait->told_ns == wait->out_ns && spent_ns < waits->least_ns) {
                thread->n_short[wait->is_preempted]++;
                thread->short_ns[wait->is_preempted] += spent_ns;
                waits->n_short++;
                infp_off_cpu_wait_free(waits, wait);
                return;
        }
        wait->in_ns = t_ns;
        wait->is_over = true;
        infp_off_cpu_wait_unlink(wait);
        infp_off_cpu_wait_link(&waits->closed, wait);
        wait->older = thread->closed;
        thread->closed = wait;
}

void infp_off_cpu_run(struct infp_off_cpu_waits *waits, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in,
                      bool is_preempted)
{
        struct infp_off_cpu_thread *thread = get_thread(waits, pid, tid);

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
                infp_off_cpu_wait_free(waits, thread->wait);
                thread->wait = NULL;
        }
        waits->n_switches++;
        waits->switched_ns = t_ns;
        begin_wait(waits, thread, t_ns, is_preempted);
}

void infp_off_cpu_moved(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample)
{
        struct infp_off_cpu_thread *thread = get_thread(waits, sample->pid, sample->tid);

        if (!thread || thread->dead_ns)
                return;
        infp_off_cpu_copy_free(waits, thread->copy);
        thread->copy = infp_off_cpu_copy_new(waits, sample);
}

void infp_off_cpu_fork(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid)
{
        struct infp_off_cpu_thread *thread = find_thread(waits, tid);

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

        infp_off_cpu_place_found(waits, place, found);
        if (found->is_truncated && place->is_whole && waits->enlarge)
                waits->enlarge(waits->enlarge_context, place->tid);
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
        place->state = infp_off_cpu_word(waits, text);
        infp_wall_call_name(&message->moment, text, sizeof(text));
        place->call = *text ? infp_off_cpu_word(waits, text) : NULL;
        place->wchan = *message->moment.wchan ? infp_off_cpu_word(waits, message->moment.wchan) : NULL;
        if (message->moment.has_registers && message->stack_size) {
                const struct infp_perf_sample sample = infp_wall_sample(message);

                infp_stacks_take(waits->stacks, &sample, INFP_STACK_OFF_CPU, on_read, waits,
                                 (uint64_t) (uintptr_t) place);
        } else {
                infp_off_cpu_place_unread(waits, place);
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
                wait->state = infp_off_cpu_word(waits, text);
        }
}

static bool is_during(const struct infp_off_cpu_wait *wait, uint64_t t_ns)
{
        return t_ns >= wait->out_ns && (!wait->is_over || t_ns <= wait->in_ns);
}

/* The wait in which the thread was read: the open one, one that has just ended, or one whose begin is still to come. */
static void place_moment(struct infp_off_cpu_waits *waits, struct infp_off_cpu_thread *thread,
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
        struct infp_off_cpu_thread *thread = get_thread(waits, message->pid, message->tid);

        if (!thread || thread->dead_ns)
                return;
        /* Without records of perf that it has run is known by the reader alone: some time in the last round. */
        if (!thread->has_records && thread->wait && thread->wait->out_ns < message->moment.t_ns)
                end_wait(waits, thread,
                         waits->round_ns > thread->wait->out_ns ? waits->round_ns : thread->wait->out_ns);
        if (message->moment.letter != 'R')
                place_moment(waits, thread, message);
}

/* Of those that perf sees the record is still to come, and with it what is older. */
static void take_gone(struct infp_off_cpu_waits *waits, int32_t tid)
{
        struct infp_off_cpu_thread *thread = find_thread(waits, tid);

        if (!thread || thread->dead_ns)
                return;
        thread->gone_ns = waits->round_ns ? waits->round_ns : 1;
        if (!thread->has_records)
                infp_off_cpu_exit(waits, thread->gone_ns, tid);
}

void infp_off_cpu_take(struct infp_off_cpu_waits *waits, const struct infp_wall_message *message)
{
        if (message->kind == INFP_WALL_MESSAGE_MOMENT)
                take_moment(waits, message);
        else if (message->kind == INFP_WALL_MESSAGE_ROUND)
                waits->round_ns = message->moment.t_ns;
        else if (message->kind == INFP_WALL_MESSAGE_GONE)
                take_gone(waits, message->tid);
}

/* ---- rows ---- */

static void tell_short(struct infp_off_cpu_waits *waits, struct infp_off_cpu_thread *thread, bool is_preempted,
                       uint64_t t_ns)
{
        struct infp_stack_found found = { .cpu = -1 };
        char text[STATE_TEXT];

        if (!thread->n_short[is_preempted])
                return;
        infp_stacks_thread(waits->stacks, thread->pid, thread->tid, &found);
        found.stack = found.depth = 0;
        found.mode = INFP_STACK_OFF_CPU;
        found.t_ns = t_ns;
        found.samples = thread->n_short[is_preempted];
        snprintf(text, sizeof(text), "[waits below %llu us]", (unsigned long long) waits->least_ns / 1000);
        infp_stacks_extend(waits->stacks, &found, INFP_FRAME_UNKNOWN, text);
        infp_stacks_put(waits->stacks, &found, (double) thread->short_ns[is_preempted] / 1e9,
                        infp_off_cpu_word(waits, is_preempted ? "runnable" : "blocked"));
        thread->n_short[is_preempted] = 0;
        thread->short_ns[is_preempted] = 0;
}

static void tell_closed(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        infp_off_cpu_wait_unlink(wait);
        infp_off_cpu_wait_link(&waits->telling, wait);
        infp_off_cpu_wait_find(waits, wait);
        infp_off_cpu_wait_tell(waits, wait, wait->in_ns);
}

/* What it has is told now: after its end nobody knows its name. */
void infp_off_cpu_exit(struct infp_off_cpu_waits *waits, uint64_t t_ns, int32_t tid)
{
        struct infp_off_cpu_thread *thread = find_thread(waits, tid);

        if (!thread || thread->dead_ns)
                return;
        if (thread->wait)
                end_wait(waits, thread, t_ns);
        for (struct infp_off_cpu_wait *wait = INFP_TAKE(thread->closed), *older; wait; wait = older) {
                older = wait->older;
                tell_closed(waits, wait);
        }
        tell_short(waits, thread, false, waits->told_ns ? waits->told_ns : t_ns);
        tell_short(waits, thread, true, waits->told_ns ? waits->told_ns : t_ns);
        thread->dead_ns = t_ns;
}

/* All sums, and threads that ended long enough ago. */
static void tell_sums(struct infp_off_cpu_waits *waits, uint64_t now_ns, bool is_end)
{
        const uint64_t t_ns = waits->told_ns ? waits->told_ns : now_ns;

        for (size_t i = 0; i < waits->threads.cap; i++) {
                struct infp_off_cpu_thread *thread = (void *) (uintptr_t) waits->threads.slots[i].value;

                if (!waits->threads.slots[i].key)
                        continue;
                tell_short(waits, thread, false, t_ns);
                tell_short(waits, thread, true, t_ns);
                if (!thread->dead_ns && thread->gone_ns && now_ns - thread->gone_ns > DEAD_NS)
                        infp_off_cpu_exit(waits, thread->gone_ns, thread->tid); /* its last record was lost */
                if (!is_end && (!thread->dead_ns || now_ns - thread->dead_ns < DEAD_NS))
                        continue;
                infp_off_cpu_thread_free(waits, thread);
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
                struct infp_off_cpu_thread *thread = find_thread(waits, wait->tid);

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
                        infp_off_cpu_wait_find(waits, wait);
                if (now_ns > wait->told_ns && now_ns - wait->told_ns > LONG_NS)
                        infp_off_cpu_wait_tell(waits, wait, now_ns);
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
                struct infp_off_cpu_thread *thread = (void *) (uintptr_t) waits->threads.slots[i].value;

                if (waits->threads.slots[i].key && thread->wait)
                        end_wait(waits, thread, now_ns);
        }
        infp_off_cpu_turn(waits, now_ns);
        tell_sums(waits, now_ns, true);
}

void infp_off_cpu_waits_done(struct infp_off_cpu_waits *waits)
{
        for (size_t i = 0; i < waits->threads.cap; i++)
                if (waits->threads.slots[i].key)
                        infp_off_cpu_thread_free(waits, (void *) (uintptr_t) waits->threads.slots[i].value);
        infp_map_done(&waits->threads);
        infp_off_cpu_places_done(waits);
}
