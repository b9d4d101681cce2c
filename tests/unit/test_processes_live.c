/* Rows of processes of this machine: times that move to parents, execs, denied files, allocations. */
#include "process_rows.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "count_mallocs.h"
#include "skip_because.h"

static void burn_ms(unsigned ms)
{
        uint64_t end = infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ms * INFP_NS_PER_MS;

        while (infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
                ;
}

static void live_tree(void **state)
{
        struct machine *m = live_machine();
        int64_t cpu_ns, own;
        struct rusage usage;
        struct watch w;
        pid_t root, worker;
        int fd[2], go[2];
        char c;

        (void) state;
        assert_int_equal(pipe(fd), 0);
        assert_int_equal(pipe(go), 0);
        root = fork_child();
        if (!root) {
                worker = fork_child();
                if (!worker) {
                        burn_ms(100);
                        assert_int_equal(write(fd[1], "w", 1), 1);
                        stand();
                }
                burn_ms(50);
                assert_int_equal(write(fd[1], &worker, sizeof(worker)), sizeof(worker));
                assert_int_equal(read(go[0], &c, 1), 1);
                end_child(worker);
                stand();
        }
        watch_open(&w, m, new_target(INFP_MODE_RUN, false, root));
        watch_sample(&w);
        for (int got = 0; got < (int) sizeof(pid_t) + 1;) {
                char bytes[8];

                got += (int) read(fd[0], bytes, sizeof(bytes));
        }
        sleep_ms(20);
        watch_tick(&w);
        own = value(facts_of(m, root), "pCpuTimeNs");
        assert_true(own >= 50000000 && own < 150000000);
        assert_int_equal(tree_value(m, "tree_processes"), 2);
        assert_true(value(facts_of(m, root), "pRssAnonBytes") > 0);
        assert_true(value(facts_of(m, root), "pWriteCharsBytes") >= (int64_t) sizeof(pid_t));
        assert_text(facts_of(m, root), "pState", "S");
        cpu_ns = tree_value(m, "tree_cpu_ns");
        assert_true(cpu_ns >= 150000000);
        assert_int_equal(write(go[1], "g", 1), 1);
        for (int i = 0; i < 500 && tree_value(m, "tree_processes") > 1; i++, sleep_ms(10))
                watch_tick(&w);
        for (int i = 0; i < 4; i++)
                watch_tick(&w);
        assert_int_equal(tree_value(m, "tree_processes"), 1);
        /* The worker's time is its parent's now, in steps of 10 ms. */
        assert_true(tree_value(m, "tree_cpu_ns") >= cpu_ns && tree_value(m, "tree_cpu_ns") < cpu_ns + 60000000);
        kill(root, SIGKILL);
        assert_int_equal(wait4(root, NULL, 0, &usage), root);
        infp_target_add_reaped(w.target, &usage);
        for (int i = 0; i < 4; i++, sleep_ms(5))
                watch_tick(&w);
        assert_int_equal(tree_value(m, "tree_processes"), 0);
        assert_true(tree_value(m, "tree_cpu_ns") >= cpu_ns && tree_value(m, "tree_cpu_ns") < cpu_ns + 60000000);
        assert_text(facts_of(m, root), "pState", "X");
        assert_tree_rises(m);
        for (int i = 0; i < 2; i++) {
                close(fd[i]);
                close(go[i]);
        }
        watch_close(&w);
}

/* As the recorder does it with each child that has ended. */
static void bury(struct watch *w, pid_t pid, int io_fd, const char *cmdline, size_t size)
{
        struct infp_last_look *look;
        struct rusage usage;
        siginfo_t info;

        assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
        usage.ru_maxrss = 777;
        look = infp_last_look_new(w->m->env.root_fd, pid, &usage, io_fd, cmdline, size);
        assert_non_null(look);
        infp_target_add_last(w->target, look);
        assert_int_equal(wait4(pid, NULL, 0, &usage), pid);
        infp_target_add_reaped(w->target, &usage);
        close(io_fd);
}

static pid_t fork_writer(int *ret_go, int *ret_io)
{
        static const char bytes[1 << 20];
        int go[2], out;
        char path[32], c;
        pid_t pid;

        assert_int_equal(pipe2(go, O_CLOEXEC), 0);
        pid = fork_child();
        if (!pid) {
                close(go[1]);
                (void) !read(go[0], &c, 1);
                burn_ms(50);
                out = open("/dev/null", O_WRONLY);
                _exit(write(out, bytes, sizeof(bytes)) != sizeof(bytes));
        }
        close(go[0]);
        snprintf(path, sizeof(path), "/proc/%d/io", (int) pid);
        *ret_go = go[1];
        *ret_io = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(*ret_io >= 0);
        return pid;
}

/* What is done after the last sample, and by what came and went between two, is in the rows and in the totals. */
static void what_ended_has_its_last_values(void **state)
{
        static const char cmdline[] = "came\0and went", of_the_first_exec[] = "env\0serve";
        struct machine *m = live_machine();
        char text[INFP_ROW_TEXT];
        int go, io;
        struct watch w;
        pid_t seen = fork_writer(&go, &io), unseen;

        (void) state;
        watch_open(&w, m, new_target(INFP_MODE_RUN, false, seen));
        watch_sample(&w);
        assert_int_equal(value(facts_of(m, seen), "pWriteCharsBytes"), 0);
        close(go);
        bury(&w, seen, io, of_the_first_exec, sizeof(of_the_first_exec));
        unseen = fork_writer(&go, &io);
        close(go);
        bury(&w, unseen, io, cmdline, sizeof(cmdline));
        watch_tick(&w);
        for (int i = 0; i < 2; i++) {
                const pid_t pid = i ? unseen : seen;

                assert_text(facts_of(m, pid), "pState", "X");
                assert_int_equal(value(facts_of(m, pid), "pWriteCharsBytes"), 1 << 20);
                assert_true(value(facts_of(m, pid), "pCpuTimeNs") >= 50000000);
                assert_true(value(facts_of(m, pid), "pRssPeakBytes") >= 777 * 1024);
        }
        assert_non_null(
                strstr(kept_text(entity_of(m, seen), kept_cell(entity_of(m, seen), "pCmdline"), text, sizeof(text)),
                       "test_processes_live"));
        assert_text(entity_of(m, unseen), "pName", "test_processes_");
        assert_text(entity_of(m, unseen), "pCmdline", "came 'and went'");
        for (int i = 0; i < 3; i++, watch_tick(&w)) {
                assert_int_equal(tree_value(m, "tree_wchar"), 2 << 20);
                assert_true(tree_value(m, "tree_cpu_ns") >= 100000000 && tree_value(m, "tree_cpu_ns") < 190000000);
                assert_true(tree_value(m, "tree_process_rss_peak_bytes") >= 777 * 1024);
        }
        assert_tree_rises(m);
        watch_close(&w);
}

/* A parent that ignores SIGCHLD waits for nobody: the kernel adds the child's time to nothing. */
static void a_child_that_nobody_waits_for(void **state)
{
        struct machine *m = live_machine();
        int done[2], go[2];
        int64_t before;
        struct watch w;
        pid_t root;
        char c;

        (void) state;
        assert_int_equal(pipe(done), 0);
        assert_int_equal(pipe(go), 0);
        root = fork_child();
        if (!root) {
                signal(SIGCHLD, SIG_IGN);
                if (!fork_child()) {
                        burn_ms(200);
                        assert_int_equal(write(done[1], "d", 1), 1);
                        assert_int_equal(read(go[0], &c, 1), 1);
                        _exit(0);
                }
                stand();
        }
        watch_open(&w, m, new_target(INFP_MODE_RUN, false, root));
        watch_sample(&w);
        assert_int_equal(read(done[0], &c, 1), 1);
        watch_tick(&w);
        before = tree_value(m, "tree_cpu_ns");
        assert_true(before >= 200000000);
        assert_int_equal(tree_value(m, "tree_processes"), 2);
        assert_int_equal(write(go[1], "g", 1), 1);
        for (int i = 0; i < 200 && tree_value(m, "tree_processes") > 1; i++, sleep_ms(20))
                watch_tick(&w);
        for (int i = 0; i < 4; i++)
                watch_tick(&w);
        assert_int_equal(tree_value(m, "tree_processes"), 1);
        assert_true(tree_value(m, "tree_cpu_ns") >= before && tree_value(m, "tree_cpu_ns") < before + 60000000);
        assert_string_equal(machine_state(m, "tree", NULL, NULL, 0), "absent");
        assert_tree_rises(m);
        end_child(root);
        for (int i = 0; i < 2; i++) {
                close(done[i]);
                close(go[i]);
        }
        watch_close(&w);
}

static void an_exec_is_seen_though_the_name_stays(void **state)
{
        struct machine *m = live_machine();
        struct watch w;
        pid_t root;
        int fd[2], ready[2];
        char byte;

        (void) state;
        assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        root = fork_child();
        if (!root) {
                char go;

                prctl(PR_SET_NAME, "sleep");
                assert_int_equal(write(ready[1], "r", 1), 1);
                assert_int_equal(read(fd[0], &go, 1), 1);
                execl("/bin/sleep", "sleep", "60", "--", (char *) NULL);
                execl("/bin/sleep", "sleep", "60", (char *) NULL);
                _exit(1);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        watch_open(&w, m, new_target(INFP_MODE_RUN, false, root));
        watch_sample(&w);
        for (int i = 0; i < 6; i++, sleep_ms(10))
                watch_tick(&w);
        assert_text(entity_of(m, root), "pName", "sleep");
        assert_int_equal(write(fd[1], "g", 1), 1);
        for (int i = 0; i < 500 && !is_text(entity_of(m, root), "pCmdline", "sleep 60 --"); i++, sleep_ms(10))
                watch_tick(&w);
        assert_text(entity_of(m, root), "pCmdline", "sleep 60 --");
        end_child(root);
        for (int i = 0; i < 2; i++) {
                close(fd[i]);
                close(ready[i]);
        }
        watch_close(&w);
}

/* As another user: io of root's processes is denied, which is said once a column, not once a process. */
static void denied_io_is_said_once(void **state)
{
        pid_t tester;
        int status;

        (void) state;
        if (getuid() != 0)
                SKIP_BECAUSE("needs root");
        tester = fork_child();
        if (!tester) {
                struct machine *m = live_machine();
                char reason[512];
                unsigned n = 0;
                struct watch w;

                assert_int_equal(setgid(65534), 0);
                assert_int_equal(setuid(65534), 0);
                watch_open(&w, m, new_target(INFP_MODE_PID, true, getpid()));
                watch_sample(&w);
                for (int i = 0; i < 3; i++)
                        watch_tick(&w);
                for (size_t i = 0; i < m->n; i++) {
                        char text[64];

                        if (m->rows[i].table == &infp_table_sources)
                                n += !strcmp(kept_text(&m->rows[i], INFP_SOURCES_COLUMN, text, sizeof(text)),
                                             "pReadBytes");
                }
                _exit(n == 1 && !strcmp(machine_state(m, "processes", "pReadBytes", reason, sizeof(reason)), "denied")
                              ? 0
                              : 1);
        }
        assert_int_equal(waitpid(tester, &status, 0), tester);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void no_memory_while_nothing_changes(void **state)
{
        struct machine *m = live_machine();
        struct watch w;
        unsigned n_quiet = 0;
        pid_t root;

        (void) state;
        root = fork_child();
        if (!root)
                for (;;) /* always at work: rows, status and io at each tick */
                        burn_ms(10);
        watch_open(&w, m, new_target(INFP_MODE_RUN, false, root));
        watch_sample(&w);
        for (int i = 0; i < 20; i++, sleep_ms(10))
                watch_tick(&w);
        for (int i = 0; i < 40; i++, sleep_ms(5)) {
                unsigned long before = n_mallocs;

                watch_tick(&w);
                n_quiet += n_mallocs == before;
        }
        /* Others on this machine may start processes: the table of pids grows then. */
        assert_true(n_quiet >= 36);
        assert_true(machine_count(m, "processes") > 10);
        end_child(root);
        watch_close(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(live_tree),
                cmocka_unit_test(what_ended_has_its_last_values),
                cmocka_unit_test(a_child_that_nobody_waits_for),
                cmocka_unit_test(an_exec_is_seen_though_the_name_stays),
                cmocka_unit_test(denied_io_is_said_once),
                cmocka_unit_test(no_memory_while_nothing_changes),
        };

        return cmocka_run_group_tests_name("processes_live", tests, NULL, NULL);
}
