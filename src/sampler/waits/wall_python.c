#include "sampler/waits/wall_python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "base/procfile.h"
#include "base/time.h"
#include "unwind/python/checks.h"

enum {
        FIRST_THREADS = 64,
        MOST_THREADS = 65536,
        TRIES = 5, /* of a thread that runs */
        FIRST_PAUSE_MS = 10,
};

struct infp_wall_python {
        uint64_t program;
        struct infp_frames_process process;
        bool has_gil;    /* and who waits for it can be known */
        uint8_t counter; /* where the GIL's condition variables count who waits in them; 0: not known yet */
        /* All thread states, as they were listed last. */
        struct infp_python_thread *threads;
        uint32_t n_threads, cap_threads;
        uint64_t list; /* another number for each listing; 0: there was none yet */
        bool is_whole;
        bool is_fresh; /* they were listed in this round */
        /* Of the thread that is read. */
        struct infp_python_frame frames[INFP_FRAMES_MOST], again[INFP_FRAMES_MOST];
        struct infp_python_checks checks;
        struct infp_wall_tasks *tasks; /* NULL: they are not read */
};

struct infp_wall_python *infp_wall_python_new(uint64_t program, const struct infp_python *python)
{
        struct infp_wall_python *ret = calloc(1, sizeof(*ret));

        if (!ret)
                return NULL;
        ret->program = program;
        ret->process.runtime = python->runtime;
        ret->process.layout = python->layout;
        infp_python_check_of(&python->layout, &ret->process.check);
        ret->has_gil = infp_python_gil_problem(python) == NULL;
        return ret;
}

struct infp_wall_python *infp_wall_python_free(struct infp_wall_python *python)
{
        if (python) {
                infp_wall_tasks_free(python->tasks);
                free(python->threads);
        }
        free(python);
        return NULL;
}

void infp_wall_python_want_tasks(struct infp_wall_python *wall, const struct infp_python *python, int root_fd)
{
        wall->tasks = infp_wall_tasks_new(python, root_fd);
}

struct infp_wall_tasks *infp_wall_python_tasks(const struct infp_wall_python *python)
{
        return python->tasks;
}

void infp_wall_python_round(struct infp_wall_python *python)
{
        python->is_fresh = false;
}

/* ---- which thread state is the thread's ---- */

static void list(struct infp_wall_python *python, const struct infp_python_memory *memory)
{
        python->is_fresh = true;
        python->list++;
        for (;;) {
                const uint32_t cap = python->cap_threads ? 2 * python->cap_threads : FIRST_THREADS;
                struct infp_python_thread *grown;

                if (python->cap_threads) {
                        python->n_threads =
                                infp_python_threads(&python->process.layout, memory, python->process.runtime,
                                                    python->threads, python->cap_threads, &python->is_whole);
                        if (python->n_threads < python->cap_threads || cap > MOST_THREADS)
                                return;
                }
                grown = realloc(python->threads, cap * sizeof(*grown));
                if (!grown)
                        return;
                python->threads = grown;
                python->cap_threads = cap;
        }
}

/* As its own pid namespace has it, as Python does. */
static int32_t number_of(int proc_fd, struct infp_wall_thread *thread)
{
        char path[48];
        uint64_t number;

        if (thread->own_number)
                return thread->own_number;
        snprintf(path, sizeof(path), "%d/task/%d/status", thread->pid, thread->tid);
        thread->own_number = infp_proc_number(proc_fd, path, "NSpid:", INFP_PROC_LAST, &number) && number <= INT32_MAX
                                     ? (int32_t) number
                                     : thread->tid;
        return thread->own_number;
}

/* The number that Python keeps may be that of the process before a fork. */
static uint32_t find(const struct infp_wall_python *python, const struct infp_python_memory *memory, int32_t number)
{
        for (uint32_t i = 0; i < python->n_threads; i++)
                if ((int32_t) python->threads[i].native_id == number)
                        return i;
        for (uint32_t i = 0; i < python->n_threads; i++)
                if (infp_python_thread_number(memory, &python->threads[i]) == number)
                        return i;
        return UINT32_MAX;
}

/* A state that was freed may still look like one, but nothing leads to it. */
static bool is_linked(const struct infp_wall_python *python, const struct infp_python_memory *memory, uint32_t i)
{
        const struct infp_python_layout *layout = &python->process.layout;
        const struct infp_python_thread *thread = &python->threads[i];
        const bool is_first = i == 0 || python->threads[i - 1].interpreter != thread->interpreter;
        uint64_t at;

        return memory->read(memory->context,
                            is_first ? thread->interpreter + layout->interp_threads
                                     : python->threads[i - 1].state + layout->thread_next,
                            &at, sizeof(at)) == 0 &&
               at == thread->state && infp_python_thread_is_there(layout, memory, thread);
}

/* A child has its parent's numbers until it first runs, so that a thread which was not found is looked for again. */
static void look_up(const struct infp_wall_python *python, int proc_fd, const struct infp_python_memory *memory,
                    struct infp_wall_thread *thread)
{
        const bool is_of_list = thread->python_program == python->program && thread->python_list == python->list;
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);

        if (is_of_list && (thread->python_place != UINT32_MAX || now_ns < thread->python_again_ns))
                return;
        thread->python_program = python->program;
        thread->python_list = python->list;
        thread->python_place = find(python, memory, number_of(proc_fd, thread));
        thread->python_pause_ns = !is_of_list                               ? FIRST_PAUSE_MS * INFP_NS_PER_MS
                                  : thread->python_pause_ns < INFP_NS_PER_S ? 2 * thread->python_pause_ns
                                                                            : thread->python_pause_ns;
        thread->python_again_ns = now_ns + thread->python_pause_ns;
}

/* Its place in the list; UINT32_MAX: it is no thread of Python. */
static uint32_t place_of(struct infp_wall_python *python, int proc_fd, const struct infp_python_memory *memory,
                         struct infp_wall_thread *thread)
{
        for (;;) {
                if (python->list)
                        look_up(python, proc_fd, memory, thread);
                if (python->list && thread->python_place != UINT32_MAX &&
                    is_linked(python, memory, thread->python_place))
                        return thread->python_place;
                if (python->is_fresh ||
                    (python->list && thread->python_place == UINT32_MAX && python->is_whole &&
                     infp_python_threads_are_newest(&python->process.layout, memory, python->process.runtime,
                                                    python->threads, python->n_threads)))
                        return UINT32_MAX;
                list(python, memory);
        }
}

/* ---- frames ---- */

/* A thread that runs one interpreter from within another has a state of each: the newer interpreter's frames are the inner ones. */
static uint32_t walk(const struct infp_wall_python *python, const struct infp_python_memory *memory, uint32_t place,
                     struct infp_python_frame *ret, enum infp_python_end *ret_end)
{
        uint32_t n = 0;

        *ret_end = INFP_PYTHON_WHOLE;
        for (uint32_t i = place; i < python->n_threads && *ret_end == INFP_PYTHON_WHOLE && n < INFP_FRAMES_MOST; i++) {
                if (python->threads[i].pthread != python->threads[place].pthread ||
                    (i != place && !is_linked(python, memory, i)))
                        continue;
                n += infp_python_walk(&python->process.layout, memory, python->threads[i].state, ret + n,
                                      INFP_FRAMES_MOST - n, ret_end);
        }
        return n;
}

/* The frames that were walked, with checks of their code: it may be other code when it is named. */
static void keep(struct infp_wall_python *python, int32_t tid, uint32_t n, enum infp_python_end end,
                 struct infp_wall_python_found *ret)
{
        ret->has_frames = true;
        ret->n = n;
        ret->end = end;
        for (uint32_t i = 0; i < n; i++) {
                const struct infp_python_frame *frame = &python->frames[i];

                ret->frames[i] = (struct infp_frames_one){ .code = frame->code,
                                                           .instruction = frame->instruction,
                                                           .owner = frame->owner,
                                                           .is_entry = frame->is_entry };
        }
        if (!infp_wall_check_frames(&python->checks, &python->process, tid, n, ret->frames)) {
                ret->n = 0;
                ret->end = INFP_PYTHON_TORN;
        }
}

/* The same frames, wherever the innermost has come to. */
static bool is_same(const struct infp_python_frame *a, const struct infp_python_frame *b, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                if (a[i].address != b[i].address || a[i].code != b[i].code ||
                    (i && a[i].instruction != b[i].instruction))
                        return false;
        return true;
}

static void walk_running(struct infp_wall_python *python, const struct infp_python_memory *memory, int32_t tid,
                         uint32_t place, struct infp_wall_python_found *ret)
{
        ret->is_alone = true;
        for (unsigned try = 0; try < TRIES; try++) {
                enum infp_python_end end, end_again;
                const uint32_t n = walk(python, memory, place, python->frames, &end);

                if (end == INFP_PYTHON_WHOLE || end == INFP_PYTHON_TOO_DEEP)
                        keep(python, tid, n, end, ret); /* between the two: the code is of frames that are there */
                if (ret->has_frames && ret->end == end && walk(python, memory, place, python->again, &end_again) == n &&
                    end_again == end && is_same(python->frames, python->again, n))
                        return;
                ret->n_rejected += end == INFP_PYTHON_MOVED || (ret->has_frames && ret->end == end);
        }
        ret->has_frames = true;
        ret->end = INFP_PYTHON_TORN;
        ret->n = 0;
}

/* ---- the GIL ---- */

/* The GIL's condition variables begin at this offset from its holder: of those who want it, and of the one who has given it away and waits
 * until another has it, to ask for it again. */
static const uint8_t conditions[] = { 24, 112 };
enum { CONDITION_BYTES = 48 };
/* Where glibc counts who waits in one, from the 4th bit on: in older versions, and in newer ones (2.43). */
static const uint8_t counter_places[] = { 36, 28 };

static uint32_t count_at(const uint8_t *condition, uint8_t place)
{
        uint32_t value;

        memcpy(&value, condition + place, sizeof(value));
        return value >> 3;
}

static bool may_count(const struct infp_wall_python *python, const uint8_t *condition, uint8_t place)
{
        const uint32_t n = count_at(condition, place);

        return n > 0 && n <= python->n_threads;
}

/* A thread is proved to wait in it: the right place counts it. What lies in the other one is another number, sooner or later. */
static void find_counter(struct infp_wall_python *python, const uint8_t *condition)
{
        const bool is_first = may_count(python, condition, counter_places[0]),
                   is_second = may_count(python, condition, counter_places[1]);

        if (is_first != is_second)
                python->counter = counter_places[is_second];
}

static bool read_condition(const struct infp_python_memory *memory, const struct infp_python_gil *gil, unsigned i,
                           uint8_t *ret)
{
        return memory->read(memory->context, gil->begin + conditions[i], ret, CONDITION_BYTES) == 0;
}

/* In both. */
static uint32_t count_waiting(const struct infp_wall_python *python, const struct infp_python_memory *memory,
                              const struct infp_python_gil *gil)
{
        uint8_t condition[CONDITION_BYTES];
        uint32_t n = 0;

        for (unsigned i = 0; python->counter && i < INFP_COUNT(conditions); i++)
                if (read_condition(memory, gil, i, condition))
                        n += count_at(condition, python->counter);
        return n <= python->n_threads ? n : 0;
}

/* Of a thread that sleeps in a futex at this offset from the GIL's holder. */
static bool is_in_condition(struct infp_wall_python *python, const struct infp_python_memory *memory,
                            const struct infp_python_gil *gil, uint64_t at)
{
        uint8_t condition[CONDITION_BYTES];

        for (unsigned i = 0; i < INFP_COUNT(conditions); i++) {
                if (at < conditions[i] || at >= conditions[i] + (uint64_t) CONDITION_BYTES)
                        continue;
                if (!python->counter && read_condition(memory, gil, i, condition))
                        find_counter(python, condition);
                return true;
        }
        return false;
}

/* moment NULL: it runs. */
static enum infp_gil gil_of(struct infp_wall_python *python, const struct infp_python_memory *memory,
                            const struct infp_python_thread *thread, const struct infp_wall_moment *moment,
                            bool *ret_in_condition, struct infp_wall_python_found *ret)
{
        struct infp_python_gil gil = { 0 };
        uint64_t at;

        *ret_in_condition = false;
        ret->n_waiting = 0;
        if (!python->has_gil || !infp_python_gil_read(&python->process.layout, memory, python->process.runtime,
                                                      thread->interpreter, &gil)) {
                ret->gil_is_off = gil.is_off;
                return INFP_GIL_UNKNOWN;
        }
        if (gil.holder == thread->state)
                return INFP_GIL_HELD;
        if (!moment) {
                ret->n_waiting = count_waiting(python, memory, &gil);
                return INFP_GIL_NONE;
        }
        if (!moment->has_call)
                return INFP_GIL_UNKNOWN;
        at = moment->registers[INFP_RDI] - gil.begin;
        if (moment->call != SYS_futex || at >= gil.end - gil.begin)
                return INFP_GIL_NONE;
        *ret_in_condition = is_in_condition(python, memory, &gil, at);
        return INFP_GIL_WAITED;
}

/* ---- */

static void look_at_tasks(struct infp_wall_python *python, const struct infp_wall_thread *thread, uint32_t place,
                          bool is_asleep)
{
        const struct infp_wall_tasks_look look = { .pid = thread->pid,
                                                   .tid = thread->tid,
                                                   .process = &python->process,
                                                   .threads = python->threads,
                                                   .n_threads = python->n_threads,
                                                   .place = place,
                                                   .is_asleep = is_asleep,
                                                   .checks = &python->checks };

        if (python->tasks)
                infp_wall_tasks_look(python->tasks, &look);
}

static uint32_t begin(struct infp_wall_python *python, int proc_fd, const struct infp_python_memory *memory,
                      struct infp_wall_thread *thread, const struct infp_wall_moment *moment,
                      struct infp_wall_python_found *ret)
{
        const uint32_t place = place_of(python, proc_fd, memory, thread);

        ret->program = python->program;
        ret->has_frames = ret->is_alone = false;
        ret->n = 0;
        ret->n_waiting = 0;
        ret->gil_is_off = false;
        thread->waits_in_gil = false;
        ret->gil = place == UINT32_MAX
                           ? INFP_GIL_UNKNOWN
                           : gil_of(python, memory, &python->threads[place], moment, &thread->waits_in_gil, ret);
        return place;
}

void infp_wall_python_blocked(struct infp_wall_python *python, int proc_fd, struct infp_wall_thread *thread,
                              const struct infp_wall_moment *moment, struct infp_wall_python_found *ret)
{
        const struct infp_python_memory memory = infp_python_process_memory(thread->tid);
        const uint32_t place = begin(python, proc_fd, &memory, thread, moment, ret);
        enum infp_python_end end;
        uint32_t n;

        if (place == UINT32_MAX)
                return;
        n = walk(python, &memory, place, python->frames, &end);
        keep(python, thread->tid, n, end, ret);
        ret->is_alone = !moment->has_registers;
        look_at_tasks(python, thread, place, true);
}

/* A thread that runs, or has lost its CPU, without the GIL: it has just given that away, and has not come to its sleep for it. */
static bool wants_gil(struct infp_wall_python *python, const struct infp_python_memory *memory, uint32_t place)
{
        const struct infp_python_layout *layout = &python->process.layout;
        const struct infp_python_thread *thread = &python->threads[place];
        struct infp_python_frame frame, again;
        enum infp_python_end end;

        return infp_python_walk(layout, memory, thread->state, &frame, 1, &end) == 1 &&
               infp_python_wants_gil(layout, memory, &frame) &&
               infp_python_gil_holder(layout, memory, python->process.runtime, thread->interpreter) != thread->state &&
               infp_python_walk(layout, memory, thread->state, &again, 1, &end) == 1 && is_same(&frame, &again, 1) &&
               frame.instruction == again.instruction;
}

void infp_wall_python_running(struct infp_wall_python *python, int proc_fd, struct infp_wall_thread *thread,
                              bool wants_frames, struct infp_wall_python_found *ret)
{
        const struct infp_python_memory memory = infp_python_process_memory(thread->tid);
        const uint32_t place = begin(python, proc_fd, &memory, thread, NULL, ret);

        if (place == UINT32_MAX)
                return;
        if (ret->gil == INFP_GIL_NONE && wants_gil(python, &memory, place))
                ret->gil = INFP_GIL_WAITED;
        if (wants_frames)
                walk_running(python, &memory, thread->tid, place, ret);
        look_at_tasks(python, thread, place, false);
}
