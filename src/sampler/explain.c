#include "sampler/explain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/human.h"
#include "base/rights.h"
#include "base/time.h"
#include "model/stack_tables.h"

void infp_explain_say(const struct infp_explain *explain, const char *format, ...)
{
        char text[640];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        if (explain->notice)
                explain->notice(explain->context, text);
}

void infp_explain_source(const struct infp_explain *explain, const char *instance, enum infp_source_state state,
                         const char *reason, const char *fix)
{
        explain->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_emit_source(explain->emit, NULL, -1, instance, state, reason, fix);
}

static void explain_limits(struct infp_explain *explain, const struct infp_perf *perf, uint32_t asked)
{
        static const char no_kernel[] = "kernel.perf_event_paranoid does not permit kernel stacks: kernel frames, and "
                                        "time in the kernel, are not sampled",
                          fix[] = "sysctl kernel.perf_event_paranoid=1, or setcap cap_perfmon+ep infprof";
        const uint32_t got = infp_perf_stack_bytes(perf);
        char text[256];

        if (!infp_perf_may(perf).kernel) {
                infp_explain_source(explain, "kernel", INFP_DENIED, no_kernel, fix);
                infp_explain_say(explain, "%s (%s would help)", no_kernel, fix);
        }
        if (got >= asked)
                return;
        snprintf(text, sizeof(text),
                 "only %u KiB per CPU may be locked for perf buffers: %u instead of %u bytes of each stack are copied",
                 infp_perf_ring_bytes(perf) / 1024, got, asked);
        infp_explain_source(explain, "locked memory", INFP_DENIED, text, "ulimit -l 8192");
        infp_explain_say(explain, "%s (ulimit -l 8192 would help)", text);
}

void infp_explain_perf(struct infp_explain *explain, const struct infp_perf *perf, uint32_t stack_bytes,
                       const struct infp_err *problem, const char *fix)
{
        if (perf) {
                infp_explain_source(explain, NULL, INFP_OK, NULL, NULL);
                explain_limits(explain, perf, stack_bytes);
                return;
        }
        if (!problem->text[0]) /* nobody needs them */
                infp_explain_source(explain, NULL, INFP_OK, NULL, NULL);
        else
                infp_explain_source(explain, "perf", INFP_DENIED, problem->text, fix);
}

static void explain_skipped(struct infp_explain *explain, const struct infp_perf_counts *perf)
{
        char text[256];

        if (!perf->n_skipped || explain->said_skipped)
                return;
        explain->said_skipped = true;
        snprintf(text, sizeof(text), "%s threads of the target are not sampled: %s", infp_count(perf->n_skipped).text,
                 perf->was_late ? "the machine is too busy to open all perf events in time"
                                : "there are not enough file descriptors for all perf events");
        infp_explain_source(explain, "threads", perf->was_late ? INFP_LATE : INFP_DENIED, text,
                            perf->was_late ? NULL : "ulimit -n 65536, or give infprof CAP_PERFMON");
        infp_explain_say(explain, "%s%s", text, perf->was_late ? "" : ", the busiest are (ulimit -n 65536 would help)");
}

static void explain_refused(struct infp_explain *explain, const struct infp_perf_refused *refused)
{
        const char *fix = infp_rights_fix(INFP_MAY_SAMPLE);
        char text[256];

        if (!refused->pid || explain->said_refused)
                return;
        explain->said_refused = true;
        snprintf(text, sizeof(text),
                 "process %d (%s) may not be sampled: it is another user's, or its program took more rights at its "
                 "start "
                 "(setuid, setgid, file capabilities)",
                 refused->pid, refused->name);
        infp_explain_source(explain, "perf", INFP_DENIED, text, fix);
        infp_explain_say(explain, "%s; %s", text, fix);
}

void infp_explain_counts(struct infp_explain *explain, const struct infp_perf_counts *counts)
{
        explain_skipped(explain, counts);
        explain_refused(explain, &counts->refused);
}

static void say_with_fix(const struct infp_explain *explain, const char *text, const char *fix, const char *more)
{
        infp_explain_say(explain, "%s%s%s%s%s", text, fix ? " (" : "", fix ? fix : "", fix ? " would help)" : "", more);
}

void infp_explain_fall_back(const struct infp_explain *explain, const struct infp_err *problem, const char *fix,
                            bool is_next, bool is_inside)
{
        say_with_fix(
                explain, problem->text, fix,
                !is_next    ? ""
                : is_inside ? "; Python processes of the command are sampled from inside, and what threads wait for is "
                              "sampled instead, as --wall does"
                            : "; what threads wait for is sampled instead, as --wall does");
}

void infp_explain_interpreter(const struct infp_explain *explain, int r, const char *text)
{
        infp_explain_source(explain, "interpreter", r == -ENOTSUP ? INFP_ABSENT : infp_source_state_of(r), text, NULL);
        infp_explain_say(explain, "%s", text);
}

void infp_explain_problem(const struct infp_explain *explain, const char *instance, int r, const char *text)
{
        infp_explain_source(explain, instance, infp_source_state_of(r), text, NULL);
        infp_explain_say(explain, "%s", text);
}

void infp_explain_program(const struct infp_explain *explain, int r, const struct infp_err *problem, const char *fix,
                          bool is_asked)
{
        infp_explain_source(explain, "python", r == -ENOTSUP ? INFP_ABSENT : infp_source_state_of(r), problem->text,
                            fix);
        if (is_asked)
                say_with_fix(explain, problem->text, fix, "");
}

void infp_explain_gil(struct infp_explain *explain, pid_t pid, const struct infp_python *python)
{
        const char *problem = infp_python_gil_problem(python);
        char reason[256];

        if (!problem || explain->said_gil == problem)
                return;
        explain->said_gil = problem;
        snprintf(reason, sizeof(reason), "of Python in process %d it is not known who holds the GIL: %s", (int) pid,
                 problem);
        explain->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_emit_source(explain->emit, &infp_table_stack_samples, INFP_STACK_SAMPLES_GIL,
                         infp_stack_modes[INFP_STACK_WALL].name, INFP_ABSENT, reason, NULL);
}
