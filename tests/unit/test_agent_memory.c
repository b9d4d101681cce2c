/* Memory of the process itself, as samples read it: right, of this moment, and without a fault where it is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/core/memory.h"

enum { PAGES = 64, SIZE = PAGES * INFP_AGENT_PAGE };

static struct infp_agent_memory memory;
static uint8_t *pages;

static int make(void **state)
{
        (void) state;
        memset(&memory, 0, sizeof(memory));
        pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
                return -1;
        for (size_t i = 0; i < SIZE; i++)
                pages[i] = (uint8_t) (i * 7 + i / 251);
        infp_agent_memory_begin(&memory);
        return 0;
}

static int drop(void **state)
{
        (void) state;
        return munmap(pages, SIZE);
}

static int read_at(size_t at, void *ret, size_t size)
{
        return infp_agent_memory_read(&memory, (uint64_t) (uintptr_t) pages + at, ret, size);
}

static void assert_is_read(size_t at, size_t size)
{
        static uint8_t bytes[SIZE];

        memset(bytes, 0xee, sizeof(bytes));
        assert_int_equal(read_at(at, bytes, size), 0);
        assert_memory_equal(bytes, pages + at, size);
        assert_int_equal(bytes[size], 0xee);
}

static void test_any_place(void **state)
{
        static const size_t sizes[] = { 1, 8, 63, 64, 65, 200, 5000 };

        (void) state;
        for (unsigned sample = 0; sample < 3; sample++, infp_agent_memory_begin(&memory))
                for (size_t at = 0; at < 2 * INFP_AGENT_PAGE; at += 61)
                        for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
                                assert_is_read(at, sizes[i]);
}

/* What the last sample has read is there when the next one begins, as it is then; what it has not is read when it is asked for. */
static void test_moment(void **state)
{
        uint8_t byte;

        (void) state;
        assert_is_read(100, 8);
        pages[100] = 1;
        infp_agent_memory_begin(&memory);
        pages[100] = pages[9000] = 2;
        assert_int_equal(read_at(100, &byte, 1), 0);
        assert_int_equal(byte, 1);
        assert_int_equal(read_at(9000, &byte, 1), 0);
        assert_int_equal(byte, 2);
        infp_agent_memory_begin(&memory);
        assert_int_equal(read_at(100, &byte, 1), 0);
        assert_int_equal(byte, 2);
}

/* Pages that went between two samples, at the begin, the end and in the middle of what is read: all others are read. */
static void test_gone(void **state)
{
        static const unsigned gone[] = { 0, 1, 7, 15 };
        uint8_t bytes[INFP_AGENT_PAGE];

        (void) state;
        for (unsigned page = 0; page < 16; page++)
                assert_is_read(page * INFP_AGENT_PAGE + 30, 300);
        for (unsigned i = 0; i < sizeof(gone) / sizeof(*gone); i++)
                assert_int_equal(mprotect(pages + gone[i] * INFP_AGENT_PAGE, INFP_AGENT_PAGE, PROT_NONE), 0);
        for (unsigned sample = 0; sample < 3; sample++) {
                errno = 77;
                infp_agent_memory_begin(&memory);
                for (unsigned page = 0; page < 16; page++) {
                        const size_t at = page * INFP_AGENT_PAGE + 30;

                        if (page == 0 || page == 1 || page == 7 || page == 15)
                                assert_int_equal(read_at(at, bytes, 300), -EFAULT);
                        else
                                assert_is_read(at, 300);
                }
                assert_int_equal(read_at(6 * INFP_AGENT_PAGE + 4000, bytes, 100), -EFAULT); /* into one that is gone */
                assert_int_equal(errno, 77);
        }
        for (unsigned i = 0; i < sizeof(gone) / sizeof(*gone); i++)
                assert_int_equal(mprotect(pages + gone[i] * INFP_AGENT_PAGE, INFP_AGENT_PAGE, PROT_READ | PROT_WRITE),
                                 0);
        infp_agent_memory_begin(&memory);
        for (unsigned page = 0; page < 16; page++)
                assert_is_read(page * INFP_AGENT_PAGE + 30, 300);
}

static void test_no_address(void **state)
{
        static const uint64_t none[] = { 0, 8, 60, 0x4141414141414141, UINT64_MAX, UINT64_MAX - 63, 0x7ffffffff000 };
        uint8_t bytes[200];

        (void) state;
        for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++) {
                assert_int_equal(infp_agent_memory_read(&memory, none[i], bytes, sizeof(bytes)), -EFAULT);
                assert_int_equal(infp_agent_memory_read_once(NULL, none[i], bytes, sizeof(bytes)), -EFAULT);
                assert_is_read(100, 8);
                infp_agent_memory_begin(&memory);
                assert_is_read(100, 8);
        }
}

/* Lines that no sample reads any more are not read for it. */
static void test_given_up(void **state)
{
        (void) state;
        assert_is_read(0, 20 * INFP_AGENT_LINE);
        assert_int_equal(memory.n, 20);
        for (unsigned sample = 0; sample < 40; sample++) {
                infp_agent_memory_begin(&memory);
                assert_is_read(10 * INFP_AGENT_LINE, 8);
        }
        assert_int_equal(memory.n, 1);
}

/* More than there is room for, in one piece and in many. */
static void test_full(void **state)
{
        (void) state;
        for (unsigned sample = 0; sample < 3; sample++) {
                for (size_t at = 0; at < SIZE - 200; at += 3 * INFP_AGENT_LINE)
                        assert_is_read(at + 5, 150);
                assert_is_read(0, SIZE - 1);
                assert_is_read(77, 8);
                infp_agent_memory_begin(&memory);
        }
        assert_is_read(77, 8);
        infp_agent_memory_begin(&memory);
        assert_int_equal(memory.n, 1);
}

static void test_gather(void **state)
{
        struct iovec pieces[4];
        uint8_t bytes[4 * 96];

        (void) state;
        for (unsigned i = 0; i < 4; i++)
                pieces[i] = (struct iovec){ pages + (2 * i + 1) * INFP_AGENT_PAGE - 40 + 10 * i, 96 };
        for (unsigned sample = 0; sample < 2; sample++, infp_agent_memory_begin(&memory)) {
                assert_int_equal(infp_agent_memory_gather(&memory, pieces, 4, bytes, sizeof(bytes)), sizeof(bytes));
                for (unsigned i = 0; i < 4; i++)
                        assert_memory_equal(bytes + 96 * i, pieces[i].iov_base, 96);
        }
        munmap(pages + 5 * INFP_AGENT_PAGE, INFP_AGENT_PAGE); /* the third has its end there */
        infp_agent_memory_begin(&memory);
        assert_int_equal(infp_agent_memory_gather(&memory, pieces, 4, bytes, sizeof(bytes)), 2 * 96);
        assert_memory_equal(bytes + 96, pieces[1].iov_base, 96);
}

static void test_copy(void **state)
{
        static uint8_t bytes[SIZE];
        const uint64_t begin = (uint64_t) (uintptr_t) pages;

        (void) state;
        assert_int_equal(infp_agent_memory_copy(begin + 9, bytes, SIZE - 9), SIZE - 9);
        assert_memory_equal(bytes, pages + 9, SIZE - 9);
        munmap(pages + 3 * INFP_AGENT_PAGE, INFP_AGENT_PAGE);
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(infp_agent_memory_copy(begin + 9, bytes, SIZE - 9), 3 * INFP_AGENT_PAGE - 9);
        assert_memory_equal(bytes, pages + 9, 3 * INFP_AGENT_PAGE - 9);
        assert_int_equal(infp_agent_memory_copy(begin + 3 * INFP_AGENT_PAGE, bytes, 8), -EFAULT);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_any_place, make, drop),
                cmocka_unit_test_setup_teardown(test_moment, make, drop),
                cmocka_unit_test_setup_teardown(test_gone, make, drop),
                cmocka_unit_test_setup_teardown(test_no_address, make, drop),
                cmocka_unit_test_setup_teardown(test_given_up, make, drop),
                cmocka_unit_test_setup_teardown(test_full, make, drop),
                cmocka_unit_test_setup_teardown(test_gather, make, drop),
                cmocka_unit_test_setup_teardown(test_copy, make, drop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
