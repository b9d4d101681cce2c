#include "collect/once.h"
#include "base/human.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "collect/target.h"
#include "ring/rowring.h"

/* The first start of a GPU's driver takes seconds, and each GPU adds some. */
enum { PATIENCE_MS = 10000, RING_BYTES = 1 << 20, POLL_US = 1000, MOST_THREADS = 16 };

/* One that may block. Abandoned with its memory when it does not return. */
struct thread {
        const struct infp_collector *collector;
        struct infp_env env;
        struct infp_emit emit;
        struct infp_rowring *ring;
        pthread_t thread;
        atomic_bool is_done, is_left;
};

struct threads {
        struct thread *list[MOST_THREADS];
        unsigned n;
        uint64_t begin_ns;
};

static bool is_wanted(const struct infp_collector *collector, const struct infp_env *env, const char *const *only)
{
        if (!only)
                return infp_collector_enabled(collector, env);
        for (; *only; only++)
                if (!strcmp(*only, collector->name))
                        return true;
        return false;
}

static void run(const struct infp_collector *collector, const struct infp_env *env, struct infp_emit *emit)
{
        struct infp_collector_state state = { 0 };

        /* Without notices: `sources` has them. */
        if (!infp_collector_open(&state, collector, env, emit, NULL, NULL))
                infp_collector_sample(&state, env, emit, NULL, NULL);
        infp_collector_close(&state);
}

/* The program ends without this thread: it touches nothing more. */
static void stay_if_left(struct thread *t)
{
        while (atomic_load(&t->is_left))
                pause();
}

static int put(void *context, const struct infp_row *row)
{
        struct thread *t = context;

        stay_if_left(t);
        while (infp_rowring_put(t->ring, row) < 0) {
                if (!infp_rowring_used(t->ring))
                        return -ENOSPC; /* it can never fit */
                usleep(POLL_US);
                stay_if_left(t);
        }
        return 0;
}

static void *thread_main(void *context)
{
        struct thread *t = context;
        struct infp_collector_state state = { 0 };
        const int r = infp_collector_open(&state, t->collector, &t->env, &t->emit, NULL, NULL);

        stay_if_left(t);
        if (!r)
                infp_collector_sample(&state, &t->env, &t->emit, NULL, NULL);
        stay_if_left(t);
        infp_collector_close(&state);
        atomic_store(&t->is_done, true);
        return NULL;
}

static void thread_free(struct thread *t)
{
        infp_rowring_free(t->ring);
        free(t);
}

/* False: run it without a thread. */
static bool start(struct threads *threads, const struct infp_collector *collector, const struct infp_env *env)
{
        struct thread *t = threads->n < MOST_THREADS ? calloc(1, sizeof(*t)) : NULL;
        int r;

        if (!t)
                return false;
        t->collector = collector;
        t->env = *env;
        infp_emit_init(&t->emit, put, t);
        r = infp_rowring_new(RING_BYTES, &t->ring);
        if (r >= 0)
                r = infp_thread_start(&t->thread, "infprof-once", 0, thread_main, t);
        if (r < 0) {
                thread_free(t);
                return false;
        }
        threads->list[threads->n++] = t;
        return true;
}

static void drain(struct thread *t, struct infp_emit *emit)
{
        struct infp_row row;

        while (infp_rowring_next(t->ring, &row, NULL) == INFP_ROWRING_ROW)
                emit->put(emit->context, &row);
}

/* Takes what they have emitted so far. True: all are done. */
static bool take(struct threads *threads, struct infp_emit *emit)
{
        bool all = true;

        for (unsigned i = 0; i < threads->n; i++) {
                const bool is_done = atomic_load(&threads->list[i]->is_done);

                drain(threads->list[i], emit);
                all &= is_done;
        }
        return all;
}

static void say_late(const struct thread *t, const struct infp_env *env, struct infp_emit *emit, uint64_t patience_ns)
{
        char text[128];

        snprintf(text, sizeof(text), "no answer within %s s: skipped; its earlier values are kept",
                 infp_number((double) patience_ns / INFP_NS_PER_S).text);
        emit->collector = t->collector->name;
        emit->t_ns = env->now_ns(env);
        infp_emit_source(emit, NULL, -1, NULL, INFP_LATE, text, NULL);
}

static bool end(struct threads *threads, const struct infp_env *env, struct infp_emit *emit, uint64_t patience_ns)
{
        bool is_hanging = false;

        while (!take(threads, emit) && infp_clock_ns(CLOCK_MONOTONIC) - threads->begin_ns < patience_ns)
                usleep(POLL_US);
        for (unsigned i = 0; i < threads->n; i++) {
                struct thread *t = threads->list[i];

                if (!atomic_load(&t->is_done)) {
                        atomic_store(&t->is_left, true);
                        pthread_detach(t->thread);
                        say_late(t, env, emit, patience_ns);
                        is_hanging = true;
                        continue;
                }
                pthread_join(t->thread, NULL);
                drain(t, emit);
                thread_free(t);
        }
        return is_hanging;
}

int infp_collect_once(const struct infp_env *env, const char *const *only, struct infp_emit *emit, uint32_t patience_ms,
                      struct infp_err *err)
{
        struct infp_err refresh_err = { "" };
        struct threads threads = { .begin_ns = infp_clock_ns(CLOCK_MONOTONIC) };

        for (size_t i = 0; only && only[i]; i++)
                if (!infp_collector_find(only[i]))
                        return infp_fail(err, -ENOENT, "there is no collector named %s; `infprof doctor` lists them",
                                         only[i]);
        /* Without a process table the collectors that need it report that. */
        if (env->target)
                infp_target_refresh(env->target, env, &refresh_err);
        for (size_t i = 0; infp_collectors[i]; i++)
                if (is_wanted(infp_collectors[i], env, only) &&
                    !(infp_collectors[i]->flags & INFP_MAY_BLOCK && start(&threads, infp_collectors[i], env)))
                        run(infp_collectors[i], env, emit);
        return end(&threads, env, emit, (patience_ms ? patience_ms : PATIENCE_MS) * INFP_NS_PER_MS);
}
