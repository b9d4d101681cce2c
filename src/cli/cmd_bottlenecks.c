/* infprof bottlenecks: what holds the target back, with evidence, by rules. */
#include <string.h>

#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/output.h"
#include "view/report/findings.h"
#include "view/report/report.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        INFP_RANGE_OPTIONS,
        { 0, "min-severity", "WORD", "only findings that are low, medium, high or critical, or worse (default: low)",
          false },
        { 0, "min-samples", "N", "of a CPU profile, for hot functions (default: 100)", false },
        { 0, "threshold-ms", "MS", "spans of programs whose mean is shorter are no bottlenecks (default: 10)", false },
        { 0, "rules", NULL, "print the rules in place of findings: what each means, how it is decided, what to do",
          false },
        INFP_JSON_OPTION,
        INFP_OUTPUT_OPTION,
        { 0 },
};

struct wanted {
        struct infp_report_options report;
        enum infp_severity least;
        double threshold_ms;
        bool rules;
};

static int check(const struct infp_arguments *arguments, struct wanted *ret)
{
        const char *severity = infp_argument(arguments, "min-severity"),
                   *samples = infp_argument(arguments, "min-samples"),
                   *threshold = infp_argument(arguments, "threshold-ms");
        int word = severity ? infp_severity_by_name(severity) : INFP_SEVERITY_LOW;

        *ret = (struct wanted){ .report = { .from = infp_argument(arguments, "from"),
                                            .to = infp_argument(arguments, "to") },
                                .threshold_ms = 10,
                                .rules = infp_argument_given(arguments, "rules") };
        if (arguments->n_rest) {
                infp_say("bottlenecks: %s: it takes no words; a run is given by -r", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        if (word < 0) {
                infp_say("bottlenecks: --min-severity %s: give low, medium, high or critical", severity);
                return INFP_EXIT_USAGE;
        }
        if (samples &&
            (infp_parse_u64(samples, strlen(samples), &ret->report.min_samples) < 0 || !ret->report.min_samples)) {
                infp_say("bottlenecks: --min-samples %s: not a number of samples; give one from 1 on", samples);
                return INFP_EXIT_USAGE;
        }
        if (threshold &&
            (infp_parse_f64(threshold, strlen(threshold), &ret->threshold_ms) < 0 || !(ret->threshold_ms >= 0))) {
                infp_say("bottlenecks: --threshold-ms %s: not a time in milliseconds; give a number from 0 on",
                         threshold);
                return INFP_EXIT_USAGE;
        }
        ret->least = (enum infp_severity) word;
        return INFP_EXIT_OK;
}

static int put_json(struct infp_out *out, const struct infp_report *report, const struct wanted *wanted)
{
        infp_autofree struct infp_call *calls = NULL;
        struct infp_json json;
        unsigned n;

        INFP_TRY(infp_calls_find(report, wanted->threshold_ms, wanted->least, &calls, &n));
        infp_json_begin(&json, &out->text, 2);
        infp_json_object(&json);
        infp_json_member_str(&json, "run", report->run->info.uuid);
        infp_json_member_i64(&json, "from_unix_ms", report->from_unix_ns / 1000000);
        infp_json_member_i64(&json, "to_unix_ms", report->to_unix_ns / 1000000);
        infp_json_member_f64(&json, "wall_s", report->wall_s);
        infp_json_member_str(&json, "headline", report->limits.n ? report->limits.headline : NULL);
        infp_bottlenecks_members(&json, report, wanted->least);
        infp_calls_member(&json, calls, n, true);
        infp_json_object_end(&json);
        infp_str_putc(&out->text, '\n');
        return 0;
}

static int write_out(const struct infp_report *report, const struct infp_arguments *arguments,
                     const struct wanted *wanted, struct infp_err *err)
{
        struct infp_output output;
        int r;

        INFP_TRY(infp_output_open(&output, infp_argument(arguments, "output"), "csv", err));
        if (wanted->rules)
                infp_rules_markdown(&output.out.text), r = 0;
        else if (infp_output_is_json(arguments))
                r = put_json(&output.out, report, wanted);
        else
                infp_bottlenecks_text(&output.out, report, wanted->least), r = 0;
        r = r < 0 ? infp_fail_errno(err, r, "cannot print the bottlenecks") : infp_output_finish(&output, err);
        infp_output_done(&output);
        return r;
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_report report = { 0 };
        struct infp_run *recording = NULL;
        struct infp_err err = { "" };
        infp_autoclose int lock = -1;
        struct wanted wanted;
        int r = check(arguments, &wanted);

        if (r)
                return r;
        r = wanted.rules ? 0 : infp_reader_open(infp_argument(arguments, "run"), &recording, &lock, &err);
        if (r >= 0 && !wanted.rules) {
                infp_say_progress("bottlenecks: reading the run");
                r = infp_report_make(recording, &wanted.report, &report, &err);
                infp_end_progress();
        }
        if (r >= 0) {
                r = write_out(&report, arguments, &wanted, &err);
                infp_report_done(&report);
        }
        infp_reader_close(recording, &infp_said);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_bottlenecks = {
        .name = "bottlenecks",
        .summary = "what holds a server back: findings with their evidence, what they cost, and what to try",
        .options = options,
        .more = "Findings are listed with the worst first, and below each what follows from it. A rule whose source "
                "was not\n"
                "recorded is listed as not checked, with the reason. `record --cpu --off-cpu --gil` checks most of "
                "them.\n"
                "\n"
                "examples:\n"
                "  infprof bottlenecks                            of the newest run\n"
                "  infprof bottlenecks --from warm --to done      between two marks\n"
                "  infprof bottlenecks --min-severity high --json | jq .findings[0]\n"
                "  infprof bottlenecks --rules                    what each rule means, and its thresholds",
        .run = run,
};
