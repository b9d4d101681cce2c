/* Who is followed, how a process is known, and what a broken /proc does. */
#include "process_tree.h"

#include "collect/process_stat.h"

static const char tail[] =
        " 100 0 5 0 4321 87 7 -2 20 0 2 0 30010 33554432 256 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 42";

static int parse(const char *name, const char *rest, struct infp_process *p)
{
        char text[1024];

        snprintf(text, sizeof(text), "3001 (%s) %s%s%s", name, "R 2990 3001 3000 0 -1 4194560", tail, rest);
        memset(p, 0, sizeof(*p));
        return infp_process_stat_parse(text, strlen(text), p);
}

static void names_end_at_the_last_parenthesis(void **state)
{
        static const char *const names[] = { ") S 1 1 1 (",
                                             "a) R 7 (b",
                                             "",
                                             "two words",
                                             "x\ny",
                                             "((",
                                             "))",
                                             ") ",
                                             " ",
                                             "\xff\xfe\x80",
                                             "a name of a kernel thread that is longer than fifteen bytes" };
        struct infp_process p;

        (void) state;
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                assert_int_equal(parse(names[i], " 0 0 0 0 0 0 0 0 0 0\n", &p), 0);
                assert_int_equal(p.comm_size, strlen(names[i]));
                assert_memory_equal(p.comm, names[i], p.comm_size);
                assert_int_equal(p.pid, 3001);
                assert_int_equal(p.state, 'R');
                assert_int_equal(p.ppid, 2990);
                assert_int_equal(p.session, 3000);
                assert_int_equal(p.minor_faults, 100);
                assert_int_equal(p.major_faults, 5);
                assert_int_equal(p.utime, 4321);
                assert_int_equal(p.stime, 87);
                assert_int_equal(p.cutime, 7);
                assert_int_equal(p.cstime, -2);
                assert_int_equal(p.n_threads, 2);
                assert_int_equal(p.start_ticks, 30010);
                assert_int_equal(p.vsize_bytes, 33554432);
                assert_int_equal(p.rss_pages, 256);
                assert_int_equal(p.processor, 3);
                assert_int_equal(p.blkio_ticks, 42);
                assert_int_equal(p.image, 0);
        }
}

static void an_exec_changes_the_image(void **state)
{
        const char *head = "1 (x) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1";
        const char *layouts[] = { " 4096 8192 9000", " 4096 8192 9001", " 1 1 0" };
        uint64_t image[3];
        struct infp_process p;
        char text[512];

        (void) state;
        for (int i = 0; i < 3; i++) {
                snprintf(text, sizeof(text), "%s%s 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 1 2 3 4 5 6 7 0\n", head,
                         layouts[i]);
                assert_int_equal(infp_process_stat_parse(text, strlen(text), &p), 0);
                image[i] = p.image;
        }
        assert_true(image[0] && image[1] && image[0] != image[1]);
        assert_int_equal(image[2], 0); /* hidden from us */
}

static void broken_stat_is_refused(void **state)
{
        /* clang-format off */
        static const char *const broken[] = {
                "", "1", "1 (", "1 (x", "1 (x)", "1 (x) ", "1 (x) S", "(x) S 1", "x (x) S 1 1", "-1 (x) S 1", "1 x S 1",
                "1 (x)S 1",
                "99999999999 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0",
                "1 (x) S 99999999999 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0",
                "1 (x) S 1 1 1 0 -1 0 0 0 0 0 99999999999999999999 0 0 0 20 0 1 0 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0",
                "1 (x) S 1 1 1 0 - 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0",
                "1 (x) S 1 1 1 0 1e9 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0",
                "1 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1",
        };
        /* clang-format on */
        struct infp_process p = { .pid = 77, .utime = 5 };

        (void) state;
        for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++)
                assert_int_equal(infp_process_stat_parse(broken[i], strlen(broken[i]), &p), -EBADMSG);
        assert_int_equal(p.pid, 77);
        assert_int_equal(p.utime, 5);
}

static void only_what_can_be_read_is_there(void **state)
{
        struct machine *m = machine_open(fixture("processes-broken"));
        struct infp_target *target = new_target(INFP_MODE_HOST, true, 0);

        (void) state;
        for (int tick = 0; tick < 5; tick++, m->clock_ns += INFP_NS_PER_S) {
                refresh(target, &m->env);
                /* 7006: 2^63 ticks are a number; 7007: no line end; 7011: rubbish behind the line. */
                assert_int_equal(infp_target_count(target), 4);
                assert_true(is_live(target, 7000) && is_live(target, 7006) && is_live(target, 7007) &&
                            is_live(target, 7011));
                assert_int_equal(process_of(target, 7000, false)->is_new, tick == 0);
                assert_int_equal(process_of(target, 7000, false)->is_changed, tick == 0);
                assert_int_equal(process_of(target, 7000, false)->cpu_ns, -1);
        }
        infp_target_free(target);
        machine_close(m);
}

static void without_proc_there_is_an_error(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_HOST, true, 0);
        struct infp_err err = { "" };
        struct machine *m;
        char top[64];

        (void) state;
        m = machine_open(tree_new(top));
        assert_int_equal(infp_target_refresh(target, &m->env, &err), -ENOENT);
        assert_non_null(strstr(err.text, "/proc"));
        put_process(top, (struct fake_process){ .pid = 5 });
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 1);
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

static void host_without_all_reads_nothing(void **state)
{
        struct machine *m = machine_open(fixture("processes-reparented"));
        struct infp_target *target = new_target(INFP_MODE_HOST, false, 0);
        int32_t pid;

        (void) state;
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 0);
        assert_int_equal(infp_target_pids(target, &pid, 1), 0);
        assert_int_equal(infp_target_work(target).n_stat_reads, 0);
        infp_target_free(target);
        machine_close(m);
}

static void tree_of_a_pid(void **state)
{
        struct machine *m = machine_open(report_root("15-comm-that-looks-like-a-stat-line/root"));
        struct infp_target *target = new_target(INFP_MODE_PID, false, 2990);
        int32_t pids[8];

        (void) state;
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 6);
        for (int pid = 3001; pid <= 3005; pid++)
                assert_true(process_of(target, pid, false)->in_tree);
        assert_int_equal(process_of(target, 3001, false)->ppid, 2990);
        assert_int_equal(infp_target_pids(target, pids, 8), 6);
        assert_int_equal(pids[0], 2990);
        assert_int_equal(infp_target_pids(target, pids, 2), 6);
        infp_target_free(target);

        target = new_target(INFP_MODE_PID, false, 3004);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 2);
        assert_true(is_live(target, 3004) && is_live(target, 3005));
        infp_target_free(target);
        machine_close(m);
}

static void what_comes_to_us_is_ours(void **state)
{
        struct machine *m = machine_open(fixture("processes-reparented"));
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 1000);
        static const int ours[] = { 50, 1000, 1100, 1200, 1210 };
        int32_t pids[8];

        (void) state;
        infp_target_exclude(target, 1300);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 5);
        for (size_t i = 0; i < 5; i++)
                assert_true(is_live(target, ours[i]));
        assert_int_equal(infp_target_pids(target, pids, 8), 5);
        assert_int_equal(pids[0], 1000);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 5);
        infp_target_free(target);

        /* With all of the machine's: the same tree, the others beside it. */
        target = new_target(INFP_MODE_RUN, true, 1000);
        infp_target_exclude(target, 1300);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 11);
        assert_int_equal(infp_target_pids(target, pids, 8), 5);
        assert_false(process_of(target, 1310, false)->in_tree);
        infp_target_free(target);
        machine_close(m);
}

static void a_helper_named_late_is_cast_out(void **state)
{
        struct machine *m = machine_open(fixture("processes-reparented"));
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 1000);

        (void) state;
        refresh(target, &m->env);
        assert_true(is_live(target, 1300));
        infp_target_exclude(target, 1300);
        refresh(target, &m->env);
        assert_false(is_live(target, 1300));
        assert_non_null(process_of(target, 1300, true));
        refresh(target, &m->env);
        assert_null(process_of(target, 1300, true));
        infp_target_free(target);
        machine_close(m);
}

static void a_root_may_come_later(void **state)
{
        struct machine *m = machine_open(fixture("processes-reparented"));
        struct infp_target *target = new_target(INFP_MODE_PID, false, 0);
        pid_t root = 1400;

        (void) state;
        refresh(target, &m->env);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 0);
        infp_target_set_root(target, &root, 1);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 2);
        assert_true(is_live(target, 1410));
        infp_target_free(target);
        machine_close(m);
}

/* `--name python` can mean many. */
static void all_roots_that_are_named_are_followed(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_PID, false, 0);
        pid_t roots[INFP_TARGET_ROOTS];
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1 });
        for (int i = 0; i < INFP_TARGET_ROOTS; i++) {
                roots[i] = 1000 + i;
                put_process(top, (struct fake_process){ .pid = roots[i], .ppid = 1 });
        }
        m = machine_open(top);
        infp_target_set_root(target, roots, INFP_TARGET_ROOTS);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), INFP_TARGET_ROOTS);
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

/* A shell that had children and then became us: they are not the command's. */
static void children_that_came_with_us_are_strangers(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 0);
        struct machine *m;
        pid_t root = 1000;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1 });
        tree_command("ln -s 900 '%s/proc/self'", top);
        put_process(top, (struct fake_process){ .pid = 900, .ppid = 1 });
        put_process(top, (struct fake_process){ .pid = 1000, .ppid = 900 });
        put_process(top, (struct fake_process){ .pid = 1200, .ppid = 900, .start = 800 });
        put_process(top, (struct fake_process){ .pid = 1210, .ppid = 1200 });
        put_process(top, (struct fake_process){ .pid = 1300, .ppid = 900 });
        /* What the command has started before we heard that it runs, and what is ours since its parent ended. */
        put_process(top, (struct fake_process){ .pid = 1100, .ppid = 1000 });
        put_process(top, (struct fake_process){ .pid = 50, .ppid = 1100 });
        put_process(top, (struct fake_process){ .pid = 1400, .ppid = 900 });
        put_process(top, (struct fake_process){ .pid = 1410, .ppid = 1400 });
        m = machine_open(top);
        infp_target_exclude(target, 1300);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 0);
        infp_target_set_root(target, &root, 1);
        refresh(target, &m->env);
        assert_true(is_live(target, 1000));
        assert_false(is_live(target, 1200) || is_live(target, 1210) || is_live(target, 1300));
        assert_true(is_live(target, 1100) && is_live(target, 50));
        assert_true(is_live(target, 1400) && is_live(target, 1410));
        assert_int_equal(infp_target_count(target), 5);
        tree_remove(top);
        infp_target_free(target);
        machine_close(m);
}

static void once_in_the_tree_always_in_it(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_PID, false, 10);
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1 });
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 1 });
        put_process(top, (struct fake_process){ .pid = 20, .ppid = 10 });
        put_process(top, (struct fake_process){ .pid = 30, .ppid = 20 });
        m = machine_open(top);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 3);
        /* The middle one ends, its child goes to init and has a child of its own. */
        remove_process(top, 20);
        put_process(top, (struct fake_process){ .pid = 30, .ppid = 1 });
        put_process(top, (struct fake_process){ .pid = 40, .ppid = 30 });
        refresh(target, &m->env);
        assert_non_null(process_of(target, 20, true));
        assert_true(is_live(target, 30) && is_live(target, 40));
        assert_int_equal(process_of(target, 30, false)->ppid, 1);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 3);
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

/* Its parent is seen one refresh later than the process itself. */
static void a_parent_that_comes_late(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_PID, false, 10);
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 10, .ppid = 1 });
        put_process(top, (struct fake_process){ .pid = 30, .ppid = 20 });
        m = machine_open(top);
        refresh(target, &m->env);
        assert_false(is_live(target, 30));
        put_process(top, (struct fake_process){ .pid = 20, .ppid = 10 });
        refresh(target, &m->env);
        assert_true(is_live(target, 30));
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

static void a_pid_used_again_is_another_process(void **state)
{
        const char *report = report_root("17-pid-reused-between-samples");
        struct infp_target *target = new_target(INFP_MODE_HOST, true, 0);
        struct infp_process *gone, *live;
        struct machine *m;
        uint64_t id;
        char top[64];

        (void) state;
        tree_command("cp -r --no-preserve=mode '%s/t0/.' '%s'", report, tree_new(top));
        m = machine_open(top);
        refresh(target, &m->env);
        id = process_of(target, 5150, false)->id;
        tree_command("cp -r --no-preserve=mode '%s/t1/.' '%s'", report, top);
        m->clock_ns += INFP_NS_PER_S;
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 3);
        gone = process_of(target, 5150, true);
        live = process_of(target, 5150, false);
        assert_true(gone && live && live->is_new);
        assert_true(gone->id == id && live->id != id);
        assert_int_equal(gone->utime, 91234);
        assert_int_equal(gone->start_ticks, 880000);
        assert_int_equal(live->utime, 12);
        assert_int_equal(live->start_ticks, 912345);
        assert_ptr_equal(infp_target_at(target, 0), gone);
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

static uint64_t later_each_time(const struct infp_env *env)
{
        return *(uint64_t *) env->clock_context += 1000;
}

/* The pids came to their end and began anew: a child has a lower one than its parent, and is read after it all the same. 40 is the parent's of
 * 10 by its number alone: it is younger. */
static void parents_are_read_first(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_HOST, true, 0);
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 40, .start = 5 });
        put_process(top, (struct fake_process){ .pid = 20, .ppid = 30, .start = 9 });
        put_process(top, (struct fake_process){ .pid = 25, .ppid = 20, .start = 10 });
        put_process(top, (struct fake_process){ .pid = 30, .ppid = 50, .start = 7 });
        put_process(top, (struct fake_process){ .pid = 40, .ppid = 1, .start = 8 });
        put_process(top, (struct fake_process){ .pid = 50, .ppid = 1, .start = 6 });
        m = machine_open(top);
        refresh(target, &m->env);
        m->env.now_ns = later_each_time;
        m->clock_ns += 2 * INFP_NS_PER_S;
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 6);
        for (unsigned i = 0; i < 6; i++) {
                static const int order[] = { 10, 50, 30, 20, 25, 40 };

                assert_true(!i ||
                            process_of(target, order[i - 1], false)->t_ns < process_of(target, order[i], false)->t_ns);
        }
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

static void others_are_read_once_a_second(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_PID, true, 10);
        unsigned n_full = 0;
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 10, .ppid = 1 });
        m = machine_open(top);
        m->env.period_ms = 50;
        for (int i = 0; i < 60; i++) {
                refresh(target, &m->env);
                n_full += infp_target_is_full(target);
                /* A little early, a little late: no second is left out. */
                m->clock_ns += 50 * INFP_NS_PER_MS + (i % 2 ? 1000 : -1000);
        }
        assert_int_equal(n_full, 3);
        infp_target_free(target);
        machine_close(m);
        tree_remove(top);
}

static void what_we_waited_for_adds_up(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 0);
        struct rusage usage = { .ru_utime = { 1, 500000 }, .ru_stime = { 0, 250000 }, .ru_minflt = 7, .ru_majflt = 2 };
        struct infp_reaped reaped;
        struct machine *m = machine_open(fixture("processes-reparented"));

        (void) state;
        infp_target_add_reaped(target, &usage);
        refresh(target, &m->env);
        infp_target_add_reaped(target, &usage);
        reaped = infp_target_reaped(target);
        assert_int_equal(reaped.n, 2);
        assert_int_equal(reaped.user_ns, UINT64_C(3000000000));
        assert_int_equal(reaped.system_ns, 500000000);
        assert_int_equal(reaped.minor_faults, 14);
        assert_int_equal(reaped.major_faults, 4);
        /* What came after the refresh began belongs to the next. */
        assert_int_equal(infp_target_reaped_at_refresh(target).n, 1);
        infp_target_free(target);
        machine_close(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_end_at_the_last_parenthesis),
                cmocka_unit_test(an_exec_changes_the_image),
                cmocka_unit_test(broken_stat_is_refused),
                cmocka_unit_test(only_what_can_be_read_is_there),
                cmocka_unit_test(without_proc_there_is_an_error),
                cmocka_unit_test(host_without_all_reads_nothing),
                cmocka_unit_test(tree_of_a_pid),
                cmocka_unit_test(what_comes_to_us_is_ours),
                cmocka_unit_test(a_helper_named_late_is_cast_out),
                cmocka_unit_test(a_root_may_come_later),
                cmocka_unit_test(all_roots_that_are_named_are_followed),
                cmocka_unit_test(children_that_came_with_us_are_strangers),
                cmocka_unit_test(once_in_the_tree_always_in_it),
                cmocka_unit_test(a_parent_that_comes_late),
                cmocka_unit_test(a_pid_used_again_is_another_process),
                cmocka_unit_test(parents_are_read_first),
                cmocka_unit_test(others_are_read_once_a_second),
                cmocka_unit_test(what_we_waited_for_adds_up),
        };

        return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
