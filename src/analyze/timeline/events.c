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

int infp_timeline_names(struct infp_timeline_reading *reading, struct infp_process_name *names, unsigned n,
                        struct infp_err *err)
{
        static const char *const wanted[] = { "id", "pId", "pName", NULL };
        const struct infp_scan_options whole = { .catalog = reading->scan->catalog };
        struct infp_scan *scan;
        struct infp_batch batch;
        bool failed = false;
        int r;

        if (!n)
                return 0;
        reading->table = "process";
        r = infp_report_scan(reading->run, "process", wanted, &whole, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while (!failed && (r = infp_scan_next(scan, &batch, err)) > 0) {
                const int id = infp_table_find(batch.table, "id"), pid = infp_table_find(batch.table, "pId"),
                          name = infp_table_find(batch.table, "pName");

                for (uint32_t row = 0; id >= 0 && row < batch.n_rows; row++)
                        for (unsigned i = 0; i < n; i++) {
                                infp_autofree char *text = NULL;
                                char *whole_name;

                                if (names[i].id != infp_batch_u64(&batch, (unsigned) id, row))
                                        continue;
                                text = infp_timeline_text(&batch, name, row, &failed);
                                if (!text)
                                        continue;
                                if (pid < 0 || !infp_batch_has(&batch, (unsigned) pid, row)) {
                                        whole_name = INFP_TAKE(text);
                                } else if (asprintf(&whole_name, "%s (%lld)", text,
                                                    (long long) infp_batch_i64(&batch, (unsigned) pid, row)) < 0) {
                                        failed = true;
                                        continue;
                                }
                                free(names[i].text);
                                names[i].text = whole_name;
                        }
        }
        infp_scan_close(scan);
        return failed ? -ENOMEM : r;
}

static void mark_done(struct infp_timeline_mark *mark)
{
        free(mark->tag);
        free(mark->source);
        free(mark->process);
}

/* Programs can mark each token; what a person or a captured line says is kept before that. */
static bool is_of_program(const struct infp_timeline_mark *mark)
{
        return mark->source && (!strcmp(mark->source, "api") || !strcmp(mark->source, "python"));
}

struct marks {
        struct infp_timeline *timeline;
        uint64_t *ids; /* of their processes */
        uint64_t stride, n_of_programs;
};

/* Every second of the programs' marks goes. */
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

static int add_mark(struct marks *marks, const struct infp_batch *batch, uint32_t row)
{
        struct infp_timeline *timeline = marks->timeline;
        const int process = infp_table_find(batch->table, "process");
        bool failed = false;
        struct infp_timeline_mark mark = {
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .source = infp_timeline_text(batch, infp_table_find(batch->table, "source"), row, &failed),
        };
        bool is_left_out = is_of_program(&mark) && marks->n_of_programs++ % marks->stride;

        if (!is_left_out && timeline->n_marks == INFP_TIMELINE_MARKS)
                thin(marks);
        if (failed || is_left_out || timeline->n_marks == INFP_TIMELINE_MARKS) {
                timeline->marks_left_out++;
                mark_done(&mark);
                return failed ? -ENOMEM : 0;
        }
        mark.tag = infp_timeline_text(batch, infp_table_find(batch->table, "tag"), row, &failed);
        if (!mark.tag && !failed)
                mark.tag = strdup("");
        marks->ids[timeline->n_marks] = process >= 0 ? infp_batch_u64(batch, (unsigned) process, row) : 0;
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
        static const char *const wanted[] = { "source", "process", "tag", NULL };
        struct infp_timeline *timeline = reading->timeline;
        infp_autofree uint64_t *ids = calloc(INFP_TIMELINE_MARKS, sizeof(*ids));
        struct marks marks = { timeline, ids, 1, 0 };
        struct infp_scan_options of_marks = *reading->scan;
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = 0;

        /* A recording takes marks some ms before it calls itself started. */
        if (of_marks.t0 == reading->run->info.started_t_ns)
                of_marks.t0 = 0;
        reading->table = "marks";
        timeline->marks = calloc(INFP_TIMELINE_MARKS, sizeof(*timeline->marks));
        if (!ids || !timeline->marks)
                return -ENOMEM;
        INFP_TRY(infp_report_scan(reading->run, "marks", wanted, &of_marks, &scan, err));
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (add_mark(&marks, &batch, row) < 0)
                                r = -ENOMEM;
        infp_scan_close(scan);
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

int infp_timeline_gaps(struct infp_timeline_reading *reading, struct infp_err *err)
{
        static const char *const wanted[] = { NULL };
        struct infp_timeline *timeline = reading->timeline;
        const uint64_t most = timeline->period_ms * UINT64_C(2500000);
        uint64_t last = 0;
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = 0;

        reading->table = "ticks";
        timeline->gaps = calloc(INFP_TIMELINE_GAPS, sizeof(*timeline->gaps));
        if (!timeline->gaps)
                return -ENOMEM;
        INFP_TRY(infp_report_scan(reading->run, "ticks", wanted, reading->scan, &scan, err));
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++) {
                        const uint64_t t_ns = (uint64_t) infp_batch_i64(&batch, 0, row);

                        if (last && t_ns > last && t_ns - last > most && add_gap(timeline, last, t_ns) < 0)
                                r = -ENOMEM;
                        last = t_ns;
                }
        infp_scan_close(scan);
        if (r >= 0 && timeline->gaps_left_out)
                r = infp_timeline_note(timeline, "%u more gaps are not shown; table ticks has them.",
                                       timeline->gaps_left_out);
        return r;
}
