#include "base/human.h"
#include "sampler/mode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "collect/target.h"
#include "sampler/waits/wall_reader.h"
#include "sampler/waits/wall_rows.h"

enum { REASON = 256 };
#define TURN_NS (200 * INFP_NS_PER_MS) /* the reader wakes us; this is for what it cannot say */
#define SLOW_NS INFP_NS_PER_S          /* a burst of new threads is no lasting state */
#define MAPPINGS_NS INFP_NS_PER_S      /* without perf nothing reports new mappings: they are read again so often */

struct wall {
        const struct infp_mode_context *context;
        struct infp_wall_rows rows;
        uint64_t mappings_ns;
        uint64_t slow_ns; /* since when the rate has been reduced; 0: it is not */
        double said_rate; /* the reduced rate that `sources` has; 0: none */
        bool has_said_refused, has_said_queue, has_said_gil;
};

static bool is_wanted(const struct infp_sampler_options *options)
{
        return options->wall_hz > 0;
}

/* The stacks of threads that run, where the mode cpu does not ask for them. */
static void ask(const struct infp_sampler_options *options, struct infp_perf_options *ret)
{
        if (!(options->cpu_hz > 0) || options->is_blocking)
                ret->hz = INFP_SAMPLER_DEFAULT_HZ;
}

static int open_wall(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        const struct infp_sampler_options *options = context->options;
        struct wall *wall = state;
        const struct infp_wall_reader_options reader = {
                .context = context,
                .rate_hz = options->wall_hz,
                .stack_bytes = !options->env->is_live                                 ? 0
                               : options->stack_bytes < INFP_SAMPLER_FAST_STACK_BYTES ? options->stack_bytes
                                                                                      : INFP_SAMPLER_FAST_STACK_BYTES,
                .take = infp_wall_rows_take,
                .take_context = &wall->rows,
        };

        if (infp_target_mode(options->env->target) == INFP_MODE_HOST)
                return infp_fail(err, -ENOTSUP,
                                 "--wall reads the threads of a target: give a command, or --pid, --name or --port");
        wall->context = context;
        infp_wall_rows_init(&wall->rows, context->stacks);
        wall->rows.context = context;
        return infp_wall_reader_start(&reader, &wall->rows.reader, err);
}

static void sample(void *state, const struct infp_perf_sample *sample)
{
        struct wall *wall = state;

        infp_wall_reader_hint(wall->rows.reader, sample->pid);
        infp_wall_rows_ran(&wall->rows, sample);
}

static void forked(void *state, int32_t pid, int32_t tid)
{
        struct wall *wall = state;

        (void) tid;
        infp_wall_reader_hint(wall->rows.reader, pid);
}

static void executed(void *state, int32_t pid)
{
        struct wall *wall = state;

        infp_wall_reader_hint(wall->rows.reader, pid);
}

static void exited(void *state, uint64_t t_ns, int32_t tid)
{
        struct wall *wall = state;

        (void) t_ns;
        infp_wall_reader_drain(wall->rows.reader, true); /* after its end nobody knows its name */
        infp_wall_rows_exited(&wall->rows, tid);
}

static void on_python(void *state, int32_t pid, uint64_t program, const struct infp_python *python)
{
        const struct infp_sampler_options *options = ((struct wall *) state)->context->options;
        struct infp_wall_python *read = python ? infp_wall_python_new(program, python) : NULL;
        struct wall *wall = state;

        if (read && options->async)
                infp_wall_python_want_tasks(read, python, options->env->root_fd);
        infp_wall_reader_python(wall->rows.reader, pid, read);
}

/* ---- what could not be had ---- */

static void say_refused(struct wall *wall, const struct infp_wall_refused *refused)
{
        const int r = refused->call ? refused->call : refused->stack;
        char reason[REASON];

        if (wall->has_said_refused || !r)
                return;
        wall->has_said_refused = true;
        snprintf(reason, sizeof(reason), "%s of process %d cannot be read: %s; its blocked threads have no stack",
                 refused->call ? "/proc/PID/task/TID/syscall" : "the memory (process_vm_readv)", refused->pid,
                 strerror(r));
        infp_emit_source(wall->context->emit, &infp_table_stack_samples, INFP_STACK_SAMPLES_STACK,
                         infp_stack_modes[INFP_STACK_WALL].name, infp_source_state_of(-r), reason,
                         r == EPERM || r == EACCES ? "record as the user of the target, or with CAP_SYS_PTRACE; "
                                                     "kernel.yama.ptrace_scope=0 permits it for your own processes"
                                                   : NULL);
}

static void say_queue(struct wall *wall, const struct infp_wall_reader_counts *counts)
{
        if (wall->has_said_queue || !counts->tasks.no_queue)
                return;
        wall->has_said_queue = true;
        infp_emit_source(wall->context->emit, &infp_table_stack_samples, -1, infp_stack_modes[INFP_STACK_LAG].name,
                         INFP_ABSENT,
                         "an event loop keeps its callbacks where they are not read, as uvloop does: whether one of "
                         "them held it is not known",
                         "run the program with asyncio's own loop to see it");
}

/* It may be switched on at any time, by a module that needs it. */
static void say_gil(struct wall *wall, const struct infp_wall_reader_counts *counts)
{
        char reason[REASON];

        if (wall->has_said_gil || !counts->gil_off_pid)
                return;
        wall->has_said_gil = true;
        snprintf(reason, sizeof(reason),
                 "Python in process %d is free-threaded, and its GIL is off: there is none to hold or to wait for",
                 counts->gil_off_pid);
        infp_emit_source(wall->context->emit, &infp_table_stack_samples, INFP_STACK_SAMPLES_GIL,
                         infp_stack_modes[INFP_STACK_WALL].name, INFP_ABSENT, reason, NULL);
}

static bool is_near(double a, double b)
{
        return a < b * 1.3 && b < a * 1.3;
}

/* Fewer rounds than asked for, said again when that changes by much. */
static void say_rate(struct wall *wall, const struct infp_wall_reader_counts *counts, uint64_t now_ns)
{
        const double asked = wall->context->options->wall_hz;
        char reason[REASON];

        if (counts->rate_hz > 0.9 * asked) {
                if (wall->said_rate > 0)
                        infp_emit_source(wall->context->emit, &infp_table_stack_samples, -1,
                                         infp_stack_modes[INFP_STACK_WALL].name, INFP_OK, NULL, NULL);
                wall->said_rate = 0;
                wall->slow_ns = 0;
                return;
        }
        if (!wall->slow_ns)
                wall->slow_ns = now_ns;
        if (now_ns - wall->slow_ns < SLOW_NS)
                return;
        if (wall->said_rate > 0 && is_near(counts->rate_hz, wall->said_rate))
                return;
        wall->said_rate = counts->rate_hz;
        snprintf(reason, sizeof(reason),
                 "all %s threads are read %s times a second instead of %s: more than %u reads a second cost too much",
                 infp_count(counts->n_threads).text, infp_number(counts->rate_hz).text, infp_number(asked).text,
                 INFP_WALL_READS_PER_S);
        infp_emit_source(wall->context->emit, &infp_table_stack_samples, -1, infp_stack_modes[INFP_STACK_WALL].name,
                         INFP_LATE, reason,
                         "weights are those of the lower rate: shares are right; short waits are seen less often");
}

/* ---- */

static uint64_t turn(void *state, uint64_t now_ns)
{
        struct infp_wall_reader_counts counts;
        struct wall *wall = state;

        if (!wall->context->perf && now_ns - wall->mappings_ns >= MAPPINGS_NS) {
                wall->mappings_ns = now_ns;
                infp_stacks_lost(wall->context->stacks);
        }
        if (infp_wall_reader_drain(wall->rows.reader, false))
                return now_ns;
        infp_wall_reader_want_running(wall->rows.reader,
                                      wall->context->pythons && !infp_pythons_have_program(wall->context->pythons));
        infp_wall_reader_counts(wall->rows.reader, &counts);
        wall->context->emit->t_ns = now_ns;
        say_refused(wall, &counts.refused);
        say_queue(wall, &counts);
        say_gil(wall, &counts);
        if (counts.wanted)
                say_rate(wall, &counts, now_ns);
        return now_ns + TURN_NS;
}

static void end(void *state, uint64_t now_ns)
{
        struct wall *wall = state;

        (void) now_ns;
        infp_wall_reader_stop(wall->rows.reader);
        infp_wall_reader_drain(wall->rows.reader, true);
        infp_wall_rows_end(&wall->rows);
}

static void count(void *state, struct infp_mode_counts *ret)
{
        struct infp_wall_reader_counts counts;
        struct wall *wall = state;

        infp_wall_reader_counts(wall->rows.reader, &counts);
        *ret = (struct infp_mode_counts){
                .method = "reading /proc",
                .rate_hz = counts.rate_hz,
                .has_wanted = true,
                .wanted = counts.wanted,
                .lost = counts.lost,
                .has_torn = true,
                .torn = counts.n_torn,
                .own_cpu_ns = counts.own_cpu_ns - counts.tasks.own_cpu_ns - counts.tasks.lag_cpu_ns,
        };
}

static enum infp_stack_mode also(void *state, unsigned i, struct infp_mode_counts *ret)
{
        struct infp_wall_reader_counts counts;
        const struct wall *wall = state;
        const bool is_lag = i == 1;

        if (!wall->context->options->async || i > 1)
                return INFP_STACK_MODES;
        infp_wall_reader_counts(wall->rows.reader, &counts);
        *ret = (struct infp_mode_counts){
                .method = is_lag ? "what event loops take from their queues, where threads are read by --wall"
                                 : "reading tasks where threads are read by --wall",
                .rate_hz = counts.rate_hz,
                .lost = is_lag ? counts.tasks.no_queue : counts.tasks.left_out,
                .own_cpu_ns = is_lag ? counts.tasks.lag_cpu_ns : counts.tasks.own_cpu_ns,
                .python_method = "reading its memory",
                .python_torn = is_lag ? 0 : counts.tasks.torn,
        };
        return is_lag ? INFP_STACK_LAG : INFP_STACK_ASYNC;
}

static void close_wall(void *state)
{
        struct wall *wall = state;

        wall->rows.reader = infp_wall_reader_free(wall->rows.reader);
        infp_wall_rows_done(&wall->rows);
}

const struct infp_sampler_mode infp_sampler_mode_wall = {
        .mode = INFP_STACK_WALL,
        .state_size = sizeof(struct wall),
        .is_wanted = is_wanted,
        .ask = ask,
        .open = open_wall,
        .sample = sample,
        .fork = forked,
        .exec = executed,
        .exit = exited,
        .python = on_python,
        .turn = turn,
        .end = end,
        .counts = count,
        .also = also,
        .close = close_wall,
};
