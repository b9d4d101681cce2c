/* What engines' histograms gathered in a part of a run, in C and in SQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine_rows.h"
#include "query/duck.h"
#include "query/engine_window.h"
#include "skip_because.h"

#define TTFT "latency_ttft_s"

static struct sample_run *begin(void)
{
        static const struct infp_table *const tables[] = { &engines_table, &series_table, &samples_table, NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        put_engine(s, 7, 0, "http://a/metrics", "vllm", "m");
        return s;
}

/* "metric family le:count ... | count sum" a line. */
static void check(struct sample_run *s, uint64_t t0, uint64_t t1, const char *expected)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_engine_window window;

        infp_str_puts(&text, "");
        sample_check(s, infp_engine_window_read(s->run, t0, t1, NULL, &window, &s->err));
        for (unsigned i = 0; i < window.n; i++) {
                const struct infp_window_metric *m = &window.metrics[i];

                infp_str_printf(&text, "%llu %s %s", (unsigned long long) m->engine, m->metric, m->family);
                for (size_t k = 0; k < m->n_buckets; k++)
                        infp_str_printf(&text, " %g:%g", m->buckets[k].le, m->buckets[k].count);
                infp_str_printf(&text, " | %g %g\n", m->count, m->sum);
        }
        infp_engine_window_done(&window);
        if (strcmp(text.data ? text.data : "", expected) != 0)
                fail_msg("from %llu to %llu:\n%s", (unsigned long long) t0, (unsigned long long) t1, text.data);
}

/* The first page is the past; values that stay are not stored again. */
static void increases(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        put_counts(s, 100, 10, 500, 800, 1000, 900);
        put_counts(s, 200, 10, 502, 806, 1010, 915.5);
        put_counts(s, 300, 10, -1, 807, 1011, 917);
        sample_end(s);
        check(s, 0, 0, "7 latency_ttft_s ttft 1:2 2:7 inf:11 | 11 17\n");
        check(s, 0, 200, "7 latency_ttft_s ttft 1:0 2:0 inf:0 | 0 0\n");
        check(s, 0, 201, "7 latency_ttft_s ttft 1:2 2:6 inf:10 | 10 15.5\n");
        check(s, 201, 0, "7 latency_ttft_s ttft 1:0 2:1 inf:1 | 1 1.5\n");
        check(s, 301, 0, "7 latency_ttft_s ttft 1:0 2:0 inf:0 | 0 0\n");
        sample_free(s);
}

/* A new start loses what came between the last page and the end, and nothing else; also where one bucket did not fall. */
static void new_starts(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        put_counts(s, 100, 10, 5, 8, 10, 9);
        put_counts(s, 200, 10, 6, 9, 12, 11);
        put_counts(s, 300, 10, 1, 9, 11, 4);
        put_counts(s, 400, 10, 2, 10, 12, 5);
        sample_end(s);
        /* 1,1,2 and 1,9,11 and 1,1,1 */
        check(s, 0, 0, "7 latency_ttft_s ttft 1:3 2:11 inf:14 | 14 7\n");
        check(s, 250, 0, "7 latency_ttft_s ttft 1:2 2:10 inf:12 | 12 5\n");
        sample_free(s);
}

/* A label set that is born while the engine is watched begins at 0, one of the first page does not. What leaves the page goes on
 * when it is back. */
static void births(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_histogram(s, 10, 7, "{\"m\":\"a\"}", "ttft", TTFT);
        put_histogram(s, 20, 7, "{\"m\":\"b\"}", "ttft", TTFT);
        put_counts(s, 100, 10, 5, 8, 10, 9);
        put_counts(s, 200, 20, 1, 2, 3, 4);
        put_counts(s, 300, 10, NAN, NAN, NAN, NAN);
        put_counts(s, 400, 10, 5, 8, 11, 9.5);
        sample_end(s);
        check(s, 0, 0, "7 latency_ttft_s ttft 1:1 2:2 inf:4 | 4 4.5\n");
        sample_free(s);
}

/* A histogram on the first page of an engine that another series shares; and one of an engine that came later. */
static void first_pages(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_engine(s, 8, 1, "http://b/metrics", "vllm", "m");
        put_series(s, 5, 8, "{}", "up", "value", NAN, NULL);
        put_histogram(s, 10, 8, "{}", "ttft", TTFT);
        put_histogram(s, 20, 7, "{}", "ttft", TTFT);
        put_counts(s, 100, 20, 0, 0, 0, 0);
        put_value(s, 500, 5, 1);
        put_counts(s, 600, 10, 5, 8, 10, 9);
        put_counts(s, 900, 20, 1, 1, 1, 0.5);
        sample_end(s);
        check(s, 0, 0,
              "8 latency_ttft_s ttft 1:5 2:8 inf:10 | 10 9\n"
              "7 latency_ttft_s ttft 1:1 2:1 inf:1 | 1 0.5\n");
        sample_free(s);
}

/* Models with other edges meet at those that both have; of two families the fuller one counts; a summary has no buckets. */
static void sums(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_histogram(s, 10, 7, "{\"m\":\"a\"}", "ttft", TTFT);
        put_series(s, 20, 7, "{\"m\":\"b\"}", "ttft", "bucket", 0.5, TTFT);
        put_series(s, 21, 7, "{\"m\":\"b\"}", "ttft", "bucket", 2, TTFT);
        put_series(s, 22, 7, "{\"m\":\"b\"}", "ttft", "bucket", INFINITY, TTFT);
        put_histogram(s, 30, 7, "{}", "old_ttft", TTFT);
        put_histogram(s, 40, 7, "{}", "e2e", "latency_e2e_s");
        put_histogram(s, 50, 7, "{}", "other", NULL);
        put_series(s, 60, 7, "{}", "work", "sum", NAN, "latency_inference_s");
        put_series(s, 61, 7, "{}", "work", "count", NAN, "latency_inference_s");
        put_series(s, 70, 7, "{}", "prefill", "sum", NAN, "latency_prefill_s");
        for (uint64_t t = 100; t <= 200; t += 100) {
                const double k = t == 100 ? 0 : 1;

                put_counts(s, t, 10, 1 * k, 2 * k, 4 * k, 5 * k);
                put_value(s, t, 20, 10 * k);
                put_value(s, t, 21, 20 * k);
                put_value(s, t, 22, 40 * k);
                put_counts(s, t, 30, 1 * k, 2 * k, 4 * k, 5 * k);
                put_counts(s, t, 40, 1 * k, 1 * k, 1 * k, 0.5 * k);
                put_counts(s, t, 50, 1 * k, 1 * k, 1 * k, 0.5 * k);
                put_value(s, t, 60, 3 + k);
                put_value(s, t, 61, 2 + k);
                put_value(s, t, 70, 3 + 4 * k);
        }
        sample_end(s);
        check(s, 0, 0,
              "7 latency_e2e_s e2e 1:1 2:1 inf:1 | 1 0.5\n"
              "7 latency_inference_s work | 1 1\n"
              "7 latency_prefill_s prefill | nan 4\n"
              "7 latency_ttft_s ttft 2:22 inf:44 | 44 nan\n");
        sample_free(s);
}

/* Over the end of a segment. */
static void segments(void **state)
{
        struct sample_run *s = begin();

        (void) state;
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        put_counts(s, 100, 10, 5, 8, 10, 9);
        sample_rotate(s, 2);
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        put_counts(s, 200, 10, 6, -1, 12, 12);
        sample_end(s);
        check(s, 0, 0, "7 latency_ttft_s ttft 1:1 2:1 inf:2 | 2 3\n");
        sample_free(s);
}

static void no_engines(void **state)
{
        struct sample_run *s = sample_new("csv");

        (void) state;
        sample_tick(s, 1, 100);
        sample_end(s);
        check(s, 0, 0, "");
        sample_free(s);
}

/* Tables of these names that are not ours: nothing is known, and nothing breaks. */
static void of_another_program(void **state)
{
        static const struct infp_column keys[] = {
                INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
        };
        static const struct infp_column columns[] = {
                INFP_COLUMN(engine, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
                INFP_COLUMN(labels, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A number."),
                INFP_COLUMN(part, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
                INFP_COLUMN(value, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
        };
        static const struct infp_table series = { .name = "series",
                                                  .help = "Of the tests.",
                                                  .keys = keys,
                                                  .n_keys = 1,
                                                  .columns = columns,
                                                  .n_columns = 4,
                                                  .entity = true },
                                       samples = { .name = "engine_samples",
                                                   .help = "Of the tests.",
                                                   .columns = columns,
                                                   .n_columns = 4 };
        struct sample_run *s = sample_new("csv");
        struct infp_row *row;

        (void) state;
        row = sample_row(s, &series, 1);
        infp_row_id(row, 0, 5);
        infp_row_str(row, 1, "e");
        infp_row_str(row, 3, "bucket");
        sample_put(s);
        row = sample_row(s, &samples, 2);
        infp_row_str(row, 3, "v");
        sample_put(s);
        sample_end(s);
        check(s, 0, 0, "");
        sample_free(s);
}

static void put_cell(struct infp_str *text, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        size_t size;
        const char *word;

        if (!infp_batch_has(batch, column, row)) {
                infp_str_puts(text, "null ");
        } else if (infp_table_column(batch->table, column)->type == INFP_STR) {
                word = infp_batch_str(batch, column, row, &size);
                infp_str_put(text, word, size);
                infp_str_putc(text, ' ');
        } else {
                infp_str_printf(text, "%.10g ", infp_batch_number(batch, column, row));
        }
}

static void check_sql(struct infp_duck *duck, struct sample_run *s, const char *sql, const char *expected)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_duck_result *result;
        struct infp_batch batch;

        sample_check(s, infp_duck_query(duck, sql, &result, &s->err));
        while (infp_duck_result_next(result, &batch, &s->err) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        for (unsigned i = 0; i < infp_table_width(batch.table); i++)
                                put_cell(&text, &batch, i, row);
                        infp_str_putc(&text, ';');
                }
        infp_duck_result_free(result);
        if (strcmp(text.data ? text.data : "", expected) != 0)
                fail_msg("%s\n%s", sql, text.data);
}

/* Windows side by side add up to the whole; each comes when it is asked for. */
static void windows(void **state)
{
        struct sample_run *s = begin();
        struct infp_engine_windows *reading;
        struct infp_engine_window window;
        uint64_t t_ns, last_t_ns = 0;
        double n = 0, sum = 0;
        unsigned n_windows = 0;
        int64_t unix_ns;
        int r;

        (void) state;
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        for (uint64_t i = 0; i < 500; i++)
                put_counts(s, 1000 + 1000 * i, 10, (double) i, (double) (2 * i), (double) (3 * i), (double) i / 2);
        sample_end(s);
        sample_check(s, infp_engine_windows_open(s->run, 1000, NULL, &reading, &s->err));
        while ((r = infp_engine_windows_next(reading, &t_ns, &unix_ns, &window, &s->err)) > 0) {
                assert_int_equal(window.n, 1);
                assert_true(t_ns > last_t_ns && unix_ns % 1000 == 0);
                assert_true(window.metrics[0].count == (n_windows ? 3 : 0) || isnan(window.metrics[0].count));
                n += n_windows ? window.metrics[0].count : 0;
                sum += n_windows ? window.metrics[0].sum : 0;
                last_t_ns = t_ns;
                n_windows++;
                infp_engine_window_done(&window);
        }
        sample_check(s, r);
        assert_int_equal(infp_engine_windows_next(reading, &t_ns, &unix_ns, &window, &s->err), 0);
        infp_engine_windows_close(reading);
        assert_int_equal(n_windows, 500);
        assert_float_equal(n, 3 * 499, 0);
        assert_float_equal(sum, 499 / 2.0, 1e-9);
        sample_free(s);
}

/* A day began four hours before the machine did: the window ends where the day does. */
static void before_the_start(void **state)
{
        static const uint64_t begin_ns[] = { 0, 72000000000000 };
        struct sample_run *s = begin();
        struct infp_engine_windows *reading;
        struct infp_engine_window window;
        unsigned n = 0;
        uint64_t t_ns;
        int64_t unix_ns;

        (void) state;
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        put_counts(s, 1000, 10, 0, 0, 0, 0);
        put_counts(s, begin_ns[1] - 1000, 10, 1, 1, 1, 1);
        put_counts(s, begin_ns[1], 10, 3, 3, 3, 3);
        sample_end(s);
        sample_check(s, infp_engine_windows_open(s->run, 86400000000000, NULL, &reading, &s->err));
        while (infp_engine_windows_next(reading, &t_ns, &unix_ns, &window, &s->err) > 0) {
                assert_in_range(n, 0, 1);
                assert_int_equal(t_ns, begin_ns[n]);
                assert_int_equal(unix_ns, SAMPLE_UNIX - 14400000000000 + n * 86400000000000);
                assert_true(window.metrics[0].count == 1 + n);
                infp_engine_window_done(&window);
                n++;
        }
        infp_engine_windows_close(reading);
        assert_int_equal(n, 2);
        sample_free(s);
}

/* Of two models one is idle: it adds 0, and what the other one did stays known. */
static void an_idle_model(void **state)
{
        struct sample_run *s = begin();
        struct infp_engine_windows *reading;
        struct infp_engine_window window;
        unsigned n = 0;
        uint64_t t_ns;
        int64_t unix_ns;

        (void) state;
        put_histogram(s, 10, 7, "{\"m\":\"a\"}", "ttft", TTFT);
        put_histogram(s, 20, 7, "{\"m\":\"b\"}", "ttft", TTFT);
        put_series(s, 30, 7, "{}", "prefill", "sum", NAN, "latency_prefill_s");
        for (uint64_t i = 0; i < 4; i++) {
                put_counts(s, 1000 + 1000 * i, 10, (double) i, (double) i, (double) i, (double) i / 2);
                if (i < 2)
                        put_counts(s, 1000 + 1000 * i, 20, (double) i, (double) i, (double) i, (double) i / 2);
                put_value(s, 1000 + 1000 * i, 30, (double) i);
        }
        sample_end(s);
        sample_check(s, infp_engine_windows_open(s->run, 1000, NULL, &reading, &s->err));
        while (infp_engine_windows_next(reading, &t_ns, &unix_ns, &window, &s->err) > 0) {
                const double both = n == 0 ? 0 : n == 1 ? 2 : 1;

                assert_int_equal(window.n, 2);
                assert_true(isnan(window.metrics[0].count));  /* the page has no count of it */
                assert_true(window.metrics[1].count == both); /* assert_float_equal() accepts NAN */
                assert_true(window.metrics[1].sum == both / 2);
                infp_engine_window_done(&window);
                n++;
        }
        infp_engine_windows_close(reading);
        assert_int_equal(n, 4);
        sample_free(s);
}

/* 20 observations: 10 up to 1, 8 in 1..2, 2 beyond; rank 10 is 1, rank 18 is 2, 19 is beyond. */
static void sql(void **state)
{
        struct sample_run *s = begin();
        struct infp_duck *duck;

        (void) state;
        if (!infp_duck_available(&s->err)) {
                sample_free(s);
                SKIP_BECAUSE("DuckDB is not here");
        }
        put_histogram(s, 10, 7, "{}", "ttft", TTFT);
        put_counts(s, 100, 10, 5, 5, 5, 5);
        put_counts(s, 200, 10, 15, 23, 25, 45);
        put_counts(s, 300, 10, 15, 23, 25, 45);
        sample_end(s);
        sample_check(s, infp_duck_open(&duck, &s->err));
        sample_check(s, infp_duck_attach(duck, s->run, &s->err));
        check_sql(duck, s, "SELECT * FROM engine_quantiles",
                  "7 http://a/metrics vllm m latency_ttft_s 0.5 0 1 1 20 2 ;"
                  "7 http://a/metrics vllm m latency_ttft_s 0.9 1 2 2 20 2 ;"
                  "7 http://a/metrics vllm m latency_ttft_s 0.95 2 2 null 20 2 ;"
                  "7 http://a/metrics vllm m latency_ttft_s 0.99 2 2 null 20 2 ;");
        check_sql(duck, s, "SELECT estimate FROM engine_quantiles_between(150, 1000) WHERE quantile = 0.5", "1 ;");
        check_sql(duck, s, "SELECT count(*) FROM engine_quantiles_between(0, 150)", "0 ;");
        check_sql(duck, s, "SELECT n FROM engine_quantiles_between(NULL, 201) LIMIT 1", "20 ;");
        check_sql(duck, s, "SET VARIABLE t = (SELECT max(t_ns) FROM engine_samples)", "");
        check_sql(duck, s, "SELECT count(*) FROM engine_quantiles_between(getvariable('t'), NULL)", "0 ;");
        infp_duck_close(duck);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(increases),     cmocka_unit_test(new_starts),
                cmocka_unit_test(births),        cmocka_unit_test(first_pages),
                cmocka_unit_test(sums),          cmocka_unit_test(segments),
                cmocka_unit_test(no_engines),    cmocka_unit_test(of_another_program),
                cmocka_unit_test(windows),       cmocka_unit_test(before_the_start),
                cmocka_unit_test(an_idle_model), cmocka_unit_test(sql),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
