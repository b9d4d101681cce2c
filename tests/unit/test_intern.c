/* Entities: written once a segment, before the first fact that names them, whichever comes first; bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "record/intern.h"

static const struct infp_column keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
};
static const struct infp_column columns[] = {
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        INFP_COLUMN(size, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Size."),
};
static const struct infp_table things = { .name = "thing",
                                          .help = "Things.",
                                          .keys = keys,
                                          .columns = columns,
                                          .n_keys = 1,
                                          .n_columns = 2,
                                          .entity = true };
static const struct infp_table others = { .name = "other",
                                          .help = "Others.",
                                          .keys = keys,
                                          .columns = columns,
                                          .n_keys = 1,
                                          .n_columns = 2,
                                          .entity = true };

enum { ID, NAME, SIZE };

static struct infp_row row;
static char text[200 * 1024];

static struct infp_row *make(const struct infp_table *table, uint64_t id, const char *name, uint64_t t_ns)
{
        row.text = text;
        row.text_cap = sizeof(text);
        infp_row_begin(&row, table, t_ns);
        infp_row_id(&row, ID, id);
        infp_row_str(&row, NAME, name);
        return &row;
}

static const char *name_of(const struct infp_intern *intern, const struct infp_entity *entity)
{
        static struct infp_row got;
        static char copy[256];
        size_t size;
        const char *name;

        infp_intern_row(intern, entity, &got);
        name = infp_row_text(&got, NAME, &size);
        snprintf(copy, sizeof(copy), "%.*s", (int) size, name);
        assert_false(infp_row_has(&got, SIZE));
        assert_int_equal(got.cell[ID].u64, entity->id);
        return copy;
}

static void test_description_before_fact(void **state)
{
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;

        (void) state;
        assert_int_equal(infp_intern_new(1 << 20, &intern), 0);
        assert_int_equal(infp_intern_put(intern, make(&things, 7, "seven", 5), &entity), 0);
        assert_int_equal(infp_intern_refer(intern, &others, 7, 6, &entity), 0); /* another table's 7 */
        assert_int_equal(infp_intern_refer(intern, &things, 7, 6, &entity), 1);
        assert_string_equal(name_of(intern, entity), "seven");
        assert_int_equal(infp_intern_refer(intern, &things, 7, 7, &entity), 0); /* once a segment */
        infp_intern_free(intern);
}

static void test_fact_before_description(void **state)
{
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;

        (void) state;
        assert_int_equal(infp_intern_new(1 << 20, &intern), 0);
        assert_int_equal(infp_intern_refer(intern, &things, 8, 1, &entity), 0);
        assert_int_equal(infp_intern_put(intern, make(&things, 8, "eight", 2), &entity), 1);
        assert_string_equal(name_of(intern, entity), "eight");
        assert_int_equal(infp_intern_put(intern, make(&things, 8, "eight", 3), &entity), 0); /* says the same */
        assert_int_equal(infp_intern_put(intern, make(&things, 8, "acht, a longer name", 4), &entity), 1);
        assert_string_equal(name_of(intern, entity), "acht, a longer name");
        assert_int_equal(infp_intern_put(intern, make(&things, 8, "8", 5), &entity), 1);
        assert_string_equal(name_of(intern, entity), "8");
        infp_intern_free(intern);
}

static void test_segments(void **state)
{
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;

        (void) state;
        assert_int_equal(infp_intern_new(1 << 20, &intern), 0);
        infp_intern_put(intern, make(&things, 1, "kept", 1), &entity);
        infp_intern_put(intern, make(&things, 2, "forgotten", 1), &entity);
        assert_int_equal(infp_intern_refer(intern, &things, 2, 1, &entity), 1);
        for (unsigned segment = 0; segment < 4; segment++) {
                assert_int_equal(infp_intern_refer(intern, &things, 1, 1, &entity), 1); /* again in each */
                assert_string_equal(name_of(intern, entity), "kept");
                infp_intern_next_segment(intern);
                assert_int_equal(infp_intern_make_room(intern, 1), 0);
                assert_int_equal(infp_intern_count(intern), segment < 2 ? 2 : 1);
        }
        assert_int_equal(infp_intern_refer(intern, &things, 2, 1, &entity), 0);
        infp_intern_free(intern);
}

/* Rows without an id belong to nothing; the id 0 is one like any other. */
static void test_ids(void **state)
{
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;

        (void) state;
        assert_int_equal(infp_intern_new(1 << 20, &intern), 0);
        make(&things, 1, "no id", 1);
        row.valid[0] &= ~(uint64_t) 1;
        assert_int_equal(infp_intern_put(intern, &row, &entity), 0);
        assert_int_equal(infp_intern_count(intern), 0);
        assert_int_equal(infp_intern_put(intern, make(&things, 0, "zero", 1), &entity), 0);
        assert_int_equal(infp_intern_refer(intern, &things, 0, 1, &entity), 1);
        assert_string_equal(name_of(intern, entity), "zero");
        infp_intern_free(intern);
}

/* Thousands of short-lived things: memory stays below the bound, what was named last is still known. */
static void test_bound(void **state)
{
        enum { MANY = 60000, LIMIT = 1 << 20 };
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;
        unsigned n_full = 0;

        (void) state;
        assert_int_equal(infp_intern_new(LIMIT, &intern), 0);
        for (uint64_t i = 1; i <= MANY; i++) {
                uint64_t t_ns = i * INFP_NS_PER_S / 100;
                int r = infp_intern_put(intern, make(&things, i, "a process of a build", t_ns), &entity);

                if (r == -ENOSPC) {
                        n_full++;
                        assert_int_equal(infp_intern_make_room(intern, t_ns), 0);
                        r = infp_intern_put(intern, make(&things, i, "a process of a build", t_ns), &entity);
                }
                assert_int_equal(r, 0);
                assert_int_equal(infp_intern_refer(intern, &things, i, t_ns, &entity), 1);
                assert_true(infp_intern_bytes(intern) < 4 * LIMIT);
        }
        assert_true(n_full > 0);
        assert_true(infp_intern_count(intern) < MANY / 2);
        infp_intern_next_segment(intern);
        assert_int_equal(infp_intern_refer(intern, &things, MANY, 1, &entity), 1);
        assert_string_equal(name_of(intern, entity), "a process of a build");
        infp_intern_free(intern);
}

/* What is kept stays what it was when the rest is forgotten, also where a longer row has taken a row's place. */
static void test_kept_rows(void **state)
{
        enum { MANY = 3000 };
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;
        char name[64];

        (void) state;
        assert_int_equal(infp_intern_new(8 << 20, &intern), 0);
        for (uint64_t turn = 0; turn < 8; turn++) {
                for (uint64_t i = 1; i <= MANY; i++) {
                        if (i % (turn + 1))
                                continue;
                        snprintf(name, sizeof(name), "%s%d", turn % 2 ? "a longer name " : "n", (int) i);
                        while (infp_intern_put(intern, make(&things, i, name, i), &entity) < 0)
                                assert_int_equal(infp_intern_make_room(intern, i), 0);
                }
                infp_intern_next_segment(intern);
                assert_int_equal(infp_intern_make_room(intern, MANY), 0);
                for (uint64_t i = turn + 1; i <= MANY; i += turn + 1) {
                        assert_int_equal(infp_intern_refer(intern, &things, i, i, &entity), 1);
                        snprintf(name, sizeof(name), "%s%d", turn % 2 ? "a longer name " : "n", (int) i);
                        assert_string_equal(name_of(intern, entity), name);
                }
        }
        assert_true(infp_intern_count(intern) < MANY);
        infp_intern_free(intern);
}

/* A busy server has 100,000 frames and stacks. */
static void test_bytes_an_entity(void **state)
{
        enum {
                MANY = 45000,
                MOST_BYTES = 96
        }; /* a slot of 56, and a hash table that is nearly empty just after it grew */
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;

        (void) state;
        assert_int_equal(infp_intern_new(64 << 20, &intern), 0);
        for (uint64_t i = 1; i <= MANY; i++) {
                if (infp_intern_refer(intern, &things, i, i, &entity) == 0)
                        continue;
                assert_int_equal(infp_intern_make_room(intern, i), 0);
                assert_int_equal(infp_intern_refer(intern, &things, i, i, &entity), 0);
        }
        assert_int_equal(infp_intern_make_room(intern, MANY), 0);
        assert_int_equal(infp_intern_count(intern), MANY);
        assert_true(infp_intern_bytes(intern) < MANY * (size_t) MOST_BYTES);
        infp_intern_free(intern);
}

/* The longest row that there can be finds room after make_room at the latest. */
static void test_longest_row(void **state)
{
        static char name[190 * 1024];
        struct infp_intern *intern;
        struct infp_entity *entity = NULL;

        (void) state;
        memset(name, 'x', sizeof(name) - 1);
        assert_int_equal(infp_intern_new(8 << 20, &intern), 0);
        for (uint64_t i = 1; i <= 20; i++) {
                int r = infp_intern_put(intern, make(&things, i, name, i), &entity);

                if (r == -ENOSPC) {
                        assert_int_equal(infp_intern_make_room(intern, i), 0);
                        r = infp_intern_put(intern, make(&things, i, name, i), &entity);
                }
                assert_int_equal(r, 0);
        }
        assert_int_equal(infp_intern_count(intern), 20);
        infp_intern_free(intern);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_description_before_fact),
                cmocka_unit_test(test_fact_before_description),
                cmocka_unit_test(test_segments),
                cmocka_unit_test(test_ids),
                cmocka_unit_test(test_bound),
                cmocka_unit_test(test_kept_rows),
                cmocka_unit_test(test_bytes_an_entity),
                cmocka_unit_test(test_longest_row),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
