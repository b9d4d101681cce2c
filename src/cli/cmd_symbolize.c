/* infprof symbolize: names for code that had none when the recording ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/finish_notices.h"
#include "finish/symbolize.h"

static const struct infp_option options[] = {
        { 'r', "run", "RUN", "an output directory, a run's own, or the beginning of its uuid (default: the newest run)",
          false },
        { 0, "debug-dir", "DIR", "look for debug symbols there, too: a tree like /usr/lib/debug, or files by name",
          true },
        { 0, "missing", NULL, "name only what has no name at all, as at the end of a recording", false },
        { 0, "json", NULL, "what was found, as JSON", false },
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

static int show_json(const struct infp_run *run, const struct infp_symbolized *s)
{
        infp_autostr struct infp_str out = { 0 };
        struct infp_json json;

        infp_json_begin(&json, &out, 2);
        infp_json_object(&json);
        infp_json_member_str(&json, "run", run->info.uuid);
        infp_json_member_u64(&json, "frames", s->n_frames);
        infp_json_member_u64(&json, "asked", s->n_asked);
        infp_json_member_u64(&json, "written", s->n_written);
        infp_json_member_u64(&json, "named", s->n_named);
        infp_json_member_u64(&json, "lines", s->n_lines);
        infp_json_member_u64(&json, "ranges", s->n_ranges);
        infp_json_member_u64(&json, "unnamed", s->n_unnamed);
        put_objects(&json, s);
        infp_json_object_end(&json);
        infp_str_putc(&out, '\n');
        return out.failed ? -ENOMEM : infp_write_all(STDOUT_FILENO, out.data, out.size, NULL);
}

static void show_text(const struct infp_run *run, const struct infp_symbolized *s)
{
        if (!s->n_frames) {
                infp_print("run %s has no stack samples", run->info.uuid);
                return;
        }
        infp_print("run %s: %s places in code: %s have a name (%s a line), %s the extent of their function, %s "
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

static int run(const struct infp_arguments *arguments)
{
        infp_autofree const char **directories = debug_directories(arguments);
        struct infp_symbolize_options wanted = { .debug_directories = directories,
                                                 .root_fd = -1,
                                                 .again = !infp_argument_given(arguments, "missing") };
        struct infp_symbolized symbolized = { 0 };
        struct infp_err err = { "" };
        struct infp_run *recording;
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
        r = infp_run_open(arguments->n_rest ? arguments->rest[0] : infp_argument(arguments, "run"), NULL, &recording,
                          &err);
        if (r < 0)
                return infp_say_failure(&err);
        r = infp_symbolize(recording, &wanted, &infp_said_notices, &symbolized, &err);
        if (r == 0 && infp_argument_given(arguments, "json")) {
                r = show_json(recording, &symbolized);
                if (r < 0)
                        infp_fail_errno(&err, r, "cannot write the result");
        } else if (r == 0)
                show_text(recording, &symbolized);
        infp_symbolized_done(&symbolized);
        infp_run_close(recording);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_symbolize = {
        .name = "symbolize",
        .summary = "name the code in a run's stacks, with better files than there were",
        .operands = "[DIR|UUID]",
        .options = options,
        .more = "A recording names its code when it ends. Code of stripped files is named by the extent of its "
                "function, "
                "[libfoo.so+0x1200],\n"
                "until debug symbols are there: by build id or debug link below /usr/lib/debug, beside the file, or in "
                "a --debug-dir, which may\n"
                "hold the file as it was before it was stripped. A name replaces one that says less; what was there "
                "stays otherwise. Files that\n"
                "were changed since (another build id) name nothing.\n"
                "\n"
                "examples:\n"
                "  infprof symbolize                                 the newest run of ./profiler-output\n"
                "  infprof symbolize -r 0198f3 --debug-dir ./unstripped",
        .run = run,
};
