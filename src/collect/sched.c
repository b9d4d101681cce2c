#include "collect/sched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/thread.h"
#include "base/time.h"
#include "collect/sched_parts.h"
#include "collect/target.h"

enum { MAX_DOUBLINGS = 6 }; /* of the pause after hangs: 640 s */

enum taken { END, SKIP, RUN };

uint64_t infp_sched_now(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t deadline_ns(const struct infp_sched *sched)
{
        return sched->start_ns + sched->tick * sched->period_ns;
}

static void wake_reader(const struct infp_sched *sched)
{
        uint64_t one = 1;

        (void) !write(sched->options.wake_fd, &one, sizeof one); /* EAGAIN: it was woken 2^64 - 2 times */
}

/* Begins the call of a slot. */
static enum taken take_slot(struct sched_worker *worker, struct sched_slot *slot)
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

/* Ends it. False: another worker has taken over, this thread ends; the slot is the other's, after a pause. */
static bool leave_slot(struct sched_worker *worker, struct sched_slot *slot)
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

/* Deadlines of a slot lie on a grid from the common start; missed ones are skipped. */
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

/* Where few descriptors are allowed, collectors with a thread of their own, which use many sockets and files, would take them
 * from the sources of the machine and from the store. */
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

static void sample_slot(struct sched_slot *slot, uint64_t now)
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

/* What one turn of a thread does. */
struct plan {
        uint64_t now;
        bool is_tick, is_last, is_target_due, is_target_busy;
        bool is_due[SCHED_SLOTS];
};

/* The last sample can come right after the one before: differences of host counters over so short a time mean nothing, but
 * processes that ended in between must not be missed. */
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
        ret->is_tick = ret->is_last || deadline_ns(sched) <= now;
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
        taken = take_slot(worker, &sched->target);
        if (taken != RUN)
                return taken == END ? -1 : 0;
        r = infp_target_refresh(options->env->target, options->env, &err);
        if (r < 0 && !sched->target.was_broken && options->notice)
                options->notice(options->notice_context, err.text);
        sched->target.was_broken = r < 0;
        if (r < 0)
                count_error(sched);
        sched->target.next_ns = plan->now + options->target_floor_ns;
        return leave_slot(worker, &sched->target) ? r >= 0 : -1;
}

/* Skips ticks before `next`, and counts them. */
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
        uint64_t deadline = deadline_ns(sched);

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
        /* What was due over a period ago is skipped: the sampling stays on its grid. The first tick is always taken, however
         * long the thread waited for its CPU. */
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
                taken = take_slot(worker, slot);
                if (taken == END)
                        return false;
                if (taken == SKIP)
                        continue;
                sample_slot(slot, plan->now);
                n_due++;
                if (!leave_slot(worker, slot))
                        return false;
        }
        if (plan->is_tick)
                write_tick(worker, plan->now, n_due);
        return true;
}

/* When the shared worker must wake up. The lock is held. */
static uint64_t shared_wake_ns(const struct sched_worker *worker)
{
        const struct infp_sched *sched = worker->sched;
        uint64_t wake = deadline_ns(sched);

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

/* Sleeps until something is due or the end comes. The lock is held. Returns the time. */
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

static void end_turn(struct sched_worker *worker)
{
        worker->is_woken = false;
        wake_reader(worker->sched);
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
                end_turn(worker);
        } while (!plan.is_last);
}

/* The shared thread's tick wakes the reader, which then takes the rows of all: a thread that woke it, too, would make it take
 * another turn. Wakes it where the tick is far away, and for what it waits for: the first sample, and the end of a hang. */
static void tell_reader(struct sched_worker *worker, const struct sched_slot *slot)
{
        bool is_awaited;

        pthread_mutex_lock(&worker->sched->lock);
        is_awaited = slot->n_done <= 1 || slot->is_late || worker->sched->period_ns > INFP_NS_PER_S;
        pthread_mutex_unlock(&worker->sched->lock);
        if (is_awaited)
                end_turn(worker);
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
                if (!is_due(slot, &plan) || take_slot(worker, slot) != RUN)
                        continue;
                sample_slot(slot, plan.now);
                leave_slot(worker, slot);
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

static void *worker_main(void *p)
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
        wake_reader(worker->sched);
        return NULL;
}

enum { DEFAULT_RING_BYTES = 1 << 20 };
static const uint64_t longest_patience_ns = 5 * INFP_NS_PER_S; /* at the end, for what hangs */

/* A burst that fills a quarter of the ring wakes the reader before the tick is over, and again for each further quarter: the
 * first rows of hundreds of processes exceed one ring. Once awake, it takes all before it sleeps again, so that it is still
 * awake unless it has taken a good part since. */
static void wake_for_burst(struct sched_worker *worker)
{
        /* One reading of the reader's position for both tests: it moves meanwhile. */
        uint64_t taken = infp_rowring_taken(worker->ring), used = infp_rowring_written(worker->ring) - taken;
        size_t size = infp_rowring_size(worker->ring);

        if (used <= size / 4 || (worker->is_woken && taken - worker->woken_at < size / 8))
                return;
        worker->is_woken = true;
        worker->woken_at = taken;
        wake_reader(worker->sched);
}

static bool is_cell(const struct infp_row *row, unsigned column, const char *text)
{
        size_t size;
        const char *at = infp_row_text(row, column, &size);

        return size == strlen(text) && memcmp(at, text, size) == 0;
}

static void copy_cell(char *ret, size_t cap, const struct infp_row *row, unsigned column)
{
        size_t size;
        const char *at = infp_row_text(row, column, &size);

        snprintf(ret, cap, "%.*s", (int) size, at);
}

/* A collector whose call has returned late is as it said itself, if it did: the watch takes its own word back, not the collector's. */
static void note_words(struct sched_slot *slot, const struct infp_row *row)
{
        struct sched_words words = { .state = INFP_OK };

        if (row->table != &infp_table_sources || !is_cell(row, INFP_SOURCES_TABLE, "*") ||
            infp_row_has(row, INFP_SOURCES_INSTANCE))
                return;
        while (words.state < INFP_LATE && !is_cell(row, INFP_SOURCES_STATE, infp_source_state_name(words.state)))
                words.state++;
        copy_cell(words.reason, sizeof(words.reason), row, INFP_SOURCES_REASON);
        copy_cell(words.fix, sizeof(words.fix), row, INFP_SOURCES_FIX);
        pthread_mutex_lock(&slot->sched->lock);
        slot->words = words;
        pthread_mutex_unlock(&slot->sched->lock);
}

/* The emitter of a slot. */
static int put(void *context, const struct infp_row *row)
{
        struct sched_slot *slot = context;
        int r = infp_rowring_put(slot->worker->ring, row);

        note_words(slot, row);
        wake_for_burst(slot->worker);
        return r;
}

static struct sched_worker *free_worker(struct infp_sched *sched)
{
        for (unsigned i = 0; i < sched->n_workers; i++)
                if (sched->workers[i].is_ended && !sched->workers[i].own)
                        return &sched->workers[i];
        return sched->n_workers < SCHED_WORKERS ? &sched->workers[sched->n_workers] : NULL;
}

int infp_sched_add_worker(struct infp_sched *sched, struct sched_slot *own, struct sched_worker **ret,
                          struct infp_err *err)
{
        size_t bytes = sched->options.ring_bytes ? sched->options.ring_bytes : DEFAULT_RING_BYTES;
        struct sched_worker *worker = free_worker(sched);
        struct infp_rowring *ring;
        int r;

        if (!worker)
                return infp_fail(err, -EAGAIN, "too many collectors hang: no further thread is started");
        if (worker->is_ended && worker->is_started)
                pthread_join(worker->thread, NULL);
        ring = worker->ring;
        r = ring ? 0 : infp_rowring_new(bytes, &ring);
        if (r < 0)
                return infp_fail_errno(err, r, "no memory for the ring of a collector thread");
        *worker = (struct sched_worker){ .sched = sched, .ring = ring, .own = own };
        if (worker == &sched->workers[sched->n_workers])
                sched->n_workers++;
        *ret = worker;
        return 0;
}

int infp_sched_start_worker(struct sched_worker *worker, struct infp_err *err)
{
        int r;

        worker->is_started = true; /* before the thread may report its end */
        r = infp_thread_start(&worker->thread, "infprof-collect", 0, worker_main, worker);
        if (r == 0)
                return 0;
        worker->is_started = false;
        worker->is_ended = true;
        return infp_fail_errno(err, r, "cannot start a collector thread");
}

static int add_slot(struct infp_sched *sched, const struct infp_collector *collector, struct infp_err *err)
{
        const struct infp_sched_options *options = &sched->options;
        struct sched_slot *slot = &sched->slots[sched->n_slots];
        bool walks = collector->flags & INFP_WALKS_TARGET;

        if (sched->n_slots == SCHED_SLOTS)
                return infp_fail(err, -E2BIG, "more than %d collectors", SCHED_SLOTS);
        *slot = (struct sched_slot){
                .sched = sched,
                .collector = collector,
                .name = collector->name,
                .period_ns = infp_collector_period_ms(collector, options->env->period_ms) * INFP_NS_PER_MS,
                .emit = malloc(sizeof *slot->emit),
        };
        if (!slot->emit)
                return infp_fail(err, -ENOMEM, "no memory for collector %s", collector->name);
        infp_emit_init(slot->emit, put, slot);
        if (walks && slot->period_ns < options->target_floor_ns)
                slot->period_ns = options->target_floor_ns;
        sched->has_walkers |= walks;
        sched->n_slots++;
        return 0;
}

static int add_slots(struct infp_sched *sched, bool own, struct infp_err *err)
{
        for (const struct infp_collector *const *c = sched->options.collectors; *c; c++)
                if (infp_collector_enabled(*c, sched->options.env) && !!((*c)->flags & INFP_MAY_BLOCK) == own)
                        INFP_TRY(add_slot(sched, *c, err));
        return 0;
}

static int add_workers(struct infp_sched *sched, struct infp_err *err)
{
        for (unsigned i = sched->n_shared; i < sched->n_slots; i++)
                INFP_TRY(infp_sched_add_worker(sched, &sched->slots[i], &sched->slots[i].worker, err));
        INFP_TRY(infp_sched_add_worker(sched, NULL, &sched->shared, err));
        for (unsigned i = 0; i < sched->n_shared; i++)
                sched->slots[i].worker = sched->shared;
        return 0;
}

static struct infp_sched *make(const struct infp_sched_options *options)
{
        struct infp_sched *sched = calloc(1, sizeof *sched);

        if (!sched)
                return NULL;
        sched->options = *options;
        sched->period_ns = options->env->period_ms * INFP_NS_PER_MS;
        sched->hang_ns = options->hang_ns ? options->hang_ns : 3 * sched->period_ns;
        if (!options->hang_ns && sched->hang_ns < INFP_NS_PER_S)
                sched->hang_ns = INFP_NS_PER_S;
        if (!options->retry_ns)
                sched->options.retry_ns = 10 * INFP_NS_PER_S;
        sched->target = (struct sched_slot){ .sched = sched, .name = "target" };
        pthread_mutex_init(&sched->lock, NULL);
        infp_cond_init(&sched->wake);
        sched->watch_emit = calloc(1, sizeof *sched->watch_emit);
        return sched;
}

int infp_sched_start(const struct infp_sched_options *options, struct infp_sched **ret, struct infp_err *err)
{
        struct infp_sched *sched = make(options);
        int r;

        if (!sched || !sched->watch_emit) {
                infp_sched_free(sched);
                return infp_fail(err, -ENOMEM, "no memory for the scheduler");
        }
        r = add_slots(sched, false, err);
        sched->n_shared = sched->n_slots;
        if (r >= 0)
                r = add_slots(sched, true, err);
        if (r >= 0)
                r = add_workers(sched, err);
        sched->start_ns = infp_sched_now();
        for (unsigned i = 0; i < sched->n_slots; i++)
                sched->slots[i].next_ns = sched->start_ns;
        for (unsigned i = 0; r >= 0 && i < sched->n_workers; i++)
                r = infp_sched_start_worker(&sched->workers[i], err);
        if (r < 0) {
                infp_sched_stop_begin(sched);
                while (!infp_sched_is_ended(sched))
                        usleep(1000);
                infp_sched_free(sched);
                return r;
        }
        *ret = sched;
        return 0;
}

bool infp_sched_is_first_done(struct infp_sched *sched)
{
        bool is_done = true;

        pthread_mutex_lock(&sched->lock);
        for (unsigned i = 0; i < sched->n_slots; i++)
                is_done &= sched->slots[i].was_run || sched->slots[i].is_late;
        pthread_mutex_unlock(&sched->lock);
        return is_done;
}

struct infp_rowring *infp_sched_ring(struct infp_sched *sched, unsigned index)
{
        return index < sched->n_workers ? sched->workers[index].ring : NULL;
}

uint64_t infp_sched_dropped(struct infp_sched *sched)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < sched->n_workers; i++)
                n += infp_rowring_dropped(sched->workers[i].ring);
        return n;
}

void infp_sched_stop_begin(struct infp_sched *sched)
{
        pthread_mutex_lock(&sched->lock);
        sched->is_stopping = true;
        sched->stop_ns = infp_sched_now();
        pthread_cond_broadcast(&sched->wake);
        pthread_mutex_unlock(&sched->lock);
}

bool infp_sched_is_ended(struct infp_sched *sched)
{
        uint64_t patience = sched->hang_ns < longest_patience_ns ? sched->hang_ns : longest_patience_ns;
        bool is_ended = true;

        pthread_mutex_lock(&sched->lock);
        for (unsigned i = 0; i < sched->n_workers; i++) {
                const struct sched_worker *worker = &sched->workers[i];

                is_ended &= !worker->is_started || worker->is_ended || worker->is_abandoned;
        }
        if (!is_ended && sched->is_stopping)
                is_ended = infp_sched_now() - sched->stop_ns > patience;
        pthread_mutex_unlock(&sched->lock);
        return is_ended;
}

/* Joins threads that ended. False: one is still in a call, and may wake up at any time. */
static bool join_all(struct infp_sched *sched)
{
        bool all = true;

        for (unsigned i = 0; i < sched->n_workers; i++) {
                struct sched_worker *worker = &sched->workers[i];
                bool is_ended;

                pthread_mutex_lock(&sched->lock);
                is_ended = worker->is_ended;
                pthread_mutex_unlock(&sched->lock);
                if (worker->is_started && is_ended)
                        pthread_join(worker->thread, NULL);
                else if (worker->is_started)
                        pthread_detach(worker->thread);
                all &= !worker->is_started || is_ended;
        }
        return all;
}

bool infp_sched_free(struct infp_sched *sched)
{
        if (!sched)
                return true;
        if (!join_all(sched))
                return false;
        for (unsigned i = 0; i < sched->n_workers; i++)
                infp_rowring_free(sched->workers[i].ring);
        for (unsigned i = 0; i < sched->n_slots; i++) {
                infp_collector_close(&sched->slots[i].state);
                free(sched->slots[i].emit);
        }
        free(sched->watch_emit);
        pthread_cond_destroy(&sched->wake);
        pthread_mutex_destroy(&sched->lock);
        free(sched);
        return true;
}
