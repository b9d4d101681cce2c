/* Which threads the reader of --wall knows: processes of the target and their threads, as they come and go in a fixture tree. */
#include "process_tree.h"

#include <sys/resource.h>

#include "sampler/waits/wall_threads.h"

struct world {
        char top[64];
        struct machine *machine;
        struct infp_target *target;
        struct infp_wall_threads threads;
        int32_t gone[64];
        unsigned n_gone;
        uint64_t now_ns;
};

static void note_gone(void *context, int32_t tid)
{
        struct world *w = context;

        assert_true(w->n_gone < 64);
        w->gone[w->n_gone++] = tid;
}

static void put_thread(struct world *w, int pid, int tid)
{
        char path[64];

        snprintf(path, sizeof(path), "proc/%d/task/%d/schedstat", pid, tid);
        tree_put(w->top, path, "1 1 1\n");
}

static void put(struct world *w, int pid, int ppid)
{
        put_process(w->top, (struct fake_process){ .pid = pid, .ppid = ppid });
        put_thread(w, pid, pid);
}

/* The target's own scan, then the reader's. */
static void look(struct world *w, bool with_target, uint64_t later_ns)
{
        w->now_ns += later_ns;
        w->n_gone = 0;
        if (with_target)
                refresh(w->target, &w->machine->env);
        assert_int_equal(infp_wall_threads_refresh(&w->threads, &w->machine->env, w->now_ns), 0);
}

static void check(const struct world *w, const char *wanted)
{
        char text[256] = "";

        for (uint32_t i = 0; i < w->threads.n_processes; i++)
                for (uint32_t k = 0; k < w->threads.processes[i].n_threads; k++)
                        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d/%d ",
                                 w->threads.processes[i].pid, w->threads.processes[i].threads[k].tid);
        assert_string_equal(text, wanted);
}

static void open_world(struct world *w)
{
        struct infp_err err;

        memset(w, 0, sizeof(*w));
        tree_new(w->top);
        put_process(w->top, (struct fake_process){ .pid = 1 });
        put(w, 7, 1);
        put_thread(w, 7, 9);
        put_thread(w, 7, 8);
        w->machine = machine_open(w->top);
        w->target = new_target(INFP_MODE_PID, false, 7);
        w->machine->env.target = w->target;
        w->now_ns = 5 * INFP_NS_PER_S;
        assert_int_equal(infp_wall_threads_open(&w->threads, &w->machine->env, &err), 0);
        w->threads.gone = note_gone;
        w->threads.gone_context = w;
        w->threads.stack_bytes = 4096;
        look(w, true, 0);
}

static void close_world(struct world *w)
{
        infp_wall_threads_close(&w->threads);
        infp_target_free(w->target);
        machine_close(w->machine);
        tree_remove(w->top);
}

static void test_threads(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        check(&w, "7/7 7/8 7/9 ");
        assert_int_equal(w.threads.n_threads, 3);
        assert_int_equal(w.threads.processes[0].threads[0].stack_bytes, 4096);
        /* Their number has changed: seen at once. */
        put_thread(&w, 7, 20);
        look(&w, false, 1);
        check(&w, "7/7 7/8 7/9 7/20 ");
        assert_int_equal(w.n_gone, 0);
        /* One ended and another began: the number is the same, a second later all are listed. */
        tree_command("rm -r '%s/proc/7/task/8'", w.top);
        put_thread(&w, 7, 21);
        look(&w, false, 1);
        check(&w, "7/7 7/8 7/9 7/20 ");
        look(&w, false, INFP_NS_PER_S);
        check(&w, "7/7 7/9 7/20 7/21 ");
        assert_int_equal(w.n_gone, 1);
        assert_int_equal(w.gone[0], 8);
        /* The same, and the reader has noticed the end by itself. */
        tree_command("rm -r '%s/proc/7/task/9'", w.top);
        put_thread(&w, 7, 22);
        w.n_gone = 0;
        infp_wall_threads_ended(&w.threads, &w.threads.processes[0], 1);
        assert_int_equal(w.n_gone, 1);
        assert_int_equal(w.threads.n_threads, 3);
        look(&w, false, 1);
        check(&w, "7/7 7/20 7/21 7/22 ");
        close_world(&w);
        assert_int_equal(w.threads.keeper.n_kept, 0);
}

static void test_processes(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        put(&w, 30, 7);
        put(&w, 5, 7);
        look(&w, true, 1);
        check(&w, "5/5 7/7 7/8 7/9 30/30 ");
        remove_process(w.top, 7);
        look(&w, true, 1);
        check(&w, "5/5 30/30 ");
        assert_int_equal(w.n_gone, 3);
        assert_int_equal(w.threads.n_threads, 2);
        /* The number was given to another process. */
        remove_process(w.top, 30);
        put_process(w.top, (struct fake_process){ .pid = 30, .ppid = 5, .start = 4000 });
        put_thread(&w, 30, 30);
        put_thread(&w, 30, 31);
        look(&w, true, 1);
        check(&w, "5/5 30/30 30/31 ");
        assert_int_equal(w.n_gone, 1);
        close_world(&w);
}

/* What perf names is read before the target knows it, and no longer than that may take. */
static void test_hints(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        put(&w, 40, 7);
        put(&w, 41, 1);
        infp_wall_threads_hint(&w.threads, 40, w.now_ns);
        infp_wall_threads_hint(&w.threads, 41, w.now_ns);
        infp_wall_threads_hint(&w.threads, 41, w.now_ns);
        look(&w, false, 1);
        check(&w, "7/7 7/8 7/9 40/40 41/41 ");
        look(&w, true, INFP_NS_PER_S);
        check(&w, "7/7 7/8 7/9 40/40 41/41 ");
        look(&w, false, 3 * INFP_NS_PER_S);
        check(&w, "7/7 7/8 7/9 40/40 ");
        assert_int_equal(w.n_gone, 1);
        assert_int_equal(w.gone[0], 41);
        close_world(&w);
}

/* Half of a small number of descriptors: 4,000 threads with two each stay open below a limit of 20,000. */
static void test_descriptors(void **state)
{
        struct rlimit before, few;
        struct world w;

        (void) state;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = before;
        few.rlim_cur = 1000;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        open_world(&w);
        assert_int_equal(w.threads.keeper.cap, 500);
        close_world(&w);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads), cmocka_unit_test(test_processes),
                                            cmocka_unit_test(test_hints), cmocka_unit_test(test_descriptors) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
