/* Marks, gaps between ticks, and the names of processes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"

struct named {
        struct infp_process_name *names;
        unsigned n;
};

static int take_name(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct named *named = context;

        for (unsigned i = 0; at[0] >= 0 && i < named->n; i++) {
                infp_autofree char *text = NULL;
                char *whole;
                bool failed = false;

                if (named->names[i].id != infp_batch_u64(batch, (unsigned) at[0], row))
                        continue;
                text = infp_timeline_text(batch, at[2], row, &failed);
                if (failed)
                        return -ENOMEM;
                if (!text)
                        continue;
                if (!infp_cell_has(batch, at[1], row))
                        whole = INFP_TAKE(text);
                else if (asprintf(&whole, "%s (%lld)", text, (long long) infp_batch_i64(batch, (unsigned) at[1], row)) <
                         0)
                        return -ENOMEM;
                free(named->names[i].text);
                named->names[i].text = whole;
        }
        return 0;
}

int infp_timeline_names(struct infp_timeline_reading *reading, struct infp_process_name *names, unsigned n,
                        struct infp_err *err)
{
        static const char *const columns[] = { "id", "pId", "pName", NULL };
        const struct infp_scan_options whole = { .catalog = reading->scan->catalog };
        struct named named = { names, n };

        if (!n)
                return 0;
        reading->table = "process";
        return infp_scan_rows(reading->run, "process", columns, &whole, take_name, &named, err);
}

static void mark_done(struct infp_timeline_mark *mark)
{
        free(mark->tag);
        free(mark->source);
        free(mark->process);
}

/* Programs can mark each token; marks by a person or a captured line have priority. */
static bool is_of_program(const struct infp_timeline_mark *mark)
{
        return mark->source && (!strcmp(mark->source, "api") || !strcmp(mark->source, "python"));
}

struct marks {
        struct infp_timeline *timeline;
        uint64_t *ids; /* of their processes */
        uint64_t stride, n_of_programs;
};

/* Drops every second mark of programs. */
static void thin(struct marks *marks)
{
        struct infp_timeline *timeline = marks->timeline;
        unsigned n = 0, k = 0;

        for (unsigned i = 0; i < timeline->n_marks; i++) {
                if (is_of_program(&timeline->marks[i]) && k++ % 2) {
                        mark_done(&timeline->marks[i]);
                        timeline->marks_left_out++;
                        continue;
                }
                marks->ids[n] = marks->ids[i];
                timeline->marks[n++] = timeline->marks[i];
        }
        timeline->n_marks = n;
        marks->stride *= 2;
}

enum { SOURCE, PROCESS, TAG };
static const char *const mark_columns[] = { "source", "process", "tag", NULL };

static int add_mark(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct marks *marks = context;
        struct infp_timeline *timeline = marks->timeline;
        bool failed = false;
        struct infp_timeline_mark mark = {
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .source = infp_timeline_text(batch, at[SOURCE], row, &failed),
        };
        bool is_left_out = is_of_program(&mark) && marks->n_of_programs++ % marks->stride;

        if (!is_left_out && timeline->n_marks == INFP_TIMELINE_MARKS)
                thin(marks);
        if (failed || is_left_out || timeline->n_marks == INFP_TIMELINE_MARKS) {
                timeline->marks_left_out++;
                mark_done(&mark);
                return failed ? -ENOMEM : 0;
        }
        mark.tag = infp_timeline_text(batch, at[TAG], row, &failed);
        if (!mark.tag && !failed)
                mark.tag = strdup("");
        marks->ids[timeline->n_marks] = at[PROCESS] >= 0 ? infp_batch_u64(batch, (unsigned) at[PROCESS], row) : 0;
        timeline->marks[timeline->n_marks++] = mark;
        return mark.tag ? 0 : -ENOMEM;
}

static int by_time(const void *a, const void *b)
{
        const struct infp_timeline_mark *x = a, *y = b;

        return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static int name_marks(struct infp_timeline_reading *reading, const uint64_t *ids, struct infp_err *err)
{
        struct infp_timeline *timeline = reading->timeline;
        infp_autofree struct infp_process_name *names = calloc(timeline->n_marks + 1, sizeof(*names));
        unsigned n = 0;
        int r;

        if (!names)
                return -ENOMEM;
        for (unsigned i = 0; i < timeline->n_marks; i++) {
                unsigned k = 0;

                while (k < n && names[k].id != ids[i])
                        k++;
                if (k == n && ids[i])
                        names[n++].id = ids[i];
        }
        r = infp_timeline_names(reading, names, n, err);
        for (unsigned i = 0; r >= 0 && i < timeline->n_marks; i++)
                for (unsigned k = 0; k < n; k++)
                        if (names[k].id == ids[i] && names[k].text) {
                                timeline->marks[i].process = strdup(names[k].text);
                                r = timeline->marks[i].process ? r : -ENOMEM;
                        }
        for (unsigned k = 0; k < n; k++)
                free(names[k].text);
        return r;
}

int infp_timeline_marks(struct infp_timeline_reading *reading, struct infp_err *err)
{
        struct infp_timeline *timeline = reading->timeline;
        infp_autofree uint64_t *ids = calloc(INFP_TIMELINE_MARKS, sizeof(*ids));
        struct marks marks = { timeline, ids, 1, 0 };
        struct infp_scan_options of_marks = *reading->scan;
        int r;

        /* A recording takes marks some ms before its start time. */
        if (of_marks.t0 == reading->run->info.started_t_ns)
                of_marks.t0 = 0;
        reading->table = "marks";
        timeline->marks = calloc(INFP_TIMELINE_MARKS, sizeof(*timeline->marks));
        if (!ids || !timeline->marks)
                return -ENOMEM;
        r = infp_scan_rows(reading->run, "marks", mark_columns, &of_marks, add_mark, &marks, err);
        if (r >= 0)
                r = name_marks(reading, ids, err);
        infp_sort(timeline->marks, timeline->n_marks, sizeof(*timeline->marks), by_time);
        return r;
}

static int add_gap(struct infp_timeline *timeline, uint64_t from, uint64_t to)
{
        struct infp_timeline_gap *gap = &timeline->gaps[timeline->n_gaps];

        if (timeline->n_gaps == INFP_TIMELINE_GAPS) { /* bound: counted, noted at the end */
                timeline->gaps_left_out++;
                return 0;
        }
        *gap = (struct infp_timeline_gap){ from, to, NULL };
        if (asprintf(&gap->reason, "no samples for %s s: infprof got no CPU, or the machine was paused",
                     infp_fixed((double) (to - from) / 1e9, 1).text) < 0) {
                gap->reason = NULL;
                return -ENOMEM;
        }
        timeline->n_gaps++;
        return 0;
}

struct ticks {
        struct infp_timeline *timeline;
        uint64_t last_ns;
};

static int take_tick(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct ticks *ticks = context;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row), last = ticks->last_ns;

        (void) at;
        ticks->last_ns = t_ns;
        if (last && t_ns > last && t_ns - last > ticks->timeline->period_ms * UINT64_C(2500000))
                return add_gap(ticks->timeline, last, t_ns);
        return 0;
}

int infp_timeline_gaps(struct infp_timeline_reading *reading, struct infp_err *err)
{
        static const char *const none[] = { NULL };
        struct infp_timeline *timeline = reading->timeline;
        struct ticks ticks = { timeline, 0 };

        reading->table = "ticks";
        timeline->gaps = calloc(INFP_TIMELINE_GAPS, sizeof(*timeline->gaps));
        if (!timeline->gaps)
                return -ENOMEM;
        INFP_TRY(infp_scan_rows(reading->run, "ticks", none, reading->scan, take_tick, &ticks, err));
        return timeline->gaps_left_out
                       ? infp_timeline_note(timeline, "%u more gaps are not shown; table ticks has them.",
                                            timeline->gaps_left_out)
                       : 0;
}
