/* infprof snapshot: one sample of everything, now, on standard output. */
#include <stdlib.h>
#include <unistd.h>

#include "app/one_shot.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "view/format.h"
#include "view/prom.h"
#include "view/snapshot/snapshot.h"

static const struct infp_option options[] = {
        { 0, "json", NULL, "one JSON object (the default; indented on a terminal)", false },
        { 0, "prom", NULL, "Prometheus text, in base units", false },
        { 0, "root", "DIR", "read proc and sys below DIR instead of / (a copy of a machine)", false },
        { 'p', "processes", NULL, "every process of the machine", false },
        INFP_OUTPUT_OPTION,
        INFP_SOURCE_OPTIONS,
        { 0 },
};

static int print(const struct infp_one_shot *shot, const char *path, bool as_prom, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        int r = 0;

        INFP_TRY(infp_output_open(&output, path, "json", err));
        if (as_prom)
                r = infp_prom_page(&output.out, &shot->last);
        else
                infp_snapshot_put(&output.out.text, &shot->last, shot->unix_ms, output.out.width ? 2 : 0, true);
        return r < 0 ? infp_fail_errno(err, r, "cannot print the snapshot") : infp_output_finish(&output, err);
}

static int run(const struct infp_arguments *arguments)
{
        const char *root = infp_argument(arguments, "root"), *path = infp_argument(arguments, "output");
        const bool as_prom = infp_argument_given(arguments, "prom");
        struct infp_setting settings[INFP_SOURCE_SETTINGS];
        struct infp_one_shot shot;
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest) {
                infp_say("snapshot: it takes no operand '%s'; see `infprof snapshot -h`", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        if (infp_argument_given(arguments, "json") && as_prom) {
                infp_say("snapshot: --json or --prom, not both");
                return INFP_EXIT_USAGE;
        }
        if (infp_source_settings(arguments, settings, &err) < 0) {
                infp_say("snapshot: %s", err.text);
                return INFP_EXIT_USAGE;
        }
        r = infp_one_shot_take(root ? root : "/", settings, infp_argument_given(arguments, "processes"), &shot, &err);
        if (r >= 0) {
                r = print(&shot, path, as_prom, &err);
                infp_one_shot_done(&shot);
        }
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_snapshot = {
        .name = "snapshot",
        .summary = "take one sample of everything, as JSON or Prometheus text",
        .options = options,
        .more = "Each value is {\"value\", \"time\"}, where time is the Unix milliseconds of its own reading. An "
                "absent value is null, and\n"
                "the member `sources` says why. The exit code is 0 even if values are absent.\n"
                "\n"
                "examples:\n"
                "  infprof snapshot | jq .mem.vMemoryFree.value\n"
                "  infprof snapshot -p | jq -r '.processes.processes[] | [.pId, .pName, .pResidentSetSize.value] | "
                "@tsv'\n"
                "  infprof snapshot --prom -o /var/lib/node_exporter/infprof.prom",
        .run = run,
};
