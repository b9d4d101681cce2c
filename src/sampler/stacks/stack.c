#include "sampler/stacks/stack.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/guarded_map.h"
#include "base/time.h"
#include "sampler/sampler.h"
#include "sampler/stacks/parts.h"

enum {
        WAITING_BYTES = 8 << 20,
        WAIT_S = 3,     /* a table that takes longer than this is not waited for */
        FORGET_S = 300, /* before the recorder does */
        MOST_SEEN = 3 << 17,
        CLEAR_FRAMES_S = 5, /* so that objects in use are known to be */
        AHEAD_WORDS = 4096, /* of a stack that are looked at for objects that will be needed */
        GUESS_WORDS = 512,  /* where a guess may find its caller */
        CALLS = 4,          /* that a thread must still be in when the rest of its stack is read */
};

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
        stacks->is_comparing = infp_debug_is_on();
        stacks->row.text = stacks->text;
        stacks->row.text_cap = sizeof(stacks->text);
        infp_ids_init(&stacks->seen, MOST_SEEN);
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
                infp_rest_done(&stacks->rest);
                if (stacks->objects)
                        infp_stack_nameless_done(stacks);
                infp_thread_names_free(stacks->thread_names);
                infp_processes_done(&stacks->processes);
                infp_objects_free(stacks->objects);
                infp_ids_done(&stacks->seen);
                infp_map_done(&stacks->named);
                free(stacks);
        }
        return NULL;
}

/* ---- from a sample to the addresses of its frames, with the tables that are there; what is missing is asked for ---- */

static struct infp_object *object_of(const struct infp_space *space, uint32_t mapping)
{
        return mapping == INFP_NO_MAPPING ? NULL : space->mappings[mapping].object;
}

static void request(struct infp_stacks *stacks, const struct infp_space_mapping *mapping, int32_t pid)
{
        infp_objects_request(stacks->objects, mapping->object, pid, mapping->begin, mapping->end);
}

/* Asks for all objects that words of the stack, from sp on, point into: mostly they are callers, and one after the other would take
 * a turn each. Returns one of them that is not there yet. */
static const struct infp_object *request_ahead(struct infp_stacks *stacks, const struct infp_space *space,
                                               const struct infp_perf_sample *sample, uint64_t sp, uint32_t n_words)
{
        const uint64_t begin = sample->registers[INFP_RSP];
        const struct infp_object *missing = NULL;
        uint64_t low, high, at = sp > begin ? sp - begin : 0;

        if (!space->n)
                return NULL;
        low = space->mappings[0].begin;
        high = space->mappings[space->n - 1].end;
        for (; n_words && at + 8 <= sample->stack_size; at += 8, n_words--) {
                const struct infp_space_mapping *mapping;
                uint64_t word;

                memcpy(&word, sample->stack + at, sizeof(word));
                if (word < low || word >= high)
                        continue;
                mapping = infp_space_find(space, word);
                if (!mapping || mapping->object->state == INFP_OBJECT_READY)
                        continue;
                request(stacks, mapping, sample->pid);
                if (mapping->object->state == INFP_OBJECT_WAITING)
                        missing = mapping->object;
        }
        return missing;
}

/* An unwind that ended in code without a table. True: *ret_object may bring one. */
static bool ask(struct infp_stacks *stacks, struct infp_unwound *unwound, const struct infp_perf_sample *sample,
                const struct infp_object **ret_object)
{
        const struct infp_space *space = unwound->space;
        const struct infp_unwind_frame *last = &stacks->frames[unwound->n_kernel + unwound->result.n_frames - 1];
        struct infp_object *object = object_of(space, last->mapping);

        if (!object)
                return false;
        if (object->state != INFP_OBJECT_READY) {
                request(stacks, &space->mappings[last->mapping], sample->pid);
                request_ahead(stacks, space, sample, last->sp, AHEAD_WORDS);
                *ret_object = object;
                return object->state == INFP_OBJECT_WAITING;
        }
        if (sample->unknown)
                return false;
        unwound->is_guessable = true;
        *ret_object = request_ahead(stacks, space, sample, last->sp, GUESS_WORDS);
        return *ret_object != NULL;
}

static void walk(struct infp_stacks *stacks, struct infp_unwound *unwound, struct infp_guarded_map *maps)
{
        infp_guarded_map_begin(maps);
        infp_unwind(&unwound->start, &stacks->cache, stacks->frames + unwound->n_kernel, stacks->max_depth,
                    &unwound->result);
        infp_guarded_map_end();
}

/* Fills stacks->frames, the innermost first. False: *ret_object may bring a table that leads on. */
static bool unwind(struct infp_stacks *stacks, struct infp_space *space, const struct infp_perf_sample *sample,
                   struct infp_unwound *ret, const struct infp_object **ret_object)
{
        *ret_object = NULL;
        ret->space = space;
        ret->n_kernel = sample->n_kernel;
        ret->is_guessable = false;
        ret->result = (struct infp_unwind_result){ 0 };
        for (uint32_t i = 0; i < sample->n_kernel; i++)
                stacks->frames[i] =
                        (struct infp_unwind_frame){ sample->kernel[i], 0, INFP_NO_MAPPING, INFP_FRAME_OF_KERNEL };
        ret->view = (struct infp_unwind_space){ 0 };
        if (!sample->has_registers)
                return true;
        ret->result.end = INFP_UNWIND_BROKEN;
        infp_objects_forget_pages(stacks->objects);
        if (infp_space_view(space, stacks->objects, &stacks->last_space_id, &ret->view) < 0)
                return true;
        ret->dumps[0] = (struct infp_unwind_dump){ sample->stack, sample->registers[INFP_RSP], sample->stack_size,
                                                   sample->is_cut };
        for (uint32_t i = 0; i < sample->n_rest; i++)
                ret->dumps[1 + i] = sample->rest[i];
        ret->start = (struct infp_unwind_start){ .space = &ret->view,
                                                 .dumps = ret->dumps,
                                                 .n_dumps = 1 + sample->n_rest,
                                                 .values = sample->registers,
                                                 .unknown = sample->unknown };
        walk(stacks, ret, infp_objects_table_maps(stacks->objects));
        return (ret->result.end != INFP_UNWIND_NO_TABLE && ret->result.end != INFP_UNWIND_UNSUPPORTED) ||
               !ret->result.n_frames || !ask(stacks, ret, sample, ret_object);
}

/* With the code of all objects at hand: files that may become shorter while they are looked at, as entries of the cache may. */
static void guess(struct infp_stacks *stacks, struct infp_unwound *unwound)
{
        struct infp_guarded_map *first = infp_objects_table_maps(stacks->objects);
        const struct infp_space *space = unwound->space;

        stacks->n_guesses++;
        for (uint32_t i = 0; i < space->n; i++) {
                struct infp_object_image *image = space->mappings[i].object->image;

                if (!space->view[i].code || !image->file_map.at || image->mark == stacks->n_guesses)
                        continue;
                image->mark = stacks->n_guesses; /* one image may be mapped in several places */
                image->file_map.next = first;
                first = &image->file_map;
        }
        unwound->start.may_guess = true;
        walk(stacks, unwound, first);
}

/* ---- from a sample to its stack, now or later ---- */

void infp_stack_count(struct infp_stacks *stacks, enum infp_stack_mode mode, const struct infp_unwind_result *result)
{
        struct infp_stack_counts *counts = &stacks->counts.modes[mode];

        counts->frames += result->n_frames;
        counts->guessed_frames += result->n_guessed;
        if (result->end == INFP_UNWIND_TRUNCATED || result->end == INFP_UNWIND_TOO_DEEP)
                counts->truncated++;
        else if (result->end != INFP_UNWIND_COMPLETE)
                counts->incomplete++;
}

/* Makes the stack of what was unwound last, and gives it to `found`. object: a table that may still come. */
static void resolve(struct infp_stacks *stacks, struct infp_unwound *unwound, const struct infp_perf_sample *sample,
                    const struct infp_object *object, struct infp_stack_found *moment, infp_stack_found_fn *found,
                    void *context, uint64_t cookie)
{
        uint32_t n;

        if (unwound->is_guessable)
                guess(stacks, unwound);
        if (sample->python)
                infp_stack_merge(stacks, unwound, sample->python, &stacks->counts.modes[moment->mode]);
        n = unwound->n_kernel + unwound->result.n_frames;
        moment->is_truncated = unwound->result.end != INFP_UNWIND_COMPLETE;
        if (unwound->result.end == INFP_UNWIND_TRUNCATED && stacks->lacked &&
            (moment->mode == INFP_STACK_CPU || moment->mode == INFP_STACK_OFF_CPU))
                stacks->lacked(stacks->lacked_context, sample->tid, unwound->result.address);
        if (unwound->result.end == INFP_UNWIND_TRUNCATED)
                moment->cut_bytes = unwound->result.address - sample->registers[INFP_RSP];
        moment->depth = n ? n - 1 : 0;
        moment->stack = infp_stack_nodes(stacks, moment, unwound);
        infp_stack_count(stacks, moment->mode, &unwound->result);
        stacks->counts.modes[moment->mode].deep += sample->n_rest && !moment->is_completed;
        stacks->counts.modes[moment->mode].completed += moment->is_completed;
        stacks->counts.modes[moment->mode].hurried += object && moment->is_truncated;
        stacks->found = unwound;
        found(context, cookie, moment);
        stacks->found = NULL;
}

/* ---- the rest of a stack that is larger than its copy ---- */

/* Nothing in memory shows for sure that a thread has not left a call for the same one from another caller: what is older is not read. */
static const uint64_t late_ns = INFP_NS_PER_MS;
static const uint64_t refused_ns = 10 * INFP_NS_PER_S; /* until a process that may not be read is asked again */

/* A sample is looked for this long after it is due, and not more often than that. */
static const uint64_t prompt_ns = 250 * 1000, prompt_pause_ns = 5 * INFP_NS_PER_MS;

/* When a busy thread's next sample is due. */
static void expect(struct infp_stacks *stacks, const struct infp_perf_sample *sample, uint64_t now_ns)
{
        stacks->cut[(uint32_t) sample->tid % INFP_STACK_CUT] = (struct infp_stack_cut){
                .period_ns = sample->period,
                .next_ns = sample->t_ns + ((now_ns - sample->t_ns) / sample->period + 1) * sample->period,
                .last_ns = now_ns,
        };
}

uint64_t infp_stacks_due(struct infp_stacks *stacks, uint64_t now_ns)
{
        uint64_t ret = UINT64_MAX;

        for (unsigned i = 0; i < INFP_STACK_CUT; i++) {
                struct infp_stack_cut *cut = &stacks->cut[i];

                if (!cut->period_ns || now_ns > cut->last_ns + INFP_NS_PER_S)
                        continue;
                if (cut->next_ns < now_ns)
                        cut->next_ns += ((now_ns - cut->next_ns) / cut->period_ns + 1) * cut->period_ns;
                ret = cut->next_ns + prompt_ns < ret ? cut->next_ns + prompt_ns : ret;
        }
        return ret < now_ns + prompt_pause_ns ? now_ns + prompt_pause_ns : ret;
}

/* Whether the rest may be read now: the sample has just been taken. */
static bool is_completable(const struct infp_stacks *stacks, const struct infp_space_process *process,
                           const struct infp_perf_sample *sample, const struct infp_unwound *unwound,
                           enum infp_stack_mode mode)
{
        return unwound->result.end == INFP_UNWIND_TRUNCATED && stacks->options.is_completing &&
               mode == INFP_STACK_CPU && sample->period && sample->t_ns >= process->refused_ns;
}

/* Of few calls all bytes are to be the same: another call of the same function may have the same return addresses. */
static uint64_t witness_of(const struct infp_stacks *stacks, const struct infp_unwound *unwound)
{
        return unwound->result.n_frames > CALLS
                       ? stacks->frames[unwound->n_kernel + unwound->result.n_frames - CALLS].sp - 8
                       : 0;
}

/* Reads what the walk lacks, until it lacks nothing more that can be read. False: a table that is missing leads on. */
static bool complete(struct infp_stacks *stacks, struct infp_space_process *process, struct infp_perf_sample *sample,
                     struct infp_unwound *unwound, const struct infp_object **ret_object,
                     struct infp_stack_found *moment)
{
        struct infp_rest *rest = &stacks->rest;
        const struct infp_perf_sample before = *sample;
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        enum infp_rest_read r = now_ns > sample->t_ns + late_ns ? INFP_REST_MOVED : INFP_REST_READ;
        bool is_known = true;

        expect(stacks, sample, now_ns);
        infp_rest_begin(rest, sample, witness_of(stacks, unwound));
        while (is_known && r == INFP_REST_READ && unwound->result.end == INFP_UNWIND_TRUNCATED &&
               (r = infp_rest_add(rest, unwound->result.address)) == INFP_REST_READ) {
                sample->rest = rest->dumps;
                sample->n_rest = rest->n_dumps;
                is_known = unwind(stacks, process->space, sample, unwound, ret_object);
        }
        if (r == INFP_REST_DENIED)
                process->refused_ns = sample->t_ns + refused_ns;
        if (r == INFP_REST_MOVED || (rest->n_pieces && !infp_rest_holds(rest))) {
                stacks->counts.modes[moment->mode].moved++;
                if (!rest->n_pieces)
                        return true;
                *sample = before;
                return unwind(stacks, process->space, sample, unwound, ret_object);
        }
        moment->is_completed = rest->n_pieces > 0;
        return is_known;
}

/* To measure how often `complete` is wrong (docs/performance.md): what it makes of a sample whose rest is of the same moment. */
static void compare(struct infp_stacks *stacks, struct infp_space_process *process,
                    const struct infp_perf_sample *sample, const struct infp_unwound *unwound,
                    const struct infp_stack_found *moment)
{
        const uint32_t n = unwound->n_kernel + unwound->result.n_frames;
        const struct infp_stack_counts counts = stacks->counts.modes[moment->mode];
        struct infp_stack_found found = *moment;
        struct infp_perf_sample bare = *sample;
        const struct infp_object *object;
        struct infp_unwound later;
        bool is_same;

        memcpy(stacks->compared.frames, stacks->frames, n * sizeof(stacks->frames[0]));
        bare.n_rest = 0;
        if (unwind(stacks, process->space, &bare, &later, &object) && later.result.end == INFP_UNWIND_TRUNCATED &&
            complete(stacks, process, &bare, &later, &object, &found) && later.result.end == INFP_UNWIND_COMPLETE) {
                is_same = later.result.n_frames == unwound->result.n_frames;
                for (uint32_t i = 0; i < n && is_same; i++)
                        is_same = stacks->frames[i].pc == stacks->compared.frames[i].pc;
                stacks->compared.n++;
                stacks->compared.n_wrong += !is_same;
        }
        stacks->counts.modes[moment->mode] = counts;
        memcpy(stacks->frames, stacks->compared.frames, n * sizeof(stacks->frames[0]));
}

/* Goes on with one that has waited. False: it waits for another table. */
static bool go_on(struct infp_stacks *stacks, struct infp_waiting *waiting, bool may_wait)
{
        struct infp_unwound unwound;

        if (!unwind(stacks, waiting->space, &waiting->sample, &unwound, &waiting->object) && may_wait)
                return false;
        resolve(stacks, &unwound, &waiting->sample, waiting->object, &waiting->moment, waiting->found, waiting->context,
                waiting->cookie);
        infp_space_unref(waiting->space);
        infp_wait_remove(&stacks->wait, waiting);
        return true;
}

/* Without room the oldest ones wait no longer, of whatever threads: a newer one of a thread never goes before an older one. NULL: there
 * is no room for it at all. */
static struct infp_waiting *put_waiting(struct infp_stacks *stacks, const struct infp_perf_sample *sample)
{
        struct infp_waiting *waiting;

        while (!(waiting = infp_wait_put(&stacks->wait, sample))) {
                struct infp_waiting *oldest = infp_wait_next(&stacks->wait, NULL);

                if (!oldest)
                        return NULL;
                go_on(stacks, oldest, false);
        }
        waiting->deadline_ns = infp_clock_ns(CLOCK_MONOTONIC) + WAIT_S * INFP_NS_PER_S;
        return waiting;
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

/* Who it was; writes the thread. NULL: no memory. */
static struct infp_space_thread *meet(struct infp_stacks *stacks, int32_t pid, int32_t tid, uint64_t t_ns,
                                      struct infp_stack_found *ret)
{
        struct infp_space_thread *thread = infp_processes_thread(&stacks->processes, pid, tid, t_ns);

        *ret = (struct infp_stack_found){ .t_ns = t_ns, .pid = pid, .tid = tid, .cpu = -1, .samples = 1 };
        if (!thread)
                return NULL;
        ret->process = thread->owner->id;
        ret->thread = thread->id;
        infp_stack_thread_row(stacks, thread);
        return thread;
}

void infp_stacks_thread(struct infp_stacks *stacks, int32_t pid, int32_t tid, struct infp_stack_found *ret)
{
        meet(stacks, pid, tid, infp_clock_ns(CLOCK_MONOTONIC), ret);
}

void infp_stacks_take(struct infp_stacks *stacks, const struct infp_perf_sample *sample, enum infp_stack_mode mode,
                      infp_stack_found_fn *found, void *context, uint64_t cookie)
{
        struct infp_stack_found moment;
        const struct infp_space_thread *thread = meet(stacks, sample->pid, sample->tid, sample->t_ns, &moment);
        const struct infp_object *object = NULL;
        struct infp_space_process *process;
        struct infp_unwound unwound;
        struct infp_perf_sample own;
        bool is_known;

        moment.cpu = sample->cpu;
        moment.mode = mode;
        if (!thread) {
                found(context, cookie, &moment);
                return;
        }
        process = thread->owner;
        if (is_unmapped(process->space, sample)) {
                if (!is_in_exec(process, sample)) {
                        infp_processes_reread(&stacks->processes, process, sample->t_ns);
                } else {
                        own = *sample;
                        own.has_registers = false;
                        sample = &own;
                }
        }
        is_known = !stacks->wait.n_by_thread[infp_wait_bucket(sample->tid)] &&
                   unwind(stacks, process->space, sample, &unwound, &object);
        if (is_known && sample->n_rest && stacks->is_comparing && unwound.result.end == INFP_UNWIND_COMPLETE)
                compare(stacks, process, sample, &unwound, &moment);
        if (is_known && is_completable(stacks, process, sample, &unwound, mode)) {
                if (sample != &own)
                        own = *sample;
                sample = &own;
                is_known = complete(stacks, process, &own, &unwound, &object, &moment);
        }
        if (!is_known) {
                struct infp_waiting *waiting = put_waiting(stacks, sample);

                if (waiting) {
                        waiting->space = infp_space_ref(process->space);
                        waiting->object = object;
                        waiting->moment = moment;
                        waiting->found = found;
                        waiting->context = context;
                        waiting->cookie = cookie;
                        return;
                }
                unwind(stacks, process->space, sample, &unwound, &object);
        }
        resolve(stacks, &unwound, sample, object, &moment, found, context, cookie);
}

/* ---- rows of samples, and records of perf events ---- */

int infp_stacks_put(struct infp_stacks *stacks, const struct infp_stack_found *found, double weight, const char *state)
{
        struct infp_row *row = &stacks->row;
        int r;

        infp_row_begin(row, &infp_table_stack_samples, found->t_ns);
        if (found->process)
                infp_row_id(row, INFP_STACK_SAMPLES_PROCESS, found->process);
        if (found->tid)
                infp_row_i64(row, INFP_STACK_SAMPLES_TID, found->tid);
        if (found->thread)
                infp_row_id(row, INFP_STACK_SAMPLES_THREAD, found->thread);
        if (found->cpu >= 0)
                infp_row_i64(row, INFP_STACK_SAMPLES_CPU, found->cpu);
        if (found->stack) {
                infp_row_id(row, INFP_STACK_SAMPLES_STACK, found->stack);
                infp_row_bool(row, INFP_STACK_SAMPLES_IS_TRUNCATED, found->is_truncated);
                infp_row_bool(row, INFP_STACK_SAMPLES_IS_COMPLETED, found->is_completed);
                if (found->cut_bytes)
                        infp_row_i64(row, INFP_STACK_SAMPLES_CUT_BYTES, (int64_t) found->cut_bytes);
        }
        infp_row_f64(row, INFP_STACK_SAMPLES_WEIGHT, weight);
        infp_row_i64(row, INFP_STACK_SAMPLES_SAMPLES, found->samples);
        if (found->objects > 0)
                infp_row_f64(row, INFP_STACK_SAMPLES_OBJECTS, found->objects);
        if (state)
                infp_row_str(row, INFP_STACK_SAMPLES_STATE, state);
        if (found->gil)
                infp_row_str(row, INFP_STACK_SAMPLES_GIL, infp_gil_name(found->gil));
        if (found->task)
                infp_row_str(row, INFP_STACK_SAMPLES_TASK, found->task);
        infp_row_str(row, INFP_STACK_SAMPLES_MODE, infp_stack_modes[found->mode].name);
        r = infp_stack_put_row(stacks);
        if (r < 0)
                stacks->counts.modes[found->mode].dropped += found->samples;
        else
                stacks->counts.modes[found->mode].taken += found->samples;
        return r;
}

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

/* Goes through what waits, in order. is_hurried: nothing waits any longer. */
static void go_through(struct infp_stacks *stacks, uint64_t now_ns, bool is_hurried)
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
                    !go_on(stacks, at, may_wait))
                        is_behind[bucket] = true;
        }
}

static void take_thread_names(struct infp_stacks *stacks, uint64_t now_ns)
{
        struct infp_thread_name *name;

        while (stacks->thread_names && (name = infp_thread_names_take(stacks->thread_names))) {
                struct infp_space_thread *thread =
                        infp_processes_name_python(&stacks->processes, name->pid, name->tid, name->name, now_ns);

                /* One that has no row yet gets it with its first sample. */
                if (thread && infp_ids_has(&stacks->seen, thread->id))
                        infp_stack_thread_row(stacks, thread);
                free(name);
        }
}

void infp_stacks_turn(struct infp_stacks *stacks, uint64_t now_ns)
{
        const bool is_news = infp_objects_turn(stacks->objects);
        const struct infp_waiting *first = infp_wait_next(&stacks->wait, NULL);

        if (is_news || (first && now_ns >= first->deadline_ns))
                go_through(stacks, now_ns, false);
        if (!stacks->forgot_ns)
                stacks->forgot_ns = now_ns;
        if (now_ns >= stacks->forgot_ns + FORGET_S * INFP_NS_PER_S) {
                infp_ids_clear(&stacks->seen);
                stacks->forgot_ns = now_ns;
        }
        if (now_ns >= stacks->frames_cleared_ns + CLEAR_FRAMES_S * INFP_NS_PER_S) {
                memset(stacks->ids, 0, sizeof(stacks->ids));
                for (unsigned i = 0; i < INFP_STACK_PATHS; i++)
                        stacks->paths[i].n = 0;
                stacks->frames_cleared_ns = now_ns;
        }
        take_thread_names(stacks, now_ns);
        infp_processes_sweep(&stacks->processes, now_ns);
}

void infp_stacks_python(struct infp_stacks *stacks, pid_t pid, const struct infp_python *python)
{
        if (!stacks->thread_names && python)
                infp_thread_names_new(stacks->env.root_fd, &stacks->thread_names); /* else threads have none */
        if (stacks->thread_names)
                infp_thread_names_know(stacks->thread_names, pid, python);
}

void infp_stacks_complete(struct infp_stacks *stacks, bool is_completing, infp_stacks_lacked_fn *lacked, void *context)
{
        stacks->lacked = lacked;
        stacks->lacked_context = context;
        stacks->options.is_completing = is_completing;
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
        go_through(stacks, deadline_ns, true);
        if (stacks->compared.n)
                infp_debug("stacks: %llu were completed beside their rest of the same moment, %llu of them differ",
                           (unsigned long long) stacks->compared.n, (unsigned long long) stacks->compared.n_wrong);
}

void infp_stacks_seed(struct infp_stacks *stacks, pid_t pid)
{
        infp_processes_seed(&stacks->processes, pid);
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
        ret->n_threads = stacks->processes.by_tid.n;
        ret->n_objects = objects.n_objects;
        ret->n_unread = objects.n_unread;
        ret->n_tables = objects.work.n_tables;
        ret->table_bytes = objects.work.table_bytes;
        ret->n_built = objects.work.n_built;
        ret->n_from_cache = objects.work.n_from_cache;
        ret->helper_cpu_ns = objects.work.cpu_ns;
        if (stacks->thread_names)
                ret->helper_cpu_ns += infp_thread_names_cpu_ns(stacks->thread_names);
        ret->n_mappings_missed = stacks->processes.n_mappings_missed;
}
