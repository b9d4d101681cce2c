#include "analyze/timeline/timeline.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/time.h"

static void free_all(char **texts, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                free(texts[i]);
        free(texts);
}

void infp_timeline_panel_done(struct infp_timeline_panel *panel)
{
        for (unsigned i = 0; i < panel->n_series; i++) {
                free(panel->series[i].name);
                free(panel->series[i].metric);
                free(panel->series[i].table);
                free(panel->series[i].help);
                free(panel->series[i].instance);
                free(panel->series[i].buckets);
        }
        for (unsigned i = 0; i < panel->n_limits; i++)
                free(panel->limits[i].name);
        free(panel->series);
        free(panel->limits);
        free(panel->id);
        free(panel->title);
        free(panel->note);
        *panel = (struct infp_timeline_panel){ 0 };
}

static void events_done(struct infp_timeline *timeline)
{
        for (unsigned i = 0; i < timeline->n_marks; i++) {
                free(timeline->marks[i].tag);
                free(timeline->marks[i].source);
                free(timeline->marks[i].process);
        }
        for (unsigned i = 0; i < timeline->n_spans; i++) {
                free(timeline->spans[i].name);
                free(timeline->spans[i].status);
                free(timeline->spans[i].attributes);
                free(timeline->spans[i].thread);
        }
        for (unsigned i = 0; i < timeline->n_gaps; i++)
                free(timeline->gaps[i].reason);
        free(timeline->marks);
        free(timeline->spans);
        free(timeline->gaps);
        free_all(timeline->lanes, timeline->n_lanes);
}

void infp_timeline_done(struct infp_timeline *timeline)
{
        for (unsigned i = 0; i < timeline->n_panels; i++)
                infp_timeline_panel_done(&timeline->panels[i]);
        free(timeline->panels);
        infp_timeline_code_done(timeline);
        free_all(timeline->cores.names, timeline->cores.n);
        free(timeline->cores.cells);
        free(timeline->cores.note);
        for (unsigned i = 0; i < timeline->n_processes; i++) {
                free(timeline->processes[i].name);
                free(timeline->processes[i].cmdline);
                free(timeline->processes[i].cpu);
                free(timeline->processes[i].rss);
        }
        free(timeline->processes);
        free(timeline->requests);
        free_all(timeline->loads, timeline->n_loads);
        free_all(timeline->failures, timeline->n_failures);
        events_done(timeline);
        free_all(timeline->notes, timeline->n_notes);
        *timeline = (struct infp_timeline){ 0 };
}

int infp_timeline_note(struct infp_timeline *timeline, const char *format, ...)
{
        char **more = reallocarray(timeline->notes, timeline->n_notes + 1, sizeof(*more));
        va_list arguments;
        int r;

        if (!more)
                return -ENOMEM;
        timeline->notes = more;
        va_start(arguments, format);
        r = vasprintf(&more[timeline->n_notes], format, arguments);
        va_end(arguments);
        if (r < 0)
                return -ENOMEM;
        timeline->n_notes++;
        return 0;
}

struct infp_timeline_panel *infp_timeline_add_panel(struct infp_timeline *timeline)
{
        struct infp_timeline_panel *more = reallocarray(timeline->panels, timeline->n_panels + 1, sizeof(*more));

        if (!more)
                return NULL;
        timeline->panels = more;
        more += timeline->n_panels++;
        *more = (struct infp_timeline_panel){ 0 };
        return more;
}

struct infp_timeline_series *infp_timeline_add_series(struct infp_timeline_panel *panel)
{
        struct infp_timeline_series *more = reallocarray(panel->series, panel->n_series + 1, sizeof(*more));

        if (!more)
                return NULL;
        panel->series = more;
        more += panel->n_series++;
        *more = (struct infp_timeline_series){ 0 };
        return more;
}

int infp_timeline_add_limit(struct infp_timeline_panel *panel, const char *name, double value)
{
        struct infp_timeline_limit *more = reallocarray(panel->limits, panel->n_limits + 1, sizeof(*more));

        if (!more)
                return -ENOMEM;
        panel->limits = more;
        more[panel->n_limits] = (struct infp_timeline_limit){ strdup(name), value };
        return more[panel->n_limits++].name ? 0 : -ENOMEM;
}

char *infp_timeline_text(const struct infp_batch *batch, int column, uint32_t row, bool *ret_failed)
{
        size_t size;
        const char *text;
        char *ret;

        if (column < 0 || infp_table_column(batch->table, (unsigned) column)->type != INFP_STR ||
            !infp_batch_has(batch, (unsigned) column, row))
                return NULL;
        text = infp_batch_str(batch, (unsigned) column, row, &size);
        if (!size)
                return NULL;
        ret = strndup(text, size);
        if (!ret)
                *ret_failed = true;
        return ret;
}

/* When the first tick of the range was due, so that samples are in the middle of their buckets, not at an edge. */
static int find_phase(struct infp_timeline_reading *reading, uint64_t *ret, struct infp_err *err)
{
        static const char *const names[] = { "deadline_ns", NULL };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r;

        *ret = reading->report->range.t0;
        reading->table = "ticks";
        INFP_TRY(infp_scan_some(reading->run, "ticks", names, reading->scan, &scan, err));
        r = infp_scan_next(scan, &batch, err);
        if (r > 0 && batch.n_rows) {
                const int deadline = infp_table_find(batch.table, names[0]);

                *ret = (uint64_t) infp_batch_i64(&batch, 0, 0);
                if (deadline >= 0 && infp_batch_has(&batch, (unsigned) deadline, 0))
                        *ret = (uint64_t) infp_batch_i64(&batch, (unsigned) deadline, 0);
        }
        infp_scan_close(scan);
        return r < 0 ? r : 0;
}

static void make_grid(struct infp_timeline *timeline, const struct infp_report *report, uint64_t phase)
{
        const uint64_t period = (uint64_t) timeline->period_ms * INFP_NS_PER_MS;
        const uint64_t t0 = report->range.t0, t1 = report->range.t1 > t0 ? report->range.t1 : t0 + 1;
        const uint64_t samples = (t1 - t0) / period + 1;
        const uint64_t each =
                samples <= INFP_TIMELINE_SAMPLES ? 1 : (samples + INFP_TIMELINE_BUCKETS - 1) / INFP_TIMELINE_BUCKETS;
        const uint64_t step = each * period;
        /* The last moment up to t0 that is half a period off the ticks. */
        const uint64_t ahead = (phase + period / 2) % period, behind = t0 % period;
        const uint64_t back = (behind + period - ahead) % period, begin = t0 > back ? t0 - back : 0;

        timeline->grid = (struct infp_grid){ begin, step, (unsigned) ((t1 - begin + step - 1) / step) };
        timeline->is_downsampled = each > 1;
        timeline->start_unix_ns = report->from_unix_ns - (int64_t) (t0 - begin);
        timeline->spark = timeline->grid;
        timeline->spark.step_ns *= (timeline->grid.n + INFP_TIMELINE_SPARK - 1) / INFP_TIMELINE_SPARK;
        timeline->spark.n = (unsigned) ((t1 - begin + timeline->spark.step_ns - 1) / timeline->spark.step_ns);
}

static bool has_panel(const char *table)
{
        for (unsigned i = 0; i < infp_panels_n; i++)
                for (unsigned k = 0; k < INFP_PANEL_TABLES && infp_panels[i].tables[k]; k++)
                        if (!strcmp(infp_panels[i].tables[k], table))
                                return true;
        return false;
}

/* Notes that a table cannot be read; 0, so that the others go on. */
static int pass(struct infp_timeline *timeline, const char *table, int r, struct infp_err *err)
{
        if (r >= 0 || r == -ENOENT)
                return 0;
        if (r == -ENOMEM)
                return infp_fail(err, r, "no memory for the page of the report");
        r = infp_timeline_note(timeline, "Table %s cannot be read and is missing here: %s", table,
                               err && *err->text ? err->text : strerror(-r));
        if (err)
                *err->text = 0;
        return r;
}

static int read_panels(struct infp_timeline_reading *reading, struct infp_err *err)
{
        const struct infp_catalog *catalog = reading->scan->catalog;
        struct infp_timeline *timeline = reading->timeline;
        const struct infp_tracked_options options = { reading->run, reading->scan, &timeline->grid };
        struct infp_tracked *tracked = calloc(catalog->n_tables + 1, sizeof(*tracked));
        unsigned n = 0;
        int r = tracked ? 0 : -ENOMEM;

        for (unsigned i = 0; r >= 0 && i < catalog->n_tables; i++) {
                const struct infp_table *table = &catalog->tables[i];
                const bool is_whole = table->series != NULL;

                if (table->entity || table->plain || (!is_whole && !has_panel(table->name)))
                        continue;
                r = infp_tracked_read(&options, table, is_whole, &tracked[n], err);
                n += r >= 0;
                r = pass(timeline, table->name, r, err);
                if (r >= 0 && n && tracked[n - 1].n_not_looked_at && tracked[n - 1].table == table)
                        r = infp_timeline_note(
                                timeline, "Table %s has more than %u instances: %s rows of later ones are not drawn.",
                                table->name, tracked[n - 1].n_instances,
                                infp_count(tracked[n - 1].n_not_looked_at).text);
        }
        if (r >= 0)
                r = infp_timeline_panels(timeline, reading->report, tracked, n);
        for (unsigned i = 0; i < n; i++)
                infp_tracked_done(&tracked[i]);
        free(tracked);
        return pass(timeline, "", r, err);
}

static int read_all(struct infp_timeline_reading *reading, struct infp_err *err)
{
        static int (*const readers[])(struct infp_timeline_reading *, struct infp_err *) = {
                infp_timeline_processes, infp_timeline_memory,   infp_timeline_heap,  infp_timeline_counters,
                infp_timeline_cores,     infp_timeline_requests, infp_timeline_marks, infp_timeline_spans,
                infp_timeline_gaps,      infp_timeline_code,     infp_timeline_torch,
        };
        uint64_t phase;
        int r;

        INFP_TRY(pass(reading->timeline, "ticks", find_phase(reading, &phase, err), err));
        make_grid(reading->timeline, reading->report, phase);
        INFP_TRY(read_panels(reading, err));
        for (unsigned i = 0; i < INFP_COUNT(readers); i++) {
                reading->table = "";
                r = readers[i](reading, err);
                INFP_TRY(pass(reading->timeline, reading->table, r, err));
        }
        return 0;
}

int infp_timeline_make(struct infp_run *run, const struct infp_report *report, struct infp_timeline *ret,
                       struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };
        const struct infp_scan_options scan = { .t0 = report->range.t0, .t1 = report->range.t1, .catalog = &catalog };
        struct infp_timeline_reading reading = { .run = run, .scan = &scan, .report = report, .timeline = ret };
        int r;

        *ret = (struct infp_timeline){ .period_ms = run->info.period_ms ? run->info.period_ms : 1000 };
        INFP_TRY(infp_catalog_read(run, &catalog, err));
        r = read_all(&reading, err);
        if (r < 0)
                infp_timeline_done(ret);
        return r;
}
