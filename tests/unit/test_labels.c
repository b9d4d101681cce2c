/* What happened between labels: every figure computed by hand. */
#include "report_sample.h"

#include "view/format.h"

// clang-format off
static const struct infp_column full_columns[] = {
        INFP_COLUMN(tree_processes, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Processes."),
        INFP_COLUMN(tree_cpu_ns, I64, COUNTER, ns, DERIVED, ZERO, NULL, 0, NULL, "CPU."),
        INFP_COLUMN(tree_rss_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Memory."),
        INFP_COLUMN(tree_vms_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Address space."),
        INFP_COLUMN(tree_swap_bytes, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Swap."),
};
static const struct infp_column thermal_columns[] = {
        INFP_COLUMN(vCpuTemperature, F64, GAUGE, celsius, MEASURED, NO, NULL, 0, NULL, "Temperature."),
};
static const struct infp_column joule_columns[] = {
        INFP_COLUMN(eMachineJoules, F64, COUNTER, joules, DERIVED, ZERO, NULL, 0, NULL, "Energy."),
        INFP_COLUMN(eMachineQuality, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Quality."),
};
// clang-format on
static const struct infp_table full_table = {
        .name = "tree", .help = "Of the tests.", .columns = full_columns, .n_columns = 5, .series = ""
};
static const struct infp_table thermal_table = {
        .name = "thermal", .help = "Of the tests.", .columns = thermal_columns, .n_columns = 1, .series = ""
};
static const struct infp_table joule_table = {
        .name = "energy_total", .help = "Of the tests.", .columns = joule_columns, .n_columns = 2, .series = ""
};

static void put_label(struct sample_run *s, uint64_t t_ns, const char *source, const char *tag, const char *stamp)
{
        struct infp_row *row = sample_row(s, &infp_table_marks, t_ns);

        infp_row_str(row, INFP_MARKS_SOURCE, source);
        infp_row_str(row, INFP_MARKS_TAG, tag);
        if (stamp)
                infp_row_str(row, INFP_MARKS_STAMP, stamp);
        sample_put(s);
}

static void put_full(struct sample_run *s, uint64_t t_ns, int64_t processes, int64_t cpu_ns, int64_t rss)
{
        struct infp_row *row = sample_row(s, &full_table, t_ns);

        infp_row_i64(row, 0, processes);
        infp_row_i64(row, 1, cpu_ns);
        infp_row_i64(row, 2, rss);
        infp_row_i64(row, 3, 100 * rss);
        infp_row_i64(row, 4, 0);
        sample_put(s);
}

static void put_joules(struct sample_run *s, uint64_t t_ns, double joules, const char *quality)
{
        struct infp_row *row = sample_row(s, &joule_table, t_ns);

        infp_row_f64(row, 0, joules);
        infp_row_str(row, 1, quality);
        sample_put(s);
}

/* Two CPUs. a at 11 s, b at 15 s, c at 18 s; what lies at 10 s belongs to nobody. */
static struct sample_run *make_run(void)
{
        static const struct infp_table *const tables[] = { &full_table,    &core_table,  &host_table, &infp_table_marks,
                                                           &thermal_table, &joule_table, NULL };
        static const int64_t cpu_ms[] = { 0, 5000, 6000, 6500, 8500, 9000, 9000, 9500, 9500 };
        static const int64_t rss[] = { 7, 10, 20, 30, 40, 50, 60, 70, 80 };
        /* Core 0 and core 1, ticks of work and of idleness since 10 s. */
        static const int64_t work_0[] = { 0, 100, 200, 200, 300 }, idle_0[] = { 0, 0, 0, 100, 100 };
        static const int64_t work_1[] = { 0, 100, 100, 200, 200 }, idle_1[] = { 0, 0, 100, 100, 200 };
        struct sample_run *s = sample_new("csv");
        struct infp_row *row;

        sample_describe(s, tables);
        row = sample_row(s, &host_table, 10 * S);
        infp_row_i64(row, 2, 2);
        sample_put(s);
        for (unsigned i = 0; i < INFP_COUNT(cpu_ms); i++)
                put_full(s, (10 + i) * S, i == 8 ? 0 : 1, cpu_ms[i] * 1000000, rss[i]);
        for (unsigned i = 0; i < INFP_COUNT(work_0); i++) {
                put_core(s, (10 + i) * S, 0, work_0[i], idle_0[i]);
                put_core(s, (10 + i) * S, 1, work_1[i], idle_1[i]);
        }
        infp_row_f64(sample_row(s, &thermal_table, 11 * S), 0, 40);
        sample_put(s);
        infp_row_f64(sample_row(s, &thermal_table, 13 * S), 0, 50);
        sample_put(s);
        put_joules(s, 10 * S, 0, "measured");
        put_joules(s, 11 * S, 5, "measured");
        put_joules(s, 13 * S, 15, "measured");
        put_joules(s, 14 * S, 20, "measured");
        put_joules(s, 16 * S, 40, "estimated");
        put_label(s, 18 * S, "mark", "c", NULL);
        put_label(s, 11 * S, "output", "a", "line");
        put_label(s, 12 * S, "output", "filename: gemm", "seen");
        /* Printed last, but of an earlier moment. */
        put_label(s, 15 * S, "output", "b", "seen: the line has no time");
        finish(s, "run", 20 * S);
        return s;
}

static void expect_stat(const struct infp_stat *stat, uint64_t n, double mean, double std, double min, double max)
{
        assert_int_equal(stat->n, n);
        assert_near(infp_stat_mean(stat), mean);
        if (isnan(std))
                assert_true(isnan(infp_stat_sample_std(stat)));
        else
                assert_near(infp_stat_sample_std(stat), std);
        assert_near(stat->min, min);
        assert_near(stat->max, max);
}

/* Rows at 11, 12, 13, 14 s. CPU: 1, 0.5, 2 s in a second each, of 2 CPUs: 50, 25, 100 %; mean 175/3; squared distances
 * 625/9 + 10000/9 + 15625/9 = 26250/9, by n - 1 = 2. RSS 10 20 30 40: squared distances 225 + 25 + 25 + 225 = 500, by 3. */
static void expect_a_to_b(const struct infp_labelled_span *span)
{
        assert_near(span->seconds, 4);
        assert_int_equal(span->n, 4);
        expect_stat(&span->cpu_percent, 3, 175.0 / 3, sqrt(26250.0 / 18), 25, 100);
        expect_stat(&span->rss_bytes, 4, 25, sqrt(500.0 / 3), 10, 40);
        expect_stat(&span->vms_bytes, 4, 2500, 100 * sqrt(500.0 / 3), 1000, 4000);
        expect_stat(&span->swap_bytes, 4, 0, 0, 0, 0);
        expect_stat(&span->temperature_c, 2, 45, sqrt(50), 40, 50);
        /* Loads of 12, 13, 14 s: core 0 100, 0, 100; core 1 0, 100, 0: each interval has one core alone, another each time. */
        assert_int_equal(span->cores.n, 2);
        expect_stat(&span->cores.cores[0].stat, 3, 200.0 / 3, sqrt(10000.0 / 3), 0, 100);
        expect_stat(&span->cores.cores[1].stat, 3, 100.0 / 3, sqrt(10000.0 / 3), 0, 100);
        expect_stat(&span->cores.average, 3, 50, 0, 50, 50);
        expect_stat(&span->cores.disparity, 3, 100, 0, 100, 100);
        assert_int_equal(span->cores.n_dominated, 3);
        assert_int_equal(span->cores.n_dominant_changes, 2);
        /* 5 J at 11 s, 20 J at 14 s. */
        assert_near(infp_span_joules(span), 15);
        assert_near(infp_span_watts(span), 5);
        assert_near(span->energy_j.min, 5);
        assert_near(span->energy_j.max, 20);
        assert_false(span->energy_is_estimated);
}

static void make_labels(struct sample_run *s, bool labels, const char *from, const char *to, struct infp_report *report)
{
        const struct infp_report_options options = { .from = from, .to = to, .labels = labels };

        sample_check(s, infp_report_make(s->run, &options, report, &s->err));
}

static void test_neighbours(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;

        (void) state;
        make_labels(s, true, NULL, NULL, &report);
        assert_int_equal(report.labels.n, 3);
        assert_string_equal(report.labels.list[0].tag, "a");
        assert_string_equal(report.labels.list[1].tag, "b");
        assert_string_equal(report.labels.list[1].stamp, "seen: the line has no time");
        assert_string_equal(report.labels.list[2].tag, "c");
        assert_null(report.labels.list[2].stamp);
        assert_string_equal(report.labels.filename, "gemm");
        assert_int_equal(report.spans.n, 2);
        expect_a_to_b(&report.spans.list[0]);
        /* 15, 16, 17 s: CPU 0 and 0.5 s of 2 CPUs; one sample of energy says nothing. */
        expect_stat(&report.spans.list[1].cpu_percent, 2, 12.5, sqrt(312.5), 0, 25);
        expect_stat(&report.spans.list[1].rss_bytes, 3, 60, 10, 50, 70);
        assert_int_equal(report.spans.list[1].temperature_c.n, 0);
        assert_int_equal(report.spans.list[1].cores.n, 0);
        assert_true(isnan(infp_span_joules(&report.spans.list[1])));
        assert_true(isnan(infp_span_watts(&report.spans.list[1])));
        infp_report_done(&report);
        sample_free(s);
}

static void test_from_to(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;

        (void) state;
        make_labels(s, false, "a", "b", &report);
        assert_string_equal(report.from_label, "a");
        assert_string_equal(report.to_label, "b");
        assert_int_equal(report.spans.n, 1);
        expect_a_to_b(&report.spans.list[0]);
        infp_report_done(&report);
        make_labels(s, false, "+1s", "b", &report); /* one end is enough */
        assert_null(report.from_label);
        assert_int_equal(report.spans.n, 1);
        expect_a_to_b(&report.spans.list[0]);
        infp_report_done(&report);
        /* To the end: a tree without a process has no memory. */
        make_labels(s, false, "c", NULL, &report);
        assert_int_equal(report.spans.list[0].n, 1);
        assert_int_equal(report.spans.list[0].rss_bytes.n, 0);
        assert_near(report.spans.list[0].seconds, 2);
        infp_report_done(&report);
        make_labels(s, false, "+1s", "-1s", &report);
        assert_int_equal(report.spans.n, 0);
        infp_report_done(&report);
        sample_free(s);
}

static void test_text(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;
        infp_autofree char *list = NULL, *one = NULL;

        (void) state;
        make_labels(s, true, NULL, NULL, &report);
        list = text_of(&report, 80);
        infp_report_done(&report);
        assert_non_null(
                strstr(list, "  a to b                   4.00 s  58.3 %      25 B  2.44 KiB      0 B   15.0 J\n"));
        assert_non_null(strstr(list, "std  38.2 %      13 B  1.26 KiB      0 B\n"));
        assert_non_null(strstr(list, "  b to c                   3.00 s  12.5 %      60 B"));
        assert_non_null(strstr(list, "named       gemm\n"));
        assert_non_null(strstr(list, "1 label is without a time within the recording: it counts"));
        make_labels(s, false, "a", "b", &report);
        one = text_of(&report, 80);
        infp_report_done(&report);
        assert_non_null(strstr(one, "CPU of the tree, of all CPUs      58.3 %      38.2 %      25.0 %     100.0 %\n"));
        assert_non_null(strstr(one, "core 0                            66.7 %      57.7 %       0.0 %     100.0 %\n"));
        assert_non_null(strstr(one, "CPU temperature                   45.0 C       7.1 C      40.0 C      50.0 C\n"));
        assert_non_null(strstr(one, "15.0 J of the machine in 3.00 s (5.00 W)"));
        assert_non_null(strstr(one, "in 3 of 3 intervals; the"));
        sample_free(s);
}

/* Field by field: numbers to nine digits, texts exactly. */
static void expect_fields(const char *got, const char *wanted)
{
        while (*got || *wanted) {
                const size_t n = strcspn(got, ",\n"), m = strcspn(wanted, ",\n");
                char *got_end, *wanted_end;
                const double a = strtod(got, &got_end), b = strtod(wanted, &wanted_end);

                if (n && m && got_end == got + n && wanted_end == wanted + m)
                        assert_near(a, b);
                else if (n != m || memcmp(got, wanted, n) != 0)
                        fail_msg("%.*s, not %.*s", (int) n, got, (int) m, wanted);
                assert_int_equal(got[n], wanted[m]);
                got += n + (got[n] != 0);
                wanted += m + (wanted[m] != 0);
        }
}

static void test_table(void **state)
{
        static const char wanted[] = "a,b,1764302411000,4.0,4,58.333333333333336,38.18813079129867,50.0,0.0,25.0,"
                                     "12.909944487358056,10.0,40.0,2500.0,1290.9944487358057,1000.0,4000.0,0.0,0.0,0.0,"
                                     "0.0,45.0,7.0710678118654755,15.0,5.0,20.0,measured,100.0,2\n"
                                     "b,c,1764302415000,3.0,3,12.5,17.67766952966369,,,60.0,10.0,50.0,70.0,6000.0,"
                                     "1000.0,5000.0,7000.0,0.0,0.0,0.0,0.0,,,,40.0,40.0,estimated,,\n";
        struct sample_run *s = make_run();
        struct infp_report report;
        struct infp_out out;
        const char *body;

        (void) state;
        make_labels(s, true, NULL, NULL, &report);
        infp_out_init(&out, -1, "nowhere");
        assert_true(infp_report_labels_table(&out, &report, &infp_format_csv) >= 0);
        infp_str_putc(&out.text, 0);
        body = strchr(out.text.data, '\n');
        assert_non_null(body);
        expect_fields(body + 1, wanted);
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* Fewer than two labels, or none at all. */
static void test_few(void **state)
{
        static const struct infp_table *const tables[] = { &full_table, &infp_table_marks, NULL };
        struct infp_report report;

        (void) state;
        for (unsigned n = 0; n < 2; n++) {
                struct sample_run *s = sample_new("csv");
                infp_autofree char *text = NULL;

                sample_describe(s, tables);
                put_full(s, 10 * S, 1, 0, 5);
                put_full(s, 11 * S, 1, 0, 5);
                if (n)
                        put_label(s, 11 * S, "mark", "only", NULL);
                finish(s, "run", 12 * S);
                make_labels(s, true, NULL, NULL, &report);
                assert_int_equal(report.spans.n, 0);
                text = text_of(&report, 80);
                assert_non_null(strstr(text, n ? "one label only" : "no label is set"));
                infp_report_done(&report);
                sample_free(s);
        }
}

/* A mark before the first row begins the first interval; a range that begins later has none of it. */
static void test_a_mark_before_the_first_row(void **state)
{
        static const struct infp_table *const tables[] = { &full_table, &infp_table_marks, NULL };
        struct sample_run *s = sample_new("csv");
        struct infp_report report;

        (void) state;
        sample_describe(s, tables);
        put_label(s, 9 * S, "mark", "early", NULL);
        for (unsigned i = 0; i < 4; i++)
                put_full(s, (10 + i) * S, 1, i * 500000000, 5);
        put_label(s, 12 * S, "mark", "later", NULL);
        finish(s, "run", 14 * S);
        make_labels(s, true, NULL, NULL, &report);
        assert_int_equal(report.spans.n, 1);
        assert_near(report.spans.list[0].seconds, 3);
        assert_int_equal(report.spans.list[0].n, 2);
        expect_stat(&report.spans.list[0].rss_bytes, 2, 5, 0, 5, 5);
        infp_report_done(&report);
        make_labels(s, true, "+1s", NULL, &report);
        assert_int_equal(report.labels.n, 1);
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_neighbours), cmocka_unit_test(test_from_to),
                cmocka_unit_test(test_text),       cmocka_unit_test(test_table),
                cmocka_unit_test(test_few),        cmocka_unit_test(test_a_mark_before_the_first_row),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
