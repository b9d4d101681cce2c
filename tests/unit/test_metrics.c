/* A report of keyed tables: instances are named as in the time series. Every expectation was computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/report.h"
#include "query/series.h"
#include "query_sample.h"

#define S UINT64_C(1000000000)

// clang-format off
static const struct infp_column gpu_columns[] = {
        INFP_COLUMN(gPower, F64, GAUGE, watts, MEASURED, NO, NULL, 0, NULL, "Power."),
        INFP_COLUMN(gPlace, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
        INFP_COLUMN(gEnergy, I64, COUNTER, mj, MEASURED, ZERO, NULL, 0, NULL, "Energy."),
};
static const struct infp_column engine_columns[] = {
        INFP_COLUMN(queue, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Waiting."),
};
// clang-format on
static const struct infp_table gpu_table = { .name = "gpus",
                                             .help = "Of the tests.",
                                             .keys = device_keys,
                                             .columns = gpu_columns,
                                             .n_keys = 1,
                                             .n_columns = 3,
                                             .series = "gpu" };
static const struct infp_table engine_table = { .name = "engines",
                                                .help = "Of the tests.",
                                                .keys = device_keys,
                                                .columns = engine_columns,
                                                .n_keys = 1,
                                                .n_columns = 1,
                                                .series = "" };
static const struct infp_table unwritten_table = { .name = "later",
                                                   .help = "Of the tests.",
                                                   .keys = device_keys,
                                                   .columns = device_columns,
                                                   .n_keys = 1,
                                                   .n_columns = 1,
                                                   .series = "later" };

static void put_gpu(struct sample_run *s, uint64_t t_ns, const char *device, double power, int64_t energy)
{
        struct infp_row *row = sample_row(s, &gpu_table, t_ns);

        infp_row_str(row, 0, device);
        infp_row_f64(row, 1, power);
        infp_row_str(row, 2, "shelf");
        infp_row_i64(row, 3, energy);
        sample_put(s);
}

static void put_engine(struct sample_run *s, uint64_t t_ns, const char *device, int64_t queue)
{
        struct infp_row *row = sample_row(s, &engine_table, t_ns);

        infp_row_str(row, 0, device);
        infp_row_i64(row, 1, queue);
        sample_put(s);
}

/* gpu-b comes first, so it is gpu0. */
static struct sample_run *make_run(void)
{
        static const struct infp_table *const tables[] = { &gpu_table, &engine_table, &unwritten_table, NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        for (unsigned i = 0; i <= 6; i++)
                sample_tick(s, i, (10 + i) * S);
        put_gpu(s, 10 * S, "gpu-b", 100, 1000);
        put_gpu(s, 11 * S, "gpu-a", 50, 10);
        put_gpu(s, 12 * S, "gpu-b", 300, 1600);
        put_engine(s, 10 * S, "x", 5);
        put_engine(s, 10 * S, "w", 500);
        sample_rotate(s, 2);
        put_gpu(s, 13 * S, "gpu-a", 70, 50);
        put_gpu(s, 15 * S, "gpu-a", 90, 60);
        put_engine(s, 11 * S, "x", 7);
        sample_end(s);
        s->run->info.started_t_ns = 10 * S;
        s->run->info.started_unix_ns = SAMPLE_UNIX + (int64_t) (10 * S);
        s->run->info.ended_t_ns = 16 * S;
        return s;
}

static void make(struct sample_run *s, const char *from, struct infp_report *report)
{
        sample_check(s, infp_report_make(s->run, &(struct infp_report_options){ .from = from }, report, &s->err));
}

static void assert_near(double a, double b)
{
        assert_true(fabs(a - b) <= 1e-9 * fmax(1, fabs(b)));
}

static void test_instances(void **state)
{
        struct sample_run *s = make_run();
        const struct infp_report_metric *m;
        struct infp_report report;

        (void) state;
        make(s, NULL, &report);
        m = infp_report_find(&report, "gpu0_gPower");
        assert_non_null(m);
        assert_string_equal(m->table, "gpus");
        assert_string_equal(m->unit, "W");
        assert_int_equal(m->stat.n, 2);
        assert_near(infp_stat_mean(&m->stat), 200);
        /* 600 mJ in 2 s; 40 in 2 s and 10 in 2 s. */
        assert_near(infp_report_mean(&report, "gpu0_gEnergy"), 0.3);
        assert_int_equal(infp_report_find(&report, "gpu1_gEnergy")->stat.total_u64, 50);
        assert_near(infp_report_find(&report, "gpu1_gEnergy")->stat.max, 20);
        assert_near(infp_report_max(&report, "gpu1_gPower"), 90);
        for (size_t i = 0; i < 4; i++)
                assert_null(infp_report_find(
                        &report, (const char *[]){ "gPower", "gpu2_gPower", "gpu0_gPlace", "later0_heat" }[i]));
        infp_report_done(&report);
        sample_free(s);
}

/* Of a table under bare names only the first instance is there. */
static void test_bare_names(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;

        (void) state;
        make(s, NULL, &report);
        assert_int_equal(infp_report_find(&report, "queue")->stat.n, 2);
        assert_near(infp_report_mean(&report, "queue"), 6);
        infp_report_done(&report);
        sample_free(s);
}

/* A part of the run numbers them as the whole does. */
static void test_a_range(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;

        (void) state;
        make(s, "-3500ms", &report);
        assert_int_equal(infp_report_find(&report, "gpu0_gPower")->stat.n, 0);
        assert_near(infp_report_mean(&report, "gpu1_gPower"), 80);
        infp_report_done(&report);
        sample_free(s);
}

/* Every metric is a column of the time series. */
static void test_names_of_the_series(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;
        struct infp_series *series;

        (void) state;
        make(s, NULL, &report);
        sample_check(s, infp_series_open(s->run, 0, 0, &series, &s->err));
        assert_int_equal(report.n_metrics, 5);
        for (unsigned i = 0; i < report.n_metrics; i++)
                assert_true(infp_table_find(infp_series_table(series), report.metrics[i].name) >= 0);
        infp_series_close(series);
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_instances),
                cmocka_unit_test(test_bare_names),
                cmocka_unit_test(test_a_range),
                cmocka_unit_test(test_names_of_the_series),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
