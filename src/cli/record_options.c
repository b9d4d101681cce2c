#include "cli/record_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"
#include "cli/sampler_options.h"
#include "cli/source_options.h"
#include "store/run.h"

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
        INFP_SAMPLER_OPTIONS,
        INFP_SOURCE_OPTIONS,
        { 0, "root", "DIR", "read proc and sys below DIR instead of / (a copy of a machine)", false },
        { 0, "share", NULL, "let other users read the run, as the umask allows (default: only its owner)", false },
        { 0, "no-finish", NULL, "do not convert the run when it ends; `infprof finish` does it", false },
        { 0 },
};
// clang-format on

/* A bare number is milliseconds here, but seconds for infp_parse_duration. What is finer than a millisecond is refused, never
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

/* The page of the server whose port is named is tried, whatever its command line says. */
static void add_port(struct infp_record_options *ret)
{
        unsigned n = 0;

        if (!ret->follow.port)
                return;
        while (ret->settings[n].name)
                n++;
        snprintf(ret->port, sizeof(ret->port), "%u", ret->follow.port);
        ret->settings[n] = (struct infp_setting){ "engine-port", ret->port };
        ret->settings[n + 1] = (struct infp_setting){ NULL, NULL };
}

static int read_target(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        const char *port_text = infp_argument(arguments, "port");
        uint64_t port = 0;
        unsigned n;

        INFP_TRY(read_pids(arguments, ret, err));
        ret->follow.name = infp_argument(arguments, "name");
        if (ret->follow.name && !ret->follow.name[0])
                return infp_fail(err, -EINVAL, "--name: the expression is empty; it would mean every process");
        if (port_text && (infp_parse_u64(port_text, strlen(port_text), &port) < 0 || port == 0 || port > 65535))
                return infp_fail(err, -EINVAL, "--port %s: a TCP port is from 1 to 65535", port_text);
        ret->follow.port = (unsigned) port;
        ret->command = arguments->n_rest ? arguments->rest : NULL;
        n = (ret->follow.n_pids > 0) + (ret->follow.name != NULL) + (port > 0) + (ret->command != NULL);
        if (n > 1)
                return infp_fail(err, -EINVAL,
                                 "only one of --pid, --name, --port and a command can be recorded at once");
        if (arguments->has_dashes && !ret->command)
                return infp_fail(err, -EINVAL, "there is no command after --");
        return 0;
}

static int read_command(const struct infp_arguments *arguments, struct infp_record_options *ret, struct infp_err *err)
{
        static const char *const need_command[] = { "capture", "own-cgroup", "jit-names" };
        const char *limit = infp_argument(arguments, "capture-limit"),
                   *baseline = infp_argument(arguments, "energy-baseline");

        for (size_t i = 0; i < INFP_COUNT(need_command); i++)
                if (!ret->command && infp_argument_given(arguments, need_command[i]))
                        return infp_fail(err, -EINVAL, "--%s needs a command after --: a running process keeps its own",
                                         need_command[i]);
        ret->capture = infp_argument_given(arguments, "capture");
        ret->own_cgroup = infp_argument_given(arguments, "own-cgroup");
        ret->jit_names = infp_argument_given(arguments, "jit-names");
        if (limit && !ret->capture)
                return infp_fail(err, -EINVAL, "--capture-limit needs --capture");
        if (limit && (infp_parse_size(limit, &ret->capture_limit) < 0 || ret->capture_limit == 0))
                return infp_fail(err, -EINVAL, "--capture-limit %s: write it as 64M or 1G", limit);
        if (baseline && (infp_parse_duration(baseline, &ret->baseline_ns) < 0 || ret->baseline_ns == 0))
                return infp_fail(err, -EINVAL, "--energy-baseline %s: write it as 10s or 1m", baseline);
        /* Of a command the duration begins after the baseline. */
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
        INFP_TRY(infp_sampler_options_read(arguments, &ret->sampler, err));
        INFP_TRY(infp_source_settings(arguments, ret->settings, err));
        add_port(ret);
        return 0;
}
