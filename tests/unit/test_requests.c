/* Requests summed up: from rows and from a run on disk, with answers computed by hand. */
#include "report_sample.h"

#include "view/report/report.h"

enum { MS = 1000000 };

struct sample {
        uint64_t t_ns;
        const char *failure, *load;
        int64_t send_ms, first_ms, last_ms, end_ms, prompt, output, pieces, gap_max_ms;
        const char *gaps;
};

/* 1: 5 tokens in 5 pieces, gaps 10 10 10 10. 2: 3 tokens, gaps 20 60; sent 15 ms late. 3: one token. 4: no usage, one piece.
 * Then three that failed and one that the load's end cut off. */
static const struct sample samples[] = {
        { 10 * S, NULL, "a", 1, 50, 90, 100, 20, 5, 5, 10, "[[0.01024,4]]" },
        { 11 * S, NULL, "a", 15, 100, 180, 200, 30, 3, 3, 60, "[[0.02048,1],[0.06144,1]]" },
        { 12 * S, NULL, "b", 0, 70, 70, 300, 10, 1, 1, -1, NULL },
        { 12 * S, NULL, "b", 2, 80, 80, 400, -1, -1, 1, -1, NULL },
        { 13 * S, "http 503", "b", 1, -1, -1, 5, -1, -1, -1, -1, NULL },
        { 13 * S, "http 503", "b", 1, -1, -1, 5, -1, -1, -1, -1, NULL },
        { 13 * S, "timeout", "b", 1, 500, 600, 2000, -1, -1, 4, 50, "[[0.05,3]]" },
        { 14 * S, "cut off", "b", -1, -1, -1, 1000, -1, -1, -1, -1, NULL },
};

static void put_i64(struct infp_row *row, unsigned cell, int64_t v, int64_t scale)
{
        if (v >= 0)
                infp_row_i64(row, cell, v * scale);
}

static void fill(struct infp_row *row, const struct sample *one)
{
        infp_row_str(row, INFP_REQUESTS_SOURCE, "load");
        infp_row_str(row, INFP_REQUESTS_LOAD, one->load);
        infp_row_bool(row, INFP_REQUESTS_OK, !one->failure);
        if (one->failure) {
                infp_row_str(row, INFP_REQUESTS_FAILURE, one->failure);
                infp_row_str(row, INFP_REQUESTS_ERROR, "a sentence");
        } else
                infp_row_str(row, INFP_REQUESTS_FINISH, one->output == 3 ? "length" : "stop");
        put_i64(row, INFP_REQUESTS_SEND_NS, one->send_ms, MS);
        put_i64(row, INFP_REQUESTS_FIRST_NS, one->first_ms, MS);
        put_i64(row, INFP_REQUESTS_LAST_NS, one->last_ms, MS);
        put_i64(row, INFP_REQUESTS_END_NS, one->end_ms, MS);
        put_i64(row, INFP_REQUESTS_PROMPT_TOKENS, one->prompt, 1);
        put_i64(row, INFP_REQUESTS_OUTPUT_TOKENS, one->output, 1);
        put_i64(row, INFP_REQUESTS_CHUNKS, one->pieces, 1);
        put_i64(row, INFP_REQUESTS_GAP_MAX_NS, one->gap_max_ms, MS);
        if (one->gaps)
                infp_row_str(row, INFP_REQUESTS_GAPS, one->gaps);
}

static double at(struct infp_samples *s, double q)
{
        struct infp_quantile ret;

        assert_true(infp_samples_quantile(s, q, &ret));
        return ret.estimate;
}

static void check(struct infp_requests *r)
{
        struct infp_quantile itl;

        assert_int_equal(r->n, 8);
        assert_int_equal(r->n_ok, 4);
        assert_int_equal(r->n_failed, 3);
        assert_int_equal(r->n_counted, 3);
        assert_int_equal(r->prompt_tokens, 60);
        assert_int_equal(r->output_tokens, 9);
        assert_int_equal(r->n_late, 1);
        assert_near(infp_requests_duration_s(r), 5); /* 10 s to 15 s, the end of what timed out or was cut off */
        /* 50 70 80 100 ms: the median between the middle two, p90 at rank 2.7 */
        assert_near(at(&r->ttft, 0.5), 0.075);
        assert_near(at(&r->ttft, 0.9), 0.094);
        assert_near(infp_stat_mean(&r->ttft.stat) / 1e9, 0.075);
        /* (90 - 50) / 4 and (180 - 100) / 2; one token has none, nor has an unknown number */
        assert_int_equal(r->tpot.stat.n, 2);
        assert_near(at(&r->tpot, 0), 0.010);
        assert_near(at(&r->tpot, 1), 0.040);
        assert_near(at(&r->e2e, 1), 0.4);
        /* 10 10 10 10 20 60: those of the request that timed out are not in it */
        assert_int_equal(r->gaps.n, 6);
        assert_near(infp_requests_itl_mean_s(r), 0.020);
        assert_true(infp_requests_itl(r, 0.5, &itl));
        assert_true(itl.low < 0.010 && itl.high >= 0.010 && itl.high - itl.low <= itl.low / 8 + 1e-12);
        assert_true(infp_requests_itl(r, 1, &itl));
        assert_near(itl.high, 0.060); /* the largest is known */
        assert_true(infp_requests_itl_std_s(r) > 0.017 && infp_requests_itl_std_s(r) < 0.020);
        assert_int_equal(r->n_failures, 3);
        assert_string_equal(r->failures[0].name, "http 503");
        assert_int_equal(r->failures[0].n, 2);
        assert_string_equal(r->failures[0].example, "a sentence");
        assert_string_equal(r->failures[2].name, "cut off");
        assert_int_equal(r->n_finishes, 2);
        assert_int_equal(r->finishes[0].n, 3);
        assert_int_equal(r->n_loads, 2);
        assert_int_equal(r->loads[0].output_tokens, 8);
        assert_int_equal(r->loads[1].n, 6);
        assert_true(infp_requests_load_itl(&r->loads[0], 1, &itl));
        assert_near(itl.high, 0.060);
        assert_true(itl.estimate <= itl.high);
        assert_false(infp_requests_load_itl(&r->loads[1], 1, &itl));
}

static void from_rows(void **state)
{
        static char text[4096];
        static struct infp_row row = { .text = text, .text_cap = sizeof(text) };
        struct infp_requests *r = calloc(1, sizeof(*r));

        (void) state;
        assert_true(isnan(infp_requests_duration_s(r)));
        assert_true(isnan(infp_requests_itl_mean_s(r)) && isnan(infp_requests_itl_std_s(r)));
        r->goals = (struct infp_requests_goals){ .ttft_ns = 75 * MS, .tpot_ns = 50 * MS };
        for (size_t i = 0; i < INFP_COUNT(samples); i++) {
                infp_row_begin(&row, &infp_table_requests, samples[i].t_ns);
                fill(&row, &samples[i]);
                infp_requests_add_row(r, &row);
        }
        check(r);
        assert_int_equal(r->n_good, 2); /* the first; the single token; not the unknown one */
        infp_requests_done(r);
        free(r);
}

static struct sample_run *make_run(void)
{
        const struct infp_table *const tables[] = { &infp_table_requests, &infp_table_ticks, NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        for (size_t i = 0; i < INFP_COUNT(samples); i++) {
                fill(sample_row(s, &infp_table_requests, samples[i].t_ns), &samples[i]);
                sample_put(s);
        }
        finish(s, "load", 20 * S);
        return s;
}

static void from_a_run(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;
        char *text;

        (void) state;
        make(s, NULL, NULL, 0, &report);
        assert_non_null(report.requests);
        check(report.requests);
        infp_report_done(&report);
        /* The last two seconds begin at 18 s: nobody arrived there; the first 1.5 s hold two. */
        make(s, "-2s", NULL, 0, &report);
        assert_null(report.requests);
        infp_report_done(&report);
        make(s, NULL, "+1.5s", 0, &report);
        assert_int_equal(report.requests->n, 2);
        text = text_of(&report, 100);
        assert_non_null(strstr(text, "the requests that were due in it"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

static void how_it_looks(void **state)
{
        struct sample_run *s = make_run();
        struct infp_report report;
        struct infp_out out;
        char *text;

        (void) state;
        make(s, NULL, NULL, 0, &report);
        text = text_of(&report, 100);
        assert_non_null(strstr(text, "Requests (client-side)"));
        assert_non_null(strstr(text, "4 of 8 ok in 5.00 s (0.800/s), 3 failed, 1 cut off by the end of the load"));
        assert_non_null(strstr(text, "2 x http 503, such as: a sentence"));
        assert_non_null(strstr(text, "1 of 8 requests were sent more than 10 ms late"));
        assert_non_null(strstr(text, "9 out, 1.80/s; 60 in"));
        assert_non_null(strstr(text, "TTFT "));
        assert_non_null(strstr(text, "by load"));
        assert_null(strstr(text, "were due in it"));
        assert_null(strstr(text, "not measured")); /* of the machine nothing was to be measured */
        free(text);
        infp_out_init(&out, -1, "nowhere");
        infp_report_json(&out, &report);
        assert_non_null(strstr(out.text.data, "\"completed\": 4"));
        assert_non_null(strstr(out.text.data, "\"median_ttft_ms\": 75"));
        assert_non_null(strstr(out.text.data, "\"mean_tpot_ms\": 25"));
        assert_non_null(strstr(out.text.data, "\"request_goodput\": null"));
        assert_non_null(strstr(out.text.data, "\"total_cached_tokens\": null"));
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* Beyond the bound: the same answers, within a bucket. */
static void many_samples(void **state)
{
        struct infp_samples *s = calloc(1, sizeof(*s));
        struct infp_quantile ret;
        const uint64_t n = 2 * INFP_SAMPLES_MAX;

        (void) state;
        assert_false(infp_samples_quantile(s, 0.5, &ret));
        for (uint64_t i = 1; i <= n; i++)
                infp_samples_add(s, i * 1000);
        assert_true(s->is_coarse && !s->values);
        assert_true(infp_samples_quantile(s, 0.5, &ret));
        assert_true(ret.low <= (double) n / 2 / 1e6 && ret.high >= (double) n / 2 / 1e6 && ret.high <= ret.low * 1.126);
        assert_near(infp_stat_mean(&s->stat), (double) (n + 1) * 500);
        infp_samples_done(s);
        for (uint64_t i = 4; i >= 1; i--)
                infp_samples_add(s, i);
        assert_true(infp_samples_quantile(s, 0.5, &ret) && fabs(ret.estimate - 2.5e-9) < 1e-15);
        assert_true(infp_samples_quantile(s, 0, &ret) && fabs(ret.estimate - 1e-9) < 1e-15);
        assert_true(infp_samples_quantile(s, 1, &ret) && fabs(ret.estimate - 4e-9) < 1e-15);
        assert_false(infp_samples_quantile(s, 1.01, &ret));
        infp_samples_done(s);
        free(s);
}

/* Hundreds of kinds of failure and loads: bounded, and all are counted. */
static void kinds_are_bounded(void **state)
{
        static char text[4096];
        static struct infp_row row = { .text = text, .text_cap = sizeof(text) };
        struct infp_requests *r = calloc(1, sizeof(*r));
        uint64_t sum = 0;

        (void) state;
        for (unsigned i = 0; i < 300; i++) {
                char name[32];

                snprintf(name, sizeof(name), "kind %u", i);
                infp_row_begin(&row, &infp_table_requests, 5 * S);
                infp_row_bool(&row, INFP_REQUESTS_OK, false);
                infp_row_str(&row, INFP_REQUESTS_LOAD, name);
                infp_row_str(&row, INFP_REQUESTS_FAILURE, name);
                infp_requests_add_row(r, &row);
        }
        assert_int_equal(r->n_failures, INFP_REQUESTS_KINDS);
        assert_string_equal(r->failures[INFP_REQUESTS_KINDS - 1].name, "others");
        for (unsigned i = 0; i < r->n_failures; i++)
                sum += r->failures[i].n;
        assert_int_equal(sum, 300);
        assert_int_equal(r->n_loads, INFP_REQUESTS_LOADS);
        infp_row_begin(&row, &infp_table_requests, 5 * S);
        infp_row_bool(&row, INFP_REQUESTS_OK, true);
        infp_row_str(&row, INFP_REQUESTS_GAPS, "[[oops");
        infp_requests_add_row(r, &row);
        assert_int_equal(r->n_broken, 1);
        infp_requests_done(r);
        free(r);
}

/* As anybody may send them by the socket. */
static void hostile_times(void **state)
{
        struct infp_requests *requests = calloc(1, sizeof(*requests));
        struct infp_row row = { .text = malloc(INFP_ROW_TEXT), .text_cap = INFP_ROW_TEXT };

        (void) state;
        infp_row_begin(&row, &infp_table_requests, 1);
        infp_row_bool(&row, INFP_REQUESTS_OK, true);
        infp_row_i64(&row, INFP_REQUESTS_FIRST_NS, INT64_MIN);
        infp_row_i64(&row, INFP_REQUESTS_LAST_NS, INT64_MAX);
        infp_row_str(&row, INFP_REQUESTS_GAPS, "[[0.001,1]]");
        infp_requests_add_row(requests, &row);
        assert_int_equal(requests->gaps.n, 1);
        assert_near(requests->gap_sum_s, 0);
        infp_requests_done(requests);
        free(requests);
        free(row.text);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(from_rows),         cmocka_unit_test(from_a_run),
                                            cmocka_unit_test(how_it_looks),      cmocka_unit_test(many_samples),
                                            cmocka_unit_test(kinds_are_bounded), cmocka_unit_test(hostile_times) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
