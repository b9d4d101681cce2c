/* infprof mark: puts a tag on the time line of a live run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/run_words.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/output.h"
#include "store/live.h"

enum { MAX_TAG = 4096, ANSWER_MS = 10000, WORDS = 60 };

static const struct infp_option options[] = {
        { 'r', "run", "RUN",
          "live run: the beginning of its uuid, or its output directory (default: the run that started this process, "
          "else your newest live run in ./profiler-output, else in any directory)",
          false },
        INFP_JSON_OPTION,
        { 'o', "output", "FILE", "write the JSON object there instead of standard output (-)", false },
        { 0 },
};

static void put_message(struct infp_str *out, const char *tag, size_t size, uint64_t t_ns)
{
        struct infp_json json;

        infp_json_begin(&json, out, 0);
        infp_json_object(&json);
        infp_json_key(&json, "table");
        infp_json_str(&json, "marks");
        infp_json_key(&json, "rows");
        infp_json_array(&json);
        infp_json_object(&json);
        infp_json_key(&json, "t_ns");
        infp_json_u64(&json, t_ns);
        infp_json_key(&json, "source");
        infp_json_str(&json, "mark");
        infp_json_key(&json, "tag");
        infp_json_strn(&json, tag, size);
        infp_json_object_end(&json);
        infp_json_array_end(&json);
        infp_json_object_end(&json);
}

/* -ESRCH: such a run exists, but is not live. */
static int fail_over(const struct infp_run *run, struct infp_err *err)
{
        infp_autostr struct infp_str words = { 0 };

        infp_run_words(&words, run, WORDS);
        if (run->state == INFP_RUN_INTERRUPTED)
                return infp_fail(err, -ESRCH,
                                 "run %s (%s) is no longer recorded: its recorder is gone; `infprof recover "
                                 "%s/%s.infprof` repairs it",
                                 run->info.uuid, words.data ? words.data : "", run->output, run->info.uuid);
        return infp_fail(err, -ESRCH, "run %s (%s) is no longer recorded: it is %s", run->info.uuid,
                         words.data ? words.data : "", infp_run_state_name(run->state));
}

/* A run on disk, which must be live. */
static int take_run(const char *spec, struct infp_live_entry *ret, struct infp_err *err)
{
        struct infp_run *run;
        int r;

        INFP_TRY(infp_run_open(spec, NULL, &run, err));
        r = run->state == INFP_RUN_RECORDING ? infp_live_find(run->info.uuid, ret, err) : fail_over(run, err);
        infp_run_close(run);
        return r;
}

/* Searches the live runs first, so that ended runs in ./profiler-output do not make a uuid ambiguous. */
static int find(const char *spec, struct infp_live_entry *ret, struct infp_err *err)
{
        struct infp_err other = { "" };
        struct stat st;
        int r;

        if (spec && stat(spec, &st) == 0 && S_ISDIR(st.st_mode))
                return take_run(spec, ret, err);
        r = infp_live_find(spec, ret, err);
        if (r == -ENOENT && spec && take_run(spec, ret, &other) == -ESRCH)
                *err = other;
        return r;
}

static void tell(const struct infp_live_entry *entry)
{
        infp_autostr struct infp_str path = { 0 }, words = { 0 };
        struct infp_run *run;

        infp_str_printf(&path, "%s/%s.infprof", entry->output, entry->uuid);
        if (path.failed || infp_run_open(path.data, NULL, &run, NULL) < 0) {
                infp_say("marked run %s in %s", entry->uuid, entry->output);
                return;
        }
        infp_run_words(&words, run, WORDS);
        infp_say("marked run %s: %s", entry->uuid, words.data ? words.data : "");
        infp_run_close(run);
}

struct mark {
        const struct infp_live_entry *entry;
        const char *tag;
        uint64_t t_ns;
};

static void put_json(struct infp_json *json, const void *what)
{
        const struct mark *mark = what;

        infp_json_member_str(json, "run", mark->entry->uuid);
        infp_json_member_str(json, "output", mark->entry->output);
        infp_json_member_str(json, "tag", mark->tag);
        infp_json_member_u64(json, "t_ns", mark->t_ns);
}

static int run(const struct infp_arguments *arguments)
{
        /* First of all, so that the mark has the caller's time, not the time when the recorder was found. */
        uint64_t t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_autostr struct infp_str message = { 0 };
        struct infp_live_entry entry = { 0 };
        const char *path = infp_argument(arguments, "output");
        struct infp_err err = { "" };
        char tag[MAX_TAG];
        size_t size;
        int r;

        if (arguments->n_rest != 1 || !arguments->rest[0][0]) {
                infp_say("mark: it takes one TAG; see `infprof mark -h`");
                return INFP_EXIT_USAGE;
        }
        size = infp_text_escape(arguments->rest[0], strlen(arguments->rest[0]), tag, sizeof(tag));
        put_message(&message, tag, size, t_ns);
        if (message.failed) {
                infp_say("mark: not enough memory");
                return INFP_EXIT_FAILURE;
        }
        r = find(infp_argument(arguments, "run"), &entry, &err);
        if (r == 0)
                r = infp_live_send(entry.uuid, message.data, message.size, ANSWER_MS, &err);
        if (r >= 0 && (infp_argument_given(arguments, "json") || path))
                r = infp_output_object(path, put_json, &(struct mark){ &entry, tag, t_ns }, &err);
        else if (r >= 0)
                tell(&entry);
        free(entry.output);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_mark = {
        .name = "mark",
        .summary = "add a tag to the time line of a live run (table marks)",
        .operands = "TAG",
        .options = options,
        .more = "mark returns when the tag is on disk and prints the run on standard error. `infprof report --from TAG "
                "--to TAG` reports\n"
                "between two marks.\n"
                "\n"
                "examples:\n"
                "  infprof mark warm-up-done",
        .run = run,
};
