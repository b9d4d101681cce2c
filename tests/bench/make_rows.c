/* A synthetic run on disk, written through the store as a recorder would.
 *
 *   make_rows samples DIR ROWS     table `samples`: 20,000 functions on 64 threads
 *   make_rows day DIR SECONDS      one row a second in each table that is in the time series, a row a core of the detail tables
 *   make_rows hour DIR SECONDS     that, a tree of 20 processes, and an engine of which 300 series change each second
 *   make_rows page DIR SECONDS     that, with 60 processes and all that the page of a report draws: names, requests, spans, marks,
 *                                and stacks: 198 samples of mode cpu a second and 50 of off-cpu, over 40,000 nodes
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/time.h"
#include "collect/collector.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/tables.h"
#include "collectors/process/table.h"
#include "model/builder.h"
#include "model/stack_tables.h"
#include "store/store.h"

#define STARTED_UNIX INT64_C(1764302400000000000)

enum { FUNCTIONS = 20000, THREADS = 64, MAX_TABLES = 128 };

// clang-format off
enum { SAMPLE_FUNCTION, SAMPLE_THREAD, SAMPLE_STATE, SAMPLE_WEIGHT, SAMPLE_BYTES };
static const struct infp_column sample_columns[] = {
        [SAMPLE_FUNCTION] = INFP_COLUMN(function, ID64, LABEL, none, MEASURED, NO, "function", 0, NULL, "Which function."),
        [SAMPLE_THREAD] = INFP_COLUMN(thread, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Which thread."),
        [SAMPLE_STATE] = INFP_COLUMN(state, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "on_cpu, blocked or runnable."),
        [SAMPLE_WEIGHT] = INFP_COLUMN(weight, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Seconds that it stands for."),
        [SAMPLE_BYTES] = INFP_COLUMN(bytes, U64, COUNTER, bytes, MEASURED, ZERO, NULL, 0, NULL, "Allocated so far."),
};
static const struct infp_column function_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Which function."),
};
static const struct infp_column function_columns[] = {
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name."),
};
// clang-format on
static const struct infp_table samples = {
        .name = "samples", .help = "Of the bench.", .columns = sample_columns, .n_columns = 5
};
static const struct infp_table functions = { .name = "function",
                                             .help = "Of the bench.",
                                             .keys = function_keys,
                                             .n_keys = 1,
                                             .columns = function_columns,
                                             .n_columns = 1,
                                             .entity = true };

static struct {
        struct infp_run *run;
        struct infp_sink *sink;
        struct infp_row row;
        char text[4096];
        uint32_t seq;
        const struct infp_table *tables[MAX_TABLES];
        struct infp_builder *builders[MAX_TABLES];
} w;

static void must(int r, const struct infp_err *err)
{
        if (r >= 0)
                return;
        fprintf(stderr, "make_rows: %s (%s)\n", err->text, strerror(-r));
        exit(1);
}

static void flush(unsigned i)
{
        struct infp_batch batch = infp_builder_batch(w.builders[i], 0);
        struct infp_err err = { "" };

        if (batch.n_rows)
                must(w.sink->batch(w.sink, &batch, &err), &err);
        infp_builder_reset(w.builders[i]);
}

static unsigned index_of(const struct infp_table *table)
{
        struct infp_err err = { "" };
        unsigned i = 0;

        while (w.tables[i] && w.tables[i] != table)
                i++;
        if (!w.tables[i]) {
                w.tables[i] = table;
                w.builders[i] = infp_builder_new(table, INFP_BATCH_ROWS);
                must(w.builders[i] ? w.sink->table_begin(w.sink, table, &err) : -ENOMEM, &err);
        }
        return i;
}

static void put(void)
{
        unsigned i = index_of(w.row.table);
        int64_t unix_ns = STARTED_UNIX + (int64_t) w.row.t_ns;

        if (infp_builder_append(w.builders[i], &w.row, unix_ns) < 0) {
                flush(i);
                while (infp_builder_append(w.builders[i], &w.row, unix_ns) < 0)
                        infp_builder_grow(w.builders[i], sizeof(w.text));
        }
}

/* What the recorder does each few seconds; a day's segments are closed every 15 minutes. */
static void flush_all(bool rotate)
{
        struct infp_err err = { "" };

        for (unsigned i = 0; w.tables[i]; i++)
                flush(i);
        if (w.sink->wants_rotation || rotate)
                must(w.sink->rotate(w.sink, ++w.seq, &err), &err);
        w.sink->wants_rotation = false;
}

static uint64_t mix(uint64_t x)
{
        x ^= x >> 33;
        x *= UINT64_C(0xff51afd7ed558ccd);
        x ^= x >> 33;
        x *= UINT64_C(0xc4ceb9fe1a85ec53);
        return x ^ x >> 33;
}

static void describe(const struct infp_table *table)
{
        for (unsigned i = 0; i < infp_table_width(table); i++) {
                infp_columns_row(&w.row, table, i, 1);
                put();
        }
}

static void make_samples(uint64_t n)
{
        static const char *const states[] = { "on_cpu", "blocked", "runnable" };
        char name[64];

        describe(&samples);
        describe(&functions);
        for (uint64_t i = 0; i < FUNCTIONS; i++) {
                infp_row_begin(&w.row, &functions, 1);
                infp_row_id(&w.row, 0, mix(i + 1));
                snprintf(name, sizeof(name), "layer_%u::forward_%u(float const*)", (unsigned) i / 100, (unsigned) i);
                infp_row_str(&w.row, 1, name);
                put();
        }
        for (uint64_t i = 0; i < n; i++) {
                uint64_t dice = mix(i + 12345);

                infp_row_begin(&w.row, &samples, i * 100000);
                infp_row_id(&w.row, SAMPLE_FUNCTION, mix(dice % FUNCTIONS + 1));
                infp_row_i64(&w.row, SAMPLE_THREAD, (int64_t) (dice >> 32) % THREADS);
                infp_row_str(&w.row, SAMPLE_STATE, states[(dice >> 40) % 3]);
                infp_row_f64(&w.row, SAMPLE_WEIGHT, (double) (dice >> 44) / 1048576.0);
                infp_row_u64(&w.row, SAMPLE_BYTES, i * 128);
                put();
                if (i % INFP_BATCH_ROWS == 0)
                        flush_all(false);
        }
}

/* Plausible values: counters grow, gauges swing, labels stay. */
static void fill(const struct infp_table *table, uint64_t second, uint64_t instance)
{
        infp_row_begin(&w.row, table, second * INFP_NS_PER_S + instance);
        for (unsigned i = 0; i + INFP_FIXED_COLUMNS < infp_table_width(table); i++) {
                const struct infp_column *c = infp_table_column(table, i + INFP_FIXED_COLUMNS);
                uint64_t dice = mix(second * 1000 + i * 17 + instance), v = dice % 1000;

                if (i < table->n_keys)
                        v = instance;
                else if (c->kind == INFP_COUNTER)
                        v = second * (100 + i) + dice % 100;
                else if (c->kind == INFP_LABEL)
                        v = i;
                if (c->type == INFP_I64)
                        infp_row_i64(&w.row, i, (int64_t) v);
                else if (c->type == INFP_U64)
                        infp_row_u64(&w.row, i, v);
                else if (c->type == INFP_F64)
                        infp_row_f64(&w.row, i, (double) v / 10);
                else if (c->type == INFP_BOOL)
                        infp_row_bool(&w.row, i, v % 2);
                else if (c->type == INFP_ID64)
                        infp_row_id(&w.row, i, mix(v));
                else if (c->type == INFP_TS_NS)
                        infp_row_ts(&w.row, i, STARTED_UNIX);
                else
                        infp_row_str(&w.row, i, i < table->n_keys ? (instance ? "eth1" : "eth0") : "text");
        }
        put();
}

/* A machine has GPUs of one maker. */
static bool is_elsewhere(const struct infp_table *table)
{
        return !strncmp(table->name, "amdgpu", 6) || !strncmp(table->name, "intel", 5);
}

static void fill_all(const struct infp_table *const *all, uint64_t second)
{
        infp_row_begin(&w.row, &infp_table_ticks, second * INFP_NS_PER_S);
        infp_row_i64(&w.row, INFP_TICKS_NUMBER, (int64_t) second);
        infp_row_i64(&w.row, INFP_TICKS_DEADLINE, (int64_t) (second * INFP_NS_PER_S));
        put();
        for (unsigned i = 0; all[i]; i++)
                if (is_elsewhere(all[i]))
                        continue;
                else if (all[i]->series)
                        fill(all[i], second, 0);
                else if (all[i]->n_keys && !all[i]->entity && all[i]->section)
                        for (uint64_t instance = 0; instance < 2; instance++)
                                fill(all[i], second, instance);
}

static void make_day(uint64_t seconds)
{
        const struct infp_table *const *all = infp_all_tables();

        for (unsigned i = 0; all[i]; i++)
                describe(all[i]);
        for (uint64_t second = 0; second < seconds; second++) {
                fill_all(all, second);
                if (second % 5 == 4)
                        flush_all(second % 900 == 899);
        }
}

enum { SERIES = 300, PROCESSES = 20, PAGE_PROCESSES = 60 };

/* In each segment anew, before the first sample. */
static void name_series(uint64_t second)
{
        char text[64];

        for (unsigned i = 0; i < SERIES; i++) {
                infp_row_begin(&w.row, &infp_table_series, second * INFP_NS_PER_S);
                infp_row_id(&w.row, INFP_SERIES_ID, mix(i + 1));
                infp_row_id(&w.row, INFP_SERIES_ENGINE, mix(0));
                snprintf(text, sizeof(text), "vllm:histogram_%u_seconds_bucket", i / 24);
                infp_row_str(&w.row, INFP_SERIES_NAME, text);
                infp_row_str(&w.row, INFP_SERIES_LABELS, "{\"engine\":\"0\",\"model_name\":\"facebook/opt-125m\"}");
                infp_row_str(&w.row, INFP_SERIES_TYPE, "histogram");
                infp_row_str(&w.row, INFP_SERIES_PART, "bucket");
                infp_row_f64(&w.row, INFP_SERIES_LE, i % 24 / 10.0);
                put();
        }
}

/* Buckets count requests, one series of ten is a sum of seconds. */
static void fill_engine(uint64_t second)
{
        for (unsigned i = 0; i < SERIES; i++) {
                const uint64_t dice = mix(second * 1000 + i);

                infp_row_begin(&w.row, &infp_table_engine_samples, second * INFP_NS_PER_S + 123456);
                infp_row_id(&w.row, INFP_SAMPLES_SERIES, mix(i + 1));
                infp_row_f64(&w.row, INFP_SAMPLES_VALUE,
                             i % 10 ? (double) (second * (1 + i % 7) + dice % 5)
                                    : (double) second * 0.7 + (double) (dice % 1000000) / 1e6);
                put();
        }
        infp_row_begin(&w.row, &infp_table_engine_scrapes, second * INFP_NS_PER_S + 123456);
        infp_row_id(&w.row, INFP_SCRAPES_ENGINE, mix(0));
        infp_row_bool(&w.row, INFP_SCRAPES_OK, true);
        infp_row_f64(&w.row, INFP_SCRAPES_MS, (double) (mix(second) % 5000) / 1000);
        infp_row_i64(&w.row, INFP_SCRAPES_BYTES, 53000 + (int64_t) (mix(second) % 50));
        put();
}

static void make_hour(uint64_t seconds)
{
        const struct infp_table *const *all = infp_all_tables();

        for (unsigned i = 0; all[i]; i++)
                describe(all[i]);
        for (uint64_t second = 0; second < seconds; second++) {
                if (second % 900 == 0)
                        name_series(second);
                fill_all(all, second);
                fill_engine(second);
                for (uint64_t process = 2; process < PROCESSES; process++)
                        fill(&infp_table_processes, second, process);
                if (second % 5 == 4)
                        flush_all(second % 900 == 899);
        }
}

/* A tree: each process is the child of the one with half its number. */
static void name_processes(void)
{
        char text[256];

        for (uint64_t process = 2; process < PAGE_PROCESSES; process++) {
                infp_row_begin(&w.row, &infp_table_process, 1);
                for (unsigned i = 0; i + INFP_FIXED_COLUMNS < infp_table_width(&infp_table_process); i++) {
                        const char *name = infp_table_column(&infp_table_process, i + INFP_FIXED_COLUMNS)->name;

                        if (!strcmp(name, "id"))
                                infp_row_id(&w.row, i, mix(process));
                        else if (!strcmp(name, "pId"))
                                infp_row_i64(&w.row, i, (int64_t) process * 10);
                        else if (!strcmp(name, "pFirstParentId"))
                                infp_row_i64(&w.row, i, (int64_t) process / 2 * 10);
                        else if (!strcmp(name, "pName"))
                                infp_row_str(&w.row, i, "python3");
                }
                snprintf(text, sizeof(text), "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --worker %u",
                         (unsigned) process);
                infp_row_str(&w.row, (unsigned) infp_table_find(&infp_table_process, "pCmdline") - INFP_FIXED_COLUMNS,
                             text);
                put();
        }
}

static void fill_events(uint64_t second)
{
        for (uint64_t i = 0; i < 4; i++) {
                const uint64_t t_ns = second * INFP_NS_PER_S + i * 250000000, dice = mix(t_ns);

                infp_row_begin(&w.row, &infp_table_requests, t_ns);
                infp_row_str(&w.row, INFP_REQUESTS_LOAD, i % 2 ? "8 streams" : "1 stream");
                infp_row_bool(&w.row, INFP_REQUESTS_OK, dice % 50 > 0);
                infp_row_i64(&w.row, INFP_REQUESTS_FIRST_NS, (int64_t) (dice % 800000000));
                infp_row_i64(&w.row, INFP_REQUESTS_END_NS, (int64_t) (dice % 9000000000));
                infp_row_i64(&w.row, INFP_REQUESTS_OUTPUT_TOKENS, (int64_t) (dice % 500));
                put();
                infp_row_begin(&w.row, &infp_table_spans, t_ns);
                infp_row_id(&w.row, INFP_SPANS_PROCESS, mix(2));
                infp_row_i64(&w.row, INFP_SPANS_SPAN, (int64_t) (second * 4 + i));
                infp_row_i64(&w.row, INFP_SPANS_TID, (int64_t) i);
                infp_row_str(&w.row, INFP_SPANS_NAME, "gen_ai.generate");
                infp_row_str(&w.row, INFP_SPANS_STATUS, "ok");
                infp_row_i64(&w.row, INFP_SPANS_DURATION_NS, (int64_t) (dice % 900000000));
                infp_row_str(&w.row, INFP_SPANS_ATTRIBUTES, "{\"gen_ai.request.model\":\"facebook/opt-125m\"}");
                put();
        }
        if (second % 30 == 0) {
                infp_row_begin(&w.row, &infp_table_marks, second * INFP_NS_PER_S);
                infp_row_str(&w.row, INFP_MARKS_TAG, "half a minute");
                infp_row_str(&w.row, INFP_MARKS_SOURCE, "mark");
                put();
        }
}

enum { STACK_NODES = 40000, STACK_FUNCTIONS = 3000, STACK_DEPTH = 40 };
static uint64_t stack_ids[STACK_NODES];

/* A node hangs below one that came shortly before, so that the tree is as deep as real ones. */
static void name_stacks(void)
{
        static const enum infp_frame_kind kinds[] = { INFP_FRAME_NATIVE, INFP_FRAME_PYTHON, INFP_FRAME_KERNEL,
                                                      INFP_FRAME_JIT };
        static uint64_t frames[STACK_FUNCTIONS];
        static unsigned depths[STACK_NODES];
        char text[64];

        for (uint64_t i = 0; i < STACK_FUNCTIONS; i++) {
                const enum infp_frame_kind kind = kinds[mix(i) % 4];

                frames[i] = infp_frame_id(kind, "/srv/engine.so", 14, 16 * i, false);
                infp_row_begin(&w.row, &infp_table_frames, INFP_NS_PER_MS);
                infp_row_id(&w.row, INFP_FRAMES_ID, frames[i]);
                infp_row_str(&w.row, INFP_FRAMES_KIND, infp_frame_kind_name(kind));
                infp_row_str(&w.row, INFP_FRAMES_OBJECT, "/srv/engine.so");
                infp_row_u64(&w.row, INFP_FRAMES_ADDRESS, 16 * i);
                put();
                infp_row_begin(&w.row, &infp_table_symbols, INFP_NS_PER_MS);
                infp_row_id(&w.row, INFP_SYMBOLS_FRAME, frames[i]);
                infp_row_i64(&w.row, INFP_SYMBOLS_LEVEL, 0);
                snprintf(text, sizeof(text), "engine::layer_%u::forward_%u(Tensor const&)", (unsigned) (mix(i) % 64),
                         (unsigned) i);
                infp_row_str(&w.row, INFP_SYMBOLS_NAME, text);
                snprintf(text, sizeof(text), "/srv/engine/layer_%u.cc", (unsigned) (mix(i) % 64));
                infp_row_str(&w.row, INFP_SYMBOLS_FILE, text);
                infp_row_i64(&w.row, INFP_SYMBOLS_LINE, (int64_t) (mix(i) % 2000));
                put();
        }
        for (uint64_t i = 0; i < STACK_NODES; i++) {
                uint64_t parent = i ? i - 1 - mix(i) % (i < 8 ? i : 8) : 0;

                while (depths[parent] >= STACK_DEPTH)
                        parent /= 2;
                depths[i] = i ? depths[parent] + 1 : 0;
                stack_ids[i] = infp_stack_id(i ? stack_ids[parent] : 0, frames[mix(i + 7) % STACK_FUNCTIONS]);
                infp_row_begin(&w.row, &infp_table_stacks, INFP_NS_PER_MS);
                infp_row_id(&w.row, INFP_STACKS_ID, stack_ids[i]);
                if (i)
                        infp_row_id(&w.row, INFP_STACKS_PARENT, stack_ids[parent]);
                infp_row_id(&w.row, INFP_STACKS_FRAME, frames[mix(i + 7) % STACK_FUNCTIONS]);
                put();
        }
}

/* Some stacks have most of the samples, and which they are changes in the hour. */
static void fill_stacks(uint64_t second)
{
        for (uint64_t i = 0; i < 248; i++) {
                const double dice = (double) (mix(second * 248 + i) % 1000000) / 1e6;
                const uint64_t at = (uint64_t) (dice * dice * dice * STACK_NODES + (double) second * 5);
                const bool is_wait = i >= 198;

                infp_row_begin(&w.row, &infp_table_stack_samples, second * INFP_NS_PER_S + i * 4 * INFP_NS_PER_MS);
                infp_row_id(&w.row, INFP_STACK_SAMPLES_PROCESS, mix(2));
                infp_row_i64(&w.row, INFP_STACK_SAMPLES_TID, (int64_t) (i % 8));
                infp_row_id(&w.row, INFP_STACK_SAMPLES_STACK, stack_ids[at % STACK_NODES]);
                infp_row_f64(&w.row, INFP_STACK_SAMPLES_WEIGHT, is_wait ? dice / 10 : 1 / 99.0);
                infp_row_i64(&w.row, INFP_STACK_SAMPLES_SAMPLES, 1);
                infp_row_str(&w.row, INFP_STACK_SAMPLES_MODE, is_wait ? "off-cpu" : "cpu");
                if (is_wait)
                        infp_row_str(&w.row, INFP_STACK_SAMPLES_STATE, "blocked");
                put();
        }
}

static void make_page(uint64_t seconds)
{
        static const struct infp_table *const more[] = { &infp_table_requests,     &infp_table_spans,
                                                         &infp_table_marks,        &infp_table_frames,
                                                         &infp_table_symbols,      &infp_table_stacks,
                                                         &infp_table_stack_samples };
        const struct infp_table *const *all = infp_all_tables();

        for (unsigned i = 0; all[i]; i++)
                describe(all[i]);
        for (unsigned i = 0; i < sizeof(more) / sizeof(*more); i++)
                describe(more[i]);
        name_processes();
        name_stacks();
        for (uint64_t second = 0; second < seconds; second++) {
                if (second % 900 == 0)
                        name_series(second);
                fill_all(all, second);
                fill_engine(second);
                fill_events(second);
                fill_stacks(second);
                for (uint64_t process = 2; process < PAGE_PROCESSES; process++)
                        fill(&infp_table_processes, second, process);
                if (second % 5 == 4)
                        flush_all(second % 900 == 899);
        }
}

int main(int argc, char **argv)
{
        struct infp_run_info info = {
                .command = (char *) "bench",
                .mode = (char *) "run",
                .format = (char *) "parquet",
                .version = (char *) INFP_VERSION,
                .hostname = (char *) "bench",
                .recorder_pid = getpid(),
                .period_ms = 1000,
                .started_unix_ns = STARTED_UNIX,
        };
        struct infp_err err = { "usage: make_rows samples|day|hour|page DIR N" };
        uint64_t n = 0;

        if (argc != 4 || infp_parse_u64(argv[3], strlen(argv[3]), &n) < 0)
                must(-EINVAL, &err);
        infp_uuid_make(info.uuid);
        must(infp_run_create(argv[2], &info, &w.run, &err), &err);
        must(infp_store_sink_new(w.run, NULL, &w.sink, &err), &err);
        w.row.text = w.text;
        w.row.text_cap = sizeof(w.text);
        w.seq = 1;
        if (strcmp(argv[1], "day") == 0)
                make_day(n);
        else if (strcmp(argv[1], "hour") == 0)
                make_hour(n);
        else if (strcmp(argv[1], "page") == 0)
                make_page(n);
        else
                make_samples(n);
        flush_all(false);
        must(w.sink->end(w.sink, &err), &err);
        w.run->info.ended_unix_ns = STARTED_UNIX + (int64_t) w.row.t_ns;
        w.run->info.ended_t_ns = w.row.t_ns;
        must(infp_run_save(w.run, &err), &err);
        return 0;
}
