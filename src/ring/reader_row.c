/* From records to rows; those of spans are in reader_span_row.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "model/tables.h"
#include "ring/reader_parts.h"

enum { THREAD_NAME = 256 };

int ring_put_row(struct infp_ring *ring, unsigned table)
{
        ring->counts.rows[table]++;
        return ring->put(ring->context, &ring->row);
}

struct infp_row *ring_begin_row(struct infp_ring *ring, const struct infp_table *table, uint64_t t_ns)
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

void ring_put_thread(struct infp_ring *ring, unsigned cell, uint32_t tid, uint64_t start)
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
        row = ring_begin_row(ring, &infp_table_marks, mark->record.t_ns);
        infp_row_i64(row, INFP_MARKS_TID, mark->record.tid);
        infp_row_bytes(row, INFP_MARKS_TAG, tag, size);
        ring_put_thread(ring, INFP_MARKS_THREAD, mark->record.tid, event->thread_start);
        return ring_put_row(ring, INFP_RING_MARKS);
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
        row = ring_begin_row(ring, &infp_table_counters, t_ns);
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
        ring_put_thread(ring, INFP_COUNTERS_THREAD, value->record.tid, event->thread_start);
        known->given_ns = t_ns > known->given_ns ? t_ns : known->given_ns;
        return ring_put_row(ring, INFP_RING_COUNTERS);
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
        return begin_value(ring, index, known->given_ns, now.value) ? ring_put_row(ring, INFP_RING_COUNTERS) : 0;
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
                ring_take_begin(ring, event, at);
                return 0;
        case INFP_WIRE_SPAN_ATTR:
                ring_take_attribute(ring, at);
                return 0;
        case INFP_WIRE_SPAN_END:
                return ring_take_end(ring, event, at);
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
