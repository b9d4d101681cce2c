/* From moments of threads to rows: which code each process has where, its unwind tables, and the frames, nodes, threads and samples
 * that are written of it. Takes the records of perf.h in the order in which they happened.
 *
 * All of this belongs to one thread, that which reads the records; nothing here waits for a file or for another process, apart from
 * short reads of /proc. Files are opened, and tables built, by helper threads; samples that need them wait in a bounded queue. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "collect/env.h"
#include "model/row.h"
#include "model/stack_tables.h"
#include "sampler/perf/perf.h"
#include "sampler/python/find.h"
#include "sampler/python/names.h"
#include "unwind/walk.h"

struct infp_stacks_options {
        const struct infp_env *env;  /* root_fd and boot_id are used */
        uint32_t max_depth;          /* frames of a stack; 0: the default */
        const char *cache_directory; /* of unwind tables; NULL: none on disk (INFP_STACKS_CACHE) */
        size_t waiting_bytes;        /* of stacks that wait for a table; 0: 8 MiB */
        /* Takes a row away: 0, or -ENOSPC (no room: entities are tried again with the next sample that names them). */
        int (*put)(void *context, const struct infp_row *row);
        void *put_context;
        const struct infp_python_names *python; /* of frames that samples have; NULL: they have none */
        bool is_completing; /* samples come as they are taken: the rest of a stack that is cut is read from memory */
};

struct infp_stacks;

int infp_stacks_new(const struct infp_stacks_options *options, struct infp_stacks **ret, struct infp_err *err);
/* Does not wait for a helper that hangs in a file system. NULL is fine; returns NULL. */
struct infp_stacks *infp_stacks_free(struct infp_stacks *stacks);

/* The handler of all records. Its sample() puts rows of mode cpu and leaves samples of switches alone: a caller that wants these calls
 * infp_stacks_take from a handler of his own. run is NULL. */
struct infp_perf_handler infp_stacks_handler(struct infp_stacks *stacks);

/* A process that existed before the events did: its mappings by /proc. After the events are enabled: records of before are known to
 * be old then. Processes that were never told of are read when a sample names them. */
void infp_stacks_seed(struct infp_stacks *stacks, pid_t pid);
/* The process runs that Python from now on (NULL: none), which may have names for its threads. */
void infp_stacks_python(struct infp_stacks *stacks, pid_t pid, const struct infp_python *python);
/* The kernel lost records: mappings may be missing. They are read again, when a sample names the process. */
void infp_stacks_lost(struct infp_stacks *stacks);

/* A moment whose stack is known. */
struct infp_stack_found {
        uint64_t t_ns;
        uint64_t process, thread,
                stack;         /* ids; stack 0: there is none (a kernel thread whose frames may not be seen) */
        int32_t pid, tid, cpu; /* tid 0, cpu -1: not known */
        uint32_t depth; /* of the stack's innermost node, as in stacks.depth; what infp_stacks_extend counts on */
        enum infp_stack_mode mode;
        bool is_truncated; /* outer frames are missing */
        enum infp_gil gil; /* mode wall */
        bool is_completed; /* the outermost were read from memory after the sample (rest.h) */
        uint64_t
                cut_bytes; /* from the stack pointer to what was not read; 0: nothing is missing, or it is not memory */
        const char *task;  /* mode async: its name; NULL: none */
        uint32_t samples;  /* of the row: 1; more where a thread did not run between several (wall.h) */
        double objects;    /* of the heap: blocks that it stands for; 0: none */
};

/* Makes a stack of a sample, now or when the tables that it needs are there (a few ms to seconds later; moments of one thread then
 * stay in order). found is called exactly once for each that was taken, at the latest in infp_stacks_end. */
typedef void infp_stack_found_fn(void *context, uint64_t cookie, const struct infp_stack_found *found);
void infp_stacks_take(struct infp_stacks *stacks, const struct infp_perf_sample *sample, enum infp_stack_mode mode,
                      infp_stack_found_fn *found, void *context, uint64_t cookie);

/* A frame of the user's part of a stack, for a caller that shows it at once. Texts and the descriptor stay until the next call of
 * anything of the same stacks. */
struct infp_stack_frame {
        uint64_t pc, address; /* as it was on the stack; as in frames.fAddress */
        enum infp_frame_kind kind;
        bool is_exact, is_guessed;
        const char *object, *build_id; /* as in frames.fObject, fBuildId; NULL: none */
        int fd;                        /* of the object where it may be out of reach by its path; else -1 */
};
/* Within `found`: the frames of its stack, the innermost first, and how it ended. Returns how many, at most max. */
uint32_t infp_stacks_frames(const struct infp_stacks *stacks, struct infp_stack_frame *ret, uint32_t max,
                            enum infp_unwind_end *ret_end);

/* A stack that was walked by its process itself: return addresses, the innermost (an instruction) first. */
struct infp_stack_taken {
        uint64_t t_ns;
        int32_t cpu; /* -1: not known */
        const uint64_t *addresses;
        uint32_t n;
        enum infp_unwind_end end;
        const struct infp_python_moment *python; /* NULL: its process runs no Python that is known */
};
/* Its stack, and who had it, for infp_stacks_put. tid 0: not known. False: some address is in no mapping that is known. */
bool infp_stacks_find_taken(struct infp_stacks *stacks, const struct infp_stack_taken *taken, int32_t pid, int32_t tid,
                            enum infp_stack_mode mode, struct infp_stack_found *ret);

/* Without records of perf: the process has mapped something, runs another program, has ended. */
void infp_stacks_reread(struct infp_stacks *stacks, int32_t pid, uint64_t t_ns);
void infp_stacks_executed(struct infp_stacks *stacks, int32_t pid, uint64_t t_ns);
/* ... is a child of fork, with all that its parent has mapped; start_ticks as in its stat. */
void infp_stacks_forked(struct infp_stacks *stacks, int32_t pid, int32_t parent, uint64_t start_ticks);
void infp_stacks_ended(struct infp_stacks *stacks, int32_t pid, uint64_t t_ns);

/* Who a thread is, without a stack; writes the entity. */
void infp_stacks_thread(struct infp_stacks *stacks, int32_t pid, int32_t tid, struct infp_stack_found *ret);

/* Puts a frame that has a name alone (a system call, a wait channel, as /proc says them) below a stack, or makes it the root where
 * there is none. Its name is written into `symbols`, from "proc". */
void infp_stacks_extend(struct infp_stacks *stacks, struct infp_stack_found *found, enum infp_frame_kind kind,
                        const char *name);

/* A row of stack_samples. weight in seconds; state NULL: none. 0 or -ENOSPC (counted as dropped). */
int infp_stacks_put(struct infp_stacks *stacks, const struct infp_stack_found *found, double weight, const char *state);

/* Takes what the helpers have finished, and lets go on what waited for it. Call it after each reading of the buffers. */
void infp_stacks_turn(struct infp_stacks *stacks, uint64_t now_ns);
/* options.is_completing from now on; and lacked is called when a stack of mode cpu or off-cpu lacks the 8 bytes at address. */
typedef void infp_stacks_lacked_fn(void *context, int32_t tid, uint64_t address);
void infp_stacks_complete(struct infp_stacks *stacks, bool is_completing, infp_stacks_lacked_fn *lacked, void *context);
/* When to look for a sample whose stack will lack its rest, which has to be read at once; UINT64_MAX: none is expected. */
uint64_t infp_stacks_due(struct infp_stacks *stacks, uint64_t now_ns);
/* Readable when a turn has something to do: to be polled with the buffers. */
int infp_stacks_wake_fd(const struct infp_stacks *stacks);
/* Waits for tables until deadline_ns (CLOCK_MONOTONIC) and makes stacks of all that waits, with what is there then. */
void infp_stacks_end(struct infp_stacks *stacks, uint64_t deadline_ns);

/* Sums since the start. */
struct infp_stack_counts {
        uint64_t taken;      /* rows of stack_samples */
        uint64_t dropped;    /* rows that found no room */
        uint64_t truncated;  /* of stacks that were larger than their copy, or too deep */
        uint64_t incomplete; /* that ended for another reason before the outermost frame */
        uint64_t
                hurried; /* of those: without a table that was still to be built, since the queue was full or the end came */
        uint64_t frames, guessed_frames; /* user frames */
        uint64_t deep, completed;        /* stacks with more than their copy: of the same moment, or read after it */
        uint64_t moved; /* of truncated ones: the thread had gone on, or may have, before the rest was read */
        /* Of stacks in which Python was at work: its frames are in their places; or not, since both parts do not fit, since its frames
         * could not be read whole, or since none were read. */
        uint64_t python_merged, python_unmerged, python_torn, python_missed;
        uint64_t python_alone; /* whose Python frames are all that is known */
};
struct infp_stacks_counts {
        struct infp_stack_counts modes[INFP_STACK_MODES];
        uint64_t n_waiting, waiting_bytes;
        uint64_t n_processes, n_threads, n_objects; /* that are known now */
        uint64_t n_tables, table_bytes;             /* in memory now */
        uint64_t n_built, n_from_cache;
        uint64_t helper_cpu_ns; /* of the threads that open files and build tables */
        uint64_t n_unread; /* objects that samples hit and that could not be read: gone, not allowed, no ELF file */
        uint64_t n_mappings_missed; /* too many for one process */
        uint64_t n_frame_rows, n_stack_rows;
};
void infp_stacks_counts(const struct infp_stacks *stacks, struct infp_stacks_counts *ret);

/* Frames whose names may be out of reach when the recording has ended: code made at run time, and objects that are not below the
 * root under their path (other mount namespaces, deleted files, memory files) or may be removed from there. In the order of their first sample; each once.
 * What the texts and the descriptor refer to stays until infp_stacks_free. The list is bounded (65,536). */
struct infp_stack_nameless {
        uint64_t frame; /* id, as in `frames` and symbols.frame */
        uint64_t address, t_ns;
        enum infp_frame_kind
                kind; /* INFP_FRAME_JIT: address is that of the process; it may have a perf map or a jitdump */
        int32_t pid;
        const char *object;   /* as in frames.fObject */
        const char *build_id; /* hexadecimal; NULL: none */
        int fd;               /* of the object; -1: none is kept */
        bool is_reachable;    /* it was under its path, and is named at the end unless it is removed before */
        const char
                *jitdump; /* path of the process's jitdump file as it sees it (/proc/PID/root); NULL: none was seen */
};
bool infp_stacks_nameless(const struct infp_stacks *stacks, size_t index, struct infp_stack_nameless *ret);

#define INFP_STACKS_CACHE "unwind" /* where unwind tables are kept, for infp_cache_path */
