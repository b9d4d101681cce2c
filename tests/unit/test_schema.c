#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/schema.h"
#include "model/tables.h"

// clang-format off
static const struct infp_column keys[] = {
        INFP_COLUMN(core, I64, LABEL, none, MEASURED, NO, "cpu", 0, NULL, "Number of the core."),
};
static const struct infp_column columns[] = {
        INFP_COLUMN(vCpuTime, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, "infprof_cpu_seconds_total", "CPU time."),
        INFP_COLUMN(vFree, I64, GAUGE, bytes, MEASURED, NO, "MemFree", 1024, "infprof_free_bytes", "Free memory."),
        INFP_COLUMN(vName, STR, LABEL, none, MEASURED, NO, NULL, 0, "name", "A name."),
};
// clang-format on

static const struct infp_table table = {
        .name = "cpu_core",
        .help = "A row a core.",
        .keys = keys,
        .n_keys = INFP_COUNT(keys),
        .columns = columns,
        .n_columns = INFP_COUNT(columns),
};

static void columns_by_number(void **state)
{
        static const char *const names[] = { "t_ns", "time", "core", "vCpuTime", "vFree", "vName" };
        struct infp_table plain = table;

        (void) state;
        assert_int_equal(infp_table_width(&table), 6);
        for (unsigned i = 0; i < 6; i++) {
                assert_string_equal(infp_table_column(&table, i)->name, names[i]);
                assert_int_equal(infp_table_find(&table, names[i]), i);
        }
        assert_null(infp_table_column(&table, 6));
        assert_null(infp_table_column(&table, UINT32_MAX));
        assert_int_equal(infp_table_find(&table, "vcputime"), -ENOENT);
        assert_int_equal(infp_table_column(&table, 0)->type, INFP_I64);
        assert_int_equal(infp_table_column(&table, 1)->type, INFP_TS_NS);

        plain.plain = true;
        assert_int_equal(infp_table_width(&plain), 4);
        for (unsigned i = 0; i < 4; i++) {
                assert_string_equal(infp_table_column(&plain, i)->name, names[i + 2]);
                assert_int_equal(infp_table_find(&plain, names[i + 2]), i);
        }
        assert_null(infp_table_column(&plain, 4));
        assert_int_equal(infp_table_find(&plain, "time"), -ENOENT);
}

static void a_table_without_keys(void **state)
{
        const struct infp_table t = { .name = "t", .columns = columns, .n_columns = 1 }, empty = { .name = "empty" };

        (void) state;
        assert_string_equal(infp_table_column(&t, 2)->name, "vCpuTime");
        assert_null(infp_table_column(&t, 3));
        assert_int_equal(infp_table_width(&empty), 2);
        assert_null(infp_table_column(&empty, 2));
}

static void names(void **state)
{
        (void) state;
        assert_string_equal(infp_type_name(INFP_ID64), "id64");
        assert_string_equal(infp_kind_name(INFP_COUNTER), "counter");
        assert_string_equal(infp_quality_name(INFP_ESTIMATED), "estimated");
        assert_string_equal(infp_reset_name(INFP_RESET_WRAP), "wrap");
        assert_string_equal(infp_reset_name(0), "");
        /* Numbers that come from a file. */
        assert_string_equal(infp_type_name(0), "");
        assert_string_equal(infp_type_name(99), "");
        for (int i = INFP_I64; i <= INFP_ID64; i++)
                assert_int_equal(infp_type_by_name(infp_type_name((enum infp_type) i)), i);
        for (int i = INFP_LABEL; i <= INFP_COUNTER; i++)
                assert_int_equal(infp_kind_by_name(infp_kind_name((enum infp_kind) i)), i);
        for (int i = INFP_MEASURED; i <= INFP_ESTIMATED; i++)
                assert_int_equal(infp_quality_by_name(infp_quality_name((enum infp_quality) i)), i);
        for (int i = INFP_RESET_NONE; i <= INFP_RESET_WRAP; i++)
                assert_int_equal(infp_reset_by_name(infp_reset_name((enum infp_reset) i)), i);
        assert_int_equal(infp_type_by_name("f32"), -ENOENT);
        assert_int_equal(infp_type_by_name(""), -ENOENT);
        assert_int_equal(infp_reset_by_name(""), -ENOENT);
        assert_int_equal(infp_kind_by_name("Gauge"), -ENOENT);
}

static void good_tables(void **state)
{
        static const struct infp_table *const all[] = {
                &table,
                &infp_table_clock,
                &infp_table_columns,
                &infp_table_sources,
                &infp_table_ticks,
                &infp_table_marks,
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(all); i++) {
                struct infp_err err = { 0 };

                if (infp_table_check(all[i], &err) != 0)
                        fail_msg("%s", err.text);
                assert_int_equal(infp_table_check(all[i], NULL), 0);
        }
}

/* One fault each; the sentence must name it. */
static void bad_columns(void **state)
{
        // clang-format off
        static const struct {
                struct infp_column column;
                const char *says;
        } cases[] = {
                { INFP_COLUMN(t_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "Ours."), "clash" },
                { INFP_COLUMN(Time, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "SQL does not tell it from time."), "clash" },
                { INFP_COLUMN(CORE, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Twice."), "clash" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "No full stop"), "full stop" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, ""), "full stop" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Two.\nLines."), "full stop" },
                { INFP_COLUMN(x, I64, COUNTER, count, MEASURED, NO, NULL, 0, NULL, "No rule."), "reset" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, ZERO, NULL, 0, NULL, "A gauge."), "reset" },
                { INFP_COLUMN(x, STR, LABEL, none, MEASURED, NONE, NULL, 0, NULL, "A label."), "reset" },
                { INFP_COLUMN(x, ID64, GAUGE, none, MEASURED, NO, "", 0, NULL, "An id is no level."), "label" },
                { INFP_COLUMN(x, STR, COUNTER, none, MEASURED, ZERO, NULL, 0, NULL, "A text counts nothing."), "number" },
                { INFP_COLUMN(x, BOOL, COUNTER, none, MEASURED, ZERO, NULL, 0, NULL, "Yes and no."), "number" },
                { INFP_COLUMN(x, ID64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Of nothing."), "entity" },
                { INFP_COLUMN(x, STR, LABEL, none, MEASURED, NO, NULL, 2, NULL, "Scaled text."), "scale" },
                { INFP_COLUMN(x, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_x", "Not total."), "_total" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_x_total", "No counter."), "_total" },
                { INFP_COLUMN(x, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, "infprof_x_total", "No unit."), "base unit" },
                { INFP_COLUMN(x, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, "infprof_x_cs_total", "Not base."), "base unit" },
                { INFP_COLUMN(x, I64, GAUGE, mib, MEASURED, NO, NULL, 0, "infprof_x_mb", "Not base."), "base unit" },
                { INFP_COLUMN(x, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_megabytes", "Not a word."), "base unit" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_X", "Capital."), "[a-z_]" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof-x", "Dash."), "[a-z_]" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, "9x", "Digit."), "[a-z_]" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, "", "Empty."), "[a-z_]" },
                { INFP_COLUMN(x, I64, GAUGE, count, MEASURED, NO, NULL, 0, "node_x", "Other house."), "infprof_" },
                { { "a b", INFP_I64, INFP_GAUGE, &infp_unit_none, INFP_MEASURED, 0, NULL, 0, NULL, "Blank." }, "name must" },
                { { "", INFP_I64, INFP_GAUGE, &infp_unit_none, INFP_MEASURED, 0, NULL, 0, NULL, "Empty." }, "name must" },
                { { NULL, INFP_I64, INFP_GAUGE, &infp_unit_none, INFP_MEASURED, 0, NULL, 0, NULL, "None." }, "name must" },
                { { "9x", INFP_I64, INFP_GAUGE, &infp_unit_none, INFP_MEASURED, 0, NULL, 0, NULL, "Digit." }, "name must" },
                { { "x", 0, INFP_GAUGE, &infp_unit_none, INFP_MEASURED, 0, NULL, 0, NULL, "Type." }, "enumeration" },
                { { "x", INFP_I64, 9, &infp_unit_none, INFP_MEASURED, 0, NULL, 0, NULL, "Kind." }, "enumeration" },
                { { "x", INFP_I64, INFP_GAUGE, &infp_unit_none, 0, 0, NULL, 0, NULL, "Quality." }, "enumeration" },
                { { "x", INFP_I64, INFP_GAUGE, NULL, INFP_MEASURED, 0, NULL, 0, NULL, "Unit." }, "unit" },
        };
        // clang-format on

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_table bad = table;
                struct infp_err err = { 0 };

                bad.columns = &cases[i].column;
                bad.n_columns = 1;
                if (infp_table_check(&bad, &err) != -EINVAL || !strstr(err.text, cases[i].says))
                        fail_msg("case %zu says '%s', not '%s'", i, err.text, cases[i].says);
                assert_non_null(strstr(err.text, "cpu_core"));
        }
}

static void bad_tables(void **state)
{
        static struct infp_column many[INFP_MAX_COLUMNS];
        static char many_names[INFP_MAX_COLUMNS][16];
        struct infp_err err = { 0 };
        struct infp_table t = table;

        (void) state;
        t.name = "cpu core";
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        t.name = NULL;
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        t = table;
        t.help = "No stop";
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);

        t = table; /* a key that is measured */
        t.keys = &columns[1];
        t.columns = keys;
        t.n_columns = 1;
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        assert_non_null(strstr(err.text, "a key must be a label"));

        for (size_t i = 0; i < INFP_COUNT(many); i++) {
                many[i] = columns[1];
                snprintf(many_names[i], sizeof(many_names[i]), "x%zu", i);
                many[i].name = many_names[i];
        }
        t = table;
        t.columns = many;
        t.n_columns = INFP_MAX_COLUMNS - 1; /* and a key */
        assert_int_equal(infp_table_check(&t, &err), 0);
        t.n_columns = INFP_MAX_COLUMNS;
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        assert_non_null(strstr(err.text, "128"));
}

static void entities(void **state)
{
        // clang-format off
        static const struct infp_column id[] = {
                INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "The thing."),
        };
        static const struct infp_column wrong[] = {
                INFP_COLUMN(id, I64, LABEL, none, MEASURED, NO, "", 0, NULL, "The thing."),
        };
        // clang-format on
        struct infp_table t = table;
        struct infp_err err = { 0 };

        (void) state;
        t.entity = true;
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        t.keys = id;
        assert_int_equal(infp_table_check(&t, &err), 0);
        t.keys = wrong;
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        t.keys = NULL;
        t.n_keys = 0;
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        assert_non_null(strstr(err.text, "ID64"));
}

/* In the time series <name>_time stands beside <name>. */
static void series(void **state)
{
        // clang-format off
        static const struct infp_column pair[] = {
                INFP_COLUMN(run, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Running."),
                INFP_COLUMN(run_time, I64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "How long."),
        };
        // clang-format on
        struct infp_table t = { .name = "t", .help = "T t.", .columns = pair, .n_columns = 2 };
        struct infp_err err = { 0 };

        (void) state;
        assert_int_equal(infp_table_check(&t, &err), 0);
        t.series = "";
        assert_int_equal(infp_table_check(&t, &err), -EINVAL);
        assert_non_null(strstr(err.text, "run_time"));
}

/* One fault each in how a table stands in snapshots. */
static void sections(void **state)
{
        // clang-format off
        static const struct infp_column ids[] = {
                INFP_COLUMN(thing, ID64, LABEL, none, MEASURED, NO, "thing", 0, NULL, "The thing."),
                INFP_COLUMN(cpu, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A number."),
        };
        static const struct infp_column one[] = {
                INFP_COLUMN(xNTime, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "Time."),
        };
        // clang-format on
#define GOOD .name = "t", .help = "T t.", .keys = ids, .n_keys = 1, .columns = one, .n_columns = 1
        static const struct {
                struct infp_table table;
                const char *says; /* NULL: good */
        } cases[] = {
                { { GOOD, .section = "s", .lead = true }, NULL },
                { { GOOD, .section = "s", .lead = true, .list = "l", .lead_by = "xNTime", .flat_section = true,
                    .histograms = "h" },
                  NULL },
                { { GOOD, .lead = true }, "section" },
                { { .name = "t", .help = "T t.", .columns = one, .n_columns = 1, .section = "s", .lead = true },
                  "keyed" },
                { { GOOD, .section = "s", .list = "l" }, "of tables with lead" },
                { { GOOD, .section = "s", .flat_section = true }, "of tables with lead" },
                { { GOOD, .section = "s", .histograms = "h" }, "of tables with lead" },
                { { GOOD, .section = "s", .lead_by = "xNTime" }, "of tables with lead" },
                { { GOOD, .section = "s", .lead = true, .lead_by = "y" }, "no column y" },
                { { .name = "t",
                    .help = "T t.",
                    .keys = ids + 1,
                    .n_keys = 1,
                    .columns = one,
                    .n_columns = 1,
                    .section = "s",
                    .lead = true,
                    .histograms = "h" },
                  "found by an id" },
                { { .name = "t",
                    .help = "T t.",
                    .keys = ids,
                    .n_keys = 2,
                    .columns = one,
                    .n_columns = 1,
                    .spread = true },
                  NULL },
                { { GOOD, .spread = true }, "an id and a number" },
        };
#undef GOOD

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_err err = { 0 };
                const int r = infp_table_check(&cases[i].table, &err);

                if (cases[i].says ? r != -EINVAL || !strstr(err.text, cases[i].says) : r != 0)
                        fail_msg("case %zu says '%s'", i, err.text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(columns_by_number),
                cmocka_unit_test(a_table_without_keys),
                cmocka_unit_test(names),
                cmocka_unit_test(good_tables),
                cmocka_unit_test(bad_columns),
                cmocka_unit_test(bad_tables),
                cmocka_unit_test(entities),
                cmocka_unit_test(series),
                cmocka_unit_test(sections),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
