/* Marks, counters, gauges, steps, names of threads, and whether anything is recorded. */
#include "infprof/infprof.h"

#include <math.h>
#include <string.h>

#include "ring/wire.h"
#include "ring/writer.h"

enum { TEXT_MAX = 1900 };

INFP_API int infp_enable(void)
{
        return infp_writer_enable();
}

INFP_API void infp_disable(void)
{
        infp_writer_disable();
}

INFP_API int infp_is_recording(void)
{
        return infp_writer_is_on();
}

INFP_API uint64_t infp_now_ns(void)
{
        return infp_writer_now_ns();
}

static void put_text(uint8_t kind, const char *text)
{
        struct infp_wire_mark record = { .record = { .kind = kind, .t_ns = infp_writer_now_ns() } };
        struct infp_writer_text texts = { &record.text, text ? text : "", 0 };
        struct infp_writer_thread *thread = infp_writer_begin();

        if (!thread)
                return;
        texts.size = infp_writer_measure(texts.text, TEXT_MAX, &record.record.flags);
        infp_writer_put(thread, INFP_WIRE_KEEP, &record, sizeof record, &texts, 1);
        infp_writer_end();
}

INFP_API void infp_mark(const char *tag)
{
        if (!infp_writer_is_off())
                put_text(INFP_WIRE_MARK, tag);
}

INFP_API void infp_thread_name(const char *name)
{
        if (!infp_writer_is_off())
                put_text(INFP_WIRE_THREAD, name);
}

/* A metric is known by its number, which is the same in the file of each child. */
static infp_metric *to_metric(uint32_t number_and_1)
{
        return (infp_metric *) (uintptr_t) number_and_1;
}

static uint32_t number_of(const infp_metric *metric)
{
        return (uint32_t) (uintptr_t) metric - 1;
}

INFP_API infp_metric *infp_counter(const char *name, const char *unit, const char *help)
{
        return to_metric(infp_writer_metric(name, unit, help, INFP_WIRE_COUNTER));
}

INFP_API infp_metric *infp_gauge(const char *name, const char *unit, const char *help)
{
        return to_metric(infp_writer_metric(name, unit, help, INFP_WIRE_GAUGE));
}

static double to_double(uint64_t bits)
{
        double value;

        memcpy(&value, &bits, sizeof value);
        return value;
}

static uint64_t to_bits(double value)
{
        uint64_t bits;

        memcpy(&bits, &value, sizeof bits);
        return bits;
}

static void put_value(struct infp_writer_thread *thread, uint32_t number, struct infp_wire_metric *metric,
                      uint64_t bits)
{
        /* The time is taken when the sum is made: of two threads the later time may have the smaller sum, see wire.h. */
        struct infp_wire_value record = { .record = { .kind = INFP_WIRE_VALUE, .t_ns = infp_writer_now_ns() },
                                          .value = bits,
                                          .metric = number };

        atomic_store_explicit(&metric->t_ns, record.record.t_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&metric->n, 1, memory_order_relaxed);
        infp_writer_put(thread, INFP_WIRE_RECENT, &record, sizeof record, NULL, 0);
}

static void refuse(void)
{
        atomic_fetch_add_explicit(&infp_writer_head()->refused_values, 1, memory_order_relaxed);
}

INFP_API void infp_add(infp_metric *metric, double amount)
{
        struct infp_writer_thread *thread;
        struct infp_wire_metric *entry;

        if (infp_writer_is_off() || !metric)
                return;
        thread = infp_writer_begin();
        if (!thread)
                return;
        entry = infp_writer_metric_at(number_of(metric));
        if (entry && (!isfinite(amount) || (entry->kind == INFP_WIRE_COUNTER && amount < 0))) {
                refuse();
        } else if (entry) {
                uint64_t bits = atomic_load_explicit(&entry->value, memory_order_relaxed);
                double sum;

                do
                        sum = to_double(bits) + amount;
                while (isfinite(sum) &&
                       !atomic_compare_exchange_weak_explicit(&entry->value, &bits, to_bits(sum), memory_order_relaxed,
                                                              memory_order_relaxed));
                if (isfinite(sum))
                        put_value(thread, number_of(metric), entry, to_bits(sum));
                else
                        refuse(); /* it would be no number from then on */
        }
        infp_writer_end();
}

INFP_API void infp_set(infp_metric *metric, double value)
{
        struct infp_writer_thread *thread;
        struct infp_wire_metric *entry;

        if (infp_writer_is_off() || !metric)
                return;
        thread = infp_writer_begin();
        if (!thread)
                return;
        entry = infp_writer_metric_at(number_of(metric));
        if (entry && (!isfinite(value) || entry->kind != INFP_WIRE_GAUGE)) {
                refuse();
        } else if (entry) {
                atomic_store_explicit(&entry->value, to_bits(value), memory_order_relaxed);
                put_value(thread, number_of(metric), entry, to_bits(value));
        }
        infp_writer_end();
}

static uint32_t step_metric(void)
{
        static _Atomic uint32_t known;
        uint32_t number = atomic_load_explicit(&known, memory_order_relaxed);

        if (!number) {
                number = infp_writer_metric("step", "steps", "Iterations counted by infp_step()", INFP_WIRE_COUNTER);
                atomic_store_explicit(&known, number, memory_order_relaxed);
        }
        return number;
}

INFP_API uint64_t infp_step(void)
{
        struct infp_writer_thread *thread;
        struct infp_wire_metric *entry;
        uint32_t number;
        uint64_t step;

        if (infp_writer_is_off())
                return 0;
        number = step_metric();
        thread = infp_writer_begin();
        if (!thread)
                return 0;
        step = atomic_fetch_add_explicit(&infp_writer_head()->step, 1, memory_order_relaxed) + 1;
        entry = number ? infp_writer_metric_at(number - 1) : NULL;
        if (entry) {
                uint64_t bits = atomic_load_explicit(&entry->value, memory_order_relaxed);

                while (to_double(bits) < (double) step &&
                       !atomic_compare_exchange_weak_explicit(&entry->value, &bits, to_bits((double) step),
                                                              memory_order_relaxed, memory_order_relaxed))
                        ;
                put_value(thread, number - 1, entry, to_bits((double) step));
        }
        infp_writer_end();
        return step;
}
