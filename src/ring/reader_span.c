/* Spans between their first record and the row: by id, since a span may begin and end in different threads' chunks. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "ring/reader_parts.h"

enum { FIRST = 64, KEPT_TEXT = 1024 };

static uint64_t key_of(const struct ring_spans *spans, uint64_t id)
{
        return infp_hash64(&id, sizeof(id), spans->seed);
}

static bool grow(struct ring_spans *spans)
{
        const uint32_t cap = spans->cap ? 2 * spans->cap : FIRST;
        struct ring_span *all;
        uint32_t *spare, *waiting;

        if (spans->cap >= INFP_RING_OPEN_SPANS)
                return false;
        all = reallocarray(spans->all, cap, sizeof(*all));
        if (!all)
                return false;
        spans->all = all;
        spare = reallocarray(spans->spare, cap, sizeof(*spare));
        if (!spare)
                return false;
        spans->spare = spare;
        waiting = reallocarray(spans->waiting, cap, sizeof(*waiting));
        if (!waiting)
                return false;
        spans->waiting = waiting;
        spans->cap = cap;
        return true;
}

static struct ring_span *span_new(struct ring_spans *spans)
{
        struct ring_span *span;

        if (spans->n_spare)
                return &spans->all[spans->spare[--spans->n_spare]];
        if (spans->n == spans->cap && !grow(spans))
                return NULL;
        span = &spans->all[spans->n++];
        *span = (struct ring_span){ 0 };
        return span;
}

struct ring_span *ring_span_get(struct ring_spans *spans, uint64_t id)
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

void ring_span_end(struct ring_spans *spans, struct ring_span *span, uint64_t pass)
{
        span->has_end = true;
        span->ended_pass = pass;
        spans->waiting[spans->n_waiting++] = (uint32_t) (span - spans->all);
}

static void give_back(struct infp_str *text)
{
        if (text->cap > KEPT_TEXT || text->failed)
                infp_str_done(text);
        else
                infp_str_clear(text);
}

void ring_span_drop(struct ring_spans *spans, struct ring_span *span)
{
        infp_map_delete(&spans->by_id, key_of(spans, span->id));
        spans->attribute_bytes -= span->attributes.size;
        give_back(&span->name);
        give_back(&span->attributes);
        span->is_used = false;
        spans->spare[spans->n_spare++] = (uint32_t) (span - spans->all);
}

void ring_spans_forget_strays(struct ring_spans *spans)
{
        for (uint32_t i = 0; i < spans->n; i++)
                if (spans->all[i].is_used && !spans->all[i].has_begin && !spans->all[i].has_end)
                        ring_span_drop(spans, &spans->all[i]);
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

bool ring_span_attribute(struct ring_spans *spans, struct ring_span *span, const char *key, size_t key_size,
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
