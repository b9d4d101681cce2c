#include "unwind/python/task.h"

#include <errno.h>
#include <string.h>

enum {
        /* After an object's head. */
        DEQUE_SIZE = 0, /* of _collections, 3.8 to 3.15: then blocks and indices, the state, the bound */
        DEQUE_STATE = 40,
        DEQUE_BOUND = 48,
        SOCKET_FD = 0,
        FUTURE_LOOP = 0, /* of _asyncio, all versions: then a callback, its context, more callbacks, the exception */
        FUTURE_CALLBACK = 8,
        FUTURE_CALLBACKS = 24,
        FUTURE_EXCEPTION = 32,
        METHOD_SELF = 8, /* also of built-in functions */
        PARTIAL_ARGUMENTS = 8,
        INT_DIGITS = 8,
        FIRST = 0,                   /* of weak references, cells, wrappers, holders of a loop */
        MOST_THREAD_TASKS = 1 << 20, /* of a list */
        MOST_CALLBACKS = 64,
        MOST_STACK = 1 << 16, /* values of a frame */
        YIELDS_AFTER = 2,     /* bytes of an instruction */
};

/* Member: 8 bytes of an object. */
static uint64_t member(const struct infp_python_objects *o, uint64_t object, uint64_t offset)
{
        uint64_t word;

        return infp_python_word(o, object + offset, &word) < 0 ? 0 : word;
}

static uint64_t after_head(const struct infp_python_objects *o, uint64_t object, uint64_t offset)
{
        return member(o, object, infp_python_head(o) + offset);
}

static int read_byte(const struct infp_python_objects *o, uint64_t address, uint8_t *ret)
{
        return o->memory.read(o->memory.context, address, ret, 1) < 0 ? -EFAULT : 0;
}

/* ---- where they are listed ---- */

int infp_python_asyncio_find(struct infp_python_objects *o, uint64_t interpreter, struct infp_python_asyncio *ret)
{
        int r;

        *ret = (struct infp_python_asyncio){ .interpreter = interpreter };
        r = infp_python_module(o, interpreter, "asyncio.tasks", &ret->module);
        if (r < 0)
                return r;
        if (infp_python_dict_get(o, ret->module, "_PyTask", &ret->py_task) < 0)
                ret->py_task = 0;
        return 0;
}

struct list {
        uint64_t *ret;
        uint32_t n, max;
        bool is_whole;
};

static void add(struct list *list, uint64_t address)
{
        if (list->n < list->max)
                list->ret[list->n++] = address;
        else
                list->is_whole = false;
}

/* A set of tasks in the module, or of weak references to them (a WeakSet, which has it as `data`). */
static void list_set(struct infp_python_objects *o, const struct infp_python_asyncio *asyncio, const char *name,
                     bool is_weak, struct list *list)
{
        uint64_t set, data;
        uint32_t first = list->n;
        int n, r = infp_python_dict_get(o, asyncio->module, name, &set);

        if (r == 0 && is_weak) {
                r = infp_python_attribute(o, set, "data", &data);
                set = data;
        }
        if (r == -ENOENT)
                return;
        n = r < 0 ? r : infp_python_set_members(o, set, list->ret + first, list->max - first, &list->is_whole);
        if (n < 0) {
                list->is_whole = false;
                return;
        }
        list->n = first;
        for (uint32_t i = first; i < first + (uint32_t) n; i++) {
                const uint64_t task = is_weak ? after_head(o, list->ret[i], FIRST) : list->ret[i];

                if (task && !infp_python_is_none(o, task)) /* what it referred to is no more */
                        list->ret[list->n++] = task;
        }
}

/* A list of tasks from 3.14 on: each has the next and the one before, and the head stands between last and first. A member that does
 * not point back shows that the list changed meanwhile. */
static void list_chain(struct infp_python_objects *o, uint64_t head, struct list *list)
{
        uint64_t node[2], before = head;

        if (o->memory.read(o->memory.context, head, node, sizeof(node)) < 0) {
                list->is_whole = false;
                return;
        }
        for (uint32_t i = 0; node[0] && node[0] != head; i++) {
                const uint64_t at = node[0];

                if (i == MOST_THREAD_TASKS || o->memory.read(o->memory.context, at, node, sizeof(node)) < 0 ||
                    node[1] != before) {
                        list->is_whole = false;
                        return;
                }
                add(list, at - o->tasks->task_node);
                before = at;
        }
}

uint32_t infp_python_tasks(struct infp_python_objects *o, const struct infp_python_asyncio *asyncio,
                           const struct infp_python_thread *threads, uint32_t n_threads, uint64_t *ret, uint32_t max,
                           bool *ret_is_whole)
{
        struct list list = { ret, 0, max, true };

        list_set(o, asyncio, "_all_tasks", true, &list); /* up to 3.11 */
        list_set(o, asyncio, "_scheduled_tasks", true, &list);
        list_set(o, asyncio, "_eager_tasks", false, &list);
        if (o->tasks->task_node != INFP_PYTHON_ABSENT) {
                list_chain(o, asyncio->interpreter + o->tasks->interp_tasks, &list);
                for (uint32_t i = 0; i < n_threads; i++)
                        if (threads[i].interpreter == asyncio->interpreter)
                                list_chain(o, threads[i].state + o->tasks->thread_tasks, &list);
        }
        *ret_is_whole = list.is_whole;
        return list.n;
}

uint64_t infp_python_thread_loop(struct infp_python_objects *o, uint64_t thread)
{
        const struct infp_python_object_type *type;
        uint64_t loop;

        if (o->tasks->thread_dict == INFP_PYTHON_ABSENT)
                return member(o, thread, o->tasks->thread_loop);
        loop = member(o, thread, o->tasks->thread_dict);
        if (!loop || infp_python_dict_get(o, loop, "__asyncio_running_event_loop__", &loop) < 0)
                return 0;
        type = infp_python_type_of(o, loop);
        /* Up to 3.11 an object holds it together with the number of the process. */
        return type && strcmp(type->name, "_RunningLoopHolder") == 0 ? after_head(o, loop, FIRST) : loop;
}

/* ---- what a loop runs ---- */

int infp_python_loop_queue(struct infp_python_objects *o, uint64_t loop, struct infp_python_queue *ret)
{
        uint64_t socket;
        int r = infp_python_attribute(o, loop, "_ready", &ret->address);

        if (r == 0)
                r = infp_python_attribute(o, loop, "_csock", &socket);
        if (r < 0)
                return r;
        if (!infp_python_is(o, ret->address, "collections.deque") ||
            !infp_python_is_instance(o, socket, 0, "_socket.socket"))
                return -ENOENT;
        return o->memory.read(o->memory.context, socket + infp_python_head(o) + SOCKET_FD, &ret->fd, sizeof(ret->fd)) <
                               0
                       ? -EFAULT
                       : 0;
}

/* The state of a deque counts what was appended and what was taken; its size is how many more were appended. */
int infp_python_queue_taken(const struct infp_python_objects *o, const struct infp_python_queue *queue, uint64_t *ret)
{
        uint64_t words[DEQUE_BOUND / 8 + 1];

        if (o->memory.read(o->memory.context, queue->address + infp_python_head(o), words, sizeof(words)) < 0)
                return -EFAULT;
        if (words[DEQUE_BOUND / 8] != UINT64_MAX) /* it has none */
                return -EBADMSG;
        *ret = words[DEQUE_STATE / 8] - words[DEQUE_SIZE / 8];
        return 0;
}

static bool is_named(const struct infp_python_objects *o, const struct infp_python_frame *frame, const char *name)
{
        char text[INFP_PYTHON_TEXT];

        return infp_python_text_read(o->layout, &o->memory, member(o, frame->code, o->layout->code_name), text) == 0 &&
               strcmp(text, name) == 0;
}

/* From the outermost: a loop is run near the start of its thread. */
uint32_t infp_python_callback(struct infp_python_objects *o, const struct infp_python_frame *frames, uint32_t n)
{
        while (n-- > 1)
                if (is_named(o, &frames[n], "_run_once") && is_named(o, &frames[n - 1], "_run"))
                        return n;
        return 0;
}

/* ---- the chain of coroutines ---- */

struct chain {
        struct infp_python_objects *o;
        struct infp_python_frame *ret;
        uint32_t n, max;
        uint64_t runs;
        bool is_created;
};

enum awaitable { FRAMED, WRAPPER, FUTURE, FOREIGN, UNREADABLE };

/* What an object is that is awaited. The types of wrappers have what they wrap as their first member. */
static enum awaitable kind_of(struct infp_python_objects *o, uint64_t object)
{
        static const struct {
                const char *name;
                enum awaitable kind;
        } known[] = {
                { "coroutine", FRAMED },
                { "generator", FRAMED },
                { "async_generator", FRAMED },
                { "coroutine_wrapper", WRAPPER },
                { "async_generator_asend", WRAPPER },
                { "async_generator_athrow", WRAPPER },
                { "anext_awaitable", WRAPPER },
                { "_asyncio.FutureIter", FUTURE },
                { "FutureIter", FUTURE }, /* before 3.12 */
        };
        const struct infp_python_object_type *type = infp_python_type_of(o, object);
        const char *name;

        if (!type)
                return UNREADABLE;
        name = type->name;
        for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
                if (strcmp(name, known[i].name) == 0 && infp_python_is(o, object, known[i].name))
                        return known[i].kind;
        return FOREIGN;
}

/* The value that a suspended frame has last on its stack: what it awaits. 0: none, or it cannot be read. */
static uint64_t stack_top(const struct infp_python_objects *o, uint64_t frame)
{
        const struct infp_python_task_layout *t = o->tasks;
        uint64_t at = 0;
        int32_t n = 0;

        if (t->top_form == INFP_PYTHON_TOP_POINTER) {
                at = member(o, frame, t->stack_top);
        } else {
                if (o->memory.read(o->memory.context, frame + t->stack_top, &n, sizeof(n)) < 0 || n <= 0 ||
                    n > MOST_STACK)
                        return 0;
                at = t->top_form == INFP_PYTHON_TOP_INDEX ? frame + t->stack_bottom : member(o, frame, t->stack_bottom);
                at = at ? at + 8 * (uint64_t) n : 0;
        }
        return at ? member(o, at - 8 * (1 + (uint64_t) t->stack_above), 0) & ~(uint64_t) t->stack_tag_mask : 0;
}

/* Whether the next instruction is the one after that of an await: versions up to 3.12 keep it nowhere else. */
static bool awaits_by_code(const struct infp_python_objects *o, const struct infp_python_frame *frame)
{
        const struct infp_python_layout *l = o->layout;
        const struct infp_python_task_layout *t = o->tasks;
        uint64_t at = frame->instruction;
        uint8_t code[2]; /* what it does, its argument */

        if (l->instruction_unit)
                at = member(o, frame->code, l->code_bytes) + l->bytes_data + at * l->instruction_unit;
        if (o->memory.read(o->memory.context, at + YIELDS_AFTER, code, sizeof(code)) < 0)
                return false;
        return (code[0] == t->await_codes[0] || code[0] == t->await_codes[1]) &&
               (!t->await_argument || (code[1] & 3) >= t->await_argument);
}

/* Before 3.10 nothing but the instruction and a flag of the generator says it. */
static int read_state(const struct infp_python_objects *o, uint64_t generator, uint64_t frame,
                      const struct infp_python_frame *read, int *ret)
{
        const struct infp_python_task_layout *t = o->tasks;
        uint8_t byte;

        if (t->generator_running != INFP_PYTHON_ABSENT) {
                if (read_byte(o, generator + t->generator_running, &byte) < 0)
                        return -EFAULT;
                *ret = byte ? 0 : (int64_t) read->instruction < 0 ? -2 : -1;
                return 0;
        }
        if (read_byte(o,
                      t->generator_state != INFP_PYTHON_ABSENT ? generator + t->generator_state
                                                               : frame + t->frame_state,
                      &byte) < 0)
                return -EFAULT;
        *ret = (int8_t) byte;
        return 0;
}

/* The frame of a coroutine, a generator. 0; -ENOENT: it has none any more. */
static int read_frame(const struct infp_python_objects *o, uint64_t generator, struct infp_python_frame *ret)
{
        const struct infp_python_layout *l = o->layout;
        uint8_t bytes[INFP_PYTHON_MAX_FRAME];
        int32_t index;

        *ret = (struct infp_python_frame){ .address = generator + o->tasks->generator_frame };
        if (o->tasks->frame_is_pointer && infp_python_word(o, ret->address, &ret->address) < 0)
                return -EFAULT;
        if (!ret->address)
                return -ENOENT;
        if (o->memory.read(o->memory.context, ret->address, bytes, l->frame_size) < 0)
                return -EFAULT;
        memcpy(&ret->code, bytes + l->frame_code, sizeof(ret->code));
        ret->code &= ~(uint64_t) l->code_tag_mask;
        if (l->frame_owner != INFP_PYTHON_ABSENT)
                ret->owner = bytes[l->frame_owner];
        if (l->instruction_unit) {
                memcpy(&index, bytes + l->frame_instruction, sizeof(index)); /* -1: it has not begun */
                ret->instruction = (uint64_t) (int64_t) index;
        } else {
                memcpy(&ret->instruction, bytes + l->frame_instruction, sizeof(ret->instruction));
        }
        return 0;
}

/* One that has a frame. *ret_next: what it awaits; 0: nothing that is known. */
static int take_framed(struct chain *c, uint64_t generator, uint64_t *ret_next)
{
        const struct infp_python_task_layout *t = c->o->tasks;
        const bool is_old = t->generator_running != INFP_PYTHON_ABSENT;
        struct infp_python_frame frame;
        int state = 0, r;

        *ret_next = 0;
        r = read_frame(c->o, generator, &frame);
        if (r == -ENOENT) /* it is over */
                return 0;
        if (r == 0)
                r = read_state(c->o, generator, frame.address, &frame, &state);
        if (r < 0)
                return r;
        if (!is_old && state >= t->state_over)
                return 0;
        c->ret[c->n++] = frame;
        if (state == (is_old ? 0 : t->state_runs)) {
                c->runs = frame.address;
                return 0;
        }
        c->is_created = state == (is_old ? -2 : t->state_created);
        if (c->is_created)
                return 0;
        if (t->state_awaits ? state == t->state_awaits || (t->state_locked && state == t->state_locked)
                            : awaits_by_code(c->o, &frame)) {
                *ret_next = stack_top(c->o, frame.address);
                return *ret_next ? 0 : -EBADMSG;
        }
        return 0;
}

/* Whether the frame that was taken last had been taken before: a cycle. */
static bool is_known(const struct chain *c)
{
        for (uint32_t i = 0; i + 1 < c->n; i++)
                if (c->ret[i].address == c->ret[c->n - 1].address)
                        return true;
        return false;
}

/* From a task's coroutine inwards. */
static enum infp_python_chain follow(struct chain *c, uint64_t object, uint64_t *ret_foreign)
{
        uint64_t next;

        for (uint32_t i = 0; object; i++, object = next) {
                switch (kind_of(c->o, object)) {
                case FRAMED:
                        if (c->n == c->max)
                                return INFP_PYTHON_CHAIN_TOO_DEEP;
                        if (take_framed(c, object, &next) < 0 || is_known(c))
                                return INFP_PYTHON_CHAIN_CUT;
                        break;
                case WRAPPER:
                        next = after_head(c->o, object, FIRST);
                        break;
                case FUTURE:
                        return INFP_PYTHON_CHAIN_WHOLE;
                case FOREIGN:
                        *ret_foreign = object;
                        return INFP_PYTHON_CHAIN_FOREIGN;
                default:
                        return INFP_PYTHON_CHAIN_CUT;
                }
                if (i == 4 * c->max)
                        return INFP_PYTHON_CHAIN_CUT;
        }
        return INFP_PYTHON_CHAIN_WHOLE;
}

/* ---- a task ---- */

/* An int as a task without a name has it from 3.12 on: it is shown as Task-N. */
static int read_number(const struct infp_python_objects *o, uint64_t object, char ret[INFP_PYTHON_TEXT])
{
        uint64_t tag = after_head(o, object, FIRST), number = 0;
        uint32_t digits[2] = { 0 };
        unsigned n_digits = 1;
        const uint64_t n = tag >> 3;

        if (tag & 3 || n > 2 ||
            o->memory.read(o->memory.context, object + infp_python_head(o) + INT_DIGITS, digits, n > 1 ? 8 : 4) < 0)
                return -EBADMSG;
        for (uint64_t i = n < 1 ? 1 : n; i-- > 0;)
                number = number << 30 | (digits[i] & ((1u << 30) - 1));
        memcpy(ret, "Task-", 5);
        for (uint64_t left = number; left > 9; left /= 10)
                n_digits++;
        ret[5 + n_digits] = 0;
        for (unsigned i = n_digits; i-- > 0; number /= 10)
                ret[5 + i] = (char) ('0' + number % 10);
        return 0;
}

static void read_name(struct infp_python_objects *o, uint64_t object, char ret[INFP_PYTHON_TEXT])
{
        ret[0] = 0;
        if (infp_python_is(o, object, "int")) {
                if (read_number(o, object, ret) < 0)
                        ret[0] = 0;
        } else if (!infp_python_is_instance(o, object, 0, "str") ||
                   infp_python_text_read(o->layout, &o->memory, object, ret) < 0) {
                ret[0] = 0;
        }
}

static bool is_of_c(struct infp_python_objects *o, uint64_t object)
{
        return infp_python_is_instance(o, object, 0, "_asyncio.Future") ||
               infp_python_is_instance(o, object, 0, "_asyncio.Task");
}

/* Its state as a future: pending, cancelled or finished. */
enum { PENDING, CANCELLED, FINISHED };

static int read_c_task(struct infp_python_objects *o, uint64_t address, struct infp_python_task *ret)
{
        uint64_t words[3]; /* what it awaits, its coroutine, its name */
        uint64_t exception = after_head(o, address, FUTURE_EXCEPTION);
        uint8_t state;

        if (o->memory.read(o->memory.context, address + o->tasks->task_waiter, words, sizeof(words)) < 0 ||
            read_byte(o, address + o->tasks->task_state, &state) < 0)
                return -EFAULT;
        if (state > FINISHED)
                return -EBADMSG;
        ret->loop = after_head(o, address, FUTURE_LOOP);
        ret->waiter = infp_python_is_none(o, words[0]) ? 0 : words[0];
        ret->coroutine = infp_python_is_none(o, words[1]) ? 0 : words[1];
        ret->state = state == CANCELLED                                ? INFP_PYTHON_TASK_CANCELLED
                     : state == PENDING                                ? INFP_PYTHON_TASK_READY
                     : exception && !infp_python_is_none(o, exception) ? INFP_PYTHON_TASK_FAILED
                                                                       : INFP_PYTHON_TASK_DONE;
        read_name(o, words[2], ret->name);
        return 0;
}

/* Of a future of C. False also where it is not known. */
static bool is_over(struct infp_python_objects *o, uint64_t future)
{
        uint8_t state;

        return is_of_c(o, future) && read_byte(o, future + o->tasks->task_state, &state) == 0 && state != PENDING;
}

/* 0 and *ret 0: it is None, or the class's, which is None. */
static int attribute(struct infp_python_objects *o, uint64_t object, const char *name, uint64_t *ret)
{
        const int r = infp_python_attribute(o, object, name, ret);

        if (r == -ENOENT || (r == 0 && infp_python_is_none(o, *ret)))
                *ret = 0;
        return r == -ENOENT ? 0 : r;
}

/* PENDING is an attribute of the class alone. */
static int read_py_state(struct infp_python_objects *o, uint64_t address, struct infp_python_task *ret)
{
        char text[INFP_PYTHON_TEXT];
        uint64_t state, exception;
        int r = attribute(o, address, "_state", &state);

        ret->state = INFP_PYTHON_TASK_READY;
        if (r < 0 || !state)
                return r;
        r = infp_python_text_read(o->layout, &o->memory, state, text);
        if (r == 0)
                r = attribute(o, address, "_exception", &exception);
        if (r < 0)
                return r;
        if (strcmp(text, "CANCELLED") == 0)
                ret->state = INFP_PYTHON_TASK_CANCELLED;
        else if (strcmp(text, "FINISHED") == 0)
                ret->state = exception ? INFP_PYTHON_TASK_FAILED : INFP_PYTHON_TASK_DONE;
        else if (strcmp(text, "PENDING") != 0)
                return -EBADMSG;
        return 0;
}

static int read_py_task(struct infp_python_objects *o, uint64_t address, struct infp_python_task *ret)
{
        uint64_t name;
        int r = read_py_state(o, address, ret);

        if (r == 0)
                r = attribute(o, address, "_fut_waiter", &ret->waiter);
        if (r == 0)
                r = attribute(o, address, "_coro", &ret->coroutine);
        if (r == 0)
                r = attribute(o, address, "_loop", &ret->loop);
        if (r == 0)
                r = attribute(o, address, "_name", &name);
        if (r == 0)
                read_name(o, name, ret->name);
        return r;
}

int infp_python_task_read(struct infp_python_objects *o, const struct infp_python_asyncio *asyncio, uint64_t address,
                          struct infp_python_task *ret, struct infp_python_frame *ret_frames, uint32_t max)
{
        struct chain chain = { .o = o, .ret = ret_frames, .max = max };
        int r = -EBADMSG;

        *ret = (struct infp_python_task){ .address = address };
        if (infp_python_is_instance(o, address, 0, "_asyncio.Task"))
                r = read_c_task(o, address, ret);
        else if (asyncio->py_task && infp_python_is_instance(o, address, asyncio->py_task, NULL))
                r = read_py_task(o, address, ret);
        if (r < 0)
                return r;
        if (ret->state != INFP_PYTHON_TASK_READY || !ret->coroutine) /* it has ended */
                return 0;
        ret->chain = follow(&chain, ret->coroutine, &ret->foreign);
        ret->n_frames = chain.n;
        ret->runs = chain.runs;
        if (chain.runs)
                ret->state = INFP_PYTHON_TASK_RUNNING;
        else if (ret->waiter && !is_over(o, ret->waiter))
                ret->state = INFP_PYTHON_TASK_WAITING;
        else if (chain.is_created && chain.n == 1)
                ret->state = INFP_PYTHON_TASK_CREATED;
        return 0;
}

/* ---- who awaits whom ---- */

bool infp_python_is_gather(struct infp_python_objects *o, uint64_t future)
{
        const struct infp_python_object_type *type = infp_python_type_of(o, future);

        return type && strcmp(type->name, "_GatheringFuture") == 0;
}

uint32_t infp_python_gathered(struct infp_python_objects *o, uint64_t future, uint64_t *ret, uint32_t max)
{
        uint64_t children;
        int n = -ENOENT;

        if (infp_python_is_gather(o, future) && infp_python_attribute(o, future, "_children", &children) == 0)
                n = infp_python_items(o, children, ret, max);
        return n < 0 ? 0 : (uint32_t) n;
}

/* What may be woken by an object: itself, and of a TaskGroup (asyncio's, anyio's) the task that opened it, or what that waits for. A task
 * that a callback merely has kept (is_bound false) is not woken by it. */
static void add_object(struct infp_python_objects *o, uint64_t object, bool is_bound, struct list *list)
{
        static const char *const members[] = { "_parent_task", "_on_completed_fut" };
        uint64_t value;

        if (!object)
                return;
        if (is_bound || !infp_python_is_instance(o, object, 0, "_asyncio.Task"))
                add(list, object);
        for (unsigned i = 0; i < 2; i++)
                if (infp_python_attribute(o, object, members[i], &value) == 0)
                        add(list, value);
}

/* What a function of Python has kept of the one that made it. */
static void add_closure(struct infp_python_objects *o, uint64_t function, struct list *list)
{
        uint64_t cells[16];
        const int n = infp_python_items(o, member(o, function, o->tasks->function_closure), cells, 16);

        for (int i = 0; i < n; i++)
                if (infp_python_is(o, cells[i], "cell"))
                        add_object(o, after_head(o, cells[i], FIRST), false, list);
}

/* asyncio's callbacks wake by what they are bound to, were given, or have kept. */
static void add_callback(struct infp_python_objects *o, uint64_t callback, struct list *list)
{
        const struct infp_python_object_type *type = infp_python_type_of(o, callback);
        uint64_t arguments[8];
        int n;

        if (!type)
                return;
        if (strcmp(type->name, "function") == 0) {
                add_closure(o, callback, list);
        } else if (strcmp(type->name, "functools.partial") == 0) {
                n = infp_python_items(o, after_head(o, callback, PARTIAL_ARGUMENTS), arguments, 8);
                for (int i = 0; i < n; i++)
                        add_object(o, arguments[i], false, list);
        } else if (strcmp(type->name, "method") == 0 || strcmp(type->name, "builtin_function_or_method") == 0) {
                add_object(o, after_head(o, callback, METHOD_SELF), true, list);
        }
}

uint32_t infp_python_woken(struct infp_python_objects *o, uint64_t future, uint64_t *ret, uint32_t max)
{
        struct list list = { ret, 0, max, true };
        uint64_t callbacks = 0, pairs[MOST_CALLBACKS], pair[2];
        int n;

        if (is_of_c(o, future)) {
                add_callback(o, after_head(o, future, FUTURE_CALLBACK), &list);
                callbacks = after_head(o, future, FUTURE_CALLBACKS);
        } else if (infp_python_attribute(o, future, "_callbacks", &callbacks) < 0) {
                return 0;
        }
        n = callbacks ? infp_python_items(o, callbacks, pairs, MOST_CALLBACKS) : 0;
        for (int i = 0; i < n; i++) /* each with its context */
                if (infp_python_items(o, pairs[i], pair, 2) == 2)
                        add_callback(o, pair[0], &list);
        return list.n;
}

bool infp_python_knows_awaiters(struct infp_python_objects *o, uint64_t future)
{
        return o->tasks->awaited_by != INFP_PYTHON_ABSENT && is_of_c(o, future);
}

uint32_t infp_python_awaiters(struct infp_python_objects *o, uint64_t future, uint64_t *ret, uint32_t max)
{
        bool is_whole = true;
        uint64_t by;
        uint8_t is_set;
        int n;

        if (!infp_python_knows_awaiters(o, future) || !max ||
            read_byte(o, future + o->tasks->awaited_by_is_set, &is_set) < 0)
                return 0;
        by = member(o, future, o->tasks->awaited_by);
        if (!by)
                return 0;
        if (!is_set) {
                *ret = by;
                return 1;
        }
        n = infp_python_set_members(o, by, ret, max, &is_whole);
        return n < 0 ? 0 : (uint32_t) n;
}
