/* The modes that read threads from outside: "python" beside perf's native stacks, and mode cpu by stops (--blocking). */
#include "sampler/remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rights.h"
#include "base/time.h"
#include "collect/target.h"

#define TURN_NS (200 * INFP_NS_PER_MS) /* the reader wakes us */
#define MAPPINGS_NS INFP_NS_PER_S      /* without perf nothing reports new mappings: they are read again so often */

struct remote {
        const struct infp_mode_context *context;
        struct infp_wall_reader *reader;
        struct infp_remote_reads *reads; /* stays where the reader's thread does */
        uint64_t mappings_ns;
        bool has_said_refused;
};

static bool is_blocking_wanted(const struct infp_sampler_options *options)
{
        return options->cpu_hz > 0 && options->is_blocking;
}

/* The sampler adds this mode by itself where Python frames cannot be read in the interrupt (sampler.c). */
static bool is_python_wanted(const struct infp_sampler_options *options)
{
        (void) options;
        return false;
}

/* ---- samples ---- */

static void put(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        const struct remote *remote = context;

        infp_stacks_put(remote->context->stacks, found, (double) cookie / 1e9, NULL);
}

static void put_stop(struct remote *remote, const struct infp_wall_message *message)
{
        struct infp_stack_found found;
        struct infp_row *row;

        infp_stacks_thread(remote->context->stacks, message->pid, message->tid, &found);
        row = infp_emit_begin(remote->context->emit, &infp_table_thread_stops, message->moment.t_ns);
        if (found.process)
                infp_row_id(row, INFP_THREAD_STOPS_PROCESS, found.process);
        infp_row_i64(row, INFP_THREAD_STOPS_TID, message->tid);
        infp_row_i64(row, INFP_THREAD_STOPS_WAIT_NS, (int64_t) message->waited_ns);
        infp_row_i64(row, INFP_THREAD_STOPS_STOP_NS, (int64_t) message->stopped_ns);
        remote->context->emit->put(remote->context->emit->context, row);
}

static void take(void *context, const struct infp_wall_message *message)
{
        struct remote *remote = context;
        struct infp_pythons *pythons = remote->context->pythons;
        const bool is_blocking = remote->reads->is_blocking;
        struct infp_perf_sample sample;

        if (message->kind != INFP_WALL_MESSAGE_REMOTE)
                return;
        if (!message->program && pythons)
                infp_pythons_meet(pythons, message->pid, message->moment.t_ns);
        if (is_blocking)
                put_stop(remote, message);
        sample = infp_wall_sample(message, pythons);
        if (!message->is_torn && (is_blocking || sample.python))
                infp_stacks_take(remote->context->stacks, &sample, is_blocking ? INFP_STACK_CPU : INFP_STACK_PYTHON,
                                 put, remote, message->period_ns);
}

/* ---- the mode ---- */

static int open_remote(struct remote *remote, const struct infp_mode_context *context, bool is_blocking,
                       struct infp_err *err)
{
        const struct infp_sampler_options *options = context->options;
        struct infp_wall_reader_options reader = {
                .context = context,
                .rate_hz = options->cpu_hz,
                .thread_name = is_blocking ? "infprof-stops" : "infprof-python",
                .round = infp_remote_round,
                .read = infp_remote_read,
                .take = take,
                .take_context = remote,
        };

        remote->context = context;
        if (infp_target_mode(options->env->target) == INFP_MODE_HOST)
                return infp_fail(err, -ENOTSUP,
                                 "--blocking stops threads of a target: give a command, or --pid, --name or --port");
        remote->reads = calloc(1, sizeof(*remote->reads));
        if (!remote->reads)
                return infp_fail(err, -ENOMEM, "no memory for reading threads");
        remote->reads->context = context;
        remote->reads->is_blocking = is_blocking;
        remote->reads->period_ns = (uint64_t) (1e9 / options->cpu_hz);
        reader.read_context = remote->reads;
        return infp_wall_reader_start(&reader, &remote->reader, err);
}

static int open_python(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        return open_remote(state, context, false, err);
}

static int open_blocking(void *state, const struct infp_mode_context *context, struct infp_err *err)
{
        return open_remote(state, context, true, err);
}

static void begun(void *state, int32_t pid)
{
        const struct remote *remote = state;

        infp_wall_reader_hint(remote->reader, pid);
}

static void forked(void *state, int32_t pid, int32_t tid)
{
        (void) tid;
        begun(state, pid);
}

static void on_python(void *state, int32_t pid, uint64_t program, const struct infp_python *python)
{
        const struct remote *remote = state;

        infp_wall_reader_python(remote->reader, pid, python ? infp_wall_python_new(program, python) : NULL);
}

static void exited(void *state, uint64_t t_ns, int32_t tid)
{
        const struct remote *remote = state;

        (void) t_ns;
        (void) tid;
        infp_wall_reader_drain(remote->reader, true); /* after its end nobody knows its name */
}

static void say_refused(struct remote *remote)
{
        const int error = atomic_load(&remote->reads->refused), pid = atomic_load(&remote->reads->refused_pid);
        char reason[256], fix[INFP_RIGHTS_TEXT], notice[sizeof(reason) + sizeof(fix) + 2];

        if (!error || remote->has_said_refused)
                return;
        remote->has_said_refused = true;
        snprintf(reason, sizeof(reason), "threads of process %d may not be stopped: %s", pid, strerror(error));
        infp_emit_source(remote->context->emit, &infp_table_stack_samples, INFP_STACK_SAMPLES_STACK,
                         infp_stack_modes[INFP_STACK_CPU].name, infp_source_state_of(-error), reason,
                         infp_rights_stop_fix(remote->context->options->env->root_fd, pid, pid,
                                              "record --cpu --blocking --pid", fix, sizeof(fix)));
        snprintf(notice, sizeof(notice), "%s; %s", reason, fix);
        remote->context->options->notice(remote->context->options->notice_context, notice);
}

static uint64_t turn(void *state, uint64_t now_ns)
{
        struct remote *remote = state;

        if (!remote->context->perf && now_ns - remote->mappings_ns >= MAPPINGS_NS) {
                remote->mappings_ns = now_ns;
                infp_stacks_lost(remote->context->stacks);
        }
        if (infp_wall_reader_drain(remote->reader, false))
                return now_ns;
        remote->context->emit->t_ns = now_ns;
        say_refused(remote);
        return now_ns + TURN_NS;
}

static void end(void *state, uint64_t now_ns)
{
        struct remote *remote = state;

        (void) now_ns;
        infp_wall_reader_stop(remote->reader);
        infp_wall_reader_drain(remote->reader, true);
}

static const char *const methods[2][2] = {
        { "reading threads that have a CPU, without a stop",
          "reading threads that have a CPU or wait for one, without a stop" },
        { "stops of threads that have a CPU (ptrace)", "stops of threads that have a CPU or wait for one (ptrace)" },
};

static void count(void *state, struct infp_mode_counts *ret)
{
        const struct remote *remote = state;
        const struct infp_remote_reads *reads = remote->reads;
        struct infp_wall_reader_counts counts;

        infp_wall_reader_counts(remote->reader, &counts);
        *ret = (struct infp_mode_counts){
                .method = methods[reads->is_blocking][atomic_load(&reads->is_untold)],
                .rate_hz = counts.rate_hz,
                .has_wanted = true,
                .wanted = (uint64_t) ((double) atomic_load(&reads->cpu_ns) * remote->context->options->cpu_hz / 1e9),
                .lost = atomic_load(&reads->n_lost),
                .own_cpu_ns = counts.own_cpu_ns,
                .python_method = reads->is_blocking ? "reading the memory of threads that are stopped"
                                                    : "reading the memory of threads that run",
                .python_rejected = atomic_load(&reads->n_rejected),
                .python_torn = atomic_load(&reads->n_torn),
        };
}

static void close_remote(void *state)
{
        struct remote *remote = state;
        const bool is_left = remote->reader && infp_wall_reader_is_left(remote->reader);

        infp_wall_reader_free(remote->reader);
        if (!is_left)
                free(remote->reads);
}

const struct infp_sampler_mode infp_sampler_mode_python = {
        .mode = INFP_STACK_PYTHON,
        .state_size = sizeof(struct remote),
        .is_wanted = is_python_wanted,
        .open = open_python,
        .fork = forked,
        .exec = begun,
        .exit = exited,
        .python = on_python,
        .turn = turn,
        .end = end,
        .counts = count,
        .close = close_remote,
};

const struct infp_sampler_mode infp_sampler_mode_blocking = {
        .mode = INFP_STACK_CPU,
        .state_size = sizeof(struct remote),
        .is_wanted = is_blocking_wanted,
        .open = open_blocking,
        .fork = forked,
        .exec = begun,
        .exit = exited,
        .python = on_python,
        .turn = turn,
        .end = end,
        .counts = count,
        .close = close_remote,
};
