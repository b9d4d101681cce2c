/* The records of perf events, as stacks takes them. */
#include "sampler/stacks/parts.h"

/* cookie: ns of CPU time that the sample stands for. */
static void put_cpu(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        infp_stacks_put(context, found, (double) cookie / 1e9, NULL);
}

static void on_sample(void *context, const struct infp_perf_sample *sample)
{
        if (!sample->is_switch)
                infp_stacks_take(context, sample, INFP_STACK_CPU, put_cpu, context, sample->period);
}

static void on_mapping(void *context, const struct infp_perf_mapping *mapping)
{
        struct infp_stacks *stacks = context;

        infp_processes_map(&stacks->processes, mapping);
}

static void on_name(void *context, uint64_t t_ns, int32_t pid, int32_t tid, const char *name, bool is_exec)
{
        struct infp_stacks *stacks = context;

        infp_processes_name(&stacks->processes, t_ns, pid, tid, name, is_exec);
}

static void on_fork(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid)
{
        struct infp_stacks *stacks = context;

        infp_processes_fork(&stacks->processes, t_ns, pid, tid, parent_pid, parent_tid);
}

static void on_exit_(void *context, uint64_t t_ns, int32_t pid, int32_t tid)
{
        struct infp_stacks *stacks = context;

        infp_processes_exit(&stacks->processes, t_ns, pid, tid);
}

struct infp_perf_handler infp_stacks_handler(struct infp_stacks *stacks)
{
        return (struct infp_perf_handler){
                .context = stacks,
                .sample = on_sample,
                .mapping = on_mapping,
                .name = on_name,
                .fork = on_fork,
                .exit = on_exit_,
        };
}
