/* Rows that the sampler writes of itself, and their way to the recorder. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/human.h"
#include "base/rights.h"
#include "base/time.h"
#include "sampler/sampler_inner.h"

static const uint64_t wait_ns = 200 * 1000; /* for room in the ring, again and again */

void infp_sampler_wake_recorder(const struct infp_sampler *sampler)
{
        const uint64_t one = 1;

        (void) !write(sampler->options.wake_fd, &one, sizeof(one));
}

/* As the collectors' threads do it: at each quarter of the ring. */
static void wake_for_burst(struct infp_sampler *sampler)
{
        const uint64_t taken = infp_rowring_taken(sampler->ring), used = infp_rowring_written(sampler->ring) - taken;
        const size_t size = infp_rowring_size(sampler->ring);

        if (used <= size / 4 || (sampler->is_woken && taken - sampler->woken_at < size / 8))
                return;
        sampler->is_woken = true;
        sampler->woken_at = taken;
        infp_sampler_wake_recorder(sampler);
}

/* Waiting is better than losing as long as the kernel has room for what comes meanwhile. */
int infp_sampler_put(void *context, const struct infp_row *row)
{
        struct infp_sampler *sampler = context;

        wake_for_burst(sampler);
        while (sampler->patience_ns >= wait_ns && infp_rowring_size(sampler->ring) - infp_rowring_used(sampler->ring) <
                                                          infp_rowring_size(sampler->ring) / 8) {
                const struct timespec pause = infp_timespec(wait_ns);

                clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
                sampler->patience_ns -= wait_ns;
                wake_for_burst(sampler);
        }
        return infp_rowring_put(sampler->ring, row);
}

void infp_sampler_say(struct infp_sampler *sampler, const char *format, ...)
{
        char text[640];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        if (sampler->options.notice)
                sampler->options.notice(sampler->options.notice_context, text);
}

static void source(struct infp_sampler *sampler, const char *instance, enum infp_source_state state, const char *reason,
                   const char *fix)
{
        sampler->emit->t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_emit_source(sampler->emit, NULL, -1, instance, state, reason, fix);
}

static void explain_limits(struct infp_sampler *sampler)
{
        static const char no_kernel[] = "kernel.perf_event_paranoid does not permit kernel stacks: kernel frames, and "
                                        "time in the kernel, are not sampled",
                          fix[] = "sysctl kernel.perf_event_paranoid=1, or setcap cap_perfmon+ep infprof";
        const uint32_t asked = sampler->options.stack_bytes, got = infp_perf_stack_bytes(sampler->perf);
        char text[256];

        if (!infp_perf_may(sampler->perf).kernel) {
                source(sampler, "kernel", INFP_DENIED, no_kernel, fix);
                infp_sampler_say(sampler, "%s (%s would help)", no_kernel, fix);
        }
        if (got >= asked)
                return;
        snprintf(text, sizeof(text),
                 "only %u KiB per CPU may be locked for perf buffers: %u instead of %u bytes of each stack are copied",
                 infp_perf_ring_bytes(sampler->perf) / 1024, got, asked);
        source(sampler, "locked memory", INFP_DENIED, text, "ulimit -l 8192");
        infp_sampler_say(sampler, "%s (ulimit -l 8192 would help)", text);
}

void infp_sampler_explain_perf(struct infp_sampler *sampler)
{
        if (sampler->perf) {
                source(sampler, NULL, INFP_OK, NULL, NULL);
                explain_limits(sampler);
                return;
        }
        if (!sampler->perf_err.text[0]) /* nobody needs them */
                source(sampler, NULL, INFP_OK, NULL, NULL);
        else
                source(sampler, "perf", INFP_DENIED, sampler->perf_err.text, sampler->perf_fix);
}

static void explain_skipped(struct infp_sampler *sampler, const struct infp_perf_counts *perf)
{
        char text[256];

        if (!perf->n_skipped || sampler->said_skipped)
                return;
        sampler->said_skipped = true;
        snprintf(text, sizeof(text), "%s threads of the target are not sampled: %s", infp_count(perf->n_skipped).text,
                 perf->was_late ? "the machine is too busy to open all perf events in time"
                                : "there are not enough file descriptors for all perf events");
        source(sampler, "threads", perf->was_late ? INFP_LATE : INFP_DENIED, text,
               perf->was_late ? NULL : "ulimit -n 65536, or give infprof CAP_PERFMON");
        infp_sampler_say(sampler, "%s%s", text, perf->was_late ? "" : ", the busiest are (ulimit -n 65536 would help)");
}

static void explain_refused(struct infp_sampler *sampler, const struct infp_perf_refused *refused)
{
        const char *fix = infp_rights_fix(INFP_MAY_SAMPLE);
        char text[256];

        if (!refused->pid || sampler->said_refused)
                return;
        sampler->said_refused = true;
        snprintf(text, sizeof(text),
                 "process %d (%s) may not be sampled: it is another user's, or its program took more rights at its "
                 "start "
                 "(setuid, setgid, file capabilities)",
                 refused->pid, refused->name);
        source(sampler, "perf", INFP_DENIED, text, fix);
        infp_sampler_say(sampler, "%s; %s", text, fix);
}

static void put_one(struct infp_sampler *sampler, const struct infp_sampler_mode *mode,
                    const struct infp_stack_counts *stacks, const struct infp_mode_counts *counts, uint64_t now_ns)
{
        struct infp_row *row = infp_emit_begin(sampler->emit, &infp_table_sampler, now_ns);

        infp_row_str(row, INFP_SAMPLER_MODE, infp_stack_mode_name(mode->mode));
        infp_row_str(row, INFP_SAMPLER_METHOD, counts->method);
        if (counts->rate_hz > 0)
                infp_row_f64(row, INFP_SAMPLER_RATE, counts->rate_hz);
        if (counts->has_wanted)
                infp_row_i64(row, INFP_SAMPLER_WANTED, (int64_t) counts->wanted);
        infp_row_i64(row, INFP_SAMPLER_TAKEN, (int64_t) stacks->taken);
        infp_row_i64(row, INFP_SAMPLER_LOST, (int64_t) counts->lost);
        infp_row_i64(row, INFP_SAMPLER_THROTTLED, (int64_t) counts->throttled);
        infp_row_i64(row, INFP_SAMPLER_DROPPED, (int64_t) stacks->dropped);
        infp_row_i64(row, INFP_SAMPLER_TRUNCATED, (int64_t) stacks->truncated);
        infp_row_i64(row, INFP_SAMPLER_INCOMPLETE, (int64_t) stacks->incomplete);
        infp_row_i64(row, INFP_SAMPLER_FRAMES, (int64_t) stacks->frames);
        infp_row_i64(row, INFP_SAMPLER_GUESSED_FRAMES, (int64_t) stacks->guessed_frames);
        infp_row_i64(row, INFP_SAMPLER_SKIPPED_THREADS, (int64_t) counts->skipped_threads);
        infp_row_i64(row, INFP_SAMPLER_OWN_CPU_NS, (int64_t) counts->own_cpu_ns);
        if (counts->has_torn)
                infp_row_i64(row, INFP_SAMPLER_TORN, (int64_t) counts->torn);
        sampler->emit->put(sampler->emit->context,
                           row); /* no commit: cells without a value are explained by the method */
}

void infp_sampler_put_counts(struct infp_sampler *sampler, uint64_t now_ns)
{
        struct infp_perf_counts perf = { 0 };
        struct infp_stacks_counts stacks;

        infp_stacks_counts(sampler->stacks, &stacks);
        if (sampler->perf) {
                infp_perf_counts(sampler->perf, &perf);
                explain_skipped(sampler, &perf);
                explain_refused(sampler, &perf.refused);
        }
        for (unsigned i = 0; i < sampler->n_modes; i++) {
                const struct sampler_mode *own = &sampler->modes[i];
                struct infp_mode_counts counts = { 0 };

                if (own->mode->counts)
                        own->mode->counts(own->state, &counts);
                if (!counts.method) {
                        counts.method = infp_perf_method_name(perf.method);
                        counts.lost = perf.n_lost;
                        counts.throttled = perf.n_throttled;
                        counts.skipped_threads = perf.n_skipped;
                        counts.has_wanted = perf.has_clock && counts.rate_hz > 0;
                        counts.wanted = (uint64_t) ((double) perf.clock_ns * counts.rate_hz / (double) INFP_NS_PER_S);
                }
                if (i == 0) /* what all share */
                        counts.own_cpu_ns += infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) + stacks.helper_cpu_ns;
                put_one(sampler, own->mode, &stacks.modes[own->mode->mode], &counts, now_ns);
        }
}
