/* infprof backtrace: what every thread of a process does at this moment. */
#include <errno.h>
#include <string.h>

#include "app/backtrace/backtrace.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "view/backtrace/backtrace.h"

enum { PATIENCE_MS = 200 };

// clang-format off
static const struct infp_option options[] = {
        { 0, "name", "REGEX", "the processes whose name or command line matches this extended regular expression", false },
        { 0, "port", "PORT", "the process that listens on this TCP port", false },
        { 0, "python-only", NULL, "show Python frames alone", false },
        { 0, "native-only", NULL, "show native frames alone", false },
        { 0, "locals", NULL, "show the values of Python's variables, with secrets masked", false },
        { 0, "no-block", NULL, "stop no thread: show Python frames alone, each stack read until it is the same twice", false },
        { 0, "async", NULL, "show the tasks of asyncio's event loops too: what each does, and which task awaits it", false },
        { 0, "keep-secrets", NULL, "do not mask keys, tokens and passwords", false },
        { 'v', "verbose", NULL, "print on standard error what the stacks cost", false },
        { 0, "json", NULL, "print an array of objects, one for each thread, and for each task", false },
        INFP_OUTPUT_OPTION,
        { 0 },
};
// clang-format on

static int read_number(const char *what, const char *text, pid_t *ret, struct infp_err *err)
{
        uint64_t number;

        if (infp_parse_u64(text, strlen(text), &number) < 0 || number == 0 || number > INT32_MAX)
                return infp_fail(err, -EINVAL, "%s is not the number of a %s", text, what);
        *ret = (pid_t) number;
        return 0;
}

static int read_options(const struct infp_arguments *arguments, pid_t *pid, struct infp_backtrace_options *ret,
                        struct infp_err *err)
{
        unsigned n;

        *ret = (struct infp_backtrace_options){
                .python_only = infp_argument_given(arguments, "python-only"),
                .native_only = infp_argument_given(arguments, "native-only"),
                .no_block = infp_argument_given(arguments, "no-block"),
                .locals = infp_argument_given(arguments, "locals"),
                .tasks = infp_argument_given(arguments, "async"),
                .keep_secrets = infp_argument_given(arguments, "keep-secrets"),
                .patience_ms = PATIENCE_MS,
        };
        INFP_TRY(infp_name_and_port_read(arguments, &ret->follow, err));
        if (arguments->n_rest > 2)
                return infp_fail(err, -EINVAL, "it takes a PID and a TID, not %d operands", arguments->n_rest);
        if (arguments->n_rest) {
                INFP_TRY(read_number("process", arguments->rest[0], pid, err));
                ret->follow.pids = pid;
                ret->follow.n_pids = 1;
        }
        if (arguments->n_rest == 2)
                INFP_TRY(read_number("thread", arguments->rest[1], &ret->tid, err));
        n = (ret->follow.n_pids > 0) + (ret->follow.name != NULL) + (ret->follow.port > 0);
        if (n != 1)
                return infp_fail(err, -EINVAL, "%s",
                                 n ? "only one of PID, --name and --port can be shown at once"
                                   : "name a process: PID, --name REGEX or --port PORT");
        if (ret->python_only && ret->native_only)
                return infp_fail(err, -EINVAL, "--python-only or --native-only, not both");
        if (ret->locals && (ret->native_only || ret->no_block))
                return infp_fail(err, -EINVAL,
                                 "--locals reads Python frames of stopped threads; it cannot be combined with %s",
                                 ret->no_block ? "--no-block" : "--native-only");
        if (ret->native_only && ret->no_block)
                return infp_fail(err, -EINVAL, "--no-block reads no native frames: they change too fast");
        if (ret->tasks && ret->native_only)
                return infp_fail(err, -EINVAL, "--async reads Python frames; it cannot be combined with --native-only");
        if (ret->tasks && ret->tid)
                return infp_fail(err, -EINVAL, "--async shows the tasks of a whole process, not of a thread");
        return 0;
}

static int print(const struct infp_arguments *arguments, const struct infp_backtrace *shown, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        struct infp_json json;

        INFP_TRY(infp_output_open(&output, infp_argument(arguments, "output"), "json", err));
        if (infp_output_is_json(arguments)) {
                infp_json_begin(&json, &output.out.text, 2);
                infp_backtrace_put_json(&json, shown);
                infp_str_putc(&output.out.text, '\n');
        } else {
                infp_backtrace_put_text(&output.out, shown);
        }
        return infp_output_finish(&output, err);
}

static void say_cost(const struct infp_backtrace *shown)
{
        unsigned n_threads = 0;

        for (unsigned i = 0; i < shown->n_processes; i++)
                n_threads += shown->processes[i].n_threads;
        infp_say("backtrace: %u threads took %s ms of CPU time after %s ms of start-up; new to the caches: %s unwind "
                 "tables, %s places in code",
                 n_threads, infp_fixed(shown->cpu_ms - shown->start_ms, 2).text, infp_fixed(shown->start_ms, 2).text,
                 infp_count(shown->n_tables_made).text, infp_count(shown->n_named).text);
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_backtrace_options asked;
        struct infp_backtraces *backtraces;
        struct infp_err err = { "" };
        pid_t pid = 0;
        int r;

        if (read_options(arguments, &pid, &asked, &err) < 0) {
                infp_say("backtrace: %s; see `infprof backtrace -h`", err.text);
                return INFP_EXIT_USAGE;
        }
        r = infp_backtraces_take(&asked, &infp_said, &backtraces, &err);
        if (r < 0)
                return infp_say_failure(&err);
        r = print(arguments, infp_backtraces_shown(backtraces), &err);
        if (r >= 0 && infp_argument_given(arguments, "verbose"))
                say_cost(infp_backtraces_shown(backtraces));
        infp_backtraces_free(backtraces);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

// clang-format off
const struct infp_command infp_command_backtrace = {
        .name = "backtrace",
        .summary = "show what every thread of a process does now",
        .operands = "[PID [TID]]",
        .options = options,
        .more = "Shows the stacks of all threads of the process and of those that descend from it, innermost frame first: native\n"
                "frames, and in their place among them those of CPython 3.8 to 3.15. TID shows one thread of PID alone.\n"
                "\n"
                "Each thread is stopped by ptrace, one at a time, for as long as its stack is read, well below a millisecond as a\n"
                "rule; its stop time is shown. If infprof is killed, the kernel lets the thread go. A system call that waits with\n"
                "epoll_wait, or on a socket with a time limit, may return EINTR, as after any stop and continue.\n"
                "\n"
                "The stop needs the right to trace the process: the same user where kernel.yama.ptrace_scope is 0, or CAP_SYS_PTRACE\n"
                "(root; docker run --cap-add SYS_PTRACE; kubectl debug --profile=sysadmin).\n"
                "\n"
                "--async lists the tasks of asyncio, suspended ones too: the coroutines that a task waits in, with the line of\n"
                "each await, and the tasks that await it. All threads are stopped while they are read (with --no-block: none). In\n"
                "JSON a task is an object with `task`, its address.\n"
                "\n"
                "In JSON, `stack` is merged, native, python, unmerged (both were read and do not fit: native_frames has the native\n"
                "ones), torn (not all Python frames could be read) or none; `incomplete` says that the outermost frames are missing,\n"
                "and `why` what is missing.\n"
                "\n"
                "examples:\n"
                "  infprof backtrace 4242\n"
                "  infprof backtrace --port 8000 --python-only\n"
                "  infprof backtrace --async --port 8000\n"
                "  infprof backtrace 4242 --json | jq '.[] | select(.holds_gil) | .frames[].func'",
        .run = run,
};
// clang-format on
