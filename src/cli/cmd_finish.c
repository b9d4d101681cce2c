/* infprof finish: what `record` starts when the recording has ended. */
#include "cli/command.h"
#include "cli/finish_notices.h"
#include "finish/finish.h"

static const struct infp_option options[] = {
        { 'r', "run", "RUN",
          "its output directory or the beginning of its uuid (default: the newest in ./profiler-output)", false },
        { 0 },
};

static int run(const struct infp_arguments *arguments)
{
        struct infp_run *recording;
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest) {
                infp_say("finish: it takes no operand '%s'; a run is given by -r", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        r = infp_run_open(infp_argument(arguments, "run"), NULL, &recording, &err);
        if (r < 0)
                return infp_say_failure(&err);
        r = infp_finish(recording, &infp_said_notices, NULL, &err);
        infp_run_close(recording);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_finish = {
        .name = "finish",
        .summary = "make a run's files when its recording has ended (record does it itself)",
        .options = options,
        .more = "Tables become zstd Parquet, <uuid>.parquet, csv, tsv or json (as the run was asked for) holds the "
                "time series, a row\n"
                "a sample. It may be repeated: after a full disk it goes on where it stopped. Without DuckDB the "
                "tables stay Arrow.\n"
                "\n"
                "examples:\n"
                "  infprof finish                        the newest run of ./profiler-output\n"
                "  infprof finish -r ./out               the newest run of ./out",
        .run = run,
};
