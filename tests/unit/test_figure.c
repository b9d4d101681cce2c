/* Values of named metrics for a figure: rates, differences, gaps, instances; every expectation was computed by hand. */
#include <errno.h>

#include "report_sample.h"

#include "view/figure/figure.h"

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

// clang-format off
static const struct infp_column observed_columns[] = {
        INFP_COLUMN(latency_s_sum, F64, COUNTER, s, MEASURED, ZERO, NULL, 0, NULL, "Sum."),
        INFP_COLUMN(latency_s_count, F64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Count."),
        INFP_COLUMN(lone_sum, F64, COUNTER, s, MEASURED, ZERO, NULL, 0, NULL, "A sum without a count."),
};
// clang-format on
static const struct infp_table observed_table = {
        .name = "observed", .help = "Of the tests.", .columns = observed_columns, .n_columns = 3, .series = ""
};

static void put_observed(struct sample_run *s, uint64_t t_ns, double sum, double count)
{
        struct infp_row *row = sample_row(s, &observed_table, t_ns);

        infp_row_f64(row, 0, sum);
        infp_row_f64(row, 1, count);
        infp_row_f64(row, 2, sum);
        sample_put(s);
}

/* 1 s in 2 requests; none; 9 s in 6, after which the line begins anew; 3 s in 1 of a server that was started anew: the mean of all is
 * 13 s / 9. */
static void test_means_of_histograms(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        sample_describe(s, (const struct infp_table *const[]){ &observed_table, NULL });
        put_observed(s, 10 * S, 5, 3);
        put_observed(s, 11 * S, 6, 5);
        put_observed(s, 12 * S, 6, 5);
        put_observed(s, 13 * S, 15, 11);
        put_observed(s, 14 * S, 3, 1);
        finish(s, "host", 15 * S);

        assert_int_equal(add(s, "latency_s", INFP_FIGURE_RATE), 0);
        assert_int_equal(figure.list[0].n, 3);
        assert_point(0, 0.5, true);
        assert_point(1, 1.5, true);
        assert_point(2, 3, false);
        assert_near(infp_figure_mean(&figure.list[0]), 13.0 / 9);
        assert_string_equal(infp_figure_value(&figure, &figure.list[0], 0.5).text, "500 ms");
        assert_string_equal(infp_figure_how(&figure, &figure.list[0]), ", mean of each interval");
        assert_int_equal(add(s, "latency_s", INFP_FIGURE_DELTA), -EINVAL);
        assert_int_equal(add(s, "latency_s", INFP_FIGURE_RAW), -EINVAL);
        assert_int_equal(add(s, "lone", INFP_FIGURE_RATE), -ENOENT);
        assert_int_equal(add(s, "latency_s_sum", INFP_FIGURE_RATE), 0);
        assert_int_equal(figure.list[0].n, 4);
        infp_figure_done(&figure);
        sample_free(s);
}

/* How often a text stands in another. */
static unsigned count_in(const char *text, const char *part)
{
        unsigned n = 0;

        for (; (text = strstr(text, part)); text++)
                n++;
        return n;
}

static void draw(struct infp_figure *drawn, struct infp_out *out)
{
        const struct infp_figure_look look = { .about = "run", .width = 600, .height = 300 };
        struct infp_err err = { "" };

        assert_int_equal(infp_figure_draw(out, drawn, &look, &infp_canvas_svg, &err), 0);
}

/* A share from 0, the least, mean and largest in the legend, each mark a dashed line; on a narrow screen all of it is smaller. */
static void test_share_with_marks(void **state)
{
        struct infp_figure_point points[] = { { 0, 0.85, 1, true }, { 5 * S, 0.95, 3, false } };
        struct infp_label_mark marks[] = { { .tag = (char *) "warm", .t_ns = 1 * S },
                                           { .tag = (char *) "hidden: no room", .t_ns = 1100000000 },
                                           { .tag = (char *) "same pixel", .t_ns = 1101000000 },
                                           { .tag = (char *) "done <&>", .t_ns = 5 * S },
                                           { .tag = (char *) "end of load", .t_ns = 9950000000 } };
        struct infp_figure drawn = { .t1 = 10 * S, .n = 1, .marks = { .list = marks, .n = INFP_COUNT(marks) } };
        struct infp_out out = { .fd = -1 };

        (void) state;
        drawn.list[0] = (struct infp_figure_series){ .name = (char *) "kv",
                                                     .unit = (char *) "%",
                                                     .base = (char *) "ratio",
                                                     .help = (char *) "",
                                                     .kind = INFP_GAUGE,
                                                     .points = points,
                                                     .n = 2 };
        draw(&drawn, &out);
        assert_non_null(strstr(out.text.data, ">kv: min 85.0 %, mean 92.5 %, max 95.0 %<"));
        assert_int_equal(count_in(out.text.data, ">0.0 %<"), 1);
        assert_int_equal(count_in(out.text.data, "stroke-dasharray"), 4);
        assert_non_null(strstr(out.text.data, ">warm<"));
        assert_non_null(strstr(out.text.data, ">done &lt;&amp;&gt;<"));
        assert_non_null(strstr(out.text.data, ">end of load<"));
        assert_null(strstr(out.text.data, "hidden"));
        assert_non_null(strstr(out.text.data, "style=\"max-width:100%;height:auto\""));
        infp_str_clear(&out.text);

        drawn.list[0].unit = drawn.list[0].base = (char *) "celsius"; /* no share: a flat line is shown large */
        drawn.marks.n = 0;
        draw(&drawn, &out);
        assert_int_equal(count_in(out.text.data, ">0 C<"), 0);
        assert_int_equal(count_in(out.text.data, "stroke-dasharray"), 0);
        infp_str_done(&out.text);
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
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_modes), cmocka_unit_test(test_means_of_histograms),
                                            cmocka_unit_test(test_share_with_marks), cmocka_unit_test(test_ticks) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
