/* The tasks of asyncio of one process. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "app/backtrace/parts.h"
#include "base/mem.h"
#include "base/sort.h"
#include "sampler/python/pages.h"
#include "sampler/stopped/stop.h"

enum {
        MOST_TASKS = 1 << 18,
        MOST_FRAMES = 256, /* of a chain */
        MOST_INTERPRETERS = 256,
        PATIENCE_MS = 50, /* for all threads to stop: those that have wait for the others */
        TRIES = 5,        /* of what changes while it is read */
};

struct reading {
        struct infp_backtrace_asyncio a;
        struct infp_backtrace_process *process;
        const pid_t *tids;
        const uint64_t *pthreads;
        struct infp_python_task task; /* the one that is read; then its frames */
        struct infp_python_frame frames[MOST_FRAMES];
        struct infp_python_frame running[INFP_BACKTRACE_FRAMES];
        uint64_t *found; /* addresses of tasks */
};

static bool is_no_block(const struct reading *r)
{
        return r->a.python->b->options.no_block;
}

static int32_t tid_of(const struct reading *r, uint64_t pthread)
{
        for (unsigned i = 0; i < r->process->n_threads; i++)
                if (r->pthreads[i] == pthread)
                        return r->tids[i];
        return 0;
}

/* ---- loops ---- */

static void find_loop_thread(struct reading *r, struct infp_backtrace_loop *loop)
{
        const struct infp_backtrace_python *python = r->a.python;

        for (uint32_t i = 0; i < python->n_threads && !loop->tid; i++)
                if (infp_python_thread_loop(r->a.objects, python->threads[i].state) == loop->address)
                        loop->tid = tid_of(r, python->threads[i].pthread);
}

/* Its index; UINT_MAX when it is not listed, or without memory. */
static unsigned loop_of(struct reading *r, uint64_t address, int64_t interpreter)
{
        struct infp_backtrace_tasks *ret = r->a.ret;
        const struct infp_python_object_type *type;
        struct infp_backtrace_loop *loop;

        for (unsigned i = ret->n_loops; i-- > 0;)
                if (ret->loops[i].address == address)
                        return i;
        if (!address || !INFP_ONE_MORE(ret->loops, ret->n_loops))
                return UINT_MAX;
        type = infp_python_type_of(r->a.objects, address);
        loop = &ret->loops[ret->n_loops];
        *loop = (struct infp_backtrace_loop){ .address = address,
                                              .interpreter = interpreter,
                                              .type = type ? infp_strings_keep(&r->a.python->b->texts, type->name)
                                                           : NULL };
        find_loop_thread(r, loop);
        return ret->n_loops++;
}

/* ---- one task ---- */

/* The frames of a running task are those of its thread, from the innermost one to that of its coroutine. */
static uint32_t find_running(struct reading *r, int32_t *ret_tid)
{
        const struct infp_backtrace_python *python = r->a.python;
        enum infp_python_end end;

        for (uint32_t i = 0; i < python->n_threads; i++) {
                const uint32_t n = infp_python_walk(&python->found.layout, &python->memory, python->threads[i].state,
                                                    r->running, INFP_BACKTRACE_FRAMES, &end);

                for (uint32_t k = 0; k < n; k++)
                        if (r->running[k].address == r->task.runs) {
                                *ret_tid = tid_of(r, python->threads[i].pthread);
                                return k + 1;
                        }
        }
        return 0;
}

static bool put_frame(struct reading *r, const struct infp_python_frame *frame, struct infp_backtrace_task *ret)
{
        if (!frame->code) /* between a call of C and what it runs */
                return true;
        return infp_backtrace_python_any_frame(r->a.python, frame, &ret->frames[ret->n_frames++]);
}

static bool put_frames(struct reading *r, struct infp_backtrace_task *ret)
{
        const uint32_t n_running = r->task.runs ? find_running(r, &ret->tid) : 0,
                       n = n_running ? n_running : r->task.n_frames;
        bool is_good = true;

        ret->frames = n ? calloc(n, sizeof(*ret->frames)) : NULL;
        for (uint32_t i = 0; i < n && ret->frames; i++)
                is_good &= put_frame(r, n_running ? &r->running[i] : &r->frames[n - 1 - i], ret);
        if (r->task.runs && !n_running) {
                ret->is_incomplete = true;
                ret->why = "it runs, and no thread's frames have its coroutine's among them";
        }
        return is_good;
}

static const char *type_name(struct reading *r, uint64_t object)
{
        const struct infp_python_object_type *type = infp_python_type_of(r->a.objects, object);

        return type ? infp_strings_keep(&r->a.python->b->texts, type->name) : NULL;
}

static void judge(struct reading *r, struct infp_backtrace_task *ret)
{
        switch (r->task.chain) {
        case INFP_PYTHON_CHAIN_FOREIGN:
                ret->why = infp_backtrace_printf(r->a.python->b,
                                                 "it ends in an object of type %s, whose frames are "
                                                 "not Python's",
                                                 type_name(r, r->task.foreign));
                break;
        case INFP_PYTHON_CHAIN_TOO_DEEP:
                ret->is_incomplete = true;
                ret->why = infp_backtrace_printf(r->a.python->b, "it has more than %d coroutines", MOST_FRAMES);
                break;
        case INFP_PYTHON_CHAIN_CUT:
                ret->is_incomplete = true;
                ret->why = "its innermost coroutines could not be read";
                break;
        default:
                break;
        }
}

/* Of infp_python_task_state, in its order. */
static enum infp_backtrace_task_state state_of(enum infp_python_task_state state)
{
        static const enum infp_backtrace_task_state states[INFP_PYTHON_TASK_STATES] = {
                [INFP_PYTHON_TASK_CREATED] = INFP_BACKTRACE_TASK_CREATED,
                [INFP_PYTHON_TASK_READY] = INFP_BACKTRACE_TASK_READY,
                [INFP_PYTHON_TASK_RUNNING] = INFP_BACKTRACE_TASK_RUNNING,
                [INFP_PYTHON_TASK_WAITING] = INFP_BACKTRACE_TASK_WAITING,
                [INFP_PYTHON_TASK_DONE] = INFP_BACKTRACE_TASK_DONE,
                [INFP_PYTHON_TASK_FAILED] = INFP_BACKTRACE_TASK_FAILED,
                [INFP_PYTHON_TASK_CANCELLED] = INFP_BACKTRACE_TASK_CANCELLED,
        };

        return states[state];
}

/* Whether the frames are those that were read before. */
static bool is_same(const struct reading *r, const struct infp_python_task *before,
                    const struct infp_python_frame *frames)
{
        if (before->state != r->task.state || before->waiter != r->task.waiter ||
            before->n_frames != r->task.n_frames || before->chain != r->task.chain || before->runs != r->task.runs)
                return false;
        for (uint32_t i = 0; i < before->n_frames; i++)
                if (frames[i].address != r->frames[i].address || frames[i].code != r->frames[i].code ||
                    (frames[i].instruction != r->frames[i].instruction && !before->runs))
                        return false;
        return true;
}

static int read_task(struct reading *r, const struct infp_python_asyncio *asyncio, uint64_t address)
{
        return infp_python_task_read(r->a.objects, asyncio, address, &r->task, r->frames, MOST_FRAMES);
}

/* False: it changed, or could not be read. */
static bool show_task(struct reading *r, const struct infp_python_asyncio *asyncio, uint64_t address,
                      int64_t interpreter, struct infp_backtrace_task *ret)
{
        const bool is_read = read_task(r, asyncio, address) == 0;
        bool is_good;

        *ret = (struct infp_backtrace_task){
                .address = address, .state = INFP_BACKTRACE_TASK_UNKNOWN, .loop = UINT_MAX, .waits_for_task = UINT32_MAX
        };
        if (!is_read)
                return false;
        ret->name = r->task.name[0] ? infp_strings_keep(&r->a.python->b->texts, r->task.name) : NULL;
        ret->state = state_of(r->task.state);
        ret->loop = loop_of(r, r->task.loop, interpreter);
        ret->waits_for = r->task.waiter ? type_name(r, r->task.waiter) : NULL;
        is_good = put_frames(r, ret);
        judge(r, ret);
        return is_good;
}

/* The same of one that may run meanwhile: read until it is the same twice. */
static bool show_running(struct reading *r, const struct infp_python_asyncio *asyncio, uint64_t address,
                         int64_t interpreter, struct infp_backtrace_task *ret)
{
        infp_autofree struct infp_python_task *before = malloc(sizeof(*before));
        infp_autofree struct infp_python_frame *frames = malloc(sizeof(r->frames));
        bool is_sure = false;

        for (unsigned try = 0; before && frames && try < TRIES && !is_sure; try++) {
                if (try)
                        free(ret->frames);
                infp_backtrace_python_forget(r->a.python);
                is_sure = show_task(r, asyncio, address, interpreter, ret);
                *before = r->task;
                memcpy(frames, r->frames, r->task.n_frames * sizeof(*frames));
                is_sure = is_sure && read_task(r, asyncio, address) == 0 && is_same(r, before, frames);
        }
        return is_sure;
}

static void take_task(struct reading *r, const struct infp_python_asyncio *asyncio, uint64_t address,
                      int64_t interpreter)
{
        struct infp_backtrace_tasks *ret = r->a.ret;
        struct infp_backtrace_task *task;
        uint64_t *waiters;

        if (infp_map_get(&r->a.by_address, address))
                return; /* it is in two lists */
        if (ret->n_tasks == r->a.cap) {
                const uint32_t cap = r->a.cap ? 2 * r->a.cap : 64;

                waiters = reallocarray(r->a.waiters, cap, sizeof(*waiters));
                r->a.waiters = waiters ? waiters : r->a.waiters;
                task = reallocarray(ret->tasks, cap, sizeof(*task));
                ret->tasks = task ? task : ret->tasks;
                if (!waiters || !task) {
                        ret->is_whole = false;
                        return;
                }
                r->a.cap = cap;
        }
        task = &ret->tasks[ret->n_tasks];
        if (!(is_no_block(r) ? show_running : show_task)(r, asyncio, address, interpreter, task)) {
                task->why = "it changed while it was read, or could not be read";
                task->is_incomplete = true;
                ret->n_unread++;
        }
        r->a.waiters[ret->n_tasks] = r->task.waiter;
        infp_map_put(&r->a.by_address, address, ret->n_tasks++);
}

/* ---- all tasks ---- */

static void take_interpreter(struct reading *r, uint64_t interpreter, int64_t id)
{
        const struct infp_backtrace_python *python = r->a.python;
        struct infp_python_asyncio asyncio;
        bool is_whole = false;
        uint32_t n = 0;
        int e = infp_python_asyncio_find(r->a.objects, interpreter, &asyncio);

        if (e == -ENOENT)
                return;
        r->process->has_tasks = true;
        if (!r->a.objects->tasks->knows_tasks) {
                r->a.ret->problem = "its module _asyncio does not say where it keeps them (section .AsyncioDebug)";
                return;
        }
        for (unsigned try = 0; e == 0 && !is_whole && try < (is_no_block(r) ? TRIES : 1); try++)
                n = infp_python_tasks(r->a.objects, &asyncio, python->threads, python->n_threads, r->found, MOST_TASKS,
                                      &is_whole);
        r->a.ret->is_whole &= is_whole;
        for (uint32_t i = 0; i < n; i++)
                take_task(r, &asyncio, r->found[i], id);
}

static bool is_listed(const uint64_t *list, unsigned n, uint64_t address)
{
        for (unsigned i = 0; i < n; i++)
                if (list[i] == address)
                        return true;
        return false;
}

static void take_all(void *context, unsigned n_running)
{
        struct reading *r = context;
        struct infp_backtrace_python *python = r->a.python;
        uint64_t done[MOST_INTERPRETERS];
        unsigned n = 0;

        r->a.ret->n_running = n_running;
        infp_backtrace_python_forget(python);
        infp_backtrace_python_list(python);
        for (uint32_t i = 0; i < python->n_threads; i++) {
                const struct infp_python_thread *thread = &python->threads[i];

                if (is_listed(done, n, thread->interpreter))
                        continue;
                if (n == MOST_INTERPRETERS) { /* bound: it is said */
                        r->a.ret->is_whole = false;
                        break;
                }
                done[n++] = thread->interpreter;
                take_interpreter(r, thread->interpreter, thread->interpreter_id);
        }
        r->a.ret->is_whole &= python->is_whole;
        infp_backtrace_tasks_relate(&r->a);
}

static void take_stopped(struct reading *r)
{
        struct infp_backtrace_python *python = r->a.python;
        struct infp_python_pages pages;
        struct infp_stop_all stop = {
                .tids = r->tids, .n = r->process->n_threads, .patience_ms = PATIENCE_MS, .run = take_all, .context = r
        };
        const struct infp_python_memory memory = python->memory;
        int e;

        python->memory = r->a.objects->memory = infp_python_pages_begin(&pages, memory);
        e = infp_stop_all(&stop);
        python->memory = memory;
        infp_python_pages_done(&pages);
        r->a.ret->was_stopped = e == 0;
        r->a.ret->stop_us = (double) stop.stopped_ns / 1e3;
        if (e < 0)
                r->a.ret->problem = "its threads could not be stopped";
}

/* ---- their order ---- */

static int compare_tasks(const void *left, const void *right, void *context)
{
        const struct infp_backtrace_task *tasks = context, *a = &tasks[*(const uint32_t *) left],
                                         *b = &tasks[*(const uint32_t *) right];
        int by_name;

        if (a->loop != b->loop)
                return a->loop < b->loop ? -1 : 1;
        by_name = strverscmp(a->name ? a->name : "", b->name ? b->name : "");
        if (by_name)
                return by_name;
        return (a->address > b->address) - (a->address < b->address);
}

/* By loop, then by name with its numbers in their order. */
static void sort_tasks(struct infp_backtrace_tasks *tasks)
{
        const uint32_t n = tasks->n_tasks;
        infp_autofree uint32_t *order = calloc(n + 1, sizeof(*order)), *place = calloc(n + 1, sizeof(*place));
        struct infp_backtrace_task *sorted = calloc(n + 1, sizeof(*sorted));

        if (!order || !place || !sorted) {
                free(sorted);
                return;
        }
        for (uint32_t i = 0; i < n; i++)
                order[i] = i;
        infp_sort_r(order, n, sizeof(*order), compare_tasks, tasks->tasks);
        for (uint32_t i = 0; i < n; i++)
                place[order[i]] = i;
        for (uint32_t i = 0; i < n; i++) {
                struct infp_backtrace_task *task = &sorted[i];

                *task = tasks->tasks[order[i]];
                if (task->waits_for_task != UINT32_MAX)
                        task->waits_for_task = place[task->waits_for_task];
                for (uint32_t k = 0; k < task->n_awaited_by; k++)
                        task->awaited_by[k] = place[task->awaited_by[k]];
                infp_sort(task->awaited_by, task->n_awaited_by, sizeof(*task->awaited_by), infp_compare_i32);
        }
        free(tasks->tasks);
        tasks->tasks = sorted;
}

/* ---- a process ---- */

void infp_backtrace_tasks_take(struct infp_backtrace_python *python, struct infp_backtrace_process *process,
                               const pid_t *tids, const uint64_t *pthreads)
{
        infp_autofree struct infp_python_task_layout *layout = malloc(sizeof(*layout));
        infp_autofree struct infp_python_objects *objects = calloc(1, sizeof(*objects));
        infp_autofree struct reading *r = calloc(1, sizeof(*r));
        infp_autofree uint64_t *found = malloc(MOST_TASKS * sizeof(*found)); /* untouched memory costs nothing */

        if (!layout || !objects || !r || !found) {
                process->has_tasks = true;
                process->tasks.problem = "there is no memory for them";
                return;
        }
        process->tasks.problem = infp_python_tasks_problem(&python->found, &python->memory, layout);
        process->has_tasks = process->tasks.problem != NULL;
        if (process->tasks.problem)
                return;
        process->tasks.is_whole = true;
        *objects = (struct infp_python_objects){
                .layout = &python->found.layout, .tasks = layout, .memory = python->memory, .none = python->found.none
        };
        r->a = (struct infp_backtrace_asyncio){ .python = python, .objects = objects, .ret = &process->tasks };
        r->process = process;
        r->tids = tids;
        r->pthreads = pthreads;
        r->found = found;
        if (is_no_block(r))
                take_all(r, 0);
        else
                take_stopped(r);
        sort_tasks(&process->tasks);
        free(r->a.waiters);
        infp_map_done(&r->a.by_address);
}

void infp_backtrace_tasks_done(struct infp_backtrace_tasks *tasks)
{
        for (uint32_t i = 0; i < tasks->n_tasks; i++) {
                free(tasks->tasks[i].frames);
                free(tasks->tasks[i].awaited_by);
        }
        free(tasks->tasks);
        free(tasks->loops);
}
