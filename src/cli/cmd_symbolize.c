/* infprof symbolize: names for code that had none when the recording ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/output.h"
#include "finish/symbolize.h"
#include "view/report/parts.h"

static const struct infp_option options[] = {
        { 'r', "run", "RUN", "an output directory, a run's own, or the beginning of its uuid (default: the newest run)",
          false },
        { 0, "debug-dir", "DIR", "also look for debug symbols there: a tree like /usr/lib/debug, or files by name",
          true },
        { 0, "missing", NULL, "only name code that has no name, as at the end of a recording", false },
        INFP_JSON_OPTION,
        INFP_OUTPUT_OPTION,
        { 0 },
};

static void put_objects(struct infp_json *json, const struct infp_symbolized *s)
{
        infp_json_key(json, "objects");
        infp_json_array(json);
        for (unsigned i = 0; i < s->n_objects; i++) {
                const struct infp_symbolized_object *o = &s->objects[i];

                infp_json_object(json);
                infp_json_member_str(json, "object", o->path);
                infp_json_member_str(json, "build_id", *o->build_id ? o->build_id : NULL);
                infp_json_member_u64(json, "frames", o->n_frames);
                infp_json_member_u64(json, "named", o->n_named);
                infp_json_member_u64(json, "ranges", o->n_ranges);
                infp_json_member_str(json, "names", o->names);
                infp_json_member_bool(json, "has_lines", o->has_lines);
                infp_json_member_str(json, "debug_file", o->debug_file);
                infp_json_member_str(json, "problem", o->problem);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

struct symbolizing {
        struct infp_run *run;
        struct infp_symbolized symbolized;
};

static void put_json(struct infp_json *json, const void *what)
{
        const struct symbolizing *symbolizing = what;
        const struct infp_symbolized *s = &symbolizing->symbolized;

        infp_json_member_str(json, "run", symbolizing->run->info.uuid);
        infp_json_member_u64(json, "frames", s->n_frames);
        infp_json_member_u64(json, "asked", s->n_asked);
        infp_json_member_u64(json, "written", s->n_written);
        infp_json_member_u64(json, "named", s->n_named);
        infp_json_member_u64(json, "lines", s->n_lines);
        infp_json_member_u64(json, "ranges", s->n_ranges);
        infp_json_member_u64(json, "unnamed", s->n_unnamed);
        put_objects(json, s);
}

static void put_text(struct infp_out *out, const struct infp_run *run, const struct infp_symbolized *s)
{
        if (!s->n_frames) {
                infp_report_put(out, "run %s has no stack samples", run->info.uuid);
                return;
        }
        infp_report_put(out,
                        "run %s: %s code addresses: %s have a symbol name (%s a line), %s only [lib+offset], %s "
                        "nothing; %s are new or better than before",
                        run->info.uuid, infp_count(s->n_frames).text, infp_count(s->n_named).text,
                        infp_count(s->n_lines).text, infp_count(s->n_ranges).text, infp_count(s->n_unnamed).text,
                        infp_count(s->n_written).text);
}

static const char **debug_directories(const struct infp_arguments *arguments)
{
        const char **ret = calloc(arguments->n_given + 1, sizeof(*ret));
        size_t n = 0;

        for (size_t i = 0; ret && i < arguments->n_given; i++)
                if (strcmp(arguments->given[i].option->name, "debug-dir") == 0)
                        ret[n++] = arguments->given[i].value;
        return ret;
}

static int write_text(const char *path, const struct symbolizing *symbolizing, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;

        INFP_TRY(infp_output_open(&output, path, "table", err));
        put_text(&output.out, symbolizing->run, &symbolizing->symbolized);
        infp_report_end(&output.out);
        return infp_output_finish(&output, err);
}

static int run(const struct infp_arguments *arguments)
{
        infp_autofree const char **directories = debug_directories(arguments);
        struct infp_symbolize_options wanted = { .debug_directories = directories,
                                                 .root_fd = -1,
                                                 .again = !infp_argument_given(arguments, "missing") };
        struct symbolizing symbolizing = { 0 };
        const char *path = infp_argument(arguments, "output");
        struct infp_err err = { "" };
        int r;

        if (arguments->n_rest + infp_argument_given(arguments, "run") > 1) {
                infp_say("symbolize: one directory or uuid at a time; see `infprof symbolize -h`");
                return INFP_EXIT_USAGE;
        }
        for (const char **d = directories; d && *d; d++)
                if (access(*d, X_OK) < 0) {
                        infp_say("symbolize: there is no directory %s, or it may not be read", *d);
                        return INFP_EXIT_FAILURE;
                }
        r = infp_run_open(arguments->n_rest ? arguments->rest[0] : infp_argument(arguments, "run"), NULL,
                          &symbolizing.run, &err);
        if (r < 0)
                return infp_say_failure(&err);
        r = infp_symbolize(symbolizing.run, &wanted, &infp_said, &symbolizing.symbolized, &err);
        if (r == 0 && infp_output_is_json(arguments))
                r = infp_output_object(path, put_json, &symbolizing, &err);
        else if (r == 0)
                r = write_text(path, &symbolizing, &err);
        infp_symbolized_done(&symbolizing.symbolized);
        infp_run_close(symbolizing.run);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_symbolize = {
        .name = "symbolize",
        .summary = "name the code in a run's stacks, with debug symbols that were missing",
        .operands = "[DIR|UUID]",
        .options = options,
        .more = "A recording names its code when it ends. Code of stripped files is shown as [libfoo.so+0x1200] until "
                "debug symbols are\n"
                "found: by build id or debug link below /usr/lib/debug, beside the file, or in a --debug-dir, which "
                "may hold the unstripped\n"
                "file. A better name replaces a worse one; other names stay. Files that have changed since (another "
                "build id) are not used.\n"
                "\n"
                "examples:\n"
                "  infprof symbolize                                 the newest run of ./profiler-output\n"
                "  infprof symbolize -r 0198f3 --debug-dir ./unstripped",
        .run = run,
};
