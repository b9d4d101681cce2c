#include "analyze/memory/blocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyze/scan_some.h"
#include "base/mem.h"
#include "base/sort.h"

enum { MOST_LIVES = 1 << 27 };

enum { PROCESS, SIZE, WEIGHT, STACK, FREED };
static const char *const columns[] = {
        [PROCESS] = "process", [SIZE] = "size", [WEIGHT] = "weight", [STACK] = "stack", [FREED] = "freed_ns", NULL,
};

/* A block that was freed. */
struct infp_heap_life {
        uint32_t stack;
        float seconds;
        double bytes;
};

void infp_heap_blocks_done(struct infp_heap_blocks *blocks)
{
        free(blocks->stacks);
        free(blocks->lives);
        infp_map_done(&blocks->by_key);
        *blocks = (struct infp_heap_blocks){ 0 };
}

struct reading {
        const struct infp_heap *heap;
        struct infp_heap_blocks *blocks;
        struct infp_err *err;
};

static int stack_of(const struct reading *reading, uint64_t process, uint64_t id, uint32_t *ret)
{
        struct infp_profile_place place;
        const uint64_t key = infp_heap_place(reading->heap, process, id, &place);
        const uint64_t *at = infp_map_get(&reading->blocks->by_key, key),
                       *name = infp_map_get(&reading->heap->names, process);
        struct infp_heap_blocks *blocks = reading->blocks;

        if (at) {
                *ret = (uint32_t) *at;
                return 0;
        }
        if (!INFP_MAKE_ROOM(blocks->stacks, blocks->n_stacks, blocks->cap_stacks, 256) ||
            infp_map_put(&blocks->by_key, key, blocks->n_stacks) < 0)
                return -ENOMEM;
        *ret = blocks->n_stacks++;
        blocks->stacks[*ret] = (struct infp_heap_soon){
                .process = name ? (uint32_t) *name : INFP_PROFILE_NONE,
                .place = place,
                .median_s = NAN,
        };
        return 0;
}

/* Chances are 1 - e^(-size / mean), weights size / chance: so many blocks a sample, and their variance. */
static void add(struct infp_heap_sum *sum, double *spread, double size, double weight)
{
        const double blocks = weight / size;

        sum->bytes += weight;
        sum->variance += weight * (weight - size);
        sum->blocks += blocks;
        sum->samples++;
        *spread += blocks * (blocks - 1);
}

static int add_life(struct infp_heap_blocks *blocks, uint32_t stack, double seconds, double bytes)
{
        if (!INFP_MAKE_ROOM(blocks->lives, blocks->n_lives, blocks->cap_lives, 4096))
                return -ENOMEM;
        blocks->lives[blocks->n_lives++] = (struct infp_heap_life){ stack, (float) seconds, bytes };
        return 0;
}

/* freed: NAN of one that was never freed; but what a program holds is gone when its process ends, and when exec replaces it. */
static bool is_in_use(const struct infp_heap *heap, uint64_t process, uint64_t t_ns, double freed)
{
        const struct infp_heap_process *program;

        if (!isnan(freed))
                return freed >= (double) heap->range.t1;
        program = infp_heap_program(heap, process, t_ns);
        return !program || (program < &heap->processes[heap->n_processes] && !program->is_replaced);
}

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        struct infp_heap_blocks *blocks = reading->blocks;
        const uint64_t process = infp_heap_id(batch, at[PROCESS], row), t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const uint64_t *name = infp_map_get(&reading->heap->names, process);
        const double size = infp_cell_number(batch, at[SIZE], row), weight = infp_cell_number(batch, at[WEIGHT], row),
                     freed = infp_cell_number(batch, at[FREED], row);
        const double seconds = fmax((freed - (double) t_ns) / 1e9, 0);
        struct infp_heap_soon *stack;
        struct infp_heap_size *of_size;
        double unused = 0;
        uint32_t n;
        unsigned i = 0;

        if ((reading->heap->pid && (!name || reading->heap->profile.processes[*name].pid != reading->heap->pid)) ||
            t_ns >= reading->heap->range.t1 || !(size >= 1 && weight >= size && weight < 1e30))
                return 0;
        if (blocks->n_lives >= MOST_LIVES)
                return infp_fail(reading->err, -E2BIG,
                                 "the run has more than %d sampled blocks, which is too much at once; --pid takes one "
                                 "process",
                                 MOST_LIVES);
        while (i + 1 < INFP_HEAP_SIZES && size > ldexp(1, (int) i))
                i++;
        of_size = &blocks->sizes[i];
        if (is_in_use(reading->heap, process, t_ns, freed))
                add(&of_size->end, &of_size->end_spread, size, weight);
        if (t_ns < reading->heap->range.t0)
                return 0;
        add(&of_size->allocated, &of_size->allocated_spread, size, weight);
        INFP_TRY(stack_of(reading, process, infp_heap_id(batch, at[STACK], row), &n));
        stack = &blocks->stacks[n];
        add(&stack->allocated, &unused, size, weight);
        blocks->first_ns = blocks->first_ns && blocks->first_ns < t_ns ? blocks->first_ns : t_ns;
        blocks->last_ns = blocks->last_ns > t_ns ? blocks->last_ns : t_ns;
        if (isnan(freed))
                return 0;
        if (seconds <= INFP_HEAP_SOON_S)
                add(&stack->soon, &stack->soon_spread, size, weight);
        return add_life(blocks, n, seconds, weight);
}

static int by_life(const void *a, const void *b)
{
        const struct infp_heap_life *x = a, *y = b;

        return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static int by_stack(const void *a, const void *b)
{
        const struct infp_heap_life *x = a, *y = b;

        return x->stack != y->stack ? (x->stack < y->stack ? -1 : 1) : by_life(a, b);
}

static int by_soon(const void *a, const void *b)
{
        const struct infp_heap_soon *x = a, *y = b;

        return x->soon.bytes > y->soon.bytes ? -1 : x->soon.bytes < y->soon.bytes;
}

/* lives: in order. */
static double median(const struct infp_heap_life *lives, uint32_t n)
{
        double all = 0, sum = 0;
        uint32_t i = 0;

        for (uint32_t k = 0; k < n; k++)
                all += lives[k].bytes;
        while (i < n && (sum += lives[i].bytes) < all / 2)
                i++;
        return n ? (double) lives[i < n ? i : n - 1].seconds : NAN;
}

static void find_medians(struct infp_heap_blocks *blocks)
{
        infp_sort(blocks->lives, blocks->n_lives, sizeof(*blocks->lives), by_life);
        blocks->median_s = median(blocks->lives, blocks->n_lives);
        infp_sort(blocks->lives, blocks->n_lives, sizeof(*blocks->lives), by_stack);
        for (uint32_t i = 0, n; i < blocks->n_lives; i += n) {
                for (n = 1; i + n < blocks->n_lives && blocks->lives[i + n].stack == blocks->lives[i].stack; n++)
                        ;
                blocks->stacks[blocks->lives[i].stack].median_s = median(&blocks->lives[i], n);
        }
        infp_sort(blocks->stacks, blocks->n_stacks, sizeof(*blocks->stacks), by_soon);
}

int infp_heap_blocks_read(struct infp_run *run, const struct infp_heap *heap, struct infp_heap_blocks *ret,
                          struct infp_err *err)
{
        struct reading reading = { heap, ret, err };
        int r;

        *ret = (struct infp_heap_blocks){ .n_stacks = 0 };
        r = infp_scan_rows(run, infp_table_heap_samples.name, columns, &(struct infp_scan_options){ 0 }, take, &reading,
                           err);
        if (r < 0)
                infp_heap_blocks_done(ret);
        else
                find_medians(ret);
        return r < 0 ? r : 0;
}
