/* Inside app/backtrace: what is known of a process and of its threads until it is shown. */
#pragma once

#include "app/backtrace/backtrace.h"
#include "base/map.h"
#include "collect/env.h"
#include "sampler/python/find.h"
#include "sampler/python/value.h"
#include "sampler/stacks/stack.h"
#include "unwind/python/task.h"

enum {
        INFP_BACKTRACE_FRAMES = 1024,         /* of a stack */
        INFP_BACKTRACE_THREADS = 65536,       /* of a process */
        INFP_BACKTRACE_STACK_BYTES = 1 << 20, /* copied of a stack */
        INFP_BACKTRACE_LOCALS_MS = 20,        /* for the variables of a thread, which is stopped meanwhile */
};

/* A place in native code, named once for all stacks that have it. */
struct infp_backtrace_place {
        uint64_t address;
        uint32_t object; /* of infp_backtraces.objects; UINT32_MAX: none that can be read */
        int32_t pid;     /* of code made at run time */
        enum infp_frame_kind kind;
        bool was_asked;                      /* its name is known, or nothing has one */
        struct infp_backtrace_frame *levels; /* outermost first; NULL: it has no name */
        unsigned n_levels;
};

/* A file that frames are in. */
struct infp_backtrace_object {
        const char *path, *build_id; /* "": none */
        int fd;                      /* where it is out of reach by its path; else -1 */
};

/* A frame before all have names. */
struct infp_backtrace_raw {
        uint32_t place; /* of places; UINT32_MAX: `frame` is whole */
        struct infp_backtrace_frame frame;
};
struct infp_backtrace_raws { /* of a thread */
        struct infp_backtrace_raw *frames, *native;
        uint32_t n_frames, n_native;
};

struct infp_backtraces {
        struct infp_backtrace_options options;
        const struct infp_notices *notices;
        struct infp_env env;
        struct infp_follow follow;
        struct infp_stacks *stacks;
        struct infp_backtrace shown;
        struct infp_strings texts;
        struct infp_backtrace_place *places;
        uint32_t n_places, cap_places;
        struct infp_map by_place;
        struct infp_backtrace_object *objects;
        uint32_t n_objects, cap_objects;
        struct infp_map by_object;
        struct infp_backtrace_local **locals; /* of all frames that have some */
        unsigned n_locals;
};

/* The one copy of a text, which stays until the end. NULL: no memory, or no text. */
const char *infp_backtrace_printf(struct infp_backtraces *b, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* ---- python.c: the interpreter of a process ---- */

struct infp_backtrace_code { /* of one code object */
        const char *func, *file;
        struct infp_python_lines lines;
        uint8_t *line_table;
};

struct infp_backtrace_python {
        struct infp_backtraces *b;
        struct infp_python found;
        struct infp_python_memory memory;
        pid_t tid; /* whose number reads the process's memory */
        struct infp_python_thread *threads;
        uint32_t n_threads;
        bool is_whole;
        struct infp_map by_pthread;        /* index of threads */
        struct infp_backtrace_code *codes; /* read since the last thread was stopped, or since all were */
        uint32_t n_codes, cap_codes;
        struct infp_map by_code; /* address of a code object: index of codes */
        struct infp_python_values values;
        struct infp_python_code *scratch;
};

/* One thread's Python frames: valid until the next, with their codes. */
struct infp_backtrace_walked {
        const struct infp_python_thread *thread; /* NULL: it runs no Python */
        struct infp_python_frame frames[INFP_BACKTRACE_FRAMES];
        uint32_t codes[INFP_BACKTRACE_FRAMES]; /* of codes; UINT32_MAX: a shim, or it could not be read */
        struct infp_backtrace_local *locals[INFP_BACKTRACE_FRAMES];
        unsigned n_locals[INFP_BACKTRACE_FRAMES];
        uint32_t n_with_locals; /* the inner frames whose variables are all there; of the others none are, or some */
        uint32_t n;
        enum infp_python_end end;
        bool holds_gil;
};

/* 0; -ENOENT: it runs no Python; else err says why its Python cannot be read. */
int infp_backtrace_python_open(struct infp_backtraces *b, pid_t pid, pid_t tid, struct infp_backtrace_python *ret,
                               struct infp_err *err);
void infp_backtrace_python_done(struct infp_backtrace_python *python);
/* Lists the threads anew. */
void infp_backtrace_python_list(struct infp_backtrace_python *python);
/* The frames of the thread with that pthread_t, which must be stopped. */
void infp_backtrace_python_walk(struct infp_backtrace_python *python, uint64_t pthread,
                                struct infp_backtrace_walked *ret);
/* The same of a thread that runs: read until it is the same twice. False: it never was, and is torn. */
bool infp_backtrace_python_walk_running(struct infp_backtrace_python *python, const struct infp_python_thread *thread,
                                        struct infp_backtrace_walked *ret);
/* Calls take for each thread that the module threading has a name for, those of the main interpreter last. */
void infp_backtrace_python_names(struct infp_backtrace_python *python,
                                 void (*take)(void *context, uint64_t pthread, const char *name), void *context);
/* The number of the thread as its own namespace has it; 0: not known. */
int32_t infp_backtrace_python_number(const struct infp_backtrace_python *python,
                                     const struct infp_python_thread *thread);
bool infp_backtrace_python_gil_is_off(const struct infp_backtrace_python *python, uint64_t interpreter);
/* A frame as it is shown. False: a shim. */
bool infp_backtrace_python_frame(const struct infp_backtrace_python *python, const struct infp_backtrace_walked *walked,
                                 uint32_t i, struct infp_backtrace_frame *ret);

/* Forgets the codes that were read: the program has run since. */
void infp_backtrace_python_forget(struct infp_backtrace_python *python);
/* Any frame of the process: its code is read now, unless it was since forget. False: it cannot be. */
bool infp_backtrace_python_any_frame(struct infp_backtrace_python *python, const struct infp_python_frame *frame,
                                     struct infp_backtrace_frame *ret);

/* ---- tasks.c, relations.c: tasks of asyncio ---- */

/* While they are read. */
struct infp_backtrace_asyncio {
        struct infp_backtrace_python *python;
        struct infp_python_objects *objects;
        struct infp_backtrace_tasks *ret;
        uint64_t *waiters; /* of ret->tasks: what each awaits; 0: nothing */
        uint32_t cap;
        struct infp_map by_address; /* of a task: its index */
};

/* Reads them while no thread runs, or (no_block) as they run. pthreads: of the threads of the process, in their order. */
void infp_backtrace_tasks_take(struct infp_backtrace_python *python, struct infp_backtrace_process *process,
                               const pid_t *tids, const uint64_t *pthreads);
void infp_backtrace_tasks_done(struct infp_backtrace_tasks *tasks);
/* Fills in which task awaits which. */
void infp_backtrace_tasks_relate(struct infp_backtrace_asyncio *asyncio);

/* ---- process.c: all threads of one process ---- */

/* Frames come into *ret_raws, an array of a member a thread, free()d by the caller with what it holds. */
int infp_backtrace_process_take(struct infp_backtraces *b, pid_t pid, struct infp_backtrace_process *ret,
                                struct infp_backtrace_raws **ret_raws, struct infp_err *err);

/* ---- names.c ---- */

/* The place of a native frame; UINT32_MAX: no memory. */
uint32_t infp_backtrace_place(struct infp_backtraces *b, int32_t pid, const struct infp_stack_frame *frame);
/* Names the places: first those in code made at run time, as long as stacks are there, then those in files. */
void infp_backtrace_name_made(struct infp_backtraces *b);
int infp_backtrace_name_files(struct infp_backtraces *b, struct infp_err *err);
