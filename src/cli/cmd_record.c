/* infprof record: records a command and its tree, an attached target, or the machine. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/discard.h"
#include "app/finish_child.h"
#include "app/preload.h"
#include "app/python_start.h"
#include "app/record_info.h"
#include "app/static_sink.h"
#include "base/cache_directory.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/record_options.h"
#include "collect/target.h"
#include "collectors/python.h"
#include "record/own_cgroup.h"
#include "record/session.h"
#include "record/tail.h"
#include "ring/where.h"
#include "sampler/stacks/stack.h"
#include "store/live.h"
#include "store/run_json.h"
#include "store/store.h"
#include "view/snapshot/snapshot.h"

/* The end of a captured output: what has been written but not yet copied to standard output. */
enum { LOOK_MS = 10 };

static bool show_output(struct infp_capture *capture, struct infp_signals *signals, unsigned patience_ms)
{
        uint64_t bytes = 0, since_ns = infp_clock_ns(CLOCK_MONOTONIC);

        for (;;) {
                const struct infp_capture_shown shown = infp_capture_shown(capture);
                const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);

                if (shown.is_over)
                        return true;
                if (shown.bytes != bytes) {
                        bytes = shown.bytes;
                        since_ns = now;
                }
                if (now - since_ns >= patience_ms * INFP_NS_PER_MS || infp_signals_end(signals, LOOK_MS))
                        return false;
        }
}

static void say_output(struct infp_capture *capture, bool child_left)
{
        const struct infp_capture_shown shown = infp_capture_shown(capture);
        const struct infp_capture_sums sums = infp_capture_sums(capture);

        if (!shown.is_over)
                infp_say("standard output was closed before the last %s bytes of the command: they are in %s",
                         infp_count(shown.of - shown.bytes).text, infp_capture_path(capture));
        if (sums.skipped)
                infp_say("%s bytes of what the command wrote were removed by --capture-limit before they "
                         "could be copied to standard output",
                         infp_count(sums.skipped).text);
        if (child_left)
                infp_say("its further output goes only to %s, whose size is no longer limited",
                         infp_capture_path(capture));
}

/* A tree may start hundreds of processes between two ticks, each with 4 KiB of arguments. Unused memory costs nothing. */
enum { RING_BYTES = 4 << 20, MAX_SINKS = 4, SAY_PATIENCE_MS = 100 };
enum { SHOW_PATIENCE_MS = 2000, LAST_PATIENCE_MS = 10000 };
/* A running target needs a perf event per thread and CPU. */
enum { ENOUGH_DESCRIPTORS = 4096, MANY_DESCRIPTORS = 1 << 17, FEW_DESCRIPTORS = 24 };

/* Static storage: a thread that hangs in a collector may use env and stats until the program ends. */
static struct record {
        struct infp_record_options options;
        struct infp_env env;
        struct infp_stats stats;
        struct infp_child child;
        struct infp_follow follow;
        struct infp_signals signals;
        struct infp_run_info info;
        struct infp_run *run;
        struct infp_live *live;
        struct infp_capture *capture;
        struct infp_own_cgroup own_cgroup;
        struct infp_sink *tail, *snapshot, *static_record, *store;
        struct infp_sink *sinks[MAX_SINKS];
        unsigned n_sinks;
        struct infp_session_result result;
        bool is_saved;       /* run.json has the end */
        int save_error;      /* why not */
        char path[PATH_MAX]; /* of <uuid>.infprof */
} record = { .env = { .root_fd = -1 } };

/* From any thread while recording: a full pipe without a reader must not block. */
static void say(void *context, const char *text)
{
        static unsigned n_unsaid;
        struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };
        unsigned n;

        (void) context;
        if (poll(&fd, 1, SAY_PATIENCE_MS) == 0) {
                __atomic_fetch_add(&n_unsaid, 1, __ATOMIC_RELAXED);
                return;
        }
        n = __atomic_exchange_n(&n_unsaid, 0, __ATOMIC_RELAXED);
        if (n)
                infp_say("%u message%s could not be written: standard error is not read", n, n == 1 ? "" : "s");
        infp_say("%s", text);
}

/* A sentence that belongs to the recording as a whole. */
static int fail_ours(const struct infp_err *err)
{
        infp_say("record: %s", err->text);
        return INFP_EXIT_OURS;
}

/* The environment, and the target in it. */
static int open_target(struct record *r, struct infp_err *err)
{
        const struct infp_record_options *o = &r->options;
        enum infp_mode mode = o->command ? INFP_MODE_RUN : infp_record_attaches(o) ? INFP_MODE_PID : INFP_MODE_HOST;

        INFP_TRY(infp_env_open(&r->env, o->root, err));
        r->env.settings = o->settings;
        r->env.period_ms = o->period_ms;
        r->env.stats = &r->stats;
        if (mode == INFP_MODE_PID)
                INFP_TRY(infp_follow_init(&r->follow, &o->follow, &r->env, err));
        return infp_target_new(mode, o->all_processes, &r->env.target, err);
}

/* Sources keep files open: raises our limit, not that of the command, which has already started. Returns the limit. */
static rlim_t raise_descriptor_limit(rlim_t wanted)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return RLIM_INFINITY;
        if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
        return limit.rlim_cur;
}

static int open_capture(struct record *r, struct infp_err *err)
{
        const struct infp_capture_options options = {
                .directory_fd = r->run->output_fd,
                .mode = infp_run_file_mode(r->run),
                .directory = r->options.output,
                .uuid = r->info.uuid,
                .limit_bytes = r->options.capture_limit,
                .period_ms = r->options.period_ms,
        };

        return infp_capture_open(&options, &r->capture, err);
}

/* Returns how many variables. Without it stacks have no Python frames, and the heap is not sampled. */
static unsigned preload_sampler(struct record *r, struct infp_preload *preload, const char **variables)
{
        struct infp_sampler_options *options = &r->options.sampler;
        const bool has_sampler = infp_preload_is_wanted(options);
        struct infp_err err = { "" };
        int n;

        if (!r->options.command || (!has_sampler && !options->heap_bytes))
                return 0;
        n = infp_preload_variables(options, has_sampler, preload, variables, &err);
        options->is_inside = has_sampler && n > 0;
        if (n < 0 && options->heap_bytes)
                infp_say("record: the heap is not recorded: %s", err.text);
        else if (n < 0 && options->python == INFP_PYTHON_INSIDE)
                infp_say("record: Python frames are not recorded: %s", err.text);
        options->heap_bytes = n < 0 ? 0 : options->heap_bytes;
        return n < 0 ? 0 : (unsigned) n;
}

/* Returns how many variables. Without them Python programs of the command run as they are. */
static unsigned load_package(struct record *r, struct infp_python_start *start, const char **variables)
{
        struct infp_err err = { "" };
        const char refusal = r->options.python_package ? infp_python_refusal(r->options.command) : 0;
        int n;

        if (!r->options.python_package)
                return 0;
        n = infp_python_start_variables(r->options.torch, r->options.torch_budget, start, variables, &err);
        if (n < 0)
                infp_say("record: Python programs do not load infprof's package: %s", err.text);
        else if (refusal)
                infp_say("record: with -%c %s does not load infprof's package", refusal, r->options.command[0]);
        return n < 0 ? 0 : (unsigned) n;
}

/* Forks the command before this process changes, see child.h. */
static int open_child(struct record *r, struct infp_err *err)
{
        char variable[64];
        /* An INFPROF_RING that the user set is kept. */
        const char *more[3 + INFP_JIT_NAMES + INFP_PRELOAD_VARIABLES + INFP_PYTHON_START_VARIABLES] = { variable };
        infp_cleanup(infp_python_start_done) struct infp_python_start start = { 0 };
        struct infp_jit_names jit_names;
        struct infp_preload preload;
        unsigned n = 1;
        struct infp_err own = { "" };

        snprintf(variable, sizeof(variable), "INFPROF_RUN=%s", r->info.uuid);
        if (!getenv(INFP_RING_ENV))
                more[n++] = INFP_RING_ENV "=1";
        n += load_package(r, &start, more + n);
        n += preload_sampler(r, &preload, more + n);
        if (r->options.jit_names)
                infp_jit_names_variables(&jit_names, more + n);
        if (r->options.capture)
                INFP_TRY(open_capture(r, err));
        if (r->options.command)
                INFP_TRY(infp_child_fork(&r->child, r->options.command, more,
                                         r->capture ? infp_capture_child_fd(r->capture) : -1, err));
        if (r->options.own_cgroup &&
            infp_own_cgroup_make(&r->own_cgroup, &r->env, r->info.uuid, r->child.pid, &own) < 0)
                infp_say("record: %s; the command runs in infprof's cgroup", own.text);
        return infp_signals_open(&r->signals, r->options.command != NULL, err);
}

static void add_sink(struct record *r, struct infp_sink *sink)
{
        r->sinks[r->n_sinks++] = sink;
}

static int open_sinks(struct record *r, struct infp_err *err)
{
        INFP_TRY(infp_tail_new(r->options.period_ms, &r->tail, err));
        infp_tail_use_env(r->tail, &r->env);
        add_sink(r, r->tail);
        if (!r->options.no_snapshots) {
                const struct infp_snapshot_options options = {
                        .last = infp_tail_last(r->tail),
                        .output_fd = r->run->output_fd,
                        .mode = infp_run_file_mode(r->run),
                        .uuid = r->info.uuid,
                        .limit_bytes = r->options.snapshot_limit,
                        .notice = say,
                };

                INFP_TRY(infp_snapshot_sink_new(&options, &r->snapshot, err));
                add_sink(r, r->snapshot);
        }
        INFP_TRY(infp_static_sink_new(r->run, &r->static_record, err));
        add_sink(r, r->static_record);
        INFP_TRY(infp_store_sink_new(r->run, NULL, &r->store, err));
        add_sink(r, r->store);
        return 0;
}

static int begin(struct record *r, struct infp_err *err)
{
        struct infp_err live_err = { "" };
        rlim_t n;

        INFP_TRY(open_target(r, err));
        infp_uuid_make(r->info.uuid);
        INFP_TRY(infp_record_info(&r->options, &r->env, &r->info, err));
        INFP_TRY(infp_run_create(r->options.output, &r->info, &r->run, err));
        snprintf(r->path, sizeof(r->path), "%s/%s.infprof", r->options.output, r->info.uuid);
        if (infp_sampler_is_asked(&r->options.sampler))
                r->options.sampler.cache_directory = infp_cache_path(INFP_STACKS_CACHE);
        INFP_TRY(open_child(r, err));
        INFP_TRY(open_sinks(r, err));
        n = raise_descriptor_limit(infp_sampler_is_asked(&r->options.sampler) ? MANY_DESCRIPTORS : ENOUGH_DESCRIPTORS);
        if (n < INFP_ENOUGH_FDS)
                infp_say("record: only %d descriptors are allowed (ulimit -n): engines, containers and energy are not "
                         "recorded%s",
                         (int) n, n < FEW_DESCRIPTORS ? ", and `infprof mark` cannot find this run" : "");
        if (n < FEW_DESCRIPTORS)
                return 0;
        if (infp_live_publish(r->info.uuid, r->options.output, &r->live, &live_err) < 0)
                infp_say("record: %s (the recording goes on; `infprof mark` will not find it)", live_err.text);
        return 0;
}

static uint64_t bytes_written(void *context)
{
        return infp_store_bytes(context);
}

/* Writes the attached target to run.json. A failure is reported when the end is saved. */
static void note_target(void *context, pid_t pid)
{
        struct record *r = context;
        struct infp_err err = { "" };
        char *text = infp_record_command_of(&r->env, pid, r->options.keep_secrets);

        if (!text)
                return;
        free(r->run->info.target_command);
        r->run->info.target_command = text;
        infp_run_save(r->run, &err);
}

static int run_session(struct record *r, struct infp_err *err)
{
        const struct infp_session_options options = {
                .env = &r->env,
                .child = r->options.command ? &r->child : NULL,
                .follow = infp_record_attaches(&r->options) ? &r->follow : NULL,
                .found = note_target,
                .found_context = r,
                .signals = &r->signals,
                .live = r->live,
                .run = r->info.uuid,
                .capture = r->capture,
                .sinks = r->sinks,
                .n_sinks = r->n_sinks,
                .bytes_written = bytes_written,
                .bytes_context = r->store,
                .ring_bytes = RING_BYTES,
                .sampler = infp_sampler_is_asked(&r->options.sampler) ? &r->options.sampler : NULL,
                .duration_ns = r->options.duration_ns,
                .baseline_ns = r->options.baseline_ns,
                .child_only = r->options.child_only,
                .notices = { .say = say, .n = &r->stats.notices },
                .stats = &r->stats,
        };

        return infp_session_run(&options, &r->result, err);
}

/* Writes the end to run.json. On failure the recorded data stays, but the run cannot be finished while this process lives. */
static void save_run(struct record *r)
{
        struct infp_run_info *info = &r->run->info;
        struct infp_err err = { "" };

        if (r->result.started_t_ns) {
                info->started_t_ns = r->result.started_t_ns;
                info->started_unix_ns = r->result.started_unix_ns;
        }
        info->ended_t_ns = r->result.ended_t_ns ? r->result.ended_t_ns : infp_clock_ns(CLOCK_MONOTONIC);
        info->ended_unix_ns =
                r->result.ended_unix_ns ? r->result.ended_unix_ns : (int64_t) infp_clock_ns(CLOCK_REALTIME);
        info->exit_code = r->options.command && !r->result.is_child_left ? r->result.exit_code : -1;
        info->exit_signal = r->result.exit_signal;
        r->save_error = infp_run_save(r->run, &err);
        r->is_saved = r->save_error >= 0;
        if (!r->is_saved)
                infp_say("record: %s", err.text);
}

static void close_run(struct record *r)
{
        infp_snapshot_sink_free(r->snapshot);
        infp_tail_free(r->tail);
        infp_static_sink_free(r->static_record);
        infp_store_sink_free(r->store);
        r->live = infp_live_withdraw(r->live);
        r->run = infp_run_close(r->run); /* unlocks it: finish may begin */
        infp_own_cgroup_remove(&r->own_cgroup, &r->env);
        if (r->result.is_hung) {
                infp_thread_leave_behind();
        } else {
                r->env.target = infp_target_free(r->env.target);
                infp_env_close(&r->env);
        }
        infp_follow_done(&r->follow);
        infp_run_info_done(&r->info);
}

static void say_unsaved(const struct record *r, const char *seconds)
{
        const bool is_full = r->save_error == -ENOSPC || r->save_error == -EDQUOT;

        if (access(r->path, F_OK) < 0 && errno == ENOENT)
                infp_say("%s s were recorded, but %s was removed: there is nothing to finish", seconds, r->path);
        else
                infp_say("%s s recorded, but not finished: %s`infprof finish -r %s` writes its files", seconds,
                         is_full ? "when there is room for run.json, " : "", r->path);
}

/* Prints what the files lack. The report has it too, but scripts may look only at the exit code. */
static bool say_lost(const struct record *r)
{
        const uint64_t n = __atomic_load_n(&r->stats.rows_lost, __ATOMIC_RELAXED);

        if (n)
                infp_say("%s row%s of the recording could not be written and %s lost", infp_count(n).text,
                         n == 1 ? "" : "s", n == 1 ? "is" : "are");
        return n > 0;
}

static void finish(struct record *r)
{
        const double seconds = (double) (r->result.ended_t_ns - r->result.started_t_ns) / (double) INFP_NS_PER_S;
        const struct human lasted = infp_fixed(seconds, 1);

        if (r->result.is_child_left)
                infp_say("the recording has ended; %s (process %d) still runs", r->options.command[0],
                         (int) r->child.pid);
        if (r->result.exit_signal && r->result.exit_signal != SIGINT && r->result.exit_signal != SIGTERM)
                infp_say("%s was killed by signal %d (%s)", r->options.command[0], r->result.exit_signal,
                         strsignal(r->result.exit_signal));
        if (!r->is_saved)
                say_unsaved(r, lasted.text);
        else if (r->options.no_finish)
                infp_say("%s s recorded; `infprof finish -r %s` writes its files", lasted.text, r->path);
        else if (r->result.skip_finish || !infp_finish_child(r->path, &r->signals, &infp_said))
                infp_say("%s s recorded, but not finished: `infprof finish -r %s` writes its files", lasted.text,
                         r->path);
        else
                infp_say("%s s recorded; read it with `infprof report -r %s`", lasted.text, r->path);
}

/* A slow reader of our standard output is not waited for indefinitely. */
static void end_output(struct record *r, bool shown)
{
        if (!shown)
                show_output(r->capture, &r->signals, LAST_PATIENCE_MS);
        say_output(r->capture, r->result.is_child_left);
        r->capture = infp_capture_free(r->capture);
}

/* The recording is over but the command runs on, and as process 1 of a container we would end it: waits for it, passes
 * signals on, and returns its exit code. */
static int stay(struct infp_child *child, struct infp_signals *signals)
{
        struct pollfd fd = { .fd = signals->fd, .events = POLLIN };
        struct infp_signal signal;

        for (;;) {
                infp_child_reap(child, NULL);
                if (child->state == INFP_CHILD_ENDED)
                        return infp_child_exit_code(child);
                poll(&fd, 1, 1000);
                while (infp_signals_next(signals, &signal))
                        if (signal.number != SIGCHLD && signal.by_process)
                                kill(child->pid, signal.number);
        }
}

static int record_it(struct record *r)
{
        bool shown = true;
        struct infp_err err = { "" };
        int code, error = begin(r, &err);

        if (error >= 0)
                error = run_session(r, &err);
        if (r->options.command)
                infp_child_abandon(&r->child);
        if (error >= 0 && infp_record_attaches(&r->options) && !r->follow.was_found) {
                error = infp_fail(&err, -ESRCH, "nothing was recorded: %s", r->follow.reason);
                infp_discard_run(r->run); /* the machine alone was not asked for */
        } else if (r->run) {
                save_run(r);
        }
        close_run(r);
        if (error < 0)
                return fail_ours(&err);
        if (r->options.command && !r->result.was_run) {
                infp_say("record: %s", err.text);
                return r->result.exit_code;
        }
        code = r->result.exit_code;
        if (r->capture)
                shown = show_output(r->capture, &r->signals, SHOW_PATIENCE_MS);
        if (say_lost(r) && !r->options.command)
                code = INFP_EXIT_FAILURE;
        finish(r);
        if (r->capture)
                end_output(r, shown);
        /* As process 1 of a container we would end it, and the command with it. */
        if (r->result.is_child_left && getpid() == 1)
                code = stay(&r->child, &r->signals);
        return code;
}

/* If we start without standard descriptors, our own files would get their numbers, and messages would go into one of them.
 * Closed at exec, so that the command has none either. */
static void hold_standard_descriptors(void)
{
        int fd;

        do
                fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        infp_close(fd);
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_err err = { "" };
        int code;

        hold_standard_descriptors();
        if (infp_record_options_read(arguments, &record.options, &err) < 0)
                return fail_ours(&err);
        if (record.options.command && infp_child_check(record.options.command, &code, &err) < 0) {
                infp_say("record: %s", err.text);
                return code;
        }
        return record_it(&record);
}

const struct infp_command infp_command_record = {
        .name = "record",
        .summary = "record a command and its process tree, a running process, or this machine",
        .operands = "[-- CMD...]",
        .options = infp_record_option_table,
        .stop_at_operand = true,
        .usage_code = INFP_EXIT_OURS, /* as env(1): what is below 125 is the command's own */
        .more = "Without a command, --pid, --name or --port, infprof records the machine until Ctrl-C. The command "
                "keeps its terminal,\n"
                "its signals and its exit code. Without a command the exit code is 0, or 1 if rows were lost. 125: "
                "infprof failed before\n"
                "the command ran; 126, 127: the command cannot be run. Messages of infprof go to standard error.\n"
                "\n"
                "infprof passes signals on to the command. Signal infprof or the command, not both: a signal to their "
                "process group or\n"
                "cgroup (kill -TERM -PGID) reaches the command twice.\n"
                "\n"
                "Programs that use libinfprof record their spans, marks and counters: infprof sets INFPROF_RING=1 for "
                "the command, unless\n"
                "INFPROF_RING is set already (0: do not record; a directory: keep the ring files there).\n"
                "\n"
                "With --capture, standard output and error are a file, so that infprof can never block the command. "
                "The command then has\n"
                "no terminal, and many programs buffer their output: PYTHONUNBUFFERED=1 or python -u change that. "
                "Lines\n"
                "'measure_label-TAG: UNIX_SECONDS' in the output become marks: see report --labels and "
                "docs/labels.md.\n"
                "\n"
                "examples:\n"
                "  infprof record -- vllm serve Qwen/Qwen3-0.6B\n"
                "  infprof record -t 100 -f csv -o ./out --name vllm --duration 5m\n"
                "  infprof record --capture -t 50 -- python -m package\n"
                "  infprof -o ./output -t 1000",
        .run = run,
};
