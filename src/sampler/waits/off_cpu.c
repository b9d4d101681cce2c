/* The mode --off-cpu: how long threads wait, and where. Times are those of the kernel's records of switches; stacks as in
 * off_cpu_waits.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/time.h"
#include "collect/target.h"
#include "sampler/mode.h"
#include "sampler/python/bpf.h"
#include "sampler/waits/off_cpu_cost.h"
#include "sampler/waits/off_cpu_waits.h"
#include "sampler/waits/wall_reader.h"

enum {
        SWITCH_STACK_BYTES = 32 * 1024, /* each switch copies so much; larger ones fill the kernel's buffer too soon */
        READS_HZ = 50,                  /* of threads, where perf has no stacks of switches: which waits have one */
        STATES_HZ = 5,                  /* where it has: for the names of long waits, and who waited when we came */
};
#define TURN_NS (200 * INFP_NS_PER_MS)

/* What it costs a thread that its switch is recorded, or timed in the kernel, and that its stack is copied: user + sys of a ping-pong with and without
 * (docs/cpu.md). A stack that found no room is not copied. */
static const double switch_s = 0.9e-6, stack_s = 3.6e-6;

struct off_cpu {
        const struct infp_mode_context *context;
        struct infp_off_cpu_waits waits;
        bool has_stacks;
        uint64_t began_ns, looked_ns; /* with context->filter */
        struct infp_off_cpu_cost cost;
};

static bool is_wanted(const struct infp_sampler_options *options)
{
        return options->off_cpu;
}

static void ask(const struct infp_sampler_options *options, struct infp_perf_options *ret)
{
        ret->switch_records = true;
        ret->switch_samples = true;
        ret->switch_stack_bytes = options->stack_bytes < SWITCH_STACK_BYTES ? options->stack_bytes : SWITCH_STACK_BYTES;
}

static void say_no_stacks(const struct off_cpu *off_cpu)
{
        off_cpu->context->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_emit_source(off_cpu->context->emit, &infp_table_stack_samples, INFP_STACK_SAMPLES_STACK,
                         infp_stack_modes[INFP_STACK_OFF_CPU].name, INFP_DENIED,
                         "stacks at context switches are not permitted here: only waits longer than about 10 ms have a "
                         "stack, read while the thread waits; times are complete",
                         "setcap cap_perfmon+ep infprof, or kernel.perf_event_paranoid=1 or less");
}

static int open_off_cpu(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        const struct infp_sampler_options *options = context->options;
        struct off_cpu *off_cpu = state;
        struct infp_wall_reader_options reader = {
                .context = context,
                .rate_hz = STATES_HZ,
                .stack_bytes = options->env->is_live ? options->stack_bytes : 0,
                .take = infp_off_cpu_take,
                .take_context = &off_cpu->waits,
        };

        if (infp_target_mode(options->env->target) == INFP_MODE_HOST)
                return infp_fail(
                        err, -ENOTSUP,
                        "--off-cpu follows the threads of a target: give a command, or --pid, --name or --port");
        if (!context->perf)
                return infp_fail(err, -EACCES, "%s; --wall shows waits without it, by samples", context->perf_problem);
        off_cpu->context = context;
        off_cpu->has_stacks = infp_perf_may(context->perf).switch_samples;
        if (!off_cpu->has_stacks) {
                reader.rate_hz = READS_HZ;
                say_no_stacks(off_cpu);
        }
        infp_off_cpu_waits_init(&off_cpu->waits, context->stacks, options->least_wait_ns);
        off_cpu->waits.context = context;
        return infp_wall_reader_start(&reader, &off_cpu->waits.reader, err);
}

static void moved(void *state, const struct infp_perf_sample *sample)
{
        struct off_cpu *off_cpu = state;

        if (sample->wait)
                infp_off_cpu_waited(&off_cpu->waits, sample);
        else
                infp_off_cpu_moved(&off_cpu->waits, sample);
}

static void look_at_thread(void *state, int key, const struct infp_switch_thread *thread)
{
        struct off_cpu *off_cpu = state;

        if (infp_perf_is_target(off_cpu->context->perf, thread->pid))
                infp_off_cpu_look(&off_cpu->waits, key, thread, off_cpu->began_ns);
}

/* What the kernel has summed, and who waits since before that time. */
static void look(struct off_cpu *off_cpu, uint64_t began_ns)
{
        off_cpu->began_ns = began_ns;
        infp_bpf_switch_threads(off_cpu->context->filter, look_at_thread, off_cpu);
}

/* A thread that has ended. Its number in the kernel is known if it was looked at before, or if we are in the first pid namespace. */
static void look_last(struct off_cpu *off_cpu, int32_t tid)
{
        struct infp_bpf *filter = off_cpu->context->filter;
        struct infp_switch_thread thread;
        int key = infp_off_cpu_key(&off_cpu->waits, tid);

        if (!infp_bpf_switch_thread(filter, key, &thread) || thread.tid != tid) {
                look(off_cpu, 0);
                key = infp_off_cpu_key(&off_cpu->waits, tid);
                if (!infp_bpf_switch_thread(filter, key, &thread) || thread.tid != tid)
                        return;
        }
        infp_off_cpu_look(&off_cpu->waits, key, &thread, 0);
        infp_bpf_forget_switches(filter, key);
}

static void run(void *state, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in, bool is_preempted)
{
        struct off_cpu *off_cpu = state;

        infp_off_cpu_run(&off_cpu->waits, t_ns, pid, tid, is_in, is_preempted);
}

static void forked(void *state, int32_t pid, int32_t tid)
{
        struct off_cpu *off_cpu = state;

        infp_wall_reader_hint(off_cpu->waits.reader, pid);
        infp_off_cpu_fork(&off_cpu->waits, pid, tid);
}

static void executed(void *state, int32_t pid)
{
        struct off_cpu *off_cpu = state;

        infp_wall_reader_hint(off_cpu->waits.reader, pid);
}

static void exited(void *state, uint64_t t_ns, int32_t tid)
{
        struct off_cpu *off_cpu = state;

        if (off_cpu->context->filter)
                look_last(off_cpu, tid);
        infp_wall_reader_drain(off_cpu->waits.reader, true); /* after its end nobody knows its name */
        infp_off_cpu_exit(&off_cpu->waits, t_ns, tid);
}

static void on_python(void *state, int32_t pid, uint64_t program, const struct infp_python *python)
{
        struct off_cpu *off_cpu = state;

        infp_wall_reader_python(off_cpu->waits.reader, pid, python ? infp_wall_python_new(program, python) : NULL);
}

static void say_cost(struct off_cpu *off_cpu)
{
        char reason[320];

        snprintf(reason, sizeof(reason),
                 "the target switches %s times a second; recording this costs it about %s %% of a CPU (estimated): it "
                 "runs slower than without --off-cpu",
                 infp_fixed(off_cpu->cost.rate, 0).text, infp_fixed(100 * off_cpu->cost.share, 0).text);
        off_cpu->context->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_emit_source(off_cpu->context->emit, &infp_table_stack_samples, -1,
                         infp_stack_modes[INFP_STACK_OFF_CPU].name, INFP_LATE, reason,
                         "--wall shows where threads wait, at a cost that does not grow with their switches");
}

/* By the times of the switches: we may read them late, and many at once. */
static void watch_cost(struct off_cpu *off_cpu)
{
        const struct infp_off_cpu_waits *waits = &off_cpu->waits;
        const uint64_t n = waits->n_switches, lost = infp_perf_lost_switches(off_cpu->context->perf);
        const uint64_t bare = waits->n_filtered + lost;
        const double copied = off_cpu->has_stacks && n > bare ? (double) (n - bare) : 0;

        if (infp_off_cpu_is_costly(&off_cpu->cost, n, (double) n * switch_s + copied * stack_s, waits->switched_ns))
                say_cost(off_cpu);
}

static uint64_t turn(void *state, uint64_t now_ns)
{
        struct off_cpu *off_cpu = state;
        bool has_more;

        off_cpu->waits.is_timed = off_cpu->context->filter != NULL;
        has_more = infp_wall_reader_drain(off_cpu->waits.reader, false);
        if (off_cpu->context->filter && now_ns - off_cpu->looked_ns >= INFP_NS_PER_S) {
                look(off_cpu, now_ns - INFP_NS_PER_S);
                off_cpu->looked_ns = now_ns;
        }
        infp_off_cpu_turn(&off_cpu->waits, now_ns);
        watch_cost(off_cpu);
        return has_more ? now_ns : now_ns + TURN_NS;
}

static void end(void *state, uint64_t now_ns)
{
        struct off_cpu *off_cpu = state;

        infp_wall_reader_stop(off_cpu->waits.reader);
        infp_wall_reader_drain(off_cpu->waits.reader, true);
        if (off_cpu->context->filter)
                look(off_cpu, now_ns);
        infp_off_cpu_end(&off_cpu->waits, now_ns);
}

static void count(void *state, struct infp_mode_counts *ret)
{
        const struct off_cpu *off_cpu = state;
        struct infp_wall_reader_counts counts;

        infp_wall_reader_counts(off_cpu->waits.reader, &counts);
        ret->method = off_cpu->context->filter ? "BPF at switches, perf events of waits"
                      : off_cpu->has_stacks    ? "perf events of switches"
                                               : "perf records of switches, and reading /proc";
        ret->lost = off_cpu->waits.n_lost + off_cpu->waits.n_refused + infp_perf_lost_switches(off_cpu->context->perf);
        if (off_cpu->context->filter)
                ret->lost += infp_bpf_switches_full(off_cpu->context->filter);
        ret->has_torn = true;
        ret->torn = counts.n_torn;
        ret->own_cpu_ns = counts.own_cpu_ns;
}

static void close_off_cpu(void *state)
{
        struct off_cpu *off_cpu = state;

        off_cpu->waits.reader = infp_wall_reader_free(off_cpu->waits.reader);
        infp_off_cpu_waits_done(&off_cpu->waits);
}

const struct infp_sampler_mode infp_sampler_mode_off_cpu = {
        .mode = INFP_STACK_OFF_CPU,
        .state_size = sizeof(struct off_cpu),
        .is_wanted = is_wanted,
        .ask = ask,
        .open = open_off_cpu,
        .moved = moved,
        .run = run,
        .fork = forked,
        .exec = executed,
        .exit = exited,
        .python = on_python,
        .turn = turn,
        .end = end,
        .counts = count,
        .close = close_off_cpu,
};
