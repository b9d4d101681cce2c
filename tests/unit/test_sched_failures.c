/* What the scheduler makes of collectors that fail. Under ThreadSanitizer as well. */
#include "sched_world.h"

#include <sys/resource.h>

#include "base/fd.h"

static int open_broken(void *state, const struct infp_env *env, struct infp_err *err)
{
        (void) state;
        (void) env;
        return infp_fail(err, -EIO, "the disk does not answer");
}

static atomic_uint n_open_tries;

/* Twice there is no descriptor. */
static int open_poor(void *state, const struct infp_env *env, struct infp_err *err)
{
        (void) state;
        (void) env;
        return ++n_open_tries <= 2 ? infp_fail(err, -EMFILE, "is /proc mounted?") : 0;
}

static int sample_failing(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) state;
        (void) env;
        (void) emit;
        return infp_fail(err, -EIO, "the disk does not answer");
}

static int sample_gone(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct state *s = state;

        return s->n == 2 ? infp_fail(err, -ENODEV, "pulled out") : count(s, env, emit, &table_c);
}

static const struct infp_collector broken = COLLECTOR("c", tables_c, 0, 0, open_broken, sample_c);
static const struct infp_collector poor = COLLECTOR("c", tables_c, 0, 0, open_poor, sample_c);
static const struct infp_collector own_poor = COLLECTOR("c", tables_c, INFP_MAY_BLOCK, 0, open_poor, sample_c);
static const struct infp_collector failing = COLLECTOR("b", tables_b, 0, 0, open_any, sample_failing);
static const struct infp_collector gone = COLLECTOR("c", tables_c, INFP_MAY_BLOCK, 0, open_any, sample_gone);

static bool has_b_failed_twice(struct world *w)
{
        return __atomic_load_n(&w->stats.errors, __ATOMIC_RELAXED) >= 2;
}

static bool has_c(struct world *w)
{
        return w->n_c > 0;
}

static void test_failed_samples_are_counted(void **state)
{
        static const struct infp_collector *const with_failing[] = { &a, &failing, NULL };
        static struct world w;

        (void) state;
        start(&w, with_failing, 10);
        turn(&w, has_b_failed_twice);
        stop(&w);
        assert_string_equal(w.notices, "b: the disk does not answer\n");
        start(&w, (const struct infp_collector *const[]){ &a, NULL }, 10);
        turn(&w, has_40_ticks);
        stop(&w);
        assert_int_equal(w.stats.errors, 0);
}

/* In the shared thread and in one of its own. */
static void test_opened_when_there_are_descriptors(void **state)
{
        static const struct infp_collector *const cases[][3] = { { &a, &poor, NULL }, { &a, &own_poor, NULL } };
        static struct world w;

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                atomic_store(&n_open_tries, 0);
                start(&w, cases[i], 10);
                turn(&w, has_c);
                stop(&w);
                assert_int_equal(n_open_tries, 3);
                assert_non_null(strstr(w.notices, "ulimit -n"));
                assert_null(strstr(w.notices, "mounted"));
                assert_int_equal(w.stats.errors, 2);
        }
}

/* What has a thread of its own is left out, and said to be; the rest goes on. */
static void test_few_descriptors(void **state)
{
        static const struct infp_collector *const with_own[] = { &a, &own, NULL };
        static struct world w;
        struct rlimit before, few;

        (void) state;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = (struct rlimit){ .rlim_cur = INFP_ENOUGH_FDS - 1, .rlim_max = before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        start(&w, with_own, 10);
        turn(&w, has_40_ticks);
        stop(&w);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_non_null(strstr(w.sources, "c:absent"));
        assert_null(strstr(w.sources, "c:ok"));
        assert_int_equal(w.n_c, 0);
        assert_int_equal(w.stats.errors, 0);
        assert_string_equal(w.notices, "");
        few.rlim_cur = INFP_ENOUGH_FDS;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        start(&w, with_own, 10);
        turn(&w, has_c);
        stop(&w);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_failed_samples_are_counted),
                cmocka_unit_test(test_opened_when_there_are_descriptors),
                cmocka_unit_test(test_few_descriptors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
