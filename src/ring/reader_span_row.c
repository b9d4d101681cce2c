/* From records of spans to rows: begins, attributes and ends are joined by the span's id. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "model/tables.h"
#include "ring/reader_parts.h"

enum { ESCAPED = 4 * INFP_RING_TEXT };

static double as_double(uint64_t bits)
{
        double v;

        memcpy(&v, &bits, sizeof(v));
        return v;
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

void ring_take_begin(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_span_begin *begun)
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

void ring_take_attribute(struct infp_ring *ring, const struct infp_wire_span_attr *attr)
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
        struct infp_row *row = ring_begin_row(ring, &infp_table_spans, span->begin_ns);

        infp_row_i64(row, INFP_SPANS_SPAN, (int64_t) span->id);
        if (span->parent)
                infp_row_i64(row, INFP_SPANS_PARENT, (int64_t) span->parent);
        infp_row_bytes(row, INFP_SPANS_NAME, span->name.size ? span->name.data : "", span->name.size);
        infp_row_i64(row, INFP_SPANS_TID, span->begin_tid);
        ring_put_thread(ring, INFP_SPANS_THREAD, span->begin_tid, span->begin_start);
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
        return ring_put_row(ring, INFP_RING_SPANS);
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

int ring_take_end(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_span_end *end)
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
        infp_sort_r(spans->waiting, n, sizeof(*spans->waiting), compare_spans, spans->all);
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
        infp_sort_r(spans->waiting, n, sizeof(*spans->waiting), compare_spans, spans->all);
        for (uint32_t i = 0; i < n && r >= 0; i++)
                r = give_span(ring, &spans->all[spans->waiting[i]]);
        for (uint32_t i = 0; i < spans->n; i++)
                if (spans->all[i].is_used)
                        ring_span_drop(spans, &spans->all[i]);
        return r;
}
