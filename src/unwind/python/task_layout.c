#include "unwind/python/task_layout.h"

#include <string.h>

static const struct infp_python_task_layout by_version[] = {
        /* 3.8 */
        { .interp_modules = 56,
          .type_cached_keys = 872,
          .function_closure = 48,
          .generator_frame = 16,
          .frame_is_pointer = true,
          .generator_running = 24,
          .generator_state = INFP_PYTHON_ABSENT,
          .frame_state = INFP_PYTHON_ABSENT,
          .await_codes = { 72, 72 }, /* YIELD_FROM */
          .stack_top = 72,
          .top_form = INFP_PYTHON_TOP_POINTER,
          .task_state = 72,
          .task_waiter = 104,
          .thread_dict = 152 },
        /* 3.9 */
        { .interp_modules = 856,
          .type_cached_keys = 864,
          .function_closure = 48,
          .generator_frame = 16,
          .frame_is_pointer = true,
          .generator_running = 24,
          .generator_state = INFP_PYTHON_ABSENT,
          .frame_state = INFP_PYTHON_ABSENT,
          .await_codes = { 72, 72 },
          .stack_top = 72,
          .top_form = INFP_PYTHON_TOP_POINTER,
          .task_state = 80,
          .task_waiter = 144,
          .thread_dict = 152 },
        /* 3.10 */
        { .interp_modules = 856,
          .type_cached_keys = 872,
          .function_closure = 72,
          .generator_frame = 16,
          .frame_is_pointer = true,
          .generator_running = INFP_PYTHON_ABSENT,
          .generator_state = INFP_PYTHON_ABSENT,
          .frame_state = 108,
          .state_created = -2,
          .state_runs = 0,
          .state_over = 1,
          .await_codes = { 72, 72 },
          .stack_bottom = 64,
          .stack_top = 80,
          .top_form = INFP_PYTHON_TOP_COUNT,
          .task_state = 88,
          .task_waiter = 152,
          .thread_dict = 152 },
        /* 3.11 */
        { .interp_modules = 888,
          .type_cached_keys = 872,
          .function_closure = 72,
          .instances = INFP_PYTHON_VALUES_APART,
          .has_unicode_keys = true,
          .generator_frame = 80,
          .generator_running = INFP_PYTHON_ABSENT,
          .generator_state = 75,
          .state_created = -2,
          .state_runs = 0,
          .state_over = 1,
          .await_codes = { 151, 150 }, /* RESUME, RESUME_QUICK */
          .await_argument = 2,
          .stack_bottom = 72,
          .stack_top = 64,
          .top_form = INFP_PYTHON_TOP_INDEX,
          .task_state = 88,
          .task_waiter = 128,
          .thread_dict = 128 },
        /* 3.12 */
        { .interp_modules = 944,
          .type_cached_keys = 880,
          .function_closure = 72,
          .instances = INFP_PYTHON_VALUES_TAGGED,
          .has_unicode_keys = true,
          .generator_frame = 72,
          .generator_running = INFP_PYTHON_ABSENT,
          .generator_state = 67,
          .state_created = -2,
          .state_runs = 0,
          .state_over = 1,
          .await_codes = { 151, 240 }, /* RESUME, INSTRUMENTED_RESUME */
          .await_argument = 2,
          .stack_bottom = 72,
          .stack_top = 64,
          .top_form = INFP_PYTHON_TOP_INDEX,
          .task_state = 88,
          .task_waiter = 128,
          .thread_dict = 112 },
        /* 3.13: modules and the frame's members are in _Py_DebugOffsets */
        { .type_cached_keys = 880,
          .function_closure = 72,
          .instances = INFP_PYTHON_VALUES_INLINE,
          .values_offset = 8,
          .has_unicode_keys = true,
          .generator_frame = 72,
          .generator_running = INFP_PYTHON_ABSENT,
          .generator_state = 67,
          .state_created = -3,
          .state_runs = 0,
          .state_over = 1,
          .state_awaits = -1,
          .stack_top = 64,
          .top_form = INFP_PYTHON_TOP_INDEX,
          .task_state = 96,
          .task_waiter = 112 },
        /* 3.14: tasks are in AsyncioDebug, as in 3.15 */
        { .type_cached_keys = 880,
          .function_closure = 72,
          .instances = INFP_PYTHON_VALUES_INLINE,
          .values_offset = 8,
          .has_unicode_keys = true,
          .generator_frame = 72,
          .generator_running = INFP_PYTHON_ABSENT,
          .generator_state = 67,
          .state_created = -3,
          .state_runs = 0,
          .state_over = 1,
          .state_awaits = -1,
          .top_form = INFP_PYTHON_TOP_POINTER,
          .stack_tag_mask = 3 },
        /* 3.15 */
        { .type_cached_keys = 888,
          .function_closure = 72,
          .instances = INFP_PYTHON_VALUES_INLINE,
          .values_offset = 8,
          .has_unicode_keys = true,
          .generator_frame = 72,
          .generator_running = INFP_PYTHON_ABSENT,
          .generator_state = 67,
          .state_created = 0,
          .state_runs = 4,
          .state_over = 5,
          .state_awaits = 2,
          .state_locked = 3,
          .top_form = INFP_PYTHON_TOP_POINTER,
          .stack_above = 1,
          .stack_tag_mask = 3 },
};
enum {
        OBJECT_TYPE = 8 /* of a build with a GIL, whose places are above */,
        FIRST = 0x308,
        WITH_DEBUG_OFFSETS = 0x30d,
        WITH_ASYNCIO_DEBUG = 0x30e
};

/* Words of _Py_DebugOffsets: modules, the frame's values, where its stack ends, the size of a thread state. */
static const uint8_t runtime_words[][4] = { { 11, 32, 0, 19 }, { 12, 35, 37, 0 }, { 12, 43, 45, 0 } };

/* Of AsyncioDebug. */
enum {
        TASK_SIZE,
        TASK_NAME,
        TASK_AWAITED_BY,
        TASK_IS_TASK,
        TASK_AWAITED_BY_IS_SET,
        TASK_CORO,
        TASK_NODE,
        INTERP_SIZE,
        INTERP_TASKS,
        THREAD_SIZE,
        THREAD_LOOP,
        THREAD_TASK,
        THREAD_TASKS,
        WORDS
};
enum { MOST_TASK = 1024, MOST_STATE = 1 << 24 };

static uint64_t word_of(const uint8_t *bytes, unsigned i)
{
        uint64_t word;

        memcpy(&word, bytes + i * sizeof(word), sizeof(word));
        return word;
}

static bool take_runtime(const struct infp_python_layout *layout, const uint8_t *bytes,
                         struct infp_python_task_layout *l)
{
        const uint8_t *words = runtime_words[layout->version - WITH_DEBUG_OFFSETS];
        const uint64_t modules = word_of(bytes, words[0]), values = word_of(bytes, words[1]),
                       top = words[2] ? word_of(bytes, words[2]) : l->stack_top,
                       loop = words[3] ? word_of(bytes, words[3]) : 0; /* 3.13 has it right after the state */

        if (modules > MOST_STATE || loop > MOST_STATE || values > INFP_PYTHON_MAX_FRAME ||
            top > INFP_PYTHON_MAX_FRAME - 8)
                return false;
        l->interp_modules = (uint32_t) modules;
        l->stack_bottom = (uint16_t) values;
        l->stack_top = (uint16_t) top;
        l->thread_loop = (uint32_t) loop;
        l->thread_dict = INFP_PYTHON_ABSENT;
        return true;
}

/* Its state stands after who awaits it, and its waiter, coroutine and name in a row: no word says so, but the others do. */
static bool take_asyncio(const uint8_t *bytes, struct infp_python_task_layout *l)
{
        uint64_t words[WORDS];

        memcpy(words, bytes, sizeof(words));
        for (unsigned i = TASK_SIZE; i <= TASK_NODE; i++)
                if (words[i] > MOST_TASK)
                        return false;
        for (unsigned i = INTERP_SIZE; i < WORDS; i++)
                if (words[i] > MOST_STATE)
                        return false;
        if (words[TASK_NAME] != words[TASK_CORO] + 8 || words[TASK_CORO] < 8 ||
            words[TASK_IS_TASK] != words[TASK_AWAITED_BY] + 12)
                return false;
        l->task_state = (uint16_t) (words[TASK_AWAITED_BY] + 8);
        l->task_waiter = (uint16_t) (words[TASK_CORO] - 8);
        l->awaited_by = (uint16_t) words[TASK_AWAITED_BY];
        l->is_task = (uint16_t) words[TASK_IS_TASK];
        l->awaited_by_is_set = (uint16_t) words[TASK_AWAITED_BY_IS_SET];
        l->task_node = (uint16_t) words[TASK_NODE];
        l->interp_tasks = (uint32_t) words[INTERP_TASKS];
        l->thread_tasks = (uint32_t) words[THREAD_TASKS];
        l->thread_loop = (uint32_t) words[THREAD_LOOP];
        return true;
}

/* Objects of free-threaded builds have a larger head, which moves the members after it. What AsyncioDebug says is of this build. */
static void move_after_head(const struct infp_python_layout *layout, struct infp_python_task_layout *l)
{
        const uint16_t more = layout->object_type - OBJECT_TYPE;

        l->type_cached_keys += more;
        l->function_closure += more;
        l->generator_frame += more;
        if (l->generator_state != INFP_PYTHON_ABSENT)
                l->generator_state += more;
        l->task_state += more;
        l->task_waiter += more;
}

bool infp_python_task_layout_of(const struct infp_python_layout *layout,
                                const uint8_t runtime[INFP_PYTHON_DEBUG_OFFSETS],
                                const uint8_t asyncio[INFP_PYTHON_ASYNCIO_DEBUG], struct infp_python_task_layout *ret)
{
        const unsigned i = (unsigned) layout->version - FIRST;

        if (i >= sizeof(by_version) / sizeof(*by_version))
                return false;
        *ret = by_version[i];
        move_after_head(layout, ret);
        ret->awaited_by = ret->is_task = ret->awaited_by_is_set = ret->task_node = INFP_PYTHON_ABSENT;
        if (layout->version >= WITH_DEBUG_OFFSETS && (!runtime || !take_runtime(layout, runtime, ret)))
                return false;
        ret->knows_tasks = layout->version < WITH_ASYNCIO_DEBUG || (asyncio && take_asyncio(asyncio, ret));
        return true;
}
