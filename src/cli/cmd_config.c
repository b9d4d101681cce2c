/* infprof config: the settings of a process that records, and other values for them while it runs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app/ring_settings.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/output.h"
#include "model/builder.h"

enum { KEY, VALUE, SOURCE, STATE, WANTED, MAY_BE, N };
enum { WAIT_MS = 1000, ROW_BYTES = 1024 };

#define PERIOD "backtrace.period"
#define RATE "sample_rate"

// clang-format off
static const struct infp_column columns[] = {
        [KEY] = INFP_COLUMN(key, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name."),
        [VALUE] = INFP_COLUMN(value, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What the process has now."),
        [SOURCE] = INFP_COLUMN(source, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Where that came from: default, environment, program, config."),
        [STATE] = INFP_COLUMN(state, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "applied; pending: the process has not looked since it was asked; refused."),
        [WANTED] = INFP_COLUMN(wanted, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What was asked for, while it is pending or refused."),
        [MAY_BE] = INFP_COLUMN(may_be, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it may be; of one that was refused why."),
};
// clang-format on
static const struct infp_table config_table = { .name = "config", .columns = columns, .n_columns = N, .plain = true };

static const struct infp_option options[] = {
        INFP_LISTING_OPTIONS("table on a terminal, else tsv"),
        { 0 },
};

struct listing {
        pid_t pid;
        struct infp_output output;
        struct infp_builder *builder;
        bool is_asking, was_refused;
        struct infp_err *err;
};

static void set(struct listing *l, unsigned column, const char *text)
{
        if (*text)
                infp_builder_set_text(l->builder, column, text);
}

static int put(void *context, const struct infp_ring_setting *s)
{
        static const char *const states[] = { "applied", "pending", "refused" };
        struct listing *l = context;
        struct infp_batch batch;
        int r;

        infp_builder_reset(l->builder);
        infp_builder_row_begin(l->builder, 0, 0);
        set(l, KEY, s->key);
        set(l, VALUE, s->value);
        set(l, SOURCE, s->source);
        set(l, STATE, states[s->state]);
        set(l, WANTED, s->state == INFP_RING_SETTING_APPLIED ? "" : s->wanted);
        set(l, MAY_BE, s->state == INFP_RING_SETTING_REFUSED ? s->refused : s->may_be);
        r = infp_builder_row_end(l->builder);
        if (r < 0)
                return infp_fail(l->err, r, "out of memory");
        batch = infp_builder_batch(l->builder, 0);
        r = infp_output_batch(&l->output, &batch, l->err);
        if (l->is_asking && s->state == INFP_RING_SETTING_REFUSED)
                infp_say("config: process %d refuses %s=%s: %s", (int) l->pid, s->key, s->wanted, s->refused);
        else if (l->is_asking && s->state == INFP_RING_SETTING_PENDING)
                infp_say("config: process %d has not taken %s=%s yet: it does so at its next call of infprof",
                         (int) l->pid, s->key, s->wanted);
        l->was_refused |= s->state == INFP_RING_SETTING_REFUSED;
        return r < 0 ? r : 0;
}

static int take_pid(const char *text, pid_t *ret, struct infp_err *err)
{
        uint64_t pid;

        if (infp_parse_u64(text, strlen(text), &pid) == 0 && pid > 0 && pid <= INT32_MAX) {
                *ret = (pid_t) pid;
                return 0;
        }
        if (strchr(text, ':'))
                return infp_fail(err, -EINVAL,
                                 "config: %.100s is an address, and no program listens there for settings: run infprof "
                                 "config PID on its machine",
                                 text);
        return infp_fail(err, -EINVAL, "config: %.100s is not a process id; see `infprof config -h`", text);
}

/* key=value. Names that begin with "probing." are those of the profiler of that name, whose rate alone may stand without a value. */
static int take_wish(const char *text, struct infp_wish *ret, struct infp_err *err)
{
        static const char prefix[] = "probing.";
        const char *equals = strchr(text, '='), *key = text;

        if (strncmp(key, prefix, sizeof(prefix) - 1) == 0)
                key += sizeof(prefix) - 1;
        if (key != text && strcmp(key, RATE) == 0) {
                *ret = (struct infp_wish){ .key = PERIOD, .value = "on" };
                return 0;
        }
        if (!equals || equals <= key || equals - key >= (int) sizeof(ret->key))
                return infp_fail(err, -EINVAL, "config: %.100s is not key=value", text);
        snprintf(ret->key, sizeof(ret->key), "%.*s", (int) (equals - key), key);
        if (key != text && strcmp(ret->key, RATE) == 0) /* seconds between two backtraces */
                strcpy(ret->key, PERIOD);
        ret->value = equals + 1;
        return 0;
}

static int show(struct listing *l, const struct infp_wish *wishes, size_t n)
{
        int r;

        l->output.out.is_listing = true;
        l->builder = infp_builder_new(&config_table, 1);
        if (!l->builder || infp_builder_grow(l->builder, ROW_BYTES) < 0)
                return infp_fail(l->err, -ENOMEM, "out of memory");
        INFP_TRY(infp_output_begin(&l->output, &config_table, l->err));
        r = infp_settings_of(l->pid, wishes, n, WAIT_MS, put, l, l->err);
        return r < 0 ? r : infp_output_end(&l->output, &config_table, l->err);
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_wish wishes[INFP_WISHES];
        const int n = arguments->n_rest - 1;
        struct infp_err err = { "" };
        struct listing l = { .output = INFP_OUTPUT_INIT, .is_asking = n > 0, .err = &err };
        int r = n >= 0 && n <= INFP_WISHES
                        ? take_pid(arguments->rest[0], &l.pid, &err)
                        : infp_fail(&err, -EINVAL, "config: it takes a PID, and at most %d times key=value",
                                    INFP_WISHES);

        for (int i = 0; i < n && r == 0; i++)
                r = take_wish(arguments->rest[i + 1], &wishes[i], &err);
        if (r < 0) {
                infp_say("%s", err.text);
                return INFP_EXIT_USAGE;
        }
        r = infp_output_open_listing(&l.output, arguments, "config", NULL);
        if (r != INFP_EXIT_OK)
                return r;
        r = show(&l, wishes, (size_t) n);
        infp_output_done(&l.output);
        infp_builder_free(l.builder);
        for (int i = 0; i < n && r == -ENOENT; i++)
                if (strcmp(wishes[i].key, PERIOD) == 0)
                        infp_say("config: only Python programs with infprof's package take stacks of themselves; "
                                 "`infprof record --cpu` and --wall do so from outside");
        if (r < 0)
                return infp_say_failure(&err);
        return l.is_asking && l.was_refused ? INFP_EXIT_FAILURE : INFP_EXIT_OK;
}

const struct infp_command infp_command_config = {
        .name = "config",
        .summary = "show the settings of a program that records itself, or change them while it runs",
        .operands = "PID [KEY=VALUE...]",
        .options = options,
        .more = "Of a process that records (libinfprof, or infprof's Python package): only its user and root may. It "
                "looks at "
                "its next call of\n"
                "infprof, checks each value itself, and says why it refuses one (exit code 1). `pending`: it has not "
                "called since; "
                "the value stays\n"
                "asked for. No code is run in the process. A child has what its parent had when it began.\n"
                "\n"
                "  recording=off                         on again: recording=on\n"
                "  ring.bytes=4M, ring.records=40000     how much is kept while no recorder reads; it grows only\n"
                "  torch.profiling=0.1                   on, off, or what INFPROF_TORCH takes (Python)\n"
                "  backtrace.period=0.1                  seconds between two looks at all stacks; on, off (Python)\n"
                "  backtrace.triggers=module=20ms,step   off, or what else takes a stack: exception, signal (Python)\n"
                "  python.variables='train:loss,lr'      off, or whose variables are recorded (Python)\n"
                "\n"
                "Names of Probing are taken, too: probing.torch.profiling, probing.ring.records; and "
                "probing.sample_rate=0.1,\n"
                "which is backtrace.period (0.1 where no value is given).\n"
                "\n"
                "examples:\n"
                "  infprof config 4711\n"
                "  infprof config 4711 ring.records=40000 torch.profiling=ordered",
        .run = run,
};
