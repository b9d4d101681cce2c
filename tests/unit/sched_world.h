/* The scheduler on made-up collectors, for its tests: a world whose rings are read as the recorder does. */
#pragma once

#include "count_mallocs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "collect/sched.h"
#include "collect/target.h"

#define MS INFP_NS_PER_MS

static const struct infp_column columns[] = {
        INFP_COLUMN(n, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Calls so far."),
};
static const struct infp_table table_a = { .name = "a", .help = "A.", .columns = columns, .n_columns = 1 };
static const struct infp_table table_b = { .name = "b", .help = "B.", .columns = columns, .n_columns = 1 };
static const struct infp_table table_c = { .name = "c", .help = "C.", .columns = columns, .n_columns = 1 };
static const struct infp_table *const tables_a[] = { &table_a, NULL };
static const struct infp_table *const tables_b[] = { &table_b, NULL };
static const struct infp_table *const tables_c[] = { &table_c, NULL };

struct state {
        int64_t n;
};

/* A gate that a collector's call waits at. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool blocks; /* calls of `b` stand at the gate */
static atomic_uint n_closed;
static bool says_absent; /* `b` does, when it has stood there */

static int open_any(void *state, const struct infp_env *env, struct infp_err *err)
{
        (void) state;
        (void) env;
        (void) err;
        return 0;
}

static int count(struct state *s, const struct infp_env *env, struct infp_emit *emit, const struct infp_table *table)
{
        struct infp_row *row = infp_emit_begin(emit, table, env->now_ns(env));

        infp_row_i64(row, 0, s->n++);
        infp_emit_commit(emit);
        return 0;
}

static int sample_a(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) err;
        return count(state, env, emit, &table_a);
}

static int sample_b(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) err;
        if (atomic_load(&blocks)) {
                pthread_mutex_lock(&gate);
                pthread_mutex_unlock(&gate);
                if (says_absent)
                        infp_emit_source(emit, NULL, -1, NULL, INFP_ABSENT, "there is none", NULL);
        }
        return count(state, env, emit, &table_b);
}

static int sample_c(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) err;
        return count(state, env, emit, &table_c);
}

/* More rows in one tick than three rings of 64 KiB hold. It waits for the reader whenever a quarter of the ring and a little
 * more is filled, and at most 3 s: a reader that sleeps on loses rows. */
enum { BURST_ROWS = 3500, BURST_AHEAD = 400 };
static atomic_long n_taken;

static int sample_burst(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct state *s = state;

        (void) err;
        while (s->n < BURST_ROWS) {
                for (unsigned i = 0; i < 3000 && s->n - atomic_load(&n_taken) > BURST_AHEAD; i++)
                        usleep(1000);
                count(s, env, emit, &table_c);
        }
        return 0;
}

static void close_any(void *state)
{
        (void) state;
        n_closed++;
}

#define COLLECTOR(name_, tables_, flags_, period_, open_, sample_)                                        \
        {                                                                                                 \
                .name = name_, .help = "Test.", .tables = tables_, .flags = flags_, .period_ms = period_, \
                .state_size = sizeof(struct state), .open = open_, .sample = sample_, .close = close_any  \
        }
static const struct infp_collector a = COLLECTOR("a", tables_a, 0, 0, open_any, sample_a);
static const struct infp_collector b = COLLECTOR("b", tables_b, 0, 0, open_any, sample_b);
static const struct infp_collector walker = COLLECTOR("b", tables_b, INFP_WALKS_TARGET, 0, open_any, sample_b);
static const struct infp_collector own_b = COLLECTOR("b", tables_b, INFP_MAY_BLOCK, 0, open_any, sample_b);
static const struct infp_collector slow = COLLECTOR("c", tables_c, 0, 50, open_any, sample_c);
static const struct infp_collector own = COLLECTOR("c", tables_c, INFP_MAY_BLOCK, 0, open_any, sample_c);
static const struct infp_collector burst = COLLECTOR("c", tables_c, 0, 0, open_any, sample_burst);

enum { MAX_TICKS = 4096 };

struct world {
        struct infp_env env;
        struct infp_stats stats;
        struct infp_sched *sched;
        int wake_fd;
        int64_t n_a, n_b, n_c; /* rows so far; each must bring the next number */
        struct {
                int64_t number, deadline, late, missed;
        } ticks[MAX_TICKS];
        unsigned n_ticks, n_tick_ends;
        char sources[4096], notices[4096];
        pthread_mutex_t lock;
};

static inline uint64_t real_now(const struct infp_env *env)
{
        (void) env;
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static inline void say(void *context, const char *text)
{
        struct world *w = context;

        pthread_mutex_lock(&w->lock);
        strcat(strcat(w->notices, text), "\n");
        pthread_mutex_unlock(&w->lock);
}

static inline int take(void *context, const struct infp_row *row)
{
        struct world *w = context;
        size_t size;

        if (row->table == &table_a) {
                assert_int_equal(row->cell[0].i64, w->n_a++);
        } else if (row->table == &table_b) {
                assert_int_equal(row->cell[0].i64, w->n_b++);
        } else if (row->table == &table_c) {
                assert_int_equal(row->cell[0].i64, w->n_c++);
        } else if (row->table == &infp_table_ticks) {
                assert_true(w->n_ticks < MAX_TICKS);
                w->ticks[w->n_ticks].number = row->cell[INFP_TICKS_NUMBER].i64;
                w->ticks[w->n_ticks].deadline = row->cell[INFP_TICKS_DEADLINE].i64;
                w->ticks[w->n_ticks].late = row->cell[INFP_TICKS_LATE_NS].i64;
                w->ticks[w->n_ticks++].missed = row->cell[INFP_TICKS_MISSED].i64;
        } else {
                char *end = w->sources + strlen(w->sources);
                const char *name = infp_row_text(row, INFP_SOURCES_COLLECTOR, &size);

                assert_ptr_equal(row->table, &infp_table_sources);
                end += sprintf(end, "%.*s:", (int) size, name);
                name = infp_row_text(row, INFP_SOURCES_STATE, &size);
                sprintf(end, "%.*s ", (int) size, name);
        }
        return 0;
}

/* What the recorder's thread does, until *is_enough or for at most 10 s. */
static inline void turn(struct world *w, bool (*is_enough)(struct world *w))
{
        static struct infp_row row;
        struct infp_rowring *ring;
        struct infp_rowring_tick tick;

        for (unsigned i = 0; i < 10000; i++) {
                for (unsigned k = 0; (ring = infp_sched_ring(w->sched, k)); k++)
                        for (enum infp_rowring_kind kind; (kind = infp_rowring_next(ring, &row, &tick));) {
                                if (kind == INFP_ROWRING_TICK)
                                        w->n_tick_ends++;
                                else
                                        take(w, &row);
                        }
                infp_sched_watch(w->sched, take, w);
                if (is_enough(w))
                        return;
                usleep(1000);
        }
        fail_msg("it took longer than 10 s: a %ld b %ld c %ld ticks %u sources %s", (long) w->n_a, (long) w->n_b,
                 (long) w->n_c, w->n_ticks, w->sources);
}

static inline bool has_ended(struct world *w)
{
        return infp_sched_is_ended(w->sched);
}

static inline bool is_first_done(struct world *w)
{
        return infp_sched_is_first_done(w->sched);
}

static inline bool has_40_ticks(struct world *w)
{
        return w->n_ticks >= 40;
}

static inline void start(struct world *w, const struct infp_collector *const *collectors, uint32_t period_ms)
{
        struct infp_sched_options options = {
                .env = &w->env,
                .collectors = collectors,
                .ring_bytes = 1 << 16,
                .stats = &w->stats,
                .notice = say,
                .notice_context = w,
                .hang_ns = 200 * MS,
                .retry_ns = 50 * MS,
        };
        struct infp_err err = { "" };

        *w = (struct world){ .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .lock = PTHREAD_MUTEX_INITIALIZER };
        assert_int_equal(infp_env_open(&w->env, "/", &err), 0);
        assert_int_equal(infp_target_new(INFP_MODE_HOST, false, &w->env.target, &err), 0);
        w->env.now_ns = real_now;
        w->env.period_ms = period_ms;
        w->env.stats = &w->stats;
        options.wake_fd = w->wake_fd;
        atomic_store(&n_closed, 0);
        atomic_store(&blocks, false);
        assert_int_equal(infp_sched_start(&options, &w->sched, &err), 0);
}

static inline void stop(struct world *w)
{
        infp_sched_stop_begin(w->sched);
        turn(w, has_ended);
        turn(w, has_ended); /* once more for the last rows */
        assert_true(infp_sched_free(w->sched));
        infp_target_free(w->env.target);
        infp_env_close(&w->env);
        close(w->wake_fd);
}
