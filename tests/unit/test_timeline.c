/* A run on a grid of buckets: rates, gaps, spikes, and what a bound leaves out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/timeline/timeline.h"
#include "model/memory_account.h"
#include "model/python_tables.h"
#include "model/tables.h"
#include "report_sample.h"

static void make_timeline(struct sample_run *s, uint64_t end_ns, struct infp_report *report, struct infp_timeline *t)
{
        finish(s, "run", end_ns);
        make(s, NULL, NULL, 0, report);
        sample_check(s, infp_timeline_make(s->run, report, t, &s->err));
}

static const struct infp_timeline_series *series_of(const struct infp_timeline *t, const char *metric)
{
        for (unsigned i = 0; i < t->n_panels; i++)
                for (unsigned k = 0; k < t->panels[i].n_series; k++)
                        if (!strcmp(t->panels[i].series[k].metric, metric))
                                return &t->panels[i].series[k];
        return NULL;
}

static double mean_at(const struct infp_timeline_series *series, unsigned i)
{
        return series->buckets[i].weight > 0 ? series->buckets[i].sum / series->buckets[i].weight : NAN;
}

static void assert_means(const struct infp_timeline_series *series, const double *expected, unsigned n)
{
        assert_non_null(series);
        for (unsigned i = 0; i < n; i++)
                if (isnan(expected[i]))
                        assert_true(isnan(mean_at(series, i)));
                else
                        assert_near(mean_at(series, i), expected[i]);
}

/* A second each; the counter begins anew at 12 s, the noisy one steps back there; nothing between 13 s and 17 s. A mark comes before
 * the recording calls itself started. */
static void test_buckets_rates_and_gaps(void **state)
{
        static const double gauge[] = { 1, 2, 3, 4, NAN, NAN, NAN, 5, 7 },
                            rate[] = { NAN, 50, 30, 10, NAN, NAN, NAN, NAN, 60 },
                            noisy[] = { NAN, 0.5, 0, 1.1, NAN, NAN, NAN, NAN, 0 };
        static const struct infp_table *const more[] = { &infp_table_marks, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        infp_row_str(sample_row(s, &infp_table_marks, 10 * S - S / 100), INFP_MARKS_TAG, "early");
        sample_put(s);
        put_numbers(s, 10 * S, 1, 100, 100, 0);
        put_numbers(s, 11 * S, 2, 150, 150, 0.5);
        put_numbers(s, 12 * S + 300000000, 3, 39, 140, 0.5);
        put_numbers(s, 13 * S, 4, 46, 217, 0.5);
        put_numbers(s, 17 * S, 5, 946, 1000, 0.5);
        put_numbers(s, 18 * S, 7, 1006, 1000, 0.5);
        for (unsigned i = 0; i < 4; i++)
                sample_tick(s, i, (10 + i) * S);
        sample_tick(s, 7, 17 * S);
        sample_tick(s, 8, 18 * S);
        make_timeline(s, 18 * S + 1, &report, &t);
        assert_int_equal(t.grid.step_ns, S);
        assert_false(t.is_downsampled);
        assert_int_equal(t.grid.t0, 9 * S + S / 2);
        assert_int_equal(t.start_unix_ns, SAMPLE_UNIX + (int64_t) (9 * S + S / 2));
        assert_means(series_of(&t, "gauge"), gauge, 9);
        assert_true(fabs(mean_at(series_of(&t, "counter"), 3) - 10) < 1e-6);
        assert_means(series_of(&t, "counter"), rate, 2);
        assert_true(isnan(mean_at(series_of(&t, "counter"), 7)));
        assert_near(mean_at(series_of(&t, "counter"), 8), 60);
        assert_near(mean_at(series_of(&t, "counter"), 2), 39 / 1.3);
        /* Seconds in a second: a share. */
        assert_string_equal(t.panels[2].unit, "%");
        for (unsigned i = 0; i < 9; i++)
                if (!isnan(noisy[i]))
                        assert_near(mean_at(series_of(&t, "noisy"), i), 100 * noisy[i]);
        assert_true(series_of(&t, "counter")->is_rate && !series_of(&t, "gauge")->is_rate);
        assert_int_equal(t.n_marks, 1);
        assert_string_equal(t.marks[0].tag, "early");
        assert_int_equal(t.n_gaps, 1);
        assert_int_equal(t.gaps[0].from, 13 * S);
        assert_int_equal(t.gaps[0].to, 17 * S);
        assert_non_null(strstr(t.gaps[0].reason, "no samples for 4.0 s"));
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* An hour in 720 buckets of 5 s: one sample of 99 among ones is the bucket's largest, and the mean knows it. */
static void test_spikes_stay(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;
        const struct infp_timeline_series *gauge;
        unsigned n_spikes = 0, n_before;

        (void) state;
        for (unsigned i = 0; i < 3600; i++) {
                put_numbers(s, (10 + i) * S, i == 1802 ? 99 : 1, 7 * i + (i > 3000 ? 1000 : 0), 0, 0);
                sample_tick(s, i, (10 + i) * S);
                if (i % 1000 == 999)
                        sample_flush(s);
        }
        make_timeline(s, 3610 * S, &report, &t);
        assert_true(t.is_downsampled);
        assert_int_equal(t.grid.step_ns, 5 * S);
        assert_true(t.grid.n <= INFP_TIMELINE_BUCKETS && t.grid.n >= 720);
        gauge = series_of(&t, "gauge");
        for (unsigned i = 0; i < 720; i++) {
                assert_near(gauge->buckets[i].min, 1);
                if (gauge->buckets[i].max > 1) {
                        assert_near(gauge->buckets[i].max, 99);
                        assert_near(mean_at(gauge, i), (99 + 4) / 5.0);
                        n_spikes++;
                }
                if (i < 600)
                        assert_near(mean_at(series_of(&t, "counter"), i), 7);
        }
        assert_int_equal(n_spikes, 1);
        n_before = t.grid.n;
        infp_timeline_coarsen(&t, 3);
        assert_int_equal(t.grid.n, (n_before + 2) / 3);
        assert_int_equal(t.grid.step_ns, 15 * S);
        assert_near(gauge->buckets[120].max, 99);
        assert_near(gauge->buckets[120].min, 1);
        assert_near(mean_at(gauge, 120), (99 + 14) / 15.0);
        assert_near(mean_at(gauge, 119), 1);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* The source `device` has a period of 5 s: its level holds between two readings, not beyond two periods; each device is a series.
 * What it says never changes for dev1, which is not worth a chart. */
static void test_a_slow_source(void **state)
{
        static const double heat[] = { 40, 40, 40, 40, 40, 50, NAN, NAN, NAN };
        struct sample_run *s = sample_new("csv");
        const struct infp_table *const tables[] = { &device_table, &infp_table_ticks, NULL };
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, tables);
        free(s->run->info.collectors[1].tables);
        s->run->info.collectors[1].tables = strdup("other device");
        for (unsigned i = 0; i < 30; i++)
                sample_tick(s, i, (10 + i) * S);
        for (unsigned k = 0; k < 2; k++)
                for (unsigned i = 0; i < 2; i++) {
                        infp_row_str(sample_row(s, &device_table, (10 + 5 * i) * S), DEVICE_DEVICE,
                                     k ? "dev1" : "dev0");
                        infp_row_i64(&s->row, DEVICE_HEAT, k ? 7 : 40 + 10 * i);
                        sample_put(s);
                }
        make_timeline(s, 40 * S, &report, &t);
        assert_int_equal(t.n_panels, 1);
        assert_string_equal(t.panels[0].title, "heat · dev0");
        assert_string_equal(t.panels[0].unit, "C");
        assert_string_equal(t.panels[0].series[0].instance, "dev0");
        assert_means(&t.panels[0].series[0], heat, 9);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* 300 cores are 150 rows of two: cores 2 and 3 at 100 % and 50 % are one at 75 %. */
static void test_many_cores(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        for (unsigned i = 0; i < 3; i++) {
                sample_tick(s, i, (10 + i) * S);
                for (unsigned core = 0; core < 300; core++)
                        put_core(s, (10 + i) * S, core,
                                 core == 2   ? 100 * i
                                 : core == 3 ? 50 * i
                                             : 0,
                                 core == 2   ? 0
                                 : core == 3 ? 50 * i
                                             : 100 * i);
        }
        make_timeline(s, 13 * S, &report, &t);
        assert_int_equal(t.cores.n, 150);
        assert_string_equal(t.cores.names[1], "cpu2-3");
        assert_non_null(strstr(t.cores.note, "300 cores"));
        assert_true(t.cores.n * t.cores.grid.n <= INFP_TIMELINE_CORE_CELLS);
        assert_true(isnan(t.cores.cells[1 * t.cores.grid.n]));
        assert_near((double) t.cores.cells[1 * t.cores.grid.n + 1], 75);
        assert_near((double) t.cores.cells[2], 0);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

static struct infp_row *begin_span(struct sample_run *s, int64_t id, int64_t tid, double from_s, double to_s)
{
        struct infp_row *row = sample_row(s, &infp_table_spans, (uint64_t) (from_s * 1e9));

        infp_row_id(row, INFP_SPANS_PROCESS, 5);
        infp_row_i64(row, INFP_SPANS_SPAN, id);
        infp_row_i64(row, INFP_SPANS_TID, tid);
        infp_row_str(row, INFP_SPANS_NAME, "span");
        if (to_s > 0)
                infp_row_i64(row, INFP_SPANS_DURATION_NS, (int64_t) ((to_s - from_s) * 1e9));
        infp_row_str(row, INFP_SPANS_STATUS, to_s > 0 ? "ok" : "open");
        return row;
}

static void put_span(struct sample_run *s, int64_t id, int64_t tid, double from_s, double to_s)
{
        begin_span(s, id, tid, from_s, to_s);
        sample_put(s);
}

static const struct infp_timeline_span *span_of(const struct infp_timeline *t, int64_t id)
{
        for (unsigned i = 0; i < t->n_spans; i++)
                if (t->spans[i].id == id)
                        return &t->spans[i];
        return NULL;
}

/* Of thread 1: 2 within 1, 3 within 2, 4 beside 2; 5 overlaps 1's end without lying within, so it has a lane of its own. 6 of thread
 * 2 never ended, 7 lies within it. */
static void test_lanes(void **state)
{
        static const struct {
                int64_t id;
                unsigned lane, depth;
        } expected[] = { { 1, 0, 0 }, { 2, 0, 1 }, { 3, 0, 2 }, { 4, 0, 1 },
                         { 5, 1, 0 }, { 8, 0, 0 }, { 6, 2, 0 }, { 7, 2, 1 } };
        const struct infp_table *const more[] = { &infp_table_spans, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        put_process(s, 10 * S, 5, "serve", "serve", 1 * S);
        put_span(s, 3, 1, 12.1, 12.5);
        put_span(s, 2, 1, 12, 13);
        put_span(s, 4, 1, 13, 14);
        put_span(s, 1, 1, 11, 15);
        put_span(s, 5, 1, 14.5, 16);
        put_span(s, 8, 1, 15, 15.1);
        put_span(s, 6, 2, 11, -1);
        infp_row_str(begin_span(s, 7, 2, 12, 19), INFP_SPANS_THREAD, "</script>");
        infp_row_str(&s->row, INFP_SPANS_ATTRIBUTES, "{\"a\":1}");
        sample_put(s);
        make_timeline(s, 20 * S, &report, &t);
        assert_int_equal(t.n_spans, INFP_COUNT(expected));
        for (size_t i = 0; i < INFP_COUNT(expected); i++) {
                assert_int_equal(span_of(&t, expected[i].id)->lane, expected[i].lane);
                assert_int_equal(span_of(&t, expected[i].id)->depth, expected[i].depth);
        }
        assert_int_equal(t.n_lanes, 3);
        assert_string_equal(t.lanes[0], "serve (50) · thread 1");
        assert_string_equal(t.lanes[1], "serve (50) · thread 1 (2)");
        assert_true(span_of(&t, 6)->duration_ns < 0);
        assert_string_equal(span_of(&t, 7)->attributes, "{\"a\":1}");
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* Of 5,000 spans the 2,000 longest are kept. */
static void test_the_longest_spans(void **state)
{
        const struct infp_table *const more[] = { &infp_table_spans, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        for (unsigned i = 0; i < 5000; i++)
                put_span(s, i, 1, 11 + i, 11 + i + 1e-6 * (1 + i * 7919 % 5000));
        make_timeline(s, 6000 * S, &report, &t);
        assert_int_equal(t.n_spans, INFP_TIMELINE_SPANS);
        assert_int_equal(t.spans_left_out, 3000);
        for (unsigned i = 0; i < t.n_spans; i++)
                assert_true(t.spans[i].duration_ns > 3000 * 1000 && (!i || t.spans[i].t_ns > t.spans[i - 1].t_ns));
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

// clang-format off
static const struct infp_column engine_keys[] = {
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
};
static const struct infp_column engine_columns[] = {
        INFP_COLUMN(tokens_generation_total, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "Tokens."),
        INFP_COLUMN(latency_ttft_s_sum, F64, COUNTER, s, MEASURED, ZERO, NULL, 0, NULL, "Sum."),
        INFP_COLUMN(latency_ttft_s_count, F64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Count."),
        INFP_COLUMN(cache_kv_usage_percent, F64, GAUGE, ratio, MEASURED, NO, NULL, 0, NULL, "Cache."),
};
static const struct infp_column container_keys[] = {
        INFP_COLUMN(container, ID64, LABEL, none, MEASURED, NO, "container", 0, NULL, "Container."),
};
static const struct infp_column container_columns[] = {
        INFP_COLUMN(cIsTarget, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of the target."),
        INFP_COLUMN(cCpuTime, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "CPU."),
        INFP_COLUMN(cCpuLimitEffective, F64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Limit."),
        INFP_COLUMN(cCpuThrottledPeriods, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Throttled."),
        INFP_COLUMN(cCpuPeriods, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Periods."),
};
static const struct infp_column named_columns[] = {
        INFP_COLUMN(cId, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Id."),
        INFP_COLUMN(cName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
};
// clang-format on
static const struct infp_table engine_table = { .name = "vllm",
                                                .help = "Of the tests.",
                                                .keys = engine_keys,
                                                .columns = engine_columns,
                                                .n_keys = 1,
                                                .n_columns = 4,
                                                .series = "" };
static const struct infp_table containers_table = { .name = "containers",
                                                    .help = "Of the tests.",
                                                    .keys = container_keys,
                                                    .columns = container_columns,
                                                    .n_keys = 1,
                                                    .n_columns = 5,
                                                    .series = "container" };
static const struct infp_table container_table = { .name = "container",
                                                   .help = "Of the tests.",
                                                   .keys = process_keys,
                                                   .columns = named_columns,
                                                   .n_keys = 1,
                                                   .n_columns = 2,
                                                   .entity = true };

static const struct infp_timeline_panel *panel_of(const struct infp_timeline *t, const char *id)
{
        for (unsigned i = 0; i < t->n_panels; i++)
                if (!strcmp(t->panels[i].id, id))
                        return &t->panels[i];
        return NULL;
}

static void put_engine(struct sample_run *s, unsigned second, uint64_t engine, double tokens, double sum, double count)
{
        struct infp_row *row = sample_row(s, &engine_table, second * S);

        infp_row_id(row, 0, engine);
        if (tokens >= 0)
                infp_row_f64(row, 1, tokens);
        infp_row_f64(row, 2, sum);
        infp_row_f64(row, 3, count);
        infp_row_f64(row, 4, 0.25);
        sample_put(s);
}

/* A counter that came with the engine's first event began at 0; the latency is what the requests between two pages took on average,
 * and nothing where there was none; after a new start both count from 0. Two engines have a panel each. */
static void test_engines(void **state)
{
        static const double tokens[] = { NAN, NAN, 50, 30, 20 }, ttft[] = { NAN, NAN, 2, 0.5, 3 };
        const struct infp_table *const more[] = { &engine_table, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        for (unsigned i = 0; i < 5; i++)
                sample_tick(s, i, (10 + i) * S);
        put_engine(s, 10, 1, -1, 0, 0);
        put_engine(s, 11, 1, -1, 0, 0);
        put_engine(s, 12, 1, 50, 4, 2);
        put_engine(s, 13, 1, 80, 5, 4);
        put_engine(s, 14, 1, 20, 3, 1);
        put_engine(s, 13, 2, 10, 3, 1);
        put_engine(s, 14, 2, 20, 3, 1);
        make_timeline(s, 15 * S, &report, &t);
        assert_string_equal(panel_of(&t, "engine-tokens")->unit, "tokens/s");
        assert_means(&panel_of(&t, "engine-tokens")->series[0], tokens, 5);
        assert_near(mean_at(&panel_of(&t, "engine-tokens-1")->series[0], 4), 10);
        assert_string_equal(panel_of(&t, "engine-latency")->series[0].metric,
                            "latency_ttft_s_sum / latency_ttft_s_count");
        assert_int_equal(panel_of(&t, "engine-latency")->series[0].quality, INFP_DERIVED);
        assert_means(&panel_of(&t, "engine-latency")->series[0], ttft, 5);
        assert_near(mean_at(&panel_of(&t, "engine-cache")->series[0], 0), 25);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* The target's container comes first though another does more; limits are lines; an idle one is not drawn. */
static void test_containers(void **state)
{
        static const char id[] = "0123456789abcdef0123456789abcdef";
        const struct infp_table *const more[] = { &containers_table, &container_table, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;
        const struct infp_timeline_panel *panel;

        (void) state;
        sample_describe(s, more);
        for (unsigned i = 0; i < 3; i++) {
                sample_tick(s, i, (10 + i) * S);
                for (unsigned k = 0; k < 3; k++) {
                        struct infp_row *row = sample_row(s, &containers_table, (10 + i) * S);

                        infp_row_id(row, 0, 100 + k);
                        infp_row_bool(row, 1, k == 1);
                        infp_row_i64(row, 2, k == 0 ? i * 1500000000LL : k == 1 ? i * 500000000LL : 7);
                        infp_row_f64(row, 3, 2);
                        infp_row_i64(row, 4, 3 * i);
                        infp_row_i64(row, 5, 10 * i);
                        sample_put(s);
                }
        }
        infp_row_id(sample_row(s, &container_table, 10 * S), 0, 101);
        infp_row_str(&s->row, 1, id);
        sample_put(s);
        infp_row_id(sample_row(s, &container_table, 10 * S), 0, 100);
        infp_row_str(&s->row, 1, id);
        infp_row_str(&s->row, 2, "busy");
        sample_put(s);
        make_timeline(s, 13 * S, &report, &t);
        panel = panel_of(&t, "container-cpu");
        assert_string_equal(panel->title, "CPU · 0123456789ab");
        assert_near(mean_at(&panel->series[0], 1), 50);
        assert_int_equal(panel->n_limits, 1);
        assert_near(panel->limits[0].value, 200);
        assert_string_equal(panel_of(&t, "container-cpu-1")->title, "CPU · busy");
        assert_near(mean_at(&panel_of(&t, "container-cpu-1")->series[0], 2), 150);
        assert_null(panel_of(&t, "container-cpu-2"));
        assert_near(mean_at(&panel_of(&t, "container-throttling")->series[0], 1), 30);
        panel = panel_of(&t, "containers-cpu");
        assert_int_equal(panel->n_series, 2);
        assert_string_equal(panel->series[1].name, "busy");
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

static void put_counter(struct sample_run *s, double t_s, const char *name, const char *kind, double value)
{
        struct infp_row *row = sample_row(s, &infp_table_counters, (uint64_t) (t_s * 1e9));

        infp_row_id(row, INFP_COUNTERS_PROCESS, 5);
        infp_row_str(row, INFP_COUNTERS_NAME, name);
        infp_row_str(row, INFP_COUNTERS_KIND, kind);
        infp_row_f64(row, INFP_COUNTERS_VALUE, value);
        sample_put(s);
}

/* Of a program: a gauge is averaged over the time it stood (0.9 s at 10, 0.1 s at 110: 20), a counter that does not move has a rate of 0
 * between its rows; before and after them there is nothing. A counter that fell began anew. */
static void test_counters_of_programs(void **state)
{
        static const double gauge[] = { NAN, 10, 20, 110, NAN }, rate[] = { NAN, 30, 0, 5, NAN };
        const struct infp_table *const more[] = { &infp_table_counters, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        for (unsigned i = 0; i < 6; i++) {
                put_numbers(s, (10 + i) * S, 1, 1, 1, 1);
                sample_tick(s, i, (10 + i) * S);
        }
        put_process(s, 10 * S, 5, "serve", "serve", 1 * S);
        put_counter(s, 10.6, "queue", "gauge", 10);
        put_counter(s, 12.4, "queue", "gauge", 110);
        put_counter(s, 13.2, "queue", "gauge", 0);
        put_counter(s, 10.7, "tokens", "counter", 70);
        put_counter(s, 10.8, "tokens", "counter", 100);
        put_counter(s, 12.9, "tokens", "counter", 5);
        make_timeline(s, 16 * S, &report, &t);
        assert_means(series_of(&t, "tokens"), rate, 5);
        assert_string_equal(series_of(&t, "queue")->instance, "serve (50)");
        for (unsigned i = 0; i < 3; i++)
                assert_true(isnan(gauge[i]) ? isnan(mean_at(series_of(&t, "queue"), i))
                                            : fabs(mean_at(series_of(&t, "queue"), i) - gauge[i]) < 1e-5);
        assert_near(series_of(&t, "queue")->buckets[2].max, 110);
        assert_near(series_of(&t, "queue")->buckets[3].min, 0);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* 20,000 requests are thinned to at most 5,000; the slowest to its first token, the slowest and the failed one are there. */
static void test_requests_keep_the_worst(void **state)
{
        const struct infp_table *const more[] = { &infp_table_requests, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;
        unsigned n_slow_first = 0, n_slow = 0, n_failed = 0;

        (void) state;
        sample_describe(s, more);
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        for (unsigned i = 0; i < 20000; i++) {
                struct infp_row *row = sample_row(s, &infp_table_requests, 11 * S + i * UINT64_C(10000000));

                infp_row_str(row, INFP_REQUESTS_LOAD, i % 2 ? "odd" : "even");
                infp_row_bool(row, INFP_REQUESTS_OK, i != 777);
                if (i == 777)
                        infp_row_str(row, INFP_REQUESTS_FAILURE, "timeout");
                infp_row_i64(row, INFP_REQUESTS_FIRST_NS, i == 555 ? 9000000000 : 1000000 + i % 10);
                infp_row_i64(row, INFP_REQUESTS_END_NS, i == 888 ? 99000000000 : 2000000);
                sample_put(s);
                if (i % 4000 == 3999)
                        sample_flush(s);
        }
        make_timeline(s, 300 * S, &report, &t);
        assert_true(t.n_requests <= INFP_TIMELINE_REQUESTS && t.n_requests >= 1000);
        assert_int_equal(t.n_requests + t.requests_left_out, 20000);
        assert_int_equal(t.n_loads, 2);
        for (unsigned i = 0; i < t.n_requests; i++) {
                n_slow_first += t.requests[i].ttft_s == 9;
                n_slow += t.requests[i].e2e_s == 99;
                n_failed += !t.requests[i].ok && !strcmp(t.failures[t.requests[i].failure], "timeout");
                assert_true(!i || t.requests[i].t_ns >= t.requests[i - 1].t_ns);
        }
        assert_int_equal(n_slow_first, 1);
        assert_int_equal(n_slow, 1);
        assert_int_equal(n_failed, 1);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* Who is read once a second has worked all that second: not in the last of its fifths, five times as much. */
static void test_others_are_read_less_often(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        s->run->info.period_ms = 200;
        put_process(s, 10 * S, 5, "serve", "serve", 1 * S);
        put_process(s, 10 * S, 6, "other", "other", 1 * S);
        for (unsigned i = 0; i < 26; i++) {
                put_numbers(s, 10 * S + i * S / 5, 1, 1, 1, 1);
                sample_tick(s, i, 10 * S + i * S / 5);
                if (i == 0 || i == 25) /* the one did nothing until the last 200 ms */
                        put_use(s, 10 * S + i * S / 5, 5, true, 0, i ? 100 : 0, 1000, 1000);
                if (i % 5 == 0)
                        put_use(s, 10 * S + i * S / 5, 6, false, 0, 120 * i, 1000, 1000);
        }
        make_timeline(s, 15 * S + 1, &report, &t);
        assert_int_equal(t.n_processes, 2);
        for (unsigned k = 0; k < 2; k++)
                for (unsigned i = 1; i < 25; i++)
                        assert_near(t.processes[k].cpu[i], t.processes[k].id == 6 ? 60 : i < 24 ? 0 : 25);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

static void put_account(struct sample_run *s, uint64_t t_ns, enum infp_memory_kind kind, int64_t bytes,
                        enum infp_quality quality)
{
        struct infp_row *row = sample_row(s, &infp_table_memory_account, t_ns);

        infp_row_id(row, INFP_MEMORY_ACCOUNT_PROCESS, 1);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_OF, "rss");
        infp_row_str(row, INFP_MEMORY_ACCOUNT_KIND, infp_memory_kind_name(kind));
        infp_row_i64(row, INFP_MEMORY_ACCOUNT_BYTES, bytes);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_QUALITY, infp_quality_name(quality));
        sample_put(s);
}

static const struct infp_timeline_series *named_series(const struct infp_timeline *t, const char *name)
{
        for (unsigned i = 0; i < t->n_panels; i++)
                for (unsigned k = 0; k < t->panels[i].n_series; k++)
                        if (!strcmp(t->panels[i].series[k].name, name))
                                return &t->panels[i].series[k];
        return NULL;
}

/* The account of 11 s holds until that of 14 s, which is the last one and holds for 10 s; a kind is as good as its worst row. */
static void test_accounts_of_memory(void **state)
{
        struct sample_run *s = begin();
        const struct infp_timeline_series *heap, *stack;
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        put_process(s, 10 * S, 1, "server", "server", 1 * S);
        for (unsigned i = 0; i < 20; i++)
                sample_tick(s, i, (10 + i) * S);
        put_account(s, 11 * S, INFP_MEMORY_HEAP, 100, INFP_MEASURED);
        put_account(s, 11 * S, INFP_MEMORY_STACK, 7, INFP_MEASURED);
        put_account(s, 11 * S, INFP_MEMORY_STACK, 2, INFP_ESTIMATED);
        put_account(s, 14 * S, INFP_MEMORY_HEAP, 200, INFP_MEASURED);
        put_account(s, 14 * S, INFP_MEMORY_STACK, 8, INFP_MEASURED);
        make_timeline(s, 30 * S, &report, &t);
        assert_int_equal(t.grid.step_ns, S);
        assert_int_equal(t.grid.t0, 9 * S + S / 2);
        heap = named_series(&t, "heap");
        stack = named_series(&t, "stack");
        assert_non_null(heap);
        assert_non_null(stack);
        assert_true(isnan(mean_at(heap, 0)));
        assert_near(mean_at(heap, 1), 100);
        assert_near(mean_at(heap, 3), 100);
        assert_near(mean_at(stack, 3), 9);
        assert_near(mean_at(heap, 5), 200);
        assert_near(mean_at(heap, 14), 200);
        assert_true(isnan(mean_at(heap, 15)));
        assert_int_equal(heap->quality, INFP_MEASURED);
        assert_int_equal(stack->quality, INFP_ESTIMATED);
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* In a row, which has no cells of t_ns and time. */
static unsigned cell_of(const struct infp_table *table, const char *column)
{
        return (unsigned) infp_table_find(table, column) - 2;
}

static void put_torch_call(struct sample_run *s, double at, const char *module, const char *cls, const char *stage,
                           double self_s, double growth_mib)
{
        const struct infp_table *table = &infp_table_torch_trace;
        struct infp_row *row = sample_row(s, table, (uint64_t) (at * 1e9));

        infp_row_str(row, cell_of(table, "module"), module);
        infp_row_str(row, cell_of(table, "class"), cls);
        infp_row_str(row, cell_of(table, "stage"), stage);
        infp_row_f64(row, cell_of(table, "duration"), 2 * self_s);
        infp_row_f64(row, cell_of(table, "self_duration"), self_s);
        infp_row_f64(row, cell_of(table, "growth"), growth_mib);
        sample_put(s);
}

static void put_torch_step(struct sample_run *s, double at, const char *phase, double seconds)
{
        const struct infp_table *table = &infp_table_torch_steps;
        struct infp_row *row = sample_row(s, table, (uint64_t) (at * 1e9));

        infp_row_str(row, cell_of(table, "phase"), phase);
        infp_row_f64(row, cell_of(table, "duration"), seconds);
        sample_put(s);
}

static const struct infp_timeline_series *line_of(const struct infp_timeline *t, const char *id, const char *name)
{
        const struct infp_timeline_panel *panel = panel_of(t, id);

        assert_non_null(panel);
        for (unsigned i = 0; i < panel->n_series; i++)
                if (!strcmp(panel->series[i].name, name))
                        return &panel->series[i];
        return NULL;
}

/* As the page takes the mean of a range. */
static double mean_of_all(const struct infp_timeline *t, const struct infp_timeline_series *series)
{
        double sum = 0, weight = 0;

        for (unsigned i = 0; i < t->grid.n; i++) {
                sum += series->buckets[i].sum;
                weight += series->buckets[i].weight;
        }
        return sum / weight;
}

/* 0.4 s in modules in the first bucket and 0.2 s in the third; buckets without a sampled step are empty. */
static void test_torch(void **state)
{
        static const struct infp_table *const more[] = { &infp_table_torch_trace, &infp_table_torch_steps, NULL };
        static const double a[] = { 75, NAN, 100 }, b[] = { 25, NAN, 0 }, growth[] = { 2 << 20, NAN, NAN };
        const struct infp_timeline_series *decode;
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        for (unsigned i = 0; i < 4; i++) {
                put_numbers(s, (10 + i) * S, 1, 1, 1, 1);
                sample_tick(s, i, (10 + i) * S);
        }
        put_torch_call(s, 10.1, "a", "Linear", "forward", 0.1, 1);
        put_torch_call(s, 10.2, "a", "Linear", "forward", 0.2, 3);
        put_torch_call(s, 10.2, "b", "Block", "forward", 0.1, -1);
        put_torch_call(s, 10.3, "a", "Linear", "sideways", 9, 9);   /* no such stage */
        put_torch_call(s, 10.3, "a", "Linear", "forward", -9, NAN); /* no such time */
        put_torch_call(s, 12.1, "a", "Linear", "backward", 0.2, NAN);
        put_torch_step(s, 10.1, "decode", 0.1);
        put_torch_step(s, 10.3, "decode", 0.3);
        put_torch_step(s, 10.3, "decode", -3);
        put_torch_step(s, 12, "prefill", 0.5);
        make_timeline(s, 13 * S + 1, &report, &t);
        assert_string_equal(panel_of(&t, "torch-modules")->group, "torch");
        assert_means(line_of(&t, "torch-modules", "a"), a, 3);
        assert_means(line_of(&t, "torch-modules", "b"), b, 3);
        assert_null(line_of(&t, "torch-modules", "all others"));
        assert_near(mean_of_all(&t, line_of(&t, "torch-modules", "a")), 100 * 0.5 / 0.6);
        assert_near(mean_of_all(&t, line_of(&t, "torch-classes", "Block")), 100 * 0.1 / 0.6);
        assert_near(mean_of_all(&t, line_of(&t, "torch-stages", "backward")), 100 * 0.2 / 0.6);
        assert_means(line_of(&t, "torch-growth", "a"), growth, 3);
        assert_null(line_of(&t, "torch-growth", "b"));
        decode = line_of(&t, "torch-steps", "decode");
        assert_near(mean_at(decode, 0), 0.2);
        assert_near(decode->buckets[0].min, 0.1);
        assert_near(decode->buckets[0].max, 0.3);
        assert_near(mean_at(line_of(&t, "torch-steps", "prefill"), 2), 0.5);
        assert_true(isnan(mean_at(decode, 2)));
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

/* Ten modules with 1 to 10 parts of the time: seven have a line of their own, the least three are one. */
static void test_many_torch_modules(void **state)
{
        static const struct infp_table *const more[] = { &infp_table_torch_trace, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        struct infp_timeline t;

        (void) state;
        sample_describe(s, more);
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        for (unsigned i = 1; i <= 10; i++) {
                char name[16];

                snprintf(name, sizeof(name), "layers.%u", i);
                put_torch_call(s, 10.1, name, "Linear", "forward", 0.01 * i, NAN);
        }
        make_timeline(s, 11 * S, &report, &t);
        assert_int_equal(panel_of(&t, "torch-modules")->n_series, 8);
        assert_near(mean_at(line_of(&t, "torch-modules", "layers.10"), 0), 100 * 10 / 55.0);
        assert_null(line_of(&t, "torch-modules", "layers.3"));
        assert_near(mean_at(line_of(&t, "torch-modules", "all others"), 0), 100 * 6 / 55.0);
        assert_null(panel_of(&t, "torch-growth"));
        assert_null(panel_of(&t, "torch-steps"));
        infp_timeline_done(&t);
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_buckets_rates_and_gaps),
                cmocka_unit_test(test_spikes_stay),
                cmocka_unit_test(test_a_slow_source),
                cmocka_unit_test(test_many_cores),
                cmocka_unit_test(test_lanes),
                cmocka_unit_test(test_the_longest_spans),
                cmocka_unit_test(test_requests_keep_the_worst),
                cmocka_unit_test(test_counters_of_programs),
                cmocka_unit_test(test_accounts_of_memory),
                cmocka_unit_test(test_engines),
                cmocka_unit_test(test_containers),
                cmocka_unit_test(test_others_are_read_less_often),
                cmocka_unit_test(test_torch),
                cmocka_unit_test(test_many_torch_modules),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
