/* infprof recover: repairs runs after a killed recorder or a power cut. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/output.h"
#include "finish/finish.h"
#include "view/report/parts.h"

static const struct infp_option options[] = {
        { 'r', "run", "RUN",
          "the same as the operand: an output directory, a run's directory, or the beginning of its uuid", false },
        INFP_JSON_OPTION,
        INFP_OUTPUT_OPTION,
        { 0 },
};

struct recovery {
        const char *directory;
        unsigned n_recovered, n_live, n_failed;
        struct infp_output output;
        struct infp_json json;
        bool is_json;
};

/* A recorder that was killed or had a full disk leaves segments without their end mark; a segment is torn only if it was
 * killed within a write. */
static void put_segments(struct infp_str *out, const struct infp_mend *mend)
{
        unsigned n_whole = mend->n_segments - mend->n_empty - mend->n_broken;

        infp_str_printf(out, "the recording was interrupted; %u of %u segments hold whole rows, ", n_whole,
                        mend->n_segments);
        if (mend->bytes_cut)
                infp_str_printf(out, "%s bytes of torn batches are cut off, ", infp_count(mend->bytes_cut).text);
        if (mend->n_damaged)
                infp_str_printf(out, "%s damaged parts (%s bytes) are skipped, ", infp_count(mend->n_damaged).text,
                                infp_count(mend->bytes_damaged).text);
        if (mend->n_empty)
                infp_str_printf(out, "%u had no row, ", mend->n_empty);
        if (mend->n_broken)
                infp_str_printf(out, "%u cannot be read and are set aside as *.broken, ", mend->n_broken);
}

static void put_json(struct infp_json *json, const struct infp_run *run, const struct infp_mend *mend,
                     const struct infp_finished *finished)
{
        infp_json_object(json);
        infp_json_member_str(json, "run", run->info.uuid);
        infp_json_member_str(json, "output", run->output);
        infp_json_member_str(json, "series", *finished->series ? finished->series : NULL);
        infp_json_member_u64(json, "samples", finished->n_samples);
        infp_json_member_u64(json, "segments", mend->n_segments);
        infp_json_member_u64(json, "segments_empty", mend->n_empty);
        infp_json_member_u64(json, "segments_broken", mend->n_broken);
        infp_json_member_u64(json, "bytes_cut", mend->bytes_cut);
        infp_json_member_u64(json, "parts_damaged", mend->n_damaged);
        infp_json_member_u64(json, "bytes_damaged", mend->bytes_damaged);
        infp_json_object_end(json);
}

static void put_text(struct infp_out *out, const struct infp_run *run, bool was_interrupted,
                     const struct infp_mend *mend, const struct infp_finished *finished)
{
        infp_autostr struct infp_str segments = { 0 };

        if (was_interrupted && !mend->n_segments && !*finished->series) {
                infp_report_put(out, "%s: another process has recovered it meanwhile", run->info.uuid);
                return;
        }
        if (was_interrupted && mend->n_segments)
                put_segments(&segments, mend);
        infp_report_put(out, "%s: %s%s samples in %s/%s", run->info.uuid, segments.data ? segments.data : "",
                        infp_count(finished->n_samples).text, run->output, finished->series);
}

static void recover(struct recovery *recovery, struct infp_run *run)
{
        bool was_interrupted = run->state == INFP_RUN_INTERRUPTED;
        struct infp_finished finished = { 0 };
        struct infp_mend mend = { 0 };
        struct infp_err err = { "" };

        if (run->state == INFP_RUN_FINISHED)
                return;
        if (run->state == INFP_RUN_RECORDING) {
                infp_say("run %s is still being recorded by process %d: not touched", run->info.uuid,
                         run->info.recorder_pid);
                recovery->n_live++;
                return;
        }
        if (infp_recover(run, &infp_said, &mend, &finished, &err) < 0) {
                infp_say("run %s: %s", run->info.uuid, err.text);
                recovery->n_failed++;
                return;
        }
        if (recovery->is_json) {
                put_json(&recovery->json, run, &mend, &finished);
        } else {
                put_text(&recovery->output.out, run, was_interrupted, &mend, &finished);
                infp_report_end(&recovery->output.out);
                infp_out_flush(&recovery->output.out, NULL); /* other runs take long; an error is reported at the end */
        }
        recovery->n_recovered++;
}

static int recover_one(struct recovery *recovery, const char *spec, struct infp_err *err)
{
        struct infp_run *run;

        INFP_TRY(infp_run_open(spec, NULL, &run, err));
        recover(recovery, run);
        infp_run_close(run);
        return 0;
}

static int each(void *context, const char *uuid)
{
        struct recovery *recovery = context;
        infp_autostr struct infp_str path = { 0 };
        struct infp_err err = { "" };

        infp_str_printf(&path, "%s/%s.infprof", recovery->directory, uuid);
        if (path.failed || recover_one(recovery, path.data, &err) < 0) {
                infp_say("run %s: %s", uuid, path.failed ? "out of memory" : err.text);
                recovery->n_failed++;
        }
        return 0; /* one that fails does not stop the others */
}

/* A directory of runs; not the run's own directory. */
static bool is_output(const char *path)
{
        infp_autofree char *real = realpath(path, NULL);
        size_t size = real ? strlen(real) : 0;
        struct stat st;

        return real && stat(real, &st) == 0 && S_ISDIR(st.st_mode) &&
               !(size > 8 && strcmp(real + size - 8, ".infprof") == 0);
}

static void begin(struct recovery *recovery)
{
        if (!recovery->is_json)
                return;
        infp_json_begin(&recovery->json, &recovery->output.out.text, 2);
        infp_json_object(&recovery->json);
        infp_json_key(&recovery->json, "recovered");
        infp_json_array(&recovery->json);
}

static int end(struct recovery *recovery, const char *spec, struct infp_err *err)
{
        struct infp_out *out = &recovery->output.out;

        if (recovery->is_json) {
                infp_json_array_end(&recovery->json);
                infp_json_member_u64(&recovery->json, "recording", recovery->n_live);
                infp_json_member_u64(&recovery->json, "failed", recovery->n_failed);
                infp_json_object_end(&recovery->json);
                infp_report_end(out);
        } else if (!recovery->n_recovered && !recovery->n_failed && !recovery->n_live) {
                infp_report_put(out, "nothing to recover in %s", spec);
                infp_report_end(out);
        }
        return infp_output_finish(&recovery->output, err);
}

static int run(const struct infp_arguments *arguments)
{
        const char *given = arguments->n_rest ? arguments->rest[0] : infp_argument(arguments, "run");
        const char *spec = given ? given : INFP_DEFAULT_OUTPUT;
        struct recovery recovery = { .directory = spec, .is_json = infp_output_is_json(arguments) };
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest + infp_argument_given(arguments, "run") > 1) {
                infp_say("recover: one directory or uuid at a time; see `infprof recover -h`");
                return INFP_EXIT_USAGE;
        }
        if (infp_output_open(&recovery.output, infp_argument(arguments, "output"), "json", &err) < 0)
                return infp_say_failure(&err);
        begin(&recovery);
        r = is_output(spec) || !given ? infp_run_each(spec, each, &recovery, &err) : recover_one(&recovery, spec, &err);
        if (r >= 0)
                r = end(&recovery, spec, &err);
        infp_output_done(&recovery.output);
        if (r < 0)
                return infp_say_failure(&err);
        return recovery.n_failed ? INFP_EXIT_FAILURE : INFP_EXIT_OK;
}

const struct infp_command infp_command_recover = {
        .name = "recover",
        .summary = "repair what a killed recorder or a power cut left",
        .operands = "[DIR|UUID]",
        .options = options,
        .more = "Every row that was written is kept. Incomplete ends are cut off; the run ends at its last sample and "
                "is finished in the\n"
                "format that record -f chose. Runs that are still being recorded are not touched.\n"
                "\n"
                "examples:\n"
                "  infprof recover                       every unfinished run in ./profiler-output\n"
                "  infprof recover ./out\n"
                "  infprof recover 0198f3                one run, by the beginning of its uuid",
        .run = run,
};
