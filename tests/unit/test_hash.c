#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

/* The published vectors of XXH64: ids lie in files for years, the function must never become another one. */
static void known_answers(void **state)
{
        (void) state;
        assert_int_equal(infp_hash64("", 0, 0), UINT64_C(0xef46db3751d8e999));
        assert_int_equal(infp_hash64("a", 1, 0), UINT64_C(0xd24ec4f1a98c6e5b));
        assert_int_equal(infp_hash64("abc", 3, 0), UINT64_C(0x44bc2cf5ad770999));
        assert_true(infp_hash64("abc", 3, 1) != infp_hash64("abc", 3, 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(known_answers) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
