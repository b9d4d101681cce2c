/* A part of a run by marks, clock times and distances; the clock of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "analyze/range.h"
#include "analyze/run_clock.h"
#include "base/mem.h"
#include "query_sample.h"

#define S UINT64_C(1000000000)

/* Of an engine's rows only their times count here. */
static const struct infp_column page_columns[] = {
        INFP_COLUMN(system_requests_running, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Running."),
};
static const struct infp_table page_table = {
        .name = "vllm", .help = "Pages.", .columns = page_columns, .n_columns = 1
};

static struct sample_run *begin(void)
{
        static const struct infp_table *const tables[] = { &infp_table_marks,    &infp_table_clock, &infp_table_ticks,
                                                           &infp_table_requests, &page_table,       NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

/* Ends it as a run from 10 s to `end` on the monotonic clock. */
static void finish(struct sample_run *s, uint64_t end_ns)
{
        sample_end(s);
        s->run->info.started_t_ns = 10 * S;
        s->run->info.started_unix_ns = SAMPLE_UNIX + (int64_t) (10 * S);
        s->run->info.ended_t_ns = end_ns;
}

static void put_mark(struct sample_run *s, uint64_t t_ns, const char *tag)
{
        infp_row_str(sample_row(s, &infp_table_marks, t_ns), INFP_MARKS_TAG, tag);
        sample_put(s);
}

static void test_range(void **state)
{
        static const struct {
                const char *from, *to;
                uint64_t skip_s, t0, t1;
        } cases[] = {
                { NULL, NULL, 0, 10 * S, 30 * S + 1 },
                { NULL, NULL, 5, 15 * S, 30 * S + 1 },
                { "+2s", "-3s", 0, 12 * S, 27 * S + 1 },
                { "warm", "done", 0, 13 * S, 20 * S },
                { "warm", "warm", 0, 0, 0 },
                { "done", "done", 0, 0, 0 },
                { "04:00:14Z", "2025-11-28T04:00:15.500Z", 0, 14 * S, 15500000000 },
                { "2025-11-28 06:00:14+02:00", NULL, 0, 14 * S, 30 * S + 1 },
                { "-2m", NULL, 0, 10 * S, 30 * S + 1 },
                { "again", "again", 0, 0, 0 },
                { "back\\slash", "done", 0, 19 * S, 20 * S },
                { "back\\\\slash", "done", 0, 19 * S, 20 * S },
        };
        struct sample_run *s = begin();

        (void) state;
        infp_row_ts(sample_row(s, &infp_table_clock, 10 * S), INFP_CLOCK_REALTIME, SAMPLE_UNIX + (int64_t) (10 * S));
        sample_put(s);
        put_mark(s, 13 * S, "warm");
        put_mark(s, 18 * S, "again");
        put_mark(s, 19 * S, "back\\\\slash"); /* as texts are recorded */
        put_mark(s, 20 * S, "done");
        put_mark(s, 25 * S, "again");
        finish(s, 30 * S);
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_range range;
                const int r = infp_range_find(s->run, cases[i].from, cases[i].to, cases[i].skip_s * S, &range, &s->err);

                if (!cases[i].t1) { /* from and to are the same mark */
                        assert_int_equal(r, -EINVAL);
                        continue;
                }
                sample_check(s, r);
                assert_int_equal(range.t0, cases[i].t0);
                assert_int_equal(range.t1, cases[i].t1);
        }
        sample_free(s);
}

static void put_request(struct sample_run *s, uint64_t t_ns, const char *load, uint64_t end_ns)
{
        struct infp_row *row = sample_row(s, &infp_table_requests, t_ns);

        infp_row_str(row, INFP_REQUESTS_LOAD, load);
        if (end_ns)
                infp_row_i64(row, INFP_REQUESTS_END_NS, (int64_t) (end_ns - t_ns));
        sample_put(s);
}

/* A load is a range by its name, `ready` the first page of an engine; a mark of the same name is what was meant. */
static void test_names(void **state)
{
        static const struct {
                const char *from, *to;
                uint64_t t0, t1;
        } cases[] = {
                { "one stream", "one stream", 14 * S, 19 * S + 1 },
                { "one stream", "four", 14 * S, 24 * S + 1 },
                { "four", NULL, 20 * S, 30 * S + 1 },
                { "ready", NULL, 13 * S, 30 * S + 1 },
                { NULL, "ready", 10 * S, 13 * S + 1 },
                { "both", NULL, 28 * S, 30 * S + 1 },
        };
        struct sample_run *s = begin();

        (void) state;
        infp_row_i64(sample_row(s, &page_table, 13 * S), 0, 1);
        sample_put(s);
        infp_row_i64(sample_row(s, &page_table, 14 * S), 0, 1);
        sample_put(s);
        put_request(s, 14 * S, "one stream", 19 * S); /* it ends after the next one */
        put_request(s, 16 * S, "one stream", 17 * S);
        put_request(s, 20 * S, "four", 24 * S);
        put_request(s, 22 * S, "four", 0);
        put_request(s, 26 * S, "both", 27 * S);
        put_mark(s, 28 * S, "both");
        finish(s, 30 * S);
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_range range;

                sample_check(s, infp_range_find(s->run, cases[i].from, cases[i].to, 0, &range, &s->err));
                assert_int_equal(range.t0, cases[i].t0);
                assert_int_equal(range.t1, cases[i].t1);
        }
        sample_free(s);
}

static void test_bad_ranges(void **state)
{
        static const struct {
                const char *from, *to, *text;
        } cases[] = {
                { "no such tag", NULL, "warm" },
                { "ready", NULL, "nor the name of a load" },
                { "+5x", NULL, "+5x" },
                { "-", NULL, "-5m" },
                { "25:00:00", NULL, "25:00:00" },
                { "+20s", "+10s", "20.000 s" },
                { NULL, "2025-13-01T00:00:00Z", "--to" },
                { "04:00:14 rubbish", NULL, "warm" },
                { "+10s", "warm", "after --from (it has none)" },
        };
        struct sample_run *s = begin();

        (void) state;
        put_mark(s, 13 * S, "warm");
        finish(s, 30 * S);
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_range range;

                assert_int_equal(infp_range_find(s->run, cases[i].from, cases[i].to, 0, &range, &s->err), -EINVAL);
                assert_non_null(strstr(s->err.text, cases[i].text));
        }
        sample_free(s);
}

/* A clock that was set in between: the newest anchor before the moment holds, in both directions. */
static void test_anchors(void **state)
{
        struct sample_run *s = begin();
        struct infp_run_clock clock;

        (void) state;
        infp_row_ts(sample_row(s, &infp_table_clock, 10 * S), INFP_CLOCK_REALTIME, 1000 * (int64_t) S);
        sample_put(s);
        infp_row_ts(sample_row(s, &infp_table_clock, 20 * S), INFP_CLOCK_REALTIME, 5000 * (int64_t) S);
        sample_put(s);
        finish(s, 30 * S);
        sample_check(s, infp_run_clock_read(s->run, &clock, &s->err));
        assert_int_equal(clock.n, 2);
        assert_int_equal(infp_run_clock_unix_ns(&clock, 12 * S), 1002 * S);
        assert_int_equal(infp_run_clock_unix_ns(&clock, 9 * S), 999 * S);
        assert_int_equal(infp_run_clock_unix_ns(&clock, 21 * S), 5001 * S);
        assert_int_equal(infp_run_clock_t_ns(&clock, 1003 * (int64_t) S), 13 * S);
        assert_int_equal(infp_run_clock_t_ns(&clock, 5002 * (int64_t) S), 22 * S);
        infp_run_clock_done(&clock);
        sample_free(s);
}

/* Berlin: +01:00 in winter, +02:00 in summer. A time without a date is the next one after the start of the run. */
static void test_clock_times(void **state)
{
        static const int64_t near =
                INT64_C(1764370800) * 1000000000; /* 2025-11-28 23:00:00 UTC, 00:00 of the 29th in Berlin */
        static const struct {
                const char *text;
                int64_t unix_s; /* 0: not a time */
        } cases[] = {
                { "2025-11-28T23:30:00Z", 1764372600 },
                { "2025-11-29T00:30:00", 1764372600 },
                { "00:30", 1764372600 },
                { "23:30:00Z", 1764372600 },
                { "22:30:00Z", 1764455400 },
                { "2026-07-01T12:00:00", 1782900000 },
                { "2026-07-01 12:00:00 +0200", 1782900000 },
                { "2026-07-01T12:00:00-03", 1782918000 },
                { "12", 0 },
                { "12:60", 0 },
                { "2026-07-32T00:00:00", 0 },
                { "", 0 },
                { "12:00:00+", 0 },
                { "noon", 0 },
        };
        int64_t unix_ns;

        (void) state;
        setenv("TZ", "Europe/Berlin", 1);
        tzset();
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                const int r = infp_clock_parse(cases[i].text, near, near + (int64_t) 86400 * 1000000000, &unix_ns);

                assert_int_equal(r, cases[i].unix_s ? 0 : -EINVAL);
                if (!r)
                        assert_int_equal(unix_ns / 1000000000, cases[i].unix_s);
        }
        assert_int_equal(infp_clock_parse("2025-11-28T23:30:00.25Z", near, near, &unix_ns), 0);
        assert_int_equal(unix_ns % 1000000000, 250000000);
        /* A run that is over before the next day has that time: it is today's, before the run. */
        assert_int_equal(infp_clock_parse("00:00:01Z", near, near + 1000000000, &unix_ns), 0);
        assert_true(unix_ns <= near);
        setenv("TZ", "UTC", 1);
        tzset();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_range),   cmocka_unit_test(test_names),       cmocka_unit_test(test_bad_ranges),
                cmocka_unit_test(test_anchors), cmocka_unit_test(test_clock_times),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
