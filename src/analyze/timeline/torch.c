/* Steps and modules of PyTorch programs over time: durations of steps by phase; of the time in modules, on the steps that were sampled, the
 * shares by module, class and stage; and how much memory of the device calls left allocated. Means of any part of the time are exact: a bucket of
 * shares weighs as much as the seconds that it is of. */
#include "analyze/torch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "model/python_tables.h"

enum { BY_PHASE, BY_MODULE, BY_CLASS, BY_STAGE, GROWTH, CHARTS, LINES = 8 }; /* LINES: the page has eight colours */

static const struct about {
        const char *id, *title, *unit, *kind, *note, *metric;
        const struct infp_table *table;
        bool is_share;
} about[CHARTS] = {
        [BY_PHASE] = { "torch-steps", "Time of steps, by phase", "s", "line", NULL, "duration", &infp_table_torch_steps,
                       false },
        [BY_MODULE] = { "torch-modules", "Time in modules, by module", "%", "stack",
                        "On the steps that were sampled; without what a module calls", "self_duration",
                        &infp_table_torch_trace, true },
        [BY_CLASS] = { "torch-classes", "Time in modules, by class", "%", "stack", NULL, "self_duration",
                       &infp_table_torch_trace, true },
        [BY_STAGE] = { "torch-stages", "Time in modules, by stage", "%", "stack", NULL, "self_duration",
                       &infp_table_torch_trace, true },
        [GROWTH] = { "torch-growth", "Growth of memory, by module", "bytes", "line",
                     "Memory of the device after a call, less that before it: the mean of calls on sampled steps",
                     "growth", &infp_table_torch_trace, false },
};

struct chart {
        struct line {
                const char *name, *cls;           /* cls: NULL for any */
                struct infp_bucket_stat *buckets; /* of shares: seconds in `sum` until they are settled */
        } lines[LINES];
        unsigned n;
};

struct drawing {
        struct infp_timeline *timeline;
        const struct infp_torch_report *torch;
        struct chart charts[CHARTS];
        double *own_s; /* by bucket, of all calls */
};

static void drawing_done(struct drawing *d)
{
        for (unsigned i = 0; i < CHARTS; i++)
                for (unsigned k = 0; k < d->charts[i].n; k++)
                        free(d->charts[i].lines[k].buckets);
        free(d->own_s);
}

static const char *text_of(const struct drawing *d, uint32_t number)
{
        const char *text = number ? infp_strings_get(&d->torch->strings, number) : NULL;

        return text ? text : "";
}

static int add_line(struct drawing *d, unsigned chart, const char *name, const char *cls)
{
        struct chart *to = &d->charts[chart];
        struct infp_bucket_stat *buckets = calloc(d->timeline->grid.n, sizeof(*buckets));

        if (!buckets)
                return -ENOMEM;
        to->lines[to->n++] = (struct line){ name, cls, buckets };
        return 0;
}

/* What has a line of its own: that which took most in the whole range. One line is left for all others. */
static int choose(struct drawing *d)
{
        const struct infp_torch_report *torch = d->torch;
        const struct infp_torch_module *growths[LINES];
        unsigned n_growths = infp_torch_growths(torch, growths, LINES);

        for (unsigned i = 0; i < torch->n_phases && i < LINES; i++) /* bound: as many as are told apart */
                INFP_TRY(add_line(d, BY_PHASE, text_of(d, torch->phases[i].name), NULL));
        for (uint32_t i = 0; i < torch->n && i < LINES - 1; i++) /* bound: the rest is one line */
                if (torch->modules[i].all.self_s > 0)
                        INFP_TRY(add_line(d, BY_MODULE, text_of(d, torch->modules[i].name),
                                          text_of(d, torch->modules[i].cls)));
        for (uint32_t i = 0; i < torch->n_classes && i < LINES - 1; i++) /* bound: the same */
                if (torch->classes[i].all.self_s > 0)
                        INFP_TRY(add_line(d, BY_CLASS, text_of(d, torch->classes[i].name), NULL));
        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++)
                if (torch->stages[i].calls)
                        INFP_TRY(add_line(d, BY_STAGE, infp_torch_stage_name(i), NULL));
        for (unsigned i = 0; i < n_growths; i++)
                INFP_TRY(add_line(d, GROWTH, text_of(d, growths[i]->name), text_of(d, growths[i]->cls)));
        return 0;
}

enum { MODULE, CLASS, STAGE, SELF, CALL_GROWTH };
static const char *const trace_columns[] = { "module", "class", "stage", "self_duration", "growth", NULL };
enum { PHASE, DURATION };
static const char *const step_columns[] = { "phase", "duration", NULL };

/* The bucket of the line whose name is in the cell; NULL: it has none of its own. */
static struct infp_bucket_stat *find(const struct chart *chart, unsigned bucket, const struct infp_batch *batch,
                                     int name, int cls, uint32_t row)
{
        for (unsigned i = 0; i < chart->n; i++)
                if (infp_cell_is(batch, name, row, chart->lines[i].name) &&
                    (!chart->lines[i].cls || infp_cell_is(batch, cls, row, chart->lines[i].cls)))
                        return &chart->lines[i].buckets[bucket];
        return NULL;
}

static int add_call(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct drawing *d = context;
        const int bucket = infp_grid_bucket(&d->timeline->grid, (uint64_t) infp_batch_i64(batch, 0, row));
        const double self_s = infp_cell_number(batch, at[SELF], row),
                     growth = infp_cell_number(batch, at[CALL_GROWTH], row);
        const int names[CHARTS] = { [BY_MODULE] = at[MODULE], [BY_CLASS] = at[CLASS], [BY_STAGE] = at[STAGE] };
        struct infp_bucket_stat *stage, *to;

        stage = bucket < 0 ? NULL : find(&d->charts[BY_STAGE], (unsigned) bucket, batch, at[STAGE], -1, row);
        if (!stage) /* not of a stage that is counted */
                return 0;
        to = find(&d->charts[GROWTH], (unsigned) bucket, batch, at[MODULE], at[CLASS], row);
        if (to && isfinite(growth))
                infp_bucket_add(to, growth * 1048576, 1);
        if (!infp_torch_is_time(self_s))
                return 0;
        d->own_s[bucket] += self_s;
        for (unsigned i = BY_MODULE; i <= BY_STAGE; i++) {
                to = find(&d->charts[i], (unsigned) bucket, batch, names[i], at[CLASS], row);
                if (to)
                        to->sum += self_s;
        }
        return 0;
}

static int add_step(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct drawing *d = context;
        const int bucket = infp_grid_bucket(&d->timeline->grid, (uint64_t) infp_batch_i64(batch, 0, row));
        const double seconds = infp_cell_number(batch, at[DURATION], row);
        struct infp_bucket_stat *to =
                bucket < 0 ? NULL : find(&d->charts[BY_PHASE], (unsigned) bucket, batch, at[PHASE], -1, row);

        if (to && infp_torch_is_time(seconds))
                infp_bucket_add(to, seconds, 1);
        return 0;
}

/* Seconds become shares of those of all calls in the bucket. */
static int settle(struct drawing *d, struct chart *chart)
{
        const unsigned n_buckets = d->timeline->grid.n, n = chart->n;
        double others_s = 0;

        INFP_TRY(add_line(d, (unsigned) (chart - d->charts), "all others", NULL));
        for (unsigned at = 0; at < n_buckets; at++) {
                double rest_s = d->own_s[at];

                for (unsigned i = 0; i <= n; i++) {
                        struct infp_bucket_stat *b = &chart->lines[i].buckets[at];
                        const double seconds = i < n ? b->sum : fmax(rest_s, 0),
                                     share = d->own_s[at] > 0 ? 100 * seconds / d->own_s[at] : 0;

                        rest_s -= seconds;
                        *b = (struct infp_bucket_stat){ 100 * seconds, d->own_s[at], share, share };
                        others_s += i < n ? 0 : seconds;
                }
        }
        if (!(others_s > 1e-9)) /* rounding errors are less */
                free(chart->lines[--chart->n].buckets);
        return 0;
}

static int draw(struct drawing *d, unsigned which)
{
        const struct about *is = &about[which];
        struct chart *chart = &d->charts[which];
        struct infp_timeline_panel *panel;

        if (is->is_share && chart->n)
                INFP_TRY(settle(d, chart));
        if (!chart->n)
                return 0;
        panel = infp_timeline_add_panel(d->timeline);
        if (!panel)
                return -ENOMEM;
        *panel = (struct infp_timeline_panel){ .id = strdup(is->id),
                                               .title = strdup(is->title),
                                               .note = is->note ? strdup(is->note) : NULL,
                                               .group = "torch",
                                               .unit = is->unit,
                                               .kind = is->kind,
                                               .max = is->is_share ? 100 : NAN };
        for (unsigned i = 0; i < chart->n; i++) {
                const struct line *line = &chart->lines[i];
                struct infp_timeline_series *series = infp_timeline_add_series(panel);

                if (!series)
                        return -ENOMEM;
                *series = (struct infp_timeline_series){ .name = strdup(*line->name ? line->name : "step"),
                                                         .metric = strdup(is->metric),
                                                         .table = strdup(is->table->name),
                                                         .help = strdup(""),
                                                         .quality = is->is_share ? INFP_DERIVED : INFP_MEASURED,
                                                         .is_ratio = true,
                                                         .is_of_events = !is->is_share,
                                                         .buckets = INFP_TAKE(chart->lines[i].buckets) };
                if (!series->name || !series->metric || !series->table || !series->help)
                        return -ENOMEM;
        }
        return panel->id && panel->title && (panel->note || !is->note) ? 0 : -ENOMEM;
}

int infp_timeline_torch(struct infp_timeline_reading *reading, struct infp_err *err)
{
        infp_cleanup(drawing_done) struct drawing d = { .timeline = reading->timeline,
                                                        .torch = &reading->report->torch };

        if (!infp_torch_has(d.torch))
                return 0;
        d.own_s = calloc(d.timeline->grid.n, sizeof(*d.own_s));
        if (!d.own_s)
                return -ENOMEM;
        INFP_TRY(choose(&d));
        reading->table = infp_table_torch_steps.name;
        INFP_TRY(infp_scan_rows(reading->run, reading->table, step_columns, reading->scan, add_step, &d, err));
        reading->table = infp_table_torch_trace.name;
        INFP_TRY(infp_scan_rows(reading->run, reading->table, trace_columns, reading->scan, add_call, &d, err));
        for (unsigned i = 0; i < CHARTS; i++)
                INFP_TRY(draw(&d, i));
        return 0;
}
