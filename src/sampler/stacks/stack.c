#include "sampler/stacks/stack.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "sampler/sampler.h"
#include "sampler/stacks/parts.h"

enum {
        WAITING_BYTES = 8 << 20,
        WAIT_S = 3,         /* a table that takes longer than this is not waited for */
        CLEAR_FRAMES_S = 5, /* so that objects in use are known to be */
};

const char *infp_stack_mode_name(enum infp_stack_mode mode)
{
        static const char *const names[INFP_STACK_MODES] = { "cpu", "wall", "off-cpu" };

        return names[mode];
}

int infp_stacks_new(const struct infp_stacks_options *options, struct infp_stacks **ret, struct infp_err *err)
{
        struct infp_stacks *stacks = calloc(1, sizeof(*stacks));
        int r;

        if (!stacks)
                return infp_fail(err, -ENOMEM, "no memory for the stacks of samples");
        stacks->options = *options;
        stacks->env = *options->env;
        stacks->max_depth = options->max_depth ? options->max_depth : INFP_SAMPLER_DEFAULT_DEPTH;
        if (stacks->max_depth > INFP_STACK_DEPTH)
                stacks->max_depth = INFP_STACK_DEPTH;
        stacks->row.text = stacks->text;
        stacks->row.text_cap = sizeof(stacks->text);
        infp_seen_init(&stacks->seen);
        infp_unwind_cache_init(&stacks->cache, stacks->rules, INFP_STACK_RULES);
        r = infp_objects_new(stacks->env.root_fd, options->cache_directory, &stacks->objects, err);
        if (r == 0)
                r = infp_wait_init(&stacks->wait, options->waiting_bytes ? options->waiting_bytes : WAITING_BYTES);
        if (r == 0)
                r = infp_processes_init(&stacks->processes, &stacks->env, stacks->objects);
        if (r < 0) {
                infp_stacks_free(stacks);
                return infp_fail_errno(err, r, "cannot prepare the stacks of samples");
        }
        *ret = stacks;
        return 0;
}

struct infp_stacks *infp_stacks_free(struct infp_stacks *stacks)
{
        if (stacks) {
                struct infp_waiting *next;

                for (struct infp_waiting *at = infp_wait_next(&stacks->wait, NULL); at; at = next) {
                        next = infp_wait_next(&stacks->wait, at);
                        infp_space_unref(at->space);
                }
                infp_wait_done(&stacks->wait);
                if (stacks->objects)
                        infp_stack_nameless_done(stacks);
                infp_processes_done(&stacks->processes);
                infp_objects_free(stacks->objects);
                infp_seen_done(&stacks->seen);
                infp_map_done(&stacks->named);
                free(stacks);
        }
        return NULL;
}

/* What is known of a moment before its stack is. */
static void count(struct infp_stacks *stacks, enum infp_stack_mode mode, const struct infp_unwind_result *result)
{
        struct infp_stack_counts *counts = &stacks->counts.modes[mode];

        counts->frames += result->n_frames;
        counts->guessed_frames += result->n_guessed;
        if (result->end == INFP_UNWIND_TRUNCATED || result->end == INFP_UNWIND_TOO_DEEP)
                counts->truncated++;
        else if (result->end != INFP_UNWIND_COMPLETE)
                counts->incomplete++;
}

/* Makes the stack of a moment. False: *ret_object may come. */
static bool resolve(struct infp_stacks *stacks, struct infp_space *space, const struct infp_perf_sample *sample,
                    bool may_wait, struct infp_stack_found *moment, const struct infp_object **ret_object)
{
        struct infp_unwind_result result = { .end = INFP_UNWIND_COMPLETE };
        struct infp_unwound user = { 0 };

        *ret_object = NULL;
        if (sample->has_registers && !infp_stack_unwind(stacks, space, sample, may_wait, &user, &result, ret_object))
                return false;
        moment->is_truncated = result.end != INFP_UNWIND_COMPLETE;
        moment->depth = user.n_frames + sample->n_kernel ? user.n_frames + sample->n_kernel - 1 : 0;
        moment->stack = infp_stack_nodes(stacks, moment, &user, sample->kernel, sample->n_kernel);
        count(stacks, moment->mode, &result);
        stacks->counts.modes[moment->mode].hurried += *ret_object && moment->is_truncated;
        return true;
}

/* A mapping that nobody told of: what /proc has now is looked at, sometimes. */
static bool is_unmapped(const struct infp_space *space, const struct infp_perf_sample *sample)
{
        return sample->has_registers && !infp_space_find(space, sample->registers[INFP_RIP]);
}

/* Within exec the memory is the new program's already, while the registers are still those of the call: they lead nowhere. */
static bool is_in_exec(const struct infp_space_process *process, const struct infp_perf_sample *sample)
{
        return sample->is_in_kernel && process->exec_ns && sample->t_ns < process->exec_ns + INFP_NS_PER_S;
}

static bool put_waiting(struct infp_stacks *stacks, struct infp_space *space, const struct infp_perf_sample *sample,
                        const struct infp_stack_found *moment, const struct infp_object *object,
                        infp_stack_found_fn *found, void *context, uint64_t cookie)
{
        struct infp_waiting *waiting = infp_wait_put(&stacks->wait, sample);

        if (!waiting)
                return false;
        waiting->space = infp_space_ref(space);
        waiting->object = object;
        waiting->deadline_ns = infp_clock_ns(CLOCK_MONOTONIC) + WAIT_S * INFP_NS_PER_S;
        waiting->moment = *moment;
        waiting->found = found;
        waiting->context = context;
        waiting->cookie = cookie;
        return true;
}

static void give_back(struct infp_stacks *stacks, struct infp_waiting *waiting)
{
        waiting->found(waiting->context, waiting->cookie, &waiting->moment);
        infp_space_unref(waiting->space);
        infp_wait_remove(&stacks->wait, waiting);
}

/* Without room the oldest ones wait no longer, of whatever threads: a newer one of a thread never goes before an older one. */
void infp_stacks_take(struct infp_stacks *stacks, const struct infp_perf_sample *sample, enum infp_stack_mode mode,
                      infp_stack_found_fn *found, void *context, uint64_t cookie)
{
        struct infp_space_process *process = infp_processes_get(&stacks->processes, sample->pid, sample->t_ns);
        const struct infp_object *object = NULL;
        struct infp_stack_found moment;
        struct infp_perf_sample own;
        struct infp_space *space;

        infp_stacks_thread(stacks, sample->pid, sample->tid, NULL, &moment);
        moment.t_ns = sample->t_ns;
        moment.cpu = sample->cpu;
        moment.mode = mode;
        if (!process) {
                found(context, cookie, &moment);
                return;
        }
        if (is_unmapped(process->space, sample) && !is_in_exec(process, sample))
                infp_processes_reread(&stacks->processes, process, sample->t_ns);
        if (is_in_exec(process, sample) && is_unmapped(process->space, sample)) {
                own = *sample;
                own.has_registers = false;
                sample = &own;
        }
        space = process->space;
        if (stacks->wait.n_by_thread[infp_wait_bucket(sample->tid)] == 0 &&
            resolve(stacks, space, sample, true, &moment, &object)) {
                found(context, cookie, &moment);
                return;
        }
        while (!put_waiting(stacks, space, sample, &moment, object, found, context, cookie)) {
                struct infp_waiting *oldest = infp_wait_next(&stacks->wait, NULL);

                if (!oldest) {
                        resolve(stacks, space, sample, false, &moment, &object);
                        found(context, cookie, &moment);
                        return;
                }
                resolve(stacks, oldest->space, &oldest->sample, false, &oldest->moment, &oldest->object);
                give_back(stacks, oldest);
        }
}

void infp_stacks_thread(struct infp_stacks *stacks, int32_t pid, int32_t tid, const char *name,
                        struct infp_stack_found *ret)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_space_process *process = infp_processes_get(&stacks->processes, pid, now);
        const struct infp_space_thread *thread =
                process ? infp_processes_thread(&stacks->processes, process, tid, name) : NULL;

        *ret = (struct infp_stack_found){ .t_ns = now, .pid = pid, .tid = tid, .cpu = -1, .samples = 1 };
        if (process)
                ret->process = process->id;
        if (thread) {
                ret->thread = thread->id;
                infp_stack_thread_row(stacks, now, thread);
        }
}

int infp_stacks_put(struct infp_stacks *stacks, const struct infp_stack_found *found, double weight, const char *state)
{
        struct infp_row *row = &stacks->row;
        int r;

        infp_row_begin(row, &infp_table_stack_samples, found->t_ns);
        if (found->process)
                infp_row_id(row, INFP_STACK_SAMPLES_PROCESS, found->process);
        infp_row_i64(row, INFP_STACK_SAMPLES_TID, found->tid);
        if (found->thread)
                infp_row_id(row, INFP_STACK_SAMPLES_THREAD, found->thread);
        if (found->cpu >= 0)
                infp_row_i64(row, INFP_STACK_SAMPLES_CPU, found->cpu);
        if (found->stack) {
                infp_row_id(row, INFP_STACK_SAMPLES_STACK, found->stack);
                infp_row_bool(row, INFP_STACK_SAMPLES_IS_TRUNCATED, found->is_truncated);
        }
        infp_row_f64(row, INFP_STACK_SAMPLES_WEIGHT, weight);
        infp_row_i64(row, INFP_STACK_SAMPLES_SAMPLES, found->samples);
        if (state)
                infp_row_str(row, INFP_STACK_SAMPLES_STATE, state);
        infp_row_str(row, INFP_STACK_SAMPLES_MODE, infp_stack_mode_name(found->mode));
        r = infp_stack_put_row(stacks);
        if (r < 0)
                stacks->counts.modes[found->mode].dropped += found->samples;
        else
                stacks->counts.modes[found->mode].taken += found->samples;
        return r;
}

/* Goes through what waits, in order. is_hurried: nothing waits any longer. */
static void go_on(struct infp_stacks *stacks, uint64_t now_ns, bool is_hurried)
{
        bool is_behind[INFP_WAIT_BUCKETS] = { false };
        struct infp_waiting *next;

        for (struct infp_waiting *at = infp_wait_next(&stacks->wait, NULL); at; at = next) {
                const unsigned bucket = infp_wait_bucket(at->sample.tid);
                const bool may_wait = !is_hurried && now_ns < at->deadline_ns;

                next = infp_wait_next(&stacks->wait, at);
                if (is_behind[bucket])
                        continue;
                if ((may_wait && at->object && at->object->state == INFP_OBJECT_WAITING) ||
                    !resolve(stacks, at->space, &at->sample, may_wait, &at->moment, &at->object)) {
                        is_behind[bucket] = true;
                        continue;
                }
                give_back(stacks, at);
        }
}

void infp_stacks_turn(struct infp_stacks *stacks, uint64_t now_ns)
{
        const bool is_news = infp_objects_turn(stacks->objects);
        const struct infp_waiting *first = infp_wait_next(&stacks->wait, NULL);

        if (is_news || (first && now_ns >= first->deadline_ns))
                go_on(stacks, now_ns, false);
        infp_seen_turn(&stacks->seen, now_ns);
        if (now_ns >= stacks->frames_cleared_ns + CLEAR_FRAMES_S * INFP_NS_PER_S) {
                memset(stacks->ids, 0, sizeof(stacks->ids));
                stacks->frames_cleared_ns = now_ns;
        }
        infp_processes_sweep(&stacks->processes, now_ns);
}

int infp_stacks_wake_fd(const struct infp_stacks *stacks)
{
        return infp_objects_wake_fd(stacks->objects);
}

void infp_stacks_end(struct infp_stacks *stacks, uint64_t deadline_ns)
{
        struct pollfd wake = { .fd = infp_stacks_wake_fd(stacks), .events = POLLIN };
        uint64_t now;

        infp_stacks_turn(stacks, infp_clock_ns(CLOCK_MONOTONIC));
        while (stacks->wait.n && (now = infp_clock_ns(CLOCK_MONOTONIC)) < deadline_ns) {
                poll(&wake, 1, (int) ((deadline_ns - now) / INFP_NS_PER_MS) + 1);
                infp_stacks_turn(stacks, infp_clock_ns(CLOCK_MONOTONIC));
        }
        go_on(stacks, deadline_ns, true);
}

void infp_stacks_seed(struct infp_stacks *stacks, pid_t pid)
{
        infp_processes_get(&stacks->processes, pid, infp_clock_ns(CLOCK_MONOTONIC));
}

void infp_stacks_lost(struct infp_stacks *stacks)
{
        stacks->processes.lost++;
}

void infp_stacks_counts(const struct infp_stacks *stacks, struct infp_stacks_counts *ret)
{
        struct infp_objects_counts objects;

        infp_objects_counts(stacks->objects, &objects);
        *ret = stacks->counts;
        ret->n_waiting = stacks->wait.n;
        ret->waiting_bytes = stacks->wait.used;
        ret->n_processes = stacks->processes.by_pid.n;
        ret->n_threads = stacks->processes.threads.by_tid.n;
        ret->n_objects = objects.n_objects;
        ret->n_unread = objects.n_unread;
        ret->n_tables = objects.work.n_tables;
        ret->table_bytes = objects.work.table_bytes;
        ret->n_built = objects.work.n_built;
        ret->n_from_cache = objects.work.n_from_cache;
        ret->helper_cpu_ns = objects.work.cpu_ns;
        ret->n_mappings_missed = stacks->processes.n_mappings_missed;
}
