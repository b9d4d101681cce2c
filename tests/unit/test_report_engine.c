/* The report's engines: counters over gaps and new starts, down time, latencies with their bounds, in text and JSON. */
#include <jansson.h>

#include "report_sample.h"

#include "collectors/engine/engine.h"
#include "engine_rows.h"
#include "view/report/parts.h"

// clang-format off
static const struct infp_column scrapes_keys[] = {
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
};
static const struct infp_column scrapes_columns[] = {
        INFP_COLUMN(ok, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Good."),
        INFP_COLUMN(reason, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Why not."),
        INFP_COLUMN(engine_restarts, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, NULL, "New starts."),
};
enum { VLLM_ENGINE, VLLM_RUNNING, VLLM_WAITING, VLLM_KV, VLLM_FINISHED, VLLM_ABORTED, VLLM_PROMPT, VLLM_GENERATED, VLLM_LIVE,
       VLLM_HITS, VLLM_QUERIES, VLLM_N };
static const struct infp_column vllm_keys[] = {
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
};
static const struct infp_column vllm_columns[] = {
        INFP_COLUMN(system_requests_running, F64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Running."),
        INFP_COLUMN(system_requests_waiting, F64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Waiting."),
        INFP_COLUMN(cache_kv_usage_percent, F64, GAUGE, ratio, MEASURED, NO, NULL, 0, NULL, "KV."),
        INFP_COLUMN(requests_finished_total, F64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Finished."),
        INFP_COLUMN(requests_aborted_total, F64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Aborted."),
        INFP_COLUMN(tokens_prompt_total, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "Prompt."),
        INFP_COLUMN(tokens_generation_total, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "Generated."),
        INFP_COLUMN(tokens_generation_live_total, F64, COUNTER, tokens, ESTIMATED, ZERO, NULL, 0, NULL, "Live."),
        INFP_COLUMN(cache_prefix_hits, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "Hits."),
        INFP_COLUMN(cache_prefix_queries, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "Queries."),
};
// clang-format on
static const struct infp_table scrapes_table = { .name = "engine_scrapes",
                                                 .help = "Of the tests.",
                                                 .keys = scrapes_keys,
                                                 .n_keys = 1,
                                                 .columns = scrapes_columns,
                                                 .n_columns = 3 };
static const struct infp_table vllm_table = { .name = "vllm",
                                              .help = "Of the tests.",
                                              .keys = vllm_keys,
                                              .n_keys = 1,
                                              .columns = vllm_columns,
                                              .n_columns = VLLM_N - 1 };

static void put_scrape(struct sample_run *s, uint64_t t_ns, uint64_t engine, const char *reason, int64_t restarts)
{
        struct infp_row *row = sample_row(s, &scrapes_table, t_ns);

        infp_row_id(row, 0, engine);
        infp_row_bool(row, 1, !reason);
        if (reason)
                infp_row_str(row, 2, reason);
        infp_row_i64(row, 3, restarts);
        sample_put(s);
}

/* A good page: cells that are NAN are not on it. */
static void put_page(struct sample_run *s, uint64_t t_ns, uint64_t engine, int64_t restarts, const double *cells)
{
        struct infp_row *row;

        put_scrape(s, t_ns, engine, NULL, restarts);
        row = sample_row(s, &vllm_table, t_ns);
        infp_row_id(row, 0, engine);
        for (unsigned i = 1; i < VLLM_N; i++)
                infp_row_f64(row, i, cells[i]);
        sample_put(s);
}

static struct sample_run *begin_engines(void)
{
        static const struct infp_table *const tables[] = { &engines_table,    &series_table, &samples_table,
                                                           &scrapes_table,    &vllm_table,   &infp_table_sources,
                                                           &infp_table_ticks, NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

/* An engine that is watched from 10 s to 16 s; no answer at 13 s, started anew before 14 s. */
static struct sample_run *one_engine(void)
{
        static const double pages[][VLLM_N] = {
                /*    run wait kv   fin  abort prompt gen  live hits queries */
                { 0, 2, 0, 0.25, 100, NAN, 1000, 500, 500, 10, 100 },
                { 0, 4, 3, 0.75, 104, NAN, 1300, 600, 600, 60, 200 },
                { 0, 4, 0, 0.5, 106, NAN, 1400, 650, 650, 70, 220 },
                { 0, 1, 0, 0.1, 3, 1, 50, 20, 20, 5, 40 }, /* anew */
                { 0, 1, 1, 0.4, 7, 2, 150, 80, 80, 15, 80 },
        };
        static const uint64_t times[] = { 10, 11, 12, 14, 16 };
        struct sample_run *s = begin_engines();

        put_engine(s, 7, 0, "http://a/metrics", "vllm", "tiny");
        put_histogram(s, 10, 7, "{}", "vllm:time_to_first_token_seconds", "latency_ttft_s");
        put_histogram(s, 20, 7, "{}", "vllm:e2e_request_latency_seconds", "latency_e2e_s");
        for (unsigned i = 0; i < INFP_COUNT(pages); i++) {
                sample_tick(s, i, times[i] * S);
                put_page(s, times[i] * S, 7, i >= 3, pages[i]);
                if (times[i] == 12)
                        put_scrape(s, 13 * S, 7, "connection refused", 0);
        }
        put_counts(s, 10 * S, 10, 50, 80, 100, 90);
        put_counts(s, 11 * S, 10, 52, 83, 104, 96);
        put_counts(s, 14 * S, 10, 1, 3, 3, 3.5);
        put_counts(s, 10 * S, 20, 5, 5, 5, 1);
        finish(s, "run", 17 * S);
        return s;
}

/* Increases: 4 + 2, anew 3, 4; seconds 1, 1, 2, 2. */
static void figures(void **state)
{
        struct sample_run *s = one_engine();
        struct infp_report report;
        unsigned n;
        const struct infp_report_engine *e;
        struct infp_quantile at;

        (void) state;
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.engines.n, 1);
        e = &report.engines.list[0];
        assert_string_equal(e->url, "http://a/metrics");
        assert_string_equal(e->make, "vllm");
        assert_int_equal(e->n_ok, 5);
        assert_int_equal(e->n_failed, 1);
        assert_int_equal(e->n_restarts, 1);
        assert_string_equal(e->reason, "connection refused");
        assert_near(e->down_s, 1);
        assert_near(e->seconds, 6);
        assert_near(e->counters[INFP_ENGINE_FINISHED], 13);
        assert_near(infp_engine_rate(e, INFP_ENGINE_FINISHED), 13.0 / 6);
        /* The pages before did not have it: it began at 0. */
        assert_near(e->counters[INFP_ENGINE_ABORTED], 2);
        assert_near(e->counters[INFP_ENGINE_PROMPT], 550);
        assert_near(e->counters[INFP_ENGINE_GENERATED], 230);
        assert_near(e->counters[INFP_ENGINE_PREFIX_HITS], 75);
        assert_near(e->counters[INFP_ENGINE_PREFIX_QUERIES], 200);
        assert_true(isnan(e->counters[INFP_ENGINE_PREEMPTIONS]));
        assert_near(infp_stat_mean(&e->gauges[INFP_ENGINE_RUNNING]), 2.4);
        assert_near(e->gauges[INFP_ENGINE_KV].max, 0.75);
        assert_false(e->counts_at_end);
        assert_near(infp_engines_total(&report.engines, INFP_ENGINE_GENERATED, &n), 230);
        assert_int_equal(n, 1);
        assert_int_equal(e->n_metrics, 2);
        /* 2 3 4 and anew 1 3 3: 3 6 7; rank 3.5 lies in 1..2, one sixth of it. */
        assert_string_equal(e->metrics[1].metric, "latency_ttft_s");
        assert_near(e->metrics[1].count, 7);
        assert_near(e->metrics[1].sum, 9.5);
        assert_true(infp_quantile_of(e->metrics[1].buckets, e->metrics[1].n_buckets, 0.5, &at));
        assert_near(at.low, 1);
        assert_near(at.estimate, 1 + 0.5 / 3);
        assert_near(at.high, 2);
        infp_report_done(&report);
        sample_free(s);
}

/* From 12 s on: the page at 12 s belongs to it, with what came since 11 s. */
static void a_part(void **state)
{
        struct sample_run *s = one_engine();
        struct infp_report report;
        const struct infp_report_engine *e;

        (void) state;
        make(s, "+2s", NULL, 0, &report);
        e = &report.engines.list[0];
        assert_int_equal(e->n_ok, 3);
        assert_near(e->counters[INFP_ENGINE_FINISHED], 9);
        assert_near(e->seconds, 5);
        assert_near(e->metrics[1].count, 3);
        infp_report_done(&report);
        sample_free(s);
}

static void text(void **state)
{
        struct sample_run *s = one_engine();
        struct infp_report report;
        char *shown;
        static const char *const lines[] = {
                "\nEngine vLLM 1.0, tiny\n",
                "  address     http://a/metrics\n",
                "  scrapes     5 ok; 1 failed between them (1.00 s in total), the last: connection refused; it "
                "restarted 1 time; rates cover the 6.00 s\n"
                "              between them\n",
                "  requests    13 finished, 2.17/s; 2 aborted, as far as it counts them\n",
                "  at once     running 2.40 on average, 4 at most; waiting 0.800 on average, 3 at most\n",
                "  tokens      230 generated, 38.33/s; 550 of prompts, 91.67/s\n",
                "  KV cache    40.0 % in use on average, 75.0 % at most\n",
                "  prefix hits 37.5 % of 200 prompt tokens were found in the cache\n",
                "  server-side          mean          p50          p90          p95          p99\n"
                "  TTFT               1.36 s       1.17 s     > 2.00 s     > 2.00 s     > 2.00 s\n"
                "    n 7                           1..2 s\n",
        };

        (void) state;
        make(s, NULL, NULL, 0, &report);
        shown = text_of(&report, 140);
        for (unsigned i = 0; i < INFP_COUNT(lines); i++)
                if (!strstr(shown, lines[i]))
                        fail_msg("no line %s in\n%s", lines[i], shown);
        assert_null(strstr(shown, "end to end")); /* nothing was observed: absent, not 0 */
        assert_null(strstr(shown, "preemptions"));
        assert_null(strstr(shown, "it counts generated tokens"));
        assert_null(strstr(shown, "warning"));
        assert_null(strstr(shown, "--from ready"));
        free(shown);
        report.range.t0 = report.engines.list[0].t0 - 3 * S; /* it was found when it listened: no page was missing */
        shown = text_of(&report, 140);
        assert_non_null(
                strstr(shown, "  ready       after 3.00 s, which averages include; --from ready excludes them\n"));
        free(shown);
        infp_report_done(&report);
        sample_free(s);
}

static void json(void **state)
{
        struct sample_run *s = one_engine();
        struct infp_report report;
        struct infp_out out;
        json_t *root, *engine, *ttft, *quantile;

        (void) state;
        make(s, NULL, NULL, 0, &report);
        infp_out_init(&out, -1, "nowhere");
        infp_report_json(&out, &report);
        root = json_loadb(out.text.data, out.text.size, 0, NULL);
        assert_non_null(root);
        engine = json_array_get(json_object_get(root, "engines"), 0);
        assert_string_equal(json_string_value(json_object_get(engine, "make")), "vllm");
        assert_near(json_number_value(json_object_get(json_object_get(engine, "requests_finished_total"), "total")),
                    13);
        assert_true(json_is_null(json_object_get(json_object_get(engine, "system_preemptions_total"), "total")));
        ttft = json_object_get(json_object_get(engine, "distributions"), "latency_ttft_s");
        assert_near(json_number_value(json_object_get(ttft, "n")), 7);
        assert_near(json_number_value(json_object_get(ttft, "mean")), 9.5 / 7);
        assert_string_equal(json_string_value(json_object_get(ttft, "side")), "server");
        quantile = json_array_get(json_object_get(ttft, "quantiles"), 3);
        assert_near(json_number_value(json_object_get(quantile, "quantile")), 0.99);
        assert_near(json_number_value(json_object_get(quantile, "low")), 2);
        assert_true(json_is_null(json_object_get(quantile, "high")));
        json_decref(root);
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* A server that counts when a request ends, and one that never answered. */
static void others(void **state)
{
        static const double first[VLLM_N] = { 0, 1, 0, NAN, NAN, NAN, 10, 0, 0, NAN, NAN },
                            second[VLLM_N] = { 0, 1, 0, NAN, NAN, NAN, 10, 0, 40, NAN, NAN };
        struct sample_run *s = begin_engines();
        struct infp_report report;
        unsigned n;
        char *shown;

        (void) state;
        put_engine(s, 7, 1, "http://a/metrics", "llamacpp", "g");
        put_engine(s, 8, 0, "http://b/metrics", NULL, NULL);
        sample_tick(s, 1, 10 * S);
        put_page(s, 10 * S, 7, 0, first);
        put_page(s, 12 * S, 7, 0, second);
        put_scrape(s, 10 * S, 8, "timed out", 0);
        put_scrape(s, 12 * S, 8, "http://b/metrics: timed out after 2 s", 0);
        finish(s, "run", 13 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.engines.n, 2);
        assert_int_equal(report.engines.list[0].id, 8);
        assert_near(report.engines.list[0].down_s, 2);
        assert_true(report.engines.list[1].counts_at_end);
        assert_near(infp_engines_total(&report.engines, INFP_ENGINE_GENERATED, &n), 0);
        assert_int_equal(n, 1);
        assert_true(isnan(infp_engines_total(&report.engines, INFP_ENGINE_FINISHED, &n)));
        assert_int_equal(n, 0);
        shown = text_of(&report, 140);
        assert_non_null(strstr(shown, "\nEngine of unknown make\n  address     http://b/metrics\n"));
        assert_non_null(strstr(shown, "  scrapes     all 2 failed: timed out after 2 s\n"));
        assert_non_null(strstr(shown, "  tokens      0 generated, 0/s; 0 of prompts, 0/s\n"));
        assert_non_null(strstr(shown, "it counts generated tokens only when a request ends; with running requests "
                                      "about 40, 20/s (estimated)\n"));
        assert_null(strstr(shown, "\n  KV cache"));
        free(shown);
        infp_report_done(&report);
        sample_free(s);
}

/* Two workers that answer in turn: their counters have no increase, and the report says so. */
static void falls(void **state)
{
        static const double pages[2][VLLM_N] = { { 0, 1, 0, NAN, 9, NAN, 10, 500, 500, NAN, NAN },
                                                 { 0, 1, 0, NAN, 8, NAN, 12, 300, 300, NAN, NAN } };
        struct sample_run *s = begin_engines();
        struct infp_report report;
        char *shown;

        (void) state;
        put_engine(s, 7, 1, "http://a/metrics", "vllm", "g");
        sample_tick(s, 1, 10 * S);
        for (unsigned i = 0; i < 5; i++)
                put_page(s, (10 + i) * S, 7, 0, pages[i % 2]);
        finish(s, "run", 15 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.engines.list[0].n_falls, 4); /* the prompts fall where the others rise */
        shown = text_of(&report, 240);
        assert_non_null(strstr(shown, "  warning     its counters fell 4 times, but it restarted 0 times: several "
                                      "processes may answer in turn"));
        free(shown);
        infp_report_done(&report);
        sample_free(s);
}

/* No page while it starts and after it ended is normal; what fails between good pages is not. Before the range it has answered:
 * from 12 s on nothing is left that could be its start. */
static void failures(void **state)
{
        static const struct {
                uint64_t t_s;
                const char *reason;
        } pages[] = { { 10, "connection refused" },
                      { 11, NULL },
                      { 12, "timed out" },
                      { 13, "reset" },
                      { 14, NULL },
                      { 15, "http://a/metrics: gone" },
                      { 16, "its process has ended" } };
        struct sample_run *s = begin_engines();
        struct infp_report report;
        const struct infp_report_engine *e;
        char *shown;

        (void) state;
        put_engine(s, 7, 0, "http://a/metrics", "vllm", "org/tiny");
        for (unsigned i = 0; i < INFP_COUNT(pages); i++)
                put_scrape(s, pages[i].t_s * S, 7, pages[i].reason, 0);
        sample_tick(s, 1, 10 * S);
        finish(s, "run", 17 * S);
        make(s, NULL, NULL, 0, &report);
        e = &report.engines.list[0];
        assert_int_equal(e->n_ok, 2);
        assert_int_equal(e->n_failed, 5);
        assert_int_equal(e->n_failed_before, 1);
        assert_int_equal(e->n_failed_between, 2);
        assert_int_equal(e->n_failed_after, 2);
        assert_near(e->down_between_s, 2);
        assert_string_equal(e->reason_between, "reset");
        shown = text_of(&report, 140);
        assert_non_null(strstr(
                shown, "  scrapes     2 ok; 2 failed between them (2.00 s in total), the last: reset; 1 failed "));
        assert_non_null(strstr(shown, "before the first success (server "));
        assert_non_null(strstr(shown, "failed after the last success (its process has ended)\n"));
        free(shown);
        infp_report_done(&report);
        make(s, "+2s", NULL, 0, &report);
        e = &report.engines.list[0];
        assert_int_equal(e->n_failed_before, 0);
        assert_int_equal(e->n_failed_between, 2);
        assert_int_equal(e->n_failed_after, 2);
        infp_report_done(&report);
        sample_free(s);
}

/* Of a model that is a path the last part is shown. */
static void titles(void **state)
{
        static const char *const models[][2] = {
                { ".deps/models/gemma-3-270m-q4_k_m.gguf", "gemma-3-270m-q4_k_m.gguf" },
                { "models/x.gguf", "x.gguf" },
                { "/data/llama/", "llama" },
                { "Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B" },
                { "x.gguf", "x.gguf" },
                { "/root/.cache/hub/models--meta-llama--Llama-3/snapshots/0123abcd", "meta-llama/Llama-3" },
                { "/", "/" },
                { "snapshots/", "snapshots" },
                { "/c/models--gpt2/snapshots/01", "gpt2" },
        };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(models); i++) {
                struct sample_run *s = begin_engines();
                struct infp_report report;
                char *shown, line[128];

                put_engine(s, 7, 0, "http://a/metrics", "llamacpp", models[i][0]);
                put_scrape(s, 11 * S, 7, NULL, 0);
                sample_tick(s, 1, 10 * S);
                finish(s, "run", 12 * S);
                make(s, NULL, NULL, 0, &report);
                shown = text_of(&report, 80);
                snprintf(line, sizeof(line), "\nEngine llama.cpp 1.0, %s\n", models[i][1]);
                if (!strstr(shown, line))
                        fail_msg("no line %s in\n%s", line, shown);
                free(shown);
                infp_report_done(&report);
                sample_free(s);
        }
}

/* Whatever the collector may store has a name for people. */
static void names_of_makes(void **state)
{
        (void) state;
        for (unsigned i = 0; i < INFP_ENGINE_N; i++) {
                const char *make = infp_engine_makes[i].name;

                if (i != INFP_ENGINE_UNKNOWN)
                        assert_string_not_equal(infp_report_make_name(make), make);
        }
        assert_string_equal(infp_report_make_name("vllm"), "vLLM");
        assert_string_equal(infp_report_make_name("another"), "another");
}

/* Nothing about engines when there are none. */
static void none(void **state)
{
        struct sample_run *s = begin();
        struct infp_report report;
        char *shown;

        (void) state;
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        sample_tick(s, 1, 10 * S);
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.engines.n, 0);
        shown = text_of(&report, 100);
        assert_null(strstr(shown, "Engine"));
        free(shown);
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(figures),        cmocka_unit_test(a_part),   cmocka_unit_test(text),
                cmocka_unit_test(json),           cmocka_unit_test(others),   cmocka_unit_test(none),
                cmocka_unit_test(falls),          cmocka_unit_test(failures), cmocka_unit_test(titles),
                cmocka_unit_test(names_of_makes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
