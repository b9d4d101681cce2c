/* Values of named metrics for a figure: rates, differences, gaps, instances; every expectation was computed by hand. */
#include "report_sample.h"

#include "view/figure_parts.h"

static struct infp_figure figure;

static int add(struct sample_run *s, const char *name, enum infp_figure_mode mode)
{
        struct infp_range range;
        struct infp_catalog catalog;
        struct infp_err err = { "" };
        struct infp_figure_options options = { .range = &range, .catalog = &catalog, .mode = mode, .gap_ns = 2 * S };
        int r;

        assert_int_equal(infp_range_find(s->run, NULL, NULL, 0, &range, &err), 0);
        assert_int_equal(infp_catalog_read(s->run, &catalog, &err), 0);
        infp_figure_done(&figure);
        r = infp_figure_add(&figure, s->run, name, &options, &err);
        infp_catalog_done(&catalog);
        return r;
}

static void assert_point(size_t i, double value, bool is_first)
{
        assert_true(i < figure.list[0].n);
        assert_near(figure.list[0].points[i].value, value);
        assert_int_equal(figure.list[0].points[i].is_first, is_first);
}

/* counter: 100 at 10 s, 300 at 12 s: 100/s; 350 at 17 s behind a gap: 10/s; 50 at 18 s: it began anew, 50/s. */
static void test_modes(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_numbers(s, 10 * S, 5, 100, 0, 0);
        put_numbers(s, 12 * S, 7, 300, 0, 0);
        put_numbers(s, 17 * S, NAN, 350, 0, 0);
        put_numbers(s, 18 * S, 4, 50, 0, 0);
        finish(s, "host", 19 * S);

        assert_int_equal(add(s, "counter", INFP_FIGURE_RATE), 0);
        assert_int_equal(figure.list[0].n, 3);
        assert_point(0, 100, true);
        assert_point(1, 10, true);
        assert_point(2, 50, false);
        assert_int_equal(add(s, "counter", INFP_FIGURE_DELTA), 0);
        assert_point(0, 200, true);
        assert_point(1, 50, true);
        assert_int_equal(add(s, "counter", INFP_FIGURE_RAW), 0);
        assert_int_equal(figure.list[0].n, 4);
        assert_point(3, 50, false);

        assert_int_equal(add(s, "gauge", INFP_FIGURE_RATE), 0); /* percent: base is a ratio */
        assert_int_equal(figure.list[0].n, 3);
        assert_point(0, 0.05, true);
        assert_point(1, 0.07, false);
        assert_point(2, 0.04, true);
        assert_int_equal(add(s, "gauge", INFP_FIGURE_DELTA), 0);
        assert_point(0, 0.02, true);

        assert_int_equal(add(s, "gauges", INFP_FIGURE_RATE), -ENOENT);
        assert_int_equal(add(s, "x0_gauge", INFP_FIGURE_RATE), -ENOENT);
        infp_figure_done(&figure);
        sample_free(s);
}

/* Two ticks never read alike; a step has a round number of its unit. */
static void test_ticks(void **state)
{
        static const struct infp_figure none;
        const struct infp_figure_series bytes = { .unit = (char *) "bytes", .base = (char *) "bytes" };
        const struct infp_figure_series number = { .unit = (char *) "", .base = (char *) "" };
        const double gib = 1 << 30;

        (void) state;
        assert_string_equal(infp_figure_tick(&none, &bytes, 22 * gib, gib).text, "22.0 GiB");
        assert_string_equal(infp_figure_tick(&none, &bytes, 22.75 * gib, gib / 20).text, "22.75 GiB");
        assert_string_equal(infp_figure_tick(&none, &bytes, 22.8 * gib, gib / 20).text, "22.80 GiB");
        assert_string_equal(infp_figure_tick(&none, &bytes, 0, gib).text, "0 B");
        assert_string_equal(infp_figure_tick(&none, &number, 123456.2, 0.1).text, "123,456.2");
        assert_near(infp_figure_step(1, 5, true), 1);
        assert_near(infp_figure_step(3 * gib, 5, true), gib);
        assert_near(infp_figure_step(1, 5, false), 0.2);
        assert_int_equal(infp_figure_parts(192, 70, 8), 2);
        assert_int_equal(infp_figure_parts(10, 70, 8), 1);
        assert_int_equal(infp_figure_parts(9000, 70, 8), 8);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_modes), cmocka_unit_test(test_ticks) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
