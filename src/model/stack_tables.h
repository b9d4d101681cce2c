/* Tables of profiles of stacks: where time, memory or anything else went. A stack is a path in a tree of nodes, root first: a node
 * is (parent node, frame), so that stacks share what they have in common, in memory, on disk and in a flame graph.
 * Ids are content hashes, equal in all runs: of a frame its object (build id, else path) and the address in it; of a node its
 * parent's id and its frame's. Names come later than frames: `symbols` may be written beside the recording or long after. */
#pragma once

#include "model/schema.h"

extern const struct infp_table infp_table_mappings; /* facts: a file or memory that a process executes from */
extern const struct infp_table infp_table_frames;   /* entity: a place in code, without its name */
extern const struct infp_table infp_table_symbols;  /* names of frames; several a frame where functions were inlined */
extern const struct infp_table infp_table_stacks;   /* entity: nodes */
extern const struct infp_table infp_table_threads;  /* entity: a thread under one of its names */
extern const struct infp_table infp_table_stack_samples; /* facts */
extern const struct infp_table infp_table_thread_stops;  /* facts: how long threads were stopped by record --blocking */
extern const struct infp_table infp_table_heap_samples;  /* facts: blocks of the heap */
extern const struct infp_table infp_table_heap_windows;  /* facts: their sums by stack and time */
extern const struct infp_table infp_table_sampler; /* facts: how well the sampling went, a row a mode and period */

enum infp_mappings_cell {
        INFP_MAPPINGS_ID,
        INFP_MAPPINGS_PROCESS,
        INFP_MAPPINGS_START,
        INFP_MAPPINGS_END,
        INFP_MAPPINGS_OFFSET,
        INFP_MAPPINGS_PATH,
        INFP_MAPPINGS_BUILD_ID,
        INFP_MAPPINGS_IS_DELETED,
        INFP_MAPPINGS_N,
};
enum infp_frames_cell {
        INFP_FRAMES_ID,
        INFP_FRAMES_KIND,
        INFP_FRAMES_OBJECT,
        INFP_FRAMES_BUILD_ID,
        INFP_FRAMES_ADDRESS,
        INFP_FRAMES_IS_GUESSED,
        INFP_FRAMES_N,
};
enum infp_symbols_cell {
        INFP_SYMBOLS_FRAME,
        INFP_SYMBOLS_LEVEL,
        INFP_SYMBOLS_NAME,
        INFP_SYMBOLS_MANGLED,
        INFP_SYMBOLS_FILE,
        INFP_SYMBOLS_LINE,
        INFP_SYMBOLS_FUNCTION_LINE,
        INFP_SYMBOLS_FROM,
        INFP_SYMBOLS_N,
};
enum infp_stacks_cell { INFP_STACKS_ID, INFP_STACKS_PARENT, INFP_STACKS_FRAME, INFP_STACKS_DEPTH, INFP_STACKS_N };
enum infp_threads_cell {
        INFP_THREADS_ID,
        INFP_THREADS_PROCESS,
        INFP_THREADS_TID,
        INFP_THREADS_NAME,
        INFP_THREADS_PID,
        INFP_THREADS_PYTHON_NAME,
        INFP_THREADS_N
};
enum infp_stack_samples_cell {
        INFP_STACK_SAMPLES_PROCESS,
        INFP_STACK_SAMPLES_TID,
        INFP_STACK_SAMPLES_THREAD,
        INFP_STACK_SAMPLES_CPU,
        INFP_STACK_SAMPLES_STACK,
        INFP_STACK_SAMPLES_WEIGHT,
        INFP_STACK_SAMPLES_SAMPLES,
        INFP_STACK_SAMPLES_STATE,
        INFP_STACK_SAMPLES_MODE,
        INFP_STACK_SAMPLES_IS_TRUNCATED,
        INFP_STACK_SAMPLES_GIL,
        INFP_STACK_SAMPLES_IS_COMPLETED,
        INFP_STACK_SAMPLES_CUT_BYTES,
        INFP_STACK_SAMPLES_TASK,
        INFP_STACK_SAMPLES_OBJECTS,
        INFP_STACK_SAMPLES_N,
};

enum infp_sampler_cell {
        INFP_SAMPLER_MODE,
        INFP_SAMPLER_METHOD,
        INFP_SAMPLER_RATE,
        INFP_SAMPLER_WANTED,
        INFP_SAMPLER_TAKEN,
        INFP_SAMPLER_LOST,
        INFP_SAMPLER_THROTTLED,
        INFP_SAMPLER_DROPPED,
        INFP_SAMPLER_TRUNCATED,
        INFP_SAMPLER_INCOMPLETE,
        INFP_SAMPLER_FRAMES,
        INFP_SAMPLER_GUESSED_FRAMES,
        INFP_SAMPLER_SKIPPED_THREADS,
        INFP_SAMPLER_OWN_CPU_NS,
        INFP_SAMPLER_TORN,
        INFP_SAMPLER_PYTHON_METHOD,
        INFP_SAMPLER_PYTHON_MERGED,
        INFP_SAMPLER_PYTHON_UNMERGED,
        INFP_SAMPLER_PYTHON_TORN,
        INFP_SAMPLER_PYTHON_MISSED,
        INFP_SAMPLER_PYTHON_UNNAMED,
        INFP_SAMPLER_PYTHON_PROCESSES,
        INFP_SAMPLER_PYTHON_UNKNOWN,
        INFP_SAMPLER_REPLACED,
        INFP_SAMPLER_HANDLER_NS,
        INFP_SAMPLER_PYTHON_ALONE,
        INFP_SAMPLER_PYTHON_REJECTED,
        INFP_SAMPLER_DEEP,
        INFP_SAMPLER_COMPLETED,
        INFP_SAMPLER_MOVED,
        INFP_SAMPLER_N,
};
enum {
        INFP_THREAD_STOPS_PROCESS,
        INFP_THREAD_STOPS_TID,
        INFP_THREAD_STOPS_WAIT_NS,
        INFP_THREAD_STOPS_STOP_NS,
        INFP_THREAD_STOPS_N,
};

enum {
        INFP_HEAP_SAMPLES_PROCESS,
        INFP_HEAP_SAMPLES_TID,
        INFP_HEAP_SAMPLES_THREAD,
        INFP_HEAP_SAMPLES_ADDRESS,
        INFP_HEAP_SAMPLES_SIZE,
        INFP_HEAP_SAMPLES_WEIGHT,
        INFP_HEAP_SAMPLES_STACK,
        INFP_HEAP_SAMPLES_FREED_NS,
        INFP_HEAP_SAMPLES_FREED_TID,
        INFP_HEAP_SAMPLES_ALLOCATOR,
        INFP_HEAP_SAMPLES_N,
};
enum {
        INFP_HEAP_WINDOWS_PROCESS,
        INFP_HEAP_WINDOWS_STACK,
        INFP_HEAP_WINDOWS_SECONDS,
        INFP_HEAP_WINDOWS_ALLOCATED,
        INFP_HEAP_WINDOWS_ALLOCATED_VARIANCE,
        INFP_HEAP_WINDOWS_ALLOCATIONS,
        INFP_HEAP_WINDOWS_SAMPLES,
        INFP_HEAP_WINDOWS_FREED,
        INFP_HEAP_WINDOWS_TEMPORARY,
        INFP_HEAP_WINDOWS_LIVE,
        INFP_HEAP_WINDOWS_VARIANCE,
        INFP_HEAP_WINDOWS_LOW,
        INFP_HEAP_WINDOWS_OLD,
        INFP_HEAP_WINDOWS_BLOCKS,
        INFP_HEAP_WINDOWS_OLDEST_NS,
        INFP_HEAP_WINDOWS_MEAN_BYTES,
        INFP_HEAP_WINDOWS_IS_LAST,
        INFP_HEAP_WINDOWS_N,
};

/* How samples were taken. Reports have the modes in this order. */
enum infp_stack_mode {
        INFP_STACK_CPU,
        INFP_STACK_PYTHON,
        INFP_STACK_WALL,
        INFP_STACK_OFF_CPU,
        INFP_STACK_ASYNC,
        INFP_STACK_LAG,
        INFP_STACK_HEAP_PEAK,
        INFP_STACK_HEAP,
        INFP_STACK_HEAP_ALLOCATED,
        INFP_STACK_MODES, /* none of ours: of an imported profile */
};
struct infp_stack_mode_is {
        const char *name, *unit;     /* as stored in stack_samples.mode; of weights: "seconds", "bytes" */
        const char *title;           /* of its flame graph: "Off-CPU" */
        const char *words;           /* of its table of functions: "by CPU time" */
        bool is_begin;               /* what a row stands for begins at its t_ns; else it ends there */
        const char *others;          /* what other profilers call it, NUL after each: "cpu-time"; NULL: nothing else */
        const char *space, *objects; /* of the heap: what pprof calls its bytes and their blocks; else NULL */
};
extern const struct infp_stack_mode_is infp_stack_modes[INFP_STACK_MODES];
/* By any of its names, but that of its objects. */
enum infp_stack_mode infp_stack_mode_by_name(const char *name, size_t size);
enum infp_stack_mode infp_stack_mode_of(const char *name);         /* the same of a string; NULL: INFP_STACK_MODES */
enum infp_stack_mode infp_stack_mode_of_objects(const char *name); /* "inuse_objects" is of heap */

/* Blocks that a sampled one stands for where a block of size bytes is taken with the probability 1 - e^(-size / mean): of a Poisson
 * process over bytes one point at least. 0 of an empty one, which is never taken. */
double infp_heap_objects(double size_bytes, double mean_bytes);
/* Length of a window of heap_windows that begins so long after the first sample of its process: some hundred at most in an hour, and enough
 * of them for a verdict after a few seconds. */
uint64_t infp_heap_window_ns(uint64_t age_ns);

/* What a thread has of its Python interpreter's GIL; as stored in stack_samples.gil. */
enum infp_gil {
        INFP_GIL_UNKNOWN, /* no value */
        INFP_GIL_NONE,    /* neither: it runs without it, or waits for something else */
        INFP_GIL_HELD,
        INFP_GIL_WAITED,
        INFP_GILS,
};
const char *infp_gil_name(enum infp_gil gil); /* NULL: no value */
enum infp_gil infp_gil_by_name(const char *name, size_t size);

/* What a frame is; as stored in fKind. Colours and the legend of flame graphs go by it. */
enum infp_frame_kind {
        INFP_FRAME_NATIVE,      /* also Rust */
        INFP_FRAME_CXX_RUNTIME, /* libstdc++, libc++, unwinder: told by the object */
        INFP_FRAME_KERNEL,
        INFP_FRAME_PYTHON,
        INFP_FRAME_GO,
        INFP_FRAME_JIT,
        INFP_FRAME_VDSO,
        INFP_FRAME_UNKNOWN,
        INFP_FRAME_KINDS,
};
const char *infp_frame_kind_name(enum infp_frame_kind kind);
int infp_frame_kind_by_name(const char *name, size_t size); /* or -ENOENT */
#define INFP_STATE_WAITS_FOR_LOOP "waiting for the loop"    /* state of a task of asyncio that could go on */
#define INFP_PYTHON_OBJECT "[python]"                       /* stands for the file of a Python frame that has no name */
/* Whether a file can name it: memory cannot, nor can an object that could not be read, whose addresses are offsets that may mean
 * anything. object: its path; the kernel needs none. */
bool infp_frame_is_in_file(enum infp_frame_kind kind, const char *object, size_t size);
/* Whether code of an object is INFP_FRAME_CXX_RUNTIME, by the base name of its file. */
bool infp_is_cxx_runtime(const char *name, size_t size);

/* Ids. object: the build id's bytes where there is one, else the path's; guessed frames are not those that were proved. */
uint64_t infp_frame_id(enum infp_frame_kind kind, const void *object, size_t size, uint64_t address, bool is_guessed);
uint64_t infp_named_frame_id(enum infp_frame_kind kind, const char *object, const char *name, const char *file,
                             int64_t line);
uint64_t infp_thread_id(uint64_t process, int32_t tid, const char *name);
uint64_t infp_stack_id(uint64_t parent, uint64_t frame); /* parent 0: the root */
