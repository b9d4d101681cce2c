/* What the threads of the scheduler do. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/time.h"
#include "collect/sched_parts.h"
#include "collect/target.h"

enum { MAX_DOUBLINGS = 6 }; /* of the pause of what hung: 640 s */

enum taken { END, SKIP, RUN };

/* Begins the call of a slot. */
static enum taken take(struct sched_worker *worker, struct sched_slot *slot)
{
        enum taken taken = RUN;

        pthread_mutex_lock(&worker->sched->lock);
        if (worker->is_abandoned) {
                taken = END;
        } else if (slot->is_hung || slot->retry_ns > infp_sched_now()) {
                taken = SKIP;
        } else {
                worker->current = slot;
                worker->call_ns = infp_sched_now();
                worker->n_calls++;
        }
        pthread_mutex_unlock(&worker->sched->lock);
        return taken;
}

/* Ends it. False: others have taken over meanwhile, this thread ends; the slot is theirs, after a pause. */
static bool leave(struct sched_worker *worker, struct sched_slot *slot)
{
        bool goes_on;

        pthread_mutex_lock(&worker->sched->lock);
        worker->current = NULL;
        slot->was_run = true;
        goes_on = !worker->is_abandoned;
        if (goes_on) {
                slot->n_done++;
        } else {
                unsigned n = slot->n_hangs < MAX_DOUBLINGS ? slot->n_hangs : MAX_DOUBLINGS;

                slot->is_hung = false;
                slot->worker = worker->sched->shared;
                slot->retry_ns = infp_sched_now() + (worker->sched->options.retry_ns << (n ? n - 1 : 0));
        }
        pthread_mutex_unlock(&worker->sched->lock);
        return goes_on;
}

/* Deadlines of a slot lie on a grid from the common start; those that passed meanwhile are left out. */
static void set_next(struct sched_slot *slot, uint64_t now)
{
        uint64_t start = slot->sched->start_ns;

        slot->next_ns = start + ((now - start) / slot->period_ns + 1) * slot->period_ns;
}

static void count_error(const struct infp_sched *sched)
{
        if (sched->options.stats)
                __atomic_fetch_add(&sched->options.stats->errors, 1, __ATOMIC_RELAXED);
}

/* Where few descriptors are allowed, those with a thread of their own, whose sockets and files are many, would take them from
 * the sources of the machine and from the store. */
static int open_collector(struct sched_slot *slot)
{
        const struct infp_sched_options *options = &slot->sched->options;
        unsigned limit;
        char reason[128], fix[32];

        slot->is_open = true;
        if (!(slot->collector->flags & INFP_MAY_BLOCK) || !infp_fds_are_few(&limit))
                return infp_collector_open(&slot->state, slot->collector, options->env, slot->emit, options->notice,
                                           options->notice_context);
        snprintf(reason, sizeof(reason),
                 "only %u file descriptors are allowed: the machine's sources and the store need them", limit);
        snprintf(fix, sizeof(fix), "ulimit -n %d", INFP_ENOUGH_FDS);
        infp_collector_leave_out(&slot->state, slot->collector, options->env, slot->emit, reason, fix);
        return -ENODEV;
}

static void sample(struct sched_slot *slot, uint64_t now)
{
        const struct infp_sched_options *options = &slot->sched->options;
        int r = slot->is_open ? 0 : open_collector(slot);

        if (r == 0 && !slot->state.is_closed)
                r = infp_collector_sample(&slot->state, options->env, slot->emit, options->notice,
                                          options->notice_context);
        if (r < 0 && r != -EAGAIN && r != -ENODEV)
                count_error(slot->sched);
        slot->ran_ns = now;
        set_next(slot, now);
}

/* What one turn of a thread is to do. */
struct plan {
        uint64_t now;
        bool is_tick, is_last, is_target_due, is_target_busy;
        bool is_due[SCHED_SLOTS];
};

/* The last sample can come right after the one before: differences of host counters over so short a time mean nothing, but
 * the processes that ended in between must not be missed. */
static bool is_due(const struct sched_slot *slot, const struct plan *plan)
{
        if (slot->state.is_closed || slot->retry_ns > plan->now)
                return false;
        if (plan->is_last)
                return slot->collector->flags & INFP_WALKS_TARGET || plan->now - slot->ran_ns >= slot->period_ns / 2;
        return slot->next_ns <= plan->now;
}

/* The lock is held. */
static void make_plan(struct sched_worker *worker, uint64_t now, struct plan *ret)
{
        struct infp_sched *sched = worker->sched;

        *ret = (struct plan){ .now = now, .is_last = sched->is_stopping };
        ret->is_tick = ret->is_last || infp_sched_deadline(sched) <= now;
        ret->is_target_busy = !sched->options.env->target || sched->target.is_hung;
        if (!sched->has_walkers)
                ret->is_target_due = ret->is_tick && !ret->is_target_busy && sched->target.next_ns <= now;
        for (unsigned i = 0; i < sched->n_shared; i++) {
                struct sched_slot *slot = &sched->slots[i];
                bool walks = slot->collector->flags & INFP_WALKS_TARGET;

                ret->is_target_busy |= walks && slot->is_hung;
                ret->is_due[i] = slot->worker == worker && !slot->is_hung && is_due(slot, ret);
                ret->is_target_due |= walks && ret->is_due[i];
        }
}

/* 1: the process table was read, 0: it was not, -1: the thread ends. */
static int refresh(struct sched_worker *worker, const struct plan *plan)
{
        struct infp_sched *sched = worker->sched;
        const struct infp_sched_options *options = &sched->options;
        struct infp_err err = { "" };
        enum taken taken;
        int r;

        if (!plan->is_target_due || plan->is_target_busy)
                return 0;
        taken = take(worker, &sched->target);
        if (taken != RUN)
                return taken == END ? -1 : 0;
        r = infp_target_refresh(options->env->target, options->env, &err);
        if (r < 0 && !sched->target.was_broken && options->notice)
                options->notice(options->notice_context, err.text);
        sched->target.was_broken = r < 0;
        if (r < 0)
                count_error(sched);
        sched->target.next_ns = plan->now + options->target_floor_ns;
        return leave(worker, &sched->target) ? r >= 0 : -1;
}

/* Ticks before `next` that were not taken are left out, and counted. */
static void skip_to(struct infp_sched *sched, uint64_t next)
{
        if (next <= sched->tick)
                return;
        sched->n_missed += next - sched->tick;
        if (sched->options.stats)
                __atomic_fetch_add(&sched->options.stats->ticks_missed, next - sched->tick, __ATOMIC_RELAXED);
        sched->tick = next;
}

static void write_tick(struct sched_worker *worker, uint64_t begin, unsigned n_due)
{
        struct infp_sched *sched = worker->sched;
        struct infp_row *row = &sched->tick_row;
        uint64_t deadline = infp_sched_deadline(sched);

        infp_row_begin(row, &infp_table_ticks, begin);
        infp_row_i64(row, INFP_TICKS_NUMBER, (int64_t) sched->tick);
        infp_row_i64(row, INFP_TICKS_DEADLINE, (int64_t) deadline);
        infp_row_i64(row, INFP_TICKS_LATE_NS, (int64_t) (begin - deadline));
        infp_row_i64(row, INFP_TICKS_BUSY_NS, (int64_t) (infp_sched_now() - begin));
        infp_row_i64(row, INFP_TICKS_MISSED, (int64_t) sched->n_missed);
        infp_row_i64(row, INFP_TICKS_COLLECTORS, n_due);
        infp_rowring_put(worker->ring, row);
        infp_rowring_put_tick(worker->ring, &(struct infp_rowring_tick){
                                                    .number = sched->tick, .t_ns = begin, .end_ns = infp_sched_now() });
        sched->tick++;
        skip_to(sched, (begin - sched->start_ns) / sched->period_ns + 1); /* one tick in each cell of the grid */
}

/* False: the thread ends. */
static bool run_plan(struct sched_worker *worker, const struct plan *plan)
{
        struct infp_sched *sched = worker->sched;
        int is_fresh = refresh(worker, plan);
        unsigned n_due = 0;

        if (is_fresh < 0)
                return false;
        /* What was due over a period ago is left out: the sampling stays on its grid. The first tick is always taken, however
         * long the thread had to wait for its CPU. */
        if (plan->is_tick && sched->tick > 0)
                skip_to(sched, (plan->now - sched->start_ns) / sched->period_ns);
        for (unsigned i = 0; i < sched->n_shared; i++) {
                struct sched_slot *slot = &sched->slots[i];
                enum taken taken;

                if (!plan->is_due[i])
                        continue;
                if (slot->collector->flags & INFP_WALKS_TARGET && !is_fresh) {
                        set_next(slot, plan->now);
                        continue;
                }
                taken = take(worker, slot);
                if (taken == END)
                        return false;
                if (taken == SKIP)
                        continue;
                sample(slot, plan->now);
                n_due++;
                if (!leave(worker, slot))
                        return false;
        }
        if (plan->is_tick)
                write_tick(worker, plan->now, n_due);
        return true;
}

/* When the shared worker has to wake up. The lock is held. */
static uint64_t shared_wake_ns(const struct sched_worker *worker)
{
        const struct infp_sched *sched = worker->sched;
        uint64_t wake = infp_sched_deadline(sched);

        for (unsigned i = 0; i < sched->n_shared; i++) {
                const struct sched_slot *slot = &sched->slots[i];
                uint64_t due;

                if (slot->worker != worker || slot->is_hung || slot->state.is_closed)
                        continue;
                due = slot->next_ns > slot->retry_ns ? slot->next_ns : slot->retry_ns;
                wake = due < wake ? due : wake;
        }
        return wake;
}

/* Sleeps until something is due or the end has come. The lock is held. Returns the moment. */
static uint64_t sleep_until_due(struct sched_worker *worker)
{
        for (;;) {
                uint64_t wake = worker->own ? worker->own->next_ns : shared_wake_ns(worker), now = infp_sched_now();
                struct timespec until = infp_timespec(wake);

                worker->wake_ns = wake;
                if (now >= wake || worker->sched->is_stopping)
                        return now;
                pthread_cond_timedwait(&worker->sched->wake, &worker->sched->lock, &until);
        }
}

static void wake_reader(struct sched_worker *worker)
{
        worker->is_woken = false;
        infp_sched_wake_reader(worker->sched);
}

static void shared_loop(struct sched_worker *worker)
{
        struct plan plan;

        do {
                pthread_mutex_lock(&worker->sched->lock);
                make_plan(worker, sleep_until_due(worker), &plan);
                pthread_mutex_unlock(&worker->sched->lock);
                if (!run_plan(worker, &plan))
                        return;
                wake_reader(worker);
        } while (!plan.is_last);
}

/* The shared thread's tick wakes the reader, who then takes the rows of all: each thread that woke it as well would have it take
 * its turn once more. Not where the tick is far away, and not for what it waits for: the first sample, and the end of a hang. */
static void tell_reader(struct sched_worker *worker, const struct sched_slot *slot)
{
        bool is_awaited;

        pthread_mutex_lock(&worker->sched->lock);
        is_awaited = slot->n_done <= 1 || slot->is_late || worker->sched->period_ns > INFP_NS_PER_S;
        pthread_mutex_unlock(&worker->sched->lock);
        if (is_awaited)
                wake_reader(worker);
        else
                worker->is_woken = false;
}

static void own_loop(struct sched_worker *worker)
{
        struct sched_slot *slot = worker->own;
        struct plan plan = { 0 };

        do {
                pthread_mutex_lock(&worker->sched->lock);
                plan.now = sleep_until_due(worker);
                plan.is_last = worker->sched->is_stopping;
                pthread_mutex_unlock(&worker->sched->lock);
                if (!is_due(slot, &plan) || take(worker, slot) != RUN)
                        continue;
                sample(slot, plan.now);
                leave(worker, slot);
                tell_reader(worker, slot);
                if (slot->state.is_closed)
                        return;
        } while (!plan.is_last);
}

static void close_slots(struct sched_worker *worker)
{
        for (unsigned i = 0; i < worker->sched->n_slots; i++) {
                struct sched_slot *slot = &worker->sched->slots[i];
                bool is_mine;

                pthread_mutex_lock(&worker->sched->lock);
                is_mine = !worker->is_abandoned && slot->worker == worker && !slot->is_hung;
                pthread_mutex_unlock(&worker->sched->lock);
                if (is_mine)
                        infp_collector_close(&slot->state);
        }
}

void *infp_sched_main(void *p)
{
        struct sched_worker *worker = p;

        if (worker->own)
                own_loop(worker);
        else
                shared_loop(worker);
        close_slots(worker);
        pthread_mutex_lock(&worker->sched->lock);
        worker->is_ended = true;
        pthread_mutex_unlock(&worker->sched->lock);
        infp_sched_wake_reader(worker->sched);
        return NULL;
}
