/* Looks of flame graphs: names, colours that letters can be read on, steps of change, what is said, trees that are none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "view/flame/pack.h"
#include "view/flame/palette.h"
#include "view/flame/top.h"
#include "view/flame/words.h"

static void themes_have_names(void **state)
{
        (void) state;
        for (int theme = 0; theme < INFP_FLAME_THEMES; theme++)
                assert_int_equal(infp_flame_theme_by_name(infp_flame_theme_name((enum infp_flame_theme) theme)), theme);
        assert_true(infp_flame_theme_by_name("plaid") < 0);
        assert_int_equal(infp_flame_theme_by_name("monochrome"), INFP_FLAME_MONO);
}

/* Relative luminance, as WCAG has it. */
static double luminance(uint32_t colour)
{
        static const double weights[] = { 0.2126, 0.7152, 0.0722 };
        double sum = 0;

        for (unsigned i = 0; i < 3; i++) {
                const double v = (double) (colour >> (16 - 8 * i) & 255) / 255;

                sum += weights[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
        }
        return sum;
}

static double contrast(uint32_t a, uint32_t b)
{
        const double x = luminance(a), y = luminance(b);

        return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

static void letters_can_be_read(void **state)
{
        static const uint32_t ink[] = { 0x171b20, 0x12161a };

        (void) state;
        for (unsigned dark = 0; dark < 2; dark++) {
                for (unsigned theme = 0; theme < INFP_FLAME_THEMES; theme++)
                        for (unsigned class = 0; class < INFP_FLAME_CLASSES; class ++)
                                for (unsigned shade = 0; shade < INFP_FLAME_SHADES; shade++)
                                        assert_true(contrast(infp_flame_colour((enum infp_flame_theme) theme, class,
                                                                               shade, dark),
                                                             ink[dark]) >= 4.5);
                for (int step = -INFP_FLAME_STEPS; step <= INFP_FLAME_STEPS; step++)
                        assert_true(contrast(infp_flame_change_colour(step, dark), ink[dark]) >= 4.5);
        }
}

static void heat_by_self_time(void **state)
{
        static const struct {
                double percent;
                uint32_t colour;
        } cases[] = { { 100, 0xff3030 },  { 10.01, 0xff3030 }, { 10, 0xff8000 }, { 5, 0xffaa00 },
                      { 2.01, 0xffaa00 }, { 2, 0xffcc00 },     { 1, 0xffff00 },  { 0, 0xffff00 } };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (unsigned dark = 0; dark < 2; dark++)
                        assert_int_equal(infp_flame_colour(INFP_FLAME_HEAT, 0, infp_flame_heat(cases[i].percent), dark),
                                         cases[i].colour);
}

/* Kinds are told apart, and red from blue, also by their lightest and darkest. */
static void kinds_differ(void **state)
{
        (void) state;
        for (unsigned a = 0; a < INFP_FLAME_CLASSES; a++)
                for (unsigned b = 0; b < a; b++)
                        assert_int_not_equal(infp_flame_colour(INFP_FLAME_BY_KIND, a, 4, false),
                                             infp_flame_colour(INFP_FLAME_BY_KIND, b, 4, false));
        for (int step = 1; step <= INFP_FLAME_STEPS; step++) {
                const uint32_t more = infp_flame_change_colour(step, false),
                               less = infp_flame_change_colour(-step, false);

                assert_true((more >> 16) > (more & 255));
                assert_true((less >> 16) < (less & 255));
        }
}

/* A file of tests/fixtures/flame, which a test of the page reads as well. */
static FILE *open_cases(const char *name)
{
        const char *fixtures = getenv("INFP_FIXTURES");
        char path[4096];
        FILE *file;

        snprintf(path, sizeof(path), "%s/flame/%s", fixtures ? fixtures : "tests/fixtures", name);
        file = fopen(path, "re");
        assert_non_null(file);
        return file;
}

/* As web/flame/colors.js steps: tests/e2e/test_flamegraph.py reads the same file. */
static void change_has_steps(void **state)
{
        FILE *file = open_cases("change_steps.tsv");
        char line[512];
        unsigned n = 0;

        (void) state;
        while (fgets(line, sizeof(line), file)) {
                unsigned long k, all, before, before_all;
                int is_normalised, step;

                if (line[0] == '#')
                        continue;
                assert_int_equal(
                        sscanf(line, "%lu %lu %lu %lu %d %d", &k, &all, &before, &before_all, &is_normalised, &step),
                        6);
                assert_int_equal(infp_flame_change_step(k, all, before, before_all, is_normalised), step);
                n++;
        }
        fclose(file);
        assert_int_equal(n, 12);
}

static void words_say_how_far_to_trust(void **state)
{
        static const char *const notes[] = { "It was throttled." };
        struct infp_flame flame = {
                .mode = "cpu", .unit = "seconds", .samples = 12345, .weight = 123.45, .t1 = 2500000000
        };
        struct infp_flame_look look = { .notes = notes, .n_notes = 1 };
        infp_autostr struct infp_str text = { 0 };

        (void) state;
        infp_flame_title(&text, &flame, &look);
        infp_str_puts(&text, "; ");
        infp_flame_amount(&text, &flame);
        infp_str_puts(&text, "; ");
        infp_flame_trust(&text, &flame);
        assert_string_equal(
                text.data,
                "CPU flame graph; 12,345 samples, 123.45 s, over 2.50 s; All stacks are complete, and all have names");
        assert_false(infp_flame_doubt(&text, &flame, &look, 0));
        assert_true(infp_flame_doubt(&text, &flame, &look, INFP_FLAME_DOUBTS));
        assert_string_equal(text.data, notes[0]);
        assert_false(infp_flame_doubt(&text, &flame, &look, INFP_FLAME_DOUBTS + 1));
        infp_str_clear(&text);
        infp_flame_nothing(&text, &(struct infp_flame){ .all_samples = 12345 });
        assert_string_equal(text.data, "None of the 12,345 samples matches the filter.");
        infp_str_clear(&text);
        infp_flame_title(&text, &flame, &(struct infp_flame_look){ .is_reversed = true });
        assert_string_equal(text.data, "CPU flame graph, leaf first");
        flame.guessed_samples = 1234;
        assert_true(infp_flame_doubt(&text, &flame, &look, 1));
        assert_non_null(strstr(text.data, "1,234 of 12,345 samples (10.0 %)"));
        infp_str_clear(&text);
        infp_flame_trust(&text, &flame);
        assert_string_equal(text.data, "10.0 % of stacks have a guessed frame");
}

static void a_tree_that_is_none_is_refused(void **state)
{
        struct infp_flame_node nodes[] = { { .function = UINT32_MAX, .first_child = 1 },
                                           { .depth = 1 },
                                           { .depth = 1 } };
        struct infp_flame_function function = { .name = "f" };
        struct infp_flame_moment moment = { .bucket = 0, .node = 7, .samples = 1 };
        struct infp_flame flame = { .nodes = nodes, .n_nodes = 3, .functions = &function, .n_functions = 1 };
        struct infp_flame_packing packing;
        infp_autostr struct infp_str text = { 0 };
        struct infp_err err = { "" };

        (void) state;
        assert_int_equal(infp_flame_pack(&text, &flame, &packing, &err), -22); /* node 2 hangs on nothing */
        assert_non_null(strstr(err.text, "not one"));
        nodes[1].next_sibling = 2;
        assert_int_equal(infp_flame_pack(&text, &flame, &packing, &err), 0);
        assert_false(packing.has_weights || packing.has_waits);
        assert_int_equal(packing.n_strings, 1);
        flame.moments = &moment;
        flame.n_moments = flame.n_buckets = 1;
        assert_int_equal(infp_flame_pack(&text, &flame, &packing, &err), -22);
}

/* As web/flame/short_name.js shortens them: tests/e2e/test_flamegraph.py reads the same file. */
static void test_short_names(void **state)
{
        FILE *file = open_cases("short_names.tsv");
        char line[512];
        unsigned n = 0;

        (void) state;
        for (; fgets(line, sizeof(line), file); n++) {
                infp_autostr struct infp_str text = { 0 };
                char *tab = strchr(line, '\t');

                assert_non_null(tab);
                *tab = 0;
                tab[1 + strcspn(tab + 1, "\n")] = 0;
                infp_flame_short_name(&text, line);
                assert_string_equal(text.data, tab + 1);
        }
        fclose(file);
        assert_int_equal(n, 17);
}

/* What is folded is said, with its share of all. */
static void test_folded(void **state)
{
        struct infp_flame flame = {
                .samples = 100,
                .folded = { .threads = 38,
                            .samples = 900,
                            .states = { { "sleeping in futex", 500 }, { "sleeping in read", 300 }, { "stopped", 60 } } }
        };
        infp_autostr struct infp_str text = { 0 };

        (void) state;
        infp_flame_top_folded(&text, &flame);
        assert_string_equal(
                text.data,
                "900 samples (90.0 %) of 38 threads that waited at least 95 % of their time are folded: 500 sleeping "
                "in futex, 300 sleeping in read, 60 stopped, 40 others. Percentages are of the other samples.");
        infp_str_clear(&text);
        flame.folded.threads = 0;
        infp_flame_top_folded(&text, &flame);
        assert_int_equal(text.size, 0);
}

/* Two of one template are not shown by one name; one without a line for its file keeps its object. */
static void a_short_table_keeps_names_apart(void **state)
{
        struct infp_flame_function functions[] = {
                { .name = "(anonymous namespace)::tiny<block_q8_0, float>::gemm<4>(long, long)",
                  .object = "libggml.so" },
                { .name = "(anonymous namespace)::tiny<block_q5_0, float>::gemm<4>(long, long)",
                  .object = "libggml.so" },
                { .name = "dot<block_q8_0, block_q8_0, float, long>(long, long)",
                  .object = "libggml.so",
                  .file = "a_long_name.cpp" },
        };
        struct infp_flame flame = { .samples = 6, .weight = 6, .n_functions = 3, .functions = functions };
        struct infp_out out = { .width = 70 };

        (void) state;
        for (unsigned i = 0; i < 3; i++)
                functions[i].self_samples = functions[i].total_samples = 3 - i;
        for (unsigned i = 0; i < 3; i++)
                functions[i].self_weight = functions[i].total_weight = 3 - i;
        assert_int_equal(infp_flame_top_short(&out, &flame, 5, 70), 0);
        assert_non_null(strstr(out.text.data, "%  tiny<block_q8_0, float>::gemm<4>(long, long)\n"));
        assert_non_null(strstr(out.text.data, "%  tiny<block_q5_0, float>::gemm<4>(long, long)\n"));
        assert_non_null(strstr(out.text.data, "%  dot  libggml.so  a_long_name.cpp\n"));
        infp_str_clear(&out.text);
        assert_int_equal(infp_flame_top_short(&out, &flame, 5, 50), 0);
        assert_non_null(strstr(out.text.data, "%  tiny<block_q8_0, float>:...\n"));
        assert_non_null(strstr(out.text.data, "%  tiny<block_q5_0, float>:...\n"));
        assert_non_null(strstr(out.text.data, "%  dot  libggml.so\n"));
        infp_str_done(&out.text);
}

static void test_passages_of_one_name(void **state)
{
        struct infp_flame_function functions[] = { { .name = "_start", .object = "bash" },
                                                   { .name = "main", .object = "python3.11" },
                                                   { .name = "_start", .object = "python3.11" } };
        const struct infp_flame flame = { .functions = functions, .n_functions = 3 };
        const uint32_t passages[] = { 0, 1, 2 };
        infp_autostr struct infp_str text = { 0 };

        (void) state;
        infp_flame_top_rest(&text, &flame, 5, passages, 3);
        assert_string_equal(text.data, "and 5 more; 3 that nearly every stack passes through are left out: "
                                       "_start (bash), main, _start (python3.11)");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_short_names),
                cmocka_unit_test(test_passages_of_one_name),
                cmocka_unit_test(test_folded),
                cmocka_unit_test(a_short_table_keeps_names_apart),
                cmocka_unit_test(themes_have_names),
                cmocka_unit_test(heat_by_self_time),
                cmocka_unit_test(letters_can_be_read),
                cmocka_unit_test(kinds_differ),
                cmocka_unit_test(change_has_steps),
                cmocka_unit_test(words_say_how_far_to_trust),
                cmocka_unit_test(a_tree_that_is_none_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
