/* Pages of engines become rows: series, changed values, the `vllm` row, findings. Without HTTP. */
#include "machine.h"

#include <fcntl.h>
#include <math.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "collectors/engine/parts.h"
#include "collectors/engine/tables.h"
#include "collectors/engine/vllm.h"

static const char url[] = "http://127.0.0.1:8000/metrics";

/* An engine on a machine that keeps its rows. */
struct world {
        struct machine *m;
        struct engines all;
        struct engine *engine;
        struct infp_err err;
        struct infp_prom_page page;
};

static void begin(struct world *w)
{
        memset(w, 0, sizeof(*w));
        w->m = machine_open(fixture("vm"));
        w->all.parser = infp_promtext_new();
        w->all.env = &w->m->env;
        w->all.emit = &w->m->emit;
        assert_int_equal(infp_engine_new(&w->all, url, ENGINE_NAMED, &w->engine, &w->err), 0);
}

static void end(struct world *w)
{
        infp_engine_free(w->engine);
        infp_promtext_free(w->all.parser);
        machine_close(w->m);
}

static int give_bytes(struct world *w, const char *body, size_t size, const char *type)
{
        int r;

        w->m->clock_ns += 1000000000;
        w->engine->t_ns = w->engine->asked_t_ns = w->m->clock_ns;
        w->m->emit.t_ns = w->m->clock_ns;
        r = infp_engine_page(w->engine, body, size, type, &w->page, &w->err);
        if (r >= 0)
                infp_engine_end_of_page(w->engine);
        return r;
}

static int give(struct world *w, const char *body)
{
        return give_bytes(w, body, strlen(body), "text/plain");
}

static int give_file(struct world *w, const char *path)
{
        infp_autofree char *body = NULL;
        ssize_t size;
        int directory = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

        size = infp_read_all_at(directory, path, 1 << 24, &body);
        infp_close(directory);
        if (size < 0)
                fail_msg("%s cannot be read", path);
        return give_bytes(w, body, (size_t) size, "text/plain");
}

static uint64_t series_id(const struct world *w, const char *name, const char *labels)
{
        char text[1024];

        for (size_t i = w->m->n; i-- > 0;) {
                const struct kept *k = &w->m->rows[i];

                if (k->table == &infp_table_series &&
                    !strcmp(kept_text(k, INFP_SERIES_NAME, text, sizeof(text)), name) &&
                    (!labels || !strcmp(kept_text(k, INFP_SERIES_LABELS, text, sizeof(text)), labels)))
                        return k->cell[INFP_SERIES_ID].u64;
        }
        fail_msg("no series %s %s", name, labels ? labels : "");
        return 0;
}

/* Number of rows of the series; the last value, NAN: null. */
static unsigned values(const struct world *w, uint64_t id, double *ret)
{
        unsigned n = 0;

        for (size_t i = 0; i < w->m->n; i++) {
                const struct kept *k = &w->m->rows[i];

                if (k->table != &infp_table_engine_samples || k->cell[INFP_SAMPLES_SERIES].u64 != id)
                        continue;
                *ret = kept_has(k, INFP_SAMPLES_VALUE) ? k->cell[INFP_SAMPLES_VALUE].f64 : (double) NAN;
                n++;
        }
        return n;
}

static void only_changes_are_written(void **state)
{
        struct world w;
        double value = 0;
        uint64_t id;

        (void) state;
        begin(&w);
        assert_int_equal(
                give(&w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 2\n"), 0);
        assert_int_equal(
                give(&w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 2\n"), 0);
        id = series_id(&w, "vllm:num_requests_running", "{\"engine\":\"0\"}");
        assert_int_equal(values(&w, id, &value), 1);
        assert_int_equal(give(&w, "vllm:num_requests_running{engine=\"0\"} 3\n"), 0);
        assert_int_equal(values(&w, id, &value), 2);
        assert_true(value == 3);
        assert_int_equal(machine_count(w.m, "series"), 1);
        assert_int_equal(machine_count(w.m, "vllm"), 3);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 3.0), TEXT("series", NULL, "type", "gauge"),
               TEXT("series", NULL, "metric", "system_requests_running"), ABSENT("series", NULL, "le"));
        /* Gone from the page: no value stands for ever. */
        assert_int_equal(give(&w, "vllm:num_requests_waiting{engine=\"0\"} 0\n"), 0);
        assert_int_equal(values(&w, id, &value), 3);
        assert_true(isnan(value));
        assert_int_equal(w.engine->series.n_used, 1);
        assert_int_equal(give(&w, "vllm:num_requests_waiting{engine=\"0\"} 0\n"), 0);
        assert_int_equal(values(&w, id, &value), 3);
        EXPECT(w.m, ABSENT("vllm", NULL, "system_requests_running"), F64("vllm", NULL, "system_requests_waiting", 0.0));
        end(&w);
}

/* ../shared/fixtures/reports/12: written out by hand in its case.md. */
static void not_a_number(void **state)
{
        const char *root = report_root("12-minus-nan-from-an-idle-engine");
        struct world w;
        char path[PATH_MAX + 16];
        double value = 0;

        (void) state;
        begin(&w);
        snprintf(path, sizeof(path), "%s/idle.prom", root);
        assert_int_equal(give_file(&w, path), 0);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 0.0),
               F64("vllm", NULL, "system_requests_waiting", 0.0), F64("vllm", NULL, "tokens_prompt_total", 0.0),
               F64("vllm", NULL, "tokens_generation_total", 0.0), F64("vllm", NULL, "latency_prefill_s_sum", 0.0),
               F64("vllm", NULL, "latency_decode_s_sum", 0.0));
        assert_int_equal(values(&w, series_id(&w, "llamacpp:n_busy_slots_per_decode", NULL), &value), 1);
        assert_true(isnan(value));
        assert_int_equal(values(&w, series_id(&w, "llamacpp:predicted_tokens_seconds", NULL), &value), 1);
        assert_true(isnan(value));
        assert_int_equal(values(&w, series_id(&w, "llamacpp:n_decode_total", NULL), &value), 1);
        assert_true(value == 0);
        assert_int_equal(give_file(&w, path), 0);
        assert_int_equal(values(&w, series_id(&w, "llamacpp:predicted_tokens_seconds", NULL), &value), 1);
        snprintf(path, sizeof(path), "%s/busy.prom", root);
        assert_int_equal(give_file(&w, path), 0);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 4.0),
               F64("vllm", NULL, "system_requests_waiting", 1.0), F64("vllm", NULL, "tokens_prompt_total", 1250.0),
               F64("vllm", NULL, "tokens_generation_total", 480.0), F64("vllm", NULL, "latency_prefill_s_sum", 2.5),
               F64("vllm", NULL, "latency_decode_s_sum", 9.75));
        assert_int_equal(values(&w, series_id(&w, "llamacpp:predicted_tokens_seconds", NULL), &value), 2);
        assert_true(value == 49.2308);
        assert_int_equal(w.engine->n_restarts, 0);
        end(&w);
}

/* ../shared/fixtures/reports/13. */
static void hostile_labels(void **state)
{
        static const struct {
                const char *name, *labels;
                double value;
        } cases[] = {
                { "vllm:num_requests_running", "{\"engine\":\"0\",\"model_name\":\"C:\\\\models\\\\qwen \\\"q4\\\"\"}",
                  4 },
                { "vllm:num_requests_running", "{\"engine\":\"1\",\"model_name\":\"a,b}c{d=\\\"e\\\" # 9\"}", 7 },
                { "vllm:num_requests_waiting", "{\"engine\":\"0\",\"model_name\":\"line\\none\"}", 2 },
                { "vllm:num_requests_waiting", "{\"engine\":\"1\",\"model_name\":\"\"}", 3 },
                { "vllm:generation_tokens_total", "{\"engine\":\"0\",\"model_name\":\"tab\\tand \\\\n stays\"}", 1500 },
                { "vllm:prompt_tokens_total", "{}", 600 },
        };
        const char *root = report_root("13-hostile-label-values");
        struct world w;
        char path[PATH_MAX + 16];

        (void) state;
        begin(&w);
        snprintf(path, sizeof(path), "%s/page.prom", root);
        assert_int_equal(give_file(&w, path), 0);
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                double value = 0;

                assert_int_equal(values(&w, series_id(&w, cases[i].name, cases[i].labels), &value), 1);
                assert_true(value == cases[i].value);
        }
        assert_int_equal(machine_count(w.m, "series"), 6);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 11.0),
               F64("vllm", NULL, "system_requests_waiting", 5.0), F64("vllm", NULL, "tokens_generation_total", 1500.0),
               F64("vllm", NULL, "tokens_prompt_total", 600.0));
        assert_int_equal(machine_count(w.m, "engine_stamps"), 1);
        for (size_t i = 0; i < w.m->n; i++) {
                const struct kept *k = &w.m->rows[i];

                if (k->table != &infp_table_engine_stamps)
                        continue;
                assert_true(k->cell[INFP_STAMPS_SERIES].u64 == series_id(&w, cases[0].name, cases[0].labels));
                assert_true(k->cell[INFP_STAMPS_SOURCE_TIME].i64 == INT64_C(1788000000123000000));
        }
        end(&w);
}

static void torn_pages(void **state)
{
        static const struct {
                const char *body, *type, *why;
        } cases[] = {
                { "vllm:num_requests_running 48\nvllm:num_requests_waiting 4", "text/plain", "truncated" },
                { "# TYPE vllm:x counter\nvllm:x_total 1\n", "application/openmetrics-text; version=1.0.0", "# EOF" },
                { "<html>\n<body>404</body>\n</html>\n", "text/plain", url },
                { "{\"detail\":\"Not Found\"}\n", "application/json", url },
                { "vllm:a 1\nx\ny\nz !\n", "text/plain", "3 lines are not samples" },
        };
        struct world w;

        (void) state;
        begin(&w);
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                if (give_bytes(&w, cases[i].body, strlen(cases[i].body), cases[i].type) != -EBADMSG ||
                    !strstr(w.err.text, cases[i].why))
                        fail_msg("%s: %s", cases[i].body, w.err.text);
        }
        assert_int_equal(w.m->n, 0);
        end(&w);
}

static void odd_pages(void **state)
{
        struct world w;
        double value = 0;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "vllm:num_requests_running 1\nbad line here !\nvllm:num_requests_waiting 2\n"), 0);
        assert_non_null(strstr(w.engine->odd, "1 lines are not samples"));
        assert_non_null(strstr(w.engine->odd, "line 2"));
        EXPECT(w.m, F64("vllm", NULL, "system_requests_waiting", 2.0));
        assert_int_equal(give(&w, "vllm:num_requests_running 1\nvllm:num_requests_running 5\n"), 0);
        assert_non_null(strstr(w.engine->odd, "twice"));
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 1.0));
        assert_int_equal(values(&w, series_id(&w, "vllm:num_requests_running", NULL), &value), 1);
        assert_int_equal(give(&w, ""), 0);
        assert_non_null(strstr(w.engine->odd, "no samples"));
        end(&w);
}

static void created_is_no_value(void **state)
{
        struct world w;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 5\n"
                                  "# TYPE vllm:prompt_tokens_created gauge\nvllm:prompt_tokens_created 1.8e9\n"),
                         0);
        assert_int_equal(machine_count(w.m, "series"), 1);
        assert_int_equal(machine_count(w.m, "engine_samples"), 1);
        end(&w);
}

#define TOKENS(n) "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total " #n "\n"
#define START(t) "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds " #t "\n"

static void restarts(void **state)
{
        struct world w;
        char reason[512];

        (void) state;
        begin(&w);
        /* Nobody says when it started: what falls began anew. */
        assert_int_equal(give(&w, TOKENS(100)), 0);
        assert_int_equal(give(&w, TOKENS(150)), 0);
        assert_int_equal(w.engine->n_restarts, 0);
        assert_int_equal(give(&w, TOKENS(10)), 0);
        assert_int_equal(w.engine->n_restarts, 1);
        assert_string_equal(machine_state(w.m, "engine_samples", NULL, NULL, 0), "");
        end(&w);

        begin(&w);
        assert_int_equal(give(&w, TOKENS(100) START(1000)), 0);
        /* A new start that had more to do than the old one. */
        assert_int_equal(give(&w, TOKENS(200) START(1060)), 0);
        assert_int_equal(w.engine->n_restarts, 1);
        /* It fell, and the server says that it was not started anew. */
        assert_int_equal(give(&w, TOKENS(50) START(1060)), 0);
        assert_int_equal(w.engine->n_restarts, 1);
        assert_string_equal(machine_state(w.m, "engine_samples", NULL, reason, sizeof(reason)), "broken");
        assert_non_null(strstr(reason, "vllm:generation_tokens_total fell from 200 to 50"));
        w.m->clock_ns += UINT64_C(61000000000);
        assert_int_equal(give(&w, TOKENS(60) START(1060)), 0);
        assert_string_equal(machine_state(w.m, "engine_samples", NULL, reason, sizeof(reason)), "ok");
        end(&w);
}

static void cannot_be(void **state)
{
        static const char command[] = "vllm\0serve\0m\0--max-num-seqs\0"
                                      "4";
        struct world w;
        char reason[512];

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "vllm:num_requests_running 5\nvllm:kv_cache_usage_perc 1.5\n"), 0);
        infp_engine_about_command(&w.engine->about, command, sizeof(command));
        assert_int_equal(give(&w, "vllm:num_requests_running 5\nvllm:kv_cache_usage_perc 1.5\n"), 0);
        assert_string_equal(machine_state(w.m, "vllm", "system_requests_running", reason, sizeof(reason)), "broken");
        assert_non_null(strstr(reason, "(4)"));
        assert_string_equal(machine_state(w.m, "vllm", "cache_kv_usage_percent", reason, sizeof(reason)), "broken");
        assert_int_equal(give(&w, "vllm:num_requests_running 4\nvllm:kv_cache_usage_perc 1\n"), 0);
        assert_string_equal(machine_state(w.m, "vllm", "system_requests_running", reason, sizeof(reason)), "ok");
        assert_string_equal(machine_state(w.m, "vllm", "cache_kv_usage_percent", reason, sizeof(reason)), "ok");
        end(&w);
}

/* A field with no number has one word for it, at each page the same: not "broken", then "ok". */
static void not_finite_is_said_once(void **state)
{
        struct world w;
        char reason[512];
        size_t n;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc +Inf\n"), 0);
        n = machine_count(w.m, "sources");
        assert_int_equal(give(&w, "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc +Inf\n"), 0);
        assert_int_equal(machine_count(w.m, "sources"), n);
        assert_string_equal(machine_state(w.m, "vllm", "system_requests_running", reason, sizeof(reason)), "broken");
        assert_non_null(strstr(reason, "not a finite number"));
        assert_string_equal(machine_state(w.m, "vllm", "cache_kv_usage_percent", reason, sizeof(reason)), "broken");
        assert_int_equal(give(&w, "vllm:num_requests_running 4\nvllm:kv_cache_usage_perc 1\n"), 0);
        assert_string_equal(machine_state(w.m, "vllm", "system_requests_running", reason, sizeof(reason)), "ok");
        end(&w);
}

static void too_many_series(void **state)
{
        infp_autostr struct infp_str page = { 0 };
        struct world w;
        char reason[512];

        (void) state;
        begin(&w);
        for (unsigned i = 0; i < 30000; i++)
                infp_str_printf(&page, "alien{n=\"%u\"} 1\n", i);
        infp_str_puts(&page, "vllm:num_requests_running 3\n");
        assert_int_equal(give_bytes(&w, page.data, page.size, ""), 0);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 3.0));
        assert_int_equal(machine_count(w.m, "series"), 1);
        assert_string_equal(machine_state(w.m, "series", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "20000"));
        assert_int_equal(w.engine->n_left_out, 30000);
        end(&w);
}

static void pages_of_ray(void **state)
{
        struct world w;
        char reason[512];

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "ray_node_cpu_utilization{a=\"1\"} 5\nray_gcs_actors_count 7\n"
                                  "ray_serve_num_ongoing_http_requests{node_id=\"a,(b)\"} 2\n"),
                         0);
        assert_int_equal(w.engine->about.make, INFP_ENGINE_RAY_SERVE);
        assert_int_equal(machine_count(w.m, "series"), 1);
        assert_string_equal(machine_state(w.m, "series", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "Ray's core"));
        end(&w);

        /* An engine within it is what the page is about, however much Ray says. */
        begin(&w);
        assert_int_equal(give(&w, "ray_node_cpu_utilization 5\nray_serve_num_ongoing_http_requests 2\n"
                                  "ray_serve_num_http_requests_total 9\nray_vllm_num_requests_running 4\n"),
                         0);
        assert_int_equal(w.engine->about.make, INFP_ENGINE_VLLM);
        assert_int_equal(machine_count(w.m, "series"), 3);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 4.0));
        end(&w);
}

/* A full ring: what found no room is written with the next page, and nothing twice. */
static void full_ring(void **state)
{
        struct world w;
        double value = 0;

        (void) state;
        begin(&w);
        w.m->is_full = true;
        assert_int_equal(give(&w, TOKENS(7)), 0);
        assert_int_equal(w.m->n, 0);
        w.m->is_full = false;
        assert_int_equal(give(&w, TOKENS(7)), 0);
        assert_int_equal(machine_count(w.m, "series"), 1);
        assert_int_equal(values(&w, series_id(&w, "vllm:generation_tokens_total", NULL), &value), 1);
        assert_true(value == 7);
        end(&w);
}

static void another_make_at_the_address(void **state)
{
        struct world w;
        double value = 0;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "vllm:num_requests_running 3\n"), 0);
        assert_int_equal(give(&w, "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 1\n"), 0);
        assert_int_equal(w.engine->about.make, INFP_ENGINE_LLAMACPP);
        EXPECT(w.m, F64("vllm", NULL, "system_requests_running", 1.0));
        assert_int_equal(values(&w, series_id(&w, "vllm:num_requests_running", NULL), &value), 2);
        assert_true(isnan(value));
        end(&w);
}

static void empty_page_is_nobody_else_s(void **state)
{
        struct world w;
        double value = 0;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "vllm:num_requests_running 3\n"), 0);
        assert_int_equal(give(&w, ""), 0);
        assert_int_equal(w.engine->about.make, INFP_ENGINE_VLLM);
        EXPECT(w.m, ABSENT("vllm", NULL, "system_requests_running"));
        assert_int_equal(values(&w, series_id(&w, "vllm:num_requests_running", NULL), &value), 2);
        assert_true(isnan(value));
        end(&w);
}

static void ids_are_those_of_the_contents(void **state)
{
        struct world w;
        double value = 0;
        uint64_t id;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "# TYPE vllm:x histogram\nvllm:x_bucket{a=\"1\",b=\"2\",le=\"1\"} 1\n"
                                  "vllm:x_bucket{a=\"1\",b=\"2\",le=\"+Inf\"} 1\n"),
                         0);
        assert_int_equal(machine_count(w.m, "series"), 2);
        EXPECT(w.m, ABSENT("series", NULL, "le"), TEXT("series", NULL, "part", "bucket"),
               TEXT("series", NULL, "family", "vllm:x"), TEXT("series", NULL, "labels", "{\"a\":\"1\",\"b\":\"2\"}"));
        id = w.m->rows[0].cell[INFP_SERIES_ID].u64;
        assert_ptr_equal(w.m->rows[0].table, &infp_table_series);
        /* Labels in another order, the edge in another spelling. */
        assert_int_equal(give(&w, "# TYPE vllm:x histogram\nvllm:x_bucket{b=\"2\",le=\"1.0\",a=\"1\"} 1\n"), 0);
        assert_int_equal(machine_count(w.m, "series"), 2);
        assert_int_equal(values(&w, id, &value), 1);
        assert_true(value == 1);
        end(&w);
}

/* A server may write its labels in any order, at each page another (hash tables): it is the same series, and has a value. */
static void order_of_labels(void **state)
{
        struct world w;
        double value = 0;
        uint64_t id;

        (void) state;
        begin(&w);
        assert_int_equal(give(&w, "# TYPE vllm:x counter\nvllm:x_total{a=\"1\",b=\"2\"} 7\nvllm:x_total{a=\"2\"} 1\n"),
                         0);
        assert_int_equal(give(&w, "# TYPE vllm:x counter\nvllm:x_total{b=\"2\",a=\"1\"} 7\nvllm:x_total{a=\"2\"} 1\n"),
                         0);
        id = series_id(&w, "vllm:x_total", "{\"a\":\"1\",\"b\":\"2\"}");
        assert_int_equal(values(&w, id, &value), 1);
        assert_int_equal(machine_count(w.m, "series"), 2);
        assert_int_equal(w.engine->series.n_used, 2);
        assert_int_equal(give(&w, "# TYPE vllm:x counter\nvllm:x_total{a=\"1\",b=\"2\"} 9\nvllm:x_total{a=\"2\"} 1\n"),
                         0);
        assert_int_equal(values(&w, id, &value), 2);
        assert_true(value == 9);
        /* It is on the page in both orders: the first counts. */
        assert_int_equal(
                give(&w, "# TYPE vllm:x counter\nvllm:x_total{a=\"1\",b=\"2\"} 9\nvllm:x_total{b=\"2\",a=\"1\"} 8\n"),
                0);
        assert_int_equal(w.engine->n_twice, 1);
        assert_int_equal(values(&w, id, &value), 2);
        /* Fell, in another order. */
        assert_int_equal(give(&w, "# TYPE vllm:x counter\nvllm:x_total{b=\"2\",a=\"1\"} 3\n"), 0);
        assert_int_equal(w.engine->n_restarts, 1);
        end(&w);
}

#define REPLICA(id, n) \
        "vllm:generation_tokens_total{engine=\"" #id "\"} " #n "\nvllm:num_requests_running{engine=\"" #id "\"} 1\n"

/* A replica goes: what it had counted was done. Only a new start takes it back. */
static void replica_that_goes(void **state)
{
        static const char head[] = "# TYPE vllm:generation_tokens counter\n# TYPE vllm:num_requests_running gauge\n";
        static const struct {
                const char *body;
                double tokens, running; /* NAN: absent */
                unsigned restarts;
        } pages[] = {
                { REPLICA(0, 1000) REPLICA(1, 500), 1500, 2, 0 },
                { REPLICA(0, 1010), 1510, 1, 0 },
                { "vllm:num_requests_waiting 0\n", NAN, NAN, 0 }, /* nothing of it: absent, not what is remembered */
                { REPLICA(0, 1020), 1520, 1, 0 },
                { REPLICA(2, 7) REPLICA(0, 1030), 1537, 2, 0 },
                { REPLICA(2, 8) REPLICA(1, 510) REPLICA(0, 1030), 1548, 3, 0 }, /* it is back and goes on */
                { REPLICA(2, 8), 1548, 1, 0 },
                { REPLICA(2, 3), 3, 1, 1 }, /* anew */
                { REPLICA(0, 4) REPLICA(2, 3), 7, 2, 1 },
                { REPLICA(2, 3), 7, 1, 1 },
                { REPLICA(0, 1) REPLICA(2, 3), 4, 2, 2 }, /* anew: one that was away is back with less */
        };
        struct world w;

        (void) state;
        begin(&w);
        for (size_t i = 0; i < INFP_COUNT(pages); i++) {
                infp_autostr struct infp_str body = { 0 };
                const struct kept *row;

                infp_str_puts(&body, head);
                infp_str_puts(&body, pages[i].body);
                assert_int_equal(give(&w, body.data), 0);
                row = machine_need(w.m, "vllm", NULL);
                if (isnan(pages[i].tokens))
                        assert_false(kept_has(row, INFP_VLLM_GENERATION));
                else if (row->cell[INFP_VLLM_GENERATION].f64 != pages[i].tokens)
                        fail_msg("page %zu: %g", i, row->cell[INFP_VLLM_GENERATION].f64);
                assert_true(isnan(pages[i].running) ? !kept_has(row, INFP_VLLM_RUNNING)
                                                    : row->cell[INFP_VLLM_RUNNING].f64 == pages[i].running);
                assert_int_equal(w.engine->n_restarts, pages[i].restarts);
        }
        assert_int_equal(w.engine->series.n_kept, 0);
        end(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_changes_are_written),
                cmocka_unit_test(not_a_number),
                cmocka_unit_test(hostile_labels),
                cmocka_unit_test(torn_pages),
                cmocka_unit_test(odd_pages),
                cmocka_unit_test(created_is_no_value),
                cmocka_unit_test(restarts),
                cmocka_unit_test(cannot_be),
                cmocka_unit_test(not_finite_is_said_once),
                cmocka_unit_test(too_many_series),
                cmocka_unit_test(pages_of_ray),
                cmocka_unit_test(full_ring),
                cmocka_unit_test(another_make_at_the_address),
                cmocka_unit_test(empty_page_is_nobody_else_s),
                cmocka_unit_test(ids_are_those_of_the_contents),
                cmocka_unit_test(order_of_labels),
                cmocka_unit_test(replica_that_goes),
        };

        return cmocka_run_group_tests_name("engine_page", tests, NULL, NULL);
}
