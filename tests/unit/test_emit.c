/* Rows and reasons that collectors give away, and what becomes of a collector's errors. */
#include "machine.h"

#include "base/time.h"
#include "collect/target.h"

// clang-format off
static const struct infp_column few_columns[] = {
        INFP_COLUMN(a, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "A."),
        INFP_COLUMN(b, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "B."),
};
static const struct infp_column keys[] = {
        INFP_COLUMN(k, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "K."),
};
// clang-format on
static const struct infp_table few = { .name = "few", .help = "Two.", .columns = few_columns, .n_columns = 2 };
static const struct infp_table keyed = {
        .name = "keyed", .help = "Keyed.", .keys = keys, .n_keys = 1, .columns = few_columns, .n_columns = 2
};
static const struct infp_table *const few_tables[] = { &few, NULL };

static void row(struct machine *m, bool a, bool b)
{
        struct infp_row *r = infp_emit_begin(&m->emit, &few, m->clock_ns);

        if (a)
                infp_row_i64(r, 0, 1);
        if (b)
                infp_row_i64(r, 1, 2);
        infp_emit_commit(&m->emit);
}

static void absence_is_said_once(void **state)
{
        struct machine *m = machine_open("/");
        char reason[128];

        (void) state;
        row(m, true, true);
        assert_int_equal(machine_count(m, "sources"), 0);
        row(m, true, false);
        row(m, true, false);
        assert_int_equal(machine_count(m, "few"), 3);
        assert_int_equal(machine_count(m, "sources"), 1);
        assert_string_equal(machine_state(m, "few", "b", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "the source does not provide it here");
        row(m, true, true);
        assert_int_equal(machine_count(m, "sources"), 2);
        assert_string_equal(machine_state(m, "few", "b", NULL, 0), "ok");
        row(m, true, true);
        row(m, false, false);
        assert_int_equal(machine_count(m, "sources"), 4);
        machine_close(m);
}

static void own_reason_stays(void **state)
{
        struct machine *m = machine_open("/");
        char reason[128];

        (void) state;
        for (int i = 0; i < 3; i++) {
                infp_row_i64(infp_emit_begin(&m->emit, &few, 5), 0, 1);
                infp_emit_source(&m->emit, &few, 1, NULL, INFP_DENIED, "the file is root's", "run as root");
                infp_emit_commit(&m->emit);
        }
        assert_int_equal(machine_count(m, "sources"), 1);
        assert_string_equal(machine_state(m, "few", "b", reason, sizeof(reason)), "denied");
        assert_string_equal(reason, "the file is root's");
        /* Said once is enough as long as nothing changes; another reason is a change. */
        row(m, true, false);
        assert_int_equal(machine_count(m, "sources"), 1);
        infp_emit_source(&m->emit, &few, 1, NULL, INFP_DENIED, "another", NULL);
        assert_int_equal(machine_count(m, "sources"), 2);
        machine_close(m);
}

static void keyed_tables_need_no_reason(void **state)
{
        struct machine *m = machine_open("/");

        (void) state;
        infp_row_i64(infp_emit_begin(&m->emit, &keyed, 5), 0, 7);
        infp_emit_commit(&m->emit);
        assert_int_equal(machine_count(m, "sources"), 0);
        assert_int_equal(machine_count(m, "keyed"), 1);
        machine_close(m);
}

static void instances_and_tables(void **state)
{
        struct machine *m = machine_open("/");

        (void) state;
        m->emit.collector = "c";
        infp_emit_source(&m->emit, &few, -1, NULL, INFP_OK, NULL, NULL);
        assert_int_equal(machine_count(m, "sources"), 0);
        infp_emit_source(&m->emit, &few, -1, NULL, INFP_ABSENT, "no disk", NULL);
        infp_emit_source(&m->emit, NULL, -1, "a", INFP_BROKEN, "x", NULL);
        infp_emit_source(&m->emit, NULL, -1, "b", INFP_BROKEN, "x", NULL);
        infp_emit_source(&m->emit, NULL, -1, "b", INFP_BROKEN, "x", NULL);
        assert_int_equal(machine_count(m, "sources"), 3);
        infp_emit_source(&m->emit, NULL, -1, "a", INFP_OK, NULL, NULL);
        assert_int_equal(machine_count(m, "sources"), 4);
        assert_string_equal(machine_state(m, "few", NULL, NULL, 0), "absent");
        machine_close(m);
}

static void a_full_sink_drops_and_counts(void **state)
{
        struct machine *m = machine_open("/");

        (void) state;
        m->is_full = true;
        row(m, true, false);
        assert_int_equal(m->emit.n_rows, 0);
        assert_int_equal(m->emit.n_dropped, 2); /* the row and its reason */
        m->is_full = false;
        row(m, true, false);
        assert_int_equal(m->emit.n_rows, 2); /* the reason was not said, so it is said now */
        assert_int_equal(machine_count(m, "sources"), 1);
        machine_close(m);
}

static void more_states_than_room_are_counted(void **state)
{
        struct machine *m = machine_open("/");
        char instance[16];

        (void) state;
        for (int turn = 0; turn < 2; turn++)
                for (int i = 0; i < INFP_EMIT_STATES + 100; i++) {
                        snprintf(instance, sizeof(instance), "i%d", i);
                        infp_emit_source(&m->emit, NULL, -1, instance, INFP_BROKEN, "x", NULL);
                }
        assert_int_equal(machine_count(m, "sources"), INFP_EMIT_STATES - INFP_EMIT_STATES / 8);
        assert_int_equal(m->emit.n_dropped, 2 * (100 + INFP_EMIT_STATES / 8));
        machine_close(m);
}

static void states_of_errnos(void **state)
{
        (void) state;
        assert_int_equal(infp_source_state_of(-ENOENT), INFP_ABSENT);
        assert_int_equal(infp_source_state_of(-ENODEV), INFP_ABSENT);
        assert_int_equal(infp_source_state_of(-EACCES), INFP_DENIED);
        assert_int_equal(infp_source_state_of(-EPERM), INFP_DENIED);
        assert_int_equal(infp_source_state_of(-EIO), INFP_BROKEN);
}

/* A collector that does what it is told. */
static int open_result, sample_result, n_opened, n_sampled, n_closed;

static int told_open(void *memory, const struct infp_env *env, struct infp_err *err)
{
        (void) env;
        n_opened++;
        assert_int_equal(*(char *) memory, 0);
        return open_result ? infp_fail(err, open_result, "told to fail") : 0;
}

static int told_sample(void *memory, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        (void) memory;
        (void) err;
        n_sampled++;
        if (sample_result)
                return sample_result;
        infp_row_i64(infp_emit_begin(emit, &few, env->now_ns(env)), 0, 1);
        infp_row_i64(&emit->row, 1, 1);
        infp_emit_commit(emit);
        return 0;
}

static void told_close(void *memory)
{
        (void) memory;
        n_closed++;
}

static const struct infp_collector told = {
        .name = "told",
        .help = "As told.",
        .tables = few_tables,
        .state_size = 8,
        .open = told_open,
        .sample = told_sample,
        .close = told_close,
};

static void reset(int open_r, int sample_r)
{
        open_result = open_r;
        sample_result = sample_r;
        n_opened = n_sampled = n_closed = 0;
}

static void failing_open(void **state)
{
        static const struct {
                int r;
                const char *state;
                unsigned n_notices;
        } cases[] = { { -ENODEV, "absent", 0 }, { -EACCES, "denied", 1 }, { -EIO, "broken", 1 }, { 0, "ok", 0 } };
        char reason[128];

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_collector_state s = { 0 };
                struct machine *m = machine_open("/");

                reset(cases[i].r, 0);
                assert_int_equal(infp_collector_open(&s, &told, &m->env, &m->emit, machine_notice, m), cases[i].r);
                assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), cases[i].state);
                assert_string_equal(reason, cases[i].r ? "told to fail" : "");
                assert_int_equal(m->n_notices, cases[i].n_notices);
                assert_int_equal(s.is_closed, cases[i].r != 0);
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m),
                                 cases[i].r ? -ENODEV : 0);
                infp_collector_close(&s);
                infp_collector_close(&s);
                assert_int_equal(n_closed, 1);
                machine_close(m);
        }
}

/* Descriptors may be free again later. */
static void opens_again_when_there_are_descriptors(void **state)
{
        static const struct {
                int r;
                const char *text;
        } cases[] = { { -EMFILE, "ulimit -n" }, { -ENFILE, "fs.file-max" } };
        char reason[128];

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_collector_state s = { 0 };
                struct machine *m = machine_open("/");

                reset(cases[i].r, 0);
                assert_int_equal(infp_collector_open(&s, &told, &m->env, &m->emit, machine_notice, m), cases[i].r);
                assert_false(s.is_closed);
                assert_int_equal(n_closed, 1);
                assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "broken");
                assert_non_null(strstr(reason, cases[i].text)); /* not what the collector says */
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), -EAGAIN);
                m->clock_ns += INFP_NS_PER_S;
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), cases[i].r);
                assert_int_equal(n_opened, 2);
                assert_int_equal(m->n_notices, 1);
                open_result = 0;
                m->clock_ns += 2 * INFP_NS_PER_S;
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
                assert_int_equal(n_opened, 3);
                assert_int_equal(n_sampled, 2);
                assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "ok");
                infp_collector_close(&s);
                assert_int_equal(n_closed, 3);
                machine_close(m);
        }
}

static void errors_make_pauses(void **state)
{
        /* Period 1 s: pauses of 1, 2, 4 s ... at most 60. */
        static const uint64_t pauses_s[] = { 1, 2, 4, 8, 16, 32, 60, 60 };
        struct infp_collector_state s = { 0 };
        struct machine *m = machine_open("/");
        char reason[128];

        (void) state;
        reset(0, -EIO);
        assert_int_equal(infp_collector_open(&s, &told, &m->env, &m->emit, machine_notice, m), 0);
        for (size_t i = 0; i < sizeof(pauses_s) / sizeof(pauses_s[0]); i++) {
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), -EIO);
                m->clock_ns += pauses_s[i] * INFP_NS_PER_S - 1;
                assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), -EAGAIN);
                m->clock_ns++;
        }
        assert_int_equal(n_sampled, 8);
        assert_int_equal(m->n_notices, 1);
        assert_string_equal(m->notice, "told: Input/output error");
        assert_int_equal(machine_count(m, "sources"), 2); /* ok, broken */
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "broken");
        sample_result = 0;
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "ok");
        assert_int_equal(machine_count(m, "sources"), 3);
        sample_result = -EAGAIN;
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), -EAGAIN);
        sample_result = -ENODEV;
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), -ENODEV);
        assert_int_equal(n_closed, 1);
        assert_int_equal(m->n_notices, 1);
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "absent");
        machine_close(m);
}

static void settings_and_periods(void **state)
{
        static const struct infp_setting settings[] = {
                { "told", "off" }, { "x", NULL }, { "y", "0" }, { "y", "1" }, { NULL, NULL }
        };
        static const struct infp_collector opt_in = { .name = "y", .flags = INFP_OPT_IN },
                                           slow = { .name = "s", .period_ms = 0, .floor_ms = 5000 },
                                           own = { .name = "o", .period_ms = 200 };
        struct machine *m = machine_open("/");

        (void) state;
        assert_true(infp_collector_enabled(&told, &m->env));
        assert_false(infp_collector_enabled(&opt_in, &m->env));
        m->env.settings = settings;
        assert_false(infp_collector_enabled(&told, &m->env));
        assert_true(infp_collector_enabled(&opt_in, &m->env));
        assert_string_equal(infp_env_setting(&m->env, "x"), "");
        assert_true(infp_env_flag(&m->env, "x"));
        assert_null(infp_env_setting(&m->env, "z"));
        assert_int_equal(infp_collector_period_ms(&slow, 1000), 5000);
        assert_int_equal(infp_collector_period_ms(&slow, 60000), 60000);
        assert_int_equal(infp_collector_period_ms(&own, 1000), 200);
        assert_int_equal(infp_collector_period_ms(&told, 50), 50);
        /* Without a target the processes are all read once a second at most. */
        for (enum infp_mode mode = INFP_MODE_HOST; mode <= INFP_MODE_PID; mode++)
                for (int all = 0; all < 2; all++) {
                        const struct infp_collector *processes = infp_collector_find("processes");
                        struct infp_env env = { .period_ms = 200 };
                        struct infp_err err;
                        bool is_slow = mode == INFP_MODE_HOST && all;

                        assert_int_equal(infp_target_new(mode, all, &env.target, &err), 0);
                        assert_int_equal(infp_collector_effective_ms(processes, &env), is_slow ? 1000 : 200);
                        assert_int_equal(infp_collector_effective_ms(&slow, &env), 5000);
                        env.period_ms = 3000;
                        assert_int_equal(infp_collector_effective_ms(processes, &env), 3000);
                        infp_target_free(env.target);
                }
        machine_close(m);
}

static void environments(void **state)
{
        struct infp_env env;
        struct infp_err err;
        char top[64];

        (void) state;
        assert_int_equal(infp_env_open(&env, "/nonexistent/machine", &err), -ENOENT);
        assert_string_equal(err.text,
                            "the root directory /nonexistent/machine cannot be opened: No such file or directory");
        assert_int_equal(infp_env_open(&env, "/", &err), 0);
        assert_true(env.is_live);
        assert_int_equal(strlen(env.boot_id), 36);
        assert_true(env.now_ns(&env) > 0);
        infp_env_close(&env);
        tree_new(top);
        tree_put(top, "proc/sys/kernel/random/boot_id", "rubbish\n");
        assert_int_equal(infp_env_open(&env, top, &err), 0);
        assert_false(env.is_live);
        assert_string_equal(env.boot_id, "");
        assert_int_equal(env.ticks_per_s, 100);
        infp_env_close(&env);
        tree_put(top, "proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-00000000b001\n");
        assert_int_equal(infp_env_open(&env, top, &err), 0);
        assert_string_equal(env.boot_id, "00000000-0000-4000-8000-00000000b001");
        infp_env_close(&env);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(absence_is_said_once),
                cmocka_unit_test(own_reason_stays),
                cmocka_unit_test(keyed_tables_need_no_reason),
                cmocka_unit_test(instances_and_tables),
                cmocka_unit_test(a_full_sink_drops_and_counts),
                cmocka_unit_test(more_states_than_room_are_counted),
                cmocka_unit_test(states_of_errnos),
                cmocka_unit_test(failing_open),
                cmocka_unit_test(opens_again_when_there_are_descriptors),
                cmocka_unit_test(errors_make_pauses),
                cmocka_unit_test(settings_and_periods),
                cmocka_unit_test(environments),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
