/* The longest spans, in lanes: one per thread, nested spans below their parents. Spans that overlap without nesting (begun
 * here, ended elsewhere) get another lane of the thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "base/sort.h"

enum { MOST_LANES = 200, MOST_DEPTH = 64, ATTRIBUTES_EACH = 1024 };

static void span_done(struct infp_timeline_span *span)
{
        free(span->name);
        free(span->status);
        free(span->attributes);
        free(span->thread);
}

static uint64_t end_of(const struct infp_timeline_span *span, uint64_t t1)
{
        return span->duration_ns >= 0 ? span->t_ns + (uint64_t) span->duration_ns : t1 > span->t_ns ? t1 : span->t_ns;
}

static uint64_t length_of(const struct infp_timeline_span *span, uint64_t t1)
{
        return end_of(span, t1) - span->t_ns;
}

/* A heap whose top is the shortest. */
static void sift(struct infp_timeline_span *heap, unsigned n, uint64_t t1, unsigned i)
{
        for (;;) {
                unsigned least = i;
                const struct infp_timeline_span moved = heap[i];

                for (unsigned k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
                        if (length_of(&heap[k], t1) < length_of(&heap[least], t1))
                                least = k;
                if (least == i)
                        return;
                heap[i] = heap[least];
                heap[least] = moved;
                i = least;
        }
}

static void keep(struct infp_timeline *timeline, const struct infp_timeline_span *span, uint64_t t1)
{
        if (timeline->n_spans < INFP_TIMELINE_SPANS) {
                timeline->spans[timeline->n_spans++] = *span;
                if (timeline->n_spans == INFP_TIMELINE_SPANS)
                        for (unsigned i = timeline->n_spans / 2; i-- > 0;)
                                sift(timeline->spans, timeline->n_spans, t1, i);
                return;
        }
        timeline->spans_left_out++;
        span_done(&timeline->spans[0]);
        timeline->spans[0] = *span;
        sift(timeline->spans, timeline->n_spans, t1, 0);
}

static const char *const columns[] = { "process", "span", "parent", "name",       "duration_ns",
                                       "status",  "tid",  "thread", "attributes", NULL };
enum { PROCESS, SPAN, PARENT, NAME, DURATION, STATUS, TID, THREAD, ATTRIBUTES };

static int64_t number(const struct infp_batch *batch, int column, uint32_t row, int64_t otherwise)
{
        return column >= 0 && infp_batch_has(batch, (unsigned) column, row)
                       ? infp_batch_i64(batch, (unsigned) column, row)
                       : otherwise;
}

struct gathering {
        struct infp_timeline *timeline;
        uint64_t t1;
};

static int add_span(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_timeline *timeline = ((struct gathering *) context)->timeline;
        const uint64_t t1 = ((struct gathering *) context)->t1;
        bool failed = false;
        struct infp_timeline_span span = {
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .process = at[PROCESS] >= 0 ? infp_batch_u64(batch, (unsigned) at[PROCESS], row) : 0,
                .duration_ns = number(batch, at[DURATION], row, -1),
                .id = number(batch, at[SPAN], row, -1),
                .parent = number(batch, at[PARENT], row, -1),
                .tid = number(batch, at[TID], row, -1),
        };

        if (timeline->n_spans == INFP_TIMELINE_SPANS && length_of(&span, t1) <= length_of(&timeline->spans[0], t1)) {
                timeline->spans_left_out++;
                return 0;
        }
        span.name = infp_timeline_text(batch, at[NAME], row, &failed);
        span.status = infp_timeline_text(batch, at[STATUS], row, &failed);
        span.thread = infp_timeline_text(batch, at[THREAD], row, &failed);
        span.attributes = infp_timeline_text(batch, at[ATTRIBUTES], row, &failed);
        if (failed) {
                span_done(&span);
                return -ENOMEM;
        }
        keep(timeline, &span, t1);
        return 0;
}

static int by_place(const void *a, const void *b)
{
        const struct infp_timeline_span *x = a, *y = b;

        if (x->process != y->process)
                return x->process > y->process ? 1 : -1;
        if (x->tid != y->tid)
                return x->tid > y->tid ? 1 : -1;
        if (x->t_ns != y->t_ns)
                return x->t_ns > y->t_ns ? 1 : -1;
        /* An enclosing span comes first; an open one encloses all. */
        if ((x->duration_ns < 0) != (y->duration_ns < 0))
                return x->duration_ns < 0 ? -1 : 1;
        if (x->duration_ns != y->duration_ns)
                return x->duration_ns < y->duration_ns ? 1 : -1;
        return (x->id > y->id) - (x->id < y->id);
}

static int by_begin(const void *a, const void *b)
{
        const struct infp_timeline_span *x = a, *y = b;

        if (x->t_ns != y->t_ns)
                return x->t_ns > y->t_ns ? 1 : -1;
        return (x->depth > y->depth) - (x->depth < y->depth);
}

struct lane {
        uint64_t ends[MOST_DEPTH]; /* of the spans that are open at this place */
        unsigned depth;
};

/* Whether the span fits into the lane, beside or within others. */
static bool enter(struct lane *lane, const struct infp_timeline_span *span, uint64_t t1, unsigned *ret_depth)
{
        const uint64_t end = end_of(span, t1);

        while (lane->depth && lane->ends[lane->depth - 1] <= span->t_ns)
                lane->depth--;
        if (lane->depth == MOST_DEPTH || (lane->depth && lane->ends[lane->depth - 1] < end))
                return false;
        *ret_depth = lane->depth;
        lane->ends[lane->depth++] = end;
        return true;
}

static int name_lane(struct infp_timeline *timeline, const struct infp_timeline_span *span, const char *process,
                     unsigned number)
{
        char **more = reallocarray(timeline->lanes, timeline->n_lanes + 1, sizeof(*more));
        infp_autofree char *thread = NULL;
        char again[24] = "";

        if (!more)
                return -ENOMEM;
        timeline->lanes = more;
        if (span->thread)
                thread = strdup(span->thread);
        else if (asprintf(&thread, "thread %lld", (long long) span->tid) < 0)
                thread = NULL;
        if (number)
                snprintf(again, sizeof(again), " (%u)", number + 1);
        if (!thread ||
            asprintf(&more[timeline->n_lanes], "%s · %s%s", process ? process : "process", thread, again) < 0)
                return -ENOMEM;
        timeline->n_lanes++;
        return 0;
}

static const char *name_of(const struct infp_process_name *names, unsigned n, uint64_t id)
{
        for (unsigned i = 0; i < n; i++)
                if (names[i].id == id)
                        return names[i].text;
        return NULL;
}

/* Drops spans without a lane. */
static void drop_unplaced(struct infp_timeline *timeline)
{
        unsigned n = 0;

        for (unsigned i = 0; i < timeline->n_spans; i++)
                if (timeline->spans[i].lane == MOST_LANES) {
                        timeline->spans_left_out++;
                        span_done(&timeline->spans[i]);
                } else {
                        timeline->spans[n++] = timeline->spans[i];
                }
        timeline->n_spans = n;
}

/* The spans are sorted by place: the lanes of one thread are filled at a time. */
static int lay(struct infp_timeline *timeline, const struct infp_process_name *names, unsigned n_names, uint64_t t1)
{
        infp_autofree struct lane *lanes = calloc(MOST_LANES, sizeof(*lanes));
        unsigned first = 0;

        if (!lanes)
                return -ENOMEM;
        for (unsigned i = 0; i < timeline->n_spans; i++) {
                struct infp_timeline_span *span = &timeline->spans[i];
                unsigned at;

                if (!i || span[-1].process != span->process || span[-1].tid != span->tid)
                        first = timeline->n_lanes;
                for (at = first; at < timeline->n_lanes && !enter(&lanes[at], span, t1, &span->depth);)
                        at++;
                if (at < MOST_LANES && at == timeline->n_lanes) {
                        INFP_TRY(name_lane(timeline, span, name_of(names, n_names, span->process), at - first));
                        enter(&lanes[at], span, t1, &span->depth);
                }
                span->lane = at;
        }
        drop_unplaced(timeline);
        return 0;
}

/* All attributes together have a bound. */
static int bound_attributes(struct infp_timeline *timeline)
{
        size_t sum = 0;
        unsigned n = 0;

        for (unsigned i = 0; i < timeline->n_spans; i++) {
                struct infp_timeline_span *span = &timeline->spans[i];
                const size_t size = span->attributes ? strlen(span->attributes) : 0;

                if (!size || (size <= ATTRIBUTES_EACH && sum + size <= INFP_TIMELINE_ATTRIBUTES_BYTES)) {
                        sum += size;
                        continue;
                }
                free(span->attributes);
                span->attributes = NULL;
                n++;
        }
        return n ? infp_timeline_note(timeline, "The attributes of %u spans are left out; table spans has them.", n)
                 : 0;
}

static int name_and_lay(struct infp_timeline_reading *reading, struct infp_err *err)
{
        struct infp_timeline *timeline = reading->timeline;
        struct infp_process_name names[MOST_LANES] = { { 0 } };
        unsigned n = 0;
        int r;

        infp_sort(timeline->spans, timeline->n_spans, sizeof(*timeline->spans), by_place);
        /* bound: one name a lane; spans without a lane are counted (drop_unplaced) */
        for (unsigned i = 0; i < timeline->n_spans && n < MOST_LANES; i++)
                if (!n || names[n - 1].id != timeline->spans[i].process)
                        names[n++].id = timeline->spans[i].process;
        r = infp_timeline_names(reading, names, n, err);
        if (r >= 0)
                r = lay(timeline, names, n, reading->scan->t1);
        for (unsigned i = 0; i < n; i++)
                free(names[i].text);
        INFP_TRY(r);
        infp_sort(timeline->spans, timeline->n_spans, sizeof(*timeline->spans), by_begin);
        return bound_attributes(timeline);
}

int infp_timeline_spans(struct infp_timeline_reading *reading, struct infp_err *err)
{
        struct infp_timeline *timeline = reading->timeline;
        struct gathering gathering = { timeline, reading->scan->t1 };

        reading->table = "spans";
        timeline->spans = calloc(INFP_TIMELINE_SPANS, sizeof(*timeline->spans));
        if (!timeline->spans)
                return -ENOMEM;
        INFP_TRY(infp_scan_rows(reading->run, "spans", columns, reading->scan, add_span, &gathering, err));
        return timeline->n_spans ? name_and_lay(reading, err) : 0;
}
