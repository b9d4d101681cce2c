#include "cli/record_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"
#include "collectors/engine/engine.h"
#include "store/run.h"

static const struct infp_option source_options[] = { INFP_SOURCE_OPTIONS };

static bool is_source_option(const struct infp_option *option)
{
        for (size_t i = 0; i < sizeof(source_options) / sizeof(source_options[0]); i++)
                if (strcmp(source_options[i].name, option->name) == 0)
                        return true;
        return false;
}

int infp_header_check(const char *line, struct infp_err *err)
{
        if (!strchr(line, ':') || strpbrk(line, "\r\n"))
                return infp_fail(err, -EINVAL, "--header must be one line \"Name: value\"");
        return 0;
}

/* Checked early: hours of recording without the engine, because of a typo in its address, are worse than none. A token file may
 * come later. */
static int check(const struct infp_given *given, struct infp_err *err)
{
        struct infp_err why = { "" };

        if (!strcmp(given->option->name, "header"))
                return infp_header_check(given->value, err);
        if (!strcmp(given->option->name, "engine-token") && access(given->value, R_OK))
                infp_say("--engine-token: %s cannot be read: %s; no engine is read before it can be", given->value,
                         strerror(errno));
        if (strcmp(given->option->name, "engine") || !given->value || infp_engine_check(given->value, &why) >= 0)
                return 0;
        return infp_fail(err, -EINVAL, "--engine: %s", why.text);
}

int infp_source_settings(const struct infp_arguments *arguments, struct infp_setting settings[INFP_SOURCE_SETTINGS],
                         struct infp_err *err)
{
        size_t n = 0;

        for (size_t i = 0; i < arguments->n_given; i++) {
                const struct infp_given *given = &arguments->given[i];

                if (!is_source_option(given->option))
                        continue;
                if (n + 1 == INFP_SOURCE_SETTINGS)
                        return infp_fail(err, -EINVAL, "--%s: too many options of this kind (at most %d)",
                                         given->option->name, INFP_SOURCE_SETTINGS - 1);
                INFP_TRY(check(given, err));
                settings[n++] = (struct infp_setting){ given->option->name, given->value ? given->value : "1" };
        }
        settings[n] = (struct infp_setting){ NULL, NULL };
        return 0;
}

enum { MIN_DEPTH = 128, MIN_STACK_BYTES = 1024, MIN_HEAP_BYTES = 1024, MAX_HEAP_BYTES = 1 << 30 };

/* "--NAME", "--NAME=HZ". Stays 0 when it is not given. */
static int read_rate(const struct infp_arguments *arguments, const char *name, double standard, double most,
                     double *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, name);
        double hz;

        if (!text)
                return 0;
        *ret = standard;
        if (!*text)
                return 0;
        if (infp_parse_f64(text, strlen(text), &hz) < 0 || !(hz >= 1 && hz <= most))
                return infp_fail(err, -EINVAL, "--%s=%s: the rate must be 1 to %s times a second", name, text,
                                 infp_number(most).text);
        *ret = hz;
        return 0;
}

static int read_sizes(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *size = infp_argument(arguments, "stack-size"), *depth = infp_argument(arguments, "max-stack-depth");
        uint64_t v;

        ret->stack_bytes =
                ret->cpu_hz > INFP_SAMPLER_FAST_HZ ? INFP_SAMPLER_FAST_STACK_BYTES : INFP_SAMPLER_MAX_STACK_BYTES;
        ret->max_depth = INFP_SAMPLER_DEFAULT_DEPTH;
        if (size) {
                if (infp_parse_size(size, &v) < 0 || v < MIN_STACK_BYTES || v > INFP_SAMPLER_MAX_STACK_BYTES + 8)
                        return infp_fail(err, -EINVAL, "--stack-size %s: must be from %d to %d bytes", size,
                                         MIN_STACK_BYTES, INFP_SAMPLER_MAX_STACK_BYTES);
                v = v > INFP_SAMPLER_MAX_STACK_BYTES ? INFP_SAMPLER_MAX_STACK_BYTES : v; /* people write 64K */
                ret->stack_bytes = (uint32_t) (v & ~UINT64_C(7));
        }
        if (depth) {
                if (infp_parse_u64(depth, strlen(depth), &v) < 0 || v < MIN_DEPTH || v > INFP_SAMPLER_MAX_DEPTH)
                        return infp_fail(err, -EINVAL, "--max-stack-depth %s: from %d to %d frames", depth, MIN_DEPTH,
                                         INFP_SAMPLER_MAX_DEPTH);
                ret->max_depth = (uint32_t) v;
        }
        if ((size || depth) && !infp_sampler_is_asked(ret))
                return infp_fail(err, -EINVAL, "--%s needs --cpu, --wall or --off-cpu",
                                 size ? "stack-size" : "max-stack-depth");
        return 0;
}

/* "--python=WAY", how Python frames are read, the last one of several; NULL: none. "--python" loads the package. */
static const char *python_way(const struct infp_arguments *arguments)
{
        const char *ret = NULL;

        for (size_t i = 0; i < arguments->n_given; i++)
                if (!strcmp(arguments->given[i].option->name, "python") && arguments->given[i].value)
                        ret = arguments->given[i].value;
        return ret;
}

static bool is_python_way(const char *text, enum infp_python_way *ret)
{
        for (unsigned way = 0; way < INFP_PYTHON_WAYS; way++)
                if (strcmp(text, infp_python_way_name((enum infp_python_way) way)) == 0) {
                        *ret = (enum infp_python_way) way;
                        return true;
                }
        return false;
}

static int read_python(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *text = python_way(arguments);

        if (!text)
                return 0;
        if (!is_python_way(text, &ret->python))
                return infp_fail(err, -EINVAL, "--python=%s: auto, outside, inside or off", text);
        return infp_sampler_is_asked(ret)
                       ? 0
                       : infp_fail(err, -EINVAL, "--python=%s needs --cpu, --wall or --off-cpu", text);
}

/* "1%" or "0.01". */
static bool is_share(const char *text)
{
        const size_t size = strlen(text), digits = size && text[size - 1] == '%' ? size - 1 : size;
        double share;

        return infp_parse_f64(text, digits, &share) == 0 && share > 0 && share <= (digits < size ? 100 : 1);
}

/* "--python", "--torch", "--torch=HOW", "--torch-budget SHARE" */
static int read_package(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        enum infp_python_way way;

        for (size_t i = 0; i < arguments->n_given; i++)
                ret->python_package |=
                        !strcmp(arguments->given[i].option->name, "python") && !arguments->given[i].value;
        if (ret->python_package && ret->command && is_python_way(ret->command[0], &way))
                return infp_fail(err, -EINVAL, "--python takes its value after an equals sign: --python=%s",
                                 ret->command[0]);
        ret->torch = infp_argument(arguments, "torch");
        ret->torch_budget = infp_argument(arguments, "torch-budget");
        if (ret->torch_budget && !is_share(ret->torch_budget))
                return infp_fail(err, -EINVAL, "--torch-budget %s: a percentage as 1%%, or a share as 0.01",
                                 ret->torch_budget);
        if (ret->torch_budget && !ret->torch)
                ret->torch = "";
        ret->python_package |= ret->torch != NULL;
        return ret->python_package && !ret->command ? infp_fail(err, -EINVAL,
                                                                "--%s needs a command after --; `python3.14 -m infprof "
                                                                "--attach PID` loads the package into "
                                                                "a running Python of that version",
                                                                ret->torch ? "torch" : "python")
                                                    : 0;
}

/* "--off-cpu", "--off-cpu=US" */
static int read_off_cpu(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, "off-cpu");
        uint64_t us = INFP_SAMPLER_DEFAULT_WAIT_US;

        if (text && *text && (infp_parse_u64(text, strlen(text), &us) < 0 || us < 1 || us > INFP_SAMPLER_MAX_WAIT_US))
                return infp_fail(err, -EINVAL, "--off-cpu=%s: 1 to %d microseconds", text, INFP_SAMPLER_MAX_WAIT_US);
        ret->off_cpu = text != NULL;
        ret->least_wait_ns = us * 1000;
        return 0;
}

/* "--heap", "--heap=BYTES", "--heap=exact" */
static int read_heap(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, "heap");

        if (!text)
                return 0;
        ret->heap_bytes = INFP_SAMPLER_DEFAULT_HEAP_BYTES;
        if (!strcmp(text, "exact")) {
                ret->heap_bytes = INFP_SAMPLER_HEAP_EXACT;
                return 0;
        }
        if (*text && (infp_parse_size(text, &ret->heap_bytes) < 0 || ret->heap_bytes < MIN_HEAP_BYTES ||
                      ret->heap_bytes > MAX_HEAP_BYTES))
                return infp_fail(err, -EINVAL, "--heap=%s: a sample each 1K to 1G bytes, or exact", text);
        ret->heap_most_bytes = *text ? ret->heap_bytes : INFP_SAMPLER_MOST_HEAP_BYTES;
        return 0;
}

static int read_blocking(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        if (!infp_argument_given(arguments, "blocking"))
                return 0;
        ret->is_blocking = true;
        if (ret->cpu_hz <= 0)
                return infp_fail(err, -EINVAL, "--blocking needs --cpu");
        if (!ret->off_cpu && (infp_argument_given(arguments, "deep-stacks") ||
                              (infp_argument_given(arguments, "stack-size") && !(ret->wall_hz > 0))))
                return infp_fail(err, -EINVAL,
                                 "--blocking reads the whole stack while its thread is stopped: leave --%s out",
                                 infp_argument_given(arguments, "deep-stacks") ? "deep-stacks" : "stack-size");
        return ret->python == INFP_PYTHON_AUTO || ret->python == INFP_PYTHON_OFF
                       ? 0
                       : infp_fail(err, -EINVAL,
                                   "--blocking reads Python frames while threads are stopped: --python=%s is "
                                   "another way",
                                   infp_python_way_name(ret->python));
}

static int read_deep(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, "deep-stacks");
        const bool is_cpu = ret->cpu_hz > 0 && !ret->is_blocking;

        for (unsigned way = 0; text && way < INFP_DEEP_WAYS; way++)
                if (strcmp(text, infp_deep_way_name((enum infp_deep_way) way)) == 0) {
                        ret->deep = (enum infp_deep_way) way;
                        if (is_cpu || (ret->off_cpu && way != INFP_DEEP_AFTER))
                                return 0;
                        return way == INFP_DEEP_AFTER
                                       ? infp_fail(err, -EINVAL, "--deep-stacks=after needs --cpu, without --blocking")
                                       : infp_fail(err, -EINVAL, "--deep-stacks needs --cpu or --off-cpu");
                }
        return text ? infp_fail(err, -EINVAL, "--deep-stacks %s: auto, after or off", text) : 0;
}

static int read_sampler(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *root = infp_argument(arguments, "root");

        *ret = (struct infp_sampler_options){ .off_cpu = false };
        INFP_TRY(read_off_cpu(arguments, ret, err));
        INFP_TRY(read_heap(arguments, ret, err));
        INFP_TRY(read_rate(arguments, "cpu", INFP_SAMPLER_DEFAULT_HZ, INFP_SAMPLER_MAX_HZ, &ret->cpu_hz, err));
        INFP_TRY(read_rate(arguments, "wall", INFP_SAMPLER_DEFAULT_WALL_HZ, INFP_SAMPLER_MAX_WALL_HZ, &ret->wall_hz,
                           err));
        ret->async = infp_argument_given(arguments, "async");
        if ((ret->async || infp_argument_given(arguments, "gil")) && !(ret->wall_hz > 0))
                ret->wall_hz = INFP_SAMPLER_DEFAULT_WALL_HZ;
        if (root && strcmp(root, "/") != 0 && infp_sampler_is_asked(ret))
                return infp_fail(err, -EINVAL, "--root %s: stacks can be sampled only on this machine", root);
        INFP_TRY(read_python(arguments, ret, err));
        if (ret->python == INFP_PYTHON_INSIDE && !(ret->cpu_hz > 0))
                return infp_fail(err, -EINVAL,
                                 "--python=inside needs --cpu: what threads wait for is read from outside");
        if (infp_argument_given(arguments, "gil") && ret->python == INFP_PYTHON_OFF)
                return infp_fail(err, -EINVAL, "--gil reads Python's threads, which --python=off leaves alone");
        if (ret->async && ret->python == INFP_PYTHON_OFF)
                return infp_fail(err, -EINVAL, "--async reads Python: leave --python=off out");
        INFP_TRY(read_blocking(arguments, ret, err));
        INFP_TRY(read_deep(arguments, ret, err));
        return read_sizes(arguments, ret, err);
}

enum { MIN_PERIOD_MS = 10, MAX_PERIOD_MS = 24 * 3600 * 1000 };

// clang-format off
const struct infp_option infp_record_option_table[] = {
        { 'o', "output", "DIR", "directory of the run (default: " INFP_DEFAULT_OUTPUT ")", false },
        { 't', "interval", "TIME", "sampling interval: 500ms, 0.5s, 1s; a bare number is milliseconds (minimum 10, default 1000)", false },
        { 'f', "format", "FORMAT", "format of the time series: parquet, csv, tsv, json (default: parquet)", false },
        { 'p', "processes", NULL, "also record every process of the machine, those outside the target at most once a second", false },
        { 0, "pid", "PID", "record a running process and its descendants until it ends; may be repeated", true },
        { 0, "name", "REGEX", "record the processes whose name or command line matches; re-attach when they restart", false },
        { 0, "port", "PORT", "record the process that listens on this TCP port; re-attach when it restarts", false },
        { 0, "duration", "TIME", "stop recording after 500ms, 30s, 5m, 2h (without a unit: seconds); the command keeps running", false },
        { 0, "wait", "tree|child", "stop when the command's whole tree ends, or the command itself (tree or child; default: tree)", false },
        { 0, "no-snapshots", NULL, "do not write <uuid>-<time>.json for each sample", false },
        { 0, "snapshot-limit", "SIZE", "stop writing snapshots at this total size (default: 256M)", false },
        { 0, "capture", NULL, "keep the command's output in <uuid>_output.txt, with times, and also show it", false },
        { 0, "capture-limit", "SIZE", "keep only the last SIZE of the output (default: all)", false },
        { 0, "own-cgroup", NULL, "run the command in its own cgroup, if permitted", false },
        { 0, "jit-names", NULL, "make oneDNN, Node.js and .NET in the command write perf maps, which name their code", false },
        { 0, "energy-baseline", "TIME", "measure idle power for this long before the command starts", false },
        { 0, "cpu", "[HZ]", "sample on-CPU stacks, HZ times per CPU-second: 1 to 4000 (default: 99)", false },
        { 0, "wall", "[HZ]", "sample all threads, running or waiting, and what they wait for; HZ up to 1000 (default: 20)", false },
        { 0, "off-cpu", "[US]", "measure how long threads are off the CPU, by stack; waits below US microseconds are summed without one (default: 100, at most 1000000)", false },
        { 0, "heap", "[BYTES]", "sample blocks of the heap that the command allocates, one each BYTES on average: 1K to 1G (default: 64K, up to 4M where a thread allocates so much that its samples took more than 2 % of its time); exact: count every block, which takes a stack each time", false },
        { 0, "memory", NULL, "record what the memory of each process of the target holds: files, heap, stacks; with --heap by itself", false },
        { 0, "gil", NULL, "sample which thread holds Python's GIL and which wait for it: --wall, whose samples have it; see `infprof report gil`", false },
        { 0, "async", NULL, "sample what the tasks of asyncio wait for, by the line of each await, and which callback holds their loop: --wall, with the tasks as mode async, and callbacks as mode lag", false },
        { 0, "blocking", NULL, "sample --cpu of a running process by stopping each thread that has a CPU for a moment (ptrace): both stacks without BPF and perf events", false },
        { 0, "python", "[WAY]", "load infprof's Python package into the Python programs of the command; with a value, how Python frames are read: outside (by a BPF program), inside (by a sampler that is preloaded into the command), off, or auto: what is permitted (default: auto); may be given both ways", true },
        { 0, "torch", "[HOW]", "--python, and profile PyTorch modules; HOW as INFPROF_TORCH takes it (default: on)", false },
        { 0, "torch-budget", "SHARE", "--torch, and sample fewer steps where it would cost more than this: 1% (default)", false },
        { 0, "stack-size", "SIZE", "bytes of each stack to copy for unwinding: 1K to 64K (default: 64K; 32K above 250 Hz)", false },
        { 0, "deep-stacks", "WAY", "read the rest of a stack that is larger than its copy: after (from the process's memory, just after the sample), off, or auto: by a BPF program in the same interrupt where that is permitted, else after (default: auto)", false },
        { 0, "max-stack-depth", "N", "maximum frames of a stack, 128 to 1024; outermost frames are dropped (default: 512)", false },
        INFP_SOURCE_OPTIONS,
        { 0, "root", "DIR", "read proc and sys below DIR instead of / (a copy of a machine)", false },
        { 0, "share", NULL, "let other users read the run, as the umask allows (default: only its owner)", false },
        { 0, "no-finish", NULL, "do not convert the run when it ends; `infprof finish` does it", false },
        { 0 },
};
// clang-format on

/* A bare number is milliseconds here, but seconds for infp_parse_duration. Fractions of a millisecond are refused, not
 * rounded. */
static int read_ms(const char *text, uint64_t *ret)
{
        const size_t size = strlen(text);
        uint64_t ns;

        if (infp_parse_u64(text, size, ret) == 0)
                return 0;
        if (!size || text[size - 1] < 'a' || infp_parse_duration(text, &ns) < 0 || ns % INFP_NS_PER_MS)
                return -EBADMSG;
        *ret = ns / INFP_NS_PER_MS;
        return 0;
}

static int read_period(const char *text, struct infp_record_options *ret, struct infp_err *err)
{
        uint64_t period;

        if (!text)
                return 0;
        if (read_ms(text, &period) < 0)
                return infp_fail(err, -EINVAL, "-t %s: write it as milliseconds (500) or with a unit: 500ms, 0.5s, 1s",
                                 text);
        if (period < MIN_PERIOD_MS || period > MAX_PERIOD_MS)
                return infp_fail(err, -EINVAL, "-t %s: the interval is from 10 ms to one day", text);
        ret->period_ms = (uint32_t) period;
        return 0;
}

static int read_format(const char *text, struct infp_record_options *ret, struct infp_err *err)
{
        static const char *const known[] = { "parquet", "csv", "tsv", "json" };

        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (!text || strcmp(text, known[i]) == 0) {
                        ret->format = known[i];
                        return 0;
                }
        return infp_fail(err, -EINVAL, "-f %s: the formats are parquet, csv, tsv and json", text);
}

static int read_times(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        const char *duration = infp_argument(arguments, "duration"),
                   *limit = infp_argument(arguments, "snapshot-limit");
        const char *wait = infp_argument(arguments, "wait");

        if (duration && (infp_parse_duration(duration, &ret->duration_ns) < 0 || ret->duration_ns == 0))
                return infp_fail(err, -EINVAL, "--duration %s: write it as 30s, 500ms, 5m or 2h", duration);
        if (limit && ret->no_snapshots)
                return infp_fail(err, -EINVAL,
                                 "--snapshot-limit bounds what --no-snapshots leaves out: give one of them");
        if (limit && (infp_parse_size(limit, &ret->snapshot_limit) < 0 || ret->snapshot_limit == 0))
                return infp_fail(err, -EINVAL, "--snapshot-limit %s: write it as 64M or 1G; --no-snapshots writes none",
                                 limit);
        if (wait && strcmp(wait, "tree") != 0 && strcmp(wait, "child") != 0)
                return infp_fail(err, -EINVAL, "--wait %s: tree or child", wait);
        ret->child_only = wait && strcmp(wait, "child") == 0;
        return 0;
}

static int read_pids(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        for (size_t i = 0; i < arguments->n_given; i++) {
                const char *text = arguments->given[i].value;
                uint64_t pid;

                if (strcmp(arguments->given[i].option->name, "pid") != 0)
                        continue;
                if (infp_parse_u64(text, strlen(text), &pid) < 0 || pid == 0 || pid > INT32_MAX)
                        return infp_fail(err, -EINVAL, "--pid %s: not a process number", text);
                if (ret->follow.n_pids == INFP_FOLLOW_PIDS)
                        return infp_fail(err, -EINVAL, "--pid: at most %d processes", INFP_FOLLOW_PIDS);
                ret->pids[ret->follow.n_pids++] = (pid_t) pid;
        }
        ret->follow.pids = ret->pids;
        return 0;
}

static void add_setting(struct infp_record_options *ret, const char *name, const char *value)
{
        unsigned n = 0;

        while (ret->settings[n].name)
                n++;
        ret->settings[n] = (struct infp_setting){ name, value };
        ret->settings[n + 1] = (struct infp_setting){ NULL, NULL };
}

/* Those that are no options of sources: the page of the server on the named port is tried, whatever its command line says. */
static void add_settings(const struct infp_arguments *arguments, struct infp_record_options *ret)
{
        if (ret->follow.port) {
                snprintf(ret->port, sizeof(ret->port), "%u", ret->follow.port);
                add_setting(ret, "engine-port", ret->port);
        }
        if (infp_argument_given(arguments, "memory") || ret->sampler.heap_bytes)
                add_setting(ret, "memory", "1");
        if (ret->python_package)
                add_setting(ret, "python", "1");
}

int infp_name_and_port_read(const struct infp_arguments *arguments, struct infp_follow_options *ret,
                            struct infp_err *err)
{
        const char *port_text = infp_argument(arguments, "port");
        uint64_t port = 0;

        ret->name = infp_argument(arguments, "name");
        if (ret->name && !ret->name[0])
                return infp_fail(err, -EINVAL, "--name: the expression is empty; it would mean every process");
        if (port_text && (infp_parse_u64(port_text, strlen(port_text), &port) < 0 || port == 0 || port > 65535))
                return infp_fail(err, -EINVAL, "--port %s: a TCP port is from 1 to 65535", port_text);
        ret->port = (unsigned) port;
        return 0;
}

static int read_target(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        unsigned n;

        INFP_TRY(read_pids(arguments, ret, err));
        INFP_TRY(infp_name_and_port_read(arguments, &ret->follow, err));
        ret->command = arguments->n_rest ? arguments->rest : NULL;
        n = (ret->follow.n_pids > 0) + (ret->follow.name != NULL) + (ret->follow.port > 0) + (ret->command != NULL);
        if (n > 1)
                return infp_fail(err, -EINVAL,
                                 "only one of --pid, --name, --port and a command can be recorded at once");
        if (arguments->has_dashes && !ret->command)
                return infp_fail(err, -EINVAL, "there is no command after --");
        if (!n && infp_argument_given(arguments, "memory"))
                return infp_fail(err, -EINVAL, "--memory needs a target: a command, --pid, --name or --port");
        return 0;
}

static int read_command(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        static const char *const need_command[] = { "capture", "own-cgroup", "jit-names" };
        const char *limit = infp_argument(arguments, "capture-limit"),
                   *baseline = infp_argument(arguments, "energy-baseline"), *python = python_way(arguments);

        for (size_t i = 0; i < INFP_COUNT(need_command); i++)
                if (!ret->command && infp_argument_given(arguments, need_command[i]))
                        return infp_fail(err, -EINVAL, "--%s needs a command after --: a running process keeps its own",
                                         need_command[i]);
        if (!ret->command && infp_argument_given(arguments, "wait"))
                return infp_fail(err, -EINVAL,
                                 "--wait needs a command after --: it says which of its processes to wait for");
        if (ret->command && infp_argument_given(arguments, "blocking"))
                return infp_fail(err, -EINVAL,
                                 "--blocking stops threads of a process that runs already: give --pid, --name or "
                                 "--port");
        if (!ret->command && python && !strcmp(python, infp_python_way_name(INFP_PYTHON_INSIDE)))
                return infp_fail(err, -EINVAL,
                                 "--python=inside needs a command after --: nothing is loaded into a running process");
        ret->capture = infp_argument_given(arguments, "capture");
        ret->own_cgroup = infp_argument_given(arguments, "own-cgroup");
        ret->jit_names = infp_argument_given(arguments, "jit-names");
        if (limit && !ret->capture)
                return infp_fail(err, -EINVAL, "--capture-limit needs --capture");
        if (limit && (infp_parse_size(limit, &ret->capture_limit) < 0 || ret->capture_limit == 0))
                return infp_fail(err, -EINVAL, "--capture-limit %s: write it as 64M or 1G", limit);
        if (baseline && (infp_parse_duration(baseline, &ret->baseline_ns) < 0 || ret->baseline_ns == 0))
                return infp_fail(err, -EINVAL, "--energy-baseline %s: write it as 10s or 1m", baseline);
        /* For a command, the duration begins after the baseline. */
        if (baseline && !ret->command && ret->duration_ns && ret->baseline_ns >= ret->duration_ns)
                return infp_fail(err, -EINVAL, "--energy-baseline %s takes the whole of --duration %s", baseline,
                                 infp_argument(arguments, "duration"));
        return 0;
}

int infp_record_options_read(const struct infp_arguments *arguments, struct infp_record_options *ret,
                             struct infp_err *err)
{
        const char *output = infp_argument(arguments, "output"), *root = infp_argument(arguments, "root");

        *ret = (struct infp_record_options){
                .output = output ? output : INFP_DEFAULT_OUTPUT,
                .root = root ? root : "/",
                .period_ms = 1000,
                .all_processes = infp_argument_given(arguments, "processes"),
                .no_snapshots = infp_argument_given(arguments, "no-snapshots"),
                .no_finish = infp_argument_given(arguments, "no-finish"),
                .is_shared = infp_argument_given(arguments, "share"),
                .keep_secrets = infp_argument_given(arguments, "keep-secrets"),
        };
        if (!ret->output[0])
                return infp_fail(err, -EINVAL, "-o: the name of the output directory is empty");
        INFP_TRY(read_period(infp_argument(arguments, "interval"), ret, err));
        INFP_TRY(read_format(infp_argument(arguments, "format"), ret, err));
        INFP_TRY(read_times(arguments, ret, err));
        INFP_TRY(read_target(arguments, ret, err));
        INFP_TRY(read_command(arguments, ret, err));
        INFP_TRY(read_package(arguments, ret, err));
        INFP_TRY(read_sampler(arguments, &ret->sampler, err));
        INFP_TRY(infp_source_settings(arguments, ret->settings, err));
        add_settings(arguments, ret);
        return 0;
}
