/* What every thread of some processes does at this moment: as text for people, and as JSON. Made by app/backtrace. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json/json.h"
#include "view/format.h"

enum infp_backtrace_kind { INFP_BACKTRACE_PYTHON, INFP_BACKTRACE_NATIVE, INFP_BACKTRACE_KERNEL, INFP_BACKTRACE_JIT };

struct infp_backtrace_local {
        const char *name, *value; /* as repr would write it, cut, secrets masked */
};

/* Texts are borrowed; NULL: not known. */
struct infp_backtrace_frame {
        const char *func, *file; /* file: of the source */
        const char *object;      /* of a native frame: the mapped file */
        uint64_t address;        /* of a native frame: in the object, of one without it in the process */
        int64_t lineno;          /* 0: not known */
        enum infp_backtrace_kind kind;
        bool is_inlined;                           /* into the next frame */
        const struct infp_backtrace_local *locals; /* borrowed */
        unsigned n_locals;
        bool is_guessed; /* it, or a frame between, was found by guessing */
};

/* What a thread's frames are. */
enum infp_backtrace_stack {
        INFP_BACKTRACE_NONE,         /* none could be read: why says so */
        INFP_BACKTRACE_NATIVE_ALONE, /* it runs no Python, or only native frames were asked for */
        INFP_BACKTRACE_PYTHON_ALONE,
        INFP_BACKTRACE_MERGED,
        INFP_BACKTRACE_UNMERGED, /* both were read and do not fit */
        INFP_BACKTRACE_TORN,     /* of Python's frames, not all could be read */
        INFP_BACKTRACE_STACKS,
};

struct infp_backtrace_thread {
        int32_t tid;
        const char *name;
        const char *python_name; /* that of its threading.Thread; NULL: it has none, or it is not known */
        char state;              /* as in /proc/PID/stat; 0: not known */
        enum infp_backtrace_stack stack;
        bool is_incomplete; /* outermost frames are missing */
        bool was_stopped;
        bool has_python, holds_gil;
        int64_t interpreter;     /* of has_python */
        double stop_us, wait_us; /* of was_stopped: how long it was stopped; before that, how long it took to stop */
        const char *why;         /* of what is missing; NULL: nothing is */
        struct infp_backtrace_frame *frames, *native; /* innermost first; native: where frames are Python's alone */
        uint32_t n_frames, n_native;
};

struct infp_backtrace_gil {
        int64_t interpreter;
        int32_t tid;          /* of the holder; 0: nobody holds it, or it is not known who */
        bool is_held, is_off; /* is_off: of a free-threaded build, as a rule */
};

enum infp_backtrace_task_state {
        INFP_BACKTRACE_TASK_CREATED,
        INFP_BACKTRACE_TASK_READY,
        INFP_BACKTRACE_TASK_RUNNING,
        INFP_BACKTRACE_TASK_WAITING,
        INFP_BACKTRACE_TASK_DONE,
        INFP_BACKTRACE_TASK_FAILED,
        INFP_BACKTRACE_TASK_CANCELLED,
        INFP_BACKTRACE_TASK_UNKNOWN, /* it could not be read */
        INFP_BACKTRACE_TASK_STATES,
};

struct infp_backtrace_loop { /* of asyncio */
        uint64_t address;
        const char *type;
        int32_t tid; /* of the thread that runs it; 0: none does, or it is not known */
        int64_t interpreter;
};

/* Of asyncio. */
struct infp_backtrace_task {
        uint64_t address;
        const char *name; /* NULL: not known */
        enum infp_backtrace_task_state state;
        unsigned loop;           /* index; UINT_MAX: not known */
        const char *waits_for;   /* the type of what it awaits; NULL: nothing, or not known */
        uint32_t waits_for_task; /* index; UINT32_MAX: that is no task */
        uint32_t *awaited_by;    /* indices of tasks */
        uint32_t n_awaited_by;
        int32_t tid;        /* of the thread that runs it now; 0 */
        bool is_incomplete; /* innermost coroutines are missing */
        const char *why;
        struct infp_backtrace_frame *frames; /* innermost first */
        uint32_t n_frames;
};

struct infp_backtrace_tasks {
        struct infp_backtrace_task *tasks; /* by loop and name */
        uint32_t n_tasks, n_unread;
        struct infp_backtrace_loop *loops;
        unsigned n_loops;
        bool is_whole, was_stopped;
        bool has_all_awaiters; /* false: awaited_by lacks some, since there are too many */
        double stop_us;        /* of was_stopped: how long all threads were stopped */
        unsigned n_running;    /* threads that could not be stopped */
        const char *problem;   /* why there are no tasks; NULL: they were read */
};

struct infp_backtrace_process {
        int32_t pid;
        const char *command; /* its secrets masked */
        const char *python;  /* "3.11.2"; NULL: it runs none that is known */
        const char *problem; /* what could not be read of the whole process */
        struct infp_backtrace_gil *gils;
        unsigned n_gils;
        struct infp_backtrace_thread *threads;
        unsigned n_threads;
        bool has_tasks; /* they were asked for, and it runs asyncio or `tasks.problem` says why that is not known */
        struct infp_backtrace_tasks tasks;
};

struct infp_backtrace {
        struct infp_backtrace_process *processes;
        unsigned n_processes;
        bool is_no_block;
        uint64_t n_tables_made, n_named; /* that no cache had: unwind tables, places in code */
        double start_ms, cpu_ms;         /* CPU time until the first thread was stopped; of all */
};

/* An array of an object a thread, and one a task. */
void infp_backtrace_put_json(struct infp_json *json, const struct infp_backtrace *backtrace);
void infp_backtrace_put_text(struct infp_out *out, const struct infp_backtrace *backtrace);

const char *infp_backtrace_kind_name(enum infp_backtrace_kind kind); /* "Python", "Native", "Kernel", "JIT" */
const char *infp_backtrace_task_state_name(enum infp_backtrace_task_state state); /* "waiting" ... */
const char *infp_backtrace_stack_name(enum infp_backtrace_stack stack);           /* "merged" ... */
