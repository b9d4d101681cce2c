#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/scan.h"
#include "query_sample.h"

static void put_columns_row(struct sample_run *s, const char *table, const char *column, const char *type,
                            const char *unit)
{
        struct infp_row *row = sample_row(s, &infp_table_columns, 1);

        infp_row_str(row, INFP_COLUMNS_TABLE, table);
        if (column)
                infp_row_str(row, INFP_COLUMNS_COLUMN, column);
        infp_row_str(row, INFP_COLUMNS_TYPE, type);
        if (unit)
                infp_row_str(row, INFP_COLUMNS_UNIT, unit);
        sample_put(s);
}

static struct infp_catalog read_catalog(struct sample_run *s)
{
        struct infp_catalog catalog;

        sample_end(s);
        sample_check(s, infp_catalog_read(s->run, &catalog, &s->err));
        return catalog;
}

static const struct infp_column *find_column(const struct infp_table *table, const char *name)
{
        int at = infp_table_find(table, name);

        return at < 0 ? NULL : infp_table_column(table, (unsigned) at);
}

/* What the recorder wrote comes back, column for column. */
static void test_everything_declared(void **state)
{
        static const struct infp_table *const tables[] = { &use_table, &load_table, &device_table, &thing_table, NULL };
        struct sample_run *s = sample_new("parquet");
        struct infp_catalog catalog;

        (void) state;
        sample_describe(s, tables);
        sample_describe(s, tables); /* after a rotation everything is written again */
        catalog = read_catalog(s);
        assert_int_equal(catalog.n_tables, 5); /* and `columns` itself, which has a segment */
        for (const struct infp_table *const *t = tables; *t; t++) {
                const struct infp_table *found = infp_catalog_find(&catalog, (*t)->name);

                assert_non_null(found);
                assert_int_equal(found->n_keys, (*t)->n_keys);
                assert_int_equal(found->entity, (*t)->entity);
                assert_int_equal(!found->series, !(*t)->series);
                if (found->series)
                        assert_string_equal(found->series, (*t)->series);
                assert_int_equal(infp_table_width(found), infp_table_width(*t));
                for (unsigned i = 0; i < infp_table_width(found); i++) {
                        const struct infp_column *a = infp_table_column(*t, i), *b = infp_table_column(found, i);

                        assert_string_equal(a->name, b->name);
                        assert_int_equal(a->type, b->type);
                        assert_int_equal(a->kind, b->kind);
                        assert_int_equal(a->quality, b->quality);
                        assert_int_equal(a->reset, b->reset);
                        assert_ptr_equal(a->unit, b->unit);
                        assert_string_equal(a->help, b->help);
                        assert_string_equal(a->key ? a->key : "(none)", b->key ? b->key : "(none)");
                        assert_string_equal(a->prom ? a->prom : "(none)", b->prom ? b->prom : "(none)");
                }
        }
        assert_null(infp_catalog_find(&catalog, "silent"));
        for (unsigned i = 1; i < catalog.n_tables; i++)
                assert_true(strcmp(catalog.tables[i - 1].name, catalog.tables[i].name) < 0);
        infp_catalog_done(&catalog);
        sample_free(s);
}

/* A run without the table `columns`: its segments speak. */
static void test_from_segments(void **state)
{
        struct sample_run *s = sample_new("parquet");
        struct infp_catalog catalog;
        const struct infp_table *table;
        struct infp_row *row;

        (void) state;
        row = sample_row(s, &thing_table, 5);
        infp_row_id(row, THING_ID, 77);
        sample_put(s);
        row = sample_row(s, &device_table, 5);
        infp_row_str(row, DEVICE_DEVICE, "a");
        sample_put(s);
        catalog = read_catalog(s);
        assert_int_equal(catalog.n_tables, 2);
        table = infp_catalog_find(&catalog, "thing");
        assert_non_null(table);
        assert_true(table->entity);
        assert_int_equal(table->n_keys, 1);
        assert_int_equal(find_column(table, "id")->type, INFP_ID64);
        assert_int_equal(find_column(table, "weight")->type, INFP_I64);
        table = infp_catalog_find(&catalog, "device");
        assert_int_equal(find_column(table, "heat")->unit == &infp_unit_celsius, 1);
        infp_catalog_done(&catalog);
        sample_free(s);
}

/* Rows that a broken or a newer writer leaves: nothing is believed blindly, nothing is lost. */
static void test_strange_rows(void **state)
{
        struct sample_run *s = sample_new("parquet");
        struct infp_catalog catalog;
        const struct infp_table *table;
        struct infp_row *row;

        (void) state;
        put_columns_row(s, "a\"b'; DROP TABLE x; --", "c\"d", "i64", NULL);
        put_columns_row(s, "", "nameless", "i64", NULL);
        put_columns_row(s, "odd", NULL, "i64", NULL);
        put_columns_row(s, "odd", "future", "decimal256", NULL);
        put_columns_row(s, "odd", "known", "f64", "parsecs");
        put_columns_row(s, "odd", "known", "str", NULL);
        put_columns_row(s, "../../etc", "x", "i64", NULL);
        row = sample_row(s, &infp_table_columns, 1); /* no cell at all */
        (void) row;
        sample_put(s);
        catalog = read_catalog(s);
        assert_int_equal(catalog.n_tables, 4);
        assert_non_null(infp_catalog_find(&catalog, "a\"b'; DROP TABLE x; --"));
        table = infp_catalog_find(&catalog, "odd");
        assert_int_equal(infp_table_width(table), 3);
        assert_int_equal(find_column(table, "known")->type, INFP_F64);
        assert_string_equal(find_column(table, "known")->unit->name, "parsecs");
        assert_true(find_column(table, "known")->unit->factor == 1);
        infp_catalog_done(&catalog);
        sample_free(s);
}

static void test_empty_run(void **state)
{
        struct sample_run *s = sample_new("parquet");
        struct infp_catalog catalog = read_catalog(s);

        (void) state;
        assert_int_equal(catalog.n_tables, 0);
        assert_null(infp_catalog_find(&catalog, "columns"));
        infp_catalog_done(&catalog);
        infp_catalog_done(&catalog);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_everything_declared),
                cmocka_unit_test(test_from_segments),
                cmocka_unit_test(test_strange_rows),
                cmocka_unit_test(test_empty_run),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
