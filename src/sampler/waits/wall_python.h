/* Python in the processes whose threads are read: their frames, and what each has of the GIL. Belongs to the reader's thread.
 *
 * A thread that waits does not move: frames that are read between two looks which prove that it has not run meanwhile are of the moment of
 * its native stack, and may be merged with it. Those of a thread that runs are read until they are the same twice, and stand alone. */
#pragma once

#include "model/stack_tables.h"
#include "sampler/python/find.h"
#include "sampler/python/frames.h"
#include "sampler/waits/wall_proc.h"
#include "sampler/waits/wall_tasks.h"

/* What was found of a thread. */
struct infp_wall_python_found {
        uint64_t program; /* of the process: what infp_wall_python_new was given; 0: it runs no Python that is known */
        enum infp_gil gil;
        /* INFP_GIL_NONE of a thread that runs, or was woken: how many wait in the GIL's condition variables, it perhaps among them. */
        uint32_t n_waiting;
        bool gil_is_off;     /* of a free-threaded build: then gil is not known */
        bool has_frames;     /* false: it runs no Python, or its frames were not read */
        bool is_alone;       /* they belong to no native stack */
        uint32_t n, end;     /* end: enum infp_python_end */
        uint32_t n_rejected; /* of a thread that runs: reads that it overtook */
        struct infp_frames_one frames[INFP_FRAMES_MOST];
};

struct infp_wall_python; /* of a process */

/* program: another number for each program of each process. NULL: no memory. Any thread, as free. */
struct infp_wall_python *infp_wall_python_new(uint64_t program, const struct infp_python *python);
/* Its tasks of asyncio are read, too, whenever a thread that runs a loop is. root_fd: of the machine. */
void infp_wall_python_want_tasks(struct infp_wall_python *wall, const struct infp_python *python, int root_fd);
struct infp_wall_tasks *infp_wall_python_tasks(const struct infp_wall_python *python); /* NULL: they are not read */
struct infp_wall_python *infp_wall_python_free(struct infp_wall_python *python);       /* NULL is fine; returns NULL */

/* A round begins: lists of threads may be made anew. */
void infp_wall_python_round(struct infp_wall_python *python);
/* Of a thread that is blocked, and that the caller proves to have stayed so; else it runs. proc_fd: of /proc. */
void infp_wall_python_blocked(struct infp_wall_python *python, int proc_fd, struct infp_wall_thread *thread,
                              const struct infp_wall_moment *moment, struct infp_wall_python_found *ret);
void infp_wall_python_running(struct infp_wall_python *python, int proc_fd, struct infp_wall_thread *thread,
                              bool wants_frames, struct infp_wall_python_found *ret);
