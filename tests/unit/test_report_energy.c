/* Joules of a range: borders between readings, parts and second views, the measured idle power, the split by CPU time, tokens.
 * Expected values were computed by hand from the powers that the rows are made of. */
#include "report_sample.h"

#include "analyze/figure.h"
#include "analyze/timeline/parts.h"
#include "analyze/timeline/timeline.h"

#include "collect/collector.h"
#include "collectors/energy/tables.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/tables.h"
#include "collectors/engine/vllm.h"
#include "model/baseline.h"

static const struct infp_table *cpu_table(void)
{
        return infp_table_by_name("cpu");
}

static struct sample_run *begin_run(void)
{
        const struct infp_table *const tables[] = {
                &tree_table,       cpu_table(),         &infp_table_energy,         &infp_table_energy_total,
                &infp_table_vllm,  &infp_table_engines, &infp_table_engine_scrapes, &infp_table_requests,
                &infp_table_marks, &infp_table_sources, &infp_table_ticks,          NULL
        };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

/* joules below 0: the counter has not moved yet. */
static void put_energy(struct sample_run *s, double t_s, const char *domain, double joules, bool is_counted,
                       const char *part_of)
{
        struct infp_row *row = sample_row(s, &infp_table_energy, (uint64_t) llround(t_s * 1e9));

        infp_row_str(row, ENERGY_DOMAIN, domain);
        infp_row_str(row, ENERGY_SOURCE, infp_energy_sources[ENERGY_POWERCAP]);
        infp_row_u64(row, ENERGY_RAW, joules > 0 ? (uint64_t) (joules * 1e6) : 0);
        if (joules >= 0)
                infp_row_f64(row, ENERGY_JOULES, joules);
        if (part_of)
                infp_row_str(row, ENERGY_PART_OF, part_of);
        infp_row_bool(row, ENERGY_IS_COUNTED, is_counted);
        infp_row_str(row, ENERGY_QUALITY, "measured");
        sample_put(s);
}

/* A reading that says how many seconds its joules cover. */
static void put_measured(struct sample_run *s, double t_s, const char *domain, double joules, double seconds)
{
        struct infp_row *row = sample_row(s, &infp_table_energy, (uint64_t) llround(t_s * 1e9));

        infp_row_str(row, ENERGY_DOMAIN, domain);
        infp_row_f64(row, ENERGY_MEASURED, seconds);
        if (joules >= 0)
                infp_row_f64(row, ENERGY_JOULES, joules);
        infp_row_bool(row, ENERGY_IS_COUNTED, true);
        infp_row_str(row, ENERGY_QUALITY, "estimated");
        sample_put(s);
}

static void put_total(struct sample_run *s, uint64_t t_s, double joules, double seconds)
{
        struct infp_row *row = sample_row(s, &infp_table_energy_total, t_s * S);

        infp_row_f64(row, ENERGY_TOTAL_JOULES, joules);
        infp_row_f64(row, ENERGY_TOTAL_MEASURED, seconds);
        sample_put(s);
}

static void put_mark(struct sample_run *s, uint64_t t_ns, const char *source, const char *tag)
{
        struct infp_row *row = sample_row(s, &infp_table_marks, t_ns);

        infp_row_str(row, INFP_MARKS_SOURCE, source);
        infp_row_str(row, INFP_MARKS_TAG, tag);
        sample_put(s);
}

/* Seconds of the machine in user mode and niced. */
static void put_cpu(struct sample_run *s, uint64_t t_ns, int64_t user_s, int64_t nice_s)
{
        const struct infp_table *table = cpu_table();
        struct infp_row *row = sample_row(s, table, t_ns);

        infp_row_i64(row, (unsigned) infp_table_find(table, "vCpuTime") - INFP_FIXED_COLUMNS, user_s * 100);
        infp_row_i64(row, (unsigned) infp_table_find(table, "vCpuNice") - INFP_FIXED_COLUMNS, nice_s * 100);
        sample_put(s);
}

static void put_page(struct sample_run *s, uint64_t t_ns, uint64_t engine, double generated, double prompt,
                     double finished)
{
        struct infp_row *row = sample_row(s, &infp_table_vllm, t_ns);

        infp_row_id(row, INFP_VLLM_ENGINE, engine);
        infp_row_f64(row, INFP_VLLM_GENERATION, generated);
        infp_row_f64(row, INFP_VLLM_PROMPT, prompt);
        infp_row_f64(row, INFP_VLLM_FINISHED, finished);
        sample_put(s);
        row = sample_row(s, &infp_table_engine_scrapes, t_ns);
        infp_row_id(row, INFP_SCRAPES_ENGINE, engine);
        infp_row_bool(row, INFP_SCRAPES_OK, true);
        sample_put(s);
}

static void put_request(struct sample_run *s, uint64_t t_ns, int64_t prompt, int64_t output)
{
        struct infp_row *row = sample_row(s, &infp_table_requests, t_ns);

        infp_row_str(row, INFP_REQUESTS_SOURCE, "load");
        infp_row_i64(row, INFP_REQUESTS_NUMBER, 0);
        infp_row_i64(row, INFP_REQUESTS_STATUS, 200);
        infp_row_bool(row, INFP_REQUESTS_OK, true);
        infp_row_i64(row, INFP_REQUESTS_SEND_NS, 0);
        infp_row_i64(row, INFP_REQUESTS_FIRST_NS, 1000000);
        infp_row_i64(row, INFP_REQUESTS_LAST_NS, 2000000);
        infp_row_i64(row, INFP_REQUESTS_END_NS, 3000000);
        infp_row_i64(row, INFP_REQUESTS_PROMPT_TOKENS, prompt);
        infp_row_i64(row, INFP_REQUESTS_OUTPUT_TOKENS, output);
        sample_put(s);
}

/* 10 to 14 s: the baseline, 10 W and 2 W; 14 to 20 s: 30 W and 3 W. The core is a part of the package, psys contains it. */
static struct sample_run *begin_command(void)
{
        struct sample_run *s = begin_run();

        put_mark(s, 10 * S, INFP_BASELINE_SOURCE, INFP_BASELINE_START);
        put_mark(s, 14 * S, INFP_BASELINE_SOURCE, INFP_BASELINE_END);
        put_mark(s, 16 * S, "mark", "half");
        for (int i = 0; i <= 10; i++) {
                const double busy = i > 4 ? i - 4 : 0, idle = i > 4 ? 4 : i;

                put_energy(s, 10 + i, "package-0", 10 * idle + 30 * busy, true, NULL);
                put_energy(s, 10 + i, "package-0/core", 1 * idle + 20 * busy, false, "package-0");
                put_energy(s, 10 + i, "dram-0", 2 * idle + 3 * busy, true, NULL);
                put_energy(s, 10 + i, "psys", 20 * idle + 50 * busy, false, NULL);
                put_cpu(s, (uint64_t) (10 + i) * S, 100 + (int64_t) busy / 2, 50 + (int64_t) busy - (int64_t) busy / 2);
                put_tree(s, (uint64_t) (10 + i) * S, 1, (int64_t) (busy * 0.5e9), 0, 0);
        }
        return s;
}

static const struct infp_energy_domain *domain(const struct infp_report *report, const char *name)
{
        for (unsigned i = 0; i < report->energy.n; i++)
                if (!strcmp(report->energy.list[i].name, name))
                        return &report->energy.list[i];
        fail_msg("no domain %s", name);
        return NULL;
}

static void test_idle_and_split(void **state)
{
        struct sample_run *s = begin_command();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;
        char *text;

        (void) state;
        finish(s, "run", 20 * S);
        make(s, NULL, NULL, 0, &report);
        /* The command began behind the baseline. */
        assert_near(report.wall_s, 6);
        assert_int_equal(e->n, 4);
        assert_near(e->joules, 6 * 33);
        assert_near(e->seconds, 6);
        assert_near(e->watts, 33);
        assert_near(domain(&report, "package-0/core")->joules, 120);
        assert_string_equal(domain(&report, "package-0/core")->part_of, "package-0");
        assert_near(domain(&report, "psys")->watts, 50);
        assert_near(domain(&report, "psys")->idle_watts, 20);
        assert_near(e->idle_watts, 12);
        assert_near(e->baseline_s, 4);
        assert_near(e->idle_joules, 72);
        assert_near(e->dynamic_joules, 126);
        /* The machine was busy for 6 CPU seconds, niced work included, the tree for 3. */
        assert_near(e->machine_cpu_s, 6);
        assert_near(e->tree_joules, 63);
        assert_near(e->others_joules, 63);
        assert_near(e->residual_joules, 0);
        assert_true(isnan(e->j_per_generated));
        text = text_of(&report, 120);
        assert_non_null(strstr(text, "198 J in 6.00 s: 33 W on average, by package-0, dram-0"));
        assert_non_null(strstr(text, "12 W, measured for 4.00 s before the command started: 72 J of it"));
        assert_non_null(strstr(text, "ESTIMATED by CPU time"));
        assert_non_null(strstr(text, "target 63 J, others 63 J, idle 72 J; residual 0 J"));
        free(text);
        infp_report_done(&report);
        /* Who names the baseline's marks means it. */
        make(s, INFP_BASELINE_START, INFP_BASELINE_END, 0, &report);
        assert_near(e->joules, 48);
        assert_near(e->dynamic_joules, 0);
        infp_report_done(&report);
        sample_free(s);
}

/* 3.5 s after the command's start to 0.25 s before the end: parts of two intervals. */
static void test_borders_take_their_part(void **state)
{
        struct sample_run *s = begin_command();
        struct infp_report report;

        (void) state;
        finish(s, "run", 20 * S);
        make(s, "+3.5s", "-250ms", 0, &report);
        assert_near(report.energy.seconds, 2.25 + 1e-9);
        assert_true(fabs(report.energy.joules - 33 * 2.25) < 1e-6);
        assert_true(report.energy.is_interpolated);
        infp_report_done(&report);
        make(s, "half", NULL, 0, &report);
        assert_near(report.energy.joules, 4 * 33);
        assert_false(report.energy.is_interpolated);
        infp_report_done(&report);
        sample_free(s);
}

static void test_joules_per_token(void **state)
{
        struct sample_run *s = begin_command();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;

        (void) state;
        for (int i = 3; i <= 10; i++) {
                const double busy = i > 4 ? i - 4 : 0;

                put_page(s, (uint64_t) (10 + i) * S, 1, 1000 + 50 * busy, 2000 + 100 * busy, 7 + busy);
                put_page(s, (uint64_t) (10 + i) * S, 2, 5 * busy, 10 * busy, 0);
        }
        put_request(s, 15 * S, 7, 9);
        finish(s, "run", 20 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(e->tokens.from, INFP_TOKENS_ENGINE);
        assert_int_equal(e->tokens.n_engines, 2);
        assert_near(e->tokens.generated, 330);
        assert_near(e->tokens.prompt, 660);
        assert_near(e->tokens.requests, 6);
        assert_near(e->j_per_generated, 198 / 330.0); /* idle power included */
        assert_near(e->j_per_token, 198 / 990.0);
        assert_near(e->j_per_request, 33);
        infp_report_done(&report);
        sample_free(s);
}

/* Two pages, at 15 and 17 s of 14 to 20 s: the joules of the other seconds made other tokens, which nobody counted. */
static void test_joules_of_the_time_between_pages(void **state)
{
        struct sample_run *s = begin_command();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;
        char *text;

        (void) state;
        put_page(s, 15 * S, 1, 1000, 2000, 7);
        put_page(s, 17 * S, 1, 1100, 2200, 9);
        finish(s, "run", 20 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(e->joules, 198);
        assert_near(e->tokens.joules, 66);
        assert_near(e->tokens.seconds, 2);
        text = text_of(&report, 140);
        assert_non_null(strstr(text, "66 J in 2.00 s, all of package-0, dram-0, idle included"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

static void test_tokens_as_the_client_saw_them(void **state)
{
        struct sample_run *s = begin_command();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;
        char *text;

        (void) state;
        put_request(s, 15 * S, 20, 40);
        put_request(s, 16 * S, 30, 60);
        finish(s, "run", 20 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(e->tokens.from, INFP_TOKENS_REQUESTS);
        assert_near(e->j_per_generated, 1.98);
        assert_near(e->j_per_token, 198 / 150.0);
        assert_near(e->j_per_request, 99);
        text = text_of(&report, 140);
        assert_non_null(strstr(text, "1.98 J per generated token"));
        assert_non_null(strstr(
                text, "all of package-0, dram-0, idle included; tokens by the client's requests: 100 generated"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* Without a measured idle power none is guessed, and the split has it in. */
static void test_no_baseline(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;
        char *text;

        (void) state;
        for (int i = 0; i <= 4; i++) {
                /* The counter moves only after the second reading: what comes then began there. */
                put_energy(s, 10 + i, "package-0", i < 2 ? -1 : 10 * (i - 1), true, NULL);
                put_cpu(s, (uint64_t) (10 + i) * S, 100 + 2 * i, 0);
                put_tree(s, (uint64_t) (10 + i) * S, 1, i * 500000000, 0, 0);
        }
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(e->joules, 30);
        assert_near(e->seconds, 3);
        assert_true(isnan(e->idle_watts) && isnan(e->idle_joules) && isnan(e->dynamic_joules));
        assert_near(e->tree_joules, 7.5);
        assert_near(e->others_joules, 22.5);
        text = text_of(&report, 120);
        assert_non_null(strstr(text, "measured for that part of 4.00 s"));
        assert_non_null(strstr(text, "not measured (record --energy-baseline 10s does)"));
        assert_non_null(strstr(text, "idle included (it was not measured)"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* Of what ran already the first seconds are the baseline, and part of the run. */
static void test_baseline_of_the_machine(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;
        char *text;

        (void) state;
        put_mark(s, 10 * S, INFP_BASELINE_SOURCE, INFP_BASELINE_START);
        put_mark(s, 12 * S, INFP_BASELINE_SOURCE, INFP_BASELINE_END);
        put_mark(s, 12 * S, "mark", INFP_BASELINE_END); /* of somebody else */
        for (int i = 0; i <= 6; i++)
                put_energy(s, 10.5 + i, "package-0", i < 2 ? 5 * i : 5 + 25 * (i - 1), true, NULL);
        finish(s, "host", 20 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.wall_s, 10);
        assert_near(e->joules, 130);
        assert_near(e->seconds, 6);
        assert_near(e->baseline_s, 1); /* one whole interval lies in it */
        assert_near(e->idle_watts, 5);
        assert_near(e->idle_joules, 30);
        text = text_of(&report, 120);
        assert_non_null(strstr(text, "in the first seconds of the recording, whatever ran then"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* A meter that was away for a while: what was drawn meanwhile is not known, and no time either. */
static void test_a_gap_is_not_covered(void **state)
{
        const struct infp_range range = { .t0 = 10 * S, .t1 = 20 * S };
        struct infp_catalog catalog;
        const struct infp_figure_options options = {
                .range = &range, .catalog = &catalog, .gap_ns = 5 * S, .mode = INFP_FIGURE_RATE
        };
        struct infp_figure figure = { 0 };
        struct infp_timeline timeline;
        unsigned n_buckets = 0;
        struct sample_run *s = begin_run();
        struct infp_report report;

        (void) state;
        /* Nothing is known of 12 to 14 and of 15 to 18 s, however short: each known second had 8 J. */
        put_measured(s, 10, "battery-BAT0", -1, 0);
        put_measured(s, 11, "battery-BAT0", 8, 1);
        put_measured(s, 12, "battery-BAT0", 16, 2);
        put_measured(s, 14, "battery-BAT0", 16, 2);
        put_measured(s, 15, "battery-BAT0", 24, 3);
        put_measured(s, 18, "battery-BAT0", 24, 3);
        put_measured(s, 19, "battery-BAT0", 32, 4);
        put_total(s, 10, 0, 0);
        put_total(s, 11, 8, 1);
        put_total(s, 13, 8, 1);
        put_total(s, 14, 16, 2);
        finish(s, "host", 20 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.energy.joules, 32);
        assert_near(report.energy.seconds, 4);
        assert_near(report.energy.watts, 8);
        /* Figures, means and panels know it too: 16 J of 2 seconds that were known of 4. */
        assert_near(infp_report_mean(&report, "eMachineJoules"), 8);
        assert_int_equal(infp_catalog_read(s->run, &catalog, &s->err), 0);
        assert_int_equal(infp_figure_add(&figure, s->run, "eMachineJoules", &options, &s->err), 0);
        assert_int_equal(figure.list[0].n, 2);
        assert_near(figure.list[0].points[0].value, 8);
        assert_near(figure.list[0].points[1].value, 8);
        assert_true(figure.list[0].points[1].is_first); /* the line is broken there */
        infp_figure_done(&figure);
        infp_catalog_done(&catalog);
        sample_check(s, infp_timeline_make(s->run, &report, &timeline, &s->err));
        for (unsigned i = 0; i < timeline.n_panels; i++)
                if (!strcmp(timeline.panels[i].id, "energy-power")) {
                        const struct infp_timeline_series *series = &timeline.panels[i].series[0];

                        for (unsigned k = 0; k < timeline.grid.n; k++)
                                n_buckets += series->buckets[k].weight > 0;
                        assert_near(infp_buckets_mean(series->buckets, timeline.grid.n), 8);
                }
        assert_int_equal(n_buckets, 2);
        infp_timeline_done(&timeline);
        infp_report_done(&report);
        sample_free(s);
}

static void test_absent_with_the_fix(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;
        struct infp_row *row = sample_row(s, &infp_table_sources, 10 * S);
        char *text;
        struct infp_out out;

        (void) state;
        infp_row_str(row, INFP_SOURCES_COLLECTOR, "energy");
        infp_row_str(row, INFP_SOURCES_TABLE, "*");
        infp_row_str(row, INFP_SOURCES_COLUMN, "*");
        infp_row_str(row, INFP_SOURCES_STATE, "denied");
        infp_row_str(row, INFP_SOURCES_REASON, "root alone may read it");
        infp_row_str(row, INFP_SOURCES_FIX, "sudo something");
        sample_put(s);
        put_cpu(s, 10 * S, 1, 0);
        put_cpu(s, 11 * S, 1, 0);
        put_page(s, 10 * S, 1, 0, 0, 0);
        put_page(s, 11 * S, 1, 10, 0, 0);
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_true(isnan(report.energy.joules) && isnan(report.energy.j_per_generated));
        text = text_of(&report, 100);
        assert_non_null(strstr(text, "not measured: root alone may read it"));
        assert_non_null(strstr(text, "sudo something"));
        free(text);
        infp_out_init(&out, -1, "nowhere");
        infp_report_json(&out, &report);
        assert_non_null(strstr(out.text.data, "\"reason\": \"root alone may read it\""));
        assert_non_null(strstr(out.text.data, "\"fix\": \"sudo something\""));
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* The sum of the parts is the whole but for its last digit, which is no joule. */
static void test_no_residual_of_rounding(void **state)
{
        struct infp_energy e = { .has_host = true, .joules = 249.000841, .idle_joules = NAN, .dynamic_joules = NAN };

        (void) state;
        infp_energy_split(&e, 0.01, 6.31);
        assert_true(e.joules - e.tree_joules - e.others_joules < 0); /* else this tests nothing */
        assert_true(e.residual_joules >= 0 && e.residual_joules <= 0);
        infp_energy_split(&e, 8, 6.31);
        assert_true(e.residual_joules < -60);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle_and_split),
                cmocka_unit_test(test_borders_take_their_part),
                cmocka_unit_test(test_joules_per_token),
                cmocka_unit_test(test_joules_of_the_time_between_pages),
                cmocka_unit_test(test_tokens_as_the_client_saw_them),
                cmocka_unit_test(test_no_baseline),
                cmocka_unit_test(test_baseline_of_the_machine),
                cmocka_unit_test(test_a_gap_is_not_covered),
                cmocka_unit_test(test_absent_with_the_fix),
                cmocka_unit_test(test_no_residual_of_rounding),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
