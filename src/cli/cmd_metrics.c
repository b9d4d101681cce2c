/* infprof metrics: every column of every table that this build can write, from the tables themselves. docs/metrics.md and
 * tests/schema.lock are made by it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "collect/collector.h"
#include "model/builder.h"
#include "model/prom_name.h"

enum { NAME, TABLE, TYPE, UNIT, KIND, QUALITY, RESET, IS_KEY, SOURCE_KEY, SECTION, SERIES, PROM, HELP, N };

// clang-format off
static const struct infp_column columns[] = {
        [NAME] = INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Column."),
        [TABLE] = INFP_COLUMN(table, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Table."),
        [TYPE] = INFP_COLUMN(type, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Type."),
        [UNIT] = INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Unit."),
        [KIND] = INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Kind."),
        [QUALITY] = INFP_COLUMN(quality, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Quality."),
        [RESET] = INFP_COLUMN(reset, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What a smaller value means."),
        [IS_KEY] = INFP_COLUMN(is_key, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The column identifies rows of one moment."),
        [SOURCE_KEY] = INFP_COLUMN(source_key, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "In the source."),
        [SECTION] = INFP_COLUMN(section, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "In snapshots."),
        [SERIES] = INFP_COLUMN(series, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Prefix in the time series."),
        [PROM] = INFP_COLUMN(prometheus, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name in Prometheus text."),
        [HELP] = INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it is."),
};
/* The first few are enough for people. */
static const struct infp_column short_columns[] = {
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Column."),
        INFP_COLUMN(table, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Table."),
        INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Unit."),
        INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Kind."),
        INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it is."),
};
// clang-format on

static const struct infp_table all_table = { .name = "metrics", .columns = columns, .n_columns = N, .plain = true };
static const struct infp_table short_table = {
        .name = "metrics", .columns = short_columns, .n_columns = 5, .plain = true
};

static const struct infp_option options[] = {
        INFP_LISTING_OPTIONS("table"),
        { 't', "table", "NAME", "only this table's columns", false },
        { 0, "markdown", NULL, "Markdown, as in docs/metrics.md", false },
        { 0, "lock", NULL, "one line per column: table column type kind unit, as in tests/schema.lock", false },
        { 0 },
};

static bool is_key(const struct infp_table *table, unsigned index)
{
        return index >= INFP_FIXED_COLUMNS && index - INFP_FIXED_COLUMNS < table->n_keys;
}

static void set(struct infp_builder *b, unsigned column, const char *text)
{
        if (text)
                infp_builder_set_text(b, column, text);
}

static void fill_all(struct infp_builder *b, const struct infp_table *table, unsigned index)
{
        const struct infp_column *c = infp_table_column(table, index);
        infp_autostr struct infp_str prom = { 0 };

        set(b, NAME, c->name);
        set(b, TABLE, table->name);
        set(b, TYPE, infp_type_name(c->type));
        set(b, UNIT, c->unit->name);
        set(b, KIND, infp_kind_name(c->kind));
        set(b, QUALITY, infp_quality_name(c->quality));
        set(b, RESET, c->reset ? infp_reset_name(c->reset) : NULL);
        infp_builder_set(b, IS_KEY, (union infp_cell){ .b = is_key(table, index) }, NULL, 0);
        set(b, SOURCE_KEY, c->key);
        set(b, SECTION, table->section);
        set(b, SERIES, table->series);
        set(b, PROM, infp_prom_name(&prom, table, c) ? prom.data : NULL);
        set(b, HELP, c->help);
}

static void fill_short(struct infp_builder *b, const struct infp_table *table, unsigned index)
{
        const struct infp_column *c = infp_table_column(table, index);

        set(b, 0, c->name);
        set(b, 1, table->name);
        set(b, 2, c->unit->name);
        set(b, 3, infp_kind_name(c->kind));
        set(b, 4, c->help);
}

typedef void fill_fn(struct infp_builder *b, const struct infp_table *table, unsigned index);

/* One row at a time: a builder that has grown once fits any row. */
static int put_row(struct infp_output *output, struct infp_builder *b, fill_fn *fill, const struct infp_table *table,
                   unsigned index, struct infp_err *err)
{
        struct infp_batch batch;

        for (int tries = 0;; tries++) {
                infp_builder_reset(b);
                infp_builder_row_begin(b, 0, 0);
                fill(b, table, index);
                if (infp_builder_row_end(b) >= 0)
                        break;
                infp_builder_reset(b);
                if (tries == 8 || infp_builder_grow(b, 1024) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        batch = infp_builder_batch(b, 0);
        return infp_output_batch(output, &batch, err);
}

static int put_table(struct infp_output *output, const char *only, struct infp_err *err)
{
        const bool is_short = output->format == &infp_format_table;
        const struct infp_table *shape = is_short ? &short_table : &all_table;
        struct infp_builder *b = infp_builder_new(shape, 1);
        int r = b ? infp_output_begin(output, shape, err) : infp_fail(err, -ENOMEM, "out of memory");

        for (const struct infp_table *const *t = infp_all_tables(); *t && r == 0; t++)
                for (unsigned i = 0; i < infp_table_width(*t) && r == 0; i++) {
                        /* t_ns and time are the same in each. */
                        if ((only && strcmp((*t)->name, only)) || (is_short && i < INFP_FIXED_COLUMNS))
                                continue;
                        r = put_row(output, b, is_short ? fill_short : fill_all, *t, i, err);
                }
        if (r >= 0)
                r = infp_output_end(output, shape, err);
        infp_builder_free(b);
        return r;
}

static void put_lock(struct infp_out *out, const char *only)
{
        for (const struct infp_table *const *t = infp_all_tables(); *t; t++)
                for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(*t); i++) {
                        const struct infp_column *c = infp_table_column(*t, i);

                        if (!only || !strcmp((*t)->name, only))
                                infp_str_printf(&out->text, "%s %s %s %s %s\n", (*t)->name, c->name,
                                                infp_type_name(c->type), infp_kind_name(c->kind),
                                                *c->unit->name ? c->unit->name : "-");
                }
}

/* A bare | would end the cell. */
static void put_cell(struct infp_str *out, const char *text)
{
        infp_str_puts(out, " ");
        for (; text && *text; text++) {
                if (*text == '|')
                        infp_str_putc(out, '\\');
                infp_str_putc(out, *text);
        }
        infp_str_puts(out, " |");
}

static void put_code(struct infp_str *out, const char *text)
{
        if (text && *text)
                infp_str_printf(out, " `%s` |", text);
        else
                infp_str_puts(out, "  |");
}

static void put_markdown_table(struct infp_str *out, const struct infp_table *table)
{
        infp_str_printf(out, "\n## `%s`\n\n%s", table->name, table->help);
        if (table->schema)
                infp_str_printf(out, " In SQL: `%s.%s`.", table->schema, table->name);
        if (table->entity)
                infp_str_puts(out, " Other tables refer to its rows by `id`.");
        if (table->on_change)
                infp_str_puts(out, " A row is written when something changes: carry the last one forward.");
        if (table->section)
                infp_str_printf(out, " In snapshots: `%s`.", table->section);
        if (table->series)
                infp_str_printf(out,
                                *table->series ? " In the time series: `%s<n>_`*column*."
                                               : " In the time series under the same names.",
                                table->series);
        infp_str_puts(out, "\n\n| column | type | unit | kind | quality | Prometheus | what it is "
                           "|\n|---|---|---|---|---|---|---|\n");
        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(table); i++) {
                const struct infp_column *c = infp_table_column(table, i);
                infp_autostr struct infp_str prom = { 0 };

                infp_str_puts(out, "|");
                infp_str_printf(out, is_key(table, i) ? " **`%s`** |" : " `%s` |", c->name);
                put_cell(out, infp_type_name(c->type));
                put_cell(out, c->unit->name);
                put_cell(out, c->kind == INFP_COUNTER && c->reset == INFP_RESET_NONE ? "counter, may step back"
                                                                                     : infp_kind_name(c->kind));
                put_cell(out, infp_quality_name(c->quality));
                put_code(out, infp_prom_name(&prom, table, c) ? prom.data : NULL);
                put_cell(out, c->help);
                infp_str_puts(out, "\n");
        }
}

static void put_markdown(struct infp_out *out, const char *only)
{
        infp_str_puts(&out->text,
                      "# Tables and metrics\n"
                      "\n"
                      "Generated by `infprof metrics --markdown` (`make docs`); do not edit it by hand.\n"
                      "\n"
                      "Every table begins with `t_ns` (i64, CLOCK_MONOTONIC in ns, stamped by the source just before "
                      "it reads) and `time` (UTC of the same moment; text formats show Unix milliseconds). Names in "
                      "bold are keys: they identify the rows of one moment.\n"
                      "\n"
                      "Kinds: a *label* says what the row is "
                      "about, a *gauge* is a level, a *counter* is a sum since some start, stored as the source gives "
                      "it; rates are computed when reading.\n"
                      "\n"
                      "Quality: *measured* as the source gives it, *derived* from "
                      "measured values of the same moment, *estimated* by a model or from samples. A value that is "
                      "absent is null, never 0; the table `sources` says why.\n");
        for (const struct infp_table *const *t = infp_all_tables(); *t; t++)
                if (!only || !strcmp((*t)->name, only))
                        put_markdown_table(&out->text, *t);
}

static int run(const struct infp_arguments *arguments)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        const bool is_page = infp_argument_given(arguments, "lock") || infp_argument_given(arguments, "markdown");
        const char *only = infp_argument(arguments, "table");
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest) {
                infp_say("metrics: it takes no operand '%s'; see `infprof metrics -h`", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        if (only && !infp_table_by_name(only)) {
                struct infp_nearest nearest = { .word = only };

                for (const struct infp_table *const *t = infp_all_tables(); *t; t++)
                        infp_nearest_try(&nearest, (*t)->name);
                infp_say("there is no table '%s'%s%s%s; `infprof metrics` lists all", only,
                         nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                         nearest.best ? "?" : "");
                return INFP_EXIT_FAILURE;
        }
        if (is_page && infp_output_open(&output, infp_argument(arguments, "output"), "table", &err) < 0)
                return infp_say_failure(&err);
        r = is_page ? 0 : infp_output_open_listing(&output, arguments, "metrics", "table");
        if (r != INFP_EXIT_OK)
                return r;
        output.out.is_listing = true;
        if (infp_argument_given(arguments, "lock"))
                put_lock(&output.out, only);
        else if (is_page)
                put_markdown(&output.out, only);
        r = is_page ? infp_output_finish(&output, &err) : put_table(&output, only, &err);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_metrics = {
        .name = "metrics",
        .summary = "every table and column: name, unit, kind, what it is",
        .options = options,
        .more = "examples:\n"
                "  infprof metrics | grep -i swap\n"
                "  infprof metrics -t cpu\n"
                "  infprof metrics --json | jq -r '.[] | select(.kind == \"counter\") | .name'",
        .run = run,
};
