#include "sampler/inside/heap.h"

#include <stdlib.h>

#include "base/mem.h"
#include "model/stack_tables.h"
#include "sampler/stacks/parts.h"

enum { MOST_LIVE = 1 << 20, MOST_EARLY = 1 << 16 };
static const double peak_step = 1.05; /* a peak is looked at again when it has grown by so much */

struct infp_inside_block {
        struct infp_stack_found found;
        uint64_t id, address;
        struct infp_inside_weighed weighed;
        const char *allocator;
};

/* freed_ns 0: it is alive. freed_tid 0: not known. */
static void put_row(struct infp_stacks *stacks, const struct infp_inside_block *block, uint64_t freed_ns,
                    int32_t freed_tid)
{
        const struct infp_stack_found *found = &block->found;
        struct infp_row *row = &stacks->row;

        infp_row_begin(row, &infp_table_heap_samples, found->t_ns);
        if (found->process)
                infp_row_id(row, INFP_HEAP_SAMPLES_PROCESS, found->process);
        if (found->tid)
                infp_row_i64(row, INFP_HEAP_SAMPLES_TID, found->tid);
        if (found->thread)
                infp_row_id(row, INFP_HEAP_SAMPLES_THREAD, found->thread);
        infp_row_i64(row, INFP_HEAP_SAMPLES_ADDRESS, (int64_t) block->address);
        infp_row_i64(row, INFP_HEAP_SAMPLES_SIZE, (int64_t) block->weighed.size);
        infp_row_f64(row, INFP_HEAP_SAMPLES_WEIGHT, block->weighed.weight);
        if (found->stack)
                infp_row_id(row, INFP_HEAP_SAMPLES_STACK, found->stack);
        if (freed_ns)
                infp_row_i64(row, INFP_HEAP_SAMPLES_FREED_NS, (int64_t) freed_ns);
        if (freed_ns && freed_tid)
                infp_row_i64(row, INFP_HEAP_SAMPLES_FREED_TID, freed_tid);
        infp_row_str(row, INFP_HEAP_SAMPLES_ALLOCATOR, block->allocator);
        if (infp_stack_put_row(stacks) < 0)
                stacks->counts.modes[INFP_STACK_HEAP].dropped++;
}

/* Without memory the peak before stays. */
static void keep_peak(struct infp_inside_heap *heap, uint64_t t_ns)
{
        struct infp_inside_site *held = malloc(heap->sites.n * sizeof(*held));
        uint32_t n = 0;

        if (!held)
                return;
        for (uint32_t i = 0; i < heap->sites.n; i++)
                if (heap->sites.list[i].blocks)
                        held[n++] = heap->sites.list[i];
        free(heap->peak);
        heap->peak = held;
        heap->n_peak = n;
        heap->peak_ns = t_ns;
        heap->peak_bytes = heap->live_bytes;
}

void infp_inside_heap_block(struct infp_inside_heap *heap, struct infp_stacks *stacks,
                            const struct infp_stack_found *found, const struct infp_ring_block *block)
{
        const uint64_t *freed = infp_map_get(&heap->early, block->id),
                       *freed_tid = infp_map_get(&heap->early_tids, block->id);
        const double objects = infp_heap_objects((double) block->size, (double) block->mean);
        struct infp_inside_block one = {
                *found,
                block->id,
                block->address,
                { .t_ns = block->t_ns, .size = block->size, .weight = (double) block->size * objects },
                block->is_object   ? "python"
                : block->is_mapped ? "mmap"
                                   : "malloc",
        };

        one.found.objects = objects;
        one.found.mode = INFP_STACK_HEAP_ALLOCATED;
        infp_stacks_put(stacks, &one.found, one.weighed.weight, NULL);
        infp_inside_sites_allocated(&heap->sites, &one.found, &one.weighed);
        if (freed) {
                infp_inside_sites_held(&heap->sites, &one.weighed);
                infp_inside_sites_freed(&heap->sites, &one.weighed);
                put_row(stacks, &one, *freed, freed_tid ? (int32_t) *freed_tid : 0);
                infp_map_delete(&heap->early, block->id);
                infp_map_delete(&heap->early_tids, block->id);
        } else if (heap->n >= MOST_LIVE || !INFP_MAKE_ROOM(heap->blocks, heap->n, heap->cap, 256) ||
                   infp_map_put(&heap->live, block->id, heap->n) < 0) {
                heap->left_out++;
        } else {
                infp_inside_sites_held(&heap->sites, &one.weighed);
                heap->blocks[heap->n++] = one;
                heap->live_bytes += one.weighed.weight;
                if (heap->live_bytes > peak_step * heap->peak_bytes)
                        keep_peak(heap, block->t_ns);
        }
}

void infp_inside_heap_free(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t t_ns, uint64_t id,
                           int32_t tid)
{
        const uint64_t *at = infp_map_get(&heap->live, id);
        uint64_t index;

        if (!at) { /* it is on its way, or of the parent's of before a fork */
                if (heap->early.n >= MOST_EARLY) {
                        infp_map_done(&heap->early);
                        infp_map_done(&heap->early_tids);
                }
                infp_map_put(&heap->early, id, t_ns);
                infp_map_put(&heap->early_tids, id, (uint32_t) tid);
                return;
        }
        index = *at;
        put_row(stacks, &heap->blocks[index], t_ns, tid);
        infp_inside_sites_freed(&heap->sites, &heap->blocks[index].weighed);
        heap->live_bytes -= heap->blocks[index].weighed.weight;
        infp_map_delete(&heap->live, id);
        heap->blocks[index] = heap->blocks[--heap->n];
        if (index < heap->n)
                infp_map_put(&heap->live, heap->blocks[index].id, index);
}

static void end_window(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t t_ns, uint64_t mean_bytes,
                       bool is_last)
{
        if (heap->live_bytes > heap->peak_bytes)
                keep_peak(heap, t_ns);
        infp_inside_sites_end_begin(&heap->sites);
        for (uint32_t i = 0; i < heap->n; i++)
                infp_inside_sites_age(&heap->sites, &heap->blocks[i].weighed, t_ns);
        infp_inside_sites_end(&heap->sites, stacks, t_ns, mean_bytes, is_last);
}

void infp_inside_heap_turn(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t now_ns,
                           uint64_t mean_bytes)
{
        if (infp_inside_sites_is_due(&heap->sites, now_ns))
                end_window(heap, stacks, now_ns, mean_bytes, false);
}

void infp_inside_heap_end(struct infp_inside_heap *heap, struct infp_stacks *stacks, uint64_t t_ns, uint64_t mean_bytes)
{
        end_window(heap, stacks, t_ns, mean_bytes, true);
        for (uint32_t i = 0; i < heap->n; i++) {
                struct infp_inside_block *block = &heap->blocks[i];

                put_row(stacks, block, 0, 0);
                block->found.t_ns = t_ns;
                block->found.mode = INFP_STACK_HEAP;
                infp_stacks_put(stacks, &block->found, block->weighed.weight, NULL);
        }
        for (uint32_t i = 0; i < heap->n_peak; i++) {
                struct infp_inside_site *site = &heap->peak[i];

                site->found.t_ns = heap->peak_ns;
                site->found.mode = INFP_STACK_HEAP_PEAK;
                site->found.cpu = -1;
                site->found.samples = site->blocks;
                site->found.objects = site->objects;
                infp_stacks_put(stacks, &site->found, site->live, NULL);
        }
}

void infp_inside_heap_done(struct infp_inside_heap *heap)
{
        infp_map_done(&heap->live);
        infp_map_done(&heap->early);
        infp_map_done(&heap->early_tids);
        infp_inside_sites_done(&heap->sites);
        free(heap->blocks);
        free(heap->peak);
}
