/* Processes of this machine that are followed: families, pids that are used again, few descriptors. */
#include "process_tree.h"

#include <pthread.h>
#include <sys/resource.h>

#include "count_mallocs.h"

struct hello {
        int index; /* 3: the root, when all is done */
        pid_t pid;
};

static void say(int fd, int index)
{
        struct hello hello = { index, getpid() };

        assert_int_equal(write(fd, &hello, sizeof(hello)), sizeof(hello));
}

/* 0: a child. 1: one in a session of its own. 2: a daemon, which forked twice. */
static void start_member(int index, int fd)
{
        pid_t child = fork_child(), middle;

        if (child) {
                if (index == 2)
                        waitpid(child, NULL, 0);
                return;
        }
        if (index >= 1)
                setsid();
        if (index == 2) {
                middle = getpid();
                if (fork())
                        _exit(0);
                while (getppid() == middle)
                        sleep_ms(1);
        }
        say(fd, index);
        stand();
}

static pid_t start_family(pid_t ret[4])
{
        struct hello hello;
        pid_t root;
        int fd[2];

        assert_int_equal(pipe(fd), 0);
        root = fork_child();
        if (!root) {
                for (int i = 0; i < 3; i++)
                        start_member(i, fd[1]);
                say(fd[1], 3);
                stand();
        }
        for (int i = 0; i < 4; i++) {
                assert_int_equal(read(fd[0], &hello, sizeof(hello)), sizeof(hello));
                ret[hello.index] = hello.pid;
        }
        close(fd[0]);
        close(fd[1]);
        return root;
}

static void a_real_tree(void **state)
{
        struct machine *m = live_machine();
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 0);
        pid_t helper, root, family[4];
        int32_t pids[8];

        (void) state;
        assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        helper = fork_child();
        if (!helper)
                stand();
        infp_target_exclude(target, helper);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 0);
        root = start_family(family);
        infp_target_set_root(target, &root, 1);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 4);
        for (int i = 0; i < 3; i++)
                assert_true(is_live(target, family[i]));
        assert_int_equal(process_of(target, family[2], false)->ppid, getpid());
        assert_int_equal(infp_target_pids(target, pids, 8), 4);
        assert_int_equal(pids[0], root);
        assert_true(process_of(target, root, false)->cpu_ns > 0);

        end_child(root); /* its children have PDEATHSIG, the daemon lost it by its second fork */
        for (int i = 0; i < 2; i++)
                waitpid(family[i], NULL, 0);
        refresh(target, &m->env);
        assert_non_null(process_of(target, root, true));
        assert_true(is_live(target, family[2]));
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 1);
        end_child(family[2]);
        end_child(helper);
        prctl(PR_SET_CHILD_SUBREAPER, 0);
        infp_target_free(target);
        machine_close(m);
}

/* Processes that come one by one are found at once, though all of /proc is listed at the first refreshes only. */
static void new_processes_are_found_at_once(void **state)
{
        struct machine *m = live_machine();
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 0);
        pid_t child[20];

        (void) state;
        for (int i = 0; i < 20; i++) {
                child[i] = fork_child();
                if (!child[i])
                        stand();
                if (i == 0)
                        infp_target_set_root(target, child, 1);
                refresh(target, &m->env);
                assert_true(is_live(target, child[i]));
                assert_true(process_of(target, child[i], false)->is_new);
                assert_int_equal(infp_target_count(target), i + 1);
                sleep_ms(15);
        }
        /* Of other pid namespaces' /proc, or of pids that wrapped, all is listed: then there are no tails. */
        assert_true(infp_target_work(target).n_lists + infp_target_work(target).n_tails >= 20);
        for (int i = 0; i < 20; i++)
                end_child(child[i]);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 20);
        for (size_t i = 0; i < 20; i++)
                assert_true(infp_target_at(target, i)->is_gone);
        infp_target_free(target);
        machine_close(m);
}

/* Pids wrap: numbers smaller than before are given out, and one that a process had gets to another. */
static void a_real_pid_used_again(void **state)
{
        struct machine *m = live_machine();
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 0);
        pid_t first = fork_child(), second = 0, other;
        uint64_t id, n_lists;

        (void) state;
        if (!first)
                stand();
        infp_target_set_root(target, &first, 1);
        for (int i = 0; i < 15; i++, sleep_ms(10)) /* until only the end of /proc is listed */
                refresh(target, &m->env);
        id = process_of(target, first, false)->id;
        end_child(first);
        refresh(target, &m->env);
        assert_int_equal(process_of(target, first, true)->id, id);
        n_lists = infp_target_work(target).n_lists;
        sleep_ms(20); /* start times have steps of 10 ms */
        for (int i = 0; i < 100 && second != first; i++) {
                if (second)
                        end_child(second);
                if (!set_next_pid(first - 1))
                        break; /* not as this user */
                other = fork_child();
                if (!other)
                        stand();
                refresh(target, &m->env);
                end_child(other);
                second = fork_child();
                if (!second)
                        stand();
        }
        if (second != first) {
                if (second)
                        end_child(second);
                infp_target_free(target);
                machine_close(m);
                print_message("the pid cannot be had again\n");
                skip();
        }
        refresh(target, &m->env);
        assert_true(infp_target_work(target).n_lists > n_lists);
        assert_true(is_live(target, second));
        assert_true(process_of(target, second, false)->id != id);
        end_child(second);
        infp_target_free(target);
        machine_close(m);
}

static void few_descriptors_are_enough(void **state)
{
        struct machine *m = live_machine();
        struct rlimit before, few;
        struct infp_target *target;
        pid_t child[10];
        char text[4096];
        int fd;

        (void) state;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        for (int i = 0; i < 10; i++) {
                child[i] = fork_child();
                if (!child[i])
                        stand();
        }
        /* First with many kept, then none is left. */
        target = new_target(INFP_MODE_RUN, false, child[0]);
        few = (struct rlimit){ 256, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 10);
        for (size_t i = 0; i < 10; i++)
                assert_true(infp_process_read(target, &m->env, infp_target_at(target, i), "status", text,
                                              sizeof(text)) > 0);
        assert_int_equal(infp_target_work(target).n_kept, 20);
        few.rlim_cur = 16;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        while ((fd = dup(0)) >= 0) /* closed with the process that ends this test's limits */
                ;
        for (size_t i = 0; i < 10; i++)
                assert_true(infp_process_read(target, &m->env, infp_target_at(target, i), "io", text, sizeof(text)) >
                            0);
        sleep_ms(1000); /* stat is due */
        refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 10);
        assert_true(infp_target_work(target).n_kept < 20);
        infp_target_free(target);

        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (fd = 3; fd < 16; fd++)
                if (fd != m->env.root_fd)
                        close(fd);
        /* From the start with 16. */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        target = new_target(INFP_MODE_RUN, false, child[0]);
        for (int tick = 0; tick < 3; tick++) {
                refresh(target, &m->env);
                assert_int_equal(infp_target_count(target), 10);
        }
        assert_int_equal(infp_target_work(target).n_kept, 0);
        infp_target_free(target);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (int i = 0; i < 10; i++)
                end_child(child[i]);
        machine_close(m);
}

static void an_unchanged_table_costs_no_memory(void **state)
{
        struct machine *m = live_machine();
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 0);
        pid_t child[5];
        unsigned long before;
        unsigned n_quiet = 0;

        (void) state;
        for (int i = 0; i < 5; i++) {
                child[i] = fork_child();
                if (!child[i])
                        stand();
        }
        infp_target_set_root(target, child, 1);
        for (int i = 0; i < 20; i++, sleep_ms(10))
                refresh(target, &m->env);
        assert_int_equal(infp_target_count(target), 5);
        /* Others on this machine may start processes meanwhile: the table then grows, now and then. */
        for (int i = 0; i < 50; i++) {
                before = n_mallocs;
                refresh(target, &m->env);
                n_quiet += n_mallocs == before;
        }
        assert_true(n_quiet >= 45);
        for (int i = 0; i < 5; i++)
                end_child(child[i]);
        infp_target_free(target);
        machine_close(m);
}

static void *ask(void *target)
{
        struct rusage usage = { .ru_minflt = 1 };
        int32_t pids[4];

        for (int i = 0; i < 2000; i++) {
                infp_target_pids(target, pids, 4);
                infp_target_add_reaped(target, &usage);
                infp_target_exclude(target, 1300);
        }
        return NULL;
}

static void other_threads_may_ask(void **state)
{
        struct machine *m = machine_open(fixture("processes-reparented"));
        struct infp_target *target = new_target(INFP_MODE_RUN, false, 1000);
        pthread_t thread;

        (void) state;
        assert_int_equal(pthread_create(&thread, NULL, ask, target), 0);
        for (int i = 0; i < 100; i++)
                refresh(target, &m->env);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(infp_target_reaped(target).minor_faults, 2000);
        infp_target_free(target);
        machine_close(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_real_tree),
                cmocka_unit_test(new_processes_are_found_at_once),
                cmocka_unit_test(a_real_pid_used_again),
                cmocka_unit_test(few_descriptors_are_enough),
                cmocka_unit_test(an_unchanged_table_costs_no_memory),
                cmocka_unit_test(other_threads_may_ask),
        };

        return cmocka_run_group_tests_name("target_live", tests, NULL, NULL);
}
