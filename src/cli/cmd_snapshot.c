/* infprof snapshot: one sample of everything, now, on standard output. */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/one_shot.h"
#include "cli/prom_page.h"
#include "cli/source_options.h"
#include "view/format.h"
#include "view/snapshot.h"

static const struct infp_option options[] = {
        { 0, "json", NULL, "one JSON object (the default; indented on a terminal)", false },
        { 0, "prom", NULL, "Prometheus text, in base units", false },
        { 0, "root", "DIR", "a directory that stands for the machine: its proc and sys are read (default: /)", false },
        { 'p', "processes", NULL, "every process of the machine", false },
        INFP_SOURCE_OPTIONS,
        { 0 },
};

static int print(const struct infp_one_shot *shot, bool as_prom, struct infp_err *err)
{
        struct infp_out out;
        int r = 0;

        infp_out_init(&out, STDOUT_FILENO, "standard output");
        if (as_prom)
                r = infp_prom_page(&out, &shot->last);
        else
                infp_snapshot_put(&out.text, &shot->last, shot->unix_ms, out.width ? 2 : 0, true);
        if (r < 0)
                infp_fail_errno(err, r, "cannot print the snapshot");
        else
                r = infp_out_flush(&out, err);
        infp_out_done(&out);
        return r;
}

static int run(const struct infp_arguments *arguments)
{
        const char *root = infp_argument(arguments, "root");
        struct infp_setting settings[INFP_SOURCE_SETTINGS];
        struct infp_one_shot shot;
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest) {
                infp_say("snapshot: it takes no operand '%s'; see `infprof snapshot -h`", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        if (infp_argument_given(arguments, "json") && infp_argument_given(arguments, "prom")) {
                infp_say("snapshot: --json or --prom, not both");
                return INFP_EXIT_USAGE;
        }
        if (infp_source_settings(arguments, settings, &err) < 0) {
                infp_say("snapshot: %s", err.text);
                return INFP_EXIT_USAGE;
        }
        r = infp_one_shot_take(root ? root : "/", settings, infp_argument_given(arguments, "processes"), &shot, &err);
        if (r >= 0) {
                r = print(&shot, infp_argument_given(arguments, "prom"), &err);
                infp_one_shot_done(&shot);
        }
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_snapshot = {
        .name = "snapshot",
        .summary = "one sample of everything, now, as JSON or Prometheus text",
        .options = options,
        .more = "Each value stands as {\"value\", \"time\"} with the Unix milliseconds of its own reading; what is "
                "absent is null, and\n"
                "the member `sources` says why. Exit code 0 whatever is missing.\n\n"
                "examples:\n"
                "  infprof snapshot | jq .mem.vMemoryFree.value\n"
                "  infprof snapshot -p | jq -r '.processes.processes[] | [.pId, .pName, .pResidentSetSize.value] | "
                "@tsv'\n"
                "  infprof snapshot --prom > /var/lib/node_exporter/infprof.prom",
        .run = run,
};
