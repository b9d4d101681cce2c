/* The `vllm` row of every captured page, and of pages made from documentation, against values that were written from the pages. */
#include "engine_page.h"

enum { EXPECTED_MAX = 2048 };

struct expected {
        char page[96], field[64];
        double value;
        bool is_used;
};

static struct expected expected[EXPECTED_MAX];
static size_t n_expected;

static void load(const char *name)
{
        size_t size;
        char *text = page_text(name, &size), *save = NULL;

        n_expected = 0;
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                struct expected *e = &expected[n_expected];

                if (*line == '#')
                        continue;
                assert_true(n_expected < EXPECTED_MAX);
                *e = (struct expected){ 0 };
                assert_int_equal(sscanf(line, "%95s %63s %lf", e->page, e->field, &e->value), 3);
                n_expected++;
        }
        free(text);
}

static struct expected *expected_of(const char *page, const char *field)
{
        for (size_t i = 0; i < n_expected; i++) {
                if (!strcmp(expected[i].page, page) && !strcmp(expected[i].field, field))
                        return &expected[i];
        }
        return NULL;
}

/* One scrape of a server that nobody saw before. */
static void read_page(struct machine *m, const char *page, struct infp_engine_fields *fields)
{
        size_t size;
        char *text = page_text(page, &size);
        enum infp_engine_make make = page_read(text, size, fields, NULL);

        assert_int_not_equal(make, INFP_ENGINE_UNKNOWN);
        infp_row_id(infp_emit_begin(&m->emit, &infp_table_vllm, m->clock_ns), INFP_VLLM_ENGINE, 1);
        infp_engine_fields_row(fields, make, "http://127.0.0.1:1/metrics", &m->emit);
        infp_emit_commit(&m->emit);
        free(text);
}

static void compare(const struct machine *m, const char *page)
{
        const struct kept *k = machine_need(m, "vllm", NULL);

        for (unsigned cell = INFP_VLLM_ENGINE + 1; cell < INFP_VLLM_N; cell++) {
                const char *field = infp_table_column(&infp_table_vllm, INFP_FIXED_COLUMNS + cell)->name;
                struct expected *e = expected_of(page, field);
                double v = k->cell[cell].f64;

                if (kept_has(k, cell) != (e != NULL))
                        fail_msg("%s: %s is %s", page, field, e ? "absent" : "there");
                if (!e)
                        continue;
                e->is_used = true;
                if (v - e->value > 1e-9 * e->value || e->value - v > 1e-9 * e->value)
                        fail_msg("%s: %s is %.17g, not %.17g", page, field, v, e->value);
        }
}

static void check_pages(const char *const *pages, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct machine *m = machine_open("/");
                struct infp_engine_fields *fields = calloc(1, sizeof(*fields));

                assert_non_null(fields);
                read_page(m, pages[i], fields);
                compare(m, pages[i]);
                free(fields);
                machine_close(m);
        }
        for (size_t i = 0; i < n_expected; i++) {
                if (!expected[i].is_used)
                        fail_msg("%s %s was not compared", expected[i].page, expected[i].field);
        }
}

static void captured_pages(void **state)
{
        static const char *const pages[] = {
                "vllm-0.32.0/metrics-idle.prom",
                "vllm-0.32.0/metrics-load.prom",
                "vllm-0.32.0/metrics-load2.prom",
                "vllm-0.32.0/metrics-after.prom",
                "vllm-0.32.0/metrics-prefix-load.prom",
                "vllm-0.32.0/metrics-prefix-after.prom",
                "vllm-0.32.0/metrics-smallkv-load.prom",
                "vllm-0.32.0/metrics-smallkv-load2.prom",
                "vllm-0.32.0/metrics-smallkv-after.prom",
                "llamacpp-b10434/metrics-idle.prom",
                "llamacpp-b10434/metrics-load.prom",
                "llamacpp-b10434/metrics-load2.prom",
                "llamacpp-b10434/metrics-after.prom",
                "llamacpp-b11434/metrics-idle.prom",
                "llamacpp-b11434/metrics-load.prom",
                "llamacpp-b11434/metrics-load2.prom",
                "llamacpp-b11434/metrics-after.prom",
                "ray-serve-2.60.0/metrics-idle.prom",
                "ray-serve-2.60.0/metrics-load.prom",
                "ray-serve-2.60.0/metrics-after.prom",
                "mlserver-1.7.1/metrics-idle.prom",
                "mlserver-1.7.1/metrics-load.prom",
                "mlserver-1.7.1/metrics-after.prom",
                "../reports/12-minus-nan-from-an-idle-engine/idle.prom",
                "../reports/12-minus-nan-from-an-idle-engine/busy.prom",
                "../reports/13-hostile-label-values/page.prom",
        };

        (void) state;
        load("expected.tsv");
        check_pages(pages, sizeof(pages) / sizeof(pages[0]));
}

static void made_pages(void **state)
{
        static const char *const pages[] = {
                "made/vllm-v0.prom",       "made/vllm-renamed.prom", "made/ray-vllm.prom",     "made/kserve-vllm.prom",
                "made/sglang.prom",        "made/tgi.prom",          "made/triton.prom",       "made/tensorrt_llm.prom",
                "made/dynamo-trtllm.prom", "made/lmdeploy.prom",     "made/llamacpp-old.prom",
        };

        (void) state;
        load("expected-made.tsv");
        check_pages(pages, sizeof(pages) / sizeof(pages[0]));
}

static void not_a_number_is_said(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_fields *fields = calloc(1, sizeof(*fields));
        char reason[4096];

        (void) state;
        read_page(m, "../reports/12-minus-nan-from-an-idle-engine/idle.prom", fields);
        assert_string_equal(machine_state(m, "vllm", "batch_size", reason, sizeof(reason)), "broken");
        assert_string_equal(reason, "the page has a value that is not a finite number");
        assert_string_equal(machine_state(m, "vllm", "tokens_prompt_total", NULL, 0), "");
        read_page(m, "../reports/12-minus-nan-from-an-idle-engine/busy.prom", fields);
        assert_string_equal(machine_state(m, "vllm", "batch_size", NULL, 0), "ok");
        free(fields);
        machine_close(m);
}

/* What cannot be is absent, and nothing else is. */
static void what_cannot_be_is_said(void **state)
{
        static const char pages[][128] = {
                "vllm:kv_cache_usage_perc 1.7\nvllm:num_requests_running 3\nvllm:num_requests_waiting -1\n",
                "vllm:kv_cache_usage_perc 1\nvllm:num_requests_running 3\nvllm:num_requests_waiting 0\n",
        };
        struct machine *m = machine_open("/");
        struct infp_engine_fields *fields = calloc(1, sizeof(*fields));
        char reason[4096];

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                struct infp_row *row = infp_emit_begin(&m->emit, &infp_table_vllm, m->clock_ns += 1000000000);

                infp_engine_fields_begin(fields);
                infp_engine_fields_row(fields, page_read(pages[i], strlen(pages[i]), fields, NULL), "e", &m->emit);
                assert_int_equal(infp_row_has(row, INFP_VLLM_KV_USAGE), i == 1);
                assert_int_equal(infp_row_has(row, INFP_VLLM_WAITING), i == 1);
                assert_true(infp_row_has(row, INFP_VLLM_RUNNING));
                infp_emit_commit(&m->emit);
                assert_string_equal(machine_state(m, "vllm", "cache_kv_usage_percent", reason, sizeof(reason)),
                                    i ? "ok" : "broken");
                assert_true(i || strstr(reason, "a share above 100 %"));
                assert_string_equal(machine_state(m, "vllm", "system_requests_waiting", reason, sizeof(reason)),
                                    i ? "ok" : "broken");
                assert_true(i || strstr(reason, "negative"));
        }
        free(fields);
        machine_close(m);
}

/* What a make never gives is said in one row, and only once. */
static void missing_columns_are_one_row(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_fields *fields = calloc(1, sizeof(*fields));
        char reason[4096];
        size_t n;

        (void) state;
        read_page(m, "llamacpp-b10434/metrics-load.prom", fields);
        assert_int_equal(machine_count(m, "sources"), 1);
        assert_string_equal(machine_state(m, "vllm", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "this make never gives "));
        assert_non_null(strstr(reason, "latency_ttft_s_sum"));
        assert_non_null(strstr(reason, "not on this page, though other versions or settings give it: system_slots, "
                                       "cache_kv_usage_percent, cache_kv_tokens"));
        assert_null(strstr(reason, "tokens_prompt_total"));
        read_page(m, "llamacpp-b10434/metrics-load2.prom", fields);
        assert_int_equal(machine_count(m, "sources"), 1);
        free(fields);

        fields = calloc(1, sizeof(*fields));
        n = machine_count(m, "sources");
        read_page(m, "vllm-0.32.0/metrics-after.prom", fields);
        read_page(m, "vllm-0.32.0/metrics-after.prom", fields);
        assert_int_equal(machine_count(m, "sources"), n + 2); /* aborted, and all the rest */
        assert_string_equal(machine_state(m, "vllm", "requests_aborted_total", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "does not count clients that disconnect"));
        free(fields);
        machine_close(m);
}

static double last(const struct machine *m, unsigned cell)
{
        const struct kept *k = machine_need(m, "vllm", NULL);

        assert_true(kept_has(k, cell));
        return k->cell[cell].f64;
}

static void scrape(struct machine *m, struct infp_engine_fields *fields, const char *page, const char *slots)
{
        struct infp_err err = { "" };
        enum infp_engine_make make = page_read(page, strlen(page), fields, NULL);

        if (slots && infp_engine_fields_slots(fields, slots, strlen(slots), &err) < 0)
                fail_msg("%s", err.text);
        infp_row_id(infp_emit_begin(&m->emit, &infp_table_vllm, m->clock_ns), INFP_VLLM_ENGINE, 1);
        infp_engine_fields_row(fields, make, "x", &m->emit);
        infp_emit_commit(&m->emit);
}

#define LLAMA(tokens, decodes, busy)                    \
        "llamacpp:tokens_predicted_total " #tokens "\n" \
        "llamacpp:n_decode_total " #decodes "\n"        \
        "llamacpp:n_busy_slots_per_decode " #busy "\n"
#define SLOT(id, task, n) \
        "{\"id\":" #id ",\"id_task\":" #task ",\"is_processing\":true,\"next_token\":[{\"n_decoded\":" #n "}]}"
#define IDLE(id) "{\"id\":" #id ",\"is_processing\":false}"

/* A request of 100 tokens on one slot, one of 40 whose client goes away at 20 on the other. */
static void live_tokens_with_slots(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_fields *f = calloc(1, sizeof(*f));

        (void) state;
        scrape(m, f, LLAMA(500, 1000, 1.5), "[" IDLE(0) "," IDLE(1) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 500);
        assert_true(last(m, INFP_VLLM_SLOTS) == 2);
        scrape(m, f, LLAMA(500, 1030, 1.5), "[" SLOT(0, 7, 30) "," SLOT(1, 8, 10) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 540);
        assert_true(last(m, INFP_VLLM_GENERATION) == 500);
        scrape(m, f, LLAMA(500, 1060, 1.5), "[" SLOT(0, 7, 60) "," SLOT(1, 8, 20) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 580);
        /* The second one's client left: what it had got stays counted. */
        scrape(m, f, LLAMA(500, 1090, 1.5), "[" SLOT(0, 7, 90) "," IDLE(1) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 610);
        /* The first one ends: its 100 tokens are on the page now, 90 of them were counted. That the 20 were not those of a
         * request that ended behind the last page cannot be known, so they are taken off what ends: too few, never a fall. */
        scrape(m, f, LLAMA(600, 1100, 1.5), "[" IDLE(0) "," IDLE(1) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 610);
        scrape(m, f, LLAMA(650, 1150, 1.5), "[" IDLE(0) "," IDLE(1) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 650);
        scrape(m, f, LLAMA(660, 1160, 1.5), "[" IDLE(0) "," IDLE(1) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 660);
        free(f);
        machine_close(m);
}

/* A request that ends between the page and /slots is in neither, and is not counted twice by the next page. */
static void live_tokens_end_in_between(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_fields *f = calloc(1, sizeof(*f));

        (void) state;
        scrape(m, f, LLAMA(0, 10, 1), "[" SLOT(0, 1, 8) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 8);
        scrape(m, f, LLAMA(0, 20, 1), "[" IDLE(0) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 8);
        scrape(m, f, LLAMA(12, 20, 1), "[" IDLE(0) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 12);
        /* A request that began and ended between two scrapes. */
        scrape(m, f, LLAMA(20, 30, 1), "[" SLOT(0, 3, 2) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 22);
        /* The same slot, another request; the one before ended with 9 tokens. */
        scrape(m, f, LLAMA(29, 40, 1), "[" SLOT(0, 4, 5) "]");
        assert_true(last(m, INFP_VLLM_LIVE) == 34);
        free(f);
        machine_close(m);
}

/* Without /slots: steps times busy slots. Six digits make the product seem to fall, which would read as a new start. */
static void live_tokens_by_steps(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_fields *f = calloc(1, sizeof(*f));

        (void) state;
        scrape(m, f, LLAMA(1900000, 1000000, 2), NULL);
        assert_true(last(m, INFP_VLLM_LIVE) == 1900000);
        assert_true(last(m, INFP_VLLM_SLOT_STEPS) == 2000000);
        scrape(m, f, LLAMA(1900000, 1000001, 1.99999), NULL); /* 1999991.99999 */
        assert_true(last(m, INFP_VLLM_SLOT_STEPS) == 2000000);
        assert_true(last(m, INFP_VLLM_LIVE) == 1900000);
        scrape(m, f, LLAMA(1900000, 1000010, 2), NULL);
        assert_true(last(m, INFP_VLLM_SLOT_STEPS) == 2000020);
        assert_true(last(m, INFP_VLLM_LIVE) == 1900020);
        /* A request ended with more than was estimated. */
        scrape(m, f, LLAMA(1900050, 1000010, 2), NULL);
        assert_true(last(m, INFP_VLLM_LIVE) == 1900050);
        /* The server began anew. */
        scrape(m, f, LLAMA(10, 20, 1), NULL);
        assert_true(last(m, INFP_VLLM_LIVE) == 10);
        assert_true(last(m, INFP_VLLM_SLOT_STEPS) == 20);
        free(f);
        machine_close(m);
}

static void slots_as_captured(void **state)
{
        static const struct {
                const char *page;
                unsigned n_busy;
                double decoded;
        } cases[] = {
                { "llamacpp-b10434/slots-idle.json", 0, 0 },
                { "llamacpp-b10434/slots-load.json", 4, 79 }, /* 20 + 19 + 20 + 20 */
                { "llamacpp-b10434/slots-after.json", 0, 0 },
        };
        struct infp_engine_fields *f = calloc(1, sizeof(*f));
        struct infp_err err = { "" };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t size;
                char *text = page_text(cases[i].page, &size);
                double sum = 0;

                assert_int_equal(infp_engine_fields_slots(f, text, size, &err), 0);
                assert_int_equal(f->live.n_slots, 4);
                assert_int_equal(f->live.n_busy, cases[i].n_busy);
                for (unsigned k = 0; k < f->live.n_busy; k++)
                        sum += f->live.busy[k].n_decoded;
                assert_true(sum == cases[i].decoded);
                free(text);
        }
        assert_int_equal(infp_engine_fields_slots(f, "{\"error\":1}", 11, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "/slots is not a JSON array"));
        assert_int_equal(infp_engine_fields_slots(f, "[{\"id\":0", 8, &err), -EBADMSG);
        assert_int_equal(infp_engine_fields_slots(f, "[[],1,null,{\"is_processing\":true}]", 34, &err), 0);
        assert_int_equal(f->live.n_busy, 1);
        free(f);
}

#define LMDEPLOY(running, tokens, finished)                            \
        "lmdeploy:num_requests_running{engine=\"0\"} " #running "\n"   \
        "lmdeploy:num_requests_waiting{engine=\"0\"} 0\n"              \
        "lmdeploy:generation_tokens_total{engine=\"0\"} " #tokens "\n" \
        "lmdeploy:request_generation_tokens_sum{engine=\"0\"} " #finished "\n"

static void lmdeploy_counts_twice(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_fields *f = calloc(1, sizeof(*f));

        (void) state;
        scrape(m, f, LMDEPLOY(2, 260, 100), NULL); /* 100 ended, 30 on their way, all twice */
        assert_true(last(m, INFP_VLLM_GENERATION) == 100);
        assert_string_equal(machine_state(m, "vllm", "tokens_generation_total", NULL, 0), "late");
        scrape(m, f, LMDEPLOY(0, 300, 150), NULL);
        assert_true(last(m, INFP_VLLM_GENERATION) == 150);
        assert_string_equal(machine_state(m, "vllm", "tokens_generation_total", NULL, 0), "broken");
        scrape(m, f, LMDEPLOY(1, 320, 150), NULL);
        assert_true(last(m, INFP_VLLM_GENERATION) == 160);
        assert_true(last(m, INFP_VLLM_LIVE) == 160);
        memset(f, 0, sizeof(*f));
        scrape(m, f, LMDEPLOY(0, 150, 150), NULL); /* a version that was mended */
        scrape(m, f, LMDEPLOY(3, 450, 150), NULL);
        assert_true(last(m, INFP_VLLM_GENERATION) == 450);
        free(f);
        machine_close(m);
}

/* Every line of every make: a name that could not be found, a cell of the wrong kind. */
static void lines_are_sound(void **state)
{
        (void) state;
        for (enum infp_engine_make make = INFP_ENGINE_VLLM; make < INFP_ENGINE_N; make++) {
                size_t n;
                const struct infp_engine_alias *lines = infp_engine_aliases(make, &n);

                assert_true(*infp_engine_makes[make].name);
                for (size_t i = 0; i < n; i++) {
                        const struct infp_engine_alias *line = &lines[i], *feeds[INFP_ENGINE_FEEDS];
                        struct infp_prom_label label = { { "", 0 }, { "", 0 } };
                        struct infp_prom_sample sample = { .name = { line->series, line->size },
                                                           .labels = &label,
                                                           .n_labels = line->label != NULL };
                        bool is_found = false;

                        if (line->label)
                                label = (struct infp_prom_label){ { line->label, strlen(line->label) },
                                                                  { line->value, strlen(line->value) } };
                        assert_int_equal(line->size, strlen(line->series));
                        assert_true(line->cell == -1 ? line->stem != NULL
                                                     : line->cell > INFP_VLLM_ENGINE && line->cell < INFP_VLLM_N);
                        for (size_t k = infp_engine_alias_find(make, &sample, feeds); k-- > 0;)
                                is_found |= feeds[k] == line;
                        if (!is_found)
                                fail_msg("%s feeds more than %d fields", line->series, INFP_ENGINE_FEEDS);
                        /* Several names of one field whose ranks are equal would be added up. */
                        for (size_t k = 0; k < i; k++) {
                                if (lines[k].cell == line->cell && lines[k].rank == line->rank)
                                        assert_int_equal(lines[k].join, line->join);
                        }
                }
        }
}

/* Only whole names: by prefix the first would be taken for the second. */
static void names_match_whole(void **state)
{
        static const char *const others[] = { "vllm:num_requests_running_by_reason", "vllm:num_requests_runnin",
                                              "vllm:num:requests_running", "vllm:num_requests_running_total",
                                              "x_vllm:num_requests_running" };
        const struct infp_engine_alias *feeds[INFP_ENGINE_FEEDS];

        (void) state;
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                struct infp_prom_sample sample = { .name = { others[i], strlen(others[i]) } };

                assert_int_equal(infp_engine_alias_find(INFP_ENGINE_VLLM, &sample, feeds), 0);
        }
}

static void series_name_their_metric(void **state)
{
        static const struct {
                enum infp_engine_make make;
                const char *name, *metric;
        } cases[] = {
                { INFP_ENGINE_VLLM, "vllm:time_to_first_token_seconds_bucket", "latency_ttft_s" },
                { INFP_ENGINE_VLLM, "vllm:time_per_output_token_seconds_bucket", "latency_inter_token_s" },
                { INFP_ENGINE_VLLM, "vllm:prompt_tokens_total", "tokens_prompt_total" },
                { INFP_ENGINE_VLLM, "vllm:iteration_tokens_total_count", "tokens_per_step" },
                { INFP_ENGINE_RAY_SERVE, "ray_serve_http_request_latency_ms_bucket", "latency_e2e_ms" },
                { INFP_ENGINE_SGLANG, "sglang:unknown", NULL },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_prom_sample sample = { .name = { cases[i].name, strlen(cases[i].name) } };
                const struct infp_engine_alias *feeds[INFP_ENGINE_FEEDS];
                const char *metric =
                        infp_engine_alias_metric(feeds, infp_engine_alias_find(cases[i].make, &sample, feeds));

                if (cases[i].metric)
                        assert_string_equal(metric, cases[i].metric);
                else
                        assert_null(metric);
        }
}

static void table_is_sound(void **state)
{
        struct infp_err err = { "" };

        (void) state;
        if (infp_table_check(&infp_table_vllm, &err) < 0)
                fail_msg("%s", err.text);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(table_is_sound),
                cmocka_unit_test(lines_are_sound),
                cmocka_unit_test(names_match_whole),
                cmocka_unit_test(series_name_their_metric),
                cmocka_unit_test(captured_pages),
                cmocka_unit_test(made_pages),
                cmocka_unit_test(not_a_number_is_said),
                cmocka_unit_test(what_cannot_be_is_said),
                cmocka_unit_test(missing_columns_are_one_row),
                cmocka_unit_test(live_tokens_with_slots),
                cmocka_unit_test(live_tokens_end_in_between),
                cmocka_unit_test(live_tokens_by_steps),
                cmocka_unit_test(slots_as_captured),
                cmocka_unit_test(lmdeploy_counts_twice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
