/* From records to rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/tables.h"
#include "ring/reader_parts.h"

enum { MARKS, SPANS, COUNTERS };
enum { THREAD_NAME = 256, ESCAPED = 4 * INFP_RING_TEXT };

static int put(struct infp_ring *ring, unsigned table)
{
        ring->counts.rows[table]++;
        return ring->put(ring->context, &ring->row);
}

static struct infp_row *begin(struct infp_ring *ring, const struct infp_table *table, uint64_t t_ns)
{
        infp_row_begin(&ring->row, table, t_ns);
        infp_row_str(&ring->row, 0, "api"); /* column source is the first of all three */
        if (ring->owner.process)
                infp_row_id(&ring->row, 1, ring->owner.process);
        return &ring->row;
}
_Static_assert(INFP_MARKS_SOURCE == 0 && INFP_SPANS_SOURCE == 0 && INFP_COUNTERS_SOURCE == 0 &&
                       INFP_MARKS_PROCESS == 1 && INFP_SPANS_PROCESS == 1 && INFP_COUNTERS_PROCESS == 1,
               "they begin alike");

static void put_thread(struct infp_ring *ring, unsigned cell, uint32_t tid, uint64_t start)
{
        const char *name = ring_thread_name(ring, tid, start);

        if (name)
                infp_row_bytes(&ring->row, cell, name, strlen(name));
}

static int give_mark(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_mark *mark)
{
        char tag[INFP_RING_TEXT];
        size_t size;
        struct infp_row *row;

        if (!ring_text(ring, &mark->record, mark->text, tag, sizeof(tag), &size)) {
                ring->counts.broken++;
                return 0;
        }
        row = begin(ring, &infp_table_marks, mark->record.t_ns);
        infp_row_i64(row, INFP_MARKS_TID, mark->record.tid);
        infp_row_bytes(row, INFP_MARKS_TAG, tag, size);
        put_thread(ring, INFP_MARKS_THREAD, mark->record.tid, event->thread_start);
        return put(ring, MARKS);
}

static struct infp_wire_metric *metric_at(const struct infp_ring *ring, uint32_t index)
{
        return (struct infp_wire_metric *) (void *) (ring->map.at + ring->layout.metrics_at) + index;
}

static uint32_t metrics_now(const struct infp_ring *ring)
{
        const uint32_t n = atomic_load_explicit(&ring_head(ring)->n_metrics, memory_order_acquire);

        return n < ring->layout.max_metrics ? n : ring->layout.max_metrics;
}

static double as_double(uint64_t bits)
{
        double v;

        memcpy(&v, &bits, sizeof(v));
        return v;
}

/* A row of the metric but for its thread. False: no writer makes such a metric. */
static bool begin_value(struct infp_ring *ring, uint32_t index, uint64_t t_ns, uint64_t bits)
{
        struct infp_wire_metric *metric = index < metrics_now(ring) ? metric_at(ring, index) : NULL;
        char text[INFP_RING_TEXT];
        size_t size;
        struct infp_row *row;

        if (!metric || !atomic_load_explicit(&metric->ready, memory_order_acquire))
                return false;
        row = begin(ring, &infp_table_counters, t_ns);
        if (!ring_text(ring, NULL, metric->name, text, sizeof(text), &size))
                return false;
        infp_row_bytes(row, INFP_COUNTERS_NAME, text, size);
        infp_row_str(row, INFP_COUNTERS_KIND, metric->kind == INFP_WIRE_COUNTER ? "counter" : "gauge");
        if (ring_text(ring, NULL, metric->unit, text, sizeof(text), &size) && size)
                infp_row_bytes(row, INFP_COUNTERS_UNIT, text, size);
        infp_row_f64(row, INFP_COUNTERS_VALUE, as_double(bits));
        if (ring_text(ring, NULL, metric->help, text, sizeof(text), &size) && size)
                infp_row_bytes(row, INFP_COUNTERS_HELP, text, size);
        return true;
}

/* What is known of the metrics; NULL: no memory. */
static struct ring_metric *metrics_of(struct infp_ring *ring)
{
        if (!ring->metrics)
                ring->metrics = calloc(ring->layout.max_metrics, sizeof(*ring->metrics));
        return ring->metrics;
}

static int give_value(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_value *value)
{
        const uint64_t t_ns = value->record.t_ns;
        uint64_t bits = value->value;
        struct ring_metric *known;

        if (!metrics_of(ring))
                return -ENOMEM;
        if (value->metric >= metrics_now(ring)) {
                ring->counts.broken++;
                return 0;
        }
        known = &ring->metrics[value->metric];
        /* Of two threads' sums the smaller may have the later time: the sum was the larger one then. */
        if (metric_at(ring, value->metric)->kind == INFP_WIRE_COUNTER) {
                if (as_double(bits) < as_double(known->largest))
                        bits = known->largest;
                known->largest = bits;
        }
        if (!begin_value(ring, value->metric, t_ns, bits)) {
                ring->counts.broken++;
                return 0;
        }
        infp_row_i64(&ring->row, INFP_COUNTERS_TID, value->record.tid);
        put_thread(ring, INFP_COUNTERS_THREAD, value->record.tid, event->thread_start);
        known->given_ns = t_ns > known->given_ns ? t_ns : known->given_ns;
        return put(ring, COUNTERS);
}

/* A slot whose value is newer than every record, and was so when the last pass ended: its record would have been seen. */
int ring_give_metrics(struct infp_ring *ring)
{
        const uint32_t n = metrics_now(ring);

        if (n && !metrics_of(ring))
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                struct infp_wire_metric *metric = metric_at(ring, i);
                struct ring_metric *known = &ring->metrics[i];
                const uint64_t times = atomic_load_explicit(&metric->n, memory_order_acquire),
                               t_ns = atomic_load_explicit(&metric->t_ns, memory_order_acquire),
                               bits = atomic_load_explicit(&metric->value, memory_order_acquire);
                const bool is_same = t_ns == known->before_ns && times == atomic_load(&metric->n);

                known->before_ns = t_ns;
                if (!is_same || t_ns <= known->given_ns || t_ns > ring->now_ns)
                        continue;
                known->given_ns = t_ns;
                if (begin_value(ring, i, t_ns, bits))
                        INFP_TRY(put(ring, COUNTERS));
        }
        return 0;
}

static struct ring_span *span_of(struct infp_ring *ring, uint64_t id)
{
        struct ring_span *span = ring_span_get(&ring->spans, id);

        if (span)
                return span;
        ring_spans_forget_strays(&ring->spans);
        return ring_span_get(&ring->spans, id);
}

static void set_name(struct infp_ring *ring, struct ring_span *span, const struct infp_wire_record *record,
                     struct infp_wire_text text)
{
        char name[INFP_RING_TEXT];
        size_t size;

        if (span->name.size || !text.size)
                return;
        if (ring_text(ring, record, text, name, sizeof(name), &size))
                infp_str_put(&span->name, name, size);
        else
                ring->counts.broken++;
}

static void take_begin(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_span_begin *begun)
{
        struct ring_span *span = span_of(ring, begun->id);

        if (!span) {
                ring->counts.spans_forgotten++;
                return;
        }
        if (!span->has_begin && !span->has_end) {
                span->begin_ns = begun->record.t_ns;
                span->begin_tid = begun->record.tid;
                span->parent = begun->parent;
        }
        if (begun->record.tid == span->begin_tid)
                span->begin_start = event->thread_start;
        span->has_begin = true;
        set_name(ring, span, &begun->record, begun->name);
}

static bool put_json(struct infp_ring *ring, const struct infp_wire_span_attr *attr, struct infp_str *to)
{
        char text[INFP_RING_TEXT], escaped[ESCAPED];
        size_t size;
        struct infp_json json;

        infp_json_begin(&json, to, 0);
        switch (attr->type) {
        case INFP_WIRE_TEXT:
                if (!ring_text(ring, &attr->record, attr->text, text, sizeof(text), &size)) {
                        ring->counts.broken++;
                        return false;
                }
                infp_json_strn(&json, escaped, infp_text_escape(text, size, escaped, sizeof(escaped)));
                return true;
        case INFP_WIRE_INT:
                infp_json_i64(&json, (int64_t) attr->value);
                return true;
        case INFP_WIRE_DOUBLE:
                infp_json_f64(&json, as_double(attr->value));
                return true;
        case INFP_WIRE_BOOL:
                infp_json_bool(&json, attr->value != 0);
                return true;
        default:
                ring->counts.unknown++;
                return false;
        }
}

static void take_attribute(struct infp_ring *ring, const struct infp_wire_span_attr *attr)
{
        infp_autostr struct infp_str value = { 0 };
        char key[INFP_RING_TEXT], escaped[ESCAPED];
        struct ring_span *span;
        size_t size;

        if (!ring_text(ring, &attr->record, attr->key, key, sizeof(key), &size)) {
                ring->counts.broken++;
                return;
        }
        if (!put_json(ring, attr, &value))
                return;
        size = infp_text_escape(key, size, escaped, sizeof(escaped));
        span = span_of(ring, attr->id);
        if (!span || !ring_span_attribute(&ring->spans, span, escaped, size, &value))
                ring->counts.cut_attributes++;
}

static int give_span(struct infp_ring *ring, struct ring_span *span)
{
        struct infp_row *row = begin(ring, &infp_table_spans, span->begin_ns);

        infp_row_i64(row, INFP_SPANS_SPAN, (int64_t) span->id);
        if (span->parent)
                infp_row_i64(row, INFP_SPANS_PARENT, (int64_t) span->parent);
        infp_row_bytes(row, INFP_SPANS_NAME, span->name.size ? span->name.data : "", span->name.size);
        infp_row_i64(row, INFP_SPANS_TID, span->begin_tid);
        put_thread(ring, INFP_SPANS_THREAD, span->begin_tid, span->begin_start);
        if (span->has_end) {
                infp_row_i64(row, INFP_SPANS_DURATION_NS, (int64_t) (span->end_ns - span->begin_ns));
                infp_row_i64(row, INFP_SPANS_END_TID, span->end_tid);
        }
        infp_row_str(row, INFP_SPANS_STATUS,
                     !span->has_end                    ? "open"
                     : span->status == INFP_WIRE_ERROR ? "error"
                                                       : "ok");
        if (span->attributes.size) {
                infp_autostr struct infp_str json = { 0 };

                infp_str_putc(&json, '{');
                infp_str_put(&json, span->attributes.data, span->attributes.size);
                infp_str_putc(&json, '}');
                if (!json.failed)
                        infp_row_str(row, INFP_SPANS_ATTRIBUTES, json.data);
        }
        return put(ring, SPANS);
}

static void fill_end(struct ring_span *span, const struct infp_wire_span_end *end)
{
        span->id = end->id;
        span->parent = end->parent;
        span->begin_ns = end->begin_ns;
        span->begin_tid = end->begin_tid;
        span->end_ns = end->record.t_ns;
        span->end_tid = end->record.tid;
        span->status = end->status > INFP_WIRE_ERROR ? INFP_WIRE_UNSET : (uint8_t) end->status;
}

static int take_end(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_span_end *end)
{
        struct ring_span *span;
        int r;

        if (end->begin_ns > end->record.t_ns) {
                ring->counts.broken++;
                return 0;
        }
        span = span_of(ring, end->id);
        if (!span) { /* there are too many: without its attributes, at once */
                struct ring_span alone = { .has_end = true };

                fill_end(&alone, end);
                set_name(ring, &alone, &end->record, end->name);
                r = give_span(ring, &alone);
                infp_str_done(&alone.name);
                return r;
        }
        if (span->has_end) {
                ring->counts.broken++;
                return 0;
        }
        fill_end(span, end);
        if (end->begin_tid == end->record.tid && event->thread_start)
                span->begin_start = event->thread_start;
        set_name(ring, span, &end->record, end->name);
        ring_span_end(&ring->spans, span, ring->pass);
        return 0;
}

static int compare_spans(const void *a, const void *b, void *context)
{
        const struct ring_span *all = context, *one = &all[*(const uint32_t *) a], *other = &all[*(const uint32_t *) b];

        if (one->begin_ns != other->begin_ns)
                return one->begin_ns < other->begin_ns ? -1 : 1;
        return one->id < other->id ? -1 : one->id > other->id;
}

int ring_give_spans(struct infp_ring *ring)
{
        struct ring_spans *spans = &ring->spans;
        uint32_t n = 0;
        int r = 0;

        while (n < spans->n_waiting && spans->all[spans->waiting[n]].ended_pass < ring->pass)
                n++;
        if (!n)
                return 0;
        qsort_r(spans->waiting, n, sizeof(*spans->waiting), compare_spans, spans->all);
        for (uint32_t i = 0; i < n && r >= 0; i++) {
                r = give_span(ring, &spans->all[spans->waiting[i]]);
                ring_span_drop(spans, &spans->all[spans->waiting[i]]);
                spans->waiting[i] = UINT32_MAX;
        }
        memmove(spans->waiting, spans->waiting + n, (spans->n_waiting - n) * sizeof(*spans->waiting));
        spans->n_waiting -= n;
        return r;
}

int ring_give_open_spans(struct infp_ring *ring)
{
        struct ring_spans *spans = &ring->spans;
        uint32_t n = 0;
        int r = 0;

        spans->n_waiting = 0; /* its memory is free now: all that have ended were given */
        for (uint32_t i = 0; i < spans->n; i++)
                if (spans->all[i].is_used && spans->all[i].has_begin && !spans->all[i].has_end)
                        spans->waiting[n++] = i;
        if (n)
                qsort_r(spans->waiting, n, sizeof(*spans->waiting), compare_spans, spans->all);
        for (uint32_t i = 0; i < n && r >= 0; i++)
                r = give_span(ring, &spans->all[spans->waiting[i]]);
        for (uint32_t i = 0; i < spans->n; i++)
                if (spans->all[i].is_used)
                        ring_span_drop(spans, &spans->all[i]);
        return r;
}

static void take_thread(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_mark *mark)
{
        char name[INFP_RING_TEXT];
        size_t size;

        if (ring_text(ring, &mark->record, mark->text, name, sizeof(name), &size))
                ring_set_thread_name(ring, mark->record.tid, event->thread_start, name,
                                     size < THREAD_NAME ? size : THREAD_NAME);
        else
                ring->counts.broken++;
}

static int give_event(struct infp_ring *ring, const struct ring_event *event)
{
        const void *at = ring->taken.data + event->at;
        const struct infp_wire_record *record = at;

        switch (record->kind) {
        case INFP_WIRE_MARK:
                return give_mark(ring, event, at);
        case INFP_WIRE_VALUE:
                return give_value(ring, event, at);
        case INFP_WIRE_THREAD:
                take_thread(ring, event, at);
                return 0;
        case INFP_WIRE_SPAN_BEGIN:
                take_begin(ring, event, at);
                return 0;
        case INFP_WIRE_SPAN_ATTR:
                take_attribute(ring, at);
                return 0;
        default:
                return take_end(ring, event, at);
        }
}

static int compare_events(const void *a, const void *b)
{
        const struct ring_event *one = a, *other = b;

        if (one->t_ns != other->t_ns)
                return one->t_ns < other->t_ns ? -1 : 1;
        return one->at < other->at ? -1 : 1;
}

int ring_give_events(struct infp_ring *ring)
{
        int r = 0;

        if (ring->n_events)
                qsort(ring->events, ring->n_events, sizeof(*ring->events), compare_events);
        for (size_t i = 0; i < ring->n_events && r >= 0; i++)
                r = give_event(ring, &ring->events[i]);
        ring->n_events = 0;
        infp_str_clear(&ring->taken);
        return r;
}
