/* Part of frames.bpf.c: times waits. The one program runs as a thread of the target loses its CPU, by perf's event of switches, which
 * then writes nothing; the other as any thread of the machine has got one. Waits that were too short are summed; of others perf takes
 * the stack, which is the one at which the thread left its CPU: it has done nothing since.
 *
 * The other one is at the tracepoint at the end of the scheduler (Linux 6.17), or else at the beginning of perf's own function for that
 * moment. Both have what the stack needs: the memory of the thread that has got the CPU. */
#include "sampler/waits/switches.h"

/* Its members can be read as they are. */
static void *(*const get_current_object)(void) = (void *) BPF_FUNC_get_current_task_btf;
static long (*const perf_output)(void *context, void *map, __u64 flags, void *data,
                                 __u64 size) = (void *) BPF_FUNC_perf_event_output;

struct OF_KERNEL sched_entity {
        __u64 sum_exec_runtime, prev_sum_exec_runtime;
};
/* More of a task. */
struct OF_KERNEL task_struct___switch {
        unsigned int __state;
        int pid;
        __u64 start_time;
        struct sched_entity se;
};

struct {
        MAP_TYPE(BPF_MAP_TYPE_HASH);
        MAP_SIZE(1); /* the loader sets it */
        int *key;
        struct infp_switch_thread *value;
} switches SECTION(".maps");

struct {
        MAP_TYPE(BPF_MAP_TYPE_PERF_EVENT_ARRAY);
        int *key;
        int *value;
} switch_events SECTION(".maps"), shallow_events SECTION(".maps");

struct {
        MAP_TYPE(BPF_MAP_TYPE_ARRAY);
        MAP_SIZE(1);
        __u32 *key;
        struct infp_switches_counts *value;
} switches_counts SECTION(".maps");

const volatile __u64 infp_least_wait_ns SECTION(".rodata.waits") = 0;

#define MOST_SLICE_NS 10000000000ULL

static INLINE void count_full(void)
{
        __u32 zero = 0;
        struct infp_switches_counts *all = map_lookup(&switches_counts, &zero);

        if (all)
                __sync_fetch_and_add(&all->full, 1);
}

/* A thread that was not seen before: by the CPU time that it has had since it got its CPU it is known when that was. */
static INLINE struct infp_switch_thread *meet(struct task_struct *task, int key, __u64 start_ns, __u64 now_ns)
{
        struct task_struct___switch *more = (void *) task;
        struct infp_switch_thread fresh = { .start_ns = start_ns, .first_ns = now_ns };
        __u64 had = 0, before = 0;

        fresh.pid = process_number(task);
        fresh.tid = thread_number(task);
        READ(had, more->se.sum_exec_runtime);
        READ(before, more->se.prev_sum_exec_runtime);
        if (had - before < MOST_SLICE_NS)
                fresh.first_ns -= had - before;
        if (map_update(&switches, &key, &fresh, BPF_ANY)) {
                count_full();
                return 0;
        }
        return map_lookup(&switches, &key);
}

SECTION("perf_event")
int infp_switched_out(struct bpf_perf_event_data *context)
{
        const struct task_struct___switch *task = get_current_object();
        const __u64 now_ns = ktime_get_ns(), start_ns = task->start_time;
        const int key = task->pid;
        struct infp_switch_thread *thread = map_lookup(&switches, &key);

        if (!thread || thread->start_ns != start_ns)
                thread = meet(get_current_task(), key, start_ns, now_ns);
        if (thread) {
                thread->is_preempted = !task->__state;
                thread->place = context->regs.rip;
                thread->out_ns = now_ns;
        }
        return 0; /* perf writes nothing */
}

static INLINE void add(struct infp_switch_sum *sum, __u32 is_preempted, __u64 ns)
{
        sum->n[is_preempted & 1]++;
        sum->ns[is_preempted & 1] += ns;
}

/* Whether the smaller copy has all of the current thread's stack, up to the C library's own data of it (base_of). */
static INLINE _Bool is_shallow(void)
{
        struct task_struct *task = get_current_task();
        const __u64 sp = user_stack_pointer();
        __u64 fs_base = 0;

        READ(fs_base, task->thread.fsbase);
        return sp && fs_base - sp < INFP_SWITCH_SHALLOW_BYTES && read_pointer(fs_base) == fs_base;
}

static INLINE int switched_in(void *context)
{
        const struct task_struct___switch *current = get_current_object();
        const int key = current->pid;
        struct infp_switch_thread *thread = map_lookup(&switches, &key);
        const struct infp_frames_process *process;
        struct infp_switch message = { .unused = 0 };
        __u32 second = 1;
        struct work *own;
        _Bool is_small;
        long r;
        int pid;

        if (!thread || !thread->out_ns)
                return 0;
        message.in_ns = ktime_get_ns();
        message.out_ns = thread->out_ns;
        thread->out_ns = 0;
        if (message.in_ns - message.out_ns < infp_least_wait_ns) {
                add(&thread->too_short, thread->is_preempted, message.in_ns - message.out_ns);
                return 0;
        }
        message.first_ns = thread->first_ns;
        message.is_preempted = thread->is_preempted;
        message.place = thread->place;
        pid = thread->pid;
        process = map_lookup(&processes, &pid);
        own = map_lookup(&work, &second); /* a sample of the clock may come between */
        if (own && process)
                infp_take(process, own, pid, message.place);
        is_small = is_shallow();
        if (is_small)
                r = perf_output(context, &shallow_events, BPF_F_CURRENT_CPU, &message, sizeof(message));
        else
                r = perf_output(context, &switch_events, BPF_F_CURRENT_CPU, &message, sizeof(message));
        if (!r && !is_small)
                infp_deep_take(pid, 0, message.place, 1);
        if (r)
                add(&thread->no_room, message.is_preempted, message.in_ns - message.out_ns);
        return 0;
}

SECTION("raw_tp/sched_exit_tp")
int infp_switched_in(__u64 *context)
{
        return switched_in(context);
}

SECTION("fentry/__perf_event_task_sched_in")
int infp_switched_in_perf(__u64 *context)
{
        return switched_in(context);
}
