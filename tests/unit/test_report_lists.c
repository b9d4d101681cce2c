/* The report's lists for people: metrics, and what was absent. */
#include "report_sample.h"

#include "view/report/parts.h"

// clang-format off
static const struct infp_column vllm_columns[] = {
        INFP_COLUMN(tokens_generation_total, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "Generated."),
        INFP_COLUMN(tokens_generation_live_total, F64, COUNTER, tokens, ESTIMATED, ZERO, NULL, 0, NULL, "Live."),
        INFP_COLUMN(latency_e2e_s_sum, F64, COUNTER, s, MEASURED, ZERO, NULL, 0, NULL, "Sum."),
        INFP_COLUMN(latency_e2e_s_count, F64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Number."),
        INFP_COLUMN(lonely_sum, F64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "A sum of something else."),
        INFP_COLUMN(req_size_prefill_computed_tokens_total, F64, COUNTER, tokens, MEASURED, ZERO, NULL, 0, NULL, "A long name."),
};
static const struct infp_column pressure_columns[] = {
        INFP_COLUMN(vPressureCpuSomeAvg10, F64, GAUGE, percent, MEASURED, NO, NULL, 0, NULL, "The kernel's average."),
        INFP_COLUMN(vPressureCpuSome, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "Waited."),
};
static const struct infp_column container_keys[] = {
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
};
static const struct infp_column container_columns[] = {
        INFP_COLUMN(cMemory, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Memory."),
};
// clang-format on
static const struct infp_table vllm_table = {
        .name = "vllm", .help = "Of the tests.", .columns = vllm_columns, .n_columns = 6, .series = ""
};
static const struct infp_table pressure_table = {
        .name = "pressure", .help = "Of the tests.", .columns = pressure_columns, .n_columns = 2, .series = ""
};
static const struct infp_table containers_table = { .name = "containers",
                                                    .help = "Of the tests.",
                                                    .keys = container_keys,
                                                    .n_keys = 1,
                                                    .columns = container_columns,
                                                    .n_columns = 1,
                                                    .series = "container" };

static struct sample_run *begin_lists(void)
{
        static const struct infp_table *const tables[] = { &tree_table, &pressure_table,   &containers_table,
                                                           &vllm_table, &infp_table_ticks, &infp_table_sources,
                                                           NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

static char *text_of_sections(struct sample_run *s, enum infp_report_size size, char *const *sections)
{
        struct infp_report report;
        struct infp_out out;
        char *ret, *copy, *save = NULL;

        make(s, NULL, NULL, 0, &report);
        infp_out_init(&out, -1, "nowhere");
        out.width = 80;
        infp_report_text(&out, &report, size, sections);
        ret = strdup(out.text.data);
        infp_out_done(&out);
        infp_report_done(&report);
        copy = strdup(ret);
        for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                if (strlen(line) > 80)
                        fail_msg("longer than 80: %s", line);
        free(copy);
        return ret;
}

static char *text_with(struct sample_run *s, bool all)
{
        return text_of_sections(s, all ? INFP_REPORT_ALL : INFP_REPORT_FULL, NULL);
}

static void expect(const char *text, const char *line, bool there)
{
        if (!strstr(text, line) == there)
                fail_msg("%s %s in\n%s", there ? "no" : "there is", line, text);
}

/* Two samples, a second apart. */
static struct sample_run *metrics_run(void)
{
        static const double cells[2][6] = { { 100, 100, 7, 1, 1, 1 }, { 120, 125.5, 9.5, 4, 3, 200001 } };
        struct sample_run *s = begin_lists();

        for (unsigned tick = 0; tick < 2; tick++) {
                struct infp_row *row = sample_row(s, &vllm_table, (10 + tick) * S);

                for (unsigned i = 0; i < 6; i++)
                        infp_row_f64(row, i, cells[tick][i]);
                sample_put(s);
                row = sample_row(s, &pressure_table, (10 + tick) * S);
                infp_row_f64(row, 0, 10 + tick);
                infp_row_i64(row, 1, tick * 500000000);
                sample_put(s);
                for (unsigned i = 0; i < 2; i++) {
                        row = sample_row(s, &containers_table, (10 + tick) * S);
                        infp_row_str(row, 0, i ? "b" : "a");
                        infp_row_i64(row, 1, (tick + 1) * 1024 * (i + 1));
                        sample_put(s);
                }
                put_tree(s, (10 + tick) * S, 1024 + tick, 0, 0, 0);
                sample_tick(s, tick, (10 + tick) * S);
        }
        finish(s, "run", 12 * S);
        return s;
}

/* With one interval the counters do not change: --all shows them. The sum is 2.5 s in a second, of several requests. */
static void metrics(void **state)
{
        struct sample_run *s = metrics_run();
        char *text = text_with(s, true);
        const char *vllm, *tree, *containers;

        (void) state;
        expect(text, "  tokens_generation_total          20 tok/s     0 tok/s    20 tok/s    20 tok/s\n", true);
        expect(text, " ~tokens_generation_live_total  25.50 tok/s     0 tok/s 25.50 tok/s 25.50 tok/s\n", true);
        expect(text, "  latency_e2e_s_sum                2.50 s/s       0 s/s    2.50 s/s    2.50 s/s\n", true);
        expect(text, "  latency_e2e_s_count                   3/s         0/s         3/s         3/s\n", true);
        expect(text,
               "  req_size_prefill_computed_tokens_total\n"
               "                                 200 ktok/s     0 tok/s  200 ktok/s  200 ktok/s\n",
               true);
        expect(text, "  vPressureCpuSome                   50.0 %", true);
        expect(text, "  vPressureCpuSomeAvg10", true);
        expect(text, "  machine     at least one task waited for a CPU 50.0 % of the time\n", true);
        expect(text, " containers: container0_...\n  cMemory ", true);
        expect(text, " containers: container1_...\n  cMemory ", true);
        expect(text, "~ is estimated.\n", true);
        vllm = strstr(text, "\n vllm\n");
        tree = strstr(text, "\n tree\n");
        containers = strstr(text, "\n containers: container0");
        assert_true(vllm && vllm < tree && tree < containers);
        free(text);
        sample_free(s);
}

/* Unasked: no parts of distributions and no averages of the kernel, whatever they are called; nor the four of the tree, which
 * has no rows. */
static void few_metrics(void **state)
{
        struct sample_run *s = begin_lists();
        char *text;

        (void) state;
        for (unsigned tick = 0; tick < 3; tick++) {
                struct infp_row *row = sample_row(s, &vllm_table, (10 + tick) * S);

                for (unsigned i = 0; i < 6; i++)
                        infp_row_f64(row, i, tick * tick);
                sample_put(s);
                row = sample_row(s, &pressure_table, (10 + tick) * S);
                infp_row_f64(row, 0, tick);
                infp_row_i64(row, 1, tick * tick);
                sample_put(s);
                sample_tick(s, tick, (10 + tick) * S);
        }
        finish(s, "run", 13 * S);
        text = text_with(s, false);
        expect(text, "  tokens_generation_total", true);
        expect(text, "  lonely_sum", true);
        expect(text, "  vPressureCpuSome ", true);
        expect(text, "latency_e2e_s", false);
        expect(text, "vPressureCpuSomeAvg10", false);
        expect(text, "  7 more were left out", true);
        free(text);
        sample_free(s);
}

static void put_absence(struct sample_run *s, const char *const texts[7])
{
        struct infp_row *row = sample_row(s, &infp_table_sources, 10 * S);

        for (unsigned i = 0; i < 7; i++)
                if (*texts[i])
                        infp_row_str(row, INFP_SOURCES_COLLECTOR + i, texts[i]);
        sample_put(s);
}

static struct sample_run *absences_run(void)
{
        static const char *const all[][7] = {
                { "mem", "", "mem", "vHuge", "absent", "the kernel has it not", "" },
                { "processes", "", "processes", "pPss", "absent", INFP_NOT_ASKED "it is dear", "record with --pss" },
                { "engine", "http://localhost:8000/metrics", "*", "*", "absent", INFP_NOT_ASKED "nobody is there",
                  "name the page" },
                { "disk", "", "disk", "vSpeed", "absent", "it is switched off", "sysctl it" },
                { "net", "", "*", "*", "denied", "no right", "" },
                { "containers", "", "containers", "c1", "absent", "in the root", "" },
                { "containers", "", "containers", "c2", "absent", "in the root", "" },
                { "containers", "", "containers", "c3", "absent", "in the root", "" },
                { "containers", "", "containers", "c4", "absent", "in the root", "" },
                { "containers", "", "containers", "c5", "absent", "in the root", "" },
                { "containers", "", "containers", "c6", "absent", "in the root", "" },
                { "host", "", "host", "vLimit", "absent", "in the root", "" },
                { "engine", "http://a/metrics", "vllm", "*", "absent",
                  "this make never gives a_1, a_2, a_3, a_4, a_5, a_6; not here: b_1, b_2", "" },
                { "energy", "", "*", "*", "absent", "no meter", "buy one" },
        };
        struct sample_run *s = begin_lists();

        for (unsigned i = 0; i < INFP_COUNT(all); i++)
                put_absence(s, all[i]);
        sample_tick(s, 1, 10 * S);
        finish(s, "run", 12 * S);
        return s;
}

/* Energy was told above; lists are cut; the same fact of two collectors is one; then what can be mended; names of the rest. */
static void few_absences(void **state)
{
        struct sample_run *s = absences_run();
        char *text = text_with(s, false);

        (void) state;
        expect(text,
               "\nAbsent, and why\n"
               "  vllm (http://a/metrics): this make never gives a_1, a_2, a_3 and 3 more; not\n"
               "    here: b_1, b_2\n"
               "  c1, c2, c3 and 4 more: in the root\n"
               "  net: denied: no right\n"
               "  vSpeed: it is switched off\n"
               "    fix: sysctl it\n"
               "  and also: vHuge, pPss (--all lists them and says why)\n",
               true);
        expect(text, "localhost:8000", false);
        expect(text, "  machine     not measured: no meter\n  fix         buy one\n", true);
        free(text);
        sample_free(s);
}

static void all_absences(void **state)
{
        struct sample_run *s = absences_run();
        char *text = text_with(s, true);

        (void) state;
        expect(text,
               "\nAbsent, and why\n"
               "  energy: no meter\n"
               "    fix: buy one\n"
               "  vllm (http://a/metrics): this make never gives a_1, a_2, a_3, a_4, a_5, a_6;\n"
               "    not here: b_1, b_2\n"
               "  c1, c2, c3, c4, c5, c6, vLimit: in the root\n"
               "  net: denied: no right\n"
               "  vSpeed: it is switched off\n"
               "    fix: sysctl it\n"
               "  vHuge: the kernel has it not\n"
               "  pPss: not asked for: it is dear\n"
               "    fix: record with --pss\n"
               "  engine (http://localhost:8000/metrics): not asked for: nobody is there\n"
               "    fix: name the page\n",
               true);
        free(text);
        sample_free(s);
}

/* JSON has every row. */
static void json_has_all(void **state)
{
        struct sample_run *s = absences_run();
        struct infp_report report;
        struct infp_out out;

        (void) state;
        make(s, NULL, NULL, 0, &report);
        infp_out_init(&out, -1, "nowhere");
        infp_report_json(&out, &report);
        expect(out.text.data, "localhost:8000", true);
        expect(out.text.data, "a_4, a_5, a_6; not here", true);
        expect(out.text.data, "\"c6\"", true);
        infp_out_done(&out);
        infp_report_done(&report);
        sample_free(s);
}

/* An engine of no name that was looked for unasked is not worth a title. */
static void nothing_to_say(void **state)
{
        static const char *const only[7] = {
                "engine",       "http://localhost:8000/metrics", "*", "*", "absent", INFP_NOT_ASKED "nobody is there",
                "name the page"
        };
        struct sample_run *s = begin_lists();
        char *text;

        (void) state;
        put_absence(s, only);
        sample_tick(s, 1, 10 * S);
        finish(s, "run", 12 * S);
        text = text_with(s, false);
        expect(text, "Absent", false);
        free(text);
        sample_free(s);
}

/* The id of a container is as wide as the column of labels. */
static void wide_labels(void **state)
{
        struct infp_out out;

        (void) state;
        infp_out_init(&out, -1, "nowhere");
        infp_report_line(&out, "76e2a678ab53", "docker");
        assert_string_equal(out.text.data, "  76e2a678ab53 docker\n");
        infp_out_done(&out);
        infp_out_init(&out, -1, "nowhere");
        infp_report_line(&out, "machine", "vm");
        assert_string_equal(out.text.data, "  machine     vm\n");
        infp_out_done(&out);
}

static unsigned lines_of(const char *text)
{
        unsigned ret = 0;

        for (; *text; text++)
                ret += *text == '\n';
        return ret;
}

/* What is asked first, and where the rest is. */
static void short_report(void **state)
{
        struct sample_run *s = metrics_run();
        char *text = text_of_sections(s, INFP_REPORT_SHORT, NULL);

        (void) state;
        expect(text, "What it used", true);
        expect(text, "\nMetrics", false);
        expect(text, "Absent, and why", false);
        expect(text, "`infprof report SECTION` (-h lists them)", true);
        assert_true(lines_of(text) <= 40);
        free(text);
        sample_free(s);
}

/* Each by its name, and none of the others; what there is not is said. */
static void sections_by_name(void **state)
{
        struct sample_run *s = metrics_run();

        (void) state;
        for (const struct infp_report_section *section = infp_report_sections; section->name; section++) {
                char *names[] = { (char *) section->name, NULL };
                char *text = text_of_sections(s, INFP_REPORT_SHORT, names);

                expect(text, "Run ", true);
                expect(text, "\nMetrics", !strcmp(section->name, "metrics"));
                expect(text, "\nCost of infprof", !strcmp(section->name, "cost"));
                if (!strcmp(section->name, "gpus"))
                        expect(text, "this run has no such data", true);
                assert_true(lines_of(text) >= 3);
                assert_non_null(section->help);
                free(text);
        }
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(metrics),      cmocka_unit_test(few_metrics),  cmocka_unit_test(few_absences),
                cmocka_unit_test(all_absences), cmocka_unit_test(json_has_all), cmocka_unit_test(nothing_to_say),
                cmocka_unit_test(wide_labels),  cmocka_unit_test(short_report), cmocka_unit_test(sections_by_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
