/* The scheduler: its grid, its threads, what hangs. Under ThreadSanitizer as well. */
#include "sched_world.h"

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

        return late && strstr(late, says_absent ? "b:absent" : "b:ok") && w->n_b > 2;
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

/* What a collector said as it returned stays; `ok` of the watch would take it back. */
static void test_words_of_a_late_call(void **state)
{
        static const struct infp_collector *const collectors[] = { &a, &own_b, NULL };
        static struct world w;

        (void) state;
        says_absent = true;
        hang(&w, collectors);
        goal = w.n_a + 30;
        turn(&w, a_has_goal);
        says_absent = false;
        assert_null(strstr(strstr(w.sources, "b:late"), "b:ok"));
        stop(&w);
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
                cmocka_unit_test(test_words_of_a_late_call),
                cmocka_unit_test(test_nobody_refreshes_under_a_walker),
                cmocka_unit_test(test_hanging_at_the_end),
                cmocka_unit_test(test_missed_ticks),
                cmocka_unit_test(test_no_allocation_in_threads),
                cmocka_unit_test(test_no_allocation_in_real_sources),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
