/* What infprof says of itself. */
#include "process_rows.h"

static const struct kept *sample_self(struct machine *m)
{
        assert_int_equal(machine_sample(m, infp_collector_find("self")), 0);
        return machine_need(m, "self", NULL);
}

static void own_cost(void **state)
{
        struct machine *m = live_machine();
        const struct kept *first, *second;
        volatile uint64_t sink = 0;

        (void) state;
        m->env.target = new_target(INFP_MODE_HOST, false, 0);
        first = sample_self(m);
        for (uint64_t end = infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + 20000000;
             infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end;)
                sink++;
        second = sample_self(m);
        assert_ptr_not_equal(first, second);
        assert_true(value(second, "self_cpu_ns") - value(first, "self_cpu_ns") >= 20000000);
        assert_true(value(second, "self_cpu_ns") - value(first, "self_cpu_ns") < 2000000000);
        assert_true(value(second, "self_rss_bytes") > 500000);
        assert_true(value(second, "self_rss_peak_bytes") >= 500000);
        assert_true(value(second, "self_threads") >= 1);
        assert_true(value(second, "self_voluntary_switches") >= 0);
        assert_int_equal(value(second, "self_scans"), 0);
        infp_target_free(m->env.target);
        machine_close(m);
}

static void counters_of_the_recorder(void **state)
{
        struct infp_stats stats = { .rows = 1,
                                    .rows_dropped = 2,
                                    .bytes_written = 3,
                                    .batches = 4,
                                    .ticks_missed = 5,
                                    .errors = 6,
                                    .notices = 7,
                                    .rows_lost = 8,
                                    .write_errors = 9,
                                    .snapshots_skipped = 10 };
        struct machine *m = live_machine();
        const struct kept *k;

        (void) state;
        m->env.target = new_target(INFP_MODE_HOST, true, 0);
        refresh(m->env.target, &m->env);
        m->env.stats = &stats;
        k = sample_self(m);
        assert_int_equal(value(k, "self_rows"), 1);
        assert_int_equal(value(k, "self_rows_dropped"), 2);
        assert_int_equal(value(k, "self_bytes_written"), 3);
        assert_int_equal(value(k, "self_batches"), 4);
        assert_int_equal(value(k, "self_ticks_missed"), 5);
        assert_int_equal(value(k, "self_errors"), 6);
        assert_int_equal(value(k, "self_notices"), 7);
        assert_int_equal(value(k, "self_rows_lost"), 8);
        assert_int_equal(value(k, "self_write_errors"), 9);
        assert_int_equal(value(k, "self_snapshots_skipped"), 10);
        assert_int_equal(value(k, "self_scans"), 1);
        assert_int_equal(value(k, "self_proc_lists"), 1);
        assert_true(value(k, "self_stat_reads") > 1);
        assert_true(value(k, "self_kept_descriptors") > 0);
        infp_target_free(m->env.target);
        machine_close(m);
}

static void of_another_root_and_without_a_recording(void **state)
{
        struct machine *m = machine_open(fixture("processes-reparented"));
        const struct kept *k;
        char reason[128];

        (void) state;
        m->env.target = new_target(INFP_MODE_HOST, false, 0);
        k = sample_self(m);
        assert_false(has(k, "self_rss_bytes") || has(k, "self_threads") || has(k, "self_rows"));
        assert_true(value(k, "self_cpu_ns") > 0);
        assert_string_equal(machine_state(m, "self", "self_rss_bytes", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "the root is not this machine's own");
        assert_string_equal(machine_state(m, "self", "self_rows", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "nothing is being recorded");
        assert_string_equal(machine_state(m, "self", "self_snapshots_skipped", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "nothing is being recorded");
        infp_target_free(m->env.target);
        machine_close(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(own_cost),
                cmocka_unit_test(counters_of_the_recorder),
                cmocka_unit_test(of_another_root_and_without_a_recording),
        };

        return cmocka_run_group_tests_name("self", tests, NULL, NULL);
}
