/* Samples of what runs, by the clock of the CPU: infp_stacks makes rows of them by itself. */
#include <errno.h>

#include "sampler/inside/inside.h"
#include "sampler/mode.h"

struct cpu {
        const struct infp_mode_context *context;
};

static bool is_wanted(const struct infp_sampler_options *options)
{
        return options->cpu_hz > 0 && !options->is_blocking;
}

static void ask(const struct infp_sampler_options *options, struct infp_perf_options *ret)
{
        ret->hz = options->cpu_hz;
}

static int open_cpu(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        struct cpu *cpu = state;

        cpu->context = context;
        return context->perf || context->options->is_inside ? 0 : infp_fail(err, -EACCES, "%s", context->perf_problem);
}

/* Of processes that sample themselves alone; where perf does it, too, its figures hold for all. */
static void counts(void *state, struct infp_mode_counts *ret)
{
        const struct cpu *cpu = state;
        struct infp_inside_counts inside;

        ret->rate_hz = cpu->context->options->cpu_hz;
        if (!cpu->context->options->is_inside || cpu->context->perf)
                return;
        inside = infp_inside_counts(cpu->context->inside);
        ret->method = "signal timers";
        ret->has_wanted = true;
        ret->wanted = inside.wanted;
        ret->lost = inside.pythons.dropped;
        ret->skipped_threads = inside.skipped;
}

const char *infp_deep_way_name(enum infp_deep_way way)
{
        static const char *const names[INFP_DEEP_WAYS] = { "auto", "after", "off" };

        return names[way];
}

const struct infp_sampler_mode infp_sampler_mode_cpu = {
        .mode = INFP_STACK_CPU,
        .state_size = sizeof(struct cpu),
        .is_wanted = is_wanted,
        .ask = ask,
        .open = open_cpu,
        .counts = counts,
};
