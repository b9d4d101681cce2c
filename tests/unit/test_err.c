#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void sentences(void **state)
{
        struct infp_err err = { 0 };

        (void) state;
        assert_int_equal(infp_fail(&err, -EINVAL, "%s: %d is too much", "x", 5), -EINVAL);
        assert_string_equal(err.text, "x: 5 is too much");
        assert_int_equal(infp_fail_errno(&err, -ENOENT, "cannot open %s", "/a"), -ENOENT);
        assert_string_equal(err.text, "cannot open /a: No such file or directory");
        assert_int_equal(infp_fail(NULL, -EIO, "nobody listens"), -EIO);
        assert_int_equal(infp_fail_errno(NULL, -EIO, "nobody listens"), -EIO);
}

static void long_sentences_are_cut(void **state)
{
        struct infp_err err = { 0 };

        (void) state;
        assert_int_equal(infp_fail_errno(&err, -EIO, "%600s", "x"), -EIO);
        assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
        assert_string_equal(err.text + 511 - 24, " ...: Input/output error"); /* the reason is not what is cut */
        assert_int_equal(infp_fail_errno(&err, -EIO, "%491s", "x"), -EIO);
        assert_string_equal(err.text + 511 - 22, " x: Input/output error");
        assert_int_equal(infp_fail_errno(&err, -EIO, "%492s", "x"), -EIO);
        assert_string_equal(err.text + 511 - 24, " ...: Input/output error");
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(sentences), cmocka_unit_test(long_sentences_are_cut) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
