/* infprof report: what happened in a run, in plain words, as JSON, as a table, as a page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/timeline.h"
#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/compare/group.h"
#include "cli/compare/print.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "view/html/html.h"
#include "view/report/report.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        INFP_RANGE_OPTIONS,
        { 0, "skip", "TIME", "skip the beginning, such as 60s of warm-up", false },
        { 0, "labels", NULL,
          "report between each two neighbouring labels (marks, and measure_label lines of a captured output)", false },
        INFP_PART_OPTIONS,
        { 0, "full", NULL, "every section, not only the main points", false },
        { 'a', "all", NULL, "every section, with every metric: details of the machine, what did not change", false },
        { 0, "json", NULL, "one JSON object", false },
        { 0, "csv-safe", NULL, INFP_CSV_SAFE_HELP, false },
        { 0, "csv", NULL, "one line per metric: mean, std, min, max, total; with --labels one line per pair of labels",
          false },
        { 0, "html", NULL,
          "an interactive page in one file, with charts over time (default: UUID_report.html beside the run)", false },
        { 0, "diff", "RUN", "compare with an older run, as `infprof compare RUN` does", false },
        { 0, "group", NULL,
          "the operands are runs, not sections: a row for each number and variant, with ratios to the first (table, "
          "csv, "
          "json)",
          false },
        { 'o', "output", "FILE", "write there instead of standard output (-)", false },
        { 0 },
};

/* A table has no column for it. */
static void say_broken(const struct infp_report *report)
{
        for (unsigned i = 0; i < report->n_broken; i++)
                infp_say("report: table %s cannot be read and is missing here: %s", report->broken[i].table,
                         report->broken[i].message);
}

static int print(struct infp_output *output, const struct infp_report *report, const struct infp_arguments *arguments,
                 struct infp_err *err)
{
        struct infp_out *out = &output->out;
        int r = 0;

        if (infp_output_is_json(arguments) && !infp_argument_given(arguments, "csv"))
                infp_report_json(out, report);
        else if (infp_argument_given(arguments, "csv")) {
                say_broken(report);
                r = report->lists_labels ? infp_report_labels_table(out, report, &infp_format_csv)
                                         : infp_report_table(out, report, &infp_format_csv);
        } else
                infp_report_text(out, report,
                                 infp_argument_given(arguments, "all")    ? INFP_REPORT_ALL
                                 : infp_argument_given(arguments, "full") ? INFP_REPORT_FULL
                                                                          : INFP_REPORT_SHORT,
                                 arguments->rest);
        return r < 0 ? infp_fail_errno(err, r, "cannot print the report") : infp_output_finish(output, err);
}

static int print_to(const char *path, const struct infp_report *report, const struct infp_arguments *arguments,
                    struct infp_err *err)
{
        struct infp_output output;
        int r;

        INFP_TRY(infp_output_open(&output, path, "csv", err));
        output.out.is_csv_safe = infp_argument_given(arguments, "csv-safe");
        r = print(&output, report, arguments, err);
        infp_output_done(&output);
        return r;
}

/* The page is large and for a browser: without -o it goes into a file, whose name is printed. */
static int write_page(struct infp_run *recording, const struct infp_report *report, const char *path,
                      struct infp_err *err)
{
        infp_cleanup(infp_timeline_done) struct infp_timeline timeline = { 0 };
        infp_autofree char *beside = NULL;
        struct infp_output output;
        int r;

        infp_say_progress("report: reading the tables for the page");
        INFP_TRY(infp_timeline_make(recording, report, &timeline, err));
        infp_say_progress("report: writing the page");
        INFP_TRY(path ? infp_output_open(&output, path, "csv", err)
                      : infp_output_open_beside(&output, recording, "_report.html", &beside, err));
        r = infp_report_html(&output.out, report, &timeline);
        r = r < 0 ? infp_fail_errno(err, r, "cannot write the page") : infp_output_finish(&output, err);
        infp_output_done(&output);
        if (r >= 0 && (beside || !infp_output_is_stdout(path)))
                infp_print("%s", beside ? beside : path);
        return r;
}

static bool section_at(size_t i, struct infp_operand *ret)
{
        *ret = (struct infp_operand){ infp_report_sections[i].name, infp_report_sections[i].help };
        return ret->name;
}

/* Prints why it is not one. */
static bool is_section(const char *word)
{
        infp_autostr struct infp_str names = { 0 };
        struct infp_nearest nearest = { .word = word };

        for (const struct infp_report_section *section = infp_report_sections; section->name; section++) {
                if (!strcmp(section->name, word))
                        return true;
                infp_nearest_try(&nearest, section->name);
                infp_str_printf(&names, "%s%s", names.size ? ", " : "", section->name);
        }
        if (nearest.best)
                infp_say("report: there is no section '%s'; did you mean %s?", word, nearest.best);
        else
                infp_say("report: there is no section '%s', only %s; a run is given by -r", word,
                         names.data ? names.data : "");
        return false;
}

static int check(const struct infp_arguments *arguments, struct infp_report_options *ret)
{
        const char *skip = infp_argument(arguments, "skip");

        *ret = (struct infp_report_options){ .from = infp_argument(arguments, "from"),
                                             .to = infp_argument(arguments, "to"),
                                             .labels = infp_argument_given(arguments, "labels") };
        if (infp_take_part(arguments, "report", &ret->part))
                return INFP_EXIT_USAGE;
        if (ret->part != INFP_PROFILE_WHOLE && infp_argument_given(arguments, "csv")) {
                infp_say("report: --python-only and --native-only are for functions and lines, which --csv does not "
                         "list");
                return INFP_EXIT_USAGE;
        }
        for (int i = 0; i < arguments->n_rest; i++) {
                if (!is_section(arguments->rest[i]))
                        return INFP_EXIT_USAGE;
                ret->labels |= !strcmp(arguments->rest[i], "labels") && !ret->from && !ret->to;
        }
        if (skip && infp_parse_duration(skip, &ret->skip_ns) < 0) {
                infp_say("report: --skip %s: not a duration; write it like 60s, 5m or 500ms", skip);
                return INFP_EXIT_USAGE;
        }
        if (infp_argument_given(arguments, "json") + infp_argument_given(arguments, "csv") +
                    infp_argument_given(arguments, "html") >
            1) {
                infp_say("report: give only one of --json, --csv and --html");
                return INFP_EXIT_USAGE;
        }
        if (arguments->n_rest && (infp_output_is_json(arguments) || infp_argument_given(arguments, "csv") ||
                                  infp_argument_given(arguments, "html"))) {
                infp_say("report: %s: sections are for the text report; --json, --csv and --html always contain all",
                         arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        return INFP_EXIT_OK;
}

/* Options that neither a difference nor a group has. Exit code. */
static int refuse(const struct infp_arguments *arguments, const char *option)
{
        static const char *const others[] = { "skip", "labels", "python-only", "native-only", "full", "all", "html" };

        for (unsigned i = 0; i < INFP_COUNT(others); i++)
                if (infp_argument_given(arguments, others[i])) {
                        infp_say("report: --%s is not for --%s", others[i], option);
                        return INFP_EXIT_USAGE;
                }
        return INFP_EXIT_OK;
}

/* The range is that of the newer run. */
static int diff(const struct infp_arguments *arguments)
{
        const char *newer = infp_argument(arguments, "run");
        const struct infp_compare_wants wants = {
                .verb = "report --diff",
                .request = { .sides = { { infp_argument(arguments, "diff"), NULL, NULL },
                                        { newer ? newer : "", infp_argument(arguments, "from"),
                                          infp_argument(arguments, "to") } },
                             .n = 2 },
                .is_json = infp_output_is_json(arguments),
                .path = infp_argument(arguments, "output"),
        };

        if (arguments->n_rest || infp_argument_given(arguments, "csv")) {
                infp_say("report: --diff prints what `infprof compare` prints, as text or --json, without sections");
                return INFP_EXIT_USAGE;
        }
        return infp_compare_print(&wants);
}

static int run(const struct infp_arguments *arguments)
{
        static const char *const ways[] = { "diff", "group" };
        struct infp_report_options wanted;
        struct infp_report report;
        struct infp_run *recording = NULL;
        struct infp_err err = { "" };
        infp_autoclose int lock = -1;
        int r;

        for (unsigned i = 0; i < INFP_COUNT(ways); i++)
                if (infp_argument_given(arguments, ways[i])) {
                        r = refuse(arguments, ways[i]);
                        return r ? r : i ? infp_report_group(arguments) : diff(arguments);
                }
        r = check(arguments, &wanted);
        if (r)
                return r;
        r = infp_reader_open(infp_argument(arguments, "run"), &recording, &lock, &err);
        if (r >= 0) {
                infp_say_progress("report: reading the run");
                r = infp_report_make(recording, &wanted, &report, &err);
                infp_end_progress();
        }
        if (r >= 0) {
                if (infp_argument_given(arguments, "html"))
                        r = write_page(recording, &report, infp_argument(arguments, "output"), &err);
                else
                        r = print_to(infp_argument(arguments, "output"), &report, arguments, &err);
                infp_report_done(&report);
        }
        infp_reader_close(recording, &infp_said);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_report = {
        .name = "report",
        .summary =
                "what limited a run; requests, engine, CPU, memory, GPUs, energy, functions, what was absent and why",
        .operands = "[SECTION...]",
        .operand_at = section_at,
        .operands_title = "sections",
        .options = options,
        .more = "A run that is still being recorded can be reported too, up to at most 5 s ago.\n"
                "Times without a zone are local (TZ). Rates come from the samples inside the range.\n"
                "\n"
                "examples:\n"
                "  infprof report                              the main points of the newest run\n"
                "  infprof report functions absent             two sections in full\n"
                "  infprof report lines --python-only          the lines of Python that took the time\n"
                "  infprof report --full                       all sections\n"
                "  infprof report -r 0198f3 --skip 60s         without its first minute\n"
                "  infprof report --from warm --to done        between two marks (infprof mark warm)\n"
                "  infprof report --labels                     between each two labels: CPU, memory, energy ...\n"
                "  infprof report --from -5m                   the last five minutes\n"
                "  infprof report --html                       a page for a browser, in one file\n"
                "  infprof report --html --from warm -o a.html  a part of the run, in another file\n"
                "  infprof report --diff base                  against a pinned run (see `infprof compare`)\n"
                "  infprof report --group a1,a2 b1,b2 --csv    means, deviations and ratios of variants\n"
                "  infprof report --json | jq .metrics.tree_rss_bytes.max",
        .run = run,
};
