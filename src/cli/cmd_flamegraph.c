/* infprof flamegraph: where the time went, as a picture, a table, or in formats of other programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/range.h"
#include "app/flame_write.h"
#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/output.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        { 0, "html", NULL,
          "an interactive page in one file: zoom, search, time, callers and callees (default; on a terminal: "
          "UUID_flamegraph.html beside the run)",
          false },
        { 0, "svg", NULL, "a picture that also works without scripts", false },
        { 0, "folded", NULL, "one line per stack, root first, with its number of samples, of the heap its bytes",
          false },
        { 0, "pprof", NULL, "for `go tool pprof` and other readers of profile.proto", false },
        { 0, "speedscope", NULL, "for speedscope.app: one profile per thread, or as --by says", false },
        { 0, "chrome", NULL, "for ui.perfetto.dev and chrome://tracing: one track per thread", false },
        { 0, "perf-script", NULL, "samples as `perf script` prints them", false },
        { 0, "top", "[N]", "the top N functions by self and by total, with 95 % confidence intervals (default: 20)",
          false },
        { 0, "json", NULL, "the same as one JSON object", false },
        { 0, "diff", "RUN", "compare with an older run: red is more, blue is less", false },
        { 0, "reverse", NULL, "leaf first: the callers of the functions that take the time", false },
        { 0, "by", "WHAT",
          "one graph per process, thread, state, mode or task (of asyncio); or group by module or line", false },
        { 0, "mode", "MODE",
          "cpu, wall, off-cpu, python, async, lag, heap (in use at the end), heap-peak, heap-allocated, or a mode of "
          "an imported profile (default: cpu; with "
          "--python-only python, where that was recorded)",
          false },
        { 0, "pid", "PID", "only this process", false },
        { 0, "filter", "REGEX", "only stacks with a function that matches (POSIX extended)", false },
        INFP_RANGE_OPTIONS,
        INFP_PART_OPTIONS,
        { 0, "no-inlined", NULL, "merge inlined functions into the function that was compiled", false },
        { 0, "min-width-percent", "P", "hide frames below this share at first (pictures)", false },
        { 0, "colors", "THEME", "kind, heat (by self time), hot, cold, rainbow or monochrome (default: kind)", false },
        { 0, "title", "TEXT", "above the picture", false },
        { 'o', "output", "FILE", "output file; its extension sets the format; - is standard output", false },
        { 0 },
};

enum { DEFAULT_TOP = 20, MOST_TOP = 100000, BUCKETS = 200 };

static const struct {
        const char *word;
        enum infp_flame_by by;
} bys[] = {
        { "process", INFP_FLAME_BY_PROCESS }, { "thread", INFP_FLAME_BY_THREAD }, { "line", INFP_FLAME_BY_LINE },
        { "module", INFP_FLAME_BY_MODULE },   { "state", INFP_FLAME_BY_STATE },   { "mode", INFP_FLAME_BY_MODE },
        { "task", INFP_FLAME_BY_TASK },
};

static int usage(const char *format, const char *value)
{
        char text[512];

        snprintf(text, sizeof(text), format, value);
        infp_say("flamegraph: %s", text);
        return INFP_EXIT_USAGE;
}

/* Extensions of other formats, whose user does not want a page. */
static bool is_other_picture(const char *path)
{
        static const char *const endings[] = { ".png", ".pdf", ".jpg", ".jpeg", ".json", ".txt", ".csv", ".gz" };
        const char *dot = path ? strrchr(path, '.') : NULL;

        for (unsigned i = 0; dot && i < INFP_COUNT(endings); i++)
                if (strcmp(dot, endings[i]) == 0)
                        return true;
        return false;
}

/* The format: as given, else by the file's extension, else a page. */
static int take_format(const struct infp_arguments *arguments, struct infp_flame_request *ret)
{
        const bool is_json = infp_argument_given(arguments, "json");
        int by_path = -1;
        unsigned n = 0;

        ret->format = is_json ? INFP_FLAME_TOP : INFP_FLAME_HTML;
        for (int i = 0; i < INFP_FLAME_FORMATS; i++)
                if (infp_argument_given(arguments, infp_flame_formats[i].option)) {
                        ret->format = (enum infp_flame_format) i;
                        n++;
                }
        if (n > 1)
                return usage("%s", "one format at a time: --html, --svg, --folded, --pprof, --speedscope, --chrome, "
                                   "--perf-script or --top");
        if (is_json && ret->format != INFP_FLAME_TOP)
                return usage("--json is the table of functions, not with --%s", infp_flame_formats[ret->format].option);
        if (!n && !is_json && !infp_output_is_stdout(ret->path))
                by_path = infp_flame_format_of(ret->path);
        if (by_path < 0 && !n && !is_json && is_other_picture(ret->path))
                return usage("%s: unknown extension; .html is a page, .svg a picture, or say --folded and the like",
                             ret->path);
        if (by_path >= 0)
                ret->format = (enum infp_flame_format) by_path;
        ret->is_json = is_json;
        return INFP_EXIT_OK;
}

static int take_top(const struct infp_arguments *arguments, struct infp_flame_request *ret)
{
        const char *top = infp_argument(arguments, "top");
        uint64_t n = DEFAULT_TOP;

        if (top && *top && (infp_parse_u64(top, strlen(top), &n) < 0 || !n || n > MOST_TOP))
                return usage("--top=%s: how many functions, 1 to 100000", top);
        ret->top = (uint32_t) n;
        return INFP_EXIT_OK;
}

/* Samples of one mode alone are of tasks. */
static int take_tasks(struct infp_flame_request *ret)
{
        const char *mode = infp_stack_modes[INFP_STACK_ASYNC].name;

        if (ret->flame.mode && strcmp(ret->flame.mode, mode) != 0)
                return usage("--by task is for --mode async (of `infprof record --async`), not for %s",
                             ret->flame.mode);
        ret->flame.mode = mode;
        return INFP_EXIT_OK;
}

static int take_by(const struct infp_arguments *arguments, struct infp_flame_request *ret)
{
        const char *by = infp_argument(arguments, "by");

        for (unsigned i = 0; by && i < INFP_COUNT(bys); i++)
                if (!strcmp(by, bys[i].word)) {
                        ret->flame.by = bys[i].by;
                        return ret->flame.by == INFP_FLAME_BY_TASK ? take_tasks(ret) : INFP_EXIT_OK;
                }
        return by ? usage("--by %s: process, thread, line, module, state, mode or task", by) : INFP_EXIT_OK;
}

static int take_look(const struct infp_arguments *arguments, struct infp_flame_request *ret)
{
        const char *colors = infp_argument(arguments, "colors"), *width = infp_argument(arguments, "min-width-percent");
        const int theme = colors ? infp_flame_theme_by_name(colors) : 0;
        double percent = 0;

        if (theme < 0)
                return usage("--colors %s: kind, heat, hot, cold, rainbow or monochrome", colors);
        if (width && (infp_parse_f64(width, strlen(width), &percent) < 0 || percent < 0 || percent >= 100))
                return usage("--min-width-percent %s: a share in percent, such as 0.1", width);
        if (colors)
                ret->look.theme = (enum infp_flame_theme) theme;
        ret->look.min_width_percent = percent;
        ret->look.title = infp_argument(arguments, "title");
        ret->look.is_reversed = ret->flame.reverse;
        return INFP_EXIT_OK;
}

/* Refuses options that the format cannot use. */
static int refuse(const struct infp_arguments *arguments, const struct infp_flame_request *request)
{
        static const char *const of_pictures[] = { "min-width-percent", "colors", "title" };
        const struct infp_flame_format_is *is = &infp_flame_formats[request->format];
        char text[128];

        for (unsigned i = 0; i < INFP_COUNT(of_pictures); i++)
                if (!is->is_picture && infp_argument_given(arguments, of_pictures[i])) {
                        snprintf(text, sizeof(text), "--%s is for --html and --svg, not for --%%s", of_pictures[i]);
                        return usage(text, is->option);
                }
        if (request->older && !is->is_picture && request->format != INFP_FLAME_TOP)
                return usage("--diff is for --html, --svg and --top, not for --%s", is->option);
        if (request->flame.reverse && !is->is_tree)
                return usage(
                        "--reverse is for --html, --svg and --folded: readers of --%s can reverse stacks themselves",
                        is->option);
        if (!is->is_tree && request->flame.by &&
            (request->format != INFP_FLAME_SPEEDSCOPE || request->flame.by >= INFP_FLAME_BY_MODULE))
                return usage(
                        "--by is not for --%s (--speedscope takes process, thread, state, mode and task): each sample "
                        "has its thread and state",
                        is->option);
        return INFP_EXIT_OK;
}

static int check(const struct infp_arguments *arguments, struct infp_flame_request *ret)
{
        const char *pid = infp_argument(arguments, "pid");
        uint64_t number = 0;
        int r;

        *ret = (struct infp_flame_request){
                .run = infp_argument(arguments, "run"),
                .older = infp_argument(arguments, "diff"),
                .path = infp_argument(arguments, "output"),
                .from = infp_argument(arguments, "from"),
                .to = infp_argument(arguments, "to"),
                .flame = { .mode = infp_argument(arguments, "mode"),
                           .filter = infp_argument(arguments, "filter"),
                           .reverse = infp_argument_given(arguments, "reverse"),
                           .no_inlined = infp_argument_given(arguments, "no-inlined") },
        };
        r = infp_take_part(arguments, "flamegraph", &ret->flame.part);
        if (r)
                return r;
        if (arguments->n_rest)
                return usage("it takes no operand '%s'; a run is given by -r", arguments->rest[0]);
        if (pid && (infp_parse_u64(pid, strlen(pid), &number) < 0 || !number || number > INT32_MAX))
                return usage("--pid %s: the number of a process", pid);
        ret->flame.process = (int64_t) number;
        ret->flame.no_numbers = ret->older != NULL;
        r = take_format(arguments, ret);
        if (!r)
                r = take_top(arguments, ret);
        if (!r)
                r = take_by(arguments, ret);
        if (!r)
                r = take_look(arguments, ret);
        if (r)
                return r;
        if (ret->format == INFP_FLAME_HTML)
                ret->flame.n_buckets = BUCKETS;
        return refuse(arguments, ret);
}

/* On a terminal, what is not for reading goes into a file beside the run. */
static int open_output(const struct infp_run *run, const struct infp_flame_request *request, struct infp_output *ret,
                       char **ret_beside, struct infp_err *err)
{
        const struct infp_flame_format_is *is = &infp_flame_formats[request->format];
        char suffix[64];

        if (request->path || is->is_for_reading || !isatty(STDOUT_FILENO))
                return infp_output_open(ret, request->path, "csv", err);
        snprintf(suffix, sizeof(suffix), "_%s%.*s", is->is_picture ? "flamegraph" : "profile",
                 (int) strcspn(is->extensions, " "), is->extensions);
        return infp_output_open_beside(ret, run, suffix, ret_beside, err);
}

static int write_file(struct infp_run *run, const struct infp_flame_request *request, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        infp_autofree char *beside = NULL;
        int r = open_output(run, request, &output, &beside, err);

        if (r >= 0)
                r = infp_flame_write(run, request, &output.out, &infp_said, err);
        if (r >= 0)
                r = infp_output_finish(&output, err);
        if (r >= 0 && beside)
                infp_print("%s", beside);
        return r;
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_flame_request request;
        struct infp_run *recording = NULL;
        struct infp_err err = { "" };
        infp_autoclose int lock = -1;
        int r = check(arguments, &request);

        if (r)
                return r;
        r = infp_reader_open(request.run, &recording, &lock, &err);
        if (r >= 0)
                r = write_file(recording, &request, &err);
        infp_reader_close(recording, &infp_said);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_flamegraph = {
        .name = "flamegraph",
        .summary = "show where the time went: flame graphs, tables of functions, pprof, Speedscope, Perfetto",
        .options = options,
        .more = "Stacks come from `infprof record --cpu`, --wall or --off-cpu, and from `infprof import`. "
                "docs/flamegraph.md shows how\n"
                "to open each format. Each percentage of a function is shown with its 95 % confidence interval.\n"
                "\n"
                "examples:\n"
                "  infprof flamegraph                             a page of the newest run\n"
                "  infprof flamegraph --top                       the functions, in the terminal\n"
                "  infprof flamegraph -o cpu.svg --colors hot     a picture\n"
                "  infprof flamegraph --from warm --to done       between two marks\n"
                "  infprof flamegraph --by thread --filter matmul\n"
                "  infprof flamegraph --diff 0198f3               what changed since that run\n"
                "  infprof flamegraph --pprof -o cpu.pb.gz && go tool pprof -http : cpu.pb.gz\n"
                "  infprof flamegraph --top --json | jq .cpu.top_functions[0]",
        .run = run,
};
