/* Rows of processes and of their tree: fields, names, ends, reasons. */
#include "process_rows.h"

#include "base/mem.h"

static void fields_and_hostile_names(void **state)
{
        static const struct {
                int64_t pid, parent, user, kernel;
                const char *name, *state;
        } right[] = {
                { 3001, 2990, 4321, 87, ") S 1 1 1 (", "R" },
                { 3002, 3001, 12, 3, "a) R 7 (b", "S" },
                { 3003, 3001, 5, 1, "", "S" },
                { 3004, 3001, 900, 90, "two words", "D" },
                { 3005, 3004, 44, 4, "x\ny", "S" },
                { 2990, 1, 1, 2, "bash", "S" },
        };
        struct machine *m = machine_open(report_root("15-comm-that-looks-like-a-stat-line/root"));
        struct watch w;

        (void) state;
        watch_open(&w, m, new_target(INFP_MODE_HOST, true, 0));
        watch_sample(&w);
        assert_int_equal(machine_count(m, "processes"), 6);
        assert_int_equal(machine_count(m, "process"), 6);
        for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
                const struct kept *e = entity_of(m, right[i].pid), *k = facts_of(m, right[i].pid);

                assert_text(e, "pName", right[i].name);
                assert_text(k, "pState", right[i].state);
                assert_int_equal(value(k, "pParentId"), right[i].parent);
                assert_int_equal(value(e, "pFirstParentId"), right[i].parent);
                assert_int_equal(value(e, "pUserId"), 1000);
                assert_int_equal(value(k, "pCpuTimeUserMode"), right[i].user);
                assert_int_equal(value(k, "pCpuTimeKernelMode"), right[i].kernel);
                assert_int_equal(value(k, "pNumThreads"), 2);
                assert_int_equal(value(k, "pChildrenUserMode"), 7);
                assert_int_equal(value(k, "pChildrenKernelMode"), 2);
                assert_int_equal(value(k, "pVirtualMemoryBytes"), 33554432);
                assert_int_equal(value(k, "pResidentSetSize"), 1048576);
                assert_int_equal(value(k, "pSwapBytes"), 0);
                assert_false(has(k, "pBlockIODelays") || has(k, "pRssAnonBytes") || has(k, "pReadBytes") ||
                             has(k, "pPssBytes") || has(k, "pCpuTimeNs"));
        }
        assert_int_equal(value(facts_of(m, 3001), "pVoluntaryContextSwitches"), 700);
        assert_int_equal(value(facts_of(m, 3001), "pNonvoluntaryContextSwitches"), 11);
        /* Sums by hand: user 4321 + 12 + 5 + 900 + 44 + 1 + 6 * 7. */
        assert_int_equal(tree_value(m, "tree_cpu_user"), 5325);
        assert_int_equal(tree_value(m, "tree_cpu_system"), 187 + 6 * 2);
        assert_int_equal(tree_value(m, "tree_cpu_ns"), (5325 + 199) * INT64_C(10000000));
        assert_int_equal(tree_value(m, "pNumProcesses"), 6);
        assert_int_equal(tree_value(m, "tree_threads"), 12);
        assert_int_equal(tree_value(m, "tree_rss_bytes"), 6 * 1048576);
        assert_int_equal(tree_value(m, "tree_voluntary_switches"), 590 + 700 + 710 + 720 + 730 + 740);
        assert_false(has(machine_need(m, "tree", NULL), "tree_rchar"));
        watch_close(&w);
}

static void missing_columns_have_a_reason(void **state)
{
        struct machine *m = machine_open(report_root("15-comm-that-looks-like-a-stat-line/root"));
        char reason[512];
        struct watch w;

        (void) state;
        watch_open(&w, m, new_target(INFP_MODE_HOST, true, 0));
        watch_sample(&w);
        assert_string_equal(machine_state(m, "processes", "pBlockIODelays", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "task_delayacct"));
        assert_string_equal(machine_state(m, "processes", "pReadBytes", reason, sizeof(reason)), "absent");
        assert_string_equal(machine_state(m, "tree", "tree_rchar", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "/proc/PID/io"));
        assert_string_equal(machine_state(m, "processes", "pPssBytes", NULL, 0), "absent");
        assert_string_equal(machine_state(m, "processes", "pCpuTimeNs", NULL, 0), "absent");
        watch_close(&w);
}

static void without_a_target_there_is_no_tree(void **state)
{
        struct machine *m = machine_open(report_root("15-comm-that-looks-like-a-stat-line/root"));
        struct infp_collector_state s = { 0 };
        char reason[512];

        (void) state;
        m->env.target = new_target(INFP_MODE_HOST, false, 0);
        assert_int_equal(
                infp_collector_open(&s, infp_collector_find("processes"), &m->env, &m->emit, machine_notice, m),
                -ENODEV);
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "-p"));
        assert_int_equal(m->n_notices, 0);
        infp_collector_close(&s);
        infp_target_free(m->env.target);
        machine_close(m);
}

static void names_that_are_not_utf8(void **state)
{
        struct machine *m = machine_open(report_root("16-name-cut-inside-a-character/root"));
        char text[INFP_ROW_TEXT];
        struct watch w;

        (void) state;
        watch_open(&w, m, new_target(INFP_MODE_HOST, true, 0));
        watch_sample(&w);
        assert_text(entity_of(m, 410), "pName", "run 推理服\\xE5\\x8A");
        kept_text(entity_of(m, 410), kept_cell(entity_of(m, 410), "pCmdline"), text, sizeof(text));
        assert_non_null(strstr(text, "推理服务"));
        assert_non_null(strstr(text, "--模型"));
        assert_text(entity_of(m, 411), "pName", "back\\\\slash\\xFF");
        kept_text(entity_of(m, 411), kept_cell(entity_of(m, 411), "pCmdline"), text, sizeof(text));
        assert_non_null(strstr(text, "mod\\xE8le.py"));
        assert_non_null(strstr(text, "a\\\\b"));
        assert_text(entity_of(m, 412), "pName", "plain");
        for (int pid = 410; pid <= 412; pid++)
                assert_int_equal(value(facts_of(m, pid), "pCpuTimeUserMode"), (pid - 409) * 10);
        watch_close(&w);
}

static void reused(enum infp_mode mode, bool all, pid_t root)
{
        const char *report = report_root("17-pid-reused-between-samples");
        const struct kept *old, *new;
        struct machine *m;
        struct watch w;
        uint64_t first;
        char top[64];
        size_t n;
        /* What was used before we attached is not the recording's. */
        const int64_t before = mode == INFP_MODE_PID ? 91237 + 3212 : 0;

        tree_command("cp -r --no-preserve=mode '%s/t0/.' '%s'", report, tree_new(top));
        m = machine_open(top);
        watch_open(&w, m, new_target(mode, all, root));
        watch_sample(&w);
        first = entity_of(m, 5150)->cell[0].u64;
        assert_int_equal(tree_value(m, "tree_cpu_user") + tree_value(m, "tree_cpu_system"), 91237 + 3212 - before);
        tree_command("cp -r --no-preserve=mode '%s/t1/.' '%s'", report, top);
        for (int tick = 0; tick < 4; tick++) {
                m->clock_ns += INFP_NS_PER_S;
                watch_tick(&w);
                assert_int_equal(tree_value(m, "tree_cpu_user") + tree_value(m, "tree_cpu_system"), 94470 - before);
        }
        old = facts_of_id(m, first, &n);
        assert_int_equal(n, 2);
        assert_text(old, "pState", "X");
        assert_int_equal(old->t_ns, UINT64_C(2000000000));
        assert_int_equal(value(old, "pCpuTimeUserMode"), 91234);
        assert_int_equal(value(old, "pCpuTimeKernelMode"), 3210);
        assert_true(entity_of(m, 5150)->cell[0].u64 != first);
        assert_text(entity_of(m, 5150), "pName", "sleep");
        new = facts_of_id(m, entity_of(m, 5150)->cell[0].u64, &n);
        assert_int_equal(n, 1);
        assert_text(new, "pState", "S");
        assert_int_equal(value(new, "pCpuTimeUserMode"), 12);
        assert_int_equal(value(new, "pCpuTimeKernelMode"), 1);
        assert_int_equal(value(new, "pNumThreads"), 1);
        assert_int_equal(value(facts_of(m, 5100), "pChildrenUserMode"), 91240);
        assert_tree_rises(m);
        watch_close(&w);
        tree_remove(top);
}

static void a_pid_is_used_again(void **state)
{
        (void) state;
        reused(INFP_MODE_HOST, true, 0);
        reused(INFP_MODE_PID, false, 5100);
        reused(INFP_MODE_PID, true, 5100);
}

static void rows_when_something_changed(void **state)
{
        struct machine *m;
        struct watch w;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 10, .utime = 5 });
        tree_put(top, "proc/stat", "btime 1700000000\n");
        m = machine_open(top);
        watch_open(&w, m, new_target(INFP_MODE_PID, false, 10));
        watch_sample(&w);
        for (int i = 1; i < 60; i++) {
                m->clock_ns += INFP_NS_PER_S;
                watch_tick(&w);
        }
        assert_int_equal(machine_count(m, "processes"), 1);
        assert_int_equal(machine_count(m, "tree"), 60);
        assert_int_equal(value(entity_of(m, 10), "pStartTime"), INT64_C(1700000000100000000));
        /* Each 60 s. */
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_int_equal(machine_count(m, "processes"), 2);
        put_process(top, (struct fake_process){ .pid = 10, .utime = 6 });
        watch_tick(&w);
        assert_int_equal(machine_count(m, "processes"), 3);
        assert_int_equal(value(facts_of(m, 10), "pCpuTimeUserMode"), 6);
        assert_int_equal(machine_count(m, "process"), 1);
        /* An exec: another name, another command line. */
        put_process(top, (struct fake_process){ .pid = 10, .utime = 6, .name = "other" });
        tree_put_bytes(top, "proc/10/cmdline", "other\0--fast", 12);
        watch_tick(&w);
        assert_int_equal(machine_count(m, "process"), 2);
        assert_text(entity_of(m, 10), "pName", "other");
        assert_text(entity_of(m, 10), "pCmdline", "other --fast");
        /* The end. */
        remove_process(top, 10);
        watch_tick(&w);
        assert_text(facts_of(m, 10), "pState", "X");
        assert_int_equal(tree_value(m, "tree_processes"), 0);
        assert_int_equal(tree_value(m, "tree_cpu_user"), 1); /* 5 before we attached */
        watch_tick(&w);
        assert_tree_rises(m);
        watch_close(&w);
        tree_remove(top);
}

/* A process whose main thread has ended shows no memory under its own number: that is not 0. Of one that has ended it is. */
static void memory_without_a_main_thread(void **state)
{
        static const char text[] = "%d (x) Z 1 1 1 0 -1 0 0 0 0 0 7 5 0 0 20 0 %d 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 "
                                   "0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        struct machine *m;
        struct watch w;
        char top[64], line[256];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1 });
        put_process(top, (struct fake_process){ .pid = 10 });
        tree_put(top, "proc/10/statm", "1000 65 37 1 0 28 0\n");
        m = machine_open(top);
        watch_open(&w, m, new_target(INFP_MODE_PID, false, 10));
        watch_sample(&w);
        assert_int_equal(value(facts_of(m, 10), "pResidentSetSize"), 65 * 4096);
        snprintf(line, sizeof(line), text, 10, 2, 10);
        tree_put(top, "proc/10/stat", line);
        tree_put(top, "proc/10/statm", "0 0 0 0 0 0 0\n");
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_int_equal(value(facts_of(m, 10), "pNumThreads"), 2);
        assert_false(has(facts_of(m, 10), "pResidentSetSize") || has(facts_of(m, 10), "pVirtualMemoryBytes"));
        assert_false(has(machine_need(m, "tree", NULL), "tree_rss_bytes"));
        /* Another of its threads shows it. */
        snprintf(line, sizeof(line), text, 10, 2, 10);
        *strchr(strstr(line, "7 5"), '7') = '8'; /* it runs */
        tree_put(top, "proc/10/stat", line);
        tree_put(top, "proc/10/task/10/stat", line);
        line[strcspn(line, "Z")] = 'S';
        tree_put(top, "proc/10/task/11/stat", line);
        tree_put(top, "proc/10/status", "Name:\tx\nvoluntary_ctxt_switches:\t3\n");
        tree_put(top, "proc/10/task/11/statm", "1100 70 37 1 0 28 0\n");
        tree_put(top, "proc/10/task/11/status", "VmHWM:\t 300 kB\nRssAnon:\t 100 kB\nvoluntary_ctxt_switches:\t5\n");
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_int_equal(value(facts_of(m, 10), "pResidentSetSize"), 70 * 4096);
        assert_int_equal(value(facts_of(m, 10), "pVirtualMemoryBytes"), 1100 * 4096);
        assert_int_equal(value(facts_of(m, 10), "pRssAnonBytes"), 100 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pVoluntaryContextSwitches"), 3); /* of the main thread, as always */
        assert_int_equal(tree_value(m, "tree_rss_bytes"), 70 * 4096);
        snprintf(line, sizeof(line), text, 10, 1, 10);
        tree_put(top, "proc/10/stat", line);
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_int_equal(value(facts_of(m, 10), "pResidentSetSize"), 0);
        watch_close(&w);
        tree_remove(top);
}

static void details_of_status_io_and_delays(void **state)
{
        struct machine *m;
        struct watch w;
        char top[64];

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 10 });
        tree_put(top, "proc/10/status",
                 "Name:\tx\nUid:\t1000\t65534\t1000\t1000\nVmHWM:\t 300 kB\nVmRSS:\t 260 kB\nRssAnon:\t 100 "
                 "kB\nRssFile:\t 150 kB\n"
                 "RssShmem:\t 10 kB\nVmSwap:\t 7 kB\nvoluntary_ctxt_switches:\t11\nnonvoluntary_ctxt_switches:\t12\n");
        tree_put(top, "proc/10/io",
                 "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n");
        tree_put(top, "proc/10/statm", "1000 65 37 1 0 28 0\n");
        tree_put(top, "proc/10/smaps_rollup",
                 "55-56 ---p 0 0:0 0 [rollup]\nRss:\t 260 kB\nPss:\t 55 kB\nPss_Anon: 1 kB\n");
        tree_put(top, "proc/sys/kernel/task_delayacct", "1\n");
        m = machine_open(top);
        m->env.settings = (const struct infp_setting[]){ { "pss", "1" }, { NULL, NULL } };
        watch_open(&w, m, new_target(INFP_MODE_HOST, true, 0));
        watch_sample(&w);
        assert_int_equal(value(entity_of(m, 10), "pUserId"), 65534);
        assert_int_equal(value(facts_of(m, 10), "pRssPeakBytes"), 300 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pRssAnonBytes"), 100 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pRssFileBytes"), 150 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pRssShmemBytes"), 10 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pSwapBytes"), 7 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pVoluntaryContextSwitches"), 11);
        assert_int_equal(value(facts_of(m, 10), "pNonvoluntaryContextSwitches"), 12);
        assert_int_equal(value(facts_of(m, 10), "pReadCharsBytes"), 1);
        assert_int_equal(value(facts_of(m, 10), "pWriteCharsBytes"), 2);
        assert_int_equal(value(facts_of(m, 10), "pReadCalls"), 3);
        assert_int_equal(value(facts_of(m, 10), "pWriteCalls"), 4);
        assert_int_equal(value(facts_of(m, 10), "pReadBytes"), 5);
        assert_int_equal(value(facts_of(m, 10), "pWriteBytes"), 6);
        assert_int_equal(value(facts_of(m, 10), "pCancelledWriteBytes"), 7);
        assert_int_equal(value(facts_of(m, 10), "pResidentSetSize"), 65 * 4096);
        assert_int_equal(value(facts_of(m, 10), "pPssBytes"), 55 * 1024);
        assert_int_equal(value(facts_of(m, 10), "pBlockIODelays"), 0);
        assert_int_equal(tree_value(m, "tree_write_bytes"), 6);
        assert_string_equal(machine_state(m, "processes", "pBlockIODelays", NULL, 0), "");
        watch_close(&w);
        tree_remove(top);
}

static void other_ticks_and_pages(void **state)
{
        struct machine *m;
        struct watch w;
        char top[64];

        (void) state;
        put_process(tree_new(top),
                    (struct fake_process){ .pid = 10, .utime = 2560, .stime = 128, .cutime = 1, .start = 512 });
        tree_put(top, "proc/stat", "btime 100\n");
        m = machine_open(top);
        m->env.ticks_per_s = 256;
        m->env.page_size = 65536;
        watch_open(&w, m, new_target(INFP_MODE_HOST, true, 0));
        watch_sample(&w);
        assert_int_equal(value(facts_of(m, 10), "pCpuTimeUserMode"), 1000);
        assert_int_equal(value(facts_of(m, 10), "pCpuTimeKernelMode"), 50);
        assert_int_equal(value(facts_of(m, 10), "pResidentSetSize"), 655360);
        assert_int_equal(value(entity_of(m, 10), "pStartTime"), INT64_C(102000000000));
        assert_int_equal(tree_value(m, "tree_cpu_user"), 1000);
        assert_int_equal(tree_value(m, "tree_cpu_ns"), INT64_C(2689) * (1000000000 / 256));
        watch_close(&w);
        tree_remove(top);
}

/* Attached late and again: what was used before that is in no total, what a child used that was born meanwhile is. */
static void only_what_was_used_since_we_attached(void **state)
{
        struct infp_target *target = new_target(INFP_MODE_PID, *(const bool *) *state, 0);
        struct machine *m;
        struct watch w;
        char top[64];

        put_process(tree_new(top), (struct fake_process){ .pid = 1 });
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 1, .utime = 1000, .minflt = 90 });
        put_process(top, (struct fake_process){ .pid = 11, .ppid = 10, .utime = 500, .minflt = 40 });
        tree_put(top, "proc/10/io", "rchar: 100\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 70\nwrite_bytes: 0\n");
        m = machine_open(top);
        watch_open(&w, m, target);
        watch_sample(&w);
        assert_int_equal(tree_value(m, "tree_processes"), 0);
        m->clock_ns += INFP_NS_PER_S / 5;
        put_process(top, (struct fake_process){ .pid = 11, .ppid = 10, .utime = 510, .minflt = 40 });
        infp_target_set_root(target, (const pid_t[]){ 10 }, 1);
        watch_tick(&w);
        assert_int_equal(tree_value(m, "tree_processes"), 2);
        assert_int_equal(tree_value(m, "tree_cpu_user"), 0);
        assert_int_equal(tree_value(m, "tree_cpu_ns"), 0);
        assert_int_equal(tree_value(m, "tree_minor_faults"), 0);
        m->clock_ns += INFP_NS_PER_S;
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 1, .utime = 1010, .minflt = 93 });
        put_process(top, (struct fake_process){ .pid = 11, .ppid = 10, .utime = 515, .minflt = 40 });
        put_process(top, (struct fake_process){ .pid = 12, .ppid = 10, .utime = 7, .minflt = 2 });
        watch_tick(&w);
        assert_int_equal(tree_value(m, "tree_cpu_user"), 10 + 5 + 7);
        assert_int_equal(tree_value(m, "tree_minor_faults"), 3 + 2);
        /* The parent waits for the one of whom we had not seen all: it gets all of it. */
        remove_process(top, 11);
        put_process(top, (struct fake_process){
                                 .pid = 10, .ppid = 1, .utime = 1010, .minflt = 93, .cutime = 516, .cminflt = 41 });
        for (int i = 0; i < 4; i++) {
                m->clock_ns += INFP_NS_PER_S;
                watch_tick(&w);
                assert_int_equal(tree_value(m, "tree_cpu_user"), 10 + 6 + 7);
                assert_int_equal(tree_value(m, "tree_minor_faults"), 3 + 1 + 2);
        }
        /* A restart. */
        remove_process(top, 10);
        remove_process(top, 12);
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        put_process(top, (struct fake_process){ .pid = 20, .ppid = 1, .utime = 3000 });
        infp_target_set_root(target, (const pid_t[]){ 20 }, 1);
        for (int i = 0; i < 4; i++) {
                m->clock_ns += INFP_NS_PER_S;
                watch_tick(&w);
                assert_int_equal(tree_value(m, "tree_cpu_user"), 10 + 6 + 7);
        }
        put_process(top, (struct fake_process){ .pid = 20, .ppid = 1, .utime = 3004 });
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_int_equal(tree_value(m, "tree_cpu_user"), 10 + 6 + 7 + 4);
        assert_tree_rises(m);
        watch_close(&w);
        tree_remove(top);
}

/* Nobody there: the tree's memory and threads are not 0 but absent, and one word says why. */
static void a_tree_of_nobody(void **state)
{
        static const char *const gauges[] = { "tree_rss_bytes", "tree_vms_bytes", "tree_swap_bytes", "tree_threads" };
        struct infp_target *target = new_target(INFP_MODE_PID, false, 0);
        struct machine *m;
        struct watch w;
        char top[64], reason[512];
        size_t n_sources;

        (void) state;
        put_process(tree_new(top), (struct fake_process){ .pid = 1 });
        m = machine_open(top);
        infp_target_set_missing(target, false, "nothing listens on port 8099 yet");
        watch_open(&w, m, target);
        watch_sample(&w);
        n_sources = machine_count(m, "sources");
        assert_string_equal(machine_state(m, "tree", NULL, reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "nothing listens on port 8099 yet");
        for (size_t i = 0; i < INFP_COUNT(gauges); i++) {
                assert_false(has(machine_need(m, "tree", NULL), gauges[i]));
                assert_string_equal(machine_state(m, "tree", gauges[i], NULL, 0), "");
        }
        assert_int_equal(tree_value(m, "tree_processes"), 0);
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_int_equal(machine_count(m, "sources"), n_sources);
        infp_target_set_missing(target, true, "whose it is may not be seen");
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_string_equal(machine_state(m, "tree", NULL, NULL, 0), "denied");
        put_process(top, (struct fake_process){ .pid = 10, .ppid = 1 });
        tree_put(top, "proc/10/status", "Uid:\t0\t0\t0\t0\nVmSwap:\t 7 kB\n");
        infp_target_set_root(target, (const pid_t[]){ 10 }, 1);
        infp_target_set_missing(target, false, "");
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_string_equal(machine_state(m, "tree", NULL, NULL, 0), "ok");
        for (size_t i = 0; i < INFP_COUNT(gauges); i++)
                assert_true(has(machine_need(m, "tree", NULL), gauges[i]));
        remove_process(top, 10);
        m->clock_ns += INFP_NS_PER_S;
        watch_tick(&w);
        assert_false(has(machine_need(m, "tree", NULL), "tree_rss_bytes"));
        watch_close(&w);
        tree_remove(top);
}

static void secrets(bool keep, const char *right)
{
        static const char cmdline[] = "serve\0--api-key\0abc123";
        struct machine *m;
        struct watch w;
        char top[64];

        put_process(tree_new(top), (struct fake_process){ .pid = 10 });
        tree_put_bytes(top, "proc/10/cmdline", cmdline, sizeof(cmdline));
        m = machine_open(top);
        m->env.settings = (const struct infp_setting[]){ { "keep-secrets", keep ? "1" : "0" }, { NULL, NULL } };
        watch_open(&w, m, new_target(INFP_MODE_PID, false, 10));
        watch_sample(&w);
        assert_text(entity_of(m, 10), "pCmdline", right);
        watch_close(&w);
        tree_remove(top);
}

static void secrets_are_masked(void **state)
{
        (void) state;
        secrets(false, "serve --api-key ***");
        secrets(true, "serve --api-key abc123");
}

static void long_and_padded_command_lines(void **state)
{
        char title[3000] = "VLLM::EngineCore", top[64], *large = calloc(1, 10000);
        const struct kept *e;
        struct machine *m;
        struct watch w;

        (void) state;
        assert_non_null(large);
        memset(large, 'a', 10000);
        put_process(tree_new(top), (struct fake_process){ .pid = 10 });
        put_process(top, (struct fake_process){ .pid = 11, .ppid = 10 });
        put_process(top, (struct fake_process){ .pid = 12, .ppid = 10 });
        tree_put_bytes(top, "proc/10/cmdline", title, sizeof(title));
        tree_put_bytes(top, "proc/11/cmdline", large, 2500);
        tree_put_bytes(top, "proc/12/cmdline", "", 0);
        free(large);
        m = machine_open(top);
        watch_open(&w, m, new_target(INFP_MODE_PID, false, 10));
        watch_sample(&w);
        assert_text(entity_of(m, 10), "pCmdline", "VLLM::EngineCore");
        e = entity_of(m, 11);
        assert_int_equal(e->cell[kept_cell(e, "pCmdline")].text.size, 2500);
        assert_false(has(entity_of(m, 12), "pCmdline"));
        watch_close(&w);
        tree_remove(top);
}

static void broken_numbers(void **state)
{
        struct machine *m = machine_open(fixture("processes-broken"));
        struct watch w;

        (void) state;
        watch_open(&w, m, new_target(INFP_MODE_HOST, true, 0));
        for (int i = 0; i < 3; i++, m->clock_ns += INFP_NS_PER_S)
                watch_tick(&w);
        assert_false(has(facts_of(m, 7006), "pCpuTimeUserMode")); /* 2^63 ticks */
        assert_int_equal(value(facts_of(m, 7006), "pCpuTimeKernelMode"), 2);
        assert_int_equal(value(facts_of(m, 7007), "pCpuTimeUserMode"), 1);
        watch_close(&w);
}

int main(void)
{
        static const bool no = false, yes = true;
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(fields_and_hostile_names),
                cmocka_unit_test(missing_columns_have_a_reason),
                cmocka_unit_test(without_a_target_there_is_no_tree),
                cmocka_unit_test(names_that_are_not_utf8),
                cmocka_unit_test(a_pid_is_used_again),
                cmocka_unit_test(rows_when_something_changed),
                cmocka_unit_test(memory_without_a_main_thread),
                cmocka_unit_test_prestate(only_what_was_used_since_we_attached, (void *) &no),
                cmocka_unit_test_prestate(only_what_was_used_since_we_attached, (void *) &yes),
                cmocka_unit_test(a_tree_of_nobody),
                cmocka_unit_test(details_of_status_io_and_delays),
                cmocka_unit_test(other_ticks_and_pages),
                cmocka_unit_test(secrets_are_masked),
                cmocka_unit_test(long_and_padded_command_lines),
                cmocka_unit_test(broken_numbers),
        };

        return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
