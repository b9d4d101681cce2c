#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/debug.h"
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

struct seen {
        unsigned n;
        char first[256], last[256];
};

static void see(void *context, const char *line)
{
        struct seen *seen = context;

        snprintf(seen->n++ ? seen->last : seen->first, sizeof(seen->last), "%s", strstr(line, " ms "));
}

static void the_last_decisions_are_kept(void **state)
{
        const unsigned long n_before = infp_debug_each(see, &(struct seen){ 0 });
        struct seen seen = { 0 };

        (void) state;
        for (int i = 0; i < 600; i++)
                infp_debug("line %d", i);
        infp_fail(NULL, -EIO, "nobody wants this text");
        assert_int_equal(n_before, 0);
        assert_true(infp_debug_each(see, &seen) >= 600 + 1 - 512);
        assert_int_equal(seen.n, 512);
        assert_string_equal(seen.first, " ms line 89");
        assert_string_equal(seen.last, " ms failed: nobody wants this text");
        infp_fail_errno(NULL, -EIO, "nobody wants the reason");
        infp_debug_each(see, &seen);
        assert_string_equal(seen.last, " ms failed: nobody wants the reason: Input/output error");
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(sentences), cmocka_unit_test(long_sentences_are_cut),
                                            cmocka_unit_test(the_last_decisions_are_kept) };

        setenv("INFPROF_DEBUG", "1", 1);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
