/* Sections of which one instance stands for all: the mission's "vllm" and "containers", with the tail as their keeper. */
#include "count_mallocs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "collect/collector.h"
#include "model/builder.h"
#include "model/row.h"
#include "record/tail.h"
#include "view/snapshot/snapshot.h"

#define S INFP_NS_PER_S

// clang-format off
static const struct infp_column engines_columns[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
        INFP_COLUMN(url, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Page."),
        INFP_COLUMN(config, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "Set-up."),
};
static const struct infp_column series_columns[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
        INFP_COLUMN(labels, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "Labels."),
        INFP_COLUMN(part, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Part."),
        INFP_COLUMN(le, F64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Edge."),
        INFP_COLUMN(metric, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Our word."),
};
static const struct infp_column samples_columns[] = {
        INFP_COLUMN(series, ID64, LABEL, none, MEASURED, NO, "series", 0, NULL, "Series."),
        INFP_COLUMN(value, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Value."),
};
static const struct infp_column vllm_columns[] = {
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
        INFP_COLUMN(system_requests_running, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Running."),
        INFP_COLUMN(tokens_prompt_total, F64, COUNTER, none, MEASURED, ZERO, NULL, 0, NULL, "Tokens."),
};
static const struct infp_column box_columns[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
        INFP_COLUMN(cId, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Id."),
};
static const struct infp_column boxes_columns[] = {
        INFP_COLUMN(container, ID64, LABEL, none, MEASURED, NO, "container", 0, NULL, "Container."),
        INFP_COLUMN(cCpuTime, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "Time."),
        INFP_COLUMN(cIsTarget, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its own."),
};
static const struct infp_column box_cpu_columns[] = {
        INFP_COLUMN(container, ID64, LABEL, none, MEASURED, NO, "container", 0, NULL, "Container."),
        INFP_COLUMN(cpu, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CPU."),
        INFP_COLUMN(cCpuNTime, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "Time."),
};
// clang-format on
#define TABLE(name_, columns_)                                                                    \
        .name = name_, .help = "Help.", .keys = columns_, .n_keys = 1, .columns = (columns_) + 1, \
        .n_columns = INFP_COUNT(columns_) - 1

enum { ENGINES, SERIES, SAMPLES, VLLM, BOX, BOXES, BOX_CPU, N_TABLES };
static const struct infp_table tables[N_TABLES] = {
        [ENGINES] = { TABLE("engines", engines_columns), .entity = true },
        [SERIES] = { TABLE("series", series_columns), .entity = true },
        [SAMPLES] = { TABLE("engine_samples", samples_columns), .on_change = true },
        [VLLM] = { TABLE("vllm", vllm_columns), .section = "vllm", .lead = true, .list = "engines",
                   .flat_section = true, .histograms = "engine_samples" },
        [BOX] = { TABLE("container", box_columns), .entity = true },
        [BOXES] = { TABLE("containers", boxes_columns), .section = "containers", .lead = true, .lead_by = "cIsTarget" },
        [BOX_CPU] = { .name = "container_cpu",
                      .help = "Help.",
                      .keys = box_cpu_columns,
                      .n_keys = 2,
                      .columns = box_cpu_columns + 2,
                      .n_columns = 1,
                      .section = "containers",
                      .spread = true },
};

const struct infp_collector *const infp_collectors[] = { NULL };

struct world {
        struct infp_sink *tail;
        struct infp_last last;
        struct infp_snapshot_memory memory;
        struct infp_str text;
        struct infp_builder *builders[N_TABLES];
        struct infp_row row;
        char room[65536];
};

static int setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));
        struct infp_err err = { "" };

        assert_int_equal(infp_tail_new(1000, &w->tail, NULL), 0);
        for (unsigned i = 0; i < N_TABLES; i++) {
                if (infp_table_check(&tables[i], &err) < 0)
                        fail_msg("%s", err.text);
                assert_int_equal(w->tail->table_begin(w->tail, &tables[i], NULL), 0);
                w->builders[i] = infp_builder_new(&tables[i], 1);
                assert_int_equal(infp_builder_grow(w->builders[i], 4096), 0);
        }
        w->last = infp_tail_last(w->tail);
        w->memory.histograms = infp_histograms_new();
        w->row.text = w->room;
        w->row.text_cap = sizeof(w->room);
        *state = w;
        return 0;
}

static int teardown(void **state)
{
        struct world *w = *state;

        for (unsigned i = 0; i < N_TABLES; i++)
                infp_builder_free(w->builders[i]);
        infp_tail_free(w->tail);
        infp_histograms_free(w->memory.histograms);
        infp_str_done(&w->text);
        free(w);
        return 0;
}

static struct infp_row *row_of(struct world *w, unsigned table, uint64_t t_ns, uint64_t key)
{
        infp_row_begin(&w->row, &tables[table], t_ns);
        infp_row_id(&w->row, 0, key);
        return &w->row;
}

static void give(struct world *w)
{
        struct infp_builder *b = w->builders[w->row.table - tables];
        struct infp_batch batch;

        infp_builder_reset(b);
        assert_int_equal(infp_builder_append(b, &w->row, (int64_t) w->row.t_ns), 0);
        batch = infp_builder_batch(b, 0);
        assert_int_equal(w->tail->batch(w->tail, &batch, NULL), 0);
}

static void give_engine(struct world *w, uint64_t id, const char *url, const char *config)
{
        infp_row_str(row_of(w, ENGINES, 0, id), 1, url);
        if (config)
                infp_row_str(&w->row, 2, config);
        give(w);
}

static void give_series(struct world *w, uint64_t id, uint64_t engine, const char *labels, const char *part, double le,
                        const char *metric)
{
        struct infp_row *row = row_of(w, SERIES, 0, id);

        infp_row_id(row, 1, engine);
        infp_row_str(row, 2, labels);
        infp_row_str(row, 3, part);
        infp_row_f64(row, 4, le); /* infinity stays absent */
        if (metric)
                infp_row_str(row, 5, metric);
        give(w);
}

static void give_sample(struct world *w, uint64_t t_ns, uint64_t series, double value)
{
        infp_row_f64(row_of(w, SAMPLES, t_ns, series), 1, value);
        give(w);
}

static void give_vllm(struct world *w, uint64_t t_ns, uint64_t engine, double running)
{
        infp_row_f64(row_of(w, VLLM, t_ns, engine), 1, running);
        give(w);
}

static void give_box(struct world *w, uint64_t t_ns, uint64_t id, int64_t cpu_time)
{
        infp_row_i64(row_of(w, BOXES, t_ns, id), 1, cpu_time);
        give(w);
}

/* The text of one section, from its key to the end of the object that it holds. */
static const char *section(struct world *w, uint64_t t_ns, const char *name)
{
        char key[32];
        const char *at;
        int depth = 0;

        assert_int_equal(w->tail->tick_end(w->tail, t_ns, 0, NULL), 0);
        infp_str_clear(&w->text);
        infp_snapshot_put_again(&w->text, &w->last, 1, 0, false, &w->memory);
        assert_false(w->text.failed);
        snprintf(key, sizeof(key), "\"%s\":", name);
        at = strstr(w->text.data, key);
        assert_non_null(at);
        at += strlen(key);
        for (char *end = w->text.data + (at - w->text.data); *end; end++) {
                depth += (*end == '{' || *end == '[') - (*end == '}' || *end == ']');
                if (!depth) {
                        end[1] = 0;
                        break;
                }
        }
        return at;
}

#define LABELS "{\"engine\":\"0\",\"model_name\":\"m,\\\"x\\\"\"}"

static void give_histogram(struct world *w, uint64_t engine)
{
        /* In the order of a page; +Inf before an edge would be odd but is sorted. */
        give_series(w, 10 * engine + 1, engine, LABELS, "bucket", 0.001, "latency_ttft_s");
        give_series(w, 10 * engine + 2, engine, LABELS, "bucket", INFINITY, "latency_ttft_s");
        give_series(w, 10 * engine + 3, engine, LABELS, "bucket", 2, "latency_ttft_s");
        give_series(w, 10 * engine + 4, engine, LABELS, "sum", INFINITY, "latency_ttft_s");
        give_series(w, 10 * engine + 5, engine, LABELS, "bucket", 5, NULL); /* has no word of ours */
        give_series(w, 10 * engine + 6, engine, "{}", "bucket", INFINITY, "latency_e2e_s");
        for (uint64_t i = 1; i <= 6; i++)
                give_sample(w, S, 10 * engine + i, (double) i);
}

static void test_vllm(void **state)
{
        struct world *w = *state;

        give_engine(w, 1, "http://a/metrics", "{\"block_size\": 16,\n\"gpu\": null}");
        give_histogram(w, 1);
        give_vllm(w, S, 1, 3);
        assert_string_equal(
                section(w, S, "vllm"),
                "{\"timestamp\":1000,\"url\":\"http://a/metrics\",\"config\":{\"block_size\": 16,\"gpu\": null},"
                "\"system_requests_running\":3.0,\"tokens_prompt_total\":null,\"histograms\":{"
                "\"latency_ttft_s_engine=0,model_name=m,\\\"x\\\"_histogram\":{\"0.001\":1,\"2.0\":3,\"inf\":2},"
                "\"latency_e2e_s_histogram\":{\"inf\":6}}}");
        /* Only changed values come; one that is not finite any more, or not on the page, has none. */
        give_sample(w, 300 * S, 12, 7.5);
        give_sample(w, 300 * S, 13, NAN);
        give_vllm(w, 300 * S, 1, 0);
        assert_non_null(strstr(section(w, 300 * S, "vllm"),
                               "_histogram\":{\"0.001\":1,\"inf\":7.5},\"latency_e2e_s_histogram\":{\"inf\":6}}}"));
        /* A series that is new. */
        give_series(w, 17, 1, LABELS, "bucket", 1, "latency_ttft_s");
        give_sample(w, 301 * S, 17, 2);
        give_vllm(w, 301 * S, 1, 0);
        assert_non_null(strstr(section(w, 301 * S, "vllm"), "{\"0.001\":1,\"1.0\":2,\"inf\":7.5}"));
}

/* What is absent is there, as null; a set-up that is no JSON is a text. */
static void test_no_engine(void **state)
{
        struct world *w = *state;

        assert_string_equal(section(w, S, "vllm"),
                            "{\"timestamp\":null,\"url\":null,\"config\":null,\"system_requests_running\":null,"
                            "\"tokens_prompt_total\":null,\"histograms\":{}}");
        give_engine(w, 1, "u", "{broken");
        give_vllm(w, 2 * S, 1, 0);
        assert_non_null(strstr(section(w, 2 * S, "vllm"), "\"config\":\"{broken\","));
}

/* The first engine keeps its place while it is silent; the others stand in the list. */
static void test_two_engines(void **state)
{
        struct world *w = *state;
        const char *text;

        give_engine(w, 1, "a", NULL);
        give_engine(w, 2, "b", NULL);
        give_vllm(w, S, 1, 1);
        give_vllm(w, S, 2, 2);
        give_histogram(w, 2);
        text = section(w, S, "vllm");
        assert_ptr_equal(
                strstr(text,
                       "{\"timestamp\":1000,\"url\":\"a\",\"config\":null,\"system_requests_running\":1.0,"
                       "\"tokens_prompt_total\":null,\"histograms\":{},\"engines\":[{\"timestamp\":1000,\"url\":\"a\""),
                text);
        assert_non_null(strstr(text,
                               "{\"timestamp\":1000,\"url\":\"b\",\"config\":null,\"system_requests_running\":2.0,"
                               "\"tokens_prompt_total\":null,\"histograms\":{\"latency_ttft_s_engine"));
        give_vllm(w, 10 * S, 2, 5);
        text = section(w, 10 * S, "vllm");
        assert_ptr_equal(strstr(text,
                                "{\"timestamp\":null,\"url\":null,\"config\":null,\"system_requests_running\":null,"
                                "\"tokens_prompt_total\":null,\"histograms\":{},\"engines\":[{\"timestamp\":10000,"
                                "\"url\":\"b\""),
                         text);
        give_vllm(w, 11 * S, 2, 5);
        give_vllm(w, 11 * S, 1, 6);
        assert_non_null(
                strstr(section(w, 11 * S, "vllm"), "\"url\":\"a\",\"config\":null,\"system_requests_running\":6.0"));
}

static void test_containers(void **state)
{
        struct world *w = *state;

        infp_row_str(row_of(w, BOX, S, 9), 1, "c0ffee123456");
        give(w);
        infp_row_str(row_of(w, BOX, S, 7), 1, "beef");
        give(w);
        give_box(w, S, 9, 100);
        for (int64_t cpu = 0; cpu < 12; cpu += 11) {
                infp_row_i64(row_of(w, BOX_CPU, S, 9), 1, cpu);
                infp_row_i64(&w->row, 2, 60 + cpu);
                give(w);
        }
        infp_row_i64(row_of(w, BOX_CPU, S, 7), 1, 1); /* of another */
        give(w);
        assert_string_equal(section(w, S, "containers"),
                            "{\"cId\":\"c0ffee123456\",\"cCpuTime\":{\"value\":100,\"time\":1000},\"cIsTarget\":null,"
                            "\"cCpu0Time\":{\"value\":60,\"time\":1000},\"cCpu11Time\":{\"value\":71,\"time\":1000}}");
        give_box(w, 2 * S, 7, 5);
        give_box(w, 2 * S, 9, 101);
        assert_string_equal(section(w, 2 * S, "containers"),
                            "{\"cId\":\"c0ffee123456\",\"cCpuTime\":{\"value\":101,\"time\":2000},\"cIsTarget\":null,"
                            "\"cCpu0Time\":{\"value\":60,\"time\":1000},\"cCpu11Time\":{\"value\":71,\"time\":1000},"
                            "\"containers\":[{\"cId\":\"c0ffee123456\",\"cCpuTime\":{\"value\":101,\"time\":2000},"
                            "\"cIsTarget\":null},"
                            "{\"cId\":\"beef\",\"cCpuTime\":{\"value\":5,\"time\":2000},\"cIsTarget\":null}]}");
}

/* The target may go from one group into another. */
static void test_the_target_leads(void **state)
{
        struct world *w = *state;

        give_box(w, S, 9, 100);
        infp_row_i64(row_of(w, BOXES, S, 7), 1, 3);
        infp_row_bool(&w->row, 2, true);
        give(w);
        const char *text = section(w, S, "containers");

        assert_ptr_equal(strstr(text, "{\"cId\":null,\"cCpuTime\":{\"value\":3,"), text);
}

/* 3,000 series that change at each tick: nothing is allocated, and what changes has no new places. */
static void test_no_allocation(void **state)
{
        struct world *w = *state;
        unsigned long before = 0;

        give_engine(w, 1, "a", NULL);
        for (uint64_t i = 0; i < 3000; i++) {
                char labels[32];

                snprintf(labels, sizeof(labels), "{\"m\":\"%u\"}", (unsigned) i / 30);
                give_series(w, 100 + i, 1, labels, "bucket", i % 30 == 29 ? INFINITY : (double) (i % 30), "x");
                give_sample(w, S, 100 + i, 0);
        }
        for (uint64_t t = 1; t <= 5; t++) {
                for (uint64_t i = 0; i < 3000; i++)
                        give_sample(w, t * S, 100 + i, (double) (1000 + t));
                give_vllm(w, t * S, 1, 1);
                section(w, t * S, "vllm");
                if (t == 2)
                        before = n_mallocs;
        }
        assert_int_equal(n_mallocs, before);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_vllm, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_engine, setup, teardown),
                cmocka_unit_test_setup_teardown(test_two_engines, setup, teardown),
                cmocka_unit_test_setup_teardown(test_containers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_the_target_leads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_allocation, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
