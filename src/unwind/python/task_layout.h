/* Where CPython keeps what reading asyncio's tasks needs, as data for each version: beside struct infp_python_layout. x86-64.
 *
 * Sources: the headers of each version; from 3.14 on the interpreter's own AsyncioDebug, where it has it. */
#pragma once

#include "unwind/python/layout.h"

enum infp_python_instances {                             /* where an instance has its attributes */
                             INFP_PYTHON_DICT_AT_OFFSET, /* a dict, where the type says: up to 3.10, and types without
                                                          * the flag in later versions */
                             INFP_PYTHON_VALUES_APART,   /* 3.11: a pointer to values before the one to a dict */
                             INFP_PYTHON_VALUES_TAGGED,  /* 3.12: one pointer to a dict, or to values and tagged */
                             INFP_PYTHON_VALUES_INLINE,  /* 3.13 and later: in the object, unless it has a dict */
};

enum infp_python_stack_top {                          /* how a suspended generator says where its stack ends */
                             INFP_PYTHON_TOP_POINTER, /* 3.8, 3.9, and 3.14 and later: a pointer past the top */
                             INFP_PYTHON_TOP_COUNT,   /* 3.10: values after a pointer to the bottom */
                             INFP_PYTHON_TOP_INDEX,   /* 3.11 to 3.13: index into values that follow the frame */
};

struct infp_python_task_layout {
        /* PyInterpreterState, PyTypeObject, PyFunctionObject, dict */
        uint32_t interp_modules;
        uint16_t type_cached_keys, function_closure;
        uint8_t instances;     /* enum infp_python_instances */
        uint8_t values_offset; /* before the first of the values of a split dict */
        bool has_unicode_keys; /* 3.11 and later: keys have their own form of dict */

        /* Generators, coroutines, asynchronous generators */
        uint16_t generator_frame; /* the frame, or (frame_is_pointer) a pointer to it */
        bool frame_is_pointer;
        uint16_t generator_running;                   /* 1 byte; ABSENT: the state says it */
        uint16_t generator_state;                     /* 1 byte; ABSENT: in the frame, or (3.8, 3.9) nowhere */
        uint16_t frame_state;                         /* 1 byte */
        int8_t state_created, state_runs, state_over; /* state_over: it and above */
        int8_t state_awaits;                          /* 0: the next instruction says it */
        int8_t state_locked;                          /* it awaits, and some thread looks at what: 3.15; else 0 */
        uint8_t await_codes[2];                       /* which instruction does */
        uint8_t await_argument;                       /* with at least this argument */
        uint16_t stack_bottom, stack_top;
        uint8_t top_form;       /* enum infp_python_stack_top */
        uint8_t stack_above;    /* values above the one that is awaited: 3.15 has an index there */
        uint8_t stack_tag_mask; /* low bits of a value that are no address */

        /* Tasks and futures of _asyncio */
        bool knows_tasks;                                           /* false: the members below are not known */
        uint16_t task_state, task_waiter;                           /* after the waiter: the coroutine, the name */
        uint16_t awaited_by, is_task, awaited_by_is_set, task_node; /* ABSENT before 3.14 */
        uint32_t interp_tasks;                                      /* heads of lists of tasks: 3.14 and later */
        uint32_t thread_tasks, thread_loop;
        uint16_t thread_dict; /* has the loop: before 3.13; ABSENT later */
};

enum { INFP_PYTHON_ASYNCIO_DEBUG = 13 * 8 }; /* bytes of AsyncioDebug */

/* runtime: the bytes at _PyRuntime, of 3.13 and later; asyncio: those of AsyncioDebug, of 3.14 and later (NULL:
 * it is not there, and tasks are not known). False: not known. */
bool infp_python_task_layout_of(const struct infp_python_layout *layout,
                                const uint8_t runtime[INFP_PYTHON_DEBUG_OFFSETS],
                                const uint8_t asyncio[INFP_PYTHON_ASYNCIO_DEBUG], struct infp_python_task_layout *ret);
