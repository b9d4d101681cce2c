/* Lists of stacks of the heap, the most first. */
#include <stdlib.h>

#include "analyze/memory/heap.h"
#include "base/sort.h"

enum { NONE = UINT32_MAX };

struct ordering {
        const struct infp_heap *heap;
        double (*by)(const struct infp_heap_stack *stack);
};

static int by_order(const void *a, const void *b, void *context)
{
        const struct ordering *ordering = context;
        const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
        const double p = ordering->by(&ordering->heap->stacks[x]), q = ordering->by(&ordering->heap->stacks[y]);

        return p != q ? (p > q ? -1 : 1) : (x > y) - (x < y);
}

static void add_wanted(const struct infp_heap *heap, uint32_t stack, double (*by)(const struct infp_heap_stack *stack),
                       uint32_t *list, uint32_t *n)
{
        if (heap->stacks[stack].process < heap->n_processes && by(&heap->stacks[stack]) > 0)
                list[(*n)++] = stack;
}

uint32_t *infp_heap_top(const struct infp_heap *heap, uint32_t process,
                        double (*by)(const struct infp_heap_stack *stack), uint32_t *ret_n)
{
        struct ordering ordering = { heap, by };
        uint32_t *ret = calloc((size_t) heap->n_stacks + 1, sizeof(*ret));

        *ret_n = 0;
        if (process == UINT32_MAX)
                for (uint32_t i = 0; ret && i < heap->n_stacks; i++)
                        add_wanted(heap, i, by, ret, ret_n);
        else
                for (uint32_t i = heap->processes[process].first_stack; ret && i != NONE; i = heap->stacks[i].next)
                        add_wanted(heap, i, by, ret, ret_n);
        if (ret)
                infp_sort_r(ret, *ret_n, sizeof(*ret), by_order, &ordering);
        return ret;
}

double infp_heap_held(const struct infp_heap_stack *stack)
{
        return stack->held.bytes;
}

double infp_heap_leaking(const struct infp_heap_stack *stack)
{
        const enum infp_heap_verdict verdict = stack->growth.verdict;

        return (verdict == INFP_HEAP_LEAK || verdict == INFP_HEAP_GROWS ? stack->growth.rate : 0) +
               (verdict == INFP_HEAP_LEAK ? 1e15 : 0);
}
