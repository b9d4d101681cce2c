/* perf_event_open: events of a target and what the kernel writes about them, in the order in which it happened.
 * Opens and maps buffers, merges those of all CPUs by time, and gives each record to one handler. Knows nothing of ELF files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "sampler/waits/switches.h"
#include "unwind/python/merge.h"
#include "unwind/walk.h"

enum { INFP_PERF_MAX_KERNEL_FRAMES = 127, INFP_PERF_REST = 40 };

/* Python frames of the same moment, which perf does not have: sampler/python adds them. */
struct infp_python_moment {
        const struct infp_python_range *ranges; /* of the interpreter's loop; stays for longer than any sample waits */
        uint32_t n_ranges;
        bool has_frames; /* false: none were read */
        bool is_alone;   /* they are the whole stack: there is no native one of their moment */
        uint32_t n;
        const struct infp_python_frame *frames; /* the innermost first */
        const uint64_t *ids;                    /* of the named frames; 0: no memory, or a shim */
        enum infp_python_end end;
};

/* A copy, whose frames lie in `data`, of infp_python_moment_bytes. NULL when from is NULL. */
static inline size_t infp_python_moment_bytes(const struct infp_python_moment *from)
{
        return from ? from->n * (sizeof(from->frames[0]) + sizeof(from->ids[0])) : 0;
}
static inline const struct infp_python_moment *infp_python_moment_copy(const struct infp_python_moment *from,
                                                                       void *data, struct infp_python_moment *ret)
{
        if (!from)
                return NULL;
        *ret = *from;
        if (from->n) {
                ret->frames = memcpy(data, from->frames, from->n * sizeof(from->frames[0]));
                ret->ids = memcpy((char *) data + from->n * sizeof(from->frames[0]), from->ids,
                                  from->n * sizeof(from->ids[0]));
        }
        return ret;
}

/* A moment of a thread. Everything is borrowed for the call. */
struct infp_perf_sample {
        uint64_t t_ns; /* CLOCK_MONOTONIC */
        int32_t pid, tid;
        int32_t cpu;
        uint64_t period; /* ns of the clock that this sample stands for */
        bool is_switch; /* taken when the thread left its CPU (off-CPU), not by the clock; with `wait` as it has one again */
        const struct infp_switch *wait; /* of a wait that the kernel has timed; else NULL */
        bool is_in_kernel;
        const uint64_t *kernel; /* the kernel's own frames, innermost first, without context marks */
        uint32_t n_kernel;
        bool has_registers;                   /* false: a kernel thread, or an exiting one: there is no user stack */
        uint64_t registers[INFP_N_REGISTERS]; /* by DWARF number */
        /* Bit r: registers[r] is not known: a thread that was read and not stopped (wall.h). Goes into infp_unwind_start.unknown;
         * such a stack is never guessed. 0 in what perf gives. */
        uint32_t unknown;
        const uint8_t *stack; /* copy from the stack pointer on */
        uint32_t stack_size;
        bool is_cut; /* the stack may go on above the copy */
        /* Parts of the stack above the copy, at most INFP_PERF_REST. */
        const struct infp_unwind_dump *rest;
        uint32_t n_rest;
        const struct infp_python_moment *python; /* NULL: its process runs no Python that is known */
};

/* The rest of a stack, copied to `data`, of infp_perf_rest_bytes, for a copy of its sample. */
static inline size_t infp_perf_rest_bytes(const struct infp_perf_sample *sample)
{
        size_t ret = sample->n_rest * sizeof(sample->rest[0]);

        for (uint32_t i = 0; i < sample->n_rest; i++)
                ret += sample->rest[i].size;
        return ret;
}
static inline void infp_perf_rest_copy(const struct infp_perf_sample *from, void *data, struct infp_perf_sample *ret)
{
        struct infp_unwind_dump *list = data;
        uint8_t *bytes = (uint8_t *) data + from->n_rest * sizeof(*list);

        ret->rest = list;
        for (uint32_t i = 0; i < from->n_rest; i++) {
                list[i] = from->rest[i];
                list[i].bytes = memcpy(bytes, from->rest[i].bytes, list[i].size);
                bytes += list[i].size;
        }
}

struct infp_perf_mapping {
        uint64_t t_ns;
        int32_t pid, tid;
        uint64_t begin, size, offset; /* offset in the file */
        uint32_t major, minor;
        uint64_t inode; /* 0 with a build id */
        const uint8_t *build_id;
        uint32_t build_id_size; /* 0: not given */
        const char *path; /* as the kernel says it: may end in " (deleted)", be "//anon", "[vdso]", "/memfd:..." */
};

struct infp_perf_handler {
        void *context;
        void (*sample)(void *context, const struct infp_perf_sample *sample);
        void (*mapping)(void *context, const struct infp_perf_mapping *mapping); /* executable memory is new */
        void (*name)(void *context, uint64_t t_ns, int32_t pid, int32_t tid, const char *name, bool is_exec);
        void (*fork)(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid);
        void (*exit)(void *context, uint64_t t_ns, int32_t pid, int32_t tid);
        /* is_in: the thread has a CPU again; without stacks, where stacks of switches are not allowed. May be NULL. */
        void (*run)(void *context, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in, bool is_preempted);
};
