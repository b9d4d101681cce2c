/* Runs compared: numbers read from a run on disk with answers computed by hand, rows by hand-made runs, how often verdicts are wrong, and
 * what the writers make of them. */
#include "report_sample.h"

#include "analyze/compare/gate.h"
#include "model/python_tables.h"
#include "view/compare/compare.h"

enum { SECONDS = 20, REQUESTS = 200, STEPS = 40, MS = 1000000, MIB = 1 << 20 };

/* ---- a run on disk ---- */

static void put_request(struct sample_run *s, unsigned i, double slower)
{
        struct infp_row *row = sample_row(s, &infp_table_requests, 10 * S + i * S / 10);
        const int64_t first_ms = (int64_t) ((50 + i % 10) * slower);

        infp_row_str(row, INFP_REQUESTS_SOURCE, "load");
        infp_row_bool(row, INFP_REQUESTS_OK, true);
        infp_row_i64(row, INFP_REQUESTS_SEND_NS, 0);
        infp_row_i64(row, INFP_REQUESTS_FIRST_NS, first_ms * MS);
        infp_row_i64(row, INFP_REQUESTS_LAST_NS, (first_ms + 90) * MS);
        infp_row_i64(row, INFP_REQUESTS_END_NS, (first_ms + 100) * MS);
        infp_row_i64(row, INFP_REQUESTS_OUTPUT_TOKENS, 10);
        infp_row_i64(row, INFP_REQUESTS_CHUNKS, 10);
        infp_row_str(row, INFP_REQUESTS_GAPS, "[[0.01024,9]]");
        sample_put(s);
}

static void put_step(struct sample_run *s, unsigned i, const char *kind, double seconds)
{
        static const char *const names[] = { "phase", "kind", "duration" };
        struct infp_row *row = sample_row(s, &infp_table_torch_steps, 10 * S + i * S / 2);
        unsigned at[3];

        for (unsigned k = 0; k < 3; k++)
                at[k] = (unsigned) infp_table_find(&infp_table_torch_steps, names[k]) - INFP_FIXED_COLUMNS;
        infp_row_str(row, at[0], "decode");
        infp_row_str(row, at[1], kind);
        infp_row_f64(row, at[2], seconds);
        sample_put(s);
}

static void put_call(struct sample_run *s, unsigned i, const char *module, double self_s)
{
        static const char *const names[] = { "module", "stage", "self_duration" };
        struct infp_row *row = sample_row(s, &infp_table_torch_trace, 10 * S + i * S / 2);
        unsigned at[3];

        for (unsigned k = 0; k < 3; k++)
                at[k] = (unsigned) infp_table_find(&infp_table_torch_trace, names[k]) - INFP_FIXED_COLUMNS;
        infp_row_str(row, at[0], module);
        infp_row_str(row, at[1], "forward");
        if (!isnan(self_s))
                infp_row_f64(row, at[2], self_s);
        sample_put(s);
}

/* 20 s of a command that uses 0.4 s of CPU a second and had used 0.5 s before its first sample; ten requests a second. */
static struct sample_run *make_run(double slower)
{
        const struct infp_table *const tables[] = {
                &tree_table, &infp_table_requests, &infp_table_torch_steps, &infp_table_torch_trace, &infp_table_ticks,
                NULL
        };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        for (int64_t i = 0; i <= SECONDS; i++)
                put_tree(s, (10 + (uint64_t) i) * S, (100 + i % 2) * MIB, 500 * MS + (int64_t) (400 * MS * slower) * i,
                         0, 0);
        for (unsigned i = 0; i < REQUESTS; i++)
                put_request(s, i, slower);
        for (unsigned i = 0; i < STEPS; i++) {
                put_step(s, i, i ? "bare" : "first", i ? 0.01 * slower + 0.0001 * (i % 3) : 5);
                put_call(s, i, "mlp", 0.002 * slower);
                put_call(s, i, "attention", i % 2 ? 0.003 : NAN);
        }
        finish(s, "run", 30 * S + S / 2);
        return s;
}

static struct infp_compare_run *read_run(struct sample_run *s, const char *from, const char *to)
{
        const struct infp_compare_part part = { from, to, NULL };
        struct infp_compare_run *ret = NULL;

        sample_check(s, infp_compare_read(s->run, &part, &ret, &s->err));
        return ret;
}

static double value_of(const struct infp_compare_run *run, enum infp_compare_section section, const char *name)
{
        const struct infp_compare_item *item = infp_compare_item_find(run, section, name);

        return item ? infp_compare_value(&item->series, NULL) : NAN;
}

static void assert_number(const struct infp_compare_run *run, const char *name, double wanted)
{
        const double v = value_of(run, INFP_COMPARE_NUMBERS, name);

        if (!(fabs(v - wanted) <= 1e-9 * fabs(wanted)))
                fail_msg("%s is %.12g, not %.12g", name, v, wanted);
}

static void test_numbers(void **state)
{
        struct sample_run *s = make_run(1);
        struct infp_compare_run *run = read_run(s, NULL, NULL), *part;

        (void) state;
        assert_int_equal(run->n_blocks, INFP_COMPARE_BLOCKS);
        assert_number(run, "cpu_s", 8.5);
        assert_number(run, "cpu_s_per_s", 0.4);
        assert_number(run, "rss_peak_bytes", 101.0 * MIB);
        assert_number(run, "rss_bytes", (11 * 100.0 + 10 * 101.0) / 21 * MIB);
        /* 2,000 tokens from the first arrival at 10 s to the last end at 29.9 + 0.059 + 0.1 s; 8 s of CPU */
        assert_number(run, "output_tokens_per_s", 2000 / 20.059);
        assert_number(run, "cpu_s_per_token", 0.004);
        assert_number(run, "ttft_mean", 0.0545);
        assert_number(run, "ttft_p50", 0.0545); /* 50 to 59 ms, twenty each: ranks 99 and 100 are 54 and 55 */
        assert_number(run, "ttft_p95", 0.059);  /* rank 189.05 */
        assert_number(run, "tpot_mean", 0.01);
        assert_number(run, "e2e_p50", 0.1545);
        assert_number(run, "itl_mean", 0.01);
        assert_number(run, "step_mean:decode",
                      0.01 + 0.0001 * 39 / 39); /* 1 to 39, the first does not count: 0 1 2 alike */
        assert_near(value_of(run, INFP_COMPARE_MODULES, "mlp forward"), 0.002);
        assert_near(value_of(run, INFP_COMPARE_MODULES, "attention forward"), 0.003);
        assert_true(run->has_tokens && !*run->mode && isnan(value_of(run, INFP_COMPARE_NUMBERS, "joules")));
        /* A part has no length of its own, and its CPU is that between its samples. */
        part = read_run(s, "+5s", "+10s");
        assert_number(part, "cpu_s", 1.6); /* samples at 15, 16, 17, 18 and 19 s */
        assert_true(isnan(value_of(part, INFP_COMPARE_NUMBERS, "wall_s")) && part->n_blocks == 5);
        infp_compare_run_free(part);
        infp_compare_run_free(run);
        sample_free(s);
}

static void test_other_tables(void **state)
{
        struct sample_run *s = sample_new("csv");
        const struct infp_table *const tables[] = { &numbers_table, NULL };
        struct infp_compare_run *run;
        struct infp_compare compare;

        (void) state;
        sample_describe(s, tables);
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        put_numbers(s, 11 * S, 1, 1, 1, 1);
        finish(s, "host", 12 * S);
        run = read_run(s, NULL, NULL);
        const struct infp_compare_run *const list[] = { run };
        const struct infp_compare_side sides[] = { { list, 1 }, { list, 1 } };

        assert_int_equal(run->n, 0);
        assert_int_equal(infp_compare_make(sides, 2, &compare, NULL), 0);
        assert_true(compare.n == 0 && compare.n_tested == 0 && !*compare.mode);
        infp_compare_done(&compare);
        infp_compare_run_free(run);
        sample_free(s);
}

// clang-format off
static const struct infp_column machine_columns[] = {
        INFP_COLUMN(vNumProcessors, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "CPUs."),
        INFP_COLUMN(vCpuType, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CPU."),
};
static const struct infp_column engine_columns[] = {
        INFP_COLUMN(make, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Make."),
        INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Model."),
};
static const struct infp_column gpu_keys[] = {
        INFP_COLUMN(gGpuIndex, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number."),
};
static const struct infp_column gpu_columns[] = {
        INFP_COLUMN(gName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        INFP_COLUMN(gEnergyJoules, F64, COUNTER, joules, DERIVED, ZERO, NULL, 0, NULL, "Energy."),
};
// clang-format on
static const struct infp_table machine_table = {
        .name = "host", .help = "Of the tests.", .columns = machine_columns, .n_columns = 2
};
static const struct infp_table engines_table = {
        .name = "engines", .help = "Of the tests.", .columns = engine_columns, .n_columns = 2
};
static const struct infp_table gpu_table = { .name = "nvidia",
                                             .help = "Of the tests.",
                                             .keys = gpu_keys,
                                             .n_keys = 1,
                                             .columns = gpu_columns,
                                             .n_columns = 2,
                                             .series = "nvidia" };

/* What makes runs unlike is read from before the range on; the power of all GPUs is the sum of theirs. */
static void test_facts(void **state)
{
        const struct infp_table *const tables[] = { &machine_table, &engines_table, &gpu_table, &infp_table_ticks,
                                                    NULL };
        static const char *const names[] = { "A10", "A100", "A10" };
        struct sample_run *s = sample_new("csv");
        struct infp_compare_run *run;

        (void) state;
        sample_describe(s, tables);
        infp_row_i64(sample_row(s, &machine_table, 10 * S), 0, 8);
        infp_row_str(&s->row, 1, "Xeon");
        sample_put(s);
        infp_row_str(sample_row(s, &engines_table, 10 * S), 0, "vllm");
        infp_row_str(&s->row, 1, "llama");
        sample_put(s);
        for (unsigned i = 0; i <= SECONDS; i++)
                for (unsigned k = 0; k < 3; k++) {
                        infp_row_i64(sample_row(s, &gpu_table, (10 + i) * S), 0, k);
                        infp_row_str(&s->row, 1, names[k]);
                        infp_row_f64(&s->row, 2, 100.0 * (k + 1) * i);
                        sample_put(s);
                }
        finish(s, "host", 30 * S + S / 2);
        run = read_run(s, "+5s", NULL);
        assert_string_equal(run->facts[INFP_FACT_CPU], "Xeon");
        assert_string_equal(run->facts[INFP_FACT_CPUS], "8");
        assert_string_equal(run->facts[INFP_FACT_ENGINE], "vllm");
        assert_string_equal(run->facts[INFP_FACT_MODEL], "llama");
        assert_string_equal(run->facts[INFP_FACT_GPUS], "A10+A100");
        assert_number(run, "gpu_joules_per_s", 600);
        infp_compare_run_free(run);
        sample_free(s);
}

static enum infp_verdict verdict_of(const struct infp_compare *compare, const char *name)
{
        const struct infp_compare_row *row = infp_compare_find(compare, name, 1);

        assert_non_null(row);
        return row->difference.verdict;
}

static void test_slower(void **state)
{
        struct sample_run *before = make_run(1), *after = make_run(1.2);
        struct infp_compare_run *runs[] = { read_run(before, NULL, NULL), read_run(after, NULL, NULL) };
        const struct infp_compare_run *const list_a[] = { runs[0] }, *const list_b[] = { runs[1] };
        const struct infp_compare_side sides[] = { { list_a, 1 }, { list_b, 1 } },
                                       same[] = { { list_a, 1 }, { list_a, 1 } };
        struct infp_compare compare;
        struct infp_gate gate;

        (void) state;
        assert_int_equal(infp_compare_make(sides, 2, &compare, NULL), 0);
        assert_int_equal(verdict_of(&compare, "cpu_s_per_token"), INFP_VERDICT_WORSE);
        assert_int_equal(verdict_of(&compare, "cpu_s_per_s"),
                         INFP_VERDICT_MORE); /* tokens are counted: neither is better */
        assert_int_equal(verdict_of(&compare, "ttft_p50"), INFP_VERDICT_WORSE);
        assert_int_equal(verdict_of(&compare, "step_mean:decode"), INFP_VERDICT_WORSE);
        assert_int_equal(verdict_of(&compare, "rss_bytes"), INFP_VERDICT_NONE);
        assert_int_equal(verdict_of(&compare, "cpu_s"), INFP_VERDICT_UNKNOWN);
        assert_int_equal(verdict_of(&compare, "ttft_p99"), INFP_VERDICT_UNKNOWN); /* 2 of 200 lie beyond it */
        assert_near(infp_compare_find(&compare, "cpu_s_per_token", 1)->difference.difference, 0.2);
        infp_gate_parse("cpu_s_per_token>+5%", &gate, NULL);
        assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, INFP_GATE_FAILED);
        infp_gate_parse("cpu_s_per_token>+50%", &gate, NULL);
        assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, INFP_GATE_PASSED);
        infp_gate_parse("cpu_s>+5%", &gate, NULL);
        assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, INFP_GATE_UNDECIDED);
        infp_gate_parse("joules>+5%", &gate, NULL);
        assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, INFP_GATE_ABSENT);
        infp_compare_done(&compare);
        assert_int_equal(infp_compare_make(same, 2, &compare, NULL), 0);
        assert_int_equal(infp_compare_count(&compare, INFP_VERDICT_NONE), compare.n_tested);
        assert_true(compare.n_tested > 5);
        infp_compare_done(&compare);
        for (unsigned i = 0; i < 2; i++)
                infp_compare_run_free(runs[i]);
        sample_free(before);
        sample_free(after);
}

/* ---- runs by hand ---- */

enum { FUNCTIONS = 24, NUMBERS_MADE = 14 };

struct made {
        struct infp_run run;
        struct infp_compare_run numbers;
        struct infp_compare_item items[NUMBERS_MADE];
        struct infp_compare_function functions[FUNCTIONS];
};

static uint64_t random_state = 1;

static double uniform(void)
{
        random_state = random_state * 6364136223846793005 + 1442695040888963407;
        return ((double) (random_state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
        return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* Numbers with noise from run to run of std `between`, and within of std `within` that hangs together (AR(1), 0.5): of a machine whose
 * neighbours come and go. Functions: `samples` of them by chance. more: a factor of the first number. */
static void fill(struct made *m, double between, double within, unsigned samples, double more)
{
        static char names[FUNCTIONS][16];

        memset(m, 0, sizeof(*m));
        m->numbers = (struct infp_compare_run){ .run = &m->run,
                                                .n_blocks = INFP_COMPARE_BLOCKS,
                                                .items = m->items,
                                                .n = NUMBERS_MADE,
                                                .functions = m->functions,
                                                .n_functions = samples ? FUNCTIONS : 0,
                                                .samples = samples };
        m->run.info.command = (char *) "program";
        for (unsigned i = 0; i < INFP_FACTS; i++)
                m->numbers.facts[i] = "";
        for (unsigned i = 0; i < NUMBERS_MADE; i++) {
                const struct infp_compare_number *number = &infp_compare_numbers[4 + i];
                struct infp_compare_series *series = &m->items[i].series;
                const double level = exp(between * normal()) * (i ? 1 : more);
                double noise = 0;

                m->items[i] = (struct infp_compare_item){ .section = INFP_COMPARE_NUMBERS,
                                                          .name = number->name,
                                                          .number = number };
                series->kind = INFP_COMPARE_RATIO;
                series->n = INFP_COMPARE_BLOCKS;
                for (unsigned b = 0; b < INFP_COMPARE_BLOCKS; b++) {
                        noise = 0.5 * noise + sqrt(0.75) * within * normal();
                        series->sum[b] = level * exp(noise);
                        series->weight[b] = 1;
                }
        }
        for (unsigned i = 0; i < FUNCTIONS; i++) {
                snprintf(names[i], sizeof(names[i]), "function%u", i);
                m->functions[i].name = names[i];
        }
        for (unsigned i = 0; i < samples; i++) {
                const unsigned b = i * INFP_COMPARE_BLOCKS / samples,
                               f = (unsigned) (FUNCTIONS * uniform() * uniform());

                m->functions[f].self[b]++;
                m->functions[f].total[b]++;
                if (f)
                        m->functions[f / 2].total[b]++; /* a caller */
                m->numbers.weight[b]++;
        }
        snprintf(m->numbers.mode, sizeof(m->numbers.mode), "%s", samples ? "cpu" : "");
}

/* False verdicts of one comparison of two equal sides of n runs; found: those of the first number. */
static unsigned count_verdicts(unsigned n, double between, double within, unsigned samples, double more,
                               bool *ret_found)
{
        static struct made made[2][10];
        const struct infp_compare_run *lists[2][10];
        const struct infp_compare_side sides[] = { { lists[0], n }, { lists[1], n } };
        struct infp_compare compare;
        const struct infp_compare_row *first;
        unsigned ret;

        for (unsigned k = 0; k < 2; k++)
                for (unsigned i = 0; i < n; i++) {
                        fill(&made[k][i], between, within, samples, k ? more : 1);
                        lists[k][i] = &made[k][i].numbers;
                }
        assert_int_equal(infp_compare_make(sides, 2, &compare, NULL), 0);
        assert_true(compare.n_tested >= NUMBERS_MADE + (samples ? 20 : 0));
        ret = compare.n_tested - infp_compare_count(&compare, INFP_VERDICT_NONE);
        first = infp_compare_find(&compare, infp_compare_numbers[4].name, 1);
        *ret_found = first->difference.verdict == INFP_VERDICT_WORSE;
        infp_compare_done(&compare);
        return ret;
}

/* At most 5 % of comparisons of equal runs may have a false verdict. Of 200 that is up to 27 with all but one chance in a million
 * (binomial: P(X > 27) = 9.6e-7). */
enum { COMPARISONS = 200, MOST_FALSE = 27 };

static void test_false_alarms(void **state)
{
        static const struct {
                unsigned n;
                double between, within;
                unsigned samples;
        } cases[] = {
                { 1, 0, 0.05, 2000 },     /* noise within the runs alone */
                { 1, 0.01, 0.02, 2000 },  /* runs differ by 1 %, which one run a side cannot see */
                { 1, 0.01, 0, 300 },      /* and nothing moves within them */
                { 10, 0.01, 0.02, 1000 }, /* ten runs a side */
                { 2, 0.05, 0.02, 0 },     /* two runs a side */
        };

        (void) state;
        for (unsigned k = 0; k < INFP_COUNT(cases); k++) {
                unsigned n_false = 0;
                bool found;

                random_state = k + 1;
                for (unsigned i = 0; i < COMPARISONS; i++)
                        n_false += count_verdicts(cases[k].n, cases[k].between, cases[k].within, cases[k].samples, 1,
                                                  &found) > 0;
                print_message("case %u: %u of %u comparisons of equal runs have a false verdict\n", k, n_false,
                              COMPARISONS);
                assert_true(n_false <= MOST_FALSE);
        }
}

/* 3 % more CPU, ten runs a side that differ by 1 %: found in at least 95 %, which of 200 is 173 at least with all but one chance in a
 * million (binomial: P(X < 173) = 9.6e-7). */
static void test_planted(void **state)
{
        unsigned n = 0;

        (void) state;
        random_state = 77;
        for (unsigned i = 0; i < COMPARISONS; i++) {
                bool found;

                count_verdicts(10, 0.01, 0.01, 1000, 1.03, &found);
                n += found;
        }
        print_message("a planted 3 %% was found in %u of %u comparisons\n", n, COMPARISONS);
        assert_true(n >= 173);
}

/* ---- sides that do not go together, and how it looks ---- */

static void test_sides(void **state)
{
        static struct made made[4];
        const struct infp_compare_run *list[] = { &made[0].numbers, &made[1].numbers, &made[2].numbers,
                                                  &made[3].numbers };
        struct infp_compare_side sides[] = { { list, 1 }, { list + 1, 2 } };
        struct infp_compare compare;
        struct infp_err err = { "" };
        infp_autostr struct infp_str unlike = { 0 };
        struct infp_gate gate;

        (void) state;
        for (unsigned i = 0; i < 4; i++)
                fill(&made[i], 0, 0.01, i == 3 ? 0 : 500, 1);
        assert_true(infp_compare_make(sides, 2, &compare, &err) < 0 && strstr(err.text, "one side has one run"));
        assert_true(infp_compare_make(sides, 1, &compare, &err) < 0 && strstr(err.text, "2 to 26"));
        sides[1] = (struct infp_compare_side){ list, 0 };
        assert_true(infp_compare_make(sides, 2, &compare, &err) < 0 && strstr(err.text, "has 0 runs"));
        /* Others had the machine: of time by the clock there is no verdict, of memory there is. */
        sides[1] = (struct infp_compare_side){ list + 1, 1 };
        fill(&made[1], 0, 0.01, 500, 1.5);
        for (unsigned b = 0; b < INFP_COMPARE_BLOCKS; b++)
                made[1].items[7].series.sum[b] *= 1.5;
        made[1].numbers.others = 0.3;
        assert_int_equal(infp_compare_make(sides, 2, &compare, &err), 0);
        assert_int_equal(verdict_of(&compare, "rss_bytes"), INFP_VERDICT_WORSE);
        assert_int_equal(verdict_of(&compare, "cpu_s_per_s"), INFP_VERDICT_NONE);
        assert_non_null(strstr(infp_compare_find(&compare, "cpu_s_per_s", 1)->difference.why, "others kept busy"));
        infp_gate_parse("cpu_s_per_s>+5%", &gate, NULL);
        assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, INFP_GATE_UNDECIDED);
        infp_compare_done(&compare);
        for (unsigned b = 0; b < INFP_COMPARE_BLOCKS; b++) /* 2.25 times */
                made[1].items[0].series.sum[b] *= 1.5;
        assert_int_equal(infp_compare_make(sides, 2, &compare, &err), 0);
        assert_int_equal(verdict_of(&compare, "cpu_s_per_s"), INFP_VERDICT_WORSE);
        assert_int_equal(infp_gate_judge(&gate, 1, &compare, 1).state, INFP_GATE_FAILED);
        infp_compare_done(&compare);
        for (unsigned b = 0; b < INFP_COMPARE_BLOCKS; b++)
                made[1].items[0].series.sum[b] /= 1.5;
        made[1].numbers.others = 0.2;
        assert_int_equal(infp_compare_make(sides, 2, &compare, &err), 0);
        assert_int_equal(verdict_of(&compare, "cpu_s_per_s"), INFP_VERDICT_WORSE);
        infp_compare_done(&compare);
        /* One run without stacks; one of another mode. */
        sides[1] = (struct infp_compare_side){ list + 3, 1 };
        assert_int_equal(infp_compare_make(sides, 2, &compare, &err), 0);
        assert_true(strstr(compare.no_functions, "no stacks") && compare.n == NUMBERS_MADE);
        infp_compare_done(&compare);
        strcpy(made[1].numbers.mode, "wall");
        sides[1] = (struct infp_compare_side){ list + 1, 1 };
        assert_int_equal(infp_compare_make(sides, 2, &compare, &err), 0);
        assert_true(strstr(compare.no_functions, "different modes"));
        infp_compare_done(&compare);
        infp_compare_unlike(sides, 2, &unlike);
        assert_int_equal(unlike.size, 0);
        made[0].numbers.facts[INFP_FACT_ENGINE] = "vllm";
        infp_compare_unlike(sides, 2, &unlike);
        assert_int_equal(unlike.size, 0); /* of the other it is not known */
        made[1].numbers.facts[INFP_FACT_ENGINE] = "sglang";
        made[0].numbers.facts[INFP_FACT_MODEL] = made[1].numbers.facts[INFP_FACT_MODEL] = "llama";
        made[0].numbers.facts[INFP_FACT_CPUS] = "2";
        made[1].numbers.facts[INFP_FACT_CPUS] = "8";
        infp_compare_unlike(sides, 2, &unlike);
        assert_string_equal(unlike.data, "engine (vllm and sglang), number of CPUs (2 and 8)");
}

static void test_views(void **state)
{
        static struct made made[2];
        const struct infp_compare_run *list_a[] = { &made[0].numbers }, *list_b[] = { &made[1].numbers };
        const struct infp_compare_side sides[] = { { list_a, 1 }, { list_b, 1 } };
        static const char *const words[] = { "run a: x|y", "run b: <b>" };
        static const char *const conditions[] = { "cpu_s_per_s>+5%", "cpu_s_per_s>+90%", "cpu_s_per_s>+50%",
                                                  "joules>+5%" };
        struct infp_gate gates[4];
        struct infp_gate_result results[4];
        struct infp_compare compare;
        struct infp_compare_view view = { &compare, words, "engine (a and b)", results, 4 };
        infp_autostr struct infp_str text = { 0 };
        struct infp_json json;
        struct infp_out out;

        (void) state;
        for (unsigned i = 0; i < 2; i++)
                fill(&made[i], 0, 0.01, 4000, i ? 1.5 : 1);
        for (unsigned i = 0; i < 2; i++)
                made[i].functions[0].name = "a|b<c>`d`\033[1m";
        assert_int_equal(infp_compare_make(sides, 2, &compare, NULL), 0);
        for (unsigned i = 0; i < 4; i++) {
                infp_gate_parse(conditions[i], &gates[i], NULL);
                results[i] = infp_gate_judge(&gates[i], 4, &compare, 1);
        }
        assert_true(results[0].state == INFP_GATE_FAILED && results[1].state == INFP_GATE_PASSED &&
                    results[2].state == INFP_GATE_UNDECIDED && results[3].state == INFP_GATE_ABSENT);

        infp_out_init(&out, -1, "nowhere");
        out.width = 100;
        infp_compare_text(&out, &view);
        assert_non_null(strstr(out.text.data, "B against A: worse: cpu_s_per_s +"));
        assert_non_null(strstr(out.text.data, "cpu_s_per_s>+5% of B: failed: +"));
        assert_non_null(strstr(out.text.data, "The runs are unlike: engine (a and b)."));
        assert_non_null(strstr(out.text.data, "Functions by their own samples"));
        assert_null(memchr(out.text.data, '\033', out.text.size));
        assert_null(strstr(out.text.data, "nan"));
        infp_out_done(&out);

        infp_compare_markdown(&text, &view);
        assert_non_null(strstr(text.data, "- **A**: run a: x\\|y"));
        assert_non_null(strstr(text.data, "a\\|b&lt;c&gt;\\`d\\`"));
        assert_non_null(strstr(text.data, "**worse**"));
        assert_null(strstr(text.data, "<b>"));
        infp_str_clear(&text);

        infp_compare_junit(&text, &view);
        assert_non_null(strstr(text.data, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""));
        assert_non_null(strstr(text.data, "name=\"cpu_s_per_s&gt;+5% of B\">\n      <failure message=\""));
        infp_str_clear(&text);

        infp_json_begin(&json, &text, 0);
        infp_json_object(&json);
        infp_compare_json(&json, &view);
        infp_json_object_end(&json);
        assert_non_null(strstr(text.data, "\"unlike\":\"engine (a and b)\""));
        assert_non_null(strstr(text.data, "\"verdict\":\"worse\""));
        infp_compare_done(&compare);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers), cmocka_unit_test(test_other_tables), cmocka_unit_test(test_slower),
                cmocka_unit_test(test_facts),   cmocka_unit_test(test_false_alarms), cmocka_unit_test(test_planted),
                cmocka_unit_test(test_sides),   cmocka_unit_test(test_views),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
