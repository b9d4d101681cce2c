/* infprof finish: what `record` starts when the recording has ended. */
#include "cli/command.h"
#include "cli/finish_notices.h"
#include "finish/finish.h"

static const struct infp_option options[] = {
        { 'r', "run", "RUN", "the same as the operand: an output directory, a run's own, or the beginning of its uuid",
          false },
        { 0 },
};

static int run(const struct infp_arguments *arguments)
{
        struct infp_run *recording;
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest + infp_argument_given(arguments, "run") > 1) {
                infp_say("finish: one directory or uuid at a time; see `infprof finish -h`");
                return INFP_EXIT_USAGE;
        }
        r = infp_run_open(arguments->n_rest ? arguments->rest[0] : infp_argument(arguments, "run"), NULL, &recording,
                          &err);
        if (r < 0)
                return infp_say_failure(&err);
        if (recording->state == INFP_RUN_INTERRUPTED)
                infp_say("the recording of run %s broke off: it is mended first, as by `infprof recover`",
                         recording->info.uuid);
        if (recording->state == INFP_RUN_INTERRUPTED)
                r = infp_recover(recording, &infp_said_notices, NULL, NULL, &err);
        else
                r = infp_finish(recording, &infp_said_notices, NULL, &err);
        infp_run_close(recording);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_finish = {
        .name = "finish",
        .summary = "make a run's files when its recording has ended (record does it itself)",
        .operands = "[DIR|UUID]",
        .options = options,
        .more = "Tables become zstd Parquet, <uuid>.parquet, csv, tsv or json (as the run was asked for) holds the "
                "time series, a row\n"
                "a sample. It may be repeated: after a full disk it goes on where it stopped. Without DuckDB the "
                "tables stay Arrow.\n"
                "\n"
                "examples:\n"
                "  infprof finish                        the newest run of ./profiler-output\n"
                "  infprof finish ./out                  the newest run of ./out",
        .run = run,
};
