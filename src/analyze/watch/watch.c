#include "analyze/watch/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/watch/parts.h"
#include "base/mem.h"
#include "base/time.h"

enum { COLUMNS = 9 };

/* A table that is read, by columns that are wanted of it. */
struct table {
        const char *name;
        struct infp_stream_column columns[COLUMNS]; /* ended by a NULL name */
        int (*take)(struct infp_watch *watch, const struct watch_batch *b, uint32_t row);
        bool is_clock; /* its rows are stamped when they are taken: the newest of them is now */
};

static int take_sampler(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        size_t size;
        const char *mode = watch_str(b, W_SAMPLER_MODE, row, &size);
        const enum infp_stack_mode known = infp_stack_mode_by_name(mode, size);
        struct infp_watch_sampling *s;

        if (known >= INFP_WATCH_MODES)
                return 0;
        s = &watch->sampling[known];
        s->has_mode = true;
        s->rate_hz =
                b->at[W_SAMPLER_RATE] >= 0 ? infp_batch_number(&b->batch, (unsigned) b->at[W_SAMPLER_RATE], row) : NAN;
        s->wanted = watch_has(b, W_SAMPLER_WANTED, row) ? (double) watch_i64(b, W_SAMPLER_WANTED, row) : NAN;
        s->taken = watch_has(b, W_SAMPLER_TAKEN, row) ? (double) watch_i64(b, W_SAMPLER_TAKEN, row) : NAN;
        s->lost = watch_has(b, W_SAMPLER_LOST, row) ? (double) watch_i64(b, W_SAMPLER_LOST, row) : NAN;
        return 0;
}

/* Why a mode has no stacks: what the sampler says of perf events, or of looking at threads. */
static int take_source(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        size_t collector_size, instance_size, state_size;
        const char *collector = watch_str(b, W_SOURCE_COLLECTOR, row, &collector_size),
                   *instance = watch_str(b, W_SOURCE_INSTANCE, row, &instance_size),
                   *state = watch_str(b, W_SOURCE_STATE, row, &state_size);
        struct watch_problem *problem;

        if (collector_size != 7 || memcmp(collector, "sampler", 7) != 0)
                return 0;
        if (instance_size == 4 && memcmp(instance, "perf", 4) == 0)
                problem = &watch->problems[INFP_STACK_CPU];
        else if (infp_stack_mode_by_name(instance, instance_size) == INFP_STACK_WALL)
                problem = &watch->problems[INFP_STACK_WALL];
        else
                return 0;
        *problem = (struct watch_problem){ 0, 0 };
        if (state_size == 2 && memcmp(state, "ok", 2) == 0)
                return 0;
        INFP_TRY(watch_text(watch, b, W_SOURCE_REASON, row, &problem->reason));
        return watch_text(watch, b, W_SOURCE_FIX, row, &problem->fix);
}

// clang-format off
static const struct table tables[WATCH_TABLES] = {
        [WATCH_T_PROCESS] = { "process", {
                [W_PROCESS_ID] = { "id", INFP_ID64 }, [W_PROCESS_PID] = { "pId", INFP_I64 },
                [W_PROCESS_NAME] = { "pName", INFP_STR } },
                watch_take_process, false },
        [WATCH_T_THREADS] = { "threads", {
                [W_THREAD_ID] = { "id", INFP_ID64 }, [W_THREAD_PROCESS] = { "process", INFP_ID64 },
                [W_THREAD_TID] = { "tid", INFP_I64 }, [W_THREAD_NAME] = { "tName", INFP_STR },
                [W_THREAD_PYTHON_NAME] = { "tPythonName", INFP_STR } },
                watch_take_thread, false },
        [WATCH_T_FRAMES] = { "frames", {
                [W_FRAME_ID] = { "id", INFP_ID64 }, [W_FRAME_KIND] = { "fKind", INFP_STR },
                [W_FRAME_OBJECT] = { "fObject", INFP_STR }, [W_FRAME_BUILD_ID] = { "fBuildId", INFP_STR },
                [W_FRAME_ADDRESS] = { "fAddress", INFP_U64 } },
                watch_take_frame, false },
        [WATCH_T_SYMBOLS] = { "symbols", {
                [W_SYMBOL_FRAME] = { "frame", INFP_ID64 }, [W_SYMBOL_LEVEL] = { "sLevel", INFP_I64 },
                [W_SYMBOL_NAME] = { "sName", INFP_STR }, [W_SYMBOL_FILE] = { "sFile", INFP_STR },
                [W_SYMBOL_LINE] = { "sLine", INFP_I64 }, [W_SYMBOL_FUNCTION_LINE] = { "sFunctionLine", INFP_I64 },
                [W_SYMBOL_FROM] = { "sFrom", INFP_STR } },
                watch_take_symbol, false },
        [WATCH_T_STACKS] = { "stacks", {
                [W_STACK_ID] = { "id", INFP_ID64 }, [W_STACK_PARENT] = { "parent", INFP_ID64 },
                [W_STACK_FRAME] = { "frame", INFP_ID64 } },
                watch_take_stack, false },
        [WATCH_T_SAMPLES] = { "stack_samples", {
                [W_SAMPLE_PROCESS] = { "process", INFP_ID64 }, [W_SAMPLE_TID] = { "tid", INFP_I64 },
                [W_SAMPLE_THREAD] = { "thread", INFP_ID64 }, [W_SAMPLE_STACK] = { "stack", INFP_ID64 },
                [W_SAMPLE_WEIGHT] = { "weight", INFP_F64 }, [W_SAMPLE_SAMPLES] = { "samples", INFP_I64 },
                [W_SAMPLE_STATE] = { "state", INFP_STR }, [W_SAMPLE_MODE] = { "mode", INFP_STR },
                [W_SAMPLE_GIL] = { "gil", INFP_STR } },
                watch_take_sample, true },
        [WATCH_T_SAMPLER] = { "sampler", {
                [W_SAMPLER_MODE] = { "mode", INFP_STR }, [W_SAMPLER_RATE] = { "rate_hz", INFP_F64 },
                [W_SAMPLER_WANTED] = { "wanted", INFP_I64 }, [W_SAMPLER_TAKEN] = { "taken", INFP_I64 },
                [W_SAMPLER_LOST] = { "lost", INFP_I64 } },
                take_sampler, false },
        [WATCH_T_SOURCES] = { "sources", {
                [W_SOURCE_COLLECTOR] = { "collector", INFP_STR }, [W_SOURCE_INSTANCE] = { "instance", INFP_STR },
                [W_SOURCE_STATE] = { "state", INFP_STR }, [W_SOURCE_REASON] = { "reason", INFP_STR },
                [W_SOURCE_FIX] = { "fix", INFP_STR } },
                take_source, false },
        [WATCH_T_CPU] = { "cpu", {
                { "vCpuTimeUserMode", INFP_I64 }, { "vCpuTimeKernelMode", INFP_I64 }, { "vCpuNice", INFP_I64 },
                { "vCpuTimeIntSrvc", INFP_I64 }, { "vCpuTimeSoftIntSrvc", INFP_I64 }, { "vCpuIdleTime", INFP_I64 },
                { "vCpuTimeIOWait", INFP_I64 }, { "vCpuSteal", INFP_I64 } },
                watch_take_cpu, true },
        [WATCH_T_MEM] = { "mem", {
                { "vMemoryTotal", INFP_I64 }, { "vMemoryFree", INFP_I64 } },
                watch_take_mem, true },
        [WATCH_T_TREE] = { "tree", {
                { "tree_cpu_ns", INFP_I64 }, { "tree_rss_bytes", INFP_I64 }, { "tree_processes", INFP_I64 },
                { "tree_threads", INFP_I64 } },
                watch_take_tree, true },
        [WATCH_T_ENGINES] = { "engines", {
                [W_ENGINE_ID] = { "id", INFP_ID64 }, [W_ENGINE_MAKE] = { "make", INFP_STR },
                [W_ENGINE_MODEL] = { "model", INFP_STR } },
                watch_take_engine, false },
        [WATCH_T_VLLM] = { "vllm", {
                { "engine", INFP_ID64 }, { "system_requests_running", INFP_F64 },
                { "system_requests_waiting", INFP_F64 }, { "cache_kv_usage_percent", INFP_F64 },
                { "tokens_prompt_total", INFP_F64 }, { "tokens_generation_total", INFP_F64 },
                { "tokens_generation_live_total", INFP_F64 } },
                watch_take_vllm, true },
        [WATCH_T_NVIDIA] = { "nvidia", {
                { "gGpuIndex", INFP_I64 }, { "gUtilizationGpu", INFP_I64 }, { "gMemoryUsedBytes", INFP_I64 },
                { "gMemoryTotalBytes", INFP_I64 } },
                watch_take_nvidia, true },
};
// clang-format on

int infp_watch_new(struct infp_run *run, uint64_t history_ns, struct infp_watch **ret, struct infp_err *err)
{
        struct infp_watch *watch = calloc(1, sizeof(*watch));
        int r = watch ? 0 : infp_fail(err, -ENOMEM, "out of memory");

        for (unsigned i = 0; r >= 0 && i < WATCH_TABLES; i++) {
                unsigned n = 0;

                while (n < COLUMNS && tables[i].columns[n].name)
                        n++;
                r = infp_stream_open(run, tables[i].name, tables[i].columns, n, &watch->streams[i], err);
        }
        if (r < 0) {
                infp_watch_free(watch);
                return r;
        }
        watch->run = run;
        watch->history_ns = history_ns;
        for (unsigned mode = 0; mode < INFP_WATCH_MODES; mode++)
                watch->sampling[mode].rate_hz = watch->sampling[mode].wanted = watch->sampling[mode].taken =
                        watch->sampling[mode].lost = NAN;
        *ret = watch;
        return 0;
}

struct infp_watch *infp_watch_free(struct infp_watch *watch)
{
        if (!watch)
                return NULL;
        for (unsigned i = 0; i < WATCH_TABLES; i++)
                infp_stream_close(watch->streams[i]);
        for (uint32_t i = 0; i < watch->n_frames; i++)
                free(watch->frames[i].levels);
        for (unsigned i = 0; i < WATCH_FIGURES; i++)
                for (unsigned k = 0; k < WATCH_INSTANCES; k++)
                        free(watch->series[i][k].points);
        infp_map_done(&watch->function_by_key);
        infp_map_done(&watch->line_by_key);
        infp_map_done(&watch->frame_by_id);
        infp_map_done(&watch->node_by_id);
        infp_map_done(&watch->thread_by_id);
        infp_map_done(&watch->process_by_id);
        infp_strings_done(&watch->strings);
        free(watch->functions);
        free(watch->lines);
        free(watch->frames);
        free(watch->nodes);
        free(watch->threads);
        free(watch->processes);
        free(watch->asked);
        free(watch->samples);
        free(watch->rows);
        free(watch);
        return NULL;
}

static void note_time(struct infp_watch *watch, const struct infp_batch *batch)
{
        for (uint32_t row = 0; row < batch->n_rows; row++) {
                const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);

                watch->newest_ns = t_ns > watch->newest_ns ? t_ns : watch->newest_ns;
                watch->first_ns = watch->first_ns && watch->first_ns < t_ns ? watch->first_ns : t_ns;
        }
}

static int read_table(struct infp_watch *watch, enum watch_table which, struct infp_err *err);

/* Entities are on disk before the facts that name them, but not before facts of an earlier look at their table. */
static int read_entities(struct infp_watch *watch, struct infp_err *err)
{
        for (enum watch_table which = 0; which < WATCH_T_SAMPLES; which++)
                INFP_TRY(read_table(watch, which, err));
        return 0;
}

static int read_table(struct infp_watch *watch, enum watch_table which, struct infp_err *err)
{
        const struct table *table = &tables[which];
        struct watch_batch b;
        bool is_any = false;
        int r;

        while ((r = infp_stream_next(watch->streams[which], &b.batch, &b.at, err)) > 0) {
                is_any = true;
                if (which == WATCH_T_SAMPLES)
                        INFP_TRY(read_entities(watch, err));
                if (b.batch.table->plain)
                        continue;
                if (table->is_clock)
                        note_time(watch, &b.batch);
                for (uint32_t row = 0; row < b.batch.n_rows; row++)
                        if (table->take(watch, &b, row) < 0)
                                return infp_fail(err, -ENOMEM, "no memory for what the run holds");
        }
        return r < 0 ? r : is_any;
}

int infp_watch_read(struct infp_watch *watch, struct infp_err *err)
{
        bool is_any = false;

        for (unsigned which = 0; which < WATCH_TABLES; which++) {
                const int r = read_table(watch, (enum watch_table) which, err);

                INFP_TRY(r);
                is_any |= r > 0;
        }
        watch_drop_old(watch);
        watch_trim_series(watch);
        return is_any;
}

void infp_watch_sampling(const struct infp_watch *watch, enum infp_stack_mode mode, struct infp_watch_sampling *ret)
{
        *ret = watch->sampling[mode];
        ret->problem = watch_string(watch, watch->problems[mode].reason);
        ret->fix = watch_string(watch, watch->problems[mode].fix);
}

uint64_t infp_watch_newest_ns(const struct infp_watch *watch)
{
        return watch->newest_ns;
}

uint64_t infp_watch_oldest_ns(const struct infp_watch *watch)
{
        const uint64_t kept = watch->newest_ns > watch->history_ns ? watch->newest_ns - watch->history_ns : 0;

        return kept > watch->first_ns ? kept : watch->first_ns;
}

uint64_t infp_watch_left_out(const struct infp_watch *watch)
{
        return watch->left_out;
}
