#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/duck.h"
#include "query/scan.h"
#include "query_sample.h"
#include "skip_because.h"

static const struct infp_table *const described[] = { &load_table,   &thing_table,        &use_table,
                                                      &silent_table, &infp_table_columns, NULL };

static void put_load(struct sample_run *s, uint64_t t_ns, int64_t busy, const char *note)
{
        struct infp_row *row = sample_row(s, &load_table, t_ns);

        infp_row_i64(row, LOAD_BUSY, busy);
        if (note)
                infp_row_str(row, LOAD_NOTE, note);
        sample_put(s);
}

static void put_thing(struct sample_run *s, uint64_t t_ns, uint64_t id, const char *label, int64_t weight)
{
        struct infp_row *row = sample_row(s, &thing_table, t_ns);

        infp_row_id(row, THING_ID, id);
        infp_row_str(row, THING_LABEL, label);
        if (weight)
                infp_row_i64(row, THING_WEIGHT, weight);
        sample_put(s);
}

static void put_use(struct sample_run *s, uint64_t t_ns, uint64_t thing, uint64_t bytes)
{
        struct infp_row *row = sample_row(s, &use_table, t_ns);

        if (thing)
                infp_row_id(row, USE_THING, thing);
        infp_row_u64(row, USE_BYTES, bytes);
        infp_row_bool(row, USE_IS_ON, bytes % 2);
        infp_row_ts(row, USE_BORN, INT64_C(1000000000000000123));
        sample_put(s);
}

/* Rows 0..9 of load in three segments; things 7 (renamed in the second) and 9; thing 8 is never described. */
static int set_up(void **state)
{
        struct sample_run *s = sample_new("parquet");

        sample_describe(s, described);
        for (unsigned i = 0; i < 10; i++) {
                put_load(s, 100 + i, 10 * i, i % 2 ? "odd" : NULL);
                put_use(s, 100 + i, i == 5 ? 0 : 7 + i % 3, UINT64_MAX - i);
                if (i == 0 || i == 4) {
                        put_thing(s, 100 + i, 7, i ? "second" : "first", i ? 0 : 3);
                        put_thing(s, 100 + i, 9, "nine", 11);
                }
                if (i == 3 || i == 6)
                        sample_rotate(s, i == 3 ? 2 : 3);
        }
        sample_end(s);
        *state = s;
        return 0;
}

static int tear_down(void **state)
{
        sample_free(*state);
        return 0;
}

static struct infp_scan *open_scan(struct sample_run *s, const char *table, const struct infp_scan_options *options)
{
        struct infp_scan *scan;

        sample_check(s, infp_scan_open(s->run, table, options, &scan, &s->err));
        return scan;
}

static unsigned column(const struct infp_scan *scan, const char *name)
{
        int at = infp_table_find(infp_scan_table(scan), name);

        assert_true(at >= 0);
        return (unsigned) at;
}

static void test_all_segments_in_order(void **state)
{
        struct infp_scan *scan = open_scan(*state, "load", NULL);
        unsigned busy = column(scan, "busy"), note = column(scan, "note"), never = column(scan, "never"), n = 0;
        struct infp_batch batch;
        struct infp_err err;

        assert_int_equal(infp_table_width(infp_scan_table(scan)), 6);
        assert_string_equal(infp_table_column(infp_scan_table(scan), busy)->unit->name, "cs");
        assert_int_equal(infp_table_column(infp_scan_table(scan), busy)->kind, INFP_COUNTER);
        assert_string_equal(infp_table_column(infp_scan_table(scan), busy)->prom, "infprof_busy_seconds_total");
        while (infp_scan_next(scan, &batch, &err) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++, n++) {
                        size_t size;

                        assert_int_equal(infp_batch_i64(&batch, 0, row), 100 + n);
                        assert_true(infp_batch_i64(&batch, 1, row) == SAMPLE_UNIX + (100 + n) / 1000 * 1000);
                        assert_int_equal(infp_batch_i64(&batch, busy, row), 10 * n);
                        assert_int_equal(infp_batch_has(&batch, note, row), n % 2);
                        assert_string_equal(n % 2 ? "odd" : "", strndupa(infp_batch_str(&batch, note, row, &size), 3));
                        assert_false(infp_batch_has(&batch, never, row));
                }
        assert_int_equal(n, 10);
        infp_scan_close(scan);
}

static void test_range_and_columns(void **state)
{
        static const char *const columns[] = { "busy", NULL };
        static const struct {
                uint64_t t0, t1;
                int64_t first;
                unsigned n;
        } cases[] = { { 0, 0, 0, 10 },     { 103, 0, 30, 7 }, { 0, 103, 0, 3 }, { 103, 107, 30, 4 },
                      { 109, 110, 90, 1 }, { 110, 0, 0, 0 },  { 0, 100, 0, 0 }, { 105, 105, 0, 0 } };

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_scan *scan = open_scan(
                        *state, "load",
                        &(struct infp_scan_options){ .t0 = cases[i].t0, .t1 = cases[i].t1, .columns = columns });
                unsigned n = 0;
                struct infp_batch batch;

                assert_int_equal(infp_table_width(infp_scan_table(scan)), 3);
                while (infp_scan_next(scan, &batch, NULL) > 0)
                        for (uint32_t row = 0; row < batch.n_rows; row++, n++)
                                assert_int_equal(infp_batch_i64(&batch, 2, row), cases[i].first + 10 * n);
                assert_int_equal(n, cases[i].n);
                infp_scan_close(scan);
        }
}

/* Out of order within a batch: rows of two threads in one table. */
static void test_range_of_unsorted_rows(void **state)
{
        struct sample_run *s = sample_new("csv");
        static const uint64_t stamps[] = { 5, 9, 6, 1, 7, 8, 2, 6 };
        struct infp_scan *scan;
        struct infp_batch batch;
        unsigned n = 0;

        (void) state;
        for (unsigned i = 0; i < 8; i++)
                put_load(s, stamps[i], i, NULL);
        sample_end(s);
        scan = open_scan(s, "load", &(struct infp_scan_options){ .t0 = 6, .t1 = 9 });
        while (infp_scan_next(scan, &batch, NULL) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++, n++)
                        assert_int_equal(infp_batch_i64(&batch, 2, row), ((int[]){ 2, 4, 5, 7 })[n]);
        assert_int_equal(n, 4);
        infp_scan_close(scan);
        sample_free(s);
}

static void test_unknown_names(void **state)
{
        static const char *const columns[] = { "busy", "nonsense", NULL };
        struct sample_run *s = *state;
        struct infp_scan *scan;
        struct infp_err err;

        assert_int_equal(infp_scan_open(s->run, "nonsense", NULL, &scan, &err), -ENOENT);
        assert_non_null(strstr(err.text, "no table nonsense"));
        assert_null(scan);
        assert_int_equal(infp_scan_open(s->run, "load", &(struct infp_scan_options){ .columns = columns }, &scan, &err),
                         -ENOENT);
        assert_non_null(strstr(err.text, "no column nonsense"));
        for (const char *const *name = (const char *const[]){ "../load", "", ".", "a/b", "load;", NULL }; *name; name++)
                assert_int_equal(infp_scan_open(s->run, *name, NULL, &scan, &err), -ENOENT);
}

static void test_declared_but_empty(void **state)
{
        struct infp_scan *scan = open_scan(*state, "silent", NULL);
        struct infp_batch batch;

        assert_int_equal(infp_table_width(infp_scan_table(scan)), 6);
        assert_int_equal(infp_table_column(infp_scan_table(scan), column(scan, "never"))->type, INFP_F64);
        assert_int_equal(infp_scan_next(scan, &batch, NULL), 0);
        infp_scan_close(scan);
}

/* Row i of `use` names thing 7 + i % 3, row 5 none; 7 is "second" and has lost its weight, 8 is unknown, 9 is "nine". */
static void check_names(struct infp_scan *scan)
{
        unsigned thing = column(scan, "thing"), label = column(scan, "label"), weight = column(scan, "weight"), n = 0;
        struct infp_batch batch;

        assert_int_equal(label, thing + 1);
        assert_int_equal(weight, thing + 2);
        while (infp_scan_next(scan, &batch, NULL) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++, n++) {
                        unsigned which = n == 5 ? 8 : 7 + n % 3;
                        size_t size;
                        const char *text = infp_batch_str(&batch, label, row, &size);

                        assert_int_equal(infp_batch_has(&batch, thing, row), n != 5);
                        assert_int_equal(infp_batch_has(&batch, label, row), which != 8);
                        assert_int_equal(infp_batch_has(&batch, weight, row), which == 9);
                        if (which == 9)
                                assert_int_equal(infp_batch_i64(&batch, weight, row), 11);
                        assert_string_equal(strndupa(text, size), which == 7 ? "second" : which == 9 ? "nine" : "");
                        assert_true(infp_batch_u64(&batch, column(scan, "bytes"), row) == UINT64_MAX - n);
                }
        assert_int_equal(n, 10);
}

static void test_names(void **state)
{
        struct infp_scan *scan = open_scan(*state, "use", &(struct infp_scan_options){ .names = true });

        check_names(scan);
        infp_scan_close(scan);
}

/* Only what was asked for comes out: an attribute without its id, an id with its attributes. */
static void test_names_of_chosen_columns(void **state)
{
        static const char *const attribute[] = { "label", NULL }, *const id[] = { "thing", NULL };
        struct infp_scan *scan =
                open_scan(*state, "use", &(struct infp_scan_options){ .names = true, .columns = attribute });
        struct infp_batch batch;
        size_t size;

        assert_int_equal(infp_table_width(infp_scan_table(scan)), 3);
        assert_int_equal(infp_scan_next(scan, &batch, NULL), 1);
        assert_string_equal(strndupa(infp_batch_str(&batch, 2, 0, &size), 6), "second");
        infp_scan_close(scan);
        scan = open_scan(*state, "use", &(struct infp_scan_options){ .names = true, .columns = id });
        assert_int_equal(infp_table_width(infp_scan_table(scan)), 5);
        infp_scan_close(scan);
}

/* Cuts a file to `size` bytes, or that many off its end. */
static void cut(struct sample_run *s, const char *path, long size)
{
        int fd = openat(s->run->fd, path, O_RDWR);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, size < 0 ? lseek(fd, 0, SEEK_END) + size : size), 0);
        close(fd);
}

static unsigned count_rows(struct sample_run *s, const char *table)
{
        struct infp_scan *scan = open_scan(s, table, NULL);
        struct infp_batch batch;
        unsigned n = 0;
        int r;

        while ((r = infp_scan_next(scan, &batch, &s->err)) > 0)
                n += batch.n_rows;
        sample_check(s, r);
        infp_scan_close(scan);
        return n;
}

/* Half a message at the end, an empty segment, one that is missing. */
static void test_torn_segments(void **state)
{
        struct sample_run *s = *state;

        cut(s, "load/000002.arrows", -100);
        assert_int_equal(count_rows(s, "load"), 7); /* the 3 rows of the middle segment are one batch */
        cut(s, "load/000003.arrows", 0);
        assert_int_equal(count_rows(s, "load"), 4);
        assert_int_equal(unlinkat(s->run->fd, "load/000001.arrows", 0), 0);
        assert_int_equal(count_rows(s, "load"), 0);
}

static int next_rows(void *context, struct infp_batch *ret, struct infp_err *err)
{
        return infp_scan_next(context, ret, err);
}

/* The first segment as Parquet, the others as Arrow: the same rows with the same types. */
static void put_span(struct sample_run *s, uint64_t t_ns, int64_t duration_ns, const char *name)
{
        struct infp_row *row = sample_row(s, &infp_table_spans, t_ns);

        infp_row_str(row, INFP_SPANS_NAME, name);
        if (duration_ns >= 0)
                infp_row_i64(row, INFP_SPANS_DURATION_NS, duration_ns);
        sample_put(s);
}

/* Names of the spans of a range, by their first letters. */
static void expect_spans(struct sample_run *s, uint64_t t0, uint64_t t1, const char *expected)
{
        static const char *const columns[] = { "name", NULL };
        struct infp_scan *scan =
                open_scan(s, "spans", &(struct infp_scan_options){ .t0 = t0, .t1 = t1, .columns = columns });
        unsigned name = column(scan, "name"), n = 0;
        struct infp_batch batch;
        char found[16] = "";

        assert_int_equal(infp_table_width(infp_scan_table(scan)), 3);
        while (infp_scan_next(scan, &batch, &s->err) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        size_t size;

                        found[n++] = *infp_batch_str(&batch, name, row, &size);
                }
        infp_scan_close(scan);
        assert_string_equal(found, expected);
}

static void expect_spans_of_ranges(struct sample_run *s)
{
        expect_spans(s, 0, 0, "abcd");
        expect_spans(s, 500, 600, "bd"); /* the long one, of whose stamp nothing lies near; the open one */
        expect_spans(s, 110, 300, "bd"); /* a ends at 110 */
        expect_spans(s, 109, 300, "abd");
        expect_spans(s, 1000, 0, "bcd");
        expect_spans(s, 3700, 4000, "d"); /* b ends at 3700 */
        expect_spans(s, 0, 150, "ab");
}

/* A span's stamp is its begin: its row comes when it ends, behind those of a whole hour. */
static void test_spans_are_found_by_any_part_of_them(void **state)
{
        static const struct infp_table *const tables[] = { &infp_table_spans, &infp_table_columns, NULL };
        struct sample_run *s = sample_new("parquet");
        struct infp_duck *duck;

        (void) state;
        sample_describe(s, tables);
        put_span(s, 100, 10, "a");
        sample_rotate(s, 2);
        put_span(s, 100, 3600, "b");
        put_span(s, 2000, 5, "c");
        put_span(s, 200, -1, "d");
        sample_end(s);
        expect_spans_of_ranges(s);
        if (infp_duck_available(NULL)) {
                struct infp_scan *scan = open_scan(s, "spans", &(struct infp_scan_options){ .t1 = 0 });
                struct infp_rows rows = { infp_scan_table(scan), scan, next_rows };
                uint64_t n;

                sample_check(s, infp_duck_open(&duck, &s->err));
                sample_check(s, infp_duck_rows_to_parquet(duck, &rows, s->run->fd, "spans/000003.parquet", 0666, &n,
                                                          &s->err));
                infp_scan_close(scan);
                infp_duck_close(duck);
                assert_int_equal(unlinkat(s->run->fd, "spans/000001.arrows", 0), 0);
                assert_int_equal(unlinkat(s->run->fd, "spans/000002.arrows", 0), 0);
                expect_spans_of_ranges(s);
        }
        sample_free(s);
}

static void test_parquet_beside_arrow(void **state)
{
        struct sample_run *s = *state;
        static const char *const tables[] = { "load", "use", "thing", "columns" };
        struct infp_duck *duck;
        uint64_t n;

        if (!infp_duck_available(NULL))
                SKIP_BECAUSE("DuckDB was not found");
        sample_check(s, infp_duck_open(&duck, &s->err));
        for (unsigned i = 0; i < 4; i++) {
                /* Rows before t_ns 104 are those of the first segment. */
                struct infp_scan *scan = open_scan(s, tables[i], &(struct infp_scan_options){ .t1 = 104 });
                struct infp_rows rows = { infp_scan_table(scan), scan, next_rows };
                char from[64], to[64];

                snprintf(from, sizeof(from), "%s/000001.arrows", tables[i]);
                snprintf(to, sizeof(to), "%s/000001.parquet", tables[i]);
                sample_check(s, infp_duck_rows_to_parquet(duck, &rows, s->run->fd, to, 0666, &n, &s->err));
                infp_scan_close(scan);
                assert_int_equal(unlinkat(s->run->fd, from, 0), 0);
        }
        assert_true(n > 30); /* of columns, the last one */
        infp_duck_close(duck);
        test_all_segments_in_order(state);
        test_range_and_columns(state);
        test_names(state);
        test_declared_but_empty(state);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_all_segments_in_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_range_and_columns, set_up, tear_down),
                cmocka_unit_test(test_range_of_unsorted_rows),
                cmocka_unit_test(test_spans_are_found_by_any_part_of_them),
                cmocka_unit_test_setup_teardown(test_unknown_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_declared_but_empty, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_names_of_chosen_columns, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_torn_segments, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_parquet_beside_arrow, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
