/* The recorder: order, stamps, flushes, rotation, failing sinks, and no allocation in between. Time is the test's own. */
#include "count_mallocs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collect/env.h"
#include "model/tables.h"
#include "record/recorder.h"

#define S INFP_NS_PER_S

// clang-format off
static const struct infp_column thing_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
};
static const struct infp_column thing_columns[] = {
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        INFP_COLUMN(parent, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Parent."),
};
static const struct infp_column fact_columns[] = {
        INFP_COLUMN(thing, ID64, LABEL, none, MEASURED, NO, "thing", 0, NULL, "Thing."),
        INFP_COLUMN(value, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Value."),
        INFP_COLUMN(text, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Text."),
};
// clang-format on
static const struct infp_table things = { .name = "thing",
                                          .help = "Things.",
                                          .keys = thing_keys,
                                          .columns = thing_columns,
                                          .n_keys = 1,
                                          .n_columns = 2,
                                          .entity = true };
static const struct infp_table facts = { .name = "fact", .help = "Facts.", .columns = fact_columns, .n_columns = 3 };
/* Facts stand before what they name: the recorder has to find the order itself. */
static const struct infp_table *const tables[] = {
        &infp_table_clock, &infp_table_columns, &infp_table_sources, &facts, &things, NULL
};
enum { ID, NAME, PARENT };
enum { THING, VALUE, TEXT };

/* A sink that writes down what it gets. */
struct log {
        struct infp_sink sink;
        char text[65536];
        size_t size;
        bool is_quiet; /* counts only */
        unsigned n_rows, n_batches, n_tick_ends;
        int fail; /* what batch returns */
};

__attribute__((format(printf, 2, 3))) static void note(struct log *log, const char *format, ...)
{
        va_list ap;

        if (log->is_quiet)
                return;
        va_start(ap, format);
        log->size += (size_t) vsnprintf(log->text + log->size, sizeof(log->text) - log->size, format, ap);
        va_end(ap);
        assert_true(log->size < sizeof(log->text));
}

static int log_table(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        (void) err;
        note((struct log *) sink, "<%s>", table->name);
        return 0;
}

static int log_batch(struct infp_sink *sink, const struct infp_batch *batch, struct infp_err *err)
{
        struct log *log = (struct log *) sink;

        if (log->fail)
                return infp_fail(err, log->fail, "the disk of %s is full", batch->table->name);
        log->n_batches++;
        log->n_rows += batch->n_rows;
        if (batch->table == &infp_table_columns) {
                note(log, "columns:%u ", batch->n_rows);
                return 0;
        }
        for (uint32_t i = 0; i < batch->n_rows; i++) {
                size_t size;

                const char *reason;

                if (batch->table == &facts) {
                        note(log, "fact:%lld@%lld ", (long long) infp_batch_i64(batch, 3, i),
                             (long long) (infp_batch_i64(batch, 1, i) / (int64_t) S));
                } else if (batch->table == &things) {
                        note(log, "thing:%llu ", (unsigned long long) infp_batch_u64(batch, 2, i));
                } else {
                        reason = infp_batch_str(batch, 4, i, &size);
                        note(log, "clock:%.*s ", (int) size, reason);
                }
        }
        return 0;
}

static int log_tick_end(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct log *log = (struct log *) sink;

        (void) err;
        log->n_tick_ends++;
        if (sink->each_tick)
                note(log, "tick@%llu=%lld ", (unsigned long long) (t_ns / S), (long long) (unix_ms / 1000));
        else
                note(log, "flush ");
        return 0;
}

static int log_rotate(struct infp_sink *sink, uint32_t segment, struct infp_err *err)
{
        (void) err;
        note((struct log *) sink, "segment:%u ", segment);
        return 0;
}

static int log_end(struct infp_sink *sink, struct infp_err *err)
{
        (void) err;
        note((struct log *) sink, "end");
        return 0;
}

static void log_init(struct log *log, const char *name, bool each_tick)
{
        *log = (struct log){ .sink = { .name = name,
                                       .each_tick = each_tick,
                                       .table_begin = log_table,
                                       .batch = log_batch,
                                       .tick_end = log_tick_end,
                                       .rotate = log_rotate,
                                       .end = log_end } };
}

static void expect(struct log *log, const char *text)
{
        assert_string_equal(log->text, text);
        log->size = 0;
        log->text[0] = 0;
}

/* One recorder with a sink of each kind, on a clock of its own: CLOCK_MONOTONIC from 100 s, the wall clock from 1000 s. */
struct world {
        uint64_t now_ns;
        int64_t offset_ns;
        struct infp_recorder *recorder;
        struct infp_stats stats;
        struct log store, view;
        struct infp_row row;
        char text[100000];
        char notices[4096];
};

static uint64_t now(void *context)
{
        return ((struct world *) context)->now_ns;
}

static void clocks(void *context, struct infp_clocks *ret)
{
        struct world *w = context;

        *ret = (struct infp_clocks){ .at = { w->now_ns, (int64_t) w->now_ns + w->offset_ns } };
}

static void say(void *context, const char *text)
{
        struct world *w = context;

        assert_true(strlen(w->notices) + strlen(text) + 2 < sizeof(w->notices));
        strcat(w->notices, text);
        strcat(w->notices, "\n");
}

static int begin(void **state)
{
        struct world *w = calloc(1, sizeof(*w));
        struct infp_recorder_options options = { .now_ns = now,
                                                 .read_clocks = clocks,
                                                 .clock_context = w,
                                                 .tables = tables,
                                                 .period_ns = S,
                                                 .notices = { say, w, &w->stats.notices },
                                                 .stats = &w->stats };

        w->now_ns = 100 * S;
        w->offset_ns = 900 * (int64_t) S;
        w->row.text = w->text;
        w->row.text_cap = sizeof(w->text);
        assert_int_equal(infp_recorder_new(&options, &w->recorder, NULL), 0);
        log_init(&w->store, "store", false);
        log_init(&w->view, "view", true);
        assert_int_equal(infp_recorder_add_sink(w->recorder, &w->view.sink, NULL), 0);
        assert_int_equal(infp_recorder_add_sink(w->recorder, &w->store.sink, NULL), 0);
        infp_recorder_begin(w->recorder);
        expect(&w->store, "<clock><columns><sources><fact><thing>clock:start columns:43 flush ");
        expect(&w->view, "<clock><columns><sources><fact><thing>clock:start columns:43 ");
        *state = w;
        return 0;
}

static void test_too_many_sinks(void **state)
{
        const struct infp_recorder_options options = { .tables = tables, .period_ns = S };
        struct infp_recorder *recorder;
        struct infp_err err = { "" };
        struct log log;

        (void) state;
        log_init(&log, "store", false);
        assert_int_equal(infp_recorder_new(&options, &recorder, NULL), 0);
        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(infp_recorder_add_sink(recorder, &log.sink, &err), 0);
        assert_int_equal(infp_recorder_add_sink(recorder, &log.sink, &err), -ENOSPC);
        assert_string_equal(err.text, "more than 8 sinks");
        infp_recorder_free(recorder);
}

static int end(void **state)
{
        struct world *w = *state;

        infp_recorder_free(w->recorder);
        free(w);
        return 0;
}

static void put_thing(struct world *w, uint64_t id, uint64_t parent)
{
        infp_row_begin(&w->row, &things, w->now_ns);
        infp_row_id(&w->row, ID, id);
        infp_row_str(&w->row, NAME, "name");
        if (parent)
                infp_row_id(&w->row, PARENT, parent);
        infp_recorder_put(w->recorder, &w->row);
}

static void put_fact(struct world *w, uint64_t thing, int64_t value)
{
        infp_row_begin(&w->row, &facts, w->now_ns);
        if (thing)
                infp_row_id(&w->row, THING, thing);
        infp_row_i64(&w->row, VALUE, value);
        infp_recorder_put(w->recorder, &w->row);
}

static void tick(struct world *w)
{
        infp_recorder_tick(w->recorder, w->now_ns);
        infp_recorder_turn(w->recorder);
}

static void test_entities_come_first(void **state)
{
        struct world *w = *state;

        put_thing(w, 1, 0);
        put_thing(w, 2, 1);
        put_thing(w, 3, 0); /* nobody names it */
        put_fact(w, 2, 20);
        put_fact(w, 2, 21);
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "thing:2 thing:1 fact:20@1000 fact:21@1000 flush ");
        /* Named first, described later; a cycle of parents ends. */
        put_fact(w, 4, 40);
        put_thing(w, 4, 5);
        put_thing(w, 5, 4);
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "thing:4 thing:5 fact:40@1000 flush ");
}

static void test_slices_and_ticks(void **state)
{
        struct world *w = *state;

        put_fact(w, 0, 1);
        tick(w);
        expect(&w->view, "fact:1@1000 tick@100=1000 ");
        put_fact(w, 0, 2);
        put_fact(w, 0, 3);
        infp_recorder_flush(w->recorder, NULL); /* in the middle of a tick: the rest comes with its end */
        put_fact(w, 0, 4);
        w->now_ns += S;
        tick(w);
        expect(&w->view, "fact:2@1000 fact:3@1000 fact:4@1000 tick@101=1001 ");
        tick(w);
        expect(&w->view, "tick@101=1001 ");
}

/* A span's row is stamped by its begin, long before it comes. */
static void test_rows_of_long_ago_wait_like_others(void **state)
{
        struct world *w = *state;

        w->now_ns = 105 * S;
        infp_row_begin(&w->row, &facts, 1 * S);
        infp_row_i64(&w->row, VALUE, 7);
        infp_recorder_put_at(w->recorder, &w->row, w->now_ns);
        assert_int_equal(infp_recorder_due_ns(w->recorder), 105 * S + 4500 * INFP_NS_PER_MS);
        infp_recorder_turn(w->recorder);
        expect(&w->store, "");
        w->now_ns += 4500 * INFP_NS_PER_MS;
        infp_recorder_turn(w->recorder);
        expect(&w->store, "fact:7@901 flush ");
}

static void test_flushes_in_time(void **state)
{
        struct world *w = *state;

        assert_int_equal(infp_recorder_due_ns(w->recorder), 160 * S); /* only a look at the clocks */
        /* A row each second: 4.5 s after the first stamp, so that slower threads' rows of the fifth tick are there. */
        for (unsigned i = 0; i < 5; i++, w->now_ns += S) {
                put_fact(w, 0, i);
                tick(w);
                expect(&w->store, "");
        }
        w->now_ns -= S / 2;
        infp_recorder_turn(w->recorder);
        expect(&w->store, "fact:0@1000 fact:1@1001 fact:2@1002 fact:3@1003 fact:4@1004 flush ");
        /* No tick comes: the same. */
        w->now_ns += S / 2;
        put_fact(w, 0, 5);
        assert_int_equal(infp_recorder_due_ns(w->recorder), 105 * S + 4500 * INFP_NS_PER_MS);
        w->now_ns = 105 * S + 4499 * INFP_NS_PER_MS;
        infp_recorder_turn(w->recorder);
        expect(&w->store, "");
        w->now_ns += INFP_NS_PER_MS;
        infp_recorder_turn(w->recorder);
        expect(&w->store, "fact:5@1005 flush ");
        /* A reader: each tick. */
        infp_recorder_set_flush(w->recorder, S);
        w->now_ns = 111 * S;
        put_fact(w, 0, 6);
        tick(w);
        expect(&w->store, "fact:6@1011 flush ");
}

static void test_clock_is_set(void **state)
{
        struct world *w = *state;

        w->now_ns += S;
        w->offset_ns += 4 * (int64_t) INFP_NS_PER_MS; /* slewing */
        tick(w);
        w->now_ns += S;
        w->offset_ns -= 500 * (int64_t) S; /* somebody sets it */
        tick(w);
        put_fact(w, 0, 1);
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "clock:clock_set fact:1@502 flush ");
        w->now_ns += 61 * S;
        tick(w);
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "clock:periodic flush ");
        infp_recorder_end(w->recorder);
        expect(&w->store, "clock:end flush end");
}

static void test_rotation(void **state)
{
        struct world *w = *state;

        put_thing(w, 1, 0);
        put_fact(w, 1, 1);
        w->store.sink.wants_rotation = true;
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "thing:1 fact:1@1000 flush segment:2 ");
        assert_int_equal(infp_recorder_segment(w->recorder), 2);
        put_fact(w, 1, 2); /* the thing again, in front */
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "thing:1 fact:2@1000 flush ");
        w->now_ns += 15 * 60 * S;
        put_fact(w, 0, 3);
        infp_recorder_flush(w->recorder, NULL);
        expect(&w->store, "fact:3@1900 flush segment:3 ");
        assert_false(w->store.sink.wants_rotation);
}

static void test_failing_sink(void **state)
{
        struct world *w = *state;
        struct infp_err err = { "" };

        w->store.fail = -ENOSPC;
        for (unsigned i = 0; i < 3; i++) {
                put_fact(w, 0, i);
                assert_int_equal(infp_recorder_flush(w->recorder, &err), -ENOSPC);
        }
        assert_string_equal(err.text, "the disk of fact is full");
        tick(w);
        assert_non_null(strstr(w->view.text, "fact:0@1000 fact:1@1000 fact:2@1000 ")); /* the others go on */
        assert_string_equal(w->notices, "store: the disk of fact is full (the recording continues and retries)\n");
        assert_int_equal(w->stats.write_errors, 3);
        assert_int_equal(w->stats.rows_lost, 3);
        assert_int_equal(w->stats.errors, 0); /* that is said of samples */
        w->store.fail = -EIO;                 /* another kind: said as well */
        put_fact(w, 0, 3);
        infp_recorder_flush(w->recorder, NULL);
        assert_int_equal(w->stats.notices, 2);
        w->store.fail = 0;
        put_fact(w, 0, 4);
        assert_int_equal(infp_recorder_flush(w->recorder, NULL), 0);
        assert_non_null(strstr(w->notices, "works again; 4 rows were lost"));
        assert_non_null(strstr(w->store.text, "fact:4@1000"));
        w->store.fail = -ENOSPC;
        put_fact(w, 0, 5);
        infp_recorder_end(w->recorder);
        assert_int_equal(w->stats.notices, 4); /* the fourth: how many were lost at the end */
}

/* A full builder is flushed at once; no row is lost, and what follows is as before. */
static void test_many_rows(void **state)
{
        struct world *w = *state;

        w->store.is_quiet = w->view.is_quiet = true;
        w->store.n_rows = w->view.n_rows = 0;
        for (int64_t i = 0; i < 20000; i++)
                put_fact(w, 0, i);
        infp_recorder_flush(w->recorder, NULL);
        assert_int_equal(w->store.n_rows, 20000);
        assert_int_equal(w->view.n_rows, 20000);
        assert_int_equal(w->stats.rows_dropped, 0);
        /* Far fewer than a batch a row: builders grow with what comes. */
        assert_true(w->store.n_batches < 20);
        infp_row_begin(&w->row, &facts, w->now_ns);
        memset(w->text, 'x', sizeof(w->text));
        w->row.valid[0] |= 1u << TEXT;
        w->row.cell[TEXT].text.size = w->row.text_size = sizeof(w->text);
        infp_recorder_put(w->recorder, &w->row);
        infp_recorder_flush(w->recorder, NULL);
        assert_int_equal(w->store.n_rows, 20001);
        assert_int_equal(w->stats.rows_dropped, 0);
}

static void test_unknown_table(void **state)
{
        static const struct infp_table unknown = { .name = "x", .help = "X.", .columns = fact_columns, .n_columns = 3 };
        struct world *w = *state;

        infp_row_begin(&w->row, &unknown, w->now_ns);
        infp_recorder_put(w->recorder, &w->row);
        assert_int_equal(w->stats.rows_dropped, 1);
}

static void test_drains_rings(void **state)
{
        struct world *w = *state;
        struct infp_rowring *ring;

        assert_int_equal(infp_rowring_new(1 << 16, &ring), 0);
        infp_row_begin(&w->row, &facts, w->now_ns);
        infp_row_i64(&w->row, VALUE, 5);
        infp_rowring_put(ring, &w->row);
        infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 0, w->now_ns });
        infp_rowring_put(ring, &w->row);
        assert_int_equal(infp_recorder_drain(w->recorder, ring), 1);
        expect(&w->view, "fact:5@1000 tick@100=1000 ");
        infp_rowring_free(ring);
}

/* Of a backlog not all at once: signals and the end of the command wait meanwhile. */
static void test_drains_a_few_ticks_at_once(void **state)
{
        struct world *w = *state;
        struct infp_rowring *ring;

        assert_int_equal(infp_rowring_new(1 << 16, &ring), 0);
        for (unsigned i = 0; i < INFP_DRAIN_TICKS + 1; i++)
                infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ i, w->now_ns });
        assert_int_equal(infp_recorder_drain(w->recorder, ring), INFP_DRAIN_TICKS);
        assert_int_equal(infp_recorder_drain(w->recorder, ring), 1);
        assert_int_equal(infp_recorder_drain(w->recorder, ring), 0);
        infp_rowring_free(ring);
}

/* A backlog is worked off without what is of no use any more by then, and all rows of it are taken. */
static void test_skips_when_behind(void **state)
{
        struct world *w = *state;
        struct infp_rowring *ring;

        assert_int_equal(infp_rowring_new(1 << 14, &ring), 0);
        infp_row_begin(&w->row, &facts, w->now_ns);
        infp_row_i64(&w->row, VALUE, 5);
        w->view.sink.can_skip = true;
        infp_rowring_put(ring, &w->row);
        infp_rowring_put_tick(ring,
                              &(struct infp_rowring_tick){ 0, w->now_ns - 3 * S, w->now_ns - S }); /* slow, but fresh */
        infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 1, w->now_ns, w->now_ns });
        w->now_ns += S + 1;
        infp_rowring_put(ring, &w->row);
        infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 2, w->now_ns, w->now_ns });
        w->now_ns -= S + 1;
        assert_int_equal(infp_recorder_drain(w->recorder, ring), 3);
        expect(&w->view, "fact:5@1000 tick@97=997 tick@100=1000 fact:5@1000 tick@101=1001 ");
        assert_string_equal(w->notices, "");
        /* The first two are over for more than a second. */
        for (unsigned i = 0; i < 3; i++) {
                infp_rowring_put(ring, &w->row);
                infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ i, w->now_ns + i * S, w->now_ns + i * S });
        }
        w->now_ns += 2 * S + 1;
        assert_int_equal(infp_recorder_drain(w->recorder, ring), 3);
        expect(&w->view, "fact:5@1000 fact:5@1000 fact:5@1000 tick@102=1002 ");
        assert_int_equal(w->stats.snapshots_skipped, 2);
        assert_string_equal(w->notices, "view are skipped while the recorder is late, so that no rows are lost ("
                                        "table self counts them)\n");
        /* The ring is more than half full. */
        infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 5, w->now_ns, w->now_ns });
        while (infp_rowring_used(ring) <= infp_rowring_size(ring) / 2 + 256)
                assert_int_equal(infp_rowring_put(ring, &w->row), 0);
        infp_rowring_put_tick(ring, &(struct infp_rowring_tick){ 6, w->now_ns, w->now_ns });
        assert_int_equal(infp_recorder_drain(w->recorder, ring), 2);
        assert_null(strstr(w->view.text, "tick@102=1002 fact"));
        assert_non_null(strstr(w->view.text, "fact:5@1000 tick@102=1002 "));
        assert_int_equal(w->stats.snapshots_skipped, 3);
        assert_int_equal(w->stats.notices, 1);
        infp_rowring_free(ring);
}

static void test_no_allocation_between_flushes(void **state)
{
        struct world *w = *state;
        unsigned long before;

        w->store.is_quiet = w->view.is_quiet = true;
        for (unsigned flush = 0; flush < 8; flush++) {
                before = n_mallocs;
                for (unsigned i = 0; i < 5; i++) {
                        for (uint64_t id = 1; id <= 30; id++) {
                                put_thing(w, id + flush * 15, id);
                                put_fact(w, id + flush * 15, 1);
                        }
                        w->now_ns += S / 2;
                        infp_recorder_tick(w->recorder, w->now_ns);
                }
                if (flush > 4) /* the builders have grown to what a flush brings */
                        assert_int_equal(n_mallocs - before, 0);
                infp_recorder_flush(w->recorder, NULL);
        }
        before = n_mallocs;
        void *volatile p = malloc(1);

        free(p);
        assert_int_equal(n_mallocs - before, 1); /* and the counter counts */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_entities_come_first, begin, end),
                cmocka_unit_test_setup_teardown(test_slices_and_ticks, begin, end),
                cmocka_unit_test_setup_teardown(test_flushes_in_time, begin, end),
                cmocka_unit_test_setup_teardown(test_rows_of_long_ago_wait_like_others, begin, end),
                cmocka_unit_test_setup_teardown(test_clock_is_set, begin, end),
                cmocka_unit_test_setup_teardown(test_rotation, begin, end),
                cmocka_unit_test_setup_teardown(test_failing_sink, begin, end),
                cmocka_unit_test_setup_teardown(test_many_rows, begin, end),
                cmocka_unit_test_setup_teardown(test_unknown_table, begin, end),
                cmocka_unit_test_setup_teardown(test_drains_rings, begin, end),
                cmocka_unit_test(test_too_many_sinks),
                cmocka_unit_test_setup_teardown(test_drains_a_few_ticks_at_once, begin, end),
                cmocka_unit_test_setup_teardown(test_skips_when_behind, begin, end),
                cmocka_unit_test_setup_teardown(test_no_allocation_between_flushes, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
