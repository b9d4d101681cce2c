/* infprof heap: who holds the memory of the heap, what leaks, what is freed soon, how large blocks are. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "view/heap/heap.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,    { 0, "pid", "PID", "only this process", false },
        INFP_RANGE_OPTIONS, INFP_JSON_OPTION,
        INFP_OUTPUT_OPTION, { 0 },
};

static const struct subject {
        const char *name, *help;
        infp_heap_text_fn *text;
        infp_heap_json_fn *json;
        bool reads_blocks;
} subjects[] = {
        { "report", "what was in use, the peak, what was allocated, and the stacks that held most (default)",
          infp_heap_report_text, infp_heap_report_json, false },
        { "leaks", "stacks whose bytes in use grow and are not freed: how fast, since when, how sure",
          infp_heap_leaks_text, infp_heap_leaks_json, false },
        { "temporary", "where blocks are allocated that are freed within a second", infp_heap_temporary_text,
          infp_heap_temporary_json, true },
        { "sizes", "how many blocks and bytes were allocated, and are in use, by size", infp_heap_sizes_text,
          infp_heap_sizes_json, true },
};

static bool subject_at(size_t i, struct infp_operand *ret)
{
        if (i >= INFP_COUNT(subjects))
                return false;
        *ret = (struct infp_operand){ subjects[i].name, subjects[i].help };
        return true;
}

/* NULL after printing why. */
static const struct subject *find_subject(const struct infp_arguments *arguments)
{
        const char *word = arguments->n_rest ? arguments->rest[0] : subjects[0].name;
        struct infp_nearest nearest = { .word = word };

        for (unsigned i = 0; i < INFP_COUNT(subjects) && arguments->n_rest < 2; i++) {
                if (!strcmp(subjects[i].name, word))
                        return &subjects[i];
                infp_nearest_try(&nearest, subjects[i].name);
        }
        if (arguments->n_rest > 1)
                infp_say("heap: one of report, leaks, temporary and sizes at a time; a run is given by -r");
        else if (nearest.best)
                infp_say("heap: there is no '%s'; did you mean %s?", word, nearest.best);
        else
                infp_say("heap: there is no '%s', only report, leaks, temporary and sizes; a run is given by -r", word);
        return NULL;
}

struct shown {
        const struct subject *subject;
        struct infp_heap_view view;
};

static void put_json(struct infp_json *json, const void *what)
{
        const struct shown *shown = what;

        shown->subject->json(json, &shown->view);
}

static int put_text(const struct shown *shown, const char *path, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;

        INFP_TRY(infp_output_open(&output, path, "csv", err));
        if (shown->subject->text(&output.out, &shown->view) < 0)
                return infp_fail(err, -ENOMEM, "no memory for the stacks of the heap");
        return infp_output_finish(&output, err);
}

static int show(struct infp_run *run, const struct subject *subject, const struct infp_arguments *arguments,
                int64_t pid, struct infp_err *err)
{
        const struct infp_heap_options wanted = { pid, infp_argument(arguments, "from"),
                                                  infp_argument(arguments, "to") };
        infp_cleanup(infp_heap_done) struct infp_heap heap = { 0 };
        infp_cleanup(infp_heap_blocks_done) struct infp_heap_blocks blocks = { .n_stacks = 0 };
        struct infp_sampling sampling;
        const struct shown shown = { subject, { run->info.uuid, &heap, &blocks, &sampling } };
        const char *path = infp_argument(arguments, "output");

        infp_say_progress("heap: reading the run");
        INFP_TRY(infp_heap_read(run, &wanted, &heap, err));
        INFP_TRY(
                infp_sampling_read(run, heap.range.t0, heap.range.t1 < UINT64_MAX ? heap.range.t1 : 0, &sampling, err));
        if (subject->reads_blocks && !heap.is_sampled)
                return infp_fail(err, -ENODATA,
                                 "run %s has the sums of each stack and no single blocks (--heap=exact): `infprof heap "
                                 "%s` needs a recording with --heap=BYTES",
                                 run->info.uuid, subject->name);
        if (subject->reads_blocks)
                INFP_TRY(infp_heap_blocks_read(run, &heap, &blocks, err));
        infp_end_progress();
        return infp_output_is_json(arguments) ? infp_output_object(path, put_json, &shown, err)
                                              : put_text(&shown, path, err);
}

static int run(const struct infp_arguments *arguments)
{
        const struct subject *subject = find_subject(arguments);
        const char *pid = infp_argument(arguments, "pid");
        struct infp_run *recording = NULL;
        struct infp_err err = { "" };
        infp_autoclose int lock = -1;
        uint64_t number = 0;
        int r;

        if (!subject)
                return INFP_EXIT_USAGE;
        if (pid && (infp_parse_u64(pid, strlen(pid), &number) < 0 || !number || number > INT32_MAX)) {
                infp_say("heap: --pid %s: the number of a process", pid);
                return INFP_EXIT_USAGE;
        }
        r = infp_reader_open(infp_argument(arguments, "run"), &recording, &lock, &err);
        if (r >= 0)
                r = show(recording, subject, arguments, (int64_t) number, &err);
        infp_end_progress();
        infp_reader_close(recording, &infp_said);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_heap = {
        .name = "heap",
        .summary = "where the memory went: who holds the heap, what leaks, what is freed soon, sizes of blocks",
        .operands = "[WHAT]",
        .operand_at = subject_at,
        .operands_title = "what",
        .options = options,
        .more = "Blocks come from `infprof record --heap -- COMMAND`. All bytes are estimates from samples, with 95 % "
                "intervals, and exact with --heap=exact;\n"
                "docs/heap.md says what each number means. A run that is still being recorded can be looked at, too.\n"
                "Of a part of a run (--from, --to) it shows what was in use at its end, allocated and at the peak in "
                "it, and\n"
                "judges by what happened in it. Times without a zone are local (TZ).\n"
                "\n"
                "examples:\n"
                "  infprof heap                                 the newest run: in use, peak, stacks that held most\n"
                "  infprof heap leaks                           what grows and is not freed\n"
                "  infprof heap leaks --from warm               since a mark\n"
                "  infprof heap --json | jq .memory.peak_mb\n"
                "  infprof flamegraph --mode heap-peak          the stacks of the peak as a picture",
        .run = run,
};
