/* Blocks of the heap, sampled by agents inside processes of the command (inside/heap.h), by the bytes that are allocated. */
#include <errno.h>

#include "collect/target.h"
#include "sampler/inside/inside.h"
#include "sampler/mode.h"

struct heap {
        const struct infp_mode_context *context;
};

static bool is_wanted(const struct infp_sampler_options *options)
{
        return options->heap_bytes > 0;
}

static int open_heap(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        struct heap *heap = state;

        heap->context = context;
        if (infp_target_mode(context->options->env->target) == INFP_MODE_RUN)
                return 0;
        return infp_fail(err, -ENOENT,
                         "stacks of the heap need a command that is started by record: nothing can be put in front of "
                         "the allocator of a process that runs already");
}

static void counts(void *state, struct infp_mode_counts *ret)
{
        const struct heap *heap = state;
        const struct infp_inside_counts inside = infp_inside_counts(heap->context->inside);

        ret->method = "functions in front of the allocator's, preloaded";
        ret->lost = inside.heap_missed;
        ret->handler_ns = inside.heap_ns;
        if (heap->context->options->python != INFP_PYTHON_OFF)
                ret->python_method = "the agent inside each process";
}

const struct infp_sampler_mode infp_sampler_mode_heap = {
        .mode = INFP_STACK_HEAP_ALLOCATED,
        .state_size = sizeof(struct heap),
        .is_wanted = is_wanted,
        .open = open_heap,
        .counts = counts,
};
