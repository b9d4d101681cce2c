/* A ring file made by hand, in memory: what a writer makes, and what none would. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring/reader.h"
#include "ring/wire.h"

enum {
        SAMPLE_KINDS_AT = INFP_WIRE_PAGE,
        SAMPLE_METRICS_AT = 2 * INFP_WIRE_PAGE,
        SAMPLE_METRICS = 64,
        SAMPLE_ARENA_AT = 3 * INFP_WIRE_PAGE,
        SAMPLE_SETTINGS_AT = 4 * INFP_WIRE_PAGE, /* without any, until sample_setting */
        SAMPLE_CHUNKS_AT = 5 * INFP_WIRE_PAGE,
        SAMPLE_CHUNKS = 8,
        SAMPLE_BYTES = SAMPLE_CHUNKS_AT + SAMPLE_CHUNKS * INFP_WIRE_CHUNK,
        SAMPLE_ROOM = INFP_WIRE_CHUNK - (int) sizeof(struct infp_wire_chunk),
        SAMPLE_PID = 4711,
        SAMPLE_START = 123456,
};

struct ring_sample {
        _Alignas(64) unsigned char bytes[SAMPLE_BYTES];
};

static inline struct infp_wire_head *sample_head(struct ring_sample *s)
{
        return (struct infp_wire_head *) (void *) s->bytes;
}

static inline struct infp_wire_kind *sample_kind(struct ring_sample *s, unsigned index)
{
        return (struct infp_wire_kind *) (void *) (s->bytes + SAMPLE_KINDS_AT) + index;
}

static inline struct infp_wire_metric *sample_metric(struct ring_sample *s, unsigned index)
{
        return (struct infp_wire_metric *) (void *) (s->bytes + SAMPLE_METRICS_AT) + index;
}

static inline struct infp_wire_chunk *sample_chunk(struct ring_sample *s, unsigned index)
{
        return (struct infp_wire_chunk *) (void *) (s->bytes + SAMPLE_CHUNKS_AT + (size_t) index * INFP_WIRE_CHUNK);
}

static inline void sample_init(struct ring_sample *s)
{
        static const struct {
                const char *name;
                uint16_t kind, class, size;
        } kinds[] = {
                { "mark", INFP_WIRE_MARK, INFP_WIRE_KEEP, sizeof(struct infp_wire_mark) },
                { "span_begin", INFP_WIRE_SPAN_BEGIN, INFP_WIRE_KEEP, sizeof(struct infp_wire_span_begin) },
                { "span_attr", INFP_WIRE_SPAN_ATTR, INFP_WIRE_KEEP, sizeof(struct infp_wire_span_attr) },
                { "span_end", INFP_WIRE_SPAN_END, INFP_WIRE_KEEP, sizeof(struct infp_wire_span_end) },
                { "value", INFP_WIRE_VALUE, INFP_WIRE_RECENT, sizeof(struct infp_wire_value) },
                { "thread", INFP_WIRE_THREAD, INFP_WIRE_KEEP, sizeof(struct infp_wire_mark) },
                { "stack", INFP_WIRE_STACK, INFP_WIRE_STAY, sizeof(struct infp_wire_stack) },
                { "code", INFP_WIRE_CODE, INFP_WIRE_STAY, sizeof(struct infp_wire_code) },
                { "table", INFP_WIRE_TABLE, INFP_WIRE_STAY, sizeof(struct infp_wire_table) },
                { "row", INFP_WIRE_ROW, INFP_WIRE_RECENT, sizeof(struct infp_wire_row) },
        };
        struct infp_wire_head *head = sample_head(s);

        memset(s, 0, sizeof(*s));
        memcpy(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic));
        head->version = INFP_WIRE_VERSION;
        head->head_bytes = sizeof(*head);
        head->pid = SAMPLE_PID;
        head->uid = geteuid();
        head->start_ticks = SAMPLE_START;
        head->created_ns = 1000;
        head->kinds_at = SAMPLE_KINDS_AT;
        head->n_kinds = sizeof(kinds) / sizeof(kinds[0]);
        head->metrics_at = SAMPLE_METRICS_AT;
        head->max_metrics = SAMPLE_METRICS;
        head->arena_at = SAMPLE_ARENA_AT;
        head->arena_bytes = INFP_WIRE_PAGE;
        head->chunks_at = SAMPLE_CHUNKS_AT;
        head->max_chunks = SAMPLE_CHUNKS;
        head->n_chunks = SAMPLE_CHUNKS;
        strcpy(head->library, "test");
        for (unsigned i = 0; i < head->n_kinds; i++) {
                struct infp_wire_kind *k = sample_kind(s, i);

                strcpy(k->name, kinds[i].name);
                k->kind = kinds[i].kind;
                k->class = kinds[i].class;
                k->size = kinds[i].size;
        }
        atomic_store(&head->ready, 1);
}

/* A setting, as its process shows it: `wanted` is asked for. */
static inline void sample_setting(struct ring_sample *s, unsigned index, const char *key, const char *value,
                                  const char *wanted)
{
        struct infp_wire_setting *setting =
                &((struct infp_wire_settings *) (void *) (s->bytes + SAMPLE_SETTINGS_AT))->setting[index];

        sample_head(s)->settings_at = SAMPLE_SETTINGS_AT;
        snprintf((char *) setting->is.key, sizeof(setting->is.key), "%s", key);
        snprintf((char *) setting->is.value, sizeof(setting->is.value), "%s", value);
        snprintf((char *) setting->wanted, sizeof(setting->wanted), "%s", wanted);
        setting->said = setting->asked = 2;
}

/* A chunk that thread `tid` owns; more records go behind those in it. */
static inline void sample_claim(struct ring_sample *s, unsigned index, uint64_t generation, uint32_t tid)
{
        struct infp_wire_chunk *c = sample_chunk(s, index);

        c->used = 0;
        c->tid = tid;
        c->thread_start = 7000 + tid;
        atomic_store(&c->stamp, generation << 3 | INFP_WIRE_ACTIVE);
}

static inline uint32_t sample_padded(size_t size)
{
        return (uint32_t) (size + 7) & ~7U;
}

/* Puts a record whose texts lie behind its fixed part. Returns where it lies. */
static inline void *sample_put(struct ring_sample *s, unsigned chunk, const void *record, size_t size,
                               const char *const *texts, struct infp_wire_text *const *fields, unsigned n)
{
        struct infp_wire_chunk *c = sample_chunk(s, chunk);
        unsigned char *at = (unsigned char *) (c + 1) + c->used;
        uint32_t whole = (uint32_t) size;

        memset(at, 0, size);
        for (unsigned i = 0; i < n; i++) {
                fields[i]->at = INFP_WIRE_INLINE | whole;
                fields[i]->size = (uint32_t) strlen(texts[i]);
                memset(at + whole, 0, sample_padded(strlen(texts[i])));
                memcpy(at + whole, texts[i], strlen(texts[i]));
                whole += sample_padded(strlen(texts[i]));
        }
        memcpy(at, record, size);
        ((struct infp_wire_record *) (void *) at)->size = (uint16_t) whole;
        atomic_store(&c->used, c->used + whole);
        return at;
}

static inline struct infp_wire_record sample_record(unsigned kind, uint32_t tid, uint64_t t_ns)
{
        return (struct infp_wire_record){ .kind = (uint8_t) kind, .tid = tid, .t_ns = t_ns };
}

static inline void *sample_mark(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, const char *tag)
{
        struct infp_wire_mark r = { .record = sample_record(INFP_WIRE_MARK, tid, t_ns) };

        return sample_put(s, chunk, &r, sizeof(r), &tag, &(struct infp_wire_text *){ &r.text }, 1);
}

static inline void *sample_thread(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, const char *name)
{
        struct infp_wire_mark r = { .record = sample_record(INFP_WIRE_THREAD, tid, t_ns) };

        return sample_put(s, chunk, &r, sizeof(r), &name, &(struct infp_wire_text *){ &r.text }, 1);
}

static inline void *sample_begin(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint64_t id,
                                 uint64_t parent, const char *name)
{
        struct infp_wire_span_begin r = { .record = sample_record(INFP_WIRE_SPAN_BEGIN, tid, t_ns),
                                          .id = id,
                                          .parent = parent };

        return sample_put(s, chunk, &r, sizeof(r), &name, &(struct infp_wire_text *){ &r.name }, 1);
}

static inline void *sample_attr_text(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint64_t id,
                                     const char *key, const char *text)
{
        struct infp_wire_span_attr r = { .record = sample_record(INFP_WIRE_SPAN_ATTR, tid, t_ns),
                                         .id = id,
                                         .type = INFP_WIRE_TEXT };
        const char *const texts[] = { key, text };
        struct infp_wire_text *const fields[] = { &r.key, &r.text };

        return sample_put(s, chunk, &r, sizeof(r), texts, fields, 2);
}

static inline void *sample_attr(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint64_t id,
                                const char *key, uint32_t type, uint64_t value)
{
        struct infp_wire_span_attr r = {
                .record = sample_record(INFP_WIRE_SPAN_ATTR, tid, t_ns), .id = id, .type = type, .value = value
        };

        return sample_put(s, chunk, &r, sizeof(r), &key, &(struct infp_wire_text *){ &r.key }, 1);
}

static inline void *sample_end(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint64_t id,
                               uint64_t parent, uint64_t begin_ns, uint32_t begin_tid, const char *name)
{
        struct infp_wire_span_end r = {
                .record = sample_record(INFP_WIRE_SPAN_END, tid, t_ns),
                .id = id,
                .parent = parent,
                .begin_ns = begin_ns,
                .begin_tid = begin_tid,
                .status = INFP_WIRE_OK,
        };

        return sample_put(s, chunk, &r, sizeof(r), &name, &(struct infp_wire_text *){ &r.name }, 1);
}

static inline uint64_t sample_bits(double v)
{
        uint64_t bits;

        memcpy(&bits, &v, sizeof(bits));
        return bits;
}

static inline void *sample_value(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint32_t metric,
                                 double v)
{
        struct infp_wire_value r = { .record = sample_record(INFP_WIRE_VALUE, tid, t_ns),
                                     .value = sample_bits(v),
                                     .metric = metric };

        return sample_put(s, chunk, &r, sizeof(r), NULL, NULL, 0);
}

static inline uint32_t sample_id(struct ring_sample *s, const void *record)
{
        return (uint32_t) ((const unsigned char *) record - s->bytes - SAMPLE_CHUNKS_AT) / 8;
}

/* Two addresses, and a frame of Python whose code comes next to the stack. */
static inline void *sample_stack(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint32_t *ret_id)
{
        struct {
                struct infp_wire_stack head;
                uint64_t native[2];
                struct infp_wire_python python;
        } r = { .head = { .record = sample_record(INFP_WIRE_STACK, tid, t_ns),
                          .epoch = 3,
                          .native = { INFP_WIRE_INLINE | 40, 16 },
                          .python = { INFP_WIRE_INLINE | 56, 8 } },
                .native = { 0x1111, 0x2222 } };
        const uint32_t next = sample_chunk(s, chunk)->used + (uint32_t) sizeof(r);
        void *at;

        r.python.code = sample_id(s, (unsigned char *) (sample_chunk(s, chunk) + 1) + next);
        r.python.line = INFP_WIRE_ENTRY | 5;
        at = sample_put(s, chunk, &r, sizeof(r), NULL, NULL, 0);
        *ret_id = sample_id(s, at);
        return at;
}

static inline void *sample_code(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, uint32_t *ret_id)
{
        struct infp_wire_code r = { .record = sample_record(INFP_WIRE_CODE, tid, t_ns), .line = 4 };
        const char *const texts[] = { "a.py", "main" };
        struct infp_wire_text *const fields[] = { &r.file, &r.function };
        void *at = sample_put(s, chunk, &r, sizeof(r), texts, fields, 2);

        *ret_id = sample_id(s, at);
        return at;
}

static inline void *sample_table(struct ring_sample *s, unsigned chunk, uint32_t tid, uint64_t t_ns, const char *name,
                                 const char *columns, uint32_t *ret_id)
{
        struct infp_wire_table r = { .record = sample_record(INFP_WIRE_TABLE, tid, t_ns) };
        const char *const texts[] = { name, columns };
        struct infp_wire_text *const fields[] = { &r.name, &r.columns };
        void *at = sample_put(s, chunk, &r, sizeof(r), texts, fields, 2);

        *ret_id = sample_id(s, at);
        return at;
}

static inline struct infp_wire_text sample_arena(struct ring_sample *s, const char *text)
{
        struct infp_wire_head *head = sample_head(s);
        struct infp_wire_text ret = { head->arena_used, (uint32_t) strlen(text) };

        memcpy(s->bytes + SAMPLE_ARENA_AT + ret.at, text, ret.size);
        atomic_store(&head->arena_used, head->arena_used + ret.size);
        return ret;
}

static inline void sample_add_metric(struct ring_sample *s, const char *name, const char *unit, uint32_t kind)
{
        struct infp_wire_head *head = sample_head(s);
        struct infp_wire_metric *m = sample_metric(s, head->n_metrics);

        m->name = sample_arena(s, name);
        m->unit = sample_arena(s, unit);
        m->kind = kind;
        atomic_store(&m->ready, 1);
        atomic_store(&head->n_metrics, head->n_metrics + 1);
}

static inline void sample_set_slot(struct ring_sample *s, unsigned metric, uint64_t t_ns, double v)
{
        struct infp_wire_metric *m = sample_metric(s, metric);

        m->n++;
        m->t_ns = t_ns;
        m->value = sample_bits(v);
}

static inline struct infp_ring_owner sample_owner(void)
{
        return (struct infp_ring_owner){
                .process = 42, .pid = SAMPLE_PID, .start_ticks = SAMPLE_START, .uid = geteuid()
        };
}
