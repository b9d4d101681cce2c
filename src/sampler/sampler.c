#include "sampler/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "collect/target.h"
#include "sampler/explain.h"
#include "sampler/inside/inside.h"
#include "sampler/mode.h"
#include "sampler/names/symbols_live.h"
#include "sampler/sampler_row.h"
#include "sampler/sampler_tree.h"
#include "sampler/sampler_way.h"

enum { SAMPLER_MODES = 8, SAMPLER_ROOTS = 256 };

struct infp_sampler {
        struct infp_sampler_options options;
        struct infp_mode_context context;
        struct infp_perf *perf;            /* NULL: not allowed, or nobody wants it */
        struct infp_pythons *pythons;      /* also where only waits are timed in the kernel; NULL: neither */
        bool is_python_loading, is_prompt; /* is_prompt: records are taken as soon as they are there */
        struct infp_python_names names;
        struct infp_inside *inside; /* NULL: no sampler was preloaded */
        struct infp_stacks *stacks;
        struct infp_symbols_live *live; /* names that cannot wait for the end of the recording */
        struct infp_sampler_way way;
        struct infp_emit *emit;
        struct infp_perf_handler stacks_handler, handler; /* theirs, and ours in front of it */

        struct sampler_mode {
                const struct infp_sampler_mode *mode;
                void *state;
                uint64_t due_ns;
        } modes[SAMPLER_MODES];
        unsigned n_modes;

        /* Why something is missing, found before the thread began. */
        struct infp_err perf_err;
        const char *perf_fix;

        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t done; /* on CLOCK_MONOTONIC */
        bool is_started;
        /* Under the lock. */
        pid_t launch_pid; /* 0: nothing is asked for */
        pid_t roots[SAMPLER_ROOTS];
        size_t n_roots;
        bool has_roots, is_stopping, is_ended;
        uint64_t stop_ns;

        uint64_t row_ns, start_ns, n_lost, inside_due_ns;
        struct infp_explain explain;
        struct pollfd *fds;
        unsigned n_fds; /* of perf, after two of our own */
};

/* ---- rows that the sampler writes of itself ---- */

#define say(sampler, ...) infp_explain_say(&(sampler)->explain, __VA_ARGS__)

static void source(struct infp_sampler *sampler, const char *instance, enum infp_source_state state, const char *reason,
                   const char *fix)
{
        infp_explain_source(&sampler->explain, instance, state, reason, fix);
}

static void put_counts(struct infp_sampler *sampler, uint64_t now_ns)
{
        struct infp_perf_counts perf = { 0 };
        struct infp_stacks_counts stacks;
        const struct infp_sampler_rows rows = { sampler->emit,   sampler->context.pythons,
                                                sampler->inside, &stacks,
                                                &perf,           now_ns };

        infp_stacks_counts(sampler->stacks, &stacks);
        if (sampler->perf) {
                infp_perf_counts(sampler->perf, &perf);
                infp_explain_counts(&sampler->explain, &perf);
        }
        for (unsigned i = 0; i < sampler->n_modes; i++) {
                const struct sampler_mode *own = &sampler->modes[i];
                struct infp_mode_counts counts = { 0 }, also = { 0 };
                enum infp_stack_mode mode;

                if (own->mode->counts)
                        own->mode->counts(own->state, &counts);
                infp_sampler_put_mode(&rows, own->mode->mode, &counts, i == 0);
                for (unsigned k = 0;
                     own->mode->also && (mode = own->mode->also(own->state, k, &also)) != INFP_STACK_MODES; k++)
                        infp_sampler_put_mode(&rows, mode, &also, false);
        }
}

/* ---- the thread that reads: it takes what the kernel has written, has stacks made of it, and writes each second how that goes ---- */

static const uint64_t drain_ns = 200 * INFP_NS_PER_MS; /* what is not much waits so long */
/* What another CPU has stamped this long ago is in its ring; so it is after the second time but for a virtual CPU that was stopped. */
static const uint64_t settle_ns = INFP_NS_PER_MS, settle_soon_ns = 100 * 1000, row_ns = INFP_NS_PER_S;
static const uint64_t end_ns = 2 * INFP_NS_PER_S, names_ns = 2 * INFP_NS_PER_S; /* for tables, and names, at the end */
static const double waits_hz = 100; /* of each CPU, which have deep stacks: there is room for so many */
static const uint64_t turn_patience_ns = 50 * INFP_NS_PER_MS, end_patience_ns = INFP_NS_PER_S;
enum { TREE_ROUNDS = 4, TREE_PROCESSES = 65536 };

/* The events as one handler: infp_stacks first, then the modes. */
#define EACH_MODE(sampler, own) \
        for (struct sampler_mode *own = (sampler)->modes; own < (sampler)->modes + (sampler)->n_modes; own++)

static void on_sample(void *context, const struct infp_perf_sample *sample)
{
        struct infp_sampler *sampler = context;
        /* Without --cpu by perf the clock is there for --wall alone. */
        const bool is_ours = sample->is_switch || (sampler->options.cpu_hz > 0 && !sampler->options.is_blocking);
        struct infp_perf_sample with_python;

        if (sampler->pythons && infp_pythons_have_program(sampler->pythons))
                sample = infp_pythons_sample(sampler->pythons, sample, &with_python);
        if (sample->is_switch || (is_ours && !(sampler->inside && infp_inside_replaces(sampler->inside, sample->pid,
                                                                                       sample->tid, sample->t_ns))))
                sampler->stacks_handler.sample(sampler->stacks_handler.context, sample);
        EACH_MODE(sampler, own)
        {
                if (sample->is_switch && own->mode->moved)
                        own->mode->moved(own->state, sample);
                if (!sample->is_switch && own->mode->sample)
                        own->mode->sample(own->state, sample);
        }
}

static void on_mapping(void *context, const struct infp_perf_mapping *mapping)
{
        const struct infp_sampler *sampler = context;

        sampler->stacks_handler.mapping(sampler->stacks_handler.context, mapping);
}

static void on_name(void *context, uint64_t t_ns, int32_t pid, int32_t tid, const char *name, bool is_exec)
{
        struct infp_sampler *sampler = context;

        sampler->stacks_handler.name(sampler->stacks_handler.context, t_ns, pid, tid, name, is_exec);
        EACH_MODE(sampler, own)
        if (is_exec && own->mode->exec)
                own->mode->exec(own->state, pid);
}

static void on_fork(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid)
{
        struct infp_sampler *sampler = context;

        sampler->stacks_handler.fork(sampler->stacks_handler.context, t_ns, pid, tid, parent_pid, parent_tid);
        EACH_MODE(sampler, own)
        if (own->mode->fork)
                own->mode->fork(own->state, pid, tid);
}

static void on_end(void *context, uint64_t t_ns, int32_t pid, int32_t tid)
{
        struct infp_sampler *sampler = context;

        EACH_MODE(sampler, own)
        if (own->mode->exit)
                own->mode->exit(own->state, t_ns, tid);
        sampler->stacks_handler.exit(sampler->stacks_handler.context, t_ns, pid, tid);
}

static void on_run(void *context, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in, bool is_preempted)
{
        struct infp_sampler *sampler = context;

        EACH_MODE(sampler, own)
        if (own->mode->run)
                own->mode->run(own->state, t_ns, pid, tid, is_in, is_preempted);
}

/* Those that cannot take part leave the list. */
static void open_modes(struct infp_sampler *sampler)
{
        unsigned n = 0;

        for (unsigned i = 0; i < sampler->n_modes; i++) {
                struct sampler_mode own = sampler->modes[i];
                struct infp_err err = { "" };
                const int r = own.mode->open ? own.mode->open(own.state, &sampler->context, &err) : 0;

                if (r >= 0) {
                        sampler->modes[n++] = own;
                        continue;
                }
                source(sampler, infp_stack_modes[own.mode->mode].name, infp_source_state_of(r), err.text, NULL);
                if (sampler->perf || r != -EACCES) /* that perf is refused was said */
                        say(sampler, "%s", err.text);
                if (own.mode->close)
                        own.mode->close(own.state);
                free(own.state);
        }
        sampler->n_modes = n;
}

/* Children that were born while we looked have inherited events, or are found by the next look. */
static void attach(struct infp_sampler *sampler, const pid_t *roots, size_t n_roots)
{
        infp_autofree int32_t *pids = calloc(TREE_PROCESSES, sizeof(*pids));
        struct infp_err err = { "" };
        size_t n = 0, n_before;
        int r = 0;

        if (!pids || !sampler->perf)
                return;
        for (unsigned round = 0; round < TREE_ROUNDS && r >= 0; round++) {
                n_before = n;
                n = infp_sampler_tree(roots, n_roots, pids, TREE_PROCESSES);
                if (round && n == n_before)
                        break;
                r = infp_perf_attach(sampler->perf, pids, n, &err);
        }
        if (r < 0 && r != -EMFILE && r != -ENFILE && r != -ETIME) /* of skipped threads the counts tell */
                infp_explain_problem(&sampler->explain, "perf", r, err.text);
        for (size_t i = 0; i < n; i++)
                infp_stacks_seed(sampler->stacks, pids[i]);
}

/* ---- Python frames ---- */

static void python_problem(void *context, int r, const char *text)
{
        infp_explain_interpreter(&((struct infp_sampler *) context)->explain, r, text);
}

static void python_known(void *context, pid_t pid, uint64_t program, const struct infp_python *python)
{
        struct infp_sampler *sampler = context;

        EACH_MODE(sampler, own)
        if (own->mode->python)
                own->mode->python(own->state, pid, program, python);
        infp_stacks_python(sampler->stacks, pid, python);
        if (python && sampler->options.wall_hz > 0)
                infp_explain_gil(&sampler->explain, pid, python);
}

/* Of processes that run already, where their Python frames cannot be read in the interrupt of a sample: a profile of its own. */
static bool wants_python_mode(const struct infp_sampler *sampler)
{
        return sampler->options.python == INFP_PYTHON_AUTO && sampler->options.cpu_hz > 0 &&
               !sampler->options.is_blocking && !sampler->options.is_inside &&
               infp_target_mode(sampler->options.env->target) == INFP_MODE_PID;
}

static void add_python_mode(struct infp_sampler *sampler)
{
        struct sampler_mode own = { .mode = &infp_sampler_mode_python };
        struct infp_err err = { "" };

        if (!sampler->pythons || !wants_python_mode(sampler) || sampler->n_modes == SAMPLER_MODES)
                return;
        own.state = calloc(1, own.mode->state_size);
        if (own.state && own.mode->open(own.state, &sampler->context, &err) >= 0) {
                sampler->modes[sampler->n_modes++] = own;
                infp_pythons_tell(sampler->pythons);
                say(sampler, "Python frames are read without stopping the threads, as a profile of their own (mode "
                             "python) beside the native stacks: BPF is not permitted");
                return;
        }
        if (own.state)
                own.mode->close(own.state);
        free(own.state);
}

/* Frames of threads that wait need no more than the right to read their memory; those of threads that run are best read by the program
 * in the kernel. Where processes sample themselves they are not read twice. Its filter of switches comes with frames or without. */
static void begin_python(struct infp_sampler *sampler)
{
        const struct infp_sampler_options *own = &sampler->options;
        const bool is_on = own->python != INFP_PYTHON_OFF;
        const bool is_read = is_on && sampler->perf && !own->is_inside && own->python != INFP_PYTHON_INSIDE &&
                             (!own->is_blocking || own->off_cpu || own->wall_hz > 0);
        struct infp_pythons_options options = {
                .has_records = sampler->perf != NULL,
                .has_program = is_read || (sampler->perf && own->off_cpu),
                .is_filter = !is_read,
                .least_wait_ns = own->off_cpu ? own->least_wait_ns : 0,
                .known = python_known,
                .root_fd = own->env->root_fd,
                .wake_fd = sampler->context.wake_fd,
                .names = &sampler->names,
                .perf = sampler->perf,
                .deep_hz = is_read && own->deep == INFP_DEEP_AUTO ? own->cpu_hz + (own->off_cpu ? waits_hz : 0) : 0,
                .problem = python_problem,
                .context = sampler,
        };

        if (own->is_inside)
                source(sampler, "python", INFP_OK, NULL, NULL);
        if (!options.has_program && !(is_on && (own->wall_hz > 0 || own->is_blocking || wants_python_mode(sampler))))
                return;
        if (infp_pythons_new(&options, &sampler->pythons, NULL) < 0)
                return;
        if (is_on && sampler->perf)
                sampler->stacks_handler = infp_pythons_handler(sampler->pythons, &sampler->stacks_handler);
        sampler->context.pythons = is_on ? sampler->pythons : NULL;
        sampler->is_python_loading = options.has_program;
}

/* Where it is not allowed, stacks have native frames alone. What a target starts before it is there stays native, too: events inherit
 * the program. A command is not started before. */
static void take_python(struct infp_sampler *sampler, bool is_waiting)
{
        struct infp_err err = { "" };
        const char *fix;
        int r;

        if (!sampler->is_python_loading)
                return;
        r = infp_pythons_program(sampler->pythons, is_waiting, &fix, &err);
        if (r == -EAGAIN)
                return;
        sampler->is_python_loading = false;
        sampler->context.filter = infp_pythons_filter(sampler->pythons, sampler->perf);
        if (r == -ECANCELED)
                return;
        if (r >= 0) {
                infp_perf_set_program(sampler->perf, r);
                infp_stacks_complete(sampler->stacks, sampler->options.deep == INFP_DEEP_AFTER, infp_pythons_want,
                                     sampler->pythons);
                source(sampler, "python", INFP_OK, NULL, NULL);
                return;
        }
        infp_explain_program(&sampler->explain, r, &err, fix, sampler->options.python == INFP_PYTHON_OUTSIDE);
        add_python_mode(sampler);
        if (sampler->options.wall_hz > 0 || sampler->options.off_cpu || sampler->options.is_blocking ||
            wants_python_mode(sampler)) /* threads are read all the same */
                return;
        sampler->stacks_handler = infp_stacks_handler(sampler->stacks);
        sampler->pythons = infp_pythons_free(sampler->pythons);
        sampler->context.pythons = NULL;
}

/* What the recorder's thread asks for. Returns true when the end was asked for. */
static bool take_requests(struct infp_sampler *sampler)
{
        pid_t roots[SAMPLER_ROOTS], launch_pid;
        struct infp_err err = { "" };
        bool has_roots, is_stopping;
        size_t n_roots;
        int r = 0;

        pthread_mutex_lock(&sampler->lock);
        launch_pid = sampler->launch_pid;
        has_roots = sampler->has_roots;
        n_roots = sampler->n_roots;
        memcpy(roots, sampler->roots, n_roots * sizeof(*roots));
        sampler->has_roots = false;
        is_stopping = sampler->is_stopping;
        pthread_mutex_unlock(&sampler->lock);
        /* Switches are filtered from the first one on, or never. */
        take_python(sampler, launch_pid || (has_roots && sampler->options.off_cpu));
        if (has_roots)
                attach(sampler, roots, n_roots);
        if (!launch_pid)
                return is_stopping;
        if (sampler->perf)
                r = infp_perf_launch(sampler->perf, launch_pid, &err);
        if (r < 0)
                infp_explain_problem(&sampler->explain, "perf", r, err.text);
        EACH_MODE(sampler, own)
        if (own->mode->exec)
                own->mode->exec(own->state, launch_pid);
        pthread_mutex_lock(&sampler->lock);
        sampler->launch_pid = 0;
        pthread_cond_broadcast(&sampler->done);
        pthread_mutex_unlock(&sampler->lock);
        return is_stopping;
}

static void attach_machine(struct infp_sampler *sampler)
{
        struct infp_err err = { "" };

        if (!sampler->perf || infp_perf_attach_machine(sampler->perf, &err) >= 0)
                return;
        source(sampler, "perf", INFP_DENIED, err.text, "setcap cap_perfmon+ep infprof");
        say(sampler, "%s", err.text);
}

static void drain(struct infp_sampler *sampler, uint64_t own_settle_ns)
{
        if (!sampler->perf)
                return;
        infp_pythons_drain(sampler->pythons);
        infp_perf_drain(sampler->perf, &sampler->handler, own_settle_ns);
        if (infp_perf_lost(sampler->perf) == sampler->n_lost)
                return;
        sampler->n_lost = infp_perf_lost(sampler->perf);
        infp_stacks_lost(sampler->stacks);
}

static void turn(struct infp_sampler *sampler)
{
        uint64_t now;

        sampler->way.patience_ns = turn_patience_ns;
        sampler->way.is_woken = false;
        drain(sampler, sampler->is_prompt ? settle_soon_ns : settle_ns);
        now = infp_clock_ns(CLOCK_MONOTONIC);
        infp_pythons_turn(sampler->pythons, now);
        infp_stacks_turn(sampler->stacks, now);
        if (sampler->inside)
                sampler->inside_due_ns = infp_inside_turn(sampler->inside, now);
        infp_symbols_live_turn(sampler->live, sampler->stacks, now);
        EACH_MODE(sampler, own)
        if (own->mode->turn)
                own->due_ns = own->mode->turn(own->state, now);
        if (now < sampler->row_ns)
                return;
        put_counts(sampler, now);
        sampler->row_ns += row_ns;
        if (sampler->row_ns <= now)
                sampler->row_ns = now + row_ns;
}

/* Until a ring has something, somebody has, or it is time. */
static void wait_for_news(struct infp_sampler *sampler)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        const uint64_t python_ns = infp_pythons_due(sampler->context.pythons, now);
        const uint64_t cut_ns = infp_stacks_due(sampler->stacks, now);
        uint64_t due = sampler->perf ? now + drain_ns : UINT64_MAX, count;
        struct timespec timeout;

        sampler->is_prompt = cut_ns != UINT64_MAX;
        due = python_ns < due ? python_ns : due;
        due = cut_ns < due ? cut_ns : due;
        due = due < sampler->row_ns ? due : sampler->row_ns;
        if (sampler->inside && sampler->inside_due_ns < due)
                due = sampler->inside_due_ns;
        EACH_MODE(sampler, own)
        if (own->mode->turn && own->due_ns < due)
                due = own->due_ns;
        timeout = infp_timespec(due > now ? due - now : 0);
        sampler->fds[0] = (struct pollfd){ .fd = sampler->context.wake_fd, .events = POLLIN };
        sampler->fds[1] = (struct pollfd){ .fd = infp_stacks_wake_fd(sampler->stacks), .events = POLLIN };
        if (ppoll(sampler->fds, sampler->n_fds + 2, &timeout, NULL) > 0 && sampler->fds[0].revents)
                (void) !read(sampler->context.wake_fd, &count, sizeof(count));
}

static void end(struct infp_sampler *sampler)
{
        uint64_t now;

        if (sampler->perf)
                infp_perf_stop(sampler->perf);
        sampler->way.patience_ns = end_patience_ns;
        drain(sampler, 0);
        if (sampler->inside)
                infp_inside_end(sampler->inside);
        now = infp_clock_ns(CLOCK_MONOTONIC);
        EACH_MODE(sampler, own)
        if (own->mode->end)
                own->mode->end(own->state, now);
        infp_stacks_end(sampler->stacks, now + end_ns);
        infp_symbols_live_end(sampler->live, sampler->stacks, infp_clock_ns(CLOCK_MONOTONIC) + names_ns);
        put_counts(sampler, infp_clock_ns(CLOCK_MONOTONIC));
}

static void *read_events(void *context)
{
        struct infp_sampler *sampler = context;

        sampler->handler = (struct infp_perf_handler){
                .context = sampler,
                .sample = on_sample,
                .mapping = on_mapping,
                .name = on_name,
                .fork = on_fork,
                .exit = on_end,
                .run = on_run,
        };
        infp_explain_perf(&sampler->explain, sampler->perf, sampler->options.stack_bytes, &sampler->perf_err,
                          sampler->perf_fix);
        begin_python(sampler);
        open_modes(sampler);
        if (!sampler->perf)
                add_python_mode(sampler);
        if (infp_target_mode(sampler->options.env->target) == INFP_MODE_HOST)
                attach_machine(sampler);
        sampler->row_ns = infp_clock_ns(CLOCK_MONOTONIC) + row_ns;
        while (!take_requests(sampler)) {
                wait_for_news(sampler);
                turn(sampler);
        }
        end(sampler);
        pthread_mutex_lock(&sampler->lock);
        sampler->is_ended = true;
        pthread_cond_broadcast(&sampler->done);
        pthread_mutex_unlock(&sampler->lock);
        infp_sampler_way_wake(&sampler->way);
        return NULL;
}

/* ---- the session's side ---- */

enum { RING_BYTES = 8 << 20 }; /* touched only as far as rows wait in it */
static const uint64_t patience_ns = 5 * INFP_NS_PER_S;

/* The first stands for the thread that reads: its CPU time is that one's. */
static const struct infp_sampler_mode *const modes[] = { &infp_sampler_mode_cpu, &infp_sampler_mode_blocking,
                                                         &infp_sampler_mode_wall, &infp_sampler_mode_off_cpu,
                                                         &infp_sampler_mode_heap };

/* Which modes are asked for, and what they want of perf. 1: something; 0: nothing; -ENOMEM. */
static int choose_modes(struct infp_sampler *sampler, struct infp_perf_options *perf, struct infp_err *err)
{
        int needs_perf = 0;

        sampler->n_modes = 0;
        *perf = (struct infp_perf_options){ .stack_bytes = sampler->options.stack_bytes };
        for (const struct infp_sampler_mode *const *mode = modes; mode < modes + INFP_COUNT(modes); mode++) {
                struct sampler_mode *own = &sampler->modes[sampler->n_modes];

                if (!(*mode)->is_wanted(&sampler->options))
                        continue;
                *own = (struct sampler_mode){ .mode = *mode, .state = calloc(1, (*mode)->state_size + 1) };
                if (!own->state)
                        return infp_fail(err, -ENOMEM, "no memory for the sampler");
                sampler->n_modes++;
                infp_debug("sampler: mode %s%s", infp_stack_modes[(*mode)->mode].name,
                           (*mode)->ask ? ", by perf events" : "");
                if ((*mode)->ask) {
                        (*mode)->ask(&sampler->options, perf);
                        needs_perf = 1;
                }
        }
        return needs_perf;
}

/* Where perf events are refused, what can be read of threads without them. */
static void fall_back(struct infp_sampler *sampler)
{
        struct infp_sampler_options *options = &sampler->options;
        const bool is_next = options->cpu_hz > 0 && options->wall_hz <= 0;

        if (is_next)
                options->wall_hz =
                        options->cpu_hz < INFP_SAMPLER_DEFAULT_WALL_HZ ? options->cpu_hz : INFP_SAMPLER_DEFAULT_WALL_HZ;
        infp_explain_fall_back(&sampler->explain, &sampler->perf_err, sampler->perf_fix, is_next, options->is_inside);
}

static void free_modes(struct infp_sampler *sampler)
{
        for (unsigned i = 0; i < sampler->n_modes; i++)
                free(sampler->modes[i].state);
        sampler->n_modes = 0;
}

static int open_perf(struct infp_sampler *sampler, struct infp_err *err)
{
        struct infp_perf_options perf;
        int r = choose_modes(sampler, &perf, err);

        if (r <= 0 || infp_perf_open(&perf, &sampler->perf, &sampler->perf_fix, &sampler->perf_err) >= 0)
                return r;
        fall_back(sampler);
        free_modes(sampler);
        r = choose_modes(sampler, &perf, err);
        return r < 0 ? r : 0;
}

static void wake_reader(const struct infp_mode_context *context)
{
        const uint64_t one = 1;

        (void) !write(context->wake_fd, &one, sizeof(one));
}

static void make_context(struct infp_sampler *sampler)
{
        sampler->context.options = &sampler->options;
        sampler->context.stacks = sampler->stacks;
        sampler->context.emit = sampler->emit;
        sampler->context.perf = sampler->perf;
        sampler->context.perf_problem = sampler->perf_err.text;
        sampler->context.inside = sampler->inside;
        sampler->context.wake = wake_reader;
}

static int open_inside(struct infp_sampler *sampler, struct infp_err *err)
{
        const struct infp_inside_options options = {
                .env = sampler->options.env,
                .stacks = sampler->stacks,
                .names = &sampler->names,
                .hz = sampler->options.is_inside ? sampler->options.cpu_hz : 0,
                .cache_directory = sampler->options.cache_directory,
                .wake_fd = sampler->context.wake_fd,
                .is_python_off = sampler->options.python == INFP_PYTHON_OFF,
                .has_records = sampler->perf != NULL,
                .explain = &sampler->explain,
        };

        return sampler->options.is_inside || sampler->options.heap_bytes
                       ? infp_inside_new(&options, &sampler->inside, err)
                       : 0;
}

static int make_stacks(struct infp_sampler *sampler, struct infp_err *err)
{
        const struct infp_stacks_options stacks = {
                .env = sampler->options.env,
                .max_depth = sampler->options.max_depth,
                .cache_directory = sampler->options.cache_directory,
                .put = infp_sampler_way_put,
                .put_context = &sampler->way,
                .python = &sampler->names,
                .is_completing = sampler->options.deep != INFP_DEEP_OFF,
        };
        const struct infp_symbols_live_options live = {
                .root_fd = sampler->options.env->root_fd,
                .put = infp_sampler_way_put,
                .put_context = &sampler->way,
        };

        INFP_TRY(infp_stacks_new(&stacks, &sampler->stacks, err));
        INFP_TRY(infp_symbols_live_new(&live, &sampler->live, err));
        sampler->stacks_handler = infp_stacks_handler(sampler->stacks);
        return open_inside(sampler, err);
}

static int make_parts(struct infp_sampler *sampler, struct infp_err *err)
{
        unsigned n_rings;

        sampler->context.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (sampler->context.wake_fd < 0)
                return infp_fail_errno(err, -errno, "cannot make an eventfd");
        sampler->emit = malloc(sizeof(*sampler->emit));
        if (!sampler->emit || infp_rowring_new(RING_BYTES, &sampler->way.ring) < 0)
                return infp_fail(err, -ENOMEM, "no memory for the sampler");
        infp_emit_init(sampler->emit, infp_sampler_way_put, &sampler->way);
        sampler->emit->collector = "sampler";
        sampler->explain = (struct infp_explain){ .emit = sampler->emit,
                                                  .notice = sampler->options.notice,
                                                  .context = sampler->options.notice_context };
        INFP_TRY(open_perf(sampler, err));
        n_rings = sampler->perf ? infp_perf_rings(sampler->perf) : 0;
        sampler->fds = calloc(n_rings + 2, sizeof(*sampler->fds));
        if (!sampler->fds)
                return infp_fail(err, -ENOMEM, "no memory for the sampler");
        if (sampler->perf)
                sampler->n_fds = infp_perf_pollfds(sampler->perf, sampler->fds + 2, n_rings);
        INFP_TRY(make_stacks(sampler, err));
        make_context(sampler);
        return 0;
}

int infp_sampler_start(const struct infp_sampler_options *options, struct infp_sampler **ret, struct infp_err *err)
{
        struct infp_sampler *sampler = calloc(1, sizeof(*sampler));
        struct infp_err own = { "" };
        int r;

        if (!sampler)
                return infp_fail(err, -ENOMEM, "no memory for the sampler");
        sampler->options = *options;
        sampler->way.wake_fd = options->wake_fd;
        sampler->context.wake_fd = -1;
        pthread_mutex_init(&sampler->lock, NULL);
        infp_cond_init(&sampler->done);
        r = make_parts(sampler, &own);
        if (r >= 0) {
                r = infp_thread_start(&sampler->thread, "infprof-sampler", 0, read_events, sampler);
                sampler->is_started = r == 0;
                if (r < 0)
                        infp_fail_errno(&own, r, "cannot start the sampler's thread");
        }
        if (r < 0) {
                if (err)
                        *err = own;
                infp_sampler_free(sampler);
                return r;
        }
        *ret = sampler;
        return 0;
}

void infp_sampler_launch(struct infp_sampler *sampler, pid_t pid)
{
        const struct timespec until = infp_timespec(infp_clock_ns(CLOCK_MONOTONIC) + patience_ns);

        pthread_mutex_lock(&sampler->lock);
        sampler->launch_pid = pid;
        sampler->context.wake(&sampler->context);
        while (sampler->launch_pid && !sampler->is_ended &&
               pthread_cond_timedwait(&sampler->done, &sampler->lock, &until) != ETIMEDOUT)
                ;
        pthread_mutex_unlock(&sampler->lock);
}

void infp_sampler_follow(struct infp_sampler *sampler, const pid_t *roots, size_t n)
{
        pthread_mutex_lock(&sampler->lock);
        sampler->n_roots = n < SAMPLER_ROOTS ? n : SAMPLER_ROOTS;
        memcpy(sampler->roots, roots, sampler->n_roots * sizeof(*roots));
        sampler->has_roots = n > 0;
        pthread_mutex_unlock(&sampler->lock);
        sampler->context.wake(&sampler->context);
}

struct infp_rowring *infp_sampler_ring(struct infp_sampler *sampler, unsigned index)
{
        return index == 0 ? sampler->way.ring : NULL;
}

uint64_t infp_sampler_dropped(struct infp_sampler *sampler)
{
        return infp_rowring_dropped(sampler->way.ring);
}

void infp_sampler_stop_begin(struct infp_sampler *sampler)
{
        pthread_mutex_lock(&sampler->lock);
        sampler->is_stopping = true;
        sampler->stop_ns = infp_clock_ns(CLOCK_MONOTONIC);
        pthread_mutex_unlock(&sampler->lock);
        sampler->context.wake(&sampler->context);
}

bool infp_sampler_is_ended(struct infp_sampler *sampler)
{
        bool ret;

        pthread_mutex_lock(&sampler->lock);
        ret = !sampler->is_started || sampler->is_ended ||
              (sampler->is_stopping && infp_clock_ns(CLOCK_MONOTONIC) - sampler->stop_ns > patience_ns);
        pthread_mutex_unlock(&sampler->lock);
        return ret;
}

bool infp_sampler_take_ring(struct infp_sampler *sampler, const struct infp_inside_ring *ring)
{
        bool takes;

        pthread_mutex_lock(&sampler->lock);
        takes = sampler->inside && !sampler->is_ended;
        if (takes)
                infp_inside_take(sampler->inside, ring);
        pthread_mutex_unlock(&sampler->lock);
        return takes;
}

bool infp_sampler_free(struct infp_sampler *sampler)
{
        bool is_ended;

        if (!sampler)
                return true;
        pthread_mutex_lock(&sampler->lock);
        is_ended = sampler->is_ended;
        pthread_mutex_unlock(&sampler->lock);
        if (sampler->is_started && !is_ended) {
                pthread_detach(sampler->thread);
                return false;
        }
        if (sampler->is_started)
                pthread_join(sampler->thread, NULL);
        for (unsigned i = 0; i < sampler->n_modes; i++)
                if (sampler->is_started && sampler->modes[i].mode->close)
                        sampler->modes[i].mode->close(sampler->modes[i].state);
        free_modes(sampler);
        infp_symbols_live_free(sampler->live);
        infp_stacks_free(sampler->stacks);
        infp_inside_free(sampler->inside);
        infp_perf_free(sampler->perf);
        infp_pythons_free(sampler->pythons);
        infp_python_names_done(&sampler->names);
        infp_rowring_free(sampler->way.ring);
        infp_close(sampler->context.wake_fd);
        pthread_cond_destroy(&sampler->done);
        pthread_mutex_destroy(&sampler->lock);
        free(sampler->emit);
        free(sampler->fds);
        free(sampler);
        return true;
}
