/* The processes and threads that records report: who they are, and their spaces. What was not told is read from /proc when a
 * sample names it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "collect/env.h"
#include "sampler/perf/perf.h"
#include "sampler/spaces/space.h"

struct infp_space_process {
        int32_t pid;
        uint64_t id;         /* 0: not asked yet */
        uint64_t begin_ns;   /* as the record of its fork says; 0: it was there before */
        uint64_t read_ns;    /* when /proc/PID/maps was read; records of before are in it */
        uint64_t asked_ns;   /* when that was tried last */
        unsigned n_moves;    /* times that it was, since memory was put in the place of a file's code */
        uint64_t pause_ns;   /* until it may be tried again, without a reason that is sure to be one */
        uint64_t lost;       /* as of infp_processes.lost, then */
        uint64_t exec_ns;    /* of its last exec that was told of; 0: none */
        uint64_t refused_ns; /* until then its memory is not asked for: it may not be read */
        uint64_t ended_ns;   /* 0: its first thread has not ended */
        struct infp_space *space;
        char *jitdump; /* path; NULL: none was seen */
};

/* The kernel's have 15 characters; those of its own threads, in /proc, are longer, and so may be Python's. What is longer is cut. */
enum { INFP_THREAD_NAME = 64 };

struct infp_space_thread {
        int32_t pid, tid;
        uint64_t id, process;             /* of its entity under this name, and of its process; 0: not made yet */
        struct infp_space_process *owner; /* the process; NULL: nobody has asked for it yet */
        uint64_t t_ns;                    /* of the moment that was asked for last */
        uint64_t ended_ns;                /* 0: it has not ended */
        bool is_named;
        char name[INFP_THREAD_NAME];
        char python_name[INFP_THREAD_NAME]; /* "": Python has none for it, or it is not known */
        bool has_news;                      /* it has another one than its row, if that was written */
};

struct infp_processes {
        const struct infp_env *env;
        struct infp_objects *objects;
        struct infp_map by_pid, by_tid;
        struct infp_space_thread spare; /* of whom there are too many */
        uint64_t lost;                  /* times that records were lost */
        uint64_t n_mappings_missed;
        uint64_t swept_ns;
        int64_t boottime_offset_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
};

int infp_processes_init(struct infp_processes *all, const struct infp_env *env, struct infp_objects *objects);
void infp_processes_done(struct infp_processes *all);

/* Records. */
void infp_processes_map(struct infp_processes *all, const struct infp_perf_mapping *mapping);
void infp_processes_name(struct infp_processes *all, uint64_t t_ns, int32_t pid, int32_t tid, const char *name,
                         bool is_exec);
void infp_processes_fork(struct infp_processes *all, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid,
                         int32_t parent_tid);
void infp_processes_exit(struct infp_processes *all, uint64_t t_ns, int32_t pid, int32_t tid);

/* The thread with its name, its id and its process, which has its space and id: known, or read now. NULL: no memory. Where there are
 * too many threads it has no id, and holds until the next call. */
struct infp_space_thread *infp_processes_thread(struct infp_processes *all, int32_t pid, int32_t tid, uint64_t t_ns);
/* What Python calls the thread; "": it no longer has a name, which is not believed of one that has ended. NULL: nothing is new, since
 * the thread is not there any more, or since there are too many. */
struct infp_space_thread *infp_processes_name_python(struct infp_processes *all, int32_t pid, int32_t tid,
                                                     const char *name, uint64_t t_ns);
/* Reads a process that existed before the records did. */
void infp_processes_seed(struct infp_processes *all, int32_t pid);
/* The process, NULL: not known. */
struct infp_space_process *infp_processes_find(const struct infp_processes *all, int32_t pid);
/* Reads its mappings again, since code of t_ns is in none of them; less and less often. True: they were read. */
bool infp_processes_reread(struct infp_processes *all, struct infp_space_process *process, uint64_t t_ns);
/* Forgets those that have ended for a while. */
void infp_processes_sweep(struct infp_processes *all, uint64_t now_ns);
