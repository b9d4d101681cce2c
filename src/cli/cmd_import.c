/* infprof import: profiles of other programs as a run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/import_run.h"
#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/output.h"
#include "import/format.h"

static const struct infp_option options[] = {
        { 'o', "output", "DIR", "directory of the run (default: " INFP_DEFAULT_OUTPUT ")", false },
        { 'f', "format", "FORMAT",
          "pprof, folded, perf-script, speedscope, heaptrack, heap-text or memray (default: detected)", false },
        { 0, "mode", "MODE",
          "what the bytes of folded stacks, memray's csv and speedscope are, which do not say it: heap, heap-peak or "
          "heap-allocated",
          false },
        { 0, "name", "NAME", "name of the run in lists and reports (default: this command line)", false },
        { 0, "json", NULL, "print a summary as JSON", false },
        { 0 },
};

static void say_note(const struct infp_imported_skip *skip)
{
        if (skip->where)
                infp_say("import: %s: %s, first in line %llu", skip->what, infp_count(skip->n).text,
                         (unsigned long long) skip->where);
        else
                infp_say("import: %s: %s", skip->what, infp_count(skip->n).text);
}

static void say(const struct infp_import_made *made)
{
        const struct infp_imported *found = &made->found;

        for (unsigned i = 0; i < found->n_skips; i++)
                say_note(&found->skips[i]);
        infp_say("import: %s samples (%s) in run %s; look at them with `infprof flamegraph -r %s`",
                 infp_count(found->samples).text, found->format, made->uuid, made->path);
        if (!made->is_finished)
                infp_say("import: not finished: `infprof finish -r %s` writes its files", made->path);
}

struct import {
        const struct infp_import_wishes *wishes;
        struct infp_import_made made;
};

static void put_json(struct infp_json *json, const void *what)
{
        const struct import *import = what;

        infp_json_member_str(json, "run", import->made.uuid);
        infp_json_member_str(json, "output", import->made.path);
        infp_import_json(json, import->wishes, &import->made.found);
}

static bool knows(const char *format)
{
        for (const struct infp_import_format *const *f = infp_import_formats; *f; f++)
                if (!strcmp((*f)->name, format))
                        return true;
        return false;
}

/* Of the heap: a mode in bytes. NULL: it is not one. */
static const char *heap_mode(const char *name)
{
        const enum infp_stack_mode mode = infp_stack_mode_of(name);

        return mode < INFP_STACK_MODES && infp_stack_modes[mode].space ? infp_stack_modes[mode].name : NULL;
}

static int import_it(const struct infp_import_wishes *wishes, bool is_json)
{
        struct import import = { .wishes = wishes };
        struct infp_signals signals;
        struct infp_err err = { "" };
        int r = infp_signals_open(&signals, false, &err);

        if (r < 0)
                return infp_say_failure(&err);
        r = infp_import_run(wishes, &signals, &import.made, &err);
        if (r >= 0 && is_json)
                r = infp_output_object(NULL, put_json, &import, &err);
        else if (r >= 0)
                say(&import.made);
        infp_signals_close(&signals);
        free(import.made.path);
        if (r >= 0)
                return INFP_EXIT_OK;
        infp_say_failure(&err);
        return r == -EINVAL ? INFP_EXIT_USAGE : INFP_EXIT_FAILURE; /* --mode of what says it itself */
}

static int run(const struct infp_arguments *arguments)
{
        const char *output = infp_argument(arguments, "output"), *mode = infp_argument(arguments, "mode");
        const struct infp_import_wishes wishes = { .path = arguments->n_rest == 1 ? arguments->rest[0] : NULL,
                                                   .notices = &infp_said,
                                                   .output = output ? output : INFP_DEFAULT_OUTPUT,
                                                   .format = infp_argument(arguments, "format"),
                                                   .mode = heap_mode(mode),
                                                   .name = infp_argument(arguments, "name") };

        if (arguments->n_rest != 1) {
                infp_say("import: it takes one FILE, - for standard input; see `infprof import -h`");
                return INFP_EXIT_USAGE;
        }
        if (wishes.format && !knows(wishes.format)) {
                infp_say("import: there is no format '%s'; there are:", wishes.format);
                for (const struct infp_import_format *const *f = infp_import_formats; *f; f++)
                        infp_say("  %-12s %s", (*f)->name, (*f)->help);
                return INFP_EXIT_USAGE;
        }
        if (mode && !wishes.mode) {
                infp_say("import: --mode %s: heap, heap-peak or heap-allocated", mode);
                return INFP_EXIT_USAGE;
        }
        return import_it(&wishes, infp_argument_given(arguments, "json"));
}

const struct infp_command infp_command_import = {
        .name = "import",
        .summary = "read a profile of another program (pprof, folded, perf script, speedscope, heaptrack, jemalloc, "
                   "memray) as a run",
        .operands = "FILE",
        .options = options,
        .more = "report, flamegraph, query, tables and export read the run like a recording. The file may be "
                "gzip-compressed.\n"
                "\n"
                "examples:\n"
                "  infprof import cpu.pb.gz\n"
                "  perf script | infprof import -\n"
                "  infprof import stacks.folded --name 'before the change'\n"
                "  zstd -dc heaptrack.serve.4711.zst | infprof import -\n"
                "  infprof import jeprof.4711.0.f.heap",
        .run = run,
};
