/* The scheduler on made-up collectors: its grid, its threads, what hangs, what fails. Under ThreadSanitizer as well. */
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
        }
        return count(state, env, emit, &table_b);
}

static int sample_c(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) err;
        return count(state, env, emit, &table_c);
}

static int open_broken(void *state, const struct infp_env *env, struct infp_err *err)
{
        (void) state;
        (void) env;
        return infp_fail(err, -EIO, "the disk does not answer");
}

static int sample_gone(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct state *s = state;

        return s->n == 2 ? infp_fail(err, -ENODEV, "pulled out") : count(s, env, emit, &table_c);
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
static const struct infp_collector broken = COLLECTOR("c", tables_c, 0, 0, open_broken, sample_c);
static const struct infp_collector burst = COLLECTOR("c", tables_c, 0, 0, open_any, sample_burst);
static const struct infp_collector gone = COLLECTOR("c", tables_c, INFP_MAY_BLOCK, 0, open_any, sample_gone);

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

static uint64_t real_now(const struct infp_env *env)
{
        (void) env;
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static void say(void *context, const char *text)
{
        struct world *w = context;

        pthread_mutex_lock(&w->lock);
        strcat(strcat(w->notices, text), "\n");
        pthread_mutex_unlock(&w->lock);
}

static int take(void *context, const struct infp_row *row)
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
static void turn(struct world *w, bool (*is_enough)(struct world *w))
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

static bool has_ended(struct world *w)
{
        return infp_sched_is_ended(w->sched);
}

static bool is_first_done(struct world *w)
{
        return infp_sched_is_first_done(w->sched);
}

static void start(struct world *w, const struct infp_collector *const *collectors, uint32_t period_ms)
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

static void stop(struct world *w)
{
        infp_sched_stop_begin(w->sched);
        turn(w, has_ended);
        turn(w, has_ended); /* once more for the last rows */
        assert_true(infp_sched_free(w->sched));
        infp_target_free(w->env.target);
        infp_env_close(&w->env);
        close(w->wake_fd);
}

static void check_grid(const struct world *w, int64_t period_ns)
{
        assert_int_equal(w->n_ticks, w->n_tick_ends);
        assert_int_equal(w->ticks[0].number, 0);
        for (unsigned i = 1; i < w->n_ticks; i++) {
                assert_int_equal(w->ticks[i].deadline - w->ticks[0].deadline, w->ticks[i].number * period_ns);
                /* A number that is not there was counted. */
                assert_int_equal(w->ticks[i].number - w->ticks[i - 1].number - 1,
                                 w->ticks[i].missed - w->ticks[i - 1].missed);
                assert_true(w->ticks[i].late < period_ns);
                assert_true(w->ticks[i].late >= 0 || i + 1 == w->n_ticks); /* only the last comes before its time */
        }
        assert_int_equal(w->ticks[w->n_ticks - 1].missed, w->stats.ticks_missed);
}

static bool has_40_ticks(struct world *w)
{
        return w->n_ticks >= 40;
}

static void test_grid(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &b, &own, NULL };
        static struct world w;
        uint64_t before = infp_clock_ns(CLOCK_MONOTONIC);

        (void) state;
        start(&w, collectors, 10);
        turn(&w, has_40_ticks);
        stop(&w);
        check_grid(&w, 10 * (int64_t) MS);
        assert_true((uint64_t) w.ticks[0].deadline - before < 1000 * MS); /* the first sample is taken at once */
        assert_true(w.n_a >= w.n_ticks - 1 && w.n_a <= w.n_ticks);
        assert_string_equal(w.notices, "");
        assert_int_equal(n_closed, 3);
}

static void test_period_of_a_collector(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &slow, NULL };
        static struct world w;
        int64_t span;

        (void) state;
        start(&w, collectors, 10);
        turn(&w, has_40_ticks);
        stop(&w);
        span = w.ticks[w.n_ticks - 1].number; /* in 10 ms; its own period is 50 ms */
        assert_true(w.n_c <= span / 5 + 2);
        assert_true(w.n_c >= 3);
        assert_true(w.n_a > 2 * w.n_c);
}

static void test_settings(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, NULL };
        static const struct infp_setting off[] = { { "a", "off" }, { NULL, NULL } };
        static struct world w;
        struct infp_sched_options options = { .env = &w.env, .collectors = collectors, .wake_fd = -1 };

        (void) state;
        assert_int_equal(infp_env_open(&w.env, "/", NULL), 0);
        w.env.settings = off;
        w.env.period_ms = 10;
        assert_int_equal(infp_sched_start(&options, &w.sched, NULL), 0);
        usleep(30000);
        infp_sched_stop_begin(w.sched);
        turn(&w, has_ended);
        assert_int_equal(w.n_a, 0);
        assert_true(infp_sched_free(w.sched));
        infp_env_close(&w.env);
}

static bool is_late(struct world *w)
{
        return strstr(w->sources, "b:late") != NULL;
}

static int64_t goal;

static bool a_has_goal(struct world *w)
{
        return w->n_a >= goal;
}

static bool is_ok_again(struct world *w)
{
        const char *late = strstr(w->sources, "b:late");

        return late && strstr(late, "b:ok") && w->n_b > 2;
}

/* Two things at once: the collector is left its thread, and it comes back. */
static void hang(struct world *w, const struct infp_collector *const *collectors)
{
        pthread_mutex_lock(&gate);
        start(w, collectors, 10);
        turn(w, is_first_done);
        atomic_store(&blocks, true);
        turn(w, is_late);
        goal = w->n_a + 30;
        turn(w, a_has_goal); /* the others go on */
        assert_non_null(strstr(w->notices, "b: it has not returned for"));
        atomic_store(&blocks, false);
        pthread_mutex_unlock(&gate);
        turn(w, is_ok_again);
}

static void test_hanging_in_the_shared_thread(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &b, &own, NULL };
        static struct world w;

        (void) state;
        hang(&w, collectors);
        stop(&w);
        check_grid(&w, 10 * (int64_t) MS);
        assert_int_equal(n_closed, 3);
}

static void test_hanging_in_an_own_thread(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &own_b, NULL };
        static struct world w;

        (void) state;
        hang(&w, collectors);
        stop(&w);
        check_grid(&w, 10 * (int64_t) MS);
        assert_int_equal(w.ticks[w.n_ticks - 1].missed, w.stats.ticks_missed);
}

static void test_nobody_refreshes_under_a_walker(void **state)
{
        static const struct infp_collector *const collectors[] = { &walker, &a, NULL };
        static struct world w;
        uint64_t n;

        (void) state;
        pthread_mutex_lock(&gate);
        start(&w, collectors, 10);
        turn(&w, is_first_done);
        atomic_store(&blocks, true);
        turn(&w, is_late);
        n = infp_target_work(w.env.target).n_refreshes;
        goal = w.n_a + 30;
        turn(&w, a_has_goal);
        assert_int_equal(infp_target_work(w.env.target).n_refreshes, n);
        atomic_store(&blocks, false);
        pthread_mutex_unlock(&gate);
        turn(&w, is_ok_again);
        assert_true(infp_target_work(w.env.target).n_refreshes > n);
        stop(&w);
}

/* What still hangs at the end is left behind, and its memory with it. */
static void test_hanging_at_the_end(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &b, NULL };
        static struct world w;

        (void) state;
        pthread_mutex_lock(&gate);
        start(&w, collectors, 10);
        turn(&w, is_first_done);
        atomic_store(&blocks, true);
        turn(&w, is_late);
        infp_sched_stop_begin(w.sched);
        turn(&w, has_ended);
        turn(&w, has_ended);
        assert_false(infp_sched_free(w.sched));
        assert_int_equal(w.n_tick_ends, w.n_ticks);
        atomic_store(&blocks, false);
        pthread_mutex_unlock(&gate);
        usleep(50000); /* its thread ends on what was left to it */
}

static bool c_is_gone(struct world *w)
{
        return strstr(w->sources, "c:absent") != NULL;
}

static void test_failures(void **state)
{
        static const struct infp_collector *const with_broken[] = { &a, &broken, NULL };
        static const struct infp_collector *const with_gone[] = { &a, &gone, NULL };
        static struct world w;

        (void) state;
        start(&w, with_broken, 10);
        turn(&w, has_40_ticks);
        stop(&w);
        assert_string_equal(w.notices, "c: the disk does not answer\n");
        assert_non_null(strstr(w.sources, "c:broken"));
        assert_int_equal(w.n_c, 0);

        start(&w, with_gone, 10);
        turn(&w, c_is_gone);
        stop(&w);
        assert_int_equal(w.n_c, 2);
        assert_string_equal(w.notices, "");
}

/* A tick that takes longer than the period: ticks are left out and counted, deadlines stay on the grid. */
static int sample_long(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) err;
        usleep(25000);
        return count(state, env, emit, &table_a);
}

static bool has_10_ticks(struct world *w)
{
        return w->n_ticks >= 10;
}

static void test_missed_ticks(void **state)
{
        static const struct infp_collector long_one = COLLECTOR("a", tables_a, 0, 0, open_any, sample_long);
        static const struct infp_collector *const collectors[] = { &long_one, NULL };
        static struct world w;

        (void) state;
        start(&w, collectors, 10);
        turn(&w, has_10_ticks);
        stop(&w);
        check_grid(&w, 10 * (int64_t) MS);
        assert_true(w.stats.ticks_missed >= 8);
        assert_true(strstr(w.sources, "late") == NULL);
}

static void test_no_allocation_in_threads(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &b, &own, NULL };
        static struct world w;
        unsigned long before;

        (void) state;
        start(&w, collectors, 10);
        turn(&w, is_first_done);
        before = n_mallocs;
        turn(&w, has_40_ticks);
        assert_int_equal(n_mallocs - before, 0);
        stop(&w);
}

/* All real sources on this machine, without processes: in steady state none allocates. */
static int take_nothing(void *context, const struct infp_row *row)
{
        (void) context;
        (void) row;
        return 0;
}

static void drain_quietly(struct world *w, unsigned ms)
{
        static struct infp_row row;
        struct infp_rowring_tick tick;
        struct infp_rowring *ring;

        for (unsigned i = 0; i < ms; i++, usleep(1000)) {
                for (unsigned k = 0; (ring = infp_sched_ring(w->sched, k)); k++)
                        while (infp_rowring_next(ring, &row, &tick))
                                ;
                infp_sched_watch(w->sched, take_nothing, w);
        }
}

static void test_no_allocation_in_real_sources(void **state)
{
        static struct world w;
        unsigned long before;

        (void) state;
        start(&w, infp_collectors, 10);
        drain_quietly(&w, 300);
        before = n_mallocs;
        drain_quietly(&w, 500);
        assert_int_equal(n_mallocs - before, 0);
        infp_sched_stop_begin(w.sched);
        while (!infp_sched_is_ended(w.sched))
                drain_quietly(&w, 1);
        assert_true(infp_sched_free(w.sched));
        infp_target_free(w.env.target);
        infp_env_close(&w.env);
        close(w.wake_fd);
}

/* The reader sleeps until it is woken, as the recorder does. */
static void test_burst_wakes_the_reader_again(void **state)
{
        static const struct infp_collector *const collectors[] = { &burst, NULL };
        static struct infp_row row;
        struct infp_rowring_tick tick;
        struct world w;
        uint64_t count;

        (void) state;
        atomic_store(&n_taken, 0);
        start(&w, collectors, 60000);
        while (w.n_c < BURST_ROWS) {
                struct pollfd wake = { .fd = w.wake_fd, .events = POLLIN };

                assert_int_equal(poll(&wake, 1, 2000), 1);
                assert_int_equal(read(w.wake_fd, &count, sizeof count), sizeof count);
                for (enum infp_rowring_kind kind; (kind = infp_rowring_next(infp_sched_ring(w.sched, 0), &row, &tick));)
                        if (kind == INFP_ROWRING_ROW)
                                take(&w, &row);
                atomic_store(&n_taken, w.n_c);
        }
        assert_int_equal(infp_sched_dropped(w.sched), 0);
        stop(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_grid),
                cmocka_unit_test(test_period_of_a_collector),
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_burst_wakes_the_reader_again),
                cmocka_unit_test(test_hanging_in_the_shared_thread),
                cmocka_unit_test(test_hanging_in_an_own_thread),
                cmocka_unit_test(test_nobody_refreshes_under_a_walker),
                cmocka_unit_test(test_hanging_at_the_end),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_missed_ticks),
                cmocka_unit_test(test_no_allocation_in_threads),
                cmocka_unit_test(test_no_allocation_in_real_sources),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
