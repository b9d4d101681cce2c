/* The table of sampled blocks, and the filter in front of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "agent/heap/live.h"
#include "in_threads.h"

enum { THREADS = 4, ROUNDS = 20000, HELD = 64 };

static struct infp_preload_heap hooks;

static int make(void **state)
{
        (void) state;
        memset(&hooks, 0, sizeof(hooks));
        return infp_agent_live_make(&hooks);
}

static unsigned filled(void)
{
        unsigned n = 0;

        for (unsigned i = 0; i < INFP_HEAP_FILTER; i++)
                n += hooks.filter[i];
        for (unsigned i = 0; i < INFP_HEAP_PAGES; i++)
                n += hooks.pages[i];
        return n;
}

static void test_one(void **state)
{
        (void) state;
        assert_int_equal(infp_agent_live_take(0x7f0000001000), 0);
        assert_false(infp_heap_may_be_sampled(&hooks, 0x7f0000001000));
        assert_true(infp_agent_live_put(0x7f0000001000, 7));
        assert_true(infp_heap_may_be_sampled(&hooks, 0x7f0000001000));
        assert_int_equal(infp_agent_live_take(0x7f0000001010), 0);
        assert_int_equal(infp_agent_live_take(0x7f0000001000), 7);
        assert_int_equal(infp_agent_live_take(0x7f0000001000), 0);
        assert_int_equal(filled(), 0);
}

/* Blocks of the same page, and of one that shares its counter: each is found until it went. */
static void test_pages(void **state)
{
        static const uint64_t blocks[] = { 0x7f0000001000, 0x7f0000001ff0, 0x7f0010001010 };

        (void) state;
        for (unsigned i = 0; i < 3; i++)
                assert_true(infp_agent_live_put(blocks[i], i + 1));
        assert_int_equal(hooks.pages[infp_heap_page(blocks[0])], 3);
        assert_false(infp_heap_may_be_sampled(&hooks, 0x7f0000002000));
        for (unsigned i = 0; i < 3; i++) {
                assert_true(infp_heap_may_be_sampled(&hooks, blocks[i]));
                assert_int_equal(infp_agent_live_take(blocks[i]), i + 1);
        }
        assert_int_equal(filled(), 0);
}

/* What has no room is refused; all that has is found again, in any order, and leaves nothing behind. */
static void test_full(void **state)
{
        static bool has[1 << 18];
        unsigned n = 0;

        (void) state;
        for (uint64_t i = 0; i < 1 << 18; i++)
                n += has[i] = infp_agent_live_put(0x500000000000 + i * 16, i + 1);
        assert_true(n > 100000 && n < 1 << 18);
        for (uint64_t i = 1 << 18; i-- > 0;)
                assert_int_equal(infp_agent_live_take(0x500000000000 + i * 16), has[i] ? i + 1 : 0);
        assert_true(infp_agent_live_put(0x500000000000, 1));
        assert_int_equal(infp_agent_live_take(0x500000000000), 1);
}

/* A place of the filter that is full stays so: whether a block of it is sampled is not known any more. */
static void test_filter_is_full(void **state)
{
        const uint64_t one = 0x600000000000;
        uint64_t others[300];
        unsigned n = 0, put = 0;

        (void) state;
        for (uint64_t address = one; n < 300; address += 16)
                if (infp_heap_place(address) == infp_heap_place(one))
                        others[n++] = address;
        for (unsigned i = 0; i < n; i++)
                put += infp_agent_live_put(others[i], i + 1);
        for (unsigned i = 0; i < n; i++)
                infp_agent_live_take(others[i]);
        assert_int_equal(hooks.filter[infp_heap_place(one)], put > 255 ? 255 : 0);
        hooks.filter[infp_heap_place(one)] = 255;
        assert_true(infp_agent_live_put(one, 9));
        assert_true(infp_agent_live_put(one + 16, 10)); /* in the same page */
        assert_int_equal(infp_agent_live_take(one), 9);
        assert_true(infp_heap_may_be_sampled(&hooks, one));
}

/* Each thread has addresses of its own that share windows and places of the filter with the others'. */
static void *work(void *context)
{
        const uint64_t own = (uint64_t) (uintptr_t) context;
        uint64_t held[HELD] = { 0 };
        uintptr_t bad = 0;

        for (uint64_t i = 0; i < ROUNDS; i++) {
                const uint64_t at = i * 7 % HELD, address = 0x400000000000 + ((i % 4096) * THREADS + own) * 16;

                if (held[at])
                        bad += infp_agent_live_take(held[at]) != (held[at] ^ own);
                held[at] = infp_agent_live_put(address, address ^ own) ? address : 0;
                bad += !held[at];
        }
        for (unsigned i = 0; i < HELD; i++)
                bad += held[i] && infp_agent_live_take(held[i]) != (held[i] ^ own);
        return (void *) bad;
}

static void test_threads(void **state)
{
        (void) state;
        in_threads(THREADS, work);
        assert_int_equal(filled(), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_one, make),     cmocka_unit_test_setup(test_pages, make),
                cmocka_unit_test_setup(test_full, make),    cmocka_unit_test_setup(test_filter_is_full, make),
                cmocka_unit_test_setup(test_threads, make),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
