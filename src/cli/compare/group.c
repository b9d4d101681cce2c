#include "cli/compare/group.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "analyze/compare/group.h"
#include "app/compare_runs.h"
#include "base/mem.h"
#include "cli/output.h"
#include "model/builder.h"

enum { NUMBER, UNIT, VARIANT, RUNS, MEAN, STD, MIN, MAX, NORMALISED, RATIO, RATIO_LOW, RATIO_HIGH, N };
enum { MOST_TEXT = 1 << 18 }; /* a variant may be many paths */

// clang-format off
#define FIGURE(name_, help_) INFP_COLUMN(name_, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, help_)
static const struct infp_column columns[] = {
        [NUMBER] = INFP_COLUMN(number, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "As infprof compare has it."),
        [UNIT] = INFP_COLUMN(unit, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Base unit."),
        [VARIANT] = INFP_COLUMN(variant, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Operand; all: over all variants."),
        [RUNS] = INFP_COLUMN(runs, I64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Runs with a value; of all: ratios."),
        [MEAN] = FIGURE(mean, "Over its runs."),
        [STD] = FIGURE(std, "Over its runs, with n - 1."),
        [MIN] = FIGURE(min, "Smallest."),
        [MAX] = FIGURE(max, "Largest."),
        [NORMALISED] = FIGURE(normalised, "Mean by the smallest mean of all variants."),
        [RATIO] = FIGURE(ratio, "To the first variant, of geometric means; of all: geometric mean of the ratios."),
        [RATIO_LOW] = FIGURE(ratio_low, "Lower end of its 95 % interval (Student's t)."),
        [RATIO_HIGH] = FIGURE(ratio_high, "Upper end of its 95 % interval."),
};
// clang-format on
static const struct infp_table group_table = { .name = "group", .columns = columns, .n_columns = N, .plain = true };

static int put(struct infp_output *output, struct infp_builder *builder, const struct infp_group_row *row,
               const struct infp_compare_request *request, struct infp_err *err)
{
        const double figures[] = { row->mean,       row->std,   row->min, row->max,
                                   row->normalised, row->ratio, row->low, row->high };
        struct infp_batch batch;

        infp_builder_reset(builder);
        infp_builder_row_begin(builder, 0, 0);
        infp_builder_set_text(builder, NUMBER, row->name);
        infp_builder_set_text(builder, UNIT, row->number->base);
        infp_builder_set_text(builder, VARIANT, row->side < request->n ? request->sides[row->side].text : "all");
        infp_builder_set(builder, RUNS, (union infp_cell){ .i64 = row->n }, NULL, 0);
        for (unsigned i = 0; i < INFP_COUNT(figures); i++)
                if (isfinite(figures[i]))
                        infp_builder_set(builder, MEAN + i, (union infp_cell){ .f64 = figures[i] }, NULL, 0);
        if (infp_builder_row_end(builder) < 0)
                return infp_fail(err, -EBADMSG, "the name of a variant is too long");
        batch = infp_builder_batch(builder, 0);
        return infp_output_batch(output, &batch, err);
}

static int print(struct infp_output *output, const struct infp_group *group, const struct infp_compare_request *request,
                 struct infp_err *err)
{
        struct infp_builder *builder = infp_builder_new(&group_table, 1);
        int r = builder && infp_builder_grow(builder, MOST_TEXT) >= 0 ? infp_output_begin(output, &group_table, err)
                                                                      : infp_fail(err, -ENOMEM, "not enough memory");

        for (unsigned i = 0; r == 0 && i < group->n; i++)
                r = put(output, builder, &group->rows[i], request, err);
        if (r >= 0)
                r = infp_output_end(output, &group_table, err);
        infp_builder_free(builder);
        return r;
}

static const char *format_of(const struct infp_arguments *arguments)
{
        const char *path = infp_argument(arguments, "output");

        if (infp_output_is_json(arguments))
                return "json";
        if (infp_argument_given(arguments, "csv"))
                return "csv";
        return infp_output_format(NULL, path, infp_output_is_stdout(path) && isatty(STDOUT_FILENO) ? "table" : "csv");
}

static int take(const struct infp_arguments *arguments, struct infp_compare_request *ret)
{
        *ret = (struct infp_compare_request){ .anyway = true };
        if (arguments->n_rest < 2 || arguments->n_rest > INFP_COMPARE_SIDES) {
                infp_say("report: --group takes 2 to %d variants, each a run or several with commas",
                         INFP_COMPARE_SIDES);
                return INFP_EXIT_USAGE;
        }
        if (infp_argument_given(arguments, "run")) {
                infp_say("report: --group takes its runs as operands, not by -r");
                return INFP_EXIT_USAGE;
        }
        for (int i = 0; i < arguments->n_rest; i++)
                ret->sides[ret->n++] =
                        (struct infp_compare_operand){ arguments->rest[i], infp_argument(arguments, "from"),
                                                       infp_argument(arguments, "to") };
        return INFP_EXIT_OK;
}

static int show(const struct infp_compare_request *request, const struct infp_arguments *arguments,
                struct infp_output *output, struct infp_err *err)
{
        infp_cleanup(infp_compared_done) struct infp_compared compared = { .n = 0 };
        infp_cleanup(infp_group_done) struct infp_group group = { .n = 0 };

        INFP_TRY(infp_compare_runs_read(request, &infp_said, &compared, err));
        infp_end_progress();
        if (compared.unlike)
                infp_say("report: the runs are unlike: %s", compared.unlike);
        if (infp_group_make(compared.sides, compared.n, &group) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory");
        if (!group.n)
                return infp_fail(err, -ENODATA,
                                 "none of the runs has a number that is compared: see `infprof compare --list`");
        output->out.is_csv_safe = infp_argument_given(arguments, "csv-safe");
        return print(output, &group, request, err);
}

int infp_report_group(const struct infp_arguments *arguments)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        const char *path = infp_argument(arguments, "output"), *format = format_of(arguments);
        struct infp_compare_request request;
        struct infp_err err = { "" };
        int r = take(arguments, &request);

        if (r)
                return r;
        if (!format || !infp_format_find(format) || !strcmp(format, "prom"))
                return infp_output_fail_extension("report", path);
        if (infp_output_open(&output, path, format, &err) < 0 || show(&request, arguments, &output, &err) < 0)
                return infp_say_failure(&err);
        return INFP_EXIT_OK;
}
