#include "app/flame_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/absent.h"
#include "analyze/profile/sampling.h"
#include "analyze/range.h"
#include "analyze/run_clock.h"
#include "analyze/scan_some.h"
#include "app/open_run.h"
#include "app/run_words.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/time.h"
#include "model/tables.h"
#include "view/flame/html.h"
#include "view/flame/svg.h"
#include "view/flame/top.h"
#include "view/flame/trust.h"
#include "view/flame/words.h"
#include "view/profile/profile_formats.h"

const struct infp_flame_format_is infp_flame_formats[INFP_FLAME_FORMATS] = {
        [INFP_FLAME_HTML] = { "html", ".html .htm", .is_tree = true, .is_picture = true },
        [INFP_FLAME_SVG] = { "svg", ".svg", .is_tree = true, .is_picture = true },
        [INFP_FLAME_FOLDED] = { "folded", ".folded .collapsed", .is_tree = true, .is_for_reading = true },
        [INFP_FLAME_PPROF] = { "pprof", ".pb.gz .pprof" },
        [INFP_FLAME_SPEEDSCOPE] = { "speedscope", ".speedscope.json" },
        [INFP_FLAME_CHROME] = { "chrome", ".trace.json" },
        [INFP_FLAME_PERF_SCRIPT] = { "perf-script", ".perf", .is_for_reading = true },
        [INFP_FLAME_TOP] = { "top", "", .is_tree = true, .is_for_reading = true },
};

int infp_flame_format_of(const char *path)
{
        const size_t size = strlen(path);

        for (int i = 0; i < INFP_FLAME_FORMATS; i++)
                for (const char *at = infp_flame_formats[i].extensions; *at;) {
                        const size_t n = strcspn(at, " ");

                        if (size > n && !memcmp(path + size - n, at, n))
                                return i;
                        at += n + (at[n] == ' ');
                }
        return -1;
}

struct writing {
        struct infp_run *run;
        const struct infp_flame_request *request;
        const struct infp_notices *notices;
        struct infp_flame_options options;
        struct infp_range range;
        struct infp_sampling sampling;
        int64_t begin_unix_ns;
        struct infp_str words, older_words; /* of the runs: one line */
        bool is_explained;                  /* err already has the reason */
};

/* "python serve.py, 58.3 s"; of a difference "run 0198f3a2-77c1: python serve.py, 58.3 s". */
static void describe(struct infp_str *out, const struct infp_run *run, uint64_t ns, bool is_one_of_two)
{
        if (is_one_of_two)
                infp_str_printf(out, "run %.13s: ", run->info.uuid);
        infp_run_words(out, run, 0);
        if (ns >= INFP_NS_PER_MS && ns < UINT64_MAX / 2) { /* imported sums have no length, a live run no end */
                infp_str_puts(out, ", ");
                infp_human_seconds(out, (double) ns / 1e9);
        }
}

/* The row of `sources` about the sampler; NULL: none. */
static const struct infp_absence *sampler_absence(const struct infp_absences *absences)
{
        for (unsigned i = 0; i < absences->n; i++) {
                const struct infp_absence *a = &absences->list[i];

                if (!strcmp(a->collector, "sampler") && strcmp(a->state, "late") &&
                    strncmp(a->reason, INFP_NOT_ASKED, strlen(INFP_NOT_ASKED)) != 0)
                        return a;
        }
        return NULL;
}

/* Why there are no samples: by table `sampler` if it sampled, and by what the kernel refused (perhaps kernel frames only). */
static int explain(struct infp_run *run, const struct infp_sampling *sampling, int r, struct infp_err *err)
{
        infp_cleanup(infp_absences_done) struct infp_absences absences = { 0 };
        const struct infp_sampling_mode *cpu = infp_sampling_find(sampling, INFP_STACK_CPU);
        infp_autostr struct infp_str why = { 0 };
        const struct infp_absence *a = NULL, *refused;

        if (r != -ENODATA || infp_absences_read(run, 0, &absences, NULL) < 0)
                return r;
        refused = infp_absences_find(&absences, "sampler", "perf");
        if (!refused)
                a = sampler_absence(&absences);
        if (refused || (cpu && cpu->wanted >= 0))
                infp_sampling_none(&why, cpu, refused);
        else
                infp_str_puts(&why, a ? "no stack samples" : "no stack samples; `infprof record --cpu` takes them");
        if (a)
                infp_str_printf(&why, ": %.200s%s%.200s", a->reason, *a->fix ? "; fix: " : "", a->fix);
        return infp_fail(err, r, "the run has %s", why.data ? why.data : "");
}

/* The older run may lack samples for another reason than the newer one. */
static int fail_older(struct writing *w, struct infp_run *older, int r, struct infp_err *why, struct infp_err *err)
{
        struct infp_sampling sampling;

        if (!w->request->flame.process && infp_sampling_read(older, 0, 0, &sampling, NULL) >= 0)
                explain(older, &sampling, r, why);
        w->is_explained = true;
        return infp_fail(err, r, "--diff %.100s: %s", w->request->older, why->text);
}

static int read_older(struct writing *w, struct infp_flame *ret, struct infp_err *err)
{
        struct infp_flame_options options = w->options;
        struct infp_run *older = NULL;
        struct infp_err why = { "" };
        infp_autoclose int lock = -1;
        int r = infp_reader_open(w->request->older, &older, &lock, err);

        options.t0 = options.t1 = 0; /* the range applies to the newer run */
        options.n_buckets = 0;
        if (r >= 0)
                r = infp_flame_read(older, &options, ret, &why);
        if (older && r < 0)
                r = fail_older(w, older, r, &why, err);
        if (r >= 0)
                describe(&w->older_words, older, older->info.ended_t_ns - older->info.started_t_ns, true);
        infp_reader_close(older, w->notices);
        return r;
}

static int read_tree(struct writing *w, struct infp_flame *ret, struct infp_err *err)
{
        struct infp_flame older = { 0 }, newer = { 0 };
        int r = infp_flame_read(w->run, &w->options, &newer, err);

        if (r >= 0 && w->request->older)
                r = read_older(w, &older, err);
        if (r >= 0 && w->request->older)
                return infp_flame_diff(&older, &newer, ret, err);
        *ret = newer;
        return r;
}

/* "..., 99 Hz": each mode has its own. */
static void describe_rate(struct writing *w, const struct infp_sampling_mode *mode)
{
        if (!mode || !(mode->rate_hz > 0)) /* NaN: it has none */
                return;
        infp_str_puts(&w->words, ", ");
        infp_human_number(&w->words, mode->rate_hz);
        infp_str_puts(&w->words, " Hz");
}

static int write_picture(struct writing *w, struct infp_out *out, const struct infp_flame *flame, struct infp_err *err)
{
        infp_autostr struct infp_str trust = { 0 };
        struct infp_flame_look look = w->request->look;
        const char *notes[1];

        infp_sampling_words(&trust, NULL, infp_sampling_find(&w->sampling, infp_stack_mode_of(flame->mode)));
        notes[0] = trust.data;
        if (trust.data && *trust.data) {
                look.notes = notes;
                look.n_notes = 1;
        }
        describe_rate(w, infp_sampling_find(&w->sampling, infp_stack_mode_of(flame->mode)));
        look.subtitle = w->words.data;
        look.base = w->older_words.data;
        look.is_normalised = w->request->older != NULL;
        return w->request->format == INFP_FLAME_HTML ? infp_flame_html(&out->text, flame, &look, err)
                                                     : infp_flame_svg(&out->text, flame, &look, err);
}

/* Code gets names when the recording ends. */
static void say_unnamed(const struct writing *w, const struct infp_flame *flame)
{
        if (w->run->state == INFP_RUN_RECORDING && 2 * flame->unnamed_samples > flame->samples)
                infp_notice(w->notices,
                            "flamegraph: most functions have no name yet: they get names when the recording ends");
        else if (w->run->state != INFP_RUN_FINISHED && 2 * flame->unnamed_samples > flame->samples)
                infp_notice(w->notices,
                            "flamegraph: most functions have no name: `infprof symbolize -r %s/%s.infprof` names them",
                            w->run->output, w->run->info.uuid);
}

static void say_empty(const struct writing *w, uint64_t samples)
{
        if (!samples && w->request->flame.filter)
                infp_notice(w->notices, "flamegraph: no function matches --filter '%.100s'", w->request->flame.filter);
        else if (!samples && w->request->flame.part == INFP_PROFILE_PYTHON)
                infp_notice(w->notices,
                            "flamegraph: no stack has Python functions; `infprof report functions` says why");
}

static void say_cuts(const struct writing *w, const struct infp_flame *flame)
{
        infp_autostr struct infp_str words = { 0 };

        if (!infp_flame_cuts_differ(flame))
                return;
        infp_flame_cuts(&words, flame);
        infp_notice(w->notices, "flamegraph: %s", words.data ? words.data : "");
}

static int write_tree(struct writing *w, struct infp_out *out, struct infp_err *err)
{
        infp_cleanup(infp_flame_done) struct infp_flame flame = { 0 };
        struct infp_flame_top_view view = { .flame = &flame,
                                            .sampling = &w->sampling,
                                            .run = w->run->info.uuid,
                                            .most = w->request->top,
                                            .seconds = (double) (w->range.t1 - w->range.t0) / 1e9 };
        int r;

        INFP_TRY(read_tree(w, &flame, err));
        say_unnamed(w, &flame);
        say_empty(w, flame.samples);
        say_cuts(w, &flame);
        if (w->request->format == INFP_FLAME_FOLDED)
                return infp_folded_write(out, &flame, err);
        if (w->request->format != INFP_FLAME_TOP)
                return write_picture(w, out, &flame, err);
        r = w->request->is_json ? infp_flame_top_json(out, &view) : infp_flame_top_text(out, &view);
        return r < 0 ? infp_fail(err, r, "no memory for the table of functions") : 0;
}

static int take_mean(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const double mean = infp_cell_number(batch, at[0], row);
        double *least = context;

        *least = mean >= 1 && mean < *least ? mean : *least;
        return 0;
}

/* Bytes between two sampled blocks, the least of all processes; 0: not known. */
static int read_mean(const struct writing *w, uint64_t *ret, struct infp_err *err)
{
        static const char *const columns[] = { "mean_bytes", NULL };
        const struct infp_scan_options options = { .t0 = w->options.t0, .t1 = w->options.t1 };
        double least = 0x1p62;

        INFP_TRY(infp_scan_rows(w->run, infp_table_heap_windows.name, columns, &options, take_mean, &least, err));
        *ret = least < 0x1p62 ? (uint64_t) least : 0;
        return 0;
}

static int write_stacks(struct writing *w, struct infp_out *out, struct infp_err *err)
{
        infp_cleanup(infp_profile_done) struct infp_profile profile = { 0 };
        const struct infp_flame_options *o = &w->options;
        const struct infp_profile_options wanted = { .t0 = o->t0,
                                                     .t1 = o->t1,
                                                     .mode = o->mode,
                                                     .all_modes = o->by == INFP_FLAME_BY_MODE,
                                                     .of_heap = w->request->format == INFP_FLAME_PPROF,
                                                     .filter = o->filter,
                                                     .part = o->part,
                                                     .no_inlined = o->no_inlined,
                                                     .keeps_tasks = o->by == INFP_FLAME_BY_TASK ||
                                                                    w->request->format == INFP_FLAME_PPROF,
                                                     .process = o->process,
                                                     .keeps_times = w->request->format != INFP_FLAME_PPROF };
        const struct infp_sampling_mode *sampling;
        struct infp_profile_about about = { .run = w->run->info.uuid, .begin_unix_ns = w->begin_unix_ns, .by = o->by };

        INFP_TRY(infp_profile_read(w->run, &wanted, &profile, err));
        say_empty(w, profile.samples);
        sampling = infp_sampling_find(&w->sampling, infp_stack_mode_of(profile.mode));
        describe_rate(w, sampling);
        about.name = w->words.data;
        about.rate_hz = sampling && sampling->rate_hz > 0 ? sampling->rate_hz : 0;
        if (w->request->format == INFP_FLAME_PPROF && !strcmp(profile.unit, infp_stack_modes[INFP_STACK_HEAP].unit))
                INFP_TRY(read_mean(w, &about.heap_bytes, err));
        if (w->request->format == INFP_FLAME_PPROF)
                return infp_pprof_write(out, &profile, &about, err);
        if (w->request->format == INFP_FLAME_SPEEDSCOPE)
                return infp_speedscope_write(out, &profile, &about, err);
        if (w->request->format == INFP_FLAME_CHROME)
                return infp_chrome_write(out, &profile, &about, err);
        return infp_perf_script_write(out, &profile, err);
}

static int prepare(struct writing *w, struct infp_err *err)
{
        struct infp_run_clock clock;

        INFP_TRY(infp_range_find(w->run, w->request->from, w->request->to, 0, &w->range, err));
        w->options = w->request->flame;
        w->options.t0 = w->range.t0;
        w->options.t1 = w->range.t1;
        w->options.fold_waiting = w->request->format == INFP_FLAME_TOP && !w->options.filter && !w->request->older;
        if (infp_run_clock_read(w->run, &clock, NULL) >= 0) {
                w->begin_unix_ns = infp_run_clock_unix_ns(&clock, w->range.t0);
                infp_run_clock_done(&clock);
        }
        INFP_TRY(infp_sampling_read(w->run, w->range.t0, w->range.t1, &w->sampling, err));
        describe(&w->words, w->run, w->range.t1 - w->range.t0, w->request->older != NULL);
        return w->words.failed ? infp_fail(err, -ENOMEM, "out of memory") : 0;
}

int infp_flame_write(struct infp_run *run, const struct infp_flame_request *request, struct infp_out *out,
                     const struct infp_notices *notices, struct infp_err *err)
{
        struct writing w = { .run = run, .request = request, .notices = notices };
        int r = prepare(&w, err);

        if (r >= 0)
                r = infp_flame_formats[request->format].is_tree ? write_tree(&w, out, err) : write_stacks(&w, out, err);
        if (r < 0 && !w.is_explained && !request->from && !request->to && !request->flame.process)
                r = explain(run, &w.sampling, r, err);
        infp_str_done(&w.words);
        infp_str_done(&w.older_words);
        return r;
}
