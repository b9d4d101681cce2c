/* The thread that reads: takes what the kernel has written, has stacks made of it, and writes each second how that goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "collect/target.h"
#include "sampler/sampler_inner.h"

static const uint64_t drain_ns = 200 * INFP_NS_PER_MS; /* what is not much waits so long */
static const uint64_t row_ns = INFP_NS_PER_S;
static const uint64_t end_ns = 2 * INFP_NS_PER_S;   /* for tables that are still being built at the end */
static const uint64_t names_ns = 2 * INFP_NS_PER_S; /* for names that have to be found by then */
static const uint64_t turn_patience_ns = 50 * INFP_NS_PER_MS, end_patience_ns = INFP_NS_PER_S;
enum { TREE_ROUNDS = 4, TREE_PROCESSES = 65536 };

/* The events as one handler: infp_stacks first, then the modes. */
#define EACH_MODE(sampler, own) \
        for (struct sampler_mode *own = (sampler)->modes; own < (sampler)->modes + (sampler)->n_modes; own++)

static void on_sample(void *context, const struct infp_perf_sample *sample)
{
        struct infp_sampler *sampler = context;

        if (sampler->options.cpu_hz > 0 || sample->is_switch) /* else the clock is there for --wall alone */
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
                own->mode->exec(own->state, t_ns, pid);
}

static void on_fork(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid)
{
        struct infp_sampler *sampler = context;

        sampler->stacks_handler.fork(sampler->stacks_handler.context, t_ns, pid, tid, parent_pid, parent_tid);
        EACH_MODE(sampler, own)
        if (own->mode->fork)
                own->mode->fork(own->state, t_ns, pid, tid, parent_pid, parent_tid);
}

static void on_end(void *context, uint64_t t_ns, int32_t pid, int32_t tid)
{
        struct infp_sampler *sampler = context;

        EACH_MODE(sampler, own)
        if (own->mode->exit)
                own->mode->exit(own->state, t_ns, pid, tid);
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
                sampler->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
                infp_emit_source(sampler->emit, NULL, -1, infp_stack_mode_name(own.mode->mode), infp_source_state_of(r),
                                 err.text, NULL);
                if (sampler->perf || r == -ENOTSUP) /* that perf is refused was said */
                        infp_sampler_say(sampler, "%s", err.text);
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
        if (r < 0 && r != -EMFILE && r != -ENFILE && r != -ETIME) { /* of skipped threads the counts tell */
                sampler->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
                infp_emit_source(sampler->emit, NULL, -1, "perf", infp_source_state_of(r), err.text, NULL);
                infp_sampler_say(sampler, "%s", err.text);
        }
        for (size_t i = 0; i < n; i++)
                infp_stacks_seed(sampler->stacks, pids[i]);
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
        if (has_roots)
                attach(sampler, roots, n_roots);
        if (!launch_pid)
                return is_stopping;
        if (sampler->perf)
                r = infp_perf_launch(sampler->perf, launch_pid, &err);
        if (r < 0) {
                sampler->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
                infp_emit_source(sampler->emit, NULL, -1, "perf", infp_source_state_of(r), err.text, NULL);
                infp_sampler_say(sampler, "%s", err.text);
        }
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
        sampler->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_emit_source(sampler->emit, NULL, -1, "perf", INFP_DENIED, err.text, "setcap cap_perfmon+ep infprof");
        infp_sampler_say(sampler, "%s", err.text);
}

static void drain(struct infp_sampler *sampler, bool all)
{
        if (!sampler->perf)
                return;
        infp_perf_drain(sampler->perf, &sampler->handler, all);
        if (infp_perf_lost(sampler->perf) == sampler->n_lost)
                return;
        sampler->n_lost = infp_perf_lost(sampler->perf);
        infp_stacks_lost(sampler->stacks);
}

static void turn(struct infp_sampler *sampler)
{
        uint64_t now;

        sampler->patience_ns = turn_patience_ns;
        sampler->is_woken = false;
        drain(sampler, false);
        now = infp_clock_ns(CLOCK_MONOTONIC);
        infp_stacks_turn(sampler->stacks, now);
        infp_symbols_live_turn(sampler->live, sampler->stacks, now);
        EACH_MODE(sampler, own)
        if (own->mode->turn)
                own->due_ns = own->mode->turn(own->state, now);
        if (now < sampler->row_ns)
                return;
        infp_sampler_put_counts(sampler, now);
        sampler->row_ns += row_ns;
        if (sampler->row_ns <= now)
                sampler->row_ns = now + row_ns;
}

/* Until a ring has something, somebody has, or it is time. */
static void wait_for_news(struct infp_sampler *sampler)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        uint64_t due = sampler->perf ? now + drain_ns : UINT64_MAX, count;
        struct timespec timeout;

        due = due < sampler->row_ns ? due : sampler->row_ns;
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
        sampler->patience_ns = end_patience_ns;
        drain(sampler, true);
        now = infp_clock_ns(CLOCK_MONOTONIC);
        EACH_MODE(sampler, own)
        if (own->mode->end)
                own->mode->end(own->state, now);
        infp_stacks_end(sampler->stacks, now + end_ns);
        infp_symbols_live_end(sampler->live, sampler->stacks, infp_clock_ns(CLOCK_MONOTONIC) + names_ns);
        infp_sampler_put_counts(sampler, infp_clock_ns(CLOCK_MONOTONIC));
}

void *infp_sampler_main(void *context)
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
        infp_sampler_explain_perf(sampler);
        open_modes(sampler);
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
        infp_sampler_wake_recorder(sampler);
        return NULL;
}
