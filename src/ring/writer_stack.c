/* Stacks of agents, and the code of Python that they name: each is written once, as a record that stays, and known by its place from
 * then on. Finding one takes no lock; when two threads write the same at once, one copy is wasted. */
#include "ring/writer_parts.h"

#include <string.h>

enum { PROBES = 16, FILE_MAX = 1024, FUNCTION_MAX = 512 };
#define PLACE_MASK UINT64_C(0x7FFFFF)
_Static_assert(INFP_WIRE_EXACT_BYTES / 8 <= PLACE_MASK + 1, "a place has 23 bits");
_Static_assert(sizeof(struct infp_wire_stack) + 2 * INFP_WIRE_FRAMES * 8 <= INFP_WRITER_ROOM, "a chunk holds it");

/* A record that was laid out, and the texts in it. */
struct draft {
        struct infp_wire_record *record;
        uint32_t size; /* of the fixed part */
        struct infp_writer_text texts[2];
        unsigned n_texts;
};

static const char *after_head(const struct infp_wire_record *record)
{
        return (const char *) (record + 1);
}

static uint64_t hash_of(const struct draft *draft)
{
        const struct infp_wire_record *record = draft->record;
        uint64_t hash = infp_writer_hash(after_head(record), draft->size - (uint32_t) sizeof *record,
                                         (uint64_t) record->kind << 8 | record->flags);

        for (unsigned i = 0; i < draft->n_texts; i++)
                hash = infp_writer_hash(draft->texts[i].text, draft->texts[i].size, hash);
        return hash;
}

/* The file is memory that others of this user can write too: nothing outside of the chunk is read, whatever it holds. */
static bool is_at(uint32_t place, const struct draft *draft)
{
        const struct infp_wire_record *record = draft->record;
        const char *at = infp_writer_file.base + INFP_WRITER_CHUNKS_AT + (size_t) place * 8;
        const struct infp_wire_record *there = (const void *) at;

        if (place * 8 % INFP_WIRE_CHUNK + record->size > INFP_WIRE_CHUNK || there->size != record->size ||
            there->kind != record->kind || there->flags != record->flags ||
            memcmp(after_head(there), after_head(record), draft->size - sizeof *record) != 0)
                return false;
        for (unsigned i = 0; i < draft->n_texts; i++)
                if (memcmp(at + (draft->texts[i].field->at & ~INFP_WIRE_INLINE), draft->texts[i].text,
                           draft->texts[i].size) != 0)
                        return false;
        return true;
}

static uint32_t put(struct infp_writer_thread *thread, struct draft *draft)
{
        const uint64_t *at;

        draft->record->t_ns = infp_writer_now_ns();
        at = infp_writer_put(thread, INFP_WIRE_STAY, draft->record, draft->size, draft->texts, draft->n_texts);
        return at ? (uint32_t) (at - (const uint64_t *) (infp_writer_file.base + INFP_WRITER_CHUNKS_AT)) : 0;
}

static uint32_t intern(struct infp_writer_thread *thread, struct draft *draft)
{
        uint32_t written = 0;
        uint64_t hash;

        infp_writer_lay(draft->record, draft->size, draft->texts, draft->n_texts);
        hash = hash_of(draft);
        for (unsigned i = 0; i < PROBES; i++) {
                _Atomic uint64_t *slot = &infp_writer_stacks[(hash + i) % INFP_WRITER_STACKS];
                uint64_t entry = atomic_load_explicit(slot, memory_order_acquire);

                if (!entry) {
                        if (!written && !(written = put(thread, draft)))
                                return 0;
                        if (atomic_compare_exchange_strong_explicit(slot, &entry, (hash & ~PLACE_MASK) | written,
                                                                    memory_order_acq_rel, memory_order_acquire))
                                return written;
                }
                if ((entry & ~PLACE_MASK) == (hash & ~PLACE_MASK) && is_at((uint32_t) (entry & PLACE_MASK), draft))
                        return (uint32_t) (entry & PLACE_MASK);
        }
        if (!written)
                infp_writer_add(&infp_writer_file.head->refused_stacks, 1);
        return written;
}

uint32_t infp_writer_code(struct infp_writer_thread *thread, const char *file, const char *function, uint32_t line)
{
        struct infp_wire_code code = { .record = { .kind = INFP_WIRE_CODE }, .line = line };
        struct draft draft = { .record = &code.record, .size = sizeof code };

        code.file.size = infp_writer_measure(file, FILE_MAX, &code.record.flags);
        code.file.at = infp_writer_intern(file, code.file.size);
        if (!code.file.at)
                draft.texts[draft.n_texts++] = (struct infp_writer_text){ &code.file, file, code.file.size };
        draft.texts[draft.n_texts++] =
                (struct infp_writer_text){ &code.function, function,
                                           infp_writer_measure(function, FUNCTION_MAX, &code.record.flags) };
        return intern(thread, &draft);
}

uint32_t infp_writer_stack(struct infp_writer_thread *thread, const struct infp_writer_stack *stack)
{
        struct infp_wire_stack record = { .record = { .kind = INFP_WIRE_STACK, .flags = stack->flags },
                                          .epoch = stack->epoch };
        uint32_t n_native = stack->n_native, n_python = stack->n_python;
        struct draft draft = { .record = &record.record, .size = sizeof record, .n_texts = 2 };

        if (!n_native && !n_python)
                return 0;
        if (n_native > INFP_WIRE_FRAMES) {
                n_native = INFP_WIRE_FRAMES;
                record.record.flags |= INFP_WIRE_TRUNCATED;
        }
        if (n_python > INFP_WIRE_FRAMES) {
                n_python = INFP_WIRE_FRAMES;
                record.record.flags |= INFP_WIRE_PYTHON_INCOMPLETE;
        }
        draft.texts[0] =
                (struct infp_writer_text){ &record.native, n_native ? (const char *) stack->native : "", n_native * 8 };
        draft.texts[1] =
                (struct infp_writer_text){ &record.python, n_python ? (const char *) stack->python : "", n_python * 8 };
        return intern(thread, &draft);
}

struct infp_wire_site *infp_writer_site_at(uint32_t place)
{
        return (void *) (infp_writer_file.base + INFP_WRITER_CHUNKS_AT + (size_t) place * 8);
}

uint32_t infp_writer_site(struct infp_writer_thread *thread, uint32_t stack)
{
        struct infp_wire_site site = { .record = { .kind = INFP_WIRE_SITE }, .stack = stack, .oldest = UINT64_MAX };
        struct draft draft = { .record = &site.record, .size = sizeof site };
        _Atomic uint64_t *first = &infp_writer_file.head->heap_sites;
        uint64_t previous = atomic_load(first);
        const uint32_t place = put(thread, &draft);

        if (!place)
                return 0;
        do
                infp_writer_site_at(place)->previous = (uint32_t) previous;
        while (!atomic_compare_exchange_weak(first, &previous, place));
        return place;
}
