/* infprof finish: what `record` starts when the recording has ended. */
#include "cli/command.h"
#include "cli/output.h"
#include "finish/finish.h"

static const struct infp_option options[] = {
        { 'r', "run", "RUN",
          "the same as the operand: an output directory, a run's directory, or the beginning of its uuid", false },
        INFP_JSON_OPTION,
        { 'o', "output", "FILE", "write the JSON object there instead of standard output (-)", false },
        { 0 },
};

struct finish {
        struct infp_run *run;
        struct infp_finished finished;
};

static void put_json(struct infp_json *json, const void *what)
{
        const struct finish *finish = what;

        infp_json_member_str(json, "run", finish->run->info.uuid);
        infp_json_member_str(json, "output", finish->run->output);
        infp_json_member_str(json, "series", *finish->finished.series ? finish->finished.series : NULL);
        infp_json_member_u64(json, "samples", finish->finished.n_samples);
        infp_json_member_u64(json, "segments", finish->finished.n_segments);
        infp_json_member_u64(json, "rows", finish->finished.n_rows);
}

static int run(const struct infp_arguments *arguments)
{
        const char *path = infp_argument(arguments, "output");
        struct finish finish = { 0 };
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest + infp_argument_given(arguments, "run") > 1) {
                infp_say("finish: one directory or uuid at a time; see `infprof finish -h`");
                return INFP_EXIT_USAGE;
        }
        r = infp_run_open(arguments->n_rest ? arguments->rest[0] : infp_argument(arguments, "run"), NULL, &finish.run,
                          &err);
        if (r < 0)
                return infp_say_failure(&err);
        if (finish.run->state == INFP_RUN_INTERRUPTED)
                infp_say("the recording of run %s was interrupted: it is repaired first, as by `infprof recover`",
                         finish.run->info.uuid);
        if (finish.run->state == INFP_RUN_INTERRUPTED)
                r = infp_recover(finish.run, &infp_said, NULL, &finish.finished, &err);
        else
                r = infp_finish(finish.run, &infp_said, &finish.finished, &err);
        if (r >= 0 && (infp_argument_given(arguments, "json") || path))
                r = infp_output_object(path, put_json, &finish, &err);
        infp_run_close(finish.run);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_finish = {
        .name = "finish",
        .summary = "write the files of a run that has ended (record does it by itself)",
        .operands = "[DIR|UUID]",
        .options = options,
        .more = "Tables become zstd Parquet. <uuid>.parquet, csv, tsv or json (as record -f chose) holds the time "
                "series, one row per\n"
                "sample. finish can be repeated: after a full disk it continues where it stopped. Without DuckDB the "
                "tables stay Arrow.\n"
                "\n"
                "examples:\n"
                "  infprof finish                        the newest run of ./profiler-output\n"
                "  infprof finish ./out                  the newest run of ./out",
        .run = run,
};
