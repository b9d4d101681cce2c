/* From records to rows: marks, values, names of threads; spans, of which begins, attributes and ends are joined by their ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "model/tables.h"
#include "ring/reader_parts.h"

/* The names that programs give their threads. A tid comes again when its thread has ended: the start time tells them apart where
 * it is known. */
const char *ring_thread_name(const struct infp_ring *ring, uint32_t tid, uint64_t start)
{
        const uint64_t *index = infp_map_get(&ring->threads, tid);
        const struct ring_thread *thread = index ? &ring->names[*index] : NULL;

        if (!thread || (start && thread->start && start != thread->start))
                return NULL;
        return thread->name;
}

void ring_threads_done(struct infp_ring *ring)
{
        for (uint32_t i = 0; i < ring->n_names; i++)
                free(ring->names[i].name);
        ring->n_names = 0;
        infp_map_done(&ring->threads);
}

static struct ring_thread *thread_new(struct infp_ring *ring, uint32_t tid)
{
        if (ring->n_names == INFP_RING_THREADS)
                ring_threads_done(ring); /* most of them have ended long ago */
        if (!INFP_MAKE_ROOM(ring->names, ring->n_names, ring->cap_names, 16))
                return NULL;
        if (infp_map_put(&ring->threads, tid, ring->n_names) < 0)
                return NULL;
        ring->names[ring->n_names] = (struct ring_thread){ 0 };
        return &ring->names[ring->n_names++];
}

static int set_thread_name(struct infp_ring *ring, uint32_t tid, uint64_t start, const char *name, size_t size)
{
        const uint64_t *index = infp_map_get(&ring->threads, tid);
        struct ring_thread *thread = index ? &ring->names[*index] : thread_new(ring, tid);
        char *copy = thread ? strndup(name, size) : NULL;

        if (!copy)
                return -ENOMEM;
        free(thread->name);
        *thread = (struct ring_thread){ .start = start, .name = copy };
        return 0;
}

/* Spans between their first record and the row: by id, since a span may begin and end in different threads' chunks. */

enum { FIRST = 64, KEPT_TEXT = 1024, THREAD_NAME = 256 };

static uint64_t key_of(const struct ring_spans *spans, uint64_t id)
{
        return infp_hash64(&id, sizeof(id), spans->seed);
}

static bool grow_spans(struct ring_spans *spans)
{
        uint32_t cap = spans->cap, spare_cap = cap, waiting_cap = cap;

        if (spans->cap >= INFP_RING_OPEN_SPANS || !INFP_MAKE_ROOM(spans->all, spans->cap, cap, FIRST) ||
            !INFP_MAKE_ROOM(spans->spare, spans->cap, spare_cap, FIRST) ||
            !INFP_MAKE_ROOM(spans->waiting, spans->cap, waiting_cap, FIRST))
                return false;
        spans->cap = cap;
        return true;
}

static struct ring_span *span_new(struct ring_spans *spans)
{
        struct ring_span *span;

        if (spans->n_spare)
                return &spans->all[spans->spare[--spans->n_spare]];
        if (spans->n == spans->cap && !grow_spans(spans))
                return NULL;
        span = &spans->all[spans->n++];
        *span = (struct ring_span){ 0 };
        return span;
}

/* NULL: there are too many, or no memory. */
static struct ring_span *span_get(struct ring_spans *spans, uint64_t id)
{
        const uint64_t key = key_of(spans, id);
        const uint64_t *index = infp_map_get(&spans->by_id, key);
        struct ring_span *span;

        if (index)
                return &spans->all[*index];
        span = span_new(spans);
        if (!span)
                return NULL;
        *span = (struct ring_span){ .id = id, .is_used = true, .name = span->name, .attributes = span->attributes };
        infp_str_clear(&span->name);
        infp_str_clear(&span->attributes);
        if (infp_map_put(&spans->by_id, key, (uint64_t) (span - spans->all)) < 0) {
                span->is_used = false;
                spans->spare[spans->n_spare++] = (uint32_t) (span - spans->all);
                return NULL;
        }
        return span;
}

static void span_end(struct ring_spans *spans, struct ring_span *span, uint64_t pass)
{
        span->has_end = true;
        span->ended_pass = pass;
        spans->waiting[spans->n_waiting++] = (uint32_t) (span - spans->all);
}

static void clear_text(struct infp_str *text)
{
        if (text->cap > KEPT_TEXT || text->failed)
                infp_str_done(text);
        else
                infp_str_clear(text);
}

static void span_drop(struct ring_spans *spans, struct ring_span *span)
{
        infp_map_delete(&spans->by_id, key_of(spans, span->id));
        spans->attribute_bytes -= span->attributes.size;
        clear_text(&span->name);
        clear_text(&span->attributes);
        span->is_used = false;
        spans->spare[spans->n_spare++] = (uint32_t) (span - spans->all);
}

/* Of which only attributes were seen. Once a pass: a program whose records are dropped leaves many spans open for ever, and a look at all of
 * them for each record takes all of a CPU. */
static void spans_forget_strays(struct ring_spans *spans, uint64_t pass)
{
        if (spans->strays_pass == pass + 1)
                return;
        spans->strays_pass = pass + 1;
        for (uint32_t i = 0; i < spans->n; i++)
                if (spans->all[i].is_used && !spans->all[i].has_begin && !spans->all[i].has_end)
                        span_drop(spans, &spans->all[i]);
}

void ring_spans_done(struct ring_spans *spans)
{
        for (uint32_t i = 0; i < spans->n; i++) {
                infp_str_done(&spans->all[i].name);
                infp_str_done(&spans->all[i].attributes);
        }
        free(spans->all);
        free(spans->spare);
        free(spans->waiting);
        infp_map_done(&spans->by_id);
}

/* The end of a JSON string that begins at `at`, after its closing quote. Our own text: it is well made. */
static size_t string_end(const char *text, size_t at)
{
        for (at++; text[at] != '"'; at++)
                at += text[at] == '\\';
        return at + 1;
}

/* The end of a value: a string, or a number or word up to the comma. */
static size_t value_end(const struct infp_str *members, size_t at)
{
        if (members->data[at] == '"')
                return string_end(members->data, at);
        while (at < members->size && members->data[at] != ',')
                at++;
        return at;
}

/* The last value of a key counts, as in every JSON reader. */
static void remove_member(struct infp_str *members, const char *key, size_t key_size)
{
        for (size_t at = 0; at < members->size;) {
                const size_t key_end = string_end(members->data, at);
                size_t end = value_end(members, key_end + 1);

                end += end < members->size; /* the comma */
                if (key_end - at == key_size && !memcmp(members->data + at, key, key_size)) {
                        memmove(members->data + at, members->data + end, members->size - end);
                        members->size -= end - at;
                        if (members->size && members->data[members->size - 1] == ',')
                                members->size--;
                        members->data[members->size] = 0;
                        return;
                }
                at = end;
        }
}

/* value: JSON. False: no room. */
static bool span_attribute(struct ring_spans *spans, struct ring_span *span, const char *key, size_t key_size,
                           const struct infp_str *value)
{
        infp_autostr struct infp_str quoted = { 0 };
        struct infp_str *to = &span->attributes;
        const size_t before = to->size;
        bool fits;

        infp_json_quote(&quoted, key, key_size);
        if (quoted.failed || value->failed || !value->size)
                return false;
        if (before)
                remove_member(to, quoted.data, quoted.size);
        fits = to->size + quoted.size + value->size + 4 <= INFP_RING_ATTRIBUTES &&
               spans->attribute_bytes + quoted.size + value->size + 4 <= INFP_RING_ATTRIBUTES_ALL;
        if (fits && infp_str_reserve(to, quoted.size + value->size + 4)) {
                if (to->size)
                        infp_str_putc(to, ',');
                infp_str_put(to, quoted.data, quoted.size);
                infp_str_putc(to, ':');
                infp_str_put(to, value->data, value->size);
        } else {
                fits = false;
        }
        spans->attribute_bytes += to->size - before;
        return fits;
}

static int put_row(struct infp_ring *ring, unsigned table)
{
        ring->counts.rows[table]++;
        return ring->put(ring->context, &ring->row);
}

static struct infp_row *begin_row(struct infp_ring *ring, const struct infp_table *table, uint64_t t_ns)
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

static double as_double(uint64_t bits)
{
        double v;

        memcpy(&v, &bits, sizeof(v));
        return v;
}

enum { ESCAPED = 4 * INFP_RING_TEXT };

static struct ring_span *span_of(struct infp_ring *ring, uint64_t id)
{
        struct ring_span *span = span_get(&ring->spans, id);

        if (span)
                return span;
        spans_forget_strays(&ring->spans, ring->pass);
        return span_get(&ring->spans, id);
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
        if (!span || !span_attribute(&ring->spans, span, escaped, size, &value))
                ring->counts.cut_attributes++;
}

static int give_span(struct infp_ring *ring, struct ring_span *span)
{
        struct infp_row *row = begin_row(ring, &infp_table_spans, span->begin_ns);

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
        return put_row(ring, INFP_RING_SPANS);
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
        span_end(&ring->spans, span, ring->pass);
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
                span_drop(spans, &spans->all[spans->waiting[i]]);
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
                        span_drop(spans, &spans->all[i]);
        return r;
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
        row = begin_row(ring, &infp_table_marks, mark->record.t_ns);
        infp_row_i64(row, INFP_MARKS_TID, mark->record.tid);
        infp_row_bytes(row, INFP_MARKS_TAG, tag, size);
        put_thread(ring, INFP_MARKS_THREAD, mark->record.tid, event->thread_start);
        return put_row(ring, INFP_RING_MARKS);
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

/* A row of the metric but for its thread. False: no writer makes such a metric. */
static bool begin_value(struct infp_ring *ring, uint32_t index, uint64_t t_ns, uint64_t bits)
{
        struct infp_wire_metric *metric = index < metrics_now(ring) ? metric_at(ring, index) : NULL;
        char text[INFP_RING_TEXT];
        size_t size;
        struct infp_row *row;

        if (!metric || !atomic_load_explicit(&metric->ready, memory_order_acquire))
                return false;
        row = begin_row(ring, &infp_table_counters, t_ns);
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
        /* Of two threads' sums the smaller may have the later time: the sum was the larger one then. What is older than the
         * newest row, since its chunk comes only now, stands as it is. */
        if (metric_at(ring, value->metric)->kind == INFP_WIRE_COUNTER && t_ns >= known->given_ns) {
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
        return put_row(ring, INFP_RING_COUNTERS);
}

/* Its slot holds what no record has said: a later stamp, or (at the end, of threads that have added at once) a larger sum. And it
 * was the same when the last pass ended, so that the record would have been seen. */
static bool is_newer(const struct infp_ring *ring, const struct ring_metric *known, const struct ring_slot *now,
                     bool is_counter, bool last)
{
        if (memcmp(&known->slot, now, sizeof(*now)) != 0 || now->t_ns > ring->now_ns)
                return false;
        return now->t_ns > known->given_ns || (last && is_counter && as_double(now->value) > as_double(known->largest));
}

static int give_slot(struct infp_ring *ring, uint32_t index, bool last)
{
        struct infp_wire_metric *metric = metric_at(ring, index);
        struct ring_metric *known = &ring->metrics[index];
        const bool is_counter = metric->kind == INFP_WIRE_COUNTER;
        struct ring_slot now = { .n = atomic_load_explicit(&metric->n, memory_order_acquire) };

        now.t_ns = atomic_load_explicit(&metric->t_ns, memory_order_acquire);
        now.value = atomic_load_explicit(&metric->value, memory_order_acquire);
        if (!is_newer(ring, known, &now, is_counter, last)) {
                known->slot = now;
                return 0;
        }
        known->given_ns = now.t_ns > known->given_ns ? now.t_ns : known->given_ns;
        if (is_counter && as_double(now.value) > as_double(known->largest))
                known->largest = now.value;
        return begin_value(ring, index, known->given_ns, now.value) ? put_row(ring, INFP_RING_COUNTERS) : 0;
}

int ring_give_metrics(struct infp_ring *ring, bool last)
{
        const uint32_t n = metrics_now(ring);

        if (n && !metrics_of(ring))
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++)
                INFP_TRY(give_slot(ring, i, last));
        return 0;
}

static void take_thread(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_mark *mark)
{
        char name[INFP_RING_TEXT];
        size_t size;

        if (ring_text(ring, &mark->record, mark->text, name, sizeof(name), &size))
                set_thread_name(ring, mark->record.tid, event->thread_start, name,
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
        case INFP_WIRE_SPAN_END:
                return take_end(ring, event, at);
        case INFP_WIRE_ROW:
                return ring_give_row(ring, event, at);
        case INFP_WIRE_SAMPLE:
                return ring_give_sample(ring, at);
        case INFP_WIRE_BLOCK:
                return ring_give_block(ring, at);
        case INFP_WIRE_BLOCK_END:
                if (ring->heap.take_free)
                        ring->heap.take_free(ring->heap.context, record->t_ns,
                                             ((const struct infp_wire_block_end *) at)->id, (int32_t) record->tid);
                return 0;
        default: /* what stays lies in chunks of its own */
                ring->counts.broken++;
                return 0;
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

        infp_sort(ring->events, ring->n_events, sizeof(*ring->events), compare_events);
        for (size_t i = 0; i < ring->n_events && r >= 0; i++)
                r = give_event(ring, &ring->events[i]);
        ring->n_events = 0;
        infp_str_clear(&ring->taken);
        return r;
}
