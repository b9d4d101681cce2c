/* The tasks of asyncio, and the chains of coroutines that they wait in, read from memory of another process; bounded, and checked before
 * it is believed. Tasks of C (_asyncio.Task) and of Python (asyncio.tasks._PyTask), and of subclasses, whatever loop they run in.
 *
 * No allocation, lock or output, and errno stays; it needs 16 KiB of stack. */
#pragma once

#include "unwind/python/code.h"
#include "unwind/python/object.h"

enum infp_python_task_state {
        INFP_PYTHON_TASK_CREATED, /* its coroutine has not begun */
        INFP_PYTHON_TASK_READY,   /* nothing is awaited: the loop will run it */
        INFP_PYTHON_TASK_RUNNING, /* its coroutine runs, on some thread */
        INFP_PYTHON_TASK_WAITING,
        INFP_PYTHON_TASK_DONE,
        INFP_PYTHON_TASK_FAILED, /* it ended by an exception */
        INFP_PYTHON_TASK_CANCELLED,
        INFP_PYTHON_TASK_STATES,
};

enum infp_python_chain {
        INFP_PYTHON_CHAIN_WHOLE,
        INFP_PYTHON_CHAIN_FOREIGN, /* it ends in an awaitable whose frames are not Python's: Cython's, another language's */
        INFP_PYTHON_CHAIN_TOO_DEEP, /* the innermost are missing */
        INFP_PYTHON_CHAIN_CUT,      /* it could not be read to its end, or forms a cycle */
};

struct infp_python_task {
        uint64_t address;
        uint64_t loop, coroutine;
        uint64_t waiter; /* the future that it awaits; 0: none */
        enum infp_python_task_state state;
        char name[INFP_PYTHON_TEXT];
        enum infp_python_chain chain;
        uint64_t runs; /* address of its coroutine's frame, where that runs: the chain is on a thread's stack; else 0 */
        uint64_t foreign; /* what the chain ends in, where it is foreign */
        uint32_t n_frames;
};

/* asyncio.tasks of an interpreter. */
struct infp_python_asyncio {
        uint64_t interpreter;
        uint64_t module;  /* its dict */
        uint64_t py_task; /* class _PyTask; 0: not known */
};

/* 0; -ENOENT: the interpreter has not imported it. */
int infp_python_asyncio_find(struct infp_python_objects *o, uint64_t interpreter, struct infp_python_asyncio *ret);
/* Addresses of up to max tasks, each once or more, those that are done too as long as something holds them. threads: of the process.
 * Returns how many; *ret_is_whole is false where some may be missing. */
uint32_t infp_python_tasks(struct infp_python_objects *o, const struct infp_python_asyncio *asyncio,
                           const struct infp_python_thread *threads, uint32_t n_threads, uint64_t *ret, uint32_t max,
                           bool *ret_is_whole);
/* One task and up to max frames of its chain, the outermost first. 0; -EBADMSG: no task; -EFAULT. */
int infp_python_task_read(struct infp_python_objects *o, const struct infp_python_asyncio *asyncio, uint64_t address,
                          struct infp_python_task *ret, struct infp_python_frame *ret_frames, uint32_t max);
/* The loop that a thread runs; 0: none, or not known. */
uint64_t infp_python_thread_loop(struct infp_python_objects *o, uint64_t thread);

/* The queue of callbacks that are ready, of a loop that has it as asyncio's own loops do. */
struct infp_python_queue {
        uint64_t address;
        int32_t fd; /* of the socket by which the loop wakes itself: no other loop has that socket */
};
/* 0; -ENOENT: the loop keeps it elsewhere (uvloop). */
int infp_python_loop_queue(struct infp_python_objects *o, uint64_t loop, struct infp_python_queue *ret);
/* A number that is another one whenever a callback was taken from it; that of one that was added is the same. */
int infp_python_queue_taken(const struct infp_python_objects *o, const struct infp_python_queue *queue, uint64_t *ret);
/* Of the frames of a thread, the innermost first, how many are those of a callback that its loop took from that queue, with Handle._run
 * that calls it. 0: none. */
uint32_t infp_python_callback(struct infp_python_objects *o, const struct infp_python_frame *frames, uint32_t n);

/* ---- who awaits whom: each fills up to max and returns how many ---- */

/* Whether a future is one that asyncio.gather made; its members. */
bool infp_python_is_gather(struct infp_python_objects *o, uint64_t future);
uint32_t infp_python_gathered(struct infp_python_objects *o, uint64_t future, uint64_t *ret, uint32_t max);
/* Futures and tasks that the callbacks of a task or future lead to: those that it will wake. */
uint32_t infp_python_woken(struct infp_python_objects *o, uint64_t future, uint64_t *ret, uint32_t max);
/* Whether a task or future knows who awaits it: those of _asyncio from 3.14 on. Then: the tasks and futures that do. */
bool infp_python_knows_awaiters(struct infp_python_objects *o, uint64_t future);
uint32_t infp_python_awaiters(struct infp_python_objects *o, uint64_t future, uint64_t *ret, uint32_t max);
