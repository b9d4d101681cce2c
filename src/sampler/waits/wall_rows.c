#include "sampler/waits/wall_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"

enum { MAX_RUNS = 65536, MAX_RUNNING = 16384, STATE_TEXT = 96 };
#define FLUSH_NS INFP_NS_PER_S   /* the longest stretch that one row stands for */
#define RUNNING_NS INFP_NS_PER_S /* threads without a CPU stay where they were; those with one are seen more often */

#define LAG_NS (100 * INFP_NS_PER_MS) /* as asyncio's slow_callback_duration */

static const char waiting_for_gil[] = "waiting for the GIL";

/* A stretch in which a thread, or a task, stays where it is; of mode lag one in which a callback holds the thread's loop. */
struct infp_wall_run {
        struct infp_wall_rows *rows;
        struct infp_wall_run *next, *previous;
        int32_t pid, tid;
        uint64_t key;              /* in `open` */
        enum infp_stack_mode mode; /* wall: of a thread; async: of a task; lag */
        char task[INFP_WALL_TASK_TEXT];
        uint64_t t_ns;            /* of its first moment */
        const char *state;        /* NULL: it runs */
        const char *call, *wchan; /* frames below the stack; NULL: not told */
        enum infp_gil gil;
        uint64_t n_told, told_weight_ns; /* rounds that its rows stand for, and those before it */
        uint64_t n_rounds, weight_ns;    /* when it ended */
        uint64_t held_ns;                /* mode lag: between looks, without a row yet; n_held of them */
        uint32_t n_held;
        bool is_decided; /* the callback has held it for long enough */
        bool is_found, is_closed;
        bool is_whole; /* the copy of its stack is as large as was asked for */
        struct infp_stack_found found;
};

/* Where a thread ran when perf looked. */
struct running {
        struct infp_wall_rows *rows;
        uint64_t asked_ns, t_ns; /* of the newest sample that was given in; of the newest that is known */
        uint64_t blocked_ns;     /* when it was last seen to wait */
        bool is_waiting;         /* its stack is not known yet */
        bool is_gone;
        struct infp_stack_found found;
};

void infp_wall_rows_init(struct infp_wall_rows *rows, struct infp_stacks *stacks)
{
        *rows = (struct infp_wall_rows){ .stacks = stacks };
}

static void free_list(struct infp_wall_run *run)
{
        while (run) {
                struct infp_wall_run *next = run->next;

                free(run);
                run = next;
        }
}

static void free_values(struct infp_map *map)
{
        for (size_t i = 0; i < map->cap; i++)
                if (map->slots[i].key)
                        free((void *) (uintptr_t) map->slots[i].value);
        infp_map_done(map);
}

void infp_wall_rows_done(struct infp_wall_rows *rows)
{
        free_list(rows->all);
        free_list(rows->free);
        free_values(&rows->running);
        infp_wall_words_done(&rows->words);
        infp_map_done(&rows->open);
        *rows = (struct infp_wall_rows){ 0 };
}

/* ---- runs ---- */

static struct infp_wall_run *new_run(struct infp_wall_rows *rows)
{
        struct infp_wall_run *run = rows->free;

        if (run)
                rows->free = run->next;
        else if (rows->n_runs < MAX_RUNS && (run = malloc(sizeof(*run))))
                rows->n_runs++;
        if (!run)
                return NULL;
        *run = (struct infp_wall_run){ .rows = rows, .next = rows->all };
        if (rows->all)
                rows->all->previous = run;
        rows->all = run;
        return run;
}

static void release(struct infp_wall_run *run)
{
        struct infp_wall_rows *rows = run->rows;

        if (run->previous)
                run->previous->next = run->next;
        else
                rows->all = run->next;
        if (run->next)
                run->next->previous = run->previous;
        run->next = rows->free;
        run->previous = NULL;
        rows->free = run;
}

static void tell_lag(struct infp_wall_run *run)
{
        if (!run->is_decided || !run->held_ns)
                return;
        run->found.samples = run->n_held;
        infp_stacks_put(run->rows->stacks, &run->found, (double) run->held_ns / 1e9, run->state);
        run->found.t_ns += run->held_ns;
        run->held_ns = run->n_held = 0;
}

/* The row of the rounds that were not told yet. */
static void tell(struct infp_wall_run *run)
{
        struct infp_wall_rows *rows = run->rows;
        const uint64_t n_rounds = run->is_closed ? run->n_rounds : rows->n_rounds;
        const uint64_t weight_ns = run->is_closed ? run->weight_ns : rows->weight_ns;

        if (run->mode == INFP_STACK_LAG) {
                tell_lag(run);
                return;
        }
        if (n_rounds == run->n_told)
                return;
        run->found.samples = (uint32_t) (n_rounds - run->n_told);
        infp_stacks_put(rows->stacks, &run->found, (double) (weight_ns - run->told_weight_ns) / 1e9, run->state);
        run->n_told = n_rounds;
        run->told_weight_ns = weight_ns;
        run->found.t_ns = rows->round_ns; /* of what the next row stands for, the first was the round after this */
}

/* It is closed, and its stack is known. */
static void end_run(struct infp_wall_run *run)
{
        if (run->mode == INFP_STACK_LAG && !run->is_decided && run->held_ns)
                return;
        tell(run);
        release(run);
}

static void close_run(struct infp_wall_run *run)
{
        run->is_closed = true;
        run->n_rounds = run->rows->n_rounds;
        run->weight_ns = run->rows->weight_ns;
        infp_map_delete(&run->rows->open, run->key);
        run->rows->n_tasks -= run->mode == INFP_STACK_ASYNC;
        if (run->is_found) /* else infp_stacks has it */
                end_run(run);
}

/* What the kernel says of a blocked thread stands below its own frames. */
static void on_found(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        struct infp_wall_run *run = (struct infp_wall_run *) (uintptr_t) cookie;
        struct infp_wall_rows *rows = context;

        run->found = *found;
        run->found.mode = run->mode;
        run->found.task = *run->task ? run->task : NULL;
        run->found.cpu = -1;
        run->found.t_ns = run->t_ns;
        run->found.gil = run->gil;
        run->is_found = true;
        if (found->is_truncated && run->is_whole)
                infp_wall_reader_enlarge(rows->reader, run->tid);
        if (run->call)
                infp_stacks_extend(rows->stacks, &run->found, INFP_FRAME_KERNEL, run->call);
        if (run->wchan)
                infp_stacks_extend(rows->stacks, &run->found, INFP_FRAME_KERNEL, run->wchan);
        if (!run->found.stack)
                infp_stacks_extend(rows->stacks, &run->found, INFP_FRAME_UNKNOWN,
                                   run->state ? "[blocked]" : "[running]");
        if (run->is_closed)
                end_run(run);
}

static void find_without_stack(struct infp_wall_run *run)
{
        struct infp_stack_found found = { .cpu = -1 };

        infp_stacks_thread(run->rows->stacks, run->pid, run->tid, &found);
        found.stack = 0;
        on_found(run->rows, (uint64_t) (uintptr_t) run, &found);
}

static struct infp_pythons *pythons_of(const struct infp_wall_rows *rows)
{
        return rows->context ? rows->context->pythons : NULL;
}

static void take(struct infp_wall_run *run, const struct infp_wall_message *message)
{
        struct infp_perf_sample sample = infp_wall_sample(message, pythons_of(run->rows));

        run->is_whole = message->is_whole;
        if (run->mode == INFP_STACK_ASYNC)
                sample.stack_size = 0;
        infp_stacks_take(run->rows->stacks, &sample, run->mode, on_found, run->rows, (uint64_t) (uintptr_t) run);
}

/* Of a thread that runs, or waits for a CPU: where perf saw it last, if it has not been seen to wait since. Where perf has no Python
 * frames, the reader is asked to read them. */
static void find_running(struct infp_wall_run *run, const struct infp_wall_message *message)
{
        const uint64_t *value = infp_map_get(&run->rows->running, (uint64_t) run->tid);
        const struct running *running = value ? (const struct running *) (uintptr_t) *value : NULL;

        if (message->is_python_alone && (message->n_python || message->python_end == INFP_PYTHON_TORN))
                take(run, message);
        else if (running && running->t_ns > running->blocked_ns && running->found.pid == run->pid &&
                 running->t_ns + RUNNING_NS >= run->t_ns)
                on_found(run->rows, (uint64_t) (uintptr_t) run, &running->found);
        else
                find_without_stack(run);
}

static void describe(struct infp_wall_run *run, const struct infp_wall_moment *moment)
{
        char text[STATE_TEXT];

        infp_wall_state(moment, text, sizeof(text));
        if (!run->state)
                run->state = infp_wall_word(&run->rows->words, text);
        if (!run->state)
                run->state = "blocked";
        infp_wall_call_name(moment, text, sizeof(text));
        if (*text)
                run->call = infp_wall_word(&run->rows->words, text);
        if (*moment->wchan)
                run->wchan = infp_wall_word(&run->rows->words, moment->wchan);
}

static void note_blocked(struct infp_wall_rows *rows, const struct infp_wall_message *message)
{
        const uint64_t *value = infp_map_get(&rows->running, (uint64_t) message->tid);

        if (value)
                ((struct running *) (uintptr_t) *value)->blocked_ns = message->moment.t_ns;
}

static void close_key(struct infp_wall_rows *rows, uint64_t key)
{
        const uint64_t *open = infp_map_get(&rows->open, key);

        if (open)
                close_run((struct infp_wall_run *) (uintptr_t) *open);
}

/* In the place of the one that has the key. NULL: there is no room. */
static struct infp_wall_run *begin_run(struct infp_wall_rows *rows, const struct infp_wall_message *message,
                                       uint64_t key, enum infp_stack_mode mode)
{
        struct infp_wall_run *run;

        close_key(rows, key);
        run = new_run(rows);
        if (!run || infp_map_put(&rows->open, key, (uint64_t) (uintptr_t) run) < 0) {
                if (run)
                        release(run);
                rows->n_refused++;
                return NULL;
        }
        run->key = key;
        run->mode = mode;
        run->pid = message->pid;
        run->tid = message->tid;
        run->t_ns = message->moment.t_ns;
        run->n_told = rows->n_rounds;
        run->told_weight_ns = rows->weight_ns;
        run->gil = message->gil;
        if (run->gil == INFP_GIL_WAITED) /* also one that runs, towards its sleep for it */
                run->state = infp_wall_word(&rows->words, waiting_for_gil);
        return run;
}

static void take_moment(struct infp_wall_rows *rows, const struct infp_wall_message *message)
{
        struct infp_wall_run *run = begin_run(rows, message, (uint64_t) message->tid, INFP_STACK_WALL);

        if (!run)
                return;
        if (pythons_of(rows))
                infp_pythons_meet(pythons_of(rows), message->pid, message->moment.t_ns);
        if (message->moment.letter == 'R') {
                find_running(run, message);
                return;
        }
        note_blocked(rows, message);
        describe(run, &message->moment);
        if ((message->moment.has_registers && message->stack_size) || message->n_python)
                take(run, message);
        else
                find_without_stack(run);
}

/* ---- tasks of asyncio ---- */

static uint64_t key_of(const struct infp_wall_message *message)
{
        const uint64_t parts[] = { (uint64_t) message->pid, message->task };

        return infp_hash64(parts, sizeof(parts), 0) | UINT64_C(1) << 63; /* no thread's number */
}

static void take_task(struct infp_wall_rows *rows, const struct infp_wall_message *message)
{
        const struct infp_wall_task_words *words = (const void *) message->stack;
        struct infp_wall_run *run = begin_run(rows, message, key_of(message), INFP_STACK_ASYNC);

        if (!run)
                return;
        rows->n_tasks++;
        memcpy(run->task, words->name, sizeof(run->task));
        if (*words->state) {
                run->state = infp_wall_word(&rows->words, words->state);
                run->state = run->state ? run->state : "waiting";
        }
        if (message->n_python)
                take(run, message);
        else
                find_without_stack(run);
}

/* Of a thread, or of a process. */
static void close_tasks(struct infp_wall_rows *rows, int32_t pid, int32_t tid)
{
        for (struct infp_wall_run *run = rows->n_tasks ? rows->all : NULL, *next; run; run = next) {
                next = run->next;
                if (run->mode == INFP_STACK_ASYNC && !run->is_closed && (tid ? run->tid == tid : run->pid == pid))
                        close_run(run);
        }
}

/* ---- callbacks that hold a loop ---- */

static uint64_t lag_key(int32_t tid)
{
        return UINT64_C(1) << 62 | (uint64_t) tid; /* no thread's number */
}

/* Of the callback that the thread's loop is in, or was in: whether it held it for long enough. */
static void decide(struct infp_wall_rows *rows, int32_t tid, bool is_long)
{
        for (struct infp_wall_run *run = rows->all, *next; run; run = next) {
                next = run->next;
                if (run->mode != INFP_STACK_LAG || run->tid != tid || run->is_decided)
                        continue;
                run->is_decided = is_long;
                run->held_ns = is_long ? run->held_ns : 0;
                if (run->is_closed && run->is_found)
                        end_run(run);
        }
}

/* Until this look it has been where it was; now it is where the message says, if it does. */
static void take_hold(struct infp_wall_rows *rows, const struct infp_wall_message *message)
{
        const uint64_t *open = infp_map_get(&rows->open, lag_key(message->tid));
        struct infp_wall_run *run = open ? (struct infp_wall_run *) (uintptr_t) *open : NULL;
        const struct infp_wall_hold *hold = &message->hold;
        const uint64_t held_ns = hold->t_ns - hold->since_ns;
        const bool is_long = hold->t_ns - hold->begin_ns >= LAG_NS;

        if (run && held_ns) {
                run->held_ns += held_ns;
                run->n_held++;
        }
        if (is_long || !held_ns)
                decide(rows, message->tid, is_long);
        if (!held_ns) /* it is another callback */
                close_key(rows, lag_key(message->tid));
        if (!message->n_python)
                return;
        run = begin_run(rows, message, lag_key(message->tid), INFP_STACK_LAG);
        if (!run)
                return;
        run->t_ns = hold->t_ns;
        run->is_decided = is_long;
        if (message->moment.letter != 'R')
                describe(run, &message->moment);
        take(run, message);
}

static void take_gil(struct infp_wall_rows *rows, const struct infp_wall_message *message)
{
        const uint64_t *open = infp_map_get(&rows->open, (uint64_t) message->tid);
        struct infp_wall_run *run = open ? (struct infp_wall_run *) (uintptr_t) *open : NULL;

        if (!run)
                return;
        run->gil = run->found.gil = message->gil;
        if (run->gil == INFP_GIL_WAITED)
                run->state = infp_wall_word(&rows->words, waiting_for_gil);
}

static void end_round(struct infp_wall_rows *rows, const struct infp_wall_message *message)
{
        rows->n_rounds++;
        rows->round_ns = message->moment.t_ns;
        rows->period_ns = message->period_ns;
        rows->weight_ns += message->period_ns;
        if (rows->round_ns - rows->flushed_ns < FLUSH_NS)
                return;
        rows->flushed_ns = rows->round_ns;
        for (struct infp_wall_run *run = rows->all; run; run = run->next)
                if (run->is_found && !run->is_closed)
                        tell(run);
}

void infp_wall_rows_exited(struct infp_wall_rows *rows, int32_t tid)
{
        const uint64_t *value = infp_map_get(&rows->running, (uint64_t) tid);
        struct running *running = value ? (struct running *) (uintptr_t) *value : NULL;

        if (!running)
                return;
        infp_map_delete(&rows->running, (uint64_t) tid);
        if (running->is_waiting)
                running->is_gone = true;
        else
                free(running);
}

static void forget(struct infp_wall_rows *rows, int32_t tid)
{
        close_key(rows, (uint64_t) tid);
        close_tasks(rows, 0, tid);
        close_key(rows, lag_key(tid));
        decide(rows, tid, false);
        infp_wall_rows_exited(rows, tid);
}

void infp_wall_rows_take(void *context, const struct infp_wall_message *message)
{
        struct infp_wall_rows *rows = context;

        switch (message->kind) {
        case INFP_WALL_MESSAGE_MOMENT:
                take_moment(rows, message);
                break;
        case INFP_WALL_MESSAGE_GIL:
                take_gil(rows, message);
                break;
        case INFP_WALL_MESSAGE_HOLD:
                take_hold(rows, message);
                break;
        case INFP_WALL_MESSAGE_TASK:
                take_task(rows, message);
                break;
        case INFP_WALL_MESSAGE_TASK_GONE:
                if (message->task)
                        close_key(rows, key_of(message));
                else
                        close_tasks(rows, message->pid, 0);
                break;
        case INFP_WALL_MESSAGE_GONE:
                forget(rows, message->tid);
                break;
        case INFP_WALL_MESSAGE_ROUND:
                end_round(rows, message);
                break;
        default:
                break;
        }
}

/* ---- threads that run ---- */

static void on_ran(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        struct running *running = (struct running *) (uintptr_t) cookie;

        (void) context;
        running->is_waiting = false;
        running->found = *found;
        running->t_ns = running->asked_ns;
        if (running->is_gone)
                free(running);
}

void infp_wall_rows_ran(struct infp_wall_rows *rows, const struct infp_perf_sample *sample)
{
        const uint64_t *value = infp_map_get(&rows->running, (uint64_t) sample->tid);
        struct running *running = value ? (struct running *) (uintptr_t) *value : NULL;

        /* Two a period are enough. */
        if (running && (running->is_waiting || sample->t_ns - running->asked_ns < rows->period_ns / 2))
                return;
        if (!running) {
                if (rows->running.n >= MAX_RUNNING || !(running = calloc(1, sizeof(*running))))
                        return;
                if (infp_map_put(&rows->running, (uint64_t) sample->tid, (uint64_t) (uintptr_t) running) < 0) {
                        free(running);
                        return;
                }
                running->rows = rows;
        }
        running->asked_ns = sample->t_ns;
        running->is_waiting = true;
        infp_stacks_take(rows->stacks, sample, INFP_STACK_WALL, on_ran, rows, (uint64_t) (uintptr_t) running);
}

void infp_wall_rows_end(struct infp_wall_rows *rows)
{
        for (struct infp_wall_run *run = rows->all, *next; run; run = next) {
                next = run->next;
                if (!run->is_closed)
                        close_run(run);
        }
}
