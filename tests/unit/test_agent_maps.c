/* The table of what a program maps itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/heap/maps.h"
#include "in_threads.h"

enum { PAGE = 4096, MOST = 4096, THREADS = 4, ROUNDS = 3000 };

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

static unsigned cut_all(void)
{
        struct infp_agent_cut cut;
        unsigned n = 0;

        while (infp_agent_maps_cut(0, UINT64_MAX, infp_agent_maps_now(), ids, &cut))
                n++;
        return n;
}

/* Neither neighbours nor what is newer; nothing is put over another one; what was not sampled stays so; a mean is never 0. */
static void test_others(void **state)
{
        struct infp_agent_cut cut;
        uint64_t since;

        (void) state;
        put(0x10000, 0x20000, 0, 0);
        since = infp_agent_maps_now();
        put(0x20000, 0x30000, 8, 1);
        assert_false(infp_agent_maps_put(&(struct infp_agent_map){ 0x1f000, 0x21000, 9, 1 }));
        assert_false(infp_agent_maps_has(0, 0x10000, UINT64_MAX) || infp_agent_maps_has(0x30000, 0x40000, UINT64_MAX));
        assert_true(infp_agent_maps_has(0x1f000, 0x30000, since));
        assert_true(infp_agent_maps_cut(0x1f000, 0x30000, since, ids, &cut));
        assert_map(&cut.old, 0x10000, 0x20000, 0, 0);
        assert_map(&cut.rest[0], 0x10000, 0x1f000, 0, 0);
        assert_false(infp_agent_maps_cut(0x1f000, 0x30000, since, ids, &cut));
        assert_true(infp_agent_maps_cut(0x11000, 0x12000, since, ids, &cut)); /* what is left is as old as it was */
        assert_true(infp_agent_maps_cut(0x2f000, 0x30000, infp_agent_maps_now(), ids, &cut));
        assert_map(&cut.rest[0], 0x20000, 0x2f000, 101, 1);
        assert_int_equal(cut_all(), 3);
}

/* Pieces that come and go at random, against a list of pages. */
static void test_random(void **state)
{
        enum { PAGES = 300 };
        unsigned owner[PAGES] = { 0 }, n_left = 0; /* of a page: the piece that it is of; 0: none */

        (void) state;
        srand(7);
        for (unsigned i = 1; i < 20000; i++) {
                const unsigned begin = (unsigned) rand() % PAGES, end = begin + 1 + (unsigned) rand() % 9;
                struct infp_agent_cut cut;
                bool is_free = true;

                for (unsigned k = begin; k < end && k < PAGES; k++)
                        is_free &= !owner[k];
                assert_int_equal(
                        infp_agent_maps_has((uint64_t) begin * PAGE, (uint64_t) end * PAGE, infp_agent_maps_now()),
                        !is_free);
                if (is_free && end <= PAGES) {
                        put((uint64_t) begin * PAGE, (uint64_t) end * PAGE, i, 1 << 20);
                        for (unsigned k = begin; k < end; k++)
                                owner[k] = i;
                        continue;
                }
                while (infp_agent_maps_cut((uint64_t) begin * PAGE, (uint64_t) end * PAGE, infp_agent_maps_now(), ids,
                                           &cut)) {
                        const unsigned from = (unsigned) (cut.old.begin / PAGE), to = (unsigned) (cut.old.end / PAGE);

                        for (unsigned k = from; k < to; k++)
                                assert_int_equal(owner[k], owner[from]);
                        assert_true((from == 0 || owner[from - 1] != owner[from]) &&
                                    (to == PAGES || owner[to] != owner[from]));
                        for (unsigned k = from; k < to; k++)
                                owner[k] = k < begin ? i : k >= end ? i + 20000 : 0;
                }
                for (unsigned k = begin; k < end && k < PAGES; k++)
                        assert_int_equal(owner[k], 0);
        }
        for (unsigned k = 0; k < PAGES; k++)
                n_left += owner[k] && (k == 0 || owner[k] != owner[k - 1]);
        assert_int_equal(cut_all(), n_left);
}

static void test_full(void **state)
{
        struct infp_agent_cut cut;
        uint64_t n = 0;

        (void) state;
        while (infp_agent_maps_put(&(struct infp_agent_map){ (n * 3 + 1) * PAGE, (n * 3 + 4) * PAGE, n + 1, 1 }))
                n++;
        assert_int_equal(n, MOST);
        assert_true(infp_agent_maps_cut(2 * PAGE, 3 * PAGE, infp_agent_maps_now(), ids, &cut));
        assert_int_equal(cut.n_rest, 1); /* there is no room for the other */
        assert_int_equal(cut_all(), n);
}

/* CPU time of a piece that comes and goes, where so many others are: the least of 20 rounds. */
static double cost_of_one(unsigned n_others)
{
        double least = 1e9;

        for (uint64_t i = 0; i < n_others; i++)
                put(i * 2 * PAGE, (i * 2 + 1) * PAGE, 0, 0);
        for (unsigned round = 0; round < 20; round++) {
                struct timespec begin, end;
                double took;

                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
                for (uint64_t i = 0; i < 500; i++) {
                        const uint64_t at = ((i * 7919 % MOST) * 2 + 1) * PAGE;
                        struct infp_agent_cut cut;

                        put(at, at + PAGE, 0, 0);
                        assert_true(infp_agent_maps_cut(at, at + PAGE, infp_agent_maps_now(), ids, &cut));
                }
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
                took = (double) (end.tv_sec - begin.tv_sec) * 1e9 + (double) (end.tv_nsec - begin.tv_nsec);
                least = took < least ? took : least;
        }
        assert_int_equal(cut_all(), n_others);
        return least;
}

/* To look at each of 4,000 takes 300 times as long as with 4; the sanitizers' memmove 30 times. */
static void test_many_are_cheap(void **state)
{
        (void) state;
        assert_true(cost_of_one(MOST - 96) < 100 * cost_of_one(4));
}

/* A child of fork has what its parent had, in order, whatever other threads of that were at. */
static _Atomic bool is_over;

static void *churn(void *number)
{
        while (!is_over) {
                struct infp_agent_cut cut;

                infp_agent_maps_put(&(struct infp_agent_map){ 0x10000, 0x20000, 1, 1 });
                infp_agent_maps_cut(0x10000, 0x20000, UINT64_MAX, ids, &cut);
        }
        return number;
}

static void test_fork(void **state)
{
        pthread_t thread;

        (void) state;
        is_over = false;
        for (uint64_t i = 0; i < 1000; i++)
                put((i * 2 + 100) * PAGE, (i * 2 + 101) * PAGE, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, churn, NULL), 0);
        for (unsigned i = 0; i < 50; i++) {
                const pid_t child = fork();
                int status;

                if (!child) {
                        struct infp_agent_cut cut;
                        uint64_t last = 0;
                        unsigned n = 0;

                        infp_agent_maps_forked();
                        for (; infp_agent_maps_cut(0, UINT64_MAX, UINT64_MAX, ids, &cut); last = cut.old.begin, n++)
                                if (cut.old.begin <= last)
                                        _exit(1);
                        _exit(n && n != 1000 && n != 1001);
                }
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_int_equal(status, 0);
        }
        is_over = true;
        pthread_join(thread, NULL);
        cut_all();
}

static pthread_barrier_t barrier;
static _Atomic unsigned n_cut;

/* Each takes its own page of what they share. */
static void *work(void *number)
{
        const uint64_t own = (uint64_t) (uintptr_t) number;
        struct infp_agent_cut cut;

        for (unsigned i = 0; i < ROUNDS; i++) {
                if (!own)
                        put(0x100000, 0x100000 + THREADS * PAGE, i + 1, 1 << 20);
                pthread_barrier_wait(&barrier);
                n_cut += infp_agent_maps_cut(0x100000 + own * PAGE, 0x100000 + (own + 1) * PAGE, infp_agent_maps_now(),
                                             ids, &cut);
                pthread_barrier_wait(&barrier);
                if (!own)
                        cut_all();
        }
        return NULL;
}

static void test_threads(void **state)
{
        (void) state;
        assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
        in_threads(THREADS, work);
        pthread_barrier_destroy(&barrier);
        assert_in_range(n_cut, THREADS * ROUNDS * 0.999,
                        THREADS * ROUNDS); /* one that has no CPU is not waited for long */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parts),   cmocka_unit_test(test_others),         cmocka_unit_test(test_random),
                cmocka_unit_test(test_full),    cmocka_unit_test(test_many_are_cheap), cmocka_unit_test(test_fork),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, make, NULL);
}
