/* Blocks of the heap, sampled by agents inside processes of the command (inside/heap.h), by the bytes that are allocated. */
#include <errno.h>

#include "collect/target.h"
#include "sampler/heap_programs.h"
#include "sampler/inside/inside.h"
#include "sampler/mode.h"

struct heap {
        const struct infp_mode_context *context;
        struct infp_heap_programs *programs; /* NULL: nobody looks at them */
};

static bool is_wanted(const struct infp_sampler_options *options)
{
        return options->heap_bytes > 0;
}

static int open_heap(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        struct heap *heap = state;

        heap->context = context;
        if (infp_target_mode(context->options->env->target) == INFP_MODE_RUN) {
                infp_heap_programs_new(context->options->env->target, context->options->env->root_fd, context->wake_fd,
                                       &heap->programs);
                return 0;
        }
        return infp_fail(err, -ENOENT,
                         "stacks of the heap need a command that is started by record: nothing can be put in front of "
                         "the allocator of a process that runs already");
}

static const char *why(enum infp_heap_program_kind kind)
{
        switch (kind) {
        case INFP_HEAP_PROGRAM_STATIC:
                return "is not recorded: its program is linked statically, and nothing can be put in front of its "
                       "allocator";
        case INFP_HEAP_PROGRAM_MUSL:
                return "is not recorded: its program is one of musl, not of glibc";
        case INFP_HEAP_PROGRAM_32_BIT:
                return "is not recorded: its program has 32 bits";
        case INFP_HEAP_PROGRAM_GO:
                return "is not recorded: its program is written in Go, which has an allocator of its own; "
                       "`infprof import` reads Go's profiles (/debug/pprof/heap)";
        case INFP_HEAP_PROGRAM_DENIED:
                return "may be missing: infprof may not look at its program; one that is setuid is not recorded";
        case INFP_HEAP_PROGRAM_JEMALLOC:
                return "lacks the blocks of jemalloc, which is linked statically into its program; `infprof import` "
                       "reads jemalloc's own profiles, where it was built with them (MALLOC_CONF=prof:true)";
        case INFP_HEAP_PROGRAM_TCMALLOC:
                return "lacks the blocks of tcmalloc, which is linked statically into its program; `infprof import` "
                       "reads tcmalloc's own profiles, where it was built with them (HEAPPROFILE=FILE)";
        case INFP_HEAP_PROGRAM_MIMALLOC:
                return "lacks the blocks of mimalloc, which is linked statically into its program and has no profiles";
        case INFP_HEAP_PROGRAM_FITS:
                break;
        }
        return "is recorded";
}

static uint64_t turn(void *state, uint64_t now_ns)
{
        struct heap *heap = state;
        struct infp_heap_program program;

        (void) now_ns;
        while (heap->programs && infp_heap_programs_take(heap->programs, &program))
                infp_inside_heap_problem(heap->context->inside, -ENOTSUP, program.pid, program.name, why(program.kind));
        return UINT64_MAX;
}

static void end_heap(void *state, uint64_t now_ns)
{
        turn(state, now_ns);
}

static void close_heap(void *state)
{
        struct heap *heap = state;

        heap->programs = infp_heap_programs_free(heap->programs);
}

static void counts(void *state, struct infp_mode_counts *ret)
{
        const struct heap *heap = state;
        const struct infp_inside_counts inside = infp_inside_counts(heap->context->inside);

        ret->method = heap->context->options->heap_bytes == INFP_SAMPLER_HEAP_EXACT
                              ? "exact: every block, by functions in front of the allocator's, preloaded"
                              : "functions in front of the allocator's, preloaded";
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
        .turn = turn,
        .end = end_heap,
        .counts = counts,
        .close = close_heap,
};
