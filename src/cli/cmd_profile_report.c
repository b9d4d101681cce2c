/* infprof profile-report: a run as one JSON object in the shape of the mission's report. */
#include "app/open_run.h"
#include "base/fd.h"
#include "cli/command.h"
#include "cli/output.h"
#include "view/report/findings.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        INFP_RANGE_OPTIONS,
        { 0, "json", NULL, "the same as without: it is always JSON", false },
        INFP_OUTPUT_OPTION,
        { 0 },
};

static const double threshold_ms =
        10; /* spans that are shorter on average are no bottlenecks, as in the mission's configuration */

static int write_out(const struct infp_report *report, const char *path, struct infp_err *err)
{
        struct infp_output output;
        int r;

        INFP_TRY(infp_output_open(&output, path, "csv", err));
        r = infp_profile_report(&output.out, report, threshold_ms);
        r = r < 0 ? infp_fail_errno(err, r, "cannot print the profile") : infp_output_finish(&output, err);
        infp_output_done(&output);
        return r;
}

static int run(const struct infp_arguments *arguments)
{
        const struct infp_report_options wanted = { .from = infp_argument(arguments, "from"),
                                                    .to = infp_argument(arguments, "to") };
        struct infp_report report;
        struct infp_run *recording = NULL;
        struct infp_err err = { "" };
        infp_autoclose int lock = -1;
        int r;

        if (arguments->n_rest) {
                infp_say("profile-report: %s: it takes no words; a run is given by -r", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        r = infp_reader_open(infp_argument(arguments, "run"), &recording, &lock, &err);

        if (r >= 0) {
                infp_say_progress("profile-report: reading the run");
                r = infp_report_make(recording, &wanted, &report, &err);
                infp_end_progress();
        }
        if (r >= 0) {
                r = write_out(&report, infp_argument(arguments, "output"), &err);
                infp_report_done(&report);
        }
        infp_reader_close(recording, &infp_said);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_profile_report = {
        .name = "profile-report",
        .summary = "a run as one JSON object: CPU samples, memory, bottlenecks, and why a value is null",
        .options = options,
        .more = "The keys are in docs/profile-report.schema.json; `absent` has the reason for each null. Memory is in "
                "MiB.\n"
                "\n"
                "examples:\n"
                "  infprof profile-report\n"
                "  infprof profile-report --from warm --to done -o profile.json",
        .run = run,
};
