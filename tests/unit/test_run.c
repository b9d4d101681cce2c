#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"

#include "base/fd.h"
#include "base/str.h"
#include "skip_because.h"
#include "store/run_json.h"
#include "store_run.h"

static char dir[64];

/* A directory of its own for each test, and no live runs of others. */
static int set_up(void **state)
{
        (void) state;
        strcpy(dir, "/tmp/infprof-test-XXXXXX");
        if (!mkdtemp(dir))
                return -1;
        return setenv("XDG_RUNTIME_DIR", dir, 1);
}

static int tear_down(void **state)
{
        (void) state;
        remove_tree(dir);
        return 0;
}

static const char *in_dir(const char *name)
{
        static char path[4][256];
        static unsigned at;

        at = (at + 1) % 4;
        snprintf(path[at], sizeof(path[at]), "%s/%s", dir, name);
        return path[at];
}

/* Makes a run that is over (closed), with this uuid and start; "" of uuid: a new one. */
static void make_run(const char *output, const char *uuid, int64_t started, int64_t ended, char ret[37])
{
        struct infp_run_info info = test_info();
        struct infp_err err = { "" };
        struct infp_run *run;

        if (*uuid)
                memcpy(info.uuid, uuid, 37);
        info.started_unix_ns = started;
        info.ended_unix_ns = ended;
        assert_int_equal(infp_run_create(output, &info, &run, &err), 0);
        if (ret)
                memcpy(ret, info.uuid, 37);
        infp_run_close(run);
}

static struct infp_run *open_ok(const char *spec, const char *output)
{
        struct infp_err err = { "" };
        struct infp_run *run = NULL;

        assert_int_equal(infp_run_open(spec, output, &run, &err), 0);
        return run;
}

static void check_fails(const char *spec, const char *output, int r, const char *text)
{
        struct infp_err err = { "" };
        struct infp_run *run = NULL;

        assert_int_equal(infp_run_open(spec, output, &run, &err), r);
        assert_string_equal(err.text, text);
}

static void makes_uuids_that_sort_by_time(void **state)
{
        struct timespec pause = { 0, 1000000 };
        char before[37], after[37];

        (void) state;
        for (int i = 0; i < 20; i++) {
                int64_t now = (int64_t) time(NULL);

                infp_uuid_make(before);
                nanosleep(&pause, NULL);
                infp_uuid_make(after);
                assert_true(infp_uuid_check(before) && infp_uuid_check(after));
                assert_true(strcmp(before, after) < 0);
                assert_int_equal(before[14], '7');
                assert_non_null(strchr("89ab", before[19]));
                assert_in_range(infp_uuid_unix_ms(before) / 1000, now - 1, now + 2);
        }
        /* RFC 9562, appendix A.6. */
        assert_int_equal(infp_uuid_unix_ms("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), INT64_C(1645557742000));
        assert_int_equal(infp_uuid_unix_ms("919108f7-52d1-4320-9bac-f847db4148a8"), 0); /* version 4 */
        assert_false(infp_uuid_check("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"));
        assert_false(infp_uuid_check("017f22e2-79b0-7cc3-98c4-dc0c0c07398"));
        assert_false(infp_uuid_check("017f22e2-79b0-7cc3-98c4-dc0c0c07398f0"));
        assert_false(infp_uuid_check(""));
}

static void keeps_all_of_run_json(void **state)
{
        struct infp_run_info info = test_info(), *is;
        struct infp_err err = { "" };
        struct infp_run *run, *again;

        (void) state;
        assert_int_equal(infp_run_create(in_dir("a/b/out"), &info, &run, &err), 0); /* parents too */
        run->info.ended_unix_ns = SAMPLE_TIME + 5;
        run->info.ended_t_ns = UINT64_C(9007199254740993); /* 2^53 + 1 */
        run->info.exit_code = 137;
        run->info.exit_signal = 9;
        run->info.last_seq = 9;
        run->info.sampling = (struct infp_run_sampling){ 99.5, 20, true, 32768, 512 };
        run->state = INFP_RUN_FINISHED;
        assert_int_equal(infp_run_save(run, &err), 0);
        again = open_ok(in_dir("a/b/out"), NULL);
        is = &again->info;
        assert_null(again->problem);
        assert_int_equal(again->state, INFP_RUN_FINISHED);
        assert_string_equal(is->uuid, info.uuid);
        assert_string_equal(is->command, "python serve.py --api-key ***");
        assert_string_equal(is->mode, "run");
        assert_string_equal(is->format, "parquet");
        assert_string_equal(is->version, "0.1.0");
        assert_string_equal(is->hostname, "box");
        assert_string_equal(is->boot_id, info.boot_id);
        assert_int_equal(is->recorder_pid, 4242);
        assert_int_equal(is->recorder_start_ticks, 77);
        assert_int_equal(is->period_ms, 1000);
        assert_int_equal(is->started_unix_ns, SAMPLE_TIME);
        assert_int_equal(is->ended_unix_ns, SAMPLE_TIME + 5);
        assert_int_equal(is->started_t_ns, 1000000000);
        assert_int_equal(is->ended_t_ns, UINT64_C(9007199254740993));
        assert_int_equal(is->exit_code, 137);
        assert_int_equal(is->exit_signal, 9);
        assert_int_equal(is->last_seq, 9);
        assert_true(is->sampling.cpu_hz == 99.5 && is->sampling.wall_hz == 20 && is->sampling.off_cpu);
        assert_int_equal(is->sampling.stack_bytes, 32768);
        assert_int_equal(is->sampling.max_depth, 512);
        assert_int_equal(is->n_collectors, 1);
        assert_string_equal(is->collectors[0].name, "cpu");
        assert_int_equal(is->collectors[0].period_ms, 1000);
        assert_string_equal(is->collectors[0].tables, "cpu cpu_core");
        infp_run_close(again);
        infp_run_close(run);
}

/* Whom an attached run is about; of others run.json says nothing of it. */
static void keeps_the_target(void **state)
{
        static int32_t pids[] = { 71, 4711 };
        static char name[] = "vllm.*", command[] = "vllm serve --api-key ***", mode[] = "pid", none[] = "";
        const struct infp_run_info targets[] = {
                { .target_name = name, .target_command = command },
                { .target_port = 8071, .target_command = command },
                { .target_pids = pids, .n_target_pids = 2, .target_command = none },
                { .target_port = 0 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
                const struct infp_run_info *t = &targets[i];
                struct infp_run_info info = test_info(), is;
                infp_autostr struct infp_str text = { 0 };
                struct infp_err err = { "" };
                bool finished;

                info.mode = mode;
                info.target_name = t->target_name;
                info.target_port = t->target_port;
                info.target_pids = t->target_pids;
                info.n_target_pids = t->n_target_pids;
                info.target_command = t->target_command;
                infp_run_json_write(&text, &info, false);
                assert_int_equal(infp_run_json_read(text.data, text.size, &is, &finished, &err), 0);
                assert_string_equal(is.target_name, t->target_name ? name : "");
                assert_string_equal(is.target_command, t->target_command ? t->target_command : "");
                assert_int_equal(is.target_port, t->target_port);
                assert_int_equal(is.n_target_pids, t->n_target_pids);
                if (t->n_target_pids)
                        assert_memory_equal(is.target_pids, pids, sizeof(pids));
                assert_int_equal(strstr(text.data, "\"target\"") != NULL, i < 3);
                infp_run_info_done(&is);
        }
}

static void reads_what_others_wrote(void **state)
{
        static const struct {
                const char *text;
                int r;
                const char *error;
        } cases[] = {
                { "{}", 0, "" },
                { "{\"command\": null, \"new_member\": {\"a\": [1]}, \"started_unix_ns\": 5}", 0, "" },
                { "{\"collectors\": [{\"name\": \"x\", \"tables\": [\"a\", 1, \"b\"]}]}", 0, "" },
                { "{\"target\": {\"port\": 70000}}", -EBADMSG, "member \"target\" has a wrong type or value" },
                { "{\"target\": {\"pid\": [0]}}", -EBADMSG, "member \"target\" has a wrong type or value" },
                { "", -EBADMSG, NULL },
                { "[]", -EBADMSG, "it is not a JSON object" },
                { "{\"uuid\": 5}", -EBADMSG, "member \"uuid\" has a wrong type or value" },
                { "{\"recorder_pid\": -1}", -EBADMSG, "member \"recorder_pid\" has a wrong type or value" },
                { "{\"period_ms\": 4294967296}", -EBADMSG, "member \"period_ms\" has a wrong type or value" },
                { "{\"started_t_ns\": \"12x\"}", -EBADMSG, "member \"started_t_ns\" has a wrong type or value" },
                { "{\"collectors\": [{\"period_ms\": true}]}", -EBADMSG,
                  "member \"collectors\" has a wrong type or value" },
                { "{\"sampling\": {\"cpu_hz\": \"x\"}}", -EBADMSG, "member \"sampling\" has a wrong type or value" },
                { "{\"a\": 1, \"a\": 2}", -EBADMSG, NULL },
                { "{\"command\": \"\\ud800\"}", -EBADMSG, NULL },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_run_info info;
                struct infp_err err = { "" };
                bool finished;
                int r = infp_run_json_read(cases[i].text, strlen(cases[i].text), &info, &finished, &err);

                assert_int_equal(r, cases[i].r);
                if (cases[i].error)
                        assert_string_equal(err.text, cases[i].error);
                else
                        assert_non_null(strstr(err.text, "line 1"));
                if (r == 0) {
                        assert_non_null(info.command);
                        assert_int_equal(info.exit_code, -1);
                        infp_run_info_done(&info);
                }
        }
}

static void tells_the_states_apart(void **state)
{
        struct infp_run_info info = test_info();
        struct infp_err err = { "" };
        struct infp_run *recorder, *run;
        int status;
        pid_t pid;

        (void) state;
        assert_int_equal(infp_run_create(dir, &info, &recorder, &err), 0);
        run = open_ok(dir, NULL); /* the pid is nobody's, but the lock is held */
        assert_int_equal(run->state, INFP_RUN_RECORDING);
        infp_run_close(run);
        infp_run_close(recorder);
        run = open_ok(dir, NULL);
        assert_int_equal(run->state, INFP_RUN_INTERRUPTED);
        run->info.ended_unix_ns = 1;
        assert_int_equal(infp_run_save(run, &err), 0);
        infp_run_close(run);
        run = open_ok(dir, NULL);
        assert_int_equal(run->state, INFP_RUN_ENDED);
        run->state = INFP_RUN_FINISHED;
        assert_int_equal(infp_run_save(run, &err), 0);
        infp_run_close(run);
        run = open_ok(dir, NULL);
        assert_int_equal(run->state, INFP_RUN_FINISHED);
        infp_run_close(run);
        /* A recorder that is killed: its lock goes with it. */
        infp_uuid_make(info.uuid);
        pid = fork();
        if (pid == 0) {
                if (infp_run_create(dir, &info, &run, &err) < 0)
                        _exit(1);
                raise(SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        run = open_ok(dir, NULL);
        assert_string_equal(run->info.uuid, info.uuid);
        assert_int_equal(run->state, INFP_RUN_INTERRUPTED);
        infp_run_close(run);
}

/* Field 22 of our own stat. */
static uint64_t own_start_ticks(void)
{
        char text[1024];
        infp_autoclose int root = open("/", O_PATH);
        ssize_t n = infp_read_at(root, "proc/self/stat", text, sizeof(text));
        char *at = n > 0 ? strrchr(text, ')') : NULL;
        unsigned long long ticks = 0;

        assert_non_null(at);
        assert_int_equal(sscanf(at + 2,
                                "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                                &ticks),
                         1);
        return ticks;
}

/* Where the file system keeps no locks, pid, start and boot decide. */
static void knows_a_pid_that_was_used_again(void **state)
{
        uint64_t ticks = own_start_ticks();
        struct {
                int32_t pid;
                uint64_t ticks;
                bool is_boot;
                enum infp_run_state want;
        } cases[] = {
                { (int32_t) getpid(), ticks, true, INFP_RUN_RECORDING },
                { (int32_t) getpid(), ticks + 1, true, INFP_RUN_INTERRUPTED },
                { (int32_t) getpid(), ticks, false, INFP_RUN_INTERRUPTED },
                { 0x7ffffff0, ticks, true, INFP_RUN_INTERRUPTED },
                { 0, 0, true, INFP_RUN_INTERRUPTED },
        };
        infp_autoclose int root = open("/", O_PATH);
        char boot[64];

        (void) state;
        assert_true(infp_read_at(root, "proc/sys/kernel/random/boot_id", boot, sizeof(boot)) > 36);
        boot[36] = 0;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_run_info info = test_info();
                struct infp_err err = { "" };
                struct infp_run *run;

                info.recorder_pid = cases[i].pid;
                info.recorder_start_ticks = cases[i].ticks;
                if (cases[i].is_boot)
                        memcpy(info.boot_id, boot, 37);
                assert_int_equal(infp_run_create(dir, &info, &run, &err), 0);
                infp_run_close(run);
                run = open_ok(info.uuid, dir);
                assert_int_equal(run->state, cases[i].want);
                infp_run_close(run);
        }
}

static void opens_what_is_meant(void **state)
{
        static const char one[] = "01990000-0000-7000-8000-000000000001",
                          two[] = "0199ffff-0000-7000-8000-000000000002";
        struct infp_run *run;
        char path[256];

        (void) state;
        make_run(dir, two, 1000, 0, NULL); /* started before the other, whatever the uuids say */
        make_run(dir, one, 2000, 0, NULL);
        run = open_ok(dir, NULL);
        assert_string_equal(run->info.uuid, one);
        assert_string_equal(run->output, dir);
        infp_run_close(run);
        run = open_ok(NULL, dir);
        assert_string_equal(run->info.uuid, one);
        infp_run_close(run);
        run = open_ok("0199F", dir);
        assert_string_equal(run->info.uuid, two);
        infp_run_close(run);
        snprintf(path, sizeof(path), "%s/%s.infprof/", dir, two);
        run = open_ok(path, NULL);
        assert_string_equal(run->info.uuid, two);
        assert_string_equal(run->output, dir);
        infp_run_close(run);
        assert_int_equal(chdir(path), 0);
        run = open_ok(".", NULL);
        assert_string_equal(run->info.uuid, two);
        infp_run_close(run);
        assert_int_equal(chdir("/"), 0);
        check_fails("0199", dir, -ENOTUNIQ,
                    "2 runs begin with '0199': 0199ffff-0000-7000-8000-000000000002, "
                    "01990000-0000-7000-8000-000000000001; give more of its uuid (`infprof runs` lists them)");
}

static int collect(void *context, const char *uuid)
{
        char *text = context;

        strcat(text, uuid + 35);
        return uuid[35] == '3' ? 7 : 0;
}

static void lists_runs_by_age(void **state)
{
        struct infp_err err = { "" };
        char seen[16] = "";

        (void) state;
        make_run(dir, "01990000-0000-7000-8000-000000000001", 3000, 0, NULL);
        make_run(dir, "01990000-0000-7000-8000-000000000002", 1000, 0, NULL);
        make_run(dir, "01990000-0000-7000-8000-000000000003", 4000, 0, NULL);
        make_run(dir, "01990000-0000-7000-8000-000000000004", 5000, 0, NULL);
        assert_int_equal(mkdir(in_dir("other.infprof"), 0700), 0);
        assert_int_equal(infp_run_each(dir, collect, seen, &err), 7);
        assert_string_equal(seen, "213");
        assert_int_equal(infp_run_each(in_dir("none"), collect, seen, &err), -ENOENT);
}

static void says_why_there_is_no_run(void **state)
{
        char text[600];
        int fd;

        (void) state;
        assert_int_equal(chdir(dir), 0);
        check_fails(
                NULL, NULL, -ENOENT,
                "no run in ./profiler-output: record one with `infprof record -- CMD`, or name a directory with -r");
        assert_int_equal(mkdir("profiler-output", 0700), 0);
        check_fails(
                NULL, NULL, -ENOENT,
                "no run in ./profiler-output: record one with `infprof record -- CMD`, or name a directory with -r");
        fd = open("file.parquet", O_WRONLY | O_CREAT, 0600);
        close(fd);
        check_fails("./file.parquet", NULL, -ENOTDIR,
                    "./file.parquet is a file: name the directory of the run with -r, here .");
        check_fails("nope/dir", NULL, -ENOENT,
                    "there is no directory nope/dir, and 'nope/dir' is not the beginning of a run's uuid");
        check_fails(
                "0", NULL, -ENOENT,
                "there is no directory '0', and no run in ./profiler-output and no live run of yours has a uuid that "
                "begins so");
        check_fails("", NULL, -EINVAL, "-r needs a directory or the beginning of a run's uuid");
        assert_int_equal(mkdir("odd.infprof", 0700), 0);
        check_fails("odd.infprof", NULL, -EINVAL, "odd.infprof is not a run: its name must be <uuid>.infprof");
        snprintf(text, sizeof(text),
                 "%s/file.parquet is not a directory: name the directory that holds the run with -r", dir);
        check_fails(NULL, in_dir("file.parquet"), -ENOTDIR, text);
        assert_int_equal(chdir("/"), 0);
}

/* As another user: what root may not see does not exist for root's tests. */
static void says_who_may_not(void **state)
{
        int status;
        pid_t pid;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        make_run(in_dir("closed"), "", 1000, 0, NULL);
        assert_int_equal(chmod(in_dir("closed"), 0700), 0);
        assert_int_equal(chmod(dir, 0755), 0);
        pid = fork();
        if (pid == 0) {
                struct infp_run_info info = test_info();
                struct infp_err err = { "" };
                struct infp_run *run;
                char want[300];

                if (setuid(65534) < 0)
                        _exit(1);
                snprintf(want, sizeof(want),
                         "cannot read %s/closed: Permission denied; become its owner or ask for read access", dir);
                if (infp_run_open(in_dir("closed"), NULL, &run, &err) != -EACCES || strcmp(err.text, want) != 0)
                        _exit(2);
                snprintf(want, sizeof(want),
                         "cannot write in %s/new: Permission denied; name a directory that you can write with -o", dir);
                if (infp_run_create(in_dir("new"), &info, &run, &err) != -EACCES || strcmp(err.text, want) != 0)
                        _exit(3);
                if (infp_run_create(in_dir("new/deep/er"), &info, &run, &err) != -EACCES)
                        _exit(4); /* the fault of its parent, not "no such file" */
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void refuses_a_file_as_output(void **state)
{
        struct infp_run_info info = test_info();
        struct infp_err err = { "" };
        struct infp_run *run;
        char want[300];
        int fd = open(in_dir("file"), O_WRONLY | O_CREAT, 0600);

        (void) state;
        close(fd);
        assert_int_equal(infp_run_create(in_dir("file"), &info, &run, &err), -ENOTDIR);
        snprintf(want, sizeof(want),
                 "cannot record into %s/file: it, or a part of it, is not a directory; name another with -o", dir);
        assert_string_equal(err.text, want);
        assert_int_equal(infp_run_create(in_dir("file/sub"), &info, &run, &err), -ENOTDIR);
        assert_int_equal(infp_run_create(dir, &info, &run, &err), 0);
        infp_run_close(run);
        assert_int_equal(infp_run_create(dir, &info, &run, &err), -EEXIST); /* never over another run */
}

/* run.json missing, broken, huge: the run can still be opened, as what its directory says. */
static void opens_a_run_without_its_json(void **state)
{
        static const char *const texts[] = { NULL, "", "{\"uuid\":", "\xff\xfe", "{\"period_ms\": []}" };
        static const char uuid[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

        (void) state;
        make_run(dir, uuid, 1000, 0, NULL);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                char path[256], want[300];
                struct infp_run *run;
                int fd;

                snprintf(path, sizeof(path), "%s/%s.infprof/run.json", dir, uuid);
                unlink(path);
                if (texts[i]) {
                        fd = open(path, O_WRONLY | O_CREAT, 0600);
                        assert_int_equal(infp_write_all(fd, texts[i], strlen(texts[i]), NULL), 0);
                        close(fd);
                }
                run = open_ok(dir, NULL);
                assert_int_equal(run->state, INFP_RUN_INTERRUPTED);
                assert_string_equal(run->info.uuid, uuid);
                assert_string_equal(run->info.command, "");
                assert_int_equal(run->info.exit_code, -1);
                assert_int_equal(run->info.started_unix_ns, INT64_C(1645557742000000000));
                snprintf(want, sizeof(want), "%s/%s.infprof/run.json %s", dir, uuid,
                         texts[i] ? "is broken: " : "cannot be read: No such file or directory");
                assert_non_null(run->problem);
                assert_memory_equal(run->problem, want, strlen(want));
                infp_run_close(run);
        }
}

static void lists_tables_and_segments(void **state)
{
        static const char *const files[] = { "cpu/000002.arrows",  "cpu/000001.arrows",
                                             "cpu/000001.parquet", "cpu/000003.parquet.part",
                                             "cpu/notes.txt",      "mem/000001.parquet",
                                             "Odd/000001.arrows",  "none/x" };
        struct test_run t = test_run_open(NULL);
        char **names;

        (void) state;
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                char folder[64];
                int fd;

                strcpy(folder, files[i]);
                *strchr(folder, '/') = 0;
                mkdirat(t.run->fd, folder, 0700);
                fd = openat(t.run->fd, files[i], O_WRONLY | O_CREAT, 0600);
                assert_true(fd >= 0);
                close(fd);
        }
        assert_int_equal(infp_run_tables(t.run, &names, &t.err), 2);
        assert_string_equal(names[0], "cpu");
        assert_string_equal(names[1], "mem");
        free(names[0]), free(names[1]), free(names);
        assert_int_equal(infp_run_segments(t.run, "cpu", &names, &t.err), 2);
        assert_string_equal(names[0], "cpu/000001.parquet"); /* finished: it wins */
        assert_string_equal(names[1], "cpu/000002.arrows");
        free(names[0]), free(names[1]), free(names);
        assert_int_equal(infp_run_segments(t.run, "gpu", &names, &t.err), 0);
        assert_int_equal(infp_run_segments(t.run, "../cpu", &names, &t.err), 0);
        test_run_close(&t);
}

/* One answer for all who ask: the slowest of those who write a table, never faster than the run; names are whole. */
static void knows_the_period_of_a_table(void **state)
{
        struct infp_run_collector collectors[] = { { "cpu", 5000, "cpu cpu_core" },
                                                   { "slow", 30000, "core cpu_core" },
                                                   { "late", 2000, "cpu_core cpu_clock" },
                                                   { "fast", 10, "mem" } };
        const struct infp_run_info info = { .period_ms = 1000, .collectors = collectors, .n_collectors = 4 };
        static const struct {
                const char *table;
                uint64_t ms;
        } cases[] = { { "cpu", 5000 },   { "cpu_core", 30000 }, { "core", 30000 }, { "cpu_clock", 2000 },
                      { "cpu_c", 1000 }, { "mem", 1000 },       { "net", 1000 } };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(infp_run_period_ns(&info, cases[i].table), cases[i].ms * 1000000);
        assert_int_equal(infp_run_period_ns(&(struct infp_run_info){ 0 }, "cpu"), 1000000000);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(makes_uuids_that_sort_by_time),
                TEST(keeps_all_of_run_json),
                TEST(keeps_the_target),
                TEST(reads_what_others_wrote),
                TEST(tells_the_states_apart),
                TEST(knows_a_pid_that_was_used_again),
                TEST(knows_the_period_of_a_table),
                TEST(opens_what_is_meant),
                TEST(lists_runs_by_age),
                TEST(says_why_there_is_no_run),
                TEST(says_who_may_not),
                TEST(refuses_a_file_as_output),
                TEST(opens_a_run_without_its_json),
                TEST(lists_tables_and_segments),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
