/* infprof tables: what a run holds, and what its columns mean. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "collect/collector.h"
#include "model/builder.h"
#include "model/python_tables.h"
#include "query/joins.h"
#include "query/scan.h"
#include "query/series.h"
#include "query/sql_views.h"

// clang-format off
enum { TABLE_NAME, TABLE_ROWS, TABLE_COLUMNS, TABLE_HELP };
static const struct infp_column table_columns[] = {
        [TABLE_NAME] = INFP_COLUMN(table_name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Table."),
        [TABLE_ROWS] = INFP_COLUMN(rows, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Rows."),
        [TABLE_COLUMNS] = INFP_COLUMN(columns, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Columns."),
        [TABLE_HELP] = INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it is."),
};
enum { COLUMN_NAME, COLUMN_TYPE, COLUMN_UNIT, COLUMN_KIND, COLUMN_RESET, COLUMN_QUALITY, COLUMN_HELP };
static const struct infp_column column_columns[] = {
        [COLUMN_NAME] = INFP_COLUMN(column_name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Column."),
        [COLUMN_TYPE] = INFP_COLUMN(type, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Type."),
        [COLUMN_UNIT] = INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Unit."),
        [COLUMN_KIND] = INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Kind."),
        [COLUMN_RESET] = INFP_COLUMN(reset, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What a smaller value means."),
        [COLUMN_QUALITY] = INFP_COLUMN(quality, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Quality."),
        [COLUMN_HELP] = INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it is."),
};
// clang-format on
static const struct infp_table tables_table = {
        .name = "tables", .columns = table_columns, .n_columns = 4, .plain = true
};
static const struct infp_table columns_table = {
        .name = "columns", .columns = column_columns, .n_columns = 7, .plain = true
};

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        INFP_LISTING_OPTIONS("table on a terminal, else tsv"),
        { 0 },
};

/* Rows go out one by one: a builder that has grown once fits any row. */
struct listing {
        struct infp_output output;
        struct infp_builder *builder;
        bool has_broken; /* a table that cannot be read */
};

static void set_text(struct listing *l, unsigned column, const char *text)
{
        if (text && *text)
                infp_builder_set_text(l->builder, column, text);
}

static void set_number(struct listing *l, unsigned column, int64_t v)
{
        infp_builder_set(l->builder, column, (union infp_cell){ .i64 = v }, NULL, 0);
}

static int put_row(struct listing *l, void (*fill)(struct listing *l, const void *what), const void *what,
                   struct infp_err *err)
{
        struct infp_batch batch;
        int r = -ENOSPC;

        for (unsigned tries = 0; r == -ENOSPC && tries < 8; tries++) {
                infp_builder_reset(l->builder);
                if (tries && infp_builder_grow(l->builder, 4096) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
                infp_builder_row_begin(l->builder, 0, 0);
                fill(l, what);
                r = infp_builder_row_end(l->builder);
        }
        if (r < 0)
                return infp_fail(err, -EBADMSG, "a help text of this run is too long to be one");
        batch = infp_builder_batch(l->builder, 0);
        r = infp_output_batch(&l->output, &batch, err);
        return r < 0 ? r : 0;
}

struct table_line {
        const char *name, *help;
        int64_t rows; /* negative: it cannot be read */
        unsigned width;
};

static void fill_table(struct listing *l, const void *what)
{
        const struct table_line *line = what;

        set_text(l, TABLE_NAME, line->name);
        if (line->rows >= 0)
                set_number(l, TABLE_ROWS, line->rows);
        if (line->width)
                set_number(l, TABLE_COLUMNS, line->width);
        set_text(l, TABLE_HELP, line->help);
}

static int64_t count_rows(struct infp_run *run, const struct infp_catalog *catalog, const char *table,
                          struct infp_err *err)
{
        static const char *const columns[] = { "t_ns", NULL };
        struct infp_scan *scan;
        struct infp_batch batch;
        int64_t n = 0;
        int r;

        INFP_TRY(infp_scan_open(run, table, &(struct infp_scan_options){ .catalog = catalog, .columns = columns },
                                &scan, err));
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                n += batch.n_rows;
        infp_scan_close(scan);
        return r < 0 ? r : n;
}

/* Reports a broken table, and lists it without a number. 0, or an error that would break every table. */
static int note_broken(struct listing *l, int64_t r, const struct infp_err *why, struct infp_err *err)
{
        if (r >= 0)
                return 0;
        if (r == -ENOMEM || r == -ENOPKG)
                return infp_fail(err, (int) r, "%s", why->text);
        infp_say("%s", why->text);
        l->has_broken = true;
        return 0;
}

/* Attributes of the things that its rows name are columns for a reader. */
static unsigned shown_width(const struct infp_table *table, const struct infp_catalog *catalog)
{
        struct infp_shown_list list;
        unsigned n;

        if (infp_shown_make(table, catalog, &list) < 0)
                return infp_table_width(table);
        n = list.n;
        infp_shown_done(&list);
        return n;
}

static int put_series_line(struct listing *l, struct infp_run *run, int64_t rows, struct infp_err *err)
{
        struct infp_series *series;
        struct table_line line = { .name = INFP_SERIES_NAME,
                                   .help = "One row per sample, with the last row of each table.",
                                   .rows = rows };
        struct infp_err why = { "" };
        int r = infp_series_open(run, 0, 0, &series, &why);

        if (r == 0) {
                line.width = infp_table_width(infp_series_table(series));
                infp_series_close(series);
        } else if (l->has_broken) { /* already reported for the table that the series reads */
                line.rows = -1;
        } else {
                INFP_TRY(note_broken(l, r, &why, err));
        }
        return put_row(l, fill_table, &line, err);
}

/* A view must be read to count its rows. */
static int put_views(struct listing *l, const struct infp_catalog *catalog, struct infp_err *err)
{
        for (unsigned i = 0; i < INFP_SQL_VIEWS; i++) {
                const struct infp_table *table = infp_sql_views[i].table;
                struct table_line line = { table->name, table->help, -1, infp_table_width(table) };

                if (infp_sql_view_is_in(&infp_sql_views[i], catalog))
                        INFP_TRY(put_row(l, fill_table, &line, err));
        }
        return 0;
}

static int list_tables(struct listing *l, struct infp_run *run, const struct infp_catalog *catalog,
                       struct infp_err *err)
{
        int64_t n_ticks = 0;

        INFP_TRY(infp_output_begin(&l->output, &tables_table, err));
        for (unsigned i = 0; i < catalog->n_tables; i++) {
                const struct infp_table *table = &catalog->tables[i], *known = infp_table_by_name(table->name);
                struct table_line line = { .name = table->name,
                                           .help = known ? known->help : table->help,
                                           .width = shown_width(table, catalog) };
                struct infp_err why = { "" };

                line.rows = count_rows(run, catalog, table->name, &why);
                INFP_TRY(note_broken(l, line.rows, &why, err));
                INFP_TRY(put_row(l, fill_table, &line, err));
                if (strcmp(table->name, infp_table_ticks.name) == 0)
                        n_ticks = line.rows;
        }
        INFP_TRY(put_series_line(l, run, n_ticks, err));
        INFP_TRY(put_views(l, catalog, err));
        return infp_output_end(&l->output, &tables_table, err);
}

struct column_line {
        const char *name;
        const struct infp_column *column;
};

static void fill_column(struct listing *l, const void *what)
{
        const struct column_line *line = what;
        const struct infp_column *c = line->column;

        set_text(l, COLUMN_NAME, line->name);
        set_text(l, COLUMN_TYPE, infp_type_name(c->type));
        set_text(l, COLUMN_UNIT, c->unit->name);
        set_text(l, COLUMN_KIND, infp_kind_name(c->kind));
        set_text(l, COLUMN_RESET, infp_reset_name(c->reset));
        set_text(l, COLUMN_QUALITY, infp_quality_name(c->quality));
        set_text(l, COLUMN_HELP, c->help);
}

static int put_columns(struct listing *l, const struct infp_table *table, const struct infp_catalog *catalog,
                       struct infp_err *err)
{
        infp_cleanup(infp_shown_done) struct infp_shown_list list = { 0 };

        if (infp_shown_make(table, catalog, &list) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(infp_output_begin(&l->output, &columns_table, err));
        for (unsigned i = 0; i < list.n; i++) {
                const struct infp_shown *s = &list.shown[i];
                struct column_line line = { s->name, s->entity ? s->attribute : infp_table_column(table, s->column) };

                INFP_TRY(put_row(l, fill_column, &line, err));
        }
        return infp_output_end(&l->output, &columns_table, err);
}

static int fail_no_table(const struct infp_run *run, const struct infp_catalog *catalog, const char *name,
                         struct infp_err *err)
{
        struct infp_nearest nearest = { .word = name };

        for (unsigned i = 0; i < catalog->n_tables; i++)
                infp_nearest_try(&nearest, catalog->tables[i].name);
        infp_nearest_try(&nearest, INFP_SERIES_NAME);
        for (unsigned i = 0; i < INFP_SQL_VIEWS; i++)
                if (infp_sql_view_is_in(&infp_sql_views[i], catalog))
                        infp_nearest_try(&nearest, infp_sql_views[i].table->name);
        if (nearest.best)
                return infp_fail(err, -ENOENT, "run %s has no table %s; did you mean %s? `infprof tables` lists all",
                                 run->info.uuid, name, nearest.best);
        return infp_fail(err, -ENOENT, "run %s has no table %s; `infprof tables` lists them", run->info.uuid, name);
}

static int list_columns(struct listing *l, struct infp_run *run, const struct infp_catalog *catalog, const char *name,
                        struct infp_err *err)
{
        const struct infp_table *table = infp_catalog_find(catalog, name);
        const struct infp_sql_view_def *view = infp_sql_view_find(name);
        struct infp_series *series;
        int r;

        if (strcmp(name, INFP_SERIES_NAME) == 0) {
                INFP_TRY(infp_series_open(run, 0, 0, &series, err));
                r = put_columns(l, infp_series_table(series), NULL, err);
                infp_series_close(series);
                return r;
        }
        if (!table && view && infp_sql_view_is_in(view, catalog))
                return put_columns(l, view->table, NULL, err);
        if (!table)
                return fail_no_table(run, catalog, name, err);
        return put_columns(l, table, catalog, err);
}

/* Exit code. */
static int show(struct listing *l, const char *spec, const char *table, struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };
        struct infp_run *run = NULL;
        int reader, r = infp_reader_open(spec, &run, &reader, err);

        if (r == 0)
                r = infp_catalog_read(run, &catalog, err);
        if (r == 0) {
                l->output.out.is_listing = true;
                l->builder = infp_builder_new(table ? &columns_table : &tables_table, 1);
                r = !l->builder ? infp_fail(err, -ENOMEM, "out of memory")
                    : table     ? list_columns(l, run, &catalog, table, err)
                                : list_tables(l, run, &catalog, err);
        }
        infp_builder_free(l->builder);
        infp_reader_close(run, &infp_said);
        infp_close(reader);
        if (r < 0)
                return infp_say_failure(err);
        return l->has_broken ? INFP_EXIT_FAILURE : INFP_EXIT_OK;
}

static int run(const struct infp_arguments *arguments)
{
        struct listing l = { .output = INFP_OUTPUT_INIT };
        struct infp_err err = { "" };
        int code;

        if (arguments->n_rest > 1) {
                infp_say("tables: one table at a time; see `infprof tables -h`");
                return INFP_EXIT_USAGE;
        }
        code = infp_output_open_listing(&l.output, arguments, "tables", NULL);
        if (code == INFP_EXIT_OK)
                code = show(&l, infp_argument(arguments, "run"),
                            arguments->n_rest ? infp_python_bare_name(arguments->rest[0]) : NULL, &err);
        infp_output_done(&l.output);
        return code;
}

const struct infp_command infp_command_tables = {
        .name = "tables",
        .summary = "list the tables of a run, or the columns of one",
        .operands = "[TABLE]",
        .options = options,
        .more = "Counters are stored as the source gives them, a sum since some start. A rate in SQL: "
                "infp_increase(reset, before, after)\n"
                "over the time between, before by lag(); reset is the column's, as `infprof tables TABLE` shows it:\n"
                "  SELECT time, infp_increase('zero', lag(vDiskReadBytes) OVER w, vDiskReadBytes)\n"
                "         / ((t_ns - lag(t_ns) OVER w) / 1e9) AS bytes_per_s\n"
                "         FROM disk WINDOW w AS (ORDER BY t_ns)\n"
                "\n"
                "The last ones, without a number of rows, are views: they exist only in SQL.\n"
                "\n"
                "examples:\n"
                "  infprof tables                        names, rows, what they hold\n"
                "  infprof tables cpu                    units, kinds and help of its columns",
        .run = run,
};
