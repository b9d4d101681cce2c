/* Arrays that grow by one item: doubled, what is in them stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "skip_because.h"

static void room_is_doubled(void **state)
{
        struct {
                uint64_t *list;
                size_t n;
                uint32_t cap;
        } a = { NULL, 0, 0 };

        (void) state;
        for (; a.n < 100; a.n++) {
                const uint32_t before = a.cap;

                assert_true(INFP_MAKE_ROOM(a.list, a.n, a.cap, 3));
                assert_int_equal(a.cap, a.n == 0 ? 3 : a.n == before ? 2 * before : before);
                a.list[a.n] = a.n;
        }
        assert_int_equal(a.cap, 192);
        for (size_t i = 0; i < a.n; i++)
                assert_int_equal(a.list[i], i);
        free(a.list);
}

/* Also where items were taken away. */
static void one_more_by_powers_of_two(void **state)
{
        uint64_t *list = NULL;
        unsigned n = 0;

        (void) state;
        for (unsigned round = 0; round < 5; round++) {
                while (n < 100 + round) {
                        assert_true(INFP_ONE_MORE(list, n));
                        list[n] = n;
                        n++;
                }
                for (unsigned i = 0; i < n; i++)
                        assert_int_equal(list[i], i);
                n = round * 16 + 3;
        }
        free(list);
}

static void without_memory_all_stays(void **state)
{
        struct huge {
                char bytes[1 << 20];
        } *list = NULL;
        volatile size_t cap = SIZE_MAX / 4; /* the compiler must not see that this cannot be */

        (void) state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        SKIP_BECAUSE("the sanitizer's allocator ends the program");
#endif
        assert_false(INFP_MAKE_ROOM(list, cap, cap, 1));
        assert_null(list);
        assert_true(cap == SIZE_MAX / 4);
}

/* As without memory: neither the count nor the bytes wrap around. */
static void a_count_that_cannot_be_doubled(void **state)
{
        uint64_t *list = NULL;
        uint8_t cap = 0, n = 0;

        (void) state;
        for (; INFP_MAKE_ROOM(list, n, cap, 4); n++)
                list[n] = n;
        assert_int_equal(n, 128);
        assert_int_equal(cap, 128);
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(list[i], i);
        free(list);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(room_is_doubled),
                                            cmocka_unit_test(one_more_by_powers_of_two),
                                            cmocka_unit_test(without_memory_all_stays),
                                            cmocka_unit_test(a_count_that_cannot_be_doubled) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
