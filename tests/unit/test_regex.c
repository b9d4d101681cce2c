#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/regex.h"

/* Each of these takes glibc minutes or gigabytes, or its stack. */
static void refuses_what_takes_the_machine(void **state)
{
        static const char *const cases[][2] = {
                { "(((a{1,100}){1,100}){1,100}){1,100}", "multiply to more than 10,000" },
                { "((a{250,}){250,}){250,}", "multiply to more than 10,000" },
                { "((a{255,1}){255,1}){255}", "multiply to more than 10,000" },
                { "(abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz){10000}", "too long to be repeated so often" },
                { "(a*)\\1", "a back-reference" },
                { "a(", "is not a regular expression: " },
        };
        char open[3001];
        struct infp_err err;
        regex_t re;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                assert_int_equal(infp_regex_compile(&re, cases[i][0], &err), -EINVAL);
                if (!strstr(err.text, cases[i][1]))
                        fail_msg("%s: %s", cases[i][0], err.text);
        }
        memset(open, '(', 1500);
        memset(open + 1500, ')', 1500);
        open[3000] = 0;
        assert_int_equal(infp_regex_compile(&re, open, &err), -EINVAL);
        assert_non_null(strstr(err.text, "1,000 parentheses"));
}

static void takes_what_people_write(void **state)
{
        static const char *const cases[][2] = {
                { "^vllm", "vllm serve m" },     { "(python3?|node).*serve", "python3 -m serve" },
                { "[0-9]{1,5}x{2}", "12345xx" }, { "llama\\.cpp", "llama.cpp" },
                { "a{3,}b{100}?", "aaa" },
        };
        struct infp_err err;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                regex_t re;

                assert_int_equal(infp_regex_compile(&re, cases[i][0], &err), 0);
                assert_int_equal(regexec(&re, cases[i][1], 0, NULL, 0), 0);
                regfree(&re);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(refuses_what_takes_the_machine),
                cmocka_unit_test(takes_what_people_write),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
