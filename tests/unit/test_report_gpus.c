/* GPUs in the report: what they did, what held them back, who was on them, and their joules among the domains of energy.
 * Expected values were computed by hand from what the rows are made of. */
#include "report_sample.h"

#include "collectors/energy/tables.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/tables.h"
#include "collectors/engine/vllm.h"
#include "collectors/gpu/table.h"

static struct sample_run *begin_run(void)
{
        const struct infp_table *const tables[] = { &tree_table,
                                                    &infp_table_energy,
                                                    &infp_table_nvidia,
                                                    &infp_table_nvidia_processes,
                                                    &infp_table_amdgpu,
                                                    &infp_table_vllm,
                                                    &infp_table_engines,
                                                    &infp_table_engine_scrapes,
                                                    &infp_table_sources,
                                                    &infp_table_ticks,
                                                    NULL };
        struct sample_run *s = sample_new("csv");

        sample_describe(s, tables);
        return s;
}

static struct infp_row *begin_gpu(struct sample_run *s, const struct infp_table *table, double t_s, int64_t index)
{
        struct infp_row *row = sample_row(s, table, (uint64_t) llround(t_s * 1e9));
        char uuid[32];

        snprintf(uuid, sizeof(uuid), "GPU-%lld", (long long) index);
        infp_row_i64(row, GPU_INDEX, index);
        infp_row_str(row, GPU_UUID, uuid);
        return row;
}

static void put_joules(struct sample_run *s, const struct infp_table *table, double t_s, int64_t index, double joules,
                       bool is_counter)
{
        struct infp_row *row = begin_gpu(s, table, t_s, index);

        infp_row_f64(row, GPU_ENERGY_JOULES, joules);
        infp_row_str(row, GPU_ENERGY_SOURCE, is_counter ? "counter" : "power");
        infp_row_str(row, GPU_ENERGY_QUALITY, is_counter ? "measured" : "estimated");
        sample_put(s);
}

static void put_energy(struct sample_run *s, double t_s, const char *domain, const char *source, double joules,
                       bool counts)
{
        struct infp_row *row = sample_row(s, &infp_table_energy, (uint64_t) llround(t_s * 1e9));

        infp_row_str(row, ENERGY_DOMAIN, domain);
        infp_row_str(row, ENERGY_SOURCE, source);
        infp_row_f64(row, ENERGY_JOULES, joules);
        infp_row_bool(row, ENERGY_IS_COUNTED, counts);
        infp_row_str(row, ENERGY_QUALITY, "measured");
        sample_put(s);
}

static void put_page(struct sample_run *s, uint64_t t_ns, double generated)
{
        struct infp_row *row = sample_row(s, &infp_table_vllm, t_ns);

        infp_row_id(row, INFP_VLLM_ENGINE, 1);
        infp_row_f64(row, INFP_VLLM_GENERATION, generated);
        sample_put(s);
        row = sample_row(s, &infp_table_engine_scrapes, t_ns);
        infp_row_id(row, INFP_SCRAPES_ENGINE, 1);
        infp_row_bool(row, INFP_SCRAPES_OK, true);
        sample_put(s);
}

static const struct infp_energy_domain *domain(const struct infp_report *report, const char *name)
{
        for (unsigned i = 0; i < report->energy.n; i++)
                if (!strcmp(report->energy.list[i].name, name))
                        return &report->energy.list[i];
        fail_msg("no domain %s", name);
        return NULL;
}

static char *json_of(const struct infp_report *report)
{
        struct infp_out out;
        char *ret;

        infp_out_init(&out, -1, "nowhere");
        infp_report_json(&out, report);
        ret = strdup(out.text.data);
        infp_out_done(&out);
        return ret;
}

/* Lines are wrapped: blanks of any kind and number are one. */
static char *plain(const char *text)
{
        char *ret = malloc(strlen(text) + 1), *to = ret;

        for (; *text; text++) {
                const bool is_blank = *text == ' ' || *text == '\n';

                if (!is_blank || (to > ret && to[-1] != ' '))
                        *to++ = is_blank ? ' ' : *text;
        }
        *to = '\0';
        return ret;
}

static void assert_says(const char *text, const char *words)
{
        char *all = plain(text), *some = plain(words);

        if (!strstr(all, some))
                fail_msg("\"%s\" is not in:\n%s", words, text);
        free(all);
        free(some);
}

static void put_on_gpu(struct sample_run *s, double t_s, int64_t gpu, int64_t pid, const char *name, bool in_tree,
                       int64_t mib, int64_t sm)
{
        struct infp_row *row = begin_gpu(s, &infp_table_nvidia_processes, t_s, gpu);

        infp_row_i64(row, GPU_PROCESS_PID, pid);
        if (name)
                infp_row_str(row, GPU_PROCESS_NAME, name);
        infp_row_str(row, GPU_PROCESS_TYPE, "C");
        infp_row_bool(row, GPU_PROCESS_IN_TREE, in_tree);
        infp_row_bool(row, GPU_PROCESS_IS_HOST_PID, !name);
        if (mib >= 0)
                infp_row_i64(row, GPU_PROCESS_MEMORY_BYTES, mib << 20);
        if (sm >= 0)
                infp_row_i64(row, GPU_PROCESS_SM, sm);
        sample_put(s);
}

/* Four intervals of a second; the clocks are held down by power for 250 ms of each, by heat for 100 ms of one. */
static struct sample_run *begin_busy(void)
{
        static const int64_t used[] = { 80, 90, 100, 90, 90 }, memory[] = { 10, 20, 40, 30, 30 };
        static const char *const reasons[] = { "software power cap", "none",
                                               "software power cap, software thermal slowdown", "none",
                                               "software power cap" };
        struct sample_run *s = begin_run();

        for (int i = 0; i < 5; i++) {
                struct infp_row *row = begin_gpu(s, &infp_table_nvidia, 10 + i, 1);

                infp_row_str(row, GPU_NAME, "NVIDIA H100");
                infp_row_str(row, GPU_VENDOR, "nvidia");
                infp_row_i64(row, GPU_UTILIZATION_GPU, used[i]);
                infp_row_i64(row, GPU_MEMORY_USED_BYTES, memory[i] << 30);
                infp_row_i64(row, GPU_MEMORY_TOTAL_BYTES, INT64_C(80) << 30);
                infp_row_f64(row, GPU_POWER_DRAW, 300 + 10 * i);
                infp_row_f64(row, GPU_POWER_LIMIT_ENFORCED, 700);
                infp_row_i64(row, GPU_TEMPERATURE, 60 + i);
                infp_row_i64(row, GPU_VIOLATION_POWER, 5000000000 + i * INT64_C(250000000));
                infp_row_i64(row, GPU_VIOLATION_THERMAL, i > 2 ? 100000000 : 0);
                infp_row_i64(row, GPU_VIOLATION_BOARD_LIMIT, 77);
                infp_row_str(row, GPU_EVENT_REASONS_TEXT, reasons[i]);
                sample_put(s);
                put_on_gpu(s, 10 + i, 1, 4242, "python", true, 1024 * (i + 1), 40 + i);
                put_on_gpu(s, 10 + i, 1, 77, NULL, false, 8192, -1);
        }
        return s;
}

static void test_use_and_what_held_it_back(void **state)
{
        struct sample_run *s = begin_busy();
        struct infp_report report;
        const struct infp_gpu *gpu;
        char *text;

        (void) state;
        finish(s, "run", 14 * S + 1);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.gpus.n, 1);
        gpu = &report.gpus.list[0];
        assert_string_equal(gpu->domain, "nvidia1");
        assert_near(infp_gpu_mean(gpu, INFP_GPU_USED), 90);
        assert_near(infp_gpu_most(gpu, INFP_GPU_USED), 100);
        assert_near(infp_gpu_most(gpu, INFP_GPU_MEMORY_USED), 40.0 * (1 << 30));
        assert_near(infp_gpu_mean(gpu, INFP_GPU_POWER), 320);
        assert_near(infp_gpu_held(gpu, INFP_GPU_HELD_POWER), 0.25);
        assert_near(infp_gpu_held(gpu, INFP_GPU_HELD_THERMAL), 0.025);
        assert_near(infp_gpu_held(gpu, INFP_GPU_HELD_BOARD), 0);
        assert_true(isnan(infp_gpu_held(gpu, INFP_GPU_HELD_HW_BRAKE)));
        assert_int_equal(gpu->n_asked, 5);
        assert_int_equal(gpu->n_reasons, 2);
        assert_int_equal(gpu->reasons[0].n, 3);
        assert_int_equal(gpu->n_processes, 2);
        assert_int_equal(gpu->processes[0].pid, 4242); /* the target's, though it has less memory */
        text = text_of(&report, 140);
        assert_says(text, "NVIDIA H100 (GPU-1)");
        assert_says(text, "90.0 % of the time on average, 100 % at most");
        assert_says(text, "40.0 GiB at most of 80.0 GiB (50.0 %)");
        assert_says(text, "320 W on average, 340 W at most; its limit is 700 W");
        assert_says(text, "64 \xc2\xb0"
                          "C at most");
        assert_says(text, "25.0 % of the time by its power limit, 2.5 % of the time by heat");
        assert_says(text, "software power cap (60 % of samples), software thermal slowdown (20 % of samples)");
        assert_says(text, "python (4242), the target's, 5.00 GiB at most, busy for it 42.0 % of the time");
        assert_says(text, "a process (77 on the host), 8.00 GiB at most");
        assert_null(strstr(text, "the board"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* What the driver does not tell is null, and in the text it is not there. */
static void test_absent_is_not_zero(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;
        char *text;

        (void) state;
        for (int i = 0; i < 3; i++) {
                begin_gpu(s, &infp_table_nvidia, 10 + i, 0);
                sample_put(s);
        }
        finish(s, "host", 13 * S);
        make(s, NULL, NULL, 0, &report);
        assert_true(isnan(report.energy.joules) && isnan(report.energy.gpu_joules));
        text = text_of(&report, 140);
        assert_says(text, "  busy      not reported by the driver");
        assert_null(strstr(text, "  power "));
        assert_null(strstr(text, "held back"));
        assert_null(strstr(text, " 0 "));
        free(text);
        text = json_of(&report);
        assert_says(text, "\"utilization_percent\": null");
        assert_says(text, "\"memory_peak_bytes\": null");
        assert_says(text, "\"energy_joules\": null");
        assert_says(text, "\"power_limit\": null");
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* 10 to 14 s: package 20 W, one GPU 300 W by its counter, another 100 W integrated; 400 tokens. */
static void test_joules_per_token(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;
        const struct infp_energy *e = &report.energy;
        char *text;

        (void) state;
        for (int i = 0; i <= 4; i++) {
                put_energy(s, 10 + i, "package-0", "powercap", 20 * i, true);
                put_joules(s, &infp_table_nvidia, 10 + i, 0, 300 * i, true);
                put_joules(s, &infp_table_nvidia, 10 + i, 1, 100 * i, false);
                put_tree(s, (uint64_t) (10 + i) * S, 1, i * INT64_C(1000000000), 0, 0);
                put_page(s, (uint64_t) (10 + i) * S, 100 * i);
        }
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(e->joules, 4 * 420);
        assert_near(e->gpu_joules, 4 * 400);
        assert_true(e->is_estimated && e->gpu_is_estimated && e->has_host);
        assert_true(domain(&report, "nvidia1")->is_estimated && !domain(&report, "nvidia0")->is_estimated);
        assert_string_equal(domain(&report, "nvidia0")->source, "counter");
        assert_near(e->j_per_generated, 4.2);
        assert_near(e->gpu_j_per_generated, 4);
        text = text_of(&report, 140);
        assert_says(text, "by package-0, nvidia0, nvidia1");
        assert_says(text, "counts, by its counter");
        assert_says(text, "counts, by its power, ESTIMATED from power");
        assert_says(text, "4.20 J per generated token");
        assert_says(text, "GPUs alone 4 J per generated token");
        assert_says(text, "all of package-0, nvidia0, nvidia1, idle included");
        assert_says(text, "1,200 J in 4.00 s, by its counter");
        free(text);
        text = json_of(&report);
        assert_says(text, "\"gpu_joules_per_generated_token\": 4");
        assert_says(text, "\"gpu_quality\": \"estimated\"");
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* CPU time says nothing of what a GPU drew: only the processors' joules are split. */
static void test_split_without_gpus(void **state)
{
        struct infp_energy e = {
                .has_host = true, .joules = 420, .gpu_inside_joules = 400, .idle_joules = NAN, .dynamic_joules = NAN
        };

        (void) state;
        infp_energy_split(&e, 3, 4);
        assert_near(e.tree_joules, 15);
        assert_near(e.others_joules, 5);
        assert_near(e.residual_joules, 0);
        e.idle_joules = 210; /* 10 of the processors, 200 of the GPUs */
        e.dynamic_joules = 210;
        e.gpu_inside_idle_joules = 200;
        infp_energy_split(&e, 3, 4);
        assert_near(e.tree_joules, 7.5);
        assert_near(e.split_idle_joules, 10);
        assert_near(e.residual_joules, 0);
        e.has_host = false;
        infp_energy_split(&e, 3, 4);
        assert_true(isnan(e.tree_joules) && isnan(e.others_joules));
}

/* Nothing of the processors could be read: the total says what is not in it. */
static void test_gpus_alone(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_row *row = sample_row(s, &infp_table_sources, 10 * S);
        struct infp_report report;
        char *text;

        (void) state;
        infp_row_str(row, INFP_SOURCES_COLLECTOR, "energy");
        infp_row_str(row, INFP_SOURCES_TABLE, "*");
        infp_row_str(row, INFP_SOURCES_COLUMN, "*");
        infp_row_str(row, INFP_SOURCES_STATE, "denied");
        infp_row_str(row, INFP_SOURCES_REASON, "root alone may read it");
        infp_row_str(row, INFP_SOURCES_FIX, "sudo something");
        sample_put(s);
        for (int i = 0; i <= 2; i++)
                put_joules(s, &infp_table_nvidia, 10 + i, 0, 50 * i, true);
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.energy.joules, 100);
        assert_false(report.energy.has_host);
        text = text_of(&report, 140);
        assert_says(text, "  GPUs        100 J in 2.00 s");
        assert_says(text, "processors, memory and the rest of the machine: root alone may read it");
        assert_says(text, "sudo something");
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* While it was lost there were rows without a value; its counter went on. */
static void test_lost_and_back(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;

        (void) state;
        put_joules(s, &infp_table_nvidia, 10, 0, 0, true);
        put_joules(s, &infp_table_nvidia, 11, 0, 50, true);
        begin_gpu(s, &infp_table_nvidia, 12, 0);
        sample_put(s);
        put_joules(s, &infp_table_nvidia, 14, 0, 170, true);
        finish(s, "host", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.energy.joules, 170);
        assert_near(report.energy.seconds, 4);
        infp_report_done(&report);
        sample_free(s);
}

/* A meter at the supply holds the GPU, and the sensor of an AMD card in hwmon is the card's again: each joule once. */
static void test_each_joule_once(void **state)
{
        struct sample_run *s = begin_run();
        struct infp_report report;

        (void) state;
        for (int i = 0; i <= 2; i++) {
                put_energy(s, 10 + i, "power_meter/power1", "hwmon", 500 * i, true);
                put_energy(s, 10 + i, "amdgpu/PPT", "hwmon", 200 * i, false);
                put_joules(s, &infp_table_amdgpu, 10 + i, 0, 200 * i, true);
                put_joules(s, &infp_table_nvidia, 10 + i, 0, 100 * i, true);
        }
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.energy.joules, 1000);
        assert_near(report.energy.gpu_joules, 600);
        assert_string_equal(domain(&report, "nvidia0")->part_of, "power_meter/power1");
        assert_false(domain(&report, "amdgpu0")->is_counted);
        infp_report_done(&report);
        sample_free(s);
        s = begin_run();
        for (int i = 0; i <= 2; i++) {
                put_energy(s, 10 + i, "package-0", "powercap", 10 * i, true);
                put_energy(s, 10 + i, "amdgpu/PPT", "hwmon", 200 * i, false);
                put_joules(s, &infp_table_amdgpu, 10 + i, 0, 200 * i, true);
        }
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.energy.joules, 420);
        infp_report_done(&report);
        sample_free(s);
        /* psys alone: whether a GPU is in it nobody says. */
        s = begin_run();
        for (int i = 0; i <= 2; i++) {
                put_energy(s, 10 + i, "psys", "powercap", 10 * i, true);
                put_joules(s, &infp_table_nvidia, 10 + i, 0, 200 * i, true);
        }
        finish(s, "host", 12 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.energy.joules, 20);
        assert_null(domain(&report, "nvidia0")->part_of);
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_use_and_what_held_it_back),
                cmocka_unit_test(test_absent_is_not_zero),
                cmocka_unit_test(test_joules_per_token),
                cmocka_unit_test(test_split_without_gpus),
                cmocka_unit_test(test_gpus_alone),
                cmocka_unit_test(test_lost_and_back),
                cmocka_unit_test(test_each_joule_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
