#include "collect/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "collect/sched_parts.h"

enum { DEFAULT_RING_BYTES = 1 << 20 };
static const uint64_t longest_patience_ns = 5 * INFP_NS_PER_S; /* at the end, with what hangs */

uint64_t infp_sched_now(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

uint64_t infp_sched_deadline(const struct infp_sched *sched)
{
        return sched->start_ns + sched->tick * sched->period_ns;
}

void infp_sched_wake_reader(const struct infp_sched *sched)
{
        uint64_t one = 1;

        (void) !write(sched->options.wake_fd, &one, sizeof one); /* EAGAIN: it has been woken 2^64 - 2 times */
}

/* A burst that fills a quarter of the ring wakes the reader before the tick is over, and again for each further quarter: the
 * first rows of hundreds of processes are more than one ring holds. Woken, it takes all that is there before it sleeps again, so
 * that without a good piece taken since then it is still awake. */
static void wake_for_burst(struct sched_worker *worker)
{
        /* One reading of the reader's position for both tests: it goes on meanwhile. */
        uint64_t taken = infp_rowring_taken(worker->ring), used = infp_rowring_written(worker->ring) - taken;
        size_t size = infp_rowring_size(worker->ring);

        if (used <= size / 4 || (worker->is_woken && taken - worker->woken_at < size / 8))
                return;
        worker->is_woken = true;
        worker->woken_at = taken;
        infp_sched_wake_reader(worker->sched);
}

/* The emitter of a slot. */
static int put(void *context, const struct infp_row *row)
{
        struct sched_slot *slot = context;
        int r = infp_rowring_put(slot->worker->ring, row);

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

        worker->is_started = true; /* before the thread may say that it ended */
        r = infp_thread_start(&worker->thread, "infprof-collect", 0, infp_sched_main, worker);
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

/* Threads that ended are joined. False: one is still in a call, and may wake up at any time. */
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
