/* Python frames of samples: knows which processes run Python, has the kernel read their frames in the interrupt of each sample
 * (bpf.h), and puts both together. A handler of records between perf and the stacks. Of one thread. */
#pragma once

#include "sampler/perf/front.h"
#include "sampler/python/find.h"
#include "sampler/python/frames.h"
#include "sampler/python/names.h"

enum infp_python_way {
        INFP_PYTHON_AUTO,    /* in the kernel where that is allowed */
        INFP_PYTHON_OUTSIDE, /* in the kernel; where that is not allowed, it is said */
        INFP_PYTHON_INSIDE,  /* by a sampler in each process (sampler/inside) */
        INFP_PYTHON_OFF,
        INFP_PYTHON_WAYS,
};
/* As the option --python has them. */
const char *infp_python_way_name(enum infp_python_way way);

struct infp_pythons_options {
        struct infp_python_names *names; /* filled; stays for longer than this */
        int root_fd, wake_fd;            /* wake_fd: an eventfd that has infp_pythons_turn called soon */
        const struct infp_perf *perf;    /* so many records as its buffers hold samples have room, too */
        bool has_records;                /* perf reports what processes map, and when they run another program */
        bool has_program;                /* the kernel's programs are to be loaded; else the front reads frames alone */
        bool is_filter;                  /* and they time waits alone */
        uint64_t least_wait_ns;          /* waits are timed in the kernel, where that is possible; 0: they are not */
        double deep_hz;                  /* the rate of samples whose stacks are read beyond perf's copy; 0: none are */
        /* A Python that is not known (-ENOTSUP) or may not be read: once a text. */
        void (*problem)(void *context, int r, const char *text);
        /* The Python of a process is known; python NULL: it runs that program no more. May be NULL. program: as in infp_python_read. */
        void (*known)(void *context, pid_t pid, uint64_t program, const struct infp_python *python);
        void *context;
};

struct infp_pythons;

/* Begins to load the program, in a thread of its own: that takes some 10 ms. 0 or -ENOMEM, or of starting the thread. */
int infp_pythons_new(const struct infp_pythons_options *options, struct infp_pythons **ret, struct infp_err *err);
struct infp_pythons *infp_pythons_free(struct infp_pythons *pythons); /* NULL is fine; returns NULL */

/* A process that somebody meets beside the records. */
void infp_pythons_meet(struct infp_pythons *pythons, pid_t pid, uint64_t now_ns);
/* Frames that somebody else has read (sampler/waits/wall_python.h). */
struct infp_python_read {
        uint64_t program; /* which program of the process it was */
        bool has_frames, is_alone;
        uint32_t n;
        enum infp_python_end end;
        const struct infp_frames_one *frames;
};
/* Names them. Valid until the next call. NULL: the process runs another program by now. */
const struct infp_python_moment *infp_pythons_read(struct infp_pythons *pythons, pid_t pid,
                                                   const struct infp_python_read *read);

/* Says again which are known: somebody has come who was not told. */
void infp_pythons_tell(struct infp_pythons *pythons);

/* Whether frames are read in the interrupts of samples. */
bool infp_pythons_have_program(const struct infp_pythons *pythons);
/* The descriptor of the program, which perf's events are to run from now on; -EAGAIN: it is being loaded still, unless is_waiting;
 * -ECANCELED: it only times waits; or why it cannot be, as infp_bpf_open says it: there will be no Python frames. */
int infp_pythons_program(struct infp_pythons *pythons, bool is_waiting, const char **ret_fix, struct infp_err *err);

/* Once there is a program, and before perf has events of the target: who times waits in the kernel from now on; NULL: nobody does, and
 * perf's records of switches do. */
struct infp_bpf *infp_pythons_filter(const struct infp_pythons *pythons, struct infp_perf *perf);

/* A handler that gives all on to the next one, and learns of processes by it. */
struct infp_perf_handler infp_pythons_handler(struct infp_pythons *pythons, const struct infp_perf_handler *next);
/* The sample, or a copy in *ret that has its Python frames and the rest of its stack: until the next call. */
const struct infp_perf_sample *infp_pythons_sample(struct infp_pythons *pythons, const struct infp_perf_sample *sample,
                                                   struct infp_perf_sample *ret);
/* Before each reading of perf's buffers: takes what the kernel has read. NULL is fine. */
void infp_pythons_drain(struct infp_pythons *pythons);
/* When perf's buffers are to be read next, at the latest; UINT64_MAX: when they are filled (NULL is fine). Soon where a program has just
 * begun, what it does before its Python is known having no Python frames; where code was gone before its name was read; and where the rest
 * of deep stacks comes, which has no room for long. */
uint64_t infp_pythons_due(const struct infp_pythons *pythons, uint64_t now_ns);
/* A sample's stack lacked what lies there: it is read with the next ones of its thread. */
void infp_pythons_want(void *pythons, int32_t tid, uint64_t address);
/* After it: takes what was found out about processes. NULL is fine. */
void infp_pythons_turn(struct infp_pythons *pythons, uint64_t now_ns);

/* Sums since the start. */
struct infp_pythons_counts {
        uint64_t dropped;    /* records that found no room */
        uint64_t unread;     /* code objects whose names could not be read */
        uint64_t unknown;    /* processes with a Python that is not known, or may not be read */
        uint64_t processes;  /* with a Python that is */
        uint64_t own_cpu_ns; /* of its thread */
};
struct infp_pythons_counts infp_pythons_counts(struct infp_pythons *pythons);
