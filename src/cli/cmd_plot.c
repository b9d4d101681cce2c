/* infprof plot: one figure of a run's metrics. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/absent.h"
#include "app/open_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "view/figure/figure.h"

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        { 0, "delta", NULL, "draw differences between samples (default: counters per second, gauges as they are)",
          false },
        { 0, "raw", NULL, "draw counters as stored: sums", false },
        { 0, "hist", NULL, "draw a histogram of the samples of each metric", false },
        INFP_RANGE_OPTIONS,
        { 0, "title", "TEXT", "title above the figure (default: the metrics' names)", false },
        { 0, "size", "WxH", "size of one panel in pixels, 300x150 to 8000x4000 (default: 1000x320)", false },
        { 0, "json", NULL, "print the values as one JSON object", false },
        { 'o', "output", "FILE",
          "FILE.svg, FILE.png or FILE.json (default, and -: SVG on standard output); PNG needs libcairo", false },
        { 0 },
};

struct request {
        struct infp_figure_look look;
        enum infp_figure_mode mode;
        const struct infp_canvas_kind *kind;
        const char *path, *from, *to, *run;
        char *const *names;
        bool is_json;
};

struct nearest {
        struct infp_nearest nearest;
        char best[256];
};

static void try_name(void *context, const char *table, const char *name)
{
        struct nearest *n = context;
        const char *before = n->nearest.best;

        (void) table;
        infp_nearest_try(&n->nearest, name);
        if (n->nearest.best != before) { /* the name is valid only during the call */
                snprintf(n->best, sizeof(n->best), "%s", name);
                n->nearest.best = n->best;
        }
}

static int fail_unknown(struct infp_run *run, const struct infp_catalog *catalog, const char *name,
                        struct infp_err *err)
{
        struct nearest nearest = { .nearest.word = name };

        INFP_TRY(infp_figure_names(run, catalog, try_name, &nearest, err));
        return infp_fail(err, -ENOENT,
                         "the run has no metric '%s'%s%s%s; `infprof metrics` and `infprof report --all` list them",
                         name, nearest.nearest.best ? "; did you mean " : "", nearest.nearest.best ? nearest.best : "",
                         nearest.nearest.best ? "?" : "");
}

/* Why it has no value, as `sources` has it. */
static int fail_absent(const struct infp_absences *absences, const char *name, struct infp_err *err)
{
        for (unsigned i = 0; i < absences->n; i++) {
                const struct infp_absence *a = &absences->list[i];
                const size_t size = strlen(name), column = strlen(a->column);

                if (column && size >= column && !strcmp(name + size - column, a->column))
                        return infp_fail(err, -ENODATA, "%s has no value in this run: %s%s%s", name, a->reason,
                                         *a->fix ? "; fix: " : "", a->fix);
        }
        return infp_fail(err, -ENODATA,
                         "%s has no value between --from and --to, or its source was absent (infprof report says why)",
                         name);
}

static int read_figure(struct infp_run *run, const struct request *request, struct infp_figure *figure,
                       struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };
        infp_cleanup(infp_absences_done) struct infp_absences absences = { 0 };
        struct infp_range range;
        struct infp_scan_options marked = { .catalog = &catalog };
        struct infp_figure_options wanted = { .range = &range, .catalog = &catalog, .mode = request->mode };

        INFP_TRY(infp_range_find(run, request->from, request->to, 0, &range, err));
        INFP_TRY(infp_catalog_read(run, &catalog, err));
        marked.t0 = request->from ? range.t0 : 0; /* a mark before the first sample stands at the edge */
        marked.t1 = range.t1;
        INFP_TRY(infp_absences_read(run, range.t1, &absences, err));
        INFP_TRY(infp_labels_read(run, &marked, &figure->marks, err));
        /* Some sources are read once a second even if the run's period is shorter. */
        wanted.gap_ns =
                2 * UINT64_C(1000000) * (run->info.period_ms > 1000 ? run->info.period_ms : 1000) + UINT64_C(500000000);
        for (char *const *name = request->names; *name; name++) {
                int r = infp_figure_add(figure, run, *name, &wanted, err);

                if (r == -ENOENT)
                        r = fail_unknown(run, &catalog, *name, err);
                else if (r == -ENODATA)
                        r = fail_absent(&absences, *name, err);
                INFP_TRY(r);
        }
        return 0;
}

struct values {
        const struct infp_run *run;
        const struct infp_figure *figure;
};

/* Values are in base units; a sample that is absent is not among them. */
static void put_series(struct infp_json *json, const struct infp_figure_series *series)
{
        infp_json_object(json);
        infp_json_member_str(json, "name", series->name);
        infp_json_member_str(json, "unit", series->base);
        infp_json_member_str(json, "kind", infp_kind_name(series->kind));
        infp_json_key(json, "t_ns");
        infp_json_array(json);
        for (size_t i = 0; i < series->n; i++)
                infp_json_u64(json, series->points[i].t_ns);
        infp_json_array_end(json);
        infp_json_key(json, "values");
        infp_json_array(json);
        for (size_t i = 0; i < series->n; i++)
                infp_json_f64(json, series->points[i].value);
        infp_json_array_end(json);
        infp_json_object_end(json);
}

static void put_json(struct infp_json *json, const void *what)
{
        static const char *const modes[] = {
                [INFP_FIGURE_RATE] = "rate", [INFP_FIGURE_DELTA] = "delta", [INFP_FIGURE_RAW] = "raw"
        };
        const struct values *values = what;

        infp_json_member_str(json, "run", values->run->info.uuid);
        infp_json_member_str(json, "counters", modes[values->figure->mode]);
        infp_json_key(json, "metrics");
        infp_json_array(json);
        for (unsigned i = 0; i < values->figure->n; i++)
                put_series(json, &values->figure->list[i]);
        infp_json_array_end(json);
}

static int draw(const struct request *request, const struct infp_run *run, const struct infp_figure *figure,
                struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        struct infp_figure_look look = request->look;
        infp_autofree char *about = NULL;
        char marks[80] = "";

        if (figure->marks.n_left_out)
                snprintf(marks, sizeof(marks), "; the first %u of %llu marks", figure->marks.n,
                         (unsigned long long) (figure->marks.n + figure->marks.n_left_out));
        if (asprintf(&about, "run %.8s%s%s%s%s%s", run->info.uuid, *run->info.hostname ? " on " : "",
                     run->info.hostname, marks, *run->info.command ? ": " : "", run->info.command) < 0) {
                about = NULL;
                return infp_fail(err, -ENOMEM, "out of memory");
        }
        look.about = about;
        INFP_TRY(infp_output_open(&output, request->path, "csv", err));
        INFP_TRY(infp_figure_draw(&output.out, figure, &look, request->kind, err));
        return infp_output_finish(&output, err);
}

static int plot(const struct request *request, struct infp_err *err)
{
        infp_cleanup(infp_figure_done) struct infp_figure figure = { 0 };
        struct infp_run *run = NULL;
        infp_autoclose int lock = -1;
        int r = infp_reader_open(request->run, &run, &lock, err);

        if (r >= 0)
                r = read_figure(run, request, &figure, err);
        if (r >= 0)
                r = request->is_json
                            ? infp_output_object(request->path, put_json, &(struct values){ run, &figure }, err)
                            : draw(request, run, &figure, err);
        infp_reader_close(run, &infp_said);
        return r;
}

static int take_size(const char *text, struct infp_figure_look *look)
{
        unsigned width, height;
        char rest;

        if (!text)
                return 0;
        if (sscanf(text, "%5ux%5u%c", &width, &height, &rest) != 2 || width < 300 || width > 8000 || height < 150 ||
            height > 4000)
                return -EINVAL;
        look->width = width;
        look->height = height;
        return 0;
}

static int check(const struct infp_arguments *arguments, struct request *request)
{
        const char *dot = request->path ? strrchr(request->path, '.') : NULL;

        if (!arguments->n_rest) {
                infp_say("plot: name one metric or more, such as tree_rss_bytes; see `infprof plot -h`");
                return INFP_EXIT_USAGE;
        }
        if (infp_argument_given(arguments, "delta") && infp_argument_given(arguments, "raw")) {
                infp_say("plot: --delta or --raw, not both");
                return INFP_EXIT_USAGE;
        }
        if (take_size(infp_argument(arguments, "size"), &request->look) < 0) {
                infp_say("plot: --size %s: write it like 1000x320, from 300x150 to 8000x4000",
                         infp_argument(arguments, "size"));
                return INFP_EXIT_USAGE;
        }
        request->kind = request->is_json || infp_output_is_stdout(request->path) ? &infp_canvas_svg
                        : dot                                                    ? infp_canvas_find(dot + 1)
                                                                                 : NULL;
        if (!request->kind) {
                infp_say("plot: -o %s: a figure is FILE.svg or FILE.png, its values FILE.json", request->path);
                return INFP_EXIT_USAGE;
        }
        return INFP_EXIT_OK;
}

static int run(const struct infp_arguments *arguments)
{
        struct request request = {
                .look = { .title = infp_argument(arguments, "title"),
                          .width = 1000,
                          .height = 320,
                          .is_histogram = infp_argument_given(arguments, "hist") },
                .mode = infp_argument_given(arguments, "delta") ? INFP_FIGURE_DELTA
                        : infp_argument_given(arguments, "raw") ? INFP_FIGURE_RAW
                                                                : INFP_FIGURE_RATE,
                .path = infp_argument(arguments, "output"),
                .from = infp_argument(arguments, "from"),
                .to = infp_argument(arguments, "to"),
                .run = infp_argument(arguments, "run"),
                .names = arguments->rest,
                .is_json = infp_output_is_json(arguments),
        };
        struct infp_err err = { "" };
        int r = check(arguments, &request);

        if (r)
                return r;
        r = plot(&request, &err);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_plot = {
        .name = "plot",
        .summary = "draw metrics over time, as SVG or PNG",
        .operands = "METRIC...",
        .options = options,
        .more = "Metrics of one unit share a panel. Names are those of the time series (infprof metrics): "
                "tree_rss_bytes, vCpuTime,\n"
                "container0_cMemoryUsed, nvidia0_gPowerDrawW. With more samples than pixels, the line is the mean and "
                "the area spans\n"
                "minimum to maximum. For an engine's histogram with columns NAME_sum and NAME_count, NAME draws the "
                "mean between two\n"
                "samples: latency_ttft_s is the time to first token. Marks are dashed lines.\n"
                "\n"
                "examples:\n"
                "  infprof plot tree_cpu_ns tree_rss_bytes -o use.svg\n"
                "  infprof plot vCpuTimeUserMode vCpuTimeKernelMode --from warm --to done -o cpu.png\n"
                "  infprof plot --hist tree_rss_bytes > memory.svg",
        .run = run,
};
