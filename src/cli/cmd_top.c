/* infprof top: what a process, or a recording, does now. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/finish_child.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/top_view.h"
#include "record/signals.h"
#include "view/top/keys.h"

// clang-format off
static const struct infp_option options[] = {
        { 0, "pid", "PID", "the same as the operand; may be repeated", true },
        { 0, "name", "REGEX", "the processes whose name or command line matches", false },
        { 0, "port", "PORT", "the process that listens on this TCP port", false },
        { 0, "machine", NULL, "the whole machine, even while a run is recorded", false },
        { 'r', "run", "RUN", "a run that is recorded now: its output directory or the beginning of its uuid", false },
        { 'o', "output", "DIR", "where key w keeps the run (default: " INFP_DEFAULT_OUTPUT ")", false },
        { 't', "interval", "TIME", "time between two pictures: 1s, 5s, 1m (default: 1s)", false },
        { 'w', "window", "TIME", "show the last 10s, 1m (default: 10s)", false },
        { 0, "cpu", "[HZ]", "sample on-CPU stacks, HZ times per CPU-second: 1 to 4000 (default: 99)", false },
        { 0, "by", "WHAT", "begin with functions, lines or threads (default: functions)", false },
        { 0, "sort", "KEY", "sort by self, total or name (default: self)", false },
        { 0, "mode", "MODE", "time on the CPU (cpu), wall-clock time (wall), or Python frames alone (python), where BPF may not read them with the native ones (default: cpu, or python where Python has most of the time)", false },
        { 0, "filter", "REGEX", "show what matches", false },
        { 'b', "batch", NULL, "print a table each period, without a terminal's control characters", false },
        { 'n', "count", "N", "end after N periods", false },
        { 0, "rows", "N", "show N rows (default: 20; on a terminal those that fit)", false },
        { 0, "json", NULL, "print one JSON object a period", false },
        INFP_SOURCE_OPTIONS,
        { 0 },
};
// clang-format on

enum { MAX_WORDS = 256 };

static struct top {
        struct infp_top_view view;
        struct infp_signals signals;
        const char *output;
        bool is_batch;
        /* The recorder's command line; texts are borrowed from ours, or ours. */
        char *words[MAX_WORDS + 1];
        int n_words;
        char *made[MAX_WORDS];
        unsigned n_made;
} top;

static int word_of(const struct infp_arguments *arguments, const char *option, const char *const *words, int n,
                   int *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, option);

        for (int i = 0; text && i < n; i++)
                if (strcmp(text, words[i]) == 0) {
                        *ret = i;
                        return 0;
                }
        if (!text)
                return 0;
        return n == 2 ? infp_fail(err, -EINVAL, "--%s %s: %s or %s", option, text, words[0], words[1])
                      : infp_fail(err, -EINVAL, "--%s %s: %s, %s or %s", option, text, words[0], words[1], words[2]);
}

static int time_of(const struct infp_arguments *arguments, const char *option, uint64_t otherwise, uint64_t *ret,
                   struct infp_err *err)
{
        const char *text = infp_argument(arguments, option);

        *ret = otherwise;
        if (!text)
                return 0;
        if (infp_parse_duration(text, ret) < 0 || *ret < INFP_NS_PER_S || *ret > 3600 * INFP_NS_PER_S)
                return infp_fail(err, -EINVAL, "--%s %s: from 1s to 1h, written as 5s or 1m", option, text);
        return 0;
}

static int number_of(const struct infp_arguments *arguments, const char *option, uint64_t *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, option);

        *ret = 0;
        if (text && (infp_parse_u64(text, strlen(text), ret) < 0 || !*ret || *ret > 1000000))
                return infp_fail(err, -EINVAL, "--%s %s: a number from 1 to 1,000,000", option, text);
        return 0;
}

static int read_choice(const struct infp_arguments *arguments, struct infp_err *err)
{
        struct infp_top_choice *choice = &top.view.choice;
        const char *filter = infp_argument(arguments, "filter");
        int by = INFP_WATCH_FUNCTIONS, sort = INFP_WATCH_SELF, mode = INFP_STACK_CPU;
        const char *modes[INFP_WATCH_MODES];
        struct infp_err why = { "" };

        for (unsigned i = 0; i < INFP_WATCH_MODES; i++)
                modes[i] = infp_stack_modes[i].name;
        INFP_TRY(word_of(arguments, "by", infp_watch_by_names, INFP_WATCH_BYS, &by, err));
        INFP_TRY(word_of(arguments, "sort", infp_watch_sort_names, INFP_WATCH_SORTS, &sort, err));
        INFP_TRY(word_of(arguments, "mode", modes, INFP_WATCH_MODES, &mode, err));
        INFP_TRY(time_of(arguments, "interval", INFP_NS_PER_S, &top.view.period_ns, err));
        INFP_TRY(time_of(arguments, "window", 10 * INFP_NS_PER_S, &choice->window_ns, err));
        choice->by = (enum infp_watch_by) by;
        choice->sort = (enum infp_watch_sort) sort;
        choice->mode = (enum infp_stack_mode) mode;
        choice->is_mode_chosen = infp_argument_given(arguments, "mode");
        return !filter || infp_top_filter(choice, filter, &why) >= 0
                       ? 0
                       : infp_fail(err, -EINVAL, "--filter: %s", why.text);
}

static int read_options(const struct infp_arguments *arguments, struct infp_err *err)
{
        const char *output = infp_argument(arguments, "output");
        uint64_t rows;

        INFP_TRY(read_choice(arguments, err));
        INFP_TRY(number_of(arguments, "count", &top.view.n, err));
        INFP_TRY(number_of(arguments, "rows", &rows, err));
        top.view.about.max_rows = rows;
        top.view.is_json = infp_argument_given(arguments, "json");
        top.is_batch = infp_argument_given(arguments, "batch") || top.view.is_json;
        top.output = output ? output : INFP_DEFAULT_OUTPUT;
        return 0;
}

static void add_word(const char *word)
{
        if (top.n_words < MAX_WORDS) /* bound: targets and source options have bounds of their own in record */
                top.words[top.n_words++] = (char *) word;
}

static void add_made(const char *option, const char *value)
{
        char *word = NULL;

        if (top.n_made < MAX_WORDS && asprintf(&word, "--%s%s%s", option, value ? "=" : "", value ? value : "") >= 0) {
                top.made[top.n_made++] = word;
                add_word(word);
        }
}

/* An option of sources is one of record's. */
static bool is_source(const struct infp_option *option)
{
        static const struct infp_option sources[] = { INFP_SOURCE_OPTIONS };

        for (size_t i = 0; i < INFP_COUNT(sources); i++)
                if (strcmp(sources[i].name, option->name) == 0)
                        return true;
        return false;
}

static bool has_target(const struct infp_arguments *arguments)
{
        static const char *const targets[] = { "pid", "name", "port" };
        bool has = arguments->n_rest > 0;

        for (unsigned i = 0; i < INFP_COUNT(targets); i++)
                has |= infp_argument_given(arguments, targets[i]);
        return has;
}

/* `record` with what was asked for: options of sources, the rate and the target. As words, since record alone reads its options and says
 * how a recording goes; and run by a process of its own, since a recording takes signals, the terminal's output and standard error for
 * itself, and is over when its process is. */
static void make_words(const struct infp_arguments *arguments)
{
        static const char *const words[] = { "record", "--no-snapshots", "--no-finish", "--interval=1000" };
        const char *hz = infp_argument(arguments, "cpu");

        for (unsigned i = 0; i < INFP_COUNT(words); i++)
                add_word(words[i]);
        add_made("cpu", hz && *hz ? hz : NULL);
        /* What threads wait for, and who has Python's GIL: shares of ten seconds by a hundred looks. For the whole machine too much. */
        if (has_target(arguments))
                add_word("--wall=10");
        for (size_t i = 0; i < arguments->n_given; i++) {
                const struct infp_given *given = &arguments->given[i];

                if (is_source(given->option) || strcmp(given->option->name, "pid") == 0 ||
                    strcmp(given->option->name, "name") == 0 || strcmp(given->option->name, "port") == 0)
                        add_made(given->option->name, given->value);
        }
        for (int i = 0; i < arguments->n_rest; i++)
                add_made("pid", arguments->rest[i]);
}

static const struct infp_command *record_verb(void)
{
        size_t i = 0;

        while (strcmp(infp_commands[i]->name, "record") != 0)
                i++;
        return infp_commands[i];
}

/* In the recorder's process. */
static int record(void *context, const char *directory)
{
        const struct infp_command *verb = record_verb();
        struct infp_arguments arguments;
        int code;

        (void) context;
        add_made("output", directory);
        code = infp_arguments_parse(verb, top.n_words, top.words, &arguments);
        return code < 0 ? verb->run(&arguments) : code;
}

/* What record would refuse is refused before there is a recorder. */
static int check_words(struct infp_err *err)
{
        struct infp_record_options *checked = calloc(1, sizeof(*checked));
        struct infp_arguments arguments = { 0 };
        int r = checked ? infp_arguments_parse(record_verb(), top.n_words, top.words, &arguments) : -ENOMEM;

        r = r < 0 && checked ? infp_record_options_read(&arguments, checked, err)
                             : infp_fail(err, -EINVAL, "these options cannot be used together");
        infp_arguments_done(&arguments);
        free(checked);
        return r;
}

/* A run that somebody records has its own sources, rate and directory. */
static int check_attached(const struct infp_arguments *arguments, struct infp_err *err)
{
        for (size_t i = 0; i < arguments->n_given; i++) {
                const struct infp_option *option = arguments->given[i].option;

                if (is_source(option) || strcmp(option->name, "cpu") == 0 || strcmp(option->name, "output") == 0)
                        return infp_fail(err, -EINVAL,
                                         "--%s is for a recording of top's own, but a run that is recorded already is "
                                         "shown: leave it out, or name a PID or --machine",
                                         option->name);
        }
        return 0;
}

/* Attaches to a run, or starts a recorder. */
static int open_run(const struct infp_arguments *arguments, struct infp_err *err)
{
        const char *spec = infp_argument(arguments, "run");
        const bool is_machine = infp_argument_given(arguments, "machine");

        if ((spec != NULL) + is_machine + has_target(arguments) > 1)
                return infp_fail(err, -EINVAL, "only one of PID, --name, --port, --machine and --run can be shown");
        if (spec || (!is_machine && !has_target(arguments))) {
                const int r = infp_watch_run_attach(spec, &top.view.run, err);

                if (r >= 0)
                        return check_attached(arguments, err);
                if (spec)
                        return r;
        }
        if (top.view.choice.mode == INFP_STACK_WALL && !has_target(arguments))
                return infp_fail(err, -EINVAL,
                                 "--mode wall needs a target: threads of the whole machine are not looked at");
        make_words(arguments);
        INFP_TRY(check_words(err));
        top.view.about.save = top.output;
        return infp_watch_run_record(record, NULL, &top.view.run, err);
}

static int show(struct infp_err *err)
{
        static const uint64_t history_ns = 600 * INFP_NS_PER_S;
        const bool is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        const char *term = getenv("TERM");
        int r;

        INFP_TRY(infp_watch_run_wait(top.view.run, &top.signals, history_ns, &infp_said, err));
        if (top.is_batch || !is_terminal || !term || !*term || strcmp(term, "dumb") == 0)
                return infp_top_as_lines(&top.view, err);
        r = infp_top_on_terminal(&top.view, err);
        if (r != -ENOTTY && r != -ENOPKG)
                return r;
        infp_say("top: %s", err->text);
        return infp_top_as_lines(&top.view, err);
}

/* Ends the recorder, and keeps its run where the user wanted it. */
static int close_run(struct infp_err *err)
{
        infp_autofree char *path = NULL;
        int r = infp_watch_run_close(top.view.run, top.view.choice.is_saved ? top.output : NULL, &path, err);

        if (r < 0 || !path)
                return r;
        if (infp_finish_child(path, &top.signals, &infp_said))
                infp_say("the run is kept; read it with `infprof report -r %s`", path);
        else
                infp_say("the run is kept, but not finished: `infprof finish -r %s` writes its files", path);
        return 0;
}

static int run_it(const struct infp_arguments *arguments)
{
        struct infp_err err = { "" }, end_err = { "" };
        int r = open_run(arguments, &err), end;

        if (r < 0) {
                infp_watch_run_close(top.view.run, NULL, NULL, NULL);
                infp_say("top: %s", err.text);
                return r == -EINVAL ? INFP_EXIT_USAGE : INFP_EXIT_FAILURE;
        }
        r = infp_signals_open(&top.signals, true, &err);
        top.view.signals = &top.signals;
        if (r >= 0)
                r = show(&err);
        if (r >= 0)
                r = infp_watch_run_failure(top.view.run, &err);
        end = close_run(&end_err);
        if (r < 0 && r != -EINTR)
                infp_say("top: %s", err.text);
        if (end < 0)
                infp_say("top: %s", end_err.text);
        return (r < 0 && r != -EINTR) || end < 0 ? INFP_EXIT_FAILURE : INFP_EXIT_OK;
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_err err = { "" };
        int code;

        if (read_options(arguments, &err) < 0) {
                infp_say("top: %s", err.text);
                return INFP_EXIT_USAGE;
        }
        code = run_it(arguments);
        infp_top_choice_done(&top.view.choice);
        for (unsigned i = 0; i < top.n_made; i++)
                free(top.made[i]);
        return code;
}

// clang-format off
const struct infp_command infp_command_top = {
        .name = "top",
        .summary = "show live what a process does: functions, lines, threads, engine",
        .operands = "[PID...]",
        .options = options,
        .more = "Without a PID, --name or --port it shows the newest run that the user records now; without one, the machine. It records\n"
                "into a private directory, which is removed at the end unless key w keeps the run. Nothing is loaded into the target, and\n"
                "nothing in it is stopped.\n"
                "\n"
                "Keys: f l t functions, lines, threads; s o n sort; m wall-clock time, or Python alone; / filter; + - window; p pause;\n"
                "Left, Right earlier and later moments; r reset the totals; w keep the run; ? all keys; q quit.\n"
                "\n"
                "Without a terminal, with TERM=dumb or with -b it prints a table each period. NO_COLOR=1 draws without colours.\n"
                "\n"
                "examples:\n"
                "  infprof top 4711\n"
                "  infprof top --port 8000          the server on that port, with its tokens/s and queue\n"
                "  infprof top -b -n 3 --name vllm  three tables\n"
                "  infprof top --json -n 1 4711 | jq '.functions[0]'",
        .run = run,
};
// clang-format on
