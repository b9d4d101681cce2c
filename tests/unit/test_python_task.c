/* Tasks, chains of coroutines, dicts and sets, in memory made by hand for each version, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "python_memory.h"
#include "unwind/python/task.h"

enum { MAX = 16 };
enum { TYPE_DICT = 1 << 29, TYPE_LIST = 1 << 25, TYPE_TUPLE = 1 << 26, TYPE_HEAP = 1 << 9 };

/* AsyncioDebug of 3.14.10 of Debian, and as the sources of a free-threaded one have it. */
static const uint64_t asyncio_words[INFP_PYTHON_ASYNCIO_DEBUG / 8] = { 168,     136,   96,  108, 109, 128, 152,
                                                                       2258640, 10880, 936, 864, 872, 880 };
static const uint64_t asyncio_free_words[INFP_PYTHON_ASYNCIO_DEBUG / 8] = { 192,    152,   112,   124, 125, 144, 168,
                                                                            249976, 17304, 19216, 864, 872, 880 };

struct world {
        struct fake *fake;
        struct infp_python_task_layout tasks;
        struct infp_python_objects objects;
        struct infp_python_thread thread;
        uint64_t type_str, type_dict, type_set, type_weakref, type_task, type_coroutine, type_iterator, type_instance,
                type_none, type_list, type_tuple, type_method, type_group;
        uint64_t none, interpreter, module, loop, code, task[2], future, coroutine[2];
};

/* Where a member is that stands there after a head of 16 bytes. */
static uint64_t in(const struct world *w, uint64_t object, unsigned offset)
{
        return object + w->fake->layout.object_type - 8 + offset;
}

static uint64_t new_type(struct world *w, const char *name, uint64_t flags, uint64_t size, uint64_t dict_offset)
{
        const uint64_t address = fake_take(w->fake, 1024), text = fake_take(w->fake, strlen(name) + 1);

        memcpy(fake_at(w->fake, text), name, strlen(name) + 1);
        fake_put(w->fake, in(w, address, 24), text);
        fake_put(w->fake, in(w, address, 32), in(w, size, 0));
        fake_put(w->fake, in(w, address, 168), flags);
        fake_put(w->fake, in(w, address, 288), dict_offset ? in(w, dict_offset, 0) : 0);
        return address;
}

static uint64_t new_object(struct world *w, uint64_t type, uint64_t size)
{
        const uint64_t address = fake_take(w->fake, in(w, size, 0));

        fake_put(w->fake, in(w, address, 8), type);
        return address;
}

static uint64_t new_text(struct world *w, const char *text)
{
        const uint64_t address = fake_text(w->fake, text);

        fake_put(w->fake, in(w, address, 8), w->type_str);
        return address;
}

/* With up to 4 keys and values; NULL ends them. */
static uint64_t new_dict(struct world *w, const char *const *names, const uint64_t *values)
{
        const bool is_new = w->tasks.has_unicode_keys;
        const uint64_t dict = new_object(w, w->type_dict, 64), keys = fake_take(w->fake, 256);
        const uint64_t entries = keys + (is_new ? 32 + 8 : 40 + 8);
        uint64_t n;

        for (n = 0; names[n]; n++) {
                const uint64_t entry = entries + n * (is_new ? 16 : 24) + (is_new ? 0 : 8);

                fake_put(w->fake, entry, new_text(w, names[n]));
                fake_put(w->fake, entry + 8, values[n]);
        }
        if (is_new) {
                fake_put(w->fake, keys + 8, 3 | 3 << 8 | 1 << 16); /* 8 entries, 8 bytes of index, of texts */
                fake_put(w->fake, keys + 24, n);
        } else {
                fake_put(w->fake, keys + 8, 8);
                fake_put(w->fake, keys + 32, n);
        }
        fake_put(w->fake, in(w, dict, 32), keys);
        return dict;
}

static uint64_t new_instance(struct world *w, uint64_t type, const char *name, uint64_t value)
{
        const uint64_t object = new_object(w, type, 32);
        const char *const names[] = { name, NULL };

        fake_put(w->fake, in(w, object, 16), new_dict(w, names, &value));
        return object;
}

static uint64_t new_set(struct world *w, const uint64_t *members, unsigned n)
{
        const uint64_t set = new_object(w, w->type_set, 64), table = fake_take(w->fake, (uint64_t) 8 * 16);

        fake_put(w->fake, in(w, set, 32), 7);
        fake_put(w->fake, in(w, set, 40), table);
        for (unsigned i = 0; i < n; i++) {
                fake_put(w->fake, table + (uint64_t) (2 * i + 1) * 16, members[i]);
                fake_put(w->fake, table + (uint64_t) (2 * i + 1) * 16 + 8, 1000 + i);
        }
        return set;
}

static uint64_t new_list(struct world *w, uint64_t type, const uint64_t *items, unsigned n)
{
        const uint64_t list = new_object(w, type, 24 + 8 * (uint64_t) n),
                       at = type == w->type_tuple ? in(w, list, 24) : fake_take(w->fake, 8 * (uint64_t) n + 8);

        fake_put(w->fake, in(w, list, 16), n);
        if (type != w->type_tuple)
                fake_put(w->fake, in(w, list, 24), at);
        for (unsigned i = 0; i < n; i++)
                fake_put(w->fake, at + 8 * (uint64_t) i, items[i]);
        return list;
}

/* A coroutine that awaits something; 0: it is about to begin. */
static uint64_t new_coroutine(struct world *w, uint64_t awaited)
{
        const struct infp_python_task_layout *t = &w->tasks;
        const uint64_t coroutine = new_object(w, w->type_coroutine, 512);
        const bool by_code = !t->state_awaits;
        uint64_t frame = coroutine + t->generator_frame, stack, instruction = w->code + w->fake->layout.code_bytes + 8;

        if (t->frame_is_pointer) {
                frame = fake_take(w->fake, 256);
                fake_put(w->fake, coroutine + t->generator_frame, frame);
                instruction = 8 / w->fake->layout.instruction_unit;
        }
        fake_frame(w->fake, frame, w->code, 0, awaited ? instruction : UINT64_MAX, INFP_PYTHON_OWNER_GENERATOR, false);
        stack = t->top_form == INFP_PYTHON_TOP_INDEX ? frame + t->stack_bottom : fake_take(w->fake, 64);
        if (t->top_form == INFP_PYTHON_TOP_POINTER)
                fake_put(w->fake, frame + t->stack_top, stack + 24);
        else
                fake_put32(w->fake, frame + t->stack_top, 3);
        if (t->top_form == INFP_PYTHON_TOP_COUNT)
                fake_put(w->fake, frame + t->stack_bottom, stack);
        fake_put(w->fake, stack + 16 - 8 * (uint64_t) t->stack_above, awaited);
        if (t->generator_state != INFP_PYTHON_ABSENT)
                *fake_at(w->fake, coroutine + t->generator_state) = (uint8_t) (!awaited  ? t->state_created
                                                                               : by_code ? -1
                                                                                         : t->state_awaits);
        else if (t->generator_running == INFP_PYTHON_ABSENT)
                *fake_at(w->fake, frame + t->frame_state) = (uint8_t) (awaited ? -1 : t->state_created);
        return coroutine;
}

static uint64_t new_task(struct world *w, const char *name, uint64_t coroutine, uint64_t waiter)
{
        const uint64_t task = new_object(w, w->type_task, 256), at = task + w->tasks.task_waiter;

        fake_put(w->fake, in(w, task, 16), w->loop);
        fake_put(w->fake, at, waiter ? waiter : w->none);
        fake_put(w->fake, at + 8, coroutine);
        fake_put(w->fake, at + 16, new_text(w, name));
        return task;
}

static void make_types(struct world *w)
{
        w->type_str = new_type(w, "str", 1 << 28, 80, 0);
        w->type_dict = new_type(w, "dict", TYPE_DICT, 48, 0);
        w->type_set = new_type(w, "set", 0, 200, 0);
        w->type_list = new_type(w, "list", TYPE_LIST, 40, 0);
        w->type_tuple = new_type(w, "tuple", TYPE_TUPLE, 24, 0);
        w->type_weakref = new_type(w, "weakref", 0, 72, 0);
        w->type_none = new_type(w, "NoneType", 0, 16, 0);
        w->type_task = new_type(w, "_asyncio.Task", 0, 200, 0);
        w->type_coroutine = new_type(w, "coroutine", 0, 200, 0);
        w->type_iterator = new_type(w, "_asyncio.FutureIter", TYPE_HEAP, 24, 0);
        w->type_instance = new_type(w, "WeakSet", TYPE_HEAP, 32, 16);
        w->type_group = new_type(w, "TaskGroup", TYPE_HEAP, 32, 16);
        w->type_method = new_type(w, "method", 0, 40, 0);
        w->none = new_object(w, w->type_none, 16);
}

/* A module with its lists of tasks: the first task is in the WeakSet, the second in the set or, from 3.14 on, in the thread's list. */
static void make_lists(struct world *w)
{
        const uint64_t ref = new_object(w, w->type_weakref, 32), dead = new_object(w, w->type_weakref, 32),
                       refs[] = { ref, dead }, module = new_object(w, w->type_instance, 64);
        const bool has_list = w->tasks.task_node != INFP_PYTHON_ABSENT;
        const char *const names[] = { w->fake->layout.version < 0x30c ? "_all_tasks" : "_scheduled_tasks",
                                      "_eager_tasks", NULL };
        const uint64_t sets[] = { new_instance(w, w->type_instance, "data", new_set(w, refs, 2)),
                                  new_set(w, &w->task[1], has_list ? 0 : 1) };
        const char *const modules[] = { "sys", "asyncio.tasks", NULL };
        const uint64_t values[] = { w->none, module };
        uint64_t node, head;

        fake_put(w->fake, in(w, ref, 16), w->task[0]);
        fake_put(w->fake, in(w, dead, 16), w->none);
        w->module = new_dict(w, names, sets);
        fake_put(w->fake, in(w, module, 16), w->module);
        fake_put(w->fake, w->interpreter + w->tasks.interp_modules, new_dict(w, modules, values));
        if (!has_list)
                return;
        node = w->task[1] + w->tasks.task_node;
        head = w->thread.state + w->tasks.thread_tasks;
        fake_put(w->fake, head, node);
        fake_put(w->fake, head + 8, node);
        fake_put(w->fake, node, head);
        fake_put(w->fake, node + 8, head);
        head = w->interpreter + w->tasks.interp_tasks;
        fake_put(w->fake, head, head);
        fake_put(w->fake, head + 8, head);
}

static struct world make(uint16_t build)
{
        struct world w = { .fake = fake_new(build) };
        uint64_t iterator;

        assert_true(infp_python_task_layout_of(
                &w.fake->layout, fake_runtime(build),
                (const uint8_t *) (build < FAKE_FREE ? asyncio_words : asyncio_free_words), &w.tasks));
        assert_true(w.tasks.knows_tasks);
        make_types(&w);
        w.interpreter = fake_take(w.fake, 32768);
        w.thread = (struct infp_python_thread){ .state = fake_take(w.fake, 2048), .interpreter = w.interpreter };
        w.loop = new_object(&w, w.type_instance, 32);
        w.code = fake_code(w.fake, fake_text(w.fake, "a.py"), fake_text(w.fake, "f"), 7, "", 0);
        if (!w.tasks.state_awaits) { /* what follows the instruction */
                uint64_t bytes = w.code + w.fake->layout.code_bytes;

                if (w.fake->layout.code_units == INFP_PYTHON_ABSENT) {
                        const uint8_t none[32] = { 0 };

                        bytes = fake_bytes(w.fake, none, sizeof(none));
                        fake_put(w.fake, w.code + w.fake->layout.code_bytes, bytes);
                        bytes += w.fake->layout.bytes_data;
                }
                *fake_at(w.fake, bytes + 10) = w.tasks.await_codes[0];
                *fake_at(w.fake, bytes + 11) = 3;
        }
        w.future = new_object(&w, w.type_task, 256);
        iterator = new_object(&w, w.type_iterator, 32);
        fake_put(w.fake, in(&w, iterator, 16), w.future);
        w.coroutine[1] = new_coroutine(&w, iterator);
        w.coroutine[0] = new_coroutine(&w, w.coroutine[1]);
        w.task[0] = new_task(&w, "first", w.coroutine[0], w.future);
        w.task[1] = new_task(&w, "second", new_coroutine(&w, 0), 0);
        make_lists(&w);
        w.objects = (struct infp_python_objects){ .layout = &w.fake->layout,
                                                  .memory = fake_memory(w.fake),
                                                  .none = w.none };
        return w;
}

static void test_tasks(void **state)
{
        (void) state;
        for (uint16_t build = FAKE_FIRST; build <= FAKE_LAST; build++) {
                struct world w = make(build);
                struct infp_python_asyncio asyncio;
                struct infp_python_frame frames[MAX];
                struct infp_python_task task;
                uint64_t found[MAX];
                bool is_whole;

                w.objects.tasks = &w.tasks;
                assert_int_equal(infp_python_asyncio_find(&w.objects, w.interpreter, &asyncio), 0);
                assert_int_equal(asyncio.module, w.module);
                assert_int_equal(infp_python_tasks(&w.objects, &asyncio, &w.thread, 1, found, MAX, &is_whole), 2);
                assert_true(is_whole);
                assert_true(found[0] == w.task[0] && found[1] == w.task[1]);
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, found[0], &task, frames, MAX), 0);
                assert_string_equal(task.name, "first");
                assert_int_equal(task.state, INFP_PYTHON_TASK_WAITING);
                assert_int_equal(task.loop, w.loop);
                assert_int_equal(task.waiter, w.future);
                assert_int_equal(task.chain, INFP_PYTHON_CHAIN_WHOLE);
                assert_int_equal(task.n_frames, 2);
                assert_true(frames[0].code == w.code && frames[1].code == w.code &&
                            frames[0].address != frames[1].address);
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, found[0], &task, frames, 1), 0);
                assert_int_equal(task.chain, INFP_PYTHON_CHAIN_TOO_DEEP);
                if (w.tasks.state_locked) { /* another thread asks what it awaits */
                        *fake_at(w.fake, w.coroutine[0] + w.tasks.generator_state) = 3;
                        infp_python_task_read(&w.objects, &asyncio, found[0], &task, frames, MAX);
                        assert_int_equal(task.n_frames, 2);
                }
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, found[1], &task, frames, MAX), 0);
                assert_string_equal(task.name, "second");
                assert_int_equal(task.state, INFP_PYTHON_TASK_CREATED);
                assert_int_equal(task.waiter, 0);
                assert_int_equal(task.n_frames, 1);
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, w.loop, &task, frames, MAX), -EBADMSG);
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, 8, &task, frames, MAX), -EBADMSG);
                infp_python_tasks(&w.objects, &asyncio, &w.thread, 1, found, 1, &is_whole);
                assert_false(is_whole);
                free(w.fake);
        }
}

/* A task's states as a future, and a coroutine that awaits itself. */
static void test_states_and_cycle(void **state)
{
        static const enum infp_python_task_state states[] = { INFP_PYTHON_TASK_WAITING, INFP_PYTHON_TASK_CANCELLED,
                                                              INFP_PYTHON_TASK_DONE };
        (void) state;

        for (uint16_t build = FAKE_FIRST; build <= FAKE_LAST; build++) {
                struct world w = make(build);
                const struct infp_python_asyncio asyncio = { .interpreter = w.interpreter, .module = w.module };
                struct infp_python_frame frames[MAX];
                struct infp_python_task task;

                w.objects.tasks = &w.tasks;
                for (uint8_t i = 0; i < 3; i++) {
                        *fake_at(w.fake, w.task[0] + w.tasks.task_state) = i;
                        assert_int_equal(infp_python_task_read(&w.objects, &asyncio, w.task[0], &task, frames, MAX), 0);
                        assert_int_equal(task.state, states[i]);
                        assert_int_equal(task.n_frames, i ? 0 : 2);
                }
                fake_put(w.fake, in(&w, w.task[0], 48), w.loop);
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, w.task[0], &task, frames, MAX), 0);
                assert_int_equal(task.state, INFP_PYTHON_TASK_FAILED);
                *fake_at(w.fake, w.task[0] + w.tasks.task_state) = 3;
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, w.task[0], &task, frames, MAX), -EBADMSG);
                *fake_at(w.fake, w.task[0] + w.tasks.task_state) = 0;
                fake_put(w.fake, w.future + w.tasks.task_state, 1); /* it is over: the loop will run the task */
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, w.task[0], &task, frames, MAX), 0);
                assert_int_equal(task.state, INFP_PYTHON_TASK_READY);
                fake_put(w.fake, w.task[0] + w.tasks.task_waiter + 8, new_object(&w, w.type_instance, 64));
                assert_int_equal(infp_python_task_read(&w.objects, &asyncio, w.task[0], &task, frames, MAX), 0);
                assert_int_equal(task.chain, INFP_PYTHON_CHAIN_FOREIGN);
                free(w.fake);
        }
}

/* A callback that is a TaskGroup's method leads to the task that opened it; a gather to its members. */
static void test_relations(void **state)
{
        (void) state;
        for (uint16_t build = FAKE_FIRST; build <= FAKE_LAST; build++) {
                struct world w = make(build);
                const uint64_t group = new_instance(&w, w.type_group, "_parent_task", w.task[1]),
                               method = new_object(&w, w.type_method, 48),
                               type_gather = new_type(&w, "_GatheringFuture", TYPE_HEAP, 32, 16),
                               pair = new_list(&w, w.type_tuple, (const uint64_t[]){ method, w.none }, 2),
                               gather =
                                       new_instance(&w, type_gather, "_children", new_list(&w, w.type_list, w.task, 2));
                uint64_t found[MAX];

                w.objects.tasks = &w.tasks;
                fake_put(w.fake, in(&w, method, 24), group);
                fake_put(w.fake, in(&w, w.task[0], 40), new_list(&w, w.type_list, &pair, 1));
                assert_int_equal(infp_python_woken(&w.objects, w.task[0], found, MAX), 2);
                assert_true(found[0] == group && found[1] == w.task[1]);
                assert_true(infp_python_is_gather(&w.objects, gather));
                assert_int_equal(infp_python_gathered(&w.objects, gather, found, MAX), 2);
                assert_true(found[0] == w.task[0] && found[1] == w.task[1]);
                assert_int_equal(infp_python_gathered(&w.objects, gather, found, 1), 1);
                assert_int_equal(infp_python_gathered(&w.objects, w.future, found, MAX), 0);
                assert_int_equal(infp_python_knows_awaiters(&w.objects, w.task[0]), w.fake->layout.version >= 0x30e);
                if (w.fake->layout.version >= 0x30e) {
                        fake_put(w.fake, w.task[0] + w.tasks.awaited_by, w.task[1]);
                        assert_int_equal(infp_python_awaiters(&w.objects, w.task[0], found, MAX), 1);
                        assert_int_equal(found[0], w.task[1]);
                        fake_put(w.fake, w.task[0] + w.tasks.awaited_by, new_set(&w, w.task, 2));
                        *fake_at(w.fake, w.task[0] + w.tasks.awaited_by_is_set) = 1;
                        assert_int_equal(infp_python_awaiters(&w.objects, w.task[0], found, MAX), 2);
                }
                free(w.fake);
        }
}

/* A queue counts what is taken from it, not what is added; loops that have none, or another kind, have no number. */
static void test_queue(void **state)
{
        (void) state;
        for (uint16_t build = FAKE_FIRST; build <= FAKE_LAST; build++) {
                struct world w = make(build);
                const uint64_t queue = new_object(&w, new_type(&w, "collections.deque", TYPE_HEAP, 200, 0), 200),
                               socket = new_object(&w, new_type(&w, "_socket.socket", TYPE_HEAP, 48, 0), 48),
                               values[] = { queue, socket }, values_swapped[] = { socket, queue };
                const char *const names[] = { "_ready", "_csock", NULL };
                struct infp_python_queue found;
                uint64_t taken, again;

                w.objects.tasks = &w.tasks;
                fake_put(w.fake, in(&w, w.loop, 16), new_dict(&w, names, values));
                fake_put(w.fake, in(&w, socket, 16), 5);
                fake_put(w.fake, in(&w, queue, 16), 3); /* of 7 that were appended 4 were taken */
                fake_put(w.fake, in(&w, queue, 56), 11);
                fake_put(w.fake, in(&w, queue, 64), UINT64_MAX);
                assert_int_equal(infp_python_loop_queue(&w.objects, w.loop, &found), 0);
                assert_int_equal(found.address, queue);
                assert_int_equal(found.fd, 5);
                assert_int_equal(infp_python_queue_taken(&w.objects, &found, &taken), 0);
                fake_put(w.fake, in(&w, queue, 16), 5);
                fake_put(w.fake, in(&w, queue, 56), 13);
                assert_int_equal(infp_python_queue_taken(&w.objects, &found, &again), 0);
                assert_int_equal(taken, again);
                fake_put(w.fake, in(&w, queue, 16), 4);
                fake_put(w.fake, in(&w, queue, 56), 14);
                assert_int_equal(infp_python_queue_taken(&w.objects, &found, &again), 0);
                assert_int_not_equal(taken, again);
                fake_put(w.fake, in(&w, queue, 64), 7);
                assert_int_equal(infp_python_queue_taken(&w.objects, &found, &again), -EBADMSG);
                assert_int_equal(infp_python_loop_queue(&w.objects, w.future, &found), -ENOENT);
                fake_put(w.fake, in(&w, w.loop, 16), new_dict(&w, names, values_swapped));
                assert_int_equal(infp_python_loop_queue(&w.objects, w.loop, &found), -ENOENT);
                free(w.fake);
        }
}

/* A callback is what Handle._run calls, of the loop that is run. */
static void test_callback(void **state)
{
        (void) state;
        for (uint16_t build = FAKE_FIRST; build <= FAKE_LAST; build++) {
                struct world w = make(build);
                const uint64_t file = fake_text(w.fake, "events.py"),
                               run = fake_code(w.fake, file, fake_text(w.fake, "_run"), 7, "", 0),
                               once = fake_code(w.fake, file, fake_text(w.fake, "_run_once"), 7, "", 0);
                const struct infp_python_frame frames[] = { { .code = w.code }, { .code = w.code }, { .code = run },
                                                            { .code = once },   { .code = w.code }, { .code = run } };

                w.objects.tasks = &w.tasks;
                assert_int_equal(infp_python_callback(&w.objects, frames, 6), 3);
                assert_int_equal(infp_python_callback(&w.objects, frames + 2, 2), 1);
                assert_int_equal(infp_python_callback(&w.objects, frames, 3), 0);     /* nothing runs a loop */
                assert_int_equal(infp_python_callback(&w.objects, frames + 3, 3), 0); /* in its selector */
                assert_int_equal(infp_python_callback(&w.objects, frames, 0), 0);
                free(w.fake);
        }
}

/* Each word of what was made, made wrong: it ends, after few reads, and gives no more than there is room for. */
static void test_damaged(void **state)
{
        (void) state;
        for (uint16_t build = FAKE_FIRST; build <= FAKE_LAST; build++) {
                struct world w = make(build);
                const uint64_t wrong[] = { 0, UINT64_MAX, FAKE_BASE, w.coroutine[0], UINT64_C(1) << 62 };

                w.objects.tasks = &w.tasks;
                for (uint64_t at = FAKE_BASE; at < FAKE_BASE + 64 + w.fake->used; at += 8) {
                        uint64_t before, found[MAX];
                        struct infp_python_asyncio asyncio;
                        struct infp_python_frame frames[MAX];
                        struct infp_python_task task;
                        bool is_whole;

                        memcpy(&before, fake_at(w.fake, at), 8);
                        for (unsigned i = before ? 0 : 4; i < 5; i++) {
                                uint32_t n = 0;

                                fake_put(w.fake, at, wrong[i]);
                                w.fake->n_reads = 0;
                                memset(w.objects.types, 0, sizeof(w.objects.types));
                                if (infp_python_asyncio_find(&w.objects, w.interpreter, &asyncio) == 0)
                                        n = infp_python_tasks(&w.objects, &asyncio, &w.thread, 1, found, MAX,
                                                              &is_whole);
                                assert_true(n <= MAX);
                                for (uint32_t k = 0; k < n; k++) {
                                        if (infp_python_task_read(&w.objects, &asyncio, found[k], &task, frames, MAX) <
                                            0)
                                                continue;
                                        assert_true(task.n_frames <= MAX && task.state < INFP_PYTHON_TASK_STATES);
                                }
                                assert_true(w.fake->n_reads < 20000);
                        }
                        fake_put(w.fake, at, before);
                }
                free(w.fake);
        }
}

static void test_layouts(void **state)
{
        struct infp_python_layout l;
        struct infp_python_task_layout t;
        uint64_t words[INFP_PYTHON_ASYNCIO_DEBUG / 8];
        (void) state;

        assert_true(fake_layout(0x30e, &l));
        assert_true(
                infp_python_task_layout_of(&l, (const uint8_t *) fake_words[1], (const uint8_t *) asyncio_words, &t));
        assert_int_equal(t.interp_modules, 7688);
        assert_int_equal(t.task_state, 104);
        assert_int_equal(t.task_waiter, 120);
        assert_true(infp_python_task_layout_of(&l, (const uint8_t *) fake_words[1], NULL, &t));
        assert_false(t.knows_tasks);
        assert_false(infp_python_task_layout_of(&l, NULL, (const uint8_t *) asyncio_words, &t));
        for (unsigned i = 0; i < sizeof(words) / 8; i++) {
                memcpy(words, asyncio_words, sizeof(words));
                words[i] = UINT64_MAX;
                assert_true(
                        infp_python_task_layout_of(&l, (const uint8_t *) fake_words[1], (const uint8_t *) words, &t));
                assert_false(t.knows_tasks);
        }
        assert_true(fake_layout(FAKE_FREE, &l));
        assert_true(infp_python_task_layout_of(&l, fake_runtime(FAKE_FREE), NULL, &t));
        assert_int_equal(t.task_state, 112);
        assert_int_equal(t.task_waiter, 128);
        assert_int_equal(t.generator_frame, 88);
        assert_int_equal(t.thread_loop, 312);
        assert_int_equal(t.type_cached_keys, 896);
        assert_true(fake_layout(0x30d, &l));
        assert_true(infp_python_task_layout_of(&l, (const uint8_t *) fake_words[0], NULL, &t));
        assert_int_equal(t.thread_loop, 304);
        l.version = 0x310;
        assert_false(infp_python_task_layout_of(&l, (const uint8_t *) fake_words[0], NULL, &t));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tasks),     cmocka_unit_test(test_states_and_cycle),
                cmocka_unit_test(test_relations), cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_layouts),   cmocka_unit_test(test_queue),
                cmocka_unit_test(test_callback),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
