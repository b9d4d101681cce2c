/* Names as people read them, and names that were made to hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/str.h"
#include "symbols/name.h"
#include "symbols/table.h"

static void demangles(void **state)
{
        /* Answers of c++filt -p and rustfilt. */
        static const struct {
                const char *mangled, *name; /* NULL: it is none */
        } cases[] = {
                { "_ZN4acme3BoxIiE3getEi", "acme::Box<int>::get" },
                { "_ZNK4acme3BoxIiE3getEi.isra.0", "acme::Box<int>::get" },
                { "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back" },
                { "_ZZ5outeriENKUliE_clEi", "outer(int)::{lambda(int)#1}::operator()" },
                { "_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo" },
                { "_ZN4core3fmt9Formatter3pad17h4a8a1a9e6f2b0c3dE", "core::fmt::Formatter::pad" },
                { "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
                  "3bar17h930b740aa94f1d3aE",
                  "<Test + 'static as foo::Bar<Test>>::bar" },
                { "_RNvCs1234_7mycrate3foo", "mycrate::foo" },
                { "_RNvMs_NtCs1234_7mycrate3barNtB4_3Bar3baz", "<mycrate::bar::Bar>::baz" },
                { "main", NULL },
                { "_Z", NULL },
                { "_ZN", NULL },
                { "_R", NULL },
                { "_Zfoo", NULL },
        };
        struct infp_str ret = { 0 };

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const bool is_good = infp_demangle(cases[i].mangled, strlen(cases[i].mangled), &ret);

                assert_string_equal(is_good ? ret.data : "-", cases[i].name ? cases[i].name : "-");
        }
        infp_str_done(&ret);
}

static double cpu(void)
{
        return (double) clock() / CLOCKS_PER_SEC;
}

/* Each has a few hundred bytes, or nests thousands deep; a bounded answer must come soon. */
static void hostile_names(void **state)
{
        struct infp_str name = { 0 }, ret = { 0 };
        const double before = cpu();

        (void) state;
        /* Doubles with every substitution: 2^60 names. */
        infp_str_puts(&name, "_Z1f1XIiiE");
        for (unsigned i = 0; i < 60; i++)
                infp_str_printf(&name, "S_IS%c_S%c_E", i < 10 ? '0' + (int) i : 'A' + (int) (i % 26),
                                i < 10 ? '0' + (int) i : 'A' + (int) (i % 26));
        infp_demangle(name.data, name.size, &ret);
        assert_true(ret.size <= INFP_SYMBOL_MAX_NAME);
        for (unsigned depth = 100; depth <= 15100; depth += 15000) { /* f<int****...> */
                infp_str_clear(&name);
                infp_str_puts(&name, "_Z1fI");
                for (unsigned i = 0; i < depth; i++)
                        infp_str_putc(&name, 'P');
                infp_str_puts(&name, "iEvv");
                assert_int_equal(infp_demangle(name.data, name.size, &ret), depth == 100);
        }
        infp_str_clear(
                &name); /* long, but not deep: libiberty refuses it unless it is asked to recurse without limit */
        infp_str_puts(&name, "_Z1fI");
        for (unsigned i = 0; i < 300; i++)
                infp_str_puts(&name, "3fooILi1EE");
        infp_str_puts(&name, "Evv");
        assert_true(infp_demangle(name.data, name.size, &ret));
        assert_int_equal(strncmp(ret.data, "f<foo<1>, foo<1>, ", 18), 0);
        infp_str_clear(&name); /* Rust: tuples of tuples, each a back reference to the one before */
        infp_str_puts(&name, "_RNvC1a1f");
        for (unsigned i = 0; i < 200; i++)
                infp_str_puts(&name, "IB_B_E");
        infp_demangle(name.data, name.size, &ret);
        assert_true(ret.size <= INFP_SYMBOL_MAX_NAME);
        infp_str_clear(&name); /* longer than anything that is looked at */
        infp_str_puts(&name, "_Z100000");
        for (unsigned i = 0; i < 100000; i++)
                infp_str_putc(&name, 'x');
        assert_false(infp_demangle(name.data, name.size, &ret));
        assert_true(cpu() - before < 5);
        infp_str_done(&name);
        infp_str_done(&ret);
}

static void text_is_one_line(void **state)
{
        struct infp_str ret = { 0 };
        char *large = malloc(100000);

        (void) state;
        infp_symbol_text(&ret, "a\nb\033[31m\x7f\xc2\x85\xff\\\xc3\xa9", 15);
        assert_string_equal(ret.data, "a\\x0Ab\\x1B[31m\\x7F\\xC2\\x85\\xFF\\\\\xc3\xa9");
        memset(large, 'x', 100000);
        infp_symbol_text(&ret, large, 100000);
        assert_true(ret.size <= INFP_SYMBOL_MAX_NAME);
        assert_string_equal(ret.data + ret.size - 4, "x...");
        free(large);
        infp_str_done(&ret);
}

static void chooses_among_aliases(void **state)
{
        (void) state;
        assert_true(infp_symbol_name_order("write", "__write") < 0);
        assert_true(infp_symbol_name_order("__libc_malloc", "malloc") > 0);
        assert_true(infp_symbol_name_order("open", "open64") < 0);
        assert_true(infp_symbol_name_order("_ZN1aC1Ev", "__a") < 0);
        assert_int_equal(infp_symbol_name_order("a", "a"), 0);
}

static void leaves_out_copies(void **state)
{
        static const struct {
                const char *name;
                size_t size;
        } cases[] = {
                { "foo.isra.0", 3 },
                { "foo.isra.0.cold", 3 },
                { "foo.constprop.12.part.0", 3 },
                { "foo.cold", 3 },
                { "foo.0", 5 },
                { ".cold", 5 },
                { "foo.bar", 7 },
                { "cold", 4 },
                { "main.main", 9 },
                { "", 0 },
        };

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                assert_int_equal(infp_without_clones(cases[i].name, strlen(cases[i].name)), cases[i].size);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(demangles),         cmocka_unit_test(hostile_names),
                cmocka_unit_test(text_is_one_line),  cmocka_unit_test(chooses_among_aliases),
                cmocka_unit_test(leaves_out_copies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
