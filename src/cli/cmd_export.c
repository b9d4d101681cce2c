/* infprof export: a table or the time series of a run, in any format. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "analyze/profile/part_rows.h"
#include "analyze/range.h"
#include "app/export_page.h"
#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/output.h"
#include "model/python_tables.h"
#include "query/duck.h"
#include "query/scan.h"
#include "query/series.h"
#include "query/sql_views.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        { 'f', "format", "FORMAT", INFP_OUTPUT_FORMATS ", prom (default: the file's extension, else csv)", false },
        { 0, "csv-safe", NULL, INFP_CSV_SAFE_HELP, false },
        { 0, "json", NULL, "an array of objects: the same as -f json", false },
        { 'o', "output", "FILE", "write there instead of standard output (-); without -f its extension decides",
          false },
        INFP_RANGE_OPTIONS,
        INFP_PART_OPTIONS,
        { 0, "no-names", NULL, "keep ids as they are; do not add the columns that they refer to", false },
        { 0 },
};

struct request {
        const char *table, *format, *path, *from, *to;
        bool names, is_csv_safe;
        enum infp_profile_part part;
};

/* Rows of a table, of one of stacks with a part of the frames, or of the time series. */
struct rows {
        struct infp_scan *scan;
        struct infp_part_rows *part;
        struct infp_series *series;
};

static const struct infp_table *rows_table(const struct rows *rows)
{
        if (rows->part)
                return infp_part_rows_table(rows->part);
        return rows->scan ? infp_scan_table(rows->scan) : infp_series_table(rows->series);
}

static int rows_next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        struct rows *rows = context;

        if (rows->part)
                return infp_part_rows_next(rows->part, ret, err);
        return rows->scan ? infp_scan_next(rows->scan, ret, err) : infp_series_next(rows->series, ret, err);
}

static int write_parquet(struct rows *rows, const char *path, struct infp_err *err)
{
        struct infp_rows source = { rows_table(rows), rows, rows_next };
        struct infp_duck *duck;
        int r;

        INFP_TRY(infp_duck_open_writer(&duck, err));
        r = infp_duck_rows_to_parquet(duck, &source, AT_FDCWD, infp_output_path(path), 0666, NULL, err);
        infp_duck_close(duck);
        return r;
}

static int write_rows(struct rows *rows, const struct request *request, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        struct infp_batch batch;
        int r;

        INFP_TRY(infp_output_open(&output, request->path, request->format, err));
        output.out.is_csv_safe = request->is_csv_safe;
        r = infp_output_begin(&output, rows_table(rows), err);
        while (r == 0 && (r = rows_next(rows, &batch, err)) > 0)
                r = infp_output_batch(&output, &batch, err);
        return r < 0 ? r : infp_output_end(&output, rows_table(rows), err);
}

static int open_rows(struct infp_run *run, const struct request *request, const struct infp_range *range,
                     struct rows *ret, struct infp_err *err)
{
        struct infp_scan_options wanted = { .t0 = range->t0, .t1 = range->t1, .names = request->names };

        if (infp_sql_view_find(request->table))
                return infp_fail(err, -EINVAL, "%s exists only in SQL: infprof query -f %s \"SELECT * FROM %s\"",
                                 request->table, strcmp(request->format, "prom") ? request->format : "csv",
                                 request->table);
        if (strcmp(request->table, INFP_SERIES_NAME) == 0)
                return infp_series_open(run, range->t0, range->t1, &ret->series, err);
        if (request->part != INFP_PROFILE_WHOLE)
                return infp_part_rows_open(run, request->table, request->part, &wanted, &ret->part, err);
        return infp_scan_open(run, request->table, &wanted, &ret->scan, err);
}

static int export_rows(struct infp_run *run, const struct request *request, const struct infp_range *range,
                       struct infp_err *err)
{
        struct rows rows = { 0 };
        int r = open_rows(run, request, range, &rows, err);

        if (r == 0)
                r = strcmp(request->format, "parquet") == 0 ? write_parquet(&rows, request->path, err)
                                                            : write_rows(&rows, request, err);
        infp_scan_close(rows.scan);
        infp_part_rows_close(rows.part);
        infp_series_close(rows.series);
        return r;
}

static int export_page(struct infp_run *run, const struct request *request, const struct infp_range *range,
                       struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;

        INFP_TRY(infp_output_open(&output, request->path, "prom", err));
        INFP_TRY(infp_export_page(run, range->t0, range->t1, &output.out, err));
        return infp_output_finish(&output, err);
}

static int export(const char *spec, const struct request *request, struct infp_err *err)
{
        struct infp_range range = { 0 };
        struct infp_run *run = NULL;
        int reader, r = infp_reader_open(spec, &run, &reader, err);

        if (r == 0 && (request->from || request->to))
                r = infp_range_find(run, request->from, request->to, 0, &range, err);
        if (r == 0)
                r = request->table ? export_rows(run, request, &range, err) : export_page(run, request, &range, err);
        infp_reader_close(run, &infp_said);
        infp_close(reader);
        return r;
}

static int run(const struct infp_arguments *arguments)
{
        const char *given = infp_argument_given(arguments, "json") ? "json" : infp_argument(arguments, "format");
        struct request request = {
                .path = infp_argument(arguments, "output"),
                .from = infp_argument(arguments, "from"),
                .to = infp_argument(arguments, "to"),
                .is_csv_safe = infp_argument_given(arguments, "csv-safe"),
                .names = !infp_argument_given(arguments, "no-names"),
        };
        struct infp_err err = { "" };

        request.format = infp_output_format(given, request.path, "csv");
        if (arguments->n_rest > 1) {
                infp_say("export: one table at a time; see `infprof export -h`");
                return INFP_EXIT_USAGE;
        }
        if (!request.format)
                return infp_output_fail_extension("export", request.path);
        if (!infp_output_knows(request.format)) {
                infp_say("export: there is no format '%s'; " INFP_OUTPUT_FORMATS " and prom are", request.format);
                return INFP_EXIT_USAGE;
        }
        /* Prometheus text without a table is a page: what a scrape at the end of the range would have shown. */
        request.table = arguments->n_rest                     ? infp_python_bare_name(arguments->rest[0])
                        : strcmp(request.format, "prom") == 0 ? NULL
                                                              : INFP_SERIES_NAME;
        if (infp_take_part(arguments, "export", &request.part))
                return INFP_EXIT_USAGE;
        if (request.part != INFP_PROFILE_WHOLE && (!request.table || !infp_part_rows_knows(request.table))) {
                infp_say("export: --python-only and --native-only are for stack_samples, stacks, frames and symbols, "
                         "not "
                         "for %s; `infprof flamegraph` has them for profiles",
                         request.table ? request.table : "a page");
                return INFP_EXIT_USAGE;
        }
        return export(infp_argument(arguments, "run"), &request, &err) < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_export = {
        .name = "export",
        .summary = "a table or the time series of a run, in any format",
        .operands = "[TABLE]",
        .options = options,
        .more = "Without TABLE, export writes the time series, one row per sample. In text formats, time is Unix "
                "milliseconds and an\n"
                "absent value is an empty field or null. -f prom of a table has every row with its time; without a "
                "table it is a page\n"
                "of the last row of each.\n"
                "\n"
                "examples:\n"
                "  infprof export > series.csv\n"
                "  infprof export processes -f json --from -5m\n"
                "  infprof export disk_device -o disks.parquet\n"
                "  infprof export stack_samples --python-only -o python.csv\n"
                "  infprof export -f prom",
        .run = run,
};
