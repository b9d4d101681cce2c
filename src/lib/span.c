/* Spans: a thread's own ones are a stack, detached ones are values of the caller's. */
#include "infprof/infprof.h"

#include <string.h>

#include "ring/wire.h"
#include "ring/writer.h"

enum {
        DEPTH = 39, /* deeper spans of a thread are recorded, below its innermost known one */
        STACKED = 1,
        FILE_SHIFT = 1,
        FILE_MASK = 0x7F,
        DEPTH_SHIFT = 8,
        INDEX_SHIFT = 16,
        TEXT_MAX = 1900,
        SHORT_TEXT_MAX = 1700, /* beside a key that lies in the record too */
};

struct open_span {
        _Atomic uint64_t id; /* 0: another thread has ended it */
        uint64_t begin_ns;
        uint32_t name_at, name_size;
};
struct stack {
        uint64_t depth;
        struct open_span span[DEPTH];
};
_Static_assert(sizeof(struct stack) <= INFP_WRITER_OWN, "it fits");

static struct stack *stack_of(struct infp_writer_thread *thread)
{
        return (struct stack *) thread->own;
}

/* Also takes away those that other threads have ended. */
static uint64_t innermost(struct stack *stack)
{
        while (stack->depth) {
                uint64_t id = atomic_load_explicit(&stack->span[stack->depth - 1].id, memory_order_relaxed);

                if (id)
                        return id;
                stack->depth--;
        }
        return 0;
}

/* Records the begin. A name that the arena has no room for lies in this record alone: name_size 0. */
static infp_span begin(struct infp_writer_thread *thread, const char *name, uint64_t parent, uint64_t now_ns)
{
        struct infp_wire_span_begin record = { .record = { .kind = INFP_WIRE_SPAN_BEGIN, .t_ns = now_ns },
                                               .parent = parent };
        struct infp_writer_text text = { &record.name, name ? name : "", 0 };
        infp_span span = { .parent = parent, .begin_ns = now_ns };

        text.size = infp_writer_measure(text.text, TEXT_MAX, &record.record.flags);
        record.id = infp_writer_new_id(thread);
        record.name.at = infp_writer_intern(text.text, text.size);
        if (record.name.at)
                record.name.size = text.size;
        span.id = record.id;
        span.name_at = record.name.at;
        span.name_size = record.name.size;
        span.tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
        span.flags = (infp_writer_file_number() & FILE_MASK) << FILE_SHIFT;
        infp_writer_put(thread, INFP_WIRE_KEEP, &record, sizeof record, &text, record.name.at ? 0 : 1);
        return span;
}

INFP_API infp_span infp_span_begin(const char *name)
{
        infp_span span = { 0 };
        struct infp_writer_thread *thread;
        struct stack *stack;
        uint64_t now_ns;

        if (infp_writer_is_off())
                return span;
        now_ns = infp_writer_now_ns();
        thread = infp_writer_begin();
        if (!thread)
                return span;
        stack = stack_of(thread);
        span = begin(thread, name, innermost(stack), now_ns);
        if (stack->depth < DEPTH) {
                struct open_span *open = &stack->span[stack->depth];

                span.flags |= STACKED | (uint32_t) stack->depth << DEPTH_SHIFT | thread->index << INDEX_SHIFT;
                open->begin_ns = now_ns;
                open->name_at = span.name_at;
                open->name_size = span.name_size;
                atomic_store_explicit(&open->id, span.id, memory_order_relaxed);
                stack->depth++;
        }
        infp_writer_end();
        return span;
}

INFP_API infp_span infp_span_start(const char *name, const infp_span *parent)
{
        infp_span span = { 0 };
        struct infp_writer_thread *thread;
        uint64_t now_ns;

        if (infp_writer_is_off())
                return span;
        now_ns = infp_writer_now_ns();
        thread = infp_writer_begin();
        if (!thread)
                return span;
        span = begin(thread, name, parent ? parent->id : 0, now_ns);
        infp_writer_end();
        return span;
}

static void put_end(struct infp_writer_thread *thread, const infp_span *span, uint64_t now_ns, uint32_t status)
{
        struct infp_wire_span_end record = {
                .record = { .kind = INFP_WIRE_SPAN_END, .t_ns = now_ns },
                .id = span->id,
                .parent = span->parent,
                .begin_ns = span->begin_ns,
                .name = { .at = span->name_at, .size = span->name_size },
                .begin_tid = span->tid,
                .status = status,
        };

        infp_writer_put(thread, INFP_WIRE_KEEP, &record, sizeof record, NULL, 0);
}

/* Takes a span off this thread's stack, after ending those inside it. false: it was ended with one around it. */
static bool pop(struct infp_writer_thread *thread, const infp_span *span, uint64_t now_ns)
{
        struct stack *stack = stack_of(thread);
        uint32_t place = span->flags >> DEPTH_SHIFT & 0xFF;

        if (place >= stack->depth || atomic_load_explicit(&stack->span[place].id, memory_order_relaxed) != span->id)
                return false;
        while (stack->depth > place + 1) {
                struct open_span *open = &stack->span[--stack->depth];
                infp_span inner = { .id = atomic_load_explicit(&open->id, memory_order_relaxed),
                                    .begin_ns = open->begin_ns,
                                    .name_at = open->name_at,
                                    .name_size = open->name_size,
                                    .tid = span->tid };

                if (!inner.id)
                        continue;
                inner.parent = innermost(stack);
                put_end(thread, &inner, now_ns, INFP_WIRE_OK);
        }
        stack->depth = place;
        return true;
}

/* A span of another thread's stack: takes it away there. false: that thread has ended it with one around it. */
static bool pop_elsewhere(const infp_span *span)
{
        struct infp_writer_thread *owner = infp_writer_thread_at(span->flags >> INDEX_SHIFT);
        uint32_t place = span->flags >> DEPTH_SHIFT & 0xFF;
        uint64_t id = span->id;

        if (!owner || place >= DEPTH ||
            atomic_load_explicit(&owner->tid, memory_order_relaxed) != span->tid) /* the thread is gone */
                return true;
        return atomic_compare_exchange_strong(&stack_of(owner)->span[place].id, &id, 0);
}

/* Whether the span was begun in this file: not before a fork, and not by another library. */
static bool is_ours(const infp_span *span)
{
        return span->id && (span->flags >> FILE_SHIFT & FILE_MASK) == (infp_writer_file_number() & FILE_MASK);
}

static void put_text(struct infp_writer_thread *thread, const infp_span *span, const char *key, const char *value,
                     struct infp_wire_span_attr *record)
{
        struct infp_writer_text texts[2];
        unsigned n = 0;
        uint32_t size;

        key = key ? key : "";
        record->record.kind = INFP_WIRE_SPAN_ATTR;
        record->record.t_ns = infp_writer_now_ns();
        record->id = span->id;
        size = infp_writer_measure(key, INFP_WRITER_NAME, &record->record.flags);
        record->key.at = infp_writer_intern(key, size);
        record->key.size = size;
        if (!record->key.at)
                texts[n++] = (struct infp_writer_text){ &record->key, key, size };
        if (value) {
                size = infp_writer_measure(value, n ? SHORT_TEXT_MAX : TEXT_MAX, &record->record.flags);
                texts[n++] = (struct infp_writer_text){ &record->text, value, size };
        }
        infp_writer_put(thread, INFP_WIRE_KEEP, record, sizeof *record, texts, n);
}

static void end(infp_span *span, uint32_t status, const char *error)
{
        struct infp_wire_span_attr record = { .type = INFP_WIRE_TEXT };
        struct infp_writer_thread *thread;
        uint64_t now_ns;

        if (infp_writer_is_off() || !span || !span->id)
                return;
        now_ns = infp_writer_now_ns();
        thread = infp_writer_begin();
        if (!thread)
                return;
        if (is_ours(span)) {
                bool is_open = true;

                if (span->flags & STACKED)
                        is_open = thread->index == span->flags >> INDEX_SHIFT ? pop(thread, span, now_ns)
                                                                              : pop_elsewhere(span);
                if (is_open && error)
                        put_text(thread, span, INFP_ERROR_TYPE, error, &record);
                if (is_open)
                        put_end(thread, span, now_ns, status);
        }
        span->id = 0;
        infp_writer_end();
}

INFP_API void infp_span_end(infp_span *span)
{
        end(span, INFP_WIRE_OK, NULL);
}

INFP_API void infp_span_fail(infp_span *span, const char *error)
{
        end(span, INFP_WIRE_ERROR, error ? error : "");
}

INFP_API uint64_t infp_span_id(const infp_span *span)
{
        return span ? span->id : 0;
}

static void attribute(const infp_span *span, const char *key, uint32_t type, uint64_t value, const char *text)
{
        struct infp_wire_span_attr record = { .type = type, .value = value };
        struct infp_writer_thread *thread;

        if (!span || !span->id)
                return;
        thread = infp_writer_begin();
        if (!thread)
                return;
        if (is_ours(span))
                put_text(thread, span, key, text, &record);
        infp_writer_end();
}

INFP_API void infp_span_text(const infp_span *span, const char *key, const char *value)
{
        if (!infp_writer_is_off())
                attribute(span, key, INFP_WIRE_TEXT, 0, value ? value : "");
}

INFP_API void infp_span_int(const infp_span *span, const char *key, int64_t value)
{
        if (!infp_writer_is_off())
                attribute(span, key, INFP_WIRE_INT, (uint64_t) value, NULL);
}

INFP_API void infp_span_double(const infp_span *span, const char *key, double value)
{
        uint64_t bits;

        if (infp_writer_is_off())
                return;
        memcpy(&bits, &value, sizeof bits);
        attribute(span, key, INFP_WIRE_DOUBLE, bits, NULL);
}

INFP_API void infp_span_bool(const infp_span *span, const char *key, int value)
{
        if (!infp_writer_is_off())
                attribute(span, key, INFP_WIRE_BOOL, value != 0, NULL);
}
