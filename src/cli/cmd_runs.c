/* infprof runs: the runs of a directory, the newest last, next to the prompt; and their pins. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/run_words.h"
#include "base/mem.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/output.h"
#include "model/builder.h"
#include "store/pin.h"

enum { UUID, STARTED, DURATION, STATE, MODE, PIN, COMMAND, N };

enum {
        WORDS = 60,           /* columns of a command in a table */
        ROOM_FOR_UUIDS = 110, /* a narrower terminal shows the beginning of a uuid, which is its time in ms */
        SHORT_UUID = 13,
};

// clang-format off
static const struct infp_column columns[] = {
        [UUID] = INFP_COLUMN(uuid, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its uuid."),
        [STARTED] = INFP_COLUMN(started, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Local time."),
        [DURATION] = INFP_COLUMN(duration_s, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Until now for a run that is being recorded."),
        [STATE] = INFP_COLUMN(state, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "recording, interrupted, ended, finished."),
        [MODE] = INFP_COLUMN(mode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "run, pid, host."),
        [PIN] = INFP_COLUMN(pin, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Names that were given to it."),
        [COMMAND] = INFP_COLUMN(command, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What was recorded."),
};
// clang-format on
static const struct infp_table runs_table = { .name = "runs", .columns = columns, .n_columns = N, .plain = true };

static const struct infp_option options[] = {
        { 'r', "run", "DIR", "the same as the operand: a directory of runs (default: " INFP_DEFAULT_OUTPUT ")", false },
        { 0, "pin", "NAME", "name a run, so that NAME stands for it wherever a run is named; the operand is any run",
          false },
        { 0, "unpin", "NAME", "forget that name", false },
        INFP_LISTING_OPTIONS("table on a terminal, else tsv"),
        { 0 },
};

struct listing {
        const char *directory;
        struct infp_output output;
        struct infp_builder *builder;
        struct infp_err *err;
        bool has_failed; /* a run that could not be opened */
        unsigned n;
};

static void set(struct listing *l, unsigned column, const char *text)
{
        if (text && *text)
                infp_builder_set_text(l->builder, column, text);
}

static void set_started(struct listing *l, const struct infp_run *run)
{
        const time_t t = (time_t) (run->info.started_unix_ns / (int64_t) INFP_NS_PER_S);
        char text[64];
        struct tm tm;

        const bool is_table = l->output.format == &infp_format_table;
        size_t n;

        if (run->info.started_unix_ns <= 0 || !localtime_r(&t, &tm))
                return;
        n = strftime(text, sizeof(text), is_table ? "%F %T" : "%FT%T%z", &tm);
        if (!is_table && n > 2) { /* +0100: readers want +01:00 */
                memmove(text + n - 1, text + n - 2, 3);
                text[n - 2] = ':';
        }
        if (n)
                set(l, STARTED, text);
}

/* For an interrupted run it is unknown without reading all tables. In milliseconds, for people. */
static void set_duration(struct listing *l, const struct infp_run *run)
{
        const uint64_t end = run->state == INFP_RUN_RECORDING ? infp_clock_ns(CLOCK_MONOTONIC) : run->info.ended_t_ns;

        if (end > run->info.started_t_ns && run->info.started_t_ns)
                infp_builder_set(
                        l->builder, DURATION,
                        (union infp_cell){ .f64 = (double) ((end - run->info.started_t_ns) / INFP_NS_PER_MS) / 1e3 },
                        NULL, 0);
}

static void fill(struct listing *l, const struct infp_run *run)
{
        const bool is_table = l->output.format == &infp_format_table;
        infp_autostr struct infp_str words = { 0 }, pins = { 0 };
        char uuid[37];

        snprintf(uuid, sizeof(uuid), "%.*s",
                 is_table && l->output.out.width && l->output.out.width < ROOM_FOR_UUIDS ? SHORT_UUID : 36,
                 run->info.uuid);
        if (is_table)
                infp_run_words(&words, run, WORDS);
        set(l, UUID, uuid);
        set_started(l, run);
        set_duration(l, run);
        set(l, STATE, infp_run_state_name(run->state));
        set(l, MODE, run->info.mode);
        if (infp_pin_names(run->output_fd, run->info.uuid, &pins) >= 0)
                set(l, PIN, pins.data);
        set(l, COMMAND, is_table ? words.data : infp_run_command(run));
}

static int put(struct listing *l, const struct infp_run *run)
{
        struct infp_batch batch;
        int r = -ENOSPC;

        for (unsigned tries = 0; r == -ENOSPC && tries < 12; tries++) {
                infp_builder_reset(l->builder);
                if (tries && infp_builder_grow(l->builder, 4096u << tries) < 0)
                        return infp_fail(l->err, -ENOMEM, "out of memory");
                infp_builder_row_begin(l->builder, 0, 0);
                fill(l, run);
                r = infp_builder_row_end(l->builder);
        }
        if (r < 0)
                return infp_fail(l->err, -EBADMSG, "run %s: its command line is too long to be one", run->info.uuid);
        batch = infp_builder_batch(l->builder, 0);
        return infp_output_batch(&l->output, &batch, l->err);
}

/* Reports a run that cannot be opened and lists the others. */
static int each(void *context, const char *uuid)
{
        struct listing *l = context;
        infp_autostr struct infp_str path = { 0 };
        struct infp_err why = { "" };
        struct infp_run *run;
        int r;

        infp_str_printf(&path, "%s/%s.infprof", l->directory, uuid);
        if (path.failed)
                return infp_fail(l->err, -ENOMEM, "out of memory");
        if (infp_run_open(path.data, NULL, &run, &why) < 0) {
                infp_say("run %s: %s", uuid, why.text);
                l->has_failed = true;
                return 0;
        }
        l->n++;
        r = put(l, run);
        infp_run_close(run);
        return r;
}

static int list(struct listing *l)
{
        int r;

        l->builder = infp_builder_new(&runs_table, 1);
        if (!l->builder)
                return infp_fail(l->err, -ENOMEM, "out of memory");
        INFP_TRY(infp_output_begin(&l->output, &runs_table, l->err));
        r = infp_run_each(l->directory, each, l, l->err);
        return r < 0 ? r : infp_output_end(&l->output, &runs_table, l->err);
}

/* Exit code. */
static int pin(const char *spec, const char *name)
{
        struct infp_run *recording = NULL;
        struct infp_err err = { "" };
        int r = infp_run_open(spec, NULL, &recording, &err);

        if (r >= 0)
                r = infp_pin_set(recording, name, &err);
        if (r >= 0)
                infp_say("run %s of %s is pinned as %s", recording->info.uuid, recording->output, name);
        infp_run_close(recording);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

static int unpin(const char *directory, const char *name)
{
        struct infp_err err = { "" };

        return infp_pin_remove(directory, name, &err) < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

static int run(const struct infp_arguments *arguments)
{
        const char *pinned = infp_argument(arguments, "pin"), *unpinned = infp_argument(arguments, "unpin");
        const char *directory = arguments->n_rest ? arguments->rest[0] : infp_argument(arguments, "run");
        struct infp_err err = { "" };
        struct listing l = { .directory = directory ? directory : INFP_DEFAULT_OUTPUT,
                             .output = INFP_OUTPUT_INIT,
                             .err = &err };
        int r;

        if (arguments->n_rest + infp_argument_given(arguments, "run") > 1) {
                infp_say("runs: one directory at a time; see `infprof runs -h`");
                return INFP_EXIT_USAGE;
        }
        if (pinned && unpinned) {
                infp_say("runs: --pin or --unpin, not both");
                return INFP_EXIT_USAGE;
        }
        if (pinned || unpinned)
                return pinned ? pin(directory, pinned) : unpin(l.directory, unpinned);
        r = infp_output_open_listing(&l.output, arguments, "runs", NULL);
        if (r != INFP_EXIT_OK)
                return r;
        r = list(&l);
        infp_output_done(&l.output);
        infp_builder_free(l.builder);
        if (r < 0)
                return infp_say_failure(&err);
        if (!l.n && !l.has_failed)
                infp_say("no run in %s", l.directory);
        return l.has_failed ? INFP_EXIT_FAILURE : INFP_EXIT_OK;
}

const struct infp_command infp_command_runs = {
        .name = "runs",
        .summary = "list the runs of a directory, and name some of them",
        .operands = "[DIR]",
        .options = options,
        .more = "The newest run is last. For -r, any unambiguous beginning of a uuid will do. The duration of an "
                "interrupted run is\n"
                "not known before `infprof recover` has read it.\n"
                "\n"
                "examples:\n"
                "  infprof runs                          those of ./profiler-output\n"
                "  infprof runs --pin base               the newest run is `-r base` from now on\n"
                "  infprof runs --pin ok 0198f3          another one, by the beginning of its uuid\n"
                "  infprof runs ./out --json | jq -r '.[-1].uuid'",
        .run = run,
};
