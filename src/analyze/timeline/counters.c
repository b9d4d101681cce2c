/* Counters and gauges that programs keep themselves (table `counters`): a panel per name, a series per process. Rows are
 * written on change: a gauge holds until its next row, and a counter without rows has a rate of 0 between its first and last
 * row. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/human.h"
#include "base/mem.h"
#include "model/rate.h"

enum { MOST_TRACKS = 96, MOST_PANELS = 24, MOST_IN_PANEL = 8 };

static const char *const columns[] = { "process", "name", "kind", "unit", "value", "help", NULL };
enum { PROCESS, NAME, KIND, UNIT, VALUE, HELP };

struct counter {
        uint64_t process;
        char *name, *unit, *help;
        bool is_counter;
        struct infp_track track;
        int first, last; /* buckets */
};

struct counters {
        const struct infp_grid *grid;
        struct counter *list;
        unsigned n;
        uint64_t n_left_out; /* rows of counters beyond the bound */
};

static void counters_done(struct counters *counters)
{
        for (unsigned i = 0; i < counters->n; i++) {
                free(counters->list[i].name);
                free(counters->list[i].unit);
                free(counters->list[i].help);
                free(counters->list[i].track.buckets);
        }
        free(counters->list);
}

/* 1: found or added; 0: no room. */
static int find(struct counters *counters, const struct infp_batch *batch, const int *at, uint32_t row,
                struct counter **ret)
{
        const uint64_t process = at[PROCESS] >= 0 ? infp_batch_u64(batch, (unsigned) at[PROCESS], row) : 0;
        size_t size;
        const char *name = infp_cell_str(batch, at[NAME], row, &size);
        bool failed = false;

        for (unsigned i = 0; i < counters->n; i++) {
                *ret = &counters->list[i];
                if ((*ret)->process == process && strlen((*ret)->name) == size && !memcmp((*ret)->name, name, size))
                        return 1;
        }
        if (counters->n == MOST_TRACKS) {
                counters->n_left_out++;
                return 0;
        }
        *ret = &counters->list[counters->n];
        **ret = (struct counter){
                .process = process,
                .name = strndup(name, size),
                .unit = infp_timeline_text(batch, at[UNIT], row, &failed),
                .help = infp_timeline_text(batch, at[HELP], row, &failed),
                .is_counter = infp_cell_is(batch, at[KIND], row, "counter"),
                .first = -1,
        };
        counters->n++;
        return failed || !(*ret)->name ? -ENOMEM : 1;
}

static void take_level(const struct infp_grid *grid, struct infp_track *track, uint64_t t_ns, int bucket, double value)
{
        if (track->has_last && t_ns > track->last_t_ns)
                infp_buckets_hold(grid, track->buckets, track->last_t_ns, t_ns, track->last);
        /* At least a nanosecond, however short it held. */
        infp_bucket_add(&track->buckets[bucket], value, 1e-9);
}

static int add(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct counters *counters = context;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const double value = infp_cell_number(batch, at[VALUE], row), step_s = (double) counters->grid->step_ns / 1e9;
        const int bucket = infp_grid_bucket(counters->grid, t_ns);
        struct counter *counter;
        int r;

        if (!isfinite(value) || bucket < 0 || !infp_cell_has(batch, at[NAME], row))
                return 0;
        r = find(counters, batch, at, row, &counter);
        if (r <= 0)
                return r;
        if (counter->first < 0 || bucket < counter->first)
                counter->first = bucket;
        if (bucket > counter->last)
                counter->last = bucket;
        if (!counter->track.buckets)
                counter->track.buckets = calloc(counters->grid->n, sizeof(*counter->track.buckets));
        if (!counter->track.buckets)
                return -ENOMEM;
        if (!counter->is_counter)
                take_level(counters->grid, &counter->track, t_ns, bucket, value);
        else if (counter->track.has_last)
                counter->track.buckets[bucket].sum +=
                        infp_increase_f64(INFP_RESET_ZERO, counter->track.last, value, 0) / step_s;
        counter->track.has_last = true;
        counter->track.last_t_ns = t_ns;
        counter->track.last = value;
        return 0;
}

static const char *unit_of(const struct counter *counter)
{
        static const struct {
                const char *says, *level, *rate;
        } words[] = {
                { "bytes", "bytes", "bytes/s" },
                { "By", "bytes", "bytes/s" },
                { "s", "s", "%" },
                { "seconds", "s", "%" },
                { "tokens", "", "tokens/s" },
                { "{token}", "", "tokens/s" },
                { "%", "%", "/s" },
                { "W", "W", "/s" },
        };

        for (unsigned i = 0; counter->unit && i < INFP_COUNT(words); i++)
                if (!strcmp(counter->unit, words[i].says))
                        return counter->is_counter ? words[i].rate : words[i].level;
        return counter->is_counter ? "/s" : "";
}

/* Gives a counter a value in each bucket from its first to its last. */
static void settle(struct counter *counter)
{
        const double factor = !strcmp(unit_of(counter), "%") && counter->is_counter ? 100 : 1;

        for (int i = counter->first; counter->is_counter && i <= counter->last; i++) {
                struct infp_bucket_stat *b = &counter->track.buckets[i];

                b->sum *= factor;
                *b = (struct infp_bucket_stat){ b->sum, 1, b->sum, b->sum };
        }
}

static int add_to_panel(struct infp_timeline_panel *panel, struct counter *counter, const char *process)
{
        struct infp_timeline_series *series;

        if (panel->n_series == MOST_IN_PANEL) {
                panel->left_out++;
                return 0;
        }
        settle(counter);
        series = infp_timeline_add_series(panel);
        if (!series)
                return -ENOMEM;
        *series = (struct infp_timeline_series){
                .name = strdup(process ? process : counter->name),
                .metric = strdup(counter->name),
                .table = strdup("counters"),
                .help = strdup(counter->help ? counter->help : ""),
                .instance = process ? strdup(process) : NULL,
                .quality = INFP_MEASURED,
                .is_rate = counter->is_counter,
                .buckets = INFP_TAKE(counter->track.buckets),
        };
        return series->name && series->metric && series->table && series->help && (series->instance || !process)
                       ? 0
                       : -ENOMEM;
}

static int draw(struct infp_timeline *timeline, struct counters *counters, const struct infp_process_name *names)
{
        unsigned n_panels = 0;

        for (unsigned i = 0; i < counters->n; i++) {
                struct infp_timeline_panel *panel;

                if (!counters->list[i].track.buckets)
                        continue;
                if (n_panels++ == MOST_PANELS)
                        return infp_timeline_note(
                                timeline, "More than %u names of counters are not drawn; table counters has them.",
                                MOST_PANELS);
                panel = infp_timeline_add_panel(timeline);
                if (!panel)
                        return -ENOMEM;
                panel->group = "program";
                panel->unit = unit_of(&counters->list[i]);
                panel->kind = "line";
                panel->max = NAN;
                panel->title = strdup(counters->list[i].name);
                if (asprintf(&panel->id, "program-%u", n_panels) < 0)
                        panel->id = NULL;
                if (!panel->title || !panel->id)
                        return -ENOMEM;
                for (unsigned k = i; k < counters->n; k++)
                        if (counters->list[k].track.buckets && !strcmp(counters->list[k].name, panel->title))
                                INFP_TRY(add_to_panel(panel, &counters->list[k], names[k].text));
        }
        return 0;
}

static int name_and_draw(struct infp_timeline_reading *reading, struct counters *counters, struct infp_err *err)
{
        struct infp_process_name names[MOST_TRACKS] = { { 0 } };
        int r;

        for (unsigned i = 0; i < counters->n; i++)
                names[i].id = counters->list[i].process;
        r = infp_timeline_names(reading, names, counters->n, err);
        if (r >= 0)
                r = draw(reading->timeline, counters, names);
        for (unsigned i = 0; i < counters->n; i++)
                free(names[i].text);
        if (r >= 0 && counters->n_left_out)
                r = infp_timeline_note(reading->timeline, "%s rows of counters beyond the first %u are not drawn.",
                                       infp_count(counters->n_left_out).text, MOST_TRACKS);
        return r;
}

int infp_timeline_counters(struct infp_timeline_reading *reading, struct infp_err *err)
{
        infp_cleanup(counters_done) struct counters counters = { .grid = &reading->timeline->grid };

        reading->table = "counters";
        counters.list = calloc(MOST_TRACKS, sizeof(*counters.list));
        if (!counters.list)
                return -ENOMEM;
        INFP_TRY(infp_scan_rows(reading->run, "counters", columns, reading->scan, add, &counters, err));
        return name_and_draw(reading, &counters, err);
}
