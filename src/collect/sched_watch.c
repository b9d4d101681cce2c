/* The reader of the rings watches the scheduler's threads: what hangs, and what has returned. */
#include <inttypes.h>
#include <stdio.h>

#include "base/time.h"
#include "collect/sched_parts.h"

/* One look reports at most this much news; the next one the rest. */
enum { MAX_NEWS = 16, RELIABLE_AGAIN = 100 };

struct news {
        const char *name;
        bool is_late, is_shared;
        uint64_t since_ns;
        struct sched_words words; /* it has returned, and says so */
};

/* Leaves the thread to the slot that hangs in it; the others get a new one. The lock is held. */
static void abandon(struct infp_sched *sched, struct sched_worker *worker, struct sched_slot *slot)
{
        struct sched_worker *next;

        if (infp_sched_add_worker(sched, NULL, &next, NULL) < 0)
                return; /* all wait until the call returns */
        if (infp_sched_start_worker(next, NULL) < 0)
                return;
        worker->is_abandoned = true;
        slot->is_hung = true;
        slot->n_hangs++;
        sched->shared = next;
        for (unsigned i = 0; i < sched->n_shared; i++)
                if (&sched->slots[i] != slot && sched->slots[i].worker == worker)
                        sched->slots[i].worker = next;
}

/* A thread hangs when the same call was seen twice, some time apart: after a SIGSTOP of the whole program a call looks old at
 * once, but it continues. */
static bool is_hanging(const struct infp_sched *sched, struct sched_worker *worker, uint64_t now)
{
        if (!worker->current || worker->is_abandoned || !worker->is_started || worker->is_ended)
                return false;
        if (worker->watched_call != worker->n_calls) {
                worker->watched_call = worker->n_calls;
                worker->watched_ns = now;
                return false;
        }
        return now - worker->call_ns >= sched->hang_ns && now - worker->watched_ns >= sched->hang_ns / 4;
}

static void look_at_worker(struct infp_sched *sched, struct sched_worker *worker, uint64_t now, struct news *news,
                           unsigned *n)
{
        struct sched_slot *slot = worker->current;

        if (!is_hanging(sched, worker, now))
                return;
        if (!worker->own)
                abandon(sched, worker, slot);
        if (slot->is_late)
                return;
        slot->is_late = true;
        slot->n_done_before = slot->n_done;
        news[(*n)++] = (struct news){
                .name = slot->name, .is_late = true, .is_shared = !worker->own, .since_ns = now - worker->call_ns
        };
}

static void look_at_slot(struct sched_slot *slot, struct news *news, unsigned *n)
{
        if (slot->is_hung)
                return;
        if (slot->is_late && slot->n_done > slot->n_done_before) {
                slot->is_late = false;
                news[(*n)++] = (struct news){ .name = slot->name, .words = slot->words };
        }
        if (slot->n_done - slot->n_done_before > RELIABLE_AGAIN)
                slot->n_hangs = 0;
}

static void tell(struct infp_sched *sched, const struct news *news)
{
        char text[300];

        sched->watch_emit->collector = news->name;
        if (!news->is_late) {
                infp_emit_source(sched->watch_emit, NULL, -1, NULL, news->words.state,
                                 *news->words.reason ? news->words.reason : NULL,
                                 *news->words.fix ? news->words.fix : NULL);
                return;
        }
        snprintf(text, sizeof text, "it has not returned for %" PRIu64 " ms%s", news->since_ns / INFP_NS_PER_MS,
                 news->is_shared ? "; the other collectors continue without it" : "");
        infp_emit_source(sched->watch_emit, NULL, -1, NULL, INFP_LATE, text, NULL);
        if (!sched->options.notice)
                return;
        snprintf(text, sizeof text,
                 "%s: it has not returned for %" PRIu64 " ms; the others continue, and infprof tries again", news->name,
                 news->since_ns / INFP_NS_PER_MS);
        sched->options.notice(sched->options.notice_context, text);
}

void infp_sched_watch(struct infp_sched *sched, int (*put)(void *context, const struct infp_row *row), void *context)
{
        struct news news[MAX_NEWS];
        uint64_t now = infp_sched_now();
        unsigned n = 0;

        if (!sched->watch_emit->put)
                infp_emit_init(sched->watch_emit, put, context);
        sched->watched_ns = now;
        pthread_mutex_lock(&sched->lock);
        /* bound: the rest is news at the next look */
        for (unsigned i = 0, n_workers = sched->n_workers; i < n_workers && n < MAX_NEWS; i++)
                look_at_worker(sched, &sched->workers[i], now, news, &n);
        for (unsigned i = 0; i < sched->n_slots && n < MAX_NEWS; i++) /* bound: the rest is news at the next look */
                look_at_slot(&sched->slots[i], news, &n);
        if (n < MAX_NEWS)
                look_at_slot(&sched->target, news, &n);
        pthread_mutex_unlock(&sched->lock);
        /* Outside the lock: the rows may lead to a flush. */
        sched->watch_emit->t_ns = now;
        for (unsigned i = 0; i < n; i++)
                tell(sched, &news[i]);
}

static uint64_t due_of(const struct infp_sched *sched, const struct sched_worker *worker)
{
        uint64_t hang = sched->hang_ns, again = worker->watched_ns + hang / 4;

        if (!worker->is_started || worker->is_ended || worker->is_abandoned)
                return UINT64_MAX;
        if (!worker->current)
                return worker->wake_ns + hang;
        if (worker->own && worker->current->is_late)
                return UINT64_MAX; /* its return wakes the reader */
        if (worker->watched_call != worker->n_calls)
                return worker->call_ns + hang / 2;
        return worker->call_ns + hang > again ? worker->call_ns + hang : again;
}

uint64_t infp_sched_watch_due_ns(struct infp_sched *sched)
{
        uint64_t due = UINT64_MAX, soonest = sched->watched_ns + sched->hang_ns / 8;

        pthread_mutex_lock(&sched->lock);
        for (unsigned i = 0; i < sched->n_workers; i++) {
                uint64_t own = due_of(sched, &sched->workers[i]);

                due = own < due ? own : due;
        }
        pthread_mutex_unlock(&sched->lock);
        return due > soonest ? due : soonest;
}
