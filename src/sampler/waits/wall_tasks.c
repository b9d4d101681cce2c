#include "sampler/waits/wall_tasks_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/time.h"
#include "model/stack_tables.h"
#include "sampler/python/pages.h"

enum {
        TRIES = 4, /* of tasks whose loop runs */
        LISTED = 16 * 1024,
        COST = 20, /* a look at the tasks of a loop stands for so many times as long */
        FIRST_PAUSE_MS = 100,
};
#define LAST_PAUSE_NS (10 * INFP_NS_PER_S)
/* So far looks may be ahead of that: one for which the host took the CPU away would leave a stretch without a look. */
#define AHEAD_NS INFP_NS_PER_S
#define TYPES_NS (10 * INFP_NS_PER_S) /* a type may be gone, and another one be in its place */

struct infp_wall_tasks *infp_wall_tasks_new(const struct infp_python *python, int root_fd)
{
        struct infp_wall_tasks *ret = calloc(1, sizeof(*ret));

        if (!ret)
                return NULL;
        ret->python = *python;
        ret->root_fd = root_fd;
        ret->pool = malloc(WALL_POOL * sizeof(*ret->pool)); /* untouched memory costs nothing */
        ret->listed = malloc(LISTED * sizeof(*ret->listed));
        return ret->pool && ret->listed ? ret : infp_wall_tasks_free(ret);
}

struct infp_wall_tasks *infp_wall_tasks_free(struct infp_wall_tasks *tasks)
{
        if (!tasks)
                return NULL;
        for (uint32_t i = 0; i < tasks->n_loops; i++)
                free(tasks->loops[i].tasks);
        free(tasks->loops);
        free(tasks->pool);
        free(tasks->listed);
        free(tasks);
        return NULL;
}

/* ---- frames ---- */

/* From place `from` on. */
static bool check_some(struct infp_python_checks *checks, const struct infp_frames_process *process, uint32_t *from,
                       uint32_t n, struct infp_frames_one *ret)
{
        uint32_t end = *from, k = 0;

        for (checks->n = 0; end < n && checks->n < INFP_PYTHON_CHECKS; end++)
                if (ret[end].code)
                        checks->codes[checks->n++] = ret[end].code;
        if (infp_python_checks_make(checks, &process->layout, &process->check) < checks->n)
                return false;
        for (; *from < end; ++*from)
                if (ret[*from].code)
                        ret[*from].check = checks->ret[k++];
        return true;
}

bool infp_wall_check_frames(struct infp_python_checks *checks, const struct infp_frames_process *process, int32_t tid,
                            uint32_t n, struct infp_frames_one *ret)
{
        checks->gather = infp_python_process_gather;
        checks->context = (void *) (intptr_t) tid;
        for (uint32_t i = 0; i < n;)
                if (!check_some(checks, process, &i, n, ret))
                        return false;
        return true;
}

/* Frames of a task whose coroutine runs: those of its thread, from the innermost to its coroutine's. 0: it is not there. */
static uint32_t find_running(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look)
{
        enum infp_python_end end;
        const uint32_t n = infp_python_walk(&look->process->layout, &tasks->objects.memory,
                                            look->threads[look->place].state, tasks->thread, INFP_FRAMES_MOST, &end);

        if (end != INFP_PYTHON_WHOLE && end != INFP_PYTHON_TOO_DEEP)
                return 0;
        for (uint32_t i = 0; i < n; i++)
                if (tasks->thread[i].address == tasks->task.runs)
                        return i + 1;
        return 0;
}

static struct infp_frames_one one_of(const struct infp_python_frame *frame)
{
        return (struct infp_frames_one){ .code = frame->code,
                                         .instruction = frame->instruction,
                                         .owner = frame->owner,
                                         .is_entry = frame->is_entry };
}

/* False: they are not there, or there is no room. */
static bool keep_frames(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                        struct infp_wall_task *ret)
{
        const uint32_t n = tasks->task.runs ? find_running(tasks, look) : tasks->task.n_frames;
        struct infp_frames_one *frames = tasks->pool + tasks->n_pool;

        if (n > WALL_POOL - tasks->n_pool || (tasks->task.runs && !n))
                return false;
        for (uint32_t i = 0; i < n; i++) {
                const struct infp_python_frame *frame = tasks->task.runs ? &tasks->thread[i] : &tasks->chain[n - 1 - i];

                frames[i] = one_of(frame);
        }
        if (!infp_wall_check_frames(look->checks, look->process, look->tid, n, frames))
                return false;
        tasks->n_pool += n;
        ret->frames = frames;
        ret->n = n;
        return true;
}

/* ---- a task ---- */

/* Of all that is told of it; of one that runs no more than that it does, since its frames change all the time. */
static uint64_t hash_of(const struct infp_python_task *task, const struct infp_python_frame *chain)
{
        const uint64_t words[] = { task->state, task->waiter, task->chain, task->runs, task->n_frames };
        uint64_t hash = infp_hash64(words, sizeof(words), infp_hash64(task->name, strlen(task->name), 0));

        for (uint32_t i = 0; i < task->n_frames && !task->runs; i++) {
                const uint64_t frame[] = { chain[i].address, chain[i].code, chain[i].instruction };

                hash = infp_hash64(frame, sizeof(frame), hash);
        }
        return hash;
}

static void copy_text(char ret[INFP_WALL_TASK_TEXT], const char *text)
{
        const size_t n = infp_utf8_cut(text, strlen(text), INFP_WALL_TASK_TEXT - 1);

        memcpy(ret, text, n);
        ret[n] = 0;
}

static void describe(struct infp_wall_tasks *tasks, struct infp_wall_task *ret)
{
        const struct infp_python_task *task = &tasks->task;
        const struct infp_python_object_type *type =
                task->state == INFP_PYTHON_TASK_WAITING ? infp_python_type_of(&tasks->objects, task->waiter) : NULL;

        copy_text(ret->name, task->name);
        ret->is_running = task->state == INFP_PYTHON_TASK_RUNNING;
        ret->is_cut = task->chain == INFP_PYTHON_CHAIN_TOO_DEEP;
        if (task->state != INFP_PYTHON_TASK_WAITING)
                copy_text(ret->state, INFP_STATE_WAITS_FOR_LOOP);
        else
                snprintf(ret->state, sizeof(ret->state), "waiting for %s", type ? type->name : "a future");
}

int infp_wall_by_address(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b; /* the first member of both */

        return (*x > *y) - (*x < *y);
}

const struct wall_known *infp_wall_known(const struct infp_wall_tasks *tasks, uint64_t address)
{
        const struct wall_loop *loop = &tasks->loops[tasks->loop];

        return loop->n ? bsearch(&address, loop->tasks, loop->n, sizeof(*loop->tasks), infp_wall_by_address) : NULL;
}

/* Reads one. It is sure where nothing moves meanwhile, or where it is what it was before. */
static void read_one(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                     const struct infp_python_asyncio *asyncio, uint64_t loop, struct wall_one *one)
{
        struct infp_python_task *task = &tasks->task;
        const uint64_t address = one->task.address;
        const struct wall_known *known = infp_wall_known(tasks, address);
        uint64_t hash;

        if (infp_python_task_read(&tasks->objects, asyncio, address, task, tasks->chain, WALL_CHAIN) < 0 ||
            task->chain == INFP_PYTHON_CHAIN_CUT) {
                one->is_read = false;
                return;
        }
        one->is_foreign = task->loop != loop || task->state >= INFP_PYTHON_TASK_DONE;
        if (one->is_foreign)
                return;
        hash = hash_of(task, tasks->chain);
        if (one->is_read && one->hash == hash) {
                one->is_sure = true;
                return;
        }
        if (one->hash != hash) {
                one->n_setters = 0;
                one->is_followed = false;
        }
        one->hash = hash;
        one->waits_for = task->state == INFP_PYTHON_TASK_WAITING ? task->waiter : 0;
        one->has_frames = task->runs || one->is_linked || !known || known->hash != hash || known->is_linked;
        if (one->has_frames)
                describe(tasks, &one->task);
        one->is_read = !one->has_frames || keep_frames(tasks, look, &one->task);
        one->is_sure = one->is_read && look->is_asleep;
}

/* ---- all tasks of a loop ---- */

static bool is_ready(struct infp_wall_tasks *tasks, const struct infp_python_memory *memory, int32_t pid)
{
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);

        if (tasks->is_ready || now_ns < tasks->again_ns)
                return tasks->is_ready;
        /* The module that keeps them may have come after the interpreter was found. */
        if (tasks->pause_ns && infp_python_find(tasks->root_fd, pid, &tasks->python, NULL) < 0)
                return false;
        tasks->is_ready =
                !infp_python_tasks_problem(&tasks->python, memory, &tasks->layout) && tasks->layout.knows_tasks;
        tasks->objects.layout = &tasks->python.layout;
        tasks->objects.tasks = &tasks->layout;
        tasks->objects.none = tasks->python.none;
        tasks->pause_ns = !tasks->pause_ns                  ? FIRST_PAUSE_MS * INFP_NS_PER_MS
                          : tasks->pause_ns < LAST_PAUSE_NS ? 2 * tasks->pause_ns
                                                            : tasks->pause_ns;
        tasks->again_ns = now_ns + tasks->pause_ns;
        return tasks->is_ready;
}

/* Threads that are no more lose theirs. */
static void prune(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < tasks->n_loops; i++) {
                uint32_t k = 0;

                while (k < look->n_threads && look->threads[k].state != tasks->loops[i].state)
                        k++;
                if (k < look->n_threads)
                        tasks->loops[n++] = tasks->loops[i];
                else
                        free(tasks->loops[i].tasks);
        }
        tasks->n_loops = n;
}

/* The index of the thread's; UINT32_MAX: none, or no memory. */
static uint32_t loop_of(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look, bool may_add)
{
        const uint64_t state = look->threads[look->place].state;
        struct wall_loop *grown;

        for (uint32_t i = 0; i < tasks->n_loops; i++)
                if (tasks->loops[i].state == state)
                        return i;
        if (!may_add)
                return UINT32_MAX;
        prune(tasks, look);
        grown = reallocarray(tasks->loops, tasks->n_loops + 1, sizeof(*grown));
        if (!grown)
                return UINT32_MAX;
        tasks->loops = grown;
        grown[tasks->n_loops] =
                (struct wall_loop){ .state = state, .tasks = malloc(INFP_WALL_TASKS * sizeof(struct wall_known)) };
        return grown[tasks->n_loops].tasks ? tasks->n_loops++ : UINT32_MAX;
}

/* Sorted, each once. False: the lists changed meanwhile. */
static bool read_list(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                      const struct infp_python_asyncio *asyncio, uint32_t *ret_n)
{
        bool is_whole = false;
        uint32_t n = 0;

        *ret_n = 0;

        for (unsigned try = 0; !is_whole && try < (look->is_asleep ? 1 : TRIES); try++)
                n = infp_python_tasks(&tasks->objects, asyncio, look->threads, look->n_threads, tasks->listed, LISTED,
                                      &is_whole);
        if (!is_whole && n < LISTED)
                return false;
        infp_sort(tasks->listed, n, sizeof(*tasks->listed), infp_wall_by_address);
        for (uint32_t i = 0; i < n; i++)
                if (!i || tasks->listed[i] != tasks->listed[i - 1]) /* else it is in two lists */
                        tasks->listed[(*ret_n)++] = tasks->listed[i];
        return true;
}

static bool list_tasks(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                       const struct infp_python_asyncio *asyncio)
{
        uint32_t n;

        if (!read_list(tasks, look, asyncio, &n))
                return false;
        tasks->n = n < INFP_WALL_TASKS ? n : INFP_WALL_TASKS;
        tasks->left_out += n - tasks->n;
        for (uint32_t i = 0; i < tasks->n; i++)
                tasks->ones[i] = (struct wall_one){ .task.address = tasks->listed[i] };
        return true;
}

static bool has_same_tasks(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                           const struct infp_python_asyncio *asyncio)
{
        uint32_t n, i = 0;

        if (!read_list(tasks, look, asyncio, &n) || n != tasks->n)
                return false;
        while (i < n && tasks->listed[i] == tasks->ones[i].task.address)
                i++;
        return i == n;
}

/* False: not all are sure yet. */
static bool read_all(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                     const struct infp_python_asyncio *asyncio, uint64_t loop)
{
        const struct infp_python_memory memory = tasks->objects.memory;
        struct infp_python_pages pages;
        bool are_sure = true;

        tasks->objects.memory = infp_python_pages_begin(&pages, memory);
        for (uint32_t i = 0; i < tasks->n; i++) {
                struct wall_one *one = &tasks->ones[i];

                if (one->is_sure || one->is_foreign)
                        continue;
                read_one(tasks, look, asyncio, loop, one);
                are_sure &= one->is_sure || one->is_foreign;
        }
        infp_python_pages_done(&pages);
        tasks->objects.memory = memory;
        return are_sure;
}

static void read_tries(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look,
                       const struct infp_python_asyncio *asyncio, uint64_t loop)
{
        for (unsigned try = 0; try < (look->is_asleep ? 1 : TRIES); try++)
                if (read_all(tasks, look, asyncio, loop))
                        return;
}

static bool read_loop(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look, uint64_t loop)
{
        struct infp_python_asyncio asyncio;

        if (infp_python_asyncio_find(&tasks->objects, look->threads[look->place].interpreter, &asyncio) < 0 ||
            !list_tasks(tasks, look, &asyncio))
                return false;
        read_tries(tasks, look, &asyncio, loop);
        infp_wall_follow_futures(tasks, look);
        /* A loop that runs may have made tasks since they were listed: one that awaits was read then, those that set its future were not. */
        if (!look->is_asleep && tasks->n_waits && !has_same_tasks(tasks, look, &asyncio))
                infp_wall_forget_futures(tasks);
        for (unsigned i = 0; infp_wall_link_tasks(tasks) && i < TRIES; i++)
                read_tries(tasks, look, &asyncio, loop);
        infp_wall_join_tasks(tasks);
        for (uint32_t i = 0; i < tasks->n; i++)
                tasks->torn += !tasks->ones[i].is_sure && !tasks->ones[i].is_foreign;
        return true;
}

/* ---- the callback that a loop is in ---- */

/* A loop may be made where another was, with a queue where that was: the kernel gives no number of a socket twice. 0: it is not known. */
static uint64_t socket_of(const struct infp_wall_tasks *tasks, int32_t pid, int32_t fd)
{
        struct stat status;
        char path[48];

        snprintf(path, sizeof(path), "proc/%d/fd/%d", pid, fd);
        return fstatat(tasks->root_fd, path, &status, 0) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

/* Of the thread's frames those of the callback; 0: it is in none. What is copied of pages is what does not change meanwhile: where the queue
 * is, and the names of code. Frames that are read while nothing is taken from the queue are of the callback that was taken last. */
static uint32_t walk_callback(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look, uint64_t loop,
                              const struct infp_python_memory *copies, struct wall_callback *ret)
{
        struct infp_python_objects *objects = &tasks->objects;
        const struct infp_python_memory memory = objects->memory;
        struct infp_python_queue queue;
        enum infp_python_end end;
        uint64_t taken;
        uint32_t n;
        int r;

        objects->memory = *copies;
        r = infp_python_loop_queue(objects, loop, &queue);
        objects->memory = memory;
        tasks->has_no_queue = r == -ENOENT && look->is_asleep;
        if (r < 0 || infp_python_queue_taken(objects, &queue, &taken) < 0)
                return 0;
        ret->t_ns = ret->begin_ns = infp_clock_ns(CLOCK_MONOTONIC);
        n = infp_python_walk(&look->process->layout, &memory, look->threads[look->place].state, tasks->thread,
                             INFP_FRAMES_MOST, &end);
        ret->loop = loop;
        ret->queue = queue.address;
        ret->socket = socket_of(tasks, look->pid, queue.fd);
        if (end != INFP_PYTHON_WHOLE || !ret->socket || infp_python_queue_taken(objects, &queue, &ret->taken) < 0 ||
            ret->taken != taken)
                return 0;
        objects->memory = *copies;
        n = infp_python_callback(objects, tasks->thread, n);
        objects->memory = memory;
        return n;
}

static void look_at_callback(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look, uint64_t loop)
{
        const uint64_t begin_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        struct infp_python_pages pages;
        const struct infp_python_memory copies = infp_python_pages_begin(&pages, tasks->objects.memory);
        struct wall_callback callback;
        const uint32_t n = walk_callback(tasks, look, loop, &copies, &callback);

        infp_python_pages_done(&pages);
        if (n) {
                tasks->callback = callback;
                for (uint32_t i = 0; i < n; i++)
                        tasks->callback_frames[i] = one_of(&tasks->thread[i]);
                tasks->n_callback =
                        infp_wall_check_frames(look->checks, look->process, look->tid, n, tasks->callback_frames) ? n
                                                                                                                  : 0;
        }
        tasks->lag_cpu_ns += infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

static bool is_same_callback(const struct wall_callback *a, const struct wall_callback *b)
{
        return a->loop == b->loop && a->queue == b->queue && a->taken == b->taken && a->socket == b->socket;
}

/* A look that found nothing changes nothing: what is found next is the same callback, or it is another one. */
bool infp_wall_tasks_hold(struct infp_wall_tasks *tasks, int32_t tid, bool is_idle, struct infp_wall_hold *ret)
{
        struct wall_callback now = tasks->callback, *known = NULL;

        for (uint32_t i = 0; i < tasks->n_loops; i++) {
                struct wall_loop *loop = &tasks->loops[i];

                if (loop->tid != tid)
                        continue;
                if (!is_idle)
                        loop->is_current = i == tasks->loop && now.loop;
                if (loop->is_current)
                        known = &loop->callback;
        }
        if (!known)
                return false;
        if (is_idle) {
                now = *known;
                now.t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        }
        *ret = (struct infp_wall_hold){ now.t_ns, now.t_ns, now.t_ns, is_idle ? 0 : tasks->n_callback,
                                        tasks->callback_frames };
        if (is_same_callback(&now, known)) {
                ret->begin_ns = now.begin_ns = known->begin_ns;
                ret->since_ns = known->t_ns;
        }
        *known = now;
        return true;
}

void infp_wall_tasks_drop(struct infp_wall_tasks *tasks)
{
        tasks->has_look = tasks->is_missing = false;
        tasks->loop = UINT32_MAX;
        tasks->has_no_queue = false;
        tasks->callback.loop = 0;
        tasks->n = tasks->n_pool = 0;
        tasks->torn = tasks->left_out = 0;
}

static void look_at(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look)
{
        const struct infp_python_memory memory = infp_python_process_memory(look->tid);
        const uint64_t begin_ns = infp_clock_ns(CLOCK_MONOTONIC), begin_cpu_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        struct wall_loop *now;
        uint64_t loop;

        infp_wall_tasks_drop(tasks);
        if (!is_ready(tasks, &memory, look->pid))
                return;
        if (begin_ns - tasks->types_ns > TYPES_NS) {
                memset(tasks->objects.types, 0, sizeof(tasks->objects.types));
                tasks->types_ns = begin_ns;
        }
        tasks->objects.memory = memory;
        loop = infp_python_thread_loop(&tasks->objects, look->threads[look->place].state);
        tasks->loop = loop_of(tasks, look, loop != 0);
        if (tasks->loop == UINT32_MAX)
                return;
        now = &tasks->loops[tasks->loop];
        now->tid = look->tid;
        if (!loop) {
                tasks->has_look = true;
                return;
        }
        look_at_callback(tasks, look, loop);
        if (begin_ns >= now->next_ns)
                tasks->has_look = read_loop(tasks, look, loop);
        tasks->is_missing = !tasks->has_look;
        if (begin_ns < now->next_ns)
                return;
        if (now->next_ns < begin_ns - AHEAD_NS)
                now->next_ns = begin_ns - AHEAD_NS;
        now->next_ns += COST * (infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns);
}

void infp_wall_tasks_look(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look)
{
        const uint64_t begin_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID), before_ns = tasks->lag_cpu_ns;

        look_at(tasks, look);
        tasks->own_cpu_ns += infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns - (tasks->lag_cpu_ns - before_ns);
}

bool infp_wall_tasks_have_come(struct infp_wall_tasks *tasks, int32_t pid)
{
        const struct infp_python_memory memory = infp_python_process_memory(pid);

        return tasks->pause_ns && !tasks->is_ready && is_ready(tasks, &memory, pid);
}

bool infp_wall_tasks_tell(struct infp_wall_tasks *tasks, infp_wall_tell_task_fn *tell, void *context,
                          struct infp_wall_tasks_counts *counts)
{
        struct wall_loop *loop;
        uint32_t at = 0, n = 0;

        counts->own_cpu_ns += tasks->own_cpu_ns;
        counts->lag_cpu_ns += tasks->lag_cpu_ns;
        tasks->own_cpu_ns = tasks->lag_cpu_ns = 0;
        counts->no_queue += tasks->has_no_queue;
        if (!tasks->has_look) {
                counts->left_out += tasks->is_missing ? tasks->loops[tasks->loop].n : 0;
                return !tasks->is_missing;
        }
        loop = &tasks->loops[tasks->loop];
        counts->torn += tasks->torn;
        counts->left_out += tasks->left_out;
        for (uint32_t i = 0; i <= tasks->n; i++) { /* both are in the order of addresses */
                const struct wall_one *one = i < tasks->n ? &tasks->ones[i] : NULL;

                for (; at < loop->n && (!one || loop->tasks[at].address < one->task.address); at++)
                        tell(context, loop->tasks[at].address, NULL);
                if (!one)
                        break;
                if (at < loop->n && loop->tasks[at].address == one->task.address) {
                        if (!one->is_sure)
                                tell(context, one->task.address, NULL);
                        at++;
                }
                if (one->is_sure && one->is_new)
                        tell(context, one->task.address, &one->task);
        }
        for (uint32_t i = 0; i < tasks->n; i++) {
                const struct wall_one *one = &tasks->ones[i];

                if (one->is_sure) /* one that runs is told of each time */
                        loop->tasks[n++] = (struct wall_known){
                                one->task.address, one->hash,
                                one->whole,        one->n_setters ? tasks->ones[one->setter].task.address : 0,
                                one->n_setters,    one->is_linked,
                                one->is_followed
                        };
        }
        loop->n = n;
        infp_wall_tasks_drop(tasks);
        return true;
}
