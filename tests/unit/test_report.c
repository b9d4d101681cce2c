/* Statistics, cores and the report as a whole; every expectation was computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report_sample.h"

/* 1, 2, 3, 6: mean 3, squared distances 4 + 1 + 0 + 9 = 14, of the population 14 / 4 = 3.5. */
static void test_gauge(void **state)
{
        static const double values[] = { 1, 2, 3, 6 };
        struct infp_stat stat = { 0 };

        (void) state;
        assert_true(isnan(infp_stat_mean(&stat)) && isnan(infp_stat_std(&stat)));
        for (size_t i = 0; i < 4; i++)
                infp_stat_add_value(&stat, values[i], 1);
        assert_near(infp_stat_mean(&stat), 3);
        assert_near(infp_stat_std(&stat), sqrt(3.5));
        assert_near(stat.min, 1);
        assert_near(stat.max, 6);
}

/* Equal values have exactly that value as their mean, however many: 0.45 must not become 0.45000000000000001. */
static void test_mean_of_equal_values(void **state)
{
        struct infp_stat stat = { 0 };

        (void) state;
        for (int i = 0; i < 1000; i++)
                infp_stat_add_value(&stat, 0.45, 1);
        assert_true(infp_stat_mean(&stat) == 0.45 && infp_stat_std(&stat) == 0);
}

/* counter: 100 at 10 s, absent, 400 at 12 s, then it began anew: 50 at 13 s. Increases 300 in 2 s (150/s) and 50 in 1 s:
 * mean 350 / 3, variance (2 (150 - 116.67)^2 + (50 - 116.67)^2) / 3. noisy: 500, 480, 510: 0 and 30. The integer beyond 2^53
 * differs exactly. */
static void test_counters(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        const struct infp_report_metric *m;

        (void) state;
        put_numbers(s, 10 * S, 50, 100, 500, 0.5);
        put_numbers(s, 11 * S, NAN, -1, 480, 1.0);
        put_numbers(s, 12 * S, 70, 400, 510, 1.25);
        put_numbers(s, 13 * S, 60, 50, 510, 0.25);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);

        m = infp_report_find(&report, "counter");
        assert_non_null(m);
        assert_int_equal(m->stat.n, 2);
        assert_int_equal(m->stat.total_u64, 350);
        assert_near(infp_stat_mean(&m->stat), 350.0 / 3);
        assert_near(infp_stat_std(&m->stat), sqrt((2 * pow(150 - 350.0 / 3, 2) + pow(50 - 350.0 / 3, 2)) / 3));
        assert_near(m->stat.min, 50);
        assert_near(m->stat.max, 150);
        m = infp_report_find(&report, "noisy");
        assert_int_equal(m->stat.total_u64, 30);
        assert_near(m->stat.min, 0);
        m = infp_report_find(&report, "floating");
        assert_near(infp_stat_total(&m->stat, &m->column), 0.75 + 0.25);
        m = infp_report_find(&report, "gauge");
        assert_int_equal(m->stat.n, 3);
        assert_near(infp_stat_mean(&m->stat), 60);
        assert_near(infp_report_mean(&report, "gauge"), 0.6);
        assert_near(infp_report_max(&report, "gauge"), 0.7);
        assert_null(infp_report_find(&report, "nothing"));
        assert_near(report.wall_s, 4);
        assert_true(isnan(report.tree_cpu_s));
        infp_report_done(&report);
        sample_free(s);
}

static void test_big_counters(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_numbers(s, 10 * S, 0, INT64_C(9007199254740993), 0, 0);
        put_numbers(s, 11 * S, 0, INT64_C(9007199254740994), 0, 0);
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(infp_report_find(&report, "counter")->stat.total_u64, 1);
        infp_report_done(&report);
        sample_free(s);
}

/* Loads 0 and 100: (2 (1 x 0 + 2 x 1) - 2 - 1) / 2 = 0.5, normalised by (n - 1) / n = 0.5: 100. 10 20 30 40: p = .1 .2 .3 .4,
 * 2 x 3.0 - 5 = 1, / 4 = 0.25, / 0.75 = 33.33. */
static void test_disparity(void **state)
{
        double one[] = { 100, 0 }, even[] = { 50, 50, 50 }, four[] = { 30, 10, 40, 20 }, none[] = { 0, 0 };

        (void) state;
        assert_near(infp_disparity(one, 2), 100);
        assert_near(infp_disparity(even, 3), 0);
        assert_near(infp_disparity(four, 4), 100.0 / 3);
        assert_true(isnan(infp_disparity(none, 2)));
        assert_true(isnan(infp_disparity(one, 1)));
}

/* Intervals: (100, 0): disparity 100, core 0 dominates; (0, 100): 100, core 1; (50, 50): 0, nobody; (0, 0): left out;
 * (100, 0): core 0 again. Mean of 100, 100, 0, 100 = 75; two changes. Core 0: 100, 0, 50, 0, 100: mean 50. */
static void test_cores(void **state)
{
        static const int64_t user[2][6] = { { 0, 100, 100, 150, 150, 250 }, { 7, 7, 107, 157, 157, 157 } };
        static const int64_t idle[2][6] = { { 0, 0, 100, 150, 250, 250 }, { 0, 100, 100, 150, 250, 350 } };
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        for (unsigned tick = 0; tick < 6; tick++)
                for (unsigned core = 0; core < 2; core++)
                        put_core(s, (10 + tick) * S, core, user[core][tick], idle[core][tick]);
        finish(s, "host", 16 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.cores.n, 2);
        assert_near(infp_stat_mean(&report.cores.cores[0].stat), 50);
        assert_near(infp_stat_mean(&report.cores.cores[1].stat), 30);
        assert_near(infp_stat_mean(&report.cores.disparity), 75);
        assert_int_equal(report.cores.n_dominated, 3);
        assert_int_equal(report.cores.n_dominant_changes, 2);
        infp_report_done(&report);
        sample_free(s);
}

/* Report 02: core 2 comes back with a past of 31206 cs; the others keep their own numbers. */
static void test_core_that_comes_back(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_core(s, 10 * S, 2, 31000, 800);
        put_core(s, 10 * S, 3, 29870, 97300);
        put_core(s, 11 * S, 3, 29880, 97390);
        put_core(s, 12 * S, 3, 29970, 97400);
        put_core(s, 12 * S, 2, 31206, 842);
        put_core(s, 13 * S, 2, 31216, 932);
        put_core(s, 13 * S, 3, 29980, 97490);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.cores.n, 2);
        assert_int_equal(report.cores.cores[0].number, 2);
        assert_int_equal(report.cores.cores[0].stat.n, 1);
        assert_near(infp_stat_mean(&report.cores.cores[0].stat), 10);
        assert_int_equal(report.cores.cores[1].stat.n, 3);
        assert_near(infp_stat_mean(&report.cores.cores[1].stat), (10 + 90 + 10) / 3.0);
        infp_report_done(&report);
        sample_free(s);
}

/* A command's counters begin with it: what the first sample holds counts. What was attached to had a life before. */
static void test_cpu_of_the_tree(void **state)
{
        static const struct {
                const char *mode;
                uint64_t skip_s;
                double cpu, user, system;
        } cases[] = { { "run", 0, 3.5, 3, 0.5 }, { "pid", 0, 3, 2.6, 0.4 }, { "run", 1, 1, 0.8, 0.2 } };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct sample_run *s = begin();
                struct infp_report report;

                put_tree(s, 10 * S, 100, 500000000, 40, 10);
                put_tree(s, 11 * S, 300, 2500000000, 220, 30);
                put_tree(s, 12 * S, 200, 3500000000, 300, 50);
                finish(s, cases[i].mode, 13 * S);
                make(s, NULL, NULL, cases[i].skip_s * S, &report);
                assert_near(report.tree_cpu_s, cases[i].cpu);
                assert_near(report.tree_user_s, cases[i].user);
                assert_near(report.tree_system_s, cases[i].system);
                assert_true(report.tree_is_fine);
                assert_near(infp_report_max(&report, "tree_rss_bytes"), 300);
                infp_report_done(&report);
                sample_free(s);
        }
}

/* Without CPU clocks the ticks of 10 ms are taken, and said. */
static void test_cpu_of_ticks(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_tree(s, 10 * S, 100, -1, 0, 0);
        put_tree(s, 11 * S, 100, -1, 70, 20);
        finish(s, "run", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.tree_cpu_s, 0.9);
        assert_false(report.tree_is_fine);
        infp_report_done(&report);
        sample_free(s);
}

/* The last word about each source counts; what works at the end is not absent. */
static void test_absences(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_source(s, 10 * S, "gauge", "absent", "not yet there");
        put_source(s, 10 * S, "counter", "absent", "no file");
        put_source(s, 11 * S, "gauge", "ok", "");
        put_source(s, 12 * S, "counter", "denied", "no right");
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.absences.n, 1);
        assert_string_equal(report.absences.list[0].column, "counter");
        assert_string_equal(report.absences.list[0].state, "denied");
        assert_string_equal(report.absences.list[0].reason, "no right");
        infp_report_done(&report);
        make(s, NULL, "+500ms", 0, &report);
        assert_int_equal(report.absences.n, 2);
        infp_report_done(&report);
        sample_free(s);
}

static void test_nothing_was_recorded(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_out out;

        (void) state;
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        infp_out_init(&out, -1, "nowhere");
        infp_report_text(&out, &report, INFP_REPORT_ALL, NULL);
        infp_report_json(&out, &report);
        assert_non_null(strstr(out.text.data, "not measured"));
        assert_non_null(strstr(out.text.data, "\"tree_cpu_s\": null"));
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* An old run wrote 0 for the gauges of a tree without a process, before its first and after its last: 100 and 300 were seen. */
static void put_sized(struct sample_run *s, uint64_t t_ns, int64_t processes, int64_t threads, int64_t rss,
                      int64_t user)
{
        struct infp_row *row = sample_row(s, &sized_table, t_ns);
        const int64_t values[] = { processes, threads, rss, user, 0, 0 };

        for (unsigned i = 0; i < INFP_COUNT(values); i++)
                if (values[i] >= 0)
                        infp_row_i64(row, i, values[i]);
        sample_put(s);
}

static void test_empty_tree(void **state)
{
        struct sample_run *s = begin_with(&sized_table);
        struct infp_report report;
        const struct infp_report_metric *m;

        (void) state;
        put_sized(s, 10 * S, 0, 0, 0, 0);
        put_sized(s, 11 * S, 1, 4, 100, 50);
        put_sized(s, 12 * S, 2, 8, 300, 150);
        put_sized(s, 13 * S, 0, -1, -1, 170);
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        m = infp_report_find(&report, "tree_rss_bytes");
        assert_int_equal(m->stat.n, 2);
        assert_near(m->stat.min, 100);
        assert_near(infp_stat_mean(&m->stat), 200);
        assert_near(infp_report_find(&report, "tree_threads")->stat.min, 4);
        assert_near(infp_report_find(&report, "tree_processes")->stat.min, 1);
        assert_near(report.tree_user_s, 1.7);
        assert_false(infp_report_tree_unseen(&report));
        infp_report_done(&report);
        sample_free(s);
}

static void test_unseen_tree(void **state)
{
        struct sample_run *s = begin_with(&sized_table);
        struct infp_report report;
        char *text;

        (void) state;
        put_sized(s, 10 * S, 0, 0, 0, 0);
        put_sized(s, 11 * S, 0, 0, 0, 1);
        finish(s, "run", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_true(infp_report_tree_unseen(&report));
        text = text_of(&report, 80);
        assert_non_null(strstr(text, "threads     not seen"));
        assert_non_null(strstr(text, "tree: in RAM (RSS)                   not seen       not seen"));
        assert_non_null(strstr(text, "tree: by calls, caches too           not seen       not seen"));
        assert_non_null(strstr(text, "ran for less than one interval"));
        assert_null(strstr(text, " 0 B"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* 3 s of reads in a second: three were under way at once. */
static void test_disk_times(void **state)
{
        static const int64_t busy[][2] = { { 3000, 200 }, { 900, 1000 } };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(busy); i++) {
                struct sample_run *s = begin();
                struct infp_report report;
                char *text;

                for (unsigned tick = 0; tick < 2; tick++) {
                        struct infp_row *row = sample_row(s, &disk_table, (10 + tick) * S);

                        infp_row_i64(row, 0, tick * busy[i][0]);
                        infp_row_i64(row, 1, tick * busy[i][1]);
                        infp_row_i64(row, 2, tick * 4096);
                        sample_put(s);
                }
                finish(s, "host", 12 * S);
                make(s, NULL, NULL, 0, &report);
                text = text_of(&report, 80);
                assert_true(!strstr(text, "note        vDiskReadTime: the time of all requests in flight") == (i == 1));
                free(text);
                infp_report_done(&report);
                sample_free(s);
        }
}

/* The sample at the end, which comes 400 ms before its time, takes nothing off the lateness of the others: 3, 1 and 0 ms. */
static void test_early_last_tick(void **state)
{
        static const int64_t late_ms[] = { 3, 1, -400 };
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(late_ms); i++) {
                infp_row_i64(sample_row(s, &infp_table_ticks, (10 + i) * S), INFP_TICKS_LATE_NS, late_ms[i] * 1000000);
                sample_put(s);
        }
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.ticks.n, 3);
        assert_near(infp_stat_mean(&report.ticks.late_ns), 4e6 / 3);
        assert_near(report.ticks.late_ns.min, 0);
        assert_near(report.ticks.late_ns.max, 3e6);
        infp_report_done(&report);
        sample_free(s);
}

/* No line is longer than the terminal, whatever the names. */
static void test_text_fits(void **state)
{
        static const unsigned widths[] = { 80, 120 };
        struct sample_run *s = begin();
        struct infp_report report;

        (void) state;
        put_numbers(s, 10 * S, 50, 100, 500, 0.5);
        put_numbers(s, 11 * S, 51, INT64_C(900719925474099), 480, 1.0);
        for (uint64_t t = 10; t < 13; t++)
                for (int64_t core = 0; core < 40; core++)
                        put_core(s, t * S, core, (int64_t) (t - 10) * 2 * core, (int64_t) (t - 10) * 100);
        put_tree(s, 10 * S, 1, 0, 0, 0);
        put_tree(s, 11 * S, 1, 900000000, 80, 10);
        put_source(s, 10 * S, "a_column_with_a_name_that_goes_on_and_on", "broken",
                   "a reason that needs more than one line to be told, since whoever wrote it took the time to say "
                   "what is wrong");
        put_process(s, 10 * S, 1, "a name that is long and longer",
                    "/usr/bin/python3 \033[31m --and --has --many --arguments --which "
                    "--do --not --fit --in --a --line --of --a --terminal --of --whatever --width --it --may --be",
                    10 * S);
        put_use(s, 10 * S, 1, true, 80, INT64_C(90000000), INT64_C(900719925474099), -1);
        finish(s, "run", 12 * S);
        free(s->run->info.command);
        s->run->info.command = strdup(
                "python3 -c 'a command \033[31m that is long' --and --has --many --arguments --which --do --not --fit");
        make(s, NULL, NULL, 0, &report);
        for (size_t i = 0; i < INFP_COUNT(widths); i++) {
                struct infp_out out;
                char *save = NULL;

                infp_out_init(&out, -1, "nowhere");
                out.width = widths[i];
                infp_report_text(&out, &report, INFP_REPORT_ALL, NULL);
                assert_null(strchr(out.text.data, '\033'));
                for (char *line = strtok_r(out.text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                        if (infp_text_width(line, strlen(line)) > widths[i])
                                fail_msg("longer than %u: %s", widths[i], line);
                infp_out_done(&out);
        }
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gauge),
                cmocka_unit_test(test_mean_of_equal_values),
                cmocka_unit_test(test_counters),
                cmocka_unit_test(test_big_counters),
                cmocka_unit_test(test_disparity),
                cmocka_unit_test(test_cores),
                cmocka_unit_test(test_core_that_comes_back),
                cmocka_unit_test(test_cpu_of_the_tree),
                cmocka_unit_test(test_cpu_of_ticks),
                cmocka_unit_test(test_absences),
                cmocka_unit_test(test_nothing_was_recorded),
                cmocka_unit_test(test_empty_tree),
                cmocka_unit_test(test_unseen_tree),
                cmocka_unit_test(test_disk_times),
                cmocka_unit_test(test_early_last_tick),
                cmocka_unit_test(test_text_fits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
