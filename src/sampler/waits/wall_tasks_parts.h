/* What the files of tasks (wall_tasks.h) share. */
#pragma once

#include "sampler/waits/wall_tasks.h"
#include "unwind/python/task.h"

enum {
        WALL_CHAIN = 256,      /* coroutines of a task, and of tasks that it awaits */
        WALL_POOL = 64 * 1024, /* frames of all tasks that are new in a look */
};

struct wall_known {
        uint64_t address, hash, whole; /* as in struct wall_one */
        uint64_t setter;               /* its address */
        uint32_t n_setters;
        bool is_linked, is_followed; /* is_followed: whether tasks set its future was found out */
};

/* A callback that a loop is in, as of a look. */
struct wall_callback {
        uint64_t loop; /* 0: it is in none, or it is not known */
        uint64_t queue, taken, socket;
        uint64_t begin_ns, t_ns;
};

/* What is known of the tasks of a thread's loop. */
struct wall_loop {
        uint64_t state; /* of the thread */
        int32_t tid;
        bool is_current;               /* it was looked at when its thread was read last */
        struct wall_callback callback; /* as of the last look that was true */
        uint64_t next_ns;
        struct wall_known *tasks; /* by address */
        uint32_t n;
};

/* A task in the running look. */
struct wall_one {
        struct infp_wall_task task;
        uint64_t hash;              /* of all that is told of it alone */
        uint64_t whole;             /* and of the tasks that it awaits, and these */
        uint64_t waits_for;         /* what it awaits */
        uint32_t n_setters, setter; /* tasks that have yet to end before a future that it awaits is set; index of one */
        uint32_t next;              /* index of the task that it awaits; UINT32_MAX: none */
        bool is_read, is_sure, is_new, is_foreign; /* is_foreign: of another loop, or over */
        bool has_frames, is_linked, is_followed;   /* is_linked: it awaits a task, or one awaits it */
        const struct infp_frames_one *joined;      /* with those of the tasks that it awaits */
        uint32_t n_joined;
};

struct infp_wall_tasks {
        struct infp_python python;
        int root_fd;
        bool is_ready; /* where tasks are is known */
        uint64_t again_ns, pause_ns, types_ns, own_cpu_ns, lag_cpu_ns;
        struct infp_python_task_layout layout;
        struct infp_python_objects objects;
        struct wall_loop *loops;
        uint32_t n_loops;

        /* The look. */
        bool has_look, is_missing; /* is_missing: there should have been one */
        uint32_t loop;             /* its index; UINT32_MAX: none */
        bool has_no_queue;
        struct wall_callback callback; /* with its frames */
        uint32_t n_callback;
        struct infp_frames_one callback_frames[INFP_FRAMES_MOST];
        uint32_t n, n_pool;
        uint64_t torn, left_out;
        struct wall_one ones[INFP_WALL_TASKS];
        struct infp_frames_one *pool;
        uint64_t *listed;
        struct wait {
                uint64_t future;
                uint32_t task, n_setters, setter; /* the latter as in struct wall_one, as they were found first */
        } waits[INFP_WALL_TASKS];
        uint32_t n_waits;
        struct infp_python_task task; /* the one that is read */
        struct infp_python_frame chain[WALL_CHAIN], thread[INFP_FRAMES_MOST];
};

int infp_wall_by_address(const void *a, const void *b); /* the first members: uint64_t */
/* What was known of the task before the look; NULL: nothing. */
const struct wall_known *infp_wall_known(const struct infp_wall_tasks *tasks, uint64_t address);

/* wall_awaits.c, once all tasks were read: */
void infp_wall_follow_futures(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look);
void infp_wall_forget_futures(struct infp_wall_tasks *tasks); /* what this look found out of them */
/* Finds who awaits whom, and what is new. True: of some that are needed the frames were not kept. */
bool infp_wall_link_tasks(struct infp_wall_tasks *tasks);
/* Each that is new goes on into those that it awaits. */
void infp_wall_join_tasks(struct infp_wall_tasks *tasks);
