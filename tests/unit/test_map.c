#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"

static void empty(void **state)
{
        struct infp_map map = { 0 };

        (void) state;
        assert_null(infp_map_get(&map, 1));
        assert_null(infp_map_get(&map, 0));
        assert_false(infp_map_delete(&map, 1));
        infp_map_done(&map);
}

static void key_zero(void **state)
{
        struct infp_map map = { 0 };

        (void) state;
        assert_int_equal(infp_map_put(&map, 0, 7), 0);
        assert_int_equal(map.n, 1);
        assert_int_equal(*infp_map_get(&map, 0), 7);
        assert_true(infp_map_delete(&map, 0));
        assert_null(infp_map_get(&map, 0));
        assert_int_equal(map.n, 0);
        infp_map_done(&map);
}

static void overwrites(void **state)
{
        struct infp_map map = { 0 };

        (void) state;
        infp_map_put(&map, 5, 1);
        infp_map_put(&map, 5, 2);
        assert_int_equal(map.n, 1);
        assert_int_equal(*infp_map_get(&map, 5), 2);
        *infp_map_get(&map, 5) = 3;
        assert_int_equal(*infp_map_get(&map, 5), 3);
        infp_map_done(&map);
}

/* Beside a plain array as the truth: keys 0..999, put and deleted at random, so that clusters form and are torn. */
static void against_an_array(void **state)
{
        enum { KEYS = 1000 };
        static uint64_t truth[KEYS]; /* value, 0 = absent */
        struct infp_map map = { 0 };
        uint64_t x = 88172645463325252u;
        size_t present = 0;
        uint64_t key;

        (void) state;
        for (int i = 0; i < 200000; i++) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                key = (x >> 8) % KEYS;
                if (x & 1) {
                        assert_int_equal(infp_map_put(&map, key, x | 1), 0);
                        present += truth[key] == 0;
                        truth[key] = x | 1;
                } else {
                        assert_int_equal(infp_map_delete(&map, key), truth[key] != 0);
                        present -= truth[key] != 0;
                        truth[key] = 0;
                }
                if (map.n != present)
                        fail_msg("step %d: %zu pairs, not %zu", i, map.n, present);
        }
        for (key = 0; key < KEYS; key++) {
                uint64_t *found = infp_map_get(&map, key);

                assert_int_equal(found ? *found : 0, truth[key]);
        }
        /* Deleting does not let it grow: at most 1000 pairs were in it, 3/4 of the slots are used at most. */
        assert_true(map.cap <= 2048);
        infp_map_done(&map);
        assert_null(infp_map_get(&map, 1));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(empty),
                cmocka_unit_test(key_zero),
                cmocka_unit_test(overwrites),
                cmocka_unit_test(against_an_array),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
