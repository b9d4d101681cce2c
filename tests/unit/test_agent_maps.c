/* The table of what a program maps itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

#include "agent/heap/maps.h"

enum { PAGE = 4096, THREADS = 4, ROUNDS = 3000 };

static const uint64_t ids[2] = { 101, 102 };

static int make(void **state)
{
        (void) state;
        return infp_agent_maps_make();
}

static void put(uint64_t begin, uint64_t end, uint64_t id, uint64_t mean)
{
        assert_true(infp_agent_maps_put(&(struct infp_agent_map){ begin, end, id, mean }));
}

static void assert_map(const struct infp_agent_map *map, uint64_t begin, uint64_t end, uint64_t id, uint64_t mean)
{
        assert_int_equal(map->begin, begin);
        assert_int_equal(map->end, end);
        assert_int_equal(map->id, id);
        if (id)
                assert_int_equal(map->mean, mean);
}

static void test_parts(void **state)
{
        static const struct {
                uint64_t begin, end; /* what goes, of 0x10000 to 0x20000 under id 7, mean 0x8000 */
                unsigned n;
                struct infp_agent_map rest[2];
        } cases[] = {
                { 0x10000, 0x20000, 0, { { 0 } } },
                { 0x0, 0x90000, 0, { { 0 } } },
                { 0x10000, 0x18000, 1, { { 0x18000, 0x20000, 102, 0x4000 } } },
                { 0x14000, 0x20000, 1, { { 0x10000, 0x14000, 101, 0x2000 } } },
                { 0x1c000, 0x30000, 1, { { 0x10000, 0x1c000, 101, 0x6000 } } },
                { 0x14000, 0x18000, 2, { { 0x10000, 0x14000, 101, 0x2000 }, { 0x18000, 0x20000, 102, 0x4000 } } },
        };
        struct infp_agent_cut cut;

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                put(0x10000, 0x20000, 7, 0x8000);
                assert_true(infp_agent_maps_cut(cases[i].begin, cases[i].end, infp_agent_maps_now(), ids, &cut));
                assert_map(&cut.old, 0x10000, 0x20000, 7, 0x8000);
                assert_int_equal(cut.n_rest, cases[i].n);
                for (unsigned k = 0; k < cut.n_rest; k++)
                        assert_map(&cut.rest[k], cases[i].rest[k].begin, cases[i].rest[k].end, cases[i].rest[k].id,
                                   cases[i].rest[k].mean);
                for (unsigned k = 0; k < cases[i].n; k++) {
                        assert_true(infp_agent_maps_cut(0, UINT64_MAX, infp_agent_maps_now(), ids, &cut));
                        assert_int_equal(cut.n_rest, 0);
                }
                assert_false(infp_agent_maps_cut(0, UINT64_MAX, infp_agent_maps_now(), ids, &cut));
        }
}

/* Neither neighbours nor what is newer; what was not sampled stays so; a mean is never 0. */
static void test_others(void **state)
{
        struct infp_agent_cut cut;
        uint64_t since;

        (void) state;
        put(0x10000, 0x20000, 0, 0);
        since = infp_agent_maps_now();
        put(0x10000, 0x20000, 8, 1);
        assert_false(infp_agent_maps_has(0, 0x10000, UINT64_MAX) || infp_agent_maps_has(0x20000, 0x30000, UINT64_MAX));
        assert_true(infp_agent_maps_has(0x1f000, 0x30000, since));
        assert_true(infp_agent_maps_cut(0x1f000, 0x20000, since, ids, &cut));
        assert_map(&cut.old, 0x10000, 0x20000, 0, 0);
        assert_map(&cut.rest[0], 0x10000, 0x1f000, 0, 0);
        assert_false(infp_agent_maps_cut(0x1f000, 0x20000, since, ids, &cut));
        assert_true(infp_agent_maps_cut(0x11000, 0x12000, since, ids, &cut)); /* what is left is as old as it was */
        assert_true(infp_agent_maps_cut(0x1f000, 0x20000, infp_agent_maps_now(), ids, &cut));
        assert_map(&cut.rest[0], 0x10000, 0x1f000, 101, 1);
        while (infp_agent_maps_cut(0, UINT64_MAX, infp_agent_maps_now(), ids, &cut))
                ;
}

static void test_full(void **state)
{
        struct infp_agent_cut cut;
        uint64_t n = 0;

        (void) state;
        while (infp_agent_maps_put(&(struct infp_agent_map){ (n * 3 + 1) * PAGE, (n * 3 + 4) * PAGE, n + 1, 1 }))
                n++;
        assert_int_equal(n, 4096);
        assert_true(infp_agent_maps_cut(2 * PAGE, 3 * PAGE, infp_agent_maps_now(), ids, &cut));
        assert_int_equal(cut.n_rest, 1); /* there is no room for the other */
        while (infp_agent_maps_cut(0, UINT64_MAX, infp_agent_maps_now(), ids, &cut))
                n--;
        assert_int_equal(n, 0);
}

static pthread_barrier_t barrier;
static _Atomic unsigned n_cut;

/* Each takes its own page of what they share. */
static void *work(void *argument)
{
        const uint64_t own = *(const unsigned *) argument;
        struct infp_agent_cut cut;

        for (unsigned i = 0; i < ROUNDS; i++) {
                if (!own)
                        put(0x100000, 0x100000 + THREADS * PAGE, i + 1, 1 << 20);
                pthread_barrier_wait(&barrier);
                n_cut += infp_agent_maps_cut(0x100000 + own * PAGE, 0x100000 + (own + 1) * PAGE, infp_agent_maps_now(),
                                             ids, &cut);
                pthread_barrier_wait(&barrier);
        }
        return NULL;
}

static void test_threads(void **state)
{
        unsigned numbers[THREADS];
        pthread_t threads[THREADS];

        (void) state;
        assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
        for (unsigned i = 0; i < THREADS; i++) {
                numbers[i] = i;
                assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&barrier);
        assert_in_range(n_cut, THREADS * ROUNDS * 0.999, THREADS * ROUNDS); /* one that has no CPU is not waited for */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_others),
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, make, NULL);
}
