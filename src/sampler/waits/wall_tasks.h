/* Tasks of asyncio in a process whose threads are read (record --async), and callbacks that hold a loop. Belongs to the reader's thread.
 *
 * Tasks move only while the thread of their loop runs. Where that is proved to sleep all of them are read as of one moment, and hold until
 * it has run again; where it runs each is read until it is the same twice. What was told of a task holds until the next word of it.
 *
 * A task that awaits another one has that one's coroutines, too, below its own.
 *
 * A loop that is in a callback at two looks, and took none from its queue between them, was held by that one all the time. */
#pragma once

#include "sampler/python/find.h"
#include "sampler/python/frames.h"
#include "unwind/python/checks.h"

enum {
        INFP_WALL_TASKS = 1024, /* of an interpreter that are read: of more the rest is counted */
        INFP_WALL_TASK_TEXT = 128,
};

/* A task, as it is from now on. */
struct infp_wall_task {
        uint64_t address;
        bool is_running; /* else `state` says what it waits for */
        bool is_cut;     /* coroutines are missing */
        char name[INFP_WALL_TASK_TEXT], state[INFP_WALL_TASK_TEXT];
        uint32_t n;
        const struct infp_frames_one *frames; /* the innermost first */
};

/* The thread that is looked at, and what is known of its process. */
struct infp_wall_tasks_look {
        int32_t pid, tid;
        const struct infp_frames_process *process;
        const struct infp_python_thread *threads; /* all of the process */
        uint32_t n_threads, place;                /* place: of this one */
        bool is_asleep;                           /* as long as the look lasts */
        struct infp_python_checks *checks;
};

struct infp_wall_tasks_counts {
        uint64_t
                torn; /* tasks that changed while they were read, each time: their time until the next look is missing */
        uint64_t left_out;               /* tasks, in each look: beyond the bound, or where it was put off */
        uint64_t no_queue;               /* looks at loops that keep their callbacks where they are not read */
        uint64_t own_cpu_ns, lag_cpu_ns; /* of reading tasks; of looking for callbacks that hold a loop */
};

/* A callback that holds its loop. */
struct infp_wall_hold {
        uint64_t begin_ns, t_ns;              /* the first look at it, and this one */
        uint64_t since_ns;                    /* the look before; t_ns: this is the first one */
        uint32_t n;                           /* 0: it is where it was, or that is not known */
        const struct infp_frames_one *frames; /* the innermost first, the outermost is Handle._run; NULL in a message */
};

struct infp_wall_tasks;
struct infp_wall_tasks *infp_wall_tasks_new(const struct infp_python *python, int root_fd); /* NULL: no memory */
struct infp_wall_tasks *infp_wall_tasks_free(struct infp_wall_tasks *tasks);                /* NULL is fine */

/* Reads the tasks of the loop that the thread runs. Nothing is told yet: the look may prove to be void. */
void infp_wall_tasks_look(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look);
/* The last look is true: says what is new by it. task NULL: that task is no more. False: the tasks were not read this time, and are to be
 * looked at again even if the thread does not run meanwhile. */
typedef void infp_wall_tell_task_fn(void *context, uint64_t address, const struct infp_wall_task *task);
bool infp_wall_tasks_tell(struct infp_wall_tasks *tasks, infp_wall_tell_task_fn *tell, void *context,
                          struct infp_wall_tasks_counts *counts);
/* The last look is true, or the thread has not run since it: the callback that its loop is in. False: it is in none, or it is not known. */
bool infp_wall_tasks_hold(struct infp_wall_tasks *tasks, int32_t tid, bool is_idle, struct infp_wall_hold *ret);
/* Each round: whether the module that keeps tasks is there now, and was not when threads were looked at. */
bool infp_wall_tasks_have_come(struct infp_wall_tasks *tasks, int32_t pid);
/* Before each look at a thread, and where it proved void. */
void infp_wall_tasks_drop(struct infp_wall_tasks *tasks);

/* Fills in the checks of the frames' code, which may be other code when it is named. False: a code object is not there. */
bool infp_wall_check_frames(struct infp_python_checks *checks, const struct infp_frames_process *process, int32_t tid,
                            uint32_t n, struct infp_frames_one *ret);
