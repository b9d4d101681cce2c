/* Inside analyze/watch. */
#pragma once

#include "analyze/watch/watch.h"
#include "base/map.h"
#include "base/strings.h"
#include "model/stack_tables.h"
#include "query/stream.h"

#define WATCH_NONE UINT32_MAX

enum {
        WATCH_MOST_NODES = 1 << 20,
        WATCH_MOST_FRAMES = 1 << 19,
        WATCH_MOST_THREADS = 1 << 17,
        WATCH_MOST_SAMPLES = 1 << 20, /* kept one by one */
        WATCH_DEEPEST = 2048,         /* nodes of a stack */
        WATCH_LEVELS = 64,
};

/* Seconds of a thing: within the window that is being made, and since the start, by mode. */
struct watch_sums {
        double self, total;
        double since_self[INFP_WATCH_MODES], since_total[INFP_WATCH_MODES];
        uint32_t stamp; /* of the sample that it was counted for last */
};

/* Texts are numbers in watch.strings; 0: none. */
struct watch_function {
        uint32_t name, object, file;
        int64_t line;
        uint8_t kind;
        bool is_unnamed;
        struct watch_sums sums;
};

struct watch_line {
        uint32_t function, file, text; /* text: file:line, made when it is shown */
        int64_t line;
        struct watch_sums sums;
};

struct watch_level {
        uint32_t function, line; /* line WATCH_NONE: not known */
};

struct watch_frame {
        uint64_t id, address;
        uint32_t object, build_id;
        struct watch_level *levels;
        uint8_t n_levels, kind;
        bool is_known, has_address; /* is_known: its row has come */
        bool is_used, is_asked;     /* a sample reached it; it was given out to be named */
};

struct watch_node {
        uint32_t parent, frame; /* WATCH_NONE: the root; not known yet */
        float since[INFP_WATCH_MODES];
        bool is_used;    /* with all its callers */
        bool is_awaited; /* stacks were counted without it */
};

struct watch_thread {
        uint64_t process; /* id */
        int64_t tid;
        uint32_t name, state;
        uint64_t state_t_ns; /* when it was seen to wait, or to run */
        struct watch_sums sums;
        double gil_s[INFP_GILS]; /* in the window */
};

struct watch_process {
        int64_t pid;
        uint32_t name;
};

struct watch_sample {
        uint64_t t_ns;
        uint32_t node, thread, state;
        float weight;
        uint32_t samples : 24, mode : 4, gil : 4; /* enum infp_stack_mode, infp_gil */
};

struct watch_point {
        uint64_t t_ns;
        double v;
};

/* Figures as they are recorded. */
enum watch_figure {
        WATCH_CPU_USER, /* what is used, from here ... */
        WATCH_CPU_KERNEL,
        WATCH_CPU_NICE,
        WATCH_CPU_IRQ,
        WATCH_CPU_SOFTIRQ, /* ... to here */
        WATCH_CPU_IDLE,
        WATCH_CPU_IOWAIT,
        WATCH_CPU_STEAL,
        WATCH_MEM_TOTAL,
        WATCH_MEM_AVAILABLE,
        WATCH_TREE_CPU,
        WATCH_TREE_RSS,
        WATCH_TREE_PROCESSES,
        WATCH_TREE_THREADS,
        WATCH_RUNNING,
        WATCH_WAITING,
        WATCH_KV,
        WATCH_PROMPT,
        WATCH_GENERATED,
        WATCH_LIVE,
        WATCH_GPU_PERCENT,
        WATCH_GPU_USED,
        WATCH_GPU_TOTAL,
        WATCH_FIGURES,
};
enum { WATCH_INSTANCES = 8 };

struct watch_series {
        struct watch_point *points;
        uint32_t first, n, cap; /* points first .. n - 1 */
};

enum watch_table {
        WATCH_T_PROCESS,
        WATCH_T_THREADS,
        WATCH_T_FRAMES,
        WATCH_T_SYMBOLS,
        WATCH_T_STACKS,
        WATCH_T_SAMPLES,
        WATCH_T_SAMPLER,
        WATCH_T_SOURCES,
        WATCH_T_CPU,
        WATCH_T_MEM,
        WATCH_T_TREE,
        WATCH_T_ENGINES,
        WATCH_T_VLLM,
        WATCH_T_NVIDIA,
        WATCH_TABLES,
};

struct infp_watch {
        struct infp_run *run;
        uint64_t history_ns;
        struct infp_stream *streams[WATCH_TABLES];
        struct infp_strings strings;

        struct watch_function *functions;
        struct watch_line *lines;
        struct watch_frame *frames;
        struct watch_node *nodes;
        struct watch_thread *threads;
        struct watch_process *processes;
        uint32_t n_functions, cap_functions, n_lines, cap_lines, n_frames, cap_frames, n_nodes, cap_nodes, n_threads,
                cap_threads, n_processes, cap_processes;
        struct infp_map function_by_key, line_by_key, frame_by_id, node_by_id, thread_by_id, process_by_id;
        uint32_t *asked; /* frames that wait for a name, by index */
        uint32_t n_asked, cap_asked, next_asked;

        struct watch_sample *samples; /* first_sample .. n_samples - 1 */
        uint32_t first_sample, n_samples, cap_samples;
        uint64_t since_samples[INFP_WATCH_MODES];
        double since_used[INFP_WATCH_MODES];
        bool is_stale; /* names have changed: sums since the start are to be made anew */
        uint32_t stamp;

        uint64_t first_ns, newest_ns, since_ns, left_out;
        struct watch_series series[WATCH_FIGURES][WATCH_INSTANCES];
        uint64_t engines[INFP_WATCH_ENGINES]; /* ids, by instance */
        unsigned n_engines;
        uint64_t gpus[INFP_WATCH_GPUS];
        unsigned n_gpus;
        struct watch_engine {
                uint64_t id;
                uint32_t make, model;
        } known_engines[INFP_WATCH_ENGINES];
        unsigned n_known_engines;
        struct infp_watch_sampling sampling[INFP_WATCH_MODES];
        struct watch_problem {
                uint32_t reason, fix; /* 0: none is known */
        } problems[INFP_WATCH_MODES];

        struct infp_watch_row *rows; /* of the last view */
        size_t cap_rows;
};

/* A batch and where its wanted columns are. */
struct watch_batch {
        struct infp_batch batch;
        const int *at;
};

static inline bool watch_has(const struct watch_batch *b, unsigned column, uint32_t row)
{
        return b->at[column] >= 0 && infp_batch_has(&b->batch, (unsigned) b->at[column], row);
}

static inline uint64_t watch_id(const struct watch_batch *b, unsigned column, uint32_t row)
{
        return b->at[column] >= 0 ? infp_batch_u64(&b->batch, (unsigned) b->at[column], row) : 0;
}

static inline int64_t watch_i64(const struct watch_batch *b, unsigned column, uint32_t row)
{
        return b->at[column] >= 0 ? infp_batch_i64(&b->batch, (unsigned) b->at[column], row) : 0;
}

static inline const char *watch_str(const struct watch_batch *b, unsigned column, uint32_t row, size_t *ret_size)
{
        *ret_size = 0;
        return b->at[column] >= 0 ? infp_batch_str(&b->batch, (unsigned) b->at[column], row, ret_size) : "";
}

/* The text's number; 0 where it is absent. -ENOMEM. */
int watch_text(struct infp_watch *watch, const struct watch_batch *b, unsigned column, uint32_t row, uint32_t *ret);
const char *watch_string(const struct infp_watch *watch, uint32_t number); /* NULL for 0 */

/* Takers of one row: 0 or -ENOMEM. Columns are those of watch.c. */
int watch_take_frame(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_symbol(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_stack(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_process(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_thread(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_sample(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_engine(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_cpu(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_mem(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_tree(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_vllm(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
int watch_take_nvidia(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);

/* The node with this id, made where it is new: WATCH_NONE without room. */
uint32_t watch_node_of(struct infp_watch *watch, uint64_t id);
/* Frames of a stack that are used now, and wait for a name. */
void watch_use_stack(struct infp_watch *watch, uint32_t leaf);
/* Adds a sample to the functions and lines of its stack. */
void watch_count(struct infp_watch *watch, uint32_t node, double weight, int since_mode);
void watch_drop_old(struct infp_watch *watch);
void watch_recount(struct infp_watch *watch);
void watch_trim_series(struct infp_watch *watch);

/* Columns that the takers read; watch.c has their names. */
enum { W_PROCESS_ID, W_PROCESS_PID, W_PROCESS_NAME };
enum { W_THREAD_ID, W_THREAD_PROCESS, W_THREAD_TID, W_THREAD_NAME, W_THREAD_PYTHON_NAME };
enum { W_FRAME_ID, W_FRAME_KIND, W_FRAME_OBJECT, W_FRAME_BUILD_ID, W_FRAME_ADDRESS };
enum {
        W_SYMBOL_FRAME,
        W_SYMBOL_LEVEL,
        W_SYMBOL_NAME,
        W_SYMBOL_FILE,
        W_SYMBOL_LINE,
        W_SYMBOL_FUNCTION_LINE,
        W_SYMBOL_FROM
};
enum { W_STACK_ID, W_STACK_PARENT, W_STACK_FRAME };
enum {
        W_SAMPLE_PROCESS,
        W_SAMPLE_TID,
        W_SAMPLE_THREAD,
        W_SAMPLE_STACK,
        W_SAMPLE_WEIGHT,
        W_SAMPLE_SAMPLES,
        W_SAMPLE_STATE,
        W_SAMPLE_MODE,
        W_SAMPLE_GIL
};
enum { W_SAMPLER_MODE, W_SAMPLER_RATE, W_SAMPLER_WANTED, W_SAMPLER_TAKEN, W_SAMPLER_LOST };
enum { W_SOURCE_COLLECTOR, W_SOURCE_INSTANCE, W_SOURCE_STATE, W_SOURCE_REASON, W_SOURCE_FIX };
enum { W_ENGINE_ID, W_ENGINE_MAKE, W_ENGINE_MODEL };
