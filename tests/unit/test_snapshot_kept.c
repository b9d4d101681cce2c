/* Snapshots with the texts that the tail keeps are, byte for byte, those that are made anew at each tick. */
#include "count_mallocs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/time.h"
#include "collect/collector.h"
#include "model/builder.h"
#include "record/tail.h"
#include "view/snapshot/snapshot.h"

#define S INFP_NS_PER_S

// clang-format off
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

const struct infp_collector *const infp_collectors[] = { NULL };

struct world {
        struct infp_sink *tail;
        struct infp_last kept, anew;
        struct infp_builder *thing, *fact;
        struct infp_str a, b;
        unsigned n_rendered; /* rows of which the view has left a new text */
        struct infp_last real;
};

static void count_and_keep(void *context, const struct infp_table *table, uint32_t index, const char *text, size_t size)
{
        struct world *w = context;

        w->n_rendered++;
        w->real.keep(w->real.context, table, index, text, size);
}

static const struct infp_table *pass_table(void *context, unsigned index)
{
        const struct world *w = context;

        return w->real.table(w->real.context, index);
}

static bool pass_rows(void *context, const struct infp_table *table, uint32_t from, struct infp_batch *ret)
{
        const struct world *w = context;

        return w->real.rows(w->real.context, table, from, ret);
}

static bool pass_entity(void *context, const char *table, uint64_t id, struct infp_batch *ret)
{
        const struct world *w = context;

        return w->real.entity(w->real.context, table, id, ret);
}

static int pass_kept(void *context, const struct infp_table *table, uint32_t index, const char **ret, size_t *ret_size)
{
        const struct world *w = context;

        return w->real.kept(w->real.context, table, index, ret, ret_size);
}

static bool pass_row(void *context, const struct infp_table *table, uint32_t index, struct infp_batch *ret)
{
        const struct world *w = context;

        return w->real.row(w->real.context, table, index, ret);
}

static int setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        assert_int_equal(infp_tail_new(1000, &w->tail, NULL), 0);
        assert_int_equal(w->tail->table_begin(w->tail, &things, NULL), 0);
        assert_int_equal(w->tail->table_begin(w->tail, &facts, NULL), 0);
        w->thing = infp_builder_new(&things, 1);
        w->fact = infp_builder_new(&facts, 1);
        w->real = w->anew = infp_tail_last(w->tail);
        w->anew.kept = NULL;
        w->kept = (struct infp_last){ .context = w,
                                      .table = pass_table,
                                      .rows = pass_rows,
                                      .entity = pass_entity,
                                      .kept = pass_kept,
                                      .keep = count_and_keep,
                                      .row = pass_row };
        *state = w;
        return 0;
}

static int teardown(void **state)
{
        struct world *w = *state;

        infp_tail_free(w->tail);
        infp_builder_free(w->thing);
        infp_builder_free(w->fact);
        infp_str_done(&w->a);
        infp_str_done(&w->b);
        free(w);
        return 0;
}

static void take(struct world *w, struct infp_builder *b)
{
        struct infp_batch batch;

        assert_int_equal(infp_builder_row_end(b), 0);
        batch = infp_builder_batch(b, 0);
        assert_int_equal(w->tail->batch(w->tail, &batch, NULL), 0);
        infp_builder_reset(b);
}

static void give_thing(struct world *w, uint64_t t_ns, uint64_t id, const char *name)
{
        assert_int_equal(infp_builder_row_begin(w->thing, t_ns, (int64_t) t_ns), 0);
        infp_builder_set(w->thing, 2, (union infp_cell){ .u64 = id }, NULL, 0);
        infp_builder_set(w->thing, 3, (union infp_cell){ 0 }, name, strlen(name));
        take(w, w->thing);
}

static void give_fact(struct world *w, uint64_t t_ns, uint64_t id, const char *word, int64_t rss)
{
        assert_int_equal(infp_builder_row_begin(w->fact, t_ns, (int64_t) t_ns), 0);
        infp_builder_set(w->fact, 2, (union infp_cell){ .u64 = id }, NULL, 0);
        infp_builder_set(w->fact, 3, (union infp_cell){ 0 }, word, strlen(word));
        if (rss >= 0)
                infp_builder_set(w->fact, 4, (union infp_cell){ .i64 = rss }, NULL, 0);
        take(w, w->fact);
}

/* Ends the tick, shows it both ways; how many rows were made anew. */
static unsigned tick(struct world *w, uint64_t t_ns)
{
        assert_int_equal(w->tail->tick_end(w->tail, t_ns, 0, NULL), 0);
        w->n_rendered = 0;
        infp_str_clear(&w->a);
        infp_str_clear(&w->b);
        infp_snapshot_put(&w->a, &w->kept, (int64_t) t_ns / 1000000, 0, false);
        infp_snapshot_put(&w->b, &w->anew, (int64_t) t_ns / 1000000, 0, false);
        assert_string_equal(w->a.data, w->b.data);
        return w->n_rendered;
}

static void test_only_what_changed_is_made_anew(void **state)
{
        struct world *w = *state;

        give_fact(w, 1 * S, 1, "S", 10);
        give_fact(w, 1 * S, 2, "S", 20);
        give_thing(w, 1 * S, 2, "two");
        assert_int_equal(tick(w, 1 * S), 2);
        assert_int_equal(tick(w, 2 * S), 0);
        assert_string_equal(
                w->a.data,
                "{\"timestamp\":2000,\"processes\":[{\"pName\":null,\"pState\":{\"value\":\"S\",\"time\":1000},"
                "\"rss\":{\"value\":10,\"time\":1000}},{\"pName\":\"two\",\"pState\":{\"value\":\"S\","
                "\"time\":1000},\"rss\":{\"value\":20,\"time\":1000}}]}\n");
        /* The row itself; the name of its process that comes later; a new name. */
        give_fact(w, 3 * S, 2, "R", 21);
        assert_int_equal(tick(w, 3 * S), 1);
        give_thing(w, 4 * S, 1, "one");
        assert_int_equal(tick(w, 4 * S), 1);
        assert_non_null(strstr(w->a.data, "\"one\""));
        give_thing(w, 5 * S, 2, "after exec");
        assert_int_equal(tick(w, 5 * S), 1);
        assert_null(strstr(w->a.data, "\"two\""));
        assert_int_equal(tick(w, 6 * S), 0);
}

/* The memory of a row that has ended is used by another one: its text is not. */
static void test_a_slot_that_is_used_again(void **state)
{
        struct world *w = *state;

        give_fact(w, 1 * S, 1, "S", 10);
        assert_int_equal(tick(w, 1 * S), 1);
        give_fact(w, 2 * S, 1, "X", -1);
        assert_int_equal(tick(w, 2 * S), 1);
        assert_int_equal(tick(w, 3 * S), 0);
        assert_null(strstr(w->a.data, "pState"));
        give_fact(w, 4 * S, 7, "S", 70);
        assert_int_equal(tick(w, 4 * S), 1);
        assert_non_null(strstr(w->a.data, "70"));
}

/* Long texts are not kept without end, and what is not kept is shown all the same. */
static void test_memory_is_bounded(void **state)
{
        enum { LONG = 40000, N = 1000 };
        struct world *w = *state;
        char *name = calloc(1, LONG + 1);

        assert_non_null(name);
        memset(name, 'x', LONG);
        assert_int_equal(infp_builder_grow(w->thing, LONG + 1), 0);
        for (uint64_t id = 1; id <= N; id++) {
                give_thing(w, 1 * S, id, name);
                give_fact(w, 1 * S, id, "S", 1);
        }
        assert_int_equal(tick(w, 1 * S), N);
        /* 64 KiB a text, 16 MiB in all. */
        const unsigned again = tick(w, 2 * S);

        assert_true(again >= N - 256 && again <= N - 200);
        free(name);
}

/* 50 processes that change at random, some end and begin: equal at each tick, and without an allocation in the end. */
static void test_at_random(void **state)
{
        static const char *const words[] = { "S", "R", "D" };
        struct world *w = *state;
        unsigned long before = 0;
        uint64_t x = 12345, ids[50];
        unsigned n_anew = 0;

        for (unsigned i = 0; i < 50; i++)
                ids[i] = i + 1;
        for (uint64_t t = 1; t <= 6000; t++) {
                for (unsigned i = 0; i < 50; i++) {
                        x = x * 6364136223846793005u + 1442695040888963407u;
                        const unsigned r = (unsigned) (x >> 33) % 1000;
                        char name[32];

                        snprintf(name, sizeof(name), "p%u", r);
                        if (r < 5 && t > 1) {
                                give_fact(w, t * S, ids[i], "X", -1);
                                ids[i] = ids[i] > 1000 ? ids[i] - 1000 : ids[i] + 1000;
                        } else if (r < 10) {
                                give_thing(w, t * S, ids[i], name);
                        }
                        if (t % 60 == 1 || (r >= 10 && r < 60))
                                give_fact(w, t * S, ids[i], words[r % 3], (int64_t) (x >> 40));
                }
                n_anew += tick(w, t * S);
                if (t == 4000)
                        before = n_mallocs;
        }
        assert_true(n_anew > 2000 && n_anew < 6000 * 50 / 8);
        assert_int_equal(n_mallocs, before);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_only_what_changed_is_made_anew, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_slot_that_is_used_again, setup, teardown),
                cmocka_unit_test_setup_teardown(test_memory_is_bounded, setup, teardown),
                cmocka_unit_test_setup_teardown(test_at_random, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
