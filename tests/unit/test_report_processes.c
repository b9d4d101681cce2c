/* The report's list of processes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report_sample.h"

/* 1 lived before: 5.5 s - 5 s; its peak is from before. 2 began in the range: all of its 3 s, and the kernel's peak. 3 has
 * ticks alone: 120 cs - 20 cs. 4's clock could not be read when it ended: its ticks know of 2.4 s. 5 and 6 share the last
 * place by memory. 7 has the most memory, and hardly any CPU time. */
static struct sample_run *some_processes(void)
{
        struct sample_run *s = begin();

        put_process(s, 10 * S, 1, "old", "/opt/old --x", 1 * S);
        put_process(s, 10 * S, 3, "ticks", "ticks", 2 * S);
        put_process(s, 12 * S, 2, "sh", "sh", 12 * S - 5000000);
        put_process(s, 13 * S, 2, "new", "python3 new.py", 12 * S - 5000000);
        put_process(s, 12 * S, 4, "ended", NULL, 12 * S);
        put_process(s, 10 * S, 5, "five", "five", 3 * S);
        put_process(s, 10 * S, 6, "six", "six", 3 * S);
        put_process(s, 10 * S, 7, "big", "big", 3 * S);
        put_use(s, 10 * S, 1, true, 500, 5000, 100, 9000);
        put_use(s, 10 * S, 3, true, 20, -1, 50, -1);
        put_use(s, 10 * S, 5, true, 0, 100, 60, -1);
        put_use(s, 10 * S, 6, true, 0, 100, 70, -1);
        put_use(s, 10 * S, 7, true, 0, 500, 8000, -1);
        put_use(s, 12 * S, 2, true, 40, 500, 200, 200);
        put_use(s, 12 * S, 4, true, 30, 300, 10, -1);
        put_use(s, 13 * S, 1, true, 550, 5500, 80, 9000);
        put_use(s, 13 * S, 2, true, 300, 3000, 300, 700);
        put_use(s, 13 * S, 3, true, 120, -1, 40, -1);
        put_use(s, 13 * S, 4, true, 240, -1, -1, -1);
        put_use(s, 13 * S, 5, true, 0, 300, 60, -1);
        put_use(s, 13 * S, 6, true, 0, 300, 70, -1);
        put_use(s, 13 * S, 7, true, 0, 501, 7000, -1);
        put_tree(s, 10 * S, 100, 0, 0, 0);
        put_tree(s, 13 * S, 100, INT64_C(10000000000), 0, 0);
        return s;
}

static void test_processes(void **state)
{
        static const struct {
                int64_t pid;
                const char *name, *command;
                double cpu_s, share, rss;
        } expected[] = {
                { 20, "new", "python3 new.py", 3, 30, 700 },
                { 40, "ended", NULL, 2.4, 24, 10 },
                { 30, "ticks", "ticks", 1, 10, 50 },
                { 10, "old", "/opt/old --x", 0.5, 5, 100 },
                { 60, "six", "six", 0.2, 2, 70 },
                { 70, "big", "big", 0.001, 0.01, 8000 },
        };
        struct sample_run *s = some_processes();
        struct infp_report report;
        char *text;

        (void) state;
        finish(s, "pid", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.processes.n_seen, 7);
        assert_int_equal(report.processes.n, INFP_COUNT(expected));
        assert_false(report.processes.beyond_tree);
        for (size_t i = 0; i < INFP_COUNT(expected); i++) {
                const struct infp_report_process *p = &report.processes.list[i];

                assert_int_equal(p->pid, expected[i].pid);
                assert_string_equal(p->name, expected[i].name);
                assert_string_equal(p->command ? p->command : "-", expected[i].command ? expected[i].command : "-");
                assert_near(p->cpu_s, expected[i].cpu_s);
                assert_near(p->cpu_share_percent, expected[i].share);
                assert_near(p->rss_peak_bytes, expected[i].rss);
        }
        assert_int_equal(report.processes.list[0].first_unix_ns, SAMPLE_UNIX + (int64_t) (12 * S));
        assert_int_equal(report.processes.list[0].last_unix_ns, SAMPLE_UNIX + (int64_t) (13 * S));
        text = text_of(&report, 80);
        assert_non_null(strstr(text, "       20 new               3.00 s   30.0 %     700 B  python3 new.py\n"));
        assert_non_null(strstr(text, "  old --x\n"));
        assert_non_null(strstr(text, "The 5 of 7 with the most CPU time, and the one with the most memory."));
        free(text);
        infp_report_done(&report);
        /* What a command used before its first row is of the run as well. */
        free(s->run->info.mode);
        s->run->info.mode = strdup("run");
        make(s, NULL, NULL, 0, &report);
        assert_string_equal(report.processes.list[0].name, "old");
        assert_near(report.processes.list[0].cpu_s, 5.5);
        assert_near(report.processes.list[0].rss_peak_bytes, 9000);
        infp_report_done(&report);
        sample_free(s);
}

/* Where others were recorded the shares are of all CPUs: 3 s in 4 s of 2 CPUs. */
static void test_processes_of_the_machine(void **state)
{
        struct sample_run *s = some_processes();
        struct infp_report report;

        (void) state;
        put_use(s, 13 * S, 8, false, 1, 10, 5, -1);
        infp_row_i64(sample_row(s, &host_table, 10 * S), 2, 2);
        sample_put(s);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_true(report.processes.beyond_tree);
        assert_near(report.processes.list[0].cpu_share_percent, 37.5);
        infp_report_done(&report);
        sample_free(s);
}

/* Of more processes than are compared the rows of the later ones are counted, and the report says so. */
static void test_too_many_processes(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        char *text;

        (void) state;
        for (unsigned i = 1; i <= INFP_REPORT_MAX_PROCESSES + 3; i++) {
                put_use(s, 11 * S, i, true, 1, i, 10, -1);
                if (i % 4096 == 0)
                        sample_flush(s);
        }
        put_use(s, 12 * S, 5, true, 700, 7000000, 10, -1);
        put_use(s, 12 * S, INFP_REPORT_MAX_PROCESSES + 1, true, 700, 9000000, 10, -1);
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.processes.n_seen, INFP_REPORT_MAX_PROCESSES);
        assert_int_equal(report.processes.n_rows_left_out, 4);
        assert_int_equal(report.processes.list[0].id, 5);
        assert_near(report.processes.list[0].cpu_s, 7000);
        assert_int_equal(report.processes.list[1].id, INFP_REPORT_MAX_PROCESSES);
        text = text_of(&report, 120);
        assert_non_null(
                strstr(text, "Only the first 65,536 processes were compared; 4 rows of later ones were left out."));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}
int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_processes),
                cmocka_unit_test(test_processes_of_the_machine),
                cmocka_unit_test(test_too_many_processes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
