/* Stacks that were walked where they were taken: addresses, which become frames here. */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/time.h"
#include "sampler/stacks/parts.h"

/* Which mapping each address is in. False: some are in none. */
static bool place_frames(struct infp_stacks *stacks, const struct infp_stack_taken *taken, struct infp_unwound *unwound)
{
        const uint32_t n = taken->n < stacks->max_depth ? taken->n : stacks->max_depth;
        bool are_known = true;

        for (uint32_t i = 0; i < n; i++) {
                const uint32_t mapping = infp_unwind_find_mapping(&unwound->view, taken->addresses[i] - (i > 0));

                stacks->frames[i] = (struct infp_unwind_frame){ .pc = taken->addresses[i],
                                                                .mapping = mapping,
                                                                .flags = i ? 0 : INFP_FRAME_EXACT };
                are_known &= mapping != INFP_NO_MAPPING;
        }
        unwound->result =
                (struct infp_unwind_result){ .end = n < taken->n ? INFP_UNWIND_TOO_DEEP : taken->end, .n_frames = n };
        return are_known;
}

bool infp_stacks_find_taken(struct infp_stacks *stacks, const struct infp_stack_taken *taken, int32_t pid, int32_t tid,
                            enum infp_stack_mode mode, struct infp_stack_found *ret)
{
        const struct infp_space_thread *thread;
        struct infp_stack_found found;
        struct infp_unwound unwound = { .view.n_mappings = 0 };
        bool are_known = false;

        infp_stacks_thread(stacks, pid, tid ? tid : pid, &found);
        if (!tid)
                found.tid = 0, found.thread = 0;
        found.t_ns = taken->t_ns;
        found.cpu = taken->cpu;
        found.mode = mode;
        thread = infp_processes_thread(&stacks->processes, pid, tid ? tid : pid, taken->t_ns);
        if (thread && thread->owner) {
                unwound.space = thread->owner->space;
                if (infp_space_view(unwound.space, stacks->objects, &stacks->last_space_id, &unwound.view) == 0)
                        are_known = place_frames(stacks, taken, &unwound);
                if (!are_known && infp_processes_reread(&stacks->processes, thread->owner, taken->t_ns)) {
                        unwound.space = thread->owner->space;
                        if (infp_space_view(unwound.space, stacks->objects, &stacks->last_space_id, &unwound.view) == 0)
                                are_known = place_frames(stacks, taken, &unwound);
                }
                if (taken->python)
                        infp_stack_merge(stacks, &unwound, taken->python, &stacks->counts.modes[found.mode]);
                found.is_truncated = unwound.result.end != INFP_UNWIND_COMPLETE;
                found.depth = unwound.result.n_frames ? unwound.result.n_frames - 1 : 0;
                found.stack = infp_stack_nodes(stacks, &found, &unwound);
                infp_stack_count(stacks, found.mode, &unwound.result);
        }
        *ret = found;
        return are_known;
}

void infp_stacks_reread(struct infp_stacks *stacks, int32_t pid, uint64_t t_ns)
{
        const struct infp_space_thread *thread = infp_processes_thread(&stacks->processes, pid, pid, t_ns);

        if (!thread || !thread->owner)
                return;
        thread->owner->pause_ns = 0; /* the caller has a pace of its own */
        infp_processes_reread(&stacks->processes, thread->owner, t_ns);
}

void infp_stacks_executed(struct infp_stacks *stacks, int32_t pid, uint64_t t_ns)
{
        char path[40], name[INFP_THREAD_NAME];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/comm", (int) pid);
        n = infp_read_at(stacks->env.root_fd, path, name, sizeof(name));
        name[n > 0 ? strcspn(name, "\n") : 0] = 0;
        infp_processes_name(&stacks->processes, t_ns, pid, pid, name, true);
}

void infp_stacks_forked(struct infp_stacks *stacks, int32_t pid, int32_t parent, uint64_t start_ticks)
{
        const uint64_t hz = stacks->env.ticks_per_s > 0 ? (uint64_t) stacks->env.ticks_per_s : 100;
        const int64_t tick_ns = (int64_t) (INFP_NS_PER_S / hz);
        const int64_t begin_ns = (int64_t) start_ticks * tick_ns + tick_ns / 2 - stacks->processes.boottime_offset_ns;

        infp_processes_fork(&stacks->processes, begin_ns > 0 ? (uint64_t) begin_ns : 1, pid, pid, parent, parent);
}

void infp_stacks_ended(struct infp_stacks *stacks, int32_t pid, uint64_t t_ns)
{
        infp_processes_exit(&stacks->processes, t_ns, pid, pid);
}
