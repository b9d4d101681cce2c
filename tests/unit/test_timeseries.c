#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/series.h"
#include "query_sample.h"

#define S(seconds) ((uint64_t) ((seconds) *1000000000.0))

static const struct infp_table *const described[] = { &load_table, &device_table, &use_table, NULL };

static void put_load(struct sample_run *s, double at, int64_t busy, const char *note)
{
        struct infp_row *row = sample_row(s, &load_table, S(at));

        infp_row_i64(row, LOAD_BUSY, busy);
        if (note)
                infp_row_str(row, LOAD_NOTE, note);
        sample_put(s);
}

static void put_device(struct sample_run *s, double at, const char *name, int64_t heat)
{
        struct infp_row *row = sample_row(s, &device_table, S(at));

        infp_row_str(row, DEVICE_DEVICE, name);
        infp_row_i64(row, DEVICE_HEAT, heat);
        sample_put(s);
}

/* Periods: load 1 s, device 5 s (sample_new). Ticks 0 to 24, each second. load stops after tick 3 and is back at tick 8; of the
 * devices b comes first, a later, both once. */
static struct sample_run *make_run(void)
{
        struct sample_run *s = sample_new("parquet");

        sample_describe(s, described);
        for (unsigned i = 0; i < 25; i++) {
                sample_tick(s, i, S(10.0 + i));
                if (i <= 3 || i >= 8)
                        put_load(s, 10.25 + i, i, i == 2 ? "two" : NULL);
                if (i == 1)
                        put_device(s, 11.9, "b", 70);
                if (i == 4)
                        put_device(s, 14.5, "a", 60);
        }
        sample_end(s);
        return s;
}

static struct infp_series *open_series(struct sample_run *s, uint64_t t0, uint64_t t1)
{
        struct infp_series *series;

        sample_check(s, infp_series_open(s->run, t0, t1, &series, &s->err));
        return series;
}

static unsigned column(const struct infp_series *series, const char *name)
{
        int at = infp_table_find(infp_series_table(series), name);

        assert_true(at >= 0);
        return (unsigned) at;
}

static void test_columns(void **state)
{
        static const char *const expected[] = { "timestamp",      "busy",         "busy_time",
                                                "device0_device", "device0_heat", "device0_heat_time",
                                                "device1_device", "device1_heat", "device1_heat_time",
                                                "level",          "level_time",   "never",
                                                "never_time",     "note" };
        struct sample_run *s = make_run();
        struct infp_series *series = open_series(s, 0, 0);
        const struct infp_table *table = infp_series_table(series);

        (void) state;
        assert_true(table->plain);
        assert_int_equal(infp_table_width(table), sizeof(expected) / sizeof(expected[0]));
        for (unsigned i = 0; i < infp_table_width(table); i++)
                assert_string_equal(infp_table_column(table, i)->name, expected[i]);
        assert_int_equal(infp_table_column(table, column(series, "never"))->type, INFP_F64); /* no row ever has one */
        assert_int_equal(infp_table_column(table, column(series, "never_time"))->type, INFP_I64);
        assert_int_equal(infp_table_column(table, column(series, "device0_device"))->type, INFP_STR);
        infp_series_close(series);
        sample_free(s);
}

static int64_t ms(double at)
{
        return SAMPLE_UNIX / 1000000 + (int64_t) (at * 1000);
}

/* What tick i shows of load: its own row, carried over two periods, then nothing until it is back. */
static int shown_load(unsigned i)
{
        if (i <= 3 || i >= 8)
                return (int) i;
        return i == 4 || i == 5 ? 3 : -1; /* the row of 13.25 s: 0.75 and 1.75 s old; at tick 6 2.75 s */
}

static void check_row(const struct infp_series *series, const struct infp_batch *batch, uint32_t row, unsigned i)
{
        int load = shown_load(i);
        /* b at 11.9: up to 10 s old, from tick 1 (11 s to 12 s) to tick 11 (21 s); a at 14.5: tick 4 to 14. */
        bool has_b = i >= 1 && i <= 11, has_a = i >= 4 && i <= 14;
        size_t size;
        const char *text;

        assert_int_equal(infp_batch_i64(batch, 0, row), ms(10.0 + i));
        assert_int_equal(infp_batch_has(batch, column(series, "busy"), row), load >= 0);
        assert_int_equal(infp_batch_has(batch, column(series, "busy_time"), row), load >= 0);
        if (load >= 0) {
                assert_int_equal(infp_batch_i64(batch, column(series, "busy"), row), load);
                assert_int_equal(infp_batch_i64(batch, column(series, "busy_time"), row), ms(10.25 + load));
        }
        text = infp_batch_str(batch, column(series, "note"), row, &size);
        assert_int_equal(infp_batch_has(batch, column(series, "note"), row), i == 2);
        assert_string_equal(strndupa(text, size), i == 2 ? "two" : "");
        assert_false(infp_batch_has(batch, column(series, "never"), row));
        assert_false(infp_batch_has(batch, column(series, "never_time"), row));
        assert_int_equal(infp_batch_has(batch, column(series, "device0_heat"), row), has_b);
        assert_int_equal(infp_batch_has(batch, column(series, "device1_heat"), row), has_a);
        if (has_b) {
                assert_int_equal(infp_batch_i64(batch, column(series, "device0_heat"), row), 70);
                assert_int_equal(infp_batch_i64(batch, column(series, "device0_heat_time"), row), ms(11.9));
                assert_string_equal(strndupa(infp_batch_str(batch, column(series, "device0_device"), row, &size), 1),
                                    "b");
        }
}

static unsigned check_rows(struct infp_series *series, unsigned from)
{
        struct infp_batch batch;
        struct infp_err err = { "" };
        unsigned n = 0;
        int r;

        while ((r = infp_series_next(series, &batch, &err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++, n++)
                        check_row(series, &batch, row, from + n);
        assert_int_equal(r, 0);
        return n;
}

static void test_rows(void **state)
{
        struct sample_run *s = make_run();
        struct infp_series *series = open_series(s, 0, 0);

        (void) state;
        assert_int_equal(check_rows(series, 0), 25);
        infp_series_close(series);
        sample_free(s);
}

/* A range changes which rows there are, not what they hold. */
static void test_range(void **state)
{
        struct sample_run *s = make_run();
        struct infp_series *series = open_series(s, S(15), S(18));

        (void) state;
        assert_int_equal(check_rows(series, 5), 3);
        infp_series_close(series);
        sample_free(s);
}

/* More text than a batch's first memory holds; more rows than one batch. */
static void test_long_texts_and_many_ticks(void **state)
{
        struct sample_run *s = sample_new("parquet");
        static char text[30001];
        struct infp_series *series;
        struct infp_batch batch;
        unsigned n = 0;

        (void) state;
        memset(text, 'x', 30000);
        sample_describe(s, described);
        for (unsigned i = 0; i < 1500; i++) {
                text[0] = (char) ('a' + i % 26);
                sample_tick(s, i, S(i));
                put_load(s, i, i, i % 100 ? "short" : text);
                if (i % 20 == 0)
                        sample_flush(s);
        }
        sample_end(s);
        series = open_series(s, 0, 0);
        while (infp_series_next(series, &batch, NULL) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++, n++) {
                        size_t size;
                        const char *note = infp_batch_str(&batch, column(series, "note"), row, &size);

                        assert_int_equal(infp_batch_i64(&batch, column(series, "busy"), row), n);
                        assert_int_equal(size, n % 100 ? 5 : 30000);
                        if (n % 100 == 0)
                                assert_int_equal(note[0], 'a' + n % 26);
                }
        assert_int_equal(n, 1500);
        infp_series_close(series);
        sample_free(s);
}

static void test_without_ticks(void **state)
{
        struct sample_run *s = sample_new("parquet");
        struct infp_series *series;
        struct infp_batch batch;

        (void) state;
        sample_describe(s, described);
        put_load(s, 1, 1, NULL);
        sample_end(s);
        series = open_series(s, 0, 0);
        assert_int_equal(infp_table_width(infp_series_table(series)), 8);
        assert_int_equal(infp_series_next(series, &batch, NULL), 0);
        infp_series_close(series);
        sample_free(s);
}

// clang-format off
static const struct infp_column boxes_keys[] = {
        INFP_COLUMN(box, ID64, LABEL, none, MEASURED, NO, "thing", 0, NULL, "Which thing."),
};
static const struct infp_column boxes_columns[] = {
        INFP_COLUMN(used, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "How much."),
        INFP_COLUMN(weight, I64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "An attribute's name: its own comes first."),
};
// clang-format on
static const struct infp_table boxes_table = { .name = "boxes",
                                               .help = "Of the tests.",
                                               .keys = boxes_keys,
                                               .n_keys = 1,
                                               .columns = boxes_columns,
                                               .n_columns = 2,
                                               .section = "boxes",
                                               .series = "box",
                                               .lead = true };
static const struct infp_table first_table = { .name = "firsts",
                                               .help = "Of the tests.",
                                               .keys = boxes_keys,
                                               .n_keys = 1,
                                               .columns = device_columns,
                                               .n_columns = 1,
                                               .series = "" };

static void put_box(struct sample_run *s, double at, uint64_t id, int64_t used)
{
        struct infp_row *row = sample_row(s, &boxes_table, S(at));

        infp_row_id(row, 0, id);
        infp_row_i64(row, 1, used);
        sample_put(s);
        row = sample_row(s, &first_table, S(at));
        infp_row_id(row, 0, id);
        infp_row_i64(row, 1, used);
        sample_put(s);
}

static void put_thing(struct sample_run *s, uint64_t id, const char *label)
{
        struct infp_row *row = sample_row(s, &thing_table, S(10));

        infp_row_id(row, 0, id);
        infp_row_str(row, 1, label);
        infp_row_i64(row, 2, 5);
        sample_put(s);
}

/* Numbered instances of things show what they are, not their ids; under bare names stands the first, whatever came of it. */
static void test_instances_of_things(void **state)
{
        static const struct infp_table *const tables[] = { &boxes_table, &first_table, &thing_table, NULL };
        static const char *const expected[] = { "timestamp",      "box0_label",       "box0_used",
                                                "box0_used_time", "box0_weight",      "box0_weight_time",
                                                "box1_label",     "box1_used",        "box1_used_time",
                                                "box1_weight",    "box1_weight_time", "heat",
                                                "heat_time" };
        struct sample_run *s = sample_new("parquet");
        struct infp_series *series;
        struct infp_batch batch;
        size_t size;

        (void) state;
        sample_describe(s, tables);
        put_thing(s, 900, "nine");
        for (unsigned i = 0; i < 8; i++) {
                sample_tick(s, i, S(10.0 + i));
                if (i < 2)
                        put_box(s, 10.1 + i, 900, 100 + i);
                put_box(s, 10.2 + i, 77, 200 + i); /* a thing that nobody describes */
        }
        sample_end(s);
        series = open_series(s, 0, 0);
        assert_int_equal(infp_table_width(infp_series_table(series)), sizeof(expected) / sizeof(expected[0]));
        for (unsigned i = 0; i < infp_table_width(infp_series_table(series)); i++)
                assert_string_equal(infp_table_column(infp_series_table(series), i)->name, expected[i]);
        assert_int_equal(infp_series_next(series, &batch, NULL), 1);
        assert_int_equal(batch.n_rows, 8);
        assert_memory_equal(infp_batch_str(&batch, column(series, "box0_label"), 0, &size), "nine", 4);
        assert_int_equal(size, 4);
        assert_false(infp_batch_has(&batch, column(series, "box1_label"), 0));
        assert_false(infp_batch_has(&batch, column(series, "box0_weight"), 0));
        assert_int_equal(infp_batch_i64(&batch, column(series, "box1_used"), 7), 207);
        /* 900 was last seen at 11.1: fresh until tick 3 (13.0), gone at tick 4, and 77 does not take its place. */
        assert_int_equal(infp_batch_i64(&batch, column(series, "heat"), 3), 101);
        assert_true(infp_batch_has(&batch, column(series, "box0_label"), 3));
        for (uint32_t row = 4; row < 8; row++) {
                assert_false(infp_batch_has(&batch, column(series, "heat"), row));
                assert_false(infp_batch_has(&batch, column(series, "box0_label"), row));
        }
        infp_series_close(series);
        sample_free(s);
}

// clang-format off
static const struct infp_column engine_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Which engine."),
};
static const struct infp_column engine_columns[] = {
        INFP_COLUMN(number, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its place."),
};
static const struct infp_column page_keys[] = {
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Which engine."),
};
static const struct infp_column page_columns[] = {
        INFP_COLUMN(running, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Requests."),
};
// clang-format on
static const struct infp_table engines_table = { .name = "engines",
                                                 .help = "Of the tests.",
                                                 .keys = engine_keys,
                                                 .n_keys = 1,
                                                 .columns = engine_columns,
                                                 .n_columns = 1,
                                                 .entity = true };
static const struct infp_table pages_table = { .name = "pages",
                                               .help = "Of the tests.",
                                               .keys = page_keys,
                                               .n_keys = 1,
                                               .columns = page_columns,
                                               .n_columns = 1,
                                               .series = "" };

/* Of things that have numbers the lowest stands under bare names, though another appeared before it; number 0 never had a row. */
static void test_lowest_number(void **state)
{
        static const struct infp_table *const tables[] = { &engines_table, &pages_table, NULL };
        static const int64_t numbers[] = { 2, 1, 0 };
        struct sample_run *s = sample_new("parquet");
        struct infp_series *series;
        struct infp_batch batch;

        (void) state;
        sample_describe(s, tables);
        for (unsigned i = 0; i < 3; i++) {
                struct infp_row *row = sample_row(s, &engines_table, S(9));

                infp_row_id(row, 0, 70 + i);
                infp_row_i64(row, 1, numbers[i]);
                sample_put(s);
        }
        for (unsigned i = 0; i < 3; i++) {
                sample_tick(s, i, S(10.0 + i));
                for (unsigned k = 0; k < 2; k++) {
                        struct infp_row *row = sample_row(s, &pages_table, S(10.1 + i + k * 0.1));

                        infp_row_id(row, 0, 70 + k);
                        infp_row_f64(row, 1, 10 * k + i);
                        sample_put(s);
                }
        }
        sample_end(s);
        series = open_series(s, 0, 0);
        assert_int_equal(infp_table_width(infp_series_table(series)), 3);
        assert_int_equal(infp_series_next(series, &batch, NULL), 1);
        assert_int_equal(batch.n_rows, 3);
        for (uint32_t row = 0; row < 3; row++)
                assert_true(infp_batch_f64(&batch, column(series, "running"), row) == 10 + row);
        infp_series_close(series);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_columns),       cmocka_unit_test(test_rows),
                cmocka_unit_test(test_range),         cmocka_unit_test(test_long_texts_and_many_ticks),
                cmocka_unit_test(test_without_ticks), cmocka_unit_test(test_instances_of_things),
                cmocka_unit_test(test_lowest_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
