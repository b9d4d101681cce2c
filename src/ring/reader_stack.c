/* Stacks of agents and the code that they name: looked up by their ids, when a record names them. */
#include <errno.h>
#include <stdlib.h>

#include "base/time.h"
#include "ring/reader_parts.h"

struct ring_stacks {
        _Alignas(8) char stack[INFP_WIRE_CHUNK], code[INFP_WIRE_CHUNK];
        struct infp_ring_python python[INFP_WIRE_FRAMES];
        char file[INFP_RING_TEXT], function[INFP_RING_TEXT];
};

/* The record, copied into one of the buffers. */
static int look_up(struct infp_ring *ring, uint32_t id, uint8_t kind, void *ret)
{
        int r;

        if (!ring->is_in_read) {
                ring->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
                infp_guarded_map_begin(&ring->map);
        }
        r = ring_copy_staying(ring, id, kind, ret);
        if (!ring->is_in_read)
                infp_guarded_map_end();
        return r;
}

/* Eight bytes a frame, in the record; NULL: no writer makes such a part. */
static const void *frames(const struct infp_ring *ring, const struct infp_wire_record *record,
                          struct infp_wire_text part)
{
        const uint32_t at = part.at & ~INFP_WIRE_INLINE, size = record->size;

        if (!(part.at & INFP_WIRE_INLINE) || at % 8 || part.size % 8 || part.size > INFP_WIRE_FRAMES * 8 ||
            at < ring->layout.fixed[record->kind] || at > size || part.size > size - at)
                return NULL;
        return (const char *) record + at;
}

static int broken(struct infp_ring *ring)
{
        ring->counts.broken++;
        return -EBADMSG;
}

static bool make_buffers(struct infp_ring *ring)
{
        if (!ring->stacks)
                ring->stacks = malloc(sizeof(*ring->stacks));
        return ring->stacks;
}

/* A stack of two parts of a record. False: no writer makes them. */
static bool fill_stack(struct infp_ring *ring, const struct infp_wire_record *record, struct infp_wire_text native_part,
                       struct infp_wire_text python_part, struct infp_ring_stack *ret)
{
        const struct infp_wire_python *python = frames(ring, record, python_part);
        const uint64_t *native = frames(ring, record, native_part);

        if (!native || !python)
                return false;
        *ret = (struct infp_ring_stack){
                .t_ns = record->t_ns,
                .n_addresses = native_part.size / 8,
                .n_python = python_part.size / 8,
                .addresses = native,
                .python = ring->stacks->python,
                .is_truncated = record->flags & INFP_WIRE_TRUNCATED,
                .is_incomplete = record->flags & INFP_WIRE_INCOMPLETE,
                .is_python_incomplete = record->flags & INFP_WIRE_PYTHON_INCOMPLETE,
        };
        for (uint32_t i = 0; i < ret->n_python; i++)
                ring->stacks->python[i] = (struct infp_ring_python){ .code = python[i].code,
                                                                     .line = python[i].line & ~INFP_WIRE_ENTRY,
                                                                     .is_entry = python[i].line & INFP_WIRE_ENTRY,
                                                                     .is_shim = python[i].code == INFP_WIRE_SHIM };
        return true;
}

/* One of the records that others name; it is there until the next of its kind is looked up. */
static const void *find_record(struct infp_ring *ring, uint32_t id, uint8_t kind, int *ret_error)
{
        void *record;

        *ret_error = -ENOMEM;
        if (!make_buffers(ring))
                return NULL;
        record = kind == INFP_WIRE_CODE ? (void *) ring->stacks->code : (void *) ring->stacks->stack;
        *ret_error = look_up(ring, id, kind, record);
        if (*ret_error == -EBADMSG)
                *ret_error = broken(ring);
        return record;
}

int infp_ring_stack(struct infp_ring *ring, uint32_t id, struct infp_ring_stack *ret)
{
        int r;
        const struct infp_wire_stack *stack = find_record(ring, id, INFP_WIRE_STACK, &r);

        if (r < 0)
                return r;
        if (!fill_stack(ring, &stack->record, stack->native, stack->python, ret))
                return broken(ring);
        ret->epoch = stack->epoch;
        return 0;
}

void infp_ring_on_sample(struct infp_ring *ring, infp_ring_sample_fn *take, void *context)
{
        ring->take_sample = take;
        ring->sample_context = context;
}

void infp_ring_on_heap(struct infp_ring *ring, const struct infp_ring_heap_fns *fns)
{
        ring->heap = *fns;
}

int ring_give_block(struct infp_ring *ring, const struct infp_wire_block *block)
{
        struct infp_ring_block given = { .t_ns = block->record.t_ns,
                                         .id = block->id,
                                         .address = block->address,
                                         .size = block->size,
                                         .mean = block->mean,
                                         .tid = (int32_t) block->tid,
                                         .is_object = block->record.flags & INFP_WIRE_OBJECT,
                                         .is_mapped = block->record.flags & INFP_WIRE_MAPPED };
        struct infp_ring_stack stack;

        if (!ring->heap.take_block)
                return 0;
        if (block->stack && infp_ring_stack(ring, block->stack, &stack) == 0)
                given.stack = &stack;
        ring->heap.take_block(ring->heap.context, &given);
        return 0;
}

int ring_give_sample(struct infp_ring *ring, const struct infp_wire_sample *sample)
{
        struct infp_ring_sample given = { .t_ns = sample->record.t_ns,
                                          .epoch = sample->epoch,
                                          .tid = (int32_t) sample->tid,
                                          .cpu = sample->cpu > INT32_MAX ? -1 : (int32_t) sample->cpu,
                                          .periods = sample->periods };

        if (!ring->take_sample)
                return 0;
        if (!make_buffers(ring))
                return -ENOMEM;
        if (!fill_stack(ring, &sample->record, sample->native, sample->python, &given.stack))
                ring->counts.broken++;
        else
                ring->take_sample(ring->sample_context, &given);
        return 0;
}

int infp_ring_code(struct infp_ring *ring, uint32_t id, struct infp_ring_code *ret)
{
        int r;
        const struct infp_wire_code *code = find_record(ring, id, INFP_WIRE_CODE, &r);

        if (r < 0)
                return r;
        *ret = (struct infp_ring_code){ .file = ring->stacks->file,
                                        .function = ring->stacks->function,
                                        .line = code->line };
        if (!ring_text(ring, &code->record, code->file, ring->stacks->file, sizeof(ring->stacks->file),
                       &ret->file_size) ||
            !ring_text(ring, &code->record, code->function, ring->stacks->function, sizeof(ring->stacks->function),
                       &ret->function_size))
                return broken(ring);
        return 0;
}

int infp_ring_site(struct infp_ring *ring, uint32_t id, struct infp_ring_site *ret)
{
        int r;
        const struct infp_wire_site *site = find_record(ring, id, INFP_WIRE_SITE, &r);

        if (r < 0)
                return r;
        *ret = (struct infp_ring_site){ site->record.t_ns, (int32_t) site->record.tid,
                                        site->stack,       site->previous,
                                        site->allocated,   site->allocations,
                                        site->freed,       site->frees,
                                        site->temporary,   site->low,
                                        site->old,         site->oldest,
                                        site->peak,        site->peak_blocks };
        return 0;
}
