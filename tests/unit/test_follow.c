/* Finding the processes that somebody means by a name, in fixture trees. */
#include "process_tree.h"

#include "record/follow.h"

static struct infp_follow follow_name(const struct infp_env *env, const char *name)
{
        struct infp_follow follow;
        const struct infp_follow_options options = { .name = name };
        struct infp_err err = { "" };

        if (infp_follow_init(&follow, &options, env, &err) < 0)
                fail_msg("%s", err.text);
        return follow;
}

static void roots_are_matches_without_a_matching_parent(void **state)
{
        struct infp_follow follow;
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1, .name = "init" });
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 1, .name = "engine" });
        put_process(top, (struct fake_process){ .pid = 11, .ppid = 10, .name = "engine-worker" });
        put_process(top, (struct fake_process){ .pid = 12, .ppid = 1, .name = "python" });
        tree_put_bytes(top, "proc/12/cmdline", "python\0-m\0engine\0", 17);
        m = machine_open(top);
        follow = follow_name(&m->env, "engine");
        assert_int_equal(follow.n_roots, 2);
        assert_int_equal(follow.roots[0].pid + follow.roots[1].pid, 22);
        assert_string_equal(follow.problem, "");
        infp_follow_done(&follow);
        machine_close(m);
        tree_remove(top);
}

/* What does not fit is said, and how much it is. */
static void more_than_can_be_followed(void **state)
{
        struct infp_follow follow;
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        for (int i = 0; i < INFP_FOLLOW_PIDS + 3; i++)
                put_process(top, (struct fake_process){ .pid = 100 + i, .ppid = 1, .name = "many" });
        put_process(top,
                    (struct fake_process){ .pid = 1000, .ppid = 100, .name = "many" }); /* no root: a child of one */
        m = machine_open(top);
        follow = follow_name(&m->env, "many");
        assert_int_equal(follow.n_roots, INFP_FOLLOW_PIDS);
        assert_non_null(strstr(follow.problem, "259 processes match: only the first 256 and"));
        infp_follow_done(&follow);
        remove_process(top, 100 + 1);
        remove_process(top, 100 + 2);
        remove_process(top, 100 + 3);
        follow = follow_name(&m->env, "many");
        assert_int_equal(follow.n_roots, INFP_FOLLOW_PIDS);
        assert_string_equal(follow.problem, "");
        infp_follow_done(&follow);
        machine_close(m);
        tree_remove(top);
}

/* Why nobody is followed, from one look to the next. */
static void reasons(void **state)
{
        static const char listens[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid "
                                      "timeout inode\n   0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 "
                                      "00:00000000 00000000 1000 0 777 1 0 100 0 0 10 0\n";
        const struct infp_follow_options options = { .port = 8081 };
        struct infp_follow follow;
        struct infp_err err;
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1, .name = "init" });
        m = machine_open(top);
        follow = follow_name(&m->env, "engine");
        assert_string_equal(follow.reason, "no process is named 'engine' yet");
        assert_false(follow.is_denied || follow.was_found);
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 1, .name = "engine" });
        assert_true(infp_follow_look(&follow, &m->env));
        assert_string_equal(follow.reason, "");
        assert_true(follow.was_found);
        remove_process(top, 10);
        assert_true(infp_follow_look(&follow, &m->env));
        assert_string_equal(follow.reason, "no process is named 'engine' any more");
        infp_follow_done(&follow);

        assert_int_equal(infp_follow_init(&follow, &options, &m->env, &err), 0);
        assert_string_equal(follow.reason, "nothing listens on port 8081 yet");
        tree_put(top, "proc/net/tcp", listens); /* 8081 is 1F91; the descriptors of nobody show it */
        assert_false(infp_follow_look(&follow, &m->env));
        assert_true(follow.is_denied);
        assert_non_null(strstr(follow.reason, "something listens on port 8081, but its process cannot be identified"));
        infp_follow_done(&follow);
        machine_close(m);
        tree_remove(top);
}

static void put_network(const char *top, int pid, int network)
{
        tree_command("mkdir -p '%s/proc/%d/ns' && ln -s 'net:[%d]' '%s/proc/%d/ns/net'", top, pid, network, top, pid);
}

/* Of containers that are known each look reads the sockets; new ones are looked for each five seconds. */
static void in_another_network(void **state)
{
        static const char listens[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid "
                                      "timeout inode\n   0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 "
                                      "00:00000000 00000000 1000 0 777 1 0 100 0 0 10 0\n";
        const struct infp_follow_options options = { .port = 8081 };
        struct infp_follow follow;
        struct infp_err err;
        struct machine *m;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 10, .ppid = 1, .name = "engine" });
        put_process(top, (struct fake_process){ .pid = 20, .ppid = 1, .name = "other" });
        tree_command("mkdir -p '%s/proc/self/ns' && ln -s 'net:[1]' '%s/proc/self/ns/net'", top, top);
        put_network(top, 10, 2);
        tree_command("mkdir -p '%s/proc/10/fd' && ln -s 'socket:[777]' '%s/proc/10/fd/3'", top, top);
        m = machine_open(top);
        assert_int_equal(infp_follow_init(&follow, &options, &m->env, &err), 0);
        assert_int_equal(follow.n_roots, 0);
        tree_put(top, "proc/10/net/tcp", listens);
        assert_true(infp_follow_look(&follow, &m->env));
        assert_int_equal(follow.roots[0].pid, 10);
        /* It moves into a network that is new. */
        remove_process(top, 10);
        assert_true(infp_follow_look(&follow, &m->env));
        put_network(top, 20, 3);
        tree_command("mkdir -p '%s/proc/20/fd' && ln -s 'socket:[777]' '%s/proc/20/fd/3'", top, top);
        tree_put(top, "proc/20/net/tcp", listens);
        assert_false(infp_follow_look(&follow, &m->env));
        m->clock_ns += 5 * INFP_NS_PER_S;
        assert_true(infp_follow_look(&follow, &m->env));
        assert_int_equal(follow.roots[0].pid, 20);
        infp_follow_done(&follow);
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(roots_are_matches_without_a_matching_parent),
                cmocka_unit_test(more_than_can_be_followed),
                cmocka_unit_test(reasons),
                cmocka_unit_test(in_another_network),
        };

        return cmocka_run_group_tests_name("follow", tests, NULL, NULL);
}
