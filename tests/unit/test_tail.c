/* The tail: what is shown is what is true now. */
#include "count_mallocs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "collect/collector.h"
#include "model/builder.h"
#include "model/tables.h"
#include "record/tail.h"

#define S INFP_NS_PER_S

// clang-format off
static const struct infp_column core_keys[] = {
        INFP_COLUMN(core, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Core."),
};
static const struct infp_column core_columns[] = {
        INFP_COLUMN(busy, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "Busy."),
};
static const struct infp_column thing_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
};
static const struct infp_column thing_columns[] = {
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
};
static const struct infp_column fact_keys[] = {
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
};
static const struct infp_column fact_columns[] = {
        INFP_COLUMN(pState, STR, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "State."),
        INFP_COLUMN(rss, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Memory."),
};
// clang-format on
static const struct infp_table cores = { .name = "cores",
                                         .help = "Cores.",
                                         .keys = core_keys,
                                         .columns = core_columns,
                                         .n_keys = 1,
                                         .n_columns = 1,
                                         .section = "cpu" };
static const struct infp_table sum = {
        .name = "sum", .help = "Sum.", .columns = core_columns, .n_columns = 1, .section = "cpu"
};
static const struct infp_table slow = {
        .name = "slow", .help = "Slow.", .columns = core_columns, .n_columns = 1, .section = "slow"
};
static const struct infp_table once = { .name = "once", .help = "Once.", .columns = core_columns, .n_columns = 1 };
static const struct infp_table many = {
        .name = "many", .help = "Many.", .columns = core_columns, .n_columns = 1, .bulk = true
};
static const struct infp_table things = { .name = "process",
                                          .help = "Things.",
                                          .keys = thing_keys,
                                          .columns = thing_columns,
                                          .n_keys = 1,
                                          .n_columns = 1,
                                          .entity = true };
static const struct infp_table facts = { .name = "processes",
                                         .help = "Facts.",
                                         .keys = fact_keys,
                                         .columns = fact_columns,
                                         .n_keys = 1,
                                         .n_columns = 2,
                                         .section = "processes",
                                         .on_change = true };

// clang-format off
static const struct infp_column sample_keys[] = {
        INFP_COLUMN(thing, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Thing."),
};
static const struct infp_column sample_columns[] = {
        INFP_COLUMN(value, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Value."),
};
// clang-format on
static const struct infp_table samples = { .name = "samples",
                                           .help = "Samples.",
                                           .keys = sample_keys,
                                           .columns = sample_columns,
                                           .n_keys = 1,
                                           .n_columns = 1,
                                           .on_change = true };

/* The collectors of this world: only `slow` has a period of its own. */
static const struct infp_table *const slow_tables[] = { &slow, NULL };
static const struct infp_collector slow_collector = {
        .name = "slow", .help = "Slow.", .tables = slow_tables, .period_ms = 5000
};
const struct infp_collector *const infp_collectors[] = { &slow_collector, NULL };

static struct infp_sink *new_tail(void)
{
        static const struct infp_table *const tables[] = { &cores, &sum,     &slow,
                                                           &once,  &many,    &things,
                                                           &facts, &samples, &infp_table_sources };
        struct infp_sink *tail;

        assert_int_equal(infp_tail_new(1000, &tail, NULL), 0);
        for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
                assert_int_equal(tail->table_begin(tail, tables[i], NULL), 0);
        return tail;
}

static void feed(struct infp_sink *tail, struct infp_builder *b)
{
        struct infp_batch batch = infp_builder_batch(b, 0);

        assert_int_equal(tail->batch(tail, &batch, NULL), 0);
        infp_builder_free(b);
}

static void give_core(struct infp_sink *tail, uint64_t t_ns, int64_t core, int64_t busy)
{
        struct infp_builder *b = infp_builder_new(&cores, 1);

        assert_int_equal(infp_builder_row_begin(b, t_ns, (int64_t) t_ns), 0);
        infp_builder_set(b, 2, (union infp_cell){ .i64 = core }, NULL, 0);
        infp_builder_set(b, 3, (union infp_cell){ .i64 = busy }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        feed(tail, b);
}

static void give_one(struct infp_sink *tail, const struct infp_table *table, uint64_t t_ns, int64_t busy)
{
        struct infp_builder *b = infp_builder_new(table, 1);

        assert_int_equal(infp_builder_row_begin(b, t_ns, (int64_t) t_ns), 0);
        infp_builder_set(b, 2, (union infp_cell){ .i64 = busy }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        feed(tail, b);
}

static void give_thing(struct infp_sink *tail, uint64_t t_ns, uint64_t id, const char *name)
{
        struct infp_builder *b = infp_builder_new(&things, 1);

        assert_int_equal(infp_builder_row_begin(b, t_ns, 0), 0);
        infp_builder_set(b, 2, (union infp_cell){ .u64 = id }, NULL, 0);
        infp_builder_set(b, 3, (union infp_cell){ 0 }, name, strlen(name));
        assert_int_equal(infp_builder_row_end(b), 0);
        feed(tail, b);
}

static void give_fact(struct infp_sink *tail, uint64_t t_ns, uint64_t id, const char *state, int64_t rss)
{
        struct infp_builder *b = infp_builder_new(&facts, 1);

        assert_int_equal(infp_builder_row_begin(b, t_ns, 0), 0);
        infp_builder_set(b, 2, (union infp_cell){ .u64 = id }, NULL, 0);
        infp_builder_set(b, 3, (union infp_cell){ 0 }, state, strlen(state));
        if (rss >= 0)
                infp_builder_set(b, 4, (union infp_cell){ .i64 = rss }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        feed(tail, b);
}

static uint32_t count(struct infp_sink *tail, const struct infp_table *table)
{
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;
        uint32_t n = 0;

        while (last.rows(last.context, table, n, &batch))
                n += batch.n_rows;
        return n;
}

static void tick(struct infp_sink *tail, uint64_t t_ns)
{
        assert_int_equal(tail->tick_end(tail, t_ns, 0, NULL), 0);
}

static void test_last_row_of_each_key(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;

        (void) state;
        give_core(tail, 1 * S, 0, 10);
        give_core(tail, 1 * S, 1, 20);
        give_one(tail, &sum, 1 * S, 30);
        tick(tail, 1 * S);
        give_core(tail, 2 * S, 1, 21);
        give_one(tail, &sum, 2 * S, 31);
        tick(tail, 2 * S);

        assert_ptr_equal(last.table(last.context, 0), &cores);
        assert_null(last.table(last.context, 8));
        assert_true(last.rows(last.context, &cores, 0, &batch));
        assert_int_equal(batch.n_rows, 2);
        assert_int_equal(infp_batch_i64(&batch, 2, 0), 0);
        assert_int_equal(infp_batch_i64(&batch, 3, 0), 10);
        assert_int_equal(infp_batch_i64(&batch, 0, 0), 1 * S);
        assert_int_equal(infp_batch_i64(&batch, 3, 1), 21);
        assert_int_equal(infp_batch_i64(&batch, 1, 1), 2 * S);
        assert_int_equal(count(tail, &sum), 1);
        assert_true(last.rows(last.context, &sum, 0, &batch));
        assert_int_equal(infp_batch_i64(&batch, 2, 0), 31);
        assert_int_equal(count(tail, &slow), 0);
        infp_tail_free(tail);
}

/* Core 2 goes offline and comes back: it is left out after two periods, core 3 keeps its row, and the order is by key. */
/* Of a profile's rows the last one says nothing. */
static void test_profiles_are_left_out(void **state)
{
        struct infp_sink *tail = new_tail();

        (void) state;
        give_one(tail, &once, 10, 1);
        give_one(tail, &many, 10, 1);
        tick(tail, 10);
        assert_int_equal(count(tail, &once), 1);
        assert_int_equal(count(tail, &many), 0);
        infp_tail_free(tail);
}

static void test_a_key_that_is_not_seen_is_not_shown(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;

        (void) state;
        for (int64_t t = 1; t <= 4; t++) {
                for (int64_t core = 0; core < 4; core++)
                        if (core != 2 || t == 1)
                                give_core(tail, (uint64_t) t * S, core, 100 * core + t);
                tick(tail, (uint64_t) t * S);
                assert_int_equal(count(tail, &cores), t <= 3 ? 4 : 3);
        }
        assert_true(last.rows(last.context, &cores, 0, &batch));
        assert_int_equal(infp_batch_i64(&batch, 2, 2), 3);
        assert_int_equal(infp_batch_i64(&batch, 3, 2), 304);
        give_core(tail, 5 * S, 2, 205);
        tick(tail, 5 * S);
        assert_true(last.rows(last.context, &cores, 0, &batch));
        assert_int_equal(batch.n_rows, 4);
        for (uint32_t row = 0; row < 4; row++)
                assert_int_equal(infp_batch_i64(&batch, 2, row), row);
        infp_tail_free(tail);
}

/* Two periods of its own collector; tables that are not in snapshots (written once) never grow old. */
static void test_age_follows_the_period(void **state)
{
        struct infp_sink *tail = new_tail();

        (void) state;
        give_one(tail, &slow, 1 * S, 1);
        give_one(tail, &once, 1 * S, 1);
        give_one(tail, &sum, 1 * S, 1);
        tick(tail, 4 * S);
        assert_int_equal(count(tail, &sum), 0);
        assert_int_equal(count(tail, &slow), 1);
        tick(tail, 11 * S);
        assert_int_equal(count(tail, &slow), 1);
        tick(tail, 11 * S + 1);
        assert_int_equal(count(tail, &slow), 0);
        tick(tail, 86400 * S);
        assert_int_equal(count(tail, &once), 1);
        infp_tail_free(tail);
}

/* Rows that are written on change are carried forward; X is shown in its own tick and gone after the next. */
static void test_processes(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;

        (void) state;
        give_thing(tail, 1 * S, 77, "server");
        give_fact(tail, 1 * S, 77, "S", 4096);
        tick(tail, 1 * S);
        for (uint64_t t = 2; t < 60; t++) {
                tick(tail, t * S);
                assert_int_equal(count(tail, &facts), 1);
        }
        assert_true(last.entity(last.context, "process", 77, &batch));
        assert_string_equal(infp_batch_str(&batch, 3, 0, &(size_t){ 0 }), "server");
        assert_false(last.entity(last.context, "process", 78, &batch));
        assert_false(last.entity(last.context, "nothing", 77, &batch));

        give_fact(tail, 60 * S, 77, "X", -1);
        tick(tail, 60 * S);
        assert_true(last.rows(last.context, &facts, 0, &batch));
        assert_int_equal(batch.n_rows, 1);
        /* The cell that the last row had not is absent now. */
        assert_false(infp_batch_has(&batch, 4, 0));
        tick(tail, 61 * S);
        assert_int_equal(count(tail, &facts), 0);
        infp_tail_free(tail);
}

/* A process whose end was lost does not stay for ever. */
static void test_a_row_about_a_thing_ends_after_two_repeats(void **state)
{
        struct infp_sink *tail = new_tail();

        (void) state;
        give_fact(tail, 1 * S, 5, "S", 1);
        tick(tail, 121 * S);
        assert_int_equal(count(tail, &facts), 1);
        tick(tail, 121 * S + 1);
        assert_int_equal(count(tail, &facts), 0);
        infp_tail_free(tail);
}

/* 200 short-lived processes a tick: the memory is used again. */
static void test_churn_is_bounded(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;
        uint32_t most = 0;

        (void) state;
        give_thing(tail, 1, 1000000, "stays");
        for (uint64_t t = 1; t <= 60; t++) {
                give_fact(tail, t * S, 1000000, "S", (int64_t) t);
                for (uint64_t i = 0; i < 200; i++) {
                        give_thing(tail, t * S, t * 200 + i, "short");
                        give_fact(tail, t * S, t * 200 + i, "X", 1);
                }
                tick(tail, t * S);
                most = count(tail, &things) > most ? count(tail, &things) : most;
                assert_true(last.entity(last.context, "process", t * 200 + 3, &batch));
                assert_true(last.entity(last.context, "process", 1000000, &batch));
        }
        assert_int_equal(count(tail, &facts), 201);
        assert_true(most <= 2000);
        assert_int_equal(infp_tail_dropped(tail), 0);
        infp_tail_free(tail);
}

static void give_source(struct infp_sink *tail, const char *collector, const char *column, const char *word)
{
        struct infp_builder *b = infp_builder_new(&infp_table_sources, 1);

        assert_int_equal(infp_builder_row_begin(b, 1, 0), 0);
        infp_builder_set(b, 2 + INFP_SOURCES_COLLECTOR, (union infp_cell){ 0 }, collector, strlen(collector));
        if (column)
                infp_builder_set(b, 2 + INFP_SOURCES_COLUMN, (union infp_cell){ 0 }, column, strlen(column));
        infp_builder_set(b, 2 + INFP_SOURCES_STATE, (union infp_cell){ 0 }, word, strlen(word));
        assert_int_equal(infp_builder_row_end(b), 0);
        feed(tail, b);
}

/* The rows of `sources` are events; the state of each source is its last one. */
static void test_sources_by_source(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;
        size_t size;

        (void) state;
        give_source(tail, "cpu", "vCpuMhz", "absent");
        give_source(tail, "cpu", NULL, "ok");
        give_source(tail, "mem", NULL, "broken");
        give_source(tail, "cpu", "vCpuMhz", "ok");
        assert_true(last.rows(last.context, &infp_table_sources, 0, &batch));
        assert_int_equal(batch.n_rows, 3);
        for (uint32_t row = 0; row < 3; row++) {
                const char *word = infp_batch_str(&batch, 2 + INFP_SOURCES_STATE, row, &size);
                const char *who = infp_batch_str(&batch, 2 + INFP_SOURCES_COLLECTOR, row, &(size_t){ 0 });

                assert_int_equal(!strncmp(word, "broken", size), !strncmp(who, "mem", 3));
        }
        infp_tail_free(tail);
}

/* 9,000 keys do not go into one batch of 8,192. */
static void test_many_keys(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_batch batch;

        (void) state;
        for (uint64_t i = 1; i <= 9000; i++)
                give_fact(tail, S, i, "S", (int64_t) i);
        assert_true(last.rows(last.context, &facts, 0, &batch));
        assert_int_equal(batch.n_rows, INFP_BATCH_ROWS);
        assert_true(last.rows(last.context, &facts, INFP_BATCH_ROWS, &batch));
        assert_int_equal(batch.n_rows, 9000 - INFP_BATCH_ROWS);
        assert_int_equal(infp_batch_i64(&batch, 4, batch.n_rows - 1), 9000);
        infp_tail_free(tail);
}

/* Rows of 50 processes, one of which ends and one begins at each tick: once the most have been seen, nothing is allocated. */
static void test_no_allocation(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        struct infp_builder *rows = infp_builder_new(&facts, 64), *new_things = infp_builder_new(&things, 64);
        unsigned long before = 0;
        struct infp_batch batch;

        (void) state;
        for (uint64_t t = 1; t <= 3000; t++) {
                infp_builder_reset(rows);
                infp_builder_reset(new_things);
                infp_builder_row_begin(new_things, t * S, 0);
                infp_builder_set(new_things, 2, (union infp_cell){ .u64 = 1000 + t }, NULL, 0);
                infp_builder_set(new_things, 3, (union infp_cell){ 0 }, "a name", 6);
                infp_builder_row_end(new_things);
                for (uint64_t i = t > 50 ? t - 50 : 1; i <= t; i++) {
                        infp_builder_row_begin(rows, t * S, 0);
                        infp_builder_set(rows, 2, (union infp_cell){ .u64 = 1000 + i }, NULL, 0);
                        infp_builder_set(rows, 3, (union infp_cell){ 0 }, i + 50 == t ? "X" : "S", 1);
                        infp_builder_set(rows, 4, (union infp_cell){ .i64 = (int64_t) t }, NULL, 0);
                        infp_builder_row_end(rows);
                }
                batch = infp_builder_batch(new_things, 0);
                assert_int_equal(tail->batch(tail, &batch, NULL), 0);
                batch = infp_builder_batch(rows, 0);
                assert_int_equal(tail->batch(tail, &batch, NULL), 0);
                tick(tail, t * S);
                for (uint32_t from = 0; last.rows(last.context, &facts, from, &batch);)
                        from += batch.n_rows;
                assert_true(last.entity(last.context, "process", 1000 + t, &batch));
                if (t == 1000)
                        before = n_mallocs;
        }
        assert_true(before > 0);
        assert_int_equal(n_mallocs, before);
        infp_builder_free(rows);
        infp_builder_free(new_things);
        infp_tail_free(tail);
}

static void give_sample(struct infp_sink *tail, uint64_t t_ns, uint64_t id, double value)
{
        struct infp_builder *b = infp_builder_new(&samples, 1);

        assert_int_equal(infp_builder_row_begin(b, t_ns, 0), 0);
        infp_builder_set(b, 2, (union infp_cell){ .u64 = id }, NULL, 0);
        if (value >= 0)
                infp_builder_set(b, 3, (union infp_cell){ .f64 = value }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        feed(tail, b);
}

/* Samples that do not change are not repeated: they stand for hours. One without a value ends, and makes room. */
static void test_samples_stand_until_they_end(void **state)
{
        struct infp_sink *tail = new_tail();
        struct infp_last last = infp_tail_last(tail);
        uint64_t changes;

        (void) state;
        give_sample(tail, 1, 7, 1.5);
        give_sample(tail, 1, 8, 2.5);
        tick(tail, 1);
        tick(tail, UINT64_C(7200) * 1000000000);
        assert_int_equal(count(tail, &samples), 2);
        assert_int_equal(last.first(last.context, &samples), 0);
        changes = last.changes(last.context, "samples");
        give_sample(tail, UINT64_C(7201) * 1000000000, 8, 3.5);
        assert_int_equal(last.changes(last.context, "samples"), changes);
        give_sample(tail, UINT64_C(7201) * 1000000000, 7, -1);
        tick(tail, UINT64_C(7201) * 1000000000);
        assert_int_equal(count(tail, &samples), 2); /* whoever looks at this tick sees that it has no value */
        tick(tail, UINT64_C(7202) * 1000000000);
        assert_int_equal(count(tail, &samples), 1);
        assert_int_equal(last.first(last.context, &samples), -1); /* 8 does not become the first */
        assert_true(last.changes(last.context, "samples") != changes);
        assert_int_equal(last.changes(last.context, "no such table"), 0);
        infp_tail_free(tail);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_samples_stand_until_they_end),
                cmocka_unit_test(test_last_row_of_each_key),
                cmocka_unit_test(test_profiles_are_left_out),
                cmocka_unit_test(test_a_key_that_is_not_seen_is_not_shown),
                cmocka_unit_test(test_age_follows_the_period),
                cmocka_unit_test(test_processes),
                cmocka_unit_test(test_a_row_about_a_thing_ends_after_two_repeats),
                cmocka_unit_test(test_churn_is_bounded),
                cmocka_unit_test(test_sources_by_source),
                cmocka_unit_test(test_many_keys),
                cmocka_unit_test(test_no_allocation),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
