/* The table of all blocks that are in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/heap/blocks.h"
#include "in_threads.h"

/* The sanitizers keep memory of their own for each byte. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_INSTRUMENTED true
#else
#define IS_INSTRUMENTED false
#endif

enum { MANY = 1000000, STEP = 10000, THREADS = 4, ROUNDS = 20000, HELD = 5000 };

static int make(void **state)
{
        (void) state;
        infp_agent_blocks_reset();
        return infp_agent_blocks_make();
}

static uint64_t address_of(uint64_t i)
{
        return 0x500000000000 + i * 48;
}

static struct infp_block block_of(uint64_t i)
{
        return (struct infp_block){ .size = i * 3, .site = (uint32_t) (i % 1000 + 1), .window = (uint32_t) (i % 77) };
}

static bool is_as(const struct infp_block *a, const struct infp_block *b)
{
        return a->size == b->size && a->site == b->site && a->window == b->window;
}

static bool put(uint64_t address, const struct infp_block *block)
{
        struct infp_block old;
        const bool ret = infp_agent_blocks_put(address, block, &old);

        return ret && !old.site;
}

/* Blocks of one address, whose ends nobody sees: each new one ends the one before, and no more than a slot is taken. */
static void test_unseen(void **state)
{
        const struct infp_block block = { 10, 7, 3 };
        struct infp_block old;

        (void) state;
        assert_true(put(0x7f0000001000, &block));
        for (unsigned i = 0; i < 1000; i++) {
                assert_true(infp_agent_blocks_put(0x7f0000001000, &block, &old));
                assert_true(is_as(&old, &block));
        }
        assert_true(infp_agent_blocks_take(0x7f0000001000, &old));
        assert_false(infp_agent_blocks_take(0x7f0000001000, &old));
}

static void test_one(void **state)
{
        const struct infp_block largest = { INFP_BLOCK_MOST - 1, (1 << INFP_BLOCK_SITE_BITS) - 1,
                                            (1 << INFP_BLOCK_WINDOW_BITS) - 1 },
                                too_large = { INFP_BLOCK_MOST, 1, 0 };
        struct infp_block found;

        (void) state;
        assert_false(infp_agent_blocks_take(0x7f0000001000, &found));
        assert_false(infp_agent_blocks_take(0, &found));
        assert_true(put(0x7ffffffffff8, &largest));
        assert_false(infp_agent_blocks_take(0x7ffffffffff0, &found));
        assert_true(infp_agent_blocks_take(0x7ffffffffff8, &found));
        assert_true(is_as(&found, &largest));
        assert_false(infp_agent_blocks_take(0x7ffffffffff8, &found));
        assert_false(put(0x7f0000001000, &too_large));
        assert_false(put(0x7f0000001001, &largest));
        assert_false(put(UINT64_C(1) << 47, &largest));
}

static long resident_bytes(void)
{
        FILE *file = fopen("/proc/self/statm", "re");
        long pages = 0;

        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
        fclose(file);
        return pages * 4096;
}

static void add(const struct infp_block *block, void *context)
{
        uint64_t *sums = context;

        sums[0]++;
        sums[1] += block->size;
}

/* All are found again, in another order, and none is left. Tables grow as they have to: at no time more than 48 bytes a block. */
static void test_many(void **state)
{
        const long before = resident_bytes();
        uint64_t sums[2] = { 0, 0 };

        (void) state;
        for (uint64_t i = 0; i < MANY; i++) {
                const struct infp_block block = block_of(i);

                assert_true(put(address_of(i), &block));
                if (!IS_INSTRUMENTED && i >= 100000 && i % STEP == 0)
                        assert_true(resident_bytes() - before <= (long) i * 48 + (1 << 20));
        }
        infp_agent_blocks_each(add, sums);
        assert_int_equal(sums[0], MANY);
        assert_int_equal(sums[1], UINT64_C(3) * MANY * (MANY - 1) / 2);
        for (uint64_t k = 0; k < MANY; k++) {
                const uint64_t i = k * 7919 % MANY;
                const struct infp_block block = block_of(i);
                struct infp_block found;

                assert_true(infp_agent_blocks_take(address_of(i), &found));
                assert_true(is_as(&found, &block));
        }
        sums[0] = 0;
        infp_agent_blocks_each(add, sums);
        assert_int_equal(sums[0], 0);
}

/* Blocks that are replaced for ever need no more room than those that are there. */
static void test_replaced(void **state)
{
        const long before = resident_bytes();
        struct infp_block block = { .site = 1 }, found;

        (void) state;
        for (uint64_t i = 0; i < MANY; i++) {
                block.size = i;
                assert_true(put(address_of(i), &block));
                if (i >= HELD) {
                        assert_true(infp_agent_blocks_take(address_of(i - HELD), &found));
                        assert_int_equal(found.size, i - HELD);
                }
        }
        assert_true(IS_INSTRUMENTED || resident_bytes() - before <= HELD * 48 + (1 << 20));
}

static void *work(void *context)
{
        const uint64_t own = (uint64_t) (uintptr_t) context;
        uintptr_t bad = 0;

        for (uint64_t i = 0; i < ROUNDS + HELD; i++) {
                struct infp_block block = { .size = i, .site = (uint32_t) own + 1 }, found;

                if (i < ROUNDS)
                        bad += !put(address_of(i * THREADS + own), &block);
                if (i >= HELD)
                        bad += !infp_agent_blocks_take(address_of((i - HELD) * THREADS + own), &found) ||
                               found.size != i - HELD || found.site != own + 1;
        }
        return (void *) bad;
}

static void test_threads(void **state)
{
        uint64_t sums[2] = { 0, 0 };

        (void) state;
        in_threads(THREADS, work);
        infp_agent_blocks_each(add, sums);
        assert_int_equal(sums[0], 0);
}

/* A child has none, also where libc does not know that it is one; its parent keeps its own. */
static void test_fork(void **state)
{
        const struct infp_block block = { 10, 1, 1 };
        struct infp_block found;

        (void) state;
        assert_true(put(0x7f0000001000, &block));
        for (unsigned way = 0; way < 2; way++) {
                const pid_t child = way ? (pid_t) syscall(SYS_fork) : fork();
                int status;

                if (!child)
                        _exit(infp_agent_blocks_take(0x7f0000001000, &found) || !put(0x7f0000001000, &block) ||
                              !infp_agent_blocks_take(0x7f0000001000, &found));
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_int_equal(status, 0);
        }
        assert_true(infp_agent_blocks_take(0x7f0000001000, &found));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_one, make),      cmocka_unit_test_setup(test_unseen, make),
                cmocka_unit_test_setup(test_replaced, make), cmocka_unit_test_setup(test_many, make),
                cmocka_unit_test_setup(test_threads, make),  cmocka_unit_test_setup(test_fork, make),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
